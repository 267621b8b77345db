/* unicode.h: UTF-8, the character classes of pre-tokenizer patterns, and NFC.
 *
 * The classes are tables of our own, not of the installed libraries: ids must not depend on the
 * machine, and must equal those of PyPI `tokenizers`, whose regex engine knows Unicode 16 and
 * whose NFC knows Unicode 9 (what came later is left as it is). */
#ifndef HG_TEXT_UNICODE_H
#define HG_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hg_buf;

enum {
    HG_UC_L = 1,    /* letter */
    HG_UC_M = 2,    /* mark */
    HG_UC_N = 4,    /* number */
    HG_UC_S = 8,    /* White_Space */
    HG_UC_NL = 16,  /* \r or \n; also White_Space */
    HG_UC_NFC = 32, /* NFC may change it, or join it to what stands before it */
    HG_UC_COUNT = 0x110000
};

/* One class byte per code point, [HG_UC_COUNT]; the caller frees it. NULL when memory is out.
 * Most pages of it are never touched. */
uint8_t *hg_unicode_classes(void);

/* The code point at s, which must be valid UTF-8; *len becomes its length in bytes. */
static inline uint32_t hg_utf8_get(const char *s, unsigned *len)
{
    const uint8_t *p = (const uint8_t *)s;
    if (p[0] < 0x80) return *len = 1, p[0];
    if (p[0] < 0xe0) return *len = 2, (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    if (p[0] < 0xf0) return *len = 3, (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    return *len = 4,
           (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

/* Looks at the first character of s[0..n), n > 0. Returns its length when it is whole and valid,
 * 0 when the text ends inside a character that is valid so far, and -k when its first k bytes
 * can never begin a character (k is the length of the maximal broken part, as in Unicode 3.9). */
int hg_utf8_check(const char *s, size_t n);

/* Bytes at the start of s that are valid UTF-8. *plain: none of them is HG_UC_NFC, so that the
 * text is its own NFC. */
size_t hg_utf8_valid(const uint8_t *classes, const char *s, size_t n, bool *plain);

/* Appends c, a code point that is no surrogate. */
void hg_utf8_put(struct hg_buf *b, uint32_t c);

/* Appends the NFC of s[0..n), valid UTF-8. Sets out->oom when memory is out. */
void hg_nfc(const uint8_t *classes, const char *s, size_t n, struct hg_buf *out);

#endif
