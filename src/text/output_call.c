#include "text/output_impl.h"

#include <string.h>

#include "text/output_value.h"

void output_open_function(struct hg_output *o, size_t n_name)
{
    char name[MAX_NAME + 1];
    size_t n_tag = strlen("<function=");
    memcpy(name, o->in.data + o->pos + n_tag, n_name);
    name[n_name] = 0;
    output_open_call(o, name);
    hg_buf_char(output_event_text(o, HG_EV_TOOL_ARGS), '{');
    output_consume(o, n_tag + n_name + 1);
    o->state = PARAMS;
}

/* "KEY>" at s, or "KEY\n" of a model that forgot the bracket. JSON readers refuse NUL in keys. */
static enum found at_key(const char *s, size_t n, size_t *n_key)
{
    for (size_t i = 0; i <= MAX_NAME; i++) {
        if (i == n) return MORE;
        if (s[i] == '>' || s[i] == '\n') return *n_key = i, YES;
        if (!s[i]) return NO;
    }
    return NO;
}

/* Whether the value so far can still be something else than a string. */
static bool may_be_typed(const struct hg_output *o)
{
    const char *s = o->value.data;
    size_t n = o->value.len;
    if (n > MAX_BUFFERED) return false;
    if (!(o->types & HG_JT_STRING) || !n) return true;
    if (*s == '[') return o->types & HG_JT_ARRAY;
    if (*s == '{') return o->types & HG_JT_OBJECT;
    return o->types & HG_JT_NULL &&
           (output_at("null", 4, s) == YES || output_at("None", 4, s) == YES);
}

static void put_value(struct hg_output *o, const char *s, size_t n)
{
    o->empty = false;
    if (o->kind == STREAMED) hg_buf_json(output_event_text(o, HG_EV_TOOL_ARGS), s, n);
    if (o->kind != BUFFERED) return;
    hg_buf_add(&o->value, s, n);
    if (o->value.oom || may_be_typed(o)) return;
    o->kind = STREAMED;
    struct hg_buf *args = output_event_text(o, HG_EV_TOOL_ARGS);
    hg_buf_char(args, '"');
    hg_buf_json(args, o->value.data, o->value.len);
    hg_buf_clear(&o->value);
}

static void begin_value(struct hg_output *o, const char *key, size_t n_key)
{
    o->state = VALUE;
    o->lead = o->empty = true;
    size_t n_seen = o->seen.len;
    hg_buf_add(&o->seen, key, n_key);
    hg_buf_char(&o->seen, '\n');
    if (o->seen.oom) return;
    bool again = memmem(o->seen.data, n_seen, o->seen.data + n_seen - 1, n_key + 2) != NULL;
    if (again || o->n_params == MAX_PARAMS) {
        o->seen.len = n_seen;
        o->kind = DROPPED;
        return;
    }
    struct hg_buf *args = output_event_text(o, HG_EV_TOOL_ARGS);
    hg_buf_str(args, o->n_params++ ? ", \"" : "\"");
    hg_buf_json(args, key, n_key);
    hg_buf_str(args, "\": ");
    o->schema = json_object_getn(o->properties, key, n_key);
    o->types = hg_schema_types(o->root, o->schema);
    o->kind = o->types & ~(unsigned)HG_JT_STRING ? BUFFERED : STREAMED;
    hg_buf_clear(&o->value);
    if (o->kind == STREAMED) hg_buf_char(args, '"');
}

void output_end_value(struct hg_output *o)
{
    struct hg_buf *args = output_event_text(o, HG_EV_TOOL_ARGS);
    if (o->kind == STREAMED) hg_buf_char(args, '"');
    if (o->kind == BUFFERED) {
        const char *s = o->value.data ? o->value.data : "";
        bool listed = hg_schema_lists(o->schema, s, o->value.len);
        hg_value_write(listed ? HG_JT_STRING : o->types, s, o->value.len, args);
    }
    o->state = PARAMS;
}

