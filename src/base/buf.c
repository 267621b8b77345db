#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hg_buf_init(struct hg_buf *b)
{
    memset(b, 0, sizeof *b);
}

void hg_buf_fini(struct hg_buf *b)
{
    free(b->data);
    hg_buf_init(b);
}

void hg_buf_clear(struct hg_buf *b)
{
    b->len = 0;
    if (b->data) b->data[0] = 0;
}

bool hg_buf_reserve(struct hg_buf *b, size_t n)
{
    if (b->oom) return false;
    if (n < b->cap - b->len) return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->len <= n) {
        if (cap > SIZE_MAX / 2) {
            b->oom = true;
            return false;
        }
        cap *= 2;
    }
    char *p = realloc(b->data, cap);
    if (!p) {
        b->oom = true;
        return false;
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void hg_buf_add(struct hg_buf *b, const void *p, size_t n)
{
    if (!hg_buf_reserve(b, n)) return;
    if (n) memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = 0;
}

void hg_buf_str(struct hg_buf *b, const char *s)
{
    hg_buf_add(b, s, strlen(s));
}

void hg_buf_char(struct hg_buf *b, char c)
{
    hg_buf_add(b, &c, 1);
}

void hg_buf_printf(struct hg_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !hg_buf_reserve(b, (size_t)n)) return;
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void hg_buf_shift(struct hg_buf *b, size_t n)
{
    if (n >= b->len) {
        hg_buf_clear(b);
        return;
    }
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

void hg_buf_json(struct hg_buf *b, const char *s, size_t n)
{
    size_t plain = 0; /* start of the run not yet copied */
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        hg_buf_add(b, s + plain, i - plain);
        plain = i + 1;
        static const char short_esc[] = "\b\f\n\r\t\"\\", short_out[] = "bfnrt\"\\";
        const char *e = c ? strchr(short_esc, c) : NULL;
        if (e)
            hg_buf_printf(b, "\\%c", short_out[e - short_esc]);
        else
            hg_buf_printf(b, "\\u%04x", c);
    }
    hg_buf_add(b, s + plain, n - plain);
}

char *hg_buf_take(struct hg_buf *b, size_t *len)
{
    if (!b->data) hg_buf_add(b, "", 0);
    char *p = b->oom ? NULL : b->data;
    if (len) *len = b->len;
    if (!p) free(b->data);
    hg_buf_init(b);
    return p;
}
