/* store.c: entries to and from the files of the disk tier (format: disk.h). */
#include "cache/cache_impl.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "cache/disk_io.h"

/* ------------------------------------------------------------------------------- writing -- */

uint64_t store_cost(const struct hg_cache *c, const struct cache_entry *e)
{
    uint64_t sum = disk_entry_bytes(c->disk, e->n_tokens);
    for (int32_t i = 0; i < entry_full_pages(e); i++)
        if (!e->pages[i]->file) sum += disk_page_bytes(c->disk);
    return sum;
}

/* The image of page i: its host copy, or the device's read into buf. */
static const uint8_t *page_image(struct hg_cache *c, const struct cache_entry *e, int32_t i,
                                 uint8_t *buf)
{
    const struct cache_page *p = e->pages[i];
    if (p->host_n >= entry_claim(e, i)) return p->host;
    c->p.mem.read_page(c->p.mem.ctx, p->dev, buf);
    return buf;
}

static bool write_pages(struct hg_cache *c, struct cache_entry *e, const hg_tok *tokens,
                        uint64_t *numbers, uint8_t *buf)
{
    uint8_t chain[16];
    memcpy(chain, c->p.key, sizeof chain);
    for (int32_t i = 0; i < entry_full_pages(e); i++) {
        struct cache_page *p = e->pages[i];
        const hg_tok *t = tokens + (size_t)i * HG_PAGE_TOKENS;
        disk_chain(chain, t);
        if (!p->file) {
            if (!disk_write_page(c->disk, (i + 1) * HG_PAGE_TOKENS, t, chain,
                                 page_image(c, e, i, buf), &p->file)) {
                p->file = 0;
                return false;
            }
            memcpy(p->chain, chain, sizeof chain);
        }
        numbers[i] = p->file;
    }
    return true;
}

/* Pages that were written for an entry whose own file then could not be. */
static void remove_unused_pages(struct hg_cache *c, struct cache_entry *e)
{
    for (int32_t i = 0; i < entry_full_pages(e); i++) {
        struct cache_page *p = e->pages[i];
        if (!p->file || p->n_disk) continue;
        disk_remove(c->disk, p->file, false, disk_page_bytes(c->disk));
        p->file = 0;
    }
}

bool store_write(struct hg_cache *c, struct cache_entry *e)
{
    hg_assert(!e->file && (e->tier == TIER_DEVICE || e->tier == TIER_HOST));
    e->tried = true;
    struct disk *d = c->disk;
    if (d->no_write || e->n_tokens > DISK_MAX_TOKENS || !evict_disk_room(c, e)) return false;
    const struct hg_cache_memory *m = &c->p.mem;
    hg_tok *tokens = cache_alloc((size_t)e->n_tokens * sizeof *tokens);
    uint64_t *numbers = cache_alloc((size_t)entry_full_pages(e) * sizeof *numbers);
    uint8_t *page = cache_alloc(m->page_bytes);
    uint8_t *snapshot = e->host ? e->host : cache_alloc(m->slot_bytes);
    bool ok = tokens && numbers && page && snapshot;
    if (ok) {
        tree_tokens(e->node, tokens);
        ok = write_pages(c, e, tokens, numbers, page);
    }
    if (ok) {
        if (e->tier == TIER_DEVICE) m->read_slot(m->ctx, e->slot, snapshot);
        int32_t last = entry_full_pages(e);
        ok = disk_write_entry(d, e->kind, e->n_tokens, tokens, numbers, snapshot,
                              last < e->n_pages ? page_image(c, e, last, page) : NULL, &e->file);
        if (!ok) e->file = 0;
    }
    if (ok)
        for (int32_t i = 0; i < entry_full_pages(e); i++) e->pages[i]->n_disk++;
    else
        remove_unused_pages(c, e);
    if (snapshot != e->host) cache_free(snapshot);
    cache_free(page);
    cache_free(numbers);
    cache_free(tokens);
    return ok;
}

void store_remove(struct hg_cache *c, struct cache_entry *e)
{
    /* The entry first: a file that exists has all its pages. */
    disk_remove(c->disk, e->file, true, disk_entry_bytes(c->disk, e->n_tokens));
    e->file = 0;
    for (int32_t i = 0; i < entry_full_pages(e); i++) {
        struct cache_page *p = e->pages[i];
        if (--p->n_disk > 0) continue;
        disk_remove(c->disk, p->file, false, disk_page_bytes(c->disk));
        p->file = 0;
    }
}

void store_forget(struct cache_entry *e)
{
    e->file = 0;
    for (int32_t i = 0; i < entry_full_pages(e); i++)
        if (--e->pages[i]->n_disk == 0) e->pages[i]->file = 0;
}

