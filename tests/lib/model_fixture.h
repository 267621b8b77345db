/* model_fixture.h: small random models on any device, driven step by step, and the comparison of
 * what a step leaves behind: logits, recurrent state, conv windows, KV pages.
 *
 * Every function fails the running cmocka test when a call that must succeed does not. Messages
 * carry the model's `about`: seed, device, formats and geometry, enough to run the case again. */
#ifndef HG_TESTS_MODEL_FIXTURE_H
#define HG_TESTS_MODEL_FIXTURE_H

#include "base/rng.h"
#include "model/step.h"

enum {
    FIX_SLOTS = 8,
    FIX_SEQ_PAGES = 18, /* pages of a sequence: 1152 positions */
    FIX_PAGES = FIX_SLOTS * FIX_SEQ_PAGES,
    FIX_ROWS = 256, /* rows, and wanted rows, of a step */
    FIX_SEQS = 4
};

/* Of chunked against recurrent sums, over all rows of a case. The worst of 400 random cases was
 * 9e-4, the median 1.4e-6: a first token whose q and k happen to be all but orthogonal loses
 * digits that the norm behind then magnifies. */
#define FIX_BOUND 3e-3

struct fix_model {
    struct hg_backend *be;
    struct hg_model *m;
    bool exact; /* equal computations give equal bits: every device but ref:chunked */
    char about[400];
    int32_t page_ids[FIX_PAGES]; /* all page ids, shuffled */
};

struct fix_seq {
    struct hg_seq s;
    int32_t pages[FIX_SEQ_PAGES];
};

/* Rows of one sequence of a VERIFY step. parent: index into the tree or -1. */
struct fix_tree {
    int32_t n;
    int32_t parent[HG_TREE_ROWS];
    hg_tok tok[HG_TREE_ROWS];
};

/* i-th device of hg_backend_device, names that open the same backend taken once; false past the
 * last. Start with *i = 0; *i moves on. */
bool fix_device(int32_t *i, char name[64]);

/* A geometry: 2 to 8 layers in any order of kinds. With NVFP4 most widths are multiples of 16 (a
 * matrix that is not falls back to BF16), else they are often odd. */
void fix_config(struct hg_rng *rng, enum hg_format format, struct hg_config *c);

/* Weights, KV scales, page order and everything else follow from the seed. n_threads 0: one or
 * two. */
void fix_open(struct fix_model *t, const struct hg_config *c, enum hg_format format, enum hg_kv kv,
              uint64_t seed, const char *device, int32_t n_threads);
void fix_close(struct fix_model *t);

/* An empty sequence on `slot` (reset) and that slot's share of the shuffled pages. */
void fix_begin(struct fix_model *t, struct fix_seq *s, int32_t slot);

void fix_tokens(struct hg_rng *rng, const struct hg_config *c, hg_tok *tok, int32_t n);
/* Random forest of n rows: bushy, a chain, deep or in between. */
void fix_forest(struct hg_rng *rng, const struct hg_config *c, int32_t n, struct fix_tree *tree);
/* Rows from the root to `leaf`; returns how many. */
int32_t fix_path(const struct fix_tree *tree, int32_t leaf, int32_t path[HG_TREE_ROWS]);

/* Append rows, all wanted; return the new count. */
int32_t fix_put_chain(struct hg_row *rows, int32_t n_rows, int32_t seq, const struct fix_seq *s,
                      const hg_tok *tok, int32_t n);
int32_t fix_put_tree(struct hg_row *rows, int32_t n_rows, int32_t seq, const struct fix_seq *s,
                     const struct fix_tree *tree);

/* hg_step, which must succeed. Returns the logits. */
const float *fix_step(struct fix_model *t, enum hg_step_kind kind, const struct hg_row *rows,
                      int32_t n_rows, struct fix_seq *const *seqs, int32_t n_seqs);
/* Extends by tok[0..n) in steps of 1 to `most` rows (rng NULL: `most` each). logits: NULL or
 * [n][n_vocab]. */
void fix_extend(struct fix_model *t, struct fix_seq *s, const hg_tok *tok, int32_t n,
                struct hg_rng *rng, int32_t most, float *logits);
void fix_commit(struct fix_model *t, struct fix_seq *s, int32_t leaf);

/* Recurrent state and conv window of every layer of a slot, as fp32; malloc'd [fix_state_n]. */
size_t fix_state_n(const struct fix_model *t);
float *fix_state(struct fix_model *t, int32_t slot);
/* The complete pages of a sequence, one after the other; malloc'd. */
uint8_t *fix_pages(struct fix_model *t, const struct fix_seq *s, size_t *n);

/* |a - b| / |b|, Euclidean; infinite when a or b is not finite. */
double fix_error(const float *a, const float *b, size_t n);
/* Fails unless a = b: bit by bit when the model is exact, else fix_error <= FIX_BOUND. */
void fix_same(const struct fix_model *t, const char *what, const float *a, const float *b,
              size_t n);
/* Fails unless the slots (of one or of two models of the same geometry) hold the same. */
void fix_same_state(struct fix_model *ta, int32_t a, struct fix_model *tb, int32_t b,
                    const char *what);
/* Fails unless both sequences, of one model or two on the same device, have the same n_past,
 * state and complete pages. */
void fix_same_seq(struct fix_model *ta, const struct fix_seq *a, struct fix_model *tb,
                  const struct fix_seq *b, const char *what);

#endif
