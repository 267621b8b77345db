/* disk_io.h: the bytes of one cache file: head, checksums, reading and writing on a descriptor.
 * Between disk_io.c and disk.c; the format is in disk.h. */
#ifndef HG_CACHE_DISK_IO_H
#define HG_CACHE_DISK_IO_H

#include "cache/disk.h"

#define DISK_MAGIC "HGCACHE1"
enum {
    DISK_VERSION = 1,
    DISK_MAX_TOKENS = 1 << 24 /* of an entry; bounds what a hostile head makes us allocate */
};

/* Bytes before the body. */
size_t disk_io_head_bytes(bool is_entry, int32_t n_tokens);
/* The file begins with our magic, or is too short to tell and begins like it. */
bool disk_io_is_ours(int fd);
/* As disk_read_head, on an open file. */
enum disk_verdict disk_io_head(const struct disk *d, int fd, uint64_t id, bool is_entry,
                               struct disk_head **out, const char **why);
/* Fills in the checksum of the head, whose body checksums are there. */
void disk_io_seal_head(struct disk_head *h, size_t n_head);
/* Fills in all checksums. */
void disk_io_seal(struct disk_head *h, size_t n_head, const void *a, size_t na, const void *b,
                  size_t nb);
/* Writes all n bytes; false with errno set. */
bool disk_io_write(int fd, const void *p, size_t n);

#endif
