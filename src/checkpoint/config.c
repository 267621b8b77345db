#include "checkpoint/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "checkpoint/json.h"

enum {
    MAX_BYTES = 16 << 20,
    MAX_VALUES = 1 << 17, /* quantization_config may list every module */
    MAX_GROUP = 64,
    REQUIRED = INT32_MIN,
    SHOWN = 80 /* characters of a bad value in a message */
};

/* Every limit on what a file may set. They bound the products that later code takes in int32:
 *   query heads      n_heads / n_kv_heads                <= 64 (what a backend keeps per kv head)
 *   q_proj rows      2 * n_heads * d_head               <= 2^20
 *   conv channels    (2 * n_k_heads + n_v_heads) * d    <= 2^17
 *   GDN state        n_v_heads * d_k * d_v              <= 2^24 elements a layer
 * Products with n_vocab, n_ctx_max or two of d_model, d_ff need int64. */
static const struct int_key {
    const char *key;
    size_t at; /* int32_t in struct hg_config */
    int32_t least, most, fallback;
} int_keys[] = {
    {"vocab_size", offsetof(struct hg_config, n_vocab), 1, 1 << 24, REQUIRED},
    {"hidden_size", offsetof(struct hg_config, d_model), 1, 1 << 16, REQUIRED},
    {"intermediate_size", offsetof(struct hg_config, d_ff), 1, 1 << 18, REQUIRED},
    {"num_hidden_layers", offsetof(struct hg_config, n_layers), 1, HG_MAX_LAYERS, REQUIRED},
    {"num_attention_heads", offsetof(struct hg_config, n_heads), 1, 1024, REQUIRED},
    {"num_key_value_heads", offsetof(struct hg_config, n_kv_heads), 1, 1024, REQUIRED},
    {"head_dim", offsetof(struct hg_config, d_head), 2, 512, 256},
    {"linear_num_key_heads", offsetof(struct hg_config, n_k_heads), 1, 128, REQUIRED},
    {"linear_num_value_heads", offsetof(struct hg_config, n_v_heads), 1, 256, REQUIRED},
    {"linear_key_head_dim", offsetof(struct hg_config, d_k), 1, 256, 128},
    {"linear_value_head_dim", offsetof(struct hg_config, d_v), 1, 256, 128},
    {"max_position_embeddings", offsetof(struct hg_config, n_ctx_max), 1, 1 << 24, 32768},
    {"mtp_num_hidden_layers", offsetof(struct hg_config, n_mtp), 0, 1, 0},
};

/* Keys that change the forward pass and of which one meaning is implemented. Absent = that one. */
static const struct fixed_key {
    const char *key;
    const char *values[2]; /* as JSON */
} fixed_keys[] = {
    {"hidden_act", {"\"silu\""}},      {"output_gate_type", {"\"swish\"", "\"silu\""}},
    {"attention_bias", {"false"}},     {"attn_output_gate", {"true"}},
    {"linear_conv_kernel_dim", {"4"}}, {"mtp_use_dedicated_embeddings", {"false"}},
};
_Static_assert(HG_CONV_KERNEL == 4, "fixed_keys says 4");

/* A JSON object of a file, for reading keys with messages. */
struct section {
    const char *file;
    const char *prefix; /* of keys in messages: "" or "rope_parameters." */
    const json_t *obj;
    struct hg_err *err;
};

static enum hg_status missing(const struct section *s, const char *key)
{
    return hg_fail(s->err, HG_EFORMAT, "%s: %s%s is missing", s->file, s->prefix, key);
}

/* "FILE: KEY is VALUE, ALLOWED". */
static enum hg_status bad_value(const struct section *s, enum hg_status st, const char *key,
                                const json_t *v, const char *allowed)
{
    char shown[SHOWN];
    return hg_fail(s->err, st, "%s: %s%s is %s, %s", s->file, s->prefix, key,
                   hg_json_shown(v, shown, sizeof shown), allowed);
}

