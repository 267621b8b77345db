/* cache.c: the operations of cache.h. Entries, pages and copies are made and freed in entry.c,
 * chosen for eviction in evict.c, written and read in store.c; ids, tree and disk know nothing of
 * entries.
 *
 * Invariants (hg_cache_check names them by these numbers)
 *  1. A device page is free iff neither a sequence nor a page's device copy refers to it; its count
 *     is the sum of both. A snapshot slot is taken iff one device entry owns it.
 *  2. A page counts the entries that refer to it: all, in the device tier, in the host tier, and (if
 *     the page is whole in them) with a file. A page to which none refers does not exist.
 *  3. A page has a copy in a tier iff its count there is not zero.
 *  4. An entry is in one of the tiers device, host, disk, and complete there: its snapshot, and of
 *     every page a copy whose good positions cover the entry's. Entries in device and host may have
 *     a file too.
 *  5. Every entry hangs on the tree node at the end of its tokens. A node without entry has a
 *     child; no two children of a node begin with the same token.
 *  6. Entries that agree on all tokens up to the end of a whole page share that page: no prefix is
 *     stored twice in a tier.
 *  7. The bytes and numbers that are kept equal what there is; host and disk are within budget.
 *  8. A pinned entry is neither moved nor freed.
 *
 * States of an entry, and the function of each edge
 *
 *      hg_cache_publish            evict_from_device
 *      ----------------> DEVICE --------------------------> HOST
 *                        ^ |  ^     (entry_join_host)       |  |
 *                promote | |  +---------------------------- +  |
 *                        | |              promote              |
 *       store_scan       | v to_disk_or_drop                   |
 *      ----------------> DISK <--------------------------------+
 *                             to_disk_or_drop
 *
 *      gone:  entry_drop, called by to_disk_or_drop (worth no file), evict_file (DISK), publish (no
 *             slot), hg_cache_restore and store_lose_page (damaged file), hg_cache_clear
 *      file:  DEVICE and HOST get one beside by hg_cache_idle (store_write), lose it by evict_file
 *             and store_lose_page (store_remove)
 *
 * States of a device page
 *
 *        FREE --reserve, restore--> PRIVATE (sequences only) --publish, promote--> SHARED
 *        SHARED --release--> CACHED (entries only) --restore--> SHARED
 *        PRIVATE --release--> FREE,  CACHED --entry_leave_device--> FREE
 *
 * What goes first (evict.c). When a tier is short, the unpinned entry with the least value per
 * byte goes, one by one, until there is room:
 *
 *        tokens * weight[kind] * stale / (1 + (age / 32)^2)
 *        ----------------------------------------------
 *        slot_bytes + page_bytes * (sum over pages: 1/k)
 *
 *   tokens  that a miss would recompute: its depth less that of the deepest entry above it
 *   weight  of use: system 4, user 2, generation 2, end 1, interval 1
 *   stale   1/32 when the conversation has gone on: an entry other than END lies below (of USER: a
 *           later USER; of SYSTEM: never), or, for END, a later prompt left the tree above it
 *   age     lookups since its last use
 *   k       entries of the tier that share the page; on the device, a page that a sequence or a
 *           pinned entry holds counts 0, since its going frees nothing
 *
 * From device the victim moves to host if it finds room there among entries worth less, else to
 * disk by the same rule, else it is dropped. Stale entries are not worth a write. */
#include "cache/cache.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "cache/cache_impl.h"

/* End of every operation: tells the other threads, and checks in debug builds. */
static void done(struct hg_cache *c)
{
    struct hg_cache_stats *s = &c->stats;
    s->n_pages_free = c->pages.n_free;
    s->n_slots_free = c->slots.n_free;
    s->device_bytes = (uint64_t)(c->slots.n_total - c->slots.n_free) * c->p.mem.slot_bytes +
                      (uint64_t)c->n_dev_pages * c->p.mem.page_bytes;
    s->host_bytes = c->host_used;
    s->disk_bytes = c->disk ? c->disk->used : 0;
    pthread_mutex_lock(&c->lock);
    c->board = *s;
    pthread_mutex_unlock(&c->lock);
#ifdef HG_DEBUG
    hg_cache_check(c);
#endif
}

void hg_cache_stats(const struct hg_cache *c, struct hg_cache_stats *out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&c->lock; /* mutable in a const cache */
    pthread_mutex_lock(lock);
    *out = c->board;
    pthread_mutex_unlock(lock);
}

/* ------------------------------------------------------------------------- create and free -- */

