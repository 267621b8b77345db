/* template_value.c: making values, and Python's truth, equality, order, length and iteration. */
#include "text/template_int.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct tmpl_val tmpl_bool(bool b)
{
    return (struct tmpl_val){.kind = TV_BOOL, .b = b};
}

struct tmpl_val tmpl_int(int64_t i)
{
    return (struct tmpl_val){.kind = TV_INT, .i = i};
}

struct tmpl_val tmpl_float(double f)
{
    return (struct tmpl_val){.kind = TV_FLOAT, .f = f};
}

struct tmpl_val tmpl_strn(const char *s, size_t n)
{
    return (struct tmpl_val){.kind = TV_STR, .n = n, .s = s};
}

struct tmpl_val tmpl_undef(enum tmpl_undef how, const char *s, size_t n)
{
    return (struct tmpl_val){.kind = TV_UNDEF, .sub = (uint8_t)how, .n = n, .s = s};
}

struct tmpl_val tmpl_box(enum tmpl_kind kind, struct tmpl_list *l)
{
    return (struct tmpl_val){.kind = (uint8_t)kind, .list = l};
}

bool tmpl_is(const struct tmpl_val *v, const char *s)
{
    return v->kind == TV_STR && v->n == strlen(s) && memcmp(v->s, s, v->n) == 0;
}

enum hg_status tmpl_str_copy(struct tmpl_run *r, const char *s, size_t n, struct tmpl_val *out)
{
    char *p = tmpl_alloc(r, n, 1);
    if (!p) return r->status;
    if (n) memcpy(p, s, n);
    *out = tmpl_strn(p, n);
    return HG_OK;
}

enum hg_status tmpl_str_printf(struct tmpl_run *r, struct tmpl_val *out, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tmpl_str_copy(r, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1, out);
}

/* a + b. Where a is what the last concatenation made, and room was left behind it, b is added in
 * place: strings never change and a stays its prefix. So building a text piece by piece is
 * linear. */
enum hg_status tmpl_concat(struct tmpl_run *r, const struct tmpl_val *a, const struct tmpl_val *b,
                           struct tmpl_val *out)
{
    size_t n = a->n + b->n;
    const char *s = a->s;
    HG_TRY(tmpl_charge(r, b->n));
    if (a->n == 0 || s + a->n != r->tail || b->n > r->tail_room) {
        size_t room = n / 2 + 32;
        char *p = tmpl_alloc(r, n + room, 1);
        if (!p) return r->status;
        if (a->n) memcpy(p, a->s, a->n);
        s = p;
        r->tail = p + a->n;
        r->tail_room = b->n + room;
    }
    if (b->n) memcpy(r->tail, b->s, b->n);
    r->tail += b->n;
    r->tail_room -= b->n;
    *out = tmpl_strn(s, n);
    return HG_OK;
}

struct tmpl_list *tmpl_list_new(struct tmpl_run *r, size_t cap)
{
    struct tmpl_list *l = tmpl_alloc(r, 1, sizeof *l);
    if (!l || !cap) return l;
    l->v = tmpl_alloc(r, cap, sizeof *l->v);
    l->cap = cap;
    return l->v ? l : NULL;
}

enum hg_status tmpl_push(struct tmpl_run *r, struct tmpl_list *l, const struct tmpl_val *v)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 8;
        struct tmpl_val *grown = tmpl_alloc(r, cap, sizeof *grown);
        if (!grown) return r->status;
        if (l->n) memcpy(grown, l->v, l->n * sizeof *grown);
        l->v = grown;
        l->cap = cap;
    }
    l->v[l->n++] = *v;
    return HG_OK;
}

struct tmpl_dict *tmpl_dict_new(struct tmpl_run *r, size_t cap)
{
    struct tmpl_dict *d = tmpl_alloc(r, 1, sizeof *d);
    if (!d || !cap) return d;
    d->k = tmpl_alloc(r, 2 * cap, sizeof *d->k);
    d->v = d->k ? d->k + cap : NULL;
    d->cap = cap;
    return d->k ? d : NULL;
}

