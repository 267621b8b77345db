/* entry.c: the life of entries and pages: made, in and out of the device and host tiers, dropped.
 * Every counter of a page changes here or in store.c (n_disk). */
#include "cache/cache_impl.h"

#include <string.h>

/* An unused index of the table, which grows if need be; -1 when memory is out. */
static int32_t table_slot(struct hg_cache *c)
{
    for (int32_t i = 0; i < c->cap_entries; i++)
        if (!c->entries[i]) return i;
    int32_t cap = c->cap_entries ? 2 * c->cap_entries : 16;
    struct cache_entry **t = cache_alloc((size_t)cap * sizeof *t);
    if (!t) return -1;
    if (c->cap_entries) memcpy(t, c->entries, (size_t)c->cap_entries * sizeof *t);
    cache_free(c->entries);
    c->entries = t;
    int32_t id = c->cap_entries;
    c->cap_entries = cap;
    return id;
}

static void page_unref(struct cache_page *p)
{
    if (--p->n_refs > 0) return;
    hg_assert(!p->n_dev && !p->n_host && !p->n_disk);
    cache_free(p);
}

/* Finds or makes the pages of e; on failure those that were got are given back. */
static bool get_pages(struct hg_cache *c, struct cache_entry *e, const hg_tok *tokens,
                      const int32_t *ids)
{
    struct tree_spot spot = tree_find(&c->tree, tokens, e->n_tokens);
    struct cache_entry *like = tree_below(spot), *above = tree_prefix(spot, e->n_tokens);
    int32_t n_shared = spot.n_match / HG_PAGE_TOKENS;
    for (int32_t i = 0; i < e->n_pages; i++) {
        struct cache_page *p = NULL;
        if (i < n_shared)
            p = like->pages[i];
        else if (ids && above && i == above->n_pages - 1 && above->pages[i]->dev == ids[i] &&
                 above->pages[i]->n_refs == above->pages[i]->n_dev)
            /* The same sequence went on writing in its last page. Not if an entry elsewhere has its
             * copy of the page: behind what they share it may have gone another way. */
            p = above->pages[i];
        else if ((p = cache_alloc(sizeof *p)))
            p->dev = -1;
        if (!p) {
            for (int32_t j = 0; j < i; j++) page_unref(e->pages[j]);
            return false;
        }
        p->n_refs++;
        e->pages[i] = p;
    }
    return true;
}

struct cache_entry *entry_create(struct hg_cache *c, const hg_tok *tokens, int32_t n,
                                 enum hg_cache_kind kind, const int32_t *ids)
{
    int32_t n_pages = (n + HG_PAGE_TOKENS - 1) / HG_PAGE_TOKENS;
    int32_t id = table_slot(c);
    struct cache_entry *e =
        id < 0 ? NULL : cache_alloc(sizeof *e + (size_t)n_pages * sizeof e->pages[0]);
    if (!e) return NULL;
    e->id = id;
    e->n_tokens = n;
    e->n_pages = n_pages;
    e->kind = kind;
    e->tier = TIER_NONE;
    e->slot = -1;
    e->last_use = c->tick;
    if (!get_pages(c, e, tokens, ids)) {
        cache_free(e);
        return NULL;
    }
    e->node = tree_insert(&c->tree, tokens, n);
    if (!e->node) {
        for (int32_t i = 0; i < n_pages; i++) page_unref(e->pages[i]);
        cache_free(e);
        return NULL;
    }
    hg_assert(!e->node->entry);
    e->node->entry = e;
    c->entries[id] = e;
    c->stats.n_entries++;
    return e;
}

void entry_drop(struct hg_cache *c, struct cache_entry *e)
{
    hg_assert(e->n_pins == 0);
    if (e->tier == TIER_DEVICE) entry_leave_device(c, e);
    if (e->tier == TIER_HOST) entry_leave_host(c, e);
    if (e->file) store_remove(c, e);
    e->node->entry = NULL;
    tree_prune(e->node);
    c->entries[e->id] = NULL;
    c->stats.n_entries--;
    for (int32_t i = 0; i < e->n_pages; i++) page_unref(e->pages[i]);
    cache_free(e);
}

/* -------------------------------------------------------------------------------- device -- */

void entry_join_device(struct hg_cache *c, struct cache_entry *e, int32_t slot, const int32_t *ids)
{
    hg_assert(e->tier != TIER_DEVICE);
    for (int32_t i = 0; i < e->n_pages; i++) {
        struct cache_page *p = e->pages[i];
        p->n_dev++;
        if (p->dev == ids[i]) {
            if (p->dev_n < entry_claim(e, i)) p->dev_n = entry_claim(e, i);
        } else if (p->dev < 0 || p->dev_n < entry_claim(e, i)) {
            ids_ref(&c->pages, ids[i]);
            if (p->dev >= 0)
                ids_unref(&c->pages, p->dev);
            else
                c->n_dev_pages++;
            p->dev = ids[i];
            p->dev_n = entry_claim(e, i);
        }
    }
    if (e->tier == TIER_HOST) entry_leave_host(c, e);
    e->slot = slot;
    e->tier = TIER_DEVICE;
}

void entry_leave_device(struct hg_cache *c, struct cache_entry *e)
{
    hg_assert(e->tier == TIER_DEVICE);
    for (int32_t i = 0; i < e->n_pages; i++) {
        struct cache_page *p = e->pages[i];
        if (--p->n_dev > 0) continue;
        ids_unref(&c->pages, p->dev);
        c->n_dev_pages--;
        p->dev = -1;
        p->dev_n = 0;
    }
    ids_unref(&c->slots, e->slot);
    e->slot = -1;
    e->tier = TIER_NONE;
}

/* ---------------------------------------------------------------------------------- host -- */

static void host_free(struct hg_cache *c, uint8_t **copy, size_t bytes)
{
    cache_free(*copy);
    *copy = NULL;
    c->host_used -= bytes;
}

static void leave_host_pages(struct hg_cache *c, struct cache_entry *e, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        struct cache_page *p = e->pages[i];
        if (--p->n_host > 0) continue;
        host_free(c, &p->host, c->p.mem.page_bytes);
        p->host_n = 0;
    }
}

void entry_leave_host(struct hg_cache *c, struct cache_entry *e)
{
    hg_assert(e->tier == TIER_HOST);
    leave_host_pages(c, e, e->n_pages);
    host_free(c, &e->host, c->p.mem.slot_bytes);
    e->tier = TIER_NONE;
}

bool entry_join_host(struct hg_cache *c, struct cache_entry *e)
{
    const struct hg_cache_memory *m = &c->p.mem;
    hg_assert(e->tier == TIER_DEVICE);
    e->host = cache_alloc(m->slot_bytes);
    if (!e->host) return false;
    c->host_used += m->slot_bytes;
    for (int32_t i = 0; i < e->n_pages; i++) {
        struct cache_page *p = e->pages[i];
        if (!p->host) {
            p->host = cache_alloc(m->page_bytes);
            if (!p->host) {
                leave_host_pages(c, e, i);
                host_free(c, &e->host, m->slot_bytes);
                return false;
            }
            c->host_used += m->page_bytes;
        }
        p->n_host++;
        if (p->host_n >= entry_claim(e, i)) continue;
        m->read_page(m->ctx, p->dev, p->host);
        p->host_n = p->dev_n;
    }
    m->read_slot(m->ctx, e->slot, e->host);
    entry_leave_device(c, e);
    e->tier = TIER_HOST;
    return true;
}
