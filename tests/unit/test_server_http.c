/* HTTP over sockets: reuse of connections, framing, limits and keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server_fixture.inc"

#define CHAT   "/v1/chat/completions"
#define STREAM "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}"
#define WHOLE  "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}"

static void sleep_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static int start(void **state)
{
    (void)state;
    struct hg_server_params p = {.max_body = 100000, .max_unsent = 256 << 10};
    server_start(&p);
    return 0;
}

static int start_impatient(void **state)
{
    (void)state;
    struct hg_server_params p = {
        .head_s = 0.2, .body_s = 0.2, .grace_s = 0.3, .max_connections = 4, .max_head = 4096};
    server_start(&p);
    return 0;
}

static int start_locked(void **state)
{
    (void)state;
    struct hg_server_params p = {.api_key = "sekrit"};
    server_start(&p);
    return 0;
}

static int end(void **state)
{
    (void)state;
    server_end();
    return 0;
}

/* One request of raw bytes on a connection of its own; returns the status. */
static int ask_raw(const char *bytes, struct raw_reply *r)
{
    int fd = raw_connect(fix.port);
    raw_send_str(fd, bytes);
    int status = raw_read(fd, r);
    close(fd);
    return status;
}

static void check_raw(const char *bytes, int status)
{
    struct raw_reply r;
    int got = ask_raw(bytes, &r);
    if (got != status) fail_msg("got %d, wanted %d for: %s", got, status, bytes);
    raw_reply_fini(&r);
}

/* ------------------------------------------------------------------------- reuse and framing -- */

static void test_keep_alive(void **state)
{
    (void)state;
    int fd = raw_connect(fix.port);
    char body[256];
    for (int i = 0; i < 50; i++) {
        snprintf(body, sizeof body, i % 2 ? STREAM : WHOLE, "text:hello|text:you");
        raw_request(fd, "POST", CHAT, "", body);
        struct raw_reply r;
        assert_int_equal(raw_read(fd, &r), 200);
        char v[64];
        assert_string_equal(raw_header(&r, "Connection", v, sizeof v), "");
        raw_reply_fini(&r);
        assert_false(raw_readable(fd, 0)); /* no stray bytes */
    }
    sleep_ms(300);
    assert_false(raw_readable(fd, 0));
    close(fd);
}

static void test_pipelined(void **state)
{
    (void)state;
    int fd = raw_connect(fix.port);
    static const char get[] = "\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n";
    struct hg_buf b;
    hg_buf_init(&b);
    for (int i = 0; i < 300; i++) hg_buf_str(&b, get);
    const char *slow = "{\"prompt\":\"sleep:50|text:x\"}";
    hg_buf_printf(&b, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
                  strlen(slow), slow);
    hg_buf_str(&b, get);
    raw_send(fd, b.data, b.len);
    hg_buf_fini(&b);
    for (int i = 0; i < 302; i++) {
        struct raw_reply r;
        assert_int_equal(raw_read(fd, &r), 200);
        assert_int_equal(strstr(r.body.data, "text_completion") != NULL, i == 300);
        raw_reply_fini(&r);
    }
    close(fd);
}

static void test_split_segments(void **state)
{
    (void)state;
    struct hg_buf b;
    hg_buf_init(&b);
    const char *body = "{\"prompt\":\"text:x\"}";
    hg_buf_printf(&b, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
                  strlen(body), body);
    hg_buf_str(&b,
               "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const char *s = body; *s; s++) hg_buf_printf(&b, "1;x=y\r\n%c\r\n", *s);
    hg_buf_str(&b, "0\r\nTrailer: 1\r\n\r\n");
    int fd = raw_connect(fix.port);
    for (size_t i = 0; i < b.len; i++) {
        raw_send(fd, b.data + i, 1);
        if (i % 8 == 0) sleep_ms(1);
    }
    hg_buf_fini(&b);
    for (int i = 0; i < 2; i++) {
        struct raw_reply r;
        assert_int_equal(raw_read(fd, &r), 200);
        raw_reply_fini(&r);
    }
    close(fd);
}

static void test_refused_framing(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "GET /health HTTP/1.1\nHost: a\n\n",
        "GET /health HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET /health HTTP/1.1\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET  /health HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /he%zzlth HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /health%00 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET health HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /health\r\nHost: a\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\n{}",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\n{}",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: -2\r\n\r\n{}",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 0x2\r\n\r\n{}",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: "
        "chunked\r\n\r\n",
        "POST /tokenize HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\n{",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n",
        "\x16\x03\x01\x02",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) check_raw(bad[i], 400);
    check_raw("GET /health HTTP/2.0\r\nHost: a\r\n\r\n", 505);
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
              501);
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", 417);
    struct raw_reply r;
    assert_int_equal(ask_raw(bad[0], &r), 400);
    json_decref(reply_json(&r));
    char v[64];
    assert_string_equal(raw_header(&r, "Connection", v, sizeof v), "close");
    raw_reply_fini(&r);
}

