/* A pool with one job at a time. Tasks are claimed from one 64-bit word, (job number, unclaimed
 * tasks), by a compare-and-swap of the whole word. A word with tasks left stands only while its
 * job's fields stand, so a claim that succeeds has read the right ones; a worker that slept
 * through the end of a job finds no task left, whatever the fields say by then. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    POOL_MAX_THREADS = 1024,
    /* Polls before a thread sleeps: about 30 us, longer than the serial ops between two parallel
     * ones, shorter than a scheduler tick. */
    POOL_SPINS = 1500
};

typedef void pool_fn(void *ctx, int32_t task, int32_t thread);

struct hg_pool {
    _Alignas(64) _Atomic uint64_t next; /* job number << 32 | unclaimed tasks */
    _Alignas(64) _Atomic int32_t left;  /* tasks of this job that have not ended */
    /* The job; written by hg_pool_run while no task is left, read before a claim. */
    _Alignas(64) _Atomic(pool_fn *) fn;
    _Atomic(void *) ctx;
    _Atomic int32_t n_tasks;

    _Atomic int32_t n_sleeping; /* workers in or about to enter pthread_cond_wait(&wake) */
    _Atomic bool caller_sleeps;
    _Atomic bool quit;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    int32_t n_threads;
    pthread_t *threads; /* [n_threads - 1] */
    struct worker {
        struct hg_pool *pool;
        int32_t index;
    } * workers;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Runs tasks of the current job until none is unclaimed. */
static void work(struct hg_pool *p, int32_t thread)
{
    uint64_t s = atomic_load(&p->next);
    while ((uint32_t)s > 0) {
        pool_fn *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
        int32_t n = atomic_load_explicit(&p->n_tasks, memory_order_relaxed);
        if (!atomic_compare_exchange_weak(&p->next, &s, s - 1)) continue;
        fn(ctx, n - (int32_t)(uint32_t)s, thread);
        if (atomic_fetch_sub(&p->left, 1) == 1 && atomic_load(&p->caller_sleeps)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
        s = atomic_load(&p->next);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct hg_pool *p = w->pool;
    uint32_t seen = 0;
    for (;;) {
        int32_t spins = POOL_SPINS;
        while ((uint32_t)(atomic_load(&p->next) >> 32) == seen && spins-- > 0) relax();
        if ((uint32_t)(atomic_load(&p->next) >> 32) == seen) {
            pthread_mutex_lock(&p->lock);
            atomic_fetch_add(&p->n_sleeping, 1);
            while ((uint32_t)(atomic_load(&p->next) >> 32) == seen && !atomic_load(&p->quit))
                pthread_cond_wait(&p->wake, &p->lock);
            atomic_fetch_sub(&p->n_sleeping, 1);
            pthread_mutex_unlock(&p->lock);
        }
        if (atomic_load(&p->quit)) return NULL;
        seen = (uint32_t)(atomic_load(&p->next) >> 32);
        work(p, w->index);
    }
}

static int32_t n_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > POOL_MAX_THREADS ? POOL_MAX_THREADS : n;
}

enum hg_status hg_pool_create(int32_t n_threads, struct hg_pool **out, struct hg_err *err)
{
    *out = NULL;
    if (n_threads < 0 || n_threads > POOL_MAX_THREADS)
        return hg_fail(err, HG_EINVAL, "threads: %d is not in 0..%d", n_threads, POOL_MAX_THREADS);
    if (n_threads == 0) n_threads = n_cores();

    struct hg_pool *p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63);
    if (!p) return hg_fail(err, HG_ENOMEM, "thread pool: out of memory");
    *p = (struct hg_pool){.n_threads = 1};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    p->threads = calloc((size_t)n_threads, sizeof *p->threads);
    p->workers = calloc((size_t)n_threads, sizeof *p->workers);
    if (!p->threads || !p->workers) {
        hg_pool_free(p);
        return hg_fail(err, HG_ENOMEM, "thread pool: out of memory");
    }
    for (int32_t i = 1; i < n_threads; i++) {
        p->workers[i - 1] = (struct worker){p, i};
        if (pthread_create(&p->threads[i - 1], NULL, worker_main, &p->workers[i - 1])) {
            hg_pool_free(p);
            return hg_fail(err, HG_ENOMEM, "thread pool: thread %d of %d would not start", i + 1,
                           n_threads);
        }
        p->n_threads = i + 1;
    }
    *out = p;
    return HG_OK;
}

void hg_pool_free(struct hg_pool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->quit, true);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int32_t i = 0; i < p->n_threads - 1; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p->threads);
    free(p->workers);
    free(p);
}

int32_t hg_pool_size(const struct hg_pool *p)
{
    return p->n_threads;
}

void hg_pool_run(struct hg_pool *p, pool_fn *fn, void *ctx, int32_t n_tasks)
{
    if (n_tasks <= 1 || p->n_threads == 1) {
        for (int32_t i = 0; i < n_tasks; i++) fn(ctx, i, 0);
        return;
    }
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->n_tasks, n_tasks, memory_order_relaxed);
    atomic_store(&p->left, n_tasks);
    uint32_t job = (uint32_t)(atomic_load(&p->next) >> 32) + 1;
    atomic_store(&p->next, (uint64_t)job << 32 | (uint32_t)n_tasks);
    /* A worker raises n_sleeping before it looks at `next` for the last time, and `next` was
     * stored before n_sleeping is read here: one of the two sees the other. */
    if (atomic_load(&p->n_sleeping) > 0) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
    work(p, 0);
    for (int32_t spins = POOL_SPINS; atomic_load(&p->left) > 0 && spins > 0; spins--) relax();
    if (atomic_load(&p->left) > 0) {
        pthread_mutex_lock(&p->lock);
        atomic_store(&p->caller_sleeps, true);
        while (atomic_load(&p->left) > 0) pthread_cond_wait(&p->done, &p->lock);
        atomic_store(&p->caller_sleeps, false);
        pthread_mutex_unlock(&p->lock);
    }
}
