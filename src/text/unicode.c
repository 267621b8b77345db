#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/unicode_data.h"

static void add_class(uint8_t *classes, const uint32_t (*ranges)[2], size_t n, uint8_t flag)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = ranges[i][0]; c <= ranges[i][1]; c++) classes[c] |= flag;
}

#define MARK(classes, ranges, flag) add_class(classes, ranges, sizeof ranges / sizeof *ranges, flag)

uint8_t *hg_unicode_classes(void)
{
    uint8_t *classes = calloc(HG_UC_COUNT, 1);
    if (!classes) return NULL;
    MARK(classes, letter_ranges, HG_UC_L);
    MARK(classes, mark_ranges, HG_UC_M);
    MARK(classes, number_ranges, HG_UC_N);
    MARK(classes, space_ranges, HG_UC_S);
    MARK(classes, nfc_active_ranges, HG_UC_NFC);
    classes['\r'] |= HG_UC_NL;
    classes['\n'] |= HG_UC_NL;
    return classes;
}

int hg_utf8_check(const char *s, size_t n)
{
    const uint8_t *p = (const uint8_t *)s;
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4) return -1;
    int len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    /* The second byte's range shuts out overlong forms, surrogates and what is over U+10FFFF. */
    uint8_t low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    uint8_t high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < len; i++) {
        if ((size_t)i == n) return 0;
        if (p[i] < low || p[i] > high) return -i;
        low = 0x80;
        high = 0xbf;
    }
    return len;
}

size_t hg_utf8_valid(const uint8_t *classes, const char *s, size_t n, bool *plain)
{
    uint8_t seen = 0;
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        while (n - i >= sizeof eight) {
            memcpy(&eight, s + i, sizeof eight);
            if (eight & 0x8080808080808080u) break;
            i += sizeof eight;
        }
        if (i == n) break;
        int len = hg_utf8_check(s + i, n - i);
        if (len <= 0) break;
        unsigned got;
        if (len > 1) seen |= classes[hg_utf8_get(s + i, &got)];
        i += (size_t)len;
    }
    *plain = !(seen & HG_UC_NFC);
    return i;
}

void hg_utf8_put(struct hg_buf *b, uint32_t c)
{
    char s[4];
    size_t n = 0;
    if (c < 0x80) {
        s[n++] = (char)c;
    } else {
        if (c < 0x800) {
            s[n++] = (char)(0xc0 | c >> 6);
        } else {
            if (c < 0x10000) {
                s[n++] = (char)(0xe0 | c >> 12);
            } else {
                s[n++] = (char)(0xf0 | c >> 18);
                s[n++] = (char)(0x80 | (c >> 12 & 0x3f));
            }
            s[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        }
        s[n++] = (char)(0x80 | (c & 0x3f));
    }
    hg_buf_add(b, s, n);
}
