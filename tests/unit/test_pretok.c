/* Pre-tokenizer: hand-written scanners against PCRE2, other patterns, hostile ones. */
#include "text/pretok.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"
#include "text/pretok_regex.h"
#include "text/unicode.h"

static uint8_t *classes;

static struct hg_pretok *make(const char *pattern, bool force_regex)
{
    struct hg_pretok *p = NULL;
    struct hg_err err;
    if (hg_pretok_create(pattern, strlen(pattern), classes, force_regex, &p, &err))
        fail_msg("%s", err.text);
    return p;
}

/* Words of text, joined by '|'. */
static void split_into(struct hg_buf *out, const struct hg_pretok *p, const char *text, size_t n)
{
    struct hg_pretok_scan scan;
    struct hg_err err;
    hg_buf_clear(out);
    assert_int_equal(hg_pretok_scan_init(&scan, p, &err), HG_OK);
    for (size_t pos = 0, end; pos < n; pos = end) {
        if (hg_pretok_next(&scan, text, n, pos, &end, &err)) fail_msg("%s", err.text);
        assert_true(end > pos && end <= n);
        if (pos) hg_buf_char(out, '|');
        hg_buf_add(out, text + pos, end - pos);
    }
    hg_pretok_scan_fini(&scan);
}

static void check(const char *pattern, const char *text, const char *want)
{
    for (int force = 0; force < 2; force++) {
        struct hg_buf got;
        hg_buf_init(&got);
        struct hg_pretok *p = make(pattern, force);
        split_into(&got, p, text, strlen(text));
        assert_string_equal(got.data, want);
        hg_pretok_free(p);
        hg_buf_fini(&got);
    }
}

static void words_as_published(void **state)
{
    (void)state;
    static const char *const both[] = {HG_PRETOK_QWEN2, HG_PRETOK_QWEN35};
    for (size_t i = 0; i < 2; i++) {
        check(both[i], "Hello world", "Hello| world");
        check(both[i], "a  b\n\n  c  ", "a| | b|\n\n| | c|  ");
        check(both[i], "don't 'SAM WE'LL x'\xc5\xbf", "don|'t| '|SAM| WE|'LL| x|'\xc5\xbf");
        check(both[i], "12 3", "1|2| |3");
        check(both[i], "f(x) == 1;\r\n\ty", "f|(x|)| ==| |1|;\r\n|\ty");
        check(both[i], " \n \r x", " \n \r| x");
        check(both[i],
              "a\xc2\xa0\xe3\x80\x80"
              "b",
              "a|\xc2\xa0|\xe3\x80\x80"
              "b");
        check(both[i],
              "a\xe1\xa0\x8e"
              "b",
              "a|\xe1\xa0\x8e"
              "b"); /* U+180E is no white space */
    }
    /* Marks belong to words in 3.5 only. */
    check(HG_PRETOK_QWEN2, "e\xcc\xb1x \xcc\xb1!", "e|\xcc\xb1x| \xcc\xb1!");
    check(HG_PRETOK_QWEN35, "e\xcc\xb1x \xcc\xb1!", "e\xcc\xb1x| \xcc\xb1|!");
}

enum { IS_L, IS_M, IS_N, IS_SPACE, IS_UNASSIGNED, N_IS };

static struct {
    struct hg_regex *regex;
    struct hg_regex_match *match;
} is[N_IS];

static void is_init(void)
{
    static const char *const patterns[N_IS] = {"\\p{L}", "\\p{M}", "\\p{N}", "\\s", "\\p{Cn}"};
    struct hg_err err;
    for (int i = 0; i < N_IS; i++) {
        const char *p = patterns[i];
        assert_int_equal(hg_regex_create(p, strlen(p), &is[i].regex, &err), HG_OK);
        assert_non_null(is[i].match = hg_regex_match_create(is[i].regex));
    }
}

static void is_fini(void)
{
    for (int i = 0; i < N_IS; i++) {
        hg_regex_match_free(is[i].match);
        hg_regex_free(is[i].regex);
    }
}