/* ------------------------------------------------------------------------------- reading -- */

static bool damaged(struct hg_cache *c, struct store_reader *r, uint64_t id, bool is_entry,
                    const char *why)
{
    disk_warn(c->disk, id, is_entry, why);
    r->damaged = true;
    return false;
}

/* The head of a file, checked against the tokens that it should be for. */
static bool open_file(struct hg_cache *c, uint64_t id, bool is_entry, struct store_reader *r,
                      struct disk_head **h, int *fd)
{
    const char *why = "";
    enum disk_verdict v = disk_read_head(c->disk, id, is_entry, h, fd, &why);
    return v == DISK_OK || (v != DISK_NOMEM && damaged(c, r, id, is_entry, why));
}

/* The head has exactly the tokens of e's prefix. They are compared along the tree. */
static bool same_tokens(const struct cache_entry *e, const struct disk_head *h)
{
    if (h->n_tokens != (uint32_t)e->n_tokens) return false;
    for (const struct tree_node *n = e->node; n->parent; n = n->parent)
        if (memcmp(disk_tokens(h) + n->depth - n->n_tok, n->tok, (size_t)n->n_tok * sizeof *n->tok))
            return false;
    return true;
}

bool store_open(struct hg_cache *c, const struct cache_entry *e, struct store_reader *r)
{
    const struct hg_cache_memory *m = &c->p.mem;
    int fd = -1;
    *r = (struct store_reader){.bad_page = -1};
    if (!open_file(c, e->file, true, r, &r->head, &fd)) return false;
    bool partial = entry_full_pages(e) < e->n_pages, ok = false;
    r->snapshot = cache_alloc(m->slot_bytes);
    r->page = cache_alloc(m->page_bytes);
    r->last = partial ? cache_alloc(m->page_bytes) : NULL;
    if (!r->snapshot || !r->page || (partial && !r->last))
        ; /* memory is out */
    else if (!same_tokens(e, r->head))
        damaged(c, r, e->file, true, "damaged (tokens)");
    else if (!disk_read_body(fd, r->snapshot, m->slot_bytes, r->head->sum_body[0]) ||
             (partial && !disk_read_body(fd, r->last, m->page_bytes, r->head->sum_body[1])))
        damaged(c, r, e->file, true, "damaged (checksum of the state)");
    else
        ok = true;
    disk_close_file(fd);
    return ok;
}

bool store_page(struct hg_cache *c, const struct cache_entry *e, int32_t i, struct store_reader *r)
{
    const struct cache_page *p = e->pages[i];
    struct disk_head *h;
    int fd = -1;
    r->bad_page = i;
    if (!open_file(c, p->file, false, r, &h, &fd)) return false;
    const hg_tok *t = disk_tokens(r->head) + (size_t)i * HG_PAGE_TOKENS;
    bool ok = h->n_tokens == (uint32_t)(i + 1) * HG_PAGE_TOKENS &&
              memcmp(h->chain, p->chain, sizeof h->chain) == 0 &&
              memcmp(disk_tokens(h), t, HG_PAGE_TOKENS * sizeof *t) == 0 &&
              disk_read_body(fd, r->page, c->p.mem.page_bytes, h->sum_body[0]);
    disk_close_file(fd);
    cache_free(h);
    return ok || damaged(c, r, p->file, false, "damaged (checksum of the page)");
}

void store_close(struct store_reader *r)
{
    cache_free(r->head);
    cache_free(r->snapshot);
    cache_free(r->last);
    cache_free(r->page);
    *r = (struct store_reader){0};
}

void store_lose_page(struct hg_cache *c, const struct cache_entry *e, int32_t i)
{
    for (int32_t k = 0; k < c->cap_entries; k++) {
        struct cache_entry *o = c->entries[k];
        if (!o || o == e || !o->file || i >= entry_full_pages(o) || o->pages[i] != e->pages[i])
            continue;
        if (o->tier != TIER_DISK) {
            store_remove(c, o);
            o->tried = false;    /* it can be written anew */
        } else if (!o->n_pins) { /* a pinned one finds out by itself */
            entry_drop(c, o);
        }
    }
}

/* ---------------------------------------------------------------------------------- scan -- */

struct scan {
    struct disk_file *files;
    int32_t n;
};

enum loaded { LOADED, REFUSED, NO_MEMORY };

