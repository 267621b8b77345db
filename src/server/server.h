/* server.h: the OpenAI-compatible HTTP server over one engine.
 *
 *     struct hg_server_params sp = {.port = 8080};
 *     struct hg_server *srv;
 *     if (hg_server_open(eng, &sp, &srv, &err)) die(err.text);
 *     signal handler: hg_server_stop(srv);
 *     hg_server_run(srv, &err);
 *     hg_server_close(srv);
 *
 * POST /v1/chat/completions, /v1/completions, /tokenize, /detokenize; GET /v1/models,
 * /v1/models/ID, /health.
 *
 * One thread, the caller of hg_server_run, does all HTTP work; a second one parses, renders and
 * tokenizes requests and hands them to the engine, whose thread computes. A client that leaves
 * cancels its request at once; one that does not read is dropped once max_unsent bytes wait. */
#ifndef HG_SERVER_SERVER_H
#define HG_SERVER_SERVER_H

#include "hedge.h"

struct hg_server;

struct hg_server_params {
    const char *host; /* name or address; NULL = loopback, IPv4 and IPv6 */
    uint16_t port;    /* 0 = any free one, see hg_server_port */
    const char
        *api_key; /* wanted as "Authorization: Bearer KEY" or "x-api-key: KEY"; NULL = none */
    const char *model_name;     /* as reported to clients; NULL = the engine's */
    int32_t default_max_tokens; /* when a request does not say; 0 = to the end of the context */
    /* Limits; 0 = the default. */
    size_t max_head;         /* 64 KiB: request line and headers */
    size_t max_body;         /* 64 MiB */
    size_t max_unsent;       /* 8 MiB: output that a slow client has not taken */
    int32_t max_connections; /* 512 */
    double head_s;           /* 30: for the whole head */
    double body_s;           /* 60: without a byte of the body */
    double write_s;          /* 120: without the client taking a byte */
    double idle_s;           /* 7200: between requests; clients want to close first */
    double grace_s;          /* 10: from hg_server_stop until requests under way are cancelled */
};

/* Strings of the parameters are borrowed until hg_server_close. EIO when the address cannot be
 * had: "127.0.0.1:8080: port 8080 is in use by another process". */
enum hg_status hg_server_open(struct hg_engine *eng, const struct hg_server_params *p,
                              struct hg_server **out, struct hg_err *err);
uint16_t hg_server_port(const struct hg_server *s);
/* Serves until hg_server_stop, and returns when the last reply is out or the grace is over. */
enum hg_status hg_server_run(struct hg_server *s, struct hg_err *err);
/* Any thread, also a signal handler. A second call cancels what is still running. */
void hg_server_stop(struct hg_server *s);
/* Not before hg_server_run has returned. The engine stays open. NULL is fine. */
void hg_server_close(struct hg_server *s);

#endif
