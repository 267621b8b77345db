/* hedge.h: the public API of Hedge, an LLM engine for agents on edge machines.
 *
 * Three nouns. An *engine* is a loaded model on a device; it is immutable after hg_engine_open()
 * but for its one scheduler thread, which owns all device work. A *request* is one chat turn or
 * one completion: it is queued, runs, and reports *events*. Nothing here prints, exits or reads
 * the environment.
 *
 *     struct hg_engine_params ep = {.model = "models/nano", .n_ctx = 8192};
 *     struct hg_err err;
 *     struct hg_engine *eng;
 *     if (hg_engine_open(&ep, &eng, &err)) die(err.text);
 *
 *     struct hg_request_params rp;
 *     hg_request_params_init(&rp);
 *     rp.messages = json_loads("[{\"role\":\"user\",\"content\":\"Hi\"}]", 0, NULL);
 *     struct hg_request *req;
 *     if (hg_request_submit(eng, &rp, &req, &err)) die(err.text);
 *     const struct hg_event *ev;
 *     while ((ev = hg_request_wait(req)) != NULL) {
 *         if (ev->type == HG_EV_TEXT) fwrite(ev->text, 1, ev->n_text, stdout);
 *     }
 *     hg_request_free(req);
 *     hg_engine_close(eng);
 *
 * Threads: every function may be called from any thread, but one request is read by one thread
 * at a time. Ownership: parameters are borrowed for the call only (JSON values are referenced);
 * an event is valid until the next hg_request_next/wait/free on its request.
 */
#ifndef HEDGE_H
#define HEDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t; /* jansson.h; ordered JSON values */
struct hg_engine;
struct hg_request;

typedef int32_t hg_tok;

#define HG_VERSION "0.1.0"

/* -------------------------------------------------------------------------------- errors -- */

enum hg_status {
    HG_OK = 0,
    HG_EINVAL,    /* the caller's input is wrong: bad JSON, bad option, unknown role */
    HG_EFORMAT,   /* a file is malformed or does not fit the model */
    HG_EIO,       /* the operating system refused: missing file, no permission, port in use */
    HG_ENOMEM,    /* memory could not be had */
    HG_ETOOLONG,  /* prompt longer than the context */
    HG_EBUSY,     /* the request queue is full; try again later */
    HG_ECANCELED, /* the request was cancelled or the engine is closing */
    HG_EUNSUP,    /* valid, but this build or device does not do it */
    HG_EINTERNAL  /* our bug */
};

struct hg_err {
    enum hg_status status;
    char text[1024]; /* names the thing and the value: "a.safetensors: header of 9 bytes ..." */
};

const char *hg_status_name(enum hg_status s); /* "EINVAL" */

/* -------------------------------------------------------------------------------- engine -- */

enum hg_kv { HG_KV_AUTO = 0, HG_KV_FP8, HG_KV_BF16, HG_KV_F32 };
enum hg_reasoning { HG_REASONING_AUTO = 0, HG_REASONING_OFF, HG_REASONING_ON };

struct hg_engine_params {
    const char *model;  /* checkpoint directory; NULL = the embedded model */
    const char *dummy;  /* geometry name (see hg_preset_names): random weights; NULL = none */
    const char *device; /* "auto" (NULL), "cpu", "cpu:avx2", "cpu:portable", "ref" */
    int32_t n_ctx;      /* most tokens of one sequence; 0 = min(model's limit, 32768) */
    int32_t n_threads;  /* 0 = one per core */
    int32_t n_queue;    /* waiting requests before HG_EBUSY; 0 = 16 */
    int32_t n_chunk;    /* prompt rows per step; 0 = 512 */
    enum hg_kv kv;      /* AUTO = FP8 where the checkpoint carries KV scales, else BF16 */
    enum hg_reasoning reasoning; /* thinking in the template when the request does not say */
    /* Prefix cache, bytes: 0 = default, negative = none. Device: beside the running context
     * (default: 2 GB, at most an eighth of the memory). Host: default none (on a CPU it would only
     * copy). Disk: default none; needs cache_dir, and survives a restart. */
    int64_t cache_device, cache_host, cache_disk;
    const char *cache_dir;
    /* Called while loading, from the calling thread: done of total bytes. May be NULL. */
    void (*progress)(void *ctx, const char *stage, uint64_t done, uint64_t total);
    void *progress_ctx;
};

