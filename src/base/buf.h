/* buf.h: growing byte buffer. Failed growth sets `oom` and later appends do nothing, so a long
 * row of appends is checked once at its end. Always NUL-terminated once non-empty. */
#ifndef HG_BASE_BUF_H
#define HG_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hg_buf {
    char *data; /* NULL until the first append */
    size_t len, cap;
    bool oom;
};

void hg_buf_init(struct hg_buf *b);
void hg_buf_fini(struct hg_buf *b);
void hg_buf_clear(struct hg_buf *b); /* len = 0, memory kept */
void hg_buf_add(struct hg_buf *b, const void *p, size_t n);
void hg_buf_str(struct hg_buf *b, const char *s);
void hg_buf_char(struct hg_buf *b, char c);
void hg_buf_printf(struct hg_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Drops the first n bytes. */
void hg_buf_shift(struct hg_buf *b, size_t n);
/* Room for n more bytes and the NUL; false when memory is out. */
bool hg_buf_reserve(struct hg_buf *b, size_t n);
/* Appends s[0..n) as a JSON string body (no quotes): escapes ", \ and control characters;
 * bytes >= 0x80 pass through (the caller guarantees UTF-8). */
void hg_buf_json(struct hg_buf *b, const char *s, size_t n);
/* Hands the memory to the caller (free()), leaves the buffer empty. "" when empty. */
char *hg_buf_take(struct hg_buf *b, size_t *len);

#endif
