/* template_eval.c: executing statements; scopes, loops, macros, limits; hg_template_render.
 *
 * Scopes are those of jinja2: a loop's pass, a macro, a captured block and `with` have their own;
 * `if` has none. Names are looked up from the innermost scope outwards, a macro's from where it
 * was defined; `set` binds in the innermost. Text that is captured (set block, macro, ...) is
 * written to the end of the one output buffer and cut off again. */
#include "text/template_int.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------- failures and limits -- */

enum hg_status tmpl_fail(struct tmpl_run *r, const char *fmt, ...)
{
    char text[500];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tmpl_scrub(text);
    r->status = HG_EINVAL;
    return hg_fail(r->err, HG_EINVAL, "%s:%d: %s", r->t->name, r->line, text);
}

void *tmpl_alloc(struct tmpl_run *r, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > r->lim.memory ||
        r->mem.n_bytes > r->lim.memory - bytes) {
        tmpl_fail(r, "the values of this template need more than %zu bytes", r->lim.memory);
        return NULL;
    }
    void *p = hg_arena_alloc(&r->mem, bytes);
    if (!p) {
        tmpl_fail(r, "out of memory for %zu bytes", bytes);
        r->status = HG_ENOMEM;
        if (r->err) r->err->status = HG_ENOMEM;
    }
    return p;
}

enum hg_status tmpl_charge(struct tmpl_run *r, size_t n)
{
    r->n_steps += n / 64;
    if (r->n_steps <= r->lim.steps) return HG_OK;
    return tmpl_fail(r, "the template takes more than %llu steps",
                     (unsigned long long)r->lim.steps);
}

enum hg_status tmpl_enter(struct tmpl_run *r)
{
    if (++r->nesting > r->lim.nesting) return tmpl_fail(r, "nested deeper than %d", r->lim.nesting);
    return tmpl_charge(r, 64);
}

/* ----------------------------------------------------------------------------------- scopes -- */

static struct tmpl_scope *scope_push(struct tmpl_run *r, struct tmpl_scope *up)
{
    struct tmpl_scope *s = tmpl_alloc(r, 1, sizeof *s);
    if (!s) return NULL;
    s->up = up;
    return r->scope = s;
}

enum hg_status tmpl_set(struct tmpl_run *r, int sym, const struct tmpl_val *v)
{
    struct tmpl_scope *s = r->scope;
    if (!s) {
        r->globals[sym] = *v;
        return HG_OK;
    }
    size_t i = 0;
    while (i < s->n && s->sym[i] != sym) i++;
    HG_TRY(tmpl_charge(r, s->n));
    if (i == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 4;
        int *syms = tmpl_alloc(r, cap, sizeof *syms);
        struct tmpl_val *vals = tmpl_alloc(r, cap, sizeof *vals);
        if (!syms || !vals) return r->status;
        if (s->n) memcpy(syms, s->sym, s->n * sizeof *syms);
        if (s->n) memcpy(vals, s->v, s->n * sizeof *vals);
        s->sym = syms;
        s->v = vals;
        s->cap = cap;
    }
    s->sym[i] = sym;
    s->v[i] = *v;
    if (i == s->n) s->n++;
    return HG_OK;
}

enum hg_status tmpl_assign(struct tmpl_run *r, const struct tmpl_node *target,
                           const struct tmpl_val *v)
{
    r->line = target->line;
    if (target->kind == T_NAME) return tmpl_set(r, target->sym, v);
    if (target->kind == T_NSREF) {
        struct tmpl_node name = {.kind = T_NAME, .line = target->line, .sym = target->sym};
        struct tmpl_val ns;
        HG_TRY(tmpl_eval(r, &name, &ns));
        if (ns.kind != TV_NS)
            return tmpl_fail(r, "cannot assign attribute on non-namespace object");
        return tmpl_put(r, ns.dict, &target->val, v);
    }
    struct tmpl_list *l;
    HG_TRY(tmpl_items(r, v, &l));
    if (l->n != target->n_kids)
        return tmpl_fail(r, "%s values to unpack (expected %zu, got %zu)",
                         l->n < target->n_kids ? "not enough" : "too many", target->n_kids, l->n);
    for (size_t i = 0; i < l->n; i++) HG_TRY(tmpl_assign(r, target->kids[i], &l->v[i]));
    return HG_OK;
}

