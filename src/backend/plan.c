#include "backend/plan.h"

#include <stdlib.h>
#include <string.h>

enum hg_status hg_plan_create(int32_t max_rows, int32_t max_seqs, struct hg_plan **out,
                              struct hg_err *err)
{
    size_t r = (size_t)max_rows;
    struct hg_plan *p = calloc(1, sizeof *p);
    if (!p) return hg_fail(err, HG_ENOMEM, "plan: out of memory");
    p->cap_rows = max_rows;
    p->cap_seqs = max_seqs;
    p->seq = calloc((size_t)max_seqs, sizeof *p->seq);
    p->tok = calloc(r, sizeof *p->tok);
    p->pos = calloc(r, sizeof *p->pos);
    p->row_seq = calloc(r, sizeof *p->row_seq);
    p->parent = calloc(r, sizeof *p->parent);
    p->kv_slot = calloc(r, sizeof *p->kv_slot);
    p->conv_src = calloc(r * 3, sizeof *p->conv_src);
    p->path = calloc(r * HG_TREE_ROWS, sizeof *p->path);
    p->want = calloc(r, sizeof *p->want);
    if (!p->seq || !p->tok || !p->pos || !p->row_seq || !p->parent || !p->kv_slot || !p->conv_src ||
        !p->path || !p->want) {
        hg_plan_free(p);
        return hg_fail(err, HG_ENOMEM, "plan: out of memory for %d rows", max_rows);
    }
    *out = p;
    return HG_OK;
}

void hg_plan_free(struct hg_plan *p)
{
    if (!p) return;
    free(p->seq);
    free(p->tok);
    free(p->pos);
    free(p->row_seq);
    free(p->parent);
    free(p->kv_slot);
    free(p->conv_src);
    free(p->path);
    free(p->want);
    free(p);
}

/* Finds each sequence's contiguous range of rows. */
static enum hg_status plan_ranges(struct hg_plan *p, const struct hg_row *rows,
                                  const struct hg_plan_input *seqs, struct hg_err *err)
{
    for (int32_t s = 0; s < p->n_seqs; s++) {
        const struct hg_plan_input *in = &seqs[s];
        if (in->n_past < 0)
            return hg_fail(err, HG_EINVAL, "sequence %d: %d committed tokens", s, in->n_past);
        p->seq[s] = (struct hg_plan_seq){
            .row0 = -1, .n_past = in->n_past, .slot = in->slot, .pages = in->pages, .chain = true};
    }
    for (int32_t r = 0; r < p->n_rows; r++) {
        int32_t s = rows[r].seq;
        if (s < 0 || s >= p->n_seqs)
            return hg_fail(err, HG_EINVAL, "row %d: sequence %d of %d", r, s, p->n_seqs);
        struct hg_plan_seq *q = &p->seq[s];
        if (q->row0 < 0) q->row0 = r;
        if (q->row0 + q->n_rows != r)
            return hg_fail(err, HG_EINVAL, "row %d: rows of sequence %d are not contiguous", r, s);
        q->n_rows++;
    }
    for (int32_t s = 0; s < p->n_seqs; s++) {
        int64_t need = (int64_t)p->seq[s].n_past + p->seq[s].n_rows;
        if (need > (int64_t)seqs[s].n_pages * HG_PAGE_TOKENS)
            return hg_fail(err, HG_EINVAL, "sequence %d: %lld positions in %d pages", s,
                           (long long)need, seqs[s].n_pages);
    }
    return HG_OK;
}

static enum hg_status plan_row(struct hg_plan *p, const struct hg_row *rows, int32_t r,
                               int32_t n_vocab, struct hg_err *err)
{
    const struct hg_row *w = &rows[r];
    struct hg_plan_seq *s = &p->seq[w->seq];
    int32_t up = w->parent;
    if (w->token < 0 || w->token >= n_vocab)
        return hg_fail(err, HG_EINVAL, "row %d: token %d outside the vocabulary of %d", r, w->token,
                       n_vocab);
    if (up != -1 && (up < s->row0 || up >= r))
        return hg_fail(err, HG_EINVAL, "row %d: parent %d is no earlier row of its sequence", r,
                       up);
    int32_t pos = up < 0 ? s->n_past : rows[up].pos + 1;
    if (w->pos != pos)
        return hg_fail(err, HG_EINVAL, "row %d: position %d, its parent's gives %d", r, w->pos,
                       pos);
    if (up != (r == s->row0 ? -1 : r - 1)) s->chain = false;

    p->tok[r] = w->token;
    p->pos[r] = pos;
    p->row_seq[r] = w->seq;
    p->parent[r] = up;
    int32_t at = s->n_past + (r - s->row0);
    p->kv_slot[r] = s->pages[at / HG_PAGE_TOKENS] * HG_PAGE_TOKENS + at % HG_PAGE_TOKENS;
    int32_t *src = &p->conv_src[(size_t)r * 3];
    /* walk up; past the root the window's columns 2, 1, 0 follow */
    for (int32_t j = 2, a = up, col = 2; j >= 0; j--) {
        src[j] = a >= 0 ? a : -1 - col--;
        if (a >= 0) a = p->parent[a];
    }
    if (w->want) p->want[p->n_want++] = r;
    return HG_OK;
}

enum hg_status hg_plan_build(struct hg_plan *p, enum hg_step_kind kind, const struct hg_row *rows,
                             int32_t n_rows, const struct hg_plan_input *seqs, int32_t n_seqs,
                             int32_t n_vocab, struct hg_err *err)
{
    if (n_rows < 1 || n_rows > p->cap_rows)
        return hg_fail(err, HG_EINVAL, "step of %d rows, allowed are 1 to %d", n_rows, p->cap_rows);
    if (n_seqs < 1 || n_seqs > p->cap_seqs)
        return hg_fail(err, HG_EINVAL, "step of %d sequences, allowed are 1 to %d", n_seqs,
                       p->cap_seqs);
    p->kind = kind;
    p->n_rows = n_rows;
    p->n_seqs = n_seqs;
    p->n_want = 0;
    HG_TRY(plan_ranges(p, rows, seqs, err));
    for (int32_t r = 0; r < n_rows; r++) HG_TRY(plan_row(p, rows, r, n_vocab, err));
    for (int32_t i = 0; i < n_seqs; i++) {
        struct hg_plan_seq *s = &p->seq[i];
        if (kind == HG_EXTEND && !s->chain)
            return hg_fail(err, HG_EINVAL, "sequence %d: an EXTEND step needs a chain", i);
        if (kind == HG_VERIFY && s->n_rows > HG_TREE_ROWS)
            return hg_fail(err, HG_EINVAL, "sequence %d: tree of %d rows, at most %d", i, s->n_rows,
                           HG_TREE_ROWS);
        if (s->chain) continue;
        for (int32_t r = s->row0; r < s->row0 + s->n_rows; r++) {
            int32_t *path = &p->path[(size_t)r * HG_TREE_ROWS], depth = p->pos[r] - s->n_past;
            if (p->parent[r] >= 0)
                memcpy(path, &p->path[(size_t)p->parent[r] * HG_TREE_ROWS],
                       (size_t)depth * sizeof *path);
            path[depth] = r;
        }
    }
    return HG_OK;
}
