/* The output parser: a corpus of good and bad outputs, each parsed whole, character by character
 * and in random pieces with equal events; what must not be late; limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/rng.h"
#include "text/output.h"
#include "text/unicode.h"
#include "output_corpus.h"

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"t\":{\"type\":\"string\"},"
    "\"i\":{\"type\":\"integer\"},\"x\":{\"type\":\"number\"},\"b\":{\"type\":\"boolean\"},"
    "\"a\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"o\":{\"type\":\"object\"},"
    "\"z\":{\"type\":\"null\"},\"ni\":{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]},"
    "\"ns\":{\"type\":[\"string\",\"null\"]},\"si\":{\"type\":[\"string\",\"integer\"]},"
    "\"sa\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\"},{\"type\":\"null\"}]},"
    "\"r\":{\"$ref\":\"#/$defs/R\"},\"loop\":{\"$ref\":\"#/$defs/Loop\"},"
    "\"e\":{\"type\":[\"string\",\"null\"],\"enum\":[\"on\",\"None\"]},"
    "\"en\":{\"enum\":[1,2]},\"py\":{\"type\":\"dict\"},\"u\":{}},"
    "\"$defs\":{\"R\":{\"type\":\"array\"},\"Loop\":{\"$ref\":\"#/$defs/Loop\"}}}}},"
    "{\"name\":\"flat\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"i\":{\"type\":\"integer\"}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]";

/* ---------------------------------------------------------------------------- recording -- */

/* Events as one line: R:reasoning| T:text| name{arguments}; with equal neighbours merged. */
struct record {
    struct hg_buf line, args;
    int last; /* event type of the text being merged, or -1 */
    int32_t n_calls;
    bool open;
    size_t n_events, longest;
};

static void check_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        int len = hg_utf8_check(s + i, n - i);
        assert_true(len > 0);
        i += (size_t)len;
    }
}

