#include "server/http_impl.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/log.h"

static const double linger_s = 2.0; /* a refused client may still be sending */

static void conn_pump(struct hg_conn *c);

/* ------------------------------------------------------------------------- connection ends -- */

struct timeval hg_http_seconds(double s)
{
    return (struct timeval){.tv_sec = (time_t)s,
                            .tv_usec = (suseconds_t)((s - (double)(time_t)s) * 1e6)};
}

static void conn_timer(struct hg_conn *c, double s)
{
    struct timeval tv = hg_http_seconds(s);
    evtimer_add(c->timer, &tv);
}

struct hg_buf hg_http_take_body(struct hg_http_req *r)
{
    struct hg_conn *c = (struct hg_conn *)r;
    struct hg_buf body = c->body;
    hg_buf_init(&c->body);
    return body;
}

void hg_http_give_back_body(struct hg_http *h, struct hg_buf *body)
{
    h->n_body_bytes -= body->len;
    hg_buf_fini(body);
}

static void conn_free(struct hg_conn *c)
{
    struct hg_http *h = c->http;
    LIST_REMOVE(c, link);
    h->n_conns--;
    event_free(c->timer);
    bufferevent_free(c->bev); /* closes the socket */
    hg_buf_fini(&c->head);
    hg_http_give_back_body(h, &c->body);
    free(c);
    if (h->draining && h->n_conns == 0) event_base_loopbreak(h->base);
}

/* The peer is gone or hopeless. */
void hg_conn_drop(struct hg_conn *c)
{
    if (c->state == HG_CONN_BUSY) {
        c->state = HG_CONN_FLUSH; /* so that a reply out of on_gone does no harm */
        c->http->handler.on_gone(c->http->handler.ctx, &c->req);
    }
    conn_free(c);
}

static size_t conn_unsent(const struct hg_conn *c)
{
    return evbuffer_get_length(bufferevent_get_output(c->bev));
}

/* Half-closes, then reads on for a moment: closing with unread input would reset the connection
 * and could destroy the reply under way. */
static void conn_linger(struct hg_conn *c)
{
    c->state = HG_CONN_LINGER;
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
    conn_timer(c, linger_s);
}

static void conn_discard_input(struct hg_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    evbuffer_drain(in, evbuffer_get_length(in));
}

/* The reply is complete in the output buffer. */
static void conn_replied(struct hg_conn *c)
{
    c->req.user = NULL;
    evtimer_del(c->timer);
    hg_http_give_back_body(c->http, &c->body); /* of a request that was refused */
    if (c->http->draining) c->keep_alive = false;
    if (!c->keep_alive) {
        c->state = HG_CONN_FLUSH;
        conn_discard_input(c);
        if (conn_unsent(c) == 0) conn_linger(c);
        return;
    }
    c->state = HG_CONN_IDLE;
    conn_pump(c);
}

/* --------------------------------------------------------------------------------- replies -- */

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {204, "No Content"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {413, "Content Too Large"},
                   {417, "Expectation Failed"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i].status == status) return reasons[i].text;
    }
    return "Unknown";
}

static void conn_status_line(struct hg_conn *c, int status, const char *type, const char *headers)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);
    char date[64];
    struct tm tm;
    time_t now = time(NULL);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, reason(status), date);
    if (type) evbuffer_add_printf(out, "Content-Type: %s\r\n", type);
    if (headers) evbuffer_add_printf(out, "%s", headers);
    if (c->http->draining) c->keep_alive = false;
    if (!c->keep_alive)
        evbuffer_add_printf(out, "Connection: close\r\n");
    else if (c->req.head.minor == 0)
        evbuffer_add_printf(out, "Connection: keep-alive\r\n");
}

static bool is_head_request(const struct hg_conn *c)
{
    return c->req.head.method && strcmp(c->req.head.method, "HEAD") == 0;
}

void hg_http_reply(struct hg_http_req *r, int status, const char *type, const char *headers,
                   const void *body, size_t n)
{
    struct hg_conn *c = (struct hg_conn *)r;
    struct evbuffer *out = bufferevent_get_output(c->bev);
    if (c->state == HG_CONN_HEAD && (r->head.chunked || r->head.content_length > 0))
        c->keep_alive = false; /* its body will not be read */
    conn_status_line(c, status, type, headers);
    if (status != 204) evbuffer_add_printf(out, "Content-Length: %zu\r\n", n);
    evbuffer_add(out, "\r\n", 2);
    if (!is_head_request(c)) evbuffer_add(out, body, n);
    conn_replied(c);
}

void hg_http_stream_begin(struct hg_http_req *r, const char *type, const char *headers)
{
    struct hg_conn *c = (struct hg_conn *)r;
    if (r->head.minor == 0) c->keep_alive = false; /* the end of the connection ends the body */
    conn_status_line(c, 200, type, headers);
    evbuffer_add_printf(bufferevent_get_output(c->bev), "%s\r\n",
                        r->head.minor ? "Transfer-Encoding: chunked\r\n" : "");
}

