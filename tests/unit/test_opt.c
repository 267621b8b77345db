/* Option values are read strictly, and errors name the option and the value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/opt.h"
#include "base/rng.h"

static struct hg_err err;

static void assert_refused(enum hg_status s, const char *option, const char *value)
{
    assert_int_equal(s, HG_EINVAL);
    assert_non_null(strstr(err.text, option));
    assert_non_null(strstr(err.text, value));
}

static void whole_numbers(void **state)
{
    (void)state;
    int64_t v = 7;
    assert_int_equal(hg_opt_i64("--n", "0", -5, 5, &v, &err), HG_OK);
    assert_int_equal(v, 0);
    assert_int_equal(hg_opt_i64("--n", "-5", -5, 5, &v, &err), HG_OK);
    assert_int_equal(v, -5);
    assert_int_equal(hg_opt_i64("--n", "007", 0, 9, &v, &err), HG_OK);
    assert_int_equal(v, 7);
    assert_int_equal(hg_opt_i64("--n", "9223372036854775807", 0, INT64_MAX, &v, &err), HG_OK);
    assert_true(v == INT64_MAX);
    v = 7;
    static const char *const bad[] = {"", "-", "+1", " 1", "1 ", "1x", "0x10", "1.0", "1e3", "--1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(hg_opt_i64("--n", bad[i], INT64_MIN, INT64_MAX, &v, &err), "--n:", bad[i]);
    assert_refused(hg_opt_i64("--n", "6", -5, 5, &v, &err), "--n:", "6 is not in -5..5");
    assert_refused(hg_opt_i64("--n", "9223372036854775808", 0, INT64_MAX, &v, &err), "--n:", "922");
    assert_refused(hg_opt_i64("--n", "99999999999999999999999", 0, 5, &v, &err), "--n:", "0..5");
    assert_int_equal(v, 7);

    int32_t i = 1;
    assert_int_equal(hg_opt_i32("--ctx", "32768", 1, INT32_MAX, &i, &err), HG_OK);
    assert_int_equal(i, 32768);
    assert_refused(hg_opt_i32("--ctx", "2147483648", 1, INT32_MAX, &i, &err), "--ctx:", "214748");

    uint64_t u;
    assert_int_equal(hg_opt_u64("--seed", "18446744073709551615", &u, &err), HG_OK);
    assert_true(u == UINT64_MAX);
    assert_refused(hg_opt_u64("--seed", "18446744073709551616", &u, &err), "--seed:", "1844");
    assert_refused(hg_opt_u64("--seed", "-1", &u, &err), "--seed:", "'-1'");
}

static void numbers(void **state)
{
    (void)state;
    double v;
    assert_int_equal(hg_opt_f64("--top-p", "0.95", 0, 1, &v, &err), HG_OK);
    assert_true(v == 0.95);
    assert_int_equal(hg_opt_f64("--top-p", "1e-3", 0, 1, &v, &err), HG_OK);
    assert_int_equal(hg_opt_f64("--top-p", ".5", 0, 1, &v, &err), HG_OK);
    assert_int_equal(hg_opt_f64("--bias", "-2.5", -100, 100, &v, &err), HG_OK);
    static const char *const bad[] = {"",   "x",  "1,5", "0x1p3", "inf", "nan", "1.0f",
                                      " 1", "1 ", "--1", "1.2.3", "e5",  "+1",  "."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(hg_opt_f64("--x", bad[i], -1e300, 1e300, &v, &err), "--x:", bad[i]);
    assert_refused(hg_opt_f64("--top-p", "1.5", 0, 1, &v, &err), "--top-p:", "1.5 is not in 0..1");
    assert_refused(hg_opt_f64("--x", "1e999", 0, 1e308, &v, &err), "--x:", "1e999");
}

static void sizes(void **state)
{
    (void)state;
    uint64_t v;
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"1K", 1024},
                {"512M", 512 << 20},
                {"8G", UINT64_C(8) << 30},
                {"2T", UINT64_C(2) << 40}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(hg_opt_size("--cache-host", good[i].text, &v, &err), HG_OK);
        assert_true(v == good[i].want);
    }
    static const char *const bad[] = {
        "", "G", "8g", "8GB", "8 G", "1.5G", "-1", "8GG", "8P", "0x8", "18446744073709551615K"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(hg_opt_size("--cache-host", bad[i], &v, &err), "--cache-host:", bad[i]);
}

static void lists(void **state)
{
    (void)state;
    hg_tok *ids;
    size_t n;
    assert_int_equal(hg_opt_ids("--ids", "1,0,2147483647", &ids, &n, &err), HG_OK);
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[2], INT32_MAX);
    free(ids);
    static const char *const bad[] = {"", ",", "1,", ",1", "1,,2", "1, 2", "-1", "2147483648", "a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(hg_opt_ids("--ids", bad[i], &ids, &n, &err), "--ids:", bad[i]);

    static const char *const kinds[] = {"auto", "fp8", "bf16", NULL};
    int k;
    assert_int_equal(hg_opt_word("--kv", "bf16", kinds, &k, &err), HG_OK);
    assert_int_equal(k, 2);
    assert_refused(hg_opt_word("--kv", "fp16", kinds, &k, &err), "--kv: 'fp16'", "auto, fp8, bf16");
}

static void suggestions(void **state)
{
    (void)state;
    static const char *const words[] = {"run",    "chat",    "serve",    "bench",
                                        "logits", "inspect", "tokenize", NULL};
    assert_string_equal(hg_opt_nearest("sreve", words), "serve");
    assert_string_equal(hg_opt_nearest("rn", words), "run");
    assert_string_equal(hg_opt_nearest("tokenise", words), "tokenize");
    assert_string_equal(hg_opt_nearest("inspct", words), "inspect");
    assert_string_equal(hg_opt_nearest("chta", words), "chat");
    assert_null(hg_opt_nearest("completely-different", words));
    assert_null(hg_opt_nearest("", words));
    assert_null(hg_opt_nearest("x", words));
    char longer[400];
    memset(longer, 'r', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_null(hg_opt_nearest(longer, words));
}

/* Whatever the bytes, a reader accepts only what it would print again. */
static void random_text(void **state)
{
    (void)state;
    uint64_t seed = 11;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct hg_rng rng = {seed};
    static const char alphabet[] = "0123456789-+.eEKMG,x ";
    for (int i = 0; i < 20000; i++) {
        char text[8], back[32];
        size_t n = hg_rng_below(&rng, 7);
        for (size_t j = 0; j < n; j++) text[j] = alphabet[hg_rng_below(&rng, sizeof alphabet - 1)];
        text[n] = 0;
        int64_t v;
        if (hg_opt_i64("--n", text, INT64_MIN, INT64_MAX, &v, &err) == HG_OK) {
            const char *s = text + (text[0] == '-');
            while (s[0] == '0' && s[1]) s++;
            snprintf(back, sizeof back, "%lld", (long long)(v < 0 ? -v : v));
            assert_string_equal(back, s);
        }
        double d;
        if (hg_opt_f64("--x", text, -1e300, 1e300, &d, &err) == HG_OK)
            assert_true(d == strtod(text, NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers), cmocka_unit_test(numbers),
        cmocka_unit_test(sizes),         cmocka_unit_test(lists),
        cmocka_unit_test(suggestions),   cmocka_unit_test(random_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
