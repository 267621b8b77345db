/* Gated delta net: q|k|v, z, a, b projections; causal conv; gated delta rule with norm and gate;
 * output projection into the residual stream. */
#include "model/step.h"

void hg_layer_gdn(struct hg_model *m, int32_t layer)
{
    const struct hg_layer *w = &m->w.layer[layer];
    const struct hg_layer_memory *mem = &m->mem[layer];
    const struct hg_backend_ops *op = m->be->ops;
    struct hg_scratch *s = &m->scratch;
    int32_t n = m->plan->n_rows;
    /* A VERIFY step keeps the conv's inputs for commit: the gemm writes them where they stay. */
    void *mixed = m->plan->kind == HG_VERIFY ? mem->stash.mixed : s->mid[0];
    void *z = s->mid[1], *a = s->mid[2], *b = s->mid[3], *c = s->mix;

    op->gemm(m->be, &(struct hg_gemm_args){.x = s->y,
                                           .n_rows = n,
                                           .n_parts = 4,
                                           .part = {{.w = &w->qkv, .y = mixed},
                                                    {.w = &w->z, .y = z},
                                                    {.w = &w->a, .y = a},
                                                    {.w = &w->b, .y = b}}});
    op->gdn_conv(m->be,
                 &(struct hg_gdn_conv_args){
                     .plan = m->plan, .mixed = mixed, .w = w->conv, .state = &mem->state, .c = c});
    op->gdn(m->be, &(struct hg_gdn_args){.plan = m->plan,
                                         .c = c,
                                         .a = a,
                                         .b = b,
                                         .z = z,
                                         .neg_a = w->neg_a,
                                         .dt_bias = w->dt_bias,
                                         .norm_w = w->head_norm,
                                         .eps = m->cfg.rms_eps,
                                         .state = &mem->state,
                                         .stash = &mem->stash,
                                         .out = s->mid[0]});
    op->gemm(m->be, &(struct hg_gemm_args){.x = s->mid[0],
                                           .n_rows = n,
                                           .n_parts = 1,
                                           .part = {{.w = &w->out, .y = s->x, .add = true}}});
}
