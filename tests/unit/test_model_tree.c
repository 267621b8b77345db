/* Trees of rows (VERIFY) on every device: a tree is each of its root-to-leaf paths run as a
 * chain, and committing a path is extending by it (DESIGN I1, I2). Bit by bit but on ref:chunked;
 * see fix_same. Usage: test_model_tree [SEED]. */
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

enum { MAX_PREFIX = 1030 };

static uint64_t base_seed = 30250;
static float logits[2][256 * 80];
static hg_tok tok[MAX_PREFIX];

static void open_random(struct fix_model *t, struct hg_rng *rng, uint64_t seed, const char *device)
{
    static const enum hg_kv kvs[] = {HG_KV_F32, HG_KV_BF16, HG_KV_FP8};
    struct hg_config c;
    enum hg_format format = (enum hg_format)hg_rng_below(rng, HG_N_FORMATS);
    enum hg_kv kv = kvs[hg_rng_below(rng, 3)];
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

/* Prefixes after which a tree straddles the edge of a page, or does not. */
static int32_t some_prefix(struct hg_rng *rng)
{
    static const int32_t edges[] = {0, 1, 2, 3, 60, 63, 64, 65, 120, 127, 128, 129};
    if (hg_rng_below(rng, 3)) return edges[hg_rng_below(rng, sizeof edges / sizeof *edges)];
    return (int32_t)hg_rng_below(rng, 150);
}

static int32_t some_size(struct hg_rng *rng)
{
    uint32_t kind = hg_rng_below(rng, 6);
    return kind == 0 ? HG_TREE_ROWS : 1 + (int32_t)hg_rng_below(rng, kind < 3 ? 8 : 40);
}

/* Row `leaf`'s path as a chain from a copy of the state, on the sequence's own pages: the chain
 * overwrites the tree's scratch KV, which has been read. Logits of each row of the path. */
static void check_path(struct fix_model *t, const struct fix_seq *s, const struct fix_tree *tree,
                       int32_t leaf, const float *want)
{
    struct fix_seq copy = *s;
    int32_t path[HG_TREE_ROWS], n = fix_path(tree, leaf, path);
    hg_tok chain[HG_TREE_ROWS];
    size_t vocab = (size_t)t->m->cfg.n_vocab;
    char what[64];
    for (int32_t i = 0; i < n; i++) chain[i] = tree->tok[path[i]];
    copy.s.slot = FIX_SLOTS - 1;
    copy.s.pages = copy.pages;
    hg_slot_copy(t->m, copy.s.slot, s->s.slot);
    fix_extend(t, &copy, chain, n, NULL, n, logits[1]);
    for (int32_t i = 0; i < n; i++) {
        snprintf(what, sizeof what, "prefix %d, tree of %d, row %d at depth %d", s->s.n_past,
                 tree->n, path[i], i);
        fix_same(t, what, logits[1] + (size_t)i * vocab, want + (size_t)path[i] * vocab, vocab);
    }
}

/* A random tree after the sequence's tokens: all leaves (at most 6 of them) against chains, and
 * the state is what it was. */
static void check_tree(struct fix_model *t, struct hg_rng *rng, struct fix_seq *s)
{
    struct hg_row rows[HG_TREE_ROWS];
    struct fix_tree tree;
    bool has_child[HG_TREE_ROWS] = {false};
    int32_t n = some_size(rng), checked = 0;
    size_t n_state = fix_state_n(t);
    float *before = fix_state(t, s->s.slot);
    fix_forest(rng, &t->m->cfg, n, &tree);
    fix_put_tree(rows, 0, 0, s, &tree);
    memcpy(logits[0], fix_step(t, HG_VERIFY, rows, n, &s, 1),
           (size_t)n * (size_t)t->m->cfg.n_vocab * sizeof *logits[0]);
    for (int32_t i = 0; i < n; i++)
        if (tree.parent[i] >= 0) has_child[tree.parent[i]] = true;
    for (int32_t i = n - 1; i >= 0 && checked < 6; i--)
        if (!has_child[i]) {
            check_path(t, s, &tree, i, logits[0]);
            checked++;
        }
    float *after = fix_state(t, s->s.slot);
    if (memcmp(before, after, n_state * sizeof *after) != 0)
        fail_msg("%s\na VERIFY step changed the state", t->about);
    free(before);
    free(after);
}

static void tree_case(uint64_t seed, const char *device)
{
    struct hg_rng rng = {seed};
    struct fix_model t;
    struct fix_seq s;
    open_random(&t, &rng, seed, device);
    int32_t n = some_prefix(&rng);
    fix_tokens(&rng, &t.m->cfg, tok, n);
    fix_begin(&t, &s, 0);
    fix_extend(&t, &s, tok, n, NULL, FIX_ROWS, NULL);
    for (int32_t i = 0; i < 3; i++) check_tree(&t, &rng, &s);
    fix_close(&t);
}

static void test_tree(void **state)
{
    (void)state;
    for_each_case(8 * MANY, tree_case);
}

/* Trees that straddle 512 and 1024 positions, where attention may be cut into segments. */
static void test_far_tree(void **state)
{
    (void)state;
    static const int32_t prefix[] = {500, 511, 512, 1018, MAX_PREFIX};
    char device[64];
    for (int32_t i = 0; fix_device(&i, device);) {
        struct hg_rng rng = {base_seed};
        struct hg_config c;
        struct fix_model t;
        struct fix_seq s;
        bool slow = strncmp(device, "ref", 3) == 0 || MANY == 1;
        fix_config(&rng, HG_FMT_F32, &c);
        c.n_layers = 2;
        c.layer_kind[0] = HG_LAYER_ATTN;
        c.layer_kind[1] = HG_LAYER_GDN;
        c.n_kv_heads = 1;
        c.n_heads = slow ? 1 : 3;
        fix_open(&t, &c, HG_FMT_F32, HG_KV_F32, base_seed, device, 2);
        fix_tokens(&rng, &c, tok, MAX_PREFIX);
        fix_begin(&t, &s, 0);
        for (int32_t k = 0; k < (slow ? 2 : 5); k++) {
            fix_extend(&t, &s, tok + s.s.n_past, prefix[k] - s.s.n_past, NULL, FIX_ROWS, NULL);
            check_tree(&t, &rng, &s);
        }
        fix_close(&t);
    }
}

/* ----------------------------------------------------------------------------------- commit -- */

/* One round: VERIFY on `a`, then commit one of its rows and extend `b` by the same tokens; or
 * reject, and nothing has changed. */
static void commit_round(struct fix_model *t, struct hg_rng *rng, struct fix_seq *a,
                         struct fix_seq *b)
{
    struct hg_row rows[HG_TREE_ROWS];
    struct fix_tree tree;
    hg_tok chain[HG_TREE_ROWS];
    int32_t path[HG_TREE_ROWS], n = some_size(rng);
    char what[64];
    fix_forest(rng, &t->m->cfg, n, &tree);
    fix_put_tree(rows, 0, 0, a, &tree);
    for (int32_t i = 0; i < n; i++) rows[i].want = hg_rng_below(rng, 2) == 0; /* may be none */
    fix_step(t, HG_VERIFY, rows, n, &a, 1);
    snprintf(what, sizeof what, "tree of %d at %d, rejected", n, a->s.n_past);
    if (hg_rng_below(rng, 4)) {
        int32_t leaf = hg_rng_below(rng, 3) ? (int32_t)hg_rng_below(rng, (uint32_t)n) : n - 1;
        int32_t m = fix_path(&tree, leaf, path);
        for (int32_t i = 0; i < m; i++) chain[i] = tree.tok[path[i]];
        snprintf(what, sizeof what, "tree of %d at %d, commit of row %d", n, a->s.n_past, leaf);
        fix_commit(t, a, leaf);
        fix_extend(t, b, chain, m, NULL, m, NULL);
    }
    fix_same_seq(t, a, t, b, what);
}

/* Both go on by the same tokens to the end of the page after this one: logits, and the bytes of
 * the pages, now complete, with all that commits had put there. */
static void go_on(struct fix_model *t, struct hg_rng *rng, struct fix_seq *a, struct fix_seq *b)
{
    int32_t n = 2 * HG_PAGE_TOKENS - a->s.n_past % HG_PAGE_TOKENS;
    fix_tokens(rng, &t->m->cfg, tok, n);
    fix_extend(t, a, tok, n, NULL, n, logits[0]);
    fix_extend(t, b, tok, n, NULL, n, logits[1]);
    fix_same(t, "logits after commits", logits[0], logits[1],
             (size_t)n * (size_t)t->m->cfg.n_vocab);
    fix_same_seq(t, a, t, b, "after commits");
}

static void commit_case(uint64_t seed, const char *device)
{
    struct hg_rng rng = {seed};
    struct fix_model t;
    struct fix_seq a, b;
    open_random(&t, &rng, seed, device);
    int32_t n = some_prefix(&rng);
    fix_tokens(&rng, &t.m->cfg, tok, n);
    fix_begin(&t, &a, 0);
    fix_begin(&t, &b, 1);
    fix_extend(&t, &a, tok, n, NULL, FIX_ROWS, NULL);
    fix_extend(&t, &b, tok, n, NULL, FIX_ROWS, NULL);
    for (int32_t i = 0; i < 6; i++) commit_round(&t, &rng, &a, &b);
    go_on(&t, &rng, &a, &b);
    for (int32_t i = 0; i < 3; i++) commit_round(&t, &rng, &a, &b);
    go_on(&t, &rng, &a, &b);
    fix_close(&t);
}

static void test_commit(void **state)
{
    (void)state;
    for_each_case(8 * MANY, commit_case);
}

/* Token by token, the slowest speculation there is: every round commits the root. */
static void single_case(uint64_t seed, const char *device)
{
    struct hg_rng rng = {seed};
    struct fix_model t;
    struct fix_seq a, b, *ap = &a;
    open_random(&t, &rng, seed, device);
    int32_t n = 70;
    size_t vocab = (size_t)t.m->cfg.n_vocab;
    fix_tokens(&rng, &t.m->cfg, tok, n);
    fix_begin(&t, &a, 0);
    fix_begin(&t, &b, 1);
    for (int32_t i = 0; i < n; i++) {
        struct hg_row row;
        fix_put_chain(&row, 0, 0, &a, tok + i, 1);
        memcpy(logits[0] + (size_t)i * vocab, fix_step(&t, HG_VERIFY, &row, 1, &ap, 1),
               vocab * sizeof *logits[0]);
        fix_commit(&t, &a, 0);
    }
    fix_extend(&t, &b, tok, n, NULL, n, logits[1]);
    fix_same(&t, "committed one by one", logits[0], logits[1], (size_t)n * vocab);
    fix_same_seq(&t, &a, &t, &b, "committed one by one");
    fix_close(&t);
}

static void test_single(void **state)
{
    (void)state;
    for_each_case(2 * MANY, single_case);
}

int main(int argc, char **argv)
{
    if (argc > 1) base_seed = strtoull(argv[1], NULL, 0);
    print_message("seed %llu\n", (unsigned long long)base_seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_far_tree),
        cmocka_unit_test(test_commit),
        cmocka_unit_test(test_single),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