static void test_versions_and_methods(void **state)
{
    (void)state;
    int fd = raw_connect(fix.port);
    raw_send_str(fd, "GET http://x/health HTTP/1.0\r\n\r\n");
    struct raw_reply r;
    assert_int_equal(raw_read(fd, &r), 200);
    raw_reply_fini(&r);
    assert_true(raw_closed(fd, 500));
    close(fd);
    fd = raw_connect(fix.port);
    raw_send_str(fd, "GET /health HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    assert_int_equal(raw_read(fd, &r), 200);
    raw_reply_fini(&r);
    raw_send_str(fd, "GET /health HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n");
    assert_int_equal(raw_read(fd, &r), 200);
    raw_reply_fini(&r);
    assert_true(raw_closed(fd, 500));
    close(fd);
    /* A stream to HTTP/1.0 has no chunks and ends with the connection. */
    fd = raw_connect(fix.port);
    raw_send_str(fd, "POST /v1/completions HTTP/1.0\r\nContent-Length: 33\r\n\r\n"
                     "{\"prompt\":\"text:x\",\"stream\":true}");
    char all[4096];
    size_t n = 0;
    ssize_t k;
    while ((k = recv(fd, all + n, sizeof all - 1 - n, 0)) > 0) n += (size_t)k;
    all[n] = 0;
    assert_null(strstr(all, "chunked"));
    assert_non_null(strstr(all, "\r\n\r\ndata: {\"id\":\"cmpl-"));
    assert_string_equal(all + n - 14, "data: [DONE]\n\n");
    close(fd);
    fd = raw_connect(fix.port);
    raw_send_str(fd, "HEAD /health HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(recv(fd, all, sizeof all, 0) > 0);
    assert_false(raw_readable(fd, 50));
    close(fd);
}

/* --------------------------------------------------------------------------------- limits -- */

static void test_body_limit(void **state)
{
    (void)state;
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n", 413);
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999999999\r\n\r\n",
              413);
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n186a1\r\n",
              413);
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
              "fffffffffffffff\r\n",
              413);
    /* A client that is still sending gets the reply, not a reset. */
    int fd = raw_connect(fix.port);
    raw_send_str(fd, "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    static char block[100000];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 10; i++) raw_send(fd, block, sizeof block);
    struct raw_reply r;
    assert_int_equal(raw_read(fd, &r), 413);
    raw_reply_fini(&r);
    close(fd);
}

static void test_expect_continue(void **state)
{
    (void)state;
    int fd = raw_connect(fix.port);
    raw_send_str(fd, "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n"
                     "Expect: 100-continue\r\n\r\n");
    char line[64];
    ssize_t n = recv(fd, line, sizeof line - 1, 0);
    assert_true(n > 0);
    line[n] = 0;
    assert_string_equal(line, "HTTP/1.1 100 Continue\r\n\r\n");
    raw_send_str(fd, "{\"content\":\"a\"}");
    struct raw_reply r;
    assert_int_equal(raw_read(fd, &r), 200);
    raw_reply_fini(&r);
    close(fd);
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n"
              "Expect: 100-continue\r\n\r\n",
              413);
}

