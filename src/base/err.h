/* err.h: filling and passing on struct hg_err (see hedge.h).
 *
 * A function that can fail returns enum hg_status and takes `struct hg_err *err` last (may be
 * NULL). The text is written where the fact is known, once: "path: what, got, wanted". */
#ifndef HG_BASE_ERR_H
#define HG_BASE_ERR_H

#include <stdarg.h>
#include "hedge.h"

/* Sets *err and returns `s`, so that a failure is one statement: return hg_fail(err, ...). */
enum hg_status hg_fail(struct hg_err *err, enum hg_status s, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of the text of an error that a callee set. Returns err's status, or
 * EINTERNAL when err is NULL. */
enum hg_status hg_fail_in(struct hg_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define HG_TRY(x)                                                                                  \
    do {                                                                                           \
        enum hg_status hg_try_ = (x);                                                              \
        if (hg_try_ != HG_OK) return hg_try_;                                                      \
    } while (0)

/* For our own bugs only; kept in release builds. */
#define hg_assert(c) ((c) ? (void)0 : hg_assert_failed(#c, __FILE__, __LINE__))
_Noreturn void hg_assert_failed(const char *expr, const char *file, int line);

#endif
