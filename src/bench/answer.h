/* answer.h: the deltas of a streamed chat completion, merged as the MLPerf harness merges them.
 *
 * Tool-call deltas are joined by `index`: id and name overwrite, argument strings are appended.
 * The first token is the first delta with text, reasoning or tool calls: a delta with only a role
 * or with empty text is none. */
#ifndef HG_BENCH_ANSWER_H
#define HG_BENCH_ANSWER_H

#include <jansson.h>

#include "base/buf.h"

#define HG_ANSWER_CALLS_MAX 64

struct hg_answer_call {
    struct hg_buf name, args;
};

struct hg_answer {
    struct hg_buf content, reasoning;
    struct hg_answer_call calls[HG_ANSWER_CALLS_MAX];
    int32_t n_calls;                          /* highest index + 1 */
    char finish[24];                          /* "" until told */
    int32_t n_deltas;                         /* with something in them */
    int32_t n_bad;                            /* events that are not of the form above */
    double t_first;                           /* clock at the first token; 0 = none yet */
    int32_t n_prompt, n_completion, n_cached; /* from usage; -1 = the server did not say */
    char error[512];                          /* of an error event; "" = none */
};

void hg_answer_init(struct hg_answer *a);
void hg_answer_fini(struct hg_answer *a);
/* One event's JSON, which arrived at `now`. */
void hg_answer_add(struct hg_answer *a, const char *json, size_t n, double now);
/* Calls whose arguments are no JSON object. */
int32_t hg_answer_bad_args(const struct hg_answer *a);
/* [{"name", "arguments": object or null}] in order of index; a new reference. */
json_t *hg_answer_calls(const struct hg_answer *a);

#endif
