/* The CPU backend: context, choice of the instruction set, and the vtable, whose ops go straight
 * to the chosen kernel table. */
#include "backend/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kv.h"

#if defined(__x86_64__)
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
}
#endif
static bool always(void)
{
    return true;
}
/* Best first. Another instruction set is one more row here and in the Makefile. */
static const struct isa {
    const struct cpu_kernels *k;
    bool (*runs)(void);
} isas[] = {
#if defined(__x86_64__)
    {&hg_cpu_table__avx2, has_avx2},
#endif
    {&hg_cpu_table__portable, always},
};
enum { N_ISAS = sizeof isas / sizeof isas[0] };

const char *hg_cpu_isa(int32_t i)
{
    for (size_t j = 0; j < N_ISAS; j++)
        if (isas[j].runs() && i-- == 0) return isas[j].k->isa;
    return NULL;
}

static enum hg_status find_isa(const char *name, const struct cpu_kernels **out, struct hg_err *err)
{
    for (size_t j = 0; j < N_ISAS; j++) {
        if (name && strcmp(name, isas[j].k->isa)) continue;
        if (isas[j].runs()) {
            *out = isas[j].k;
            return HG_OK;
        }
        if (name) return hg_fail(err, HG_EUNSUP, "device cpu:%s: this machine lacks it", name);
    }
    char have[128] = "";
    for (int32_t i = 0; hg_cpu_isa(i); i++) {
        strncat(have, i ? ", " : "", sizeof have - strlen(have) - 1);
        strncat(have, hg_cpu_isa(i), sizeof have - strlen(have) - 1);
    }
    return hg_fail(err, HG_EINVAL, "device cpu:%s: unknown; this machine has: %s", name, have);
}

static void cpu_close(struct hg_backend *be)
{
    struct cpu *c = cpu_of(be);
    hg_pool_free(c->pool);
    free(c->scratch);
    free(c->shared);
    free(c->gdn_gate);
    free(c->gdn_norm);
    free(c->walk);
    free(c);
}

static size_t cpu_kv_page_bytes(struct hg_backend *be, enum hg_kv dtype, int32_t n_kv_heads,
                                int32_t d_head)
{
    (void)be;
    return kv_page_bytes(dtype, n_kv_heads, d_head);
}

#define FORWARD(op)                                                                                \
    static void cpu_##op(struct hg_backend *be, const struct hg_##op##_args *a)                    \
    {                                                                                              \
        cpu_of(be)->k->op(cpu_of(be), a);                                                          \
    }
FORWARD(embed)
FORWARD(rmsnorm)
FORWARD(gemm)
FORWARD(silu_mul)
FORWARD(attn_in)
FORWARD(attn)
FORWARD(gdn_conv)
FORWARD(gdn)
FORWARD(gdn_commit)
FORWARD(kv_move)
FORWARD(gather)
#undef FORWARD

static const char *cpu_variant(struct hg_backend *be, const char *op)
{
    return cpu_of(be)->k->variant(op);
}

static const struct hg_backend_ops cpu_ops = {
    .close = cpu_close,
    .alloc = hg_host_alloc,
    .free = hg_host_free,
    .upload = hg_host_copy,
    .download = hg_host_copy,
    .copy = hg_host_copy,
    .zero = hg_host_zero,
    .sync = hg_host_sync,
    .read_act = hg_host_read_act,
    .matrix_load = cpu_matrix_load,
    .matrix_free = cpu_matrix_free,
    .kv_page_bytes = cpu_kv_page_bytes,
    .plan = hg_host_plan,
    .embed = cpu_embed,
    .rmsnorm = cpu_rmsnorm,
    .gemm = cpu_gemm,
    .silu_mul = cpu_silu_mul,
    .attn_in = cpu_attn_in,
    .attn = cpu_attn,
    .gdn_conv = cpu_gdn_conv,
    .gdn = cpu_gdn,
    .gdn_commit = cpu_gdn_commit,
    .kv_move = cpu_kv_move,
    .gather = cpu_gather,
    .variant = cpu_variant,
};

/* 64-byte aligned. Untouched pages cost nothing, so limits may be generous. */
static void *scratch_alloc(size_t n)
{
    void *p = NULL;
    return posix_memalign(&p, 64, n ? n : 64) ? NULL : p;
}

enum hg_status hg_cpu_open(const struct hg_backend_params *p, const char *isa,
                           struct hg_backend **out, struct hg_err *err)
{
    *out = NULL;
    const struct cpu_kernels *k = NULL;
    HG_TRY(find_isa(isa, &k, err));
    if (p->max_rows < 1) return hg_fail(err, HG_EINVAL, "max_rows: %d, not >= 1", p->max_rows);
    struct cpu *c = calloc(1, sizeof *c);
    if (!c) return hg_fail(err, HG_ENOMEM, "cpu backend: out of memory");
    enum hg_status s = hg_pool_create(p->n_threads, &c->pool, err);
    if (s) {
        free(c);
        return s;
    }
    size_t threads = (size_t)hg_pool_size(c->pool), rows = (size_t)p->max_rows;
    c->k = k;
    c->scratch = scratch_alloc(threads * CPU_THREAD_SCRATCH);
    c->shared = scratch_alloc(CPU_SHARED_SCRATCH);
    c->gdn_gate = scratch_alloc(rows * CPU_MAX_V_HEADS * 2 * sizeof(float));
    c->gdn_norm = scratch_alloc(rows * CPU_MAX_K_HEADS * 2 * sizeof(float));
    c->walk = scratch_alloc(rows * sizeof *c->walk);
    if (!c->scratch || !c->shared || !c->gdn_gate || !c->gdn_norm || !c->walk) {
        cpu_close(&c->be);
        return hg_fail(err, HG_ENOMEM, "cpu backend: out of memory for scratch of %zu threads",
                       threads);
    }
    strcpy(c->name, "cpu:");
    strncat(c->name, k->isa, sizeof c->name - 5);
    c->be = (struct hg_backend){.ops = &cpu_ops,
                                .name = c->name,
                                .act_size = sizeof(float),
                                .n_threads = (int32_t)threads,
                                .max_rows = p->max_rows};
    *out = &c->be;
    return HG_OK;
}
