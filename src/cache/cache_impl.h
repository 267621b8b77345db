/* cache_impl.h: the inside of the cache, shared by the files of this folder and by its tests.
 *
 * An *entry* is what the tree holds: the whole state after n tokens. It owns one snapshot, in the
 * tier that it is in, and refers to pages. A *page* is the KV of HG_PAGE_TOKENS positions of one
 * prefix; it may have a copy in each tier, and a copy lives as long as an entry of that tier refers
 * to it. The invariants are at the head of cache.c. */
#ifndef HG_CACHE_CACHE_IMPL_H
#define HG_CACHE_CACHE_IMPL_H

#include <pthread.h>

#include "backend/plan.h"
#include "cache/cache.h"
#include "cache/disk.h"
#include "cache/ids.h"
#include "cache/tree.h"

struct cache_page {
    int32_t n_refs;                /* entries that refer to it */
    int32_t n_dev, n_host, n_disk; /* of these: in the device tier, in the host tier, with a file */
    int32_t dev;                   /* device id of the device copy, -1 = none */
    int32_t dev_n, host_n;         /* leading positions that are good in the copy */
    uint8_t *host;                 /* host copy [page_bytes], NULL = none */
    uint64_t file;                 /* number of the page's file, 0 = none */
    uint8_t chain[16];             /* hash over the tokens up to its end; set when file is */
    int32_t seen[4];               /* hg_cache_check's */
};

enum cache_tier { TIER_NONE /* being made */, TIER_DEVICE, TIER_HOST, TIER_DISK };

struct cache_entry {
    int32_t id; /* index in hg_cache.entries */
    int32_t n_tokens, n_pages;
    int32_t n_pins;
    enum hg_cache_kind kind;
    enum cache_tier tier;
    int64_t last_use; /* tick of the last hit or publish */
    bool passed_over; /* END only: a prompt went another way after the entry above it */
    bool tried;       /* written to disk, or refused, since its last use */
    int32_t slot;     /* device tier: its snapshot */
    uint8_t *host;    /* host tier: its snapshot [slot_bytes] */
    uint64_t file;    /* number of its file, 0 = none; also beside device and host */
    struct tree_node *node;
    int32_t above;   /* evict_survey: depth of the deepest entry above, 0 = none */
    bool superseded; /* evict_survey: the conversation has gone on behind it */
    struct cache_page *pages[];
};

struct hg_cache {
    struct hg_cache_params p;
    struct ids pages, slots;
    int32_t *n_seq;           /* [n_pages] references of sequences */
    uint32_t *mark, mark_now; /* [n_pages] mark[id] == mark_now: held by a pinned entry */
    int32_t n_dev_pages;      /* pages with a device copy */
    struct tree tree;
    struct cache_entry **entries; /* [cap_entries] by id, NULL = unused */
    int32_t cap_entries;
    int64_t tick; /* lookups so far */
    uint64_t host_used;
    struct disk *disk;           /* NULL = no disk tier */
    struct hg_cache_stats stats; /* the scheduler's */
    struct hg_cache_stats board; /* what other threads see, under lock */
    pthread_mutex_t lock;
};

/* Leading positions of page i that entry e needs. */
static inline int32_t entry_claim(const struct cache_entry *e, int32_t i)
{
    int32_t rest = e->n_tokens - i * HG_PAGE_TOKENS;
    return rest < HG_PAGE_TOKENS ? rest : HG_PAGE_TOKENS;
}

/* Whole pages of e; a partly filled last one comes behind them. */
static inline int32_t entry_full_pages(const struct cache_entry *e)
{
    return e->n_tokens / HG_PAGE_TOKENS;
}

/* ------------------------------------------------------------------------------ entry.c -- */

/* A new entry of tier NONE in table and tree, referring to the pages that other entries have for
 * the same tokens, and to new ones for the rest. ids = the device pages that it will lie in, NULL =
 * not on the device. There is no equal entry. NULL when memory is out. */
struct cache_entry *entry_create(struct hg_cache *c, const hg_tok *tokens, int32_t n,
                                 enum hg_cache_kind kind, const int32_t *ids);
/* Takes an entry out of all tiers, the tree and the table. Not pinned. */
void entry_drop(struct hg_cache *c, struct cache_entry *e);
/* Puts e (NONE, HOST or DISK) into the device tier: it owns slot, its pages are ids. */
void entry_join_device(struct hg_cache *c, struct cache_entry *e, int32_t slot, const int32_t *ids);
void entry_leave_device(struct hg_cache *c, struct cache_entry *e);
/* Copies e from device to host. False when memory is out; nothing has changed then. */
bool entry_join_host(struct hg_cache *c, struct cache_entry *e);
void entry_leave_host(struct hg_cache *c, struct cache_entry *e);

/* ------------------------------------------------------------------------------ evict.c -- */

/* Brings `above` and `superseded` of all entries up to date. */
void evict_survey(struct hg_cache *c);
/* Frees device pages and slots until n_pages and n_slots are free. False, with nothing changed,
 * when that cannot be reached. */
bool evict_device_room(struct hg_cache *c, int32_t n_pages, int32_t n_slots);
/* Removes files until e fits on disk beside entries of more value. */
bool evict_disk_room(struct hg_cache *c, const struct cache_entry *e);
/* Removes files until the disk tier is within its budget. */
void evict_disk_excess(struct hg_cache *c);
/* The entry to write next when there is time, or NULL. */
struct cache_entry *evict_next_store(struct hg_cache *c);

/* ------------------------------------------------------------------------------ store.c -- */

/* Reads the directory into the tree. False when memory is out. */
bool store_scan(struct hg_cache *c);
/* Writes e (device or host) to disk, if it fits beside what is worth more. False when not. */
bool store_write(struct hg_cache *c, struct cache_entry *e);
/* Removes e's file, and those of pages that no other file needs. */
void store_remove(struct hg_cache *c, struct cache_entry *e);
/* Forgets e's file, which stays. */
void store_forget(struct cache_entry *e);
/* Bytes on disk that writing e would add. */
uint64_t store_cost(const struct hg_cache *c, const struct cache_entry *e);

/* Reading an entry back. */
struct store_reader {
    struct disk_head *head;
    uint8_t *snapshot; /* [slot_bytes] */
    uint8_t *last;     /* [page_bytes] the partly filled last page; NULL = none */
    uint8_t *page;     /* [page_bytes] the page read last */
    bool damaged;      /* a file was wrong, not only memory short; it is logged */
    int32_t bad_page;  /* the whole page whose file it was, -1 = the entry's own */
};
/* Reads all but the whole pages. False: see damaged. store_close after it in any case. */
bool store_open(struct hg_cache *c, const struct cache_entry *e, struct store_reader *r);
/* Reads whole page i into r->page. */
bool store_page(struct hg_cache *c, const struct cache_entry *e, int32_t i, struct store_reader *r);
void store_close(struct store_reader *r);
/* The file of e's whole page i is no good: takes the files from all other entries that need it. */
void store_lose_page(struct hg_cache *c, const struct cache_entry *e, int32_t i);

/* ------------------------------------------------------------------------------ alloc.c -- */

/* All memory of this folder. Zeroed; NULL when out. */
void *cache_alloc(size_t n);
void cache_free(void *p);
/* Tests: true makes this allocation fail. NULL = never asked. */
extern bool (*cache_alloc_fails)(void);

#endif
