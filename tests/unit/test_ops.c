/* The op matrix: every op x format x odd shapes x every instruction set of this machine against
 * the scalar oracle. Bounds: NMSE = sum (y-r)^2 / sum r^2, and the largest error relative to the
 * largest reference value; both relative to `usual`, the size a value has without cancellation,
 * where the reference happens to be smaller. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../lib/op_sim.h"
#include "base/rng.h"
#include "quant/float.h"

static struct hg_rng rng;

static int32_t below(int32_t n)
{
    return (int32_t)hg_rng_below(&rng, (uint32_t)n);
}
static float *random_floats(size_t n, float scale)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = hg_rng_normal(&rng) * scale;
    return x;
}

static struct hg_backend *open_device(const char *device, int32_t threads)
{
    struct hg_err err;
    struct hg_backend *be;
    struct hg_backend_params p = {.device = device, .n_threads = threads, .max_rows = 640};
    if (hg_backend_open(&p, &be, &err)) fail_msg("%s", err.text);
    return be;
}

static void check_size(const char *what, const float *got, const float *want, size_t n,
                       double usual, double nmse, double worst)
{
    double err = 0, ref = 0, max_err = 0, max_ref = usual;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i], w = (double)want[i];
        if (!(fabs(d) < 1e30)) fail_msg("%s: [%zu] is %g, expected %g", what, i, (double)got[i], w);
        err += d * d;
        ref += w * w;
        if (fabs(d) > max_err) max_err = fabs(d);
        if (fabs(w) > max_ref) max_ref = fabs(w);
    }
    if (ref < usual * usual * (double)n) ref = usual * usual * (double)n;
    if (err > nmse * ref + 1e-30 || max_err > worst * max_ref + 1e-20)
        fail_msg("%s: NMSE %.3g (limit %.3g), largest error %.3g of %.3g (limit %.3g)", what,
                 err / (ref + 1e-30), nmse, max_err, max_ref, worst);
}

static void check(const char *what, const float *got, const float *want, size_t n, double nmse,
                  double worst)
{
    check_size(what, got, want, n, 0, nmse, worst);
}

/* ------------------------------------------------------------------------------- matrices -- */

struct source {
    struct hg_matrix_src src;
    uint8_t *data, *scale;
};

/* Data at an odd address, as in a file mapping. */
static struct source random_matrix(enum hg_format f, int32_t n, int32_t k)
{
    size_t bytes = (size_t)n * (size_t)k * 4;
    struct source s = {.data = malloc(bytes + 1), .scale = malloc((size_t)n * (size_t)k / 16 + 1)};
    uint8_t *at = s.data + 1;
    for (size_t i = 0; i < (size_t)n * (size_t)k; i++) {
        float w = hg_rng_normal(&rng);
        uint16_t h = f == HG_FMT_BF16 ? hg_f32_to_bf16(w) : (uint16_t)(hg_rng_u64(&rng) & 0xbfff);
        if (f == HG_FMT_F32) memcpy(at + 4 * i, &w, 4);
        if (f == HG_FMT_BF16 || f == HG_FMT_F16) memcpy(at + 2 * i, &h, 2);
        if (f == HG_FMT_NVFP4 && i % 2 == 0) at[i / 2] = (uint8_t)hg_rng_u64(&rng);
        if (f == HG_FMT_NVFP4 && i % 16 == 0) s.scale[i / 16] = (uint8_t)below(0x7f);
    }
    s.src = (struct hg_matrix_src){f, n, k, at, s.scale, f == HG_FMT_NVFP4 ? 0.37f : 1};
    return s;
}
static void free_matrix(struct source *s)
{
    free(s->data);
    free(s->scale);
}
static struct hg_matrix load(struct hg_backend *be, const struct source *s)
{
    struct hg_matrix m;
    struct hg_err err;
    if (be->ops->matrix_load(be, &s->src, &m, &err)) fail_msg("%s", err.text);
    return m;
}