/* Frees all memory; files stay. */
static void teardown(struct hg_cache *c)
{
    for (int32_t k = 0; k < c->cap_entries; k++) {
        struct cache_entry *e = c->entries[k];
        if (!e) continue;
        e->n_pins = 0;
        if (e->file) store_forget(e);
        entry_drop(c, e);
    }
    tree_fini(&c->tree);
    disk_close(c->disk);
    cache_free(c->entries);
    cache_free(c->n_seq);
    cache_free(c->mark);
    ids_fini(&c->pages);
    ids_fini(&c->slots);
    pthread_mutex_destroy(&c->lock);
    cache_free(c);
}

/* Drops tiers that could not hold one entry, with a line each. */
static void check_budgets(struct hg_cache_params *p)
{
    size_t least = p->mem.slot_bytes + p->mem.page_bytes;
    if (p->n_slots == 0)
        hg_log(HG_LOG_WARN,
               "cache: no device memory for a snapshot (%zu bytes): prompts are not "
               "kept",
               p->mem.slot_bytes);
    if (p->host_bytes && p->host_bytes < least) {
        hg_log(HG_LOG_WARN, "cache: host budget of %zu bytes is below one entry (%zu): not used",
               p->host_bytes, least);
        p->host_bytes = 0;
    }
    if (p->disk_dir && p->disk_bytes < least) {
        hg_log(HG_LOG_WARN, "cache: disk budget of %zu bytes is below one entry (%zu): not used",
               p->disk_bytes, least);
        p->disk_dir = NULL;
    }
}

static enum hg_status open_disk(struct hg_cache *c, const char *dir, struct hg_err *err)
{
    struct hg_err why;
    enum hg_status s = disk_open(dir, c->p.key, c->p.mem.page_bytes, c->p.mem.slot_bytes,
                                 c->p.disk_bytes, &c->disk, &why);
    if (s == HG_ENOMEM) return hg_fail(err, s, "%s", why.text);
    if (s != HG_OK)
        hg_log(HG_LOG_WARN, "cache: %s; no disk tier", why.text);
    else if (!store_scan(c))
        return hg_fail(err, HG_ENOMEM, "cache: %s: out of memory", dir);
    return HG_OK;
}

enum hg_status hg_cache_create(const struct hg_cache_params *p, struct hg_cache **out,
                               struct hg_err *err)
{
    hg_assert(p->mem.page_bytes > 0 && p->mem.slot_bytes > 0 && p->n_pages >= 0 && p->n_slots >= 0);
    struct hg_cache *c = cache_alloc(sizeof *c);
    if (!c) return hg_fail(err, HG_ENOMEM, "cache: out of memory");
    c->p = *p;
    pthread_mutex_init(&c->lock, NULL);
    check_budgets(&c->p);
    c->n_seq = cache_alloc((size_t)p->n_pages * sizeof *c->n_seq);
    c->mark = cache_alloc((size_t)p->n_pages * sizeof *c->mark);
    bool ok = c->n_seq && c->mark && ids_init(&c->pages, 0, p->n_pages) &&
              ids_init(&c->slots, p->slot0, p->n_slots);
    enum hg_status s = HG_OK;
    if (!ok)
        s = hg_fail(err, HG_ENOMEM, "cache: out of memory for %" PRId32 " pages", p->n_pages);
    else if (c->p.disk_dir)
        s = open_disk(c, c->p.disk_dir, err);
    c->p.disk_dir = NULL; /* the caller's */
    if (s != HG_OK) {
        teardown(c);
        return s;
    }
    done(c);
    *out = c;
    return HG_OK;
}

bool hg_cache_idle(struct hg_cache *c)
{
    if (!c->disk) return false;
    bool wrote = false;
    while (!wrote && !c->disk->no_write) {
        struct cache_entry *e = evict_next_store(c);
        if (!e) break;
        wrote = store_write(c, e); /* if not, it counts as tried */
    }
    done(c);
    return wrote;
}

void hg_cache_free(struct hg_cache *c)
{
    if (!c) return;
    while (hg_cache_idle(c)) continue;
    teardown(c);
}

void hg_cache_clear(struct hg_cache *c)
{
    for (int32_t k = 0; k < c->cap_entries; k++)
        if (c->entries[k] && !c->entries[k]->n_pins) entry_drop(c, c->entries[k]);
    done(c);
}

/* --------------------------------------------------------------------------------- lookup -- */

static void touch(struct hg_cache *c, struct cache_entry *e)
{
    e->last_use = c->tick;
    e->passed_over = false;
    e->tried = false;
}

