/* Steps and commits that must be refused, on every device: the error says why, and the sequences,
 * their state and their pages are what they were. The rules of rows are in test_plan.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../lib/model_fixture.h"

enum { PAST = 130 };

/* A model with two sequences of PAST tokens and what they hold. */
struct scene {
    struct fix_model t;
    struct fix_seq a, b;
    float *state[2];
    uint8_t *pages[2];
    size_t n_pages;
};

static void open_scene(struct scene *s, const char *device)
{
    struct hg_rng rng = {7};
    struct hg_config c;
    hg_tok tok[PAST];
    fix_config(&rng, HG_FMT_BF16, &c);
    c.n_layers = 3;
    c.layer_kind[0] = c.layer_kind[2] = HG_LAYER_GDN;
    c.layer_kind[1] = HG_LAYER_ATTN;
    fix_open(&s->t, &c, HG_FMT_BF16, HG_KV_BF16, 7, device, 1);
    fix_tokens(&rng, &c, tok, PAST);
    fix_begin(&s->t, &s->a, 0);
    fix_begin(&s->t, &s->b, 1);
    fix_extend(&s->t, &s->a, tok, PAST, NULL, PAST, NULL);
    fix_extend(&s->t, &s->b, tok, PAST, NULL, PAST, NULL);
    for (int32_t i = 0; i < 2; i++) {
        s->state[i] = fix_state(&s->t, i);
        s->pages[i] = fix_pages(&s->t, i ? &s->b : &s->a, &s->n_pages);
    }
}

static void check_untouched(struct scene *s)
{
    for (int32_t i = 0; i < 2; i++) {
        const struct fix_seq *seq = i ? &s->b : &s->a;
        assert_int_equal(seq->s.n_past, PAST);
        float *state = fix_state(&s->t, i);
        uint8_t *pages = fix_pages(&s->t, seq, &s->n_pages);
        assert_memory_equal(state, s->state[i], fix_state_n(&s->t) * sizeof *state);
        assert_memory_equal(pages, s->pages[i], s->n_pages);
        free(state);
        free(pages);
    }
}

static void close_scene(struct scene *s)
{
    for (int32_t i = 0; i < 2; i++) {
        free(s->state[i]);
        free(s->pages[i]);
    }
    fix_close(&s->t);
}

static void refused(struct scene *s, enum hg_step_kind kind, const struct hg_row *rows,
                    int32_t n_rows, int32_t n_seqs, const char *says)
{
    struct hg_err err = {0};
    struct hg_step_out out;
    struct hg_seq *seqs[FIX_SEQS + 1] = {&s->a.s, &s->b.s, &s->b.s, &s->b.s, &s->b.s};
    int32_t slot = s->a.s.slot, page = s->a.pages[0];
    assert_int_equal(hg_step(s->t.m, kind, rows, n_rows, seqs, n_seqs, &out, &err), HG_EINVAL);
    if (!strstr(err.text, says)) fail_msg("error \"%s\" lacks \"%s\"", err.text, says);
    assert_true(s->a.s.slot == slot && s->a.pages[0] == page);
}

static void refuse_commit(struct scene *s, struct fix_seq *seq, int32_t leaf, const char *says)
{
    struct hg_err err = {0};
    assert_int_equal(hg_commit(s->t.m, &seq->s, leaf, &err), HG_EINVAL);
    if (!strstr(err.text, says)) fail_msg("error \"%s\" lacks \"%s\"", err.text, says);
}

static void steps(struct scene *s)
{
    struct hg_row rows[FIX_ROWS + 1];
    hg_tok tok[FIX_ROWS + 1] = {0};
    int32_t n = fix_put_chain(rows, 0, 0, &s->a, tok, FIX_ROWS + 1);
    refused(s, HG_EXTEND, rows, 1, 0, "step of 0 sequences, allowed are 1 to 4");
    refused(s, HG_EXTEND, rows, 1, FIX_SEQS + 1, "step of 5 sequences, allowed are 1 to 4");
    refused(s, HG_EXTEND, rows, 0, 1, "step of 0 rows, allowed are 1 to 256");
    refused(s, HG_EXTEND, rows, n, 1, "step of 257 rows, allowed are 1 to 256");
    refused(s, HG_VERIFY, rows, HG_TREE_ROWS + 1, 1, "VERIFY step of 65 rows, at most 64");
    refused(s, HG_EXTEND, rows, 3, 3, "sequences 1 and 2 share state slot 1");

    s->a.s.slot = FIX_SLOTS;
    refused(s, HG_EXTEND, rows, 1, 1, "sequence 0: state slot 8 of 8");
    s->a.s.slot = -1;
    refused(s, HG_EXTEND, rows, 1, 1, "sequence 0: state slot -1 of 8");
    s->a.s.slot = 0;
    int32_t page = s->a.pages[0];
    s->a.pages[0] = FIX_PAGES;
    refused(s, HG_EXTEND, rows, 1, 1, "sequence 0: page 144 of 144");
    s->a.pages[0] = -1;
    refused(s, HG_EXTEND, rows, 1, 1, "sequence 0: page -1 of 144");
    s->a.pages[0] = page;
    s->a.s.n_pages = 3;
    refused(s, HG_EXTEND, rows, 63, 1, "sequence 0: 193 positions in 3 pages");
    s->a.s.n_pages = 0;
    refused(s, HG_EXTEND, rows, 1, 1, "sequence 0: 131 positions in 0 pages");
    s->a.s.n_pages = FIX_SEQ_PAGES;

    rows[2].token = s->t.m->cfg.n_vocab; /* found after the rows before it were planned */
    refused(s, HG_EXTEND, rows, 3, 1, "row 2: token");
    rows[2].token = 0;
    rows[2].pos++;
    refused(s, HG_EXTEND, rows, 3, 1, "row 2: position 133, its parent's gives 132");
    refused(s, HG_VERIFY, rows, 3, 1, "row 2: position 133, its parent's gives 132");
    rows[2].pos--;
    rows[2].parent = 0;
    rows[2].pos--;
    refused(s, HG_EXTEND, rows, 3, 1, "sequence 0: an EXTEND step needs a chain");
    check_untouched(s);
}