static void one_gemm(struct hg_backend *ref, struct hg_backend *cpu, enum hg_format f, int32_t k,
                     int32_t n_rows)
{
    static const int32_t widths[] = {1, 6, 8, 16, 17, 48, 72, 100, 200};
    struct hg_gemm_args a = {.n_rows = n_rows, .n_parts = 1 + below(HG_GEMM_PARTS)}, b;
    struct source src[HG_GEMM_PARTS];
    struct hg_matrix mr[HG_GEMM_PARTS], mc[HG_GEMM_PARTS];
    float *x = random_floats((size_t)n_rows * (size_t)k, 1);
    a.x = x;
    b = a;
    for (int32_t p = 0; p < a.n_parts; p++) {
        int32_t n = widths[below(9)];
        src[p] = random_matrix(p && f != HG_FMT_NVFP4 ? (enum hg_format)below(3) : f, n, k);
        mr[p] = load(ref, &src[p]);
        mc[p] = load(cpu, &src[p]);
        size_t bytes = (size_t)n_rows * (size_t)n * sizeof(float);
        a.part[p].w = &mr[p];
        b.part[p].w = &mc[p];
        a.part[p].add = b.part[p].add = below(2);
        a.part[p].y = random_floats((size_t)n_rows * (size_t)n, 3);
        b.part[p].y = malloc(bytes);
        memcpy(b.part[p].y, a.part[p].y, bytes);
    }
    ref->ops->gemm(ref, &a);
    cpu->ops->gemm(cpu, &b);
    for (int32_t p = 0; p < a.n_parts; p++) {
        char what[128];
        snprintf(what, sizeof what, "%s gemm %s [%d x %d] rows %d%s", cpu->name,
                 hg_format_name(mr[p].format), mr[p].n, k, n_rows, a.part[p].add ? " add" : "");
        static const double weight[HG_N_FORMATS] = {1, 1, .3, 30}; /* about rms of a weight */
        check_size(what, b.part[p].y, a.part[p].y, (size_t)n_rows * (size_t)mr[p].n,
                   sqrt(k) * weight[mr[p].format], 1e-11, 1e-5);
        ref->ops->matrix_free(ref, &mr[p]);
        cpu->ops->matrix_free(cpu, &mc[p]);
        free(a.part[p].y);
        free(b.part[p].y);
        free_matrix(&src[p]);
    }
    free(x);
}

static void one_embed(struct hg_backend *ref, struct hg_backend *cpu, enum hg_format f, int32_t k)
{
    enum { N = 45, ROWS = 9 };
    struct source s = random_matrix(f, N, k);
    struct hg_matrix mr = load(ref, &s), mc = load(cpu, &s);
    hg_tok tok[ROWS];
    for (int i = 0; i < ROWS; i++) tok[i] = i ? below(N) : N - 1;
    float *a = random_floats((size_t)(ROWS * k), 1), *b = random_floats((size_t)(ROWS * k), 1);
    ref->ops->embed(ref, &(struct hg_embed_args){&mr, tok, ROWS, a});
    cpu->ops->embed(cpu, &(struct hg_embed_args){&mc, tok, ROWS, b});
    check("embed", b, a, (size_t)(ROWS * k), 1e-13, 1e-6);
    ref->ops->matrix_free(ref, &mr);
    cpu->ops->matrix_free(cpu, &mc);
    free(a);
    free(b);
    free_matrix(&s);
}

static void one_row_ops(struct hg_backend *ref, struct hg_backend *cpu, int32_t rows, int32_t d)
{
    size_t n = (size_t)rows * (size_t)d;
    float *x = random_floats(n, 3), *u = random_floats(n, 2), *w = random_floats((size_t)d, 1);
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    ref->ops->rmsnorm(ref, &(struct hg_rmsnorm_args){x, w, rows, d, 1e-6f, a});
    cpu->ops->rmsnorm(cpu, &(struct hg_rmsnorm_args){x, w, rows, d, 1e-6f, b});
    check("rmsnorm", b, a, n, 1e-12, 1e-5);
    x[0] = -200; /* exp overflows in silu */
    ref->ops->silu_mul(ref, &(struct hg_silu_mul_args){x, u, rows, d, a});
    cpu->ops->silu_mul(cpu, &(struct hg_silu_mul_args){x, u, rows, d, b});
    check("silu_mul", b, a, n, 1e-12, 1e-5);
    int32_t index[3] = {rows - 1, 0, rows / 2};
    ref->ops->gather(ref, &(struct hg_gather_args){x, index, 3 < rows ? 3 : 1, d, a});
    cpu->ops->gather(cpu, &(struct hg_gather_args){x, index, 3 < rows ? 3 : 1, d, b});
    check("gather", b, a, (size_t)(3 < rows ? 3 : 1) * (size_t)d, 0, 0);
    free(x);
    free(u);
    free(w);
    free(a);
    free(b);
}

/* --------------------------------------------------------------------------------- layers -- */

