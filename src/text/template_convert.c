/* template_convert.c: filters on text and numbers. As in jinja2 a filter on text takes any value
 * and works on its str(). */
#include "text/template_int.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name)                                                                               \
    static enum hg_status name(struct tmpl_run *r, const struct tmpl_val *v,                       \
                               const struct tmpl_val *a, struct tmpl_val *out)

/* ------------------------------------------------------------------------------------- text -- */

FILTER(f_string)
{
    (void)a;
    return tmpl_str(r, v, out);
}

FILTER(f_safe)
{
    (void)a;
    HG_TRY(tmpl_str(r, v, out));
    out->sub = 1;
    return HG_OK;
}

FILTER(f_escape)
{
    (void)a;
    HG_TRY(tmpl_str(r, v, out));
    return out->sub ? HG_OK : tmpl_escape(r, out, out);
}

FILTER(f_trim) /* chars */
{
    struct tmpl_val s;
    bool space = a->kind == TV_MISSING || a->kind == TV_NONE;
    HG_TRY(tmpl_str(r, v, &s));
    if (!space && a->kind != TV_STR)
        return tmpl_fail(r, "trim: chars is a '%s'", tmpl_type_name(a));
    if (!space) HG_TRY(tmpl_charge(r, s.n * a->n));
    *out = tmpl_strip(&s, space ? NULL : a, true, true);
    return tmpl_charge(r, s.n - out->n);
}

static enum hg_status change_case(struct tmpl_run *r, const struct tmpl_val *v, char how,
                                  struct tmpl_val *out)
{
    struct tmpl_val s;
    HG_TRY(tmpl_str(r, v, &s));
    return tmpl_case(r, &s, how, out);
}

FILTER(f_upper)
{
    (void)a;
    return change_case(r, v, 'u', out);
}

FILTER(f_lower)
{
    (void)a;
    return change_case(r, v, 'l', out);
}

FILTER(f_capitalize)
{
    (void)a;
    return change_case(r, v, 'c', out);
}

/* Unlike str.title() words end at white space, hyphens and opening brackets only. */
FILTER(f_title)
{
    struct tmpl_val s, all = TMPL_STR("");
    (void)a;
    HG_TRY(tmpl_str(r, v, &s));
    for (size_t i = 0, from = 0; i < s.n;) {
        int32_t cp;
        i += tmpl_cp(s.s + i, s.n - i, &cp);
        bool gap = tmpl_space(cp) || (cp < 0x80 && cp > 0 && strchr("-({[<", cp));
        if (!gap && i < s.n) continue;
        struct tmpl_val word = tmpl_strn(s.s + from, i - from);
        HG_TRY(tmpl_case(r, &word, 'c', &word));
        HG_TRY(tmpl_concat(r, &all, &word, &all));
        from = i;
    }
    *out = all;
    return HG_OK;
}

FILTER(f_replace) /* old, new, count */
{
    struct tmpl_val s, old, with;
    int64_t count = -1;
    HG_TRY(tmpl_str(r, v, &s));
    HG_TRY(tmpl_str(r, &a[0], &old));
    HG_TRY(tmpl_str(r, &a[1], &with));
    if (a[2].kind != TV_MISSING && a[2].kind != TV_NONE && !tmpl_as_int(&a[2], &count))
        return tmpl_fail(r, "replace: count is a '%s'", tmpl_type_name(&a[2]));
    s.sub = 0;
    return tmpl_replace(r, &s, &old, &with, count, out);
}

FILTER(f_indent) /* width, first, blank */
{
    static const char blanks[] = "                                                                ";
    struct tmpl_val pad = tmpl_strn(blanks, 4);
    int64_t width;
    if (v->kind == TV_UNDEF) return tmpl_fail_undef(r, v);
    if (v->kind != TV_STR) return tmpl_fail(r, "indent of a '%s'", tmpl_type_name(v));
    if (a[0].kind == TV_STR) {
        pad = a[0];
    } else if (tmpl_as_int(&a[0], &width)) {
        if (width > (int64_t)sizeof blanks - 1)
            return tmpl_fail(r, "indent: width of %lld, the limit is %zu", (long long)width,
                             sizeof blanks - 1);
        pad.n = width < 0 ? 0 : (size_t)width;
    } else if (a[0].kind != TV_MISSING) {
        return tmpl_fail(r, "indent: width is a '%s'", tmpl_type_name(&a[0]));
    }
    struct tmpl_val newline = TMPL_STR("\n"), text;
    struct tmpl_list *lines = tmpl_list_new(r, 0);
    if (!lines) return r->status;
    HG_TRY(tmpl_concat(r, v, &newline, &text));
    HG_TRY(tmpl_splitlines(r, &text, false, lines));
    size_t mark = r->out.len;
    for (size_t i = 0; i < lines->n; i++) {
        if (i) hg_buf_char(&r->out, '\n');
        bool indented = i == 0 ? tmpl_truth(&a[1]) : lines->v[i].n || tmpl_truth(&a[2]);
        if (indented) hg_buf_add(&r->out, pad.s, pad.n);
        HG_TRY(tmpl_write(r, &lines->v[i]));
    }
    return tmpl_take(r, mark, out);
}

