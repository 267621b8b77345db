#include "op_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "base/rng.h"

static void must(enum hg_status st, const struct hg_err *err)
{
    if (st) fail_msg("%s", err->text);
}
static float *floats(struct sim *s, size_t n)
{
    struct hg_err err;
    void *p;
    must(s->be->ops->alloc(s->be, n * sizeof(float), &p, &err), &err);
    return p;
}
static void fill(float *x, size_t n, uint64_t seed, float scale, float shift)
{
    struct hg_rng g = {seed * 0x9E3779B97F4A7C15u};
    for (size_t i = 0; i < n; i++) x[i] = hg_rng_normal(&g) * scale + shift;
}

size_t sim_attn_width(const struct sim *s)
{
    return (size_t)s->d.n_heads * (size_t)s->d.d_head;
}
size_t sim_gdn_width(const struct sim *s)
{
    return (size_t)s->d.gdn.n_v_heads * (size_t)s->d.gdn.d_v;
}
size_t sim_state_floats(const struct sim *s)
{
    return sim_gdn_width(s) * (size_t)s->d.gdn.d_k;
}
size_t sim_conv_floats(const struct sim *s)
{
    return 3 * (size_t)s->conv_dim;
}
const float *sim_attn_row(const struct sim *s, int32_t r)
{
    return s->attn + (size_t)r * sim_attn_width(s);
}
const float *sim_gdn_row(const struct sim *s, int32_t r)
{
    return s->gdn + (size_t)r * sim_gdn_width(s);
}
const float *sim_state(const struct sim *s, int32_t seq)
{
    return s->state.s + (size_t)seq * sim_state_floats(s);
}
const float *sim_conv(const struct sim *s, int32_t seq)
{
    return (const float *)s->state.conv + (size_t)seq * sim_conv_floats(s);
}

static size_t kv_width(const struct sim *s)
{
    return (size_t)s->d.n_kv_heads * (size_t)s->d.d_head;
}

void sim_open(struct sim *s, struct hg_backend *be, const struct sim_dims *d)
{
    struct hg_err err;
    const struct hg_gdn_dims *g = &d->gdn;
    *s = (struct sim){.be = be, .d = *d};
    s->conv_dim = 2 * g->n_k_heads * g->d_k + g->n_v_heads * g->d_v;
    must(hg_plan_create(SIM_ROWS, SIM_SEQS, &s->plan, &err), &err);
    s->kv = (struct hg_kv_layer){.page_bytes =
                                     be->ops->kv_page_bytes(be, d->kv, d->n_kv_heads, d->d_head),
                                 .dtype = d->kv,
                                 .n_kv_heads = d->n_kv_heads,
                                 .d_head = d->d_head,
                                 .k_scale = 0.02f,
                                 .v_scale = 0.013f};
    s->kv.pool = (uint8_t *)floats(s, SIM_SEQS * SIM_PAGES * s->kv.page_bytes / sizeof(float));
    /* what no row has written must not matter */
    memset(s->kv.pool, 0xff, SIM_SEQS * SIM_PAGES * s->kv.page_bytes);
    for (int32_t i = 0; i < SIM_SEQS * SIM_PAGES; i++) /* pages in no order */
        s->pages[i % SIM_SEQS][i / SIM_SEQS] = (i * 37 + 11) % (SIM_SEQS * SIM_PAGES);
    s->state = (struct hg_gdn_state){.s = floats(s, SIM_SEQS * sim_state_floats(s)),
                                     .conv = floats(s, SIM_SEQS * sim_conv_floats(s)),
                                     .dims = *g,
                                     .conv_dim = s->conv_dim};
    size_t rows = SIM_ROWS, d_head = (size_t)d->d_head, nv = (size_t)g->n_v_heads;
    s->q_norm = floats(s, d_head);
    s->k_norm = floats(s, d_head);
    s->conv_w = floats(s, 4 * (size_t)s->conv_dim);
    s->neg_a = floats(s, nv);
    s->dt_bias = floats(s, nv);
    s->norm_w = floats(s, (size_t)g->d_v);
    s->qg = floats(s, rows * 2 * sim_attn_width(s));
    s->k = floats(s, rows * kv_width(s));
    s->v = floats(s, rows * kv_width(s));
    s->q = floats(s, rows * sim_attn_width(s));
    s->attn = floats(s, rows * sim_attn_width(s));
    s->mixed = floats(s, rows * (size_t)s->conv_dim);
    s->c = floats(s, rows * (size_t)s->conv_dim);
    s->a = floats(s, rows * nv);
    s->b = floats(s, rows * nv);
    s->z = floats(s, rows * sim_gdn_width(s));
    s->gdn = floats(s, rows * sim_gdn_width(s));
    s->stash.mixed = s->mixed;
    s->stash.k = floats(s, rows * (size_t)(g->n_k_heads * g->d_k));
    s->stash.v = floats(s, rows * sim_gdn_width(s));
    s->stash.alpha = floats(s, rows * nv);
    s->stash.beta = floats(s, rows * nv);
    fill(s->q_norm, d_head, 1, .2f, 1);
    fill(s->k_norm, d_head, 2, .2f, 1);
    fill(s->conv_w, 4 * (size_t)s->conv_dim, 3, .4f, 0);
    fill(s->neg_a, nv, 4, 0, -0.3f);
    for (size_t i = 0; i < nv; i++) s->neg_a[i] *= (float)(i % 4 + 1);
    fill(s->dt_bias, nv, 5, .5f, -1);
    fill(s->norm_w, (size_t)g->d_v, 6, .2f, 1);
}

