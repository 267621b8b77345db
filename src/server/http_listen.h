/* http_listen.h: listening sockets. */
#ifndef HG_SERVER_HTTP_LISTEN_H
#define HG_SERVER_HTTP_LISTEN_H

#include "base/err.h"

#define HG_LISTEN_MAX 8

struct hg_listen {
    int fds[HG_LISTEN_MAX];
    int32_t n_fds;
    uint16_t port; /* the real one */
};

/* Listens on every address of the host (NULL = 127.0.0.1 and ::1). An address family that this
 * machine lacks is skipped; a port in use on any address is an error. */
enum hg_status hg_listen_open(const char *host, uint16_t port, struct hg_listen *out,
                              struct hg_err *err);
void hg_listen_close(struct hg_listen *l);

#endif
