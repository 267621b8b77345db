/* Stop strings: against a search over the whole text, for all kinds of splits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "text/stops.h"

/* Feeds `text` in pieces of 1..max bytes (0 = whole); out gets what is released. */
static bool run(const char *const *list, int32_t n, const char *text, uint32_t max,
                struct hg_rng *rng, struct hg_buf *out)
{
    struct hg_stops s;
    bool found = false;
    size_t len = strlen(text);
    hg_stops_init(&s, list, n);
    hg_buf_init(out);
    hg_buf_add(out, "", 0);
    for (size_t i = 0, k; i < len && !found; i += k) {
        k = max ? 1 + hg_rng_below(rng, max) : len;
        if (k > len - i) k = len - i;
        found = hg_stops_feed(&s, text + i, k, out);
    }
    if (!found) hg_stops_finish(&s, out);
    assert_int_equal(s.held.len, 0);
    hg_stops_fini(&s);
    return found;
}

/* The definition: cut at the first position where a stop string ends; the longest one there. */
static bool reference(const char *const *list, int32_t n, const char *text, size_t *cut)
{
    for (size_t end = 1; end <= strlen(text); end++) {
        size_t longest = 0;
        for (int32_t i = 0; i < n; i++) {
            size_t len = strlen(list[i]);
            if (len <= end && len > longest && !memcmp(text + end - len, list[i], len))
                longest = len;
        }
        *cut = end - longest;
        if (longest) return true;
    }
    *cut = strlen(text);
    return false;
}

static void test_cases(void **state)
{
    (void)state;
    static const struct {
        const char *list[4];
        const char *text, *out;
        bool found;
    } cases[] = {
        {{"STOP"}, "go STOP on", "go ", true},
        {{"STOP"}, "go STO", "go STO", false},
        {{"STOP"}, "STOP", "", true},
        {{"\n\n"}, "a\nb\n\nc", "a\nb", true},
        {{"", "b"}, "abc", "a", true},
        {{""}, "abc", "abc", false},
        {{"abcd", "bc"}, "xabcd", "xa", true}, /* "bc" is complete first */
        {{"bc", "abc"}, "xabcd", "x", true},   /* both end together: the longer */
        {{"aab"}, "aaaab", "aa", true},
        {{"abab", "abc"}, "ababc", "", true},
        {{"x", "x"}, "yx", "y", true},
        {{"日本"}, "日日本語", "日", true},
        {{"\xc3\xa9"}, "\xc3\xa8\xc3\xa9", "\xc3\xa8", true},
        {{"long stop string"}, "long stop", "long stop", false},
        {{NULL}, "anything", "anything", false},
    };
    struct hg_rng rng = {7};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t n = 0;
        while (n < 4 && cases[i].list[n]) n++;
        for (uint32_t max = 0; max < 4; max++) {
            struct hg_buf out;
            assert_int_equal(run(cases[i].list, n, cases[i].text, max, &rng, &out), cases[i].found);
            assert_string_equal(out.data, cases[i].out);
            hg_buf_fini(&out);
        }
    }
}

/* Only what may still become a stop string is held back. */
static void test_holds_little(void **state)
{
    (void)state;
    static const char *const list[] = {"<end>", "<stop>"};
    struct hg_stops s;
    struct hg_buf out;
    hg_stops_init(&s, list, 2);
    hg_buf_init(&out);
    assert_false(hg_stops_feed(&s, "a < b <e", 8, &out));
    assert_string_equal(out.data, "a < b ");
    assert_false(hg_stops_feed(&s, "", 0, &out));
    assert_false(hg_stops_feed(&s, "n", 1, &out));
    assert_string_equal(out.data, "a < b ");
    assert_false(hg_stops_feed(&s, "<st", 3, &out));
    assert_string_equal(out.data, "a < b <en");
    assert_true(hg_stops_feed(&s, "op> dropped", 11, &out));
    assert_string_equal(out.data, "a < b <en");
    hg_stops_finish(&s, &out);
    assert_string_equal(out.data, "a < b <en");
    hg_stops_fini(&s);
    hg_stops_init(&s, NULL, 3); /* no list */
    assert_false(hg_stops_feed(&s, "!", 1, &out));
    assert_string_equal(out.data, "a < b <en!");
    hg_stops_fini(&s);
    hg_buf_fini(&out);
}

static void random_string(struct hg_rng *rng, char *s, uint32_t max)
{
    uint32_t n = hg_rng_below(rng, max + 1);
    for (uint32_t i = 0; i < n; i++) s[i] = (char)('a' + hg_rng_below(rng, 2 + i % 2));
    s[n] = 0;
}

static void test_random(void **state)
{
    (void)state;
    uint64_t seed = 99;
    struct hg_rng rng = {seed};
    printf("seed %llu\n", (unsigned long long)seed);
    int n_found = 0;
    for (int i = 0; i < 20000; i++) {
        char text[41], stop[4][8];
        const char *list[4] = {stop[0], stop[1], stop[2], stop[3]};
        int32_t n = (int32_t)hg_rng_below(&rng, 5);
        random_string(&rng, text, 40);
        for (int k = 0; k < 4; k++) random_string(&rng, stop[k], 7);
        size_t cut;
        bool want = reference(list, n, text, &cut);
        struct hg_buf out;
        bool found = run(list, n, text, hg_rng_below(&rng, 7), &rng, &out);
        if (found != want || out.len != cut || memcmp(out.data, text, cut) != 0)
            fail_msg("round %d: %s -> %s, wanted %zu bytes", i, text, out.data, cut);
        n_found += found;
        hg_buf_fini(&out);
    }
    assert_true(n_found > 5000);
    assert_true(n_found < 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_holds_little),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
