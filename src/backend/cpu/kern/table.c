/* The ops of one instruction set. */
#include "backend/cpu/kern.h"

static const char *variant(const char *op)
{
    static const char *const names[][2] = {
        {"embed", "gather from tiles " HG_ISA_NAME},
        {"rmsnorm", "row fp32 " HG_ISA_NAME},
        {"gemm", "nvfp4, bf16, f16, f32 in tiles of 16, 6x16 fp32 " HG_ISA_NAME},
        {"silu_mul", "fp32 " HG_ISA_NAME},
        {"attn_in", "norm + rope + kv store " HG_ISA_NAME},
        {"attn", "segments of 512, 6x16 " HG_ISA_NAME},
        {"gdn_conv", "channels x 8 " HG_ISA_NAME},
        {"gdn", "recurrent, 32 columns in L1 " HG_ISA_NAME},
        {"gdn_commit", "replay, 32 columns in L1 " HG_ISA_NAME},
        {"kv_move", "per head " HG_ISA_NAME},
        {"gather", "copy " HG_ISA_NAME},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(op, names[i][0]) == 0) return names[i][1];
    return NULL;
}

const struct cpu_kernels HG_KERN(table) = {
    .isa = HG_ISA_NAME,
    .embed = HG_KERN(embed),
    .rmsnorm = HG_KERN(rmsnorm),
    .gemm = HG_KERN(gemm),
    .silu_mul = HG_KERN(silu_mul),
    .attn_in = HG_KERN(attn_in),
    .attn = HG_KERN(attn),
    .gdn_conv = HG_KERN(gdn_conv),
    .gdn = HG_KERN(gdn),
    .gdn_commit = HG_KERN(gdn_commit),
    .kv_move = HG_KERN(kv_move),
    .gather = HG_KERN(gather),
    .variant = variant,
};
