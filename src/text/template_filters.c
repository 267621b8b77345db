/* template_filters.c: filters on sequences and mappings, and the table of all filters.
 * Filters on text and numbers: template_convert.c. */
#include "text/template_int.h"

#include <string.h>

#define FILTER(name)                                                                               \
    static enum hg_status name(struct tmpl_run *r, const struct tmpl_val *v,                       \
                               const struct tmpl_val *a, struct tmpl_val *out)

/* ------------------------------------------------------------------------------- attributes -- */

static bool all_digits(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] < '0' || s[i] > '9') return false;
    return n > 0 && n < 18;
}

/* item.path of an attribute argument such as "function.name", "0" or 0: `path` itself when it
 * is not given. An undefined part takes the default, if there is one. */
static enum hg_status attr_get(struct tmpl_run *r, const struct tmpl_val *item,
                               const struct tmpl_val *path, const struct tmpl_val *otherwise,
                               struct tmpl_val *out)
{
    *out = *item;
    if (path->kind == TV_MISSING || path->kind == TV_NONE) return HG_OK;
    bool text = path->kind == TV_STR;
    for (size_t at = 0; text ? at <= path->n : at == 0;) {
        struct tmpl_val key = *path, next;
        if (text) {
            const char *dot = memchr(path->s + at, '.', path->n - at);
            size_t end = dot ? (size_t)(dot - path->s) : path->n;
            key = tmpl_strn(path->s + at, end - at);
            if (all_digits(key.s, key.n)) {
                int64_t i = 0;
                for (size_t k = 0; k < key.n; k++) i = i * 10 + (key.s[k] - '0');
                key = tmpl_int(i);
            }
            at = end;
        }
        at++;
        HG_TRY(tmpl_get_item(r, out, &key, &next));
        *out = next;
        if (otherwise && otherwise->kind > TV_NONE && out->kind == TV_UNDEF) *out = *otherwise;
    }
    return HG_OK;
}

static enum hg_status fold_case(struct tmpl_run *r, bool case_sensitive, struct tmpl_val *v)
{
    return case_sensitive || v->kind != TV_STR ? HG_OK : tmpl_case(r, v, 'l', v);
}

/* Sorting keys: item.attribute, lower case unless case matters. */
static enum hg_status key_of(struct tmpl_run *r, const struct tmpl_val *item,
                             const struct tmpl_val *path, bool case_sensitive, struct tmpl_val *out)
{
    HG_TRY(attr_get(r, item, path, NULL, out));
    return fold_case(r, case_sensitive, out);
}

/* ---------------------------------------------------------------------------------- sorting -- */

/* Stable merge sort of v by k, both n long. */
static enum hg_status sort_by(struct tmpl_run *r, struct tmpl_val *k, struct tmpl_val *v, size_t n,
                              bool reverse)
{
    struct tmpl_val *k2 = tmpl_alloc(r, n, sizeof *k2), *v2 = tmpl_alloc(r, n, sizeof *v2);
    if (!k2 || !v2) return r->status;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t from = 0; from < n; from += 2 * width) {
            size_t mid = from + width < n ? from + width : n;
            size_t end = from + 2 * width < n ? from + 2 * width : n, i = from, j = mid;
            HG_TRY(tmpl_charge(r, 8 * (end - from)));
            for (size_t to = from; to < end; to++) {
                bool right = i == mid;
                if (!right && j < end)
                    HG_TRY(tmpl_order(r, TK_LT, reverse ? &k[i] : &k[j], reverse ? &k[j] : &k[i],
                                      &right));
                k2[to] = right ? k[j] : k[i];
                v2[to] = right ? v[j++] : v[i++];
            }
        }
        memcpy(k, k2, n * sizeof *k);
        memcpy(v, v2, n * sizeof *v);
    }
    return HG_OK;
}

