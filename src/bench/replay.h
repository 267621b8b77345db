/* replay.h: replays recorded conversations against a chat-completions server, one request at a
 * time, and measures each turn.
 *
 * Times of a turn: TTFT from issue to the first delta with something in it; latency from issue to
 * the end of the reply; TPOT (latency - TTFT) / tokens after the first. Tokens are those of the
 * server's `usage` where it sends one, else deltas are counted. A turn that fails ends its
 * conversation: the turns that follow are missing. */
#ifndef HG_BENCH_REPLAY_H
#define HG_BENCH_REPLAY_H

#include "bench/client.h"
#include "bench/trace.h"

struct hg_replay_turn {
    const char *conversation;         /* the trace's */
    int32_t turn;                     /* from 1 */
    bool issued, failed;              /* not issued: an earlier turn of the conversation failed */
    char error[1024];                 /* as hg_err.text */
    double ttft_s, latency_s, tpot_s; /* -1 = there is none */
    int32_t n_prompt, n_cached;       /* -1 = the server did not say */
    int32_t n_completion;             /* tokens by usage, else deltas */
    bool has_usage;
    int32_t n_calls, n_bad_args, n_bad_events;
    double iou;       /* programs run, against the recorded turn; -1 = the turn has no score */
    bool as_recorded; /* calls equal the recorded ones in names and arguments */
    char finish[24];
};

struct hg_replay_params {
    const char *model;                /* for the request; NULL = "hedge" */
    const char *const *conversations; /* ids; NULL = all */
    int32_t n_conversations;
    int32_t n_turns;    /* of each conversation; 0 = all */
    int32_t max_tokens; /* 0 = 1024 */
    bool usage;         /* ask for usage with stream_options */
    void (*on_turn)(void *ctx, const struct hg_replay_turn *t, int32_t done, int32_t total);
    void *ctx;
    const volatile bool *stop; /* set from elsewhere: issue no further turn. May be NULL */
};

struct hg_replay {
    struct hg_replay_turn *turns;
    int32_t n_turns;
    double seconds;        /* first issue to last end */
    int32_t n_connections; /* TCP connections that it took */
};

/* Fails only when nothing can be replayed: unknown conversation, no memory. The caller frees
 * *out, which refers to the trace. */
enum hg_status hg_replay_run(const struct hg_trace *t, struct hg_client *c,
                             const struct hg_replay_params *p, struct hg_replay *out,
                             struct hg_err *err);
void hg_replay_free(struct hg_replay *r);

/* The request of one turn as compact JSON, fields and their order as the harness sends them.
 * malloc'd; NULL when memory is out. */
char *hg_replay_request(const struct hg_trace_conv *c, int32_t turn,
                        const struct hg_replay_params *p);

#endif