bool hg_http_stream_write(struct hg_http_req *r, const void *p, size_t n)
{
    struct hg_conn *c = (struct hg_conn *)r;
    struct evbuffer *out = bufferevent_get_output(c->bev);
    if (n == 0) return true;
    if (r->head.minor) evbuffer_add_printf(out, "%zx\r\n", n);
    evbuffer_add(out, p, n);
    if (r->head.minor) evbuffer_add(out, "\r\n", 2);
    if (conn_unsent(c) <= c->http->p.max_unsent) return true;
    hg_log(HG_LOG_WARN, "client does not read: %zu bytes unsent, connection dropped",
           conn_unsent(c));
    conn_free(c);
    return false;
}

void hg_http_stream_end(struct hg_http_req *r)
{
    struct hg_conn *c = (struct hg_conn *)r;
    if (r->head.minor) evbuffer_add(bufferevent_get_output(c->bev), "0\r\n\r\n", 5);
    conn_replied(c);
}

/* -------------------------------------------------------------------------------- requests -- */

static void conn_refuse(struct hg_conn *c, int status, const char *why)
{
    c->keep_alive = false;
    c->http->handler.on_refused(c->http->handler.ctx, &c->req, status, why);
}

/* The request is whole: hand it over. */
static void conn_dispatch(struct hg_conn *c)
{
    evtimer_del(c->timer);
    c->state = HG_CONN_BUSY;
    c->http->handler.on_request(c->http->handler.ctx, &c->req);
    hg_http_give_back_body(c->http, &c->body); /* where it was not taken */
}

/* The head is parsed: check it and get ready for the body. */
static void conn_begin_body(struct hg_conn *c)
{
    struct hg_http *h = c->http;
    const struct hg_http_head *head = &c->req.head;
    c->keep_alive = head->keep_alive;
    if (!h->handler.on_head(h->handler.ctx, &c->req)) return;
    if (head->content_length > (int64_t)h->p.max_body) {
        conn_refuse(c, 413, "body: longer than the limit");
        return;
    }
    c->left = head->content_length;
    memset(&c->chunked, 0, sizeof c->chunked);
    if (!head->chunked && c->left == 0) {
        conn_dispatch(c);
        return;
    }
    c->state = HG_CONN_BODY;
    conn_timer(c, h->p.body_s);
    if (head->expect_continue) {
        static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
        bufferevent_write(c->bev, line, sizeof line - 1);
    }
}

/* Returns false when more bytes are needed. */
static bool conn_read_head(struct hg_conn *c)
{
    struct hg_http *h = c->http;
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t n = evbuffer_get_length(in);
    if (n > h->p.max_head) n = h->p.max_head;
    const char *p = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
    if (n && !p) {
        conn_refuse(c, 503, "head: out of memory");
        return true;
    }
    int64_t end = hg_http_head_end(p, n, &c->scan);
    if (end == 0 && n < h->p.max_head) return false;
    memset(&c->req.head, 0, sizeof c->req.head);
    c->req.head.minor = 1;
    if (end <= 0) {
        conn_refuse(c, end ? 400 : 431,
                    end ? "head: not HTTP, or a line that does not end in CR LF"
                        : "head: longer than the limit");
        return true;
    }
    hg_buf_clear(&c->head);
    hg_buf_add(&c->head, p, (size_t)end);
    evbuffer_drain(in, (size_t)end);
    const char *why = "head: out of memory";
    int status =
        c->head.oom ? 503 : hg_http_head_parse(c->head.data, c->head.len, &c->req.head, &why);
    if (status)
        conn_refuse(c, status, why);
    else
        conn_begin_body(c);
    return true;
}

/* Returns false when more bytes are needed. */
static bool conn_read_body(struct hg_conn *c)
{
    struct hg_http *h = c->http;
    struct evbuffer *in = bufferevent_get_input(c->bev);
    size_t max = h->p.max_body, had = c->body.len;
    bool done = false;
    while (!done && evbuffer_get_length(in) > 0) {
        size_t n = evbuffer_get_contiguous_space(in);
        if (n == 0) n = evbuffer_get_length(in);
        const char *p = (const char *)evbuffer_pullup(in, (ev_ssize_t)n);
        if (c->req.head.chunked) {
            n = hg_http_chunked_feed(&c->chunked, p, n, &c->body, max);
            done = c->chunked.state >= HG_CHUNK_DONE;
        } else {
            if ((int64_t)n > c->left) n = (size_t)c->left;
            hg_buf_add(&c->body, p, n);
            c->left -= (int64_t)n;
            done = c->left == 0 || c->body.oom;
        }
        evbuffer_drain(in, n);
    }
    h->n_body_bytes += c->body.len - had;
    bool crowded = h->n_body_bytes > h->p.max_bodies;
    if (!done && !crowded) {
        conn_timer(c, h->p.body_s);
        return false;
    }
    if (crowded)
        conn_refuse(c, 503, "body: too many large ones at the same time");
    else if (c->body.oom)
        conn_refuse(c, 503, "body: out of memory");
    else if (c->chunked.state == HG_CHUNK_TOO_LONG)
        conn_refuse(c, 413, "body: longer than the limit");
    else if (c->chunked.state == HG_CHUNK_BAD)
        conn_refuse(c, 400, "body: malformed chunk");
    else
        conn_dispatch(c);
    return true;
}

