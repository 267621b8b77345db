/* check.c: hg_cache_check, the invariants of cache.c as code. */
#include "cache/cache_impl.h"

#include <string.h>

#define HOLDS(n, c)                                                                                \
    ((c) ? (void)0 : hg_assert_failed("cache invariant " #n ": " #c, __FILE__, __LINE__))

enum { SEEN_REFS, SEEN_DEV, SEEN_HOST, SEEN_DISK };

struct totals {
    int32_t n_entries, n_dev_pages, n_slots;
    uint64_t host, disk;
};

/* 4, 5, 8 for one entry; counts its references in its pages. */
static void check_entry(const struct hg_cache *c, const struct cache_entry *e, struct totals *t)
{
    t->n_entries++;
    HOLDS(8, e->n_pins >= 0 && e->last_use <= c->tick);
    HOLDS(5, e->node->entry == e && e->node->depth == e->n_tokens && e->n_tokens > 0);
    HOLDS(4, (e->tier == TIER_DEVICE) == (e->slot >= 0));
    HOLDS(4, (e->tier == TIER_HOST) == (e->host != NULL));
    HOLDS(4, e->tier == TIER_DEVICE || e->tier == TIER_HOST || (e->tier == TIER_DISK && e->file));
    if (e->tier == TIER_DEVICE) {
        HOLDS(1, c->slots.refs[e->slot - c->slots.base] == 1);
        t->n_slots++;
    }
    if (e->tier == TIER_HOST) t->host += c->p.mem.slot_bytes;
    if (e->file) t->disk += disk_entry_bytes(c->disk, e->n_tokens);
    for (int32_t i = 0; i < e->n_pages; i++) {
        struct cache_page *p = e->pages[i];
        p->seen[SEEN_REFS]++;
        p->seen[SEEN_DEV] += e->tier == TIER_DEVICE;
        p->seen[SEEN_HOST] += e->tier == TIER_HOST;
        p->seen[SEEN_DISK] += e->file && i < entry_full_pages(e);
        HOLDS(4, e->tier != TIER_DEVICE || (p->dev >= 0 && p->dev_n >= entry_claim(e, i)));
        HOLDS(4, e->tier != TIER_HOST || (p->host && p->host_n >= entry_claim(e, i)));
        HOLDS(4, !e->file || i >= entry_full_pages(e) || p->file);
    }
}

/* 2, 3 for one page, at its first visit, which zeroes what was counted. */
static void check_page(const struct hg_cache *c, struct cache_page *p, struct totals *t)
{
    if (!p->seen[SEEN_REFS]) return;
    HOLDS(2, p->n_refs == p->seen[SEEN_REFS] && p->n_dev == p->seen[SEEN_DEV]);
    HOLDS(2, p->n_host == p->seen[SEEN_HOST] && p->n_disk == p->seen[SEEN_DISK]);
    HOLDS(3, (p->dev >= 0) == (p->n_dev > 0) && (p->host != NULL) == (p->n_host > 0));
    HOLDS(3, (p->file != 0) == (p->n_disk > 0));
    HOLDS(3, (p->dev_n > 0) == (p->dev >= 0) && (p->host_n > 0) == (p->host != NULL));
    if (p->dev >= 0) {
        t->n_dev_pages++;
        c->mark[p->dev]++;
    }
    if (p->host) t->host += c->p.mem.page_bytes;
    if (p->file) t->disk += disk_page_bytes(c->disk);
    memset(p->seen, 0, sizeof p->seen);
}

/* 5 and 6. */
static void check_node(struct tree_node *n, void *ctx)
{
    (void)ctx;
    if (!n->parent) return;
    HOLDS(5, n->n_tok > 0 && n->depth == n->parent->depth + n->n_tok);
    HOLDS(5, n->entry || n->child);
    struct cache_entry *mine = tree_below((struct tree_spot){n, n->depth});
    for (const struct tree_node *k = n->child; k; k = k->next) {
        HOLDS(5, k->parent == n);
        for (const struct tree_node *o = k->next; o; o = o->next) HOLDS(5, o->tok[0] != k->tok[0]);
        struct tree_node *kn = (struct tree_node *)(uintptr_t)k;
        struct cache_entry *its = tree_below((struct tree_spot){kn, k->depth});
        for (int32_t i = 0; i < n->depth / HG_PAGE_TOKENS; i++)
            HOLDS(6, mine->pages[i] == its->pages[i]);
    }
}

static void check_ids(const struct ids *p, int32_t n_used)
{
    int32_t n_zero = 0;
    for (int32_t i = 0; i < p->n_total; i++) n_zero += p->refs[i] == 0;
    HOLDS(1, n_zero == p->n_free);
    for (int32_t i = 0; i < p->n_free; i++) HOLDS(1, p->refs[p->free[i] - p->base] == 0);
    HOLDS(1, n_used < 0 || n_used == p->n_total - p->n_free);
}

void hg_cache_check(const struct hg_cache *c)
{
    struct totals t = {0};
    memset(c->mark, 0, (size_t)c->p.n_pages * sizeof *c->mark);
    for (int32_t k = 0; k < c->cap_entries; k++)
        if (c->entries[k]) check_entry(c, c->entries[k], &t);
    for (int32_t k = 0; k < c->cap_entries; k++)
        for (int32_t i = 0; c->entries[k] && i < c->entries[k]->n_pages; i++)
            check_page(c, c->entries[k]->pages[i], &t);
    check_ids(&c->pages, -1);
    check_ids(&c->slots, t.n_slots);
    for (int32_t id = 0; id < c->p.n_pages; id++)
        HOLDS(1, c->pages.refs[id] == c->n_seq[id] + (int32_t)c->mark[id]);
    memset(c->mark, 0, (size_t)c->p.n_pages * sizeof *c->mark);
    HOLDS(7, t.host == c->host_used && t.host <= c->p.host_bytes);
    HOLDS(7, !c->disk || t.disk == c->disk->used);
    HOLDS(7, t.n_dev_pages == c->n_dev_pages && t.n_entries == c->stats.n_entries);
    tree_walk((struct tree_node *)(uintptr_t)&c->tree.root, check_node, NULL, NULL);
}