static enum hg_status sorted(struct tmpl_run *r, const struct tmpl_list *items,
                             struct tmpl_val *keys, bool reverse, struct tmpl_val *out)
{
    struct tmpl_list *l = tmpl_list_new(r, items->n);
    if (!l) return r->status;
    l->n = items->n;
    if (l->n) memcpy(l->v, items->v, l->n * sizeof *l->v);
    *out = tmpl_box(TV_LIST, l);
    return sort_by(r, keys, l->v, l->n, reverse);
}

/* The key is a list, for attribute="a,b" of both: lists compare values that are equal, such as
 * None, without asking for their order. */
static enum hg_status sort_key(struct tmpl_run *r, const struct tmpl_val *item,
                               const struct tmpl_val *path, bool case_sensitive,
                               struct tmpl_val *out)
{
    struct tmpl_list *l = tmpl_list_new(r, 1);
    if (!l) return r->status;
    bool text = path->kind == TV_STR;
    for (size_t at = 0; text ? at <= path->n : at == 0;) {
        const char *comma = text ? memchr(path->s + at, ',', path->n - at) : NULL;
        size_t end = comma ? (size_t)(comma - path->s) : path->n;
        struct tmpl_val part = *path, key;
        if (text) part = tmpl_strn(path->s + at, end - at);
        HG_TRY(key_of(r, item, &part, case_sensitive, &key));
        HG_TRY(tmpl_push(r, l, &key));
        at = end + 1;
    }
    *out = tmpl_box(TV_LIST, l);
    return HG_OK;
}

FILTER(f_sort) /* reverse, case_sensitive, attribute */
{
    struct tmpl_list *items;
    HG_TRY(tmpl_items(r, v, &items));
    struct tmpl_val *keys = tmpl_alloc(r, items->n, sizeof *keys);
    if (!keys) return r->status;
    for (size_t i = 0; i < items->n; i++)
        HG_TRY(sort_key(r, &items->v[i], &a[2], tmpl_truth(&a[1]), &keys[i]));
    return sorted(r, items, keys, tmpl_truth(&a[0]), out);
}

FILTER(f_dictsort) /* case_sensitive, by, reverse */
{
    if (v->kind == TV_UNDEF) return tmpl_fail_undef(r, v);
    if (v->kind != TV_DICT) return tmpl_fail(r, "dictsort of a '%s' object", tmpl_type_name(v));
    bool by_value = tmpl_is(&a[1], "value");
    if (a[1].kind != TV_MISSING && !by_value && !tmpl_is(&a[1], "key"))
        return tmpl_fail(r, "You can only sort by either \"key\" or \"value\"");
    struct tmpl_val items;
    struct tmpl_args none = {0};
    HG_TRY(tmpl_get_attr(r, v, "items", 5, &items));
    HG_TRY(tmpl_call(r, &items, &none, &items));
    struct tmpl_val *keys = tmpl_alloc(r, items.list->n, sizeof *keys);
    if (!keys) return r->status;
    for (size_t i = 0; i < items.list->n; i++) {
        keys[i] = items.list->v[i].list->v[by_value];
        HG_TRY(fold_case(r, tmpl_truth(&a[0]), &keys[i]));
    }
    return sorted(r, items.list, keys, tmpl_truth(&a[2]), out);
}

FILTER(f_unique) /* case_sensitive, attribute */
{
    struct tmpl_list *items, *l = tmpl_list_new(r, 0);
    struct tmpl_dict *seen = tmpl_dict_new(r, 0);
    HG_TRY(tmpl_items(r, v, &items));
    if (!l || !seen) return r->status;
    for (size_t i = 0; i < items->n; i++) {
        struct tmpl_val key;
        const struct tmpl_val *old;
        HG_TRY(key_of(r, &items->v[i], &a[1], tmpl_truth(&a[0]), &key));
        HG_TRY(tmpl_dict_find(r, seen, &key, &old));
        if (old) continue;
        HG_TRY(tmpl_put(r, seen, &key, &key));
        HG_TRY(tmpl_push(r, l, &items->v[i]));
    }
    *out = tmpl_box(TV_ITER, l);
    return HG_OK;
}

