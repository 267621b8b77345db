/* Input: the text of a config.json, then, behind a NUL byte, that of a generation_config.json.
 * What is accepted must lie within the limits that the rest of the engine relies on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct hg_config *c)
{
    hg_assert(c->n_layers >= 1 && c->n_layers <= HG_MAX_LAYERS);
    for (int32_t i = 0; i < c->n_layers; i++) hg_assert(c->layer_kind[i] <= HG_LAYER_ATTN);
    hg_assert(c->n_vocab >= 1 && c->d_model >= 1 && c->d_ff >= 1 && c->n_ctx_max >= 1);
    hg_assert(c->n_kv_heads >= 1 && c->n_heads % c->n_kv_heads == 0);
    hg_assert(c->n_k_heads >= 1 && c->n_v_heads % c->n_k_heads == 0);
    hg_assert(c->d_rope >= 2 && c->d_rope <= c->d_head && c->d_rope % 2 == 0);
    hg_assert(c->d_k >= 1 && c->d_k <= 256 && c->d_v >= 1 && c->d_v <= 256);
    hg_assert(2ll * c->n_heads * c->d_head <= 1 << 20 && hg_config_conv_dim(c) > 0);
    hg_assert(c->n_mtp == 0 || c->n_mtp == 1);
    hg_assert(c->rms_eps > 0 && isfinite(c->rope_theta) && c->rope_theta >= 1);
    hg_assert(c->n_eos >= 0 && c->n_eos <= HG_MAX_EOS);
    for (int32_t i = 0; i < c->n_eos; i++) hg_assert(c->eos[i] >= 0 && c->eos[i] < c->n_vocab);
    const struct hg_sampling *p = &c->sampling;
    hg_assert(p->temperature >= 0 && p->top_k >= 0 && p->top_p > 0 && p->top_p <= 1);
    hg_assert(p->min_p >= 0 && p->min_p <= 1 && p->repetition_penalty > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hg_config c;
    struct hg_err err = {0};
    const char *text = (const char *)data;
    const char *nul = n ? memchr(text, 0, n) : NULL;
    size_t n_text = nul ? (size_t)(nul - text) : n;
    enum hg_status s = hg_config_parse("fuzz/config.json", text, n_text, nul ? nul + 1 : NULL,
                                       nul ? n - n_text - 1 : 0, &c, &err);
    if (s == HG_OK)
        check(&c);
    else
        hg_assert((s == HG_EFORMAT || s == HG_EUNSUP) && err.status == s && err.text[0]);
    return 0;
}
