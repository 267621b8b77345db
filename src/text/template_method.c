/* template_method.c: the methods of str. Positions are in code points; the optional start and end
 * of find() and its like are not there. */
#include "text/template_int.h"

#include <string.h>
#include <utf8proc.h>

static bool is_class(int32_t cp, char what)
{
    utf8proc_category_t c = utf8proc_category(cp);
    bool alpha = c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
    bool decimal = c == UTF8PROC_CATEGORY_ND;
    bool digit = decimal || cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || cp == 0x2070 ||
                 (cp >= 0x2074 && cp <= 0x2079) || (cp >= 0x2080 && cp <= 0x2089) ||
                 (cp >= 0x2460 && cp <= 0x2468);
    bool numeric = c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
    switch (what) {
    case 'a': return alpha;
    case 'c': return decimal;
    case 'd': return digit;
    case 'n': return numeric;
    case 'w': return alpha || numeric;
    case '7': return cp < 0x80;
    default: return tmpl_space(cp);
    }
}

static enum hg_status all_are(struct tmpl_run *r, const struct tmpl_val *s, char what,
                              struct tmpl_val *out)
{
    bool all = s->n > 0 || what == '7';
    HG_TRY(tmpl_charge(r, s->n));
    for (size_t i = 0; all && i < s->n;) {
        int32_t cp;
        i += tmpl_cp(s->s + i, s->n - i, &cp);
        all = is_class(cp, what);
    }
    *out = tmpl_bool(all);
    return HG_OK;
}

/* ------------------------------------------------------------------------------------ parts -- */

