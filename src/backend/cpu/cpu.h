/* cpu.h: what the CPU backend's parts share: the context and the kernel table.
 *
 * cpu.c owns both; repack.c makes matrices; kern/ holds the ops, each file compiled once per
 * instruction set into one struct cpu_kernels. An op is called on the engine's thread and spreads
 * tasks over the pool; a task may use its thread's scratch and nothing else that is shared and
 * written. Nothing here allocates after hg_cpu_open but cpu_matrix_load.
 *
 * The same bits (ops.h): a result is accumulated in one fixed order, whatever the number of rows,
 * threads or the cut of a prompt into steps. Each kernel file states its order. */
#ifndef HG_BACKEND_CPU_CPU_H
#define HG_BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "base/pool.h"

enum {
    /* Limits of the fixed scratch, checked by the ops with hg_assert. */
    CPU_MAX_D_HEAD = 512,
    CPU_MAX_D_STATE = 512, /* d_k and d_v of the recurrent state */
    CPU_MAX_V_HEADS = 256,
    CPU_MAX_K_HEADS = 128,

    CPU_THREAD_SCRATCH = 4 << 20, /* bytes per thread; each kernel checks its own layout */
    CPU_SHARED_SCRATCH = 16 << 20 /* bytes, for partial results that one op hands to itself */
};

struct cpu;

/* The ops as one instruction set implements them. */
struct cpu_kernels {
    const char *isa;
    void (*embed)(struct cpu *c, const struct hg_embed_args *a);
    void (*rmsnorm)(struct cpu *c, const struct hg_rmsnorm_args *a);
    void (*gemm)(struct cpu *c, const struct hg_gemm_args *a);
    void (*silu_mul)(struct cpu *c, const struct hg_silu_mul_args *a);
    void (*attn_in)(struct cpu *c, const struct hg_attn_in_args *a);
    void (*attn)(struct cpu *c, const struct hg_attn_args *a);
    void (*gdn_conv)(struct cpu *c, const struct hg_gdn_conv_args *a);
    void (*gdn)(struct cpu *c, const struct hg_gdn_args *a);
    void (*gdn_commit)(struct cpu *c, const struct hg_gdn_commit_args *a);
    void (*kv_move)(struct cpu *c, const struct hg_kv_move_args *a);
    void (*gather)(struct cpu *c, const struct hg_gather_args *a);
    /* "recurrent, 32 columns in L1 avx2" by op name, NULL for an unknown op. */
    const char *(*variant)(const char *op);
};
extern const struct cpu_kernels hg_cpu_table__portable;
#if defined(__x86_64__)
extern const struct cpu_kernels hg_cpu_table__avx2;
#endif

/* One row of a depth-first walk over a VERIFY step's trees (gdn.c). */
struct cpu_visit {
    int32_t row;
    int32_t load; /* saved state to start from; -1: go on from the visit before; -2: committed */
    int32_t save; /* where to keep the state behind this row, or -1 */
};

struct cpu {
    struct hg_backend be;
    const struct cpu_kernels *k;
    struct hg_pool *pool;
    char name[32];
    uint8_t *scratch; /* [n_threads][CPU_THREAD_SCRATCH] */
    uint8_t *shared;  /* [CPU_SHARED_SCRATCH] */

    /* Rotary frequencies, kept from call to call. */
    float rope_theta;
    int32_t rope_d;
    float rope_freq[CPU_MAX_D_HEAD / 2];

    /* Per-row scalars of a gdn call. */
    float *gdn_gate;        /* [max_rows][CPU_MAX_V_HEADS][2]: alpha, beta */
    float *gdn_norm;        /* [max_rows][CPU_MAX_K_HEADS][2]: factors of q and of k */
    struct cpu_visit *walk; /* [max_rows] */
};

static inline struct cpu *cpu_of(struct hg_backend *be)
{
    return (struct cpu *)be;
}
static inline void *cpu_scratch(struct cpu *c, int32_t thread)
{
    return c->scratch + (size_t)thread * CPU_THREAD_SCRATCH;
}

enum hg_status cpu_matrix_load(struct hg_backend *be, const struct hg_matrix_src *src,
                               struct hg_matrix *out, struct hg_err *err);
void cpu_matrix_free(struct hg_backend *be, struct hg_matrix *m);

#endif
