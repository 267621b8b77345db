/* Before attention, per row: RMS norm and RoPE of every q and k head; K and V into their slot.
 *
 *   y = x / sqrt(mean(x^2) + eps) * w; then for i < d_rope/2: (y_i, y_{i + d_rope/2}) rotated by
 *   pos * theta^(-2i/d_rope), angle in fp32 as the reference implementations have it.
 *
 * Order: sum_squares (kern.h). FP8 = e4m3(x / scale), saturating. A task is some rows. Bound: the
 * scattered writes of K (one byte each into d_head rows of the page, kv.h). */
#include <math.h>

#include "backend/cpu/kern.h"
#include "backend/cpu/kv.h"
#include "backend/cpu/small.h"

struct job {
    struct cpu *c;
    const struct hg_attn_in_args *a;
    int32_t per_task;
};

/* Multiplies by the factors of one position; y is rotated in place. */
static void norm_rope(const float *x, const float *w, int32_t d, float eps, const float *cs,
                      const float *sn, int32_t half, float *y)
{
    v8f inv = v_set1(1 / sqrtf(sum_squares(x, d) / (float)d + eps));
    for (int32_t i = 0; i < d; i += 8)
        v_store_n(y + i, v_load_n(x + i, d - i) * inv * v_load_n(w + i, d - i), d - i);
    for (int32_t i = 0; i < half; i += 8) {
        int32_t n = half - i;
        v8f p = v_load_n(y + i, n), q = v_load_n(y + half + i, n);
        v8f c = v_load_n(cs + i, n), s = v_load_n(sn + i, n);
        v_store_n(y + i, v_fnma(q, s, p * c), n);
        v_store_n(y + half + i, v_fma(p, s, q * c), n);
    }
}

/* d values to the cache's element type, in order. */
static void narrow(enum hg_kv type, const float *x, float scale, int32_t d, uint8_t *out)
{
    v8f s = v_set1(scale);
    for (int32_t i = 0; i < d; i += 8) {
        int32_t n = d - i < 8 ? d - i : 8;
        v8f v = v_load_n(x + i, n);
        if (type == HG_KV_FP8) {
            v8b b = __builtin_convertvector(v_to_e4m3(v / s), v8b);
            memcpy(out + i, &b, (size_t)n);
        } else if (type == HG_KV_BF16) {
            v8h h = __builtin_convertvector(v_to_bf16(v), v8h);
            memcpy(out + 2 * i, &h, 2 * (size_t)n);
        } else {
            memcpy(out + 4 * i, &v, 4 * (size_t)n);
        }
    }
}

/* K is transposed in its block: element i of the token goes to row i. */
static void store_k(const struct hg_kv_layer *kv, uint8_t *block, int32_t t, const uint8_t *code)
{
    int32_t d = kv->d_head;
    switch (kv->dtype) {
    case HG_KV_FP8:
        for (int32_t i = 0; i < d; i++) block[i * HG_PAGE_TOKENS + t] = code[i];
        break;
    case HG_KV_BF16:
        for (int32_t i = 0; i < d; i++)
            memcpy(block + 2 * (i * HG_PAGE_TOKENS + t), code + 2 * i, 2);
        break;
    default:
        for (int32_t i = 0; i < d; i++)
            memcpy(block + 4 * (i * HG_PAGE_TOKENS + t), code + 4 * i, 4);
    }
}

static void row_in(const struct job *j, int32_t r, float *scratch)
{
    const struct hg_attn_in_args *a = j->a;
    const struct hg_kv_layer *kv = a->kv;
    int32_t d = kv->d_head, half = a->d_rope / 2, slot = a->plan->kv_slot[r];
    float *cs = scratch, *sn = cs + CPU_MAX_D_HEAD / 2, *k = sn + CPU_MAX_D_HEAD / 2;
    uint8_t *code = (uint8_t *)(k + CPU_MAX_D_HEAD);
    for (int32_t i = 0; i < half; i++) {
        float angle = (float)a->plan->pos[r] * j->c->rope_freq[i];
        cs[i] = cosf(angle);
        sn[i] = sinf(angle);
    }
    for (int32_t h = 0; h < a->n_heads; h++) {
        int64_t at = (int64_t)r * a->n_heads + h;
        norm_rope((const float *)a->qg + at * 2 * d, a->q_norm, d, a->eps, cs, sn, half,
                  (float *)a->q + at * d);
    }
    for (int32_t h = 0; h < kv->n_kv_heads; h++) {
        int64_t at = ((int64_t)r * kv->n_kv_heads + h) * d;
        uint8_t *block = kv_block(kv, slot / HG_PAGE_TOKENS, h);
        int32_t t = slot % HG_PAGE_TOKENS;
        norm_rope((const float *)a->k + at, a->k_norm, d, a->eps, cs, sn, half, k);
        narrow(kv->dtype, k, kv->k_scale, d, code);
        store_k(kv, block, t, code);
        narrow(kv->dtype, (const float *)a->v + at, kv->v_scale, d,
               block + kv_block_bytes(kv) + (size_t)t * (size_t)d * kv_elem(kv->dtype));
    }
}

static void task_in(void *ctx, int32_t task, int32_t thread)
{
    const struct job *j = ctx;
    int32_t end = (task + 1) * j->per_task;
    if (end > j->a->plan->n_rows) end = j->a->plan->n_rows;
    for (int32_t r = task * j->per_task; r < end; r++) row_in(j, r, cpu_scratch(j->c, thread));
}

void HG_KERN(attn_in)(struct cpu *c, const struct hg_attn_in_args *a)
{
    hg_assert(a->kv->d_head <= CPU_MAX_D_HEAD && a->d_rope <= a->kv->d_head);
    if (c->rope_theta != a->rope_theta || c->rope_d != a->d_rope) {
        c->rope_theta = a->rope_theta;
        c->rope_d = a->d_rope;
        for (int32_t i = 0; i < a->d_rope / 2; i++)
            c->rope_freq[i] = powf(a->rope_theta, -2.0f * (float)i / (float)a->d_rope);
    }
    struct job j = {c, a, 4};
    hg_pool_run(c->pool, task_in, &j, (a->plan->n_rows + j.per_task - 1) / j.per_task);
}

/* ------------------------------------------------------------------------------- kv_move -- */

static void task_move(void *ctx, int32_t head, int32_t thread)
{
    (void)thread;
    const struct hg_kv_move_args *a = ctx;
    const struct hg_kv_layer *kv = a->kv;
    size_t es = kv_elem(kv->dtype), d = (size_t)kv->d_head;
    for (int32_t i = 0; i < a->n; i++) {
        if (a->src[i] == a->dst[i]) continue;
        size_t s = (size_t)(a->src[i] % HG_PAGE_TOKENS), t = (size_t)(a->dst[i] % HG_PAGE_TOKENS);
        const uint8_t *from = kv_block(kv, a->src[i] / HG_PAGE_TOKENS, head);
        uint8_t *to = kv_block(kv, a->dst[i] / HG_PAGE_TOKENS, head);
        for (size_t e = 0; e < d; e++)
            memcpy(to + (e * HG_PAGE_TOKENS + t) * es, from + (e * HG_PAGE_TOKENS + s) * es, es);
        memcpy(to + kv_block_bytes(kv) + t * d * es, from + kv_block_bytes(kv) + s * d * es,
               d * es);
    }
}

void HG_KERN(kv_move)(struct cpu *c, const struct hg_kv_move_args *a)
{
    if (a->n > 0) hg_pool_run(c->pool, task_move, (void *)(uintptr_t)a, a->kv->n_kv_heads);
}
