/* config.h: config.json (with or without text_config), generation_config.json and the presets,
 * as one plain struct. Source of the fields: the HF config of Qwen3_5TextConfig. Unknown values
 * that change the forward pass are refused (hidden_act, output_gate_type, attention_bias,
 * rope type, conv kernel other than 4); unknown keys are ignored. */
#ifndef HG_CHECKPOINT_CONFIG_H
#define HG_CHECKPOINT_CONFIG_H

#include "base/err.h"

enum { HG_MAX_LAYERS = 256, HG_MAX_EOS = 8, HG_CONV_KERNEL = 4 };

enum hg_layer_kind { HG_LAYER_GDN, HG_LAYER_ATTN };

struct hg_config {
    char model_type[64]; /* "qwen3_5_text", "qwen3_5" */
    int32_t n_layers;
    uint8_t layer_kind[HG_MAX_LAYERS]; /* enum hg_layer_kind */
    int32_t n_vocab;                   /* rows of embed_tokens and lm_head */
    int32_t d_model;                   /* hidden_size */
    int32_t d_ff;                      /* intermediate_size */
    float rms_eps;
    bool tied; /* lm_head = embed_tokens */
    /* gated attention */
    int32_t n_heads, n_kv_heads, d_head;
    int32_t d_rope; /* rotated dims: d_head * partial_rotary_factor, even */
    float rope_theta;
    /* gated delta net */
    int32_t n_k_heads, n_v_heads; /* linear_num_{key,value}_heads; n_v_heads % n_k_heads == 0 */
    int32_t d_k, d_v;             /* linear_{key,value}_head_dim */
    /* the rest */
    int32_t n_mtp;          /* MTP layers: 0 or 1 */
    int32_t n_ctx_max;      /* max_position_embeddings */
    hg_tok eos[HG_MAX_EOS]; /* generation_config's, else config's */
    int32_t n_eos;
    bool kv_fp8;                 /* the checkpoint asks for an FP8 KV cache */
    struct hg_sampling sampling; /* generation_config.json defaults; do_sample false = greedy */
};

/* Channels of the GDN convolution: q | k | v. */
static inline int32_t hg_config_conv_dim(const struct hg_config *c)
{
    return 2 * c->n_k_heads * c->d_k + c->n_v_heads * c->d_v;
}

/* Reads DIR/config.json, DIR/generation_config.json (optional), DIR/hf_quant_config.json (optional,
 * only for kv_fp8). */
enum hg_status hg_config_open(const char *dir, struct hg_config *out, struct hg_err *err);
/* Parses the text of a config.json; gen = text of generation_config.json or NULL. `name` is for
 * messages. */
enum hg_status hg_config_parse(const char *name, const char *text, size_t n, const char *gen,
                               size_t n_gen, struct hg_config *out, struct hg_err *err);

#endif
