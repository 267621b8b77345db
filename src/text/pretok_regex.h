/* pretok_regex.h: pre-tokenizer patterns through PCRE2. */
#ifndef HG_TEXT_PRETOK_REGEX_H
#define HG_TEXT_PRETOK_REGEX_H

#include "base/err.h"

struct hg_regex;       /* a compiled pattern, immutable */
struct hg_regex_match; /* scratch of one thread */

enum hg_status hg_regex_create(const char *pattern, size_t n, struct hg_regex **out,
                               struct hg_err *err);
void hg_regex_free(struct hg_regex *r);

struct hg_regex_match *hg_regex_match_create(const struct hg_regex *r); /* NULL: out of memory */
void hg_regex_match_free(struct hg_regex_match *m);

/* Matches exactly at pos. *end becomes the match's end, or SIZE_MAX when there is none. */
enum hg_status hg_regex_at(const struct hg_regex *r, struct hg_regex_match *m, const char *text,
                           size_t n, size_t pos, size_t *end, struct hg_err *err);

#endif
