/* template_expr.c: evaluating expressions; operators, calls and the global functions. */
#include "text/template_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_RANGE = 100000 }; /* items, as in jinja2's sandbox */

static enum hg_status eval_name(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_val *out)
{
    for (const struct tmpl_scope *s = r->scope; s; s = s->up) {
        for (size_t i = 0; i < s->n; i++) {
            if (s->sym[i] != n->sym) continue;
            *out = s->v[i];
            return HG_OK;
        }
        HG_TRY(tmpl_charge(r, s->n));
    }
    *out = r->globals[n->sym];
    if (out->kind == TV_MISSING) *out = tmpl_undef(TU_NAME, n->val.s, n->val.n);
    return HG_OK;
}

static enum hg_status eval_list(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_val *out)
{
    struct tmpl_list *l = tmpl_list_new(r, n->n_kids);
    if (!l) return r->status;
    for (size_t i = 0; i < n->n_kids; i++) HG_TRY(tmpl_eval(r, n->kids[i], &l->v[i]));
    l->n = n->n_kids;
    *out = tmpl_box(n->kind == T_TUPLE ? TV_TUPLE : TV_LIST, l);
    return HG_OK;
}

static enum hg_status eval_dict(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_val *out)
{
    struct tmpl_dict *d = tmpl_dict_new(r, n->n_kids / 2);
    if (!d) return r->status;
    for (size_t i = 0; i < n->n_kids; i += 2) {
        struct tmpl_val k, v;
        HG_TRY(tmpl_eval(r, n->kids[i], &k));
        HG_TRY(tmpl_eval(r, n->kids[i + 1], &v));
        HG_TRY(tmpl_put(r, d, &k, &v));
    }
    *out = (struct tmpl_val){.kind = TV_DICT, .dict = d};
    return HG_OK;
}

static enum hg_status eval_item(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_val *out)
{
    struct tmpl_val o, part[3] = {{0}};
    HG_TRY(tmpl_eval(r, n->a, &o));
    if (n->kind == T_ATTR) {
        r->line = n->line;
        return tmpl_get_attr(r, &o, n->val.s, n->val.n, out);
    }
    if (n->kind == T_ITEM) {
        HG_TRY(tmpl_eval(r, n->b, &part[0]));
        r->line = n->line;
        return tmpl_get_item(r, &o, &part[0], out);
    }
    for (int i = 0; i < 3; i++)
        if (n->kids[i]) HG_TRY(tmpl_eval(r, n->kids[i], &part[i]));
    r->line = n->line;
    return tmpl_slice(r, &o, &part[0], &part[1], &part[2], out);
}

/* -------------------------------------------------------------------------------- operators -- */

