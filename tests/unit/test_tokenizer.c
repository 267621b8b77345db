/* Tokenizer: ids as PyPI `tokenizers` gives them, marks, special tokens, broken text, bad files. */
#include "text/tokenizer.h"

#include <jansson.h>
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
#include "base/file.h"
#include "base/rng.h"
#include "text/bpe.h"
#include "../lib/tiny_tokenizer.h"

static struct hg_tokenizer *nano;

static struct hg_toks encode(const struct hg_tokenizer *t, const char *s, size_t n, bool special)
{
    struct hg_toks out = {0};
    struct hg_err err;
    if (hg_tokenizer_encode(t, s, n, special, NULL, 0, NULL, &out, &err)) fail_msg("%s", err.text);
    return out;
}

static void bytes_of(const struct hg_tokenizer *t, const struct hg_toks *ids, struct hg_buf *out)
{
    hg_buf_clear(out);
    for (size_t i = 0; i < ids->n; i++) {
        size_t n;
        const char *s = hg_tokenizer_bytes(t, ids->ids[i], &n);
        assert_non_null(s);
        hg_buf_add(out, s, n);
    }
}

static void assert_ids(const struct hg_toks *got, const json_t *want)
{
    assert_int_equal(got->n, json_array_size(want));
    for (size_t i = 0; i < got->n; i++)
        assert_int_equal(got->ids[i], json_integer_value(json_array_get(want, i)));
}

/* ------------------------------------------------------------------------------- nano -- */

static void golden_ids(void **state)
{
    (void)state;
    char *text;
    size_t n;
    struct hg_err err;
    int lines = 0;
    assert_int_equal(hg_file_read("tests/golden/tokenizer_nano.jsonl", 1 << 20, &text, &n, &err),
                     HG_OK);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        json_t *row = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL);
        json_t *s = json_object_get(row, "text");
        assert_true(json_is_string(s));
        struct hg_toks got = encode(nano, json_string_value(s), json_string_length(s),
                                    !json_is_true(json_object_get(row, "raw")));
        assert_ids(&got, json_object_get(row, "ids"));
        hg_toks_fini(&got);
        json_decref(row);
    }
    assert_true(lines > 500);
    free(text);
}

static void prompts_of_the_model_goldens_come_back(void **state)
{
    (void)state;
    json_t *all = json_load_file("models/nano/goldens.json", 0, NULL), *one, *id;
    size_t i, k;
    assert_true(json_array_size(all) > 0);
    json_array_foreach(all, i, one)
    {
        struct hg_toks ids = {0};
        struct hg_buf text;
        hg_buf_init(&text);
        json_array_foreach(json_object_get(one, "prompt_ids"), k, id)
            assert_true(hg_toks_push(&ids, (hg_tok)json_integer_value(id)));
        bytes_of(nano, &ids, &text);
        struct hg_toks got = encode(nano, text.data, text.len, true);
        assert_ids(&got, json_object_get(one, "prompt_ids"));
        hg_toks_fini(&got);
        hg_toks_fini(&ids);
        hg_buf_fini(&text);
    }
    json_decref(all);
}

static void lookups(void **state)
{
    (void)state;
    size_t n;
    hg_tok end = hg_tokenizer_find(nano, "<|im_end|>", 10), think;
    assert_int_equal(hg_tokenizer_size(nano), 8192);
    assert_int_equal(end, 8161);
    assert_true(hg_tokenizer_is_special(nano, end));
    assert_memory_equal(hg_tokenizer_bytes(nano, end, &n), "<|im_end|>", 10);
    assert_int_equal(n, 10);
    think = hg_tokenizer_find(nano, "<think>", 7);
    assert_int_equal(think, 8183);
    assert_false(hg_tokenizer_is_special(nano, think));
    assert_int_equal(hg_tokenizer_find(nano, "<|im_end", 8), -1);
    assert_int_equal(hg_tokenizer_find(nano, "", 0), -1);
    hg_tok space = hg_tokenizer_find(nano, " ", 1);
    assert_memory_equal(hg_tokenizer_bytes(nano, space, &n), " ", 1);
    assert_null(hg_tokenizer_bytes(nano, -1, &n));
    assert_null(hg_tokenizer_bytes(nano, 8192, &n));
    assert_false(hg_tokenizer_is_special(nano, 8192));
    assert_false(hg_tokenizer_is_special(nano, space));
}

