/* Fields common to both dialects. Absent and null are the same everywhere.
 *
 *   field                                      value                     effect
 *   model                                      string                    accepted, not used
 *   stream                                     bool
 *   stream_options.include_usage               bool                      ignored without stream
 *   max_completion_tokens, max_tokens          1..2^31-1                 the first wins
 *   temperature 0..100 · top_p 0..1 (0 = the best token) · top_k -1..2^31-1 (-1, 0 = off)
 *   min_p 0..1 · repetition_penalty 0.01..100 · presence_penalty, frequency_penalty -2..2
 *   seed                                       64-bit integer            negative ones wrap
 *   stop                                       string or list, <= 16     each of 1..1024 bytes
 *   logit_bias                                 {"id": -100..100}
 *   ignore_eos                                 bool
 *   skip_special_tokens                        bool                      false: kept in the text
 *   n                                          1
 *   user                                       string                    accepted, not used
 *
 * Refused with EUNSUP as they change the answer: see `refused` below. All other fields
 * (store, metadata, service_tier, prompt_cache_key, ...) are ignored. */
#include "server/api_request.h"

#include <stdio.h>
#include <string.h>

#include "server/request_fields.h"

enum { MAX_STOPS = 16, MAX_STOP_BYTES = 1024 };

/* Absent, null, false, 0, "", [] and {} ask for nothing. */
static bool asks_for_something(const json_t *v)
{
    if (!v || json_is_null(v) || json_is_false(v)) return false;
    if (json_is_integer(v)) return json_integer_value(v) != 0;
    if (json_is_string(v)) return json_string_length(v) != 0;
    if (json_is_array(v)) return json_array_size(v) != 0;
    if (json_is_object(v)) return json_object_size(v) != 0;
    return true;
}

static enum hg_status refuse_unsupported(const json_t *body, struct hg_api_err *err)
{
    static const char *const refused[] = {"audio",
                                          "bad_words",
                                          "chat_template",
                                          "continue_final_message",
                                          "echo",
                                          "function_call",
                                          "functions",
                                          "grammar",
                                          "guided_choice",
                                          "guided_grammar",
                                          "guided_json",
                                          "guided_regex",
                                          "json_schema",
                                          "min_tokens",
                                          "prompt_logprobs",
                                          "stop_token_ids",
                                          "structured_outputs",
                                          "suffix",
                                          "use_beam_search",
                                          "web_search_options",
                                          "include_stop_str_in_output"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (asks_for_something(json_object_get(body, refused[i])))
            return hg_api_fail(err, HG_EUNSUP, refused[i], "not supported");
    }
    if (json_is_false(json_object_get(body, "add_generation_prompt")))
        return hg_api_fail(err, HG_EUNSUP, "add_generation_prompt", "false is not supported");
    int64_t one = 1;
    static const char *const singles[] = {"n", "best_of"};
    for (size_t i = 0; i < 2; i++) {
        HG_TRY(hg_field_int(body, singles[i], INT64_MIN, INT64_MAX, &one, err));
        if (one != 1)
            return hg_api_fail(err, HG_EUNSUP, singles[i], "%lld is not supported, only 1",
                               (long long)one);
    }
    return HG_OK;
}

static enum hg_status read_sampling(const json_t *body, struct hg_sampling *s,
                                    struct hg_api_err *err)
{
    HG_TRY(hg_field_float(body, "temperature", 0, 100, &s->temperature, err));
    HG_TRY(hg_field_i32(body, "top_k", -1, INT32_MAX, &s->top_k, err));
    if (s->top_k < 0) s->top_k = 0;
    HG_TRY(hg_field_float(body, "top_p", 0, 1, &s->top_p, err));
    if (s->top_p <= 0) { /* the limit of ever smaller values: the best token alone */
        s->top_p = 1;
        s->top_k = 1;
    }
    HG_TRY(hg_field_float(body, "min_p", 0, 1, &s->min_p, err));
    HG_TRY(hg_field_float(body, "repetition_penalty", 0.01, 100, &s->repetition_penalty, err));
    HG_TRY(hg_field_float(body, "presence_penalty", -2, 2, &s->presence_penalty, err));
    HG_TRY(hg_field_float(body, "frequency_penalty", -2, 2, &s->frequency_penalty, err));
    if (hg_field_get(body, "seed")) {
        int64_t seed = 0;
        HG_TRY(hg_field_int(body, "seed", INT64_MIN, INT64_MAX, &seed, err));
        s->seed = (uint64_t)seed;
        s->has_seed = true;
    }
    return HG_OK;
}

