/* Connections of the server: reuse, framing, limits, clients that leave, that stall, that do not
 * read, and the end of the server itself. */
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

static int open_chat(const char *format, const char *script)
{
    char body[1024];
    snprintf(body, sizeof body, format, script);
    int fd = raw_connect(fix.port);
    assert_true(fd >= 0);
    raw_request(fd, "POST", CHAT, "", body);
    return fd;
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
    hg_buf_str(&b, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
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
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /tokenize HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\n{",
        "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n",
        "\x16\x03\x01\x02",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) check_raw(bad[i], 400);
    check_raw("GET /health HTTP/2.0\r\nHost: a\r\n\r\n", 505);
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501);
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
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999999999\r\n\r\n", 413);
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n186a1\r\n", 413);
    check_raw("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
              "fffffffffffffff\r\n", 413);
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
              "Expect: 100-continue\r\n\r\n", 413);
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

/* ------------------------------------------------------------------------- clients that leave -- */

/* Milliseconds from `t` until the engine saw the n-th cancel; fails after 2 s. */
static double cancel_ms(int n, double t)
{
    for (int i = 0; i < 2000 && fake.n_cancels < n; i++) sleep_ms(1);
    assert_int_equal(fake.n_cancels, n);
    return (fake.canceled_at - t) * 1e3;
}

static void leave(int fd, bool reset)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    if (reset) setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
}

