/* Heads and chunked bodies as pure functions; test_server_life.c has the refusals over a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/rng.h"
#include "server/http_parse.h"

static char bytes[4096];
static struct hg_http_head head;
static const char *why;

static int parse(const char *text)
{
    size_t n = strlen(text), scan = 0;
    memcpy(bytes, text, n + 1);
    int64_t end = hg_http_head_end(bytes, n, &scan);
    assert_int_equal(end, n);
    return hg_http_head_parse(bytes, n, &head, &why);
}

static void test_head(void **state)
{
    (void)state;
    assert_int_equal(
        parse("POST /v1/a%2fb%20c?x=/y HTTP/1.1\r\nHost: h:1\r\nX-Session-ID: \t a b \t\r\n"
              "content-LENGTH: 007\r\nEmpty:\r\nExpect: 100-Continue\r\n\r\n"),
        0);
    assert_string_equal(head.method, "POST");
    assert_string_equal(head.path, "/v1/a/b c");
    assert_int_equal(head.content_length, 7);
    assert_int_equal(head.n_headers, 5);
    assert_true(head.keep_alive && head.expect_continue && !head.chunked);
    assert_string_equal(hg_http_head_get(&head, "x-session-id"), "a b");
    assert_string_equal(hg_http_head_get(&head, "EMPTY"), "");
    assert_null(hg_http_head_get(&head, "x-session"));
    assert_int_equal(parse("GET / HTTP/1.0\r\n\r\n"), 0);
    assert_true(!head.keep_alive && head.minor == 0 && head.content_length == 0);
    assert_int_equal(parse("OPTIONS * HTTP/1.1\r\nHost:\r\nTransfer-Encoding: Chunked\r\n\r\n"), 0);
    assert_string_equal(head.path, "*");
    assert_true(head.chunked);
    assert_int_equal(parse("GET http://a.b HTTP/1.1\r\nHost: a.b\r\n\r\n"), 0);
    assert_string_equal(head.path, "/");
}

/* The end is found at the same place however the bytes arrive, and a bad line end at once. */
static void test_head_end_by_pieces(void **state)
{
    (void)state;
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET";
    size_t n_head = strlen(text) - 3;
    for (size_t step = 1; step < sizeof text; step++) {
        size_t scan = 0, n = 0;
        int64_t end = 0;
        while (end == 0) {
            assert_true(n < n_head);
            n = n + step < strlen(text) ? n + step : strlen(text);
            end = hg_http_head_end(text, n, &scan);
        }
        assert_int_equal(end, n_head);
    }
    size_t scan = 0;
    assert_int_equal(hg_http_head_end("GET /\n", 6, &scan), -1);
    scan = 0;
    assert_int_equal(hg_http_head_end("GET /\rx", 7, &scan), -1);
    scan = 0;
    assert_int_equal(hg_http_head_end("\x16", 1, &scan), -1);
    scan = 0;
    assert_int_equal(hg_http_head_end("GET /\r", 6, &scan), 0);
}

/* A body cut into random chunks and fed in random pieces comes out whole, and reading stops at its
 * end. */
static void test_chunked_random(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    struct hg_rng rng = {seed};
    for (int round = 0; round < 500; round++) {
        char body[300];
        size_t n = hg_rng_below(&rng, sizeof body);
        for (size_t i = 0; i < n; i++) body[i] = (char)hg_rng_below(&rng, 256);
        struct hg_buf wire, out;
        hg_buf_init(&wire);
        hg_buf_init(&out);
        for (size_t i = 0; i < n;) {
            size_t k = 1 + hg_rng_below(&rng, (uint32_t)(n - i));
            hg_buf_printf(&wire, hg_rng_below(&rng, 2) ? "%zx\r\n" : "%04zX;a=\"b\"\r\n", k);
            hg_buf_add(&wire, body + i, k);
            hg_buf_str(&wire, "\r\n");
            i += k;
        }
        hg_buf_str(&wire, hg_rng_below(&rng, 2) ? "0\r\n\r\n" : "000\r\nA: b\r\n\r\n");
        size_t n_wire = wire.len, at = 0;
        hg_buf_str(&wire, "GET /next");
        struct hg_http_chunked c = {0};
        while (c.state < HG_CHUNK_DONE) {
            size_t k = 1 + hg_rng_below(&rng, (uint32_t)(wire.len - at));
            at += hg_http_chunked_feed(&c, wire.data + at, k, &out, n);
        }
        assert_int_equal(c.state, HG_CHUNK_DONE);
        assert_int_equal(at, n_wire);
        assert_int_equal(out.len, n);
        if (n) assert_memory_equal(out.data, body, n);
        if (n) { /* one byte less of room */
            struct hg_http_chunked tight = {0};
            hg_buf_clear(&out);
            hg_http_chunked_feed(&tight, wire.data, wire.len, &out, n - 1);
            assert_int_equal(tight.state, HG_CHUNK_TOO_LONG);
            assert_true(out.len < n);
        }
        hg_buf_fini(&wire);
        hg_buf_fini(&out);
    }
}

static void test_chunked_bounds(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\r\n",    "g",      "1\n",     "1\r\nab", "1\r\na\rb",
        "-1\r\n",  " 1\r\n", "0x1\r\n", "0\r\n\n", "0000000000000000\r\n",
        "0\r\na\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hg_http_chunked c = {0};
        struct hg_buf out;
        hg_buf_init(&out);
        hg_http_chunked_feed(&c, bad[i], strlen(bad[i]), &out, 100);
        if (c.state != HG_CHUNK_BAD) fail_msg("taken: %s", bad[i]);
        hg_buf_fini(&out);
    }
    /* Endless extensions and trailers */
    static const char *const starts[] = {"1;", "0\r\n"};
    for (size_t i = 0; i < 2; i++) {
        struct hg_http_chunked c = {0};
        struct hg_buf out;
        hg_buf_init(&out);
        hg_http_chunked_feed(&c, starts[i], strlen(starts[i]), &out, 100);
        for (int k = 0; k < 10000 && c.state != HG_CHUNK_BAD; k++)
            hg_http_chunked_feed(&c, "x", 1, &out, 100);
        assert_int_equal(c.state, HG_CHUNK_BAD);
        hg_buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_head_end_by_pieces),
        cmocka_unit_test(test_chunked_random),
        cmocka_unit_test(test_chunked_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
