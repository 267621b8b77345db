/* embed, gemm, rmsnorm, silu_mul, gather. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ref/ref.h"
#include "quant/nvfp4.h"

float ref_weight(const struct hg_matrix *w, int64_t row, int64_t k)
{
    int64_t i = row * w->k + k;
    switch (w->format) {
    case HG_FMT_F32: return ((const float *)w->data)[i];
    case HG_FMT_BF16: return hg_bf16_to_f32(((const uint16_t *)w->data)[i]);
    case HG_FMT_F16: return hg_f16_to_f32(((const uint16_t *)w->data)[i]);
    case HG_FMT_NVFP4: {
        const uint8_t *codes = w->data, *scale = codes + (int64_t)w->n * w->k / 2;
        return hg_nvfp4_at(codes + row * (w->k / 2), scale + row * (w->k / HG_NVFP4_GROUP), k);
    }
    case HG_N_FORMATS: break;
    }
    return NAN;
}

void ref_embed(struct hg_backend *be, const struct hg_embed_args *a)
{
    (void)be;
    float *out = a->out;
    int32_t d = a->table->k;
    for (int32_t r = 0; r < a->n_rows; r++)
        for (int32_t j = 0; j < d; j++)
            out[(int64_t)r * d + j] = ref_weight(a->table, a->tok[r], j) * a->table->scale2;
}

void ref_gemm(struct hg_backend *be, const struct hg_gemm_args *a)
{
    (void)be;
    for (int32_t p = 0; p < a->n_parts; p++) {
        const struct hg_matrix *w = a->part[p].w;
        float *y = a->part[p].y, *row = malloc((size_t)w->k * sizeof *row);
        hg_assert(row); /* the oracle may allocate: it never serves */
        for (int32_t n = 0; n < w->n; n++) {
            for (int32_t k = 0; k < w->k; k++) row[k] = ref_weight(w, n, k);
            for (int32_t r = 0; r < a->n_rows; r++) {
                const float *x = (const float *)a->x + (int64_t)r * w->k;
                float sum = 0;
                for (int32_t k = 0; k < w->k; k++) sum += row[k] * x[k];
                float *out = &y[(int64_t)r * w->n + n];
                *out = sum * w->scale2 + (a->part[p].add ? *out : 0);
            }
        }
        free(row);
    }
}

void ref_rmsnorm(struct hg_backend *be, const struct hg_rmsnorm_args *a)
{
    (void)be;
    for (int32_t r = 0; r < a->n_rows; r++) {
        const float *x = (const float *)a->x + (int64_t)r * a->d;
        float *y = (float *)a->y + (int64_t)r * a->d, sum = 0;
        for (int32_t i = 0; i < a->d; i++) sum += x[i] * x[i];
        float inv = 1 / sqrtf(sum / (float)a->d + a->eps);
        for (int32_t i = 0; i < a->d; i++) y[i] = x[i] * inv * a->w[i];
    }
}

void ref_silu_mul(struct hg_backend *be, const struct hg_silu_mul_args *a)
{
    (void)be;
    const float *g = a->g, *u = a->u;
    float *y = a->y;
    for (int64_t i = 0; i < (int64_t)a->n_rows * a->d; i++) y[i] = g[i] / (1 + expf(-g[i])) * u[i];
}

void ref_gather(struct hg_backend *be, const struct hg_gather_args *a)
{
    (void)be;
    for (int32_t i = 0; i < a->n; i++)
        memcpy((float *)a->y + (int64_t)i * a->d, (const float *)a->x + (int64_t)a->index[i] * a->d,
               (size_t)a->d * sizeof(float));
}
