/* Equalities of the forward pass over random models, on every device: a prompt cut into steps in
 * any way, sequences together or alone, threads, snapshots, devices, KV formats.
 *
 * "Equal" is bit by bit (see fix_same) on every device but ref:chunked, whose chunked sums are
 * held to FIX_BOUND. Usage: test_model [SEED]; cases are numbered from the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../lib/model_fixture.h"

#if defined(__SANITIZE_ADDRESS__)
enum { MANY = 1 }; /* cases per device are multiples of this */
#else
enum { MANY = 3 };
#endif

static uint64_t base_seed = 20250;
static float logits[2][(FIX_SEQ_PAGES * HG_PAGE_TOKENS) * 80];
static hg_tok tok[FIX_SEQ_PAGES * HG_PAGE_TOKENS];

/* Lengths that meet the edges of pages and chunks, and others. */
static int32_t some_length(struct hg_rng *rng)
{
    static const int32_t edges[] = {1, 2, 3, 4, 63, 64, 65, 127, 128, 129, 192};
    if (hg_rng_below(rng, 3)) return edges[hg_rng_below(rng, sizeof edges / sizeof *edges)];
    return 1 + (int32_t)hg_rng_below(rng, 150);
}

static enum hg_format some_format(struct hg_rng *rng)
{
    return (enum hg_format)hg_rng_below(rng, HG_N_FORMATS);
}

static enum hg_kv some_kv(struct hg_rng *rng)
{
    static const enum hg_kv all[] = {HG_KV_F32, HG_KV_BF16, HG_KV_FP8};
    return all[hg_rng_below(rng, 3)];
}

static void open_random(struct fix_model *t, struct hg_rng *rng, uint64_t seed, const char *device)
{
    struct hg_config c;
    enum hg_format format = some_format(rng);
    enum hg_kv kv = some_kv(rng);
    fix_config(rng, format, &c);
    /* roundings that differ would here and there grow to a whole step of a small format */
    if (strcmp(device, "ref:chunked") == 0) kv = HG_KV_F32;
    fix_open(t, &c, format, kv, seed, device, 0);
}

static void for_each_case(int32_t n, void (*run)(uint64_t seed, const char *device))
{
    char device[64];
    for (int32_t i = 0; fix_device(&i, device);)
        for (int32_t k = 0; k < n; k++) run(base_seed + (uint64_t)k, device);
}

/* Tokens one by one = in steps of any sizes: logits of every row, state, window, pages. */
static void splits(struct fix_model *t, struct hg_rng *rng, int32_t n)
{
    struct fix_seq a, b;
    size_t vocab = (size_t)t->m->cfg.n_vocab;
    int32_t most[] = {FIX_ROWS, HG_PAGE_TOKENS, 7, n};
    fix_tokens(rng, &t->m->cfg, tok, n);
    fix_begin(t, &a, 0);
    fix_extend(t, &a, tok, n, NULL, 1, logits[0]);
    for (int32_t i = 0; i < 4; i++) {
        char what[64];
        snprintf(what, sizeof what, "%d tokens in %s %d", n, i < 2 ? "steps of" : "random steps to",
                 most[i]);
        fix_begin(t, &b, 1 + i);
        fix_extend(t, &b, tok, n, i < 2 ? NULL : rng, most[i] > FIX_ROWS ? FIX_ROWS : most[i],
                   logits[1]);
        fix_same(t, what, logits[1], logits[0], (size_t)n * vocab);
        fix_same_seq(t, &b, t, &a, what);
    }
}

static void splits_case(uint64_t seed, const char *device)
{
    struct hg_rng rng = {seed};
    struct fix_model t;
    open_random(&t, &rng, seed, device);
    splits(&t, &rng, some_length(&rng));
    fix_close(&t);
}

static void test_splits(void **state)
{
    (void)state;
    for_each_case(8 * MANY, splits_case);
}

/* Past 512 and 1024 positions, where attention may be cut into segments. */
static void test_long(void **state)
{
    (void)state;
    char device[64];
    for (int32_t i = 0; fix_device(&i, device);) {
        struct hg_rng rng = {base_seed};
        struct fix_model t;
        struct hg_config c;
        bool slow = strncmp(device, "ref", 3) == 0 || MANY == 1;
        fix_config(&rng, HG_FMT_F32, &c);
        c.n_layers = 2;
        c.layer_kind[0] = HG_LAYER_GDN;
        c.layer_kind[1] = HG_LAYER_ATTN;
        c.n_kv_heads = 1;
        c.n_heads = slow ? 1 : 3;
        fix_open(&t, &c, HG_FMT_F32, HG_KV_F32, base_seed, device, 2);
        splits(&t, &rng, slow ? 530 : 1061);
        fix_close(&t);
    }
}