static enum hg_status check_stop(const json_t *v, const char *param, const char **out,
                                 struct hg_api_err *err)
{
    if (!json_is_string(v))
        return hg_api_fail(err, HG_EINVAL, param, "got %s, wanted a string", hg_json_kind(v));
    size_t n = json_string_length(v);
    if (n == 0 || n > MAX_STOP_BYTES)
        return hg_api_fail(err, HG_EINVAL, param, "%zu bytes, wanted 1..%d", n, MAX_STOP_BYTES);
    if (strlen(json_string_value(v)) != n)
        return hg_api_fail(err, HG_EINVAL, param, "holds a NUL character");
    *out = json_string_value(v);
    return HG_OK;
}

static enum hg_status read_stop(struct hg_api_request *q, struct hg_api_err *err)
{
    json_t *stop = hg_field_get(q->body, "stop");
    if (!stop) return HG_OK;
    const char **list = hg_arena_array(&q->arena, MAX_STOPS, sizeof *list);
    if (!list) return hg_api_fail(err, HG_ENOMEM, "stop", "out of memory");
    q->rp.stop = list;
    if (json_is_string(stop)) {
        q->rp.n_stop = 1;
        return check_stop(stop, "stop", &list[0], err);
    }
    if (!json_is_array(stop))
        return hg_api_fail(err, HG_EINVAL, "stop", "got %s, wanted a string or an array",
                           hg_json_kind(stop));
    if (json_array_size(stop) > MAX_STOPS)
        return hg_api_fail(err, HG_EINVAL, "stop", "%zu strings, at most %d are allowed",
                           json_array_size(stop), MAX_STOPS);
    q->rp.n_stop = (int32_t)json_array_size(stop);
    for (int32_t i = 0; i < q->rp.n_stop; i++) {
        char param[32];
        snprintf(param, sizeof param, "stop[%d]", i);
        HG_TRY(check_stop(json_array_get(stop, (size_t)i), param, &list[i], err));
    }
    return HG_OK;
}

/* A key of logit_bias: a decimal id without sign, blanks or leading zeros; else -1. */
static int64_t bias_id(const char *key)
{
    size_t n = strlen(key);
    if (n == 0 || n > 9 || strspn(key, "0123456789") != n || (n > 1 && key[0] == '0')) return -1;
    int64_t id = 0;
    for (; *key; key++) id = id * 10 + (*key - '0');
    return id;
}

static enum hg_status read_logit_bias(struct hg_api_request *q, int32_t n_vocab,
                                      struct hg_api_err *err)
{
    json_t *map = NULL, *v;
    HG_TRY(hg_field_object(q->body, "logit_bias", &map, err));
    size_t n = json_object_size(map);
    if (n == 0) return HG_OK;
    struct hg_logit_bias *list = hg_arena_array(&q->arena, n, sizeof *list);
    if (!list) return hg_api_fail(err, HG_ENOMEM, "logit_bias", "out of memory");
    const char *key;
    int32_t i = 0;
    json_object_foreach(map, key, v)
    {
        int64_t id = bias_id(key);
        if (id < 0 || id >= n_vocab)
            return hg_api_fail(err, HG_EINVAL, "logit_bias", "\"%.64s\" is no token id in 0..%d",
                               key, n_vocab - 1);
        if (!json_is_number(v))
            return hg_api_fail(err, HG_EINVAL, "logit_bias", "id %s: got %s, wanted a number", key,
                               hg_json_kind(v));
        double bias = json_number_value(v);
        if (!(bias >= -100 && bias <= 100))
            return hg_api_fail(err, HG_EINVAL, "logit_bias", "id %s: %g is not in -100..100", key,
                               bias);
        list[i++] = (struct hg_logit_bias){.id = (hg_tok)id, .bias = (float)bias};
    }
    q->rp.sampling.bias = list;
    q->rp.sampling.n_bias = i;
    return HG_OK;
}