static enum hg_status int_pow(struct tmpl_run *r, int64_t base, int64_t exp, struct tmpl_val *out)
{
    int64_t v = 1;
    for (; exp > 0; exp >>= 1) {
        if ((exp & 1) && __builtin_mul_overflow(v, base, &v)) goto over;
        if (exp > 1 && __builtin_mul_overflow(base, base, &base)) goto over;
    }
    *out = tmpl_int(v);
    return HG_OK;
over:
    return tmpl_fail(r, "integer overflow in **");
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static enum hg_status int_binary(struct tmpl_run *r, enum tmpl_tok_kind op, int64_t a, int64_t b,
                                 struct tmpl_val *out)
{
    int64_t v = 0;
    bool over = false;
    if ((op == TK_DIV || op == TK_FLOORDIV || op == TK_MOD) && b == 0)
        return tmpl_fail(r, "division by zero");
    switch (op) {
    case TK_ADD: over = __builtin_add_overflow(a, b, &v); break;
    case TK_SUB: over = __builtin_sub_overflow(a, b, &v); break;
    case TK_MUL: over = __builtin_mul_overflow(a, b, &v); break;
    case TK_DIV: *out = tmpl_float((double)((long double)a / (long double)b)); return HG_OK;
    case TK_FLOORDIV:
        over = b == -1 && a == INT64_MIN;
        if (!over) v = floor_div(a, b);
        break;
    case TK_MOD: v = b == -1 ? 0 : a - b * floor_div(a, b); break;
    default:
        if (b >= 0) return int_pow(r, a, b, out);
        if (a == 0) return tmpl_fail(r, "0.0 cannot be raised to a negative power");
        *out = tmpl_float(pow((double)a, (double)b));
        return HG_OK;
    }
    if (over) return tmpl_fail(r, "integer overflow");
    *out = tmpl_int(v);
    return HG_OK;
}

static enum hg_status float_binary(struct tmpl_run *r, enum tmpl_tok_kind op, double a, double b,
                                   struct tmpl_val *out)
{
    double v;
    if ((op == TK_DIV || op == TK_FLOORDIV || op == TK_MOD) && b == 0)
        return tmpl_fail(r, "float division by zero");
    switch (op) {
    case TK_ADD: v = a + b; break;
    case TK_SUB: v = a - b; break;
    case TK_MUL: v = a * b; break;
    case TK_DIV: v = a / b; break;
    case TK_FLOORDIV:
    case TK_MOD: { /* as CPython's float_divmod: the remainder has the divisor's sign */
        double m = fmod(a, b), d = (a - m) / b;
        if (m != 0 && (b < 0) != (m < 0)) {
            m += b;
            d -= 1;
        } else if (m == 0) {
            m = copysign(0, b);
        }
        double f = d != 0 ? floor(d) : copysign(0, a / b);
        if (d - f > 0.5) f += 1;
        v = op == TK_MOD ? m : f;
        break;
    }
    default:
        if (a == 0 && b < 0) return tmpl_fail(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(b) && floor(b) != b)
            return tmpl_fail(r, "negative number to a fractional power");
        v = pow(a, b);
        if (isinf(v) && isfinite(a) && isfinite(b))
            return tmpl_fail(r, "floating-point overflow in **");
    }
    *out = tmpl_float(v);
    return HG_OK;
}

/* a * n of a string, list or tuple. */
static enum hg_status repeat(struct tmpl_run *r, const struct tmpl_val *a, int64_t n,
                             struct tmpl_val *out)
{
    size_t unit = a->kind == TV_STR ? a->n : a->list->n, total;
    if (n < 0) n = 0;
    if (__builtin_mul_overflow(unit, (size_t)n, &total) || total > r->lim.memory)
        return tmpl_fail(r, "repetition needs more than %zu bytes", r->lim.memory);
    HG_TRY(tmpl_charge(r, total));
    if (a->kind == TV_STR) {
        char *p = tmpl_alloc(r, total, 1);
        if (!p) return r->status;
        for (size_t at = 0; at < total; at += unit) memcpy(p + at, a->s, unit);
        *out = tmpl_strn(p, total);
        out->sub = a->sub;
        return HG_OK;
    }
    struct tmpl_list *l = tmpl_list_new(r, total);
    if (!l) return r->status;
    l->n = total;
    for (size_t i = 0; i < total; i++) l->v[i] = a->list->v[i % unit];
    *out = tmpl_box((enum tmpl_kind)a->kind, l);
    return HG_OK;
}

static enum hg_status add_sequences(struct tmpl_run *r, const struct tmpl_val *a,
                                    const struct tmpl_val *b, struct tmpl_val *out)
{
    struct tmpl_val x = *a, y = *b;
    if (a->kind == TV_STR) {
        if (a->sub != b->sub) HG_TRY(tmpl_escape(r, a->sub ? b : a, a->sub ? &y : &x));
        HG_TRY(tmpl_concat(r, &x, &y, out));
        out->sub = a->sub | b->sub;
        return HG_OK;
    }
    struct tmpl_list *l = tmpl_list_new(r, a->list->n + b->list->n);
    if (!l) return r->status;
    HG_TRY(tmpl_charge(r, 8 * (a->list->n + b->list->n)));
    for (size_t i = 0; i < a->list->n; i++) l->v[l->n++] = a->list->v[i];
    for (size_t i = 0; i < b->list->n; i++) l->v[l->n++] = b->list->v[i];
    *out = tmpl_box((enum tmpl_kind)a->kind, l);
    return HG_OK;
}

static bool is_sequence(const struct tmpl_val *v)
{
    return v->kind == TV_STR || v->kind == TV_LIST || v->kind == TV_TUPLE;
}

enum hg_status tmpl_binary(struct tmpl_run *r, enum tmpl_tok_kind op, const struct tmpl_val *a,
                           const struct tmpl_val *b, struct tmpl_val *out)
{
    static const char *const names[] = {
        [TK_ADD] = "+",       [TK_SUB] = "-", [TK_MUL] = "*", [TK_DIV] = "/",
        [TK_FLOORDIV] = "//", [TK_MOD] = "%", [TK_POW] = "**"};
    int64_t x, y;
    if (tmpl_as_int(a, &x) && tmpl_as_int(b, &y)) return int_binary(r, op, x, y, out);
    if (tmpl_is_number(a) && tmpl_is_number(b))
        return float_binary(r, op, tmpl_as_float(a), tmpl_as_float(b), out);
    if (op == TK_ADD && is_sequence(a) && a->kind == b->kind) return add_sequences(r, a, b, out);
    if (op == TK_MUL && is_sequence(a) && tmpl_as_int(b, &y)) return repeat(r, a, y, out);
    if (op == TK_MUL && is_sequence(b) && tmpl_as_int(a, &x)) return repeat(r, b, x, out);
    if (a->kind == TV_UNDEF || b->kind == TV_UNDEF)
        return tmpl_fail_undef(r, a->kind == TV_UNDEF ? a : b);
    if (op == TK_MOD && a->kind == TV_STR)
        return tmpl_fail(r, "formatting of strings with %% is not supported");
    return tmpl_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", names[op],
                     tmpl_type_name(a), tmpl_type_name(b));
}

