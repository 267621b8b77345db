#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

/* Up to this many bytes, a scan of the ranks per merge is faster than a heap. */
enum { BPE_SHORT = 96 };

static inline uint32_t pair_hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 15);
}

/* The pair's slot, or the free one where it would be. */
static inline struct hg_bpe_pair *pair_slot(const struct hg_bpe *b, uint32_t left, uint32_t right)
{
    uint32_t i = pair_hash(left, right) & b->mask;
    for (;; i = (i + 1) & b->mask) {
        struct hg_bpe_pair *p = &b->pairs[i];
        if (p->rank == HG_BPE_NONE || (p->left == left && p->right == right)) return p;
    }
}

static inline uint32_t pair_rank(const struct hg_bpe *b, hg_tok left, hg_tok right)
{
    return pair_slot(b, (uint32_t)left, (uint32_t)right)->rank;
}

bool hg_bpe_init(struct hg_bpe *b, uint32_t n_max)
{
    memset(b, 0, sizeof *b);
    size_t n_slots = 16;
    while (n_slots < 2 * ((size_t)n_max + 1)) n_slots *= 2;
    b->mask = (uint32_t)(n_slots - 1);
    b->n_max = n_max;
    b->pairs = malloc(n_slots * sizeof *b->pairs);
    b->merged = malloc((n_max + (size_t)1) * sizeof *b->merged);
    b->byte_rank = malloc(256 * 256 * sizeof *b->byte_rank);
    if (!b->pairs || !b->merged || !b->byte_rank) {
        hg_bpe_fini(b);
        return false;
    }
    memset(b->pairs, 0xff, n_slots * sizeof *b->pairs);
    return true;
}

void hg_bpe_fini(struct hg_bpe *b)
{
    free(b->pairs);
    free(b->merged);
    free(b->byte_rank);
    memset(b, 0, sizeof *b);
}

bool hg_bpe_add(struct hg_bpe *b, hg_tok left, hg_tok right, hg_tok merged)
{
    struct hg_bpe_pair *p = pair_slot(b, (uint32_t)left, (uint32_t)right);
    if (p->rank != HG_BPE_NONE) return false;
    hg_assert(b->n_merges < b->n_max);
    *p = (struct hg_bpe_pair){(uint32_t)left, (uint32_t)right, b->n_merges};
    b->merged[b->n_merges++] = merged;
    return true;
}

void hg_bpe_finish(struct hg_bpe *b)
{
    for (size_t i = 0; i < 256; i++)
        for (size_t j = 0; j < 256; j++)
            b->byte_rank[i << 8 | j] = pair_rank(b, b->byte_id[i], b->byte_id[j]);
}

/* ------------------------------------------------------------------------- short words -- */

static bool encode_short(const struct hg_bpe *b, const uint8_t *w, size_t n, struct hg_toks *out)
{
    hg_tok id[BPE_SHORT + 1];
    uint32_t rank[BPE_SHORT + 1]; /* of the pair that starts here; NONE at the last */
    for (size_t i = 0; i < n; i++) {
        id[i] = b->byte_id[w[i]];
        rank[i] = i + 1 < n ? b->byte_rank[w[i] << 8 | w[i + 1]] : HG_BPE_NONE;
    }
    for (;;) {
        uint32_t best = HG_BPE_NONE;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            if (rank[i] < best) {
                best = rank[i];
                at = i;
            }
        }
        if (best == HG_BPE_NONE) break;
        id[at] = b->merged[best];
        n--;
        memmove(id + at + 1, id + at + 2, (n - at - 1) * sizeof *id);
        memmove(rank + at + 1, rank + at + 2, (n - at - 1) * sizeof *rank);
        rank[at] = at + 1 < n ? pair_rank(b, id[at], id[at + 1]) : HG_BPE_NONE;
        if (at > 0) rank[at - 1] = pair_rank(b, id[at - 1], id[at]);
    }
    for (size_t i = 0; i < n; i++)
        if (!hg_toks_push(out, id[i])) return false;
    return true;
}