struct hg_logit_bias {
    hg_tok id;
    float bias; /* added to the logit; -100 or less bans, +100 or more forces in practice */
};

struct hg_sampling {
    float temperature;                         /* 0 = greedy */
    int32_t top_k;                             /* 0 = off */
    float top_p;                               /* 1 = off */
    float min_p;                               /* 0 = off */
    float repetition_penalty;                  /* 1 = off; over prompt and output, as in HF */
    float presence_penalty, frequency_penalty; /* 0 = off; over the output, as in OpenAI */
    uint64_t seed;
    bool has_seed; /* false: a fresh seed per request */
    const struct hg_logit_bias *bias;
    int32_t n_bias;
};

struct hg_engine_info {
    const char *model_name;    /* last path component, or the geometry name */
    const char *model_line;    /* "nano: 25.9 M parameters, 4.9 bits/weight, 19.9 MB" */
    const char *device_line;   /* "cpu: 2 threads, avx2; gemm nvfp4 ..., attention ..." */
    const char *capacity_line; /* "context 32768 tokens: KV fp8 ...; prefix cache ..." */
    int32_t n_ctx;
    int32_t n_vocab;       /* rows of the logits */
    int32_t n_tokens;      /* ids that the tokenizer knows */
    uint64_t weight_bytes; /* read per decoded token */
    bool has_template;
    struct hg_sampling
        sampling; /* defaults from generation_config.json (do_sample false: greedy) */
};

enum hg_status hg_engine_open(const struct hg_engine_params *p, struct hg_engine **out,
                              struct hg_err *err);
/* Cancels what runs and what waits, joins the scheduler thread, frees all. NULL is fine.
 * Requests must have been freed before. */
void hg_engine_close(struct hg_engine *eng);
const struct hg_engine_info *hg_engine_info(const struct hg_engine *eng);

/* NULL-terminated names accepted by hg_engine_params.dummy. */
const char *const *hg_preset_names(void);

/* Text -> ids. Special tokens in the text are recognised iff parse_special.
 * *out is malloc'd, the caller frees it. */
enum hg_status hg_tokenize(const struct hg_engine *eng, const char *text, size_t n_text,
                           bool parse_special, hg_tok **out, size_t *n_out, struct hg_err *err);
/* Ids -> UTF-8 (malloc'd, NUL-terminated). Broken sequences become U+FFFD. */
enum hg_status hg_detokenize(const struct hg_engine *eng, const hg_tok *ids, size_t n, char **out,
                             size_t *n_out, struct hg_err *err);

/* ------------------------------------------------------------------------------- request -- */

enum hg_tool_choice { HG_TOOLS_AUTO = 0, HG_TOOLS_NONE, HG_TOOLS_REQUIRED, HG_TOOLS_NAMED };

/* Exactly one of messages, prompt, prompt_ids is given. */
struct hg_request_params {
    struct json_t *messages;        /* OpenAI chat messages (array) */
    struct json_t *tools;           /* OpenAI tools (array) or NULL */
    struct json_t *template_kwargs; /* object with extra template variables, or NULL */
    enum hg_tool_choice tool_choice;
    const char *tool_name; /* for HG_TOOLS_NAMED */
    enum hg_reasoning reasoning;

    const char *prompt; /* raw text completion; special tokens are recognised */
    size_t n_prompt;
    const hg_tok *prompt_ids; /* raw ids */
    size_t n_prompt_ids;

    int32_t max_tokens; /* 0 = to the end of the context */
    bool ignore_eos;
    bool echo_special;       /* keep special tokens in the text */
    const char *const *stop; /* stop strings; not part of the output */
    int32_t n_stop;
    int32_t n_logprobs; /* -1 = none, 0 = of the drawn token, k = and of the k best (<=20) */
    struct hg_sampling sampling;
    const char *session_id; /* hint only */

    /* Called (from the scheduler thread) when events wait; must not block. NULL if unused. */
    void (*notify)(void *ctx);
    void *notify_ctx;
};

/* Zero but for: max_tokens 0, n_logprobs -1, and sampling greedy (temperature 0, top_p 1,
 * repetition_penalty 1). Callers that want the model's own defaults copy info->sampling. */
void hg_request_params_init(struct hg_request_params *p);

