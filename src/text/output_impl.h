/* output_impl.h: the state of an output parser, shared by its files: output.c (reasoning and
 * text), output_call.c (calls in XML), output_json.c (calls in JSON).
 *
 * Each state has a step function. A step looks at the text that is left and either consumes
 * some of it or asks for more (returns false); what it does depends only on the text and never
 * on where a feed ends, hence the invariance under splits. Held back are at most: MAX_SPACE
 * bytes of white space, and a marker or tag that is not yet whole.
 *
 *   START -> BASE (reasoning or text) -> PARAMS <-> VALUE
 *              ^ |                         |
 *              | +-> JSON -----------+     |
 *              +------- AFTER_CALL <-+-----+
 */
#ifndef HG_TEXT_OUTPUT_IMPL_H
#define HG_TEXT_OUTPUT_IMPL_H

#include <jansson.h>

#include "base/buf.h"
#include "text/output.h"

enum {
    MAX_NAME = 256,         /* bytes of a function's name or a parameter's key */
    MAX_PARAMS = 1024,      /* of one call; more are dropped */
    MAX_SPACE = 1024,       /* white space held back in front of, or expected inside, markup */
    MAX_BUFFERED = 1 << 24, /* bytes of a value or JSON call parsed as a whole */
};

enum state { START, BASE, AFTER_CALL, PARAMS, VALUE, JSON, DONE };
enum found { NO, YES, MORE }; /* MORE: the text ends where it still could be */
enum kind {
    STREAMED, /* a string: escaped and passed on at once */
    BUFFERED, /* typed when it is whole */
    DROPPED
};

struct hg_output {
    enum state state;
    bool thinking;       /* BASE is reasoning, not text */
    bool strip_newlines; /* BASE has just begun */
    json_t *tools;
    const struct hg_output_sink *sink; /* during a feed */
    int32_t n_calls;

    struct hg_buf in; /* text from pos on is not consumed */
    size_t pos;
    struct hg_buf pending; /* of one event, sent when another kind follows or the feed ends */
    enum hg_event_type pending_type;

    /* of the call */
    json_t *root, *properties; /* borrowed from tools; NULL = unknown function */
    struct hg_buf seen;        /* "\nkey1\nkey2\n" */
    int32_t n_params;

    /* of the parameter */
    enum kind kind;
    json_t *schema;
    unsigned types;
    bool lead;  /* the newline behind the tag has still to be looked for */
    bool empty; /* nothing of the value consumed yet */

    struct hg_buf value; /* BUFFERED so far; in JSON: white space before the call, and the body */
    size_t n_space;      /* JSON: where the body begins in value */
    int32_t depth;       /* JSON: open braces and brackets */
    char quote;          /* JSON: the quote we are in, or 0 */
    bool escaped;        /* JSON: behind a backslash */
};

/* The buffer to append text of an event of this type to; it is sent when it must be. */
struct hg_buf *output_event_text(struct hg_output *o, enum hg_event_type type);
void output_open_call(struct hg_output *o, const char *name);
void output_close_call(struct hg_output *o);
static inline void output_consume(struct hg_output *o, size_t n)
{
    o->pos += n;
}

size_t output_count_space(const char *s, size_t n);
enum found output_at(const char *s, size_t n, const char *marker);
/* Whether one of `markers` (NULL at the end) stands at s; *which becomes its index. */
enum found output_at_any(const char *s, size_t n, const char *const *markers, int *which);
/* "<function=NAME>" at s; *n_name becomes the length of NAME. */
enum found output_at_function(const char *s, size_t n, size_t *n_name);

/* Opens the call whose "<function=NAME>" is next. */
void output_open_function(struct hg_output *o, size_t n_name);
/* Turns to the JSON call whose "{" is next; space[0..n_space) stood before "<tool_call>". */
void output_begin_json(struct hg_output *o, const char *space, size_t n_space);

/* Steps: s[0..n) is what is left; final: nothing follows. False = nothing to do without more. */
bool output_step_params(struct hg_output *o, const char *s, size_t n, bool final);
bool output_step_value(struct hg_output *o, const char *s, size_t n, bool final);
bool output_step_json(struct hg_output *o, const char *s, size_t n, bool final);
void output_end_value(struct hg_output *o);

#endif
