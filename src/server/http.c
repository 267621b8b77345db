#include "server/http_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/listener.h>

#include "base/log.h"

static const double hard_stop_s = 5.0;    /* from the end of the grace to leaving the loop */
static const double accept_pause_s = 0.1; /* when out of file descriptors */

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int n,
                      void *arg)
{
    (void)l, (void)sa, (void)n;
    struct hg_http *h = arg;
    if (h->n_conns < h->p.max_connections) {
        hg_conn_open(h, fd);
        return;
    }
    static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                               "Retry-After: 1\r\nConnection: close\r\n\r\n";
    hg_log(HG_LOG_WARN, "connection refused: %d are open", h->n_conns);
    (void)!send(fd, busy, sizeof busy - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

static void set_accepting(struct hg_http *h, bool on)
{
    for (int32_t i = 0; i < h->listen.n_fds; i++) {
        if (on)
            evconnlistener_enable(h->listeners[i]);
        else
            evconnlistener_disable(h->listeners[i]);
    }
}

/* Out of descriptors: the listener stays readable, so pause instead of spinning. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
    (void)l;
    struct hg_http *h = arg;
    hg_log(HG_LOG_WARN, "cannot accept a connection: %s", strerror(errno));
    set_accepting(h, false);
    struct timeval tv = hg_http_seconds(accept_pause_s);
    evtimer_add(h->accept_timer, &tv);
}

static void on_accept_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct hg_http *h = arg;
    if (!h->draining) set_accepting(h, true);
}

/* ------------------------------------------------------------------------------------ stop -- */

static void close_listeners(struct hg_http *h)
{
    for (int32_t i = 0; i < h->listen.n_fds; i++) {
        if (h->listeners[i]) evconnlistener_free(h->listeners[i]);
        h->listeners[i] = NULL;
    }
    hg_listen_close(&h->listen);
}

static void stop_advance(struct hg_http *h)
{
    if (h->n_stops_seen > 2) {
        event_base_loopbreak(h->base);
        return;
    }
    bool now = h->n_stops_seen == 2;
    struct timeval tv = hg_http_seconds(now ? hard_stop_s : h->p.grace_s);
    evtimer_add(h->stop_timer, &tv);
    if (!now) {
        h->draining = true;
        close_listeners(h);
        for (struct hg_conn *c = LIST_FIRST(&h->conns), *next; c; c = next) {
            next = LIST_NEXT(c, link);
            if (hg_conn_is_idle(c)) hg_conn_drop(c);
        }
    }
    h->handler.on_stop(h->handler.ctx, now);
    if (h->n_conns == 0) event_base_loopbreak(h->base);
}

static void on_stop_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct hg_http *h = arg;
    h->n_stops_seen++;
    stop_advance(h);
}

static void on_wake_fd(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct hg_http *h = arg;
    uint64_t n;
    (void)!read(fd, &n, sizeof n);
    h->handler.on_wake(h->handler.ctx);
    int n_stops = atomic_load(&h->n_stops);
    while (h->n_stops_seen < n_stops && h->n_stops_seen < 2) {
        h->n_stops_seen++;
        stop_advance(h);
    }
}

void hg_http_wake(struct hg_http *h)
{
    uint64_t one = 1;
    (void)!write(h->wake_fd, &one, sizeof one);
}

void hg_http_stop(struct hg_http *h)
{
    int e = errno;
    atomic_fetch_add(&h->n_stops, 1);
    hg_http_wake(h);
    errno = e;
}

/* ---------------------------------------------------------------------------- open and run -- */

static enum hg_status http_start(struct hg_http *h, struct hg_err *err)
{
    HG_TRY(hg_listen_open(h->p.host, h->p.port, &h->listen, err));
    h->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (h->wake_fd < 0) return hg_fail(err, HG_EIO, "eventfd: %s", strerror(errno));
    h->base = event_base_new();
    if (!h->base) return hg_fail(err, HG_EIO, "event loop: %s", strerror(errno));
    h->wake_ev = event_new(h->base, h->wake_fd, EV_READ | EV_PERSIST, on_wake_fd, h);
    h->stop_timer = evtimer_new(h->base, on_stop_timer, h);
    h->accept_timer = evtimer_new(h->base, on_accept_again, h);
    if (!h->wake_ev || !h->stop_timer || !h->accept_timer || event_add(h->wake_ev, NULL))
        return hg_fail(err, HG_ENOMEM, "event loop: out of memory");
    for (int32_t i = 0; i < h->listen.n_fds; i++) {
        /* backlog 0: the socket listens already; the descriptor stays ours */
        h->listeners[i] =
            evconnlistener_new(h->base, on_accept, h, LEV_OPT_CLOSE_ON_EXEC, 0, h->listen.fds[i]);
        if (!h->listeners[i]) return hg_fail(err, HG_ENOMEM, "event loop: out of memory");
        evconnlistener_set_error_cb(h->listeners[i], on_accept_error);
    }
    return HG_OK;
}

enum hg_status hg_http_open(const struct hg_http_params *p, const struct hg_http_handler *handler,
                            struct hg_http **out, struct hg_err *err)
{
    *out = NULL;
    if (p->max_head == 0 || p->max_head >= HG_HTTP_READ_AHEAD)
        return hg_fail(err, HG_EINVAL, "header limit: %zu is not in 1..%d", p->max_head,
                       HG_HTTP_READ_AHEAD - 1);
    struct hg_http *h = calloc(1, sizeof *h);
    if (!h) return hg_fail(err, HG_ENOMEM, "server: out of memory");
    h->p = *p;
    h->handler = *handler;
    h->wake_fd = -1;
    LIST_INIT(&h->conns);
    enum hg_status s = http_start(h, err);
    if (s != HG_OK) {
        hg_http_close(h);
        return s;
    }
    *out = h;
    return HG_OK;
}

uint16_t hg_http_port(const struct hg_http *h)
{
    return h->listen.port;
}

enum hg_status hg_http_run(struct hg_http *h, struct hg_err *err)
{
    if (event_base_dispatch(h->base) < 0)
        return hg_fail(err, HG_EINTERNAL, "event loop: %s", strerror(errno));
    return HG_OK;
}

void hg_http_close(struct hg_http *h)
{
    if (!h) return;
    while (!LIST_EMPTY(&h->conns)) hg_conn_drop(LIST_FIRST(&h->conns));
    close_listeners(h);
    if (h->wake_ev) event_free(h->wake_ev);
    if (h->stop_timer) event_free(h->stop_timer);
    if (h->accept_timer) event_free(h->accept_timer);
    if (h->base) event_base_free(h->base);
    if (h->wake_fd >= 0) close(h->wake_fd);
    free(h);
}
