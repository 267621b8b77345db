/* template_attr.c: a.name, a[key], a[lo:hi:step], and the methods of dicts and lists.
 *
 * As in jinja2 `a.name` looks for an attribute first and then for an item, `a["name"]` the other
 * way round: d.items is the method even where the dict has such a key. The sandbox hides methods
 * that change their object, and names that start with an underscore. */
#include "text/template_int.h"

#include <string.h>

static bool one_of(const char *const *words, const char *s, size_t n)
{
    for (; *words; words++)
        if (strlen(*words) == n && memcmp(*words, s, n) == 0) return true;
    return false;
}

const struct tmpl_def *tmpl_find_def(const struct tmpl_def *defs, const char *name, size_t n)
{
    for (; defs->name; defs++)
        if (strlen(defs->name) == n && memcmp(defs->name, name, n) == 0) return defs;
    return NULL;
}

static enum hg_status bind(struct tmpl_run *r, const struct tmpl_def *def, const char *loop_method,
                           const struct tmpl_val *self, struct tmpl_val *out)
{
    struct tmpl_bound *b = tmpl_alloc(r, 1, sizeof *b);
    if (!b) return r->status;
    *b = (struct tmpl_bound){.def = def, .loop_method = loop_method, .self = *self};
    *out = (struct tmpl_val){.kind = TV_METHOD, .bound = b};
    return HG_OK;
}

/* ---------------------------------------------------------------------------------- methods -- */

#define METHOD(name)                                                                               \
    static enum hg_status name(struct tmpl_run *r, const struct tmpl_val *s,                       \
                               const struct tmpl_val *a, struct tmpl_val *out)

METHOD(d_get)
{
    const struct tmpl_val *v;
    HG_TRY(tmpl_dict_find(r, s->dict, &a[0], &v));
    *out = v ? *v : a[1].kind == TV_MISSING ? TMPL_NONE : a[1];
    return HG_OK;
}

static enum hg_status view(struct tmpl_run *r, const struct tmpl_dict *d, enum tmpl_view what,
                           struct tmpl_val *out)
{
    struct tmpl_list *l = tmpl_list_new(r, d->n);
    if (!l) return r->status;
    HG_TRY(tmpl_charge(r, 8 * d->n));
    l->n = d->n;
    for (size_t i = 0; i < d->n; i++) {
        if (what == TW_ITEMS) {
            struct tmpl_list *pair = tmpl_list_new(r, 2);
            if (!pair) return r->status;
            pair->n = 2;
            pair->v[0] = d->k[i];
            pair->v[1] = d->v[i];
            l->v[i] = tmpl_box(TV_TUPLE, pair);
        } else {
            l->v[i] = what == TW_KEYS ? d->k[i] : d->v[i];
        }
    }
    *out = tmpl_box(TV_VIEW, l);
    out->sub = (uint8_t)what;
    return HG_OK;
}

METHOD(d_items)
{
    (void)a;
    return view(r, s->dict, TW_ITEMS, out);
}

METHOD(d_keys)
{
    (void)a;
    return view(r, s->dict, TW_KEYS, out);
}

METHOD(d_values)
{
    (void)a;
    return view(r, s->dict, TW_VALUES, out);
}

METHOD(copy)
{
    (void)r;
    (void)a;
    *out = *s; /* nothing can change either */
    return HG_OK;
}

METHOD(l_count)
{
    int64_t n = 0;
    HG_TRY(tmpl_charge(r, 8 * s->list->n));
    for (size_t i = 0; i < s->list->n; i++) {
        bool same;
        HG_TRY(tmpl_equal(r, &s->list->v[i], a, &same));
        n += same;
    }
    *out = tmpl_int(n);
    return HG_OK;
}

METHOD(l_index)
{
    HG_TRY(tmpl_charge(r, 8 * s->list->n));
    for (size_t i = 0; i < s->list->n; i++) {
        bool same;
        HG_TRY(tmpl_equal(r, &s->list->v[i], a, &same));
        if (!same) continue;
        *out = tmpl_int((int64_t)i);
        return HG_OK;
    }
    return tmpl_fail(r, "value is not in %s", tmpl_type_name(s));
}

static const struct tmpl_def dict_methods[] = {
    {"get", d_get, "key,default", 1}, {"items", d_items, "", 0}, {"keys", d_keys, "", 0},
    {"values", d_values, "", 0},      {"copy", copy, "", 0},     {0}};
static const struct tmpl_def list_methods[] = {
    {"count", l_count, "value", 1}, {"index", l_index, "value", 1}, {"copy", copy, "", 0}, {0}};
