#include "bench/answer.h"

#include <stdio.h>
#include <string.h>

void hg_answer_init(struct hg_answer *a)
{
    *a = (struct hg_answer){.n_prompt = -1, .n_completion = -1, .n_cached = -1};
}

void hg_answer_fini(struct hg_answer *a)
{
    hg_buf_fini(&a->content);
    hg_buf_fini(&a->reasoning);
    for (int32_t i = 0; i < HG_ANSWER_CALLS_MAX; i++) {
        hg_buf_fini(&a->calls[i].name);
        hg_buf_fini(&a->calls[i].args);
    }
}

static bool has_type(const json_t *v, json_type type)
{
    return !v || json_is_null(v) || json_typeof(v) == type;
}

/* Appends a string member; false when it is there but no string. *some = it was not empty. */
static bool add_text(struct hg_buf *b, const json_t *object, const char *key, bool *some)
{
    const json_t *v = json_object_get(object, key);
    if (!has_type(v, JSON_STRING)) return false;
    size_t n = json_string_length(v);
    if (n) {
        hg_buf_add(b, json_string_value(v), n);
        *some = true;
    }
    return true;
}

static bool add_call(struct hg_answer *a, const json_t *delta)
{
    const json_t *at = json_object_get(delta, "index");
    const json_t *f = json_object_get(delta, "function");
    json_int_t index = json_integer_value(at);
    if (!json_is_object(delta) || !has_type(at, JSON_INTEGER) || !has_type(f, JSON_OBJECT) ||
        index < 0 || index >= HG_ANSWER_CALLS_MAX)
        return false;
    struct hg_answer_call *c = &a->calls[index];
    if (index >= a->n_calls) a->n_calls = (int32_t)index + 1;
    const json_t *name = json_object_get(f, "name");
    if (!has_type(name, JSON_STRING)) return false;
    if (json_is_string(name)) {
        hg_buf_clear(&c->name);
        hg_buf_add(&c->name, json_string_value(name), json_string_length(name));
    }
    bool some;
    return add_text(&c->args, f, "arguments", &some);
}

static bool add_delta(struct hg_answer *a, const json_t *delta, double now)
{
    bool some = false, ok = has_type(delta, JSON_OBJECT);
    ok = ok && add_text(&a->content, delta, "content", &some);
    ok = ok && add_text(&a->reasoning, delta, "reasoning_content", &some);
    ok = ok && add_text(&a->reasoning, delta, "reasoning", &some);
    const json_t *calls = json_object_get(delta, "tool_calls");
    ok = ok && has_type(calls, JSON_ARRAY);
    for (size_t i = 0; ok && i < json_array_size(calls); i++) {
        ok = add_call(a, json_array_get(calls, i));
        some = true;
    }
    if (some) {
        a->n_deltas++;
        if (a->t_first == 0) a->t_first = now;
    }
    return ok;
}

static int32_t count(const json_t *object, const char *key, int32_t otherwise)
{
    const json_t *v = json_object_get(object, key);
    json_int_t i = json_integer_value(v);
    return json_is_integer(v) && i >= 0 && i <= INT32_MAX ? (int32_t)i : otherwise;
}

static void add_usage(struct hg_answer *a, const json_t *usage)
{
    a->n_prompt = count(usage, "prompt_tokens", a->n_prompt);
    a->n_completion = count(usage, "completion_tokens", a->n_completion);
    a->n_cached =
        count(json_object_get(usage, "prompt_tokens_details"), "cached_tokens", a->n_cached);
}

void hg_answer_add(struct hg_answer *a, const char *text, size_t n, double now)
{
    json_t *event = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    const json_t *error = json_object_get(event, "error");
    const json_t *choices = json_object_get(event, "choices");
    const json_t *choice = json_array_get(choices, 0);
    bool ok = event && has_type(choices, JSON_ARRAY);
    if (ok && error && !json_is_null(error)) {
        const char *why = json_string_value(json_object_get(error, "message"));
        snprintf(a->error, sizeof a->error, "error in the stream: %s", why ? why : "(no message)");
    }
    if (ok && choice) {
        const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
        ok = add_delta(a, json_object_get(choice, "delta"), now);
        if (finish) snprintf(a->finish, sizeof a->finish, "%s", finish);
    }
    if (ok) add_usage(a, json_object_get(event, "usage"));
    if (!ok) a->n_bad++;
    json_decref(event);
}

/* The arguments as an object, or NULL. */
static json_t *arguments(const struct hg_answer_call *c)
{
    json_t *v = c->args.len ? json_loadb(c->args.data, c->args.len, JSON_ALLOW_NUL, NULL) : NULL;
    if (json_is_object(v)) return v;
    json_decref(v);
    return NULL;
}

int32_t hg_answer_bad_args(const struct hg_answer *a)
{
    int32_t n = 0;
    for (int32_t i = 0; i < a->n_calls; i++) {
        json_t *v = arguments(&a->calls[i]);
        n += v == NULL;
        json_decref(v);
    }
    return n;
}

json_t *hg_answer_calls(const struct hg_answer *a)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < a->n_calls; i++) {
        const struct hg_answer_call *c = &a->calls[i];
        json_t *name = json_stringn(c->name.data ? c->name.data : "", c->name.len);
        json_array_append_new(out, json_pack("{s:o, s:o?}", "name", name ? name : json_string(""),
                                             "arguments", arguments(c)));
    }
    return out;
}