/* ------------------------------------------------------------- several sequences in one step -- */

struct company {
    struct fix_seq joint, alone;
    struct fix_tree tree;
    hg_tok tok[64];
    int32_t n;    /* rows in this step */
    int32_t row0; /* of them in the joint step */
    int32_t leaf; /* committed node of the tree, -1: rejected */
};

/* One joint step, then each of its sequences alone; logits of every row must be equal. */
static void company_round(struct fix_model *t, struct hg_rng *rng, struct company *s,
                          int32_t n_seqs)
{
    struct hg_row rows[FIX_ROWS];
    struct fix_seq *seqs[FIX_SEQS];
    size_t vocab = (size_t)t->m->cfg.n_vocab;
    enum hg_step_kind kind = hg_rng_below(rng, 2) ? HG_VERIFY : HG_EXTEND;
    int32_t n_rows = 0, first = (int32_t)hg_rng_below(rng, (uint32_t)n_seqs);
    for (int32_t i = 0; i < n_seqs; i++) seqs[i] = &s[i].joint;
    for (int32_t k = 0; k < n_seqs; k++) { /* rows in another order than the sequences */
        int32_t i = (first + k) % n_seqs;
        s[i].row0 = n_rows;
        s[i].n = 1 + (int32_t)hg_rng_below(rng, kind == HG_VERIFY      ? 16
                                                : hg_rng_below(rng, 2) ? 50
                                                                       : 2);
        fix_tokens(rng, &t->m->cfg, s[i].tok, s[i].n);
        fix_forest(rng, &t->m->cfg, s[i].n, &s[i].tree);
        n_rows = kind == HG_VERIFY ? fix_put_tree(rows, n_rows, i, &s[i].joint, &s[i].tree)
                                   : fix_put_chain(rows, n_rows, i, &s[i].joint, s[i].tok, s[i].n);
        s[i].leaf = (int32_t)hg_rng_below(rng, (uint32_t)s[i].n + 1) - 1;
    }
    memcpy(logits[0], fix_step(t, kind, rows, n_rows, seqs, n_seqs),
           (size_t)n_rows * vocab * sizeof *logits[0]);
    for (int32_t i = 0; kind == HG_VERIFY && i < n_seqs; i++)
        if (s[i].leaf >= 0) fix_commit(t, &s[i].joint, s[i].row0 + s[i].leaf);
    for (int32_t i = 0; i < n_seqs; i++) {
        struct fix_seq *alone = &s[i].alone;
        if (kind == HG_VERIFY)
            fix_put_tree(rows, 0, 0, alone, &s[i].tree);
        else
            fix_put_chain(rows, 0, 0, alone, s[i].tok, s[i].n);
        fix_same(t, "a sequence alone and among others", fix_step(t, kind, rows, s[i].n, &alone, 1),
                 logits[0] + (size_t)s[i].row0 * vocab, (size_t)s[i].n * vocab);
        if (kind == HG_VERIFY && s[i].leaf >= 0) fix_commit(t, alone, s[i].leaf);
        fix_same_seq(t, alone, t, &s[i].joint, "a sequence alone and among others");
    }
}

static void company_case(uint64_t seed, const char *device)
{
    struct hg_rng rng = {seed};
    struct fix_model t;
    struct company s[FIX_SEQS];
    int32_t n_seqs = 2 + (int32_t)hg_rng_below(&rng, FIX_SEQS - 1);
    open_random(&t, &rng, seed, device);
    t.exact = true; /* the same cut into steps: equal bits also from chunks */
    for (int32_t i = 0; i < n_seqs; i++) {
        int32_t n = hg_rng_below(&rng, 4) ? some_length(&rng) : 0;
        fix_tokens(&rng, &t.m->cfg, tok, n);
        fix_begin(&t, &s[i].joint, i);
        fix_begin(&t, &s[i].alone, FIX_SEQS + i);
        fix_extend(&t, &s[i].joint, tok, n, NULL, FIX_ROWS, NULL);
        fix_extend(&t, &s[i].alone, tok, n, NULL, FIX_ROWS, NULL);
    }
    for (int32_t round = 0; round < 5; round++) company_round(&t, &rng, s, n_seqs);
    fix_close(&t);
}

static void test_company(void **state)
{
    (void)state;
    for_each_case(4 * MANY, company_case);
}