bool tmpl_hashable(const struct tmpl_val *v)
{
    if (v->kind == TV_LIST || v->kind == TV_DICT || v->kind == TV_VIEW) return false;
    for (size_t i = 0; v->kind == TV_TUPLE && i < v->list->n; i++) {
        const struct tmpl_val *item = &v->list->v[i];
        /* A tuple of tuples is as good a key, but a check of its own would recurse. */
        if (item->kind == TV_TUPLE || !tmpl_hashable(item)) return false;
    }
    return true;
}

const struct tmpl_val *tmpl_dict_get(const struct tmpl_dict *d, const char *s, size_t n)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->k[i].kind == TV_STR && d->k[i].n == n && memcmp(d->k[i].s, s, n) == 0)
            return &d->v[i];
    return NULL;
}

enum hg_status tmpl_dict_find(struct tmpl_run *r, const struct tmpl_dict *d,
                              const struct tmpl_val *k, const struct tmpl_val **v)
{
    *v = NULL;
    HG_TRY(tmpl_charge(r, d->n));
    if (k->kind == TV_STR) {
        *v = tmpl_dict_get(d, k->s, k->n);
        return HG_OK;
    }
    if (k->kind == TV_TUPLE) HG_TRY(tmpl_charge(r, 8 * k->list->n));
    if (!tmpl_hashable(k)) return tmpl_fail(r, "unhashable type: '%s'", tmpl_type_name(k));
    for (size_t i = 0; i < d->n && !*v; i++) {
        bool same;
        HG_TRY(tmpl_equal(r, &d->k[i], k, &same));
        if (same) *v = &d->v[i];
    }
    return HG_OK;
}

enum hg_status tmpl_put(struct tmpl_run *r, struct tmpl_dict *d, const struct tmpl_val *k,
                        const struct tmpl_val *v)
{
    const struct tmpl_val *old;
    HG_TRY(tmpl_dict_find(r, d, k, &old));
    if (old) {
        d->v[old - d->v] = *v;
        return HG_OK;
    }
    if (d->n == d->cap) {
        struct tmpl_dict *grown = tmpl_dict_new(r, d->cap ? 2 * d->cap : 4);
        if (!grown) return r->status;
        for (size_t i = 0; i < d->n; i++) {
            grown->k[i] = d->k[i];
            grown->v[i] = d->v[i];
        }
        grown->n = d->n;
        *d = *grown;
    }
    d->k[d->n] = *k;
    d->v[d->n++] = *v;
    return HG_OK;
}

/* Strings are borrowed: the caller keeps the JSON for the time of the render. */
enum hg_status tmpl_from_json(struct tmpl_run *r, const struct json_t *j, struct tmpl_val *out)
{
    *out = TMPL_NONE;
    switch (json_typeof(j)) {
    case JSON_NULL: return HG_OK;
    case JSON_TRUE:
    case JSON_FALSE: *out = tmpl_bool(json_is_true(j)); return HG_OK;
    case JSON_INTEGER: *out = tmpl_int(json_integer_value(j)); return HG_OK;
    case JSON_REAL: *out = tmpl_float(json_real_value(j)); return HG_OK;
    case JSON_STRING: *out = tmpl_strn(json_string_value(j), json_string_length(j)); return HG_OK;
    case JSON_ARRAY: break;
    case JSON_OBJECT: break;
    }
    HG_TRY(tmpl_enter(r));
    if (json_is_array(j)) {
        size_t n = json_array_size(j);
        *out = tmpl_box(TV_LIST, tmpl_list_new(r, n));
        if (!out->list) return r->status;
        for (size_t i = 0; i < n; i++)
            HG_TRY(tmpl_from_json(r, json_array_get(j, i), &out->list->v[i]));
        out->list->n = n;
    } else {
        struct tmpl_dict *d = tmpl_dict_new(r, json_object_size(j));
        if (!d) return r->status;
        json_t *o = (json_t *)(uintptr_t)j; /* iterating is read-only, the API is not const */
        for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
            const char *key = json_object_iter_key(it);
            d->k[d->n] = tmpl_strn(key, json_object_iter_key_len(it));
            HG_TRY(tmpl_from_json(r, json_object_iter_value(it), &d->v[d->n]));
            d->n++;
        }
        *out = (struct tmpl_val){.kind = TV_DICT, .dict = d};
    }
    tmpl_leave(r);
    return HG_OK;
}

