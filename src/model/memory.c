/* A model's memory: KV pages, recurrent state, stash and scratch, sized from the geometry. */
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

static enum hg_status get(struct hg_model *m, size_t n, size_t size, void *out, struct hg_err *err)
{
    void *p;
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        return hg_fail(err, HG_ENOMEM, "memory of %zu x %zu bytes", n, size);
    HG_TRY(m->be->ops->alloc(m->be, bytes, &p, err));
    memcpy(out, &p, sizeof p);
    return HG_OK;
}

void hg_model_sizes(const struct hg_config *c, struct hg_backend *be, enum hg_kv kv,
                    size_t *page_bytes, size_t *slot_bytes)
{
    size_t state = (size_t)c->n_v_heads * (size_t)c->d_k * (size_t)c->d_v * sizeof(float);
    size_t window = 3 * (size_t)hg_config_conv_dim(c) * be->act_size;
    size_t page = be->ops->kv_page_bytes(be, kv, c->n_kv_heads, c->d_head);
    *page_bytes = *slot_bytes = 0;
    for (int32_t i = 0; i < c->n_layers; i++)
        if (c->layer_kind[i] == HG_LAYER_ATTN)
            *page_bytes += page;
        else
            *slot_bytes += state + window;
}

static enum hg_status layer_memory(struct hg_model *m, int32_t i, struct hg_err *err)
{
    const struct hg_config *c = &m->cfg;
    struct hg_layer_memory *mem = &m->mem[i];
    size_t slots = (size_t)m->p.n_slots, act = m->be->act_size;
    if (c->layer_kind[i] == HG_LAYER_ATTN) {
        mem->kv = (struct hg_kv_layer){.dtype = m->p.kv,
                                       .n_kv_heads = c->n_kv_heads,
                                       .d_head = c->d_head,
                                       .k_scale = m->w.layer[i].k_scale,
                                       .v_scale = m->w.layer[i].v_scale};
        mem->kv.page_bytes = m->be->ops->kv_page_bytes(m->be, m->p.kv, c->n_kv_heads, c->d_head);
        return get(m, (size_t)m->p.n_pages, mem->kv.page_bytes, &mem->kv.pool, err);
    }
    struct hg_gdn_dims d = {
        .n_k_heads = c->n_k_heads, .n_v_heads = c->n_v_heads, .d_k = c->d_k, .d_v = c->d_v};
    size_t conv = (size_t)hg_config_conv_dim(c), k = (size_t)d.n_k_heads * (size_t)d.d_k;
    size_t hv = (size_t)d.n_v_heads, v = hv * (size_t)d.d_v, s = v * (size_t)d.d_k;
    size_t rows = (size_t)m->p.max_verify;
    mem->state.dims = d;
    mem->state.conv_dim = (int32_t)conv;
    HG_TRY(get(m, slots * s, sizeof(float), &mem->state.s, err));
    HG_TRY(get(m, slots * 3 * conv, act, &mem->state.conv, err));
    if (rows == 0) return HG_OK;
    HG_TRY(get(m, rows * conv, act, &mem->stash.mixed, err));
    HG_TRY(get(m, rows * k, sizeof(float), &mem->stash.k, err));
    HG_TRY(get(m, rows * v, sizeof(float), &mem->stash.v, err));
    HG_TRY(get(m, rows * hv, sizeof(float), &mem->stash.alpha, err));
    return get(m, rows * hv, sizeof(float), &mem->stash.beta, err);
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* mid[i] holds the i-th projection of whichever layer runs: see the layer files. */
static enum hg_status scratch(struct hg_model *m, struct hg_err *err)
{
    const struct hg_config *c = &m->cfg;
    struct hg_scratch *s = &m->scratch;
    size_t rows = (size_t)m->p.max_rows, act = m->be->act_size, d = (size_t)c->d_model;
    size_t q = (size_t)c->n_heads * (size_t)c->d_head, ff = (size_t)c->d_ff;
    size_t kv = (size_t)c->n_kv_heads * (size_t)c->d_head;
    size_t conv = (size_t)hg_config_conv_dim(c), hv = (size_t)c->n_v_heads;
    size_t v = hv * (size_t)c->d_v, want = (size_t)m->p.max_want;
    size_t width[4] = {most(most(2 * q, conv), ff), most(most(kv, v), ff), most(kv, hv),
                       most(q, hv)};
    HG_TRY(get(m, rows * d, act, &s->x, err));
    HG_TRY(get(m, rows * d, act, &s->y, err));
    for (int32_t i = 0; i < 4; i++) HG_TRY(get(m, rows * width[i], act, &s->mid[i], err));
    HG_TRY(get(m, rows * most(q, conv), act, &s->mix, err));
    HG_TRY(get(m, want * d, act, &s->hidden, err));
    HG_TRY(get(m, want * (size_t)c->n_vocab, act, &s->logits, err));
    m->logits = malloc(want * (size_t)c->n_vocab * sizeof *m->logits);
    m->hidden = malloc(want * d * sizeof *m->hidden);
    m->inputs = calloc((size_t)m->p.max_seqs, sizeof *m->inputs);
    if (!m->logits || !m->hidden || !m->inputs)
        return hg_fail(err, HG_ENOMEM, "logits: out of memory");
    return hg_plan_create(m->p.max_rows, m->p.max_seqs, &m->plan, err);
}

static enum hg_status create_parts(struct hg_model *m, struct hg_err *err)
{
    m->mem = calloc((size_t)m->cfg.n_layers, sizeof *m->mem);
    if (!m->mem) return hg_fail(err, HG_ENOMEM, "model: out of memory");
    hg_model_sizes(&m->cfg, m->be, m->p.kv, &m->page_bytes, &m->slot_bytes);
    for (int32_t i = 0; i < m->cfg.n_layers; i++) HG_TRY(layer_memory(m, i, err));
    return scratch(m, err);
}

enum hg_status hg_model_create(const struct hg_config *c, struct hg_weights *w,
                               struct hg_backend *be, const struct hg_model_params *p,
                               struct hg_model **out, struct hg_err *err)
{
    struct hg_model *m = calloc(1, sizeof *m);
    if (!m) {
        hg_weights_free(w, c, be);
        return hg_fail(err, HG_ENOMEM, "model: out of memory");
    }
    m->cfg = *c;
    m->be = be;
    m->w = *w;
    m->p = *p;
    *w = (struct hg_weights){0};
    enum hg_status st = create_parts(m, err);
    if (st != HG_OK) {
        hg_model_free(m);
        return st;
    }
    *out = m;
    return HG_OK;
}

void hg_model_free(struct hg_model *m)
{
    if (!m) return;
    const struct hg_backend_ops *op = m->be->ops;
    for (int32_t i = 0; m->mem && i < m->cfg.n_layers; i++) {
        struct hg_layer_memory *mem = &m->mem[i];
        void *all[] = {mem->kv.pool, mem->state.s, mem->state.conv,  mem->stash.mixed,
                       mem->stash.k, mem->stash.v, mem->stash.alpha, mem->stash.beta};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) op->free(m->be, all[j]);
    }
    struct hg_scratch *s = &m->scratch;
    void *all[] = {s->x,      s->y,   s->mid[0], s->mid[1], s->mid[2],
                   s->mid[3], s->mix, s->hidden, s->logits};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) op->free(m->be, all[j]);
    hg_weights_free(&m->w, &m->cfg, m->be);
    hg_plan_free(m->plan);
    free(m->mem);
    free(m->logits);
    free(m->hidden);
    free(m->inputs);
    free(m);
}
