/* Times the shipped kernels through the vtable: bench_ops [-t THREADS] [-d DEVICE] [-c] [FILTER].
 * Prints one line a case: median of several runs, bytes that must be moved and operations that
 * must be done per second. FILTER keeps the cases whose name contains it. -c: CPU time of the one
 * thread instead of wall time, for a machine that is busy otherwise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/rng.h"

enum { MAX_ROWS = 512, RUNS = 9 };

static struct hg_backend *be;
static const char *filter = "";
static bool cpu_time;

static double now(void)
{
    struct timespec t;
    if (!cpu_time) return hg_now();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const struct hg_err *err)
{
    fprintf(stderr, "bench_ops: %s\n", err->text);
    exit(1);
}
static float *device_floats(size_t n, float scale)
{
    struct hg_err err;
    void *p;
    if (be->ops->alloc(be, n * sizeof(float), &p, &err)) die(&err);
    struct hg_rng g = {n};
    float *x = p;
    for (size_t i = 0; i < n; i++) x[i] = (float)(hg_rng_u64(&g) >> 40) * 0x1p-23f * scale - scale;
    return x;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median seconds of fn(ctx); short calls are repeated within a run. */
static double median_time(void (*fn)(void *), void *ctx)
{
    double t[RUNS], t0 = now();
    fn(ctx);
    double once = now() - t0;
    int repeat = once < 2e-3 ? (int)(2e-3 / (once + 1e-7)) + 1 : 1;
    int runs = once > 0.2 ? 3 : RUNS;
    for (int i = 0; i < runs; i++) {
        t0 = now();
        for (int j = 0; j < repeat; j++) fn(ctx);
        t[i] = (now() - t0) / repeat;
    }
    qsort(t, (size_t)runs, sizeof t[0], by_value);
    return t[runs / 2];
}

static void report(const char *name, double s, double bytes, double flops)
{
    printf("%-44s %10.1f us %8.1f GB/s %8.1f GFLOP/s\n", name, s * 1e6, bytes / s * 1e-9,
           flops / s * 1e-9);
    fflush(stdout);
}

/* ---------------------------------------------------------------------------------- memory -- */

struct sum_job {
    const float *x;
    size_t n; /* floats of a task */
    float out[64][16];
};
static void sum_task(void *ctx, int32_t task, int32_t thread)
{
    struct sum_job *j = ctx;
    typedef float v8 __attribute__((vector_size(32), aligned(4)));
    v8 s[8] = {{0}};
    const float *x = j->x + (size_t)task * j->n;
    for (size_t i = 0; i < j->n; i += 64)
        for (int k = 0; k < 8; k++) s[k] += *(const v8 *)(x + i + 8 * k);
    for (int k = 1; k < 8; k++) s[0] += s[k];
    memcpy(j->out[thread % 64], &s[0], sizeof s[0]);
}
struct pool_sum {
    struct hg_pool *pool;
    struct sum_job job;
};
static void sum_run(void *ctx)
{
    struct pool_sum *p = ctx;
    hg_pool_run(p->pool, sum_task, &p->job, 64);
}
static void nothing(void *ctx, int32_t task, int32_t thread)
{
    (void)ctx;
    (void)task;
    (void)thread;
}
static void nothing_run(void *ctx)
{
    hg_pool_run(ctx, nothing, NULL, 16);
}

static void bench_memory(void)
{
    struct hg_err err;
    struct pool_sum p = {.job = {.n = (256u << 20) / 4 / 64}};
    p.job.x = device_floats(64 * p.job.n, 1);
    for (int32_t t = 1; t <= be->n_threads; t *= 2) {
        char name[64];
        if (hg_pool_create(t, &p.pool, &err)) die(&err);
        snprintf(name, sizeof name, "memory read, %d threads", t);
        report(name, median_time(sum_run, &p), 256.0 * 1048576, 0);
        snprintf(name, sizeof name, "pool, 16 empty tasks, %d threads", t);
        report(name, median_time(nothing_run, p.pool), 0, 0);
        hg_pool_free(p.pool);
    }
    be->ops->free(be, (void *)(uintptr_t)p.job.x);
}

/* ------------------------------------------------------------------------------------ gemm -- */

static void gemm_run(void *ctx)
{
    be->ops->gemm(be, ctx);
}

