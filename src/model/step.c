#include "model/step.h"

static void norm(struct hg_model *m, const void *x, const float *w, int32_t n, void *y)
{
    m->be->ops->rmsnorm(
        m->be,
        &(struct hg_rmsnorm_args){
            .x = x, .w = w, .n_rows = n, .d = m->cfg.d_model, .eps = m->cfg.rms_eps, .y = y});
}

static void run_layers(struct hg_model *m)
{
    struct hg_scratch *s = &m->scratch;
    int32_t n = m->plan->n_rows;
    m->be->ops->embed(m->be,
                      &(struct hg_embed_args){
                          .table = &m->w.embed, .tok = m->plan->tok, .n_rows = n, .out = s->x});
    for (int32_t i = 0; i < m->cfg.n_layers; i++) {
        const struct hg_layer *w = &m->w.layer[i];
        norm(m, s->x, w->norm_in, n, s->y);
        (w->kind == HG_LAYER_ATTN ? hg_layer_attn : hg_layer_gdn)(m, i);
        norm(m, s->x, w->norm_post, n, s->y);
        hg_layer_ffn(m, i);
    }
}

/* Final norm and lm_head of the wanted rows only, then both to the host. */
static void run_head(struct hg_model *m, struct hg_step_out *out)
{
    const struct hg_config *c = &m->cfg;
    const struct hg_backend_ops *op = m->be->ops;
    struct hg_scratch *s = &m->scratch;
    int32_t n = m->plan->n_want;
    *out = (struct hg_step_out){.logits = m->logits, .hidden = m->hidden, .n_want = n};
    if (n == 0) return;
    op->gather(m->be,
               &(struct hg_gather_args){
                   .x = s->x, .index = m->plan->want, .n = n, .d = c->d_model, .y = s->hidden});
    norm(m, s->hidden, m->w.norm, n, s->hidden);
    op->gemm(m->be, &(struct hg_gemm_args){.x = s->hidden,
                                           .n_rows = n,
                                           .n_parts = 1,
                                           .part = {{.w = &m->w.lm_head, .y = s->logits}}});
    op->read_act(m->be, m->logits, s->logits, (size_t)n * (size_t)c->n_vocab);
    op->read_act(m->be, m->hidden, s->hidden, (size_t)n * (size_t)c->d_model);
}

/* Slots and pages are the caller's to hand out: that they exist, and no slot serves two. */
static enum hg_status check_seq(const struct hg_model *m, struct hg_seq *const *seqs, int32_t i,
                                struct hg_err *err)
{
    const struct hg_seq *s = seqs[i];
    if (s->slot < 0 || s->slot >= m->p.n_slots)
        return hg_fail(err, HG_EINVAL, "sequence %d: state slot %d of %d", i, s->slot,
                       m->p.n_slots);
    for (int32_t j = 0; j < i; j++)
        if (seqs[j]->slot == s->slot)
            return hg_fail(err, HG_EINVAL, "sequences %d and %d share state slot %d", j, i,
                           s->slot);
    for (int32_t j = 0; j < s->n_pages; j++)
        if (s->pages[j] < 0 || s->pages[j] >= m->p.n_pages)
            return hg_fail(err, HG_EINVAL, "sequence %d: page %d of %d", i, s->pages[j],
                           m->p.n_pages);
    return HG_OK;
}

enum hg_status hg_step(struct hg_model *m, enum hg_step_kind kind, const struct hg_row *rows,
                       int32_t n_rows, struct hg_seq *const *seqs, int32_t n_seqs,
                       struct hg_step_out *out, struct hg_err *err)
{
    m->can_commit = false; /* the plan is about to be overwritten */
    if (n_seqs < 1 || n_seqs > m->p.max_seqs)
        return hg_fail(err, HG_EINVAL, "step of %d sequences, allowed are 1 to %d", n_seqs,
                       m->p.max_seqs);
    if (kind == HG_VERIFY && n_rows > m->p.max_verify)
        return hg_fail(err, HG_EINVAL, "VERIFY step of %d rows, at most %d", n_rows,
                       m->p.max_verify);
    for (int32_t i = 0; i < n_seqs; i++) {
        const struct hg_seq *s = seqs[i];
        HG_TRY(check_seq(m, seqs, i, err));
        m->inputs[i] = (struct hg_plan_input){
            .n_past = s->n_past, .slot = s->slot, .pages = s->pages, .n_pages = s->n_pages};
    }
    HG_TRY(hg_plan_build(m->plan, kind, rows, n_rows, m->inputs, n_seqs, m->cfg.n_vocab, err));
    if (m->plan->n_want > m->p.max_want)
        return hg_fail(err, HG_EINVAL, "step wants %d rows, at most %d", m->plan->n_want,
                       m->p.max_want);
    HG_TRY(m->be->ops->plan(m->be, m->plan, err));
    run_layers(m);
    run_head(m, out);
    m->be->ops->sync(m->be);
    m->can_commit = kind == HG_VERIFY;
    if (kind == HG_EXTEND)
        for (int32_t i = 0; i < n_seqs; i++) seqs[i]->n_past += m->plan->seq[i].n_rows;
    return HG_OK;
}

enum hg_status hg_commit(struct hg_model *m, struct hg_seq *seq, int32_t leaf, struct hg_err *err)
{
    const struct hg_plan *p = m->plan;
    if (!m->can_commit || leaf < 0 || leaf >= p->n_rows)
        return hg_fail(err, HG_EINVAL, "commit of row %d: no such row in a VERIFY step", leaf);
    const struct hg_plan_seq *s = &p->seq[p->row_seq[leaf]];
    if (s->slot != seq->slot || s->n_past != seq->n_past)
        return hg_fail(err, HG_EINVAL,
                       "commit of row %d: it belongs to another sequence, or was "
                       "committed",
                       leaf);
    int32_t path[HG_TREE_ROWS], src[HG_TREE_ROWS], dst[HG_TREE_ROWS];
    int32_t n = p->pos[leaf] - s->n_past + 1, n_moves = 0;
    for (int32_t r = leaf, i = n - 1; i >= 0; r = p->parent[r], i--) path[i] = r;
    for (int32_t i = 0; i < n; i++) {
        int32_t at = s->n_past + i;
        int32_t to = seq->pages[at / HG_PAGE_TOKENS] * HG_PAGE_TOKENS + at % HG_PAGE_TOKENS;
        if (p->kv_slot[path[i]] == to) continue;
        src[n_moves] = p->kv_slot[path[i]];
        dst[n_moves++] = to;
    }
    for (int32_t i = 0; i < m->cfg.n_layers; i++) {
        const struct hg_layer_memory *mem = &m->mem[i];
        if (m->w.layer[i].kind == HG_LAYER_GDN)
            m->be->ops->gdn_commit(m->be, &(struct hg_gdn_commit_args){.state = &mem->state,
                                                                       .stash = &mem->stash,
                                                                       .slot = seq->slot,
                                                                       .path = path,
                                                                       .n = n});
        else if (n_moves)
            m->be->ops->kv_move(m->be, &(struct hg_kv_move_args){
                                           .kv = &mem->kv, .src = src, .dst = dst, .n = n_moves});
    }
    m->be->ops->sync(m->be);
    seq->n_past += n;
    return HG_OK;
}
