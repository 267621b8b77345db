/* Images are built in memory, each in a block of exactly its size so that ASan sees over-reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/rng.h"
#include "checkpoint/safetensors.h"

static struct hg_arena arena;
static struct hg_tensor *tensors;
static size_t n_tensors;
static struct hg_err err;
static uint8_t *image; /* stays until the next parse: the views point into it */

static uint8_t *build(uint64_t claimed, const char *header, size_t n_header, size_t n_data)
{
    uint8_t *p = malloc(8 + n_header + n_data);
    assert_non_null(p);
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(claimed >> (8 * i));
    if (n_header) memcpy(p + 8, header, n_header);
    for (size_t i = 0; i < n_data; i++) p[8 + n_header + i] = (uint8_t)i;
    return p;
}

static enum hg_status parse_claiming(uint64_t claimed, const char *header, size_t n_header,
                                     size_t n_data)
{
    free(image);
    image = build(claimed, header, n_header, n_data);
    hg_arena_fini(&arena);
    memset(&err, 0, sizeof err);
    return hg_safetensors_parse("a.safetensors", image, 8 + n_header + n_data, &arena, &tensors,
                                &n_tensors, &err);
}

static void good(const char *header, size_t n_data)
{
    if (parse_claiming(strlen(header), header, strlen(header), n_data) != HG_OK)
        fail_msg("%s refused: %s", header, err.text);
}

static void expect(enum hg_status got, const char *says)
{
    assert_int_equal(got, HG_EFORMAT);
    assert_int_equal(err.status, HG_EFORMAT);
    assert_int_equal(n_tensors, 0);
    if (!strstr(err.text, "a.safetensors") || !strstr(err.text, says))
        fail_msg("error \"%s\" lacks \"%s\"", err.text, says);
}

