/* raw_http.h: an HTTP client for tests that shows the bytes as they are and never repairs them. */
#ifndef HG_TESTS_RAW_HTTP_H
#define HG_TESTS_RAW_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct raw_reply {
    int status;         /* 0 = the connection ended or was silent for too long */
    struct hg_buf head; /* status line and headers */
    struct hg_buf body; /* decoded */
    int n_chunks;
    bool chunked;
};

/* Connected socket; receive time-out 5 s. -1 = refused. */
int raw_connect(uint16_t port);
bool raw_send(int fd, const void *p, size_t n);
bool raw_send_str(int fd, const char *s);
/* "METHOD path HTTP/1.1", Host, extra header lines (each with CRLF; may be ""), and the body. */
void raw_request(int fd, const char *method, const char *path, const char *headers,
                 const char *body);
/* Reads exactly one reply, not a byte more; fills *r (free with raw_reply_fini). */
int raw_read(int fd, struct raw_reply *r);
void raw_reply_fini(struct raw_reply *r);
/* Value of a header of the reply in `out`, "" if there is none. */
const char *raw_header(const struct raw_reply *r, const char *name, char *out, size_t cap);
/* The peer closed: the next read gives its end. Waits up to `ms`. */
bool raw_closed(int fd, int ms);
/* Something can be read within `ms`. */
bool raw_readable(int fd, int ms);

#endif