static void marks(void **state)
{
    (void)state;
    const char *text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    size_t n = strlen(text), second = (size_t)(strstr(text + 1, "<|im_start") - text);
    const size_t at[] = {0, 0, 3, 12, 14, 19, second, second + 12, n, n + 5};
    int64_t got[10];
    struct hg_toks out = {0};
    struct hg_err err;
    assert_true(hg_toks_push(&out, 7)); /* ids are appended, marks count from the array's start */
    assert_int_equal(hg_tokenizer_encode(nano, text, n, true, at, 10, got, &out, &err), HG_OK);
    const int64_t edges[] = {0, 1, 3, 5, 6, 7, 8};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        int64_t k = got[edges[i]];
        assert_in_range(k, 1, out.n);
        struct hg_toks part = encode(nano, text, at[edges[i]], true);
        assert_int_equal(part.n, (size_t)k - 1); /* cutting there keeps the tokens */
        if (part.n) assert_memory_equal(part.ids, out.ids + 1, part.n * sizeof *part.ids);
        hg_toks_fini(&part);
    }
    assert_int_equal(got[2], -1); /* inside an added token */
    assert_int_equal(got[4], -1); /* inside plain text */
    assert_int_equal(got[9], -1); /* beyond the text */
    out.n = 0;
    const size_t zero = 0;
    assert_int_equal(hg_tokenizer_encode(nano, "", 0, true, &zero, 1, got, &out, &err), HG_OK);
    assert_int_equal(got[0], 0);
    assert_int_equal(out.n, 0);
    /* As plain text the same places are no edges. */
    assert_int_equal(hg_tokenizer_encode(nano, text, n, false, at, 10, got, &out, &err), HG_OK);
    assert_int_equal(got[3], -1);
    assert_int_equal(got[6], -1);
    hg_toks_fini(&out);
}

static void special_tokens_as_plain_text(void **state)
{
    (void)state;
    const char *text = "<|im_end|><think>";
    struct hg_toks a = encode(nano, text, strlen(text), true);
    struct hg_toks b = encode(nano, text, strlen(text), false);
    assert_int_equal(a.n, 2);
    assert_true(b.n > 2);
    assert_int_equal(b.ids[b.n - 1], 8183); /* not special: recognised all the same */
    for (size_t i = 0; i + 1 < b.n; i++) assert_true(b.ids[i] < 8159);
    hg_toks_fini(&a);
    hg_toks_fini(&b);
}

/* Any bytes whatever come back, but for NFC: use text that it does not touch. */
static void broken_text_keeps_its_bytes(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    struct hg_rng rng = {seed};
    struct hg_buf in, out;
    hg_buf_init(&in);
    hg_buf_init(&out);
    for (int round = 0; round < 20000; round++) {
        static const char *const bits[] = {
            "a",       " the",     "\n",           "\xff",         "\x80",
            "\xc3",    "\xa9",     "\xe2\x82",     "\xf0\x9f\x98", "\xed\xa0\x80",
            "<think>", "<|im_end", "\xe4\xbd\xa0", "\xf5",         "\xc0\xaf"};
        hg_buf_clear(&in);
        for (uint32_t k = hg_rng_below(&rng, 12); k > 0; k--)
            hg_buf_str(&in, bits[hg_rng_below(&rng, sizeof bits / sizeof *bits)]);
        struct hg_toks ids = encode(nano, in.data, in.len, true);
        bytes_of(nano, &ids, &out);
        assert_int_equal(in.len, out.len);
        if (in.len) assert_memory_equal(in.data, out.data, in.len);
        hg_toks_fini(&ids);
    }
    struct hg_toks ids = encode(nano, "\xff\xfe", 2, true);
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.ids[0], hg_tokenizer_find(nano, "\xff", 1));
    hg_toks_fini(&ids);
    hg_buf_fini(&in);
    hg_buf_fini(&out);
}

static void a_megabyte_of(const char *unit)
{
    struct hg_buf in, out;
    hg_buf_init(&in);
    hg_buf_init(&out);
    while (in.len < 1 << 20) hg_buf_str(&in, unit);
    double start = hg_now();
    struct hg_toks ids = encode(nano, in.data, in.len, true);
    assert_true(hg_now() - start < 20);
    bytes_of(nano, &ids, &out);
    assert_int_equal(out.len, in.len);
    assert_memory_equal(out.data, in.data, in.len);
    hg_toks_fini(&ids);
    hg_buf_fini(&in);
    hg_buf_fini(&out);
}

static void long_words(void **state)
{
    (void)state;
    static const char *const units[] = {"a", " ", "abcdefghij", "\xe4\xbd\xa0", "=", "<", "\xff"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) a_megabyte_of(units[i]);
}

