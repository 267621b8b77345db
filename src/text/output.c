#include "text/output_impl.h"

#include <stdlib.h>
#include <string.h>

#include "text/output_value.h"

/* ------------------------------------------------------------------------------- events -- */

static void flush(struct hg_output *o)
{
    if (!o->pending.len) return;
    o->sink->event(o->sink->ctx, o->pending_type,
                   o->pending_type == HG_EV_TOOL_ARGS ? o->n_calls - 1 : 0, NULL, o->pending.data,
                   o->pending.len);
    hg_buf_clear(&o->pending);
}

struct hg_buf *output_event_text(struct hg_output *o, enum hg_event_type type)
{
    if (o->pending_type != type) flush(o);
    o->pending_type = type;
    return &o->pending;
}

/* Passes the next n bytes on as reasoning or text. */
static void pass(struct hg_output *o, size_t n)
{
    hg_buf_add(output_event_text(o, o->thinking ? HG_EV_REASONING : HG_EV_TEXT),
               o->in.data + o->pos, n);
    output_consume(o, n);
}

void output_open_call(struct hg_output *o, const char *name)
{
    flush(o);
    o->sink->event(o->sink->ctx, HG_EV_TOOL_BEGIN, o->n_calls++, name, NULL, 0);
    o->properties = hg_tool_properties(o->tools, name, &o->root);
    hg_buf_clear(&o->seen);
    hg_buf_char(&o->seen, '\n');
    o->n_params = 0;
}

void output_close_call(struct hg_output *o)
{
    flush(o);
    o->sink->event(o->sink->ctx, HG_EV_TOOL_END, o->n_calls - 1, NULL, NULL, 0);
    o->state = AFTER_CALL;
}

/* ------------------------------------------------------------------------------- markers -- */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

size_t output_count_space(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && is_space(s[i])) i++;
    return i;
}

enum found output_at(const char *s, size_t n, const char *marker)
{
    size_t len = strlen(marker);
    if (n < len) return memcmp(s, marker, n) ? NO : MORE;
    return memcmp(s, marker, len) ? NO : YES;
}

enum found output_at_any(const char *s, size_t n, const char *const *markers, int *which)
{
    enum found best = NO;
    for (int i = 0; markers[i]; i++) {
        enum found f = output_at(s, n, markers[i]);
        if (f == YES) return *which = i, YES;
        if (f == MORE) best = MORE;
    }
    return best;
}

enum found output_at_function(const char *s, size_t n, size_t *n_name)
{
    static const char tag[] = "<function=";
    enum found f = output_at(s, n, tag);
    if (f != YES) return f;
    s += sizeof tag - 1;
    n -= sizeof tag - 1;
    for (size_t i = 0; i <= MAX_NAME; i++) {
        if (i == n) return MORE;
        if (s[i] == '>') return *n_name = i, i > 0 ? YES : NO;
        if ((unsigned char)s[i] <= ' ' || s[i] == '<' || s[i] == '"') return NO;
    }
    return NO;
}

/* ------------------------------------------------------------------- reasoning and text -- */

static bool step_start(struct hg_output *o, const char *s, size_t n, bool final)
{
    size_t n_space = output_count_space(s, n);
    enum found f = n_space <= MAX_SPACE ? output_at(s + n_space, n - n_space, "<think>") : NO;
    if (f == MORE && !final) return false;
    o->strip_newlines = o->thinking || f == YES;
    if (f == YES) {
        o->thinking = true;
        output_consume(o, n_space + strlen("<think>"));
    }
    o->state = BASE;
    return true;
}

/* A call whose "<tool_call>" ends at s: XML or JSON, as told by what stands at s[*skip]. */
static enum found at_call_body(const char *s, size_t n, size_t *skip, size_t *n_name)
{
    *skip = output_count_space(s, n);
    *n_name = 0;
    if (*skip > MAX_SPACE) return NO;
    if (*skip == n) return MORE;
    return s[*skip] == '{' ? YES : output_at_function(s + *skip, n - *skip, n_name);
}

/* Markup at s, behind n_space bytes of held white space. Consumes both, or, when it is no markup
 * (NO), nothing.
 *
 * In reasoning, where the model may think *about* calls, only a whole "<tool_call> <function=f>"
 * or "<tool_call> {" is one; in text every mark of tool calls is markup. */
static enum found take_markup(struct hg_output *o, const char *s, size_t n, size_t n_space)
{
    static const char *const in_text[] = {"<tool_call>", "</tool_call>", "<function=", NULL};
    static const char *const in_reasoning[] = {"<tool_call>", "</think>", NULL};
    enum { CALL, OTHER, FUNCTION };
    int which = -1;
    size_t skip = 0, n_name = 0;
    enum found f;
    if (!o->tools)
        which = OTHER, f = output_at(s, n, "</think>");
    else
        f = output_at_any(s, n, o->thinking ? in_reasoning : in_text, &which);
    if (f != YES) return f;

