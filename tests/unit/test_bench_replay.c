/* bench/trace.h, replay.h and report.h: traces are read strictly, requests are those of the
 * harness, and turns are measured against a small scripted server on loopback. */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "bench/replay.h"
#include "bench/report.h"

static struct hg_err err;

/* ---------------------------------------------------------------------------------- traces -- */

#define USER "{\"conversation_id\":\"c\",\"turn\":1,\"role\":\"user\",\"content\":\"do it\"}\n"
#define ASSISTANT                                                                                  \
    "{\"conversation_id\":\"c\",\"turn\":2,\"role\":\"assistant\",\"content\":\"ok\"}\n"

static enum hg_status open_text(const char *text, struct hg_trace *t)
{
    char path[] = "/tmp/hedge-trace-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    enum hg_status s = hg_trace_open(path, t, &err);
    unlink(path);
    return s;
}

static void trace_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "no conversation"},
        {"{", ":1: "},
        {"[]\n", "'conversation_id' is not a string"},
        {"{\"conversation_id\":\"c\"}", "'role' is not a string"},
        {"{\"conversation_id\":\"c\\nd\",\"role\":\"user\"}", "control character"},
        {ASSISTANT, "where a user or tool row is due"},
        {USER USER, "where an assistant row is due"},
        {"{\"conversation_id\":\"c\",\"turn\":2,\"role\":\"user\",\"content\":\"x\"}",
         "'turn' is not 1"},
        {"{\"conversation_id\":\"c\",\"turn\":1,\"role\":\"user\"}", "'content'"},
        {"{\"conversation_id\":\"c\",\"turn\":1,\"role\":\"user\",\"content\":\"\",\"tools\":5}",
         "'tools'"},
        {"{\"conversation_id\":\"c\",\"turn\":1,\"role\":\"tool\"}", "role 'tool'"},
        {USER ASSISTANT "{\"conversation_id\":\"c\",\"turn\":3,\"role\":\"tool\"}",
         ":3: 'tool_results'"},
        {USER ASSISTANT
         "{\"conversation_id\":\"c\",\"turn\":3,\"role\":\"tool\",\"tool_results\":[{}]}",
         "tool_results[0]"},
        {USER
         "{\"conversation_id\":\"d\",\"turn\":1,\"role\":\"user\",\"content\":\"\"}\n" ASSISTANT,
         "not contiguous"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hg_trace t;
        assert_int_equal(open_text(bad[i].text, &t), HG_EFORMAT);
        if (!strstr(err.text, bad[i].why)) fail_msg("'%s' lacks '%s'", err.text, bad[i].why);
    }
    struct hg_trace t;
    assert_int_equal(hg_trace_open("/no/such/file", &t, &err), HG_EIO);
}

