/* The same bits (DESIGN I2): on every instruction set a row's result does not depend on the rows
 * beside it, the cut of a prompt into steps, the number of threads, or on being a chain row or a
 * tree node. Everything here is compared with memcmp. */
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

static struct hg_backend *open_isa(int32_t i, int32_t threads)
{
    struct hg_err err;
    struct hg_backend *be;
    struct hg_backend_params p = {.n_threads = threads, .max_rows = 640};
    if (hg_cpu_open(&p, hg_cpu_isa(i), &be, &err)) fail_msg("%s", err.text);
    return be;
}

static void same(const char *what, int32_t i, const void *a, const void *b, size_t floats)
{
    if (memcmp(a, b, floats * sizeof(float)) == 0) return;
    const float *x = a, *y = b;
    size_t at = 0;
    while (memcmp(x + at, y + at, sizeof *x) == 0) at++;
    fail_msg("%s %d: [%zu] is %a, expected %a", what, i, at, (double)x[at], (double)y[at]);
}

/* ----------------------------------------------------------------------------------- gemm -- */

static void gemm_bits(struct hg_backend *be, struct hg_backend *one, enum hg_format f, int32_t n,
                      int32_t k)
{
    enum { ROWS = 530 };
    uint8_t *data = malloc((size_t)n * (size_t)k * 4), *scale = malloc((size_t)n * (size_t)k);
    for (size_t i = 0; i < (size_t)n * (size_t)k; i++) {
        float w = hg_rng_normal(&rng);
        uint16_t h = f == HG_FMT_BF16 ? hg_f32_to_bf16(w) : (uint16_t)(hg_rng_u64(&rng) & 0xbfff);
        if (f == HG_FMT_F32)
            memcpy(data + 4 * i, &w, 4);
        else if (f == HG_FMT_NVFP4)
            data[i / 2] = (uint8_t)hg_rng_u64(&rng);
        else
            memcpy(data + 2 * i, &h, 2);
        scale[i] = (uint8_t)below(0x7f);
    }
    struct hg_matrix_src src = {f, n, k, data, scale, 0.3f};
    struct hg_matrix m, m1;
    struct hg_err err;
    if (be->ops->matrix_load(be, &src, &m, &err)) fail_msg("%s", err.text);
    if (one->ops->matrix_load(one, &src, &m1, &err)) fail_msg("%s", err.text);
    float *x = malloc((size_t)(ROWS * k) * sizeof *x), *y1 = malloc((size_t)(ROWS * n) * sizeof *x),
          *y = malloc((size_t)(ROWS * n) * sizeof *x);
    for (int32_t i = 0; i < ROWS * k; i++) x[i] = hg_rng_normal(&rng);
    for (int32_t r = 0; r < ROWS; r++) /* row by row, one thread */
        one->ops->gemm(one, &(struct hg_gemm_args){.x = x + (size_t)r * k,
                                                   .n_rows = 1,
                                                   .n_parts = 1,
                                                   .part = {{&m1, y1 + (size_t)r * n, false}}});
    static const int32_t counts[] = {2, 3, 4, 5, 6, 7, 8, 11, 12, 17, 64, ROWS};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        be->ops->gemm(be, &(struct hg_gemm_args){
                              .x = x, .n_rows = counts[c], .n_parts = 1, .part = {{&m, y, false}}});
        same("gemm rows", counts[c], y, y1, (size_t)counts[c] * (size_t)n);
    }
    be->ops->matrix_free(be, &m);
    one->ops->matrix_free(one, &m1);
    free(data);
    free(scale);
    free(x);
    free(y);
    free(y1);
}

static void test_gemm(void **state)
{
    (void)state;
    for (int32_t i = 0; hg_cpu_isa(i); i++) {
        struct hg_backend *be = open_isa(i, 2), *one = open_isa(i, 1);
        for (int f = 0; f < HG_N_FORMATS; f++) {
            gemm_bits(be, one, (enum hg_format)f, 100, f == HG_FMT_NVFP4 ? 288 : 301);
            gemm_bits(be, one, (enum hg_format)f, 37, 64);
        }
        hg_backend_close(be);
        hg_backend_close(one);
    }
}

/* --------------------------------------------------------------------------------- layers -- */

enum { LEN = 1200 };

/* What every way of running `tok` must give: outputs of each position, final state. */
struct truth {
    float *attn, *gdn, *state, *conv;
};

static void keep_rows(struct sim *s, struct truth *t, int32_t pos0, int32_t seq_rows)
{
    memcpy(t->attn + (size_t)pos0 * sim_attn_width(s), s->attn,
           (size_t)seq_rows * sim_attn_width(s) * sizeof(float));
    memcpy(t->gdn + (size_t)pos0 * sim_gdn_width(s), s->gdn,
           (size_t)seq_rows * sim_gdn_width(s) * sizeof(float));
}

static void same_row(struct sim *s, const struct truth *t, const char *what, int32_t row,
                     int32_t pos)
{
    char text[96];
    snprintf(text, sizeof text, "%s attn kv %d, %s, position", s->be->name, (int)s->d.kv, what);
    same(text, pos, sim_attn_row(s, row), t->attn + (size_t)pos * sim_attn_width(s),
         sim_attn_width(s));
    snprintf(text, sizeof text, "%s gdn, %s, position", s->be->name, what);
    same(text, pos, sim_gdn_row(s, row), t->gdn + (size_t)pos * sim_gdn_width(s), sim_gdn_width(s));
}

