#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine_impl.h"

void hg_request_params_init(struct hg_request_params *p)
{
    *p = (struct hg_request_params){.n_logprobs = -1,
                                    .sampling = {.top_p = 1, .repetition_penalty = 1}};
}

static void free_node(struct hg_event_node *n)
{
    if (!n) return;
    free(n->logprobs);
    free(n->tops);
    free(n);
}

static void request_destroy(struct hg_request *r)
{
    for (struct hg_event_node *n = r->first; n;) {
        struct hg_event_node *next = n->next;
        free_node(n);
        n = next;
    }
    free_node(r->taken);
    hg_toks_fini(&r->prompt);
    hg_toks_fini(&r->drawn);
    json_decref(r->said);
    hg_buf_fini(&r->args);
    for (int32_t i = 0; i < r->n_stop; i++) free(r->stop[i]);
    free(r->stop);
    hg_sampler_free(r->sampler);
    hg_output_free(r->output);
    hg_stops_fini(&r->stops);
    hg_buf_fini(&r->text);
    hg_buf_fini(&r->visible);
    free(r->lp);
    free(r->lp_top);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->ready);
    free(r);
}

void hg_request_unref(struct hg_request *r)
{
    if (atomic_fetch_sub(&r->refs, 1) == 1) request_destroy(r);
}

/* Layout of a node: the struct, then text, id and name, each with a NUL behind it. */
static struct hg_event_node *make_node(const struct hg_event *ev)
{
    const char *id = ev->id ? ev->id : "", *name = ev->name ? ev->name : "";
    size_t n_id = strlen(id) + 1, n_name = strlen(name) + 1;
    struct hg_event_node *n = calloc(1, sizeof *n + ev->n_text + 1 + n_id + n_name);
    if (!n) return NULL;
    n->ev = *ev;
    if (ev->n_text) memcpy(n->text, ev->text, ev->n_text);
    n->ev.text = n->text;
    n->ev.id = memcpy(n->text + ev->n_text + 1, id, n_id);
    n->ev.name = memcpy(n->text + ev->n_text + 1 + n_id, name, n_name);
    n->ev.logprobs = NULL;
    if (ev->n_logprobs == 0) return n;

    size_t n_lp = (size_t)ev->n_logprobs, n_top = 0;
    for (size_t i = 0; i < n_lp; i++) n_top += (size_t)ev->logprobs[i].n_top;
    n->logprobs = malloc(n_lp * sizeof *n->logprobs);
    n->tops = malloc((n_top + 1) * sizeof *n->tops);
    if (!n->logprobs || !n->tops) {
        free_node(n);
        return NULL;
    }
    struct hg_top_logprob *top = n->tops;
    for (size_t i = 0; i < n_lp; i++) {
        n->logprobs[i] = ev->logprobs[i];
        n->logprobs[i].top = top;
        for (int32_t j = 0; j < ev->logprobs[i].n_top; j++) *top++ = ev->logprobs[i].top[j];
    }
    n->ev.logprobs = n->logprobs;
    return n;
}

void hg_request_post(struct hg_request *r, const struct hg_event *ev)
{
    struct hg_event_node *n = make_node(ev);
    bool last = ev->type == HG_EV_DONE || ev->type == HG_EV_ERROR;
    pthread_mutex_lock(&r->lock);
    if (n && r->last) r->last->next = n;
    if (n && !r->first) r->first = n;
    if (n)
        r->last = n;
    else
        r->oom = true;
    if (last) r->ended = true;
    pthread_cond_signal(&r->ready);
    /* Under the lock, so that hg_request_free can promise that it is never called again. */
    if (r->notify) r->notify(r->notify_ctx);
    pthread_mutex_unlock(&r->lock);
}

static const struct hg_event *take(struct hg_request *r)
{
    struct hg_event_node *n = r->first;
    free_node(r->taken);
    r->taken = n;
    if (!n) return NULL;
    r->first = n->next;
    if (!r->first) r->last = NULL;
    return &n->ev;
}

const struct hg_event *hg_request_next(struct hg_request *r)
{
    pthread_mutex_lock(&r->lock);
    const struct hg_event *ev = take(r);
    pthread_mutex_unlock(&r->lock);
    return ev;
}

const struct hg_event *hg_request_wait(struct hg_request *r)
{
    pthread_mutex_lock(&r->lock);
    while (!r->first && !r->ended) pthread_cond_wait(&r->ready, &r->lock);
    const struct hg_event *ev = take(r);
    pthread_mutex_unlock(&r->lock);
    return ev;
}

/* Takes r out of the waiting queue if it is there; the scheduler then never sees it. */
static bool unqueue(struct hg_request *r)
{
    struct hg_engine *eng = r->eng;
    bool found = false;
    pthread_mutex_lock(&eng->lock);
    struct hg_request *before = NULL;
    for (struct hg_request *q = eng->first; q && !found; q = q->next) {
        if (q == r) {
            if (before)
                before->next = r->next;
            else
                eng->first = r->next;
            if (eng->last == r) eng->last = before;
            eng->stats.n_waiting--;
            found = true;
        }
        before = q;
    }
    pthread_mutex_unlock(&eng->lock);
    return found;
}

