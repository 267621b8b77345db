/* Gated attention: q (with its gate), k, v projections; q/k norm and partial RoPE; attention over
 * paged KV; sigmoid gate; output projection into the residual stream. */
#include "model/step.h"

void hg_layer_attn(struct hg_model *m, int32_t layer)
{
    const struct hg_config *c = &m->cfg;
    const struct hg_layer *w = &m->w.layer[layer];
    const struct hg_layer_memory *mem = &m->mem[layer];
    const struct hg_backend_ops *op = m->be->ops;
    struct hg_scratch *s = &m->scratch;
    void *qg = s->mid[0], *k = s->mid[1], *v = s->mid[2], *q = s->mid[3];
    int32_t n = m->plan->n_rows;

    op->gemm(m->be,
             &(struct hg_gemm_args){
                 .x = s->y,
                 .n_rows = n,
                 .n_parts = 3,
                 .part = {{.w = &w->q, .y = qg}, {.w = &w->k, .y = k}, {.w = &w->v, .y = v}}});
    op->attn_in(m->be, &(struct hg_attn_in_args){.plan = m->plan,
                                                 .qg = qg,
                                                 .k = k,
                                                 .v = v,
                                                 .q_norm = w->q_norm,
                                                 .k_norm = w->k_norm,
                                                 .eps = c->rms_eps,
                                                 .n_heads = c->n_heads,
                                                 .d_rope = c->d_rope,
                                                 .rope_theta = c->rope_theta,
                                                 .kv = &mem->kv,
                                                 .q = q});
    op->attn(m->be, &(struct hg_attn_args){.plan = m->plan,
                                           .q = q,
                                           .qg = qg,
                                           .kv = &mem->kv,
                                           .n_heads = c->n_heads,
                                           .out = s->mix});
    op->gemm(m->be, &(struct hg_gemm_args){.x = s->mix,
                                           .n_rows = n,
                                           .n_parts = 1,
                                           .part = {{.w = &w->o, .y = s->x, .add = true}}});
}