/* A sequence that is named but has no rows stays as it is. */
static void idle_case(uint64_t seed, const char *device)
{
    struct hg_rng rng = {seed};
    struct fix_model t;
    struct fix_seq s[3], *all[] = {&s[0], &s[1], &s[2]};
    struct hg_row rows[FIX_ROWS];
    open_random(&t, &rng, seed, device);
    for (int32_t i = 0; i < 3; i++) {
        fix_tokens(&rng, &t.m->cfg, tok, 20);
        fix_begin(&t, &s[i], i);
        fix_extend(&t, &s[i], tok, 20, NULL, 20, NULL);
    }
    float *before = fix_state(&t, 1);
    fix_put_chain(rows, fix_put_chain(rows, 0, 2, &s[2], tok, 5), 0, &s[0], tok, 1);
    fix_step(&t, HG_EXTEND, rows, 6, all, 3);
    float *after = fix_state(&t, 1);
    fix_same(&t, "a sequence without rows", after, before, fix_state_n(&t));
    assert_int_equal(s[0].s.n_past, 21);
    assert_int_equal(s[1].s.n_past, 20);
    assert_int_equal(s[2].s.n_past, 25);
    free(before);
    free(after);
    fix_close(&t);
}

static void test_idle(void **state)
{
    (void)state;
    for_each_case(3, idle_case);
}

/* -------------------------------------------------------------------------------- snapshots -- */

/* A sequence of its own: prefix, then a future; the logits of the future. */
static void replay(struct fix_model *t, struct fix_seq *s, int32_t slot, int32_t prefix,
                   const hg_tok *future, int32_t n, float *out)
{
    fix_begin(t, s, slot);
    fix_extend(t, s, tok, prefix, NULL, FIX_ROWS, NULL);
    fix_extend(t, s, future, n, NULL, n, out);
}

/* Prefix, snapshot, one future, restore, another future = prefix and the other future; and a
 * reset slot is a fresh one. The second future overwrites the KV of the first. */
static void snapshot_case(uint64_t seed, const char *device)
{
    struct hg_rng rng = {seed};
    struct fix_model t;
    struct fix_seq a, b;
    hg_tok future[70];
    open_random(&t, &rng, seed, device);
    t.exact = true; /* the same cut into steps */
    int32_t prefix = some_length(&rng), n = 1 + (int32_t)hg_rng_below(&rng, 70);
    size_t n_logits = (size_t)n * (size_t)t.m->cfg.n_vocab;
    fix_tokens(&rng, &t.m->cfg, tok, prefix);
    fix_tokens(&rng, &t.m->cfg, future, n);
    replay(&t, &b, 1, prefix, future, n, logits[0]);

    fix_begin(&t, &a, 0);
    fix_extend(&t, &a, tok, prefix, NULL, FIX_ROWS, NULL);
    hg_slot_copy(t.m, 5, 0);
    fix_extend(&t, &a, tok, prefix, NULL, FIX_ROWS, NULL);
    hg_slot_copy(t.m, 0, 5);
    a.s.n_past = prefix;
    fix_extend(&t, &a, future, n, NULL, n, logits[1]);
    fix_same(&t, "logits after restore", logits[1], logits[0], n_logits);
    fix_same_seq(&t, &a, &t, &b, "restore and replay");

    hg_slot_reset(t.m, 0); /* the pages keep what they held: nothing of it may show */
    a.s.n_past = 0;
    fix_extend(&t, &a, tok, prefix, NULL, FIX_ROWS, NULL);
    fix_same_state(&t, 0, &t, 5, "reset");
    fix_extend(&t, &a, future, n, NULL, n, logits[1]);
    fix_same(&t, "logits after reset", logits[1], logits[0], n_logits);
    fix_close(&t);
}

static void test_snapshot(void **state)
{
    (void)state;
    for_each_case(4 * MANY, snapshot_case);
}

/* A sequence taken to another slot and other pages, by device copies or as images on the host,
 * goes on as the original does, which lies untouched. */
