/* op_sim.h: one attention layer and one GDN layer without a model around them, for the op tests.
 * Every input row is a function of its token alone, so the same tokens give the same inputs
 * however they are cut into steps, batched or put into trees, and on every backend. */
#ifndef HG_TESTS_OP_SIM_H
#define HG_TESTS_OP_SIM_H

#include "backend/backend.h"

enum { SIM_SEQS = 3, SIM_ROWS = 160, SIM_PAGES = 48 }; /* pages of one sequence */

struct sim_dims {
    enum hg_kv kv;
    int32_t n_heads, n_kv_heads, d_head, d_rope;
    struct hg_gdn_dims gdn;
};

struct sim {
    struct hg_backend *be;
    struct sim_dims d;
    int32_t conv_dim;
    struct hg_plan *plan;
    struct hg_kv_layer kv;
    struct hg_gdn_state state;
    struct hg_gdn_stash stash;
    int32_t pages[SIM_SEQS][SIM_PAGES], n_past[SIM_SEQS];
    float *q_norm, *k_norm, *conv_w, *neg_a, *dt_bias, *norm_w;
    float *qg, *k, *v, *q, *attn, *mixed, *c, *a, *b, *z, *gdn; /* of the last step */
    struct hg_row rows[SIM_ROWS];
    int32_t n_rows;
};

/* Fails the running cmocka test on any error. */
void sim_open(struct sim *s, struct hg_backend *be, const struct sim_dims *d);
void sim_close(struct sim *s);

/* Rows to run next; parent = row index of the step, or -1. Rows of a sequence are contiguous. */
void sim_begin(struct sim *s);
int32_t sim_add(struct sim *s, int32_t seq, hg_tok token, int32_t parent);
/* A chain of n tokens. */
void sim_chain(struct sim *s, int32_t seq, const hg_tok *tok, int32_t n);
/* Runs attn_in, attn, gdn_conv, gdn. EXTEND advances n_past. */
void sim_run(struct sim *s, enum hg_step_kind kind);
/* After a VERIFY step: kv_move and gdn_commit along rows path[0..n) of one sequence. */
void sim_commit(struct sim *s, int32_t seq, const int32_t *path, int32_t n);

size_t sim_attn_width(const struct sim *s);
size_t sim_gdn_width(const struct sim *s);
const float *sim_attn_row(const struct sim *s, int32_t r);
const float *sim_gdn_row(const struct sim *s, int32_t r);
/* Floats of one sequence's recurrent state and of its conv window. */
size_t sim_state_floats(const struct sim *s);
size_t sim_conv_floats(const struct sim *s);
const float *sim_state(const struct sim *s, int32_t seq);
const float *sim_conv(const struct sim *s, int32_t seq);

/* HG_SEED from the environment, else 1; prints "seed N". */
uint64_t sim_seed(void);

#endif
