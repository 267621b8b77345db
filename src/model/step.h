/* step.h: running the model. One function for prefill (EXTEND chains), decode (EXTEND single
 * rows) and tree verification (VERIFY), over any number of sequences. */
#ifndef HG_MODEL_STEP_H
#define HG_MODEL_STEP_H

#include "model/state.h"

/* One sequence: what is committed, and where it lies. Pages and slot are the owner's to give and
 * take (engine, cache); the model only reads them. */
struct hg_seq {
    int32_t n_past; /* committed tokens */
    int32_t slot;   /* recurrent state slot */
    int32_t *pages; /* page ids, in order of position */
    int32_t n_pages;
};

struct hg_step_out {
    const float *logits; /* host [n_want][n_vocab], in row order; valid until the next step */
    const float *hidden; /* host [n_want][d_model]: after the final norm (MTP's input) */
    int32_t n_want;
};

/* Runs the model over rows (see plan.h for their rules). EXTEND: the rows are committed and every
 * sequence's n_past advances. VERIFY: nothing is committed; hg_commit may follow, once per
 * sequence, before the next step (of any outcome). Errors: EINVAL only, no sequence has changed
 * then. */
enum hg_status hg_step(struct hg_model *m, enum hg_step_kind kind, const struct hg_row *rows,
                       int32_t n_rows, struct hg_seq *const *seqs, int32_t n_seqs,
                       struct hg_step_out *out, struct hg_err *err);

/* Commits the path from the root to row `leaf` of the last (VERIFY) step: recurrent state, conv
 * window and KV become those of extending by these tokens (DESIGN I1); n_past advances. seq is the
 * leaf's sequence. */
enum hg_status hg_commit(struct hg_model *m, struct hg_seq *seq, int32_t leaf, struct hg_err *err);

/* Internal to the model: the parts of one layer. n = rows of the step. */
void hg_layer_attn(struct hg_model *m, int32_t layer);
void hg_layer_gdn(struct hg_model *m, int32_t layer);
void hg_layer_ffn(struct hg_model *m, int32_t layer);

#endif