static enum hg_status eval_sign(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_val *out)
{
    struct tmpl_val v;
    int64_t i;
    HG_TRY(tmpl_eval(r, n->a, &v));
    r->line = n->line;
    if (v.kind == TV_UNDEF) return tmpl_fail_undef(r, &v);
    if (v.kind == TV_FLOAT) {
        *out = tmpl_float(n->kind == T_NEG ? -v.f : v.f);
    } else if (tmpl_as_int(&v, &i)) {
        if (n->kind == T_NEG && i == INT64_MIN) return tmpl_fail(r, "integer overflow");
        *out = tmpl_int(n->kind == T_NEG ? -i : i);
    } else {
        return tmpl_fail(r, "bad operand type for unary %c: '%s'", n->kind == T_NEG ? '-' : '+',
                         tmpl_type_name(&v));
    }
    return HG_OK;
}

static enum hg_status eval_compare(struct tmpl_run *r, const struct tmpl_node *n,
                                   struct tmpl_val *out)
{
    struct tmpl_val left, right;
    bool yes = true;
    HG_TRY(tmpl_eval(r, n->a, &left));
    for (size_t i = 0; yes && i < n->n_kids; i++, left = right) {
        enum tmpl_tok_kind op = n->kids[i]->op;
        HG_TRY(tmpl_eval(r, n->kids[i]->a, &right));
        r->line = n->line;
        if (op == TK_EQ || op == TK_NE)
            HG_TRY(tmpl_equal(r, &left, &right, &yes));
        else if (op == TK_IN || op == TK_NOT_IN)
            HG_TRY(tmpl_contains(r, &right, &left, &yes));
        else
            HG_TRY(tmpl_order(r, op, &left, &right, &yes));
        if (op == TK_NE || op == TK_NOT_IN) yes = !yes;
    }
    *out = tmpl_bool(yes);
    return HG_OK;
}

static enum hg_status eval_concat(struct tmpl_run *r, const struct tmpl_node *n,
                                  struct tmpl_val *out)
{
    struct tmpl_val all = TMPL_STR(""), v;
    for (size_t i = 0; i < n->n_kids; i++) {
        HG_TRY(tmpl_eval(r, n->kids[i], &v));
        HG_TRY(tmpl_str(r, &v, &v));
        if (i == 0)
            all = tmpl_strn(v.s, v.n);
        else
            HG_TRY(tmpl_concat(r, &all, &v, &all));
    }
    *out = all;
    return HG_OK;
}

static enum hg_status eval_logic(struct tmpl_run *r, const struct tmpl_node *n,
                                 struct tmpl_val *out)
{
    HG_TRY(tmpl_eval(r, n->a, out));
    if (n->kind == T_NOT) {
        *out = tmpl_bool(!tmpl_truth(out));
    } else if (n->kind == T_COND) {
        if (tmpl_truth(out)) return tmpl_eval(r, n->b, out);
        if (n->c) return tmpl_eval(r, n->c, out);
        static const char hint[] = "the inline if-expression was false and has no else";
        *out = tmpl_undef(TU_HINT, hint, sizeof hint - 1);
    } else if (tmpl_truth(out) == (n->kind == T_AND)) {
        return tmpl_eval(r, n->b, out);
    }
    return HG_OK;
}