static void test_head_limits(void **state)
{
    (void)state;
    struct hg_buf b;
    hg_buf_init(&b);
    hg_buf_str(&b, "GET /health HTTP/1.1\r\nHost: a\r\nX: ");
    for (int i = 0; i < 5000; i++) hg_buf_char(&b, 'x');
    check_raw(b.data, 431);
    hg_buf_clear(&b);
    hg_buf_str(&b, "GET /health HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 100; i++) hg_buf_str(&b, "X: y\r\n");
    hg_buf_str(&b, "\r\n");
    check_raw(b.data, 431);
    hg_buf_fini(&b);
}

static void test_timeouts(void **state)
{
    (void)state;
    check_raw("GET /hea", 408);
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{", 408);
    int fd = raw_connect(fix.port); /* but an idle connection stays */
    sleep_ms(500);
    raw_send_str(fd, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    struct raw_reply r;
    assert_int_equal(raw_read(fd, &r), 200);
    raw_reply_fini(&r);
    close(fd);
}

static void test_too_many_connections(void **state)
{
    (void)state;
    int fds[4];
    for (int i = 0; i < 4; i++) fds[i] = raw_connect(fix.port);
    sleep_ms(50);
    struct raw_reply r;
    int fd = raw_connect(fix.port);
    assert_int_equal(raw_read(fd, &r), 503);
    raw_reply_fini(&r);
    close(fd);
    for (int i = 0; i < 4; i++) close(fds[i]);
    sleep_ms(50);
    check_raw("GET /health HTTP/1.1\r\nHost: a\r\n\r\n", 200);
}

static void test_api_key(void **state)
{
    (void)state;
    struct raw_reply r;
    static const struct {
        const char *headers;
        int status;
    } cases[] = {{"", 401},
                 {"Authorization: Bearer sekri\r\n", 401},
                 {"Authorization: Bearer sekritt\r\n", 401},
                 {"Authorization: Basic sekrit\r\n", 401},
                 {"Authorization: Bearer sekrit\r\n", 200},
                 {"authorization: bearer  sekrit\r\n", 200},
                 {"X-API-Key: sekrit\r\n", 200}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ask("GET", "/v1/models", cases[i].headers, NULL, &r), cases[i].status);
        json_decref(reply_json(&r));
        raw_reply_fini(&r);
    }
    check_raw("GET /health HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    check_raw("OPTIONS /v1/models HTTP/1.1\r\nHost: a\r\n\r\n", 204);
    /* Refused before its body is read, which therefore ends the connection. */
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\r\n", 401);
}

static void test_bodies_are_bounded_together(void **state)
{
    (void)state;
    static char block[90001];
    memset(block, ' ', sizeof block - 1);
    int fds[5];
    struct raw_reply r;
    for (int i = 0; i < 5; i++) { /* 5 x 90,000 of at most 400,000 bytes */
        fds[i] = raw_connect(fix.port);
        raw_send_str(fds[i], "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 90002\r\n\r\n");
        raw_send_str(fds[i], block);
        sleep_ms(20);
    }
    assert_int_equal(raw_read(fds[4], &r), 503);
    assert_non_null(strstr(r.body.data, "too many large ones"));
    raw_reply_fini(&r);
    for (int i = 0; i < 4; i++) {
        raw_send_str(fds[i], "{}"); /* no content: 400 */
        assert_int_equal(raw_read(fds[i], &r), 400);
        raw_reply_fini(&r);
        close(fds[i]);
    }
    close(fds[4]);
    for (int i = 0; i < 10; i++) { /* all is given back */
        assert_int_equal(ask("POST", "/tokenize", "", block, &r), 400);
        raw_reply_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keep_alive, start, end),
        cmocka_unit_test_setup_teardown(test_pipelined, start, end),
        cmocka_unit_test_setup_teardown(test_split_segments, start, end),
        cmocka_unit_test_setup_teardown(test_refused_framing, start, end),
        cmocka_unit_test_setup_teardown(test_versions_and_methods, start, end),
        cmocka_unit_test_setup_teardown(test_body_limit, start, end),
        cmocka_unit_test_setup_teardown(test_bodies_are_bounded_together, start, end),
        cmocka_unit_test_setup_teardown(test_expect_continue, start, end),
        cmocka_unit_test_setup_teardown(test_head_limits, start_impatient, end),
        cmocka_unit_test_setup_teardown(test_timeouts, start_impatient, end),
        cmocka_unit_test_setup_teardown(test_too_many_connections, start_impatient, end),
        cmocka_unit_test_setup_teardown(test_api_key, start_locked, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