/* Returns false when more bytes are needed. */
static bool conn_read_idle(struct hg_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    char crlf[2];
    /* RFC 9112 2.2: an empty line before a request is to be ignored. */
    while (evbuffer_copyout(in, crlf, 2) == 2 && memcmp(crlf, "\r\n", 2) == 0)
        evbuffer_drain(in, 2);
    if (evbuffer_get_length(in) == 0 || (evbuffer_get_length(in) == 1 && crlf[0] == '\r')) {
        conn_timer(c, c->http->p.idle_s);
        return false;
    }
    /* A client that sends requests and reads no replies waits until it has read some. */
    if (conn_unsent(c) > c->http->p.max_unsent) {
        evtimer_del(c->timer);
        return false;
    }
    c->state = HG_CONN_HEAD;
    c->scan = 0;
    conn_timer(c, c->http->p.head_s);
    return true;
}

static void conn_pump(struct hg_conn *c)
{
    if (c->pumping) return;
    c->pumping = true;
    bool more = true;
    while (more) {
        switch (c->state) {
        case HG_CONN_IDLE: more = conn_read_idle(c); break;
        case HG_CONN_HEAD: more = conn_read_head(c); break;
        case HG_CONN_BODY: more = conn_read_body(c); break;
        case HG_CONN_FLUSH:
        case HG_CONN_LINGER:
            conn_discard_input(c);
            more = false;
            break;
        case HG_CONN_BUSY: more = false; break; /* pipelined bytes wait */
        }
    }
    c->pumping = false;
}

/* ---------------------------------------------------------------------- libevent callbacks -- */

static void on_read(struct bufferevent *bev, void *arg)
{
    (void)bev;
    conn_pump(arg);
}

/* All output was sent. */
static void on_written(struct bufferevent *bev, void *arg)
{
    (void)bev;
    struct hg_conn *c = arg;
    if (c->state == HG_CONN_FLUSH)
        conn_linger(c);
    else if (c->state == HG_CONN_IDLE)
        conn_pump(c);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct hg_conn *c = arg;
    bool unsent_reply =
        c->state != HG_CONN_BUSY && c->state != HG_CONN_LINGER && conn_unsent(c) > 0;
    if ((what & BEV_EVENT_EOF) && unsent_reply) { /* sent its request and closed its side */
        bufferevent_disable(bev, EV_READ);
        evtimer_del(c->timer);
        c->state = HG_CONN_FLUSH;
        return;
    }
    hg_conn_drop(c);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct hg_conn *c = arg;
    if (c->state == HG_CONN_HEAD) {
        memset(&c->req.head, 0, sizeof c->req.head);
        conn_refuse(c, 408, "head: did not arrive in time");
    } else if (c->state == HG_CONN_BODY) {
        conn_refuse(c, 408, "body: no byte arrived for too long");
    } else {
        hg_conn_drop(c);
    }
}

void hg_conn_open(struct hg_http *h, int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct hg_conn *c = calloc(1, sizeof *c);
    if (c) c->bev = bufferevent_socket_new(h->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (c && c->bev) c->timer = evtimer_new(h->base, on_timer, c);
    if (!c || !c->timer) {
        if (c && c->bev)
            bufferevent_free(c->bev);
        else
            close(fd);
        free(c);
        return;
    }
    c->http = h;
    LIST_INSERT_HEAD(&h->conns, c, link);
    h->n_conns++;
    struct timeval write_tv = hg_http_seconds(h->p.write_s);
    bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
    bufferevent_set_timeouts(c->bev, NULL, &write_tv);
    bufferevent_setwatermark(c->bev, EV_READ, 0, HG_HTTP_READ_AHEAD);
    bufferevent_set_max_single_read(c->bev, HG_HTTP_READ_AHEAD); /* 16 KiB otherwise */
    bufferevent_set_max_single_write(c->bev, HG_HTTP_READ_AHEAD);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    conn_timer(c, h->p.idle_s);
}

bool hg_conn_is_idle(const struct hg_conn *c)
{
    return c->state == HG_CONN_IDLE && conn_unsent(c) == 0;
}
