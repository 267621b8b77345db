/* small.h: eight bf16, f16 or e4m3 numbers to and from fp32 lanes. Widening is exact; narrowing
 * rounds to nearest, ties to even, as quant/float.h does. */
#ifndef HG_BACKEND_CPU_SMALL_H
#define HG_BACKEND_CPU_SMALL_H

#include "backend/cpu/simd.h"

typedef int8_t v8b __attribute__((vector_size(8), aligned(1), may_alias));
typedef uint16_t v8h __attribute__((vector_size(16), aligned(1), may_alias));

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
