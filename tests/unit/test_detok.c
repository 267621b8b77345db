/* Incremental detokenizing (src/text/detok.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "../lib/tiny_tokenizer.h"

static struct hg_tokenizer *tiny, *nano;

/* In the tiny tokenizer the id of a byte is the byte. */
static void push_bytes(struct hg_detok *d, const char *s, size_t n, struct hg_buf *out)
{
    for (size_t i = 0; i < n; i++) hg_detok_push(d, tiny, (uint8_t)s[i], true, out);
}

static void assert_whole(const struct hg_buf *b)
{
    bool plain;
    static uint8_t *classes;
    if (!classes) assert_non_null(classes = hg_unicode_classes());
    assert_int_equal(hg_utf8_valid(classes, b->data, b->len, &plain), b->len);
}

static void broken_bytes_become_replacements(void **state)
{
    (void)state;
#define R "\xef\xbf\xbd"
    static const char *const cases[][2] = {
        {"abc", "abc"},
        {"\xe2\x82\xac", "\xe2\x82\xac"},
        {"a\xe2\x82", "a" R}, /* cut off at the end: one */
        {"\xf0\x9f\x98", R},
        {"\xe2\x82z", R "z"}, /* cut off by another character */
        {"\xe2\xe2\x82\xac", R "\xe2\x82\xac"},
        {"\x80\x80", R R},       /* continuation bytes alone: one each */
        {"\xc0\xaf", R R},       /* overlong */
        {"\xed\xa0\x80", R R R}, /* surrogate */
        {"\xf4\x91\x92\x93\xff"
         "A\x80"
         "B",
         R R R R R "A" R "B"}, /* the Unicode standard, 3-9 */
        {"a\xf1\x80\x80\xe1\x80\xc2"
         "b\x80"
         "c\x80\xbf"
         "d",
         "a" R R R "b" R "c" R R "d"}, /* 3-11 */
    };
#undef R
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hg_detok d;
        struct hg_buf out;
        hg_detok_init(&d);
        hg_buf_init(&out);
        push_bytes(&d, cases[i][0], strlen(cases[i][0]), &out);
        if (out.len) assert_whole(&out);
        hg_detok_finish(&d, &out);
        assert_string_equal(out.data, cases[i][1]);
        hg_buf_fini(&out);
    }
}

static void characters_come_as_soon_as_they_are_whole(void **state)
{
    (void)state;
    struct hg_detok d;
    struct hg_buf out;
    hg_detok_init(&d);
    hg_buf_init(&out);
    push_bytes(&d, "x\xf0\x9f\x98", 4, &out);
    assert_string_equal(out.data, "x");
    assert_int_equal(d.n_pending, 3);
    push_bytes(&d, "\x80", 1, &out);
    assert_string_equal(out.data, "x\xf0\x9f\x98\x80");
    assert_int_equal(d.n_pending, 0);
    hg_detok_finish(&d, &out);
    assert_int_equal(out.len, 5);
    hg_buf_fini(&out);
}

static void special_and_unknown_tokens(void **state)
{
    (void)state;
    struct hg_detok d;
    struct hg_buf out;
    hg_detok_init(&d);
    hg_buf_init(&out);
    hg_detok_push(&d, tiny, 0xe2, false, &out);
    hg_detok_push(&d, tiny, 300, false, &out); /* <s>: hidden, the character goes on behind it */
    hg_detok_push(&d, tiny, 0x82, false, &out);
    hg_detok_push(&d, tiny, 0xac, false, &out);
    hg_detok_push(&d, tiny, 301, false, &out); /* <sx> is not special */
    hg_detok_push(&d, tiny, -1, true, &out);
    hg_detok_push(&d, tiny, 290, true, &out);
    hg_detok_push(&d, tiny, 1 << 30, true, &out);
    hg_detok_push(&d, tiny, 300, true, &out);
    hg_detok_push(&d, tiny, 258, true, &out);
    assert_string_equal(out.data, "\xe2\x82\xac<sx><s>abc");
    hg_buf_fini(&out);
}

/* Random ids of nano: every moment whole UTF-8, and the same as all bytes at once. */
static void random_ids(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    struct hg_rng rng = {seed};
    struct hg_buf all, stream, whole;
    hg_buf_init(&all);
    hg_buf_init(&stream);
    hg_buf_init(&whole);
    for (int round = 0; round < 2000; round++) {
        struct hg_detok d, e;
        hg_detok_init(&d);
        hg_detok_init(&e);
        hg_buf_clear(&all);
        hg_buf_clear(&stream);
        hg_buf_clear(&whole);
        for (int k = 0; k < 40; k++) {
            uint32_t limit = round % 2 ? 256 : (uint32_t)hg_tokenizer_size(nano);
            hg_tok id = (hg_tok)hg_rng_below(&rng, limit);
            size_t n, before = stream.len;
            const char *s = hg_tokenizer_bytes(nano, id, &n);
            assert_non_null(s);
            hg_buf_add(&all, s, n);
            hg_detok_push(&d, nano, id, true, &stream);
            struct hg_buf added = {.data = stream.data + before, .len = stream.len - before};
            if (added.len) assert_whole(&added);
        }
        hg_detok_finish(&d, &stream);
        push_bytes(&e, all.data, all.len, &whole);
        hg_detok_finish(&e, &whole);
        assert_int_equal(stream.len, whole.len);
        assert_memory_equal(stream.data, whole.data, whole.len);
    }
    hg_buf_fini(&all);
    hg_buf_fini(&stream);
    hg_buf_fini(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_bytes_become_replacements),
        cmocka_unit_test(characters_come_as_soon_as_they_are_whole),
        cmocka_unit_test(special_and_unknown_tokens),
        cmocka_unit_test(random_ids),
    };
    struct hg_err err;
    struct hg_buf json;
    hg_buf_init(&json);
    tiny_json(&(struct tiny){0}, &json);
    if (hg_tokenizer_parse("tiny", json.data, json.len, &tiny, &err) ||
        hg_tokenizer_open("models/nano", &nano, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    hg_buf_fini(&json);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hg_tokenizer_free(tiny);
    hg_tokenizer_free(nano);
    return failed;
}