/* Runs the body in a scope of its own and takes back what it printed. */
static enum hg_status capture(struct tmpl_run *r, struct tmpl_node *const *body, size_t n,
                              struct tmpl_val *out)
{
    struct tmpl_scope *was = r->scope;
    size_t mark = r->out.len;
    if (!scope_push(r, was)) return r->status;
    r->n_captures++;
    HG_TRY(tmpl_exec(r, body, n));
    r->n_captures--;
    r->scope = was;
    return tmpl_take(r, mark, out);
}

/* Filters (n->b, over T_INPUT) of what the block prints; nothing when it left by break. */
static enum hg_status filtered(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_val *out)
{
    struct tmpl_val was = r->input;
    HG_TRY(capture(r, n->kids, n->n_kids, &r->input));
    if (r->flow == TMPL_GO) HG_TRY(tmpl_eval(r, n->b, out));
    r->input = was;
    return HG_OK;
}

/* ----------------------------------------------------------------------------------- macros -- */

static enum hg_status bind_params(struct tmpl_run *r, const struct tmpl_node *def,
                                  const struct tmpl_args *args)
{
    static const char hint[] = "a parameter of the macro was not provided";
    for (size_t i = 0; i < def->n_params; i++) {
        const struct tmpl_node *p = def->params[i];
        const struct tmpl_val *given =
            args->kw ? tmpl_dict_get(args->kw, p->val.s, p->val.n) : NULL;
        struct tmpl_val v = tmpl_undef(TU_HINT, hint, sizeof hint - 1);
        if (i < args->n_pos && given)
            return tmpl_fail(r, "macro got two values for '%.*s'",
                             (int)(p->val.n > 100 ? 100 : p->val.n), p->val.s);
        if (i < args->n_pos)
            v = args->pos[i];
        else if (given)
            v = *given;
        else if (p->a)
            HG_TRY(tmpl_eval(r, p->a, &v));
        HG_TRY(tmpl_set(r, p->sym, &v));
    }
    return HG_OK;
}

/* Keywords that are no parameters go to `caller` and `kwargs`, surplus values to `varargs`, in
 * macros that mention those names. */
static enum hg_status bind_rest(struct tmpl_run *r, const struct tmpl_node *def,
                                const struct tmpl_args *args)
{
    static const char hint[] = "No caller defined";
    struct tmpl_val caller = tmpl_undef(TU_HINT, hint, sizeof hint - 1);
    struct tmpl_dict *rest = tmpl_dict_new(r, 0);
    struct tmpl_list *more = tmpl_list_new(r, 0);
    if (!rest || !more) return r->status;
    if (args->kw) HG_TRY(tmpl_charge(r, args->kw->n * def->n_params));
    for (size_t i = 0; args->kw && i < args->kw->n; i++) {
        const struct tmpl_val *k = &args->kw->k[i];
        bool known = false;
        for (size_t p = 0; p < def->n_params; p++)
            known |=
                k->n == def->params[p]->val.n && memcmp(k->s, def->params[p]->val.s, k->n) == 0;
        if (known) continue;
        if ((def->op & TC_CALLER) && tmpl_is(k, "caller"))
            caller = args->kw->v[i];
        else if (def->op & TC_KWARGS)
            HG_TRY(tmpl_put(r, rest, k, &args->kw->v[i]));
        else
            return tmpl_fail(r, "macro '%.*s' takes no keyword argument '%.*s'",
                             (int)(def->val.n > 100 ? 100 : def->val.n), def->val.s,
                             (int)(k->n > 100 ? 100 : k->n), k->s);
    }
    if (args->n_pos > def->n_params && !(def->op & TC_VARARGS))
        return tmpl_fail(r, "macro '%.*s' takes not more than %zu argument(s)",
                         (int)(def->val.n > 100 ? 100 : def->val.n), def->val.s, def->n_params);
    for (size_t i = def->n_params; i < args->n_pos; i++) HG_TRY(tmpl_push(r, more, &args->pos[i]));
    struct tmpl_val kwargs = {.kind = TV_DICT, .dict = rest}, varargs = tmpl_box(TV_TUPLE, more);
    if (def->op & TC_CALLER) HG_TRY(tmpl_set(r, r->t->sym_caller, &caller));
    if (def->op & TC_KWARGS) HG_TRY(tmpl_set(r, r->t->sym_kwargs, &kwargs));
    return def->op & TC_VARARGS ? tmpl_set(r, r->t->sym_varargs, &varargs) : HG_OK;
}

