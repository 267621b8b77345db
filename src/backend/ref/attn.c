/* Gated attention over paged KV. Page layout: [2 (k, v)][n_kv_heads][64][d_head]. */
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"
#include "quant/float.h"

static size_t kv_size(enum hg_kv t)
{
    return t == HG_KV_FP8 ? 1 : t == HG_KV_BF16 ? 2 : 4;
}

size_t ref_kv_page_bytes(struct hg_backend *be, enum hg_kv dtype, int32_t n_kv_heads,
                         int32_t d_head)
{
    (void)be;
    return 2 * (size_t)n_kv_heads * HG_PAGE_TOKENS * (size_t)d_head * kv_size(dtype);
}

/* Where head h of the token in `slot` lies; which = 0 for K, 1 for V. */
static uint8_t *kv_at(const struct hg_kv_layer *kv, int32_t slot, int32_t which, int32_t h)
{
    int64_t row = ((int64_t)which * kv->n_kv_heads + h) * HG_PAGE_TOKENS + slot % HG_PAGE_TOKENS;
    return kv->pool + (size_t)(slot / HG_PAGE_TOKENS) * kv->page_bytes +
           (size_t)(row * kv->d_head) * kv_size(kv->dtype);
}

static void kv_store(const struct hg_kv_layer *kv, uint8_t *at, float scale, const float *x)
{
    for (int32_t i = 0; i < kv->d_head; i++) switch (kv->dtype) {
        case HG_KV_FP8: at[i] = hg_f32_to_e4m3(x[i] / scale); break;
        case HG_KV_BF16: ((uint16_t *)at)[i] = hg_f32_to_bf16(x[i]); break;
        default: ((float *)at)[i] = x[i];
        }
}

static float kv_load(const struct hg_kv_layer *kv, const uint8_t *at, float scale, int32_t i)
{
    switch (kv->dtype) {
    case HG_KV_FP8: return hg_e4m3_to_f32(at[i]) * scale;
    case HG_KV_BF16: return hg_bf16_to_f32(((const uint16_t *)at)[i]);
    default: return ((const float *)at)[i];
    }
}

static void norm_rope(const struct hg_attn_in_args *a, const float *x, const float *w, int32_t pos,
                      float *y)
{
    int32_t d = a->kv->d_head, half = a->d_rope / 2;
    float sum = 0;
    for (int32_t i = 0; i < d; i++) sum += x[i] * x[i];
    float inv = 1 / sqrtf(sum / (float)d + a->eps);
    for (int32_t i = 0; i < d; i++) y[i] = x[i] * inv * w[i];
    for (int32_t i = 0; i < half; i++) {
        float angle = (float)pos * powf(a->rope_theta, -2.0f * (float)i / (float)a->d_rope);
        float c = cosf(angle), s = sinf(angle), p = y[i], q = y[i + half];
        y[i] = p * c - q * s;
        y[i + half] = q * c + p * s;
    }
}

void ref_attn_in(struct hg_backend *be, const struct hg_attn_in_args *a)
{
    (void)be;
    const struct hg_kv_layer *kv = a->kv;
    int32_t d = kv->d_head;
    for (int32_t r = 0; r < a->plan->n_rows; r++) {
        int32_t pos = a->plan->pos[r], slot = a->plan->kv_slot[r];
        for (int32_t h = 0; h < a->n_heads; h++)
            norm_rope(a, (const float *)a->qg + ((int64_t)r * a->n_heads + h) * 2 * d, a->q_norm,
                      pos, (float *)a->q + ((int64_t)r * a->n_heads + h) * d);
        for (int32_t h = 0; h < kv->n_kv_heads; h++) {
            int64_t at = ((int64_t)r * kv->n_kv_heads + h) * d;
            float k[1024];
            hg_assert(d <= 1024);
            norm_rope(a, (const float *)a->k + at, a->k_norm, pos, k);
            kv_store(kv, kv_at(kv, slot, 0, h), kv->k_scale, k);
            kv_store(kv, kv_at(kv, slot, 1, h), kv->v_scale, (const float *)a->v + at);
        }
    }
}

/* One row, one head; two passes over the keys, the plain definition of softmax. */
static void attn_head(const struct hg_attn_args *a, int32_t r, int32_t h)
{
    const struct hg_plan *p = a->plan;
    const struct hg_plan_seq *s = &p->seq[p->row_seq[r]];
    const struct hg_kv_layer *kv = a->kv;
    int32_t d = kv->d_head, kh = h / (a->n_heads / kv->n_kv_heads);
    const float *q = (const float *)a->q + ((int64_t)r * a->n_heads + h) * d;
    const float *gate = (const float *)a->qg + (((int64_t)r * a->n_heads + h) * 2 + 1) * d;
    float *out = (float *)a->out + ((int64_t)r * a->n_heads + h) * d;
    float most = -INFINITY, total = 0, scale = 1 / sqrtf((float)d);
    memset(out, 0, (size_t)d * sizeof *out);
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t t = 0; t <= p->pos[r]; t++) {
            int32_t slot = hg_plan_slot(p, s, r, t);
            const uint8_t *k = kv_at(kv, slot, 0, kh), *v = kv_at(kv, slot, 1, kh);
            float score = 0;
            for (int32_t i = 0; i < d; i++) score += q[i] * kv_load(kv, k, kv->k_scale, i);
            score *= scale;
            if (pass == 0) {
                most = fmaxf(most, score);
                continue;
            }
            float e = expf(score - most);
            total += e;
            for (int32_t i = 0; i < d; i++) out[i] += e * kv_load(kv, v, kv->v_scale, i);
        }
    for (int32_t i = 0; i < d; i++) out[i] = out[i] / total / (1 + expf(-gate[i]));
}

void ref_attn(struct hg_backend *be, const struct hg_attn_args *a)
{
    (void)be;
    for (int32_t r = 0; r < a->plan->n_rows; r++)
        for (int32_t h = 0; h < a->n_heads; h++) attn_head(a, r, h);
}

void ref_kv_move(struct hg_backend *be, const struct hg_kv_move_args *a)
{
    (void)be;
    size_t n = (size_t)a->kv->d_head * kv_size(a->kv->dtype);
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t which = 0; which < 2; which++)
            for (int32_t h = 0; h < a->kv->n_kv_heads; h++)
                memmove(kv_at(a->kv, a->dst[i], which, h), kv_at(a->kv, a->src[i], which, h), n);
}