/* ------------------------------------------------------------------------------------ calls -- */

static enum hg_status star_args(struct tmpl_run *r, const struct tmpl_val *v, struct tmpl_list *pos)
{
    struct tmpl_list *l;
    HG_TRY(tmpl_items(r, v, &l));
    for (size_t i = 0; i < l->n; i++) HG_TRY(tmpl_push(r, pos, &l->v[i]));
    return HG_OK;
}

static enum hg_status keyword(struct tmpl_run *r, struct tmpl_dict *kw, const struct tmpl_val *k,
                              const struct tmpl_val *v)
{
    if (k->kind != TV_STR) return tmpl_fail(r, "keywords must be strings");
    if (tmpl_dict_get(kw, k->s, k->n))
        return tmpl_fail(r, "keyword argument '%.*s' is given twice",
                         (int)(k->n > 100 ? 100 : k->n), k->s);
    return tmpl_put(r, kw, k, v);
}

enum hg_status tmpl_eval_args(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_args *out)
{
    *out = (struct tmpl_args){0};
    if (n->n_kids == 0) return HG_OK;
    struct tmpl_list *pos = tmpl_list_new(r, n->n_kids);
    struct tmpl_dict *kw = tmpl_dict_new(r, 0);
    if (!pos || !kw) return r->status;
    for (size_t i = 0; i < n->n_kids; i++) {
        const struct tmpl_node *arg = n->kids[i];
        bool named = arg->kind == T_KWARG || arg->kind == T_STAR || arg->kind == T_DSTAR;
        struct tmpl_val v;
        HG_TRY(tmpl_eval(r, named ? arg->a : arg, &v));
        r->line = n->line;
        if (!named) {
            HG_TRY(tmpl_push(r, pos, &v));
        } else if (arg->kind == T_KWARG) {
            HG_TRY(keyword(r, kw, &arg->val, &v));
        } else if (arg->kind == T_STAR) {
            HG_TRY(star_args(r, &v, pos));
        } else {
            if (v.kind != TV_DICT) return tmpl_fail(r, "argument behind ** must be a mapping");
            for (size_t k = 0; k < v.dict->n; k++)
                HG_TRY(keyword(r, kw, &v.dict->k[k], &v.dict->v[k]));
        }
    }
    *out = (struct tmpl_args){.pos = pos->v, .n_pos = pos->n, .kw = kw};
    return HG_OK;
}

/* Place of the parameter s among "a,b,c"; -1: there is none. */
static int param_index(const char *params, const char *s, size_t n)
{
    for (int i = 0; *params; i++) {
        size_t k = strcspn(params, ",");
        if (k == n && memcmp(params, s, n) == 0) return i;
        params += k + (params[k] == ',');
    }
    return -1;
}

enum hg_status tmpl_call_def(struct tmpl_run *r, const struct tmpl_def *def,
                             const struct tmpl_val *self, const struct tmpl_args *args,
                             struct tmpl_val *out)
{
    struct tmpl_val a[TMPL_MAX_PARAMS] = {{0}};
    size_t n_params = *def->params != 0;
    for (const char *c = def->params; *c; c++) n_params += *c == ',';
    if (args->n_pos > n_params)
        return tmpl_fail(r, "%s takes at most %zu argument%s (%zu given)", def->name, n_params,
                         n_params == 1 ? "" : "s", args->n_pos);
    for (size_t i = 0; i < args->n_pos; i++) a[i] = args->pos[i];
    for (size_t i = 0; args->kw && i < args->kw->n; i++) {
        const struct tmpl_val *k = &args->kw->k[i];
        int at = param_index(def->params, k->s, k->n), shown = (int)(k->n > 100 ? 100 : k->n);
        if (at < 0)
            return tmpl_fail(r, "%s got an unexpected keyword argument '%.*s'", def->name, shown,
                             k->s);
        if (a[at].kind != TV_MISSING)
            return tmpl_fail(r, "%s got two values for argument '%.*s'", def->name, shown, k->s);
        a[at] = args->kw->v[i];
    }
    for (int i = 0; i < def->n_required; i++)
        if (a[i].kind == TV_MISSING)
            return tmpl_fail(r, "%s needs %d argument%s", def->name, def->n_required,
                             def->n_required == 1 ? "" : "s");
    return def->fn(r, self, a, out);
}