static enum hg_status get_int(const struct section *s, const char *key, int32_t least, int32_t most,
                              int32_t fallback, int32_t *out)
{
    const json_t *v = hg_json_get(s->obj, key);
    *out = fallback;
    if (!v) return fallback == REQUIRED ? missing(s, key) : HG_OK;
    json_int_t i = json_integer_value(v);
    if (!json_is_integer(v) || i < least || i > most) {
        char allowed[64];
        snprintf(allowed, sizeof allowed, "expected an integer from %d to %d", least, most);
        return bad_value(s, HG_EFORMAT, key, v, allowed);
    }
    *out = (int32_t)i;
    return HG_OK;
}

/* Leaves *out when the key is absent. */
static enum hg_status get_double(const struct section *s, const char *key, double least,
                                 double most, double *out)
{
    const json_t *v = hg_json_get(s->obj, key);
    if (!v) return HG_OK;
    double d = json_number_value(v);
    if (!json_is_number(v) || !(d >= least && d <= most)) {
        char allowed[64];
        snprintf(allowed, sizeof allowed, "expected a number from %g to %g", least, most);
        return bad_value(s, HG_EFORMAT, key, v, allowed);
    }
    *out = d;
    return HG_OK;
}

static enum hg_status get_float(const struct section *s, const char *key, double least, double most,
                                float *out)
{
    double d = (double)*out;
    HG_TRY(get_double(s, key, least, most, &d));
    *out = (float)d;
    return HG_OK;
}

static enum hg_status get_bool(const struct section *s, const char *key, bool *out)
{
    const json_t *v = hg_json_get(s->obj, key);
    if (!v) return HG_OK;
    if (!json_is_boolean(v)) return bad_value(s, HG_EFORMAT, key, v, "expected true or false");
    *out = json_is_true(v);
    return HG_OK;
}

static enum hg_status check_fixed(const struct section *s, const struct fixed_key *f)
{
    const json_t *v = hg_json_get(s->obj, f->key);
    if (!v) return HG_OK;
    char shown[SHOWN], allowed[64];
    hg_json_shown(v, shown, sizeof shown);
    for (int i = 0; i < 2 && f->values[i]; i++)
        if (strcmp(shown, f->values[i]) == 0) return HG_OK;
    snprintf(allowed, sizeof allowed, "supported: %s%s%s", f->values[0], f->values[1] ? " or " : "",
             f->values[1] ? f->values[1] : "");
    return bad_value(s, HG_EUNSUP, f->key, v, allowed);
}

static enum hg_status check_model_type(const struct section *s, char *out, size_t n_out)
{
    const json_t *v = hg_json_get(s->obj, "model_type");
    const char *t = json_string_value(v);
    if (!v) return missing(s, "model_type");
    if (t && strstr(t, "moe"))
        return bad_value(s, HG_EUNSUP, "model_type", v, "MoE is not supported yet");
    if (!t || (strcmp(t, "qwen3_5") != 0 && strcmp(t, "qwen3_5_text") != 0))
        return bad_value(s, HG_EUNSUP, "model_type", v,
                         "supported: \"qwen3_5\" and \"qwen3_5_text\"");
    snprintf(out, n_out, "%s", t);
    return HG_OK;
}

static enum hg_status read_ints(const struct section *s, struct hg_config *c)
{
    for (size_t i = 0; i < sizeof int_keys / sizeof *int_keys; i++) {
        const struct int_key *k = &int_keys[i];
        int32_t *field = (int32_t *)(void *)((char *)c + k->at);
        HG_TRY(get_int(s, k->key, k->least, k->most, k->fallback, field));
    }
    if (c->n_heads % c->n_kv_heads)
        return hg_fail(s->err, HG_EFORMAT,
                       "%s: num_attention_heads is %d, expected a multiple of"
                       " num_key_value_heads %d",
                       s->file, c->n_heads, c->n_kv_heads);
    if (c->n_heads / c->n_kv_heads > MAX_GROUP)
        return hg_fail(s->err, HG_EFORMAT,
                       "%s: num_attention_heads is %d, expected at most %d for each of the %d "
                       "num_key_value_heads",
                       s->file, c->n_heads, MAX_GROUP, c->n_kv_heads);
    if (c->n_v_heads % c->n_k_heads)
        return hg_fail(s->err, HG_EFORMAT,
                       "%s: linear_num_value_heads is %d, expected a multiple"
                       " of linear_num_key_heads %d",
                       s->file, c->n_v_heads, c->n_k_heads);
    return HG_OK;
}

