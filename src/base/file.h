/* file.h: reading files, whole or mapped. Errors name the path. */
#ifndef HG_BASE_FILE_H
#define HG_BASE_FILE_H

#include "base/err.h"

struct hg_map {
    const uint8_t *data; /* NULL when the file is empty */
    size_t size;
};

/* Maps a regular file read-only. The mapping lives until hg_map_close. */
enum hg_status hg_map_open(struct hg_map *m, const char *path, struct hg_err *err);
void hg_map_close(struct hg_map *m);

/* Whole file, NUL behind it; malloc'd. Refuses files over `limit` bytes. path "-" = stdin. */
enum hg_status hg_file_read(const char *path, size_t limit, char **out, size_t *n,
                            struct hg_err *err);
bool hg_file_exists(const char *path);

#endif
