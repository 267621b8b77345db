/* The sampler against a plain double-precision one that sorts the whole row, chi-square tests of
 * its draws, and each option's corner cases. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sample/sampler.h"

enum { MAX_V = 4096 };

static const struct hg_sampling off = {
    .temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 42, .has_seed = true};

/* ------------------------------------------------------------------------------ reference -- */

struct reference {
    double z[MAX_V], p[MAX_V]; /* logits as corrected; probabilities, 0 where not drawable */
    int n, order[MAX_V];       /* ids by descending logit, then ascending id */
};

static const double *sort_key;
static int by_key(const void *a, const void *b)
{
    int i = *(const int *)a, j = *(const int *)b;
    if (sort_key[i] != sort_key[j]) return sort_key[i] > sort_key[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

/* What HF's processors and warpers make of a row: probabilities by id. */
static void reference(struct reference *r, const struct hg_sampling *s, const float *logits, int n,
                      const int *n_prompt, const int *n_output)
{
    r->n = n;
    for (int i = 0; i < n; i++) {
        double z = isnan(logits[i]) ? -INFINITY : (double)logits[i];
        for (int k = 0; k < s->n_bias; k++)
            if (s->bias[k].id == i)
                z = s->bias[k].bias <= -100 ? -INFINITY : z + (double)s->bias[k].bias;
        double rep = (double)s->repetition_penalty;
        if (n_prompt[i] + n_output[i] > 0) z = z > 0 ? z / rep : z * rep;
        z -= n_output[i] * (double)s->frequency_penalty;
        if (n_output[i] > 0) z -= (double)s->presence_penalty;
        r->z[i] = z / (double)s->temperature;
        r->order[i] = i;
    }
    sort_key = r->z;
    qsort(r->order, (size_t)n, sizeof *r->order, by_key);
    double max = r->z[r->order[0]], sum = 0, before = 0, total = 0;
    double least = s->top_k > 0 && s->top_k < n ? r->z[r->order[s->top_k - 1]] : -INFINITY;
    for (int i = 0; i < n; i++) {
        r->p[i] = r->z[i] >= least && r->z[i] > -INFINITY ? exp(r->z[i] - max) : 0;
        sum += r->p[i];
    }
    for (int k = 0; k < n; k++) {
        double *p = &r->p[r->order[k]], w = *p;
        if (k > 0 && s->top_p < 1 && before >= (double)s->top_p * sum) *p = 0;
        if (w < (double)s->min_p) *p = 0;
        before += w;
        total += *p;
    }
    for (int i = 0; i < n; i++) r->p[i] /= total;
}

/* The token that the n-th random number of the stream draws, if it does so by more than rounding;
 * else -1. Candidates stand in order of ids, after top-p the worst first. */
static hg_tok reference_draw(const struct reference *r, const struct hg_sampling *s, uint64_t n)
{
    struct hg_rng rng = {s->seed}, number = {hg_rng_u64(&rng) + n * 0x9E3779B97F4A7C15u};
    double u = hg_rng_f64(&number), sum = 0;
    for (int i = 0; i < r->n; i++) {
        int id = s->top_p < 1 ? r->order[r->n - 1 - i] : i;
        if (u > sum + 1e-5 && u < sum + r->p[id] - 1e-5) return id;
        sum += r->p[id];
    }
    return -1;
}

/* ---------------------------------------------------------------------------------- tools -- */

static struct hg_sampler *make(const struct hg_sampling *p, int32_t n_vocab, int32_t n_tokens)
{
    struct hg_sampler *s;
    struct hg_err err = {0};
    if (hg_sampler_create(p, n_vocab, n_tokens, &s, &err) != HG_OK) fail_msg("%s", err.text);
    return s;
}

static hg_tok draw_once(const struct hg_sampling *p, const float *z, int32_t n)
{
    struct hg_sampler *s = make(p, n, n);
    hg_tok id = hg_sampler_draw(s, z);
    hg_sampler_free(s);
    return id;
}

/* Upper bound of chi-square with k degrees of freedom, exceeded once in about 100,000 times
 * (Wilson-Hilferty). */
static double chi2_bound(int k)
{
    double a = 2.0 / (9.0 * k), x = 1 - a + 4.26 * sqrt(a);
    return k * x * x * x;
}

/* Draws n times (each with the next random number) and compares with the probabilities; penalties
 * are off, so telling what was drawn moves only the stream. */
static void check_draws(const struct hg_sampling *p, const float *z, int n, int n_draws)
{
    static struct reference r;
    static int none[MAX_V], hits[MAX_V];
    memset(hits, 0, sizeof hits);
    reference(&r, p, z, n, none, none);
    struct hg_sampler *s = make(p, n, n);
    for (int i = 0; i < n_draws; i++) {
        hg_tok id = hg_sampler_draw(s, z);
        assert_in_range(id, 0, n - 1);
        hits[id]++;
        hg_sampler_see_output(s, id);
    }
    hg_sampler_free(s);
    double chi2 = 0;
    int k = -1;
    for (int i = 0; i < n; i++) {
        double want = r.p[i] * n_draws;
        if (want == 0 && hits[i]) fail_msg("token %d drawn %d times, must not be", i, hits[i]);
        if (want < 5) continue;
        chi2 += (hits[i] - want) * (hits[i] - want) / want;
        k++;
    }
    if (k > 0 && chi2 > chi2_bound(k))
        fail_msg("seed %llu: chi2 %.1f with %d degrees, bound %.1f", (unsigned long long)p->seed,
                 chi2, k, chi2_bound(k));
}

/* ---------------------------------------------------------------------------------- tests -- */

static void test_chi_square(void **state)
{
    (void)state;
    static const float z[] = {2, 1, 0.5f, 0, -1, 1.5f, -3, 2, -20, 0.25f};
    int n = sizeof z / sizeof *z;
    struct hg_sampling p = off;
    check_draws(&p, z, n, 100000);
    for (float t = 0.25f; t < 5; t *= 2) {
        p = off, p.temperature = t, p.seed++;
        check_draws(&p, z, n, 50000);
    }
    for (p = off, p.top_k = 1; p.top_k <= n + 1; p.top_k++) check_draws(&p, z, n, 20000);
    for (p = off, p.top_p = 0.05f; p.top_p < 1; p.top_p += 0.1f) check_draws(&p, z, n, 20000);
    for (p = off, p.min_p = 0.02f; p.min_p <= 1; p.min_p *= 2) check_draws(&p, z, n, 20000);
    p = off, p.temperature = 0.7f, p.top_k = 6, p.top_p = 0.8f, p.min_p = 0.1f;
    check_draws(&p, z, n, 50000);
}

/* Equal neighbouring seeds or numbers would show here: draws at 50/50 must not follow the last. */
static void test_streams_are_independent(void **state)
{
    (void)state;
    static const float z[2] = {0, 0};
    int same = 0, n = 20000;
    hg_tok last = 0;
    for (int i = 0; i < n; i++) {
        struct hg_sampling p = off;
        p.seed = (uint64_t)i;
        hg_tok id = draw_once(&p, z, 2);
        same += id == last;
        last = id;
    }
    assert_in_range(same, n / 2 - 400, n / 2 + 400);
}

/* Random rows and options: what is drawn must have a probability in the reference, and the draw
 * must be the one that the same random number gives in the reference's distribution. */
static void test_against_reference(void **state)
{
    (void)state;
    static struct reference r;
    static float z[MAX_V];
    static int in_prompt[MAX_V], in_output[MAX_V];
    uint64_t seed = 77;
    struct hg_rng rng = {seed};
    printf("seed %llu\n", (unsigned long long)seed);
    int n_sure = 0;
    for (int round = 0; round < 1500; round++) {
        int n = 1 + (int)hg_rng_below(&rng, round % 50 == 0 ? MAX_V : 60);
        struct hg_logit_bias bias[3];
        struct hg_sampling p = off;
        p.seed = hg_rng_u64(&rng);
        p.temperature = 0.1f + (float)hg_rng_f64(&rng) * 2;
        if (hg_rng_below(&rng, 2)) p.top_k = (int32_t)hg_rng_below(&rng, (uint32_t)n + 3);
        if (hg_rng_below(&rng, 2)) p.top_p = 0.01f + 0.98f * (float)hg_rng_f64(&rng);
        if (hg_rng_below(&rng, 2)) p.min_p = 0.3f * (float)hg_rng_f64(&rng);
        if (hg_rng_below(&rng, 2)) p.repetition_penalty = 0.5f + (float)hg_rng_f64(&rng);
        if (hg_rng_below(&rng, 2)) p.presence_penalty = 2 * (float)hg_rng_f64(&rng) - 1;
        if (hg_rng_below(&rng, 2)) p.frequency_penalty = 2 * (float)hg_rng_f64(&rng) - 1;
        for (int i = 0; i < 3; i++)
            bias[i] = (struct hg_logit_bias){(hg_tok)hg_rng_below(&rng, (uint32_t)n),
                                             hg_rng_normal(&rng) * (i ? 2 : 100)};
        p.bias = bias, p.n_bias = n > 5 ? (int32_t)hg_rng_below(&rng, 4) : 0;
        bool ties = hg_rng_below(&rng, 2);
        for (int i = 0; i < n; i++) {
            z[i] = hg_rng_normal(&rng) * 3;
            if (ties) z[i] = roundf(z[i]);
            if (i > 5 && hg_rng_below(&rng, 20) == 0) z[i] = i & 1 ? NAN : -INFINITY;
            in_prompt[i] = in_output[i] = 0;
        }
        struct hg_sampler *s = make(&p, n, n);
        for (int i = 0; i < 10; i++) {
            hg_tok id = (hg_tok)hg_rng_below(&rng, (uint32_t)n);
            if (i & 1)
                hg_sampler_see_prompt(s, &id, 1), in_prompt[id]++;
            else
                hg_sampler_see_output(s, id), in_output[id]++;
        }
        reference(&r, &p, z, n, in_prompt, in_output);
        for (int i = 0; i < 5; i++) {
            hg_tok id = hg_sampler_draw(s, z), again = hg_sampler_draw(s, z);
            assert_int_equal(id, again);
            assert_in_range(id, 0, n - 1);
            if (r.p[id] == 0) fail_msg("round %d: token %d of %d is not drawable", round, id, n);
            hg_tok want = reference_draw(&r, &p, 5 + (uint64_t)i);
            if (want >= 0 && want != id) fail_msg("round %d: %d, wanted %d", round, id, want);
            n_sure += want >= 0;
            hg_sampler_see_output(s, id);
            in_output[id]++;
            reference(&r, &p, z, n, in_prompt, in_output);
        }
        hg_sampler_free(s);
    }
    assert_true(n_sure > 7000);
}

static void test_greedy(void **state)
{
    (void)state;
    struct hg_sampling p = off;
    p.temperature = 0;
    p.top_k = 3, p.top_p = 0.1f, p.min_p = 0.5f; /* of no consequence */
    assert_int_equal(draw_once(&p, (const float[]){1, 3, 2, 3}, 4), 1);
    assert_int_equal(draw_once(&p, (const float[]){-5}, 1), 0);
    assert_int_equal(draw_once(&p, (const float[]){NAN, -INFINITY, -7}, 3), 2);
    assert_int_equal(draw_once(&p, (const float[]){1, INFINITY, NAN, INFINITY}, 4), 1);
    assert_int_equal(draw_once(&p, (const float[]){NAN, NAN}, 2), -1);
    assert_int_equal(draw_once(&p, (const float[]){-INFINITY}, 1), -1);
    float z[100];
    for (int i = 0; i < 100; i++) z[i] = (float)(i % 50);
    assert_int_equal(draw_once(&p, z, 100), 49);
}

static void test_non_finite(void **state)
{
    (void)state;
    struct hg_sampling p = off;
    for (int k = 0; k < 3; k++) {
        p.top_k = k;
        p.top_p = k == 2 ? 0.5f : 1;
        assert_int_equal(draw_once(&p, (const float[]){NAN, -INFINITY, -7, NAN}, 4), 2);
        assert_int_equal(draw_once(&p, (const float[]){NAN, -INFINITY}, 2), -1);
        assert_int_equal(draw_once(&p, (const float[]){1e38f, INFINITY, NAN}, 3), 1);
        assert_int_equal(draw_once(&p, (const float[]){-3e38f, 3e38f, 0}, 3), 1);
    }
    /* two infinite ones share */
    struct hg_sampler *s = make(&off, 3, 3);
    int n[3] = {0};
    for (int i = 0; i < 1000; i++) {
        hg_tok id = hg_sampler_draw(s, (const float[]){INFINITY, 5, INFINITY});
        assert_in_range(id, 0, 2);
        n[id]++;
        hg_sampler_see_output(s, id);
    }
    hg_sampler_free(s);
    assert_int_equal(n[1], 0);
    assert_in_range(n[0], 400, 600);
    /* the smallest temperature is greedy in effect */
    p = off, p.temperature = 1e-45f;
    assert_int_equal(draw_once(&p, (const float[]){1, 1.0000001f, 0}, 3), 1);
    p.temperature = 3e38f; /* and the largest is uniform */
    assert_in_range(draw_once(&p, (const float[]){1, 2, 0}, 3), 0, 2);
}

/* HF keeps what ties with the k-th; top-p takes the lower id of equal ones. */
static void test_ties(void **state)
{
    (void)state;
    static const float z[] = {0, 1, 1, 1, -1};
    struct hg_sampling p = off;
    bool drawn[5] = {false};
    p.top_k = 2;
    struct hg_sampler *s = make(&p, 5, 5);
    for (int i = 0; i < 200; i++) {
        hg_tok id = hg_sampler_draw(s, z);
        drawn[id] = true;
        hg_sampler_see_output(s, id);
    }
    hg_sampler_free(s);
    assert_true(drawn[1] && drawn[2] && drawn[3] && !drawn[0] && !drawn[4]);
    p = off, p.top_p = 0.01f;
    for (p.seed = 0; p.seed < 50; p.seed++) assert_int_equal(draw_once(&p, z, 5), 1);
}

static void test_n_tokens(void **state)
{
    (void)state;
    static const float z[] = {0, 1, 50, 60};
    struct hg_sampling p = off;
    for (int k = 0; k < 4; k++) {
        p.temperature = k == 3 ? 0 : 1;
        p.top_k = k;
        struct hg_sampler *s = make(&p, 4, 2);
        for (int i = 0; i < 100; i++) {
            hg_tok id = hg_sampler_draw(s, z);
            assert_in_range(id, 0, 1);
            hg_sampler_see_output(s, id);
        }
        hg_sampler_free(s);
    }
}

static void test_bias(void **state)
{
    (void)state;
    static const float z[] = {0, 5, 4, 3};
    struct hg_logit_bias bias[] = {{1, -100}, {3, 100}};
    struct hg_sampling p = off;
    p.bias = bias, p.n_bias = 1;
    for (p.seed = 0; p.seed < 200; p.seed++) assert_int_not_equal(draw_once(&p, z, 4), 1);
    bias[0].bias = -100.5f;
    assert_int_equal(draw_once(&p, (const float[]){-INFINITY, 9}, 2), -1);
    p.n_bias = 2;
    for (p.seed = 0; p.seed < 200; p.seed++) assert_int_equal(draw_once(&p, z, 4), 3);
    p.temperature = 0;
    assert_int_equal(draw_once(&p, z, 4), 3);
    bias[1].bias = 1.5f;
    assert_int_equal(draw_once(&p, z, 4), 3);
    bias[1].bias = 0.5f;
    assert_int_equal(draw_once(&p, z, 4), 2);
    /* the caller's list is not needed any more, nor are its rows changed */
    float row[] = {0, 5, 4, 3};
    struct hg_sampler *s = make(&p, 4, 4);
    memset(bias, 0, sizeof bias);
    assert_int_equal(hg_sampler_draw(s, row), 2);
    assert_memory_equal(row, z, sizeof z);
    hg_sampler_free(s);
}

static void test_penalties(void **state)
{
    (void)state;
    struct hg_sampling p = off;
    p.temperature = 0;
    p.repetition_penalty = 2;
    static const hg_tok prompt[] = {0, 0, 0, -1, 99};
    struct hg_sampler *s = make(&p, 3, 3);
    hg_sampler_see_prompt(s, prompt, 5); /* ids outside are ignored */
    assert_int_equal(hg_sampler_draw(s, (const float[]){3, 1.4f, 0}), 0); /* 1.5 */
    assert_int_equal(hg_sampler_draw(s, (const float[]){3, 1.6f, 0}), 1);
    assert_int_equal(hg_sampler_draw(s, (const float[]){-1, -1.9f, -5}), 1); /* -2 */
    hg_sampler_see_output(s, 1); /* the same once more or in the output: no further effect */
    hg_sampler_see_output(s, 1);
    assert_int_equal(hg_sampler_draw(s, (const float[]){3, 3.1f, 1.5f}), 1); /* 1.55 */
    hg_sampler_free(s);

    p.repetition_penalty = 1, p.presence_penalty = 1;
    s = make(&p, 2, 2);
    hg_sampler_see_prompt(s, (const hg_tok[]){0}, 1); /* the prompt does not count */
    assert_int_equal(hg_sampler_draw(s, (const float[]){0.1f, 0}), 0);
    for (int i = 0; i < 3; i++) hg_sampler_see_output(s, 0); /* presence counts once */
    assert_int_equal(hg_sampler_draw(s, (const float[]){0.9f, 0}), 1);
    assert_int_equal(hg_sampler_draw(s, (const float[]){1.1f, 0}), 0);
    hg_sampler_free(s);

    p.presence_penalty = 0, p.frequency_penalty = 0.5f;
    s = make(&p, 2, 2);
    for (int i = 0; i < 3; i++) hg_sampler_see_output(s, 0); /* 1.5 */
    assert_int_equal(hg_sampler_draw(s, (const float[]){1.4f, 0}), 1);
    assert_int_equal(hg_sampler_draw(s, (const float[]){1.6f, 0}), 0);
    hg_sampler_free(s);
}

/* The n-th token uses the n-th number: drawing twice, or seeing the prompt, moves nothing. */
static void test_seeds(void **state)
{
    (void)state;
    float z[1000];
    for (int i = 0; i < 1000; i++) z[i] = (float)(i % 10) / 10;
    struct hg_sampling p = off;
    hg_tok first[50];
    for (int pass = 0; pass < 3; pass++) {
        p.seed = pass == 2 ? 43 : 42;
        int n_same = 0;
        struct hg_sampler *s = make(&p, 1000, 1000);
        for (int i = 0; i < 50; i++) {
            hg_tok id = hg_sampler_draw(s, z);
            if (pass == 1) assert_int_equal(hg_sampler_draw(s, z), id);
            if (pass == 1) hg_sampler_see_prompt(s, &id, 1);
            if (pass == 0)
                first[i] = id;
            else
                n_same += first[i] == id;
            hg_sampler_see_output(s, id);
        }
        if (pass == 1) assert_int_equal(n_same, 50);
        if (pass == 2) assert_in_range(n_same, 0, 5);
        hg_sampler_free(s);
    }
    p.has_seed = false;
    int n_same = 0;
    for (int i = 0; i < 20; i++) n_same += draw_once(&p, z, 1000) == draw_once(&p, z, 1000);
    assert_in_range(n_same, 0, 5);
}

static void test_large_vocabulary(void **state)
{
    (void)state;
    enum { N = 248320, N_TOKENS = 248077 };
    float *z = malloc(N * sizeof *z);
    assert_non_null(z);
    struct hg_rng rng = {5};
    for (int i = 0; i < N; i++) z[i] = hg_rng_normal(&rng) * 3;
    z[123456] = 30, z[200000] = 29, z[7] = 28.5f, z[N - 1] = 100;
    struct hg_sampling p = off;
    for (int kind = 0; kind < 5; kind++) {
        p = off;
        p.top_k = kind == 1 ? 3 : kind == 2 ? 100000 : 0;
        p.top_p = kind == 3 ? 0.9f : 1;
        p.min_p = kind == 4 ? 0.05f : 0;
        struct hg_sampler *s = make(&p, N, N_TOKENS);
        int n_best = 0;
        for (int i = 0; i < 50; i++) {
            hg_tok id = hg_sampler_draw(s, z);
            n_best += id == 123456 || id == 200000 || id == 7;
            hg_sampler_see_output(s, id);
        }
        assert_int_equal(n_best, 50);
        hg_sampler_free(s);
    }
    for (int i = 0; i < N; i++) z[i] = 1; /* all tie: any may come, at top-k too */
    p = off, p.top_k = 5;
    assert_in_range(draw_once(&p, z, N), 0, N - 1);
    p = off, p.top_p = 0.999f;
    assert_in_range(draw_once(&p, z, N), 0, N - 1);
    free(z);
}

static void test_errors(void **state)
{
    (void)state;
    struct hg_logit_bias outside = {10, 1}, negative = {-1, 1}, nan_bias = {0, NAN};
    struct hg_sampling p[13];
    for (int i = 0; i < 13; i++) p[i] = off;
    p[0].temperature = -0.5f;
    p[1].temperature = NAN;
    p[2].top_k = -1;
    p[3].top_p = 0;
    p[4].top_p = 1.5f;
    p[5].min_p = -1;
    p[6].repetition_penalty = 0;
    p[7].presence_penalty = INFINITY;
    p[8].frequency_penalty = NAN;
    p[9].bias = &outside, p[9].n_bias = 1;
    p[10].bias = &negative, p[10].n_bias = 1;
    p[11].bias = &nan_bias, p[11].n_bias = 1;
    p[12].n_bias = 2;
    static const char *const want[] = {
        "temperature: -0.5, must be 0 or more",
        "temperature: nan, must be 0 or more",
        "top_k: -1, must be 0 (off) or more",
        "top_p: 0, must be in (0, 1]",
        "top_p: 1.5, must be in (0, 1]",
        "min_p: -1, must be in [0, 1]",
        "repetition_penalty: 0, must be above 0",
        "presence_penalty: inf, must be a finite number",
        "frequency_penalty: nan, must be a finite number",
        "logit_bias: token 10, must be in 0..9",
        "logit_bias: token -1, must be in 0..9",
        "logit_bias of token 0: nan, must be a finite number",
        "logit_bias: 2 entries without a list",
    };
    for (int i = 0; i < 13; i++) {
        struct hg_err err = {0};
        struct hg_sampler *s;
        assert_int_equal(hg_sampler_create(&p[i], 10, 10, &s, &err), HG_EINVAL);
        assert_null(s);
        assert_string_equal(err.text, want[i]);
    }
    struct hg_sampler *s;
    assert_int_equal(hg_sampler_create(&off, 10, 11, &s, NULL), HG_EINVAL);
    assert_int_equal(hg_sampler_create(&off, 0, 0, &s, NULL), HG_EINVAL);
    hg_sampler_free(NULL);
}

/* ------------------------------------------------------------------------------- logprobs -- */

static void test_logprobs(void **state)
{
    (void)state;
    static const float z[] = {1, 3, NAN, 2, 3, -INFINITY};
    double sum = exp(1) + 2 * exp(3) + exp(2);
    hg_tok ids[6];
    float lp[6], drawn;
    hg_logprobs(z, 6, 3, &drawn, 6, ids, lp);
    assert_true(fabs((double)drawn - log(exp(2) / sum)) < 1e-6);
    static const hg_tok want[] = {1, 4, 3, 0, -1, -1};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ids[i], want[i]);
        if (want[i] >= 0)
            assert_true(fabs((double)lp[i] - ((double)z[want[i]] - log(sum))) < 1e-6);
        else
            assert_true(lp[i] == -INFINITY);
    }
    hg_logprobs(z, 6, 2, &drawn, 1, ids, lp);
    assert_true(drawn == -INFINITY && ids[0] == 1);
    hg_logprobs(z, 6, -1, &drawn, 0, NULL, NULL);
    assert_true(drawn == -INFINITY);
    static const float huge[] = {1e30f, INFINITY, 0, INFINITY};
    hg_logprobs(huge, 4, 1, &drawn, 3, ids, lp);
    assert_true(fabs((double)drawn - log(0.5)) < 1e-6);
    assert_true(ids[0] == 1 && ids[1] == 3 && ids[2] == 0 && lp[2] == -INFINITY);
    static const float nothing[] = {NAN, -INFINITY};
    hg_logprobs(nothing, 2, 0, &drawn, 2, ids, lp);
    assert_true(drawn == -INFINITY && ids[0] == -1 && lp[0] == -INFINITY);
}