/* ---------------------------------------------------------------------------------- numbers -- */

/* A number's text without white space around it and without underscores between digits, in
 * buf[0..size); false when it cannot be a number. */
static bool number_text(const struct tmpl_val *v, char *buf, size_t size)
{
    struct tmpl_val s = tmpl_strip(v, NULL, true, true);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.s[i];
        if (c == '_') {
            bool between = i > 0 && i + 1 < s.n && strchr("0123456789abcdefABCDEF", s.s[i - 1]) &&
                           s.s[i - 1] && s.s[i + 1] != '_' && s.s[i + 1] != '.';
            if (!between) return false;
            continue;
        }
        if (n + 1 >= size || c <= 0 ||
            !strchr("+-.0123456789abcdefghijklmnopqrstuvwxyz"
                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                    c))
            return false;
        buf[n++] = c;
    }
    buf[n] = 0;
    return n > 0;
}

/* Python's float(text); strtod alone would take hexadecimal and nan(...) as well. */
static bool parse_float(const struct tmpl_val *v, double *out)
{
    char buf[512], *end;
    if (!number_text(v, buf, sizeof buf) || strpbrk(buf, "xXpP")) return false;
    *out = strtod(buf, &end);
    return *end == 0;
}

static bool parse_int(const struct tmpl_val *v, int base, int64_t *out)
{
    char buf[512], *end;
    if (!number_text(v, buf, sizeof buf)) return false;
    const char *digits = buf + (buf[0] == '-' || buf[0] == '+');
    char prefix = digits[0] == '0' ? (char)(digits[1] | 0x20) : 0;
    if (base == 0) {
        base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
        /* as in Python's source 012 is no number, 00 is */
        if (base == 10 && digits[0] == '0' && strspn(digits, "0") != strlen(digits)) return false;
    }
    if (digits != buf && (*digits == '+' || *digits == '-')) return false;
    if ((prefix == 'o' && base == 8) || (prefix == 'b' && base == 2)) {
        memmove((char *)buf + (digits - buf), digits + 2, strlen(digits + 2) + 1);
        if (!*digits || *digits == '-' || *digits == '+') return false;
    }
    errno = 0;
    *out = strtoll(buf, &end, base);
    return *end == 0 && end != buf && errno == 0;
}

/* int() of a float: cut off towards zero. */
static enum hg_status int_of_float(struct tmpl_run *r, double f, struct tmpl_val *out)
{
    if (!(f > -0x1p63 && f < 0x1p63)) return tmpl_fail(r, "int: the value does not fit 64 bits");
    *out = tmpl_int((int64_t)f);
    return HG_OK;
}

FILTER(f_int) /* default, base */
{
    int64_t i, base = 10;
    double f;
    *out = a[0].kind == TV_MISSING ? tmpl_int(0) : a[0];
    if (v->kind == TV_UNDEF) return tmpl_fail_undef(r, v);
    if (a[1].kind != TV_MISSING && !tmpl_as_int(&a[1], &base))
        return tmpl_fail(r, "int: base is a '%s'", tmpl_type_name(&a[1]));
    if (tmpl_as_int(v, &i)) {
        *out = tmpl_int(i);
    } else if (v->kind == TV_FLOAT) {
        if (!isnan(v->f)) return int_of_float(r, v->f, out);
    } else if (v->kind == TV_STR) {
        if ((base == 0 || (base >= 2 && base <= 36)) && parse_int(v, (int)base, &i))
            *out = tmpl_int(i);
        else if (parse_float(v, &f) && isfinite(f))
            return int_of_float(r, f, out);
    }
    return HG_OK;
}