/* case_sensitive, attribute */
static enum hg_status extreme(struct tmpl_run *r, const struct tmpl_val *v,
                              const struct tmpl_val *a, enum tmpl_tok_kind op, struct tmpl_val *out)
{
    static const char hint[] = "No aggregated item, sequence was empty.";
    struct tmpl_list *items;
    struct tmpl_val best, key;
    HG_TRY(tmpl_items(r, v, &items));
    *out = tmpl_undef(TU_HINT, hint, sizeof hint - 1);
    for (size_t i = 0; i < items->n; i++) {
        bool better = i == 0;
        HG_TRY(key_of(r, &items->v[i], &a[1], tmpl_truth(&a[0]), &key));
        if (i) HG_TRY(tmpl_order(r, op, &key, &best, &better));
        if (!better) continue;
        best = key;
        *out = items->v[i];
    }
    return HG_OK;
}

FILTER(f_min)
{
    return extreme(r, v, a, TK_LT, out);
}

FILTER(f_max)
{
    return extreme(r, v, a, TK_GT, out);
}

FILTER(f_sum) /* attribute, start */
{
    struct tmpl_list *items;
    struct tmpl_val total = a[1].kind == TV_MISSING ? tmpl_int(0) : a[1], item;
    HG_TRY(tmpl_items(r, v, &items));
    if (total.kind == TV_STR) return tmpl_fail(r, "sum() can't sum strings");
    for (size_t i = 0; i < items->n; i++) {
        HG_TRY(attr_get(r, &items->v[i], &a[0], NULL, &item));
        HG_TRY(tmpl_binary(r, TK_ADD, &total, &item, &total));
    }
    *out = total;
    return HG_OK;
}

/* ------------------------------------------------------------------------------ items of it -- */

FILTER(f_length)
{
    size_t n;
    (void)a;
    HG_TRY(tmpl_len(r, v, &n));
    if (n == SIZE_MAX) return tmpl_fail(r, "object of type '%s' has no len()", tmpl_type_name(v));
    *out = tmpl_int((int64_t)n);
    return HG_OK;
}

FILTER(f_first)
{
    static const char hint[] = "No first item, sequence was empty.";
    (void)a;
    if (v->kind == TV_ITER) { /* takes one, leaves the others */
        bool any = v->list->pos < v->list->n;
        *out = any ? v->list->v[v->list->pos++] : tmpl_undef(TU_HINT, hint, sizeof hint - 1);
        return HG_OK;
    }
    struct tmpl_list *items;
    HG_TRY(tmpl_items(r, v, &items));
    *out = items->n ? items->v[0] : tmpl_undef(TU_HINT, hint, sizeof hint - 1);
    return HG_OK;
}

FILTER(f_last)
{
    static const char hint[] = "No last item, sequence was empty.";
    struct tmpl_list *items;
    (void)a;
    if (v->kind == TV_ITER) return tmpl_fail(r, "'generator' object is not reversible");
    HG_TRY(tmpl_items(r, v, &items));
    *out = items->n ? items->v[items->n - 1] : tmpl_undef(TU_HINT, hint, sizeof hint - 1);
    return HG_OK;
}

FILTER(f_list)
{
    struct tmpl_list *items;
    (void)a;
    HG_TRY(tmpl_items(r, v, &items));
    *out = tmpl_box(TV_LIST, items);
    return HG_OK;
}

FILTER(f_reverse)
{
    struct tmpl_list *items;
    (void)a;
    if (v->kind == TV_STR) {
        struct tmpl_val none = TMPL_NONE, back = tmpl_int(-1);
        return tmpl_slice(r, v, &none, &none, &back, out);
    }
    HG_TRY(tmpl_items(r, v, &items));
    struct tmpl_list *l = tmpl_list_new(r, items->n);
    if (!l) return r->status;
    HG_TRY(tmpl_charge(r, 8 * items->n));
    l->n = items->n;
    for (size_t i = 0; i < l->n; i++) l->v[i] = items->v[l->n - 1 - i];
    /* what cannot be walked backwards is copied to a list first */
    *out = tmpl_box(v->kind == TV_ITER ? TV_LIST : TV_ITER, l);
    return HG_OK;
}

