/* server_impl.h: what the files of the server share: the server, its jobs, the handlers.
 *
 * A *job* is one POST on its way: the HTTP request that waits, its body, the engine request made
 * from it, and the reply so far.
 *
 *     WAITING --worker--> PREPARING --worker--> PREPARED --loop--> freed
 *
 * Preparing is all that takes time with the size of the body: parsing, the template, tokenizing. A
 * second thread does it, one job after the other, so that the loop goes on serving streams and
 * noticing clients that leave. It ends with a reply (an error, token ids) or with an engine request
 * whose events the loop then writes. A job ends with its reply or when its client leaves; while the
 * worker has it, the end waits for the worker. */
#ifndef HG_SERVER_SERVER_IMPL_H
#define HG_SERVER_SERVER_IMPL_H

#include <pthread.h>
#include <sys/queue.h>

#include "server/api_request.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/server.h"

struct hg_job;

struct hg_server {
    struct hg_engine *eng;
    const struct hg_engine_info *info;
    struct hg_api_limits limits;
    const char *api_key, *model_name;
    struct hg_http *http;
    int64_t created;           /* Unix time of the start */
    bool stopping, stop_now;   /* as on_stop of http.h says */
    struct hg_metrics metrics; /* the loop's */
    LIST_HEAD(, hg_job) jobs;
    pthread_t worker;
    bool has_worker;
    pthread_mutex_t lock; /* over the rest and the jobs' phases: */
    pthread_cond_t work;  /* there is something to prepare, or quit */
    STAILQ_HEAD(, hg_job) waiting;
    STAILQ_HEAD(, hg_job) ready; /* newly prepared, or its engine request has events */
    int32_t n_ready;
    bool quit;
};

/* How a dialect writes its replies; both append JSON to job->out. */
struct hg_dialect {
    const char *id_prefix, *object, *chunk_object;
    /* Stream: the chunks for one event that is not the last. */
    void (*chunk)(struct hg_job *j, const struct hg_event *ev);
    /* Stream: the chunk with the finish reason. */
    void (*finish_chunk)(struct hg_job *j, const struct hg_event *done);
    /* Not streamed: note what an event says, also the last, */
    void (*collect)(struct hg_job *j, const struct hg_event *ev);
    /* then the element of "choices". */
    void (*choice)(struct hg_job *j, const struct hg_event *done);
};

#define HG_JOB_LOGPROB_BUFS 4

struct hg_job_call {
    struct hg_buf id, name, args;
};

enum hg_job_phase { HG_JOB_WAITING, HG_JOB_PREPARING, HG_JOB_PREPARED };

struct hg_job {
    LIST_ENTRY(hg_job) link;
    STAILQ_ENTRY(hg_job) queue; /* of `waiting` or `ready` */
    enum hg_job_phase phase;
    bool is_ready; /* on the ready list */
    struct hg_server *srv;
    struct hg_http_req *http; /* the loop's; NULL once the reply is complete or the client lost */
    struct hg_buf body;
    char *session_id;
    void (*prepare)(struct hg_job *j);
    int status; /* of the whole reply that preparing left in `out`; 0 = there is `req` */
    struct hg_request *req;
    const struct hg_dialect *dialect;
    bool stream, include_usage, want_logprobs;
    bool begun; /* the stream's first bytes were written */
    bool over;  /* the last event was seen */
    char id[48];
    int64_t created;
    struct hg_buf out; /* SSE events not written yet, or the whole reply */
    /* Of a reply that is not streamed: */
    struct hg_buf text, reasoning;
    struct hg_buf logprobs[HG_JOB_LOGPROB_BUFS]; /* JSON list elements, as the dialect wants */
    struct hg_job_call *calls;
    int32_t n_calls;
    int32_t n_chars; /* completions: where the next token's text starts */
    bool oom;
};

/* ---------------------------------------------------------------------------------- job.c -- */

enum hg_status hg_jobs_open(struct hg_server *s, struct hg_err *err);
/* Waits for the worker, cancels and frees all jobs. */
void hg_jobs_close(struct hg_server *s);
/* Takes the request on: `prepare` will run on the worker; it calls one of the next three. dialect
 * is NULL where no engine request is made. */
void hg_job_start(struct hg_server *s, struct hg_http_req *r, void (*prepare)(struct hg_job *j),
                  const struct hg_dialect *dialect);
void hg_job_submit(struct hg_job *j, const struct hg_api_request *q);
void hg_job_reply(struct hg_job *j, struct hg_buf *body); /* 200; takes over the buffer */
void hg_job_fail(struct hg_job *j, const struct hg_api_err *err);
/* Loop: replies where preparing ended, and writes what the engine has to say. */
void hg_jobs_drain(struct hg_server *s);
/* Loop: frees the job, cancelling what is not over. The HTTP request is not touched. */
void hg_job_end(struct hg_job *j);
/* Loop: cancels all engine requests, also those to come. */
void hg_jobs_cancel(struct hg_server *s);

/* ---------------------------------------------------------------------------- job_reply.c -- */

/* Takes one event into the reply. */
void hg_job_event(struct hg_job *j, const struct hg_event *ev);
/* Sends what the events so far add up to, in one write. Then j->http is NULL if the reply is
 * complete or the client is lost. */
void hg_job_flush(struct hg_job *j);

/* For the dialects. An open chunk ends inside "choices":[ .. */
void hg_job_chunk_begin(struct hg_job *j);
void hg_job_chunk_end(struct hg_job *j);
const char *hg_job_finish_name(enum hg_finish f);
/* JSON has no infinities; OpenAI writes -9999 for a token that cannot be. */
double hg_job_finite(float logprob);
/* "prefix" + 24 random hexadecimal digits */
void hg_random_id(char *out, size_t cap, const char *prefix);

/* ----------------------------------------------------------------------------- handlers -- */

void hg_v1_chat(struct hg_server *s, struct hg_http_req *r);
void hg_v1_completions(struct hg_server *s, struct hg_http_req *r);
void hg_v1_models(struct hg_server *s, struct hg_http_req *r);
void hg_v1_model(struct hg_server *s, struct hg_http_req *r);
void hg_health(struct hg_server *s, struct hg_http_req *r);
void hg_metrics_page(struct hg_server *s, struct hg_http_req *r);
void hg_tokenize_text(struct hg_server *s, struct hg_http_req *r);
void hg_detokenize_ids(struct hg_server *s, struct hg_http_req *r);

/* Whole JSON replies; the buffer is freed. 429 and 503 get a Retry-After. */
void hg_reply_json(struct hg_http_req *r, int status, const char *headers, struct hg_buf *body);
void hg_reply_error(struct hg_http_req *r, int status, const char *code, const char *message);

#endif
