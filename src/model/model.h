/* model.h: the architecture document. A Qwen3.5/3.6 hybrid as three plain structs: hg_config
 * (checkpoint/config.h), weights, and the memory that a step reads and writes. The forward pass
 * itself is step.c, layer_attn.c, layer_gdn.c and ffn.c; formulas are in doc/model.md.
 *
 *   x = embed(token)
 *   per layer:  x += mixer(norm_in(x));  x += down(silu(gate y) * up y), y = norm_post(x)
 *   h = norm(x);  logits = lm_head h
 *   mixer: gated attention (layer_attn.c) or gated delta net (layer_gdn.c)
 */
#ifndef HG_MODEL_MODEL_H
#define HG_MODEL_MODEL_H

#include "backend/backend.h"
#include "checkpoint/config.h"

/* One transformer block: every BLOCK, ATTN and GDN row of weights.def; an attention block leaves
 * the GDN fields empty and the other way round. Vectors are device fp32. */
struct hg_layer {
    enum hg_layer_kind kind;
#define MATRIX_BLOCK(field) struct hg_matrix field;
#define VECTOR_BLOCK(field) float *field;
#define MATRIX_ATTN         MATRIX_BLOCK
#define VECTOR_ATTN         VECTOR_BLOCK
#define MATRIX_GDN          MATRIX_BLOCK
#define VECTOR_GDN          VECTOR_BLOCK
#define MATRIX_BODY(field)
#define VECTOR_BODY(field)
#define MATRIX_ROOT(field)
#define MATRIX_MTP(field)
#define VECTOR_MTP(field)
#define MATRIX(scope, field, name, n, k)           MATRIX_##scope(field)
#define VECTOR(scope, field, name, count, prepare) VECTOR_##scope(field)
#include "model/weights.def"
    float k_scale, v_scale; /* FP8 KV: from the checkpoint, else 1 */
};

struct hg_weights {
    struct hg_matrix embed;   /* [n_vocab][d_model] */
    struct hg_matrix lm_head; /* [n_vocab][d_model]; a copy of the struct of embed when tied */
    float *norm;              /* [d_model] */
    struct hg_layer *layer;   /* [n_layers] */
    /* Facts for people. */
    int64_t n_params;       /* all but MTP */
    uint64_t n_bytes;       /* as stored: codes and block scales */
    uint64_t n_bytes_token; /* read per decoded token: all but the embedding table */
    int64_t n_params_format[HG_N_FORMATS];
    bool has_mtp; /* the checkpoint carries an MTP head (checked, not loaded yet) */
};

/* Per-layer memory. */
struct hg_layer_memory {
    struct hg_kv_layer kv;     /* attention */
    struct hg_gdn_state state; /* GDN */
    struct hg_gdn_stash stash; /* GDN, of the last VERIFY step */
};

/* Scratch of one step; [n] = max_rows. All act. */
struct hg_scratch {
    void *x;      /* [n][d_model] residual stream */
    void *y;      /* [n][d_model] normalised input of a mixer or FFN */
    void *mid[4]; /* [n][widest] layer inputs after the first projections */
    void *mix;    /* [n][widest] output of a mixer, before its last projection */
    void *hidden; /* [max_want][d_model] post-norm hidden states of the wanted rows */
    void *logits; /* [max_want][n_vocab] */
};

struct hg_model_params {
    int32_t n_slots;    /* recurrent state slots: live sequences and snapshots */
    int32_t n_pages;    /* KV pages of HG_PAGE_TOKENS tokens, shared by all sequences */
    int32_t max_rows;   /* rows of a step */
    int32_t max_verify; /* rows of a VERIFY step, <= HG_TREE_ROWS; 0 = no stash, EXTEND only */
    int32_t max_seqs;   /* sequences of a step */
    int32_t max_want;   /* wanted rows of a step */
    enum hg_kv kv;      /* FP8, BF16 or F32 */
};

struct hg_model {
    struct hg_config cfg;
    struct hg_backend *be; /* borrowed */
    struct hg_weights w;
    struct hg_model_params p;
    struct hg_layer_memory *mem; /* [n_layers] */
    struct hg_scratch scratch;
    struct hg_plan *plan;         /* of the last step */
    struct hg_plan_input *inputs; /* [max_seqs] */
    bool can_commit;              /* the last step was a VERIFY */
    float *logits;                /* host [max_want][n_vocab] */
    float *hidden;                /* host [max_want][d_model] */
    size_t page_bytes;            /* of one page over all layers */
    size_t slot_bytes;            /* of one state slot over all layers */
};

typedef void hg_progress_fn(void *ctx, const char *stage, uint64_t done, uint64_t total);

struct hg_shards;
/* Binds and loads every tensor of weights.def. Errors name tensor, file, got and wanted; tensors
 * that nothing asked for (but visual ones) are errors too. */
enum hg_status hg_weights_load(struct hg_weights *w, const struct hg_config *c,
                               const struct hg_shards *shards, struct hg_backend *be,
                               hg_progress_fn *progress, void *progress_ctx, struct hg_err *err);
/* Random weights of a geometry: matrices in `format` where it fits (NVFP4 needs k % 16 == 0; the
 * embedding table is BF16), lively enough that nothing over- or underflows. */
enum hg_status hg_weights_dummy(struct hg_weights *w, const struct hg_config *c,
                                enum hg_format format, uint64_t seed, struct hg_backend *be,
                                hg_progress_fn *progress, void *progress_ctx, struct hg_err *err);
void hg_weights_free(struct hg_weights *w, const struct hg_config *c, struct hg_backend *be);

/* Bytes of one KV page and of one state slot over all layers. */
void hg_model_sizes(const struct hg_config *c, struct hg_backend *be, enum hg_kv kv,
                    size_t *page_bytes, size_t *slot_bytes);
/* Allocates memory and scratch for loaded weights; takes w over (also on failure). */
enum hg_status hg_model_create(const struct hg_config *c, struct hg_weights *w,
                               struct hg_backend *be, const struct hg_model_params *p,
                               struct hg_model **out, struct hg_err *err);
void hg_model_free(struct hg_model *m);

#endif
