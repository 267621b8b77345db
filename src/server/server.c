#include "server/server_impl.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/log.h"

#define CORS "Access-Control-Allow-Origin: *\r\n"

/* --------------------------------------------------------------------------------- replies -- */

void hg_reply_json(struct hg_http_req *r, int status, const char *headers, struct hg_buf *body)
{
    static const char oom[] = "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
                              "\"param\":null,\"code\":null}}";
    bool ok = !body->oom;
    if (!ok) status = 503;
    char lines[256];
    snprintf(lines, sizeof lines, CORS "%s%s", headers ? headers : "",
             status == 429 || status == 503 ? "Retry-After: 1\r\n" : "");
    hg_http_reply(r, status, "application/json", lines, ok ? body->data : oom,
                  ok ? body->len : sizeof oom - 1);
    hg_buf_fini(body);
}

void hg_reply_error(struct hg_http_req *r, int status, const char *code, const char *message)
{
    struct hg_buf b;
    hg_buf_init(&b);
    hg_json_error(&b, status, code, NULL, message);
    hg_reply_json(r, status, status == 401 ? "WWW-Authenticate: Bearer\r\n" : NULL, &b);
}

/* --------------------------------------------------------------------------------- routing -- */

struct route {
    const char *method, *path; /* a path that ends in / takes one more component */
    void (*handler)(struct hg_server *s, struct hg_http_req *r);
    bool open; /* needs no API key */
};

static const struct route routes[] = {{"POST", "/v1/chat/completions", hg_v1_chat, false},
                                      {"POST", "/v1/completions", hg_v1_completions, false},
                                      {"GET", "/v1/models", hg_v1_models, false},
                                      {"GET", "/v1/models/", hg_v1_model, false},
                                      {"GET", "/health", hg_health, true},
                                      {"GET", "/metrics", hg_metrics_page, false},
                                      {"POST", "/tokenize", hg_tokenize_text, false},
                                      {"POST", "/detokenize", hg_detokenize_ids, false}};

static const struct route *find_route(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        size_t n = strlen(routes[i].path);
        bool prefix = routes[i].path[n - 1] == '/';
        if (prefix ? strncmp(path, routes[i].path, n) == 0 && path[n]
                   : strcmp(path, routes[i].path) == 0)
            return &routes[i];
    }
    return NULL;
}

/* In time that does not depend on where the strings differ. */
static bool same_secret(const char *given, const char *key)
{
    size_t n = strlen(key), n_given = strlen(given);
    unsigned char diff = n != n_given;
    for (size_t i = 0; i < n; i++)
        diff |= (unsigned char)(key[i] ^ given[i < n_given ? i : n_given]);
    return diff == 0;
}

static bool is_authorized(const struct hg_server *s, const struct hg_http_head *head)
{
    if (!s->api_key) return true;
    const char *given = hg_http_head_get(head, "Authorization");
    if (given && strncasecmp(given, "Bearer ", 7) == 0) {
        given += 7;
        given += strspn(given, " ");
        if (same_secret(given, s->api_key)) return true;
    }
    given = hg_http_head_get(head, "x-api-key");
    return given && same_secret(given, s->api_key);
}

/* Keeps bodies of strangers out of memory. Preflights carry no key. */
static bool on_head(void *ctx, struct hg_http_req *r)
{
    struct hg_server *s = ctx;
    const struct route *route = find_route(r->head.path);
    if ((route && route->open) || strcmp(r->head.method, "OPTIONS") == 0) return true;
    if (is_authorized(s, &r->head)) return true;
    hg_reply_error(r, 401, "invalid_api_key", "API key missing or wrong");
    return false;
}

static void reply_options(struct hg_http_req *r, const struct route *route)
{
    char lines[256];
    snprintf(lines, sizeof lines,
             CORS
             "Access-Control-Allow-Methods: %s, OPTIONS\r\n"
             "Access-Control-Allow-Headers: *, Authorization\r\nAccess-Control-Max-Age: 86400\r\n",
             route ? route->method : "GET, POST");
    hg_http_reply(r, 204, NULL, lines, NULL, 0);
}

static void reply_wrong_method(struct hg_http_req *r, const struct route *route)
{
    char text[512], allow[64];
    bool get = strcmp(route->method, "GET") == 0;
    snprintf(allow, sizeof allow, "Allow: %s, OPTIONS\r\n", get ? "GET, HEAD" : route->method);
    snprintf(text, sizeof text, "%.32s is not allowed on %s, only %s", r->head.method, route->path,
             route->method);
    struct hg_buf b;
    hg_buf_init(&b);
    hg_json_error(&b, 405, "method_not_allowed", NULL, text);
    hg_reply_json(r, 405, allow, &b);
}