/* -------------------------------------------------------------------------------- BPE -- */

/* The definition: merge the leftmost pair of the lowest rank until there is none. */
static size_t slow_bpe(const char *const merges[][2], size_t n_merges, const char *w, size_t n,
                       size_t *len)
{
    for (size_t i = 0; i < n; i++) len[i] = 1;
    for (size_t r = 0; r < n_merges;) {
        size_t i, at = 0;
        for (i = 0; i + 1 < n; at += len[i++])
            if (len[i] == strlen(merges[r][0]) && len[i + 1] == strlen(merges[r][1]) &&
                !memcmp(w + at, merges[r][0], len[i]) &&
                !memcmp(w + at + len[i], merges[r][1], len[i + 1]))
                break;
        if (i + 1 >= n) {
            r++;
            continue;
        }
        len[i] += len[i + 1];
        memmove(len + i + 1, len + i + 2, (n - i - 2) * sizeof *len);
        n--;
        r = 0;
    }
    return n;
}

static void both_ways_of_merging_follow_the_definition(void **state)
{
    (void)state;
    static const char *const merges[][2] = {{"b", "c"},   {"a", "b"}, {"a", "bc"},  {"a", "a"},
                                            {"aa", "aa"}, {"c", "a"}, {"ab", "ca"}, {"bc", "bc"}};
    enum { N = sizeof merges / sizeof *merges };
    struct hg_bpe b;
    char names[256 + N][8] = {{0}};
    assert_true(hg_bpe_init(&b, N));
    for (int i = 0; i < 256; i++) b.byte_id[i] = i;
    for (int i = 'a'; i <= 'c'; i++) names[i][0] = (char)i;
    for (int m = 0; m < N; m++) {
        int left = -1, right = -1;
        for (int i = 0; i < 256 + m; i++) {
            if (!strcmp(names[i], merges[m][0])) left = i;
            if (!strcmp(names[i], merges[m][1])) right = i;
        }
        assert_true(hg_bpe_add(&b, left, right, 256 + m));
        assert_false(hg_bpe_add(&b, left, right, 256 + m));
        strcat(strcpy(names[256 + m], merges[m][0]), merges[m][1]);
    }
    hg_bpe_finish(&b);
    struct hg_rng rng = {7};
    for (int round = 0; round < 3000; round++) {
        char w[300];
        size_t len[300], n = 1 + hg_rng_below(&rng, round % 3 ? 30 : 300), at = 0;
        for (size_t i = 0; i < n; i++) w[i] = (char)('a' + hg_rng_below(&rng, 3));
        struct hg_toks got = {0};
        assert_true(hg_bpe_encode(&b, w, n, &got));
        assert_int_equal(got.n, slow_bpe(merges, N, w, n, len));
        for (size_t i = 0; i < got.n; at += len[i++]) {
            assert_int_equal(strlen(names[got.ids[i]]), len[i]);
            assert_memory_equal(names[got.ids[i]], w + at, len[i]);
        }
        hg_toks_fini(&got);
    }
    hg_bpe_fini(&b);
}

/* ---------------------------------------------------------------------- small tokenizers -- */

static enum hg_status parse_tiny(const struct tiny *t, struct hg_tokenizer **out,
                                 struct hg_err *err)
{
    struct hg_buf b;
    hg_buf_init(&b);
    tiny_json(t, &b);
    *out = NULL;
    enum hg_status s = hg_tokenizer_parse("tiny", b.data, b.len, out, err);
    hg_buf_fini(&b);
    return s;
}

static void check_tiny(const struct tiny *spec, const char *text, const hg_tok *want, size_t n)
{
    struct hg_tokenizer *t;
    struct hg_err err;
    if (parse_tiny(spec, &t, &err)) fail_msg("%s", err.text);
    struct hg_toks got = encode(t, text, strlen(text), true);
    assert_int_equal(got.n, n);
    if (n) assert_memory_equal(got.ids, want, n * sizeof *want);
    hg_toks_fini(&got);
    hg_tokenizer_free(t);
}

#define TINY(spec, text, ...)                                                                      \
    do {                                                                                           \
        const hg_tok want_[] = {__VA_ARGS__};                                                      \
        check_tiny(&(struct tiny)spec, text, want_, sizeof want_ / sizeof *want_);                 \
    } while (0)