static json_t *load(const char *s, size_t n)
{
    return json_loadb(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
}

static void on_event(void *ctx, enum hg_event_type type, int32_t index, const char *name,
                     const char *text, size_t n)
{
    struct record *r = ctx;
    r->n_events++;
    if (n > r->longest) r->longest = n;
    check_utf8(text, n);
    switch (type) {
    case HG_EV_TEXT:
    case HG_EV_REASONING:
        assert_false(r->open);
        assert_true(n > 0);
        if (r->last != (int)type) hg_buf_str(&r->line, type == HG_EV_TEXT ? "|T:" : "|R:");
        hg_buf_add(&r->line, text, n);
        r->last = (int)type;
        return;
    case HG_EV_TOOL_BEGIN:
        assert_false(r->open);
        assert_int_equal(index, r->n_calls);
        hg_buf_printf(&r->line, "|%s", name);
        hg_buf_clear(&r->args);
        r->open = true;
        break;
    case HG_EV_TOOL_ARGS:
        assert_true(r->open);
        assert_int_equal(index, r->n_calls);
        hg_buf_add(&r->args, text, n);
        break;
    case HG_EV_TOOL_END: {
        assert_true(r->open);
        assert_int_equal(index, r->n_calls++);
        json_t *v = load(r->args.data, r->args.len);
        if (!json_is_object(v)) fail_msg("arguments are no object: %s", r->args.data);
        json_decref(v);
        hg_buf_add(&r->line, r->args.data, r->args.len);
        hg_buf_char(&r->line, ';');
        r->open = false;
        break;
    }
    default: fail_msg("event type %d", (int)type);
    }
    r->last = -1;
}

static void record_init(struct record *r)
{
    memset(r, 0, sizeof *r);
    r->last = -1;
}

static void record_fini(struct record *r)
{
    hg_buf_fini(&r->line);
    hg_buf_fini(&r->args);
}

/* Bytes of the next piece at s: a random number of characters, 1..max. */
static size_t piece(const char *s, size_t n, uint32_t max, struct hg_rng *rng)
{
    size_t i = 0;
    for (uint32_t k = 1 + hg_rng_below(rng, max); k > 0 && i < n; k--) {
        int len = hg_utf8_check(s + i, n - i);
        assert_true(len > 0);
        i += (size_t)len;
    }
    return i;
}

/* Parses s in pieces of 1..max characters; 0 = in one. */
static void parse(struct record *r, const struct hg_output_params *p, const char *s, size_t n,
                  uint32_t max, struct hg_rng *rng)
{
    record_init(r);
    struct hg_output_sink sink = {on_event, r};
    struct hg_output *o = hg_output_create(p);
    assert_non_null(o);
    for (size_t i = 0, k; i < n; i += k) {
        k = max ? piece(s + i, n - i, max, rng) : n;
        assert_int_equal(hg_output_feed(o, s + i, k, &sink), HG_OK);
    }
    assert_int_equal(hg_output_finish(o, &sink), HG_OK);
    assert_false(r->open);
    assert_int_equal(hg_output_n_calls(o), r->n_calls);
    assert_int_equal(hg_output_feed(o, "x", 1, &sink), HG_OK); /* too late: ignored */
    assert_int_equal(hg_output_finish(o, &sink), HG_OK);
    hg_output_free(o);
    if (!r->line.data) hg_buf_add(&r->line, "", 0);
}

static uint64_t seed = 20240607;

/* All ways of cutting the text give the same events; returns them in *whole. */
static void parse_all_ways(struct record *whole, const struct hg_output_params *p, const char *s,
                           size_t n, int n_random)
{
    struct hg_rng rng = {seed};
    parse(whole, p, s, n, 0, &rng);
    for (int i = 0; i <= n_random; i++) {
        struct record r;
        parse(&r, p, s, n, i == 0 ? 1 : 1 + hg_rng_below(&rng, 24), &rng);
        if (r.line.len != whole->line.len || memcmp(r.line.data, whole->line.data, r.line.len) != 0)
            fail_msg("seed %llu, split %d of: %s\nwhole: %s\nsplit: %s", (unsigned long long)seed,
                     i, s, whole->line.data, r.line.data);
        record_fini(&r);
    }
}

/* -------------------------------------------------------------------------------- corpus -- */

/* Failures reported against other engines, with the behaviour wanted instead. Streamed arguments
 * cut or unequal to the whole (vllm#20678, #19056) and strings in one lump (vllm#30439,
 * sglang#27005) are what parse_all_ways and test_nothing_is_late look at. */
static const struct {
    const char *issue;
    struct sample sample;
} neighbours[] = {
    {"vllm#22975: call left in the text",
     {0, "I'll look.\n" CALL(P("s", "v")), "|T:I'll look.|f{\"s\": \"v\"};"}},
    {"vllm#39056: call inside reasoning lost",
     {THINK, "Let me look.\n" CALL(P("s", "v")), "|R:Let me look.|f{\"s\": \"v\"};"}},
    {"vllm#40861: header and parameters in different pieces",
     {0, CALL(P("s", "v") P("i", "1")), "|f{\"s\": \"v\", \"i\": 1};"}},
    {"vllm#40861: </parameter> in code",
     {0, CALL(P("s", "if (x == \"</parameter>\")\n  y();")),
      "|f{\"s\": \"if (x == \\\"</parameter>\\\")\\n  y();\"};"}},
    {"vllm#40861: anyOf with null", {0, CALL(P("ni", "3")), "|f{\"ni\": 3};"}},
    {"club-3090#145: calls with reasoning",
     {THINK, "hm\n</think>\n\n" CALL(P("a", "[1]")), "|R:hm|f{\"a\": [1]};"}},
    {"llama.cpp#22878: two calls",
     {0, CALL(P("i", "1")) "\n" CALL(P("i", "2")), "|f{\"i\": 1};|f{\"i\": 2};"}},
    {"Rapid-MLX#171: raw XML in the text",
     {0, "<tool_call>\n</tool_call>\nok </tool_call>", "|T:\n\nok "}},
    {"Qwen3-Coder#480: arrays and objects",
     {0, CALL(P("a", "[{\"k\": [1, 2]}]") P("o", "{\"k\": null}")),
      "|f{\"a\": [{\"k\":[1,2]}], \"o\": {\"k\":null}};"}},
    {"langchain-qwq#19: first argument missing",
     {0, "<tool_call><function=f><parameter=i>1</parameter><parameter=s>v</parameter></function>",
      "|f{\"i\": 1, \"s\": \"v\"};"}},
    {"model_server#3727: quotes and newlines not escaped",
     {0, CALL(P("s", "a \"b\"\nc\\d")), "|f{\"s\": \"a \\\"b\\\"\\nc\\\\d\"};"}},
};

static json_t *tools(void)
{
    json_t *t = json_loads(tools_text, 0, NULL);
    assert_non_null(t);
    return t;
}

static void check_sample(const struct sample *c, const char *what, json_t *t)
{
    struct hg_output_params p = {.in_reasoning = c->flags & THINK,
                                 .tools = c->flags & NO_TOOLS ? NULL : t};
    struct record r;
    parse_all_ways(&r, &p, c->text, strlen(c->text), 30);
    if (strcmp(r.line.data, c->events) != 0)
        fail_msg("%s: %s\nwanted: %s\n   got: %s", what, c->text, c->events, r.line.data);
    record_fini(&r);
}

static void test_corpus(void **state)
{
    (void)state;
    json_t *t = tools();
    printf("%zu outputs\n", sizeof corpus / sizeof *corpus);
    for (size_t i = 0; i < sizeof corpus / sizeof *corpus; i++)
        check_sample(&corpus[i], "corpus", t);
    json_decref(t);
}

static void test_neighbours(void **state)
{
    (void)state;
    json_t *t = tools();
    for (size_t i = 0; i < sizeof neighbours / sizeof *neighbours; i++)
        check_sample(&neighbours[i].sample, neighbours[i].issue, t);
    json_decref(t);
}

/* Every prefix of every sample is an output cut short: valid arguments, same for all splits. */
static void test_prefixes(void **state)
{
    (void)state;
    json_t *t = tools();
    for (size_t i = 0; i < sizeof corpus / sizeof *corpus; i++) {
        const struct sample *c = &corpus[i];
        struct hg_output_params p = {.in_reasoning = c->flags & THINK, .tools = t};
        for (size_t n = 0; n < strlen(c->text); n++) {
            if (((unsigned char)c->text[n] & 0xc0) == 0x80) continue;
            struct record r;
            parse_all_ways(&r, &p, c->text, n, 1);
            record_fini(&r);
        }
    }
    json_decref(t);
}

/* Random strings of markup, where anything may follow anything. */
static void test_soup(void **state)
{
    (void)state;
    /* clang-format off */
    static const char *const parts[] = {
        "<tool_call>", "</tool_call>", "<function=", "f>", "<function=f>", "</function>",
        "<parameter=", "s>", "<parameter=s>", "<parameter=i>", "<parameter=a>", "</parameter>",
        "<think>", "</think>", "\n", "\n", "\n", " ", "[", "]", "{", "}", "{\"name\": \"f\"",
        "\"", "'", "\\", ",", ":", "5", "null", "True", "é", "<", ">", "x", "\\u00e9", "\\ud83d",
    };
    /* clang-format on */
    json_t *t = tools();
    struct hg_rng rng = {seed};
    for (int i = 0; i < 4000; i++) {
        struct hg_buf b;
        hg_buf_init(&b);
        hg_buf_str(&b, i % 2 ? "<tool_call>\n<function=f>\n" : "");
        for (uint32_t k = hg_rng_below(&rng, 30); k > 0; k--)
            hg_buf_str(&b, parts[hg_rng_below(&rng, sizeof parts / sizeof *parts)]);
        struct hg_output_params p = {.in_reasoning = i % 3 == 0, .tools = t};
        struct record r;
        parse_all_ways(&r, &p, b.data ? b.data : "", b.len, 2);
        record_fini(&r);
        hg_buf_fini(&b);
    }
    json_decref(t);
}

/* ------------------------------------------------------------------------------ streaming -- */

static void feed(struct hg_output *o, struct record *r, const char *s)
{
    struct hg_output_sink sink = {on_event, r};
    assert_int_equal(hg_output_feed(o, s, strlen(s), &sink), HG_OK);
}

/* Text and string arguments leave at once; only what may be markup is held. */
static void test_nothing_is_late(void **state)
{
    (void)state;
    json_t *t = tools();
    struct hg_output_params p = {.tools = t};
    struct hg_output *o = hg_output_create(&p);
    struct record r;
    record_init(&r);
    feed(o, &r, "Hello wo");
    assert_string_equal(r.line.data, "|T:Hello wo");
    feed(o, &r, "rld. <b");
    assert_string_equal(r.line.data, "|T:Hello world. <b");
    feed(o, &r, " <tool_");
    assert_string_equal(r.line.data, "|T:Hello world. <b");
    feed(o, &r, "call>\n<function=f>\n<para");
    assert_string_equal(r.args.data, "{");
    feed(o, &r, "meter=s>\nline one");
    assert_string_equal(r.args.data, "{\"s\": \"line one");
    feed(o, &r, "\nline \"two\"\n");
    assert_string_equal(r.args.data, "{\"s\": \"line one\\nline \\\"two\\\"");
    feed(o, &r, "</div>\n<");
    assert_string_equal(r.args.data, "{\"s\": \"line one\\nline \\\"two\\\"\\n</div>");
    feed(o, &r, "/parameter>\n<parameter=i>\n1");
    assert_string_equal(r.args.data, "{\"s\": \"line one\\nline \\\"two\\\"\\n</div>\", \"i\": ");
    feed(o, &r, "2\n</parameter>\n<parameter=sa>\nfree text");
    assert_non_null(strstr(r.args.data, "\"i\": 12, \"sa\": \"free text"));
    struct hg_output_sink sink = {on_event, &r};
    assert_int_equal(hg_output_finish(o, &sink), HG_OK);
    assert_non_null(strstr(r.line.data, "\"sa\": \"free text\"};"));
    hg_output_free(o);
    record_fini(&r);
    json_decref(t);
}

/* A long string comes in many pieces; what is held back is bounded. */
static void test_long_string(void **state)
{
    (void)state;
    json_t *t = tools();
    struct hg_output_params p = {.tools = t};
    struct hg_output *o = hg_output_create(&p);
    struct record r;
    record_init(&r);
    feed(o, &r, "<tool_call>\n<function=f>\n<parameter=s>\n");
    size_t n_fed = 0;
    for (int i = 0; i < 20000; i++) {
        const char *s = i % 7 == 0 ? "</parameter>" : i % 5 == 0 ? "\n" : "word <x ";
        feed(o, &r, s);
        n_fed += strlen(s);
        assert_true(r.args.len + 64 > n_fed);
    }
    assert_true(r.n_events > 10000);
    assert_true(r.longest < 100);
    struct hg_output_sink sink = {on_event, &r};
    assert_int_equal(hg_output_finish(o, &sink), HG_OK);
    hg_output_free(o);
    record_fini(&r);

    /* White space in front of a possible call is held to 1024 bytes. */
    o = hg_output_create(&p);
    record_init(&r);
    for (int i = 0; i < 5000; i++) feed(o, &r, "\n");
    assert_int_equal(r.line.len, 3 + 5000 - 1024);
    hg_output_free(o);
    record_fini(&r);
    json_decref(t);
}

static void test_limits(void **state)
{
    (void)state;
    json_t *t = tools();
    struct hg_output_params p = {.tools = t};
    struct hg_rng rng = {seed};
    struct record r;
    struct hg_buf b;

    /* A value too long to be parsed as a whole becomes a string. */
    hg_buf_init(&b);
    hg_buf_str(&b, "<tool_call>\n<function=f>\n<parameter=a>\n[");
    while (b.len < (1 << 24) + 1000) hg_buf_str(&b, "1234567, 1234567, 1234567, 1234567, ");
    hg_buf_str(&b, "1]\n</parameter>\n</function>\n</tool_call>");
    parse(&r, &p, b.data, b.len, 0, &rng);
    assert_memory_equal(r.line.data, "|f{\"a\": \"[1234567, ", 18);
    assert_string_equal(r.line.data + r.line.len - 7, ", 1]\"};");
    record_fini(&r);

    /* And so does one nested too deep. */
    hg_buf_clear(&b);
    hg_buf_str(&b, "<tool_call>\n<function=f>\n<parameter=a>\n");
    for (int i = 0; i < 100000; i++) hg_buf_char(&b, '[');
    parse(&r, &p, b.data, b.len, 0, &rng);
    assert_memory_equal(r.line.data, "|f{\"a\": \"[[[", 12);
    record_fini(&r);

    /* More than 1024 parameters: the rest is dropped. */
    hg_buf_clear(&b);
    hg_buf_str(&b, "<tool_call>\n<function=f>\n");
    for (int i = 0; i < 1500; i++) hg_buf_printf(&b, "<parameter=k%d>\n%d\n</parameter>\n", i, i);
    hg_buf_str(&b, "</function>\n</tool_call>");
    parse(&r, &p, b.data, b.len, 0, &rng);
    assert_string_equal(r.line.data + r.line.len - 17, "\"k1023\": \"1023\"};");
    record_fini(&r);

    /* Names and keys over 256 bytes are none. */
    hg_buf_clear(&b);
    hg_buf_str(&b, "<tool_call>\n<function=");
    for (int i = 0; i < 257; i++) hg_buf_char(&b, 'n');
    hg_buf_str(&b, ">x");
    parse_all_ways(&r, &p, b.data, b.len, 3);
    assert_memory_equal(r.line.data, "|T:\n<function=nnn", 17);
    record_fini(&r);
    hg_buf_fini(&b);
    json_decref(t);
}

static void test_forced(void **state)
{
    (void)state;
    json_t *t = tools();
    struct hg_output_params p = {.tools = t, .forced = "<tool_call>\n<function=f>\n"};
    struct record r;
    const char *s = P("i", "5") "</function>\n</tool_call>";
    parse_all_ways(&r, &p, s, strlen(s), 20);
    assert_string_equal(r.line.data, "|f{\"i\": 5};");
    record_fini(&r);
    parse_all_ways(&r, &p, "", 0, 1);
    assert_string_equal(r.line.data, "|f{};");
    record_fini(&r);
    p.forced = "<tool_call>\n";
    s = "<function=g>\n</function>\n</tool_call>";
    parse_all_ways(&r, &p, s, strlen(s), 20);
    assert_string_equal(r.line.data, "|g{};");
    record_fini(&r);
    json_decref(t);
    hg_output_free(NULL);
}

/* NUL bytes are text like any other. */
static void test_nul(void **state)
{
    (void)state;
    json_t *t = tools();
    struct hg_output_params p = {.tools = t};
    static const char s[] = "a\0b <tool_call>\n<function=f>\n<parameter=\0>\n<parameter=s>\nx\0y\n"
                            "</parameter>\n"
                            "<parameter=ns>\nn\0\n</parameter>\n</function>\n</tool_call>";
    struct record r;
    parse_all_ways(&r, &p, s, sizeof s - 1, 20);
    static const char want[] = "|T:a\0b|f{\"s\": \"x\\u0000y\", \"ns\": \"n\\u0000\"};";
    assert_int_equal(r.line.len, sizeof want - 1);
    assert_memory_equal(r.line.data, want, sizeof want - 1);
    record_fini(&r);
    json_decref(t);
}

int main(void)
{
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corpus),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_soup),
        cmocka_unit_test(test_nothing_is_late),
        cmocka_unit_test(test_long_string),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_nul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
