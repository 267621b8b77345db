/* UTF-8 checking and NFC (src/text/unicode.c, nfc.c). */
#include "text/unicode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"

static uint8_t *classes;

static void every_code_point_is_checked(void **state)
{
    (void)state;
    struct hg_buf b;
    hg_buf_init(&b);
    for (uint32_t c = 0; c < 0x110000; c++) {
        hg_buf_clear(&b);
        hg_utf8_put(&b, c);
        bool surrogate = c >= 0xd800 && c < 0xe000;
        int len = hg_utf8_check(b.data, b.len);
        if (surrogate) {
            assert_int_equal(len, -1);
            continue;
        }
        unsigned got;
        assert_int_equal(len, (int)b.len);
        assert_int_equal(hg_utf8_get(b.data, &got), c);
        assert_int_equal(got, b.len);
        for (size_t k = 1; k < b.len; k++) assert_int_equal(hg_utf8_check(b.data, k), 0);
    }
    hg_buf_fini(&b);
}

static void broken_parts_are_maximal(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        int len;
    } cases[] = {
        {"\x80", -1},         {"\xc0\x80", -1},  {"\xc1\xbf", -1},
        {"\xe0\x80\x80", -1}, {"\xed\xa0", -1},  {"\xf0\x8f\x80\x80", -1},
        {"\xf4\x90\x80", -1}, {"\xf5\x80", -1},  {"\xff", -1},
        {"\xc3(", -1},        {"\xe2\x82(", -2}, {"\xf0\x9f\x98(", -3},
        {"\xf0\x9f(", -2},    {"\xe2", 0},       {"\xf0\x9f\x98", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(hg_utf8_check(cases[i].s, strlen(cases[i].s)), cases[i].len);
}

static void nfc_into(struct hg_buf *b, const char *s, size_t n)
{
    hg_buf_clear(b);
    hg_nfc(classes, s, n, b);
    assert_false(b->oom);
}

static void nfc_vectors(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"abc", "abc"},
        {"e\xcc\x81", "\xc3\xa9"}, /* e + acute */
        {"\xcc\x81"
         "e\xcc\x81",
         "\xcc\x81\xc3\xa9"},                                     /* a mark first */
        {"q\xcc\x87\xcc\xa3", "q\xcc\xa3\xcc\x87"},               /* order of marks */
        {"\xe2\x84\xab", "\xc3\x85"},                             /* angstrom sign */
        {"\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"},             /* composition exclusion */
        {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"}, /* Hangul */
        {"\xea\xb0\x80\xe1\x86\xa8", "\xea\xb0\x81"},
        {"\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0", "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0"}, /* too young */
    };
    struct hg_buf b;
    hg_buf_init(&b);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nfc_into(&b, cases[i][0], strlen(cases[i][0]));
        assert_int_equal(b.len, strlen(cases[i][1]));
        if (b.len) assert_string_equal(b.data, cases[i][1]);
    }
    hg_buf_fini(&b);
}

/* Strings of letters and marks that every Unicode since 9 knows: utf8proc is the oracle. */
static void nfc_equals_utf8proc(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    struct hg_rng rng = {seed};
    struct hg_buf in, out;
    hg_buf_init(&in);
    hg_buf_init(&out);
    for (int round = 0; round < 20000; round++) {
        static const uint32_t from[] = {0x20,   0xc0,   0x300,  0x5b0,  0x915,  0x93c,   0x1100,
                                        0x1161, 0x11a8, 0xac00, 0x1e00, 0x3040, 0x2f800, 0x1d150};
        static const uint32_t many[] = {96, 256, 69, 16, 32, 4, 19, 21, 27, 600, 512, 100, 400, 32};
        hg_buf_clear(&in);
        for (uint32_t n = hg_rng_below(&rng, 12); n > 0; n--) {
            uint32_t k = hg_rng_below(&rng, sizeof from / sizeof *from);
            hg_utf8_put(&in, from[k] + hg_rng_below(&rng, many[k]));
        }
        utf8proc_uint8_t *want = NULL;
        utf8proc_ssize_t n_want =
            utf8proc_map((const utf8proc_uint8_t *)in.data, (utf8proc_ssize_t)in.len, &want,
                         (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
        assert_true(n_want >= 0);
        nfc_into(&out, in.data, in.len);
        assert_int_equal(out.len, n_want);
        if (n_want) assert_memory_equal(out.data, want, n_want);
        free(want);
    }
    hg_buf_fini(&in);
    hg_buf_fini(&out);
}

static void hostile_marks_take_no_quadratic_time(void **state)
{
    (void)state;
    struct hg_buf in, out;
    hg_buf_init(&in);
    hg_buf_init(&out);
    for (int i = 0; i < 250000; i++) hg_buf_str(&in, "\xcc\x81\xcc\xa3");
    double start = hg_now();
    nfc_into(&out, in.data, in.len);
    assert_true(hg_now() - start < 10);
    assert_int_equal(out.len, in.len);
    assert_memory_equal(out.data, "\xcc\xa3\xcc\xa3", 4);
    hg_buf_fini(&in);
    hg_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_checked),
        cmocka_unit_test(broken_parts_are_maximal),
        cmocka_unit_test(nfc_vectors),
        cmocka_unit_test(nfc_equals_utf8proc),
        cmocka_unit_test(hostile_marks_take_no_quadratic_time),
    };
    classes = hg_unicode_classes();
    if (!classes) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(classes);
    return failed;
}
