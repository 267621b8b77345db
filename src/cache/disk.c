#include "cache/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "cache/cache_impl.h"
#include "cache/disk_io.h"

enum { NAME_CAP = 32, ID_DIGITS = 16 };

static void file_name(char name[NAME_CAP], uint64_t id, bool is_entry, bool tmp)
{
    snprintf(name, NAME_CAP, "%016llx.%s%s", (unsigned long long)id, is_entry ? "entry" : "page",
             tmp ? ".tmp" : "");
}

/* Reads back what file_name wrote. */
static bool parse_name(const char *name, uint64_t *id, bool *is_entry, bool *tmp)
{
    if (strspn(name, "0123456789abcdef") != ID_DIGITS) return false;
    *id = strtoull(name, NULL, 16);
    const char *ext = name + ID_DIGITS;
    *is_entry = strncmp(ext, ".entry", 6) == 0;
    if (!*is_entry && strncmp(ext, ".page", 5) != 0) return false;
    ext += *is_entry ? 6 : 5;
    *tmp = strcmp(ext, ".tmp") == 0;
    return (*tmp || *ext == 0) && *id != 0;
}

/* ------------------------------------------------------------------------- open and close -- */

static int make_dir(const char *path)
{
    char part[4096];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) return n ? ENAMETOOLONG : ENOENT;
    memcpy(part, path, n + 1);
    for (char *s = strchr(part + 1, '/');; s = strchr(s + 1, '/')) {
        if (s) *s = 0;
        if (mkdir(part, 0700) && errno != EEXIST) return errno;
        if (!s) return 0;
        *s = '/';
    }
}

