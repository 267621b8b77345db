/* template_int.h: what the files of the template interpreter share.
 *
 *     template_lex.c    source -> tokens           template_value.c   truth, equality, order, items
 *     template_parse.c  tokens -> statements       template_str.c     text by code points
 *     template_ast.c    tokens -> expressions      template_json.c    str(), repr(), tojson
 *     template_eval.c   statements, rendering      template_filters.c filters on sequences
 *     template_expr.c   expressions, calls         template_convert.c filters on text and numbers
 *     template_attr.c   attributes, items, slices  template_tests.c   tests
 *     template_method.c str's methods
 *
 * Memory: the syntax tree lives in the template's arena, every value of a render in the render's.
 * A tree is read-only after parsing, so any number of threads may render it. */
#ifndef HG_TEXT_TEMPLATE_INT_H
#define HG_TEXT_TEMPLATE_INT_H

#include "base/arena.h"
#include "base/buf.h"
#include "text/template.h"
#include "text/template_ast.h"
#include "text/template_value.h"

/* ------------------------------------------------------------------------- callable things -- */

/* A filter, a test or a method: a[] holds the declared parameters, TV_MISSING where not given. */
typedef enum hg_status tmpl_fn(struct tmpl_run *r, const struct tmpl_val *self,
                               const struct tmpl_val *a, struct tmpl_val *out);

enum { TMPL_MAX_PARAMS = 6 };
struct tmpl_def {
    const char *name;
    tmpl_fn *fn;
    const char *params; /* "d,attribute" */
    int n_required;
};

struct tmpl_bound {
    const struct tmpl_def *def; /* NULL: a method of `loop`, named by loop_method */
    const char *loop_method;
    struct tmpl_val self;
};

struct tmpl_args {
    const struct tmpl_val *pos;
    size_t n_pos;
    const struct tmpl_dict *kw; /* string keys; NULL when none */
};

/* -------------------------------------------------------------------------------- render -- */

enum { TMPL_MAX_NESTING = 1000, TMPL_MAX_MEMORY = 512 << 20 };

struct tmpl_limits {
    uint64_t steps;
    int calls;     /* macros within macros */
    int nesting;   /* evaluations within evaluations: bounds the C stack */
    size_t output; /* bytes */
    size_t memory; /* bytes of values */
};

struct tmpl_scope {
    struct tmpl_scope *up; /* NULL: globals come next */
    int *sym;
    struct tmpl_val *v;
    size_t n, cap;
};

struct tmpl_loop {
    struct tmpl_list *items;
    const struct tmpl_node *def; /* T_FOR */
    struct tmpl_scope *around;   /* in which the loop's `if` is evaluated */
    size_t next;                 /* item that the source gives next */
    size_t *from;                /* places in the source, once tmpl_loop_rest() thinned items */
    size_t at, peeked_at;        /* places in the source of current and of peeked */
    int64_t index0;
    struct tmpl_val before, current, peeked;
    bool has_peeked;
    struct tmpl_val changed; /* last arguments of loop.changed() */
};

enum tmpl_flow { TMPL_GO, TMPL_BREAK, TMPL_CONTINUE };

struct tmpl_run {
    const struct hg_template *t;
    struct tmpl_limits lim;
    struct hg_arena mem;
    struct hg_buf out;
    struct hg_err *err;
    enum hg_status status;    /* of the failure, once one happened */
    struct tmpl_val *globals; /* [t->syms.n] */
    struct tmpl_scope *scope; /* innermost; NULL at the top */
    struct tmpl_val input;    /* value of T_INPUT */
    enum tmpl_flow flow;
    int line, nesting, n_calls, n_captures;
    uint64_t n_steps;
    char *tail; /* end of the last concatenation, which may grow in place */
    size_t tail_room;
    const struct tmpl_list *messages;
    bool in_messages;
    size_t *starts, n_starts;
};

