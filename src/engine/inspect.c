/* inspect.c: what a checkpoint directory holds, from its headers, as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/config.h"
#include "checkpoint/shards.h"

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), n_tail = strlen(tail);
    return n >= n_tail && strcmp(s + n - n_tail, tail) == 0;
}

/* Scales are how a weight is stored, not parameters. Names: modelopt, compressed-tensors, FP8. */
static bool is_scale(const char *name)
{
    static const char *const tails[] = {
        ".weight_scale",        ".weight_scale_2", ".weight_scale_inv",
        ".weight_global_scale", ".input_scale",    ".k_scale",
        ".input_global_scale",  ".v_scale",        ".q_scale",
    };
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (ends_with(name, tails[i])) return true;
    return false;
}

/* Two E2M1 codes a byte (quant/nvfp4.h): U8 X.weight or X.weight_packed beside X.weight_scale. */
static bool is_packed(const struct hg_shards *s, const struct hg_tensor *t)
{
    char scale[1024];
    size_t n = strlen(t->name) - (ends_with(t->name, "_packed") ? strlen("_packed") : 0);
    if (t->dtype != HG_U8 || n > sizeof scale - sizeof "_scale") return false;
    snprintf(scale, sizeof scale, "%.*s_scale", (int)n, t->name);
    return hg_shards_find(s, scale) != NULL;
}

static int64_t count_parameters(const struct hg_shards *s, const struct hg_tensor *t)
{
    if (is_scale(t->name)) return 0;
    return hg_tensor_count(t) * (is_packed(s, t) ? 2 : 1);
}

static json_t *config_json(const struct hg_config *c)
{
    json_t *kinds = json_array(), *eos = json_array();
    for (int32_t i = 0; i < c->n_layers; i++)
        json_array_append_new(kinds,
                              json_string(c->layer_kind[i] == HG_LAYER_ATTN ? "attention" : "gdn"));
    for (int32_t i = 0; i < c->n_eos; i++) json_array_append_new(eos, json_integer(c->eos[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:b, s:i, s:i, s:i, s:i, s:f, s:i, s:i, s:i,"
                     " s:i, s:i, s:i, s:b, s:o, s:o}",
                     "model_type", c->model_type, "n_layers", c->n_layers, "n_vocab", c->n_vocab,
                     "d_model", c->d_model, "d_ff", c->d_ff, "rms_eps", (double)c->rms_eps, "tied",
                     c->tied, "n_heads", c->n_heads, "n_kv_heads", c->n_kv_heads, "d_head",
                     c->d_head, "d_rope", c->d_rope, "rope_theta", (double)c->rope_theta,
                     "n_k_heads", c->n_k_heads, "n_v_heads", c->n_v_heads, "d_k", c->d_k, "d_v",
                     c->d_v, "n_mtp", c->n_mtp, "n_ctx_max", c->n_ctx_max, "kv_fp8", c->kv_fp8,
                     "eos", eos, "layers", kinds);
}

static json_t *tensor_json(const struct hg_tensor *t)
{
    json_t *shape = json_array();
    for (int32_t i = 0; i < t->rank; i++) json_array_append_new(shape, json_integer(t->shape[i]));
    const char *slash = strrchr(t->file, '/');
    return json_pack("{s:s, s:s, s:o, s:I, s:s}", "name", t->name, "dtype", hg_dtype_name(t->dtype),
                     "shape", shape, "bytes", (json_int_t)t->n_bytes, "file",
                     slash ? slash + 1 : t->file);
}

/* {dtype: {"tensors", "bytes"}}, for the types that occur. */
static json_t *formats_json(const struct hg_shards *s)
{
    json_int_t n[HG_N_DTYPES] = {0}, bytes[HG_N_DTYPES] = {0};
    for (size_t i = 0; i < hg_shards_count(s); i++) {
        const struct hg_tensor *t = hg_shards_at(s, i);
        n[t->dtype]++;
        bytes[t->dtype] += (json_int_t)t->n_bytes;
    }
    json_t *out = json_object();
    for (int d = 0; d < HG_N_DTYPES; d++)
        if (n[d])
            json_object_set_new(out, hg_dtype_name((enum hg_dtype)d),
                                json_pack("{s:I, s:I}", "tensors", n[d], "bytes", bytes[d]));
    return out;
}

static json_t *describe(const char *model, const struct hg_config *c, const struct hg_shards *s)
{
    json_int_t parameters = 0, bytes = 0;
    json_t *tensors = json_array();
    for (size_t i = 0; i < hg_shards_count(s); i++) {
        const struct hg_tensor *t = hg_shards_at(s, i);
        parameters += count_parameters(s, t);
        bytes += (json_int_t)t->n_bytes;
        if (json_array_append_new(tensors, tensor_json(t))) { /* no memory */
            json_decref(tensors);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:o, s:I, s:I, s:o}", "model", model, "config", config_json(c),
                     "formats", formats_json(s), "parameters", parameters, "bytes", bytes,
                     "tensors", tensors);
}

enum hg_status hg_inspect(const char *model, struct json_t **out, struct hg_err *err)
{
    if (!out) return hg_fail(err, HG_EINVAL, "hg_inspect: out is NULL");
    *out = NULL;
    if (!model) return hg_fail(err, HG_EINVAL, "hg_inspect: no model directory");
    json_t *utf8 = json_string(model);
    if (!utf8) return hg_fail(err, HG_EINVAL, "hg_inspect: the model path is not valid UTF-8");
    json_decref(utf8);
    struct hg_config c;
    struct hg_shards *s;
    HG_TRY(hg_config_open(model, &c, err));
    HG_TRY(hg_shards_open(model, &s, err));
    *out = describe(model, &c, s);
    hg_shards_close(s);
    return *out ? HG_OK : hg_fail(err, HG_ENOMEM, "%s: out of memory", model);
}
