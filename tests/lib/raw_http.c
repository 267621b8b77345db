#include "raw_http.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int raw_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval tv = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};
    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0) return fd;
    close(fd);
    return -1;
}

bool raw_send(int fd, const void *p, size_t n)
{
    const char *s = p;
    while (n > 0) {
        ssize_t k = send(fd, s, n, MSG_NOSIGNAL);
        if (k <= 0) return false;
        s += k;
        n -= (size_t)k;
    }
    return true;
}

bool raw_send_str(int fd, const char *s)
{
    return raw_send(fd, s, strlen(s));
}

void raw_request(int fd, const char *method, const char *path, const char *headers,
                 const char *body)
{
    struct hg_buf b;
    hg_buf_init(&b);
    hg_buf_printf(&b, "%s %s HTTP/1.1\r\nHost: localhost:8080\r\n%s", method, path, headers);
    if (body) hg_buf_printf(&b, "Content-Length: %zu\r\n", strlen(body));
    hg_buf_str(&b, "\r\n");
    if (body) hg_buf_str(&b, body);
    raw_send(fd, b.data, b.len);
    hg_buf_fini(&b);
}

static bool read_exact(int fd, struct hg_buf *b, size_t n)
{
    char block[16384];
    while (n > 0) {
        ssize_t k = recv(fd, block, n < sizeof block ? n : sizeof block, 0);
        if (k <= 0) return false;
        hg_buf_add(b, block, (size_t)k);
        n -= (size_t)k;
    }
    return true;
}

static bool read_line(int fd, struct hg_buf *b)
{
    hg_buf_clear(b);
    do {
        if (!read_exact(fd, b, 1)) return false;
    } while (b->len < 2 || memcmp(b->data + b->len - 2, "\r\n", 2) != 0);
    return true;
}

static bool read_chunks(int fd, struct raw_reply *r)
{
    struct hg_buf line;
    hg_buf_init(&line);
    bool ok = false;
    while (read_line(fd, &line)) {
        size_t n = strtoul(line.data, NULL, 16);
        if (n == 0) {
            ok = read_line(fd, &line) && line.len == 2;
            break;
        }
        r->n_chunks++;
        if (!read_exact(fd, &r->body, n) || !read_line(fd, &line) || line.len != 2) break;
    }
    hg_buf_fini(&line);
    return ok;
}

const char *raw_header(const struct raw_reply *r, const char *name, char *out, size_t cap)
{
    size_t n = strlen(name);
    *out = 0;
    for (const char *s = r->head.data; s && *s; s = strchr(s, '\n'), s = s ? s + 1 : NULL) {
        if (strncasecmp(s, name, n) != 0 || s[n] != ':') continue;
        s += n + 1 + strspn(s + n + 1, " ");
        snprintf(out, cap, "%.*s", (int)strcspn(s, "\r"), s);
        break;
    }
    return out;
}

int raw_read(int fd, struct raw_reply *r)
{
    memset(r, 0, sizeof *r);
    struct hg_buf line;
    hg_buf_init(&line);
    do {
        if (!read_line(fd, &line)) {
            hg_buf_fini(&line);
            return 0;
        }
        hg_buf_add(&r->head, line.data, line.len);
    } while (line.len > 2);
    hg_buf_fini(&line);
    if (sscanf(r->head.data, "HTTP/1.1 %d ", &r->status) != 1) return 0;
    char v[64];
    r->chunked = strcmp(raw_header(r, "Transfer-Encoding", v, sizeof v), "chunked") == 0;
    if (r->chunked) {
        if (!read_chunks(fd, r)) r->status = 0;
    } else {
        size_t n = strtoul(raw_header(r, "Content-Length", v, sizeof v), NULL, 10);
        if (!read_exact(fd, &r->body, n)) r->status = 0;
    }
    return r->status;
}

void raw_reply_fini(struct raw_reply *r)
{
    hg_buf_fini(&r->head);
    hg_buf_fini(&r->body);
}

bool raw_readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}

bool raw_closed(int fd, int ms)
{
    char c;
    return raw_readable(fd, ms) && recv(fd, &c, 1, MSG_DONTWAIT) <= 0;
}