void sim_close(struct sim *s)
{
    float *all[] = {(float *)s->kv.pool,
                    s->state.s,
                    s->state.conv,
                    s->q_norm,
                    s->k_norm,
                    s->conv_w,
                    s->neg_a,
                    s->dt_bias,
                    s->norm_w,
                    s->qg,
                    s->k,
                    s->v,
                    s->q,
                    s->attn,
                    s->mixed,
                    s->c,
                    s->a,
                    s->b,
                    s->z,
                    s->gdn,
                    s->stash.k,
                    s->stash.v,
                    s->stash.alpha,
                    s->stash.beta};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) s->be->ops->free(s->be, all[i]);
    hg_plan_free(s->plan);
}

void sim_begin(struct sim *s)
{
    s->n_rows = 0;
}

int32_t sim_add(struct sim *s, int32_t seq, hg_tok token, int32_t parent)
{
    assert_true(s->n_rows < SIM_ROWS);
    int32_t pos = parent < 0 ? s->n_past[seq] : s->rows[parent].pos + 1;
    s->rows[s->n_rows] = (struct hg_row){token, seq, pos, parent, 0};
    return s->n_rows++;
}

void sim_chain(struct sim *s, int32_t seq, const hg_tok *tok, int32_t n)
{
    for (int32_t i = 0; i < n; i++) sim_add(s, seq, tok[i], i ? s->n_rows - 1 : -1);
}

static void inputs(struct sim *s)
{
    size_t nv = (size_t)s->d.gdn.n_v_heads;
    for (int32_t r = 0; r < s->n_rows; r++) {
        uint64_t t = (uint64_t)s->rows[r].token * 16;
        size_t i = (size_t)r;
        fill(s->qg + i * 2 * sim_attn_width(s), 2 * sim_attn_width(s), t + 1, 2, 0);
        fill(s->k + i * kv_width(s), kv_width(s), t + 2, 1, 0);
        fill(s->v + i * kv_width(s), kv_width(s), t + 3, 1, 0);
        fill(s->mixed + i * (size_t)s->conv_dim, (size_t)s->conv_dim, t + 4, 1, 0);
        fill(s->a + i * nv, nv, t + 5, 1, 0);
        fill(s->b + i * nv, nv, t + 6, 1, 0);
        fill(s->z + i * sim_gdn_width(s), sim_gdn_width(s), t + 7, 1, 0);
    }
}