enum hg_status tmpl_call_macro(struct tmpl_run *r, const struct tmpl_macro *m,
                               const struct tmpl_args *args, struct tmpl_val *out)
{
    struct tmpl_scope *was = r->scope;
    if (++r->n_calls > r->lim.calls)
        return tmpl_fail(r, "macro calls nested deeper than %d", r->lim.calls);
    if (!scope_push(r, m->scope)) return r->status;
    if (m->def->op || (args->kw && args->kw->n) || args->n_pos > m->def->n_params)
        HG_TRY(bind_rest(r, m->def, args));
    HG_TRY(bind_params(r, m->def, args));
    HG_TRY(capture(r, m->def->kids, m->def->n_kids, out));
    r->scope = was;
    r->n_calls--;
    return HG_OK;
}

static enum hg_status make_macro(struct tmpl_run *r, const struct tmpl_node *def,
                                 struct tmpl_val *out)
{
    struct tmpl_macro *m = tmpl_alloc(r, 1, sizeof *m);
    if (!m) return r->status;
    *m = (struct tmpl_macro){.def = def, .scope = r->scope};
    *out = (struct tmpl_val){.kind = TV_MACRO, .macro = m};
    return HG_OK;
}

static enum hg_status exec_call_block(struct tmpl_run *r, const struct tmpl_node *n)
{
    static const struct tmpl_val key = {.kind = TV_STR, .n = 6, .s = "caller"};
    struct tmpl_val f, caller, v;
    struct tmpl_args args;
    HG_TRY(tmpl_eval(r, n->a->a, &f));
    HG_TRY(tmpl_eval_args(r, n->a, &args));
    HG_TRY(make_macro(r, n->other, &caller));
    struct tmpl_dict *kw = tmpl_dict_new(r, 1);
    if (!kw) return r->status;
    for (size_t i = 0; args.kw && i < args.kw->n; i++)
        HG_TRY(tmpl_put(r, kw, &args.kw->k[i], &args.kw->v[i]));
    HG_TRY(tmpl_put(r, kw, &key, &caller));
    args.kw = kw;
    r->line = n->line;
    HG_TRY(tmpl_call(r, &f, &args, &v));
    return tmpl_write(r, &v);
}

/* ------------------------------------------------------------------------------------ loops -- */

/* Moves l->next behind the next item that the loop's `if` lets through; *found: there is one. */
static enum hg_status loop_seek(struct tmpl_run *r, struct tmpl_loop *l, struct tmpl_val *item,
                                size_t *at, bool *found)
{
    struct tmpl_scope *was = r->scope;
    for (*found = false; !*found && l->next < l->items->n;) {
        *at = l->from ? l->from[l->next] : l->next;
        *item = l->items->v[l->next++];
        *found = !l->def->c || l->from;
        if (*found) break;
        struct tmpl_val yes;
        if (!scope_push(r, l->around)) return r->status;
        HG_TRY(tmpl_assign(r, l->def->a, item));
        HG_TRY(tmpl_eval(r, l->def->c, &yes));
        r->scope = was;
        *found = tmpl_truth(&yes);
    }
    return HG_OK;
}

enum hg_status tmpl_loop_peek(struct tmpl_run *r, struct tmpl_loop *l)
{
    if (l->has_peeked) return HG_OK;
    return loop_seek(r, l, &l->peeked, &l->peeked_at, &l->has_peeked);
}

enum hg_status tmpl_loop_rest(struct tmpl_run *r, struct tmpl_loop *l)
{
    if (!l->def->c || l->from) return HG_OK;
    size_t n = l->items->n - l->next, *from = tmpl_alloc(r, n, sizeof *from);
    struct tmpl_list *rest = tmpl_list_new(r, n);
    if (!from || !rest) return r->status;
    for (bool found = true; found;) {
        struct tmpl_val item;
        HG_TRY(loop_seek(r, l, &item, &from[rest->n < n ? rest->n : 0], &found));
        if (found) HG_TRY(tmpl_push(r, rest, &item));
    }
    l->items = rest;
    l->next = 0;
    l->from = from;
    return HG_OK;
}

static enum hg_status loop_next(struct tmpl_run *r, struct tmpl_loop *l, bool *found)
{
    l->before = l->current;
    if (l->has_peeked) {
        l->has_peeked = false;
        l->current = l->peeked;
        l->at = l->peeked_at;
        *found = true;
    } else {
        HG_TRY(loop_seek(r, l, &l->current, &l->at, found));
    }
    l->index0 += *found;
    return HG_OK;
}

/* The message loop at hand: where the passes began to print. */
struct marks {
    size_t *starts, n, before;
};