static void bench_gemm(enum hg_format f, int32_t n, int32_t k)
{
    static const int32_t rows[] = {1, 2, 4, 6, 8, 16, 64, 512};
    char name[96];
    struct hg_err err;
    struct hg_matrix m;
    size_t bytes = hg_format_bytes(f, (int64_t)n * k);
    snprintf(name, sizeof name, "gemm %s %d x %d", hg_format_name(f), n, k);
    if (!strstr(name, filter)) return;
    uint8_t *data = malloc(bytes);
    struct hg_rng g = {7};
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t u = hg_rng_u64(&g) & 0xbfffbfffbfffbfffu; /* no huge exponents, no NaN */
        memcpy(data + i, &u, 8);
    }
    uint8_t *scale = malloc((size_t)n * (size_t)k / 16);
    memset(scale, 0x38, (size_t)n * (size_t)k / 16);
    double t0 = now();
    if (be->ops->matrix_load(be, &(struct hg_matrix_src){f, n, k, data, scale, 1}, &m, &err))
        die(&err);
    double load = now() - t0;
    free(data);
    free(scale);
    printf("%-44s %10.1f us %8.1f GB/s, %.3f of the checkpoint's bytes\n",
           strcat(strcpy((char[128]){0}, name), ": load"), load * 1e6, (double)bytes / load * 1e-9,
           (double)m.n_bytes / (double)bytes);
    float *x = device_floats((size_t)MAX_ROWS * (size_t)k, 1);
    float *y = device_floats((size_t)MAX_ROWS * (size_t)n, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hg_gemm_args a = {.x = x, .n_rows = rows[i], .n_parts = 1, .part = {{&m, y, false}}};
        snprintf(name, sizeof name, "gemm %s %d x %d, %d rows", hg_format_name(f), n, k, rows[i]);
        report(name, median_time(gemm_run, &a), (double)bytes, 2.0 * n * k * rows[i]);
    }
    be->ops->matrix_free(be, &m);
    be->ops->free(be, x);
    be->ops->free(be, y);
}

/* ---------------------------------------------------------------------------------- layers -- */

struct layer {
    int32_t n_heads, n_kv, d_head;
    enum hg_kv kv;
    struct hg_gdn_dims gdn;
};
struct step {
    struct hg_attn_args attn;
    struct hg_attn_in_args attn_in;
    struct hg_gdn_args gdn;
    struct hg_gdn_conv_args conv;
};
static void attn_run(void *ctx)
{
    be->ops->attn(be, &((struct step *)ctx)->attn);
}
static void attn_in_run(void *ctx)
{
    be->ops->attn_in(be, &((struct step *)ctx)->attn_in);
}
static void gdn_run(void *ctx)
{
    be->ops->gdn(be, &((struct step *)ctx)->gdn);
}
static void conv_run(void *ctx)
{
    be->ops->gdn_conv(be, &((struct step *)ctx)->conv);
}

static struct hg_plan *plan_rows(enum hg_step_kind kind, int32_t n_past, int32_t n_rows,
                                 const int32_t *pages, int32_t n_pages)
{
    struct hg_err err;
    struct hg_plan *p;
    struct hg_row rows[MAX_ROWS];
    for (int32_t i = 0; i < n_rows; i++) { /* VERIFY: two branches */
        int32_t parent = kind == HG_VERIFY && i >= 2 ? i - 2 : i - 1;
        rows[i] = (struct hg_row){0, 0, n_past + (kind == HG_VERIFY ? (i + 1) / 2 : i), parent, 0};
        if (kind == HG_VERIFY && i == 1) rows[i].parent = 0;
        if (kind == HG_VERIFY && i >= 2) rows[i].pos = rows[parent].pos + 1;
    }
    if (hg_plan_create(MAX_ROWS, 1, &p, &err)) die(&err);
    if (hg_plan_build(p, kind, rows, n_rows, &(struct hg_plan_input){n_past, 0, pages, n_pages}, 1,
                      1, &err))
        die(&err);
    return p;
}