/* -------------------------------------------------------------------------- long words -- */

struct symbol {
    hg_tok id;           /* -1: swallowed by its left neighbour */
    uint32_t prev, next; /* places; n stands for none */
};

/* Min-heap of rank << 32 | place: the lowest rank first, then the leftmost. An entry whose pair
 * has changed since is skipped when it comes up; ranks are unique, so the rank tells. */
struct heap {
    uint64_t *v;
    size_t n;
};

static void sift_down(struct heap *h, size_t i)
{
    uint64_t x = h->v[i];
    for (size_t c; (c = 2 * i + 1) < h->n; i = c) {
        if (c + 1 < h->n && h->v[c + 1] < h->v[c]) c++;
        if (x <= h->v[c]) break;
        h->v[i] = h->v[c];
    }
    h->v[i] = x;
}

static void heap_push(struct heap *h, uint32_t rank, uint32_t place)
{
    if (rank == HG_BPE_NONE) return;
    uint64_t x = (uint64_t)rank << 32 | place;
    size_t i = h->n++;
    for (size_t p; i > 0 && x < h->v[p = (i - 1) / 2]; i = p) h->v[i] = h->v[p];
    h->v[i] = x;
}

static uint64_t heap_pop(struct heap *h)
{
    uint64_t top = h->v[0];
    h->v[0] = h->v[--h->n];
    if (h->n) sift_down(h, 0);
    return top;
}

static void merge_all(const struct hg_bpe *b, struct symbol *sym, uint32_t n, struct heap *h)
{
    while (h->n) {
        uint64_t top = heap_pop(h);
        uint32_t rank = (uint32_t)(top >> 32), i = (uint32_t)top;
        struct symbol *s = &sym[i];
        if (s->id < 0 || s->next == n || pair_rank(b, s->id, sym[s->next].id) != rank) continue;
        s->id = b->merged[rank];
        sym[s->next].id = -1;
        s->next = sym[s->next].next;
        if (s->next < n) {
            sym[s->next].prev = i;
            heap_push(h, pair_rank(b, s->id, sym[s->next].id), i);
        }
        if (s->prev < n) heap_push(h, pair_rank(b, sym[s->prev].id, s->id), s->prev);
    }
}

static bool encode_long(const struct hg_bpe *b, const uint8_t *w, size_t n, struct hg_toks *out)
{
    struct symbol *sym = malloc(n * sizeof *sym);
    struct heap h = {.v = malloc(n * sizeof *h.v * 3)}; /* n - 1 pairs, two more per merge */
    bool ok = sym && h.v;
    if (ok) {
        for (size_t i = 0; i < n; i++) {
            sym[i] =
                (struct symbol){b->byte_id[w[i]], (uint32_t)(i ? i - 1 : n), (uint32_t)(i + 1)};
            uint32_t rank = i + 1 < n ? b->byte_rank[w[i] << 8 | w[i + 1]] : HG_BPE_NONE;
            if (rank != HG_BPE_NONE) h.v[h.n++] = (uint64_t)rank << 32 | i;
        }
        for (size_t i = h.n / 2; i-- > 0;) sift_down(&h, i);
        merge_all(b, sym, (uint32_t)n, &h);
        for (size_t i = 0; ok && i < n; i = sym[i].next) ok = hg_toks_push(out, sym[i].id);
    }
    free(sym);
    free(h.v);
    return ok;
}

bool hg_bpe_encode(const struct hg_bpe *b, const char *word, size_t n, struct hg_toks *out)
{
    if (n == 0) return true;
    if (n <= BPE_SHORT) return encode_short(b, (const uint8_t *)word, n, out);
    hg_assert(n < UINT32_MAX);
    return encode_long(b, (const uint8_t *)word, n, out);
}
