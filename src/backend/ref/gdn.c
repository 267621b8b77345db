/* The GDN layer's ops around the delta rule: conv, gates, norms, stash, commit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ref/ref.h"

static float *window(const struct hg_gdn_state *st, int32_t slot, int32_t col)
{
    return (float *)st->conv + ((int64_t)slot * 3 + col) * st->conv_dim;
}

/* The window after the rows path[0..n) with inputs mixed: the last three of (window ++ rows). */
static void shift_window(const struct hg_gdn_state *st, int32_t slot, const float *mixed,
                         const int32_t *path, int32_t n)
{
    size_t bytes = (size_t)st->conv_dim * sizeof(float);
    for (int32_t col = 0; col < 3; col++) {
        int32_t from =
            col + n; /* index into window ++ rows; ascending, so never overwritten early */
        const float *src =
            from < 3 ? window(st, slot, from) : mixed + (int64_t)path[from - 3] * st->conv_dim;
        memmove(window(st, slot, col), src, bytes);
    }
}

void ref_gdn_conv(struct hg_backend *be, const struct hg_gdn_conv_args *a)
{
    (void)be;
    const struct hg_plan *p = a->plan;
    int32_t dim = a->state->conv_dim;
    const float *mixed = a->mixed;
    for (int32_t r = 0; r < p->n_rows; r++) {
        const float *in[4] = {NULL, NULL, NULL, mixed + (int64_t)r * dim};
        for (int32_t j = 0; j < 3; j++) {
            int32_t src = p->conv_src[(size_t)r * 3 + (size_t)j];
            in[j] = src >= 0 ? mixed + (int64_t)src * dim
                             : window(a->state, p->seq[p->row_seq[r]].slot, -1 - src);
        }
        for (int32_t ch = 0; ch < dim; ch++) {
            float sum = 0;
            for (int32_t j = 0; j < 4; j++) sum += a->w[ch * 4 + j] * in[j][ch];
            ((float *)a->c)[(int64_t)r * dim + ch] = sum / (1 + expf(-sum));
        }
    }
    if (p->kind != HG_EXTEND) return;
    for (int32_t i = 0; i < p->n_seqs; i++) {
        const struct hg_plan_seq *s = &p->seq[i];
        int32_t last[3], n = s->n_rows < 3 ? s->n_rows : 3;
        for (int32_t j = 0; j < n; j++) last[j] = s->row0 + s->n_rows - n + j;
        shift_window(a->state, s->slot, mixed, last, n);
    }
}

static void l2norm(const float *x, int32_t n, float scale, float *y)
{
    float sum = 0;
    for (int32_t i = 0; i < n; i++) sum += x[i] * x[i];
    float inv = scale / sqrtf(sum + 1e-6f);
    for (int32_t i = 0; i < n; i++) y[i] = x[i] * inv;
}

/* Per-head inputs of the delta rule over one sequence's rows. */
struct head {
    float *q, *k, *v, *g, *beta, *o;
    int32_t *parent; /* within the sequence */
};

static void head_load(const struct hg_gdn_args *a, const struct hg_plan_seq *s, int32_t h,
                      struct head *x)
{
    const struct hg_gdn_dims *d = &a->state->dims;
    int32_t kh = h / (d->n_v_heads / d->n_k_heads);
    for (int32_t t = 0; t < s->n_rows; t++) {
        int64_t r = s->row0 + t;
        const float *c = (const float *)a->c + r * a->state->conv_dim;
        l2norm(c + kh * d->d_k, d->d_k, 1 / sqrtf((float)d->d_k), x->q + t * d->d_k);
        l2norm(c + (d->n_k_heads + kh) * d->d_k, d->d_k, 1, x->k + t * d->d_k);
        memcpy(x->v + t * d->d_v, c + 2 * d->n_k_heads * d->d_k + h * d->d_v,
               (size_t)d->d_v * sizeof(float));
        float in = ((const float *)a->a)[r * d->n_v_heads + h] + a->dt_bias[h];
        float b = ((const float *)a->b)[r * d->n_v_heads + h];
        x->g[t] = a->neg_a[h] * (in > 20 ? in : log1pf(expf(in)));
        x->beta[t] = 1 / (1 + expf(-b));
        x->parent[t] = a->plan->parent[r] < 0 ? -1 : a->plan->parent[r] - s->row0;
        if (a->plan->kind != HG_VERIFY) continue;
        memcpy(a->stash->k + (r * d->n_k_heads + kh) * d->d_k, x->k + t * d->d_k,
               (size_t)d->d_k * sizeof(float));
        memcpy(a->stash->v + (r * d->n_v_heads + h) * d->d_v, x->v + t * d->d_v,
               (size_t)d->d_v * sizeof(float));
        a->stash->alpha[r * d->n_v_heads + h] = expf(x->g[t]);
        a->stash->beta[r * d->n_v_heads + h] = x->beta[t];
    }
}