static enum hg_status read_lengths(struct hg_api_request *q, struct hg_api_err *err)
{
    HG_TRY(hg_field_i32(q->body, "max_tokens", 1, INT32_MAX, &q->rp.max_tokens, err));
    HG_TRY(hg_field_i32(q->body, "max_completion_tokens", 1, INT32_MAX, &q->rp.max_tokens, err));
    HG_TRY(hg_field_bool(q->body, "ignore_eos", &q->rp.ignore_eos, err));
    bool skip = !q->rp.echo_special;
    HG_TRY(hg_field_bool(q->body, "skip_special_tokens", &skip, err));
    q->rp.echo_special = !skip;
    return HG_OK;
}

static enum hg_status read_streaming(struct hg_api_request *q, struct hg_api_err *err)
{
    HG_TRY(hg_field_bool(q->body, "stream", &q->stream, err));
    json_t *options = NULL;
    HG_TRY(hg_field_object(q->body, "stream_options", &options, err));
    if (options && hg_field_bool(options, "include_usage", &q->include_usage, err) != HG_OK) {
        struct hg_err what = err->e;
        return hg_api_fail(err, HG_EINVAL, "stream_options.include_usage", "%.200s",
                           what.text + strlen("include_usage: "));
    }
    return HG_OK;
}

enum hg_status hg_api_request_begin(const char *text, size_t n, const struct hg_api_limits *lim,
                                    struct hg_api_request *q, size_t *budget,
                                    struct hg_api_err *err)
{
    memset(q, 0, sizeof *q);
    memset(err, 0, sizeof *err);
    hg_arena_init(&q->arena);
    hg_request_params_init(&q->rp);
    q->rp.sampling = lim->sampling;
    q->rp.max_tokens = lim->default_max_tokens;
    *budget = HG_API_MAX_VALUES;
    if (n == 0) return hg_api_fail(err, HG_EINVAL, "body", "empty, wanted a JSON object");
    HG_TRY(hg_json_in(text, n, false, budget, "body", &q->body, err));
    if (!json_is_object(q->body))
        return hg_api_fail(err, HG_EINVAL, "body", "got %s, wanted an object",
                           hg_json_kind(q->body));
    return HG_OK;
}

enum hg_status hg_api_request_common(struct hg_api_request *q, const struct hg_api_limits *lim,
                                     struct hg_api_err *err)
{
    HG_TRY(hg_field_string(q->body, "model", NULL, err));
    HG_TRY(hg_field_string(q->body, "user", NULL, err));
    HG_TRY(refuse_unsupported(q->body, err));
    HG_TRY(read_lengths(q, err));
    HG_TRY(read_sampling(q->body, &q->rp.sampling, err));
    HG_TRY(read_stop(q, err));
    HG_TRY(read_logit_bias(q, lim->n_vocab, err));
    return read_streaming(q, err);
}

enum hg_status hg_api_token_ids(struct hg_arena *a, const json_t *array, const char *param,
                                int32_t n_vocab, const hg_tok **out, size_t *n_out,
                                struct hg_api_err *err)
{
    size_t n = json_array_size(array);
    hg_tok *ids = hg_arena_array(a, n, sizeof *ids);
    if (!ids) return hg_api_fail(err, HG_ENOMEM, param, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(array, i);
        json_int_t id = json_integer_value(v); /* 0 for what is none */
        if (json_is_integer(v) && id >= 0 && id < n_vocab) {
            ids[i] = (hg_tok)id;
            continue;
        }
        char name[64];
        snprintf(name, sizeof name, "%s[%zu]", param, i);
        if (!json_is_integer(v))
            return hg_api_fail(err, HG_EINVAL, name, "got %s, wanted a token id", hg_json_kind(v));
        return hg_api_fail(err, HG_EINVAL, name, "%lld is no token id in 0..%d", (long long)id,
                           n_vocab - 1);
    }
    *out = ids;
    *n_out = n;
    return HG_OK;
}

void hg_api_request_fini(struct hg_api_request *q)
{
    json_decref(q->body);
    hg_arena_fini(&q->arena);
    memset(q, 0, sizeof *q);
}