#define WITH(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void small_tokenizers(void **state)
{
    (void)state;
    TINY(WITH(0), "abc ab aaaaa xyz", 258, ' ', 256, ' ', 261, 'a', ' ', 'x', 'y', 'z');
    /* xyz is a token that merging does not reach: only ignore_merges gives it */
    TINY(WITH(.model = ",\"ignore_merges\":true"), "xyz xyz", 259, ' ', 'x', 'y', 'z');
    /* added tokens: leftmost, then longest; <s><s> beats <s> */
    TINY(WITH(0), "<s><s><s>", 302, 300);
    TINY(WITH(0), "<<s><sx><s", '<', 300, 301, '<', 's');
    TINY(WITH(.added = ""), "<s>", '<', 's', '>');
    /* normalizers */
    TINY(WITH(0), "e\xcc\x81", 0xc3, 0xa9);
    TINY(WITH(.normalizer = "null"), "e\xcc\x81", 'e', 0xcc, 0x81);
    TINY(WITH(.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[]}"), "e\xcc\x81", 'e', 0xcc,
         0x81);
    TINY(WITH(.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]}"),
         "e\xcc\x81", 0xc3, 0xa9);
    /* pre-tokenizers: with GPT-2's pattern a digit may follow a space */
    TINY(WITH(.pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                               "\"trim_offsets\":true,\"use_regex\":true}"),
         "a a", 'a', 262);
    TINY(WITH(.pattern = "a|b"), "abaa", 'a', 'b', 'a', 'a');
}

static void bad_files(void **state)
{
    (void)state;
#define ADD(x) WITH(.added = "{\"id\":300,\"content\":\"<s>\"," x "}")
    static const struct {
        struct tiny spec;
        enum hg_status status;
        const char *says;
    } cases[] = {
        {WITH(.merges = "[\"a\",\"b\"],[\"a\",\"b\"]"), HG_EFORMAT,
         "tiny: model.merges[1] repeats \"a\" \"b\""},
        {WITH(.merges = "[\"a\",\"q\"]"), HG_EFORMAT, "merges[0]: no token \"aq\""},
        {WITH(.merges = "[\"a\",\"nope\"]"), HG_EFORMAT, "merges[0]: no token \"nope\""},
        {WITH(.merges = "[\"\",\"a\"]"), HG_EFORMAT, "no token \"\""},
        {WITH(.merges = "[\"a\"]"), HG_EFORMAT, "merges[0] is no pair"},
        {WITH(.merges = "\"ab\""), HG_EFORMAT, "merges[0] is no pair"},
        {WITH(.merges = "\"a b c\""), HG_EFORMAT, "merges[0] is no pair"},
        {WITH(.merges = "7"), HG_EFORMAT, "merges[0] is no pair"},
        {WITH(.merges = "", .vocab = ",\"ab\":97"), HG_EFORMAT, "id 97 is given twice"},
        {WITH(.merges = "", .vocab = ",\"a\":400"), HG_EFORMAT, "duplicate"},
        {WITH(.merges = "", .vocab = ",\"ab\":-1"), HG_EFORMAT, "id -1 of \"ab\""},
        {WITH(.merges = "", .vocab = ",\"ab\":16777216"), HG_EFORMAT, "16777216"},
        {WITH(.merges = "", .vocab = ",\"ab\":99999999999999999999"), HG_EFORMAT, "big"},
        {WITH(.merges = "", .vocab = ",\"ab\":\"1\""), HG_EFORMAT, "id of \"ab\" is a string"},
        {WITH(.skip_byte = 0xfe), HG_EFORMAT, "no token for byte 0xfe"},
        {WITH(.merges = "", .vocab = ",\"\xff\":256"), HG_EFORMAT, "decode byte 0xff"},
        {WITH(.normalizer = "{\"type\":\"Lowercase\"}"), HG_EUNSUP, "normalizer Lowercase"},
        {WITH(.normalizer = "3"), HG_EUNSUP, "normalizer an integer"},
        {WITH(.normalizer = "{\"type\":\"Sequence\"}"), HG_EFORMAT, "normalizers is missing"},
        {WITH(.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"}]}"),
         HG_EUNSUP, "NFKC"},
        {WITH(.pre_tokenizer = "{\"type\":\"Metaspace\"}"), HG_EUNSUP, "Metaspace"},
        {WITH(.pre_tokenizer = "null"), HG_EUNSUP, "null"},
        {WITH(.pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"), HG_EUNSUP,
         "add_prefix_space"},
        {WITH(.pre_tokenizer = "{\"type\":\"ByteLevel\",\"use_regex\":false}"), HG_EUNSUP,
         "use_regex false without a Split"},
        {WITH(.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[]}"), HG_EUNSUP,
         "Sequence of 0"},
        {WITH(.pattern = "\\bx"), HG_EUNSUP, "tiny: pattern: an escape"},
        {WITH(.model = ",\"byte_fallback\":true"), HG_EUNSUP, "byte_fallback"},
        {WITH(.model = ",\"byte_fallback\":1"), HG_EFORMAT, "expected a boolean"},
        {WITH(.model = ",\"dropout\":0.1"), HG_EUNSUP, "dropout"},
        {WITH(.model = ",\"end_of_word_suffix\":\"</w>\""), HG_EUNSUP, "end_of_word_suffix"},
        {ADD("\"lstrip\":true"), HG_EUNSUP, "\"<s>\": lstrip true"},
        {ADD("\"rstrip\":true"), HG_EUNSUP, "rstrip"},
        {ADD("\"single_word\":true"), HG_EUNSUP, "single_word"},
        {ADD("\"normalized\":true"), HG_EUNSUP, "normalized"},
        {ADD("\"special\":\"yes\""), HG_EFORMAT, "special is a string"},
        {WITH(.added = "{\"id\":97,\"content\":\"<s>\"}"), HG_EFORMAT, "taken by \"a\""},
        {WITH(.added = "{\"id\":300,\"content\":\"abc\"}"), HG_EFORMAT, "in model.vocab it is 258"},
        {WITH(.added = "{\"id\":300,\"content\":\"<s>\"},{\"id\":301,\"content\":\"<s>\"}"),
         HG_EFORMAT, "given twice"},
        {WITH(.added = "{\"id\":300,\"content\":\"<s>\"},{\"id\":300,\"content\":\"<s>\"}"),
         HG_EFORMAT, "taken by"},
        {WITH(.added = "{\"id\":300,\"content\":\"\"}"), HG_EFORMAT, "0 bytes"},
        {WITH(.added = "{\"id\":300}"), HG_EFORMAT, "content is missing"},
        {WITH(.added = "3"), HG_EFORMAT, "content is missing"},
        {WITH(.added = "{\"content\":\"<s>\"}"), HG_EFORMAT, "id of \"<s>\" is missing"},
    };
#undef ADD
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hg_tokenizer *t;
        struct hg_err err = {0};
        enum hg_status s = parse_tiny(&cases[i].spec, &t, &err);
        if (s != cases[i].status || !strstr(err.text, cases[i].says) ||
            strncmp(err.text, "tiny: ", 6) != 0)
            fail_msg("case %zu (%s): %d %s", i, cases[i].says, s, err.text);
    }
}

