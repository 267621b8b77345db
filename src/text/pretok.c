#include "text/pretok.h"

#include <stdlib.h>
#include <string.h>

#include "text/pretok_regex.h"
#include "text/unicode.h"

struct hg_pretok {
    const uint8_t *classes;
    uint8_t letter;         /* classes that make words: L (Qwen2/3) or L and M (Qwen3.5) */
    struct hg_regex *regex; /* NULL: scanned by hand */
};

enum hg_status hg_pretok_create(const char *pattern, size_t n, const uint8_t *classes,
                                bool force_regex, struct hg_pretok **out, struct hg_err *err)
{
    struct hg_pretok *p = calloc(1, sizeof *p);
    if (!p) return hg_fail(err, HG_ENOMEM, "out of memory for the pre-tokenizer");
    p->classes = classes;
    if (!force_regex && n == strlen(HG_PRETOK_QWEN2) && !memcmp(pattern, HG_PRETOK_QWEN2, n)) {
        p->letter = HG_UC_L;
    } else if (!force_regex && n == strlen(HG_PRETOK_QWEN35) &&
               !memcmp(pattern, HG_PRETOK_QWEN35, n)) {
        p->letter = HG_UC_L | HG_UC_M;
    } else {
        enum hg_status s = hg_regex_create(pattern, n, &p->regex, err);
        if (s != HG_OK) {
            free(p);
            return s;
        }
    }
    *out = p;
    return HG_OK;
}

void hg_pretok_free(struct hg_pretok *p)
{
    if (!p) return;
    hg_regex_free(p->regex);
    free(p);
}

enum hg_status hg_pretok_scan_init(struct hg_pretok_scan *s, const struct hg_pretok *p,
                                   struct hg_err *err)
{
    s->pretok = p;
    s->match = NULL;
    if (p->regex && !(s->match = hg_regex_match_create(p->regex)))
        return hg_fail(err, HG_ENOMEM, "out of memory for the pre-tokenizer's scratch");
    return HG_OK;
}

void hg_pretok_scan_fini(struct hg_pretok_scan *s)
{
    hg_regex_match_free(s->match);
    s->match = NULL;
}

/* ------------------------------------------------------------------- the Qwen patterns -- */

struct text {
    const uint8_t *classes;
    const char *s;
    size_t n;
};

/* Classes of the character at i < n; *next becomes the start of the one behind it. */
static inline uint8_t class_at(const struct text *t, size_t i, size_t *next)
{
    unsigned len;
    uint32_t c = hg_utf8_get(t->s + i, &len);
    *next = i + len;
    return t->classes[c];
}

/* End of the longest run from i of characters that have a class of `any`. */
static inline size_t run_of(const struct text *t, size_t i, uint8_t any)
{
    size_t next;
    while (i < t->n && (class_at(t, i, &next) & any)) i = next;
    return i;
}

/* End of the longest run from i of characters that have no class of `none`. */
static inline size_t run_without(const struct text *t, size_t i, uint8_t none)
{
    size_t next;
    while (i < t->n && !(class_at(t, i, &next) & none)) i = next;
    return i;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d) at an apostrophe: the length, or 0. */
static size_t contraction(const char *s, size_t n)
{
    if (n < 2) return 0;
    uint8_t a = (uint8_t)s[1], b = n > 2 ? (uint8_t)s[2] : 0;
    if (a == 0xc5 && b == 0xbf) return 3; /* U+017F, the long s, folds to s */
    a |= 0x20;
    b |= 0x20;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ at white space: up to the run's last line break; else the whole run
 * at the end of the text; else all but its last character, which goes with what follows. */
static size_t space_end(const struct text *t, size_t i)
{
    size_t last = i, line_end = 0, j = i, next;
    for (; j < t->n; j = next) {
        uint8_t c = class_at(t, j, &next);
        if (!(c & HG_UC_S)) break;
        if (c & HG_UC_NL) line_end = next;
        last = j;
    }
    if (line_end) return line_end;
    return j == t->n || last == i ? j : last;
}

/* The alternatives in the pattern's order; they differ between the two only in `letter`. */
static size_t qwen_next(const struct text *t, uint8_t letter, size_t i)
{
    size_t next;
    uint8_t c = class_at(t, i, &next);
    if (t->s[i] == '\'') {
        size_t len = contraction(t->s + i, t->n - i);
        if (len) return i + len;
    }
    if (c & letter) return run_of(t, next, letter);
    if (c & HG_UC_N) return next;
    if (!(c & HG_UC_NL)) { /* one character of any other kind may lead a word */
        size_t end = run_of(t, next, letter);
        if (end > next) return end;
    }
    uint8_t not_punct = letter | HG_UC_S | HG_UC_N;
    size_t start = t->s[i] == ' ' ? next : i;
    size_t end = run_without(t, start, not_punct);
    if (end > start) return run_of(t, end, HG_UC_NL);
    return space_end(t, i);
}

/* ------------------------------------------------------------------------ other patterns -- */

/* What no match covers is a word too, up to where a match starts. */
static enum hg_status regex_next(struct hg_pretok_scan *s, const char *text, size_t n, size_t pos,
                                 size_t *end, struct hg_err *err)
{
    for (size_t i = pos; i < n;) {
        size_t e;
        unsigned len;
        HG_TRY(hg_regex_at(s->pretok->regex, s->match, text, n, i, &e, err));
        if (e != SIZE_MAX && i > pos) {
            *end = i;
            return HG_OK;
        }
        if (e != SIZE_MAX && e > i) {
            *end = e;
            return HG_OK;
        }
        hg_utf8_get(text + i, &len);
        i += len;
    }
    *end = n;
    return HG_OK;
}

enum hg_status hg_pretok_next(struct hg_pretok_scan *s, const char *text, size_t n, size_t pos,
                              size_t *end, struct hg_err *err)
{
    const struct hg_pretok *p = s->pretok;
    if (p->regex) return regex_next(s, text, n, pos, end, err);
    struct text t = {p->classes, text, n};
    *end = qwen_next(&t, p->letter, pos);
    return HG_OK;
}