static void test_logprobs_random(void **state)
{
    (void)state;
    uint64_t seed = 31;
    struct hg_rng rng = {seed};
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 300; round++) {
        static float z[MAX_V];
        static double key[MAX_V];
        static int order[MAX_V];
        int n = 1 + (int)hg_rng_below(&rng, round % 30 ? 50 : MAX_V), n_top = 20;
        double sum = 0, total = 0;
        for (int i = 0; i < n; i++) {
            z[i] = roundf(hg_rng_normal(&rng) * 40) / 8;
            key[i] = (double)z[i];
            order[i] = i;
            sum += exp(key[i]);
        }
        sort_key = key;
        qsort(order, (size_t)n, sizeof *order, by_key);
        hg_tok ids[20];
        float lp[20], drawn;
        for (int i = 0; i < n; i++) {
            hg_logprobs(z, n, i, &drawn, i ? 0 : n_top, ids, lp);
            assert_true(fabs((double)drawn - (key[i] - log(sum))) < 1e-5);
            total += exp((double)drawn);
            if (i == 64) break;
        }
        if (n <= 64) assert_true(fabs(total - 1) < 1e-5);
        for (int i = 0; i < n_top; i++) assert_int_equal(ids[i], i < n ? order[i] : -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chi_square),        cmocka_unit_test(test_streams_are_independent),
        cmocka_unit_test(test_against_reference), cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_non_finite),        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_n_tokens),          cmocka_unit_test(test_bias),
        cmocka_unit_test(test_penalties),         cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_large_vocabulary),  cmocka_unit_test(test_errors),
        cmocka_unit_test(test_logprobs),          cmocka_unit_test(test_logprobs_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
