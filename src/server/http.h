/* http.h: an HTTP/1.1 server on one thread, the only user of libevent: its event loop and buffers.
 * libevent's own evhttp is not used: it hides bare LF and repeated lengths from its user, answers
 * 400 and 413 in HTML, and has one time limit for idle connections and for slow heads.
 *
 * A connection carries one request at a time and goes back and forth between
 *
 *     IDLE -> HEAD -> BODY -> BUSY (the handler owes a reply) -> IDLE ...      keep-alive
 *                                                         `---> FLUSH -> LINGER -> freed
 *
 * A handler replies at once or keeps the request and replies later, always on the loop's thread;
 * other threads only call hg_http_wake and hg_http_stop. The loop keeps reading while a request is
 * BUSY, so that a client that leaves (FIN or reset) is noticed at once: on_gone. A client that
 * shuts down only its sending side counts as gone too, as no server can tell the two apart.
 *
 * Limits: the head is bounded in bytes and time, the body in bytes (from Content-Length before a
 * byte of it is read) and in silence, all bodies together in bytes, unsent output in bytes and in
 * silence. Idle keep-alive
 * connections are left alone for idle_s. */
#ifndef HG_SERVER_HTTP_H
#define HG_SERVER_HTTP_H

#include "base/err.h"
#include "server/http_parse.h"

struct hg_http;

struct hg_http_req {
    struct hg_http_head head;
    void *user; /* the handler's; NULL at first */
};

struct hg_http_handler {
    /* The head is there, the body is not. May refuse the request by replying; returns whether
     * to go on. */
    bool (*on_head)(void *ctx, struct hg_http_req *r);
    void (*on_request)(void *ctx, struct hg_http_req *r);
    /* The client left before the reply was complete; r is dead when this returns. */
    void (*on_gone)(void *ctx, struct hg_http_req *r);
    /* Replies to what the HTTP layer itself refuses: 400, 408, 413, 431 ... */
    void (*on_refused)(void *ctx, struct hg_http_req *r, int status, const char *why);
    void (*on_wake)(void *ctx);
    /* now = false: hg_http_stop was called, no connection will be accepted, requests under way may
     * finish. now = true: the grace is over, end them. */
    void (*on_stop)(void *ctx, bool now);
    void *ctx;
};

struct hg_http_params {
    const char *host; /* name or address; NULL = loopback of both families */
    uint16_t port;    /* 0 = any free one */
    size_t max_head, max_body, max_unsent;
    size_t max_bodies; /* all that are coming in or were taken, together */
    int32_t max_connections;
    double head_s, body_s, write_s, idle_s, grace_s;
};

/* Listens. EIO names the address, and what is wrong: in use, not permitted, unknown host. */
enum hg_status hg_http_open(const struct hg_http_params *p, const struct hg_http_handler *handler,
                            struct hg_http **out, struct hg_err *err);
uint16_t hg_http_port(const struct hg_http *h);
/* Serves until hg_http_stop was called and the connections are done. */
enum hg_status hg_http_run(struct hg_http *h, struct hg_err *err);
/* Any thread, also a signal handler. The second call ends the grace of the first. */
void hg_http_stop(struct hg_http *h);
/* Any thread: on_wake will run on the loop. */
void hg_http_wake(struct hg_http *h);
/* Drops what is still connected; on_gone is called for requests under way. NULL is fine. */
void hg_http_close(struct hg_http *h);

/* Moves the body to the caller, during on_request; it counts as held until it is given back,
 * unchanged. */
struct hg_buf hg_http_take_body(struct hg_http_req *r);
void hg_http_give_back_body(struct hg_http *h, struct hg_buf *body);

/* Whole reply. `headers` are further lines, each ending in CRLF, or NULL. */
void hg_http_reply(struct hg_http_req *r, int status, const char *type, const char *headers,
                   const void *body, size_t n);
/* A reply of unknown length (chunked): begin, write any number of times, end. A write that finds
 * more than max_unsent bytes still unsent drops the connection and returns false: then r is dead
 * and on_gone is not called. */
void hg_http_stream_begin(struct hg_http_req *r, const char *type, const char *headers);
bool hg_http_stream_write(struct hg_http_req *r, const void *p, size_t n);
void hg_http_stream_end(struct hg_http_req *r);

#endif
