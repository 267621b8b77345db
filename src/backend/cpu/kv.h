/* kv.h: a page of the CPU backend's KV cache. Per kv head, 64 tokens:
 *   K transposed [d_head][64], then V [64][d_head], in FP8 (e4m3), BF16 or F32.
 * K lies so that one load gives eight positions' keys at one dimension, which is what an outer
 * product over positions reads; V is read along d_head. */
#ifndef HG_BACKEND_CPU_KV_H
#define HG_BACKEND_CPU_KV_H

#include "backend/ops.h"

static inline size_t kv_elem(enum hg_kv t)
{
    return t == HG_KV_FP8 ? 1 : t == HG_KV_BF16 ? 2 : 4;
}
static inline size_t kv_page_bytes(enum hg_kv t, int32_t n_kv_heads, int32_t d_head)
{
    return 2 * (size_t)n_kv_heads * HG_PAGE_TOKENS * (size_t)d_head * kv_elem(t);
}
/* K block of a page and head; its V block follows after kv_block_bytes. */
static inline size_t kv_block_bytes(const struct hg_kv_layer *kv)
{
    return (size_t)HG_PAGE_TOKENS * (size_t)kv->d_head * kv_elem(kv->dtype);
}
static inline uint8_t *kv_block(const struct hg_kv_layer *kv, int32_t page, int32_t head)
{
    return kv->pool + (size_t)page * kv->page_bytes + 2 * (size_t)head * kv_block_bytes(kv);
}

#endif
