/* template_str.c: text in UTF-8, by code point: white space, case, replacing, joining.
 *
 * Case mapping is Unicode's simple one (one code point to one) but for the German sharp s. */
#include "text/template_int.h"

#include <string.h>
#include <utf8proc.h>

size_t tmpl_cp_len(const char *s, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) len += ((unsigned char)s[i] & 0xc0) != 0x80;
    return len;
}

size_t tmpl_cp(const char *s, size_t n, int32_t *cp)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t k = u[0] < 0x80 ? 1 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
    if (k > n) k = n; /* cannot happen in valid UTF-8 */
    *cp = k == 1 ? u[0] : u[0] & (0x7f >> k);
    for (size_t i = 1; i < k; i++) *cp = *cp << 6 | (u[i] & 0x3f);
    return k;
}

void tmpl_scrub(char *text)
{
    for (size_t n = strlen(text), i = 0; i < n;) {
        utf8proc_int32_t cp;
        utf8proc_ssize_t k =
            utf8proc_iterate((utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &cp);
        if (k <= 0) text[i] = '?';
        i += k > 0 ? (size_t)k : 1;
    }
}

size_t tmpl_cp_before(const char *s, size_t n, int32_t *cp)
{
    size_t k = 1;
    while (k < n && k < 4 && ((unsigned char)s[n - k] & 0xc0) == 0x80) k++;
    return tmpl_cp(s + n - k, k, cp);
}

bool tmpl_space(int32_t cp)
{
    return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20) || cp == 0x85 || cp == 0xa0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

static bool in_set(int32_t cp, const struct tmpl_val *chars)
{
    if (!chars) return tmpl_space(cp);
    for (size_t i = 0; i < chars->n;) {
        int32_t c;
        i += tmpl_cp(chars->s + i, chars->n - i, &c);
        if (c == cp) return true;
    }
    return false;
}

struct tmpl_val tmpl_strip(const struct tmpl_val *s, const struct tmpl_val *chars, bool left,
                           bool right)
{
    struct tmpl_val v = *s;
    int32_t cp;
    for (size_t k; left && v.n && (k = tmpl_cp(v.s, v.n, &cp), in_set(cp, chars)); v.n -= k)
        v.s += k;
    for (size_t k; right && v.n && (k = tmpl_cp_before(v.s, v.n, &cp), in_set(cp, chars));)
        v.n -= k;
    return v;
}

/* ------------------------------------------------------------------------------------- case -- */

static bool cased(int32_t cp)
{
    return utf8proc_isupper(cp) || utf8proc_islower(cp) ||
           utf8proc_category(cp) == UTF8PROC_CATEGORY_LT;
}

static size_t put_cp(char *to, int32_t cp)
{
    return (size_t)utf8proc_encode_char(cp, (utf8proc_uint8_t *)to);
}

enum hg_status tmpl_case(struct tmpl_run *r, const struct tmpl_val *s, char how,
                         struct tmpl_val *out)
{
    HG_TRY(tmpl_charge(r, 8 * s->n));
    char *p = tmpl_alloc(r, s->n, 2); /* a mapping adds one byte to two at most */
    if (!p) return r->status;
    size_t n = 0;
    bool first = true; /* of the text, or of a word for 't' */
    for (size_t i = 0; i < s->n;) {
        int32_t cp;
        i += tmpl_cp(s->s + i, s->n - i, &cp);
        bool up = how == 'u' || (how != 'l' && first);
        first = how == 't' && !cased(cp);
        if (cp == 0xdf && up) {
            p[n++] = 'S';
            p[n++] = how == 'u' ? 'S' : 's';
            continue;
        }
        n += put_cp(p + n, !up          ? utf8proc_tolower(cp)
                           : how == 'u' ? utf8proc_toupper(cp)
                                        : utf8proc_totitle(cp));
    }
    *out = tmpl_strn(p, n);
    out->sub = s->sub;
    return HG_OK;
}

bool tmpl_is_case(const struct tmpl_val *s, bool upper)
{
    bool any = false;
    for (size_t i = 0; i < s->n;) {
        int32_t cp;
        i += tmpl_cp(s->s + i, s->n - i, &cp);
        if (!cased(cp)) continue;
        if (upper ? !utf8proc_isupper(cp) : !utf8proc_islower(cp)) return false;
        any = true;
    }
    return any;
}

/* ------------------------------------------------------------------------------ new strings -- */

enum hg_status tmpl_replace(struct tmpl_run *r, const struct tmpl_val *s,
                            const struct tmpl_val *old, const struct tmpl_val *with, int64_t count,
                            struct tmpl_val *out)
{
    size_t mark = r->out.len, at = 0;
    HG_TRY(tmpl_charge(r, s->n));
    if (count < 0) count = INT64_MAX;
    for (; count > 0 && at <= s->n; count--) {
        size_t step = 0; /* of the text itself: an empty `old` lies before each code point */
        const char *hit = memmem(s->s + at, s->n - at, old->s, old->n);
        if (!hit) break;
        hg_buf_add(&r->out, s->s + at, (size_t)(hit - s->s) - at);
        hg_buf_add(&r->out, with->s, with->n);
        at = (size_t)(hit - s->s) + old->n;
        if (old->n == 0) {
            int32_t cp;
            if (at == s->n) {
                at++;
                break;
            }
            step = tmpl_cp(s->s + at, s->n - at, &cp);
            hg_buf_add(&r->out, s->s + at, step);
        }
        at += step;
        HG_TRY(tmpl_charge(r, with->n + 64));
        HG_TRY(tmpl_out_check(r));
    }
    if (at < s->n) hg_buf_add(&r->out, s->s + at, s->n - at);
    HG_TRY(tmpl_take(r, mark, out));
    out->sub = s->sub;
    return HG_OK;
}

enum hg_status tmpl_join(struct tmpl_run *r, const struct tmpl_val *sep, const struct tmpl_list *l,
                         bool convert, struct tmpl_val *out)
{
    size_t mark = r->out.len;
    for (size_t i = 0; i < l->n; i++) {
        if (!convert && l->v[i].kind != TV_STR)
            return tmpl_fail(r, "sequence item %zu: expected str instance, %s found", i,
                             tmpl_type_name(&l->v[i]));
        if (i) hg_buf_add(&r->out, sep->s, sep->n);
        HG_TRY(tmpl_charge(r, 64 + sep->n));
        HG_TRY(tmpl_write(r, &l->v[i]));
    }
    return tmpl_take(r, mark, out);
}

enum hg_status tmpl_escape(struct tmpl_run *r, const struct tmpl_val *s, struct tmpl_val *out)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    size_t mark = r->out.len;
    HG_TRY(tmpl_charge(r, s->n));
    for (size_t i = 0; i < s->n; i++) {
        const char *hit = s->s[i] ? strchr(from, s->s[i]) : NULL;
        if (hit)
            hg_buf_str(&r->out, to[hit - from]);
        else
            hg_buf_char(&r->out, s->s[i]);
    }
    HG_TRY(tmpl_take(r, mark, out));
    out->sub = 1;
    return HG_OK;
}
