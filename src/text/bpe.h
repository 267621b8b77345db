/* bpe.h: byte-pair merging. A word starts as its bytes; while some neighbouring pair has a merge,
 * the pair with the lowest rank (the leftmost of equals) becomes one token. */
#ifndef HG_TEXT_BPE_H
#define HG_TEXT_BPE_H

#include "base/err.h"

struct hg_toks;

struct hg_bpe_pair {
    uint32_t left, right; /* ids */
    uint32_t rank;        /* HG_BPE_NONE marks a free slot */
};

#define HG_BPE_NONE UINT32_MAX

struct hg_bpe {
    hg_tok byte_id[256];
    struct hg_bpe_pair *pairs; /* [mask + 1] hash table, open addressing */
    uint32_t mask;
    hg_tok *merged;      /* [n_merges] by rank: what the pair becomes */
    uint32_t *byte_rank; /* [256][256] ranks of pairs of bytes: every word starts there */
    uint32_t n_merges, n_max;
};

/* Room for n_max merges. On failure everything is given back. */
bool hg_bpe_init(struct hg_bpe *b, uint32_t n_max);
void hg_bpe_fini(struct hg_bpe *b);
/* Adds the merge of the next rank. False when the pair has one already (nothing is added). */
bool hg_bpe_add(struct hg_bpe *b, hg_tok left, hg_tok right, hg_tok merged);
/* To be called when byte_id and the merges are complete. */
void hg_bpe_finish(struct hg_bpe *b);

/* Appends the tokens of word[0..n), n < 2^32, in O(n log n). False: out of memory. */
bool hg_bpe_encode(const struct hg_bpe *b, const char *word, size_t n, struct hg_toks *out);

#endif
