/* micro.h: the register-blocked product that gemm and attention share:
 *
 *     c[r][j] (+)= sum over k = 0..n_k-1 of a[r][k] * b[k][j]
 *
 * One accumulator per output, k ascending, one fused multiply-add each: cutting k into several
 * calls (c keeps the sum between them), any grouping of rows and any place of a row among them
 * give the same bits. b may be small floats, widened in registers: worth it where few rows share
 * a load; for many rows the caller widens b once into fp32.
 *
 * AVX2: 6 rows x 16 columns = 12 accumulators, 2 loads of b, 1 broadcast of a: bound by the two
 * FMA pipes. Fewer rows take more columns, so that 8 or more sums are in flight. */
#ifndef HG_BACKEND_CPU_MICRO_H
#define HG_BACKEND_CPU_MICRO_H

#include <stdbool.h>

#include "backend/cpu/small.h"

enum { MICRO_ROWS = 6, MICRO_COLS = 16 };
enum micro_b { MICRO_F32, MICRO_BF16, MICRO_FP8 }; /* FP8: times 2^-8, see v_e4m3 */

struct micro {
    const float *a; /* row r at a + r * a_step */
    const void *b;  /* row k at b + k * b_step elements */
    float *c;       /* row r at c + r * c_step */
    int64_t a_step, b_step, c_step;
    int32_t n_k;
    bool zero; /* start from 0 instead of c */
};

V_INLINE v8f micro_load(enum micro_b kind, const void *b, int64_t i)
{
    if (kind == MICRO_FP8) return v_e4m3((const uint8_t *)b + i);
    if (kind == MICRO_BF16) return v_bf16((const uint16_t *)b + i);
    return v_load((const float *)b + i);
}

/* R rows by 8 V columns. R * V <= 12. */
V_INLINE void micro_block(enum micro_b kind, const int R, const int V, struct micro m)
{
    v8f s[12];
    UNROLL(12)
    for (int i = 0; i < R * V; i++)
        s[i] = m.zero ? v_zero() : v_load(m.c + i / V * m.c_step + i % V * 8);
    for (int32_t k = 0; k < m.n_k; k++) {
        v8f b[8];
        UNROLL(8)
        for (int j = 0; j < V; j++) b[j] = micro_load(kind, m.b, k * m.b_step + 8 * j);
        UNROLL(6)
        for (int r = 0; r < R; r++) {
            v8f a = v_set1(m.a[r * m.a_step + k]);
            UNROLL(8)
            for (int j = 0; j < V; j++) s[r * V + j] = v_fma(a, b[j], s[r * V + j]);
        }
    }
    UNROLL(12)
    for (int i = 0; i < R * V; i++) v_store(m.c + i / V * m.c_step + i % V * 8, s[i]);
}

#define MICRO_STEP(kind, R, V)                                                                     \
    for (; j + 8 * (V) <= n_cols; j += 8 * (V)) {                                                  \
        struct micro s = m;                                                                        \
        s.b = (const uint8_t *)m.b + j * elem;                                                     \
        s.c += j;                                                                                  \
        micro_block(kind, R, V, s);                                                                \
    }

/* n_rows <= 6 rows, n_cols a multiple of 16. */
V_INLINE void micro_rows(enum micro_b kind, struct micro m, int32_t n_rows, int32_t n_cols)
{
    const int64_t elem = kind == MICRO_FP8 ? 1 : kind == MICRO_BF16 ? 2 : 4;
    int32_t j = 0;
    switch (n_rows) {
    case 1: MICRO_STEP(kind, 1, 8) MICRO_STEP(kind, 1, 2) break;
    case 2: MICRO_STEP(kind, 2, 4) MICRO_STEP(kind, 2, 2) break;
    case 3: MICRO_STEP(kind, 3, 4) MICRO_STEP(kind, 3, 2) break;
    case 4: MICRO_STEP(kind, 4, 2) break;
    case 5: MICRO_STEP(kind, 5, 2) break;
    case 6: MICRO_STEP(kind, 6, 2) break;
    default: break;
    }
}
#undef MICRO_STEP

/* Rows of the next group when n are left: full groups, but the last two share evenly (7 = 4 + 3)
 * because a block of few rows waits on its own sums. */
V_INLINE int32_t micro_group(int32_t n)
{
    return n <= MICRO_ROWS ? n : n < 2 * MICRO_ROWS ? (n + 1) / 2 : MICRO_ROWS;
}

/* Any number of rows over fp32 b. Never inlined: with the caller's values around it the compiler
 * keeps one of the twelve sums of a full block in memory, which halves the speed. */
static __attribute__((noinline, unused)) void micro_f32(struct micro m, int32_t n_rows,
                                                        int32_t n_cols)
{
    while (n_rows > 0) {
        int32_t g = micro_group(n_rows);
        micro_rows(MICRO_F32, m, g, n_cols);
        m.a += g * m.a_step;
        m.c += g * m.c_step;
        n_rows -= g;
    }
}

#endif