void sim_run(struct sim *s, enum hg_step_kind kind)
{
    struct hg_err err;
    struct hg_plan_input in[SIM_SEQS];
    int32_t index[SIM_SEQS] = {-1, -1, -1}, n_in = 0;
    struct hg_row rows[SIM_ROWS];
    for (int32_t r = 0; r < s->n_rows; r++) { /* sequences numbered as they come */
        int32_t q = s->rows[r].seq;
        if (index[q] < 0) {
            index[q] = n_in;
            in[n_in++] = (struct hg_plan_input){s->n_past[q], q, s->pages[q], SIM_PAGES};
        }
        rows[r] = s->rows[r];
        rows[r].seq = index[q];
    }
    inputs(s);
    must(hg_plan_build(s->plan, kind, rows, s->n_rows, in, n_in, 1 << 30, &err), &err);
    must(s->be->ops->plan(s->be, s->plan, &err), &err);
    s->be->ops->attn_in(s->be, &(struct hg_attn_in_args){.plan = s->plan,
                                                         .qg = s->qg,
                                                         .k = s->k,
                                                         .v = s->v,
                                                         .q_norm = s->q_norm,
                                                         .k_norm = s->k_norm,
                                                         .eps = 1e-6f,
                                                         .n_heads = s->d.n_heads,
                                                         .d_rope = s->d.d_rope,
                                                         .rope_theta = 1e6f,
                                                         .kv = &s->kv,
                                                         .q = s->q});
    s->be->ops->attn(s->be, &(struct hg_attn_args){.plan = s->plan,
                                                   .q = s->q,
                                                   .qg = s->qg,
                                                   .kv = &s->kv,
                                                   .n_heads = s->d.n_heads,
                                                   .out = s->attn});
    s->be->ops->gdn_conv(
        s->be,
        &(struct hg_gdn_conv_args){
            .plan = s->plan, .mixed = s->mixed, .w = s->conv_w, .state = &s->state, .c = s->c});
    s->be->ops->gdn(s->be, &(struct hg_gdn_args){.plan = s->plan,
                                                 .c = s->c,
                                                 .a = s->a,
                                                 .b = s->b,
                                                 .z = s->z,
                                                 .neg_a = s->neg_a,
                                                 .dt_bias = s->dt_bias,
                                                 .norm_w = s->norm_w,
                                                 .eps = 1e-6f,
                                                 .state = &s->state,
                                                 .stash = &s->stash,
                                                 .out = s->gdn});
    s->be->ops->sync(s->be);
    if (kind == HG_EXTEND)
        for (int32_t r = 0; r < s->n_rows; r++) s->n_past[s->rows[r].seq]++;
}

void sim_commit(struct sim *s, int32_t seq, const int32_t *path, int32_t n)
{
    int32_t src[HG_TREE_ROWS], dst[HG_TREE_ROWS];
    for (int32_t i = 0; i < n; i++) {
        int32_t pos = s->n_past[seq] + i;
        src[i] = s->plan->kv_slot[path[i]];
        dst[i] = s->pages[seq][pos / HG_PAGE_TOKENS] * HG_PAGE_TOKENS + pos % HG_PAGE_TOKENS;
    }
    s->be->ops->kv_move(s->be, &(struct hg_kv_move_args){&s->kv, src, dst, n});
    s->be->ops->gdn_commit(s->be, &(struct hg_gdn_commit_args){&s->state, &s->stash, seq, path, n});
    s->be->ops->sync(s->be);
    s->n_past[seq] += n;
}

uint64_t sim_seed(void)
{
    const char *e = getenv("HG_SEED");
    uint64_t seed = e ? strtoull(e, NULL, 0) : 1;
    printf("seed %llu\n", (unsigned long long)seed);
    return seed;
}
