/* The gated delta rule, recurrent, by blocks of 32 columns of the state.
 *
 * Order, the same in EXTEND, VERIFY and commit, per row, v-head and column j:
 *   u = sum over d of k^[d] S[d][j]           even d and odd d apart, one v_fma each; u = even + odd
 *   delta = beta (v[j] - alpha u)
 *   S[d][j] = alpha S[d][j] + k^[d] delta      v_fma(k^, delta, alpha * S)
 *   o[j] = sum over d of q^[d] S[d][j]        as u
 * which is the recurrence of ops.h with alpha taken out of the first sum. A state passes over the
 * rows one by one, so neither the chunking of a prompt nor a tree changes a bit of it.
 *
 * Three passes over the pool: (1) rows: alpha, beta and the norms of q and k, for VERIFY the stash;
 * (2) tasks (sequence, v-head, block): the block [d_k][32] is copied into scratch (16 KB at 128:
 * L1) and walks over all rows of its sequence; (3) rows: RMS norm and gate of o.
 * VERIFY walks trees depth first: siblings start from a saved copy of their parent's block; the
 * state itself is not written.
 *
 * Per row and v-head 4 d_k d_v multiply-adds on L1 data: bound by FMA. Scratch per thread: block,
 * k^, q^ and up to 32 saved blocks (a saved block needs a branch, and 64 rows have at most 32
 * branching nodes on one path). */
#include <math.h>

#include "backend/cpu/kern.h"

enum { COLS = 32, VECS = COLS / 8, MAX_SAVED = HG_TREE_ROWS / 2 };

struct scratch {
    float s[CPU_MAX_D_STATE * COLS]; /* [d_k][32] */
    float k[CPU_MAX_D_STATE], q[CPU_MAX_D_STATE];
    float saved[MAX_SAVED][CPU_MAX_D_STATE * COLS];
};
_Static_assert(sizeof(struct scratch) <= CPU_THREAD_SCRATCH, "gdn scratch");

struct job {
    struct cpu *c;
    const struct hg_gdn_args *a;
    int32_t n_blocks; /* column blocks of a head */
};

/* One block at work. */
struct block {
    float *s; /* [d_k][32] */
    int32_t d_k;
    const float *k, *q; /* [d_k] */
    v8f v[VECS];        /* the row's v of these columns, zero behind d_v */
    float alpha, beta;
};

/* Reads and writes S; o may be NULL. */
V_INLINE void step(const struct block *b, const bool want_o, v8f o[VECS])
{
    v8f even[VECS], odd[VECS];
    for (int j = 0; j < VECS; j++) even[j] = odd[j] = v_zero();
    int32_t d = 0, pairs = b->d_k & ~1;
    for (; d < pairs; d += 2) {
        const float *s = b->s + d * COLS;
        v8f k0 = v_set1(b->k[d]), k1 = v_set1(b->k[d + 1]);
        UNROLL(4)
        for (int j = 0; j < VECS; j++) {
            even[j] = v_fma(k0, v_load(s + 8 * j), even[j]);
            odd[j] = v_fma(k1, v_load(s + COLS + 8 * j), odd[j]);
        }
    }
    if (d < b->d_k)
        for (int j = 0; j < VECS; j++)
            even[j] = v_fma(v_set1(b->k[d]), v_load(b->s + d * COLS + 8 * j), even[j]);

    v8f alpha = v_set1(b->alpha), delta[VECS];
    for (int j = 0; j < VECS; j++) {
        delta[j] = v_set1(b->beta) * v_fnma(alpha, even[j] + odd[j], b->v[j]);
        even[j] = odd[j] = v_zero();
    }
    for (d = 0; d < pairs; d += 2) {
        float *s = b->s + d * COLS;
        v8f k0 = v_set1(b->k[d]), k1 = v_set1(b->k[d + 1]);
        UNROLL(4)
        for (int j = 0; j < VECS; j++) {
            v8f s0 = v_fma(k0, delta[j], alpha * v_load(s + 8 * j));
            v8f s1 = v_fma(k1, delta[j], alpha * v_load(s + COLS + 8 * j));
            v_store(s + 8 * j, s0);
            v_store(s + COLS + 8 * j, s1);
            if (want_o) {
                even[j] = v_fma(v_set1(b->q[d]), s0, even[j]);
                odd[j] = v_fma(v_set1(b->q[d + 1]), s1, odd[j]);
            }
        }
    }
    if (d < b->d_k)
        for (int j = 0; j < VECS; j++) {
            float *s = b->s + d * COLS + 8 * j;
            v8f s0 = v_fma(v_set1(b->k[d]), delta[j], alpha * v_load(s));
            v_store(s, s0);
            if (want_o) even[j] = v_fma(v_set1(b->q[d]), s0, even[j]);
        }
    if (want_o)
        for (int j = 0; j < VECS; j++) o[j] = even[j] + odd[j];
}
static void step_o(const struct block *b, v8f o[VECS])
{
    step(b, true, o);
}
static void step_state(const struct block *b)
{
    step(b, false, NULL);
}

