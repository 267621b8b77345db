/* plan.h: what a step is over: the rows and, computed once per step on the host, the index
 * buffers that every op of every backend reads.
 *
 * Rows of one sequence are contiguous, parents come before children, and pos is the parent's + 1
 * (roots: the number of committed tokens). Position p of a sequence lives in page
 * pages[p / HG_PAGE_TOKENS]. A row's K and V go to the slot of position n_past + (its index within
 * the sequence), which for a chain is its own position and for a tree is scratch behind the
 * committed tokens until commit moves the accepted path together. */
#ifndef HG_BACKEND_PLAN_H
#define HG_BACKEND_PLAN_H

#include "base/err.h"

enum {
    HG_PAGE_TOKENS = 64, /* tokens of a KV page */
    HG_TREE_ROWS = 64    /* most rows of a sequence in a VERIFY step */
};

struct hg_row {
    hg_tok token;
    int32_t seq; /* index into the step's sequences */
    int32_t pos;
    int32_t parent; /* row index, or -1 = the committed state */
    uint8_t want;   /* logits and hidden state of this row are read back */
};

enum hg_step_kind {
    HG_EXTEND, /* all rows are committed; each sequence's rows form a chain */
    HG_VERIFY  /* nothing is committed; rows form a tree (or forest) */
};

struct hg_plan_seq {
    int32_t row0, n_rows;
    int32_t n_past;       /* committed tokens */
    int32_t slot;         /* recurrent state slot */
    const int32_t *pages; /* page ids; covers n_past + n_rows positions */
    bool chain;           /* every row's parent is the row before it */
};

struct hg_plan {
    enum hg_step_kind kind;
    int32_t n_rows, n_seqs, n_want;
    struct hg_plan_seq *seq; /* [n_seqs] */
    hg_tok *tok;             /* [n_rows] */
    int32_t *pos;            /* [n_rows] */
    int32_t *row_seq;        /* [n_rows] */
    int32_t *parent;         /* [n_rows] */
    int32_t *kv_slot;        /* [n_rows] page * HG_PAGE_TOKENS + offset */
    int32_t *conv_src;       /* [n_rows][3]: inputs t-3, t-2, t-1: a row index, or -1-j = column j
                                of the sequence's window (0 = oldest) */
    int32_t *path;           /* [n_rows][HG_TREE_ROWS] in non-chain sequences: path[r][d] = row at
                                depth d on the way from the root to r; depth of r is pos - n_past */
    int32_t *want;           /* [n_want] row indices */
    int32_t cap_rows, cap_seqs;
};

/* Room for up to max_rows rows of max_seqs sequences. */
enum hg_status hg_plan_create(int32_t max_rows, int32_t max_seqs, struct hg_plan **out,
                              struct hg_err *err);
void hg_plan_free(struct hg_plan *p);

/* seqs[i]: n_past, slot, pages, n_pages filled by the caller. Checks every rule above. Allocates
 * nothing. */
struct hg_plan_input {
    int32_t n_past, slot;
    const int32_t *pages;
    int32_t n_pages;
};
enum hg_status hg_plan_build(struct hg_plan *p, enum hg_step_kind kind, const struct hg_row *rows,
                             int32_t n_rows, const struct hg_plan_input *seqs, int32_t n_seqs,
                             int32_t n_vocab, struct hg_err *err);

/* KV slot of position q as row r of sequence s sees it (q <= pos of r). */
static inline int32_t hg_plan_slot(const struct hg_plan *p, const struct hg_plan_seq *s, int32_t r,
                                   int32_t q)
{
    if (q >= s->n_past && !s->chain)
        return p->kv_slot[p->path[(int64_t)r * HG_TREE_ROWS + (q - s->n_past)]];
    return s->pages[q / HG_PAGE_TOKENS] * HG_PAGE_TOKENS + q % HG_PAGE_TOKENS;
}

#endif
