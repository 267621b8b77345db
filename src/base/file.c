#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

static enum hg_status open_regular(const char *path, int *fd, struct stat *st, struct hg_err *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return hg_fail(err, HG_EIO, "%s: %s", path, strerror(errno));
    if (fstat(*fd, st) || !S_ISREG(st->st_mode)) {
        close(*fd);
        return hg_fail(err, HG_EIO, "%s: not a regular file", path);
    }
    return HG_OK;
}

enum hg_status hg_map_open(struct hg_map *m, const char *path, struct hg_err *err)
{
    int fd;
    struct stat st;
    m->data = NULL;
    m->size = 0;
    HG_TRY(open_regular(path, &fd, &st, err));
    if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            int e = errno;
            close(fd);
            return hg_fail(err, HG_EIO, "%s: mmap of %lld bytes: %s", path, (long long)st.st_size,
                           strerror(e));
        }
        m->data = p;
        m->size = (size_t)st.st_size;
    }
    close(fd);
    return HG_OK;
}

void hg_map_close(struct hg_map *m)
{
    if (m->data) munmap((void *)(uintptr_t)m->data, m->size);
    m->data = NULL;
    m->size = 0;
}

enum hg_status hg_file_read(const char *path, size_t limit, char **out, size_t *n,
                            struct hg_err *err)
{
    int fd = STDIN_FILENO;
    struct stat st = {0};
    if (strcmp(path, "-") != 0) HG_TRY(open_regular(path, &fd, &st, err));
    if ((uint64_t)st.st_size > limit) {
        close(fd);
        return hg_fail(err, HG_EFORMAT, "%s: %lld bytes, the limit is %zu", path,
                       (long long)st.st_size, limit);
    }
    struct hg_buf b;
    hg_buf_init(&b);
    enum hg_status s = HG_OK;
    while (s == HG_OK) {
        if (!hg_buf_reserve(&b, 1 << 16)) {
            s = hg_fail(err, HG_ENOMEM, "%s: out of memory after %zu bytes", path, b.len);
            break;
        }
        ssize_t r = read(fd, b.data + b.len, b.cap - b.len - 1);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) s = hg_fail(err, HG_EIO, "%s: %s", path, strerror(errno));
        if (r <= 0) break;
        b.len += (size_t)r;
        if (b.len > limit) s = hg_fail(err, HG_EFORMAT, "%s: more than %zu bytes", path, limit);
    }
    if (fd != STDIN_FILENO) close(fd);
    if (s != HG_OK) {
        hg_buf_fini(&b);
        return s;
    }
    b.data[b.len] = 0;
    *out = hg_buf_take(&b, n);
    return HG_OK;
}

bool hg_file_exists(const char *path)
{
    return access(path, R_OK) == 0;
}