static void move_case(uint64_t seed, const char *device)
{
    struct hg_rng rng = {seed};
    struct fix_model t;
    struct fix_seq a, b;
    hg_tok future[70];
    open_random(&t, &rng, seed, device);
    t.exact = true;
    bool images = hg_rng_below(&rng, 2);
    int32_t prefix = some_length(&rng), n = 1 + (int32_t)hg_rng_below(&rng, 70);
    size_t n_logits = (size_t)n * (size_t)t.m->cfg.n_vocab;
    fix_tokens(&rng, &t.m->cfg, tok, prefix);
    fix_tokens(&rng, &t.m->cfg, future, n);
    fix_begin(&t, &a, 0);
    fix_extend(&t, &a, tok, prefix, NULL, FIX_ROWS, NULL);
    fix_begin(&t, &b, 1);
    b.s.n_past = prefix;
    uint8_t *image = malloc(t.m->slot_bytes + t.m->page_bytes);
    assert_non_null(image);
    if (images) {
        hg_slot_read(t.m, 0, image);
        hg_slot_write(t.m, 1, image);
    } else {
        hg_slot_copy(t.m, 1, 0);
    }
    for (int32_t p = 0; p * HG_PAGE_TOKENS < prefix; p++)
        if (images) {
            hg_page_read(t.m, a.pages[p], image);
            hg_page_write(t.m, b.pages[p], image);
        } else {
            hg_page_copy(t.m, b.pages[p], a.pages[p]);
        }
    free(image);
    fix_same_seq(&t, &a, &t, &b, images ? "moved by images" : "moved by copies");
    fix_extend(&t, &b, future, n, NULL, n, logits[1]);
    fix_extend(&t, &a, future, n, NULL, n, logits[0]);
    fix_same(&t, "logits after a move", logits[1], logits[0], n_logits);
    fix_same_seq(&t, &a, &t, &b, "after a move");
    fix_close(&t);
}

static void test_move(void **state)
{
    (void)state;
    for_each_case(4 * MANY, move_case);
}

/* ------------------------------------------------------------------- threads, devices, KV ----- */

static void threads_case(uint64_t seed, const char *device)
{
    struct fix_model t[2];
    struct fix_seq s[2];
    for (int32_t i = 0; i < 2; i++) {
        struct hg_rng rng = {seed};
        struct hg_config c;
        enum hg_format format = some_format(&rng);
        fix_config(&rng, format, &c);
        fix_open(&t[i], &c, format, HG_KV_BF16, seed, device, 1 + 2 * i);
        t[i].exact = true;
        fix_tokens(&rng, &c, tok, 130);
        fix_begin(&t[i], &s[i], 0);
        fix_extend(&t[i], &s[i], tok, 130, &rng, 130, logits[i]);
    }
    fix_same(&t[1], "one thread and three", logits[1], logits[0],
             130 * (size_t)t[0].m->cfg.n_vocab);
    fix_same_seq(&t[1], &s[1], &t[0], &s[0], "one thread and three");
    for (int32_t i = 0; i < 2; i++) fix_close(&t[i]);
}

static void test_threads(void **state)
{
    (void)state;
    char device[64];
    for (int32_t i = 0; fix_device(&i, device);)
        for (uint64_t k = 0; strncmp(device, "cpu", 3) == 0 && k < 3; k++)
            threads_case(base_seed + k, device);
}

/* Prefill and a tree on one device: logits of all rows; the state is left in slot 0. */
static size_t play(struct fix_model *t, uint64_t seed, float *out)
{
    struct hg_rng rng = {seed};
    struct hg_row rows[FIX_ROWS];
    struct fix_seq s, *sp = &s;
    struct fix_tree tree;
    size_t vocab = (size_t)t->m->cfg.n_vocab;
    int32_t n = 60 + (int32_t)hg_rng_below(&rng, 70), m = 12;
    fix_tokens(&rng, &t->m->cfg, tok, n);
    fix_begin(t, &s, 0);
    fix_extend(t, &s, tok, n, &rng, n, out);
    fix_forest(&rng, &t->m->cfg, m, &tree);
    fix_put_tree(rows, 0, 0, &s, &tree);
    memcpy(out + (size_t)n * vocab, fix_step(t, HG_VERIFY, rows, m, &sp, 1),
           (size_t)m * vocab * sizeof *out);
    fix_commit(t, &s, m - 1);
    return (size_t)(n + m) * vocab;
}