static enum hg_status read_layer_types(const struct section *s, struct hg_config *c)
{
    const json_t *types = hg_json_get(s->obj, "layer_types");
    if (!types) { /* HF: layer i is full attention iff (i + 1) % interval == 0 */
        int32_t interval;
        HG_TRY(get_int(s, "full_attention_interval", 1, HG_MAX_LAYERS, 4, &interval));
        for (int32_t i = 0; i < c->n_layers; i++)
            c->layer_kind[i] = (i + 1) % interval ? HG_LAYER_GDN : HG_LAYER_ATTN;
        return HG_OK;
    }
    if (!json_is_array(types))
        return bad_value(s, HG_EFORMAT, "layer_types", types, "expected an array");
    if (json_array_size(types) != (size_t)c->n_layers)
        return hg_fail(s->err, HG_EFORMAT,
                       "%s: layer_types has %zu entries, num_hidden_layers is %d", s->file,
                       json_array_size(types), c->n_layers);
    for (int32_t i = 0; i < c->n_layers; i++) {
        const json_t *v = json_array_get(types, (size_t)i);
        const char *t = json_string_value(v);
        char key[32];
        snprintf(key, sizeof key, "layer_types[%d]", i);
        if (t && strcmp(t, "linear_attention") == 0)
            c->layer_kind[i] = HG_LAYER_GDN;
        else if (t && strcmp(t, "full_attention") == 0)
            c->layer_kind[i] = HG_LAYER_ATTN;
        else
            return bad_value(s, HG_EUNSUP, key, v,
                             "supported: \"linear_attention\" and \"full_attention\"");
    }
    return HG_OK;
}

/* The keys of one place that may hold rope settings: the config itself, its legacy rope_scaling
 * or its rope_parameters. Later calls override earlier ones. */
static enum hg_status read_rope_section(const struct section *s, struct hg_config *c,
                                        double *partial)
{
    static const struct fixed_key type_keys[] = {{"rope_type", {"\"default\""}},
                                                 {"type", {"\"default\""}}};
    for (size_t i = 0; i < 2; i++) HG_TRY(check_fixed(s, &type_keys[i]));
    HG_TRY(get_float(s, "rope_theta", 1.0, 1e12, &c->rope_theta));
    return get_double(s, "partial_rotary_factor", 0.001, 1.0, partial);
}

static enum hg_status read_rope(const struct section *s, struct hg_config *c)
{
    static const char *const nested[][2] = {{"rope_scaling", "rope_scaling."},
                                            {"rope_parameters", "rope_parameters."}};
    double partial = 0.25; /* HF: the default of Qwen3_5TextConfig */
    c->rope_theta = 0;
    HG_TRY(read_rope_section(s, c, &partial));
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = hg_json_get(s->obj, nested[i][0]);
        if (!v) continue;
        if (!json_is_object(v))
            return bad_value(s, HG_EFORMAT, nested[i][0], v, "expected an object");
        struct section sub = {s->file, nested[i][1], v, s->err};
        HG_TRY(read_rope_section(&sub, c, &partial));
    }
    if (c->rope_theta == 0) return missing(s, "rope_parameters.rope_theta");
    c->d_rope = (int32_t)(c->d_head * partial);
    if (c->d_rope < 2 || c->d_rope % 2)
        return hg_fail(s->err, HG_EFORMAT,
                       "%s: partial_rotary_factor %g of head_dim %d rotates %d"
                       " dimensions, expected an even number of at least 2",
                       s->file, partial, c->d_head, c->d_rope);
    return HG_OK;
}

/* eos_token_id: an id or a list of ids. Leaves n_eos 0 when absent or empty. */
static enum hg_status read_eos(const struct section *s, struct hg_config *c)
{
    const json_t *v = hg_json_get(s->obj, "eos_token_id");
    size_t n = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;
    if (n > HG_MAX_EOS)
        return hg_fail(s->err, HG_EFORMAT, "%s: eos_token_id lists %zu ids, the limit is %d",
                       s->file, n, HG_MAX_EOS);
    c->n_eos = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= c->n_vocab) {
            char allowed[96];
            snprintf(allowed, sizeof allowed, "expected ids from 0 to below vocab_size %d",
                     c->n_vocab);
            return bad_value(s, HG_EFORMAT, "eos_token_id", v, allowed);
        }
        c->eos[c->n_eos++] = (hg_tok)json_integer_value(id);
    }
    return HG_OK;
}

