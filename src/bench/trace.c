#include "bench/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define TRACE_BYTES_MAX ((size_t)1 << 30)

/* Where a row stands, for errors, and the row. */
struct row {
    const char *path;
    int32_t line;
    const json_t *json;
    const char *role;
};

/* Fails with "FILE:LINE: ...". */
#define FAIL_ROW(row, err, ...)                                                                    \
    (hg_fail(err, HG_EFORMAT, __VA_ARGS__), hg_fail_in(err, "%s:%d", (row)->path, (int)(row)->line))

static enum hg_status get_string(const struct row *r, const char *key, const char **out,
                                 struct hg_err *err)
{
    *out = json_string_value(json_object_get(r->json, key));
    return *out ? HG_OK : FAIL_ROW(r, err, "'%s' is not a string", key);
}

static json_t *message(const char *role, json_t *content)
{
    return json_pack("{s:s, s:O}", "role", role, "content", content);
}

static enum hg_status append(const struct row *r, struct hg_trace_conv *c, json_t *msg,
                             struct hg_err *err)
{
    if (json_array_append_new(c->messages, msg) == 0) return HG_OK;
    return FAIL_ROW(r, err, "out of memory");
}

static enum hg_status add_user(const struct row *r, struct hg_trace_conv *c, struct hg_err *err)
{
    json_t *content = json_object_get(r->json, "content");
    json_t *system = json_object_get(r->json, "system");
    json_t *tools = json_object_get(r->json, "tools");
    if (!json_is_string(content) && !json_is_array(content))
        return FAIL_ROW(r, err, "'content' is neither a string nor a list");
    if ((system || tools) && c->n_rows)
        return FAIL_ROW(r, err, "'system' and 'tools' belong to the first row");
    if (system && !json_is_string(system)) return FAIL_ROW(r, err, "'system' is not a string");
    if (tools && !json_is_array(tools)) return FAIL_ROW(r, err, "'tools' is not a list");
    if (system) HG_TRY(append(r, c, message("system", system), err));
    if (tools) c->tools = json_incref(tools);
    return append(r, c, message("user", content), err);
}

static enum hg_status add_tool(const struct row *r, struct hg_trace_conv *c, struct hg_err *err)
{
    const json_t *results = json_object_get(r->json, "tool_results");
    if (json_array_size(results) == 0) return FAIL_ROW(r, err, "'tool_results' is not a list");
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *one = json_array_get(results, i);
        json_t *content = json_object_get(one, "content");
        json_t *id = json_object_get(one, "tool_call_id");
        if (!json_is_string(content) || !json_is_string(id))
            return FAIL_ROW(r, err, "tool_results[%zu] lacks 'content' or 'tool_call_id'", i);
        json_t *msg = message("tool", content);
        json_object_set(msg, "tool_call_id", id);
        HG_TRY(append(r, c, msg, err));
    }
    return HG_OK;
}

/* Only the keys that are there: the recorded turns have no "content" at all. */
static enum hg_status add_assistant(const struct row *r, struct hg_trace_conv *c,
                                    struct hg_err *err)
{
    static const char *const keys[] = {"content", "tool_calls", "reasoning_content"};
    json_t *msg = json_pack("{s:s}", "role", "assistant");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *v = json_object_get(r->json, keys[i]);
        if (v) json_object_set(msg, keys[i], v);
    }
    HG_TRY(append(r, c, msg, err));
    c->turns[c->n_turns - 1].recorded = msg;
    return HG_OK;
}

static enum hg_status add_turn(const struct row *r, struct hg_trace_conv *c, struct hg_err *err)
{
    struct hg_trace_turn *turns = realloc(c->turns, ((size_t)c->n_turns + 1) * sizeof *turns);
    if (!turns) return FAIL_ROW(r, err, "out of memory");
    c->turns = turns;
    turns[c->n_turns++] = (struct hg_trace_turn){(int32_t)json_array_size(c->messages), NULL};
    return HG_OK;
}