/* Relative errors of rows, of many cases. */
struct errors {
    double e[40000];
    int32_t n;
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void add_errors(struct errors *all, const float *a, const float *b, size_t n, size_t vocab)
{
    for (size_t i = 0; i < n; i += vocab) {
        assert_true(all->n < (int32_t)(sizeof all->e / sizeof *all->e));
        all->e[all->n++] = fix_error(a + i, b + i, vocab);
    }
}

/* The bounds that a comparison states: half of the rows, 99 of 100 rows, every row. A tiny random
 * model has rows in which a head's output all but vanishes, and the norm behind it magnifies the
 * last bits; so the typical rows are held tightly and the worst ones loosely. */
struct bounds {
    double half, most, all;
};

static void check_errors(struct errors *all, const char *what, struct bounds b)
{
    qsort(all->e, (size_t)all->n, sizeof *all->e, by_size);
    double half = all->e[all->n / 2], most = all->e[all->n * 99 / 100], worst = all->e[all->n - 1];
    print_message(
        "%s: error of %d rows: half %.2g, 99%% %.2g, worst %.2g (bounds %.2g %.2g %.2g)\n", what,
        all->n, half, most, worst, b.half, b.most, b.all);
    assert_true(half <= b.half && most <= b.most && worst <= b.all);
    all->n = 0;
}

static const struct {
    enum hg_kv kv;
    const char *name;
    struct bounds ref;    /* another device against ref, same KV */
    struct bounds format; /* against F32 KV, same device */
} kvs[] = {
    {HG_KV_F32, "F32", {2e-5, 2e-4, 2e-2}, {0, 0, 0}},
    {HG_KV_BF16, "BF16", {2e-5, 2e-3, 0.1}, {0.02, 0.2, 1}},
    {HG_KV_FP8, "FP8", {2e-5, 2e-2, 0.5}, {0.2, 1, 2}},
};

/* One case on a device and, first, on ref: errors of every row; the states must agree, too. */
static void compare_devices(uint64_t seed, const char *device, int32_t kv, struct errors *errors)
{
    struct hg_rng rng = {seed};
    struct hg_config c;
    struct fix_model t[2];
    float *s[2];
    size_t n = 0;
    enum hg_format format = some_format(&rng);
    fix_config(&rng, format, &c);
    for (int32_t i = 0; i < 2; i++) {
        fix_open(&t[i], &c, format, kvs[kv].kv, seed, i ? device : "ref", 0);
        n = play(&t[i], seed, logits[i]);
        s[i] = fix_state(&t[i], 0);
    }
    add_errors(errors, logits[1], logits[0], n, (size_t)c.n_vocab);
    double e = fix_error(s[1], s[0], fix_state_n(&t[0]));
    if (kvs[kv].kv == HG_KV_F32 && !(e <= 2e-4)) fail_msg("%s\nstate off ref by %g", t[1].about, e);
    for (int32_t i = 0; i < 2; i++) {
        free(s[i]);
        fix_close(&t[i]);
    }
}

static void test_devices(void **state)
{
    (void)state;
    static struct errors errors;
    char device[64], what[128];
    for (int32_t i = 0; fix_device(&i, device);)
        for (int32_t kv = 0; strcmp(device, "ref") != 0 && kv < 3; kv++) {
            for (int32_t k = 0; k < 8 * MANY; k++)
                compare_devices(base_seed + (uint64_t)k, device, kv, &errors);
            snprintf(what, sizeof what, "%s against ref, KV %s", device, kvs[kv].name);
            check_errors(&errors, what, kvs[kv].ref);
        }
}

/* Small KV formats against F32 on the same device. */
static void compare_formats(uint64_t seed, const char *device, int32_t kv, struct errors *errors)
{
    struct hg_rng rng = {seed};
    struct hg_config c;
    struct fix_model t;
    size_t n = 0;
    fix_config(&rng, HG_FMT_BF16, &c);
    c.layer_kind[0] = HG_LAYER_ATTN;
    for (int32_t i = 0; i < 2; i++) {
        fix_open(&t, &c, HG_FMT_BF16, i ? kvs[kv].kv : HG_KV_F32, seed, device, 0);
        n = play(&t, seed, logits[i]);
        fix_close(&t);
    }
    add_errors(errors, logits[1], logits[0], n, (size_t)c.n_vocab);
}

static void test_kv_formats(void **state)
{
    (void)state;
    static struct errors errors;
    char device[64], what[128];
    for (int32_t i = 0; fix_device(&i, device);)
        for (int32_t kv = 1; kv < 3; kv++) {
            for (int32_t k = 0; k < 4 * MANY; k++)
                compare_formats(base_seed + (uint64_t)k, device, kv, &errors);
            snprintf(what, sizeof what, "%s, KV %s against F32", device, kvs[kv].name);
            check_errors(&errors, what, kvs[kv].format);
        }
}

int main(int argc, char **argv)
{
    if (argc > 1) base_seed = strtoull(argv[1], NULL, 0);
    print_message("seed %llu\n", (unsigned long long)base_seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits),     cmocka_unit_test(test_long),
        cmocka_unit_test(test_company),    cmocka_unit_test(test_idle),
        cmocka_unit_test(test_snapshot),   cmocka_unit_test(test_move),
        cmocka_unit_test(test_threads),    cmocka_unit_test(test_devices),
        cmocka_unit_test(test_kv_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
