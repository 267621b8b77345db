#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *hg_status_name(enum hg_status s)
{
    static const char *const names[] = {"OK",       "EINVAL", "EFORMAT",   "EIO",    "ENOMEM",
                                        "ETOOLONG", "EBUSY",  "ECANCELED", "EUNSUP", "EINTERNAL"};
    return (size_t)s < sizeof names / sizeof *names ? names[s] : "?";
}

enum hg_status hg_fail(struct hg_err *err, enum hg_status s, const char *fmt, ...)
{
    if (!err) return s;
    err->status = s;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return s;
}

enum hg_status hg_fail_in(struct hg_err *err, const char *fmt, ...)
{
    if (!err) return HG_EINTERNAL;
    char tail[sizeof err->text];
    memcpy(tail, err->text, sizeof tail);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->text)
        snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", tail);
    return err->status;
}

void hg_assert_failed(const char *expr, const char *file, int line)
{
    fprintf(stderr, "hedge: bug: %s (%s:%d)\n", expr, file, line);
    abort();
}
