/* opt.h: strict reading of option values, and suggestions for mistyped words.
 *
 * Every reader takes the option's name (as the user typed it, "--top-k") for the error, wants the
 * whole text to be the value (no blanks, no trailing letters) and checks the range: a failure is
 * HG_EINVAL with "NAME: 'TEXT' ...". Nothing is written to *out then. */
#ifndef HG_BASE_OPT_H
#define HG_BASE_OPT_H

#include "base/err.h"

enum hg_status hg_opt_i64(const char *name, const char *text, int64_t min, int64_t max,
                          int64_t *out, struct hg_err *err);
enum hg_status hg_opt_i32(const char *name, const char *text, int32_t min, int32_t max,
                          int32_t *out, struct hg_err *err);
enum hg_status hg_opt_u64(const char *name, const char *text, uint64_t *out, struct hg_err *err);
/* Decimal notation only: no hexadecimal, inf or nan. */
enum hg_status hg_opt_f64(const char *name, const char *text, double min, double max, double *out,
                          struct hg_err *err);
/* Bytes: a whole number with an optional K, M, G or T (powers of 1024): "8G". */
enum hg_status hg_opt_size(const char *name, const char *text, uint64_t *out, struct hg_err *err);
/* Token ids "1,2,3", each 0 or more. *out is malloc'd, the caller frees it. */
enum hg_status hg_opt_ids(const char *name, const char *text, hg_tok **out, size_t *n_out,
                          struct hg_err *err);
/* Index of `text` in the NULL-terminated list of words. */
enum hg_status hg_opt_word(const char *name, const char *text, const char *const *words, int *out,
                           struct hg_err *err);

/* The word nearest to `text` by edit distance (a swap of neighbours counts once), or NULL when
 * none is near enough to be what was meant. The list is NULL-terminated. */
const char *hg_opt_nearest(const char *text, const char *const *words);

#endif
