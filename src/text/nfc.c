/* NFC by runs: a character that is not HG_UC_NFC and all HG_UC_NFC ones behind it. Nothing joins
 * or crosses the border between two runs, so only runs with an active character need work, and
 * those are short in real text. utf8proc decomposes and composes; putting marks in order is done
 * here, since utf8proc's way takes quadratic time on long hostile rows of marks. */
#include "text/unicode.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "base/buf.h"

enum { NFC_MAX_PARTS = 32 };

#define NFC_DECOMPOSE ((utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE))
#define NFC_COMPOSE   ((utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE))

/* Code points of a run as they are sorted: class << 56 | place << 21 | code point. The place
 * keeps equal classes in their order. */
struct run {
    struct hg_buf keys;   /* uint64_t */
    struct hg_buf points; /* int32_t */
    size_t n;
};

static uint64_t *run_keys(struct run *r)
{
    return (uint64_t *)(void *)r->keys.data;
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_keys(uint64_t *k, size_t n)
{
    if (n > 32) {
        qsort(k, n, sizeof *k, by_key);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        uint64_t x = k[i];
        size_t j = i;
        for (; j > 0 && k[j - 1] > x; j--) k[j] = k[j - 1];
        k[j] = x;
    }
}

static void run_add(struct run *r, const uint8_t *classes, uint32_t c)
{
    utf8proc_int32_t parts[NFC_MAX_PARTS];
    int boundclass = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, parts, NFC_MAX_PARTS,
                                                 NFC_DECOMPOSE, &boundclass);
    if (n < 1 || n > NFC_MAX_PARTS) { /* cannot be: canonical decompositions have at most 4 */
        parts[0] = (utf8proc_int32_t)c;
        n = 1;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        uint64_t order = 0; /* marks younger than the classes' Unicode count as starters */
        if (classes[parts[i]] & HG_UC_NFC)
            order = (uint64_t)utf8proc_get_property(parts[i])->combining_class;
        uint64_t key = order << 56 | (uint64_t)r->n++ << 21 | (uint64_t)parts[i];
        hg_buf_add(&r->keys, &key, sizeof key);
    }
}

static void run_flush(struct run *r, struct hg_buf *out)
{
    uint64_t *keys = run_keys(r);
    for (size_t i = 0, j; i < r->n; i = j) {
        j = i + 1;
        if (!(keys[i] >> 56)) continue;
        while (j < r->n && keys[j] >> 56) j++;
        sort_keys(keys + i, j - i);
    }
    for (size_t i = 0; i < r->n; i++) {
        int32_t c = (int32_t)(keys[i] & 0x1fffff);
        hg_buf_add(&r->points, &c, sizeof c);
    }
    if (!r->points.oom) {
        int32_t *c = (int32_t *)(void *)r->points.data;
        utf8proc_ssize_t n = utf8proc_normalize_utf32(c, (utf8proc_ssize_t)r->n, NFC_COMPOSE);
        for (utf8proc_ssize_t i = 0; i < n; i++) hg_utf8_put(out, (uint32_t)c[i]);
    }
    hg_buf_clear(&r->keys);
    hg_buf_clear(&r->points);
    r->n = 0;
}

void hg_nfc(const uint8_t *classes, const char *s, size_t n, struct hg_buf *out)
{
    struct run r = {.n = 0};
    size_t copied = 0; /* s[0..copied) is in out */
    size_t base = 0;   /* where the last inactive character starts */
    for (size_t i = 0; i < n;) {
        unsigned len;
        uint32_t c = hg_utf8_get(s + i, &len);
        if (!(classes[c] & HG_UC_NFC)) {
            base = i;
            i += len;
            continue;
        }
        hg_buf_add(out, s + copied, base - copied);
        if (base < i) run_add(&r, classes, hg_utf8_get(s + base, &len));
        while (i < n && (classes[c = hg_utf8_get(s + i, &len)] & HG_UC_NFC)) {
            run_add(&r, classes, c);
            i += len;
        }
        if (r.keys.oom) break;
        run_flush(&r, out);
        copied = base = i;
    }
    if (r.keys.oom || r.points.oom) out->oom = true;
    hg_buf_add(out, s + copied, n - copied);
    hg_buf_fini(&r.keys);
    hg_buf_fini(&r.points);
}
