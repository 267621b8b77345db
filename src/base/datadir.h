/* datadir.h: where the files that come with the program lie: the embedded model "nano" and the
 * geometries "presets". In order:
 *
 *     EXE_DIR/models/NAME                   beside the binary
 *     EXE_DIR/../../models/NAME             the source tree: build/<mode>/hedge, also one folder
 *                                           deeper (tests); only under a root with include/hedge.h
 *     EXE_DIR/../share/hedge/NAME           installed under some prefix/bin
 *     HG_PREFIX/share/hedge/NAME            the prefix of `make install`
 */
#ifndef HG_BASE_DATADIR_H
#define HG_BASE_DATADIR_H

#include <stdbool.h>
#include <stddef.h>

/* Path of the first that exists, in buf[0..n). False when none does or the path is too long. */
bool hg_data_path(const char *name, char *buf, size_t n);

/* The same for a given directory of the executable and a given prefix. */
bool hg_data_path_from(const char *exe_dir, const char *prefix, const char *name, char *buf,
                       size_t n);

#endif
