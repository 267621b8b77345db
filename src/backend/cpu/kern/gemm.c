/* y_p[r][n] = scale2 * sum_k W_p[n][k] x[r][k]  (+ y_p[r][n])  for all parts as one task list.
 *
 * Order: one fp32 accumulator per output, k = 0..K-1 ascending, one v_fma each from 0; then
 * * scale2, then + y. Weights are exact in fp32 (unpack.h). Both paths below keep it, so a row's
 * bits do not depend on the number of rows.
 *
 *   few (1 or 2 rows)  weights are unpacked in registers and meet every row there; four tiles
 *                      side by side (two for 2 rows) keep eight sums in flight. Bound: reading the
 *                      weights (BF16: reached; NVFP4: 5 instructions per 8 weights, see PERF.md).
 *   many               some k of a tile are unpacked into fp32 scratch, then 6 x 16 register blocks
 *                      (micro.h). Bound: FMA.
 *
 * A task is 1, 2 or 4 tiles (16, 32, 64 outputs) over all rows (512 at most). Any n and k.
 * Scratch per thread: 16 KB unpacked weights (L1) + 128 KB sums. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kern.h"
#include "backend/cpu/micro.h"
#include "backend/cpu/unpack.h"

enum {
#if defined(HG_ISA_portable)
    FEW_ROWS = 0, /* without byte shuffles a weight is better unpacked once, through memory */
#else
    FEW_ROWS = 2,
#endif
    TASK_TILES = 4, /* most tiles of a task */
    ROW_BLOCK = 512,
    /* k that are unpacked at once: much for many rows, since each block loads and stores the sums;
     * little for few rows, where reading the weights has to go on beside the arithmetic. */
    K_BLOCK = 256,
    K_BLOCK_FEW = 64,
    AHEAD = 2048 /* least distance of the prefetch, bytes */
};

struct gemm_job {
    struct cpu *c;
    const struct hg_gemm_args *a;
    int32_t unit; /* tiles of a task */
    int32_t n_row_blocks;
    int32_t first[HG_GEMM_PARTS + 1]; /* first unit of each part */
};

/* Where a task's outputs go. */
struct dest {
    float *y; /* row 0, column 0 of the task */
    int64_t step;
    int32_t n_cols; /* of this task that exist */
    float scale2;
    bool add;
};

V_INLINE void put(const struct dest *d, int32_t row, int32_t col, v8f sum)
{
    int32_t n = d->n_cols - col;
    if (n <= 0) return;
    float *y = d->y + row * d->step + col;
    v8f v = sum * v_set1(d->scale2);
    if (d->add) v = v + v_load_n(y, n);
    v_store_n(y, v, n);
}

/* R rows x T tiles that lie one behind the other, R * T = 4: weights stay in registers. All eight
 * sums advance together, so that no multiply-add waits for the one before it. */
#define MEET(v, w, k_)                                                                             \
    UNROLL(2)                                                                                      \
    for (int r = 0; r < R; r++)                                                                    \
    s[r * 2 * T + (v)] = v_fma(w, v_set1(x[(int64_t)r * n_k + (k_)]), s[r * 2 * T + (v)])