/* Columns c0.. of a head's state [d_k][d_v] to and from a block; columns behind d_v are zero. */
static void block_load(const float *state, int32_t d_k, int32_t d_v, int32_t c0, float *s)
{
    for (int32_t d = 0; d < d_k; d++)
        for (int j = 0; j < VECS; j++) {
            int32_t c = c0 + 8 * j, n = c < d_v ? d_v - c : 0;
            v_store(s + d * COLS + 8 * j, v_load_n(state + (int64_t)d * d_v + (n ? c : 0), n));
        }
}
static void block_store(float *state, int32_t d_k, int32_t d_v, int32_t c0, const float *s)
{
    for (int32_t d = 0; d < d_k; d++)
        for (int j = 0; j < VECS; j++) {
            int32_t c = c0 + 8 * j;
            if (c < d_v)
                v_store_n(state + (int64_t)d * d_v + c, v_load(s + d * COLS + 8 * j), d_v - c);
        }
}
static void load_v(const float *v, int32_t d_v, int32_t c0, v8f out[VECS])
{
    for (int j = 0; j < VECS; j++) {
        int32_t c = c0 + 8 * j;
        out[j] = c < d_v ? v_load_n(v + c, d_v - c) : v_zero();
    }
}
/* y = x * f, the one way a normalised q or k is made. */
static void scaled(const float *x, float f, int32_t d, float *y)
{
    for (int32_t i = 0; i < d; i += 8) v_store_n(y + i, v_load_n(x + i, d - i) * v_set1(f), d - i);
}
static float *state_of(const struct hg_gdn_state *st, int32_t slot, int32_t head)
{
    return st->s + ((int64_t)slot * st->dims.n_v_heads + head) * st->dims.d_k * st->dims.d_v;
}

/* ------------------------------------------------------------------- (1) factors of each row -- */

static float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

static void row_factors(void *ctx, int32_t r, int32_t thread)
{
    (void)thread;
    const struct job *j = ctx;
    const struct hg_gdn_args *a = j->a;
    const struct hg_gdn_dims *n = &a->state->dims;
    const float *c = (const float *)a->c + (int64_t)r * a->state->conv_dim;
    float *gate = j->c->gdn_gate + (int64_t)r * n->n_v_heads * 2;
    float *norm = j->c->gdn_norm + (int64_t)r * n->n_k_heads * 2;
    for (int32_t h = 0; h < n->n_v_heads; h++) {
        int64_t at = (int64_t)r * n->n_v_heads + h;
        float dt = softplus(((const float *)a->a)[at] + a->dt_bias[h]);
        gate[2 * h] = expf(a->neg_a[h] * dt);
        gate[2 * h + 1] = 1 / (1 + expf(-((const float *)a->b)[at]));
    }
    for (int32_t h = 0; h < n->n_k_heads; h++) {
        const float *q = c + h * n->d_k, *k = q + n->n_k_heads * n->d_k;
        norm[2 * h] = 1 / sqrtf(sum_squares(q, n->d_k) + 1e-6f) / sqrtf((float)n->d_k);
        norm[2 * h + 1] = 1 / sqrtf(sum_squares(k, n->d_k) + 1e-6f);
    }
    if (a->plan->kind != HG_VERIFY) return;
    const struct hg_gdn_stash *st = a->stash;
    for (int32_t h = 0; h < n->n_v_heads; h++) {
        st->alpha[(int64_t)r * n->n_v_heads + h] = gate[2 * h];
        st->beta[(int64_t)r * n->n_v_heads + h] = gate[2 * h + 1];
    }
    for (int32_t h = 0; h < n->n_k_heads; h++)
        scaled(c + (n->n_k_heads + h) * n->d_k, norm[2 * h + 1], n->d_k,
               st->k + ((int64_t)r * n->n_k_heads + h) * n->d_k);
    memcpy(st->v + (int64_t)r * n->n_v_heads * n->d_v, c + 2 * n->n_k_heads * n->d_k,
           (size_t)n->n_v_heads * (size_t)n->d_v * sizeof(float));
}

/* --------------------------------------------------------------------- (2) blocks over rows -- */

