/* How the engine's memory is laid out: KV pages and state slots of the running context, and the
 * prefix cache beside them. */
#include <string.h>
#include <unistd.h>

#include "engine/engine_impl.h"

enum { ENTRY_PAGES = 16 }; /* pages that one snapshot is expected to add: 1024 tokens */

static const int64_t default_device_bytes = (int64_t)2 << 30;

static int64_t device_budget(int64_t asked)
{
    if (asked) return asked < 0 ? 0 : asked;
    int64_t eighth = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 8;
    return eighth < default_device_bytes ? eighth : default_device_bytes;
}

static void copy_page(void *m, int32_t dst, int32_t src)
{
    hg_page_copy(m, dst, src);
}

static void read_page(void *m, int32_t page, void *dst)
{
    hg_page_read(m, page, dst);
}

static void write_page(void *m, int32_t page, const void *src)
{
    hg_page_write(m, page, src);
}

static void copy_slot(void *m, int32_t dst, int32_t src)
{
    hg_slot_copy(m, dst, src);
}

static void read_slot(void *m, int32_t slot, void *dst)
{
    hg_slot_read(m, slot, dst);
}

static void write_slot(void *m, int32_t slot, const void *src)
{
    hg_slot_write(m, slot, src);
}

static enum hg_status open_cache(struct hg_engine *eng, const struct hg_engine_params *p,
                                 const uint8_t key[16], struct hg_err *err)
{
    struct hg_model *m = eng->model;
    struct hg_cache_params cp = {
        .mem = {.page_bytes =
                    m->page_bytes + !m->page_bytes, /* a model may lack one kind of layer */
                .slot_bytes = m->slot_bytes + !m->slot_bytes,
                .copy_page = copy_page,
                .read_page = read_page,
                .write_page = write_page,
                .copy_slot = copy_slot,
                .read_slot = read_slot,
                .write_slot = write_slot,
                .ctx = m},
        .n_pages = m->p.n_pages,
        .slot0 = 1,
        .n_slots = m->p.n_slots - 1,
        .host_bytes = p->cache_host > 0 ? (size_t)p->cache_host : 0,
        .disk_dir = p->cache_disk > 0 ? p->cache_dir : NULL,
        .disk_bytes = p->cache_disk > 0 ? (size_t)p->cache_disk : 0};
    memcpy(cp.key, key, sizeof cp.key);
    return hg_cache_create(&cp, &eng->cache, err);
}

/* Slot 0 is the running sequence's. The budget buys snapshots, each with some pages of its own; what
 * one snapshot costs is only known once a slot's and a page's size are: from the model's shape. */
enum hg_status hg_engine_memory(struct hg_engine *eng, enum hg_kv kv,
                                const struct hg_engine_params *p, struct hg_weights *w,
                                const uint8_t key[16], struct hg_err *err)
{
    const struct hg_config *c = &eng->assets.cfg;
    int64_t context_pages = (eng->info.n_ctx + HG_PAGE_TOKENS - 1) / HG_PAGE_TOKENS;
    struct hg_model_params mp = {.n_slots = 1,
                                 .n_pages = (int32_t)context_pages,
                                 .max_rows = eng->be->max_rows,
                                 .max_seqs = 1,
                                 .max_want = HG_LOGITS_ROWS,
                                 .kv = kv};
    size_t page_bytes, slot_bytes;
    hg_model_sizes(c, eng->be, mp.kv, &page_bytes, &slot_bytes);
    int64_t entry = (int64_t)slot_bytes + ENTRY_PAGES * (int64_t)page_bytes;
    int64_t n = device_budget(p->cache_device) / entry;
    if (n > 4096) n = 4096;
    mp.n_slots += (int32_t)n;
    mp.n_pages += (int32_t)n * ENTRY_PAGES;
    HG_TRY(hg_model_create(c, w, eng->be, &mp, &eng->model, err));
    return open_cache(eng, p, key, err);
}