    if (which == OTHER && o->thinking) {
        o->thinking = false;
        o->strip_newlines = true;
        return output_consume(o, n_space + strlen("</think>")), YES;
    }
    if (which == OTHER) {
        pass(o, n_space);
        return output_consume(o, strlen("</tool_call>")), YES;
    }
    size_t n_mark = which == CALL ? strlen("<tool_call>") : 0;
    if (which == CALL)
        f = at_call_body(s + n_mark, n - n_mark, &skip, &n_name);
    else
        f = output_at_function(s, n, &n_name);
    if (f == YES) {
        output_consume(o, n_space + n_mark + skip);
        if (n_name)
            output_open_function(o, n_name);
        else
            output_begin_json(o, s - n_space, n_space);
    } else if (f == NO && which == CALL && !o->thinking) {
        pass(o, n_space);
        return output_consume(o, n_mark), YES;
    }
    return f;
}

static bool step_base(struct hg_output *o, const char *s, size_t n, bool final)
{
    size_t i = 0;
    if (!n) return false;
    if (o->strip_newlines) {
        while (i < n && (s[i] == '\n' || s[i] == '\r')) i++;
        o->strip_newlines = i == n;
        return output_consume(o, i), true;
    }
    if (!o->thinking && !o->tools) return pass(o, n), true;
    while (i < n && s[i] != '<' && !is_space(s[i])) i++;
    if (i > 0) return pass(o, i), true;

    size_t n_space = output_count_space(s, n);
    if (n_space > MAX_SPACE) return pass(o, n_space - MAX_SPACE), true;
    if (n_space == n && !final) return false;
    if (n_space == n || s[n_space] != '<') return pass(o, n_space), true;

    enum found f = take_markup(o, s + n_space, n - n_space, n_space);
    if (f == MORE && !final) return false;
    /* Cut short: a call that has barely begun is dropped, a "<" was text. */
    if (f == MORE && n - n_space >= strlen("<function="))
        output_consume(o, n);
    else if (f != YES)
        pass(o, n_space + 1);
    return true;
}

/* Drops white space and left-over closers behind a call; sees whether another follows. */
static bool step_after_call(struct hg_output *o, const char *s, size_t n, bool final)
{
    static const char *const closers[] = {"</tool_call>", "</function>", "</parameter>", NULL};
    int which;
    size_t n_name, n_space = output_count_space(s, n);
    output_consume(o, n_space);
    s += n_space;
    n -= n_space;
    if (!n) return false;
    enum found closer = output_at_any(s, n, closers, &which),
               function = output_at_function(s, n, &n_name);
    if (closer == YES)
        output_consume(o, strlen(closers[which]));
    else if (function == YES)
        output_open_function(o, n_name);
    else if ((closer == MORE || function == MORE) && !final)
        return false;
    else
        o->state = BASE;
    return true;
}

/* --------------------------------------------------------------------------------- public -- */

struct hg_output *hg_output_create(const struct hg_output_params *p)
{
    struct hg_output *o = calloc(1, sizeof *o);
    if (!o) return NULL;
    o->thinking = p->in_reasoning;
    o->tools = json_incref(p->tools);
    if (p->forced) hg_buf_str(&o->in, p->forced);
    return o;
}

void hg_output_free(struct hg_output *o)
{
    if (!o) return;
    json_decref(o->tools);
    hg_buf_fini(&o->in);
    hg_buf_fini(&o->pending);
    hg_buf_fini(&o->seen);
    hg_buf_fini(&o->value);
    free(o);
}

static bool step(struct hg_output *o, bool final)
{
    const char *s = o->in.data ? o->in.data + o->pos : "";
    size_t n = o->in.len - o->pos;
    switch (o->state) {
    case START: return step_start(o, s, n, final);
    case BASE: return step_base(o, s, n, final);
    case AFTER_CALL: return step_after_call(o, s, n, final);
    case PARAMS: return output_step_params(o, s, n, final);
    case VALUE: return output_step_value(o, s, n, final);
    case JSON: return output_step_json(o, s, n, final);
    case DONE: break;
    }
    return false;
}

static enum hg_status run(struct hg_output *o, const struct hg_output_sink *sink, bool final)
{
    o->sink = sink;
    while (step(o, final)) continue;
    hg_buf_shift(&o->in, o->pos);
    o->pos = 0;
    if (final && o->state == VALUE) output_end_value(o);
    if (final && o->state == PARAMS) {
        hg_buf_char(output_event_text(o, HG_EV_TOOL_ARGS), '}');
        output_close_call(o);
    }
    flush(o);
    if (final) o->state = DONE;
    bool oom = o->in.oom || o->pending.oom || o->seen.oom || o->value.oom;
    return oom ? HG_ENOMEM : HG_OK;
}

enum hg_status hg_output_feed(struct hg_output *o, const char *text, size_t n,
                              const struct hg_output_sink *sink)
{
    if (o->state != DONE) hg_buf_add(&o->in, text, n);
    return run(o, sink, false);
}

enum hg_status hg_output_finish(struct hg_output *o, const struct hg_output_sink *sink)
{
    return run(o, sink, true);
}

int32_t hg_output_n_calls(const struct hg_output *o)
{
    return o->n_calls;
}
