#include "server/server_impl.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of one job before the sockets get their turn. */
enum { DRAIN_EVENTS = 256, DRAIN_BYTES = 64 * 1024 };

/* ---------------------------------------------------------------------------------- worker -- */

/* Under the lock. Returns whether the loop must be woken. */
static bool mark_ready(struct hg_job *j)
{
    if (j->is_ready) return false;
    j->is_ready = true;
    STAILQ_INSERT_TAIL(&j->srv->ready, j, queue);
    j->srv->n_ready++;
    return true;
}

/* From the engine's thread. Before the job is prepared there is nothing to do: the worker will mark
 * it, and the events keep. */
static void on_notify(void *ctx)
{
    struct hg_job *j = ctx;
    struct hg_server *s = j->srv;
    pthread_mutex_lock(&s->lock);
    bool wake = j->phase == HG_JOB_PREPARED && mark_ready(j);
    pthread_mutex_unlock(&s->lock);
    if (wake) hg_http_wake(s->http);
}

void hg_job_submit(struct hg_job *j, const struct hg_api_request *q)
{
    j->stream = q->stream;
    j->include_usage = q->include_usage;
    j->want_logprobs = q->rp.n_logprobs >= 0;
    struct hg_request_params rp = q->rp;
    rp.session_id = j->session_id;
    rp.notify = on_notify;
    rp.notify_ctx = j;
    struct hg_api_err err = {.param = ""};
    if (hg_request_submit(j->srv->eng, &rp, &j->req, &err.e) == HG_OK) return;
    j->req = NULL;
    hg_job_fail(j, &err);
}

void hg_job_reply(struct hg_job *j, struct hg_buf *body)
{
    j->status = 200;
    j->out = *body;
    hg_buf_init(body);
}

void hg_job_fail(struct hg_job *j, const struct hg_api_err *err)
{
    j->status = hg_http_status(err->e.status);
    hg_json_api_error(&j->out, err);
}

static void *worker_main(void *arg)
{
    struct hg_server *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->quit) {
        struct hg_job *j = STAILQ_FIRST(&s->waiting);
        if (!j) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        STAILQ_REMOVE_HEAD(&s->waiting, queue);
        j->phase = HG_JOB_PREPARING;
        pthread_mutex_unlock(&s->lock);
        j->prepare(j);
        pthread_mutex_lock(&s->lock);
        j->phase = HG_JOB_PREPARED;
        if (mark_ready(j)) hg_http_wake(s->http);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum hg_status hg_jobs_open(struct hg_server *s, struct hg_err *err)
{
    sigset_t all, old;
    sigfillset(&all); /* signals are the program's: none is delivered to our thread */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&s->worker, NULL, worker_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) return hg_fail(err, HG_ENOMEM, "server: cannot start a thread: %s", strerror(rc));
    s->has_worker = true;
    return HG_OK;
}

/* ------------------------------------------------------------------------------------ loop -- */

void hg_job_start(struct hg_server *s, struct hg_http_req *r, void (*prepare)(struct hg_job *j),
                  const struct hg_dialect *dialect)
{
    struct hg_job *j = calloc(1, sizeof *j);
    if (!j) {
        hg_reply_error(r, 503, NULL, "out of memory");
        return;
    }
    j->srv = s;
    j->http = r;
    j->prepare = prepare;
    j->dialect = dialect;
    j->created = (int64_t)time(NULL);
    j->body = hg_http_take_body(r);
    if (dialect) hg_random_id(j->id, sizeof j->id, dialect->id_prefix);
    const char *session = hg_http_head_get(&r->head, "X-Session-ID");
    if (session) j->session_id = strdup(session); /* a hint: its loss costs speed only */
    r->user = j;
    LIST_INSERT_HEAD(&s->jobs, j, link);
    pthread_mutex_lock(&s->lock);
    STAILQ_INSERT_TAIL(&s->waiting, j, queue);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static void job_free(struct hg_job *j)
{
    struct hg_server *s = j->srv;
    hg_request_free(j->req); /* without the lock: the engine may be in on_notify */
    pthread_mutex_lock(&s->lock);
    if (j->is_ready) {
        STAILQ_REMOVE(&s->ready, j, hg_job, queue);
        s->n_ready--;
    }
    pthread_mutex_unlock(&s->lock);
    LIST_REMOVE(j, link);
    hg_http_give_back_body(s->http, &j->body);
    free(j->session_id);
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

/* Takes a waiting job from the worker. False while the worker has it. */
static bool claim(struct hg_job *j)
{
    struct hg_server *s = j->srv;
    pthread_mutex_lock(&s->lock);
    bool ours = j->phase != HG_JOB_PREPARING;
    if (j->phase == HG_JOB_WAITING) {
        STAILQ_REMOVE(&s->waiting, j, hg_job, queue);
        j->phase = HG_JOB_PREPARED;
    }
    pthread_mutex_unlock(&s->lock);
    return ours;
}

void hg_job_end(struct hg_job *j)
{
    j->http = NULL;
    if (!claim(j)) return; /* it comes back on the ready list */
    if (j->req && !j->over) {
        j->srv->metrics.n_left++;
        hg_request_cancel(j->req);
    }
    job_free(j);
}

static struct hg_job *next_ready(struct hg_server *s)
{
    pthread_mutex_lock(&s->lock);
    struct hg_job *j = STAILQ_FIRST(&s->ready);
    if (j) {
        STAILQ_REMOVE_HEAD(&s->ready, queue);
        j->is_ready = false;
        s->n_ready--;
    }
    pthread_mutex_unlock(&s->lock);
    return j;
}

/* Returns whether the engine may have more events. */
static bool job_advance(struct hg_job *j)
{
    struct hg_server *s = j->srv;
    hg_http_give_back_body(s->http, &j->body);
    if (!j->http) return false;
    if (j->status) {
        struct hg_http_req *r = j->http;
        j->http = NULL;
        hg_reply_json(r, j->status, NULL, &j->out);
        return false;
    }
    if (s->stop_now) hg_request_cancel(j->req);
    const struct hg_event *ev;
    int32_t left = DRAIN_EVENTS;
    while (!j->over && left > 0 && (ev = hg_request_next(j->req)) != NULL) {
        hg_job_event(j, ev);
        left = j->out.len < DRAIN_BYTES ? left - 1 : 0;
    }
    hg_job_flush(j);
    return left == 0;
}

void hg_jobs_drain(struct hg_server *s)
{
    pthread_mutex_lock(&s->lock);
    int32_t n = s->n_ready; /* those that get ready meanwhile wake the loop again */
    pthread_mutex_unlock(&s->lock);
    struct hg_job *j;
    while (n-- > 0 && (j = next_ready(s)) != NULL) {
        bool more = job_advance(j);
        if (!j->http)
            hg_job_end(j);
        else if (more)
            on_notify(j);
    }
}

void hg_jobs_cancel(struct hg_server *s)
{
    s->stop_now = true;
    struct hg_job *j;
    LIST_FOREACH(j, &s->jobs, link)
    {
        pthread_mutex_lock(&s->lock);
        bool prepared = j->phase == HG_JOB_PREPARED;
        pthread_mutex_unlock(&s->lock);
        if (prepared && j->req) hg_request_cancel(j->req);
    }
}

void hg_jobs_close(struct hg_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->quit = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (s->has_worker) pthread_join(s->worker, NULL);
    struct hg_job *j;
    while ((j = LIST_FIRST(&s->jobs)) != NULL) {
        if (j->http) j->http->user = NULL;
        hg_job_end(j);
    }
}
