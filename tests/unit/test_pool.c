/* The thread pool: every task runs exactly once, also in jobs that follow each other closely,
 * sleep between, or have fewer tasks than threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/pool.h"

enum { MOST = 4096 };
struct job {
    int32_t size;
    _Atomic int32_t runs[MOST], bad_thread;
};

static void count(void *ctx, int32_t task, int32_t thread)
{
    struct job *j = ctx;
    if (thread < 0 || thread >= j->size) atomic_fetch_add(&j->bad_thread, 1);
    atomic_fetch_add(&j->runs[task], 1);
}

static void run_jobs(int32_t threads, int32_t jobs, bool sleep)
{
    struct hg_pool *p;
    struct hg_err err;
    assert_int_equal(hg_pool_create(threads, &p, &err), HG_OK);
    if (threads) assert_int_equal(hg_pool_size(p), threads);
    struct job *j = malloc(sizeof *j);
    for (int32_t i = 0; i < jobs; i++) {
        int32_t n = i % 7 == 6 ? MOST : i % 11;
        memset(j, 0, sizeof *j);
        j->size = hg_pool_size(p);
        if (sleep) nanosleep(&(struct timespec){0, 200000}, NULL);
        hg_pool_run(p, count, j, n);
        for (int32_t t = 0; t < MOST; t++) assert_int_equal(j->runs[t], t < n);
        assert_int_equal(j->bad_thread, 0);
    }
    free(j);
    hg_pool_free(p);
}

static void test_every_task_once(void **state)
{
    (void)state;
    run_jobs(1, 50, false);
    run_jobs(2, 2000, false);
    run_jobs(7, 500, false);
    run_jobs(0, 50, false);
}

static void test_sleeping_workers(void **state)
{
    (void)state;
    run_jobs(2, 200, true);
    run_jobs(5, 100, true);
}

/* Jobs back to back whose number of tasks grows: a worker that still looks for a task of the last
 * job must not take one of the next before it is published. */
struct stage {
    _Atomic int32_t runs[64];
};
static void stage_task(void *ctx, int32_t task, int32_t thread)
{
    (void)thread;
    atomic_fetch_add(&((struct stage *)ctx)->runs[task], 1);
}
static void test_back_to_back(void **state)
{
    (void)state;
    struct hg_pool *p;
    struct hg_err err;
    static struct stage s[24];
    assert_int_equal(hg_pool_create(3, &p, &err), HG_OK);
    for (int32_t round = 0; round < 4000; round++) {
        memset(s, 0, sizeof s);
        for (int32_t i = 0; i < 24; i++) hg_pool_run(p, stage_task, &s[i], 2 + i);
        for (int32_t i = 0; i < 24; i++)
            for (int32_t t = 0; t < 64; t++)
                if (s[i].runs[t] != (t < 2 + i))
                    fail_msg("round %d, job %d, task %d ran %d times", round, i, t, s[i].runs[t]);
    }
    hg_pool_free(p);
}

static void slow(void *ctx, int32_t task, int32_t thread)
{
    (void)thread;
    if (task == 0) nanosleep(&(struct timespec){0, 3000000}, NULL); /* the caller has to sleep */
    atomic_fetch_add((_Atomic int32_t *)ctx, 1);
}

static void test_sleeping_caller(void **state)
{
    (void)state;
    struct hg_pool *p;
    struct hg_err err;
    assert_int_equal(hg_pool_create(3, &p, &err), HG_OK);
    for (int32_t i = 0; i < 50; i++) {
        _Atomic int32_t n = 0;
        hg_pool_run(p, slow, &n, 3);
        assert_int_equal(n, 3);
    }
    hg_pool_free(p);
}

static void test_create_free(void **state)
{
    (void)state;
    struct hg_pool *p;
    struct hg_err err;
    for (int32_t i = 0; i < 100; i++) {
        assert_int_equal(hg_pool_create(4, &p, &err), HG_OK);
        hg_pool_free(p);
    }
    hg_pool_free(NULL);
    assert_int_equal(hg_pool_create(-1, &p, &err), HG_EINVAL);
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_once),  cmocka_unit_test(test_back_to_back),
        cmocka_unit_test(test_sleeping_workers), cmocka_unit_test(test_sleeping_caller),
        cmocka_unit_test(test_create_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
