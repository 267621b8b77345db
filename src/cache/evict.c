/* evict.c: what goes when something is short. The formula is explained at the head of cache.c. */
#include "cache/cache_impl.h"

#include <float.h>

enum { HALF_LIFE = 32 /* lookups after which an unused entry is worth half */ };

static const double kind_weight[] = {
    [HG_CACHE_SYSTEM] = 4, /* every new conversation starts there */
    [HG_CACHE_USER] = 2,   /* where history changes when the user speaks again */
    [HG_CACHE_GENERATION] = 2,
    [HG_CACHE_END] = 1,     /* only if the client sends the answer back as it was */
    [HG_CACHE_INTERVAL] = 1 /* only after an edit in the middle or a cancelled prefill */
};
static const double stale_weight = 1.0 / 32; /* superseded or passed over */

/* -------------------------------------------------------------------------------- survey -- */

static void survey_enter(struct tree_node *n, void *ctx)
{
    (void)ctx;
    const struct tree_node *up = n->parent;
    n->n_turns = n->n_users = 0;
    n->above = !up ? 0 : up->entry ? up->depth : up->above;
    if (n->entry) n->entry->above = n->above;
}

/* n_turns, n_users: entries below that continue a conversation, that end a user message. */
static void survey_leave(struct tree_node *n, void *ctx)
{
    (void)ctx;
    struct cache_entry *e = n->entry;
    if (e) {
        e->superseded = e->kind == HG_CACHE_SYSTEM ? false
                        : e->kind == HG_CACHE_USER ? n->n_users > 0
                                                   : n->n_turns > 0;
        n->n_turns += e->kind != HG_CACHE_END;
        n->n_users += e->kind == HG_CACHE_USER;
    }
    if (!n->parent) return;
    n->parent->n_turns += n->n_turns;
    n->parent->n_users += n->n_users;
}

/* Marks the device pages that pinned entries hold. */
static void mark_pinned(struct hg_cache *c)
{
    c->mark_now++;
    for (int32_t k = 0; k < c->cap_entries; k++) {
        const struct cache_entry *e = c->entries[k];
        if (!e || !e->n_pins || e->tier != TIER_DEVICE) continue;
        for (int32_t i = 0; i < e->n_pages; i++) c->mark[e->pages[i]->dev] = c->mark_now;
    }
}

void evict_survey(struct hg_cache *c)
{
    tree_walk(&c->tree.root, survey_enter, survey_leave, NULL);
    mark_pinned(c);
}

/* --------------------------------------------------------------------------------- value -- */

static bool stale(const struct cache_entry *e)
{
    return e->superseded || e->passed_over;
}

static double worth(const struct hg_cache *c, const struct cache_entry *e)
{
    double age = (double)(c->tick - e->last_use) / HALF_LIFE;
    return (e->n_tokens - e->above) * kind_weight[e->kind] * (stale(e) ? stale_weight : 1) /
           (1 + age * age);
}

/* The device page would be free if no entry referred to it. */
static bool page_evictable(const struct hg_cache *c, int32_t id)
{
    return c->n_seq[id] == 0 && c->mark[id] != c->mark_now;
}

/* Pages that the tier would get back by e alone: a page that k entries share counts 1/k. An entry
 * that is not in the tier yet counts what it would add, divided in the same way. */
static double page_share(const struct hg_cache *c, const struct cache_entry *e,
                         enum cache_tier tier)
{
    double sum = 0;
    int32_t n = tier == TIER_DISK ? entry_full_pages(e) : e->n_pages;
    for (int32_t i = 0; i < n; i++) {
        const struct cache_page *p = e->pages[i];
        if (tier == TIER_DEVICE)
            sum += page_evictable(c, p->dev) ? 1.0 / p->n_dev : 0;
        else if (tier == TIER_HOST)
            sum += 1.0 / (p->n_host + (e->tier != TIER_HOST));
        else
            sum += 1.0 / (p->n_disk + !e->file);
    }
    return sum;
}

/* Value per byte in a tier. */
static double density(const struct hg_cache *c, const struct cache_entry *e, enum cache_tier tier)
{
    const struct hg_cache_memory *m = &c->p.mem;
    return worth(c, e) / ((double)m->slot_bytes + page_share(c, e, tier) * (double)m->page_bytes);
}

static bool in_tier(const struct cache_entry *e, enum cache_tier tier)
{
    return tier == TIER_DISK ? e->file != 0 : e->tier == tier;
}

/* The unpinned entry of least value per byte, below `limit`; with pages_only, among those whose
 * going brings a page nearer to being free. Needs a fresh survey. */
static struct cache_entry *victim(const struct hg_cache *c, enum cache_tier tier, double limit,
                                  bool pages_only)
{
    struct cache_entry *best = NULL;
    for (int32_t k = 0; k < c->cap_entries; k++) {
        struct cache_entry *e = c->entries[k];
        if (!e || e->n_pins || !in_tier(e, tier)) continue;
        if (pages_only && page_share(c, e, tier) == 0) continue;
        double d = density(c, e, tier);
        if (d >= limit) continue;
        limit = d;
        best = e;
    }
    return best;
}