/* Looks at the file of whole page i of an entry: it must be there and be for these tokens. */
static enum loaded load_page(struct hg_cache *c, struct scan *s, struct cache_page *p, uint64_t id,
                             int32_t i, const hg_tok *t, const uint8_t chain[16])
{
    struct disk_head *h;
    const char *why;
    if (p->file) return p->file == id ? LOADED : REFUSED;
    if (!disk_find(s->files, s->n, id, false)) return REFUSED;
    enum disk_verdict v = disk_read_head(c->disk, id, false, &h, NULL, &why);
    if (v != DISK_OK) return v == DISK_NOMEM ? NO_MEMORY : REFUSED;
    bool ok = h->n_tokens == (uint32_t)(i + 1) * HG_PAGE_TOKENS &&
              memcmp(h->chain, chain, sizeof h->chain) == 0 &&
              memcmp(disk_tokens(h), t, HG_PAGE_TOKENS * sizeof *t) == 0;
    cache_free(h);
    if (!ok) return REFUSED;
    p->file = id;
    memcpy(p->chain, chain, sizeof p->chain);
    return LOADED;
}

static enum loaded load_pages(struct hg_cache *c, struct scan *s, struct cache_entry *e,
                              const struct disk_head *h)
{
    uint8_t chain[16];
    memcpy(chain, c->p.key, sizeof chain);
    int32_t n = entry_full_pages(e);
    enum loaded l = LOADED;
    for (int32_t i = 0; i < n && l == LOADED; i++) {
        const hg_tok *t = disk_tokens(h) + (size_t)i * HG_PAGE_TOKENS;
        disk_chain(chain, t);
        l = load_page(c, s, e->pages[i], disk_pages(h)[i], i, t, chain);
    }
    for (int32_t i = 0; i < n; i++) {
        struct cache_page *p = e->pages[i];
        if (l != LOADED) {
            if (!p->n_disk) p->file = 0;
        } else if (p->n_disk++ == 0) {
            disk_find(s->files, s->n, p->file, false)->used = true;
            c->disk->used += disk_page_bytes(c->disk);
        }
    }
    return l;
}

/* Makes an entry of a file whose head is good. */
static enum loaded load_entry(struct hg_cache *c, struct scan *s, const struct disk_file *f,
                              const struct disk_head *h)
{
    int32_t n = (int32_t)h->n_tokens;
    struct tree_spot spot = tree_find(&c->tree, disk_tokens(h), n);
    if (spot.n_match == n && spot.node->depth == n && spot.node->entry) return REFUSED;
    c->tick++; /* later files count as used later */
    struct cache_entry *e = entry_create(c, disk_tokens(h), n, (enum hg_cache_kind)h->kind, NULL);
    if (!e) return NO_MEMORY;
    enum loaded l = load_pages(c, s, e, h);
    if (l != LOADED) {
        entry_drop(c, e);
        return l;
    }
    e->file = f->id;
    e->tier = TIER_DISK;
    e->tried = true;
    c->disk->used += f->bytes;
    return LOADED;
}

/* Takes one file in, or says in one line why not. False when memory is out. */
static bool scan_file(struct hg_cache *c, struct scan *s, struct disk_file *f)
{
    struct disk *d = c->disk;
    struct disk_head *h;
    const char *why = "";
    enum disk_verdict v = disk_read_head(d, f->id, f->is_entry, &h, NULL, &why);
    if (v == DISK_NOMEM) return false;
    if (v == DISK_FOREIGN) return disk_add_foreign(d, f);
    if (v == DISK_UNKNOWN) {
        disk_warn(d, f->id, f->is_entry, "not a cache file, left alone");
        return true;
    }
    if (v == DISK_OK && f->is_entry) {
        enum loaded l = load_entry(c, s, f, h);
        cache_free(h);
        if (l != REFUSED) return l == LOADED;
        why = "damaged (its pages are not all there)";
        v = DISK_DAMAGED;
    } else if (v == DISK_OK) {
        cache_free(h); /* a page that no entry needs: the process died between the two */
    }
    if (v == DISK_DAMAGED) {
        disk_warn(d, f->id, f->is_entry, why);
        c->stats.n_dropped_damaged += f->is_entry;
    }
    disk_remove(d, f->id, f->is_entry, 0);
    return true;
}

bool store_scan(struct hg_cache *c)
{
    struct scan s;
    struct disk *d = c->disk;
    bool ok = disk_list(d, &s.files, &s.n);
    for (int pages = 0; pages < 2; pages++)
        for (int32_t i = 0; i < s.n && ok; i++) {
            struct disk_file *f = &s.files[i];
            if (f->is_entry == !pages && !f->used) ok = scan_file(c, &s, f);
        }
    cache_free(s.files);
    if (!ok) return false;
    if (d->n_foreign)
        hg_log(HG_LOG_INFO,
               "cache: %s: %" PRId32 " files of another model or version (%" PRIu64
               " bytes) stay while there is room",
               d->path, d->n_foreign, d->foreign_bytes);
    evict_disk_excess(c);
    return true;
}
