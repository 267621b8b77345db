#include "base/datadir.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef HG_PREFIX
#define HG_PREFIX "/usr/local"
#endif

/* The path without its "..", which people get to see, if it exists. */
static bool try_path(char *buf, size_t n, const char *dir, const char *sub, const char *name)
{
    char path[PATH_MAX], real[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/%s/%s", dir, sub, name);
    if (len < 0 || (size_t)len >= sizeof path || !realpath(path, real)) return false;
    len = snprintf(buf, n, "%s", real);
    return len >= 0 && (size_t)len < n;
}

bool hg_data_path_from(const char *exe_dir, const char *prefix, const char *name, char *buf,
                       size_t n)
{
    static const char *const roots[] = {"../..", "../../.."};
    if (try_path(buf, n, exe_dir, "models", name)) return true;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        char sub[32];
        snprintf(sub, sizeof sub, "%s/models", roots[i]);
        if (try_path(buf, n, exe_dir, roots[i], "include/hedge.h") &&
            try_path(buf, n, exe_dir, sub, name))
            return true;
    }
    return try_path(buf, n, exe_dir, "../share/hedge", name) ||
           try_path(buf, n, prefix, "share/hedge", name);
}

bool hg_data_path(const char *name, char *buf, size_t n)
{
    char exe[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[len > 0 ? len : 0] = 0;
    char *slash = strrchr(exe, '/');
    if (slash) *slash = 0;
    return hg_data_path_from(exe, HG_PREFIX, name, buf, n);
}
