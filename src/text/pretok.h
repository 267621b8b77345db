/* pretok.h: cuts text into the words that BPE merges within.
 *
 * The patterns of Qwen2/3 and Qwen3.5/3.6 are recognised by their exact text and scanned by
 * hand; any other goes through PCRE2. Patterns are written for Oniguruma: see pretok_regex.c for
 * what is translated and what is refused. Immutable after create: any thread may scan. */
#ifndef HG_TEXT_PRETOK_H
#define HG_TEXT_PRETOK_H

#include "base/err.h"

struct hg_pretok;

#define HG_PRETOK_QWEN2                                                                            \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"                           \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HG_PRETOK_QWEN35                                                                           \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"                   \
    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HG_PRETOK_GPT2                                                                             \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* classes: hg_unicode_classes(), borrowed. force_regex: no hand-written scanner (for tests).
 * Errors: EUNSUP, EFORMAT with the place in the pattern. */
enum hg_status hg_pretok_create(const char *pattern, size_t n, const uint8_t *classes,
                                bool force_regex, struct hg_pretok **out, struct hg_err *err);
void hg_pretok_free(struct hg_pretok *p);

/* One thread's pass over texts. */
struct hg_pretok_scan {
    const struct hg_pretok *pretok;
    void *match; /* PCRE2 scratch, NULL for the hand-written scanners */
};
enum hg_status hg_pretok_scan_init(struct hg_pretok_scan *s, const struct hg_pretok *p,
                                   struct hg_err *err);
void hg_pretok_scan_fini(struct hg_pretok_scan *s);

/* *end becomes where the word that starts at pos < n ends; pos < *end <= n. The text is valid
 * UTF-8. Errors: EINVAL when the pattern takes too many steps on this text, ENOMEM. */
enum hg_status hg_pretok_next(struct hg_pretok_scan *s, const char *text, size_t n, size_t pos,
                              size_t *end, struct hg_err *err);

#endif