static enum hg_status add_row(const struct row *r, struct hg_trace_conv *c, struct hg_err *err)
{
    int client = strcmp(r->role, "assistant") != 0;
    if (client != (c->n_rows % 2 == 0))
        return FAIL_ROW(r, err, "conversation '%s': role '%s' where %s row is due", c->id, r->role,
                        client ? "an assistant" : "a user or tool");
    if (json_integer_value(json_object_get(r->json, "turn")) != c->n_rows + 1)
        return FAIL_ROW(r, err, "conversation '%s': 'turn' is not %d", c->id, (int)c->n_rows + 1);
    if (!client) {
        HG_TRY(add_assistant(r, c, err));
    } else if (!strcmp(r->role, "user")) {
        HG_TRY(add_user(r, c, err));
    } else if (!strcmp(r->role, "tool") && c->n_rows) {
        HG_TRY(add_tool(r, c, err));
    } else {
        return FAIL_ROW(r, err, "role '%s' is not one a conversation can go on with", r->role);
    }
    if (client) HG_TRY(add_turn(r, c, err));
    c->n_rows++;
    return HG_OK;
}

/* The conversation a row belongs to: the last one, or a new one. */
static enum hg_status conv_of(const struct row *r, struct hg_trace *t, const char *id,
                              struct hg_trace_conv **out, struct hg_err *err)
{
    if (t->n_convs && !strcmp(t->convs[t->n_convs - 1].id, id)) {
        *out = &t->convs[t->n_convs - 1];
        return HG_OK;
    }
    for (const char *p = id; *p; p++) /* it goes into an HTTP header */
        if ((unsigned char)*p < ' ') return FAIL_ROW(r, err, "control character in the id");
    if (hg_trace_find(t, id))
        return FAIL_ROW(r, err, "the rows of conversation '%s' are not contiguous", id);
    struct hg_trace_conv *convs = realloc(t->convs, ((size_t)t->n_convs + 1) * sizeof *convs);
    if (!convs) return FAIL_ROW(r, err, "out of memory");
    t->convs = convs;
    *out = &convs[t->n_convs];
    **out = (struct hg_trace_conv){.id = strdup(id), .messages = json_array()};
    t->n_convs++;
    return (*out)->id && (*out)->messages ? HG_OK : FAIL_ROW(r, err, "out of memory");
}

static enum hg_status add_line(struct hg_trace *t, const char *path, int32_t line, const char *text,
                               size_t n, struct hg_err *err)
{
    json_error_t je;
    json_t *json = json_loadb(text, n, JSON_ALLOW_NUL, &je);
    struct row r = {.path = path, .line = line, .json = json};
    if (!json) return FAIL_ROW(&r, err, "%s at column %d", je.text, je.column);
    const char *id;
    struct hg_trace_conv *c = NULL;
    enum hg_status s = get_string(&r, "conversation_id", &id, err);
    if (s == HG_OK) s = get_string(&r, "role", &r.role, err);
    if (s == HG_OK) s = conv_of(&r, t, id, &c, err);
    if (s == HG_OK) s = add_row(&r, c, err);
    json_decref(json);
    return s;
}

enum hg_status hg_trace_open(const char *path, struct hg_trace *t, struct hg_err *err)
{
    char *text;
    size_t n;
    *t = (struct hg_trace){0};
    HG_TRY(hg_file_read(path, TRACE_BYTES_MAX, &text, &n, err));
    enum hg_status s = HG_OK;
    int32_t line = 0;
    for (size_t at = 0; at < n && s == HG_OK;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - text) - at : n - at;
        line++;
        if (len) s = add_line(t, path, line, text + at, len, err);
        at += len + 1;
    }
    free(text);
    if (s == HG_OK && !t->n_convs) s = hg_fail(err, HG_EFORMAT, "%s: no conversation in it", path);
    if (s != HG_OK) hg_trace_close(t);
    return s;
}

void hg_trace_close(struct hg_trace *t)
{
    for (int32_t i = 0; i < t->n_convs; i++) {
        free(t->convs[i].id);
        free(t->convs[i].turns);
        json_decref(t->convs[i].messages);
        json_decref(t->convs[i].tools);
    }
    free(t->convs);
    *t = (struct hg_trace){0};
}

const struct hg_trace_conv *hg_trace_find(const struct hg_trace *t, const char *id)
{
    for (int32_t i = 0; i < t->n_convs; i++)
        if (!strcmp(t->convs[i].id, id)) return &t->convs[i];
    return NULL;
}