static const char *const dict_changers[] = {"clear",      "pop",    "popitem",
                                            "setdefault", "update", NULL};
static const char *const list_changers[] = {"append", "clear",  "pop",    "reverse", "insert",
                                            "sort",   "extend", "remove", NULL};

/* The attribute of a built-in type; TV_MISSING when it has none of the name. */
static enum hg_status attribute(struct tmpl_run *r, const struct tmpl_val *o, const char *s,
                                size_t n, struct tmpl_val *out)
{
    const struct tmpl_def *def = NULL;
    const struct tmpl_val *v;
    bool changes = false;
    *out = (struct tmpl_val){0};
    switch ((enum tmpl_kind)o->kind) {
    case TV_STR: def = tmpl_str_method(s, n); break;
    case TV_DICT:
        def = tmpl_find_def(dict_methods, s, n);
        changes = one_of(dict_changers, s, n);
        break;
    case TV_LIST:
        def = tmpl_find_def(list_methods, s, n);
        changes = one_of(list_changers, s, n);
        break;
    case TV_TUPLE: /* no copy */
        def = tmpl_find_def(list_methods, s, n);
        if (def && def->fn == copy) def = NULL;
        break;
    case TV_NS:
        HG_TRY(tmpl_charge(r, o->dict->n));
        v = tmpl_dict_get(o->dict, s, n);
        if (v) *out = *v;
        return HG_OK;
    case TV_LOOP: return tmpl_loop_attr(r, o->loop, s, n, out);
    case TV_MACRO:
        if (n == 4 && memcmp(s, "name", 4) == 0) *out = o->macro->def->val;
        return HG_OK;
    default: return HG_OK;
    }
    if (def) return bind(r, def, NULL, o, out);
    if (changes || (n > 4 && memcmp(s, "__", 2) == 0 && memcmp(s + n - 2, "__", 2) == 0)) {
        struct tmpl_val hint;
        HG_TRY(tmpl_str_printf(r, &hint, "access to attribute '%.*s' of '%s' object is unsafe.",
                               (int)(n > 100 ? 100 : n), s, tmpl_type_name(o)));
        *out = tmpl_undef(TU_HINT, hint.s, hint.n);
    }
    return HG_OK;
}

enum hg_status tmpl_get_attr(struct tmpl_run *r, const struct tmpl_val *o, const char *name,
                             size_t n, struct tmpl_val *out)
{
    if (o->kind == TV_UNDEF) return tmpl_fail_undef(r, o);
    HG_TRY(attribute(r, o, name, n, out));
    if (out->kind != TV_MISSING) return HG_OK;
    if (o->kind == TV_DICT) {
        HG_TRY(tmpl_charge(r, o->dict->n));
        const struct tmpl_val *v = tmpl_dict_get(o->dict, name, n);
        if (v) {
            *out = *v;
            return HG_OK;
        }
    }
    *out = tmpl_undef((enum tmpl_undef)o->kind, name, n);
    return HG_OK;
}

/* o[i] of a sequence, i counted from the end if negative; TV_MISSING when outside. */
static enum hg_status index_of(struct tmpl_run *r, const struct tmpl_val *o, int64_t i,
                               struct tmpl_val *out)
{
    size_t n;
    HG_TRY(tmpl_len(r, o, &n));
    *out = (struct tmpl_val){0};
    if (i < 0) i += (int64_t)n;
    if (i < 0 || (uint64_t)i >= n) return HG_OK;
    if (o->kind == TV_RANGE) {
        *out = tmpl_int(o->range->start + i * o->range->step);
    } else if (o->kind != TV_STR) {
        *out = o->list->v[i];
    } else {
        const char *s = o->s;
        size_t left = o->n;
        int32_t cp;
        if (n == o->n) { /* ASCII */
            s += i;
        } else {
            for (size_t k; i > 0; i--, s += k, left -= k) k = tmpl_cp(s, left, &cp);
        }
        *out = tmpl_strn(s, tmpl_cp(s, o->n - (size_t)(s - o->s), &cp));
        out->sub = o->sub;
    }
    return HG_OK;
}