enum hg_status tmpl_render(const struct hg_template *t, struct json_t *vars,
                           const struct tmpl_limits *lim, struct hg_rendered *out,
                           struct hg_err *err);

/* Fails the render with "name:line: ...". */
enum hg_status tmpl_fail(struct tmpl_run *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Zeroed memory of the render, or NULL with r->status set. */
void *tmpl_alloc(struct tmpl_run *r, size_t n, size_t size);
/* Counts work: a step for each 64 bytes or items touched. */
enum hg_status tmpl_charge(struct tmpl_run *r, size_t n);
enum hg_status tmpl_enter(struct tmpl_run *r); /* one more nested evaluation */
static inline void tmpl_leave(struct tmpl_run *r)
{
    r->nesting--;
}

enum hg_status tmpl_exec(struct tmpl_run *r, struct tmpl_node *const *body, size_t n);
enum hg_status tmpl_call_macro(struct tmpl_run *r, const struct tmpl_macro *m,
                               const struct tmpl_args *args, struct tmpl_val *out);
enum hg_status tmpl_set(struct tmpl_run *r, int sym, const struct tmpl_val *v);
enum hg_status tmpl_assign(struct tmpl_run *r, const struct tmpl_node *target,
                           const struct tmpl_val *v);
/* Looks one item ahead, past those that the loop's `if` refuses. */
enum hg_status tmpl_loop_peek(struct tmpl_run *r, struct tmpl_loop *l);
/* Applies the `if` to all that is left, so that items->n - next can be counted. */
enum hg_status tmpl_loop_rest(struct tmpl_run *r, struct tmpl_loop *l);
enum hg_status tmpl_loop_attr(struct tmpl_run *r, struct tmpl_loop *l, const char *s, size_t n,
                              struct tmpl_val *out);
enum hg_status tmpl_loop_call(struct tmpl_run *r, const struct tmpl_bound *m,
                              const struct tmpl_args *args, struct tmpl_val *out);

enum hg_status tmpl_eval(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_val *out);
enum hg_status tmpl_call(struct tmpl_run *r, const struct tmpl_val *f, const struct tmpl_args *args,
                         struct tmpl_val *out);
/* Evaluates the arguments of a call, filter or test. */
enum hg_status tmpl_eval_args(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_args *out);
/* Puts args where def's parameters say, and calls. */
enum hg_status tmpl_call_def(struct tmpl_run *r, const struct tmpl_def *def,
                             const struct tmpl_val *self, const struct tmpl_args *args,
                             struct tmpl_val *out);
enum hg_status tmpl_binary(struct tmpl_run *r, enum tmpl_tok_kind op, const struct tmpl_val *a,
                           const struct tmpl_val *b, struct tmpl_val *out);

enum hg_status tmpl_get_attr(struct tmpl_run *r, const struct tmpl_val *o, const char *name,
                             size_t n, struct tmpl_val *out);
enum hg_status tmpl_get_item(struct tmpl_run *r, const struct tmpl_val *o,
                             const struct tmpl_val *key, struct tmpl_val *out);
enum hg_status tmpl_slice(struct tmpl_run *r, const struct tmpl_val *o, const struct tmpl_val *lo,
                          const struct tmpl_val *hi, const struct tmpl_val *step,
                          struct tmpl_val *out);

enum hg_status tmpl_filter(struct tmpl_run *r, const char *name, size_t n,
                           const struct tmpl_val *self, const struct tmpl_args *args,
                           struct tmpl_val *out);
enum hg_status tmpl_test(struct tmpl_run *r, const char *name, size_t n,
                         const struct tmpl_val *self, const struct tmpl_args *args, bool *out);
bool tmpl_has_filter(const char *name, size_t n);
extern const struct tmpl_def tmpl_convert_filters[]; /* ends with a row of zeros */
const struct tmpl_def *tmpl_str_method(const char *name, size_t n);
const struct tmpl_def *tmpl_find_def(const struct tmpl_def *defs, const char *name, size_t n);

#endif