/* ------------------------------------------------------------------------------- properties -- */

bool tmpl_truth(const struct tmpl_val *v)
{
    switch ((enum tmpl_kind)v->kind) {
    case TV_MISSING:
    case TV_UNDEF:
    case TV_NONE: return false;
    case TV_BOOL: return v->b;
    case TV_INT: return v->i != 0;
    case TV_FLOAT: return v->f != 0;
    case TV_STR: return v->n != 0;
    case TV_LIST:
    case TV_TUPLE:
    case TV_VIEW: return v->list->n != 0;
    case TV_DICT: return v->dict->n != 0;
    case TV_RANGE: return v->range->n != 0;
    default: return true;
    }
}

const char *tmpl_type_name(const struct tmpl_val *v)
{
    static const char *const names[] = {
        [TV_MISSING] = "Undefined", [TV_UNDEF] = "Undefined", [TV_NONE] = "NoneType",
        [TV_BOOL] = "bool",         [TV_INT] = "int",         [TV_FLOAT] = "float",
        [TV_STR] = "str",           [TV_LIST] = "list",       [TV_TUPLE] = "tuple",
        [TV_DICT] = "dict",         [TV_VIEW] = "dict view",  [TV_RANGE] = "range",
        [TV_ITER] = "generator",    [TV_NS] = "Namespace",    [TV_MACRO] = "Macro",
        [TV_FUNC] = "function",     [TV_METHOD] = "method",   [TV_LOOP] = "LoopContext"};
    return names[v->kind];
}

/* What jinja2 says when an undefined value is used. */
enum hg_status tmpl_fail_undef(struct tmpl_run *r, const struct tmpl_val *v)
{
    int n = (int)(v->n > 200 ? 200 : v->n);
    if (v->sub == TU_HINT) return tmpl_fail(r, "%.*s", n, v->s);
    if (v->sub == TU_NAME || v->kind != TV_UNDEF)
        return tmpl_fail(r, "'%.*s' is undefined", v->kind == TV_UNDEF ? n : 0, v->s);
    if (v->sub == TU_ELEMENT) return tmpl_fail(r, "object has no element %.*s", n, v->s);
    struct tmpl_val owner = {.kind = v->sub};
    if (owner.kind == TV_NONE) return tmpl_fail(r, "'None' has no attribute '%.*s'", n, v->s);
    return tmpl_fail(r, "'%s object' has no attribute '%.*s'", tmpl_type_name(&owner), n, v->s);
}

bool tmpl_as_int(const struct tmpl_val *v, int64_t *out)
{
    if (v->kind != TV_INT && v->kind != TV_BOOL) return false;
    *out = v->kind == TV_INT ? v->i : v->b;
    return true;
}

double tmpl_as_float(const struct tmpl_val *v)
{
    return v->kind == TV_FLOAT ? v->f : v->kind == TV_INT ? (double)v->i : (double)v->b;
}

bool tmpl_iterable(const struct tmpl_val *v)
{
    switch ((enum tmpl_kind)v->kind) {
    case TV_UNDEF:
    case TV_STR:
    case TV_LIST:
    case TV_TUPLE:
    case TV_DICT:
    case TV_VIEW:
    case TV_RANGE:
    case TV_ITER:
    case TV_LOOP: return true;
    default: return false;
    }
}

enum hg_status tmpl_len(struct tmpl_run *r, const struct tmpl_val *v, size_t *n)
{
    switch ((enum tmpl_kind)v->kind) {
    case TV_UNDEF: *n = 0; return HG_OK;
    case TV_STR: *n = tmpl_cp_len(v->s, v->n); return tmpl_charge(r, v->n);
    case TV_LIST:
    case TV_TUPLE:
    case TV_VIEW: *n = v->list->n; return HG_OK;
    case TV_DICT: *n = v->dict->n; return HG_OK;
    case TV_RANGE: *n = v->range->n; return HG_OK;
    default: *n = SIZE_MAX; return HG_OK;
    }
}

