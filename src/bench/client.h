/* client.h: the HTTP side of the replay client: one keep-alive connection, streamed replies.
 *
 * Sends what the MLPerf harness sends (Host, Content-Type, Accept, X-Session-ID, Content-Length
 * and, with a key, Authorization) and nothing more, and like it never tries a request twice. */
#ifndef HG_BENCH_CLIENT_H
#define HG_BENCH_CLIENT_H

#include "base/err.h"

struct hg_client;

struct hg_client_params {
    const char *url;     /* "http://host:port", with or without a path such as /v1 at its end */
    const char *api_key; /* NULL = none */
    double timeout_s;    /* of one request; 0 = 600 */
};

/* Bytes of the body as they arrive, at `now` (base/clock.h). */
typedef void hg_client_bytes_fn(void *ctx, const char *p, size_t n, double now);

enum hg_status hg_client_open(const struct hg_client_params *p, struct hg_client **out,
                              struct hg_err *err);
void hg_client_close(struct hg_client *c);

/* POSTs JSON to URL/v1/PATH. Status 200: the body went to fn, *t_end is when the reply ended.
 * Anything else is HG_EIO with the status and the start of the body in the text. */
enum hg_status hg_client_post(struct hg_client *c, const char *path, const char *session_id,
                              const char *body, size_t n, hg_client_bytes_fn *fn, void *ctx,
                              double *t_end, struct hg_err *err);
/* Connections made so far: 1 as long as the server keeps its end open. */
int32_t hg_client_connections(const struct hg_client *c);

#endif
