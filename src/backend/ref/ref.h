/* ref.h: the oracle backend: each op as plain C in the order of its formula, fp32, no threads.
 * One op family a file. Nothing here is fast; everything else is checked against it. */
#ifndef HG_BACKEND_REF_REF_H
#define HG_BACKEND_REF_REF_H

#include "backend/backend.h"

/* One weight by position, as value (scale2 not applied for NVFP4: see ref_gemm). */
float ref_weight(const struct hg_matrix *w, int64_t row, int64_t k);

void ref_embed(struct hg_backend *be, const struct hg_embed_args *a);
void ref_gemm(struct hg_backend *be, const struct hg_gemm_args *a);
void ref_rmsnorm(struct hg_backend *be, const struct hg_rmsnorm_args *a);
void ref_silu_mul(struct hg_backend *be, const struct hg_silu_mul_args *a);
void ref_gather(struct hg_backend *be, const struct hg_gather_args *a);

size_t ref_kv_page_bytes(struct hg_backend *be, enum hg_kv dtype, int32_t n_kv_heads,
                         int32_t d_head);
void ref_attn_in(struct hg_backend *be, const struct hg_attn_in_args *a);
void ref_attn(struct hg_backend *be, const struct hg_attn_args *a);
void ref_kv_move(struct hg_backend *be, const struct hg_kv_move_args *a);

void ref_gdn_conv(struct hg_backend *be, const struct hg_gdn_conv_args *a);
void ref_gdn(struct hg_backend *be, const struct hg_gdn_args *a);
void ref_gdn_commit(struct hg_backend *be, const struct hg_gdn_commit_args *a);

/* The three forms of the gated delta rule for one v-head, each on its own buffers.
 * q, k: [n][d_k] normalised (q scaled); v: [n][d_v]; g[n] = log decay; beta[n]; s: [d_k][d_v];
 * o: [n][d_v]. parent[i] < i or -1 = the state. */
void ref_delta_recurrent(int32_t n, int32_t d_k, int32_t d_v, const float *q, const float *k,
                         const float *v, const float *g, const float *beta, float *s, float *o);
void ref_delta_chunk(int32_t n, int32_t d_k, int32_t d_v, const float *q, const float *k,
                     const float *v, const float *g, const float *beta, float *s, float *o);
/* Leaves s untouched. */
void ref_delta_tree(int32_t n, const int32_t *parent, int32_t d_k, int32_t d_v, const float *q,
                    const float *k, const float *v, const float *g, const float *beta,
                    const float *s, float *o);

#endif
