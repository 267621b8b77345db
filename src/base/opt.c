#include "base/opt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits at *s to a number; moves *s behind them. False when there are none or too many. */
static bool read_u64(const char **s, uint64_t *out)
{
    if (!is_digit(**s)) return false;
    uint64_t v = 0;
    for (; is_digit(**s); (*s)++) {
        uint64_t d = (uint64_t)(**s - '0');
        if (v > (UINT64_MAX - d) / 10) return false;
        v = v * 10 + d;
    }
    *out = v;
    return true;
}

enum hg_status hg_opt_i64(const char *name, const char *text, int64_t min, int64_t max,
                          int64_t *out, struct hg_err *err)
{
    const char *s = text;
    bool minus = *s == '-';
    if (minus) s++;
    bool digits = is_digit(*s);
    uint64_t v;
    bool fits = read_u64(&s, &v);
    if (!digits || (fits && *s))
        return hg_fail(err, HG_EINVAL, "%s: '%s' is not a whole number", name, text);
    fits = fits && v <= (uint64_t)INT64_MAX;
    int64_t i = fits ? (minus ? -(int64_t)v : (int64_t)v) : 0;
    if (!fits || i < min || i > max)
        return hg_fail(err, HG_EINVAL, "%s: %s is not in %lld..%lld", name, text, (long long)min,
                       (long long)max);
    *out = i;
    return HG_OK;
}

enum hg_status hg_opt_i32(const char *name, const char *text, int32_t min, int32_t max,
                          int32_t *out, struct hg_err *err)
{
    int64_t v;
    HG_TRY(hg_opt_i64(name, text, min, max, &v, err));
    *out = (int32_t)v;
    return HG_OK;
}

enum hg_status hg_opt_u64(const char *name, const char *text, uint64_t *out, struct hg_err *err)
{
    const char *s = text;
    uint64_t v;
    if (!read_u64(&s, &v) || *s)
        return hg_fail(err, HG_EINVAL, "%s: '%s' is not a whole number from 0 to 2^64-1", name,
                       text);
    *out = v;
    return HG_OK;
}

enum hg_status hg_opt_f64(const char *name, const char *text, double min, double max, double *out,
                          struct hg_err *err)
{
    /* strtod also reads blanks, hexadecimal, "inf" and "nan": none of their letters pass. */
    bool plain = *text && text[strspn(text, "0123456789.eE+-")] == 0;
    char *end = NULL;
    double v = plain ? strtod(text, &end) : 0;
    if (!plain || end == text || *end || *text == '+')
        return hg_fail(err, HG_EINVAL, "%s: '%s' is not a number", name, text);
    if (!isfinite(v) || v < min || v > max)
        return hg_fail(err, HG_EINVAL, "%s: %s is not in %g..%g", name, text, min, max);
    *out = v;
    return HG_OK;
}

enum hg_status hg_opt_size(const char *name, const char *text, uint64_t *out, struct hg_err *err)
{
    static const char units[] = "KMGT";
    const char *s = text;
    uint64_t v;
    bool ok = read_u64(&s, &v);
    unsigned shift = 0;
    const char *unit = ok && *s ? strchr(units, *s) : NULL;
    if (unit) {
        shift = 10 * (unsigned)(unit - units + 1);
        s++;
    }
    if (!ok || *s || v > UINT64_MAX >> shift)
        return hg_fail(err, HG_EINVAL, "%s: '%s' is not a size such as 4096, 512M or 8G", name,
                       text);
    *out = v << shift;
    return HG_OK;
}

enum hg_status hg_opt_ids(const char *name, const char *text, hg_tok **out, size_t *n_out,
                          struct hg_err *err)
{
    struct hg_buf b;
    hg_buf_init(&b);
    for (const char *s = text;; s++) {
        uint64_t v;
        if (!read_u64(&s, &v) || v > INT32_MAX || (*s && *s != ',')) {
            hg_buf_fini(&b);
            return hg_fail(err, HG_EINVAL, "%s: '%.80s' is not a list of token ids such as 1,2,3",
                           name, text);
        }
        hg_tok id = (hg_tok)v;
        hg_buf_add(&b, &id, sizeof id);
        if (!*s) break;
    }
    if (b.oom) {
        hg_buf_fini(&b);
        return hg_fail(err, HG_ENOMEM, "%s: out of memory", name);
    }
    size_t n;
    *out = (hg_tok *)(void *)hg_buf_take(&b, &n);
    *n_out = n / sizeof(hg_tok);
    return HG_OK;
}

enum hg_status hg_opt_word(const char *name, const char *text, const char *const *words, int *out,
                           struct hg_err *err)
{
    char list[256] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcmp(words[i], text)) {
            *out = i;
            return HG_OK;
        }
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", words[i]);
    }
    return hg_fail(err, HG_EINVAL, "%s: '%s' is not one of %s", name, text, list);
}

/* Words longer than this are never suggested; it bounds the tables below. */
#define WORD_MAX 48

static int min2(int a, int b)
{
    return a < b ? a : b;
}

/* Optimal string alignment distance: three rows of the usual table. */
static int distance(const char *a, int na, const char *b, int nb)
{
    int rows[3][WORD_MAX + 1];
    for (int j = 0; j <= nb; j++) rows[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int d = up[j - 1] + (a[i - 1] != b[j - 1]);
            d = min2(d, min2(up[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d = min2(d, up2[j - 2] + 1);
            row[j] = d;
        }
    }
    return rows[na % 3][nb];
}

const char *hg_opt_nearest(const char *text, const char *const *words)
{
    size_t n = strlen(text);
    const char *best = NULL;
    int best_d = 1 + (int)(n < 6 ? n / 2 : 3); /* a word that differs by more is another word */
    if (n == 0 || n > WORD_MAX) return NULL;
    for (; *words; words++) {
        size_t m = strlen(*words);
        if (m > WORD_MAX) continue;
        int d = distance(text, (int)n, *words, (int)m);
        if (d < best_d) {
            best = *words;
            best_d = d;
        }
    }
    return best;
}
