/* json.h: JSON of files that may be hostile, as jansson values. On top of jansson's own strictness
 * (UTF-8, nesting <= 2048, no NUL in strings) duplicate keys are refused and the number of values
 * is bounded before any of them is built: one value costs up to ~300 bytes of memory, so a file
 * of "{},{},..." would otherwise grow 100-fold. */
#ifndef HG_CHECKPOINT_JSON_H
#define HG_CHECKPOINT_JSON_H

#include <jansson.h>

#include "base/err.h"

/* EFORMAT names `name` and the line. *out is a new reference. */
enum hg_status hg_json_parse(const char *name, const char *text, size_t n, size_t max_values,
                             json_t **out, struct hg_err *err);
/* Same, for the file `path` of at most max_bytes. */
enum hg_status hg_json_read(const char *path, size_t max_bytes, size_t max_values, json_t **out,
                            struct hg_err *err);
/* `v` as compact ASCII JSON for a message, cut with "..." to fit buf; returns buf. */
const char *hg_json_shown(const json_t *v, char *buf, size_t n);
/* Object member, where null counts as absent (HF writes None as null). NULL if there is none. */
json_t *hg_json_get(const json_t *object, const char *key);

/* No control characters: fit for a message or a terminal. */
bool hg_json_printable(const char *s);

#endif
