/* First byte even: the rest is a tokenizer.json. Odd: the rest up to a newline is the pattern of
 * a sound tokenizer, what follows is text, whose bytes must come back. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/tokenizer.h"
#include "../lib/tiny_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 256, PATTERN_MAX = 64 };

static const char sample[] = "<s> Hello <sx>a\xcc\x81  abc\n\xff\xe4\xbd\xa0 12 don't";

static void use(const struct hg_tokenizer *t, const char *text, size_t n, bool keeps_bytes)
{
    struct hg_toks ids = {0};
    struct hg_err err;
    const size_t marks[] = {0, n / 2, n};
    int64_t at[3];
    struct hg_buf out;
    hg_buf_init(&out);
    enum hg_status s = hg_tokenizer_encode(t, text, n, true, marks, 3, at, &ids, &err);
    for (size_t i = 0; s == HG_OK && i < ids.n; i++) {
        size_t len;
        const char *b = hg_tokenizer_bytes(t, ids.ids[i], &len);
        hg_assert(b);
        hg_buf_add(&out, b, len);
    }
    if (s == HG_OK && keeps_bytes) hg_assert(out.len == n && (!n || !memcmp(out.data, text, n)));
    hg_buf_clear(&out);
    struct hg_detok d;
    hg_detok_init(&d);
    for (size_t i = 0; i < ids.n; i++) hg_detok_push(&d, t, ids.ids[i], false, &out);
    hg_detok_finish(&d, &out);
    hg_buf_fini(&out);
    hg_toks_fini(&ids);
}

static void fuzz_pattern(const char *s, size_t n)
{
    const char *line = memchr(s, '\n', n);
    size_t n_pattern = line ? (size_t)(line - s) : n, used = line ? n_pattern + 1 : n;
    if (n_pattern > PATTERN_MAX) return;
    char pattern[PATTERN_MAX + 1] = "";
    memcpy(pattern, s, n_pattern);
    struct hg_buf json;
    struct hg_tokenizer *t;
    struct hg_err err;
    hg_buf_init(&json);
    tiny_json(&(struct tiny){.pattern = pattern, .normalizer = "null"}, &json);
    if (!hg_tokenizer_parse("fuzz", json.data, json.len, &t, &err)) {
        use(t, s + used, n - used < TEXT_MAX ? n - used : TEXT_MAX, true);
        hg_tokenizer_free(t);
    }
    hg_buf_fini(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hg_tokenizer *t;
    struct hg_err err;
    if (size < 2) return 0;
    if (data[0] & 1) {
        fuzz_pattern((const char *)data + 1, size - 1);
    } else if (!hg_tokenizer_parse("fuzz", (const char *)data + 1, size - 1, &t, &err)) {
        use(t, sample, sizeof sample - 1, false);
        hg_tokenizer_free(t);
    }
    return 0;
}