/* --------------------------------------------------------------------------------- tiers -- */

/* Whether e may cost a write: what a conversation has left behind it is not worth one. */
static bool worth_storing(const struct hg_cache *c, const struct cache_entry *e)
{
    return c->disk && !stale(e);
}

/* Host or device: what remains of e is its file, if it has one or gets one. */
static void to_disk_or_drop(struct hg_cache *c, struct cache_entry *e)
{
    if (!e->file && worth_storing(c, e)) store_write(c, e);
    if (!e->file) {
        entry_drop(c, e);
        return;
    }
    if (e->tier == TIER_DEVICE)
        entry_leave_device(c, e);
    else
        entry_leave_host(c, e);
    e->tier = TIER_DISK;
}

static bool host_room(struct hg_cache *c, struct cache_entry *e)
{
    const struct hg_cache_memory *m = &c->p.mem;
    double value = density(c, e, TIER_HOST);
    for (;;) {
        uint64_t add = m->slot_bytes;
        for (int32_t i = 0; i < e->n_pages; i++) add += e->pages[i]->host ? 0 : m->page_bytes;
        if (add > c->p.host_bytes) return false;
        if (c->host_used + add <= c->p.host_bytes) return true;
        struct cache_entry *v = victim(c, TIER_HOST, value, false);
        if (!v) return false;
        to_disk_or_drop(c, v);
        c->stats.n_evicted++;
        evict_survey(c);
    }
}

static void evict_from_device(struct hg_cache *c, struct cache_entry *e)
{
    c->stats.n_evicted++;
    if (!host_room(c, e) || !entry_join_host(c, e)) to_disk_or_drop(c, e);
}

/* Whether evicting every unpinned entry would be enough. */
static bool device_room_possible(const struct hg_cache *c, int32_t n_pages, int32_t n_slots)
{
    n_pages -= c->pages.n_free;
    n_slots -= c->slots.n_free;
    for (int32_t id = 0; id < c->pages.n_total && n_pages > 0; id++)
        n_pages -= c->pages.refs[id] > 0 && page_evictable(c, id);
    for (int32_t k = 0; k < c->cap_entries && n_slots > 0; k++) {
        const struct cache_entry *e = c->entries[k];
        n_slots -= e && e->tier == TIER_DEVICE && !e->n_pins;
    }
    return n_pages <= 0 && n_slots <= 0;
}

bool evict_device_room(struct hg_cache *c, int32_t n_pages, int32_t n_slots)
{
    if (c->pages.n_free >= n_pages && c->slots.n_free >= n_slots) return true;
    evict_survey(c);
    if (!device_room_possible(c, n_pages, n_slots)) return false;
    while (c->pages.n_free < n_pages || c->slots.n_free < n_slots) {
        bool pages_only = c->pages.n_free < n_pages;
        struct cache_entry *v = victim(c, TIER_DEVICE, DBL_MAX, pages_only);
        hg_assert(v);
        evict_from_device(c, v);
        evict_survey(c);
    }
    return true;
}

/* ---------------------------------------------------------------------------------- disk -- */

/* Takes the file from an entry; one that has nothing else goes. */
static void evict_file(struct hg_cache *c, struct cache_entry *e)
{
    if (e->tier == TIER_DISK)
        entry_drop(c, e);
    else
        store_remove(c, e);
    c->stats.n_evicted++;
    evict_survey(c);
}

bool evict_disk_room(struct hg_cache *c, const struct cache_entry *e)
{
    evict_survey(c);
    double value = density(c, e, TIER_DISK);
    for (;;) {
        uint64_t add = store_cost(c, e);
        if (add > c->disk->budget) return false;
        if (c->disk->used + c->disk->foreign_bytes + add <= c->disk->budget) return true;
        if (disk_remove_foreign(c->disk)) continue;
        struct cache_entry *v = victim(c, TIER_DISK, value, false);
        if (!v) return false;
        evict_file(c, v);
    }
}

void evict_disk_excess(struct hg_cache *c)
{
    while (c->disk->used + c->disk->foreign_bytes > c->disk->budget) {
        if (disk_remove_foreign(c->disk)) continue;
        evict_survey(c);
        struct cache_entry *v = victim(c, TIER_DISK, DBL_MAX, false);
        if (!v) return;
        evict_file(c, v);
    }
}

struct cache_entry *evict_next_store(struct hg_cache *c)
{
    struct cache_entry *best = NULL;
    double most = 0;
    evict_survey(c);
    for (int32_t k = 0; k < c->cap_entries; k++) {
        struct cache_entry *e = c->entries[k];
        if (!e || e->file || e->tried || !worth_storing(c, e)) continue;
        double d = density(c, e, TIER_DISK);
        if (d <= most) continue;
        most = d;
        best = e;
    }
    return best;
}
