/* trace.h: a recorded agent conversation to replay, from the JSON lines of MLPerf "Edge Agentic".
 *
 * One row a line; the rows of a conversation are contiguous, `turn` counts them from 1, and client
 * rows (user, tool) alternate with assistant rows:
 *
 *     {"conversation_id", "turn", "role":"user", "content"}      the first also "system", "tools"
 *     {"conversation_id", "turn", "role":"assistant", "content"?, "tool_calls"?, "reasoning_content"?}
 *     {"conversation_id", "turn", "role":"tool", "tool_results":[{"tool_call_id", "content"}]}
 *
 * Other keys ("delay_seconds") are ignored. Loading turns the rows into chat messages once; the
 * prompt of a client turn is then a prefix of its conversation's messages (I: the recorded
 * assistant rows are sent back, what a server answers is never fed into a later turn). */
#ifndef HG_BENCH_TRACE_H
#define HG_BENCH_TRACE_H

#include <jansson.h>

#include "base/err.h"

struct hg_trace_turn {
    int32_t n_messages;     /* messages[0..n) are the prompt */
    const json_t *recorded; /* the assistant message behind them; NULL if the trace ends there */
};

struct hg_trace_conv {
    char *id;
    json_t *messages; /* array of chat messages, system first */
    json_t *tools;    /* array or NULL */
    struct hg_trace_turn *turns;
    int32_t n_turns;
    int32_t n_rows; /* rows read so far */
};

struct hg_trace {
    struct hg_trace_conv *convs; /* in file order */
    int32_t n_convs;
};

/* Errors name file, line and field. On success the caller owns *t. */
enum hg_status hg_trace_open(const char *path, struct hg_trace *t, struct hg_err *err);
void hg_trace_close(struct hg_trace *t);
/* NULL if there is none of that id. */
const struct hg_trace_conv *hg_trace_find(const struct hg_trace *t, const char *id);

#endif
