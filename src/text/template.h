/* template.h: chat templates, a Jinja subset that runs the published Qwen templates as they are.
 *
 * Values are jansson values plus undefined, macros and namespaces. Semantics follow jinja2 with
 * the settings of transformers' apply_chat_template: trim_blocks, lstrip_blocks, loopcontrols,
 * tojson with ", " and ": " separators, ensure_ascii=false, order kept; raise_exception,
 * strftime_now. Bounded: see the limits below; the error says the template's line. */
#ifndef HG_TEXT_TEMPLATE_H
#define HG_TEXT_TEMPLATE_H

#include "base/err.h"

struct json_t;
struct hg_template;

enum {
    HG_TEMPLATE_MAX_STEPS = 50 * 1000 * 1000, /* evaluated nodes per render */
    HG_TEMPLATE_MAX_DEPTH = 100,              /* nested macro calls; of evaluations: 1000 */
    HG_TEMPLATE_MAX_OUTPUT = 256 << 20        /* bytes */
};

/* Compiles. `name` is for messages. Errors: EFORMAT with the line. */
enum hg_status hg_template_parse(const char *name, const char *src, size_t n,
                                 struct hg_template **out, struct hg_err *err);
void hg_template_free(struct hg_template *t);

struct hg_rendered {
    char *text; /* malloc'd, NUL-terminated */
    size_t n;
    /* Byte offsets in text at which the output of messages[i] starts: recorded when a `for` over
     * the variable `messages` itself begins its i-th pass (the last such loop that wrote output
     * counts). starts[n_starts-1] is the end of the last message: where the generation prompt
     * starts. Ascending. n_starts is 0 when the template has no such loop. */
    size_t *starts;
    size_t n_starts;
};
void hg_rendered_fini(struct hg_rendered *r);

/* vars: object with the template's variables (messages, tools, add_generation_prompt, ...).
 * Errors: EINVAL for raise_exception (its text) and for run-time errors (with the line). */
enum hg_status hg_template_render(const struct hg_template *t, struct json_t *vars,
                                  struct hg_rendered *out, struct hg_err *err);

#endif
