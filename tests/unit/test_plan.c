/* hg_plan_build on trees made by hand, and every rule that it checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "backend/plan.h"

enum { MAX_ROWS = 80, MAX_SEQS = 3, VOCAB = 100 };

static struct hg_plan *plan;
static struct hg_err err;
/* Page tables out of order; position 64 of sequence 0 is the first of page 2. */
static const int32_t pages0[] = {5, 2, 9}, pages1[] = {7, 0};

static int setup(void **state)
{
    (void)state;
    err.text[0] = 0;
    return hg_plan_create(MAX_ROWS, MAX_SEQS, &plan, &err);
}

static int teardown(void **state)
{
    (void)state;
    hg_plan_free(plan);
    return 0;
}

static enum hg_status build(enum hg_step_kind kind, const struct hg_row *rows, int32_t n_rows,
                            int32_t past0, int32_t past1, int32_t n_seqs)
{
    struct hg_plan_input in[2] = {{past0, 4, pages0, 3}, {past1, 6, pages1, 2}};
    return hg_plan_build(plan, kind, rows, n_rows, in, n_seqs, VOCAB, &err);
}

static void builds(enum hg_step_kind kind, const struct hg_row *rows, int32_t n_rows, int32_t past0,
                   int32_t past1, int32_t n_seqs)
{
    if (build(kind, rows, n_rows, past0, past1, n_seqs)) fail_msg("%s", err.text);
}

static void assert_ints(const char *what, const int32_t *got, const int32_t *want, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("%s[%d] is %d, expected %d", what, i, got[i], want[i]);
}

static void test_chain(void **state)
{
    (void)state;
    const struct hg_row rows[] = {
        {11, 0, 62, -1, 0}, {12, 0, 63, 0, 1}, {13, 0, 64, 1, 0}, {14, 0, 65, 2, 1}};
    builds(HG_EXTEND, rows, 4, 62, 0, 1);
    assert_int_equal(plan->kind, HG_EXTEND);
    assert_int_equal(plan->n_rows, 4);
    assert_int_equal(plan->n_seqs, 1);
    const struct hg_plan_seq *s = &plan->seq[0];
    assert_true(s->chain && s->row0 == 0 && s->n_rows == 4 && s->n_past == 62 && s->slot == 4);
    assert_ptr_equal(s->pages, pages0);
    assert_ints("tok", plan->tok, (const int32_t[]){11, 12, 13, 14}, 4);
    assert_ints("pos", plan->pos, (const int32_t[]){62, 63, 64, 65}, 4);
    assert_ints("parent", plan->parent, (const int32_t[]){-1, 0, 1, 2}, 4);
    assert_ints("row_seq", plan->row_seq, (const int32_t[]){0, 0, 0, 0}, 4);
    assert_ints("kv_slot", plan->kv_slot, (const int32_t[]){382, 383, 128, 129}, 4);
    /* inputs t-3, t-2, t-1; -1-j is column j of the window, 2 = the latest */
    const int32_t conv[] = {-1, -2, -3, -2, -3, 0, -3, 0, 1, 0, 1, 2};
    assert_ints("conv_src", plan->conv_src, conv, 12);
    assert_int_equal(plan->n_want, 2);
    assert_ints("want", plan->want, (const int32_t[]){1, 3}, 2);
    assert_int_equal(hg_plan_slot(plan, s, 3, 0), 5 * 64);
    assert_int_equal(hg_plan_slot(plan, s, 3, 61), 5 * 64 + 61);
    assert_int_equal(hg_plan_slot(plan, s, 3, 64), 2 * 64);
    assert_int_equal(hg_plan_slot(plan, s, 3, 65), 2 * 64 + 1);
}

/* Two roots, and row numbers that are no depth-first order:
 *      0      4
 *     / \
 *    1   2
 *       / \
 *      3   5
 *      |
 *      6        */
static const struct hg_row forest[] = {{1, 0, 62, -1, 0}, {2, 0, 63, 0, 0},  {3, 0, 63, 0, 1},
                                       {4, 0, 64, 2, 0},  {5, 0, 62, -1, 1}, {6, 0, 64, 2, 0},
                                       {7, 0, 65, 3, 1}};

