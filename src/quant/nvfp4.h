/* nvfp4.h: the NVFP4 weight format, modelopt layout.
 *   weight         U8 [n][k/2]   two E2M1 codes: low nibble = even k, high nibble = odd k
 *   weight_scale   F8_E4M3 [n][k/16]   one per 16 consecutive k
 *   weight_scale_2 F32 scalar
 *   W[i][j] = e2m1(code) * e4m3(scale) * scale_2.  e2m1 * e4m3 is exact in fp32, fp16 and bf16. */
#ifndef HG_QUANT_NVFP4_H
#define HG_QUANT_NVFP4_H

#include "quant/float.h"

enum { HG_NVFP4_GROUP = 16 };

/* One weight without scale_2. row = packed codes of one output row, scale = its scales. */
static inline float hg_nvfp4_at(const uint8_t *row, const uint8_t *scale, int64_t k)
{
    uint8_t code = k & 1 ? row[k >> 1] >> 4 : row[k >> 1] & 15;
    return hg_e2m1_to_f32(code) * hg_e4m3_to_f32(scale[k / HG_NVFP4_GROUP]);
}

#endif