static void bad(const char *header, size_t n_data, const char *says)
{
    expect(parse_claiming(strlen(header), header, strlen(header), n_data), says);
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_valid(void **state)
{
    (void)state;
    good("{\"__metadata__\":{\"format\":\"pt\"}," T("b", "BF16", "[2,3]", "[4,16]") "," T(
             "a", "F32", "[]", "[0,4]") "}   ",
         16);
    assert_int_equal(n_tensors, 2);
    assert_string_equal(tensors[0].name, "a");
    assert_int_equal(tensors[0].rank, 0);
    assert_int_equal(hg_tensor_count(&tensors[0]), 1);
    assert_int_equal(tensors[0].dtype, HG_F32);
    assert_string_equal(tensors[1].name, "b");
    assert_int_equal(tensors[1].shape[0], 2);
    assert_int_equal(tensors[1].shape[1], 3);
    assert_int_equal(tensors[1].n_bytes, 12);
    assert_int_equal(*(const uint8_t *)tensors[1].data, 4);
    assert_string_equal(tensors[1].file, "a.safetensors");

    good("{}", 0);
    assert_int_equal(n_tensors, 0);
    good("{\"__metadata__\":{}}", 0);
    good("{" T("\\u00e9\\ud83d\\ude00", "U8", "[1]", "[0,1]") "}", 1);
    good("{" T("r8", "I64", "[1,1,1,1,1,1,1,1]", "[0,8]") "}", 8);
}

static void test_every_dtype(void **state)
{
    (void)state;
    for (int d = 0; d < HG_N_DTYPES; d++) {
        char header[256];
        size_t n = 3 * hg_dtype_size((enum hg_dtype)d);
        snprintf(header, sizeof header,
                 "{\"x\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}",
                 hg_dtype_name((enum hg_dtype)d), n);
        good(header, n);
        assert_int_equal(tensors[0].dtype, d);
        bad(header, n + 1, "1 bytes behind the last tensor");
    }
}

static void test_empty_tensors(void **state)
{
    (void)state;
    good("{" T("e", "F32", "[0,5]", "[0,0]") "}", 0);
    good("{" T("z", "F32", "[0]", "[4,4]") "," T("a", "U8", "[4]",
                                                 "[0,4]") "," T("e", "F32", "[3,0]", "[0,0]") "}",
         4);
    assert_string_equal(tensors[0].name, "e");
    assert_int_equal(hg_tensor_count(&tensors[0]), 0);
    assert_string_equal(tensors[2].name, "z");
    bad("{" T("a", "U8", "[4]", "[0,4]") "," T("e", "U8", "[0]", "[2,2]") "}", 4, "overlap");
    bad("{" T("e", "F32", "[0,4611686018427387904,8]", "[0,0]") "}", 0, "overflows");
    bad("{" T("e", "F32", "[0]", "[5,5]") "}", 4, "outside");
}

static void test_length_lies(void **state)
{
    (void)state;
    for (size_t n = 0; n < 8; n++) { /* files shorter than the length field */
        hg_arena_fini(&arena);
        uint8_t *p = calloc(1, n ? n : 1);
        expect(hg_safetensors_parse("a.safetensors", p, n, &arena, &tensors, &n_tensors, &err),
               "too short");
        free(p);
    }
    const char *h = "{" T("a", "U8", "[4]", "[0,4]") "}";
    size_t n = strlen(h);
    expect(parse_claiming(0, h, n, 4), "does not start with '{'");
    expect(parse_claiming(n - 1, h, n, 4), "bad JSON");
    expect(parse_claiming(n + 1, h, n, 4), "bad JSON");
    expect(parse_claiming(n + 5, h, n, 4), "truncated");
    expect(parse_claiming(100000001, h, n, 4), "the limit is 100000000");
    expect(parse_claiming(UINT64_MAX, h, n, 4), "18446744073709551615");
    expect(parse_claiming(UINT64_MAX - 7, h, n, 4), "the limit");
    expect(parse_claiming((uint64_t)1 << 63, h, n, 4), "the limit");
}

/* Every prefix of a valid file is refused. */
static void test_truncated(void **state)
{
    (void)state;
    const char *h = "{" T("a", "U8", "[4]", "[0,4]") "," T("b", "F16", "[2,2]", "[4,12]") "}";
    size_t n_all = 8 + strlen(h) + 12;
    uint8_t *all = build(strlen(h), h, strlen(h), 12);
    for (size_t n = 0; n <= n_all; n++) {
        uint8_t *p = malloc(n ? n : 1);
        memcpy(p, all, n);
        hg_arena_fini(&arena);
        enum hg_status s =
            hg_safetensors_parse("a.safetensors", p, n, &arena, &tensors, &n_tensors, &err);
        assert_int_equal(s, n == n_all ? HG_OK : HG_EFORMAT);
        free(p);
    }
    free(all);
}

static void test_layout(void **state)
{
    (void)state;
    bad("{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[3,7]") "}", 7, "overlap");
    bad("{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[0,4]") "}", 4, "overlap");
    bad("{" T("a", "U8", "[8]", "[0,8]") "," T("b", "U8", "[2]", "[2,4]") "}", 8, "overlap");
    bad("{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[6,10]") "}", 10,
        "hole of 2 bytes in the data before b");
    bad("{" T("a", "U8", "[4]", "[1,5]") "}", 5, "hole of 1 bytes");
    bad("{" T("a", "U8", "[4]", "[0,4]") "}", 9, "5 bytes behind");
    bad("{}", 1, "1 bytes behind");
}