static void test_forest(void **state)
{
    (void)state;
    builds(HG_VERIFY, forest, 7, 62, 0, 1);
    const struct hg_plan_seq *s = &plan->seq[0];
    assert_false(s->chain);
    /* scratch slots in row order behind the 62 committed tokens, over the edge of the page */
    const int32_t slots[] = {382, 383, 128, 129, 130, 131, 132};
    assert_ints("kv_slot", plan->kv_slot, slots, 7);
    const int32_t conv[] = {-1, -2, -3, /* 0 */ -2, -3, 0,  /* 1 */ -2, -3, 0, /* 2 */
                            -3, 0,  2,  /* 3 */ -1, -2, -3, /* 4 */ -3, 0,  2, /* 5 */
                            0,  2,  3 /* 6 */};
    assert_ints("conv_src", plan->conv_src, conv, 21);
    assert_ints("path of 4", plan->path + 4 * HG_TREE_ROWS, (const int32_t[]){4}, 1);
    assert_ints("path of 5", plan->path + 5 * HG_TREE_ROWS, (const int32_t[]){0, 2, 5}, 3);
    assert_ints("path of 6", plan->path + 6 * HG_TREE_ROWS, (const int32_t[]){0, 2, 3, 6}, 4);
    /* what a row sees at each position: its ancestors' slots, then the committed ones below */
    const int32_t seen[] = {382, 128, 129, 132};
    for (int32_t q = 62; q < 66; q++) assert_int_equal(hg_plan_slot(plan, s, 6, q), seen[q - 62]);
    assert_int_equal(hg_plan_slot(plan, s, 6, 61), 5 * 64 + 61);
    assert_int_equal(hg_plan_slot(plan, s, 4, 62), 130);
    assert_ints("want", plan->want, (const int32_t[]){2, 4, 6}, 3);
}

/* A chain in a VERIFY step needs no paths; its scratch slots are its positions. */
static void test_verify_chain(void **state)
{
    (void)state;
    const struct hg_row rows[] = {{1, 0, 127, -1, 0}, {2, 0, 128, 0, 0}};
    builds(HG_VERIFY, rows, 2, 127, 0, 1);
    assert_true(plan->seq[0].chain);
    assert_int_equal(hg_plan_slot(plan, &plan->seq[0], 1, 127), 2 * 64 + 63);
    assert_int_equal(hg_plan_slot(plan, &plan->seq[0], 1, 128), 9 * 64);
}

/* Rows of sequence 1 come first, indices of parents and paths are the step's. */
static void test_two_sequences(void **state)
{
    (void)state;
    const struct hg_row rows[] = {
        {1, 1, 0, -1, 0}, {2, 1, 0, -1, 0}, {3, 1, 1, 1, 0}, {4, 0, 10, -1, 0}, {5, 0, 11, 3, 1}};
    builds(HG_VERIFY, rows, 5, 10, 0, 2);
    assert_true(plan->seq[0].chain && plan->seq[0].row0 == 3 && plan->seq[0].n_rows == 2);
    assert_true(!plan->seq[1].chain && plan->seq[1].row0 == 0 && plan->seq[1].n_rows == 3);
    assert_ints("row_seq", plan->row_seq, (const int32_t[]){1, 1, 1, 0, 0}, 5);
    assert_ints("kv_slot", plan->kv_slot, (const int32_t[]){448, 449, 450, 330, 331}, 5);
    assert_ints("path of 2", plan->path + 2 * HG_TREE_ROWS, (const int32_t[]){1, 2}, 2);
    const int32_t conv[] = {-1, -2, -3, -1, -2, -3, -2, -3, 1, -1, -2, -3, -2, -3, 3};
    assert_ints("conv_src", plan->conv_src, conv, 15);
}

/* A plan holds nothing of the one before it, also after one that was refused. */
static void test_again(void **state)
{
    (void)state;
    builds(HG_VERIFY, forest, 7, 62, 0, 1);
    assert_int_equal(build(HG_EXTEND, forest, 7, 62, 0, 1), HG_EINVAL);
    const struct hg_row row = {9, 0, 0, -1, 1};
    builds(HG_EXTEND, &row, 1, 0, 0, 1);
    assert_true(plan->n_rows == 1 && plan->n_want == 1 && plan->seq[0].chain);
    assert_int_equal(plan->seq[0].n_rows, 1);
    assert_int_equal(plan->kv_slot[0], 320);
}

static void fails(enum hg_step_kind kind, const struct hg_row *rows, int32_t n_rows, int32_t past0,
                  int32_t n_seqs, const char *says)
{
    err = (struct hg_err){0};
    assert_int_equal(build(kind, rows, n_rows, past0, 0, n_seqs), HG_EINVAL);
    assert_int_equal(err.status, HG_EINVAL);
    if (!strstr(err.text, says)) fail_msg("error \"%s\" lacks \"%s\"", err.text, says);
    assert_int_equal(build(kind, rows, n_rows, past0, 0, n_seqs), HG_EINVAL);
}