FILTER(f_items)
{
    struct tmpl_args none = {0};
    struct tmpl_list *l;
    (void)a;
    if (v->kind == TV_UNDEF) {
        l = tmpl_list_new(r, 0);
        if (!l) return r->status;
    } else {
        if (v->kind != TV_DICT) return tmpl_fail(r, "Can only get item pairs from a mapping.");
        HG_TRY(tmpl_get_attr(r, v, "items", 5, out));
        HG_TRY(tmpl_call(r, out, &none, out));
        l = out->list;
    }
    *out = tmpl_box(TV_ITER, l);
    return HG_OK;
}

FILTER(f_join) /* d, attribute */
{
    struct tmpl_val sep = TMPL_STR("");
    struct tmpl_list *items;
    HG_TRY(tmpl_items(r, v, &items));
    if (a[0].kind != TV_MISSING) HG_TRY(tmpl_str(r, &a[0], &sep));
    if (a[1].kind != TV_MISSING && a[1].kind != TV_NONE) {
        struct tmpl_list *picked = tmpl_list_new(r, items->n);
        if (!picked) return r->status;
        for (size_t i = 0; i < items->n; i++)
            HG_TRY(attr_get(r, &items->v[i], &a[1], NULL, &picked->v[i]));
        picked->n = items->n;
        items = picked;
    }
    return tmpl_join(r, &sep, items, true, out);
}

FILTER(f_default) /* default_value, boolean */
{
    (void)r;
    *out = *v;
    if (v->kind == TV_UNDEF || (tmpl_truth(&a[1]) && !tmpl_truth(v)))
        *out = a[0].kind == TV_MISSING ? TMPL_STR("") : a[0];
    return HG_OK;
}

FILTER(f_attr) /* name */
{
    if (a->kind != TV_STR) return tmpl_fail(r, "attr: the name must be a string");
    HG_TRY(tmpl_get_attr(r, v, a->s, a->n, out));
    if (v->kind == TV_DICT && out->kind != TV_METHOD && out->kind != TV_UNDEF)
        *out = tmpl_undef((enum tmpl_undef)TV_DICT, a->s, a->n);
    return HG_OK;
}

/* ------------------------------------------------------------------- map, select and reject -- */

static struct tmpl_args args_from(const struct tmpl_args *args, size_t from)
{
    return (struct tmpl_args){args->pos + from, args->n_pos - from, args->kw};
}

/* map(attribute=..., default=...) or map("filter", arguments...). */
static enum hg_status map(struct tmpl_run *r, const struct tmpl_list *items,
                          const struct tmpl_args *args, struct tmpl_list *l)
{
    const struct tmpl_val *attribute = NULL, *otherwise = NULL;
    if (args->n_pos == 0 && args->kw) {
        attribute = tmpl_dict_get(args->kw, "attribute", 9);
        otherwise = tmpl_dict_get(args->kw, "default", 7);
        if (attribute && args->kw->n != 1 + (size_t)(otherwise != NULL))
            return tmpl_fail(r, "map: unexpected keyword argument");
    }
    if (!attribute && (args->n_pos == 0 || args->pos[0].kind != TV_STR))
        return tmpl_fail(r, "map requires a filter argument");
    for (size_t i = 0; i < items->n; i++) {
        struct tmpl_val item;
        struct tmpl_args rest = args->n_pos ? args_from(args, 1) : *args;
        if (attribute)
            HG_TRY(attr_get(r, &items->v[i], attribute, otherwise, &item));
        else
            HG_TRY(tmpl_filter(r, args->pos[0].s, args->pos[0].n, &items->v[i], &rest, &item));
        HG_TRY(tmpl_push(r, l, &item));
    }
    return HG_OK;
}

