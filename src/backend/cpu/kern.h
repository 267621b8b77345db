/* kern.h: the kernels of the instruction set that is being compiled (HG_ISA). One file each in
 * kern/; table.c gathers them. */
#ifndef HG_BACKEND_CPU_KERN_H
#define HG_BACKEND_CPU_KERN_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/simd.h"

void HG_KERN(embed)(struct cpu *c, const struct hg_embed_args *a);
void HG_KERN(rmsnorm)(struct cpu *c, const struct hg_rmsnorm_args *a);
void HG_KERN(gemm)(struct cpu *c, const struct hg_gemm_args *a);
void HG_KERN(silu_mul)(struct cpu *c, const struct hg_silu_mul_args *a);
void HG_KERN(attn_in)(struct cpu *c, const struct hg_attn_in_args *a);
void HG_KERN(attn)(struct cpu *c, const struct hg_attn_args *a);
void HG_KERN(gdn_conv)(struct cpu *c, const struct hg_gdn_conv_args *a);
void HG_KERN(gdn)(struct cpu *c, const struct hg_gdn_args *a);
void HG_KERN(gdn_commit)(struct cpu *c, const struct hg_gdn_commit_args *a);
void HG_KERN(kv_move)(struct cpu *c, const struct hg_kv_move_args *a);
void HG_KERN(gather)(struct cpu *c, const struct hg_gather_args *a);

/* Sum of squares of x[0..d): four running vectors over blocks of 32, the rest of 8 each into the
 * first, then ((0+1)+(2+3)) and v_hsum. */
V_INLINE float sum_squares(const float *x, int32_t d)
{
    v8f s[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    int32_t i = 0;
    for (; i + 32 <= d; i += 32) UNROLL(4)
    for (int j = 0; j < 4; j++) {
        v8f v = v_load(x + i + 8 * j);
        s[j] = v_fma(v, v, s[j]);
    }
    for (; i < d; i += 8) {
        v8f v = v_load_n(x + i, d - i);
        s[0] = v_fma(v, v, s[0]);
    }
    return v_hsum((s[0] + s[1]) + (s[2] + s[3]));
}

#endif