static enum hg_status func_range(struct tmpl_run *r, const struct tmpl_args *args,
                                 struct tmpl_val *out)
{
    int64_t v[3] = {0, 0, 1};
    if (args->n_pos < 1 || args->n_pos > 3 || (args->kw && args->kw->n))
        return tmpl_fail(r, "range takes 1 to 3 integers");
    for (size_t i = 0; i < args->n_pos; i++)
        if (!tmpl_as_int(&args->pos[i], &v[args->n_pos == 1 ? 1 : i]))
            return tmpl_fail(r, "range: '%s' object cannot be interpreted as an integer",
                             tmpl_type_name(&args->pos[i]));
    if (v[2] == 0) return tmpl_fail(r, "range: the step must not be zero");
    bool down = v[2] < 0;
    uint64_t span = down ? (v[0] > v[1] ? (uint64_t)v[0] - (uint64_t)v[1] : 0)
                         : (v[1] > v[0] ? (uint64_t)v[1] - (uint64_t)v[0] : 0);
    uint64_t stride = down ? 0 - (uint64_t)v[2] : (uint64_t)v[2];
    uint64_t n = span ? (span - 1) / stride + 1 : 0;
    if (n > MAX_RANGE) return tmpl_fail(r, "range of more than %d items", MAX_RANGE);
    struct tmpl_range *range = tmpl_alloc(r, 1, sizeof *range);
    if (!range) return r->status;
    *range = (struct tmpl_range){.start = v[0], .stop = v[1], .step = v[2], .n = (size_t)n};
    *out = (struct tmpl_val){.kind = TV_RANGE, .range = range};
    return HG_OK;
}

/* dict(mapping, k=v) and namespace(mapping, k=v). */
static enum hg_status func_dict(struct tmpl_run *r, enum tmpl_kind kind,
                                const struct tmpl_args *args, struct tmpl_val *out)
{
    struct tmpl_dict *d = tmpl_dict_new(r, args->kw ? args->kw->n : 0);
    if (!d) return r->status;
    if (args->n_pos > 1) return tmpl_fail(r, "dict expected at most 1 argument");
    const struct tmpl_val *from = args->n_pos ? &args->pos[0] : NULL;
    if (from && from->kind == TV_DICT) {
        for (size_t i = 0; i < from->dict->n; i++)
            HG_TRY(tmpl_put(r, d, &from->dict->k[i], &from->dict->v[i]));
    } else if (from) {
        struct tmpl_list *l, *pair;
        HG_TRY(tmpl_items(r, from, &l));
        for (size_t i = 0; i < l->n; i++) {
            HG_TRY(tmpl_items(r, &l->v[i], &pair));
            if (pair->n != 2) return tmpl_fail(r, "dict: item %zu is no pair", i);
            HG_TRY(tmpl_put(r, d, &pair->v[0], &pair->v[1]));
        }
    }
    for (size_t i = 0; args->kw && i < args->kw->n; i++)
        HG_TRY(tmpl_put(r, d, &args->kw->k[i], &args->kw->v[i]));
    *out = (struct tmpl_val){.kind = (uint8_t)kind, .dict = d};
    return HG_OK;
}

static enum hg_status one_arg(struct tmpl_run *r, const char *func, const struct tmpl_args *args,
                              const char *name, const struct tmpl_val **out)
{
    *out = args->n_pos == 1 ? &args->pos[0]
           : args->kw       ? tmpl_dict_get(args->kw, name, strlen(name))
                            : NULL;
    if (!*out || args->n_pos + (args->kw ? args->kw->n : 0) != 1)
        return tmpl_fail(r, "%s takes one argument", func);
    return HG_OK;
}

/* The message alone, as the template's author wrote it. */
static enum hg_status func_raise(struct tmpl_run *r, const struct tmpl_args *args)
{
    const struct tmpl_val *v;
    struct tmpl_val text;
    HG_TRY(one_arg(r, "raise_exception", args, "message", &v));
    HG_TRY(tmpl_str(r, v, &text));
    char cut[sizeof r->err->text];
    snprintf(cut, sizeof cut, "%.*s", (int)(text.n < sizeof cut ? text.n : sizeof cut), text.s);
    tmpl_scrub(cut);
    r->status = hg_fail(r->err, HG_EINVAL, "%s", cut);
    return r->status;
}

