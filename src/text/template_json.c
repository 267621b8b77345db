/* template_json.c: str() and repr() of values as Python writes them, and the tojson filter as
 * json.dumps does. All build at the end of r->out. */
#include "text/template_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static enum hg_status repr(struct tmpl_run *r, const struct tmpl_val *v);

enum hg_status tmpl_out_check(struct tmpl_run *r)
{
    if (r->out.oom) return tmpl_fail(r, "out of memory for the output");
    if (r->out.len > r->lim.output)
        return tmpl_fail(r, "more than %zu bytes of output", r->lim.output);
    return HG_OK;
}

enum hg_status tmpl_take(struct tmpl_run *r, size_t mark, struct tmpl_val *out)
{
    HG_TRY(tmpl_out_check(r));
    size_t n = r->out.len - mark;
    HG_TRY(tmpl_charge(r, n));
    HG_TRY(tmpl_str_copy(r, n ? r->out.data + mark : "", n, out));
    r->out.len = mark;
    return HG_OK;
}

/* "%.*e" with one more in the last digit; false when all are nines. */
static bool bump_digits(char *text)
{
    char *d = strchr(text, 'e') - 1;
    for (; d >= text && (*d == '9' || *d == '.'); d--)
        if (*d == '9') *d = '0';
    if (d < text || *d == '-') return false;
    ++*d;
    return true;
}

/* The shortest digits that read back as f, in "%e" form. Next to a power of two the numbers below
 * lie closer than those above: there the shortest may be one up from the correctly rounded. */
static void shortest(double f, char text[40])
{
    int exponent;
    bool power = fabs(frexp(f, &exponent)) == 0.5;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, 40, "%.*e", digits - 1, f);
        if (strtod(text, NULL) == f) return;
        if (power && bump_digits(text) && strtod(text, NULL) == f) return;
    }
}

