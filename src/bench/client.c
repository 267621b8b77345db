#include "bench/client.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"

#define ERROR_BODY_MAX 600

struct hg_client {
    CURL *curl;
    char *base; /* URL without "/" or "/v1" at its end */
    char *api_key;
    int32_t n_connections;
    char why[CURL_ERROR_SIZE];
};

/* One request under way. */
struct post {
    struct hg_client *client;
    hg_client_bytes_fn *fn;
    void *ctx;
    char error[ERROR_BODY_MAX + 1]; /* start of the body when the status is not 200 */
    size_t n_error;
};

static char *base_of(const char *url)
{
    size_t n = strlen(url);
    while (n && url[n - 1] == '/') n--;
    if (n > 3 && !memcmp(url + n - 3, "/v1", 3)) n -= 3;
    return strndup(url, n);
}

enum hg_status hg_client_open(const struct hg_client_params *p, struct hg_client **out,
                              struct hg_err *err)
{
    *out = NULL;
    if (strncmp(p->url, "http://", 7) != 0 && strncmp(p->url, "https://", 8) != 0)
        return hg_fail(err, HG_EINVAL, "'%s' is no URL such as http://127.0.0.1:8080", p->url);
    struct hg_client *c = calloc(1, sizeof *c);
    if (!c || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(c);
        return hg_fail(err, HG_ENOMEM, "HTTP client: out of memory");
    }
    c->curl = curl_easy_init();
    c->base = base_of(p->url);
    c->api_key = p->api_key ? strdup(p->api_key) : NULL;
    if (!c->curl || !c->base || (p->api_key && !c->api_key)) {
        hg_client_close(c);
        return hg_fail(err, HG_ENOMEM, "HTTP client: out of memory");
    }
    double timeout = p->timeout_s > 0 ? p->timeout_s : 600;
    curl_easy_setopt(c->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)(timeout * 1e3));
    curl_easy_setopt(c->curl, CURLOPT_MAXCONNECTS, 1L);
    curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, c->why);
    *out = c;
    return HG_OK;
}

void hg_client_close(struct hg_client *c)
{
    if (!c) return;
    curl_easy_cleanup(c->curl);
    curl_global_cleanup();
    free(c->base);
    free(c->api_key);
    free(c);
}

static size_t on_bytes(char *p, size_t size, size_t n, void *ctx)
{
    struct post *post = ctx;
    double now = hg_now();
    long status = 0;
    n *= size;
    curl_easy_getinfo(post->client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200) {
        post->fn(post->ctx, p, n, now);
    } else {
        size_t room = ERROR_BODY_MAX - post->n_error, some = n < room ? n : room;
        memcpy(post->error + post->n_error, p, some);
        post->n_error += some;
    }
    return n;
}

/* Appends "name: value"; on failure the list is freed and NULL. */
static struct curl_slist *header(struct curl_slist *list, const char *name, const char *value)
{
    struct hg_buf b;
    hg_buf_init(&b);
    hg_buf_printf(&b, *value ? "%s: %s" : "%s:", name, value);
    struct curl_slist *more = b.oom ? NULL : curl_slist_append(list, b.data);
    hg_buf_fini(&b);
    if (!more) curl_slist_free_all(list);
    return more;
}

/* An empty value takes out what libcurl would add by itself. */
static struct curl_slist *headers(const struct hg_client *c, const char *session_id)
{
    struct curl_slist *l = header(NULL, "Content-Type", "application/json");
    if (l) l = header(l, "Accept", "text/event-stream");
    if (l) l = header(l, "Expect", "");
    if (l && session_id) l = header(l, "X-Session-ID", session_id);
    if (l && c->api_key) {
        struct hg_buf b;
        hg_buf_init(&b);
        hg_buf_printf(&b, "Bearer %s", c->api_key);
        l = header(l, "Authorization", b.data ? b.data : "");
        hg_buf_fini(&b);
    }
    return l;
}

static enum hg_status perform(struct hg_client *c, struct post *post, const char *url,
                              double *t_end, struct hg_err *err)
{
    c->why[0] = 0;
    CURLcode rc = curl_easy_perform(c->curl);
    *t_end = hg_now();
    long status = 0, made = 0;
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(c->curl, CURLINFO_NUM_CONNECTS, &made);
    c->n_connections += (int32_t)made;
    if (rc != CURLE_OK)
        return hg_fail(err, HG_EIO, "%s: %s", url, c->why[0] ? c->why : curl_easy_strerror(rc));
    if (status != 200) return hg_fail(err, HG_EIO, "%s: HTTP %ld: %s", url, status, post->error);
    return HG_OK;
}

enum hg_status hg_client_post(struct hg_client *c, const char *path, const char *session_id,
                              const char *body, size_t n, hg_client_bytes_fn *fn, void *ctx,
                              double *t_end, struct hg_err *err)
{
    struct post post = {.client = c, .fn = fn, .ctx = ctx};
    struct curl_slist *list = headers(c, session_id);
    struct hg_buf url;
    hg_buf_init(&url);
    hg_buf_printf(&url, "%s/v1/%s", c->base, path);
    enum hg_status s;
    if (!list || url.oom) {
        s = hg_fail(err, HG_ENOMEM, "HTTP client: out of memory");
    } else {
        curl_easy_setopt(c->curl, CURLOPT_URL, url.data);
        curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, list);
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
        curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_bytes);
        curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &post);
        s = perform(c, &post, url.data, t_end, err);
        curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, NULL);
    }
    curl_slist_free_all(list);
    hg_buf_fini(&url);
    return s;
}

int32_t hg_client_connections(const struct hg_client *c)
{
    return c->n_connections;
}