static enum hg_status func_strftime(struct tmpl_run *r, const struct tmpl_args *args,
                                    struct tmpl_val *out)
{
    const struct tmpl_val *v;
    char format[128], text[512];
    HG_TRY(one_arg(r, "strftime_now", args, "format", &v));
    if (v->kind != TV_STR || v->n >= sizeof format)
        return tmpl_fail(r, "strftime_now: the format must be a string below %zu bytes",
                         sizeof format);
    memcpy(format, v->s, v->n);
    format[v->n] = 0;
    time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    return tmpl_str_copy(r, text, strftime(text, sizeof text, format, &tm), out);
}

enum hg_status tmpl_call(struct tmpl_run *r, const struct tmpl_val *f, const struct tmpl_args *args,
                         struct tmpl_val *out)
{
    if (f->kind == TV_MACRO) return tmpl_call_macro(r, f->macro, args, out);
    if (f->kind == TV_METHOD && f->bound->def)
        return tmpl_call_def(r, f->bound->def, &f->bound->self, args, out);
    if (f->kind == TV_METHOD) return tmpl_loop_call(r, f->bound, args, out);
    if (f->kind == TV_UNDEF) return tmpl_fail_undef(r, f);
    if (f->kind != TV_FUNC) return tmpl_fail(r, "'%s' object is not callable", tmpl_type_name(f));
    switch ((enum tmpl_func)f->i) {
    case TF_RANGE: return func_range(r, args, out);
    case TF_DICT: return func_dict(r, TV_DICT, args, out);
    case TF_NAMESPACE: return func_dict(r, TV_NS, args, out);
    case TF_RAISE: return func_raise(r, args);
    default: return func_strftime(r, args, out);
    }
}

static enum hg_status eval_call(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_val *out)
{
    struct tmpl_val f;
    struct tmpl_args args;
    HG_TRY(tmpl_eval(r, n->a, &f));
    HG_TRY(tmpl_eval_args(r, n, &args));
    r->line = n->line;
    return tmpl_call(r, &f, &args, out);
}

static enum hg_status eval_filter(struct tmpl_run *r, const struct tmpl_node *n,
                                  struct tmpl_val *out)
{
    struct tmpl_val self;
    struct tmpl_args args;
    bool yes;
    HG_TRY(tmpl_eval(r, n->a, &self));
    HG_TRY(tmpl_eval_args(r, n, &args));
    r->line = n->line;
    if (n->kind == T_FILTER) return tmpl_filter(r, n->val.s, n->val.n, &self, &args, out);
    HG_TRY(tmpl_test(r, n->val.s, n->val.n, &self, &args, &yes));
    *out = tmpl_bool(yes);
    return HG_OK;
}

static enum hg_status eval_any(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_val *out)
{
    struct tmpl_val a, b;
    switch ((enum tmpl_node_kind)n->kind) {
    case T_CONST: *out = n->val; return HG_OK;
    case T_INPUT: *out = r->input; return HG_OK;
    case T_NAME: return eval_name(r, n, out);
    case T_LIST:
    case T_TUPLE: return eval_list(r, n, out);
    case T_DICT: return eval_dict(r, n, out);
    case T_ATTR:
    case T_ITEM:
    case T_SLICE: return eval_item(r, n, out);
    case T_CALL: return eval_call(r, n, out);
    case T_FILTER:
    case T_TEST: return eval_filter(r, n, out);
    case T_NEG:
    case T_POS: return eval_sign(r, n, out);
    case T_NOT:
    case T_AND:
    case T_OR:
    case T_COND: return eval_logic(r, n, out);
    case T_CONCAT: return eval_concat(r, n, out);
    case T_COMPARE: return eval_compare(r, n, out);
    case T_BINARY:
        HG_TRY(tmpl_eval(r, n->a, &a));
        HG_TRY(tmpl_eval(r, n->b, &b));
        r->line = n->line;
        return tmpl_binary(r, (enum tmpl_tok_kind)n->op, &a, &b, out);
    default: return tmpl_fail(r, "no expression: node %d", n->kind);
    }
}

enum hg_status tmpl_eval(struct tmpl_run *r, const struct tmpl_node *n, struct tmpl_val *out)
{
    r->line = n->line;
    HG_TRY(tmpl_enter(r));
    HG_TRY(eval_any(r, n, out));
    tmpl_leave(r);
    return HG_OK;
}
