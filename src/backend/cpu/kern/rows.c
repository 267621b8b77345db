/* The ops that go row by row through memory: embed, rmsnorm, silu_mul, gather. Bound: reading and
 * writing the activations. Small calls stay on the calling thread: waking the pool costs more
 * than 16 K elements do. */
#include <math.h>

#include "backend/cpu/kern.h"
#include "backend/cpu/tile.h"
#include "quant/float.h"

enum { TASK_ELEMS = 16384 };

/* Tasks of whole rows with about TASK_ELEMS elements each. */
struct rows {
    const void *args;
    int32_t n_rows, per_task;
};
static struct rows rows_of(const void *args, int32_t n_rows, int32_t d)
{
    int32_t per = TASK_ELEMS / (d > 0 ? d : 1);
    return (struct rows){args, n_rows, per > 0 ? per : 1};
}
static void rows_run(struct cpu *c, struct rows *j, void (*fn)(void *, int32_t, int32_t))
{
    hg_pool_run(c->pool, fn, j, (j->n_rows + j->per_task - 1) / j->per_task);
}
#define FOR_ROWS(r, j, task)                                                                       \
    for (int32_t r = (task) * (j)->per_task; r < (j)->n_rows && r < ((task) + 1) * (j)->per_task;  \
         r++)

/* ---------------------------------------------------------------------------------- embed -- */

static void embed_row(const struct hg_matrix *w, int32_t n, float *out)
{
    struct tile t = tile_at(w, n / TILE_ROWS);
    int32_t r = n % TILE_ROWS;
    switch (w->format) {
    case HG_FMT_F32:
        for (int32_t k = 0; k < w->k; k++) memcpy(out + k, t.p + k * t.step + 4 * r, 4);
        break;
    case HG_FMT_F16:
        for (int32_t k = 0; k < w->k; k++) {
            uint16_t h;
            memcpy(&h, t.p + k * t.step + 2 * r, 2);
            out[k] = hg_f16_to_f32(h);
        }
        break;
    case HG_FMT_BF16:
        for (int32_t k = 0; k < w->k; k += 2) {
            uint16_t h[2];
            memcpy(h, t.p + k / 2 * t.step + 4 * r, 4);
            out[k] = hg_bf16_to_f32(h[0]);
            if (k + 1 < w->k) out[k + 1] = hg_bf16_to_f32(h[1]);
        }
        break;
    default: /* NVFP4; see tile.h for the place of a code */
        for (int32_t g = 0; g < w->k / 16; g++) {
            const uint8_t *rec = t.p + g * t.step;
            float scale = hg_e4m3_to_f32(rec[128 + r]);
            for (int32_t k = 0; k < 16; k++) {
                uint8_t b = rec[64 * (r / 8) + 32 * (k / 8) + 16 * (r % 8 / 4) + 2 * (r % 4) +
                                k % 2 + 8 * (k % 4 / 2)];
                uint8_t code = k % 8 < 4 ? b & 15 : b >> 4;
                out[16 * g + k] = hg_e2m1_to_f32(code) * scale * w->scale2;
            }
        }
    }
}

static void embed_task(void *ctx, int32_t task, int32_t thread)
{
    (void)thread;
    const struct rows *j = ctx;
    const struct hg_embed_args *a = j->args;
    FOR_ROWS(r, j, task)
    embed_row(a->table, a->tok[r], (float *)a->out + (int64_t)r * a->table->k);
}

void HG_KERN(embed)(struct cpu *c, const struct hg_embed_args *a)
{
    struct rows j = rows_of(a, a->n_rows, 4 * a->table->k); /* scattered reads: finer tasks */
    rows_run(c, &j, embed_task);
}

/* -------------------------------------------------------------------------------- rmsnorm -- */

static void rmsnorm_task(void *ctx, int32_t task, int32_t thread)
{
    (void)thread;
    const struct rows *j = ctx;
    const struct hg_rmsnorm_args *a = j->args;
    FOR_ROWS(r, j, task)
    {
        const float *x = (const float *)a->x + (int64_t)r * a->d;
        float *y = (float *)a->y + (int64_t)r * a->d;
        v8f inv = v_set1(1 / sqrtf(sum_squares(x, a->d) / (float)a->d + a->eps));
        for (int32_t i = 0; i < a->d; i += 8) {
            int32_t n = a->d - i;
            v_store_n(y + i, v_load_n(x + i, n) * inv * v_load_n(a->w + i, n), n);
        }
    }
}

void HG_KERN(rmsnorm)(struct cpu *c, const struct hg_rmsnorm_args *a)
{
    struct rows j = rows_of(a, a->n_rows, a->d);
    rows_run(c, &j, rmsnorm_task);
}

/* ------------------------------------------------------------------------------- silu_mul -- */

static void silu_mul_task(void *ctx, int32_t task, int32_t thread)
{
    (void)thread;
    const struct rows *j = ctx;
    const struct hg_silu_mul_args *a = j->args;
    FOR_ROWS(r, j, task)
    {
        int64_t at = (int64_t)r * a->d;
        for (int32_t i = 0; i < a->d; i += 8) {
            int32_t n = a->d - i;
            v8f g = v_load_n((const float *)a->g + at + i, n);
            v8f u = v_load_n((const float *)a->u + at + i, n);
            v_store_n((float *)a->y + at + i, v_silu(g) * u, n);
        }
    }
}

void HG_KERN(silu_mul)(struct cpu *c, const struct hg_silu_mul_args *a)
{
    struct rows j = rows_of(a, a->n_rows, a->d);
    rows_run(c, &j, silu_mul_task);
}

/* --------------------------------------------------------------------------------- gather -- */

void HG_KERN(gather)(struct cpu *c, const struct hg_gather_args *a)
{
    (void)c;
    for (int32_t i = 0; i < a->n; i++)
        memcpy((float *)a->y + (int64_t)i * a->d, (const float *)a->x + (int64_t)a->index[i] * a->d,
               (size_t)a->d * sizeof(float));
}
