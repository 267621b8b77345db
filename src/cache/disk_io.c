#include "cache/disk_io.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/cache_impl.h"

int (*disk_write_fails)(size_t n);

_Static_assert(sizeof(struct disk_head) % 8 == 0, "page numbers behind the tokens are aligned");

static void hash(uint8_t out[16], const void *p, size_t n)
{
    XXH128_canonical_t canon;
    XXH128_canonicalFromHash(&canon, XXH3_128bits(p, n));
    memcpy(out, canon.digest, 16);
}

void disk_chain(uint8_t chain[16], const hg_tok *tokens)
{
    uint8_t in[16 + HG_PAGE_TOKENS * sizeof *tokens];
    memcpy(in, chain, 16);
    memcpy(in + 16, tokens, sizeof in - 16);
    hash(chain, in, sizeof in);
}

/* --------------------------------------------------------------------------------- sizes -- */

static size_t n_stored_tokens(bool is_entry, int32_t n_tokens)
{
    size_t n = is_entry ? (size_t)n_tokens : HG_PAGE_TOKENS;
    return n + n % 2;
}

size_t disk_io_head_bytes(bool is_entry, int32_t n_tokens)
{
    size_t n_pages = is_entry ? (size_t)(n_tokens / HG_PAGE_TOKENS) : 0;
    return sizeof(struct disk_head) + n_stored_tokens(is_entry, n_tokens) * sizeof(hg_tok) +
           n_pages * sizeof(uint64_t);
}

uint64_t disk_page_bytes(const struct disk *d)
{
    return disk_io_head_bytes(false, 0) + d->page_bytes;
}

uint64_t disk_entry_bytes(const struct disk *d, int32_t n_tokens)
{
    return disk_io_head_bytes(true, n_tokens) + d->slot_bytes +
           (n_tokens % HG_PAGE_TOKENS ? d->page_bytes : 0);
}

const hg_tok *disk_tokens(const struct disk_head *h)
{
    return (const hg_tok *)(h + 1);
}

const uint64_t *disk_pages(const struct disk_head *h)
{
    const hg_tok *t = disk_tokens(h) + n_stored_tokens(h->is_entry, (int32_t)h->n_tokens);
    return (const uint64_t *)(const void *)t;
}

/* ------------------------------------------------------------------------------- reading -- */

/* Up to n bytes, fewer at the end of the file; -1 on an error. */
static ssize_t read_some(int fd, void *buf, size_t n)
{
    size_t got = 0;
    while (got < n) {
        ssize_t r = read(fd, (char *)buf + got, n - got);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return -1;
        if (r == 0) break;
        got += (size_t)r;
    }
    return (ssize_t)got;
}

bool disk_io_is_ours(int fd)
{
    char magic[sizeof(DISK_MAGIC) - 1];
    ssize_t n = read_some(fd, magic, sizeof magic);
    return n >= 0 && memcmp(magic, DISK_MAGIC, (size_t)n) == 0;
}

/* What the fixed part says, without looking at the rest. */
static enum disk_verdict judge(const struct disk *d, const struct disk_head *h, uint64_t id,
                               bool is_entry, uint64_t size, const char **why)
{
    if (h->version != DISK_VERSION || memcmp(h->key, d->key, sizeof h->key) != 0) {
        *why = "of another model or version";
        return DISK_FOREIGN;
    }
    *why = "damaged (head)";
    if (h->is_entry != is_entry || h->id != id || h->page_bytes != d->page_bytes ||
        h->slot_bytes != d->slot_bytes || h->n_tokens == 0 || h->n_tokens > DISK_MAX_TOKENS ||
        (is_entry ? h->kind > HG_CACHE_INTERVAL : h->n_tokens % HG_PAGE_TOKENS != 0))
        return DISK_DAMAGED;
    *why = "damaged (length)";
    uint64_t want = is_entry ? disk_entry_bytes(d, (int32_t)h->n_tokens) : disk_page_bytes(d);
    return size == want ? DISK_OK : DISK_DAMAGED;
}

enum disk_verdict disk_io_head(const struct disk *d, int fd, uint64_t id, bool is_entry,
                               struct disk_head **out, const char **why)
{
    struct disk_head fixed;
    struct stat st;
    ssize_t n = fstat(fd, &st) || !S_ISREG(st.st_mode) ? -1 : read_some(fd, &fixed, sizeof fixed);
    if (n < 0) {
        *why = "cannot be read";
        return DISK_DAMAGED;
    }
    size_t n_magic = (size_t)n < sizeof fixed.magic ? (size_t)n : sizeof fixed.magic;
    if (memcmp(fixed.magic, DISK_MAGIC, n_magic) != 0) {
        *why = "not a cache file";
        return DISK_UNKNOWN;
    }
    if ((size_t)n < sizeof fixed) {
        *why = "damaged (length)";
        return DISK_DAMAGED;
    }
    enum disk_verdict v = judge(d, &fixed, id, is_entry, (uint64_t)st.st_size, why);
    if (v != DISK_OK) return v;
    size_t n_head = disk_io_head_bytes(is_entry, (int32_t)fixed.n_tokens);
    struct disk_head *h = cache_alloc(n_head);
    if (!h) return DISK_NOMEM;
    *h = fixed;
    bool ok = read_some(fd, h + 1, n_head - sizeof fixed) == (ssize_t)(n_head - sizeof fixed);
    uint8_t sum[16];
    memset(h->sum_head, 0, sizeof h->sum_head);
    hash(sum, h, n_head);
    if (!ok || memcmp(sum, fixed.sum_head, sizeof sum) != 0) {
        cache_free(h);
        *why = "damaged (checksum of the head)";
        return DISK_DAMAGED;
    }
    *out = h;
    return DISK_OK;
}

bool disk_read_body(int fd, void *buf, size_t n, const uint8_t want[16])
{
    uint8_t sum[16];
    if (read_some(fd, buf, n) != (ssize_t)n) return false;
    hash(sum, buf, n);
    return memcmp(sum, want, sizeof sum) == 0;
}

/* ------------------------------------------------------------------------------- writing -- */

void disk_io_seal(struct disk_head *h, size_t n_head, const void *a, size_t na, const void *b,
                  size_t nb)
{
    hash(h->sum_body[0], a, na);
    hash(h->sum_body[1], nb ? b : "", nb);
    disk_io_seal_head(h, n_head);
}

void disk_io_seal_head(struct disk_head *h, size_t n_head)
{
    uint8_t sum[16];
    memset(h->sum_head, 0, sizeof h->sum_head);
    hash(sum, h, n_head);
    memcpy(h->sum_head, sum, sizeof sum);
}

bool disk_io_write(int fd, const void *p, size_t n)
{
    while (n > 0) {
        int e = disk_write_fails ? disk_write_fails(n) : 0;
        ssize_t r = e ? -1 : write(fd, p, n);
        if (e) errno = e;
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return false;
        p = (const char *)p + r;
        n -= (size_t)r;
    }
    return true;
}
