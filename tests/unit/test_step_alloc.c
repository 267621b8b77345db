/* Nothing allocates in a step: this program counts every malloc while the model of a real geometry's
 * shape (dummy weights, few layers) extends, verifies and commits. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/step.h"

#if defined(__SANITIZE_ADDRESS__)
int main(void)
{
    puts("skip: the sanitizer owns malloc");
    return 77;
}
#else
static atomic_int counting, n_allocs;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void *malloc(size_t n)
{
    static void *(*next)(size_t);
    if (!next) next = NEXT(malloc);
    if (atomic_load(&counting)) atomic_fetch_add(&n_allocs, 1);
    return next(n);
}

void *realloc(void *p, size_t n)
{
    static void *(*next)(void *, size_t);
    if (!next) next = NEXT(realloc);
    if (atomic_load(&counting)) atomic_fetch_add(&n_allocs, 1);
    return next(p, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
    static int (*next)(void **, size_t, size_t);
    if (!next) next = NEXT(posix_memalign);
    if (atomic_load(&counting)) atomic_fetch_add(&n_allocs, 1);
    return next(p, align, n);
}

static const struct hg_config config = {.n_layers = 2,
                                        .layer_kind = {HG_LAYER_GDN, HG_LAYER_ATTN},
                                        .n_vocab = 1000,
                                        .d_model = 512,
                                        .d_ff = 1024,
                                        .rms_eps = 1e-6f,
                                        .n_heads = 6,
                                        .n_kv_heads = 1,
                                        .d_head = 256,
                                        .d_rope = 64,
                                        .rope_theta = 1e7f,
                                        .n_k_heads = 2,
                                        .n_v_heads = 6,
                                        .d_k = 128,
                                        .d_v = 128};

static void run(struct hg_model *m)
{
    struct hg_err err;
    struct hg_step_out out;
    int32_t pages[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct hg_seq seq = {.pages = pages, .n_pages = 8}, *s = &seq;
    static struct hg_row rows[256];
    const int32_t sizes[] = {1, 5, 64, 200, 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int32_t j = 0; j < sizes[i]; j++)
            rows[j] = (struct hg_row){
                .token = j, .pos = seq.n_past + j, .parent = j - 1, .want = j == sizes[i] - 1};
        assert_int_equal(hg_step(m, HG_EXTEND, rows, sizes[i], &s, 1, &out, &err), HG_OK);
    }
    for (int32_t j = 0; j < 33; j++) /* a tree: children 2j+1 and 2j+2 */
        rows[j] = (struct hg_row){.token = j, .parent = j ? (j - 1) / 2 : -1, .want = 1};
    for (int32_t j = 0; j < 33; j++) rows[j].pos = j ? rows[rows[j].parent].pos + 1 : seq.n_past;
    assert_int_equal(hg_step(m, HG_VERIFY, rows, 33, &s, 1, &out, &err), HG_OK);
    assert_int_equal(hg_commit(m, s, 32, &err), HG_OK);
}

static void test_no_allocation(void **state)
{
    (void)state;
    const enum hg_kv kv[] = {HG_KV_FP8, HG_KV_BF16, HG_KV_F32};
    for (int32_t i = 0; hg_cpu_isa(i); i++)
        for (int32_t k = 0; k < 3; k++) {
            struct hg_err err;
            struct hg_backend *be;
            struct hg_weights w;
            struct hg_model *m;
            struct hg_backend_params bp = {.max_rows = 256, .n_threads = 2};
            struct hg_model_params mp = {.n_slots = 1,
                                         .n_pages = 8,
                                         .max_rows = 256,
                                         .max_seqs = 1,
                                         .max_verify = 64,
                                         .max_want = 64,
                                         .kv = kv[k]};
            assert_int_equal(hg_cpu_open(&bp, hg_cpu_isa(i), &be, &err), HG_OK);
            assert_int_equal(hg_weights_dummy(&w, &config, k ? HG_FMT_BF16 : HG_FMT_NVFP4, 1, be,
                                              NULL, NULL, &err),
                             HG_OK);
            assert_int_equal(hg_model_create(&config, &w, be, &mp, &m, &err), HG_OK);
            atomic_store(&counting, 1);
            run(m);
            atomic_store(&counting, 0);
            hg_model_free(m);
            hg_backend_close(be);
            assert_int_equal(atomic_load(&n_allocs), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
