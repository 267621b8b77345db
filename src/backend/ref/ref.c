#include "backend/ref/ref.h"

#include <stdlib.h>
#include <string.h>

static void ref_close(struct hg_backend *be)
{
    free(be);
}

/* Keeps the checkpoint's order; NVFP4: codes, then block scales. */
static enum hg_status ref_matrix_load(struct hg_backend *be, const struct hg_matrix_src *src,
                                      struct hg_matrix *out, struct hg_err *err)
{
    int64_t n = (int64_t)src->n * src->k;
    *out = (struct hg_matrix){.format = src->format,
                              .n = src->n,
                              .k = src->k,
                              .scale2 = src->scale2,
                              .n_bytes = hg_format_bytes(src->format, n)};
    HG_TRY(be->ops->alloc(be, out->n_bytes, &out->data, err));
    size_t codes = src->format == HG_FMT_NVFP4 ? (size_t)n / 2 : out->n_bytes;
    memcpy(out->data, src->data, codes);
    if (src->format == HG_FMT_NVFP4)
        memcpy((uint8_t *)out->data + codes, src->scale, (size_t)n / 16);
    return HG_OK;
}

static void ref_matrix_free(struct hg_backend *be, struct hg_matrix *m)
{
    be->ops->free(be, m->data);
    m->data = NULL;
}

static const char *ref_variant(struct hg_backend *be, const char *op)
{
    (void)op;
    return be->name;
}

static const struct hg_backend_ops ref_ops = {
    .close = ref_close,
    .alloc = hg_host_alloc,
    .free = hg_host_free,
    .upload = hg_host_copy,
    .download = hg_host_copy,
    .copy = hg_host_copy,
    .zero = hg_host_zero,
    .sync = hg_host_sync,
    .read_act = hg_host_read_act,
    .matrix_load = ref_matrix_load,
    .matrix_free = ref_matrix_free,
    .kv_page_bytes = ref_kv_page_bytes,
    .plan = hg_host_plan,
    .embed = ref_embed,
    .rmsnorm = ref_rmsnorm,
    .gemm = ref_gemm,
    .silu_mul = ref_silu_mul,
    .attn_in = ref_attn_in,
    .attn = ref_attn,
    .gdn_conv = ref_gdn_conv,
    .gdn = ref_gdn,
    .gdn_commit = ref_gdn_commit,
    .kv_move = ref_kv_move,
    .gather = ref_gather,
    .variant = ref_variant,
};

enum hg_status hg_ref_open(const struct hg_backend_params *p, struct hg_backend **out,
                           struct hg_err *err)
{
    struct hg_backend *be = calloc(1, sizeof *be);
    if (!be) return hg_fail(err, HG_ENOMEM, "ref: out of memory");
    bool chunked = p->device && strcmp(p->device, "ref:chunked") == 0;
    *be = (struct hg_backend){.ops = &ref_ops,
                              .name = chunked ? "ref:chunked" : "ref",
                              .act_size = sizeof(float),
                              .n_threads = 1,
                              .max_rows = p->max_rows};
    *out = be;
    return HG_OK;
}