/* The prompt went on from e, but differs from what had been generated there: the ENDs right below
 * e will hardly be asked for again. */
static void pass_over(struct cache_entry *e)
{
    struct tree_node *top = e->node, *n = top->child;
    while (n) {
        if (n->entry && n->entry->kind == HG_CACHE_END) n->entry->passed_over = true;
        if (!n->entry) {
            n = n->child;
            continue;
        }
        while (n != top && !n->next) n = n->parent;
        n = n == top ? NULL : n->next;
    }
}

struct hg_cache_hit hg_cache_lookup(struct hg_cache *c, const hg_tok *tokens, int32_t n)
{
    struct hg_cache_hit hit = {0, -1};
    struct tree_spot spot = tree_find(&c->tree, tokens, n);
    struct cache_entry *e = tree_prefix(spot, n - 1);
    c->tick++;
    c->stats.n_lookups++;
    if (e) {
        hit = (struct hg_cache_hit){e->n_tokens, e->id};
        touch(c, e);
        if (e->kind != HG_CACHE_SYSTEM && spot.n_match < n) pass_over(e);
        e->n_pins++;
        c->stats.n_hits++;
    }
    done(c);
    return hit;
}

static struct cache_entry *hit_entry(struct hg_cache *c, struct hg_cache_hit hit)
{
    if (hit.n_tokens == 0) return NULL;
    hg_assert(hit.id >= 0 && hit.id < c->cap_entries && c->entries[hit.id]);
    hg_assert(c->entries[hit.id]->n_pins > 0 && c->entries[hit.id]->n_tokens == hit.n_tokens);
    return c->entries[hit.id];
}

void hg_cache_unpin(struct hg_cache *c, struct hg_cache_hit hit)
{
    struct cache_entry *e = hit_entry(c, hit);
    if (e) e->n_pins--;
    done(c);
}

/* ------------------------------------------------------------------------------ sequences -- */

static void seq_take(struct hg_cache *c, struct hg_seq *seq, int32_t i)
{
    seq->pages[i] = ids_take(&c->pages);
    c->n_seq[seq->pages[i]]++;
}

static void seq_share(struct hg_cache *c, struct hg_seq *seq, int32_t i, int32_t page)
{
    seq->pages[i] = page;
    ids_ref(&c->pages, page);
    c->n_seq[page]++;
}

/* Gives back all pages; -1 = none there. */
static void seq_empty(struct hg_cache *c, struct hg_seq *seq)
{
    for (int32_t i = 0; i < seq->n_pages; i++) {
        if (seq->pages[i] < 0) continue;
        c->n_seq[seq->pages[i]]--;
        ids_unref(&c->pages, seq->pages[i]);
    }
    seq->n_pages = seq->n_past = 0;
}

void hg_cache_release(struct hg_cache *c, struct hg_seq *seq)
{
    seq_empty(c, seq);
    done(c);
}

bool hg_cache_reserve(struct hg_cache *c, struct hg_seq *seq, int32_t n_tokens)
{
    int32_t n = (n_tokens + HG_PAGE_TOKENS - 1) / HG_PAGE_TOKENS;
    if (n <= seq->n_pages) return true;
    bool ok = evict_device_room(c, n - seq->n_pages, 0);
    if (ok)
        while (seq->n_pages < n) seq_take(c, seq, seq->n_pages++);
    done(c);
    return ok;
}

/* -------------------------------------------------------------------------------- restore -- */

/* Gives seq the pages of e: whole ones that are on the device are shared, the others (-1 at
 * first) are the sequence's own. False when there are not enough. */
static bool lay_pages(struct hg_cache *c, const struct cache_entry *e, struct hg_seq *seq)
{
    int32_t n_own = 0;
    seq->n_pages = e->n_pages;
    for (int32_t i = 0; i < e->n_pages; i++) {
        const struct cache_page *p = e->pages[i];
        seq->pages[i] = -1;
        if (i < entry_full_pages(e) && p->dev_n == HG_PAGE_TOKENS)
            seq_share(c, seq, i, p->dev);
        else
            n_own++;
    }
    return evict_device_room(c, n_own, 0);
}