FILTER(f_float) /* default */
{
    double f;
    *out = a[0].kind == TV_MISSING ? tmpl_float(0) : a[0];
    if (v->kind == TV_UNDEF) return tmpl_fail_undef(r, v);
    if (tmpl_is_number(v))
        *out = tmpl_float(tmpl_as_float(v));
    else if (v->kind == TV_STR && parse_float(v, &f))
        *out = tmpl_float(f);
    return HG_OK;
}

FILTER(f_abs)
{
    int64_t i;
    (void)a;
    if (v->kind == TV_UNDEF) return tmpl_fail_undef(r, v);
    if (v->kind == TV_FLOAT) {
        *out = tmpl_float(fabs(v->f));
        return HG_OK;
    }
    if (!tmpl_as_int(v, &i))
        return tmpl_fail(r, "bad operand type for abs(): '%s'", tmpl_type_name(v));
    if (i == INT64_MIN) return tmpl_fail(r, "integer overflow in abs");
    *out = tmpl_int(i < 0 ? -i : i);
    return HG_OK;
}

/* round(i, -places): to the nearest multiple of a power of ten, halves to even. */
static enum hg_status round_int(struct tmpl_run *r, int64_t i, int64_t precision,
                                struct tmpl_val *out)
{
    *out = tmpl_int(i);
    if (precision >= 0) return HG_OK;
    if (precision < -18) {
        *out = tmpl_int(0);
        return HG_OK;
    }
    int64_t unit = 1;
    for (; precision < 0; precision++) unit *= 10;
    int64_t rest = i % unit, base = i - rest, half = unit / 2;
    int64_t away = rest < 0 ? -unit : unit, size = rest < 0 ? -rest : rest;
    bool up = size > half || (size == half && (base / unit) % 2 != 0);
    if (up && __builtin_add_overflow(base, away, &base)) return tmpl_fail(r, "integer overflow");
    *out = tmpl_int(base);
    return HG_OK;
}

/* Rounds the exact binary value, halves to even: printf does just that. */
static double round_float(double f, int64_t precision)
{
    char text[700];
    if (!isfinite(f) || precision > 323) return f;
    if (precision < -308) return copysign(0, f);
    if (precision >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)precision, f);
        return strtod(text, NULL);
    }
    /* Through the decimal expansion: no division that could round by itself. */
    double unit = pow(10, (double)-precision);
    return nearbyint(f / unit) * unit;
}

FILTER(f_round) /* precision, method */
{
    int64_t precision = 0, i;
    if (v->kind == TV_UNDEF) return tmpl_fail_undef(r, v);
    if (a[0].kind != TV_MISSING && !tmpl_as_int(&a[0], &precision))
        return tmpl_fail(r, "round: precision is a '%s'", tmpl_type_name(&a[0]));
    bool ceiling = tmpl_is(&a[1], "ceil"), floored = tmpl_is(&a[1], "floor");
    if (a[1].kind != TV_MISSING && !ceiling && !floored && !tmpl_is(&a[1], "common"))
        return tmpl_fail(r, "method must be common, ceil or floor");
    if (!tmpl_is_number(v)) return tmpl_fail(r, "round of a '%s'", tmpl_type_name(v));
    if (ceiling || floored) {
        double unit = pow(10, (double)precision), f = tmpl_as_float(v) * unit;
        *out = tmpl_float((ceiling ? ceil(f) : floor(f)) / unit);
        return HG_OK;
    }
    if (tmpl_as_int(v, &i)) return round_int(r, i, precision, out);
    *out = tmpl_float(round_float(v->f, precision));
    return HG_OK;
}

const struct tmpl_def tmpl_convert_filters[] = {{"string", f_string, "", 0},
                                                {"safe", f_safe, "", 0},
                                                {"escape", f_escape, "", 0},
                                                {"e", f_escape, "", 0},
                                                {"trim", f_trim, "chars", 0},
                                                {"upper", f_upper, "", 0},
                                                {"lower", f_lower, "", 0},
                                                {"capitalize", f_capitalize, "", 0},
                                                {"title", f_title, "", 0},
                                                {"replace", f_replace, "old,new,count", 2},
                                                {"indent", f_indent, "width,first,blank", 0},
                                                {"int", f_int, "default,base", 0},
                                                {"float", f_float, "default", 0},
                                                {"abs", f_abs, "", 0},
                                                {"round", f_round, "precision,method", 0},
                                                {0}};