static void chain(struct hg_row *rows, int32_t n, int32_t past)
{
    for (int32_t i = 0; i < n; i++) rows[i] = (struct hg_row){1, 0, past + i, i - 1, 0};
}

static void test_rules(void **state)
{
    (void)state;
    struct hg_row rows[MAX_ROWS + 1], bad[3];
    chain(rows, MAX_ROWS + 1, 0);
    fails(HG_EXTEND, rows, 0, 0, 1, "step of 0 rows, allowed are 1 to 80");
    fails(HG_EXTEND, rows, -1, 0, 1, "step of -1 rows");
    fails(HG_EXTEND, rows, MAX_ROWS + 1, 0, 1, "step of 81 rows, allowed are 1 to 80");
    fails(HG_EXTEND, rows, 1, 0, 0, "step of 0 sequences, allowed are 1 to 3");
    fails(HG_EXTEND, rows, 1, 0, MAX_SEQS + 1, "step of 4 sequences");
    builds(HG_EXTEND, rows, MAX_ROWS, 0, 0, 1);

    fails(HG_VERIFY, rows, HG_TREE_ROWS + 1, 0, 1, "sequence 0: tree of 65 rows, at most 64");
    builds(HG_VERIFY, rows, HG_TREE_ROWS, 0, 0, 1);

    chain(rows, MAX_ROWS, 113);
    fails(HG_EXTEND, rows, MAX_ROWS, 113, 1, "sequence 0: 193 positions in 3 pages");
    builds(HG_EXTEND, rows, MAX_ROWS - 1, 113, 0, 1);
    chain(rows, 1, INT32_MAX);
    fails(HG_EXTEND, rows, 1, INT32_MAX, 1, "sequence 0: 2147483648 positions in 3 pages");
    chain(rows, 1, -1);
    fails(HG_EXTEND, rows, 1, -1, 1, "sequence 0: -1 committed tokens");

    chain(rows, 3, 7);
#define SPOILT(i, field, value)                                                                    \
    (memcpy(bad, rows, sizeof bad), bad[i].field = (value), (const struct hg_row *)bad)
    fails(HG_EXTEND, SPOILT(1, seq, 2), 3, 7, 2, "row 1: sequence 2 of 2");
    fails(HG_EXTEND, SPOILT(1, seq, -1), 3, 7, 2, "row 1: sequence -1 of 2");
    fails(HG_EXTEND, SPOILT(1, seq, 1), 3, 7, 2, "row 2: rows of sequence 0 are not contiguous");
    fails(HG_EXTEND, SPOILT(2, token, VOCAB), 3, 7, 1, "row 2: token 100 outside the vocabulary");
    fails(HG_EXTEND, SPOILT(0, token, -1), 3, 7, 1, "row 0: token -1 outside");
    fails(HG_EXTEND, SPOILT(1, parent, 1), 3, 7, 1, "row 1: parent 1 is no earlier row");
    fails(HG_EXTEND, SPOILT(1, parent, 2), 3, 7, 1, "row 1: parent 2 is no earlier row");
    fails(HG_EXTEND, SPOILT(1, parent, -2), 3, 7, 1, "row 1: parent -2 is no earlier row");
    fails(HG_EXTEND, SPOILT(0, pos, 8), 3, 7, 1, "row 0: position 8, its parent's gives 7");
    fails(HG_EXTEND, SPOILT(2, pos, 8), 3, 7, 1, "row 2: position 8, its parent's gives 9");
    fails(HG_VERIFY, SPOILT(2, parent, 0), 3, 7, 1, "row 2: position 9, its parent's gives 8");
    const struct hg_row fork[] = {{1, 0, 7, -1, 0}, {1, 0, 8, 0, 0}, {1, 0, 8, 0, 0}};
    fails(HG_EXTEND, fork, 3, 7, 1, "sequence 0: an EXTEND step needs a chain");
    builds(HG_VERIFY, fork, 3, 7, 0, 1);
    const struct hg_row two[] = {{1, 0, 7, -1, 0}, {1, 1, 0, -1, 0}, {1, 1, 8, 0, 0}};
    fails(HG_VERIFY, two, 3, 7, 2, "row 2: parent 0 is no earlier row of its sequence");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_chain),         TEST(test_forest), TEST(test_verify_chain),
        TEST(test_two_sequences), TEST(test_again),  TEST(test_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
