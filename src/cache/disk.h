/* disk.h: the directory of the disk tier, file by file. What is kept there is store.c's business.
 *
 * Files are named NUMBER.page and NUMBER.entry, 16 hexadecimal digits, one counter for both, never
 * used twice. A page file holds one whole page, an entry file the tokens of an entry, the numbers
 * of its page files, the snapshot, and the last page if that is partly filled:
 *
 *     struct disk_head
 *     int32   tokens[]  page: its HG_PAGE_TOKENS; entry: all; padded to an even count
 *     uint64  pages[n_tokens / HG_PAGE_TOKENS]  entry only: numbers of the page files
 *     bytes   page image, or snapshot [slot_bytes] and, if n_tokens is no multiple of
 *             HG_PAGE_TOKENS, the image of the last page [page_bytes]
 *
 * Numbers are in the byte order of the machine. Files are written as NUMBER.page.tmp and renamed, the
 * pages of an entry before the entry: whatever moment the process dies at, an entry file that exists
 * is whole. Nothing is synced: after a power failure the checksums tell. `lock` is held with flock
 * for as long as the directory is open. */
#ifndef HG_CACHE_DISK_H
#define HG_CACHE_DISK_H

#include "base/err.h"

struct disk_head {
    char magic[8];    /* "HGCACHE1" */
    uint32_t version; /* of this format */
    uint32_t is_entry;
    uint8_t key[16];   /* hg_cache_params.key */
    uint64_t id;       /* the number in the file's name */
    uint32_t n_tokens; /* of the prefix that ends here */
    uint32_t kind;     /* entry: enum hg_cache_kind */
    uint64_t page_bytes, slot_bytes;
    uint8_t chain[16];       /* page: XXH3-128 over the chain of the page before it (first: key)
                                     and its tokens */
    uint8_t sum_body[2][16]; /* XXH3-128 of the page, or of snapshot and last page */
    uint8_t sum_head[16];    /* XXH3-128 of all before the body, with this field zero */
};

struct disk_file {
    uint64_t id, bytes;
    bool is_entry, used; /* used: store_scan's */
};

struct disk {
    int dir, lock; /* descriptors */
    char *path;
    uint8_t key[16];
    size_t page_bytes, slot_bytes;
    uint64_t budget, used; /* bytes; used by files of this key */
    uint64_t next_id;
    bool no_write;             /* a write failed: the files there are still read */
    struct disk_file *foreign; /* [n_foreign] files of another model or version */
    int32_t n_foreign;
    uint64_t foreign_bytes;
};

/* Opens (makes) and locks the directory. HG_EIO: it cannot be used, err says why. */
enum hg_status disk_open(const char *path, const uint8_t key[16], size_t page_bytes,
                         size_t slot_bytes, uint64_t budget, struct disk **out, struct hg_err *err);
void disk_close(struct disk *d);

/* All our files by ascending number, cache_free'd by the caller; leftovers of a write are removed.
 * False when memory is out. */
bool disk_list(struct disk *d, struct disk_file **out, int32_t *n);
/* The file in such a list, or NULL. */
struct disk_file *disk_find(struct disk_file *list, int32_t n, uint64_t id, bool is_entry);

enum disk_verdict {
    DISK_OK,
    DISK_DAMAGED, /* ours, and wrong; or gone */
    DISK_FOREIGN, /* of another key or version */
    DISK_UNKNOWN, /* not a cache file at all */
    DISK_NOMEM
};

/* Reads and checks all before the body into one block at *out (cache_free), and leaves *fd open at
 * the body (fd NULL: closed). *why = a word on what is wrong. */
enum disk_verdict disk_read_head(const struct disk *d, uint64_t id, bool is_entry,
                                 struct disk_head **out, int *fd, const char **why);
void disk_close_file(int fd);
/* Reads the next n bytes of the body; false when they do not have this checksum. */
bool disk_read_body(int fd, void *buf, size_t n, const uint8_t sum[16]);

const hg_tok *disk_tokens(const struct disk_head *h);
const uint64_t *disk_pages(const struct disk_head *h);

/* chain = hash over the chain before it and HG_PAGE_TOKENS tokens. Start with the key. */
void disk_chain(uint8_t chain[16], const hg_tok *tokens);

/* Writing. False (logged, and the last attempt of this process) when the system refuses; false
 * also when memory is out. They return the file's number in *id. */
bool disk_write_page(struct disk *d, int32_t n_tokens, const hg_tok *tokens,
                     const uint8_t chain[16], const void *page, uint64_t *id);
/* last = image of the partly filled last page, or NULL. */
bool disk_write_entry(struct disk *d, uint32_t kind, int32_t n_tokens, const hg_tok *tokens,
                      const uint64_t *pages, const void *snapshot, const void *last, uint64_t *id);
uint64_t disk_page_bytes(const struct disk *d);
uint64_t disk_entry_bytes(const struct disk *d, int32_t n_tokens);

/* Removes a file of ours, of `bytes` bytes in `used`. */
void disk_remove(struct disk *d, uint64_t id, bool is_entry, uint64_t bytes);
/* One line about a file in the log. */
void disk_warn(const struct disk *d, uint64_t id, bool is_entry, const char *what);
/* Takes the file out of what is listed: kept, counted, and the first to go. False: memory is out. */
bool disk_add_foreign(struct disk *d, const struct disk_file *f);
/* Removes one; false when there is none. */
bool disk_remove_foreign(struct disk *d);

/* Tests: an errno makes the write of n bytes fail. NULL = never asked. */
extern int (*disk_write_fails)(size_t n);

#endif
