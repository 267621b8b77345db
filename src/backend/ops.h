/* ops.h: the operations of a step, one argument struct each, shared by every backend, the tests
 * and the benches.
 *
 * Activations ("act") are in the backend's own element type (hg_backend.act_size; ref and cpu:
 * fp32) and row-major. Weights: struct hg_matrix in the backend's own order. Vectors are fp32.
 * A *row* is one token of one sequence; everything about which rows belong together is in the
 * plan (plan.h). Unless said otherwise buffers do not overlap.
 *
 * Contract of every op: a row's result depends on the row, its ancestors and the committed state
 * alone, never on how many rows run with it (the same bits; DESIGN I2). No op allocates. */
#ifndef HG_BACKEND_OPS_H
#define HG_BACKEND_OPS_H

#include "backend/plan.h"

/* How weights are stored, decided per tensor from the checkpoint. */
enum hg_format { HG_FMT_F32, HG_FMT_BF16, HG_FMT_F16, HG_FMT_NVFP4, HG_N_FORMATS };

const char *hg_format_name(enum hg_format f); /* "nvfp4" */
/* Bytes that n weights take in the checkpoint, block scales included. */
size_t hg_format_bytes(enum hg_format f, int64_t n);

/* A weight matrix as the checkpoint stores it: y = W x, row-major [n][k]. */
struct hg_matrix_src {
    enum hg_format format;
    int32_t n, k;
    const void *data;     /* [n][k] elements, NVFP4: u8 [n][k/2] (quant/nvfp4.h); any alignment */
    const uint8_t *scale; /* NVFP4: e4m3 [n][k/16] */
    float scale2;         /* NVFP4: weight_scale_2; else 1 */
};

/* The same in a backend's own order. Owned by whoever loaded it (hg_backend_ops.matrix_free). */
struct hg_matrix {
    enum hg_format format;
    int32_t n, k;
    float scale2;
    void *data; /* backend's own tile order */
    size_t n_bytes;
};

/* x[i] = table row of tok[i]. */
struct hg_embed_args {
    const struct hg_matrix *table; /* [n_vocab][d] */
    const hg_tok *tok;             /* [n_rows], each in 0..n_vocab-1 */
    int32_t n_rows;
    void *out; /* [n_rows][d] act */
};

/* y = x / sqrt(mean(x^2) + eps) * w.  w already holds the +1 of the (1+w) norms. y may be x. */
struct hg_rmsnorm_args {
    const void *x;  /* [n_rows][d] act */
    const float *w; /* [d] */
    int32_t n_rows, d;
    float eps;
    void *y; /* [n_rows][d] act */
};

/* y_p = W_p x for every part: projections that share an input run as one op. */
enum { HG_GEMM_PARTS = 4 };
struct hg_gemm_args {
    const void *x; /* [n_rows][k] act; all parts have this k */
    int32_t n_rows, n_parts;
    struct {
        const struct hg_matrix *w; /* [n][k] */
        void *y;                   /* [n_rows][n] act */
        bool add;                  /* y += W x instead of y = W x (residual) */
    } part[HG_GEMM_PARTS];
};

/* y = silu(g) * u; y may be g or u. */
struct hg_silu_mul_args {
    const void *g, *u; /* [n_rows][d] act */
    int32_t n_rows, d;
    void *y;
};

/* One attention layer's KV cache. The layout inside a page is the backend's. */
struct hg_kv_layer {
    uint8_t *pool;     /* [n_pages][page_bytes] */
    size_t page_bytes; /* hg_backend_ops.kv_page_bytes */
    enum hg_kv dtype;  /* FP8, BF16 or F32 */
    int32_t n_kv_heads, d_head;
    float k_scale, v_scale; /* FP8: stored = x / scale */
};

/* Per row: split qg per head into query and gate; q, k: RMS norm over d_head, then RoPE on the
 * first d_rope dims (NeoX pairs i, i + d_rope/2; angle pos * theta^(-2i/d_rope)); K and V are
 * written to plan->kv_slot[row]. */
struct hg_attn_in_args {
    const struct hg_plan *plan;
    const void *qg;               /* [n_rows][n_heads][2][d_head] act: query, then gate */
    const void *k, *v;            /* [n_rows][n_kv_heads][d_head] act */
    const float *q_norm, *k_norm; /* [d_head], +1 included */
    float eps;
    int32_t n_heads, d_rope;
    float rope_theta;
    const struct hg_kv_layer *kv;
    void *q; /* out [n_rows][n_heads][d_head] act */
};