V_INLINE void in_registers(enum hg_format f, const int R, const int T, struct tile t,
                           const float *x, int32_t n_k, const struct dest *d)
{
    v8f s[8];
    const int group = tile_group(f);
    const int64_t next = t.step * tile_records(f, n_k); /* from tile to tile */
    const uint8_t *rec = t.p;
    int32_t k = 0;
    UNROLL(8)
    for (int i = 0; i < 2 * R * T; i++) s[i] = v_zero();
    for (; k + group <= n_k; k += group, rec += t.step) {
        if (f == HG_FMT_NVFP4) {
            v8f scale[8];
            UNROLL(8)
            for (int v = 0; v < 2 * T; v++) scale[v] = nvfp4_scale(rec + v / 2 * next, v & 1);
            UNROLL(4)
            for (int q = 0; q < 4; q++) {
                UNROLL(8)
                for (int v = 0; v < 2 * T; v++) {
                    v8f w[4];
                    nvfp4_quad(rec + v / 2 * next, v & 1, q, w);
                    UNROLL(4)
                    for (int i = 0; i < 4; i++) {
                        v8f ws = w[i] * scale[v];
                        MEET(v, ws, k + 4 * q + i);
                    }
                }
            }
            continue;
        }
        UNROLL(8)
        for (int v = 0; v < 2 * T; v++) {
            const uint8_t *p = rec + v / 2 * next;
            if (f == HG_FMT_BF16) {
                v8i pair = load_pairs(p + 32 * (v & 1));
                v8f even = bf16_even(pair), odd = bf16_odd(pair);
                MEET(v, even, k);
                MEET(v, odd, k + 1);
            } else {
                v8f w = f == HG_FMT_F16 ? v_f16(p + 16 * (v & 1))
                                        : v_load((const float *)p + 8 * (v & 1));
                MEET(v, w, k);
            }
        }
    }
    if (f == HG_FMT_BF16 && k < n_k) { /* odd K: the record's second k is padding */
        UNROLL(8)
        for (int v = 0; v < 2 * T; v++) {
            v8f even = bf16_even(load_pairs(rec + v / 2 * next + 32 * (v & 1)));
            MEET(v, even, k);
        }
    }
    UNROLL(8)
    for (int i = 0; i < 2 * R * T; i++) put(d, i / (2 * T), i % (2 * T) * 8, s[i]);
}
#undef MEET

/* All tiles of a task for one or two rows. */
#define FEW_STEP(R, T)                                                                             \
    for (; i + (T) <= n_tiles; i += (T)) {                                                         \
        struct dest e = *d;                                                                        \
        e.y += i * TILE_ROWS;                                                                      \
        e.n_cols -= i * TILE_ROWS;                                                                 \
        in_registers(f, R, T, (struct tile){t.p + i * t.step * tile_records(f, n_k), t.step}, x,   \
                     n_k, &e);                                                                     \
    }
V_INLINE void few(enum hg_format f, struct tile t, int32_t n_tiles, const float *x, int32_t n_rows,
                  int32_t n_k, const struct dest *d)
{
    int32_t i = 0;
    if (n_rows == 1) {
        FEW_STEP(1, 4) FEW_STEP(1, 2) FEW_STEP(1, 1)
    } else {
        FEW_STEP(2, 2) FEW_STEP(2, 1)
    }
}
#undef FEW_STEP

#define FEW_OF(name, format)                                                                       \
    static void few_##name(struct tile t, int32_t n_tiles, const float *x, int32_t n_rows,         \
                           int32_t n_k, const struct dest *d)                                      \
    {                                                                                              \
        few(format, t, n_tiles, x, n_rows, n_k, d);                                                \
    }
FEW_OF(f32, HG_FMT_F32)
FEW_OF(bf16, HG_FMT_BF16)
FEW_OF(f16, HG_FMT_F16)
FEW_OF(nvfp4, HG_FMT_NVFP4)
#undef FEW_OF

static void unpack(enum hg_format f, struct tile t, int32_t k0, int32_t n_k, float *out)
{
    int64_t ahead = n_k / tile_group(f) * t.step; /* the next block, while this one is used */
    if (ahead < AHEAD) ahead = AHEAD;
    switch (f) {
    case HG_FMT_NVFP4: tile_unpack(HG_FMT_NVFP4, t, k0, n_k, ahead, out); break;
    case HG_FMT_BF16: tile_unpack(HG_FMT_BF16, t, k0, n_k, ahead, out); break;
    case HG_FMT_F16: tile_unpack(HG_FMT_F16, t, k0, n_k, ahead, out); break;
    default: tile_unpack(HG_FMT_F32, t, k0, n_k, ahead, out);
    }
}