static void requests(void **state)
{
    (void)state;
    struct hg_trace t;
    static const char call[] =
        "{\"id\":\"x:0\",\"type\":\"function\",\"function\":{\"name\":\"bash\","
        "\"arguments\":\"{\\\"command\\\": \\\"ls\\\"}\"}}";
    char text[2048];
    snprintf(
        text, sizeof text,
        "{\"conversation_id\":\"c\",\"turn\":1,\"role\":\"user\",\"content\":\"caf\\u00e9 / "
        "\\u0001\",\"system\":\"be good\",\"tools\":[{\"a\":1}]}\n"
        "{\"conversation_id\":\"c\",\"turn\":2,\"role\":\"assistant\",\"reasoning_content\":\"r\","
        "\"tool_calls\":[%s]}\n"
        "{\"conversation_id\":\"c\",\"turn\":3,\"role\":\"tool\",\"delay_seconds\":1,"
        "\"tool_results\":[{\"tool_call_id\":\"x:0\",\"content\":\"out\"}]}\n"
        "{\"conversation_id\":\"c\",\"turn\":4,\"role\":\"assistant\",\"content\":\"done\"}\n"
        "{\"conversation_id\":\"c\",\"turn\":5,\"role\":\"user\",\"content\":\"thanks\"}\n",
        call);
    assert_int_equal(open_text(text, &t), HG_OK);
    assert_int_equal(t.n_convs, 1);
    assert_int_equal(t.convs[0].n_turns, 3);
    assert_null(t.convs[0].turns[2].recorded);

    struct hg_replay_params p = {.model = "m"};
    char *first = hg_replay_request(&t.convs[0], 0, &p);
    assert_string_equal(
        first, "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"be good\"},"
               "{\"role\":\"user\",\"content\":\"caf\303\251 / \\u0001\"}],\"temperature\":0.0,"
               "\"max_completion_tokens\":1024,\"stream\":true,\"seed\":42,\"tools\":[{\"a\":1}]}");
    p.usage = true;
    p.max_tokens = 7;
    char *second = hg_replay_request(&t.convs[0], 1, &p);
    char want[1024];
    snprintf(want, sizeof want,
             "{\"role\":\"assistant\",\"tool_calls\":[%s],\"reasoning_content\":\"r\"},"
             "{\"role\":\"tool\",\"content\":\"out\",\"tool_call_id\":\"x:0\"}],"
             "\"temperature\":0.0,\"max_completion_tokens\":7,\"stream\":true,\"seed\":42,"
             "\"tools\":[{\"a\":1}],\"stream_options\":{\"include_usage\":true}}",
             call);
    assert_non_null(strstr(second, want));
    free(first);
    free(second);
    hg_trace_close(&t);
}

static void demo_trace(void **state)
{
    (void)state;
    struct hg_trace t;
    assert_int_equal(hg_trace_open("models/demo/agent.jsonl", &t, &err), HG_OK);
    assert_int_equal(t.n_convs, 2);
    for (int32_t i = 0; i < t.n_convs; i++) {
        assert_non_null(t.convs[i].tools);
        for (int32_t j = 0; j < t.convs[i].n_turns; j++)
            assert_non_null(t.convs[i].turns[j].recorded);
    }
    hg_trace_close(&t);
}

/* ---------------------------------------------------------------------------------- server -- */

/* Answers each request of one connection with the next reply, written in two pieces. */
struct script {
    const char *const *replies; /* NULL-terminated */
    int listener;
    uint16_t port;
    pthread_t thread;
    struct hg_buf heads; /* of the requests */
};

/* Reads one request: head into b, body away. */
static bool read_request(int fd, struct hg_buf *b)
{
    char head[4096];
    size_t n = 0;
    while (n < sizeof head - 1) {
        if (read(fd, head + n, 1) != 1) return false;
        head[++n] = 0;
        if (n >= 4 && !memcmp(head + n - 4, "\r\n\r\n", 4)) break;
    }
    hg_buf_str(b, head);
    const char *length = strcasestr(head, "content-length:");
    for (long left = length ? atol(length + 15) : 0; left > 0;) {
        char body[4096];
        ssize_t got = read(fd, body, left < 4096 ? (size_t)left : sizeof body);
        if (got <= 0) return false;
        left -= got;
    }
    return true;
}

static void *serve(void *arg)
{
    struct script *s = arg;
    int fd = accept(s->listener, NULL, NULL);
    for (int i = 0; fd >= 0 && s->replies[i] && read_request(fd, &s->heads); i++) {
        size_t n = strlen(s->replies[i]), half = n / 2;
        if (write(fd, s->replies[i], half) < 0) break;
        usleep(2000);
        if (write(fd, s->replies[i] + half, n - half) < 0) break;
    }
    if (fd >= 0) close(fd);
    return NULL;
}

static void script_start(struct script *s, const char *const *replies)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    *s = (struct script){.replies = replies, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s->listener, 1), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &n), 0);
    s->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void script_end(struct script *s)
{
    pthread_join(s->thread, NULL);
    close(s->listener);
    hg_buf_fini(&s->heads);
}

