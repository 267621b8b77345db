/* json_io.h: JSON in from clients, JSON out to them.
 *
 * In: jansson's strictness (UTF-8, nesting <= 2048) and a bound on the number of values before
 * any is built, as one costs up to ~300 bytes of memory against 2 bytes of text.
 * Out: text that the engine or a client made is written as valid UTF-8 whatever it holds. */
#ifndef HG_SERVER_JSON_IO_H
#define HG_SERVER_JSON_IO_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

/* An error on its way to a client. */
struct hg_api_err {
    struct hg_err e;
    char param[128]; /* the field that was wrong; "" = none */
};

/* Sets status, field and text ("field: what"); field may be NULL. Returns s. */
enum hg_status hg_api_fail(struct hg_api_err *err, enum hg_status s, const char *param,
                           const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Parses text[0..n) into a new reference; *budget is the number of values still allowed, and what
 * this text uses is taken off. NUL characters in strings are allowed. wide: integers beyond 64 bits
 * turn all numbers of the text into reals instead of being refused. `param` names it in errors. */
enum hg_status hg_json_in(const char *text, size_t n, bool wide, size_t *budget, const char *param,
                          json_t **out, struct hg_api_err *err);

/* "an object", "a string", ... for messages */
const char *hg_json_kind(const json_t *v);

/* Bytes of the valid UTF-8 character at p[0..n), 0 if there is none. */
size_t hg_utf8_char(const char *p, size_t n);

/* Appends "text" with its quotes; bytes that are no UTF-8 become U+FFFD. */
void hg_json_out(struct hg_buf *b, const char *s, size_t n);
void hg_json_out_str(struct hg_buf *b, const char *s);

/* The HTTP status of an error, and the body to go with it:
 * {"error":{"message":..,"type":..,"param":..,"code":..}} */
int hg_http_status(enum hg_status s);
void hg_json_error(struct hg_buf *b, int http_status, const char *code, const char *param,
                   const char *message);
/* Same, from an engine or request error. */
void hg_json_api_error(struct hg_buf *b, const struct hg_api_err *err);

#endif