static void test_client_leaves(void **state)
{
    (void)state;
    static const struct {
        const char *format, *script;
        bool reset, wait_byte;
    } cases[] = {{STREAM, "sleep:60000", false, false}, /* in a silent prefill */
                 {STREAM, "sleep:60000", true, false},
                 {WHOLE, "sleep:60000", false, false},
                 {WHOLE, "sleep:60000", true, false},
                 {STREAM, "text:a|sleep:60000", false, true}, /* in mid-stream */
                 {STREAM, "text:a|sleep:60000", true, true},
                 {STREAM, "flood", true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = fake.n_cancels + 1;
        int fd = open_chat(cases[i].format, cases[i].script);
        if (cases[i].wait_byte) assert_true(raw_readable(fd, 2000));
        else sleep_ms(50);
        assert_int_equal(fake.n_cancels, n - 1);
        double t = hg_now();
        leave(fd, cases[i].reset);
        double ms = cancel_ms(n, t);
        if (ms >= 200) fail_msg("case %zu: cancelled after %.0f ms", i, ms);
        for (int k = 0; k < 1000 && fake.n_live; k++) sleep_ms(1);
        assert_int_equal(fake.n_live, 0);
    }
}

static void test_client_that_does_not_read(void **state)
{
    (void)state;
    int n = fake.n_cancels + 1;
    int fd = open_chat(STREAM, "flood");
    double t = hg_now();
    cancel_ms(n, t);
    /* The connection was dropped: what the kernel took comes, then the end, never [DONE]. */
    static char block[1 << 16];
    ssize_t k;
    size_t total = 0;
    while ((k = recv(fd, block, sizeof block, 0)) > 0) total += (size_t)k;
    assert_true(total > 0);
    close(fd);
}

static void test_client_that_reads_is_kept(void **state)
{
    (void)state;
    int n = fake.n_cancels;
    int fd = open_chat(STREAM, "drip:1500"); /* 20 times max_unsent */
    struct raw_reply r;
    assert_int_equal(raw_read(fd, &r), 200);
    assert_true(r.body.len > 6000000);
    assert_string_equal(r.body.data + r.body.len - 14, "data: [DONE]\n\n");
    raw_reply_fini(&r);
    assert_int_equal(fake.n_cancels, n);
    close(fd);
}

static void test_others_are_served_meanwhile(void **state)
{
    (void)state;
    int slow = open_chat(STREAM, "text:a|sleep:400|text:b");
    int flood = open_chat(STREAM, "flood");
    struct raw_reply r;
    for (int i = 0; i < 20; i++) {
        double t = hg_now();
        assert_int_equal(ask("GET", "/health", "", NULL, &r), 200);
        assert_true(hg_now() - t < 0.5);
        raw_reply_fini(&r);
    }
    assert_int_equal(raw_read(slow, &r), 200);
    assert_non_null(strstr(r.body.data, "\"content\":\"b\""));
    raw_reply_fini(&r);
    close(slow);
    close(flood);
}

/* ----------------------------------------------------------------------------- server ends -- */

static void test_port_in_use(void **state)
{
    (void)state;
    struct hg_server_params p = {.host = "127.0.0.1", .port = fix.port};
    struct hg_server *second;
    struct hg_err err;
    assert_int_equal(hg_server_open(&fake_engine, &p, &second, &err), HG_EIO);
    assert_null(second);
    char wanted[128];
    snprintf(wanted, sizeof wanted, "127.0.0.1:%u: port %u is in use by another process", fix.port,
             fix.port);
    assert_string_equal(err.text, wanted);
    p.host = "no.such.host.invalid";
    assert_int_equal(hg_server_open(&fake_engine, &p, &second, &err), HG_EIO);
    assert_non_null(strstr(err.text, "no.such.host.invalid"));
    p = (struct hg_server_params){.api_key = ""};
    assert_int_equal(hg_server_open(&fake_engine, &p, &second, &err), HG_EINVAL);
}

static void test_stop_lets_requests_finish(void **state)
{
    (void)state;
    int idle = raw_connect(fix.port);
    int busy = open_chat(STREAM, "text:a|sleep:150|text:b");
    assert_true(raw_readable(busy, 2000));
    hg_server_stop(fix.srv);
    assert_true(raw_closed(idle, 500));
    assert_int_equal(raw_connect(fix.port), -1);
    struct raw_reply r;
    assert_int_equal(raw_read(busy, &r), 200);
    assert_non_null(strstr(r.body.data, "\"content\":\"b\""));
    assert_non_null(strstr(r.body.data, "[DONE]"));
    raw_reply_fini(&r);
    assert_true(raw_closed(busy, 500));
    close(idle);
    close(busy);
    double t = hg_now();
    server_join();
    assert_true(hg_now() - t < 0.5);
}

static void test_stop_cancels_after_the_grace(void **state)
{
    (void)state;
    int streamed = open_chat(STREAM, "text:a|sleep:60000");
    int whole = open_chat(WHOLE, "sleep:60000");
    assert_true(raw_readable(streamed, 2000));
    sleep_ms(50);
    double t = hg_now();
    hg_server_stop(fix.srv);
    struct raw_reply r;
    assert_int_equal(raw_read(streamed, &r), 200);
    assert_true(hg_now() - t > 0.25);
    assert_non_null(strstr(r.body.data, "data: {\"error\":{\"message\":\"cancelled: the server is "
                                        "stopping\",\"type\":\"server_error\""));
    raw_reply_fini(&r);
    assert_int_equal(raw_read(whole, &r), 503);
    raw_reply_fini(&r);
    close(streamed);
    close(whole);
    server_join();
    assert_true(hg_now() - t < 2);
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
        cmocka_unit_test_setup_teardown(test_expect_continue, start, end),
        cmocka_unit_test_setup_teardown(test_head_limits, start_impatient, end),
        cmocka_unit_test_setup_teardown(test_timeouts, start_impatient, end),
        cmocka_unit_test_setup_teardown(test_too_many_connections, start_impatient, end),
        cmocka_unit_test_setup_teardown(test_api_key, start_locked, end),
        cmocka_unit_test_setup_teardown(test_client_leaves, start, end),
        cmocka_unit_test_setup_teardown(test_client_that_does_not_read, start, end),
        cmocka_unit_test_setup_teardown(test_client_that_reads_is_kept, start, end),
        cmocka_unit_test_setup_teardown(test_others_are_served_meanwhile, start, end),
        cmocka_unit_test_setup_teardown(test_port_in_use, start, end),
        cmocka_unit_test_setup_teardown(test_stop_lets_requests_finish, start, end),
        cmocka_unit_test_setup_teardown(test_stop_cancels_after_the_grace, start_impatient, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