/* Loads the text and replays it against the script. */
static void replay_text(const char *text, struct script *s, const char *key, struct hg_trace *t,
                        struct hg_replay *r)
{
    char url[64];
    struct hg_client *c;
    assert_int_equal(open_text(text, t), HG_OK);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/v1/", (unsigned)s->port);
    struct hg_client_params cp = {.url = url, .api_key = key, .timeout_s = 20};
    struct hg_replay_params rp = {.usage = false};
    assert_int_equal(hg_client_open(&cp, &c, &err), HG_OK);
    assert_int_equal(hg_replay_run(t, c, &rp, r, &err), HG_OK);
    hg_client_close(c);
}

#define SSE "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: "

/* Head and events as one reply; malloc'd. */
static char *sse(const char *events)
{
    char *out;
    assert_true(asprintf(&out, SSE "%zu\r\n\r\n%s", strlen(events), events) > 0);
    return out;
}

#define BASH(id, cmd)                                                                              \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"bash\",\"arguments\":\"{"   \
    "\\\"command\\\": \\\"" cmd "\\\"}\"}}"
#define RESULT(turn)                                                                               \
    "{\"conversation_id\":\"c\",\"turn\":" turn ",\"role\":\"tool\",\"tool_results\":[{"           \
    "\"tool_call_id\":\"a\",\"content\":\"x\"}]}\n"

static const char three_turns[] = USER
    "{\"conversation_id\":\"c\",\"turn\":2,\"role\":\"assistant\",\"tool_calls\":"
    "[" BASH("a", "ls | wc") "]}\n" RESULT(
        "3") "{\"conversation_id\":\"c\",\"turn\":4,\"role\":\"assistant\",\"tool_"
             "calls\":[" BASH("a", "cat x") "]}\n" RESULT("5") "{\"conversation_id\":\"c\","
                                                               "\"turn\":6,\"role\":"
                                                               "\"assistant\",\"tool_"
                                                               "calls\":[" BASH("a", "rm x") "]}"
                                                                                             "\n";

#define CALL_EVENTS(cmd)                                                                           \
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":"         \
    "\"bash\",\"arguments\":\"\"}}]}}]}\n\n"                                                       \
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"    \
    "\"{\\\"command\\\":\\\"" cmd "\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n"            \
    "data: [DONE]\n\n"

static double figure(const json_t *report, const char *key)
{
    const json_t *v = json_object_get(report, key);
    return json_is_number(v) ? json_number_value(v) : -1;
}

static void replay_and_report(void **state)
{
    (void)state;
    struct script s;
    struct hg_trace t;
    struct hg_replay r;
    char *a = sse(CALL_EVENTS("ls"));
    char *b = sse(CALL_EVENTS("cat x"));
    char *c =
        sse("data: {\"choices\":[{\"delta\":{\"content\":\"no\"},\"finish_reason\":\"stop\"}],"
            "\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n");
    script_start(&s, (const char *const[]){a, b, c, NULL});
    replay_text(three_turns, &s, "secret", &t, &r);

    assert_int_equal(r.n_turns, 3);
    assert_int_equal(r.n_connections, 1);
    assert_true(r.turns[0].iou == 0.5 && r.turns[1].iou == 1 && r.turns[2].iou == 0);
    assert_false(r.turns[0].as_recorded);
    assert_true(r.turns[1].as_recorded);
    for (int i = 0; i < 3; i++) {
        assert_false(r.turns[i].failed);
        assert_true(r.turns[i].ttft_s > 0 && r.turns[i].latency_s >= r.turns[i].ttft_s);
    }
    assert_true(r.turns[0].tpot_s >= 0);
    assert_true(r.turns[2].tpot_s < 0); /* one delta: no time between tokens */
    assert_int_equal(r.turns[2].n_prompt, 9);

    json_t *report = hg_report_json(&r);
    assert_true(figure(report, "turns") == 3 && figure(report, "failed") == 0);
    assert_true(figure(report, "completion_tokens") == 2 + 2 + 2);
    assert_true(figure(report, "iou") == 0.5 && figure(report, "iou_turns") == 3);
    assert_true(figure(report, "cached_tokens") == -1); /* the server did not say */
    assert_true(figure(report, "calls_as_recorded") == 1);
    json_decref(report);

    assert_non_null(strstr(s.heads.data, "POST /v1/chat/completions HTTP/1.1\r\n"));
    assert_non_null(strstr(s.heads.data, "X-Session-ID: c\r\n"));
    assert_non_null(strstr(s.heads.data, "Accept: text/event-stream\r\n"));
    assert_non_null(strstr(s.heads.data, "Authorization: Bearer secret\r\n"));
    assert_null(strcasestr(s.heads.data, "User-Agent:"));
    assert_null(strcasestr(s.heads.data, "Expect:"));
    script_end(&s);
    hg_replay_free(&r);
    hg_trace_close(&t);
    free(a);
    free(b);
    free(c);
}