/* Python's repr of a float, with an exponent below 1e-4 and from 1e16 on. */
enum hg_status tmpl_repr_float(struct tmpl_run *r, double f)
{
    struct hg_buf *b = &r->out;
    if (!isfinite(f)) {
        hg_buf_str(b, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return HG_OK;
    }
    char text[40];
    shortest(f, text);
    char *e = strchr(text, 'e'), *d = text;
    int exponent = atoi(e + 1);
    *e = 0;
    if (*d == '-') hg_buf_char(b, *d++);
    if (d[1] == '.') memmove(d + 1, d + 2, strlen(d + 1));
    int n = (int)strlen(d); /* digits, the point taken out */
    if (exponent < -4 || exponent >= 16) {
        hg_buf_printf(b, "%c%s%se%c%02d", d[0], n > 1 ? "." : "", d + 1, exponent < 0 ? '-' : '+',
                      abs(exponent));
    } else if (exponent < 0) {
        hg_buf_printf(b, "0.%.*s%s", -exponent - 1, "0000", d);
    } else if (n <= exponent + 1) {
        hg_buf_printf(b, "%s%.*s.0", d, exponent + 1 - n, "0000000000000000");
    } else {
        hg_buf_printf(b, "%.*s.%s", exponent + 1, d, d + exponent + 1);
    }
    return HG_OK;
}

static bool printable(int32_t cp)
{
    if (cp < 0x7f) return cp >= 0x20;
    utf8proc_category_t c = utf8proc_category(cp);
    return c != UTF8PROC_CATEGORY_CN && !(c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_CO);
}

static enum hg_status repr_str(struct tmpl_run *r, const struct tmpl_val *v)
{
    struct hg_buf *b = &r->out;
    char quote = memchr(v->s, '\'', v->n) && !memchr(v->s, '"', v->n) ? '"' : '\'';
    HG_TRY(tmpl_charge(r, v->n));
    if (v->sub) hg_buf_str(b, "Markup(");
    hg_buf_char(b, quote);
    for (size_t i = 0; i < v->n;) {
        int32_t cp;
        size_t k = tmpl_cp(v->s + i, v->n - i, &cp);
        if (cp == '\\' || cp == quote)
            hg_buf_printf(b, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            hg_buf_str(b, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
        else if (printable(cp))
            hg_buf_add(b, v->s + i, k);
        else if (cp < 0x100)
            hg_buf_printf(b, "\\x%02x", (unsigned)cp);
        else
            hg_buf_printf(b, cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
        i += k;
    }
    hg_buf_char(b, quote);
    if (v->sub) hg_buf_char(b, ')');
    return HG_OK;
}

static enum hg_status repr_list(struct tmpl_run *r, const struct tmpl_list *l, char open,
                                char close)
{
    hg_buf_char(&r->out, open);
    for (size_t i = 0; i < l->n; i++) {
        if (i) hg_buf_str(&r->out, ", ");
        HG_TRY(repr(r, &l->v[i]));
    }
    if (open == '(' && l->n == 1) hg_buf_char(&r->out, ',');
    hg_buf_char(&r->out, close);
    return HG_OK;
}

static enum hg_status repr_dict(struct tmpl_run *r, const struct tmpl_dict *d)
{
    hg_buf_char(&r->out, '{');
    for (size_t i = 0; i < d->n; i++) {
        if (i) hg_buf_str(&r->out, ", ");
        HG_TRY(repr(r, &d->k[i]));
        hg_buf_str(&r->out, ": ");
        HG_TRY(repr(r, &d->v[i]));
    }
    hg_buf_char(&r->out, '}');
    return HG_OK;
}

static enum hg_status repr_any(struct tmpl_run *r, const struct tmpl_val *v)
{
    static const char *const views[] = {"dict_keys(", "dict_values(", "dict_items("};
    struct hg_buf *b = &r->out;
    switch ((enum tmpl_kind)v->kind) {
    case TV_NONE: hg_buf_str(b, "None"); return HG_OK;
    case TV_BOOL: hg_buf_str(b, v->b ? "True" : "False"); return HG_OK;
    case TV_INT: hg_buf_printf(b, "%lld", (long long)v->i); return HG_OK;
    case TV_FLOAT: return tmpl_repr_float(r, v->f);
    case TV_STR: return repr_str(r, v);
    case TV_LIST: return repr_list(r, v->list, '[', ']');
    case TV_TUPLE: return repr_list(r, v->list, '(', ')');
    case TV_DICT: return repr_dict(r, v->dict);
    case TV_VIEW:
        hg_buf_str(b, views[v->sub]);
        HG_TRY(repr_list(r, v->list, '[', ']'));
        hg_buf_char(b, ')');
        return HG_OK;
    case TV_RANGE:
        hg_buf_printf(b, "range(%lld, %lld", (long long)v->range->start, (long long)v->range->stop);
        if (v->range->step != 1) hg_buf_printf(b, ", %lld", (long long)v->range->step);
        hg_buf_char(b, ')');
        return HG_OK;
    case TV_NS:
        hg_buf_str(b, "<Namespace ");
        HG_TRY(repr_dict(r, v->dict));
        hg_buf_char(b, '>');
        return HG_OK;
    case TV_MACRO:
        hg_buf_str(b, "<Macro ");
        HG_TRY(repr_str(r, &v->macro->def->val));
        hg_buf_char(b, '>');
        return HG_OK;
    case TV_LOOP:
        hg_buf_printf(b, "<LoopContext %lld/%zu>", (long long)v->loop->index0 + 1,
                      v->loop->items->n);
        return HG_OK;
    case TV_MISSING:
    case TV_UNDEF: hg_buf_str(b, "Undefined"); return HG_OK;
    default: hg_buf_printf(b, "<%s object>", tmpl_type_name(v)); return HG_OK;
    }
}

static enum hg_status repr(struct tmpl_run *r, const struct tmpl_val *v)
{
    HG_TRY(tmpl_enter(r));
    HG_TRY(repr_any(r, v));
    tmpl_leave(r);
    return tmpl_out_check(r);
}

enum hg_status tmpl_write(struct tmpl_run *r, const struct tmpl_val *v)
{
    if (v->kind == TV_UNDEF) return HG_OK;
    if (v->kind != TV_STR) return repr(r, v);
    HG_TRY(tmpl_charge(r, v->n));
    hg_buf_add(&r->out, v->s, v->n);
    return tmpl_out_check(r);
}

enum hg_status tmpl_str(struct tmpl_run *r, const struct tmpl_val *v, struct tmpl_val *out)
{
    *out = *v;
    if (v->kind == TV_STR) return HG_OK;
    size_t mark = r->out.len;
    HG_TRY(tmpl_write(r, v));
    return tmpl_take(r, mark, out);
}

/* ------------------------------------------------------------------------------------ tojson -- */

struct dumper {
    struct tmpl_run *r;
    bool ascii, sort;
    struct tmpl_val indent; /* one level's; TV_NONE: all on one line */
    struct tmpl_val item_sep, key_sep;
    int level;
};

static enum hg_status dump(struct dumper *d, const struct tmpl_val *v);

static void dump_str(struct dumper *d, const struct tmpl_val *v)
{
    struct hg_buf *b = &d->r->out;
    hg_buf_char(b, '"');
    if (!d->ascii) {
        hg_buf_json(b, v->s, v->n);
    } else {
        for (size_t i = 0; i < v->n;) {
            int32_t cp;
            size_t k = tmpl_cp(v->s + i, v->n - i, &cp);
            if (cp < 0x7f)
                hg_buf_json(b, v->s + i, 1);
            else if (cp < 0x10000)
                hg_buf_printf(b, "\\u%04x", (unsigned)cp);
            else
                hg_buf_printf(b, "\\u%04x\\u%04x", 0xd7c0 + ((unsigned)cp >> 10),
                              0xdc00 + ((unsigned)cp & 0x3ff));
            i += k;
        }
    }
    hg_buf_char(b, '"');
}

static void dump_float(struct dumper *d, double f)
{
    if (isfinite(f))
        tmpl_repr_float(d->r, f);
    else
        hg_buf_str(&d->r->out, isnan(f) ? "NaN" : f < 0 ? "-Infinity" : "Infinity");
}

static enum hg_status new_line(struct dumper *d)
{
    if (d->indent.kind == TV_NONE) return HG_OK;
    hg_buf_char(&d->r->out, '\n');
    for (int i = 0; i < d->level; i++) {
        hg_buf_add(&d->r->out, d->indent.s, d->indent.n);
        HG_TRY(tmpl_out_check(d->r));
    }
    return HG_OK;
}

static enum hg_status dump_key(struct dumper *d, const struct tmpl_val *k)
{
    struct hg_buf *b = &d->r->out;
    if (k->kind == TV_STR) {
        dump_str(d, k);
        return HG_OK;
    }
    if (k->kind != TV_NONE && !tmpl_is_number(k))
        return tmpl_fail(d->r, "keys must be str, int, float, bool or None, not %s",
                         tmpl_type_name(k));
    hg_buf_char(b, '"');
    HG_TRY(dump(d, k));
    hg_buf_char(b, '"');
    return HG_OK;
}

/* Numbers of the entries in the order of their keys, for sort_keys. */
static enum hg_status sorted(struct tmpl_run *r, const struct tmpl_dict *dict, size_t **out)
{
    size_t n = dict->n, *at = tmpl_alloc(r, n, sizeof *at), *to = tmpl_alloc(r, n, sizeof *to);
    if (!at || !to) return r->status;
    for (size_t i = 0; i < n; i++) at[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t from = 0; from < n; from += 2 * width) {
            size_t mid = from + width < n ? from + width : n;
            size_t end = from + 2 * width < n ? from + 2 * width : n, i = from, j = mid;
            for (size_t k = from; k < end; k++) {
                bool right = i == mid;
                if (!right && j < end)
                    HG_TRY(tmpl_order(r, TK_LT, &dict->k[at[j]], &dict->k[at[i]], &right));
                to[k] = right ? at[j++] : at[i++];
            }
        }
        size_t *swap = at;
        at = to;
        to = swap;
    }
    *out = at;
    return HG_OK;
}

static enum hg_status dump_dict(struct dumper *d, const struct tmpl_dict *dict)
{
    struct hg_buf *b = &d->r->out;
    size_t *order = NULL;
    if (d->sort) HG_TRY(sorted(d->r, dict, &order));
    hg_buf_char(b, '{');
    d->level++;
    for (size_t i = 0; i < dict->n; i++) {
        size_t at = order ? order[i] : i;
        if (i) hg_buf_add(b, d->item_sep.s, d->item_sep.n);
        HG_TRY(new_line(d));
        HG_TRY(dump_key(d, &dict->k[at]));
        hg_buf_add(b, d->key_sep.s, d->key_sep.n);
        HG_TRY(dump(d, &dict->v[at]));
    }
    d->level--;
    if (dict->n) HG_TRY(new_line(d));
    hg_buf_char(b, '}');
    return HG_OK;
}

static enum hg_status dump_list(struct dumper *d, const struct tmpl_list *l)
{
    struct hg_buf *b = &d->r->out;
    hg_buf_char(b, '[');
    d->level++;
    for (size_t i = 0; i < l->n; i++) {
        if (i) hg_buf_add(b, d->item_sep.s, d->item_sep.n);
        HG_TRY(new_line(d));
        HG_TRY(dump(d, &l->v[i]));
    }
    d->level--;
    if (l->n) HG_TRY(new_line(d));
    hg_buf_char(b, ']');
    return HG_OK;
}

static enum hg_status dump(struct dumper *d, const struct tmpl_val *v)
{
    struct tmpl_run *r = d->r;
    HG_TRY(tmpl_enter(r));
    switch ((enum tmpl_kind)v->kind) {
    case TV_NONE: hg_buf_str(&r->out, "null"); break;
    case TV_BOOL: hg_buf_str(&r->out, v->b ? "true" : "false"); break;
    case TV_INT: hg_buf_printf(&r->out, "%lld", (long long)v->i); break;
    case TV_FLOAT: dump_float(d, v->f); break;
    case TV_STR:
        HG_TRY(tmpl_charge(r, v->n));
        dump_str(d, v);
        break;
    case TV_LIST:
    case TV_TUPLE: HG_TRY(dump_list(d, v->list)); break;
    case TV_DICT: HG_TRY(dump_dict(d, v->dict)); break;
    default: return tmpl_fail(r, "Object of type %s is not JSON serializable", tmpl_type_name(v));
    }
    tmpl_leave(r);
    return tmpl_out_check(r);
}

/* tojson(ensure_ascii, indent, separators, sort_keys), as transformers defines it. */
enum hg_status tmpl_tojson(struct tmpl_run *r, const struct tmpl_val *self,
                           const struct tmpl_val *a, struct tmpl_val *out)
{
    static const char blanks[] = "                                ";
    struct dumper d = {.r = r, .ascii = tmpl_truth(&a[0]), .sort = tmpl_truth(&a[3])};
    d.indent = TMPL_NONE;
    d.item_sep = TMPL_STR(", ");
    d.key_sep = TMPL_STR(": ");
    int64_t width;
    if (tmpl_as_int(&a[1], &width)) {
        if (width > (int64_t)sizeof blanks - 1)
            return tmpl_fail(r, "tojson: indent of %lld, the limit is %zu", (long long)width,
                             sizeof blanks - 1);
        d.indent = tmpl_strn(blanks, width < 0 ? 0 : (size_t)width);
    } else if (a[1].kind == TV_STR) {
        d.indent = a[1];
    } else if (a[1].kind != TV_MISSING && a[1].kind != TV_NONE) {
        return tmpl_fail(r, "tojson: indent is a %s", tmpl_type_name(&a[1]));
    }
    if (d.indent.kind == TV_STR) d.item_sep = TMPL_STR(",");
    if (a[2].kind == TV_TUPLE || a[2].kind == TV_LIST) {
        const struct tmpl_list *l = a[2].list;
        if (l->n != 2 || l->v[0].kind != TV_STR || l->v[1].kind != TV_STR)
            return tmpl_fail(r, "tojson: separators must be two strings");
        d.item_sep = l->v[0];
        d.key_sep = l->v[1];
    } else if (a[2].kind != TV_MISSING && a[2].kind != TV_NONE) {
        return tmpl_fail(r, "tojson: separators is a %s", tmpl_type_name(&a[2]));
    }
    size_t mark = r->out.len;
    HG_TRY(dump(&d, self));
    return tmpl_take(r, mark, out);
}
