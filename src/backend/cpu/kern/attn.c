/* out = softmax(q K^T / sqrt(d_head)) V * sigmoid(gate), by segments of 512 absolute positions.
 *
 * Order, the same for every row whatever runs beside it (decode, prefill, tree node):
 *   q is scaled once by k_scale / sqrt(d_head).
 *   score[p] = sum over d ascending of q[d] K[p][d]                       one v_fma each
 *   per segment: m = max; e[p] = exp(score[p] - m); l = sum of e in 4 x 8 lanes (row_softmax);
 *                o[d] = sum over p ascending of e[p] V[p][d]              one v_fma each
 *   segments merge in ascending order into (m, l, o) by rescaling to the larger m
 *   out = o * (v_scale / l) * sigmoid(gate)
 * So segments may run on different threads, and 64 rows or one may share a pass over the cache.
 *
 * A *unit* is (kv head, up to MAX_Q query vectors: rows of one sequence times the heads that share
 * the kv head). Positions are read in page blocks of 64. Few queries (<= 6) widen K and V in
 * registers: bound by reading the cache. Many widen a block once into fp32 panels of 16 columns
 * and run 6 x 16 register blocks (micro.h): bound by FMA.
 *
 * Trees: the step's rows lie in scratch slots behind the committed tokens, in row order. Scores
 * against all of them are computed as one or two more blocks and picked by path; V of the path is
 * added row by row. Nothing behind a row's own position is ever read into a sum.
 *
 * Scratch per thread: struct work. Shared: partial results of segments (run_split). */
#include <math.h>

#include "backend/cpu/kern.h"
#include "backend/cpu/kv.h"
#include "backend/cpu/micro.h"

enum {
    SEG = 512,
    PAGE = HG_PAGE_TOKENS,
    MAX_Q = 64,          /* queries of a unit; also the most heads per kv head */
    TILE_Q = 48,         /* aimed at: 8 row groups per widened block */
    TREE_COLS = 2 * PAGE /* the at most 64 rows of a tree touch at most 2 blocks */
};

struct work {
    float q[MAX_Q * CPU_MAX_D_HEAD];     /* [n_q][d] scaled */
    float s[MAX_Q * SEG];                /* [n_q][512] scores, then weights */
    float tree[MAX_Q * TREE_COLS];       /* [n_q][TREE_COLS] scores against the step's rows */
    float o[MAX_Q * CPU_MAX_D_HEAD];     /* [n_q][dp] of the segment */
    float wide[PAGE * CPU_MAX_D_HEAD];   /* a widened block, in panels [.][16] */
    float v_tree[PAGE * CPU_MAX_D_HEAD]; /* [n_rows][dp] of the step's rows */
    float sum[MAX_Q * CPU_MAX_D_HEAD];   /* [n_q][dp] merged */
    float m[MAX_Q], l[MAX_Q], m_all[MAX_Q], l_all[MAX_Q];
};
_Static_assert(sizeof(struct work) <= CPU_THREAD_SCRATCH, "attention scratch");

struct job {
    struct cpu *c;
    const struct hg_attn_args *a;
    int32_t group;     /* heads per kv head */
    int32_t tile_rows; /* rows of a unit */
    int32_t dp;        /* d_head padded to 16 */
    float q_scale, v_scale;
    int32_t unit0, n_units; /* split mode: units of this batch */
    int32_t n_seg;          /* split mode: segments of the longest unit */
};

struct unit {
    const struct hg_plan_seq *seq;
    int32_t row0, n_rows, n_q, kv_head;
    int32_t last_pos; /* largest position of its rows */
    int32_t n_flat;   /* positions that are read by page, in order: all, or the committed ones */
};