/* modelopt mirrors the KV format as kv_cache_scheme in quantization_config. */
static bool wants_kv_fp8(const json_t *config)
{
    const json_t *scheme =
        json_object_get(json_object_get(config, "quantization_config"), "kv_cache_scheme");
    const char *type = json_string_value(json_object_get(scheme, "type"));
    return type && strcmp(type, "float") == 0 &&
           json_integer_value(json_object_get(scheme, "num_bits")) == 8;
}

static enum hg_status parse_config(const char *name, const json_t *root, struct hg_config *c,
                                   struct hg_err *err)
{
    struct section top = {name, "", root, err}, text = top;
    if (!json_is_object(root)) return hg_fail(err, HG_EFORMAT, "%s: not a JSON object", name);
    text.obj = hg_json_get(root, "text_config");
    if (!text.obj) text.obj = root;
    if (!json_is_object(text.obj))
        return bad_value(&top, HG_EFORMAT, "text_config", text.obj, "expected an object");
    bool nested = text.obj != root;
    if (nested) text.prefix = "text_config.";

    HG_TRY(check_model_type(&top, c->model_type, sizeof c->model_type));
    if (nested && hg_json_get(text.obj, "model_type"))
        HG_TRY(check_model_type(&text, c->model_type, sizeof c->model_type));
    const json_t *experts = hg_json_get(text.obj, "num_experts");
    if (experts && !(json_is_integer(experts) && json_integer_value(experts) == 0))
        return bad_value(&text, HG_EUNSUP, "num_experts", experts, "MoE is not supported yet");
    for (size_t i = 0; i < sizeof fixed_keys / sizeof *fixed_keys; i++)
        HG_TRY(check_fixed(&text, &fixed_keys[i]));
    HG_TRY(read_ints(&text, c));
    c->rms_eps = 1e-6f;
    HG_TRY(get_float(&text, "rms_norm_eps", 1e-12, 0.1, &c->rms_eps));
    HG_TRY(read_layer_types(&text, c));
    HG_TRY(read_rope(&text, c));
    /* text_config wins; a wrong choice shows at binding, as a missing or unknown lm_head. */
    HG_TRY(get_bool(&top, "tie_word_embeddings", &c->tied));
    HG_TRY(get_bool(&text, "tie_word_embeddings", &c->tied));
    HG_TRY(read_eos(&text, c));
    if (c->n_eos == 0) HG_TRY(read_eos(&top, c));
    c->kv_fp8 = wants_kv_fp8(root) || wants_kv_fp8(text.obj);
    return HG_OK;
}

/* Sampling is on when do_sample says so, or when it says nothing and a temperature is given. */
static enum hg_status read_sampling(const struct section *s, struct hg_sampling *p)
{
    bool sample = hg_json_get(s->obj, "temperature") != NULL;
    float temperature = 1.0f;
    int32_t top_k;
    HG_TRY(get_bool(s, "do_sample", &sample));
    HG_TRY(get_float(s, "temperature", 0, 100, &temperature));
    HG_TRY(get_int(s, "top_k", -1, 1 << 24, 0, &top_k)); /* -1 = off, as in vLLM */
    HG_TRY(get_float(s, "top_p", 1e-6, 1, &p->top_p));
    HG_TRY(get_float(s, "min_p", 0, 1, &p->min_p));
    HG_TRY(get_float(s, "repetition_penalty", 0.01, 100, &p->repetition_penalty));
    HG_TRY(get_float(s, "presence_penalty", -2, 2, &p->presence_penalty));
    HG_TRY(get_float(s, "frequency_penalty", -2, 2, &p->frequency_penalty));
    p->top_k = top_k > 0 ? top_k : 0;
    p->temperature = sample ? temperature : 0;
    return HG_OK;
}

