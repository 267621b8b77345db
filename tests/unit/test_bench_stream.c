/* bench/events.h and bench/answer.h: a stream cut anywhere gives the same events, deltas merge as
 * the harness merges them, and garbage is counted, not followed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "bench/answer.h"
#include "bench/events.h"

static void collect(void *ctx, const char *json, size_t n)
{
    struct hg_buf *out = ctx;
    hg_buf_add(out, json, n);
    hg_buf_char(out, '\n');
}

/* The payloads of a stream that comes in pieces of at most `piece` bytes (0 = at random). */
static char *payloads(const char *stream, size_t piece, struct hg_rng *rng)
{
    struct hg_events e;
    struct hg_buf out;
    hg_events_init(&e);
    hg_buf_init(&out);
    size_t n = strlen(stream);
    for (size_t at = 0; at < n;) {
        size_t len = piece ? piece : 1 + hg_rng_below(rng, 9);
        if (len > n - at) len = n - at;
        hg_events_feed(&e, stream + at, len, collect, &out);
        at += len;
    }
    hg_events_end(&e, collect, &out);
    hg_events_fini(&e);
    return hg_buf_take(&out, NULL);
}

static void events_any_cut(void **state)
{
    (void)state;
    static const char stream[] = ": comment\n\n"
                                 "data: {\"a\":1}\n\n"
                                 "event: x\nid: 7\ndata:{\"b\":2}\n\n"
                                 "data: [DONE]\n\n"
                                 "\n\n\n"
                                 "data: {\"c\":\n\n"
                                 "data: {\"d\":4}\r\n\n"
                                 "data: {\"e\":5}";
    static const char want[] = "{\"a\":1}\n{\"b\":2}\n{\"d\":4}\n{\"e\":5}\n";
    uint64_t seed = 3;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct hg_rng rng = {seed};
    for (size_t i = 0; i < 200; i++) {
        char *got = payloads(stream, i < sizeof stream ? i : 0, &rng);
        assert_string_equal(got, want);
        free(got);
    }
}

/* CRLF CRLF ends no event: all is found at the end, as one. */
static void events_crlf(void **state)
{
    (void)state;
    struct hg_events e;
    struct hg_buf out;
    hg_events_init(&e);
    hg_buf_init(&out);
    static const char stream[] = "data: {\"a\":1}\r\n\r\ndata: {\"b\":2}\r\n\r\n";
    hg_events_feed(&e, stream, sizeof stream - 1, collect, &out);
    assert_int_equal(out.len, 0);
    hg_events_end(&e, collect, &out);
    assert_string_equal(out.data, "{\"a\":1}\n{\"b\":2}\n");
    hg_events_fini(&e);
    hg_buf_fini(&out);
}

static void events_too_long(void **state)
{
    (void)state;
    struct hg_events e;
    struct hg_buf out;
    hg_events_init(&e);
    hg_buf_init(&out);
    size_t n = 1 << 20;
    char *junk = malloc(n);
    memset(junk, 'x', n);
    for (size_t i = 0; i <= HG_EVENT_MAX; i += n) hg_events_feed(&e, junk, n, collect, &out);
    assert_true(e.failed);
    assert_int_equal(e.buf.len, 0);
    hg_events_feed(&e, "\n\ndata: {\"a\":1}\n\n", 17, collect, &out);
    hg_events_end(&e, collect, &out);
    assert_int_equal(out.len, 0);
    free(junk);
    hg_events_fini(&e);
    hg_buf_fini(&out);
}

static void add(struct hg_answer *a, const char *json, double now)
{
    hg_answer_add(a, json, strlen(json), now);
}

static void add_delta(struct hg_answer *a, const char *delta, double now)
{
    char text[512];
    snprintf(text, sizeof text, "{\"choices\":[{\"index\":0,\"delta\":%s}]}", delta);
    add(a, text, now);
}

static void deltas_merge(void **state)
{
    (void)state;
    struct hg_answer a;
    hg_answer_init(&a);
    add_delta(&a, "{\"role\":\"assistant\",\"content\":\"\"}", 1);
    add_delta(&a, "{\"content\":null}", 2);
    assert_true(a.t_first == 0);
    add_delta(&a, "{\"reasoning_content\":\"hm\"}", 3);
    assert_true(a.t_first == 3);
    add_delta(&a, "{\"content\":\"two \"}", 4);
    add_delta(&a, "{\"content\":\"words\"}", 5);
    add_delta(&a,
              "{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"second\","
              "\"arguments\":\"\"}}]}",
              6);
    add_delta(
        &a,
        "{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"first\",\"arguments\":\"{}\"}}]}",
        6);
    add_delta(&a, "{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{\\\"n\\\"\"}}]}",
              7);
    add_delta(&a, "{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\": 5}\"}}]}", 8);
    add(&a, "{\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}", 9);
    add(&a,
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":7,"
        "\"prompt_tokens_details\":{\"cached_tokens\":4}}}",
        9);
    assert_string_equal(a.content.data, "two words");
    assert_string_equal(a.reasoning.data, "hm");
    assert_string_equal(a.finish, "tool_calls");
    assert_int_equal(a.n_deltas, 7);
    assert_int_equal(a.n_bad, 0);
    assert_int_equal(a.n_prompt, 10);
    assert_int_equal(a.n_completion, 7);
    assert_int_equal(a.n_cached, 4);
    assert_int_equal(hg_answer_bad_args(&a), 0);
    json_t *calls = hg_answer_calls(&a);
    json_t *want = json_loads("[{\"name\":\"first\",\"arguments\":{}},"
                              "{\"name\":\"second\",\"arguments\":{\"n\":5}}]",
                              0, NULL);
    assert_true(json_equal(calls, want));
    json_decref(calls);
    json_decref(want);
    hg_answer_fini(&a);
}

static void bad_arguments(void **state)
{
    (void)state;
    static const char *const args[] = {"", "{", "[]", "5", "{\\\"a\\\": }", "{} x"};
    struct hg_answer a;
    hg_answer_init(&a);
    for (int i = 0; i < 6; i++) {
        char delta[128];
        snprintf(delta, sizeof delta,
                 "{\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":\"%s\"}}]}", i,
                 args[i]);
        add_delta(&a, delta, 1);
    }
    assert_int_equal(a.n_calls, 6);
    assert_int_equal(a.n_bad, 0);
    assert_int_equal(hg_answer_bad_args(&a), 6);
    json_t *calls = hg_answer_calls(&a);
    assert_int_equal(json_array_size(calls), 6);
    json_decref(calls);
    hg_answer_fini(&a);
}

static void garbage_events(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{",
        "{\"choices\":5}",
        "{\"choices\":[{\"delta\":5}]}",
        "{\"choices\":[{\"delta\":{\"content\":5}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":{}}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[5]}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1}]}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":64}]}}]}",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":\"0\"}]}}]}"};
    struct hg_answer a;
    hg_answer_init(&a);
    int n = sizeof bad / sizeof *bad;
    for (int i = 0; i < n; i++) add(&a, bad[i], 1);
    assert_int_equal(a.n_bad, n);
    assert_int_equal(a.n_calls, 0);
    add(&a, "{\"error\":{\"message\":\"out of luck\"}}", 1);
    assert_non_null(strstr(a.error, "out of luck"));
    hg_answer_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_any_cut),  cmocka_unit_test(events_crlf),
        cmocka_unit_test(events_too_long), cmocka_unit_test(deltas_merge),
        cmocka_unit_test(bad_arguments),   cmocka_unit_test(garbage_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
