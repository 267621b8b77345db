/* policy.h: where a prompt's state is worth a snapshot, in one table (DESIGN section 4).
 *
 *   what                               where                                      survives
 *   SYSTEM      end of system + tools  start of the first message that is no      every conversation with
 *                                      system message                             the same system and tools
 *   USER        end of the last real   start of the message behind it             a new user message (earlier
 *               user message                                                      thinking vanishes then)
 *   GENERATION  start of the           end of the last message: never the         the next turn of a tool loop
 *               generation prompt      prompt's end, whose last tokens change
 *   INTERVAL    long prefills          every HG_SNAPSHOT_INTERVAL tokens          an edit, a cancelled prefill
 *   END         end of generation      behind the last extended token             a client that sends the
 *                                      (published by the scheduler)               generated text back
 */
#ifndef HG_ENGINE_POLICY_H
#define HG_ENGINE_POLICY_H

#include "cache/cache.h"

enum { HG_SNAPSHOT_INTERVAL = 4096, HG_MAX_CUTS = 3 };

/* One point at which prefill stops for a moment to publish. */
struct hg_cut {
    int32_t pos; /* tokens before it */
    enum hg_cache_kind kind;
};

struct json_t;
/* The stable boundaries of a chat prompt, ascending and distinct, in out[HG_MAX_CUTS]; returns how
 * many. starts[0..n_starts): token index at which message i starts, -1 = not known, and last the
 * start of the generation prompt (hg_rendered). */
int32_t hg_policy_cuts(struct json_t *messages, const int64_t *starts, size_t n_starts,
                       struct hg_cut *out);

/* The next point after `pos` and before `n` at which to stop: a cut or a multiple of the interval. */
struct hg_cut hg_policy_next(const struct hg_cut *cuts, int32_t n_cuts, int32_t pos, int32_t n);

#endif