static enum hg_status marks_begin(struct tmpl_run *r, const struct tmpl_list *items,
                                  struct marks *m)
{
    if (items != r->messages || r->n_captures || r->in_messages) return HG_OK;
    m->starts = tmpl_alloc(r, items->n + 1, sizeof *m->starts);
    if (!m->starts) return r->status;
    m->before = r->out.len;
    r->in_messages = true;
    return HG_OK;
}

/* All messages up to `to` that have no start yet start here. */
static void marks_fill(struct tmpl_run *r, struct marks *m, size_t to)
{
    while (m->starts && m->n <= to) m->starts[m->n++] = r->out.len;
}

static void marks_end(struct tmpl_run *r, struct marks *m, size_t n_items)
{
    if (!m->starts) return;
    marks_fill(r, m, n_items);
    r->in_messages = false;
    if (r->out.len == m->before) return;
    r->starts = m->starts;
    r->n_starts = m->n;
}

static enum hg_status exec_for(struct tmpl_run *r, const struct tmpl_node *n)
{
    struct tmpl_scope *was = r->scope, *own;
    struct tmpl_val source, loop_val;
    struct marks marks = {0};
    bool whole = false; /* jinja2's else: also when each pass was left by break or continue */
    HG_TRY(tmpl_eval(r, n->b, &source));
    struct tmpl_loop *l = tmpl_alloc(r, 1, sizeof *l);
    if (!l) return r->status;
    HG_TRY(tmpl_items(r, &source, &l->items));
    const struct tmpl_list *items = l->items;
    l->def = n;
    l->around = was;
    l->index0 = -1;
    loop_val = (struct tmpl_val){.kind = TV_LOOP, .loop = l};
    HG_TRY(marks_begin(r, items, &marks));
    if (!(own = scope_push(r, was))) return r->status;
    for (;;) {
        bool found;
        r->scope = was;
        r->line = n->line;
        HG_TRY(tmpl_charge(r, 64));
        HG_TRY(loop_next(r, l, &found));
        if (!found) break;
        marks_fill(r, &marks, l->at);
        r->scope = own;
        own->n = 0; /* each pass starts without the names of the one before */
        HG_TRY(tmpl_set(r, r->t->sym_loop, &loop_val));
        HG_TRY(tmpl_assign(r, n->a, &l->current));
        HG_TRY(tmpl_exec(r, n->kids, n->n_kids));
        bool leave = r->flow == TMPL_BREAK;
        whole |= r->flow == TMPL_GO;
        r->flow = TMPL_GO;
        if (leave) break;
    }
    r->scope = was;
    marks_end(r, &marks, items->n);
    if (whole || !n->other) return HG_OK;
    if (!scope_push(r, was)) return r->status;
    HG_TRY(tmpl_exec(r, n->other->kids, n->other->n_kids));
    r->scope = was;
    return HG_OK;
}

/* ------------------------------------------------------------------------------- statements -- */

static enum hg_status exec_if(struct tmpl_run *r, const struct tmpl_node *n)
{
    for (size_t i = 0; i < n->n_kids; i++) {
        const struct tmpl_node *branch = n->kids[i];
        struct tmpl_val v = tmpl_bool(true);
        if (branch->a) HG_TRY(tmpl_eval(r, branch->a, &v));
        if (tmpl_truth(&v)) return tmpl_exec(r, branch->kids, branch->n_kids);
    }
    return HG_OK;
}

/* `with` and plain scopes. The values of `with` are evaluated outside of it, as in jinja2. */
static enum hg_status exec_scope(struct tmpl_run *r, const struct tmpl_node *n)
{
    struct tmpl_scope *was = r->scope;
    struct tmpl_list *values = tmpl_list_new(r, n->n_params);
    if (!values) return r->status;
    for (size_t i = 0; i < n->n_params; i++) HG_TRY(tmpl_eval(r, n->params[i]->b, &values->v[i]));
    if (!scope_push(r, was)) return r->status;
    for (size_t i = 0; i < n->n_params; i++) HG_TRY(tmpl_assign(r, n->params[i]->a, &values->v[i]));
    HG_TRY(tmpl_exec(r, n->kids, n->n_kids));
    r->scope = was;
    return HG_OK;
}

