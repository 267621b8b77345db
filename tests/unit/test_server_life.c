/* The server over time: clients that leave, that do not read, that take long, and its end. */
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
    struct hg_server_params p = {.grace_s = 0.3};
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

/* ------------------------------------------------------------------------ clients that leave -- */

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
        if (cases[i].wait_byte)
            assert_true(raw_readable(fd, 2000));
        else
            sleep_ms(50);
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

/* A request that takes long to parse and tokenize holds up nobody but those behind it. */
static void test_slow_preparation(void **state)
{
    (void)state;
    int n = fake.n_cancels;
    int stream = open_chat(STREAM, "text:a|sleep:100|text:b");
    assert_true(raw_readable(stream, 2000));
    int slow = open_chat(WHOLE, "slowsubmit:500|text:slow");
    int leaves = open_chat(WHOLE, "text:never"); /* while it waits */
    int behind = open_chat(WHOLE, "text:behind");
    sleep_ms(30);
    double t = hg_now();
    close(leaves);
    struct raw_reply r;
    assert_int_equal(ask("GET", "/health", "", NULL, &r), 200);
    raw_reply_fini(&r);
    assert_int_equal(raw_read(stream, &r), 200);
    assert_non_null(strstr(r.body.data, "[DONE]"));
    raw_reply_fini(&r);
    assert_true(hg_now() - t < 0.4);
    assert_int_equal(raw_read(slow, &r), 200);
    raw_reply_fini(&r);
    assert_int_equal(raw_read(behind, &r), 200);
    raw_reply_fini(&r);
    assert_int_equal(fake.n_cancels, n);
    close(stream);
    close(slow);
    close(behind);
    /* One that leaves while it is being prepared is cancelled as soon as it is. */
    slow = open_chat(STREAM, "slowsubmit:200|sleep:60000");
    sleep_ms(50);
    close(slow);
    cancel_ms(n + 1, hg_now());
    for (int k = 0; k < 1000 && fake.n_live; k++) sleep_ms(1);
    assert_int_equal(fake.n_live, 0);
    /* And the server can end at such a moment. */
    slow = open_chat(WHOLE, "slowsubmit:200|sleep:60000");
    behind = open_chat(WHOLE, "sleep:60000");
    sleep_ms(50);
    hg_server_stop(fix.srv);
    hg_server_stop(fix.srv);
    assert_int_equal(raw_read(slow, &r), 503);
    raw_reply_fini(&r);
    assert_int_equal(raw_read(behind, &r), 503);
    raw_reply_fini(&r);
    close(slow);
    close(behind);
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
    json_decref(reply_json(&r));
    raw_reply_fini(&r);
    close(streamed);
    close(whole);
    server_join();
    assert_true(hg_now() - t < 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_client_leaves, start, end),
        cmocka_unit_test_setup_teardown(test_client_that_does_not_read, start, end),
        cmocka_unit_test_setup_teardown(test_client_that_reads_is_kept, start, end),
        cmocka_unit_test_setup_teardown(test_others_are_served_meanwhile, start, end),
        cmocka_unit_test_setup_teardown(test_slow_preparation, start, end),
        cmocka_unit_test_setup_teardown(test_port_in_use, start, end),
        cmocka_unit_test_setup_teardown(test_stop_lets_requests_finish, start, end),
        cmocka_unit_test_setup_teardown(test_stop_cancels_after_the_grace, start_impatient, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