static void compare_step(struct sim *cpu, struct sim *ref, const char *what)
{
    char text[160];
    bool fp8 = cpu->d.kv == HG_KV_FP8, f32 = cpu->d.kv == HG_KV_F32;
    size_t n = (size_t)cpu->n_rows;
    snprintf(text, sizeof text, "%s attn d_head %d heads %d/%d kv %d, %s", cpu->be->name,
             cpu->d.d_head, cpu->d.n_heads, cpu->d.n_kv_heads, (int)cpu->d.kv, what);
    /* a last-bit difference before rounding to FP8 or BF16 moves an element by one step */
    check(text, cpu->attn, ref->attn, n * sim_attn_width(cpu),
          f32   ? 1e-10
          : fp8 ? 1e-4
                : 1e-5,
          f32 ? 2e-5 : 5e-2);
    snprintf(text, sizeof text, "%s gdn heads %d/%d d %d x %d, %s", cpu->be->name,
             cpu->d.gdn.n_v_heads, cpu->d.gdn.n_k_heads, cpu->d.gdn.d_k, cpu->d.gdn.d_v, what);
    check(text, cpu->gdn, ref->gdn, n * sim_gdn_width(cpu), 1e-9, 1e-3);
}

static void both_run(struct sim *cpu, struct sim *ref, enum hg_step_kind kind, const char *what)
{
    memcpy(ref->rows, cpu->rows, sizeof ref->rows);
    ref->n_rows = cpu->n_rows;
    sim_run(cpu, kind);
    sim_run(ref, kind);
    compare_step(cpu, ref, what);
}

/* A random forest of n rows; from time to time a new root. */
static void random_tree(struct sim *s, int32_t seq, int32_t n)
{
    int32_t row0 = s->n_rows;
    for (int32_t i = 0; i < n; i++) {
        int32_t parent = i == 0 || below(12) == 0 ? -1 : below(2) ? row0 + i - 1 : row0 + below(i);
        sim_add(s, seq, below(1 << 20), parent);
    }
}

/* Accepts the path to a random row of the sequence's rows. */
static void both_commit(struct sim *cpu, struct sim *ref, int32_t seq)
{
    int32_t path[HG_TREE_ROWS], n = 0, rows[HG_TREE_ROWS];
    for (int32_t r = 0; r < cpu->n_rows; r++)
        if (cpu->rows[r].seq == seq) rows[n++] = r;
    int32_t leaf = rows[below(n)], depth = cpu->rows[leaf].pos - cpu->n_past[seq];
    for (int32_t r = leaf, i = depth; r >= 0; r = cpu->rows[r].parent) path[i--] = r;
    sim_commit(cpu, seq, path, depth + 1);
    sim_commit(ref, seq, path, depth + 1);
}

static void one_layer(struct hg_backend *ref_be, struct hg_backend *cpu_be,
                      const struct sim_dims *d, int32_t start)
{
    struct sim ref, cpu;
    hg_tok tok[SIM_ROWS];
    sim_open(&ref, ref_be, d);
    sim_open(&cpu, cpu_be, d);
    for (int32_t left = start; left > 0; left -= SIM_ROWS) { /* two sequences, uneven */
        int32_t n = left < 120 ? left : 120;
        for (int32_t i = 0; i < SIM_ROWS; i++) tok[i] = below(1 << 20);
        sim_begin(&cpu);
        sim_chain(&cpu, 1, tok, n);
        sim_chain(&cpu, 0, tok + n, SIM_ROWS - 120);
        both_run(&cpu, &ref, HG_EXTEND, "prefill");
    }
    for (int32_t round = 0; round < 4; round++) {
        sim_begin(&cpu);
        random_tree(&cpu, 0, 1 + below(20));
        random_tree(&cpu, 2, 1 + below(60));
        random_tree(&cpu, 1, round == 0 ? HG_TREE_ROWS : 1 + below(30));
        both_run(&cpu, &ref, HG_VERIFY, "verify");
        for (int32_t s = 0; s < SIM_SEQS; s++) both_commit(&cpu, &ref, s);
        sim_begin(&cpu);
        for (int32_t s = 0; s < SIM_SEQS; s++) sim_add(&cpu, s, below(1 << 20), -1);
        both_run(&cpu, &ref, HG_EXTEND, "decode");
    }
    for (int32_t s = 0; s < SIM_SEQS; s++) {
        check("state", sim_state(&cpu, s), sim_state(&ref, s), sim_state_floats(&cpu), 1e-9, 1e-3);
        check("window", sim_conv(&cpu, s), sim_conv(&ref, s), sim_conv_floats(&cpu), 0, 0);
    }
    sim_close(&ref);
    sim_close(&cpu);
}

