/* cache.h: prefix cache of a hybrid model: KV pages and recurrent-state snapshots, indexed by a
 * radix tree over tokens, in up to three tiers (device, host, disk).
 *
 * KV can be cut at any position, recurrent state cannot: so what the cache holds are *entries*, each
 * the complete state after exactly n tokens of one prefix: the KV pages that cover [0, n) and one
 * snapshot (the state slot: recurrent state and conv windows). A prefix hit is
 * the longest entry that is a proper prefix of the prompt (DESIGN I3: at least one token is left to
 * compute). Tokens are compared, never only hashes (I4). Pages are shared between entries and
 * sequences by reference count; entries come and go whole.
 *
 * A *sequence* (struct hg_seq) that runs holds references on its pages. Its last, partly filled page
 * is its own: only it writes there, at positions behind every entry that refers to that page. A
 * sequence restored from an entry gets a copy of a partly filled last page.
 *
 * Everything here runs on the scheduler thread but hg_cache_stats. Nothing here runs the model. */
#ifndef HG_CACHE_CACHE_H
#define HG_CACHE_CACHE_H

#include "model/step.h"

struct hg_cache;

/* Device memory of pages and slots, as bytes. A page image is the page over all layers, a slot image
 * the state over all layers; what they hold is the owner's affair. All calls succeed. */
struct hg_cache_memory {
    size_t page_bytes, slot_bytes;
    void (*copy_page)(void *ctx, int32_t dst, int32_t src);
    void (*read_page)(void *ctx, int32_t page, void *dst);        /* device -> host */
    void (*write_page)(void *ctx, int32_t page, const void *src); /* host -> device */
    void (*copy_slot)(void *ctx, int32_t dst, int32_t src);
    void (*read_slot)(void *ctx, int32_t slot, void *dst);
    void (*write_slot)(void *ctx, int32_t slot, const void *src);
    void *ctx;
};

struct hg_cache_params {
    struct hg_cache_memory mem;
    int32_t n_pages;      /* device pages, ids 0..n_pages-1, all of them the cache's to give */
    int32_t slot0;        /* device slots slot0..slot0+n_slots-1 hold snapshots; the others are */
    int32_t n_slots;      /* the owner's (of live sequences) */
    size_t host_bytes;    /* budget of the host tier; 0 = none */
    const char *disk_dir; /* NULL = no disk tier; created if missing */
    size_t disk_bytes;
    uint8_t key[16]; /* over everything that changes the state: weights, config, KV format,
                             numerics version; entries of another key are never read */
};

/* A budget smaller than one entry, an unusable directory, foreign or damaged files: one log line
 * each, and the cache works without that tier or file. Errors: ENOMEM only. */
enum hg_status hg_cache_create(const struct hg_cache_params *p, struct hg_cache **out,
                               struct hg_err *err);
/* Writes what is worth keeping to disk (within the budget), then frees all. Sequences must have
 * been released. NULL is fine. */
void hg_cache_free(struct hg_cache *c);

/* What an entry is for; part of its value when something must go. */
enum hg_cache_kind {
    HG_CACHE_SYSTEM,     /* end of system + tools: shared by many conversations */
    HG_CACHE_USER,       /* end of the last real user message */
    HG_CACHE_GENERATION, /* start of the generation prompt */
    HG_CACHE_END,        /* end of a generation */
    HG_CACHE_INTERVAL    /* every so many tokens of a long prefill */
};

struct hg_cache_hit {
    int32_t n_tokens; /* 0 = miss */
    int32_t id;       /* the cache's */
};

/* The longest entry that is a proper prefix of tokens[0..n). Pins it until restore or unpin. */
struct hg_cache_hit hg_cache_lookup(struct hg_cache *c, const hg_tok *tokens, int32_t n);
void hg_cache_unpin(struct hg_cache *c, struct hg_cache_hit hit);
/* Fills an empty sequence from the hit (pages, n_past, and its own device slot) and unpins. False,
 * with the sequence still empty, when it cannot be (pages short, damaged on disk: the entry is then
 * dropped): the caller starts cold. seq->pages has room for the longest sequence. */
bool hg_cache_restore(struct hg_cache *c, struct hg_cache_hit hit, struct hg_seq *seq);
/* Gives seq enough pages for n_tokens positions, evicting entries if needed. False if even that is
 * not enough; the sequence is unchanged then. */
bool hg_cache_reserve(struct hg_cache *c, struct hg_seq *seq, int32_t n_tokens);
/* Makes the present state of seq (tokens[0..seq->n_past)) an entry: copies its device slot, refers to
 * its pages. An equal entry is only refreshed. False when no slot could be had (that is no error). */
bool hg_cache_publish(struct hg_cache *c, const hg_tok *tokens, const struct hg_seq *seq,
                      enum hg_cache_kind kind);
/* Drops seq's references; it is empty then (n_pages = n_past = 0). */
void hg_cache_release(struct hg_cache *c, struct hg_seq *seq);
/* For when there is nothing else to do: writes the most valuable entry that is not on disk yet, so
 * that an end without warning costs little. True if it did; false: nothing left to write. */
bool hg_cache_idle(struct hg_cache *c);
/* Forgets every entry that is not pinned, also on disk (tests, and after a device error). */
void hg_cache_clear(struct hg_cache *c);

struct hg_cache_stats {
    uint64_t n_lookups, n_hits, n_tokens_reused, n_published, n_evicted, n_dropped_damaged;
    uint64_t n_restored_device, n_restored_host, n_restored_disk;
    int32_t n_entries, n_pages_free, n_slots_free;
    uint64_t device_bytes, host_bytes, disk_bytes; /* in use by entries */
};
/* Any thread. */
void hg_cache_stats(const struct hg_cache *c, struct hg_cache_stats *out);

/* Walks everything and aborts with the number of the invariant (see cache.c) that does not hold. */
void hg_cache_check(const struct hg_cache *c);

#endif