/* Row r of v-head h through the block in w->s; o goes to a->out. */
static void row_through(const struct job *j, struct scratch *w, int32_t r, int32_t h, int32_t c0)
{
    const struct hg_gdn_args *a = j->a;
    const struct hg_gdn_dims *n = &a->state->dims;
    int32_t kh = h / (n->n_v_heads / n->n_k_heads);
    const float *c = (const float *)a->c + (int64_t)r * a->state->conv_dim;
    const float *gate = j->c->gdn_gate + ((int64_t)r * n->n_v_heads + h) * 2;
    const float *norm = j->c->gdn_norm + ((int64_t)r * n->n_k_heads + kh) * 2;
    scaled(c + kh * n->d_k, norm[0], n->d_k, w->q);
    scaled(c + (n->n_k_heads + kh) * n->d_k, norm[1], n->d_k, w->k);
    struct block b = {w->s, n->d_k, w->k, w->q, .alpha = gate[0], .beta = gate[1]};
    load_v(c + 2 * n->n_k_heads * n->d_k + h * n->d_v, n->d_v, c0, b.v);
    v8f o[VECS];
    step_o(&b, o);
    float *out = (float *)a->out + ((int64_t)r * n->n_v_heads + h) * n->d_v;
    for (int v = 0; v < VECS; v++)
        if (c0 + 8 * v < n->d_v) v_store_n(out + c0 + 8 * v, o[v], n->d_v - c0 - 8 * v);
}

static void block_task(void *ctx, int32_t task, int32_t thread)
{
    const struct job *j = ctx;
    const struct hg_gdn_state *st = j->a->state;
    const struct hg_gdn_dims *n = &st->dims;
    struct scratch *w = cpu_scratch(j->c, thread);
    int32_t c0 = task % j->n_blocks * COLS, head = task / j->n_blocks % n->n_v_heads;
    const struct hg_plan_seq *seq = &j->a->plan->seq[task / j->n_blocks / n->n_v_heads];
    float *state = state_of(st, seq->slot, head);
    size_t bytes = (size_t)n->d_k * COLS * sizeof(float);
    block_load(state, n->d_k, n->d_v, c0, w->s);
    for (int32_t i = seq->row0; i < seq->row0 + seq->n_rows; i++) {
        struct cpu_visit v = seq->chain ? (struct cpu_visit){i, -1, -1} : j->c->walk[i];
        if (v.load == -2) block_load(state, n->d_k, n->d_v, c0, w->s);
        if (v.load >= 0) memcpy(w->s, w->saved[v.load], bytes);
        row_through(j, w, v.row, head, c0);
        if (v.save >= 0) memcpy(w->saved[v.save], w->s, bytes);
    }
    if (j->a->plan->kind == HG_EXTEND) block_store(state, n->d_k, n->d_v, c0, w->s);
}

/* Depth-first order of a forest into walk[row0..): a node's last child goes on from it directly,
 * the others start from a copy that it saved. */
static void plan_walk(const struct hg_plan *p, const struct hg_plan_seq *s, struct cpu_visit *walk)
{
    int32_t first[HG_TREE_ROWS + 1], next[HG_TREE_ROWS], level[HG_TREE_ROWS], stack[HG_TREE_ROWS];
    int32_t n = s->n_rows, depth = 0, at = s->row0;
    hg_assert(n <= HG_TREE_ROWS);
    for (int32_t i = 0; i <= n; i++) first[i] = -1;
    for (int32_t i = n - 1; i >= 0; i--) { /* child lists in row order; list n holds the roots */
        int32_t parent = p->parent[s->row0 + i] < 0 ? n : p->parent[s->row0 + i] - s->row0;
        next[i] = first[parent];
        first[parent] = i;
    }
    /* level[i]: saved blocks in use when i is visited. A node is taken off the stack, visited, and
     * replaced by its next sibling below its own children. */
    if (first[n] >= 0) {
        stack[depth++] = first[n];
        level[first[n]] = 0;
    }
    int32_t before = -1; /* node whose state is in the block */
    while (depth > 0) {
        int32_t i = stack[--depth],
                par = p->parent[s->row0 + i] < 0 ? -1 : p->parent[s->row0 + i] - s->row0;
        struct cpu_visit v = {s->row0 + i, -1, -1};
        if (par < 0)
            v.load = -2;
        else if (par != before)
            v.load = level[par];
        bool branches = first[i] >= 0 && next[first[i]] >= 0;
        if (branches) v.save = level[i];
        if (next[i] >= 0) {
            stack[depth++] = next[i];
            level[next[i]] = level[i];
        }
        if (first[i] >= 0) {
            stack[depth++] = first[i];
            level[first[i]] = level[i] + branches;
        }
        walk[at++] = v;
        before = i;
    }
}

