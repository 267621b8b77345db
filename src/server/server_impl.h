/* server_impl.h: what the files of the server share: the server, its jobs, the handlers.
 *
 * A *job* is one completion on its way: an engine request, the HTTP request that waits for it and
 * the reply so far. It ends with the last event or when the client leaves, whichever is first. */
#ifndef HG_SERVER_SERVER_IMPL_H
#define HG_SERVER_SERVER_IMPL_H

#include <pthread.h>
#include <sys/queue.h>

#include "server/api_request.h"
#include "server/http.h"
#include "server/server.h"

struct hg_job;

struct hg_server {
    struct hg_engine *eng;
    const struct hg_engine_info *info;
    struct hg_api_limits limits;
    const char *api_key, *model_name;
    struct hg_http *http;
    int64_t created; /* Unix time of the start */
    bool stopping;
    LIST_HEAD(, hg_job) jobs;
    pthread_mutex_t lock;
    STAILQ_HEAD(, hg_job) ready; /* under lock: jobs whose engine request has events */
    int32_t n_ready;             /* under lock */
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

struct hg_job {
    LIST_ENTRY(hg_job) link;
    STAILQ_ENTRY(hg_job) ready_link;
    bool is_ready; /* on the ready list; under lock */
    struct hg_server *srv;
    struct hg_http_req *http; /* NULL once the reply is complete or the client lost */
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

/* Submits the request and replies with an error, or replies when the engine gets there. */
void hg_job_start(struct hg_server *s, struct hg_http_req *r, const struct hg_api_request *q,
                  const struct hg_dialect *dialect);
/* Writes what the engine has for the jobs on the ready list. */
void hg_jobs_drain(struct hg_server *s);
/* Frees the job; cancels the request if it is not over. The HTTP request is not touched. */
void hg_job_end(struct hg_job *j);
void hg_jobs_cancel(struct hg_server *s);
/* Waits for the engine to let go of every job. */
void hg_jobs_free(struct hg_server *s);

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
void hg_tokenize_text(struct hg_server *s, struct hg_http_req *r);
void hg_detokenize_ids(struct hg_server *s, struct hg_http_req *r);

/* Whole JSON replies; the buffer is freed. */
void hg_reply_json(struct hg_http_req *r, int status, const char *headers, struct hg_buf *body);
void hg_reply_error(struct hg_http_req *r, int status, const char *code, const char *message);
void hg_reply_api_error(struct hg_http_req *r, const struct hg_api_err *err);

#endif