enum hg_status tmpl_items(struct tmpl_run *r, const struct tmpl_val *v, struct tmpl_list **out)
{
    if (v->kind == TV_LIST || v->kind == TV_TUPLE || v->kind == TV_VIEW) {
        *out = v->list;
        return tmpl_charge(r, 8 * v->list->n);
    }
    if (!tmpl_iterable(v) || v->kind == TV_LOOP)
        return tmpl_fail(r, "'%s' object is not iterable", tmpl_type_name(v));
    size_t n = 0;
    if (v->kind == TV_ITER)
        n = v->list->n - v->list->pos;
    else
        HG_TRY(tmpl_len(r, v, &n));
    struct tmpl_list *l = *out = tmpl_list_new(r, n);
    if (!l) return r->status;
    HG_TRY(tmpl_charge(r, 8 * n));
    l->n = n;
    if (v->kind == TV_DICT && n) memcpy(l->v, v->dict->k, n * sizeof *l->v);
    if (v->kind == TV_ITER && n) memcpy(l->v, v->list->v + v->list->pos, n * sizeof *l->v);
    if (v->kind == TV_ITER) v->list->pos = v->list->n;
    for (size_t i = 0; v->kind == TV_RANGE && i < n; i++)
        l->v[i] = tmpl_int(v->range->start + (int64_t)i * v->range->step);
    const char *s = v->s;
    for (size_t i = 0; v->kind == TV_STR && i < n; i++) {
        int32_t cp;
        size_t k = tmpl_cp(s, v->n - (size_t)(s - v->s), &cp);
        l->v[i] = tmpl_strn(s, k);
        s += k;
    }
    return HG_OK;
}

/* ------------------------------------------------------------------------------- comparison -- */

/* -1, 0, 1; 2 when one is no number. Exact: 64 bits fit a long double's mantissa. */
static int compare_numbers(const struct tmpl_val *a, const struct tmpl_val *b)
{
    long double x = a->kind == TV_FLOAT ? (long double)a->f
                    : a->kind == TV_INT ? (long double)a->i
                                        : (long double)a->b;
    long double y = b->kind == TV_FLOAT ? (long double)b->f
                    : b->kind == TV_INT ? (long double)b->i
                                        : (long double)b->b;
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static enum hg_status equal_items(struct tmpl_run *r, const struct tmpl_val *a,
                                  const struct tmpl_val *b, bool *out)
{
    *out = false;
    HG_TRY(tmpl_enter(r));
    HG_TRY(tmpl_charge(r, 8 * (a->kind == TV_DICT ? a->dict->n : a->list->n)));
    if (a->kind == TV_DICT) {
        bool same = a->dict->n == b->dict->n;
        for (size_t i = 0; same && i < a->dict->n; i++) {
            const struct tmpl_val *v;
            HG_TRY(tmpl_dict_find(r, b->dict, &a->dict->k[i], &v));
            same = v != NULL;
            if (v) HG_TRY(tmpl_equal(r, &a->dict->v[i], v, &same));
        }
        *out = same;
    } else {
        bool same = a->list->n == b->list->n;
        for (size_t i = 0; same && i < a->list->n; i++)
            HG_TRY(tmpl_equal(r, &a->list->v[i], &b->list->v[i], &same));
        *out = same;
    }
    tmpl_leave(r);
    return HG_OK;
}

enum hg_status tmpl_equal(struct tmpl_run *r, const struct tmpl_val *a, const struct tmpl_val *b,
                          bool *out)
{
    *out = false;
    if (tmpl_is_number(a) && tmpl_is_number(b)) {
        *out = compare_numbers(a, b) == 0;
        return HG_OK;
    }
    if (a->kind != b->kind) return HG_OK;
    switch ((enum tmpl_kind)a->kind) {
    case TV_STR:
        *out = a->n == b->n && memcmp(a->s, b->s, a->n) == 0;
        return tmpl_charge(r, a->n == b->n ? a->n : 0);
    case TV_LIST:
    case TV_TUPLE:
    case TV_DICT: return equal_items(r, a, b, out);
    case TV_RANGE:
        *out = a->range->n == b->range->n &&
               (a->range->n == 0 || (a->range->start == b->range->start &&
                                     (a->range->n == 1 || a->range->step == b->range->step)));
        return HG_OK;
    case TV_UNDEF:
    case TV_NONE: *out = true; return HG_OK;
    case TV_FUNC: *out = a->i == b->i; return HG_OK;
    default: *out = a->s == b->s; return HG_OK; /* the same object: any pointer of the union */
    }
}

static enum hg_status order_lists(struct tmpl_run *r, enum tmpl_tok_kind op,
                                  const struct tmpl_list *a, const struct tmpl_list *b, bool *out)
{
    HG_TRY(tmpl_enter(r));
    HG_TRY(tmpl_charge(r, 8 * a->n));
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        HG_TRY(tmpl_equal(r, &a->v[i], &b->v[i], &same));
        if (same) continue;
        HG_TRY(tmpl_order(r, op, &a->v[i], &b->v[i], out));
        tmpl_leave(r);
        return HG_OK;
    }
    struct tmpl_val x = tmpl_int((int64_t)a->n), y = tmpl_int((int64_t)b->n);
    HG_TRY(tmpl_order(r, op, &x, &y, out));
    tmpl_leave(r);
    return HG_OK;
}