static enum hg_status open_and_lock(struct disk *d, const char *path, struct hg_err *err)
{
    int e = make_dir(path);
    if (!e && (d->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) e = errno;
    if (e) return hg_fail(err, HG_EIO, "%s: %s", path, strerror(e));
    struct stat st; /* what lies there is restored as state: nobody else may put it there */
    if (fstat(d->dir, &st) || st.st_uid != geteuid() || (st.st_mode & 022))
        return hg_fail(err, HG_EIO, "%s: belongs to or is writable by others", path);
    d->lock = openat(d->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->lock < 0) return hg_fail(err, HG_EIO, "%s/lock: %s", path, strerror(errno));
    if (flock(d->lock, LOCK_EX | LOCK_NB) == 0) return HG_OK;
    if (errno == EWOULDBLOCK) return hg_fail(err, HG_EIO, "%s: in use by another server", path);
    return hg_fail(err, HG_EIO, "%s/lock: %s", path, strerror(errno));
}

enum hg_status disk_open(const char *path, const uint8_t key[16], size_t page_bytes,
                         size_t slot_bytes, uint64_t budget, struct disk **out, struct hg_err *err)
{
    struct disk *d = cache_alloc(sizeof *d);
    if (!d) return hg_fail(err, HG_ENOMEM, "cache: out of memory");
    *d = (struct disk){.dir = -1, .lock = -1, .budget = budget, .next_id = 1};
    d->page_bytes = page_bytes;
    d->slot_bytes = slot_bytes;
    memcpy(d->key, key, sizeof d->key);
    d->path = cache_alloc(strlen(path) + 1);
    enum hg_status s = HG_ENOMEM;
    if (!d->path)
        hg_fail(err, s, "cache: out of memory");
    else
        s = open_and_lock(d, strcpy(d->path, path), err);
    if (s != HG_OK) {
        disk_close(d);
        return s;
    }
    *out = d;
    return HG_OK;
}

void disk_close(struct disk *d)
{
    if (!d) return;
    if (d->lock >= 0) close(d->lock); /* which unlocks */
    if (d->dir >= 0) close(d->dir);
    cache_free(d->foreign);
    cache_free(d->path);
    cache_free(d);
}

/* -------------------------------------------------------------------------------- listing -- */

static int by_id(const void *a, const void *b)
{
    const struct disk_file *x = a, *y = b;
    if (x->id != y->id) return x->id > y->id ? 1 : -1;
    return (int)x->is_entry - (int)y->is_entry;
}

struct disk_file *disk_find(struct disk_file *list, int32_t n, uint64_t id, bool is_entry)
{
    struct disk_file f = {.id = id, .is_entry = is_entry};
    return n ? bsearch(&f, list, (size_t)n, sizeof f, by_id) : NULL;
}

/* Appends to an array whose capacity is the power of two at or above its length. */
static bool push(struct disk_file **list, int32_t *n, const struct disk_file *f)
{
    if ((*n & (*n - 1)) == 0) {
        struct disk_file *t = cache_alloc((size_t)(*n ? 2 * *n : 1) * sizeof *t);
        if (!t) return false;
        if (*n) memcpy(t, *list, (size_t)*n * sizeof *t);
        cache_free(*list);
        *list = t;
    }
    (*list)[(*n)++] = *f;
    return true;
}

/* A file that a write left unfinished: ours if it begins as our files do. */
static void remove_leftover(struct disk *d, const char *name)
{
    int fd = openat(d->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool ours = fd >= 0 && disk_io_is_ours(fd);
    if (fd >= 0) close(fd);
    if (ours) unlinkat(d->dir, name, 0);
}

bool disk_list(struct disk *d, struct disk_file **out, int32_t *n)
{
    *out = NULL;
    *n = 0;
    int fd = openat(d->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0) close(fd);
        hg_log(HG_LOG_WARN, "cache: %s: %s", d->path, strerror(errno));
        return true;
    }
    bool ok = true;
    struct dirent *de;
    while (ok && (de = readdir(dir))) {
        struct disk_file f = {0};
        bool tmp;
        struct stat st;
        if (!parse_name(de->d_name, &f.id, &f.is_entry, &tmp)) continue;
        if (fstatat(d->dir, de->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) continue;
        if (f.id < UINT64_MAX && f.id >= d->next_id) d->next_id = f.id + 1;
        f.bytes = (uint64_t)st.st_size;
        if (tmp)
            remove_leftover(d, de->d_name);
        else
            ok = push(out, n, &f);
    }
    closedir(dir);
    if (*n) qsort(*out, (size_t)*n, sizeof **out, by_id);
    return ok;
}

/* ----------------------------------------------------------------------------- one file -- */

enum disk_verdict disk_read_head(const struct disk *d, uint64_t id, bool is_entry,
                                 struct disk_head **out, int *fd, const char **why)
{
    char name[NAME_CAP];
    file_name(name, id, is_entry, false);
    *out = NULL;
    int f = openat(d->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (f < 0) {
        *why = strerror(errno);
        return DISK_DAMAGED;
    }
    enum disk_verdict v = disk_io_head(d, f, id, is_entry, out, why);
    if (v == DISK_OK && fd)
        *fd = f;
    else
        close(f);
    return v;
}

void disk_close_file(int fd)
{
    close(fd);
}

/* Writes the three parts (head, a, b) under a name of their own and takes the number. */
static bool write_file(struct disk *d, struct disk_head *h, size_t n_head, const void *a, size_t na,
                       const void *b, size_t nb)
{
    char tmp[NAME_CAP], name[NAME_CAP];
    bool is_entry = h->is_entry;
    file_name(tmp, h->id, is_entry, true);
    file_name(name, h->id, is_entry, false);
    disk_io_seal(h, n_head, a, na, b, nb);
    int fd = openat(d->dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && disk_io_write(fd, h, n_head) && disk_io_write(fd, a, na) &&
              disk_io_write(fd, b, nb);
    int e = errno;
    if (fd >= 0 && close(fd) && ok) {
        e = errno;
        ok = false;
    }
    if (ok && renameat(d->dir, tmp, d->dir, name)) {
        e = errno;
        ok = false;
    }
    if (!ok) {
        if (fd >= 0) unlinkat(d->dir, tmp, 0);
        d->no_write = true;
        hg_log(HG_LOG_WARN, "cache: %s/%s: %s; nothing more is written", d->path, name,
               strerror(e));
        return false;
    }
    d->used += n_head + na + nb;
    d->next_id++;
    return true;
}

static struct disk_head *head_create(const struct disk *d, bool is_entry, int32_t n_tokens,
                                     size_t *n_head)
{
    *n_head = disk_io_head_bytes(is_entry, n_tokens);
    struct disk_head *h = cache_alloc(*n_head);
    if (!h) return NULL;
    *h = (struct disk_head){.version = DISK_VERSION,
                            .is_entry = is_entry,
                            .id = d->next_id,
                            .n_tokens = (uint32_t)n_tokens,
                            .page_bytes = d->page_bytes,
                            .slot_bytes = d->slot_bytes};
    memcpy(h->magic, DISK_MAGIC, sizeof h->magic);
    memcpy(h->key, d->key, sizeof h->key);
    return h;
}

bool disk_write_page(struct disk *d, int32_t n_tokens, const hg_tok *tokens,
                     const uint8_t chain[16], const void *page, uint64_t *id)
{
    size_t n_head;
    struct disk_head *h = head_create(d, false, n_tokens, &n_head);
    if (!h) return false;
    memcpy(h->chain, chain, sizeof h->chain);
    memcpy(h + 1, tokens, HG_PAGE_TOKENS * sizeof *tokens);
    *id = h->id;
    bool ok = write_file(d, h, n_head, page, d->page_bytes, NULL, 0);
    cache_free(h);
    return ok;
}

bool disk_write_entry(struct disk *d, uint32_t kind, int32_t n_tokens, const hg_tok *tokens,
                      const uint64_t *pages, const void *snapshot, const void *last, uint64_t *id)
{
    size_t n_head;
    struct disk_head *h = head_create(d, true, n_tokens, &n_head);
    if (!h) return false;
    h->kind = kind;
    memcpy(h + 1, tokens, (size_t)n_tokens * sizeof *tokens);
    if (n_tokens >= HG_PAGE_TOKENS)
        memcpy((uint64_t *)(uintptr_t)disk_pages(h), pages,
               (size_t)(n_tokens / HG_PAGE_TOKENS) * sizeof *pages);
    *id = h->id;
    bool ok = write_file(d, h, n_head, snapshot, d->slot_bytes, last, last ? d->page_bytes : 0);
    cache_free(h);
    return ok;
}

void disk_remove(struct disk *d, uint64_t id, bool is_entry, uint64_t bytes)
{
    char name[NAME_CAP];
    file_name(name, id, is_entry, false);
    unlinkat(d->dir, name, 0);
    d->used -= bytes;
}

void disk_warn(const struct disk *d, uint64_t id, bool is_entry, const char *what)
{
    char name[NAME_CAP];
    file_name(name, id, is_entry, false);
    hg_log(HG_LOG_WARN, "cache: %s/%s: %s", d->path, name, what);
}

/* ------------------------------------------------------------------------------- foreign -- */

bool disk_add_foreign(struct disk *d, const struct disk_file *f)
{
    if (!push(&d->foreign, &d->n_foreign, f)) return false;
    d->foreign_bytes += f->bytes;
    return true;
}

bool disk_remove_foreign(struct disk *d)
{
    if (d->n_foreign == 0) return false;
    struct disk_file f = d->foreign[--d->n_foreign];
    char name[NAME_CAP];
    file_name(name, f.id, f.is_entry, false);
    unlinkat(d->dir, name, 0);
    d->foreign_bytes -= f.bytes;
    return true;
}