static void many(float *scratch, enum hg_format f, struct tile t, int32_t n_tiles, const float *x,
                 int32_t n_rows, int32_t n_k, const struct dest *d)
{
    float *w = scratch;                   /* [K_BLOCK][16] */
    float *sum = w + K_BLOCK * TILE_ROWS; /* [n_tiles][n_rows][16] */
    int32_t block = n_rows > 2 * MICRO_ROWS ? K_BLOCK : K_BLOCK_FEW;
    for (int32_t k0 = 0; k0 < n_k; k0 += block) {
        int32_t kn = n_k - k0 < block ? n_k - k0 : block;
        for (int32_t i = 0; i < n_tiles; i++) {
            struct tile ti = {t.p + i * t.step * tile_records(f, n_k), t.step};
            unpack(f, ti, k0, kn, w);
            micro_f32((struct micro){.a = x + k0,
                                     .b = w,
                                     .c = sum + (int64_t)i * n_rows * TILE_ROWS,
                                     .a_step = n_k,
                                     .b_step = TILE_ROWS,
                                     .c_step = TILE_ROWS,
                                     .n_k = kn,
                                     .zero = k0 == 0},
                      n_rows, TILE_ROWS);
        }
    }
    for (int32_t i = 0; i < n_tiles; i++)
        for (int32_t r = 0; r < n_rows; r++) {
            const float *s = sum + ((int64_t)i * n_rows + r) * TILE_ROWS;
            put(d, r, i * TILE_ROWS, v_load(s));
            put(d, r, i * TILE_ROWS + 8, v_load(s + 8));
        }
}

static void gemm_task(void *ctx, int32_t task, int32_t thread)
{
    const struct gemm_job *j = ctx;
    const struct hg_gemm_args *a = j->a;
    int32_t row0 = task % j->n_row_blocks * ROW_BLOCK, unit = task / j->n_row_blocks, p = 0;
    while (unit >= j->first[p + 1]) p++;
    const struct hg_matrix *w = a->part[p].w;
    int32_t tile = (unit - j->first[p]) * j->unit, left = tile_count(w->n) - tile;
    int32_t n_tiles = left < j->unit ? left : j->unit;
    int32_t n_rows = a->n_rows - row0 < ROW_BLOCK ? a->n_rows - row0 : ROW_BLOCK;
    const float *x = (const float *)a->x + (int64_t)row0 * w->k;
    struct dest d = {.y = (float *)a->part[p].y + (int64_t)row0 * w->n + tile * TILE_ROWS,
                     .step = w->n,
                     .n_cols = w->n - tile * TILE_ROWS,
                     .scale2 = w->scale2,
                     .add = a->part[p].add};
    struct tile t = tile_at(w, tile);
    if (n_rows > FEW_ROWS) {
        many(cpu_scratch(j->c, thread), w->format, t, n_tiles, x, n_rows, w->k, &d);
        return;
    }
    switch (w->format) {
    case HG_FMT_NVFP4: few_nvfp4(t, n_tiles, x, n_rows, w->k, &d); break;
    case HG_FMT_BF16: few_bf16(t, n_tiles, x, n_rows, w->k, &d); break;
    case HG_FMT_F16: few_f16(t, n_tiles, x, n_rows, w->k, &d); break;
    default: few_f32(t, n_tiles, x, n_rows, w->k, &d);
    }
}

_Static_assert(TILE_ROWS *(K_BLOCK + TASK_TILES * ROW_BLOCK) * sizeof(float) <= CPU_THREAD_SCRATCH,
               "gemm scratch");

void HG_KERN(gemm)(struct cpu *c, const struct hg_gemm_args *a)
{
    struct gemm_job j = {.c = c, .a = a};
    int32_t tiles = 0, threads = hg_pool_size(c->pool);
    for (int32_t p = 0; p < a->n_parts; p++) tiles += tile_count(a->part[p].w->n);
    /* Wide tasks reuse x best; narrow ones balance the threads when there are few. */
    j.unit = tiles >= 32 * threads ? TASK_TILES : tiles >= 8 * threads ? 2 : 1;
    j.n_row_blocks = (a->n_rows + ROW_BLOCK - 1) / ROW_BLOCK;
    for (int32_t p = 0; p < a->n_parts; p++)
        j.first[p + 1] = j.first[p] + (tile_count(a->part[p].w->n) + j.unit - 1) / j.unit;
    hg_pool_run(c->pool, gemm_task, &j, j.first[a->n_parts] * j.n_row_blocks);
}