enum hg_status tmpl_get_item(struct tmpl_run *r, const struct tmpl_val *o,
                             const struct tmpl_val *key, struct tmpl_val *out)
{
    int64_t i;
    if (o->kind == TV_UNDEF) return tmpl_fail_undef(r, o);
    *out = (struct tmpl_val){0};
    if (o->kind == TV_DICT && tmpl_hashable(key)) {
        const struct tmpl_val *v;
        HG_TRY(tmpl_dict_find(r, o->dict, key, &v));
        if (v) *out = *v;
    } else if ((o->kind == TV_STR || o->kind == TV_LIST || o->kind == TV_TUPLE ||
                o->kind == TV_RANGE) &&
               tmpl_as_int(key, &i)) {
        HG_TRY(index_of(r, o, i, out));
    }
    if (out->kind != TV_MISSING) return HG_OK;
    if (key->kind == TV_STR) {
        HG_TRY(attribute(r, o, key->s, key->n, out));
        if (out->kind == TV_MISSING) *out = tmpl_undef((enum tmpl_undef)o->kind, key->s, key->n);
        return HG_OK;
    }
    struct tmpl_val text = TMPL_STR("of that key");
    if (tmpl_as_int(key, &i)) HG_TRY(tmpl_str_printf(r, &text, "%lld", (long long)i));
    *out = tmpl_undef(TU_ELEMENT, text.s, text.n);
    return HG_OK;
}

/* ----------------------------------------------------------------------------------- slices -- */

static enum hg_status slice_arg(struct tmpl_run *r, const struct tmpl_val *v, int64_t otherwise,
                                int64_t *out)
{
    *out = otherwise;
    if (v->kind == TV_NONE || v->kind == TV_MISSING || tmpl_as_int(v, out)) return HG_OK;
    return tmpl_fail(r, "slice indices must be integers or None, not %s", tmpl_type_name(v));
}

/* A bound moved into what the sequence has: [0, n] going up, [-1, n-1] going down. */
static int64_t clamp(int64_t i, int64_t n, bool down)
{
    if (i < 0) i += n;
    int64_t lo = down ? -1 : 0, hi = down ? n - 1 : n;
    return i < lo ? lo : i > hi ? hi : i;
}

/* Items at start, start + step, ... of a string: bytes are copied unless they are one piece. */
static enum hg_status slice_str(struct tmpl_run *r, const struct tmpl_val *o, int64_t start,
                                int64_t step, int64_t count, struct tmpl_val *out)
{
    *out = tmpl_strn(o->s, 0);
    out->sub = o->sub;
    if (count == 0) return HG_OK;
    if (step == 1) {
        const char *from = o->s, *end = o->s + o->n;
        int32_t cp;
        for (; start > 0; start--) from += tmpl_cp(from, (size_t)(end - from), &cp);
        const char *to = from;
        for (; count > 0; count--) to += tmpl_cp(to, (size_t)(end - to), &cp);
        out->s = from;
        out->n = (size_t)(to - from);
        return HG_OK;
    }
    struct tmpl_list *l;
    HG_TRY(tmpl_items(r, o, &l));
    size_t mark = r->out.len;
    for (; count > 0; count--, start += step) {
        hg_buf_add(&r->out, l->v[start].s, l->v[start].n);
        if (count == 1) break; /* start + step may be out of an int64's range */
    }
    HG_TRY(tmpl_take(r, mark, out));
    out->sub = o->sub;
    return HG_OK;
}

static enum hg_status slice_range(struct tmpl_run *r, const struct tmpl_range *o, int64_t start,
                                  int64_t stop, int64_t step, int64_t count, struct tmpl_val *out)
{
    struct tmpl_range *range = tmpl_alloc(r, 1, sizeof *range);
    if (!range) return r->status;
    range->n = (size_t)count;
    if (__builtin_mul_overflow(step, o->step, &range->step) ||
        __builtin_mul_overflow(stop, o->step, &range->stop) ||
        __builtin_add_overflow(range->stop, o->start, &range->stop) ||
        __builtin_mul_overflow(start, o->step, &range->start) ||
        __builtin_add_overflow(range->start, o->start, &range->start))
        return tmpl_fail(r, "integer overflow in a slice of a range");
    *out = (struct tmpl_val){.kind = TV_RANGE, .range = range};
    return HG_OK;
}