static void bench_layer(const char *model, const struct layer *l)
{
    static const struct {
        enum hg_step_kind kind;
        int32_t past, rows;
    } cases[] = {{HG_EXTEND, 0, 512},     {HG_EXTEND, 4096, 1},  {HG_EXTEND, 16384, 1},
                 {HG_EXTEND, 16384, 512}, {HG_VERIFY, 16384, 8}, {HG_VERIFY, 16384, 16}};
    enum { PAGES = (16384 + MAX_ROWS) / HG_PAGE_TOKENS + 1 };
    struct hg_err err;
    int32_t pages[PAGES];
    for (int32_t i = 0; i < PAGES; i++) pages[i] = (i * 7 + 3) % PAGES;
    const struct hg_gdn_dims *g = &l->gdn;
    size_t heads = (size_t)l->n_heads * (size_t)l->d_head,
           kvw = (size_t)l->n_kv * (size_t)l->d_head;
    size_t vw = (size_t)g->n_v_heads * (size_t)g->d_v, nv = (size_t)g->n_v_heads;
    int32_t conv_dim = 2 * g->n_k_heads * g->d_k + (int32_t)vw;
    struct hg_kv_layer kv = {.dtype = l->kv,
                             .n_kv_heads = l->n_kv,
                             .d_head = l->d_head,
                             .k_scale = 0.01f,
                             .v_scale = 0.01f};
    kv.page_bytes = be->ops->kv_page_bytes(be, kv.dtype, kv.n_kv_heads, kv.d_head);
    void *pool;
    if (be->ops->alloc(be, kv.page_bytes * PAGES, &pool, &err)) die(&err);
    memset(pool, 0x31, kv.page_bytes * PAGES);
    kv.pool = pool;
    size_t state_n = nv * (size_t)g->d_k * (size_t)g->d_v;
    struct hg_gdn_state st = {device_floats(state_n, .1f), device_floats(3 * (size_t)conv_dim, 1),
                              *g, conv_dim};
    struct hg_gdn_stash stash = {NULL, device_floats(MAX_ROWS * (size_t)(g->n_k_heads * g->d_k), 1),
                                 device_floats(MAX_ROWS * vw, 1), device_floats(MAX_ROWS * nv, 1),
                                 device_floats(MAX_ROWS * nv, 1)};
    float *qg = device_floats(MAX_ROWS * 2 * heads, 1), *q = device_floats(MAX_ROWS * heads, 1);
    float *k = device_floats(MAX_ROWS * kvw, 1), *v = device_floats(MAX_ROWS * kvw, 1);
    float *out = device_floats(MAX_ROWS * (heads > vw ? heads : vw), 1);
    float *mixed = device_floats(MAX_ROWS * (size_t)conv_dim, 1),
          *w = device_floats(4 * (size_t)conv_dim, 1);
    float *c = device_floats(MAX_ROWS * (size_t)conv_dim, 1), *z = device_floats(MAX_ROWS * vw, 1);
    float *ab = device_floats(MAX_ROWS * nv, 1), *vec = device_floats(1024, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[96], what[64];
        int32_t n = cases[i].rows, past = cases[i].past;
        struct hg_plan *p = plan_rows(cases[i].kind, past, n, pages, PAGES);
        struct step s = {
            .attn = {p, q, qg, &kv, l->n_heads, out},
            .attn_in = {p, qg, k, v, vec, vec, 1e-6f, l->n_heads, l->d_head / 4, 1e6f, &kv, q},
            .gdn = {p, c, ab, ab, z, vec, vec, vec, 1e-6f, &st, &stash, out},
            .conv = {p, mixed, w, &st, c}};
        snprintf(what, sizeof what, "%s, %s %d rows", model,
                 cases[i].kind == HG_VERIFY ? "tree of" : "chain of", n);
        double pairs = 0; /* (row, position) */
        for (int32_t r = 0; r < n; r++) pairs += p->pos[r] + 1;
        snprintf(name, sizeof name, "attn %s at %d", what, past);
        if (strstr(name, filter))
            report(name, median_time(attn_run, &s),
                   (double)kv.page_bytes / HG_PAGE_TOKENS * (past + n),
                   4.0 * pairs * (double)heads);
        snprintf(name, sizeof name, "attn_in %s", what);
        if (strstr(name, filter) && past == 0) report(name, median_time(attn_in_run, &s), 0, 0);
        snprintf(name, sizeof name, "gdn_conv %s", what);
        if (strstr(name, filter) && (past == 0 || n > 1) && n != 16)
            report(name, median_time(conv_run, &s), 8.0 * n * conv_dim, 0);
        snprintf(name, sizeof name, "gdn %s", what);
        if (strstr(name, filter) && past != 16384 + (n == 1))
            report(name, median_time(gdn_run, &s), 8.0 * (double)state_n,
                   8.0 * n * (double)state_n);
        hg_plan_free(p);
    }
    float *all[] = {(float *)pool, st.s, st.conv, stash.k, stash.v, stash.alpha,
                    stash.beta,    qg,   q,       k,       v,       out,
                    mixed,         w,    c,       z,       ab,      vec};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) be->ops->free(be, all[i]);
}

int main(int argc, char **argv)
{
    struct hg_backend_params p = {.device = "auto", .max_rows = MAX_ROWS};
    struct hg_err err;
    int o;
    while ((o = getopt(argc, argv, "t:d:c")) != -1) {
        if (o == 't')
            p.n_threads = atoi(optarg);
        else if (o == 'd')
            p.device = optarg;
        else if (o == 'c')
            cpu_time = true, p.n_threads = 1;
        else
            return 2;
    }
    if (optind < argc) filter = argv[optind];
    if (hg_backend_open(&p, &be, &err)) die(&err);
    printf("%s, %d threads: %s\n", be->name, be->n_threads, be->ops->variant(be, "gemm"));
    if (strstr("memory", filter)) bench_memory();
    bench_gemm(HG_FMT_NVFP4, 17408, 5120);
    bench_gemm(HG_FMT_BF16, 17408, 5120);
    bench_gemm(HG_FMT_NVFP4, 768, 320);
    bench_gemm(HG_FMT_BF16, 768, 320);
    bench_gemm(HG_FMT_F16, 4096, 4096);
    bench_layer("nano", &(struct layer){4, 2, 256, HG_KV_FP8, {2, 6, 128, 128}});
    bench_layer("27b", &(struct layer){24, 4, 256, HG_KV_FP8, {16, 48, 128, 128}});
    hg_backend_close(be);
    return 0;
}