static void on_request(void *ctx, struct hg_http_req *r)
{
    struct hg_server *s = ctx;
    const char *method = r->head.method;
    const struct route *route = find_route(r->head.path);
    if (strcmp(method, "OPTIONS") == 0) {
        reply_options(r, route);
    } else if (!route) {
        char text[512];
        snprintf(text, sizeof text, "no such path: %.256s", r->head.path);
        hg_reply_error(r, 404, "not_found", text);
    } else if (strcmp(method, route->method) != 0 &&
               !(strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0)) {
        reply_wrong_method(r, route);
    } else if (s->stopping && !route->open) {
        hg_reply_error(r, 503, "stopping", "the server is stopping");
    } else {
        route->handler(s, r);
    }
}

static void on_gone(void *ctx, struct hg_http_req *r)
{
    (void)ctx;
    if (r->user) hg_job_end(r->user);
}

static void on_refused(void *ctx, struct hg_http_req *r, int status, const char *why)
{
    (void)ctx;
    hg_reply_error(r, status, NULL, why);
}

static void on_wake(void *ctx)
{
    hg_jobs_drain(ctx);
}

static void on_stop(void *ctx, bool now)
{
    struct hg_server *s = ctx;
    s->stopping = true;
    if (now) hg_jobs_cancel(s);
}

/* ---------------------------------------------------------------------------- open and run -- */

static struct hg_http_params http_params(const struct hg_server_params *p)
{
    struct hg_http_params h = {
        .host = p->host,
        .port = p->port,
        .max_head = p->max_head ? p->max_head : 64u << 10,
        .max_body = p->max_body ? p->max_body : 64u << 20,
        .max_bodies = 4 * (p->max_body ? p->max_body : 64u << 20),
        .max_unsent = p->max_unsent ? p->max_unsent : 8u << 20,
        .max_connections = p->max_connections > 0 ? p->max_connections : 512,
        .head_s = p->head_s > 0 ? p->head_s : 30,
        .body_s = p->body_s > 0 ? p->body_s : 60,
        .write_s = p->write_s > 0 ? p->write_s : 120,
        .idle_s = p->idle_s > 0 ? p->idle_s : 7200,
        .grace_s = p->grace_s > 0 ? p->grace_s : 10,
    };
    return h;
}

enum hg_status hg_server_open(struct hg_engine *eng, const struct hg_server_params *p,
                              struct hg_server **out, struct hg_err *err)
{
    *out = NULL;
    if (p->api_key && !*p->api_key) return hg_fail(err, HG_EINVAL, "API key: empty");
    struct hg_server *s = calloc(1, sizeof *s);
    if (!s) return hg_fail(err, HG_ENOMEM, "server: out of memory");
    s->eng = eng;
    s->info = hg_engine_info(eng);
    s->limits = (struct hg_api_limits){.sampling = s->info->sampling,
                                       .n_vocab = s->info->n_vocab,
                                       .default_max_tokens = p->default_max_tokens};
    s->api_key = p->api_key;
    s->model_name = p->model_name ? p->model_name : s->info->model_name;
    s->created = (int64_t)time(NULL);
    LIST_INIT(&s->jobs);
    STAILQ_INIT(&s->waiting);
    STAILQ_INIT(&s->ready);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    struct hg_http_params hp = http_params(p);
    struct hg_http_handler handler = {.on_head = on_head,
                                      .on_request = on_request,
                                      .on_gone = on_gone,
                                      .on_refused = on_refused,
                                      .on_wake = on_wake,
                                      .on_stop = on_stop,
                                      .ctx = s};
    enum hg_status status = hg_http_open(&hp, &handler, &s->http, err);
    if (status == HG_OK) status = hg_jobs_open(s, err);
    if (status != HG_OK) {
        hg_server_close(s);
        return status;
    }
    *out = s;
    return HG_OK;
}

uint16_t hg_server_port(const struct hg_server *s)
{
    return hg_http_port(s->http);
}

enum hg_status hg_server_run(struct hg_server *s, struct hg_err *err)
{
    /* Writing to a connection that the peer reset raises SIGPIPE on this thread; the error code is
     * all we want, and the signal's disposition belongs to the program. */
    sigset_t pipe_set, old;
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
    enum hg_status status = hg_http_run(s->http, err);
    if (!sigismember(&old, SIGPIPE)) {
        struct timespec none = {0, 0};
        while (sigtimedwait(&pipe_set, NULL, &none) > 0) continue;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    return status;
}

void hg_server_stop(struct hg_server *s)
{
    hg_http_stop(s->http);
}

void hg_server_close(struct hg_server *s)
{
    if (!s) return;
    hg_jobs_close(s); /* after this nobody wakes the loop */
    hg_http_close(s->http);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