/* ---------------------------------------------------------------------------------- tests -- */

static void on_every_isa(void (*fn)(struct hg_backend *ref, struct hg_backend *cpu))
{
    struct hg_backend *ref = open_device("ref", 1);
    for (int32_t i = 0; hg_cpu_isa(i); i++) {
        char name[32];
        snprintf(name, sizeof name, "cpu:%s", hg_cpu_isa(i));
        struct hg_backend *cpu = open_device(name, 2);
        fn(ref, cpu);
        hg_backend_close(cpu);
    }
    hg_backend_close(ref);
}

static void gemm_on(struct hg_backend *ref, struct hg_backend *cpu)
{
    static const int32_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 70};
    static const int32_t ks[] = {16, 72, 97, 320, 544};
    for (int f = 0; f < HG_N_FORMATS; f++)
        for (size_t k = 0; k < sizeof ks / sizeof ks[0]; k++)
            for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
                one_gemm(ref, cpu, (enum hg_format)f, f == HG_FMT_NVFP4 ? ks[k] / 16 * 16 : ks[k],
                         rows[r]);
    one_gemm(ref, cpu, HG_FMT_NVFP4, 64, 601); /* two row blocks */
}
static void test_gemm(void **state)
{
    (void)state;
    on_every_isa(gemm_on);
}

static void rows_on(struct hg_backend *ref, struct hg_backend *cpu)
{
    for (int f = 0; f < HG_N_FORMATS; f++) {
        one_embed(ref, cpu, (enum hg_format)f, 48);
        if (f != HG_FMT_NVFP4) one_embed(ref, cpu, (enum hg_format)f, 73);
    }
    static const int32_t ds[] = {1, 7, 8, 33, 72, 100, 320, 768};
    for (size_t i = 0; i < sizeof ds / sizeof ds[0]; i++) {
        one_row_ops(ref, cpu, 1, ds[i]);
        one_row_ops(ref, cpu, 97, ds[i]);
    }
}
static void test_rows(void **state)
{
    (void)state;
    on_every_isa(rows_on);
}

static void layers_on(struct hg_backend *ref, struct hg_backend *cpu)
{
    static const struct sim_dims dims[] = {
        {HG_KV_F32, 4, 2, 16, 8, {1, 1, 16, 16}},   {HG_KV_F32, 6, 1, 72, 20, {2, 6, 32, 40}},
        {HG_KV_BF16, 3, 3, 40, 40, {2, 4, 13, 7}},  {HG_KV_BF16, 8, 2, 64, 16, {1, 3, 128, 128}},
        {HG_KV_FP8, 12, 2, 64, 16, {3, 3, 24, 33}}, {HG_KV_FP8, 4, 2, 256, 64, {2, 2, 64, 72}},
        {HG_KV_FP8, 5, 1, 20, 6, {1, 2, 8, 100}},
    };
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        one_layer(ref, cpu, &dims[i], i == 1 || i == 4 ? 700 : 150);
}
static void test_layers(void **state)
{
    (void)state;
    on_every_isa(layers_on);
}

static void refuses_on(struct hg_backend *ref, struct hg_backend *cpu)
{
    (void)ref;
    struct hg_matrix m;
    struct hg_err err;
    uint8_t byte[64] = {0};
    struct hg_matrix_src bad = {HG_FMT_NVFP4, 2, 24, byte, byte, 1};
    assert_int_equal(cpu->ops->matrix_load(cpu, &bad, &m, &err), HG_EFORMAT);
    bad = (struct hg_matrix_src){HG_FMT_F32, 0, 4, byte, NULL, 1};
    assert_int_equal(cpu->ops->matrix_load(cpu, &bad, &m, &err), HG_EFORMAT);
    assert_non_null(cpu->ops->variant(cpu, "gemm"));
    assert_null(cpu->ops->variant(cpu, "no such op"));
}
static void test_refuses(void **state)
{
    (void)state;
    struct hg_err err;
    struct hg_backend *be;
    struct hg_backend_params p = {.n_threads = 1, .max_rows = 8};
    assert_int_equal(hg_cpu_open(&p, "z80", &be, &err), HG_EINVAL);
    assert_non_null(strstr(err.text, "portable"));
    p.max_rows = 0;
    assert_int_equal(hg_cpu_open(&p, NULL, &be, &err), HG_EINVAL);
    on_every_isa(refuses_on);
}

int main(void)
{
    rng.s = sim_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