/* select("test", arguments...), selectattr("attribute", "test", arguments...); truth without. */
static enum hg_status select_items(struct tmpl_run *r, const struct tmpl_list *items,
                                   const struct tmpl_args *args, bool by_attr, bool keep,
                                   struct tmpl_list *l)
{
    size_t at = by_attr;
    if (args->n_pos < at) return tmpl_fail(r, "Missing parameter for attribute name");
    bool test = args->n_pos > at;
    if (test && args->pos[at].kind != TV_STR)
        return tmpl_fail(r, "the name of a test must be a string");
    for (size_t i = 0; i < items->n; i++) {
        struct tmpl_val item = items->v[i];
        if (by_attr) HG_TRY(attr_get(r, &items->v[i], &args->pos[0], NULL, &item));
        bool yes = tmpl_truth(&item);
        if (test) {
            struct tmpl_args rest = args_from(args, at + 1);
            HG_TRY(tmpl_test(r, args->pos[at].s, args->pos[at].n, &item, &rest, &yes));
        }
        if (yes == keep) HG_TRY(tmpl_push(r, l, &items->v[i]));
    }
    return HG_OK;
}

static const char *const pickers[] = {"map", "select", "reject", "selectattr", "rejectattr"};

static int picker_index(const char *name, size_t n)
{
    for (int i = 0; i < 5; i++)
        if (strlen(pickers[i]) == n && memcmp(pickers[i], name, n) == 0) return i;
    return -1;
}

static enum hg_status pick(struct tmpl_run *r, int which, const struct tmpl_val *v,
                           const struct tmpl_args *args, struct tmpl_val *out)
{
    struct tmpl_list *items, *l = tmpl_list_new(r, 0);
    if (!l) return r->status;
    *out = tmpl_box(TV_ITER, l);
    if (!tmpl_truth(v)) return HG_OK;
    HG_TRY(tmpl_items(r, v, &items));
    if (which == 0) return map(r, items, args, l);
    return select_items(r, items, args, which >= 3, which == 1 || which == 3, l);
}

/* ------------------------------------------------------------------------------------ table -- */

static const struct tmpl_def filters[] = {
    {"default", f_default, "default_value,boolean", 0},
    {"d", f_default, "default_value,boolean", 0},
    {"length", f_length, "", 0},
    {"count", f_length, "", 0},
    {"first", f_first, "", 0},
    {"last", f_last, "", 0},
    {"list", f_list, "", 0},
    {"reverse", f_reverse, "", 0},
    {"items", f_items, "", 0},
    {"dictsort", f_dictsort, "case_sensitive,by,reverse", 0},
    {"sort", f_sort, "reverse,case_sensitive,attribute", 0},
    {"unique", f_unique, "case_sensitive,attribute", 0},
    {"min", f_min, "case_sensitive,attribute", 0},
    {"max", f_max, "case_sensitive,attribute", 0},
    {"sum", f_sum, "attribute,start", 0},
    {"join", f_join, "d,attribute", 0},
    {"attr", f_attr, "name", 1},
    {"tojson", tmpl_tojson, "ensure_ascii,indent,separators,sort_keys", 0},
    {0}};

static const struct tmpl_def *find(const char *name, size_t n)
{
    const struct tmpl_def *def = tmpl_find_def(filters, name, n);
    return def ? def : tmpl_find_def(tmpl_convert_filters, name, n);
}

bool tmpl_has_filter(const char *name, size_t n)
{
    return find(name, n) || picker_index(name, n) >= 0;
}

enum hg_status tmpl_filter(struct tmpl_run *r, const char *name, size_t n,
                           const struct tmpl_val *self, const struct tmpl_args *args,
                           struct tmpl_val *out)
{
    int picker = picker_index(name, n);
    const struct tmpl_def *def = find(name, n);
    struct tmpl_val v;
    if (picker < 0 && !def)
        return tmpl_fail(r, "No filter named '%.*s'.", (int)(n > 100 ? 100 : n), name);
    HG_TRY(tmpl_enter(r)); /* map("map", "map", ...) nests without an expression of its own */
    HG_TRY(def ? tmpl_call_def(r, def, self, args, &v) : pick(r, picker, self, args, &v));
    tmpl_leave(r);
    *out = v;
    return HG_OK;
}
