/* simd.h: eight fp32 lanes, the one vector type that the CPU kernels are written in.
 *
 * v8f and v8i are gcc vectors, so + - * / & | << and comparisons are plain C on every machine.
 * What the language has no operator for is a function here: fused multiply-add, maxima, sums over
 * lanes, exp. The Makefile compiles each kernel once per instruction set with HG_ISA set; only
 * this header, small.h and the byte shuffles of the NVFP4 decoder look at it.
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

#endif