static void commits(struct scene *s)
{
    struct hg_row rows[8];
    hg_tok tok[2] = {1, 2};
    struct fix_seq *seqs[] = {&s->a, &s->b};
    struct fix_tree tree = {.n = 3, .parent = {-1, 0, 0}, .tok = {1, 2, 3}};
    struct fix_seq c; /* looks like a sequence before its VERIFY, but the step was an EXTEND */
    fix_begin(&s->t, &c, 2);
    fix_extend(&s->t, &c, tok, 1, NULL, 1, NULL);
    c.s.n_past = 0;
    refuse_commit(s, &c, 0, "commit of row 0: no such row in a VERIFY step");
    int32_t n = fix_put_chain(rows, fix_put_tree(rows, 0, 0, &s->a, &tree), 1, &s->b, tok, 2);
    fix_step(&s->t, HG_VERIFY, rows, n, seqs, 2);
    refuse_commit(s, &s->a, -1, "commit of row -1: no such row");
    refuse_commit(s, &s->a, n, "commit of row 5: no such row");
    refuse_commit(s, &s->a, 3, "commit of row 3: it belongs to another sequence");
    refuse_commit(s, &s->b, 2, "commit of row 2: it belongs to another sequence");
    check_untouched(s);

    /* A step that was refused ends what can be committed, too: its rows were no step's. */
    refused(s, HG_VERIFY, rows, 0, 2, "step of 0 rows");
    refuse_commit(s, &s->a, 0, "commit of row 0: no such row in a VERIFY step");
    check_untouched(s);

    fix_step(&s->t, HG_VERIFY, rows, n, seqs, 2);
    fix_commit(&s->t, &s->a, 2);
    refuse_commit(s, &s->a, 2, "commit of row 2: it belongs to another sequence, or was committed");
    refuse_commit(s, &s->a, 0, "commit of row 0: it belongs to another sequence, or was committed");
    assert_int_equal(s->a.s.n_past, PAST + 2);
    fix_commit(&s->t, &s->b, 4);
    assert_int_equal(s->b.s.n_past, PAST + 2);
}

static void test_refused(void **state)
{
    (void)state;
    char device[64];
    for (int32_t i = 0; fix_device(&i, device);) {
        struct scene s;
        open_scene(&s, device);
        steps(&s);
        commits(&s);
        close_scene(&s);
    }
}

/* Fewer wanted rows than a step has; no stash at all. */
static void test_limits(void **state)
{
    (void)state;
    char device[64];
    for (int32_t i = 0; fix_device(&i, device);) {
        struct hg_rng rng = {8};
        struct hg_config c;
        struct hg_weights w;
        struct hg_err err = {0};
        struct hg_backend *be;
        struct hg_model *m;
        struct hg_step_out out;
        int32_t page = 0;
        struct hg_seq s = {.pages = &page, .n_pages = 1}, *sp = &s;
        struct hg_row rows[3] = {{1, 0, 0, -1, 1}, {1, 0, 1, 0, 1}, {1, 0, 2, 1, 1}};
        struct hg_backend_params bp = {.device = device, .max_rows = 3, .n_threads = 1};
        struct hg_model_params mp = {.n_slots = 1,
                                     .n_pages = 1,
                                     .max_rows = 3,
                                     .max_seqs = 1,
                                     .max_want = 2,
                                     .kv = HG_KV_F32};
        fix_config(&rng, HG_FMT_F32, &c);
        if (hg_backend_open(&bp, &be, &err) ||
            hg_weights_dummy(&w, &c, HG_FMT_F32, 8, be, NULL, NULL, &err) ||
            hg_model_create(&c, &w, be, &mp, &m, &err))
            fail_msg("%s: %s", device, err.text);
        assert_int_equal(hg_step(m, HG_EXTEND, rows, 3, &sp, 1, &out, &err), HG_EINVAL);
        assert_string_equal(err.text, "step wants 3 rows, at most 2");
        assert_int_equal(hg_step(m, HG_VERIFY, rows, 1, &sp, 1, &out, &err), HG_EINVAL);
        assert_string_equal(err.text, "VERIFY step of 1 rows, at most 0");
        assert_int_equal(s.n_past, 0);
        rows[1].want = 0;
        assert_int_equal(hg_step(m, HG_EXTEND, rows, 3, &sp, 1, &out, &err), HG_OK);
        assert_int_equal(out.n_want, 2);
        assert_int_equal(s.n_past, 3);
        hg_model_free(m);
        hg_backend_close(be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