/* ------------------------------------------------------------------------ (3) norm and gate -- */

static void row_finish(void *ctx, int32_t r, int32_t thread)
{
    (void)thread;
    const struct hg_gdn_args *a = ((const struct job *)ctx)->a;
    const struct hg_gdn_dims *n = &a->state->dims;
    for (int32_t h = 0; h < n->n_v_heads; h++) {
        int64_t at = ((int64_t)r * n->n_v_heads + h) * n->d_v;
        float *o = (float *)a->out + at;
        const float *z = (const float *)a->z + at;
        v8f inv = v_set1(1 / sqrtf(sum_squares(o, n->d_v) / (float)n->d_v + a->eps));
        for (int32_t i = 0; i < n->d_v; i += 8) {
            int32_t left = n->d_v - i;
            v8f y = v_load_n(o + i, left) * inv * v_load_n(a->norm_w + i, left);
            v_store_n(o + i, y * v_silu(v_load_n(z + i, left)), left);
        }
    }
}

static void check_dims(const struct hg_gdn_dims *n)
{
    hg_assert(n->d_k <= CPU_MAX_D_STATE && n->d_v <= CPU_MAX_D_STATE);
    hg_assert(n->n_v_heads <= CPU_MAX_V_HEADS && n->n_k_heads <= CPU_MAX_K_HEADS);
}

void HG_KERN(gdn)(struct cpu *c, const struct hg_gdn_args *a)
{
    const struct hg_gdn_dims *n = &a->state->dims;
    const struct hg_plan *p = a->plan;
    struct job j = {c, a, (n->d_v + COLS - 1) / COLS};
    check_dims(n);
    hg_assert(p->n_rows <= c->be.max_rows);
    for (int32_t i = 0; i < p->n_seqs; i++)
        if (!p->seq[i].chain) plan_walk(p, &p->seq[i], c->walk);
    hg_pool_run(c->pool, row_factors, &j, p->n_rows);
    hg_pool_run(c->pool, block_task, &j, p->n_seqs * n->n_v_heads * j.n_blocks);
    hg_pool_run(c->pool, row_finish, &j, p->n_rows);
}

/* -------------------------------------------------------------------------------- gdn_commit -- */

struct commit_job {
    struct cpu *c;
    const struct hg_gdn_commit_args *a;
    int32_t n_blocks;
};

static void commit_task(void *ctx, int32_t task, int32_t thread)
{
    const struct commit_job *j = ctx;
    const struct hg_gdn_commit_args *a = j->a;
    const struct hg_gdn_stash *st = a->stash;
    const struct hg_gdn_dims *n = &a->state->dims;
    struct scratch *w = cpu_scratch(j->c, thread);
    int32_t c0 = task % j->n_blocks * COLS, head = task / j->n_blocks;
    int32_t kh = head / (n->n_v_heads / n->n_k_heads);
    float *state = state_of(a->state, a->slot, head);
    block_load(state, n->d_k, n->d_v, c0, w->s);
    for (int32_t i = 0; i < a->n; i++) {
        int64_t r = a->path[i], rh = r * n->n_v_heads + head;
        struct block b = {w->s,
                          n->d_k,
                          st->k + (r * n->n_k_heads + kh) * n->d_k,
                          NULL,
                          .alpha = st->alpha[rh],
                          .beta = st->beta[rh]};
        load_v(st->v + rh * n->d_v, n->d_v, c0, b.v);
        step_state(&b);
    }
    block_store(state, n->d_k, n->d_v, c0, w->s);
}

void HG_KERN(gdn_commit)(struct cpu *c, const struct hg_gdn_commit_args *a)
{
    const struct hg_gdn_dims *n = &a->state->dims;
    struct commit_job j = {c, a, (n->d_v + COLS - 1) / COLS};
    check_dims(n);
    if (a->n < 1) return;
    hg_pool_run(c->pool, commit_task, &j, n->n_v_heads * j.n_blocks);

    int32_t width = a->state->conv_dim, keep = a->n < 3 ? 3 - a->n : 0;
    float *win = (float *)a->state->conv + (int64_t)a->slot * 3 * width;
    memmove(win, win + (3 - keep) * (int64_t)width, (size_t)keep * (size_t)width * sizeof(float));
    for (int32_t i = keep; i < 3; i++)
        memcpy(win + (int64_t)i * width,
               (const float *)a->stash->mixed + (int64_t)a->path[a->n - 3 + i] * width,
               (size_t)width * sizeof(float));
}