enum hg_event_type {
    HG_EV_TEXT,       /* text: visible answer; always whole UTF-8 characters */
    HG_EV_REASONING,  /* text: thinking */
    HG_EV_TOOL_BEGIN, /* index, id, name */
    HG_EV_TOOL_ARGS,  /* index, text: the next fragment of the JSON arguments */
    HG_EV_TOOL_END,   /* index; the concatenated fragments are a valid JSON object */
    HG_EV_DONE,       /* finish, usage, timings; the last event */
    HG_EV_ERROR       /* err; the last event */
};

enum hg_finish { HG_FINISH_STOP, HG_FINISH_LENGTH, HG_FINISH_TOOL_CALLS, HG_FINISH_CANCELED };

struct hg_top_logprob {
    hg_tok id;
    float logprob;
    const char *text; /* the token's bytes; may be no valid UTF-8 by itself */
    int32_t n_text;
};

/* One drawn token with what was asked of it. */
struct hg_logprob {
    struct hg_top_logprob drawn;
    const struct hg_top_logprob *top; /* n_top best of the undistorted distribution */
    int32_t n_top;
};

struct hg_usage {
    int32_t n_prompt, n_cached, n_completion; /* tokens */
};

struct hg_timings {
    double queue_s, prefill_s, decode_s; /* wall clock */
    double ttft_s;                       /* from submit to the first sampled token */
    uint64_t logits_hash;                /* XXH3 of the last logits row, 0 if none */
    int32_t n_rounds;                    /* decode steps */
};

struct hg_event {
    enum hg_event_type type;
    const char *text; /* NUL-terminated as a courtesy; may contain NUL bytes inside */
    size_t n_text;
    int32_t index; /* tool call number, from 0 */
    const char *id, *name;
    const struct hg_logprob *logprobs; /* tokens whose text is in this event (TEXT, REASONING) */
    int32_t n_logprobs;
    enum hg_finish finish;
    struct hg_usage usage;
    struct hg_timings timings;
    struct hg_err err;
};

/* Validates, renders the template, tokenizes and queues. Errors: EINVAL (names the field),
 * ETOOLONG (both numbers), EBUSY (queue full). */
enum hg_status hg_request_submit(struct hg_engine *eng, const struct hg_request_params *p,
                                 struct hg_request **out, struct hg_err *err);
/* Next event that is ready, or NULL (nothing now, or the last was taken). Never blocks. */
const struct hg_event *hg_request_next(struct hg_request *req);
/* Same, but waits; NULL only after the last event (DONE or ERROR) was taken. */
const struct hg_event *hg_request_wait(struct hg_request *req);
/* Asks the scheduler to stop within one step. Safe at any time, also twice. */
void hg_request_cancel(struct hg_request *req);
/* Cancels if still running, and gives everything back. After it returns, notify is not called. */
void hg_request_free(struct hg_request *req);
/* Tokens of the rendered prompt (valid for the request's life); for tools and tests. */
const hg_tok *hg_request_prompt(const struct hg_request *req, size_t *n);

struct hg_stats {
    int32_t n_running, n_waiting;
    uint64_t n_requests, n_prompt_tokens, n_cached_tokens, n_completion_tokens, n_steps;
    /* The prefix cache. An entry is a snapshot with its KV pages. */
    uint64_t cache_lookups, cache_hits, cache_snapshots, cache_evictions, cache_damaged;
    uint64_t cache_from_device, cache_from_host, cache_from_disk; /* hits by tier */
    uint64_t cache_device_bytes, cache_host_bytes, cache_disk_bytes;
    int32_t cache_entries;
};
void hg_engine_stats(const struct hg_engine *eng, struct hg_stats *out);

/* ------------------------------------------------------------------------ tools and tests -- */

/* Logits [n_ids or 1][n_vocab] of a token sequence on an otherwise idle engine: row i predicts
 * token i+1. all=false: only the last row. `out` is the caller's, n_vocab floats a row. */
enum hg_status hg_logits(struct hg_engine *eng, const hg_tok *ids, size_t n_ids, bool all,
                         float *out, struct hg_err *err);

/* Writes a description of a checkpoint directory: geometry, formats, every tensor. The result
 * is a new JSON object owned by the caller. Reads headers only. */
enum hg_status hg_inspect(const char *model, struct json_t **out, struct hg_err *err);
/* Devices and kernel variants that this machine can use; a new JSON array. */
struct json_t *hg_devices(void);

#endif