enum hg_status tmpl_order(struct tmpl_run *r, enum tmpl_tok_kind op, const struct tmpl_val *a,
                          const struct tmpl_val *b, bool *out)
{
    int c;
    if (tmpl_is_number(a) && tmpl_is_number(b)) {
        c = compare_numbers(a, b);
    } else if (a->kind == TV_STR && b->kind == TV_STR) { /* UTF-8 sorts like its code points */
        size_t n = a->n < b->n ? a->n : b->n;
        HG_TRY(tmpl_charge(r, n));
        c = n ? memcmp(a->s, b->s, n) : 0;
        if (c == 0) c = (a->n > b->n) - (a->n < b->n);
        c = c < 0 ? -1 : c > 0;
    } else if (a->kind == b->kind && (a->kind == TV_LIST || a->kind == TV_TUPLE)) {
        return order_lists(r, op, a->list, b->list, out);
    } else if (a->kind == TV_UNDEF || b->kind == TV_UNDEF) {
        return tmpl_fail_undef(r, a->kind == TV_UNDEF ? a : b);
    } else {
        static const char *const ops[] = {
            [TK_LT] = "<", [TK_LE] = "<=", [TK_GT] = ">", [TK_GE] = ">="};
        return tmpl_fail(r, "'%s' not supported between instances of '%s' and '%s'", ops[op],
                         tmpl_type_name(a), tmpl_type_name(b));
    }
    *out = c != 2 &&
           ((c < 0 && (op == TK_LT || op == TK_LE)) || (c > 0 && (op == TK_GT || op == TK_GE)) ||
            (c == 0 && (op == TK_LE || op == TK_GE)));
    return HG_OK;
}

enum hg_status tmpl_contains(struct tmpl_run *r, const struct tmpl_val *seq,
                             const struct tmpl_val *v, bool *out)
{
    *out = false;
    if (seq->kind == TV_STR) {
        if (v->kind != TV_STR)
            return tmpl_fail(r, "'in <string>' requires string as left operand, not %s",
                             tmpl_type_name(v));
        *out = v->n == 0 || memmem(seq->s, seq->n, v->s, v->n) != NULL;
        return tmpl_charge(r, seq->n);
    }
    if (seq->kind == TV_DICT) {
        const struct tmpl_val *found;
        HG_TRY(tmpl_dict_find(r, seq->dict, v, &found));
        *out = found != NULL;
        return HG_OK;
    }
    if (!tmpl_iterable(seq) || seq->kind == TV_LOOP)
        return tmpl_fail(r, "argument of type '%s' is not iterable", tmpl_type_name(seq));
    struct tmpl_list *l;
    HG_TRY(tmpl_items(r, seq, &l));
    HG_TRY(tmpl_charge(r, 8 * l->n));
    for (size_t i = 0; i < l->n && !*out; i++) HG_TRY(tmpl_equal(r, &l->v[i], v, out));
    return HG_OK;
}