static enum hg_status exec_one(struct tmpl_run *r, const struct tmpl_node *n)
{
    struct tmpl_val v;
    switch ((enum tmpl_node_kind)n->kind) {
    case T_DATA: return tmpl_write(r, &n->val);
    case T_PRINT: HG_TRY(tmpl_eval(r, n->a, &v)); return tmpl_write(r, &v);
    case T_IF: return exec_if(r, n);
    case T_FOR: return exec_for(r, n);
    case T_SET: HG_TRY(tmpl_eval(r, n->b, &v)); return tmpl_assign(r, n->a, &v);
    case T_SET_BLOCK:
        HG_TRY(filtered(r, n, &v));
        return r->flow == TMPL_GO ? tmpl_assign(r, n->a, &v) : HG_OK;
    case T_FILTER_BLOCK:
        HG_TRY(filtered(r, n, &v));
        return r->flow == TMPL_GO ? tmpl_write(r, &v) : HG_OK;
    case T_MACRO: HG_TRY(make_macro(r, n, &v)); return tmpl_set(r, n->sym, &v);
    case T_CALL_BLOCK: return exec_call_block(r, n);
    case T_WITH:
    case T_SCOPE: return exec_scope(r, n);
    case T_BREAK: r->flow = TMPL_BREAK; return HG_OK;
    case T_CONTINUE: r->flow = TMPL_CONTINUE; return HG_OK;
    default: return tmpl_fail(r, "no statement: node %d", n->kind);
    }
}

enum hg_status tmpl_exec(struct tmpl_run *r, struct tmpl_node *const *body, size_t n)
{
    for (size_t i = 0; i < n && r->flow == TMPL_GO; i++) {
        r->line = body[i]->line;
        HG_TRY(tmpl_enter(r));
        HG_TRY(exec_one(r, body[i]));
        tmpl_leave(r);
    }
    return HG_OK;
}

/* ----------------------------------------------------------------------------------- render -- */

/* Globals: the functions, then the caller's variables, of which only those that the template
 * names are converted. */
static enum hg_status set_globals(struct tmpl_run *r, struct json_t *vars)
{
    const struct tmpl_symbols *y = &r->t->syms;
    r->globals = tmpl_alloc(r, y->n, sizeof *r->globals);
    if (!r->globals) return r->status;
    for (int i = 0; i < TF_COUNT; i++)
        r->globals[r->t->sym_func[i]] = (struct tmpl_val){.kind = TV_FUNC, .i = i};
    for (size_t i = 0; vars && i < y->n; i++) {
        json_t *v = json_object_getn(vars, y->names[i].s, y->names[i].n);
        if (v) HG_TRY(tmpl_from_json(r, v, &r->globals[i]));
    }
    if (r->globals[r->t->sym_messages].kind == TV_LIST)
        r->messages = r->globals[r->t->sym_messages].list;
    return HG_OK;
}

static enum hg_status finish(struct tmpl_run *r, struct hg_rendered *out)
{
    size_t *starts = NULL;
    if (r->n_starts) {
        starts = malloc(r->n_starts * sizeof *starts);
        if (!starts) return hg_fail(r->err, HG_ENOMEM, "%s: out of memory", r->t->name);
        memcpy(starts, r->starts, r->n_starts * sizeof *starts);
    }
    out->text = hg_buf_take(&r->out, &out->n);
    if (!out->text) {
        free(starts);
        return hg_fail(r->err, HG_ENOMEM, "%s: out of memory", r->t->name);
    }
    out->text[out->n] = 0; /* what was captured is cut off without a new end */
    out->starts = starts;
    out->n_starts = r->n_starts;
    return HG_OK;
}

enum hg_status tmpl_render(const struct hg_template *t, struct json_t *vars,
                           const struct tmpl_limits *lim, struct hg_rendered *out,
                           struct hg_err *err)
{
    struct tmpl_run r = {.t = t, .lim = *lim, .err = err, .line = 1};
    *out = (struct hg_rendered){0};
    hg_arena_init(&r.mem);
    hg_buf_init(&r.out);
    enum hg_status s = set_globals(&r, vars);
    if (s == HG_OK) s = tmpl_exec(&r, t->root->kids, t->root->n_kids);
    if (s == HG_OK) s = finish(&r, out);
    hg_arena_fini(&r.mem);
    hg_buf_fini(&r.out);
    return s;
}

enum hg_status hg_template_render(const struct hg_template *t, struct json_t *vars,
                                  struct hg_rendered *out, struct hg_err *err)
{
    static const struct tmpl_limits limits = {.steps = HG_TEMPLATE_MAX_STEPS,
                                              .calls = HG_TEMPLATE_MAX_DEPTH,
                                              .nesting = TMPL_MAX_NESTING,
                                              .output = HG_TEMPLATE_MAX_OUTPUT,
                                              .memory = TMPL_MAX_MEMORY};
    return tmpl_render(t, vars, &limits, out, err);
}

void hg_rendered_fini(struct hg_rendered *r)
{
    free(r->text);
    free(r->starts);
    *r = (struct hg_rendered){0};
}