static bool regex_is(int i, const struct hg_buf *b)
{
    size_t end;
    struct hg_err err;
    assert_int_equal(hg_regex_at(is[i].regex, is[i].match, b->data, b->len, 0, &end, &err), HG_OK);
    return end == b->len;
}

/* PCRE2 puts c into the same classes; only characters that it does not know may differ. */
static bool agreed(uint32_t c)
{
    static uint8_t known[HG_UC_COUNT]; /* 0 not asked yet, 1 yes, 2 no */
    if (known[c]) return known[c] == 1;
    struct hg_buf b;
    hg_buf_init(&b);
    hg_utf8_put(&b, c);
    int got = (regex_is(IS_L, &b) ? HG_UC_L : 0) | (regex_is(IS_M, &b) ? HG_UC_M : 0) |
              (regex_is(IS_N, &b) ? HG_UC_N : 0) | (regex_is(IS_SPACE, &b) ? HG_UC_S : 0);
    bool same = got == (classes[c] & (HG_UC_L | HG_UC_M | HG_UC_N | HG_UC_S));
    if (!same && !regex_is(IS_UNASSIGNED, &b)) fail_msg("U+%04X: classes %d", c, got);
    known[c] = same ? 1 : 2;
    hg_buf_fini(&b);
    return same;
}

static void random_text(struct hg_rng *rng, struct hg_buf *b)
{
    static const char *const common = " \n\r\t'stremvldSTREMVLD.,!?(){}<>|0123456789aZ_-";
    static const uint32_t special[] = {0x17f,  0x85,   0xa0,   0x1680,  0x180e, 0x2003, 0x2028,
                                       0x200b, 0x200d, 0x3000, 0x301,   0x94d,  0x915,  0x661,
                                       0xbd,   0x2167, 0x4e00, 0x1f600, 0xfeff, 0xe000, 0x10ffff};
    hg_buf_clear(b);
    for (uint32_t n = 1 + hg_rng_below(rng, 24); n > 0; n--) {
        uint32_t kind = hg_rng_below(rng, 10), c;
        if (kind < 6)
            c = (uint8_t)common[hg_rng_below(rng, (uint32_t)strlen(common))];
        else if (kind < 8)
            c = special[hg_rng_below(rng, sizeof special / sizeof *special)];
        else if (kind < 9)
            c = hg_rng_below(rng, 0x3000);
        else
            c = hg_rng_below(rng, HG_UC_COUNT);
        if ((c >= 0xd800 && c < 0xe000) || !agreed(c)) c = ' ';
        hg_utf8_put(b, c);
    }
}

static void scanners_equal_pcre2(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    struct hg_rng rng = {seed};
    static const char *const patterns[] = {HG_PRETOK_QWEN2, HG_PRETOK_QWEN35};
    is_init();
    struct hg_buf text, by_hand, by_regex;
    hg_buf_init(&text);
    hg_buf_init(&by_hand);
    hg_buf_init(&by_regex);
    for (int k = 0; k < 2; k++) {
        struct hg_pretok *hand = make(patterns[k], false), *regex = make(patterns[k], true);
        for (int i = 0; i < 50000; i++) {
            random_text(&rng, &text);
            split_into(&by_hand, hand, text.data, text.len);
            split_into(&by_regex, regex, text.data, text.len);
            assert_string_equal(by_hand.data, by_regex.data);
        }
        hg_pretok_free(hand);
        hg_pretok_free(regex);
    }
    hg_buf_fini(&text);
    hg_buf_fini(&by_hand);
    hg_buf_fini(&by_regex);
    is_fini();
}

static void other_patterns(void **state)
{
    (void)state;
    check(HG_PRETOK_GPT2, "it's 12 me  ok", "it|'s| 12| me| | ok");
    check("\\p{N}{1,3}|\\p{L}+", "1234ab-+c", "123|4|ab|-+|c"); /* gaps are words */
    check("b*", "abbac", "a|bb|a|c");                           /* empty matches cut */
    check("[^\\S\\n]+|\\S+", "a \nb", "a| |\n|b");
    check("\\u0061|[\\x{62}-\\x{63}]+", "abcb", "a|bcb");
    check("(?<=a)b|.", "ab\nb", "a|b|\n|b"); /* lookbehind sees the text before; . is not \n */
}