/* out = softmax(q K^T / sqrt(d_head)) V * sigmoid(gate), over the committed prefix, the row's
 * ancestors in this step and the row itself. Head h uses kv head h / (n_heads / n_kv_heads). */
struct hg_attn_args {
    const struct hg_plan *plan;
    const void *q;  /* [n_rows][n_heads][d_head] act */
    const void *qg; /* as above; the gate half is read */
    const struct hg_kv_layer *kv;
    int32_t n_heads;
    void *out; /* [n_rows][n_heads][d_head] act */
};

/* Recurrent memory of one GDN layer, indexed by state slot. */
struct hg_gdn_dims {
    int32_t n_k_heads, n_v_heads, d_k, d_v;
};
struct hg_gdn_state {
    float *s;   /* [n_slots][n_v_heads][d_k][d_v] fp32 */
    void *conv; /* [n_slots][3][conv_dim] act: the last three pre-conv inputs, oldest first */
    struct hg_gdn_dims dims;
    int32_t conv_dim; /* 2 n_k_heads d_k + n_v_heads d_v: channels q | k | v */
};

/* What a VERIFY step leaves behind per layer so that commit can replay the accepted path. */
struct hg_gdn_stash {
    void *mixed;         /* [n][conv_dim] act: pre-conv inputs (written by the gemm) */
    float *k;            /* [n][n_k_heads][d_k] normalised keys */
    float *v;            /* [n][n_v_heads][d_v] */
    float *alpha, *beta; /* [n][n_v_heads] decay e^g and write strength */
};

/* c_t = silu(sum_j w[ch][j] x_{t-3+j}[ch]) along each row's own ancestors; what lies before the
 * step comes from the window. EXTEND: then shifts the window of every sequence. */
struct hg_gdn_conv_args {
    const struct hg_plan *plan;
    const void *mixed; /* [n_rows][conv_dim] act */
    const float *w;    /* [conv_dim][4]; w[.][3] meets the row itself */
    const struct hg_gdn_state *state;
    void *c; /* out [n_rows][conv_dim] act */
};

/* The gated delta rule (spec: decay, then delta, then output), RMS norm per v-head and z gate:
 *   beta = sigmoid(b), alpha = exp(neg_a * softplus(a + dt_bias))
 *   q^ = q/|q| / sqrt(d_k), k^ = k/|k|   (|x| = sqrt(sum x^2 + 1e-6)); v-head n uses k-head
 *   n / (n_v_heads / n_k_heads)
 *   S <- alpha S; delta = beta (v - k^T S); S <- S + k delta^T; o = q^T S
 *   out = rmsnorm(o, eps) * norm_w * silu(z)
 * EXTEND: the state ends after the last row. VERIFY: the state is untouched, stash is filled. */
struct hg_gdn_args {
    const struct hg_plan *plan;
    const void *c;        /* [n_rows][conv_dim] act, after conv and silu */
    const void *a, *b;    /* [n_rows][n_v_heads] act */
    const void *z;        /* [n_rows][n_v_heads][d_v] act */
    const float *neg_a;   /* [n_v_heads] -exp(A_log) */
    const float *dt_bias; /* [n_v_heads] */
    const float *norm_w;  /* [d_v], plain */
    float eps;
    const struct hg_gdn_state *state;
    const struct hg_gdn_stash *stash; /* VERIFY only */
    void *out;                        /* [n_rows][n_v_heads][d_v] act */
};

/* Replays rows path[0..n) of the stash (root first) into the state of `slot` and shifts its conv
 * window. */
struct hg_gdn_commit_args {
    const struct hg_gdn_state *state;
    const struct hg_gdn_stash *stash;
    int32_t slot;
    const int32_t *path; /* step row indices */
    int32_t n;
};

/* Moves K and V of n tokens, in order i = 0..n-1 (src[i] >= dst[i] of any later i). Slots are
 * page * HG_PAGE_TOKENS + offset. */
struct hg_kv_move_args {
    const struct hg_kv_layer *kv;
    const int32_t *src, *dst;
    int32_t n;
};

/* y[i] = x[index[i]]. */
struct hg_gather_args {
    const void *x; /* [.][d] act */
    const int32_t *index;
    int32_t n, d;
    void *y; /* [n][d] act */
};

#endif