/* Brings page i of e into device page id, from the nearest tier that has it. */
static bool fetch_page(struct hg_cache *c, const struct cache_entry *e, int32_t i, int32_t id,
                       struct store_reader *r)
{
    const struct hg_cache_memory *m = &c->p.mem;
    const struct cache_page *p = e->pages[i];
    const void *image;
    if (p->dev_n >= entry_claim(e, i)) {
        m->copy_page(m->ctx, id, p->dev);
        return true;
    }
    if (p->host_n >= entry_claim(e, i))
        image = p->host;
    else if (i == entry_full_pages(e))
        image = r->last;
    else if (store_page(c, e, i, r))
        image = r->page;
    else
        return false;
    m->write_page(m->ctx, id, image);
    return true;
}

static bool fill(struct hg_cache *c, const struct cache_entry *e, struct hg_seq *seq,
                 struct store_reader *r)
{
    const struct hg_cache_memory *m = &c->p.mem;
    if (!lay_pages(c, e, seq)) return false;
    if (e->tier == TIER_DISK && !store_open(c, e, r)) return false;
    for (int32_t i = 0; i < e->n_pages; i++) {
        if (seq->pages[i] >= 0) continue;
        seq_take(c, seq, i);
        if (!fetch_page(c, e, i, seq->pages[i], r)) return false;
    }
    if (e->tier == TIER_DEVICE)
        m->copy_slot(m->ctx, seq->slot, e->slot);
    else
        m->write_slot(m->ctx, seq->slot, e->tier == TIER_HOST ? e->host : r->snapshot);
    seq->n_past = e->n_tokens;
    return true;
}

/* Back into the device tier, if that needs nobody to leave. seq has just been filled from e, and is
 * to it as if it had published it: it writes behind e's positions only. */
static void promote(struct hg_cache *c, struct cache_entry *e, const struct hg_seq *seq)
{
    if (e->tier == TIER_DEVICE || c->slots.n_free == 0) return;
    int32_t slot = ids_take(&c->slots);
    c->p.mem.copy_slot(c->p.mem.ctx, slot, seq->slot);
    entry_join_device(c, e, slot, seq->pages);
}

static void count_restore(struct hg_cache_stats *s, const struct cache_entry *e)
{
    s->n_tokens_reused += (uint64_t)e->n_tokens;
    s->n_restored_device += e->tier == TIER_DEVICE;
    s->n_restored_host += e->tier == TIER_HOST;
    s->n_restored_disk += e->tier == TIER_DISK;
}

bool hg_cache_restore(struct hg_cache *c, struct hg_cache_hit hit, struct hg_seq *seq)
{
    struct cache_entry *e = hit_entry(c, hit);
    if (!e) return false;
    hg_assert(seq->n_pages == 0 && seq->n_past == 0);
    struct store_reader r = {0};
    bool ok = fill(c, e, seq, &r);
    if (ok) {
        count_restore(&c->stats, e);
        promote(c, e, seq);
    } else {
        seq_empty(c, seq);
    }
    e->n_pins--;
    if (r.damaged && !e->n_pins) {
        if (r.bad_page >= 0) store_lose_page(c, e, r.bad_page);
        entry_drop(c, e);
        c->stats.n_dropped_damaged++;
    }
    store_close(&r);
    done(c);
    return ok;
}

/* -------------------------------------------------------------------------------- publish -- */

static bool publish(struct hg_cache *c, const hg_tok *tokens, const struct hg_seq *seq,
                    enum hg_cache_kind kind)
{
    const struct hg_cache_memory *m = &c->p.mem;
    int32_t n = seq->n_past;
    struct tree_spot spot = tree_find(&c->tree, tokens, n);
    struct cache_entry *e = tree_prefix(spot, n);
    if (e && e->n_tokens == n) {
        touch(c, e);
        if (kind < e->kind) e->kind = kind; /* the more valuable of the two */
        return true;
    }
    if (c->slots.n_total == 0) return false;
    e = entry_create(c, tokens, n, kind, seq->pages);
    if (!e) return false;
    /* In the tree already, so that what it supersedes goes first. */
    if (!evict_device_room(c, 0, 1)) {
        entry_drop(c, e);
        return false;
    }
    int32_t slot = ids_take(&c->slots);
    m->copy_slot(m->ctx, slot, seq->slot);
    entry_join_device(c, e, slot, seq->pages);
    c->stats.n_published++;
    return true;
}

bool hg_cache_publish(struct hg_cache *c, const hg_tok *tokens, const struct hg_seq *seq,
                      enum hg_cache_kind kind)
{
    hg_assert(seq->n_past <= seq->n_pages * HG_PAGE_TOKENS);
    bool ok = seq->n_past > 0 && publish(c, tokens, seq, kind);
    done(c);
    return ok;
}