/* A turn that fails takes the rest of its conversation with it, and they all score 0. */
static void failures(void **state)
{
    (void)state;
    static const struct {
        const char *second, *why; /* a whole reply, or its events */
    } cases[] = {
        {"HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\nno thanks", "HTTP 400: no thanks"},
        {SSE "500\r\n\r\ndata: {\"choices\":[]}\n\n", "transfer closed"},
        {"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n", "without a finish_reason"},
        {"data: {\"error\":{\"message\":\"engine is gone\"}}\n\n", "engine is gone"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script s;
        struct hg_trace t;
        struct hg_replay r;
        char *a = sse(CALL_EVENTS("ls | wc"));
        bool whole = !strncmp(cases[i].second, "HTTP", 4);
        char *b = whole ? strdup(cases[i].second) : sse(cases[i].second);
        script_start(&s, (const char *const[]){a, b, NULL});
        replay_text(three_turns, &s, NULL, &t, &r);
        script_end(&s);
        assert_true(r.turns[0].as_recorded);
        assert_true(r.turns[1].issued && r.turns[1].failed);
        if (!strstr(r.turns[1].error, cases[i].why))
            fail_msg("'%s' lacks '%s'", r.turns[1].error, cases[i].why);
        assert_false(r.turns[2].issued);
        json_t *report = hg_report_json(&r);
        assert_true(figure(report, "failed") == 1 && figure(report, "missing") == 1);
        assert_true(figure(report, "iou") == 1.0 / 3);
        FILE *out = tmpfile();
        hg_report_print(report, out);
        assert_true(ftell(out) > 300);
        fclose(out);
        json_decref(report);
        hg_replay_free(&r);
        hg_trace_close(&t);
        free(a);
        free(b);
    }
}

static void bad_params(void **state)
{
    (void)state;
    struct hg_client *c;
    struct hg_client_params cp = {.url = "localhost:8080"};
    assert_int_equal(hg_client_open(&cp, &c, &err), HG_EINVAL);
    struct hg_trace t;
    struct hg_replay r;
    assert_int_equal(open_text(USER ASSISTANT, &t), HG_OK);
    cp.url = "http://127.0.0.1:1";
    assert_int_equal(hg_client_open(&cp, &c, &err), HG_OK);
    struct hg_replay_params rp = {.conversations = (const char *const[]){"d"},
                                  .n_conversations = 1};
    assert_int_equal(hg_replay_run(&t, c, &rp, &r, &err), HG_EINVAL);
    assert_non_null(strstr(err.text, "'d'"));
    rp.n_conversations = 0;
    assert_int_equal(hg_replay_run(&t, c, &rp, &r, &err), HG_OK); /* nobody listens there */
    assert_true(r.turns[0].failed);
    hg_replay_free(&r);
    hg_client_close(c);
    hg_trace_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace_refusals), cmocka_unit_test(requests),
        cmocka_unit_test(demo_trace),     cmocka_unit_test(replay_and_report),
        cmocka_unit_test(failures),       cmocka_unit_test(bad_params),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
