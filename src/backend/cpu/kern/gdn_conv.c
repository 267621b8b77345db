/* c_t = silu(w0 x_{t-3} + w1 x_{t-2} + w2 x_{t-1} + w3 x_t) per channel, along each row's own
 * ancestors (plan->conv_src); what lies before the step comes from the sequence's window. EXTEND
 * then moves the window to the last three inputs.
 *
 * Order: from the oldest input on, one v_fma each after the first product. A task is 64 channels
 * over all rows, so it may shift its part of the windows itself. Bound: memory. */
#include "backend/cpu/kern.h"

enum { CHANNELS = 64 };

struct job {
    struct cpu *c;
    const struct hg_gdn_conv_args *a;
};

static void shift_window(const struct hg_gdn_conv_args *a, const struct hg_plan_seq *s, int32_t c0,
                         int32_t n)
{
    int32_t width = a->state->conv_dim, keep = s->n_rows < 3 ? 3 - s->n_rows : 0;
    float *win = (float *)a->state->conv + (int64_t)s->slot * 3 * width + c0;
    size_t bytes = (size_t)n * sizeof(float);
    for (int32_t i = 0; i < keep; i++)
        memmove(win + i * width, win + (3 - keep + i) * width, bytes);
    for (int32_t i = keep; i < 3; i++) {
        int64_t row = s->row0 + s->n_rows - 3 + i;
        memcpy(win + i * width, (const float *)a->mixed + row * width + c0, bytes);
    }
}

static void conv_task(void *ctx, int32_t task, int32_t thread)
{
    (void)thread;
    const struct hg_gdn_conv_args *a = ((const struct job *)ctx)->a;
    const struct hg_plan *p = a->plan;
    int32_t width = a->state->conv_dim, c0 = task * CHANNELS;
    int32_t n = width - c0 < CHANNELS ? width - c0 : CHANNELS;
    const float *mixed = (const float *)a->mixed + c0;
    float w[4][CHANNELS] = {{0}};
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < 4; j++) w[j][i] = a->w[4 * (int64_t)(c0 + i) + j];

    for (int32_t r = 0; r < p->n_rows; r++) {
        const float *win =
            (const float *)a->state->conv + (int64_t)p->seq[p->row_seq[r]].slot * 3 * width + c0;
        const float *x[4] = {[3] = mixed + (int64_t)r * width};
        for (int32_t j = 0; j < 3; j++) {
            int32_t from = p->conv_src[3 * (int64_t)r + j];
            x[j] = from >= 0 ? mixed + (int64_t)from * width : win + (int64_t)(-1 - from) * width;
        }
        float *out = (float *)a->c + (int64_t)r * width + c0;
        for (int32_t i = 0; i < n; i += 8) {
            v8f s = v_load(w[0] + i) * v_load_n(x[0] + i, n - i);
            for (int32_t j = 1; j < 4; j++)
                s = v_fma(v_load(w[j] + i), v_load_n(x[j] + i, n - i), s);
            v_store_n(out + i, v_silu(s), n - i);
        }
    }
    if (p->kind == HG_EXTEND)
        for (int32_t s = 0; s < p->n_seqs; s++) shift_window(a, &p->seq[s], c0, n);
}

void HG_KERN(gdn_conv)(struct cpu *c, const struct hg_gdn_conv_args *a)
{
    struct job j = {c, a};
    hg_pool_run(c->pool, conv_task, &j, (a->state->conv_dim + CHANNELS - 1) / CHANNELS);
}
