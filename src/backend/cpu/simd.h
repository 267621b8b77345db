/* simd.h: eight fp32 lanes, the one vector type that the CPU kernels are written in.
 *
 * v8f and v8i are gcc vectors, so + - * / & | << and comparisons are plain C on every machine.
 * What the language has no operator for is a function here: fused multiply-add, conversions,
 * square root. The Makefile compiles each kernel once per instruction set with HG_ISA set; only
 * this header and the byte shuffles of the NVFP4 decoder look at it.
 *
 * Rounding: v_fma is one rounding with AVX2 and two without. Within one instruction set every
 * path to a result uses the same operations in the same order; that is what makes a row's bits
 * independent of its company. Never mix v_fma with a * b + c for the same result. */
#ifndef HG_BACKEND_CPU_SIMD_H
#define HG_BACKEND_CPU_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(HG_ISA_avx2)
#include <immintrin.h>
#endif
#include "quant/float.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* v8f by value: all such functions are inlined */

#define HG_PASTE2(a, b) a##__##b
#define HG_PASTE(a, b)  HG_PASTE2(a, b)
#define HG_STR2(a)      #a
#define HG_STR(a)       HG_STR2(a)
/* hg_cpu_gemm__avx2 */
#define HG_KERN(name) HG_PASTE(hg_cpu_##name, HG_ISA)
#define HG_ISA_NAME   HG_STR(HG_ISA)

#define UNROLL(n) _Pragma(HG_STR2(GCC unroll n))
#define V_INLINE  static inline __attribute__((always_inline, unused))

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef float v8f_u __attribute__((vector_size(32), aligned(4), may_alias));
typedef int8_t v8b __attribute__((vector_size(8), aligned(1), may_alias));
typedef uint16_t v8h __attribute__((vector_size(16), aligned(1), may_alias));

V_INLINE v8f v_load(const float *p)
{
    return *(const v8f_u *)p;
}
V_INLINE void v_store(float *p, v8f v)
{
    *(v8f_u *)p = v;
}
V_INLINE v8f v_set1(float x)
{
    return (v8f){x, x, x, x, x, x, x, x};
}
V_INLINE v8i v_seti(int32_t x)
{
    return (v8i){x, x, x, x, x, x, x, x};
}
V_INLINE v8f v_zero(void)
{
    return v_set1(0);
}
/* The first n (0..8) of 8; the rest reads as zero and is not touched in memory. */
V_INLINE v8f v_load_n(const float *p, int32_t n)
{
    v8f v = v_zero();
    if (n >= 8) return v_load(p);
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}
V_INLINE void v_store_n(float *p, v8f v, int32_t n)
{
    if (n >= 8)
        v_store(p, v);
    else
        memcpy(p, &v, (size_t)n * sizeof *p);
}

