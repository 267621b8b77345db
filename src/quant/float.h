/* float.h: scalar conversions between fp32 and the small float formats.
 *   BF16  1-8-7; F16 1-5-10; E4M3 1-4-3 (bias 7, no inf, NaN = 0x7f/0xff, max 448);
 *   E2M1  1-2-1 (codes 0..7 = 0 .5 1 1.5 2 3 4 6).
 * Encoders round to nearest, ties to even; E4M3 saturates. */
#ifndef HG_QUANT_FLOAT_H
#define HG_QUANT_FLOAT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float hg_f32_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t hg_bits_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float hg_bf16_to_f32(uint16_t h)
{
    return hg_f32_bits((uint32_t)h << 16);
}
static inline uint16_t hg_f32_to_bf16(float f)
{
    uint32_t u = hg_bits_f32(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16) | 0x40; /* NaN stays NaN */
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static inline float hg_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7fff;
    if (mag >= 0x7c00) return hg_f32_bits(sign | 0x7f800000 | (mag & 0x3ff) << 13);
    if (mag < 0x400) return hg_f32_bits(sign | hg_bits_f32((float)mag * 0x1p-24f));
    return hg_f32_bits(sign | ((mag << 13) + (112u << 23)));
}

static inline float hg_e4m3_to_f32(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80) << 24, mag = b & 0x7f;
    if (mag == 0x7f) return hg_f32_bits(0x7fc00000);
    if (mag < 8) return hg_f32_bits(sign | hg_bits_f32((float)mag * 0x1p-9f));
    return hg_f32_bits(sign | ((mag << 20) + (120u << 23)));
}
static inline uint8_t hg_f32_to_e4m3(float f)
{
    uint32_t u = hg_bits_f32(f), sign = u >> 24 & 0x80;
    float a = fabsf(f);
    if (a != a) return 0x7f;
    if (a >= 448.0f) return (uint8_t)(sign | 0x7e);
    if (a < 0x1p-6f) return (uint8_t)(sign | (uint32_t)lrintf(a * 0x1p9f)); /* 8 = first normal */
    u = hg_bits_f32(a);
    u += 0x7ffff + (u >> 20 & 1);
    return (uint8_t)(sign | ((u >> 20) - (120u << 3)));
}

static inline float hg_e2m1_to_f32(uint8_t code)
{
    static const float mag[8] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    return code & 8 ? -mag[code & 7] : mag[code & 7];
}

#endif