void hg_request_cancel(struct hg_request *r)
{
    atomic_store(&r->cancel, true);
    if (!unqueue(r)) return;
    struct hg_event ev = {.type = HG_EV_ERROR, .usage = r->usage};
    hg_fail(&ev.err, HG_ECANCELED, "request cancelled");
    hg_request_post(r, &ev);
    hg_request_unref(r); /* the scheduler's */
}

void hg_request_free(struct hg_request *r)
{
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->notify = NULL;
    pthread_mutex_unlock(&r->lock);
    hg_request_cancel(r);
    hg_request_unref(r);
}

const hg_tok *hg_request_prompt(const struct hg_request *r, size_t *n)
{
    *n = r->prompt.n;
    return r->prompt.ids;
}

static enum hg_status copy_stops(struct hg_request *r, const struct hg_request_params *p,
                                 struct hg_err *err)
{
    r->stop = calloc((size_t)p->n_stop + 1, sizeof *r->stop);
    if (!r->stop) return hg_fail(err, HG_ENOMEM, "request: out of memory");
    for (int32_t i = 0; i < p->n_stop; i++) {
        r->stop[i] = strdup(p->stop[i]);
        if (!r->stop[i]) return hg_fail(err, HG_ENOMEM, "request: out of memory");
        r->n_stop++;
    }
    hg_stops_init(&r->stops, (const char *const *)r->stop, r->n_stop);
    return HG_OK;
}

static enum hg_status request_init(struct hg_request *r, const struct hg_request_params *p,
                                   struct hg_err *err)
{
    struct hg_engine *eng = r->eng;
    if (p->max_tokens < 0)
        return hg_fail(err, HG_EINVAL, "max_tokens: %d is negative", p->max_tokens);
    if (p->n_logprobs > 20)
        return hg_fail(err, HG_EINVAL, "top_logprobs: %d, at most 20", p->n_logprobs);
    HG_TRY(hg_prompt_build(r, p, err));
    int32_t n_ctx = eng->info.n_ctx;
    if (r->prompt.n == 0) return hg_fail(err, HG_EINVAL, "prompt: no tokens");
    if (r->prompt.n >= (size_t)n_ctx)
        return hg_fail(err, HG_ETOOLONG,
                       "prompt of %zu tokens does not fit the context of %d "
                       "tokens with room for an answer",
                       r->prompt.n, n_ctx);
    int32_t room = n_ctx - (int32_t)r->prompt.n;
    r->max_tokens = p->max_tokens > 0 && p->max_tokens < room ? p->max_tokens : room;
    r->ignore_eos = p->ignore_eos;
    r->keep_special = p->echo_special;
    r->n_logprobs = p->n_logprobs;
    HG_TRY(copy_stops(r, p, err));
    HG_TRY(
        hg_sampler_create(&p->sampling, eng->info.n_vocab, eng->info.n_tokens, &r->sampler, err));
    return HG_OK;
}

static enum hg_status enqueue(struct hg_request *r, struct hg_err *err)
{
    struct hg_engine *eng = r->eng;
    enum hg_status st = HG_OK;
    pthread_mutex_lock(&eng->lock);
    if (eng->closing) {
        st = hg_fail(err, HG_ECANCELED, "the engine is closing");
    } else if (eng->stats.n_waiting - (eng->stats.n_running == 0) >= eng->n_queue) {
        /* (the first of those that wait on an idle engine is as good as running) */
        st = hg_fail(err, HG_EBUSY, "%d requests are waiting, the queue holds no more",
                     eng->stats.n_waiting);
    } else {
        atomic_fetch_add(&r->refs, 1);
        if (eng->last)
            eng->last->next = r;
        else
            eng->first = r;
        eng->last = r;
        eng->stats.n_waiting++;
        eng->stats.n_requests++;
        pthread_cond_signal(&eng->wake);
    }
    pthread_mutex_unlock(&eng->lock);
    return st;
}

enum hg_status hg_request_submit(struct hg_engine *eng, const struct hg_request_params *p,
                                 struct hg_request **out, struct hg_err *err)
{
    struct hg_request *r = calloc(1, sizeof *r);
    if (!r) return hg_fail(err, HG_ENOMEM, "request: out of memory");
    r->eng = eng;
    r->t_submit = hg_now();
    r->notify = p->notify;
    r->notify_ctx = p->notify_ctx;
    atomic_init(&r->refs, 1);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->ready, NULL);
    hg_detok_init(&r->detok);
    enum hg_status st = request_init(r, p, err);
    if (st == HG_OK) st = enqueue(r, err);
    if (st != HG_OK) {
        request_destroy(r);
        return st;
    }
    *out = r;
    return HG_OK;
}