enum hg_status tmpl_slice(struct tmpl_run *r, const struct tmpl_val *o, const struct tmpl_val *lo,
                          const struct tmpl_val *hi, const struct tmpl_val *by,
                          struct tmpl_val *out)
{
    if (o->kind == TV_UNDEF) return tmpl_fail_undef(r, o);
    if (o->kind != TV_STR && o->kind != TV_LIST && o->kind != TV_TUPLE && o->kind != TV_RANGE)
        return tmpl_fail(r, "'%s' object cannot be sliced", tmpl_type_name(o));
    size_t len;
    int64_t step, start, stop;
    HG_TRY(tmpl_len(r, o, &len));
    int64_t n = (int64_t)len;
    HG_TRY(slice_arg(r, by, 1, &step));
    if (step == 0) return tmpl_fail(r, "slice step cannot be zero");
    bool down = step < 0;
    bool no_lo = lo->kind == TV_NONE || lo->kind == TV_MISSING;
    bool no_hi = hi->kind == TV_NONE || hi->kind == TV_MISSING;
    HG_TRY(slice_arg(r, lo, 0, &start));
    HG_TRY(slice_arg(r, hi, 0, &stop));
    start = no_lo ? (down ? n - 1 : 0) : clamp(start, n, down);
    stop = no_hi ? (down ? -1 : n) : clamp(stop, n, down);
    int64_t span = down ? start - stop : stop - start;
    uint64_t stride = down ? 0 - (uint64_t)step : (uint64_t)step;
    int64_t count = span <= 0 ? 0 : (int64_t)(((uint64_t)span - 1) / stride) + 1;
    if (o->kind == TV_STR) return slice_str(r, o, start, step, count, out);
    if (o->kind == TV_RANGE) return slice_range(r, o->range, start, stop, step, count, out);
    const struct tmpl_list *src = o->list;
    struct tmpl_list *l = tmpl_list_new(r, (size_t)count);
    if (!l) return r->status;
    HG_TRY(tmpl_charge(r, 8 * (size_t)count));
    l->n = (size_t)count;
    for (int64_t i = 0; i < count; i++) l->v[i] = src->v[start + i * step];
    *out = tmpl_box(o->kind == TV_TUPLE ? TV_TUPLE : TV_LIST, l);
    return HG_OK;
}

/* ------------------------------------------------------------------------------------- loop -- */

enum hg_status tmpl_loop_attr(struct tmpl_run *r, struct tmpl_loop *l, const char *s, size_t n,
                              struct tmpl_val *out)
{
    static const char *const names[] = {"index",    "index0",    "first",    "last",     "length",
                                        "revindex", "revindex0", "previtem", "nextitem", "depth",
                                        "depth0",   "cycle",     "changed"};
    size_t which = 0;
    while (which < 13 && (strlen(names[which]) != n || memcmp(names[which], s, n) != 0)) which++;
    int64_t left = 0;
    if (which >= 4 && which <= 6) {
        HG_TRY(tmpl_loop_rest(r, l));
        left = (int64_t)(l->items->n - l->next) + l->has_peeked;
    }
    if (which == 3 || which == 8) HG_TRY(tmpl_loop_peek(r, l));
    struct tmpl_val self = {.kind = TV_LOOP, .loop = l};
    switch (which) {
    case 0: *out = tmpl_int(l->index0 + 1); break;
    case 1: *out = tmpl_int(l->index0); break;
    case 2: *out = tmpl_bool(l->index0 == 0); break;
    case 3: *out = tmpl_bool(!l->has_peeked); break;
    case 4: *out = tmpl_int(l->index0 + 1 + left); break;
    case 5: *out = tmpl_int(left + 1); break;
    case 6: *out = tmpl_int(left); break;
    case 7:
        *out = l->index0 ? l->before : tmpl_undef(TU_HINT, "there is no previous item", 25);
        break;
    case 8:
        *out = l->has_peeked ? l->peeked : tmpl_undef(TU_HINT, "there is no next item", 21);
        break;
    case 9: *out = tmpl_int(1); break;
    case 10: *out = tmpl_int(0); break;
    case 11:
    case 12: return bind(r, NULL, names[which], &self, out);
    default: *out = (struct tmpl_val){0};
    }
    return HG_OK;
}

enum hg_status tmpl_loop_call(struct tmpl_run *r, const struct tmpl_bound *m,
                              const struct tmpl_args *args, struct tmpl_val *out)
{
    struct tmpl_loop *l = m->self.loop;
    if (args->kw && args->kw->n)
        return tmpl_fail(r, "loop.%s() takes no keyword arguments", m->loop_method);
    if (strcmp(m->loop_method, "cycle") == 0) {
        if (args->n_pos == 0) return tmpl_fail(r, "loop.cycle(): no items for cycling given");
        *out = args->pos[(size_t)l->index0 % args->n_pos];
        return HG_OK;
    }
    struct tmpl_list *now = tmpl_list_new(r, args->n_pos);
    if (!now) return r->status;
    for (size_t i = 0; i < args->n_pos; i++) HG_TRY(tmpl_push(r, now, &args->pos[i]));
    struct tmpl_val v = tmpl_box(TV_TUPLE, now);
    bool same;
    HG_TRY(tmpl_equal(r, &l->changed, &v, &same));
    l->changed = v;
    *out = tmpl_bool(!same);
    return HG_OK;
}
