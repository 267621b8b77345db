/* engine_impl.h: what the files of src/engine share.
 *
 *   engine.c   open, close, info         assets.c  what a checkpoint directory holds beside weights
 *   prompt.c   messages -> token ids     request.c submit, the event queue, cancel, free
 *   sched.c    the one thread that owns the device: runs requests in order
 *   policy.c   where a prompt's state is worth a snapshot      memory.c  sizes and the cache
 *   recall.c   generated tokens, for when they come back re-serialised
 *   session.c  one timeline of tokens on the device
 *   emit.c     drawn tokens -> text, tool calls, logprobs -> events
 */
#ifndef HG_ENGINE_ENGINE_IMPL_H
#define HG_ENGINE_ENGINE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "engine/policy.h"
#include "engine/recall.h"
#include "model/step.h"
#include "sample/sampler.h"
#include "text/output.h"
#include "text/stops.h"
#include "text/template.h"
#include "text/tokenizer.h"

/* ------------------------------------------------------------------------------- session ---- */

/* One timeline: tokens and the device memory that holds their state. */
struct hg_session {
    struct hg_seq seq;
    hg_tok *tokens;      /* [n_ctx] what is committed: seq.n_past of them */
    struct hg_row *rows; /* [max_rows of a step] */
};

/* Which rows of an extension give logits. */
enum hg_want { HG_WANT_NONE, HG_WANT_LAST, HG_WANT_ALL };

enum hg_status hg_session_create(struct hg_engine *eng, int32_t slot, struct hg_session **out,
                                 struct hg_err *err);
void hg_session_free(struct hg_engine *eng, struct hg_session *s);
/* Empties the timeline, then restores the longest cached proper prefix of ids[0..n). Returns its
 * length; 0 with an empty timeline when there is none, or n is 0. */
int32_t hg_session_begin(struct hg_engine *eng, struct hg_session *s, const hg_tok *ids, int32_t n);
/* Commits ids[0..n) up to the size of one step and says in *n_done how many; the last of ids, once
 * it is reached, or every one has its logits in *out. */
enum hg_status hg_session_extend(struct hg_engine *eng, struct hg_session *s, const hg_tok *ids,
                                 int32_t n, enum hg_want want, int32_t *n_done,
                                 struct hg_step_out *out, struct hg_err *err);
/* Makes the present state a cache entry. */
void hg_session_publish(struct hg_engine *eng, struct hg_session *s, enum hg_cache_kind kind);

/* -------------------------------------------------------------------------------- assets ---- */

struct hg_assets {
    char dir[4096]; /* the resolved checkpoint directory, "" for --dummy */
    char name[256];
    struct hg_config cfg;
    struct hg_tokenizer *tok;
    struct hg_template *tmpl; /* NULL: no chat */
    struct json_t *specials;  /* bos_token, eos_token, ... for the template */
};

/* Resolves model / dummy of the parameters, reads config, tokenizer and template. */
enum hg_status hg_assets_open(struct hg_assets *a, const struct hg_engine_params *p,
                              enum hg_format *dummy_format, struct hg_err *err);
void hg_assets_close(struct hg_assets *a);

/* -------------------------------------------------------------------------------- engine ---- */

struct hg_engine {
    struct hg_assets assets;
    struct hg_backend *be;
    struct hg_model *model;
    struct hg_cache *cache;
    struct hg_recall *recall;
    struct hg_session *session; /* of the scheduler; hg_logits borrows it under `device` */
    struct hg_engine_info info;
    char lines[3][256]; /* what info's lines point to */
    int32_t n_chunk, n_queue;
    enum hg_reasoning reasoning;

    pthread_mutex_t device; /* held while a request runs */
    pthread_mutex_t lock;   /* guards everything below */
    pthread_cond_t wake;
    pthread_t thread;
    bool has_thread;
    atomic_bool closing;             /* written under the lock; a running request looks at it too */
    struct hg_request *first, *last; /* waiting, oldest first */
    struct hg_stats stats;
};

void *hg_sched_main(void *engine);

/* Creates model memory and cache for loaded weights (taken over, also on failure). */
enum { HG_LOGITS_ROWS = 64 }; /* rows with logits in one step */
enum hg_status hg_engine_memory(struct hg_engine *eng, enum hg_kv kv,
                                const struct hg_engine_params *p, struct hg_weights *w,
                                const uint8_t key[16], struct hg_err *err);

/* ------------------------------------------------------------------------------- request ---- */

struct hg_event_node {
    struct hg_event_node *next;
    struct hg_event ev;
    struct hg_logprob *logprobs;
    struct hg_top_logprob *tops;
    char text[];
};

struct hg_request {
    struct hg_engine *eng;
    struct hg_request *next; /* in the engine's queue */
    atomic_int refs;         /* the user's and the scheduler's */
    atomic_bool cancel;

    /* Fixed at submit. */
    struct hg_toks prompt;
    struct hg_cut cuts[HG_MAX_CUTS]; /* where its state is worth a snapshot */
    int32_t n_cuts;
    int32_t max_tokens;
    bool ignore_eos, keep_special;
    char **stop;
    int32_t n_stop;
    int32_t n_logprobs;
    struct hg_sampler *sampler;
    struct hg_output *output;
    double t_submit;

    /* The scheduler's, while it runs. */
    struct hg_detok detok;
    struct hg_stops stops;
    struct hg_buf text, visible;
    struct hg_logprob *lp; /* of tokens whose text is not yet out; [n_lp], tops behind each */
    struct hg_top_logprob *lp_top;
    int32_t n_lp, cap_lp;
    int64_t gen_at;       /* where the generation prompt starts in prompt, or -1 */
    bool stopped;         /* by a stop string */
    struct hg_toks drawn; /* what was generated, without the end token, */
    struct json_t *said;  /* and as the message that a client will send back; NULL: no chat */
    struct hg_buf args;   /* of the call that is open */
    struct hg_usage usage;
    struct hg_timings timings;

    /* Events, from the scheduler to the user. */
    pthread_mutex_t lock;
    pthread_cond_t ready;
    struct hg_event_node *first, *last, *taken;
    bool ended; /* the last event was queued */
    bool oom;   /* an event was lost: ends with an error */
    void (*notify)(void *);
    void *notify_ctx;
};

/* Queues an event (text and logprobs are copied) and wakes the reader. */
void hg_request_post(struct hg_request *r, const struct hg_event *ev);
void hg_request_unref(struct hg_request *r);

/* -------------------------------------------------------------------------- prompt, emit ---- */

/* Fills prompt, starts and output of r from the parameters. */
enum hg_status hg_prompt_build(struct hg_request *r, const struct hg_request_params *p,
                               struct hg_err *err);

/* One drawn token: text, tool-call and reasoning events. True when a stop string ended it. */
bool hg_emit_token(struct hg_request *r, hg_tok id, const float *logits);
/* What was held back, then DONE. A chat answer that ended by itself is kept for recall. */
void hg_emit_done(struct hg_request *r, enum hg_finish finish);

#endif
