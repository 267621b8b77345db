/* SwiGLU: x += down(silu(gate y) * up y). */
#include "model/step.h"

void hg_layer_ffn(struct hg_model *m, int32_t layer)
{
    const struct hg_layer *w = &m->w.layer[layer];
    const struct hg_backend_ops *op = m->be->ops;
    struct hg_scratch *s = &m->scratch;
    void *g = s->mid[0], *u = s->mid[1];
    int32_t n = m->plan->n_rows;

    op->gemm(m->be,
             &(struct hg_gemm_args){.x = s->y,
                                    .n_rows = n,
                                    .n_parts = 2,
                                    .part = {{.w = &w->gate, .y = g}, {.w = &w->up, .y = u}}});
    op->silu_mul(m->be,
                 &(struct hg_silu_mul_args){.g = g, .u = u, .n_rows = n, .d = m->cfg.d_ff, .y = g});
    op->gemm(m->be, &(struct hg_gemm_args){.x = g,
                                           .n_rows = n,
                                           .n_parts = 1,
                                           .part = {{.w = &w->down, .y = s->x, .add = true}}});
}
