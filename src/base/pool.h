/* pool.h: one thread pool. Workers spin for a moment, then sleep, so that the many short
 * parallel loops of a decode step cost microseconds. */
#ifndef HG_BASE_POOL_H
#define HG_BASE_POOL_H

#include "base/err.h"

struct hg_pool;

/* n_threads >= 1 counts the caller; 0 = one per core this process may use. */
enum hg_status hg_pool_create(int32_t n_threads, struct hg_pool **out, struct hg_err *err);
void hg_pool_free(struct hg_pool *p);
int32_t hg_pool_size(const struct hg_pool *p);

/* Runs fn(ctx, task, thread) for task = 0..n_tasks-1, spread over the threads; returns when all
 * are done. thread is in 0..size-1. Called by one thread at a time; fn must not call it. */
void hg_pool_run(struct hg_pool *p, void (*fn)(void *ctx, int32_t task, int32_t thread), void *ctx,
                 int32_t n_tasks);

#endif