/* What may stand in a call outside values; anything else there is dropped. */
bool output_step_params(struct hg_output *o, const char *s, size_t n, bool final)
{
    static const char *const markers[] = {"<parameter=",  "</parameter>", "</function>",
                                          "</tool_call>", "<tool_call>",  NULL};
    enum { PARAMETER, PARAMETER_END, FUNCTION_END };
    if (!n) return false;
    if (*s != '<') {
        const char *next = memchr(s, '<', n);
        return output_consume(o, next ? (size_t)(next - s) : n), true;
    }
    int which = -1;
    size_t n_mark = 0, n_name;
    enum found f = output_at_any(s, n, markers, &which);
    if (f == YES && which == PARAMETER) {
        n_mark = strlen(markers[which]);
        f = at_key(s + n_mark, n - n_mark, &n_name);
        if (f == YES) {
            output_consume(o, n_mark + n_name + 1);
            begin_value(o, s + n_mark, n_name);
            return true;
        }
    } else if (f == YES && which == PARAMETER_END) {
        return output_consume(o, strlen(markers[which])), true;
    } else if (f != YES) {
        enum found function = output_at_function(s, n, &n_name);
        if (function != NO) f = function;
    }
    if (f == MORE) return final ? output_consume(o, n), true : false;
    if (f == NO) return output_consume(o, 1), true;
    hg_buf_char(output_event_text(o, HG_EV_TOOL_ARGS), '}');
    output_close_call(o); /* also where the next call begins without closers */
    return true;
}

/* Whether one of `markers`, or the end of all text, follows white space at s. */
static enum found follows(const char *s, size_t n, const char *const *markers, bool final)
{
    int which;
    size_t n_space = output_count_space(s, n);
    if (n_space > MAX_SPACE) return NO;
    enum found f = output_at_any(s + n_space, n - n_space, markers, &which);
    return f == MORE && final ? YES : f;
}

/* Whether the value ends at the "<" at s. Values are often code and may contain what looks like
 * markup, so each sign is believed only where what follows fits it:
 *   </parameter>    before a parameter, a closer or a call
 *   </function>     (</parameter> was forgotten) before </tool_call> or a call
 *   </tool_call>    (both were) on its own line, before a call
 *   <parameter=K>   (</parameter> was) on its own line, K a parameter of the tool
 * or where the text ends. Only </parameter> is consumed here: *skip. */
static enum found at_value_end(struct hg_output *o, const char *s, size_t n, bool on_own_line,
                               bool final, size_t *skip)
{
    static const char *const signs[] = {"</parameter>", "</function>", "</tool_call>",
                                        "<parameter=", NULL};
    static const char *const in_call[] = {"<parameter=", "</function>", "</tool_call>",
                                          "<tool_call>", "<function=",  NULL};
    const char *const *after_function = in_call + 2, *const *after_call = in_call + 3;
    enum { PARAMETER_END, FUNCTION_END, CALL_END, PARAMETER };
    int which = -1;
    size_t n_key;
    *skip = 0;
    enum found f = output_at_any(s, n, signs, &which);
    if (f != YES) return final ? NO : f;
    size_t n_sign = strlen(signs[which]);
    const char *after = s + n_sign;
    n -= n_sign;
    switch (which) {
    case PARAMETER_END: *skip = n_sign; return follows(after, n, in_call, final);
    case FUNCTION_END: return follows(after, n, after_function, final);
    case CALL_END: return on_own_line ? follows(after, n, after_call, final) : NO;
    default:
        if (!on_own_line) return NO;
        f = at_key(after, n, &n_key);
        if (f != YES) return final ? NO : f;
        return !o->properties || json_object_getn(o->properties, after, n_key) ? YES : NO;
    }
}

bool output_step_value(struct hg_output *o, const char *s, size_t n, bool final)
{
    if (!n) return false;
    if (o->lead) {
        o->lead = false;
        return output_consume(o, *s == '\n'), true;
    }
    size_t i = 0, skip;
    while (i < n && s[i] != '<' && s[i] != '\n') i++;
    if (i > 0) return put_value(o, s, i), output_consume(o, i), true;

    size_t newline = *s == '\n'; /* the last one does not belong to the value */
    if (newline && n == 1) return final ? output_consume(o, 1), true : false;
    enum found f = NO;
    if (s[newline] == '<')
        f = at_value_end(o, s + newline, n - newline, newline || o->empty, final, &skip);
    if (f == MORE) return false;
    if (f == NO) return put_value(o, s, 1), output_consume(o, 1), true;
    output_consume(o, newline + skip);
    output_end_value(o);
    return true;
}
