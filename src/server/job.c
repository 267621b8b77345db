#include "server/server_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"
#include "server/sse.h"

void hg_random_id(char *out, size_t cap, const char *prefix)
{
    unsigned char bytes[12] = {0};
    (void)!getrandom(bytes, sizeof bytes, 0); /* <= 256 bytes are never cut short */
    size_t n = (size_t)snprintf(out, cap, "%s", prefix);
    for (size_t i = 0; i < sizeof bytes && n + 3 <= cap; i++, n += 2)
        snprintf(out + n, cap - n, "%02x", bytes[i]);
}

/* Of one job before the sockets get their turn. */
enum { DRAIN_EVENTS = 256, DRAIN_BYTES = 64 * 1024 };

/* From the engine's thread: only marks the job and wakes the loop. */
static void on_notify(void *ctx)
{
    struct hg_job *j = ctx;
    struct hg_server *s = j->srv;
    pthread_mutex_lock(&s->lock);
    bool first = !j->is_ready;
    if (first) {
        STAILQ_INSERT_TAIL(&s->ready, j, ready_link);
        j->is_ready = true;
        s->n_ready++;
    }
    pthread_mutex_unlock(&s->lock);
    if (first) hg_http_wake(s->http);
}

static void job_free(struct hg_job *j)
{
    struct hg_server *s = j->srv;
    hg_request_free(j->req); /* without the lock: the engine may be in on_notify */
    pthread_mutex_lock(&s->lock);
    if (j->is_ready) {
        STAILQ_REMOVE(&s->ready, j, hg_job, ready_link);
        s->n_ready--;
    }
    pthread_mutex_unlock(&s->lock);
    LIST_REMOVE(j, link);
    hg_buf_fini(&j->out);
    hg_buf_fini(&j->text);
    hg_buf_fini(&j->reasoning);
    for (int32_t i = 0; i < HG_JOB_LOGPROB_BUFS; i++) hg_buf_fini(&j->logprobs[i]);
    for (int32_t i = 0; i < j->n_calls; i++) {
        hg_buf_fini(&j->calls[i].id);
        hg_buf_fini(&j->calls[i].name);
        hg_buf_fini(&j->calls[i].args);
    }
    free(j->calls);
    free(j);
}

void hg_job_start(struct hg_server *s, struct hg_http_req *r, const struct hg_api_request *q,
                  const struct hg_dialect *dialect)
{
    struct hg_api_err err = {.param = ""};
    struct hg_job *j = calloc(1, sizeof *j);
    if (!j) {
        hg_api_fail(&err, HG_ENOMEM, NULL, "out of memory");
        hg_reply_api_error(r, &err);
        return;
    }
    j->srv = s;
    j->dialect = dialect;
    j->stream = q->stream;
    j->include_usage = q->include_usage;
    j->want_logprobs = q->rp.n_logprobs >= 0;
    j->created = (int64_t)time(NULL);
    hg_random_id(j->id, sizeof j->id, dialect->id_prefix);
    LIST_INSERT_HEAD(&s->jobs, j, link);

    struct hg_request_params rp = q->rp;
    rp.session_id = hg_http_head_get(&r->head, "X-Session-ID");
    rp.notify = on_notify;
    rp.notify_ctx = j;
    if (hg_request_submit(s->eng, &rp, &j->req, &err.e) != HG_OK) {
        j->req = NULL;
        job_free(j);
        hg_reply_api_error(r, &err);
        return;
    }
    j->http = r;
    r->user = j;
}

void hg_job_end(struct hg_job *j)
{
    if (!j->over) hg_request_cancel(j->req);
    job_free(j);
}

/* ------------------------------------------------------------------------- pieces of JSON -- */

const char *hg_job_finish_name(enum hg_finish f)
{
    return f == HG_FINISH_LENGTH ? "length" : f == HG_FINISH_TOOL_CALLS ? "tool_calls" : "stop";
}

double hg_job_finite(float logprob)
{
    return logprob > -9999.0f ? (double)logprob : -9999.0;
}

static void job_json_head(struct hg_job *j, const char *object)
{
    hg_buf_printf(&j->out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", j->id,
                  object, (long long)j->created);
    hg_json_out_str(&j->out, j->srv->model_name);
    hg_buf_str(&j->out, ",\"choices\":[");
}

static void job_json_usage(struct hg_job *j, const struct hg_event *done)
{
    const struct hg_usage *u = &done->usage;
    const struct hg_timings *t = &done->timings;
    hg_buf_printf(&j->out,
                  ",\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%lld,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%d}}",
                  u->n_prompt, u->n_completion, (long long)u->n_prompt + u->n_completion,
                  u->n_cached);
    hg_buf_printf(&j->out,
                  ",\"timings\":{\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,"
                  "\"ttft_ms\":%.3f,\"n_rounds\":%d,\"logits_hash\":\"%016llx\"}",
                  t->queue_s * 1e3, t->prefill_s * 1e3, t->decode_s * 1e3, t->ttft_s * 1e3,
                  t->n_rounds, (unsigned long long)t->logits_hash);
}

void hg_job_chunk_begin(struct hg_job *j)
{
    hg_sse_begin(&j->out);
    job_json_head(j, j->dialect->chunk_object);
}

