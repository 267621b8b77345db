#include "server/http_listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 128 };

static void address_text(const struct sockaddr *sa, socklen_t n, uint16_t port, char *out,
                         size_t cap)
{
    char host[64];
    if (getnameinfo(sa, n, host, sizeof host, NULL, 0, NI_NUMERICHOST)) strcpy(host, "?");
    snprintf(out, cap, sa->sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host, port);
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage ss;
    socklen_t n = sizeof ss;
    if (getsockname(fd, (struct sockaddr *)&ss, &n)) return 0;
    return ntohs(ss.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&ss)->sin6_port
                                          : ((struct sockaddr_in *)&ss)->sin_port);
}

/* Returns the socket, or -1 with errno. */
static int listen_on(const struct addrinfo *ai, uint16_t port)
{
    struct sockaddr_storage ss;
    if (ai->ai_addrlen > sizeof ss) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    memcpy(&ss, ai->ai_addr, ai->ai_addrlen);
    if (ai->ai_family == AF_INET6)
        ((struct sockaddr_in6 *)&ss)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&ss)->sin_port = htons(port);
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* over TIME_WAIT, not over a rival */
    if (ai->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&ss, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

static enum hg_status listen_all(const struct addrinfo *list, uint16_t port, struct hg_listen *out,
                                 struct hg_err *err)
{
    for (const struct addrinfo *ai = list; ai && out->n_fds < HG_LISTEN_MAX; ai = ai->ai_next) {
        if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6) continue;
        /* With port 0 the first address picks, the others follow. */
        uint16_t want = out->n_fds ? out->port : port;
        int fd = listen_on(ai, want);
        if (fd >= 0) {
            if (out->n_fds == 0) out->port = bound_port(fd);
            out->fds[out->n_fds++] = fd;
            continue;
        }
        if (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL) {
            if (ai->ai_next || out->n_fds) continue;
        }
        int e = errno;
        char text[96];
        address_text(ai->ai_addr, ai->ai_addrlen, want, text, sizeof text);
        if (e == EADDRINUSE)
            return hg_fail(err, HG_EIO, "%s: port %u is in use by another process", text, want);
        return hg_fail(err, HG_EIO, "%s: cannot listen: %s", text, strerror(e));
    }
    return out->n_fds ? HG_OK : hg_fail(err, HG_EIO, "no address to listen on");
}

enum hg_status hg_listen_open(const char *host, uint16_t port, struct hg_listen *out,
                              struct hg_err *err)
{
    memset(out, 0, sizeof *out);
    /* Without AI_PASSIVE a null node means loopback. */
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int rc = getaddrinfo(host, host ? NULL : "0", &hints, &list);
    if (rc) return hg_fail(err, HG_EIO, "host %s: %s", host ? host : "", gai_strerror(rc));
    enum hg_status s = HG_EIO;
    /* A free port of one family may be taken in the other: ask for another one. */
    for (int32_t attempt = 0; attempt < (port ? 1 : 16) && s != HG_OK; attempt++) {
        hg_listen_close(out);
        s = listen_all(list, port, out, err);
    }
    if (s != HG_OK) hg_listen_close(out);
    freeaddrinfo(list);
    return s;
}

void hg_listen_close(struct hg_listen *l)
{
    for (int32_t i = 0; i < l->n_fds; i++) close(l->fds[i]);
    l->n_fds = 0;
}