static void same_state(struct sim *s, const struct truth *t, const char *what)
{
    same(what, 0, sim_state(s, 0), t->state, sim_state_floats(s));
    same(what, 1, sim_conv(s, 0), t->conv, sim_conv_floats(s));
}

/* One row a step, one thread. */
static void run_single(struct hg_backend *be, const struct sim_dims *d, const hg_tok *tok,
                       struct truth *t)
{
    struct sim s;
    sim_open(&s, be, d);
    *t = (struct truth){malloc(LEN * sim_attn_width(&s) * sizeof(float)),
                        malloc(LEN * sim_gdn_width(&s) * sizeof(float)),
                        malloc(sim_state_floats(&s) * sizeof(float)),
                        malloc(sim_conv_floats(&s) * sizeof(float))};
    for (int32_t p = 0; p < LEN; p++) {
        sim_begin(&s);
        sim_add(&s, 0, tok[p], -1);
        sim_run(&s, HG_EXTEND);
        keep_rows(&s, t, p, 1);
    }
    memcpy(t->state, sim_state(&s, 0), sim_state_floats(&s) * sizeof(float));
    memcpy(t->conv, sim_conv(&s, 0), sim_conv_floats(&s) * sizeof(float));
    sim_close(&s);
}

/* Chunks of random sizes, another sequence now and then beside it. */
static void run_chunks(struct hg_backend *be, const struct sim_dims *d, const hg_tok *tok,
                       const struct truth *t)
{
    struct sim s;
    sim_open(&s, be, d);
    for (int32_t p = 0; p < LEN;) {
        int32_t n = 1 + (below(3) ? below(100) : below(5)), first = 0;
        if (n > LEN - p) n = LEN - p;
        sim_begin(&s);
        if (below(2)) { /* company, before or behind */
            first = 1 + below(50);
            sim_chain(&s, 1, tok, s.n_past[1] + first < 2000 ? first : (first = 1));
        }
        sim_chain(&s, 0, tok + p, n);
        sim_run(&s, HG_EXTEND);
        for (int32_t i = 0; i < n; i++) same_row(&s, t, "chunk", first + i, p + i);
        p += n;
    }
    same_state(&s, t, "state after chunks");
    sim_close(&s);
}

/* The true tokens as one path of random trees (or as plain chains), verified and committed. */
static void run_trees(struct hg_backend *be, const struct sim_dims *d, const hg_tok *tok,
                      const struct truth *t, int32_t start)
{
    struct sim s;
    sim_open(&s, be, d);
    for (int32_t p = 0; p < start; p += 100) {
        sim_begin(&s);
        sim_chain(&s, 0, tok + p, start - p < 100 ? start - p : 100);
        sim_run(&s, HG_EXTEND);
    }
    for (int32_t p = start; p < LEN;) {
        int32_t path[HG_TREE_ROWS], depth = 0, rows = 1 + below(HG_TREE_ROWS);
        bool plain = below(4) == 0;
        sim_begin(&s);
        if (below(3) == 0) { /* a wrong root first: a forest */
            sim_add(&s, 0, below(1 << 20), -1);
            rows++;
        }
        while (s.n_rows < rows && s.n_rows < HG_TREE_ROWS) {
            if (p + depth < LEN && (plain || below(2))) {
                path[depth] = sim_add(&s, 0, tok[p + depth], depth ? path[depth - 1] : -1);
                depth++;
            } else if (s.n_rows > 0) {
                sim_add(&s, 0, below(1 << 20), below(s.n_rows));
            } else if (p + depth >= LEN) {
                break;
            }
        }
        if (depth == 0) continue;
        sim_run(&s, HG_VERIFY);
        for (int32_t i = 0; i < depth; i++) same_row(&s, t, "tree", path[i], p + i);
        int32_t accept = 1 + below(depth);
        sim_commit(&s, 0, path, accept);
        p += accept;
    }
    same_state(&s, t, "state after commits");
    sim_close(&s);
}

static void test_layers(void **state)
{
    (void)state;
    static const struct sim_dims dims[] = {
        {HG_KV_F32, 4, 2, 24, 8, {1, 2, 19, 40}},
        {HG_KV_BF16, 3, 1, 64, 16, {2, 2, 32, 64}},
        {HG_KV_FP8, 14, 2, 48, 16, {1, 3, 16, 33}},
    };
    hg_tok tok[LEN];
    for (int32_t i = 0; i < LEN; i++) tok[i] = below(1 << 20);
    for (int32_t i = 0; hg_cpu_isa(i); i++)
        for (size_t k = 0; k < sizeof dims / sizeof dims[0]; k++) {
            struct truth t;
            struct hg_backend *one = open_isa(i, 1), *two = open_isa(i, 2);
            run_single(one, &dims[k], tok, &t);
            run_chunks(two, &dims[k], tok, &t);
            run_chunks(one, &dims[k], tok, &t);
            run_trees(two, &dims[k], tok, &t, 0);
            run_trees(two, &dims[k], tok, &t, 470 + below(100)); /* across a segment's end */
            free(t.attn);
            free(t.gdn);
            free(t.state);
            free(t.conv);
            hg_backend_close(one);
            hg_backend_close(two);
        }
}

int main(void)
{
    rng.s = sim_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