/* VERIFY in recurrent form: every node gets its own copy of the state. */
static void tree_recurrent(const struct hg_gdn_dims *d, int32_t n, const struct head *x,
                           const float *s)
{
    size_t size = (size_t)d->d_k * (size_t)d->d_v;
    float *copy = malloc((size_t)n * size * sizeof *copy);
    hg_assert(copy);
    for (int32_t t = 0; t < n; t++) {
        float *mine = copy + (size_t)t * size;
        memcpy(mine, x->parent[t] < 0 ? s : copy + (size_t)x->parent[t] * size,
               size * sizeof *mine);
        ref_delta_recurrent(1, d->d_k, d->d_v, x->q + t * d->d_k, x->k + t * d->d_k,
                            x->v + t * d->d_v, x->g + t, x->beta + t, mine, x->o + t * d->d_v);
    }
    free(copy);
}

static void head_store(const struct hg_gdn_args *a, const struct hg_plan_seq *s, int32_t h,
                       const struct head *x)
{
    int32_t d_v = a->state->dims.d_v, n_v = a->state->dims.n_v_heads;
    for (int32_t t = 0; t < s->n_rows; t++) {
        const float *o = x->o + t * d_v;
        int64_t at = ((int64_t)(s->row0 + t) * n_v + h) * d_v;
        float sum = 0;
        for (int32_t i = 0; i < d_v; i++) sum += o[i] * o[i];
        float inv = 1 / sqrtf(sum / (float)d_v + a->eps);
        for (int32_t i = 0; i < d_v; i++) {
            float z = ((const float *)a->z)[at + i];
            ((float *)a->out)[at + i] = o[i] * inv * a->norm_w[i] * (z / (1 + expf(-z)));
        }
    }
}

void ref_gdn(struct hg_backend *be, const struct hg_gdn_args *a)
{
    const struct hg_gdn_dims *d = &a->state->dims;
    bool chunked = strcmp(be->name, "ref:chunked") == 0;
    size_t n = (size_t)a->plan->n_rows, d_k = (size_t)d->d_k, d_v = (size_t)d->d_v;
    float *f = calloc(n * (2 * d_k + 2 * d_v + 3), sizeof *f);
    hg_assert(f); /* the oracle may allocate: it never serves */
    struct head x = {.q = f, .k = f + n * d_k, .v = f + 2 * n * d_k, .o = f + n * (2 * d_k + d_v)};
    x.g = x.o + n * d_v;
    x.beta = x.g + n;
    x.parent = (int32_t *)(x.beta + n);
    for (int32_t i = 0; i < a->plan->n_seqs; i++)
        for (int32_t h = 0; h < d->n_v_heads; h++) {
            const struct hg_plan_seq *s = &a->plan->seq[i];
            float *state = a->state->s + ((int64_t)s->slot * d->n_v_heads + h) * d->d_k * d->d_v;
            head_load(a, s, h, &x);
            if (a->plan->kind == HG_VERIFY && chunked)
                ref_delta_tree(s->n_rows, x.parent, d->d_k, d->d_v, x.q, x.k, x.v, x.g, x.beta,
                               state, x.o);
            else if (a->plan->kind == HG_VERIFY)
                tree_recurrent(d, s->n_rows, &x, state);
            else
                (chunked ? ref_delta_chunk : ref_delta_recurrent)(
                    s->n_rows, d->d_k, d->d_v, x.q, x.k, x.v, x.g, x.beta, state, x.o);
            head_store(a, s, h, &x);
        }
    free(f);
}

void ref_gdn_commit(struct hg_backend *be, const struct hg_gdn_commit_args *a)
{
    (void)be;
    const struct hg_gdn_dims *d = &a->state->dims;
    for (int32_t h = 0; h < d->n_v_heads; h++) {
        float *s = a->state->s + ((int64_t)a->slot * d->n_v_heads + h) * d->d_k * d->d_v;
        int32_t kh = h / (d->n_v_heads / d->n_k_heads);
        for (int32_t t = 0; t < a->n; t++) {
            int64_t r = a->path[t];
            const float *k = a->stash->k + (r * d->n_k_heads + kh) * d->d_k;
            const float *v = a->stash->v + (r * d->n_v_heads + h) * d->d_v;
            float alpha = a->stash->alpha[r * d->n_v_heads + h];
            float beta = a->stash->beta[r * d->n_v_heads + h];
            for (int32_t j = 0; j < d->d_v; j++) {
                float read = 0;
                for (int32_t i = 0; i < d->d_k; i++) read += k[i] * (alpha * s[i * d->d_v + j]);
                float delta = beta * (v[j] - read);
                for (int32_t i = 0; i < d->d_k; i++)
                    s[i * d->d_v + j] = alpha * s[i * d->d_v + j] + k[i] * delta;
            }
        }
    }
    int32_t n = a->n < 3 ? a->n : 3;
    shift_window(a->state, a->slot, a->stash->mixed, a->path + a->n - n, n);
}