static enum hg_status parse_generation(const char *name, const json_t *root, struct hg_config *c,
                                       struct hg_err *err)
{
    struct section s = {name, "", root, err};
    if (!json_is_object(root)) return hg_fail(err, HG_EFORMAT, "%s: not a JSON object", name);
    struct hg_config from_gen = {.n_vocab = c->n_vocab};
    HG_TRY(read_eos(&s, &from_gen));
    if (from_gen.n_eos) {
        c->n_eos = from_gen.n_eos;
        memcpy(c->eos, from_gen.eos, sizeof c->eos);
    }
    return read_sampling(&s, &c->sampling);
}

/* generation_config.json beside `config`. */
static void generation_name(const char *config, struct hg_buf *out)
{
    const char *slash = strrchr(config, '/');
    hg_buf_add(out, config, slash ? (size_t)(slash + 1 - config) : 0);
    hg_buf_str(out, "generation_config.json");
}

static enum hg_status parse_text(const char *name, const char *text, size_t n,
                                 enum hg_status (*parse)(const char *, const json_t *,
                                                         struct hg_config *, struct hg_err *),
                                 struct hg_config *c, struct hg_err *err)
{
    json_t *root;
    if (n > MAX_BYTES)
        return hg_fail(err, HG_EFORMAT, "%s: %zu bytes, the limit is %d", name, n, MAX_BYTES);
    HG_TRY(hg_json_parse(name, text, n, MAX_VALUES, &root, err));
    enum hg_status s = parse(name, root, c, err);
    json_decref(root);
    return s;
}

enum hg_status hg_config_parse(const char *name, const char *text, size_t n, const char *gen,
                               size_t n_gen, struct hg_config *out, struct hg_err *err)
{
    memset(out, 0, sizeof *out);
    out->sampling.top_p = 1.0f;
    out->sampling.repetition_penalty = 1.0f;
    HG_TRY(parse_text(name, text, n, parse_config, out, err));
    if (!gen) return HG_OK;
    struct hg_buf gen_name;
    hg_buf_init(&gen_name);
    generation_name(name, &gen_name);
    enum hg_status s = HG_ENOMEM;
    if (gen_name.oom)
        hg_fail(err, s, "%s: out of memory", name);
    else
        s = parse_text(gen_name.data, gen, n_gen, parse_generation, out, err);
    hg_buf_fini(&gen_name);
    return s;
}

/* modelopt writes the KV format here, too: quantization.kv_cache_quant_algo. */
static enum hg_status read_hf_quant(const char *path, struct hg_config *c, struct hg_err *err)
{
    json_t *root;
    HG_TRY(hg_json_read(path, MAX_BYTES, MAX_VALUES, &root, err));
    const json_t *algo =
        json_object_get(json_object_get(root, "quantization"), "kv_cache_quant_algo");
    if (json_is_string(algo) && strcmp(json_string_value(algo), "FP8") == 0) c->kv_fp8 = true;
    json_decref(root);
    return HG_OK;
}

/* DIR/name into `path`; false when memory is out. */
static bool join(struct hg_buf *path, const char *dir, const char *name)
{
    hg_buf_clear(path);
    hg_buf_printf(path, "%s/%s", dir, name);
    return !path->oom;
}

enum hg_status hg_config_open(const char *dir, struct hg_config *out, struct hg_err *err)
{
    struct hg_buf path;
    char *text = NULL, *gen = NULL;
    size_t n = 0, n_gen = 0;
    enum hg_status s = HG_OK;
    hg_buf_init(&path);
    if (!join(&path, dir, "generation_config.json")) goto oom;
    if (access(path.data, F_OK) == 0) s = hg_file_read(path.data, MAX_BYTES, &gen, &n_gen, err);
    if (s != HG_OK) goto done;
    if (!join(&path, dir, "config.json")) goto oom;
    s = hg_file_read(path.data, MAX_BYTES, &text, &n, err);
    if (s == HG_OK) s = hg_config_parse(path.data, text, n, gen, n_gen, out, err);
    if (s != HG_OK) goto done;
    if (!join(&path, dir, "hf_quant_config.json")) goto oom;
    if (access(path.data, F_OK) == 0) s = read_hf_quant(path.data, out, err);
    goto done;
oom:
    s = hg_fail(err, HG_ENOMEM, "%s: out of memory", dir);
done:
    hg_buf_fini(&path);
    free(text);
    free(gen);
    return s;
}