void hg_job_chunk_end(struct hg_job *j)
{
    hg_buf_str(&j->out, j->include_usage ? "],\"usage\":null}" : "]}");
    hg_sse_end(&j->out);
}

/* ------------------------------------------------------------------------------- the reply -- */

static void stream_last(struct hg_job *j, const struct hg_event *done)
{
    j->dialect->finish_chunk(j, done);
    if (j->include_usage) {
        hg_sse_begin(&j->out);
        job_json_head(j, j->dialect->chunk_object);
        hg_buf_char(&j->out, ']');
        job_json_usage(j, done);
        hg_buf_char(&j->out, '}');
        hg_sse_end(&j->out);
    }
    hg_sse_done(&j->out);
}

static void whole_reply(struct hg_job *j, const struct hg_event *done)
{
    struct hg_http_req *r = j->http;
    job_json_head(j, j->dialect->object);
    j->dialect->choice(j, done);
    hg_buf_char(&j->out, ']');
    job_json_usage(j, done);
    hg_buf_char(&j->out, '}');
    if (j->oom || j->text.oom || j->reasoning.oom) j->out.oom = true;
    j->http = NULL;
    hg_reply_json(r, 200, NULL, &j->out);
}

/* An error, or an end that the client did not ask for. */
static void fail_reply(struct hg_job *j, const struct hg_event *ev)
{
    struct hg_http_req *r = j->http;
    struct hg_api_err err = {.e = ev->err};
    if (ev->type == HG_EV_DONE)
        hg_api_fail(&err, HG_ECANCELED, NULL, "cancelled: the server is stopping");
    hg_log(HG_LOG_WARN, "%s: %s: %s", j->id, hg_status_name(err.e.status), err.e.text);
    if (j->begun) {
        hg_sse_begin(&j->out);
        hg_json_api_error(&j->out, &err);
        hg_sse_end(&j->out);
        return;
    }
    j->http = NULL;
    hg_reply_api_error(r, &err);
}

static void job_event(struct hg_job *j, const struct hg_event *ev)
{
    bool last = ev->type == HG_EV_DONE || ev->type == HG_EV_ERROR;
    j->over = last;
    bool failed = ev->type == HG_EV_ERROR || (last && ev->finish == HG_FINISH_CANCELED);
    if (failed) {
        fail_reply(j, ev);
    } else if (!j->stream) {
        j->dialect->collect(j, ev);
        if (last) whole_reply(j, ev);
    } else {
        /* Not before there is something to say: until then an error has its own HTTP status. */
        if (!j->begun)
            hg_http_stream_begin(j->http, HG_SSE_TYPE,
                                 HG_SSE_HEADERS "Access-Control-Allow-Origin: *\r\n");
        if (last) stream_last(j, ev);
        else j->dialect->chunk(j, ev);
        j->begun = true;
    }
}

/* Sends what the events just seen add up to, in one write. Afterwards j->http is NULL if the
 * reply is complete or the client is lost. */
static void job_flush(struct hg_job *j)
{
    static const char oom[] = "data: {\"error\":{\"message\":\"out of memory\","
                              "\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n";
    if (!j->http || !j->begun) return;
    struct hg_http_req *r = j->http;
    bool ok = !j->out.oom;
    bool sent = hg_http_stream_write(r, ok ? j->out.data : oom, ok ? j->out.len : sizeof oom - 1);
    hg_buf_clear(&j->out);
    if (sent && ok && !j->over) return;
    j->http = NULL;
    if (sent) hg_http_stream_end(r);
}

static struct hg_job *next_ready(struct hg_server *s)
{
    pthread_mutex_lock(&s->lock);
    struct hg_job *j = STAILQ_FIRST(&s->ready);
    if (j) {
        STAILQ_REMOVE_HEAD(&s->ready, ready_link);
        j->is_ready = false;
        s->n_ready--;
    }
    pthread_mutex_unlock(&s->lock);
    return j;
}

void hg_jobs_drain(struct hg_server *s)
{
    pthread_mutex_lock(&s->lock);
    int32_t n = s->n_ready; /* those that get ready meanwhile wake the loop again */
    pthread_mutex_unlock(&s->lock);
    struct hg_job *j;
    while (n-- > 0 && (j = next_ready(s)) != NULL) {
        const struct hg_event *ev = NULL;
        int32_t left = DRAIN_EVENTS;
        while (!j->over && left > 0 && (ev = hg_request_next(j->req)) != NULL) {
            job_event(j, ev);
            left = j->out.len < DRAIN_BYTES ? left - 1 : 0;
        }
        job_flush(j);
        if (!j->http) hg_job_end(j);
        else if (left == 0) on_notify(j); /* there may be more */
    }
}

void hg_jobs_cancel(struct hg_server *s)
{
    struct hg_job *j;
    LIST_FOREACH(j, &s->jobs, link) hg_request_cancel(j->req);
}

void hg_jobs_free(struct hg_server *s)
{
    struct hg_job *j;
    while ((j = LIST_FIRST(&s->jobs)) != NULL) {
        if (j->http) j->http->user = NULL;
        job_free(j);
    }
}
