/* The scheduler thread: takes requests in order and runs each to its end. It alone touches the
 * device while it holds `device`; between two steps it looks whether the request was cancelled. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_impl.h"

static void count_step(struct hg_engine *eng)
{
    pthread_mutex_lock(&eng->lock);
    eng->stats.n_steps++;
    pthread_mutex_unlock(&eng->lock);
}

static enum hg_status canceled(const struct hg_request *r, struct hg_err *err)
{
    if (!atomic_load(&r->cancel) && !atomic_load(&r->eng->closing)) return HG_OK;
    return hg_fail(err, HG_ECANCELED, "request cancelled");
}

/* Restores what is cached, runs the rest, and publishes at every cut on the way. */
static enum hg_status prefill(struct hg_engine *eng, struct hg_request *r, struct hg_step_out *out,
                              struct hg_err *err)
{
    double t0 = hg_now();
    const hg_tok *ids = r->prompt.ids;
    int32_t n = (int32_t)r->prompt.n, done, k;
    r->timings.queue_s = t0 - r->t_submit;
    hg_sampler_see_prompt(r->sampler, ids, r->prompt.n);
    done = r->usage.n_cached = hg_session_begin(eng, eng->session, ids, n);
    while (done < n) {
        struct hg_cut cut = hg_policy_next(r->cuts, r->n_cuts, done, n);
        enum hg_want want = cut.pos == n ? HG_WANT_LAST : HG_WANT_NONE;
        HG_TRY(canceled(r, err));
        HG_TRY(
            hg_session_extend(eng, eng->session, ids + done, cut.pos - done, want, &k, out, err));
        done += k;
        count_step(eng);
        if (done == cut.pos && done < n) hg_session_publish(eng, eng->session, cut.kind);
    }
    r->timings.prefill_s = hg_now() - t0;
    return HG_OK;
}

static bool is_eos(const struct hg_engine *eng, hg_tok id)
{
    const struct hg_config *c = &eng->assets.cfg;
    for (int32_t i = 0; i < c->n_eos; i++)
        if (c->eos[i] == id) return true;
    return false;
}

/* Draws, emits and extends until something ends it. */
static enum hg_status decode(struct hg_engine *eng, struct hg_request *r, struct hg_step_out *out,
                             enum hg_finish *finish, struct hg_err *err)
{
    double t0 = hg_now();
    size_t row_bytes = (size_t)eng->info.n_vocab * sizeof(float);
    for (;;) {
        HG_TRY(canceled(r, err));
        hg_tok id = hg_sampler_draw(r->sampler, out->logits);
        if (id < 0)
            return hg_fail(err, HG_EINTERNAL,
                           "no token can be drawn: all logits are banned or "
                           "not finite");
        if (r->usage.n_completion == 0) r->timings.ttft_s = hg_now() - r->t_submit;
        r->usage.n_completion++;
        r->timings.decode_s = hg_now() - t0;
        hg_sampler_see_output(r->sampler, id);
        *finish = HG_FINISH_STOP;
        if ((is_eos(eng, id) && !r->ignore_eos) || hg_emit_token(r, id, out->logits)) break;
        *finish = HG_FINISH_LENGTH;
        if (r->usage.n_completion >= r->max_tokens) break;
        int32_t k;
        HG_TRY(hg_session_extend(eng, eng->session, &id, 1, HG_WANT_LAST, &k, out, err));
        count_step(eng);
        r->timings.n_rounds++;
    }
    r->timings.logits_hash = XXH3_64bits(out->logits, row_bytes);
    hg_session_publish(eng, eng->session, HG_CACHE_END);
    return HG_OK;
}

static void run(struct hg_engine *eng, struct hg_request *r)
{
    struct hg_err err;
    struct hg_step_out out = {0};
    enum hg_finish finish = HG_FINISH_STOP;
    r->usage.n_prompt = (int32_t)r->prompt.n;
    pthread_mutex_lock(&eng->device);
    enum hg_status st = prefill(eng, r, &out, &err);
    if (st == HG_OK) st = decode(eng, r, &out, &finish, &err);
    pthread_mutex_unlock(&eng->device);
    /* Before the last event: who has read it finds the counters right. */
    pthread_mutex_lock(&eng->lock);
    eng->stats.n_running--;
    eng->stats.n_prompt_tokens += (uint64_t)r->usage.n_prompt;
    eng->stats.n_cached_tokens += (uint64_t)r->usage.n_cached;
    eng->stats.n_completion_tokens += (uint64_t)r->usage.n_completion;
    pthread_mutex_unlock(&eng->lock);
    if (st == HG_OK) {
        hg_emit_done(r, finish);
    } else {
        if (st != HG_ECANCELED) hg_log(HG_LOG_ERROR, "request failed: %s", err.text);
        hg_request_post(
            r, &(struct hg_event){
                   .type = HG_EV_ERROR, .err = err, .usage = r->usage, .timings = r->timings});
    }
    hg_request_unref(r);
}

/* Waits for work; until it comes, the cache may write behind. Called and left with the lock held. */
static void idle(struct hg_engine *eng)
{
    pthread_mutex_unlock(&eng->lock);
    pthread_mutex_lock(&eng->device);
    bool wrote = hg_cache_idle(eng->cache);
    pthread_mutex_unlock(&eng->device);
    pthread_mutex_lock(&eng->lock);
    if (!wrote && !eng->first && !eng->closing) pthread_cond_wait(&eng->wake, &eng->lock);
}

void *hg_sched_main(void *engine)
{
    struct hg_engine *eng = engine;
    for (;;) {
        pthread_mutex_lock(&eng->lock);
        while (!eng->first && !eng->closing) idle(eng);
        struct hg_request *r = eng->first;
        if (r) {
            eng->first = r->next;
            if (!eng->first) eng->last = NULL;
            eng->stats.n_waiting--;
            eng->stats.n_running++;
            if (eng->closing) atomic_store(&r->cancel, true);
        }
        pthread_mutex_unlock(&eng->lock);
        if (!r) return NULL;
        run(eng, r);
    }
}
