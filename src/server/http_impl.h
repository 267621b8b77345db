/* http_impl.h: what http.c (loop, listeners, stop) and http_conn.c (one connection) share. */
#ifndef HG_SERVER_HTTP_IMPL_H
#define HG_SERVER_HTTP_IMPL_H

#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/time.h>

#include "server/http.h"
#include "server/http_listen.h"

/* Most bytes read beyond what is parsed; larger than max_head. */
#define HG_HTTP_READ_AHEAD (256 * 1024)

struct bufferevent;
struct event;
struct event_base;
struct evconnlistener;

enum hg_conn_state {
    HG_CONN_IDLE,
    HG_CONN_HEAD,
    HG_CONN_BODY,
    HG_CONN_BUSY,
    HG_CONN_FLUSH,
    HG_CONN_LINGER
};

struct hg_conn {
    struct hg_http_req req; /* first: a request is its connection */
    struct hg_http *http;
    LIST_ENTRY(hg_conn) link;
    struct bufferevent *bev;
    struct event *timer;
    enum hg_conn_state state;
    struct hg_buf head, body;
    size_t scan;  /* of the head that is coming in */
    int64_t left; /* of a body with Content-Length */
    struct hg_http_chunked chunked;
    bool keep_alive;
    bool pumping; /* conn_pump is on the stack: its loop will see what changed */
};

struct hg_http {
    struct hg_http_params p;
    struct hg_http_handler handler;
    struct event_base *base;
    struct hg_listen listen;
    struct evconnlistener *listeners[HG_LISTEN_MAX];
    struct event *wake_ev, *stop_timer, *accept_timer;
    int wake_fd;
    atomic_int n_stops;
    int n_stops_seen;
    bool draining;
    LIST_HEAD(, hg_conn) conns;
    int32_t n_conns;
    size_t n_body_bytes; /* held by connections and by the handler */
};

/* Takes over an accepted socket; closes it when memory is out. */
void hg_conn_open(struct hg_http *h, int fd);
/* Closes at once; tells the handler if a request is under way. */
void hg_conn_drop(struct hg_conn *c);
/* No request has begun and nothing is left to send. */
bool hg_conn_is_idle(const struct hg_conn *c);
struct timeval hg_http_seconds(double s);

#endif