static void test_offsets(void **state)
{
    (void)state;
    bad("{" T("a", "U8", "[4]", "[0,4]") "}", 3, "outside the data of 3 bytes");
    bad("{" T("a", "U8", "[4]", "[4,0]") "}", 4, "[4, 0]");
    bad("{" T("a", "U8", "[4]", "[-4,0]") "}", 4, "[-4, 0]");
    bad("{" T("a", "U8", "[4]", "[0,9223372036854775807]") "}", 4, "9223372036854775807");
    bad("{" T("a", "U8", "[4]", "[0,9223372036854775808]") "}", 4, "too big integer");
    bad("{" T("a", "U8", "[4]", "[0.0,4]") "}", 4, "two integers");
    bad("{" T("a", "U8", "[4]", "[0,4e0]") "}", 4, "two integers");
    bad("{" T("a", "U8", "[4]", "[0]") "}", 4, "two integers");
    bad("{" T("a", "U8", "[4]", "[0,4,4]") "}", 4, "two integers");
    bad("{" T("a", "U8", "[4]", "{}") "}", 4, "two integers");
    bad("{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "data_offsets (missing)");
    bad("{" T("a", "F32", "[4]", "[0,4]") "}", 4, "4 bytes of data, F32 [4] takes 16");
    bad("{" T("a", "U8", "[2,3]", "[0,5]") "}", 5, "U8 [2, 3] takes 6");
    bad("{" T("a", "F32", "[]", "[0,0]") "}", 0, "F32 [] takes 4");
}

static void test_shapes(void **state)
{
    (void)state;
    bad("{" T("a", "U8", "[4611686018427387904,8]", "[0,0]") "}", 0, "overflows");
    bad("{" T("a", "F32", "[2305843009213693952]", "[0,0]") "}", 0, "overflows");
    bad("{" T("a", "U8", "[65536,65536,65536,65536]", "[0,0]") "}", 0, "overflows");
    bad("{" T("a", "U8", "[9223372036854775807]", "[0,0]") "}", 0, "takes 9223372036854775807");
    bad("{" T("a", "U8", "[-1]", "[0,0]") "}", 0, "no integer >= 0");
    bad("{" T("a", "U8", "[-2,-2]", "[0,4]") "}", 4, "no integer >= 0");
    bad("{" T("a", "U8", "[4.0]", "[0,4]") "}", 4, "no integer >= 0");
    bad("{" T("a", "U8", "[\"4\"]", "[0,4]") "}", 4, "no integer >= 0");
    bad("{" T("a", "U8", "[null]", "[0,4]") "}", 4, "no integer >= 0");
    bad("{" T("a", "U8", "4", "[0,4]") "}", 4, "no array");
    bad("{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, "at most 8 dimensions");
    bad("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, "shape (missing)");
}

static void test_names_and_types(void **state)
{
    (void)state;
    bad("{" T("a", "U8", "[2]", "[0,2]") "," T("a", "U8", "[2]", "[2,4]") "}", 4, "duplicate");
    bad("{" T("a", "U8", "[2]", "[0,2]") "," T("\\u0061", "U8", "[2]", "[2,4]") "}", 4,
        "duplicate");
    bad("{" T("a", "Q4", "[2]", "[0,2]") "}", 2, "a: unknown dtype \"Q4\"");
    bad("{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "unknown dtype 7");
    bad("{\"a\":{\"shape\":[2],\"data_offsets\":[0,2]}}", 2, "unknown dtype (missing)");
    bad("{" T("", "U8", "[2]", "[0,2]") "}", 2, "name of 0 bytes");
    bad("{" T("a\\u001b[31m", "U8", "[2]", "[0,2]") "}", 2, "control character");
    bad("{" T("a\\u0000b", "U8", "[2]", "[0,2]") "}", 2, "bad JSON");
    bad("{\"a\":[]}", 0, "a is [], not an object");
    bad("{\"a\":null}", 0, "not an object");
    bad("{\"__metadata__\":[]}", 0, "__metadata__ is []");
    bad("{\"__metadata__\":{\"k\":1}}", 0, "not a string");
    char long_name[2048];
    memset(long_name, 'n', sizeof long_name);
    snprintf(long_name + 1000, sizeof long_name - 1000,
             "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    memcpy(long_name, "{\"", 2);
    bad(long_name, 0, "name of 998 bytes");
}

static void test_json(void **state)
{
    (void)state;
    bad("[]", 0, "does not start with '{'");
    bad(" {}", 0, "does not start with '{'");
    bad("{", 0, "bad JSON");
    bad("{}x", 0, "bad JSON");
    bad("{} {}", 0, "bad JSON");
    bad("{\"a\":\"\xff\xfe\"}", 0, "unable to decode byte");
    bad("{\"\xc3\":{}}", 0, "unable to decode byte");
    bad("{\"\xed\xa0\x80\":{}}", 0, "unable to decode byte"); /* a surrogate */
    bad("{\"a\":NaN}", 0, "bad JSON");
    bad("{'a':1}", 0, "bad JSON");
}

static void fill(struct hg_buf *b, const char *open, const char *repeat, size_t n)
{
    hg_buf_clear(b);
    hg_buf_str(b, open);
    for (size_t i = 0; i < n; i++) hg_buf_str(b, repeat);
}

static void test_huge_json(void **state)
{
    (void)state;
    struct hg_buf b;
    hg_buf_init(&b);
    fill(&b, "{\"a\":", "[", 100000);
    expect(parse_claiming(b.len, b.data, b.len, 0), "depth");
    fill(&b, "", "{\"a\":", 100000);
    expect(parse_claiming(b.len, b.data, b.len, 0), "depth");
    fill(&b, "{\"a\":[", "[],", 5000000);
    expect(parse_claiming(b.len, b.data, b.len, 0), "values, the limit is");
    hg_buf_fini(&b);
}

/* A valid file with n random bytes changed is either refused or tiles its data. */
static void test_random_damage(void **state)
{
    (void)state;
    const char *h =
        "{\"__metadata__\":{\"format\":\"pt\"}," T("b", "BF16", "[2,3]", "[4,16]") "," T(
            "a", "F32", "[]", "[0,4]") "," T("c", "U8", "[0,7]", "[16,16]") "}";
    uint64_t seed = 20;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct hg_rng rng = {seed};
    size_t n = 8 + strlen(h) + 16, n_ok = 0;
    for (int round = 0; round < 20000; round++) {
        uint8_t *p = build(strlen(h), h, strlen(h), 16);
        for (uint32_t k = 1 + hg_rng_below(&rng, 3); k > 0; k--)
            p[hg_rng_below(&rng, (uint32_t)n - 16)] ^= (uint8_t)(1u << hg_rng_below(&rng, 8));
        hg_arena_fini(&arena);
        if (hg_safetensors_parse("a", p, n, &arena, &tensors, &n_tensors, NULL) == HG_OK) {
            size_t bytes = 0;
            for (size_t i = 0; i < n_tensors; i++) bytes += tensors[i].n_bytes;
            assert_int_equal(bytes, 16);
            n_ok++;
        }
        free(p);
    }
    assert_in_range(n_ok, 1, 10000); /* a changed letter of a name is still a valid file */
}

static void test_shape_text(void **state)
{
    (void)state;
    char buf[16];
    const int64_t shape[] = {8192, 2560, INT64_MAX};
    assert_string_equal(hg_shape_text(0, NULL, buf, sizeof buf), "[]");
    assert_string_equal(hg_shape_text(2, shape, buf, sizeof buf), "[8192, 2560]");
    assert_string_equal(hg_shape_text(3, shape, buf, sizeof buf), "[8192, 2560, 92");
    assert_string_equal(hg_shape_text(3, shape, buf, 1), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),           cmocka_unit_test(test_every_dtype),
        cmocka_unit_test(test_empty_tensors),   cmocka_unit_test(test_length_lies),
        cmocka_unit_test(test_truncated),       cmocka_unit_test(test_layout),
        cmocka_unit_test(test_offsets),         cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_names_and_types), cmocka_unit_test(test_json),
        cmocka_unit_test(test_huge_json),       cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_shape_text),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    hg_arena_fini(&arena);
    free(image);
    return rc;
}