/* a * b + c and c - a * b */
V_INLINE v8f v_fma(v8f a, v8f b, v8f c)
{
#if defined(HG_ISA_avx2)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}
V_INLINE v8f v_fnma(v8f a, v8f b, v8f c)
{
#if defined(HG_ISA_avx2)
    return _mm256_fnmadd_ps(a, b, c);
#else
    return c - a * b;
#endif
}

/* m: lanes of all ones or all zeros, as comparisons give them. */
V_INLINE v8f v_sel(v8i m, v8f yes, v8f no)
{
    return (v8f)((m & (v8i)yes) | (~m & (v8i)no));
}
/* If either is NaN: b. */
V_INLINE v8f v_max(v8f a, v8f b)
{
#if defined(HG_ISA_avx2)
    return _mm256_max_ps(a, b);
#else
    return v_sel(a > b, a, b);
#endif
}
V_INLINE v8f v_min(v8f a, v8f b)
{
#if defined(HG_ISA_avx2)
    return _mm256_min_ps(a, b);
#else
    return v_sel(a < b, a, b);
#endif
}
V_INLINE v8f v_abs(v8f a)
{
    return (v8f)((v8i)a & v_seti(0x7fffffff));
}
/* Sums and maxima over lanes, always as ((0+4)+(2+6)) + ((1+5)+(3+7)). */
V_INLINE float v_hsum(v8f v)
{
    float a = v[0] + v[4], b = v[1] + v[5], c = v[2] + v[6], d = v[3] + v[7];
    return (a + c) + (b + d);
}
V_INLINE float v_hmax(v8f v)
{
    float m = v[0];
    for (int i = 1; i < 8; i++) m = v[i] > m ? v[i] : m;
    return m;
}

/* e^x to 2 ulp for x <= 88 (and e^88 above); 0 below -86.9, so also for -inf; exactly 1 at 0;
 * NaN stays NaN. e^r = 1 + r + r^2 q(r) on |r| <= ln(2)/2, q fitted for relative error (3e-9). */
V_INLINE v8f v_exp(v8f x)
{
    const v8f magic = v_set1(0x1.8p23f);
    v8i under = x < v_set1(-86.9f);
    x = v_min(v_set1(88.0f), v_max(v_set1(-86.9f), x));
    v8f t = v_fma(x, v_set1(0x1.715476p0f), magic); /* round(x / ln 2) in the low bits */
    v8f n = t - magic;
    v8f r = v_fnma(n, v_set1(0x1.62e400p-1f), x);
    r = v_fnma(n, v_set1(0x1.7f7d1cp-20f), r);
    v8f q = v_fma(v_set1(0x1.6a23cep-10f), r, v_set1(0x1.123a2p-7f));
    q = v_fma(q, r, v_set1(0x1.5558f2p-5f));
    q = v_fma(q, r, v_set1(0x1.555492p-3f));
    q = v_fma(q, r, v_set1(0x1.fffffcp-2f));
    v8f p = v_fma(q * r, r, r) + v_set1(1.0f);
    v8f y = (v8f)((v8i)p + ((v8i)t << 23));
    return (v8f)(~under & (v8i)y);
}
V_INLINE v8f v_sigmoid(v8f x)
{
    return v_set1(1) / (v_set1(1) + v_exp(-x));
}
V_INLINE v8f v_silu(v8f x)
{
    return x / (v_set1(1) + v_exp(-x));
}

/* ---------------------------------------------------------------- eight small floats -- */

V_INLINE v8f v_bf16(const void *p)
{
#if defined(HG_ISA_avx2)
    return (v8f)(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
#else
    return (v8f)(__builtin_convertvector(*(const v8h *)p, v8i) << 16);
#endif
}
V_INLINE v8f v_f16(const void *p)
{
#if defined(HG_ISA_avx2)
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
#else
    v8i h = __builtin_convertvector(*(const v8h *)p, v8i), mag = h & 0x7fff;
    v8f f = (v8f)(mag << 13) * v_set1(0x1p112f); /* also right for subnormals */
    v8i special = mag >= 0x7c00;                 /* inf and NaN keep their payload */
    v8i bits = (special & (v_seti(0x7f800000) | (mag & 0x3ff) << 13)) | (~special & (v8i)f);
    return (v8f)(bits | (h & 0x8000) << 16);
#endif
}
/* E4M3 times 2^-8; the caller folds V_E4M3_UNIT into a factor it multiplies with anyway. The
 * codes are halves with a smaller exponent bias. NaN codes give numbers: caches hold none. */
#define V_E4M3_UNIT 256.0f
V_INLINE v8f v_e4m3(const void *p)
{
#if defined(HG_ISA_avx2)
    __m128i h = _mm_slli_epi16(_mm_cvtepi8_epi16(_mm_loadl_epi64(p)), 7);
    return _mm256_cvtph_ps(_mm_and_si128(h, _mm_set1_epi16((short)0xbfff)));
#else
    v8i b = __builtin_convertvector(*(const v8b *)p, v8i) << 20;
    return (v8f)(b & (int32_t)0x87f00000) * v_set1(0x1p112f);
#endif
}
/* Round to nearest even, saturating; as hg_f32_to_e4m3, codes in the low byte of each lane. */
V_INLINE v8i v_to_e4m3(v8f x)
{
    v8i sign = ((v8i)x >> 24) & 0x80;
    v8f a = v_abs(x);
    v8i nan = a != a;
    a = v_min(a, v_set1(448.0f));
    v8i u = (v8i)a;
    v8i normal = ((u + 0x7ffff + ((u >> 20) & 1)) >> 20) - (120 << 3);
    /* 2^14 has ulp 2^-9, the step of the subnormals: the addition rounds */
    v8i sub = (v8i)(a + v_set1(0x1p14f)) - (v8i)v_set1(0x1p14f);
    v8i small = a < v_set1(0x1p-6f);
    v8i code = ((small & sub) | (~small & normal)) | sign;
    return (nan & 0x7f) | (~nan & code);
}
V_INLINE v8i v_to_bf16(v8f x)
{
    v8i u = (v8i)x;
    v8i nan = x != x;
    v8i r = (v8i)((v8i)(u + 0x7fff + ((u >> 16) & 1)) >> 16) & 0xffff;
    return (nan & (((u >> 16) & 0xffff) | 0x40)) | (~nan & r);
}

#endif