static bool line_end(int32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

static enum hg_status push_part(struct tmpl_run *r, struct tmpl_list *l, const struct tmpl_val *s,
                                size_t from, size_t to)
{
    struct tmpl_val part = *s;
    part.s += from;
    part.n = to - from;
    return tmpl_push(r, l, &part);
}

enum hg_status tmpl_splitlines(struct tmpl_run *r, const struct tmpl_val *s, bool keep,
                               struct tmpl_list *l)
{
    HG_TRY(tmpl_charge(r, s->n));
    size_t from = 0;
    for (size_t i = 0; i < s->n;) {
        int32_t cp;
        size_t k = tmpl_cp(s->s + i, s->n - i, &cp);
        if (cp == '\r' && i + 1 < s->n && s->s[i + 1] == '\n') k = 2;
        if (line_end(cp)) {
            HG_TRY(push_part(r, l, s, from, keep ? i + k : i));
            from = i + k;
        }
        i += k;
    }
    return from < s->n ? push_part(r, l, s, from, s->n) : HG_OK;
}

/* split() without a separator: words between runs of white space. */
static enum hg_status split_space(struct tmpl_run *r, struct tmpl_val s, int64_t max,
                                  struct tmpl_list *l)
{
    for (s = tmpl_strip(&s, NULL, true, false); s.n; s = tmpl_strip(&s, NULL, true, false)) {
        size_t to = 0;
        for (int32_t cp; to < s.n;) {
            size_t k = tmpl_cp(s.s + to, s.n - to, &cp);
            if (tmpl_space(cp)) break;
            to += k;
        }
        if (max-- == 0) return tmpl_push(r, l, &s);
        HG_TRY(push_part(r, l, &s, 0, to));
        s.s += to;
        s.n -= to;
    }
    return HG_OK;
}

/* The same from the right; the parts come out last first. */
static enum hg_status rsplit_space(struct tmpl_run *r, struct tmpl_val s, int64_t max,
                                   struct tmpl_list *l)
{
    for (s = tmpl_strip(&s, NULL, false, true); s.n; s = tmpl_strip(&s, NULL, false, true)) {
        size_t from = s.n;
        for (int32_t cp; from > 0;) {
            size_t k = tmpl_cp_before(s.s, from, &cp);
            if (tmpl_space(cp)) break;
            from -= k;
        }
        if (max-- == 0) return tmpl_push(r, l, &s);
        HG_TRY(push_part(r, l, &s, from, s.n));
        s.n = from;
    }
    return HG_OK;
}

static enum hg_status split_on(struct tmpl_run *r, const struct tmpl_val *s,
                               const struct tmpl_val *sep, int64_t max, struct tmpl_list *l)
{
    size_t from = 0;
    for (const char *hit; max != 0; max--) {
        hit = memmem(s->s + from, s->n - from, sep->s, sep->n);
        if (!hit) break;
        HG_TRY(push_part(r, l, s, from, (size_t)(hit - s->s)));
        from = (size_t)(hit - s->s) + sep->n;
    }
    return push_part(r, l, s, from, s->n);
}

static const char *last_of(const char *s, size_t n, const struct tmpl_val *sep)
{
    for (size_t i = n >= sep->n ? n - sep->n + 1 : 0; i-- > 0;)
        if (memcmp(s + i, sep->s, sep->n) == 0) return s + i;
    return NULL;
}

static enum hg_status rsplit_on(struct tmpl_run *r, const struct tmpl_val *s,
                                const struct tmpl_val *sep, int64_t max, struct tmpl_list *l)
{
    size_t to = s->n;
    for (const char *hit; max != 0; max--) {
        hit = last_of(s->s, to, sep);
        if (!hit) break;
        HG_TRY(push_part(r, l, s, (size_t)(hit - s->s) + sep->n, to));
        to = (size_t)(hit - s->s);
    }
    return push_part(r, l, s, 0, to);
}

static enum hg_status want_str(struct tmpl_run *r, const struct tmpl_val *v, const char *what)
{
    if (v->kind == TV_STR) return HG_OK;
    if (v->kind == TV_UNDEF) return tmpl_fail_undef(r, v);
    return tmpl_fail(r, "%s must be a string, not %s", what, tmpl_type_name(v));
}

static enum hg_status want_int(struct tmpl_run *r, const struct tmpl_val *v, int64_t otherwise,
                               int64_t *out)
{
    *out = otherwise;
    if (v->kind == TV_MISSING || tmpl_as_int(v, out)) return HG_OK;
    return tmpl_fail(r, "'%s' object cannot be interpreted as an integer", tmpl_type_name(v));
}

static enum hg_status split(struct tmpl_run *r, const struct tmpl_val *s, const struct tmpl_val *a,
                            bool right, struct tmpl_val *out)
{
    int64_t max;
    bool space = a[0].kind == TV_MISSING || a[0].kind == TV_NONE;
    HG_TRY(want_int(r, &a[1], -1, &max));
    if (max < 0) max = INT64_MAX;
    if (!space) HG_TRY(want_str(r, &a[0], "separator"));
    if (!space && a[0].n == 0) return tmpl_fail(r, "empty separator");
    HG_TRY(tmpl_charge(r, s->n));
    struct tmpl_list *l = tmpl_list_new(r, 0);
    if (!l) return r->status;
    HG_TRY(space   ? (right ? rsplit_space : split_space)(r, *s, max, l)
           : right ? rsplit_on(r, s, &a[0], max, l)
                   : split_on(r, s, &a[0], max, l));
    for (size_t i = 0; right && i < l->n / 2; i++) {
        struct tmpl_val swap = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = swap;
    }
    *out = tmpl_box(TV_LIST, l);
    return HG_OK;
}

/* ----------------------------------------------------------------------------- method table -- */

#define METHOD(name)                                                                               \
    static enum hg_status name(struct tmpl_run *r, const struct tmpl_val *s,                       \
                               const struct tmpl_val *a, struct tmpl_val *out)

static enum hg_status strip_by(struct tmpl_run *r, const struct tmpl_val *s,
                               const struct tmpl_val *chars, bool left, bool right,
                               struct tmpl_val *out)
{
    bool space = chars->kind == TV_MISSING || chars->kind == TV_NONE;
    if (!space) HG_TRY(want_str(r, chars, "strip arg"));
    if (!space) HG_TRY(tmpl_charge(r, s->n * chars->n));
    *out = tmpl_strip(s, space ? NULL : chars, left, right);
    return tmpl_charge(r, s->n - out->n);
}

METHOD(m_strip)
{
    return strip_by(r, s, a, true, true, out);
}

METHOD(m_lstrip)
{
    return strip_by(r, s, a, true, false, out);
}

METHOD(m_rstrip)
{
    return strip_by(r, s, a, false, true, out);
}

METHOD(m_split)
{
    return split(r, s, a, false, out);
}

METHOD(m_rsplit)
{
    return split(r, s, a, true, out);
}

METHOD(m_splitlines)
{
    struct tmpl_list *l = tmpl_list_new(r, 0);
    if (!l) return r->status;
    *out = tmpl_box(TV_LIST, l);
    return tmpl_splitlines(r, s, tmpl_truth(&a[0]), l);
}

static enum hg_status affix(struct tmpl_run *r, const struct tmpl_val *s, const struct tmpl_val *a,
                            bool end, struct tmpl_val *out)
{
    bool tuple = a->kind == TV_TUPLE;
    *out = tmpl_bool(false);
    for (size_t i = 0; i < (tuple ? a->list->n : 1); i++) {
        const struct tmpl_val *x = tuple ? &a->list->v[i] : a;
        HG_TRY(want_str(r, x, "prefix or suffix"));
        if (x->n <= s->n && memcmp(end ? s->s + s->n - x->n : s->s, x->s, x->n) == 0)
            *out = tmpl_bool(true);
    }
    return HG_OK;
}

METHOD(m_startswith)
{
    return affix(r, s, a, false, out);
}

METHOD(m_endswith)
{
    return affix(r, s, a, true, out);
}

METHOD(m_removeprefix)
{
    HG_TRY(want_str(r, a, "prefix"));
    HG_TRY(affix(r, s, a, false, out));
    size_t cut = out->b ? a->n : 0;
    *out = *s;
    out->s += cut;
    out->n -= cut;
    return HG_OK;
}

METHOD(m_removesuffix)
{
    HG_TRY(want_str(r, a, "suffix"));
    HG_TRY(affix(r, s, a, true, out));
    size_t cut = out->b ? a->n : 0;
    *out = *s;
    out->n -= cut;
    return HG_OK;
}

METHOD(m_replace)
{
    int64_t count;
    HG_TRY(want_str(r, &a[0], "replace() argument 1"));
    HG_TRY(want_str(r, &a[1], "replace() argument 2"));
    HG_TRY(want_int(r, &a[2], -1, &count));
    return tmpl_replace(r, s, &a[0], &a[1], count, out);
}

METHOD(m_upper)
{
    (void)a;
    return tmpl_case(r, s, 'u', out);
}

METHOD(m_lower)
{
    (void)a;
    return tmpl_case(r, s, 'l', out);
}

METHOD(m_title)
{
    (void)a;
    return tmpl_case(r, s, 't', out);
}

METHOD(m_capitalize)
{
    (void)a;
    return tmpl_case(r, s, 'c', out);
}

METHOD(m_join)
{
    struct tmpl_list *l;
    HG_TRY(tmpl_items(r, a, &l));
    return tmpl_join(r, s, l, false, out);
}

/* Code point index of a byte position; -1 for no hit. */
static int64_t cp_index(const struct tmpl_val *s, const char *hit)
{
    return hit ? (int64_t)tmpl_cp_len(s->s, (size_t)(hit - s->s)) : -1;
}

METHOD(m_find)
{
    HG_TRY(want_str(r, a, "argument of find()"));
    *out = tmpl_int(cp_index(s, memmem(s->s, s->n, a->s, a->n)));
    return tmpl_charge(r, s->n);
}

METHOD(m_rfind)
{
    HG_TRY(want_str(r, a, "argument of rfind()"));
    HG_TRY(tmpl_charge(r, s->n + s->n / 64 * a->n));
    *out = tmpl_int(cp_index(s, last_of(s->s, s->n, a)));
    return HG_OK;
}

METHOD(m_index)
{
    HG_TRY(m_find(r, s, a, out));
    return out->i < 0 ? tmpl_fail(r, "substring not found") : HG_OK;
}

METHOD(m_count)
{
    HG_TRY(want_str(r, a, "argument of count()"));
    HG_TRY(tmpl_charge(r, s->n));
    int64_t n = a->n ? 0 : (int64_t)tmpl_cp_len(s->s, s->n) + 1;
    size_t at = 0;
    for (const char *hit; a->n && (hit = memmem(s->s + at, s->n - at, a->s, a->n)); n++)
        at = (size_t)(hit - s->s) + a->n;
    *out = tmpl_int(n);
    return HG_OK;
}

/* partition and rpartition: (before, separator, after) around one hit, or the text at one end. */
static enum hg_status partition(struct tmpl_run *r, const struct tmpl_val *s,
                                const struct tmpl_val *sep, bool right, struct tmpl_val *out)
{
    HG_TRY(want_str(r, sep, "separator"));
    if (sep->n == 0) return tmpl_fail(r, "empty separator");
    HG_TRY(tmpl_charge(r, right ? s->n + s->n / 64 * sep->n : s->n));
    const char *hit = right ? last_of(s->s, s->n, sep) : memmem(s->s, s->n, sep->s, sep->n);
    struct tmpl_list *l = tmpl_list_new(r, 3);
    if (!l) return r->status;
    *out = tmpl_box(TV_TUPLE, l);
    size_t at = hit ? (size_t)(hit - s->s) : right ? 0 : s->n;
    HG_TRY(push_part(r, l, s, 0, at));
    HG_TRY(push_part(r, l, s, at, at + (hit ? sep->n : 0)));
    return push_part(r, l, s, at + (hit ? sep->n : 0), s->n);
}

METHOD(m_partition)
{
    return partition(r, s, a, false, out);
}

METHOD(m_rpartition)
{
    return partition(r, s, a, true, out);
}

#define IS(name, what)                                                                             \
    METHOD(name)                                                                                   \
    {                                                                                              \
        (void)a;                                                                                   \
        return all_are(r, s, what, out);                                                           \
    }
IS(m_isalpha, 'a')
IS(m_isdecimal, 'c')
IS(m_isdigit, 'd')
IS(m_isnumeric, 'n')
IS(m_isalnum, 'w')
IS(m_isascii, '7')
IS(m_isspace, 's')

METHOD(m_islower)
{
    (void)a;
    *out = tmpl_bool(tmpl_is_case(s, false));
    return tmpl_charge(r, s->n);
}

METHOD(m_isupper)
{
    (void)a;
    *out = tmpl_bool(tmpl_is_case(s, true));
    return tmpl_charge(r, s->n);
}

const struct tmpl_def *tmpl_str_method(const char *name, size_t n)
{
    static const struct tmpl_def defs[] = {{"strip", m_strip, "chars", 0},
                                           {"lstrip", m_lstrip, "chars", 0},
                                           {"rstrip", m_rstrip, "chars", 0},
                                           {"split", m_split, "sep,maxsplit", 0},
                                           {"rsplit", m_rsplit, "sep,maxsplit", 0},
                                           {"splitlines", m_splitlines, "keepends", 0},
                                           {"startswith", m_startswith, "prefix", 1},
                                           {"endswith", m_endswith, "suffix", 1},
                                           {"removeprefix", m_removeprefix, "prefix", 1},
                                           {"removesuffix", m_removesuffix, "suffix", 1},
                                           {"replace", m_replace, "old,new,count", 2},
                                           {"upper", m_upper, "", 0},
                                           {"lower", m_lower, "", 0},
                                           {"title", m_title, "", 0},
                                           {"capitalize", m_capitalize, "", 0},
                                           {"join", m_join, "iterable", 1},
                                           {"find", m_find, "sub", 1},
                                           {"rfind", m_rfind, "sub", 1},
                                           {"index", m_index, "sub", 1},
                                           {"count", m_count, "sub", 1},
                                           {"partition", m_partition, "sep", 1},
                                           {"rpartition", m_rpartition, "sep", 1},
                                           {"isalpha", m_isalpha, "", 0},
                                           {"isdecimal", m_isdecimal, "", 0},
                                           {"isdigit", m_isdigit, "", 0},
                                           {"isnumeric", m_isnumeric, "", 0},
                                           {"isalnum", m_isalnum, "", 0},
                                           {"isascii", m_isascii, "", 0},
                                           {"isspace", m_isspace, "", 0},
                                           {"islower", m_islower, "", 0},
                                           {"isupper", m_isupper, "", 0},
                                           {0}};
    return tmpl_find_def(defs, name, n);
}