static void refused_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        enum hg_status status;
        const char *says;
    } cases[] = {
        {"a\\w", HG_EUNSUP, "an escape of this kind at byte 1"},
        {"\\bx", HG_EUNSUP, "escape"},
        {"\\h", HG_EUNSUP, "escape"},
        {"\\pL", HG_EUNSUP, "{...}"},
        {"\\xff", HG_EUNSUP, "{...}"},
        {"\\u12", HG_EUNSUP, "hexadecimal"},
        {"a\\", HG_EUNSUP, "backslash"},
        {"[a[b]]", HG_EUNSUP, "class within a class at byte 2"},
        {"[a&&b]", HG_EUNSUP, "&&"},
        {"[]a]", HG_EUNSUP, "first member"},
        {"[ab", HG_EUNSUP, "without end"},
        {"^a", HG_EUNSUP, "line anchor"},
        {"a$", HG_EUNSUP, "line anchor"},
        {"(?i)a", HG_EUNSUP, "group"},
        {"(*UTF)a", HG_EUNSUP, "group"},
        {"(?R)", HG_EUNSUP, "group"},
        {"a{2}+", HG_EUNSUP, "quantifier"},
        {"(a", HG_EFORMAT, "parenthes"},
        {"\\p{NoSuch}", HG_EFORMAT, "property"},
        {"a**", HG_EFORMAT, "quantifier"},
        {"\xff", HG_EFORMAT, "UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hg_pretok *p = NULL;
        struct hg_err err;
        const char *s = cases[i].pattern;
        if (hg_pretok_create(s, strlen(s), classes, false, &p, &err) != cases[i].status)
            fail_msg("%s was not refused as expected", s);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s: %s", s, err.text);
    }
}

static void endless_patterns_end(void **state)
{
    (void)state;
    struct hg_pretok *p = make("(?:(?:a+)+)+b", true);
    struct hg_pretok_scan scan;
    struct hg_err err;
    const char *text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaacb";
    size_t end;
    assert_int_equal(hg_pretok_scan_init(&scan, p, &err), HG_OK);
    assert_int_equal(hg_pretok_next(&scan, text, strlen(text), 0, &end, &err), HG_EINVAL);
    assert_non_null(strstr(err.text, "limit"));
    hg_pretok_scan_fini(&scan);
    hg_pretok_free(p);
}

/* Runs on which a careless scanner is quadratic, 1 MB each. */
static void long_runs_take_linear_time(void **state)
{
    (void)state;
    static const char *const units[] = {"a", " ", "\n", " \n", "'", "!", "'s", "\xcc\x81", "<|"};
    static const char *const patterns[] = {HG_PRETOK_QWEN2, HG_PRETOK_QWEN35};
    struct hg_buf text, words;
    hg_buf_init(&text);
    hg_buf_init(&words);
    double start = hg_now();
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        hg_buf_clear(&text);
        while (text.len < 1 << 20) hg_buf_str(&text, units[u]);
        for (int k = 0; k < 2; k++) {
            struct hg_pretok *p = make(patterns[k], false);
            split_into(&words, p, text.data, text.len);
            hg_pretok_free(p);
        }
    }
    assert_true(hg_now() - start < 20);
    hg_buf_fini(&text);
    hg_buf_fini(&words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_as_published),   cmocka_unit_test(scanners_equal_pcre2),
        cmocka_unit_test(other_patterns),       cmocka_unit_test(refused_patterns),
        cmocka_unit_test(endless_patterns_end), cmocka_unit_test(long_runs_take_linear_time),
    };
    classes = hg_unicode_classes();
    if (!classes) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(classes);
    return failed;
}