static void bad_json(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"model\":3}",
        "{\"model\":{\"type\":\"WordPiece\"}}",
        "{\"model\":{\"vocab\":[],\"merges\":[]}}",
        "{\"model\":{\"vocab\":{}}}",
        "{\"model\":{\"vocab\":{},\"merges\":[]}}",
        "{\"model\":{\"vocab\":{},\"merges\":[]},\"added_tokens\":{}}",
        "{\"model\":{}} x",
    };
    struct hg_tokenizer *t = NULL;
    struct hg_err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_not_equal(hg_tokenizer_parse("f", cases[i], strlen(cases[i]), &t, &err), HG_OK);
        assert_memory_equal(err.text, "f: ", 3);
        assert_null(t);
    }
    struct hg_buf deep;
    hg_buf_init(&deep);
    for (int i = 0; i < 100000; i++) hg_buf_char(&deep, '[');
    assert_int_equal(hg_tokenizer_parse("deep", deep.data, deep.len, &t, &err), HG_EFORMAT);
    hg_buf_fini(&deep);
    assert_int_equal(hg_tokenizer_open("tests/no-such", &t, &err), HG_EIO);
    assert_non_null(strstr(err.text, "tests/no-such/tokenizer.json"));
    assert_int_equal(hg_tokenizer_parse("f", "{", 1, &t, NULL), HG_EFORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_ids),
        cmocka_unit_test(prompts_of_the_model_goldens_come_back),
        cmocka_unit_test(lookups),
        cmocka_unit_test(marks),
        cmocka_unit_test(special_tokens_as_plain_text),
        cmocka_unit_test(broken_text_keeps_its_bytes),
        cmocka_unit_test(long_words),
        cmocka_unit_test(both_ways_of_merging_follow_the_definition),
        cmocka_unit_test(small_tokenizers),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(bad_json),
    };
    struct hg_err err;
    double start = hg_now();
    if (hg_tokenizer_open("models/nano", &nano, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("models/nano loaded in %.1f ms\n", (hg_now() - start) * 1e3);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hg_tokenizer_free(nano);
    return failed;
}
