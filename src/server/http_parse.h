/* http_parse.h: HTTP/1.1 requests (RFC 9112), read strictly. Pure functions over bytes; http.c
 * moves the bytes.
 *
 * What two readers could frame differently is refused, not repaired: bare LF or CR, folded lines,
 * blanks before a colon, control characters, a Content-Length that is repeated, signed or beside
 * Transfer-Encoding, codings other than chunked, a missing or repeated Host. */
#ifndef HG_SERVER_HTTP_PARSE_H
#define HG_SERVER_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define HG_HTTP_MAX_HEADERS 100

struct hg_http_header {
    const char *name, *value; /* value without blanks at its ends */
};

/* All strings are NUL-terminated and lie in the bytes that were parsed. */
struct hg_http_head {
    const char *method;
    const char *path;       /* percent-decoded, without query, scheme and authority */
    int32_t minor;          /* 0 or 1 */
    int64_t content_length; /* 0 when there is none */
    bool chunked, keep_alive, expect_continue;
    int32_t n_headers;
    struct hg_http_header headers[HG_HTTP_MAX_HEADERS];
};

/* Length of the head with its blank line once p[0..n) holds all of it; 0 = more is needed; -1 =
 * malformed already. *scan (0 at first) is how far earlier calls looked. */
int64_t hg_http_head_end(const char *p, size_t n, size_t *scan);

/* Parses the n bytes of a whole head in place. Returns 0, or the HTTP status to refuse it with;
 * then *why says what was wrong. */
int hg_http_head_parse(char *p, size_t n, struct hg_http_head *out, const char **why);

/* First value of the header, in any case; NULL if there is none. */
const char *hg_http_head_get(const struct hg_http_head *h, const char *name);

enum hg_http_chunk_state {
    HG_CHUNK_SIZE = 0, /* zeroed storage is a fresh decoder */
    HG_CHUNK_EXT,
    HG_CHUNK_SIZE_LF,
    HG_CHUNK_DATA,
    HG_CHUNK_DATA_CR,
    HG_CHUNK_DATA_LF,
    HG_CHUNK_TRAILER,
    HG_CHUNK_TRAILER_LINE,
    HG_CHUNK_TRAILER_LF,
    HG_CHUNK_END_LF,
    HG_CHUNK_DONE,
    HG_CHUNK_BAD,
    HG_CHUNK_TOO_LONG
};

struct hg_http_chunked {
    enum hg_http_chunk_state state;
    uint64_t left;    /* of the current chunk */
    int32_t n_digits; /* of the current size */
    int32_t n_extra;  /* bytes of extensions and trailers so far, which we ignore but bound */
};

/* Decodes from p[0..n), appends data to body, which never grows past max. Returns the bytes
 * consumed: all, unless the state is now DONE, BAD or TOO_LONG. */
size_t hg_http_chunked_feed(struct hg_http_chunked *c, const char *p, size_t n, struct hg_buf *body,
                            size_t max);

#endif