static int32_t min_i(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Units are numbered by sequence, then rows, then kv head; heavy (late) rows come first. */
static int32_t seq_tiles(const struct job *j, const struct hg_plan_seq *s)
{
    return (s->n_rows + j->tile_rows - 1) / j->tile_rows;
}
static int32_t count_units(const struct job *j)
{
    int32_t n = 0;
    for (int32_t i = 0; i < j->a->plan->n_seqs; i++) n += seq_tiles(j, &j->a->plan->seq[i]);
    return n * j->a->kv->n_kv_heads;
}
static struct unit unit_at(const struct job *j, int32_t i)
{
    const struct hg_plan *p = j->a->plan;
    int32_t heads = j->a->kv->n_kv_heads, tile = i / heads;
    const struct hg_plan_seq *s = p->seq;
    while (tile >= seq_tiles(j, s)) tile -= seq_tiles(j, s++);
    tile = seq_tiles(j, s) - 1 - tile;
    struct unit u = {.seq = s, .kv_head = i % heads};
    u.row0 = s->row0 + tile * j->tile_rows;
    u.n_rows = min_i(j->tile_rows, s->row0 + s->n_rows - u.row0);
    u.n_q = u.n_rows * j->group;
    for (int32_t r = 0; r < u.n_rows; r++)
        if (p->pos[u.row0 + r] > u.last_pos) u.last_pos = p->pos[u.row0 + r];
    u.n_flat = s->chain ? u.last_pos + 1 : s->n_past;
    return u;
}
static int32_t unit_segments(const struct unit *u)
{
    return u->last_pos / SEG + 1;
}

/* ---------------------------------------------------------------------- products by block -- */

#define BY_TYPE(type, call)                                                                        \
    do {                                                                                           \
        if ((type) == HG_KV_FP8)                                                                   \
            call(MICRO_FP8);                                                                       \
        else if ((type) == HG_KV_BF16)                                                             \
            call(MICRO_BF16);                                                                      \
        else                                                                                       \
            call(MICRO_F32);                                                                       \
    } while (0)

static void direct(enum hg_kv type, struct micro m, int32_t n_rows, int32_t n_cols)
{
#define CALL(kind) micro_rows(kind, m, n_rows, n_cols)
    BY_TYPE(type, CALL);
#undef CALL
}

/* src [n_rows][n_cols] to panels [n_cols / 16][panel_rows][16]; columns padded with zeros. */
V_INLINE void widen_as(enum micro_b kind, const uint8_t *src, int32_t n_rows, int32_t n_cols,
                       int32_t panel_rows, float *out)
{
    const int64_t es = kind == MICRO_FP8 ? 1 : kind == MICRO_BF16 ? 2 : 4;
    for (int32_t i = 0; i < n_rows; i++)
        for (int32_t j = 0; j < n_cols; j += 8) {
            float *to = out + (int64_t)(j / 16) * panel_rows * 16 + i * 16 + j % 16;
            const uint8_t *from = src + (i * (int64_t)n_cols + j) * es;
            if (j + 8 <= n_cols) {
                v_store(to, micro_load(kind, from, 0));
                continue;
            }
            uint8_t tail[32] = {0};
            memcpy(tail, from, (size_t)((n_cols - j) * es));
            v_store(to, micro_load(kind, tail, 0));
        }
    if (n_cols % 16 && n_cols % 16 <= 8)
        for (int32_t i = 0; i < n_rows; i++)
            v_store(out + (int64_t)(n_cols / 16) * panel_rows * 16 + i * 16 + 8, v_zero());
}
static void widen(enum hg_kv type, const uint8_t *src, int32_t n_rows, int32_t n_cols,
                  int32_t panel_rows, float *out)
{
#define CALL(kind) widen_as(kind, src, n_rows, n_cols, panel_rows, out)
    BY_TYPE(type, CALL);
#undef CALL
}

/* s[q][0..64) = scores against one page block. */
static void block_scores(const struct job *j, const struct unit *u, struct work *w, int32_t block,
                         float *s, int32_t s_step)
{
    const struct hg_kv_layer *kv = j->a->kv;
    const uint8_t *k = kv_block(kv, u->seq->pages[block], u->kv_head);
    int32_t d = kv->d_head;
    struct micro m = {.a = w->q, .a_step = d, .c = s, .c_step = s_step, .n_k = d, .zero = true};
    if (u->n_q <= MICRO_ROWS) {
        m.b = k;
        m.b_step = PAGE;
        direct(kv->dtype, m, u->n_q, PAGE);
        return;
    }
    widen(kv->dtype, k, d, PAGE, d, w->wide);
    for (int32_t i = 0; i < PAGE / MICRO_COLS; i++) {
        m.b = w->wide + (int64_t)i * d * MICRO_COLS;
        m.b_step = MICRO_COLS;
        m.c = s + i * MICRO_COLS;
        micro_f32(m, u->n_q, MICRO_COLS);
    }
}

/* o[q] += weights e[q][0..n) times the first n tokens' V of a block. */
static void block_values(const struct job *j, const struct unit *u, struct work *w, int32_t block,
                         int32_t n, const float *e, bool zero)
{
    const struct hg_kv_layer *kv = j->a->kv;
    const uint8_t *v = kv_block(kv, u->seq->pages[block], u->kv_head) + kv_block_bytes(kv);
    int32_t d = kv->d_head;
    struct micro m = {.a = e, .a_step = SEG, .c = w->o, .c_step = j->dp, .n_k = n, .zero = zero};
    if (u->n_q <= MICRO_ROWS && d % MICRO_COLS == 0) {
        m.b = v;
        m.b_step = d;
        direct(kv->dtype, m, u->n_q, d);
        return;
    }
    widen(kv->dtype, v, n, d, n, w->wide);
    for (int32_t i = 0; i < j->dp / MICRO_COLS; i++) {
        m.b = w->wide + (int64_t)i * n * MICRO_COLS;
        m.b_step = MICRO_COLS;
        m.c = w->o + i * MICRO_COLS;
        micro_f32(m, u->n_q, MICRO_COLS);
    }
}

/* -------------------------------------------------------------------------------- a segment -- */

/* Turns n scores into weights, zero up to n_pad; a row of its own whatever n_pad is. */
static void row_softmax(float *s, int32_t n, int32_t n_pad, float *m_out, float *l_out)
{
    int32_t n32 = (n + 31) / 32 * 32;
    for (int32_t i = n; i < n32; i++) s[i] = -INFINITY;
    v8f m = v_load(s);
    for (int32_t i = 8; i < n32; i += 8) m = v_max(m, v_load(s + i));
    float top = v_hmax(m);
    v8f l[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    for (int32_t i = 0; i < n32; i += 32) UNROLL(4)
    for (int k = 0; k < 4; k++) {
        v8f e = v_exp(v_load(s + i + 8 * k) - v_set1(top));
        v_store(s + i + 8 * k, e);
        l[k] = l[k] + e;
    }
    for (int32_t i = n32; i < n_pad; i++) s[i] = 0;
    *m_out = top;
    *l_out = v_hsum((l[0] + l[1]) + (l[2] + l[3]));
}

/* o[q] += e[p] V[path of p] for the positions of a tree node's path in this segment. */
static void tree_values(const struct job *j, const struct unit *u, struct work *w, int32_t q,
                        int32_t seg0, int32_t end)
{
    int32_t row = u->row0 + q / j->group, past = u->seq->n_past;
    const int32_t *path = j->a->plan->path + (int64_t)row * HG_TREE_ROWS;
    float *o = w->o + (int64_t)q * j->dp;
    for (int32_t c = 0; c < j->dp; c += 16) {
        v8f s0 = v_load(o + c), s1 = v_load(o + c + 8);
        for (int32_t p = past > seg0 ? past : seg0; p < end; p++) {
            v8f e = v_set1(w->s[(int64_t)q * SEG + p - seg0]);
            const float *v = w->v_tree + (int64_t)(path[p - past] - u->seq->row0) * j->dp + c;
            s0 = v_fma(e, v_load(v), s0);
            s1 = v_fma(e, v_load(v + 8), s1);
        }
        v_store(o + c, s0);
        v_store(o + c + 8, s1);
    }
}

/* Fills w->m, l, o for the queries of u over positions [512 i, 512 i + 512). Queries whose row
 * ends before the segment get l = 0. */
static void segment(const struct job *j, const struct unit *u, struct work *w, int32_t i)
{
    const struct hg_plan *plan = j->a->plan;
    int32_t seg0 = i * SEG, past = u->seq->n_past;
    int32_t flat = min_i(u->n_flat - seg0, SEG); /* may be negative */
    for (int32_t b = 0; b * PAGE < flat; b++)
        block_scores(j, u, w, seg0 / PAGE + b, w->s + b * PAGE, SEG);
    for (int32_t q = 0; q < u->n_q; q++) {
        int32_t row = u->row0 + q / j->group, n = min_i(plan->pos[row] + 1 - seg0, SEG);
        float *s = w->s + (int64_t)q * SEG;
        if (!u->seq->chain) {
            const int32_t *path = plan->path + (int64_t)row * HG_TREE_ROWS;
            const float *t = w->tree + (int64_t)q * TREE_COLS + past % PAGE;
            for (int32_t p = past > seg0 ? past : seg0; p < seg0 + n; p++)
                s[p - seg0] = t[path[p - past] - u->seq->row0];
        }
        w->m[q] = -INFINITY;
        w->l[q] = 0;
        if (n > 0)
            row_softmax(s, n, flat, &w->m[q], &w->l[q]);
        else
            for (int32_t p = 0; p < flat; p++) s[p] = 0;
    }
    if (flat <= 0) memset(w->o, 0, (size_t)u->n_q * (size_t)j->dp * sizeof(float));
    for (int32_t b = 0; b * PAGE < flat; b++)
        block_values(j, u, w, seg0 / PAGE + b, min_i(flat - b * PAGE, PAGE), w->s + b * PAGE,
                     b == 0);
    if (!u->seq->chain)
        for (int32_t q = 0; q < u->n_q; q++) {
            int32_t end = min_i(plan->pos[u->row0 + q / j->group] + 1, seg0 + SEG);
            tree_values(j, u, w, q, seg0, end);
        }
}

/* Scaled queries; for trees also the scores against, and V of, the step's own rows. */
static void begin(const struct job *j, const struct unit *u, struct work *w)
{
    const struct hg_kv_layer *kv = j->a->kv;
    int32_t d = kv->d_head, past = u->seq->n_past;
    v8f scale = v_set1(j->q_scale);
    for (int32_t q = 0; q < u->n_q; q++) {
        int64_t head = (int64_t)(u->row0 + q / j->group) * j->a->n_heads + u->kv_head * j->group +
                       q % j->group;
        const float *x = (const float *)j->a->q + head * d;
        for (int32_t i = 0; i < d; i += 8)
            v_store_n(w->q + (int64_t)q * d + i, v_load_n(x + i, d - i) * scale, d - i);
    }
    if (u->seq->chain) return;
    int32_t b0 = past / PAGE, b1 = (past + u->seq->n_rows - 1) / PAGE;
    for (int32_t b = b0; b <= b1; b++)
        block_scores(j, u, w, b, w->tree + (b - b0) * PAGE, TREE_COLS);
    for (int32_t r = 0; r < u->seq->n_rows; r++) {
        int32_t p = past + r;
        const uint8_t *v = kv_block(kv, u->seq->pages[p / PAGE], u->kv_head) + kv_block_bytes(kv) +
                           (size_t)(p % PAGE) * (size_t)d * kv_elem(kv->dtype);
        widen(kv->dtype, v, 1, d, 1, w->v_tree + (int64_t)r * j->dp);
    }
}

/* (m_all, l_all, sum)[q] and (m, l, o) -> (m_all, l_all, sum)[q] */
static void merge(const struct job *j, struct work *w, int32_t q, float m, float l, const float *o)
{
    if (l == 0) return; /* the row ends before this segment */
    float top = m > w->m_all[q] ? m : w->m_all[q];
    float fa = v_exp(v_set1(w->m_all[q] - top))[0], fb = v_exp(v_set1(m - top))[0];
    float *sum = w->sum + (int64_t)q * j->dp;
    v8f a = v_set1(fa), b = v_set1(fb);
    w->m_all[q] = top;
    w->l_all[q] = w->l_all[q] * fa + l * fb;
    for (int32_t c = 0; c < j->dp; c += 8)
        v_store(sum + c, v_fma(v_load(sum + c), a, v_load(o + c) * b));
}

static void start_merge(const struct job *j, const struct unit *u, struct work *w)
{
    for (int32_t q = 0; q < u->n_q; q++) {
        w->m_all[q] = -INFINITY;
        w->l_all[q] = 0;
    }
    memset(w->sum, 0, (size_t)u->n_q * (size_t)j->dp * sizeof(float));
}

static void finish(const struct job *j, const struct unit *u, struct work *w)
{
    int32_t d = j->a->kv->d_head;
    for (int32_t q = 0; q < u->n_q; q++) {
        int64_t head = (int64_t)(u->row0 + q / j->group) * j->a->n_heads + u->kv_head * j->group +
                       q % j->group;
        const float *gate = (const float *)j->a->qg + head * 2 * d + d;
        float *out = (float *)j->a->out + head * d;
        v8f f = v_set1(j->v_scale / w->l_all[q]);
        for (int32_t i = 0; i < d; i += 8)
            v_store_n(out + i,
                      v_load(w->sum + (int64_t)q * j->dp + i) * f *
                          v_sigmoid(v_load_n(gate + i, d - i)),
                      d - i);
    }
}

/* ------------------------------------------------------------------------------- whole units -- */

static void unit_task(void *ctx, int32_t task, int32_t thread)
{
    const struct job *j = ctx;
    struct work *w = cpu_scratch(j->c, thread);
    struct unit u = unit_at(j, task);
    begin(j, &u, w);
    start_merge(j, &u, w);
    for (int32_t i = 0; i < unit_segments(&u); i++) {
        segment(j, &u, w, i);
        for (int32_t q = 0; q < u.n_q; q++)
            merge(j, w, q, w->m[q], w->l[q], w->o + (int64_t)q * j->dp);
    }
    finish(j, &u, w);
}

/* ------------------------------------------------------------- few units: segments in parallel -- */

/* Partial result of (unit of the batch, segment): m [n_q], l [n_q], o [n_q][dp]. */
static size_t part_floats(const struct job *j)
{
    return (size_t)j->tile_rows * (size_t)j->group * (size_t)(j->dp + 2);
}
static float *part_at(const struct job *j, int32_t unit, int32_t seg)
{
    return (float *)j->c->shared + ((size_t)unit * (size_t)j->n_seg + (size_t)seg) * part_floats(j);
}

static void split_task(void *ctx, int32_t task, int32_t thread)
{
    const struct job *j = ctx;
    struct work *w = cpu_scratch(j->c, thread);
    int32_t unit = task % j->n_units, seg = task / j->n_units;
    struct unit u = unit_at(j, j->unit0 + unit);
    if (seg >= unit_segments(&u)) return;
    begin(j, &u, w);
    segment(j, &u, w, seg);
    float *part = part_at(j, unit, seg);
    size_t n = (size_t)u.n_q * sizeof(float);
    memcpy(part, w->m, n);
    memcpy(part + u.n_q, w->l, n);
    memcpy(part + 2 * u.n_q, w->o, n * (size_t)j->dp);
}

static void merge_task(void *ctx, int32_t task, int32_t thread)
{
    const struct job *j = ctx;
    struct work *w = cpu_scratch(j->c, thread);
    struct unit u = unit_at(j, j->unit0 + task);
    start_merge(j, &u, w);
    for (int32_t i = 0; i < unit_segments(&u); i++) {
        const float *part = part_at(j, task, i);
        for (int32_t q = 0; q < u.n_q; q++)
            merge(j, w, q, part[q], part[u.n_q + q], part + 2 * u.n_q + (int64_t)q * j->dp);
    }
    finish(j, &u, w);
}

void HG_KERN(attn)(struct cpu *c, const struct hg_attn_args *a)
{
    const struct hg_kv_layer *kv = a->kv;
    bool fp8 = kv->dtype == HG_KV_FP8;
    struct job j = {.c = c, .a = a, .group = a->n_heads / kv->n_kv_heads};
    hg_assert(kv->d_head <= CPU_MAX_D_HEAD && j.group >= 1 && j.group <= MAX_Q);
    j.tile_rows = j.group < TILE_Q ? TILE_Q / j.group : 1;
    int32_t longest =
        1; /* no unit is larger than its sequence: small ones leave room for segments */
    for (int32_t i = 0; i < a->plan->n_seqs; i++)
        if (a->plan->seq[i].n_rows > longest) longest = a->plan->seq[i].n_rows;
    if (j.tile_rows > longest) j.tile_rows = longest;
    j.dp = (kv->d_head + 15) / 16 * 16;
    j.q_scale = (fp8 ? kv->k_scale * V_E4M3_UNIT : 1.0f) / sqrtf((float)kv->d_head);
    j.v_scale = fp8 ? kv->v_scale * V_E4M3_UNIT : 1.0f;

    int32_t units = count_units(&j), most = 0;
    for (int32_t i = 0; i < a->plan->n_rows; i++)
        if (a->plan->pos[i] > most) most = a->plan->pos[i];
    j.n_seg = most / SEG + 1;
    size_t fit = CPU_SHARED_SCRATCH / sizeof(float) / part_floats(&j) / (size_t)j.n_seg;
    if (units >= 4 * hg_pool_size(c->pool) || j.n_seg < 2 || fit == 0) {
        hg_pool_run(c->pool, unit_task, &j, units);
        return;
    }
    for (; j.unit0 < units; j.unit0 += j.n_units) {
        j.n_units = (size_t)(units - j.unit0) < fit ? units - j.unit0 : (int32_t)fit;
        hg_pool_run(c->pool, split_task, &j, j.n_units * j.n_seg);
        hg_pool_run(c->pool, merge_task, &j, j.n_units);
    }
}
