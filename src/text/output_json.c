#include "text/output_impl.h"

#include <string.h>

#include "text/output_value.h"

void output_begin_json(struct hg_output *o, const char *space, size_t n_space)
{
    hg_buf_clear(&o->value);
    hg_buf_add(&o->value, space, n_space);
    o->n_space = n_space;
    o->depth = 0;
    o->quote = 0;
    o->escaped = false;
    o->state = JSON;
}

/* A new JSON value from compact JSON; numbers are known to fit. */
static json_t *load(const char *s, size_t n)
{
    return s ? json_loadb(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL)
             : NULL;
}

/* Appends the arguments of the JSON call `body` to out as an object. */
static bool json_arguments(const char *body, size_t n, struct hg_buf *out)
{
    size_t n_args = 0;
    const char *args = hg_value_member(body, n, "arguments", &n_args);
    if (!args) args = hg_value_member(body, n, "parameters", &n_args);
    if (!args || *args == 'n') return hg_buf_str(out, "{}"), true;
    if (*args == '{') return hg_buf_add(out, args, n_args), true;
    if (*args != '"') return false;
    json_t *text = load(args, n_args); /* JSON within a string, as in the OpenAI API */
    bool ok = text && hg_value_json(json_string_value(text), json_string_length(text), out) &&
              out->data[0] == '{';
    if (text && json_string_length(text) == 0) hg_buf_str(out, "{}"), ok = true;
    json_decref(text);
    return ok;
}

/* Parses the body in o->value and sends the call, or, when it is none, its text. */
static void end_json(struct hg_output *o)
{
    struct hg_buf body, args;
    size_t n_name = 0;
    hg_buf_init(&body);
    hg_buf_init(&args);
    json_t *name = NULL;
    if (hg_value_json(o->value.data + o->n_space, o->value.len - o->n_space, &body)) {
        const char *s = hg_value_member(body.data, body.len, "name", &n_name);
        name = load(s, n_name);
    }
    const char *text = json_string_value(name);
    n_name = json_string_length(name);
    if (text && n_name && n_name <= MAX_NAME && strlen(text) == n_name &&
        json_arguments(body.data, body.len, &args)) {
        output_open_call(o, text);
        hg_buf_add(output_event_text(o, HG_EV_TOOL_ARGS), args.data, args.len);
        output_close_call(o);
    } else {
        hg_buf_add(output_event_text(o, o->thinking ? HG_EV_REASONING : HG_EV_TEXT), o->value.data,
                   o->value.len);
        o->state = BASE;
    }
    o->pending.oom |= body.oom || args.oom;
    json_decref(name);
    hg_buf_fini(&body);
    hg_buf_fini(&args);
}

/* Follows quotes and brackets to the end of the object, or to </tool_call> if they do not
 * balance: outside quotes, or on a line of its own where JSON has no newlines. */
bool output_step_json(struct hg_output *o, const char *s, size_t n, bool final)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '<' && (!o->quote || o->value.data[o->value.len - 1] == '\n')) {
            enum found f = output_at(s + i, n - i, "</tool_call>");
            if (f == MORE && !final) return output_consume(o, i), false;
            if (f == YES) {
                output_consume(o, i);
                end_json(o);
                return true;
            }
        }
        hg_buf_char(&o->value, c);
        if (o->value.oom) return false;
        if (o->escaped)
            o->escaped = false;
        else if (o->quote && c == '\\')
            o->escaped = true;
        else if (o->quote)
            o->quote = c == o->quote ? 0 : o->quote;
        else if (c == '"' || c == '\'')
            o->quote = c;
        else if (c == '{' || c == '[')
            o->depth++;
        else if (c == '}' || c == ']')
            o->depth--;
        if ((o->depth <= 0 && !o->quote) || o->value.len > MAX_BUFFERED) {
            output_consume(o, i + 1);
            end_json(o);
            return true;
        }
    }
    output_consume(o, n);
    if (final) end_json(o);
    return final;
}
