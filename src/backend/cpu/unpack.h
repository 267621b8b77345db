/* unpack.h: tile records (tile.h) to fp32 lanes, one format a function. `rec` is one tile's
 * record; half 0 is its rows 0-7, half 1 rows 8-15. A weight is exact in fp32 (NVFP4 without
 * scale2), so it is the same number on every path. */
#ifndef HG_BACKEND_CPU_UNPACK_H
#define HG_BACKEND_CPU_UNPACK_H

#include "backend/cpu/small.h"
#include "backend/cpu/tile.h"

/* The even and the odd k of eight 32-bit lanes of bf16 pairs. */
V_INLINE v8f bf16_even(v8i pair)
{
    return (v8f)(pair << 16);
}
V_INLINE v8f bf16_odd(v8i pair)
{
    return (v8f)(pair & (int32_t)0xffff0000u);
}
V_INLINE v8i load_pairs(const uint8_t *p)
{
    v8i v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Four weights w[i] = e2m1 of k = 4 * quad + i for the rows of a half; not yet times scale. */
V_INLINE void nvfp4_quad(const uint8_t *rec, int half, int quad, v8f w[4])
{
    const uint8_t *p = rec + 64 * half + 32 * (quad / 2);
#if defined(HG_ISA_avx2)
    /* Upper and lower byte of the bf16 of each code; 0.5 = 3f00, 6 = 40c0. */
    const __m256i hi = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40, (char)0x80, (char)0xbf,
                      (char)0xbf, (char)0xbf, (char)0xc0, (char)0xc0, (char)0xc0, (char)0xc0));
    const __m256i lo = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0, 0, 0,
                      (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0));
    __m256i c = _mm256_loadu_si256((const __m256i *)p);
    if (quad % 2) c = _mm256_srli_epi16(c, 4);
    c = _mm256_and_si256(c, _mm256_set1_epi8(15));
    __m256i h = _mm256_shuffle_epi8(hi, c), l = _mm256_shuffle_epi8(lo, c);
    v8i k01 = (v8i)_mm256_unpacklo_epi8(l, h), k23 = (v8i)_mm256_unpackhi_epi8(l, h);
    w[0] = bf16_even(k01);
    w[1] = bf16_odd(k01);
    w[2] = bf16_even(k23);
    w[3] = bf16_odd(k23);
#else
    static const float value[16] = {0,    .5f,  1,  1.5f,  2,  3,  4,  6,
                                    -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 8; i++) {
            uint8_t b = p[16 * (i / 4) + 2 * (i % 4) + k % 2 + 8 * (k / 2)];
            w[k][i] = value[quad % 2 ? b >> 4 : b & 15];
        }
#endif
}
V_INLINE v8f nvfp4_scale(const uint8_t *rec, int half)
{
    return v_e4m3(rec + 128 + 8 * half) * v_set1(V_E4M3_UNIT);
}

/* Asks for the lines of a record that will be read later; past the end does no harm. */
V_INLINE void prefetch(const uint8_t *p, int32_t bytes)
{
    for (int32_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

/* fp32 copy out[k][16] of k = k0..k0+n_k-1 of a tile; k0 is a multiple of the group. The records
 * `ahead` bytes further on are prefetched. */
V_INLINE void tile_unpack(enum hg_format f, struct tile t, int32_t k0, int32_t n_k, int64_t ahead,
                          float *out)
{
    const uint8_t *rec = t.p + k0 / tile_group(f) * t.step;
    switch (f) {
    case HG_FMT_NVFP4:
        for (int32_t k = 0; k < n_k; k += 16, rec += t.step, out += 16 * 16) {
            prefetch(rec + ahead, 144);
            UNROLL(2)
            for (int h = 0; h < 2; h++) {
                v8f s = nvfp4_scale(rec, h);
                UNROLL(4)
                for (int q = 0; q < 4; q++) {
                    v8f w[4];
                    nvfp4_quad(rec, h, q, w);
                    UNROLL(4)
                    for (int i = 0; i < 4; i++) v_store(out + 16 * (4 * q + i) + 8 * h, w[i] * s);
                }
            }
        }
        break;
    case HG_FMT_BF16:
        for (int32_t k = 0; k < n_k; k += 2, rec += t.step, out += 2 * 16) {
            v8i a = load_pairs(rec), b = load_pairs(rec + 32);
            prefetch(rec + ahead, 64);
            v_store(out, bf16_even(a));
            v_store(out + 8, bf16_even(b));
            if (k + 1 == n_k) break;
            v_store(out + 16, bf16_odd(a));
            v_store(out + 24, bf16_odd(b));
        }
        break;
    case HG_FMT_F16:
        for (int32_t k = 0; k < n_k; k++, rec += t.step, out += 16) {
            prefetch(rec + ahead, 32);
            v_store(out, v_f16(rec));
            v_store(out + 8, v_f16(rec + 16));
        }
        break;
    default:
        for (int32_t k = 0; k < n_k; k++, rec += t.step, out += 16) {
            prefetch(rec + ahead, 64);
            memcpy(out, rec, 64);
        }
    }
}

#endif
