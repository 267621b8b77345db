/* The server over a scripted engine: every endpoint, the replies byte by byte, and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server_fixture.inc"

#define CHAT "/v1/chat/completions"

/* json_path(v, "choices", "0", "delta", NULL) */
static json_t *json_path(json_t *v, ...)
{
    va_list ap;
    va_start(ap, v);
    const char *key;
    while ((key = va_arg(ap, const char *)) != NULL)
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(key)) : json_object_get(v, key);
    va_end(ap);
    return v;
}

static int setup(void **state)
{
    (void)state;
    struct hg_server_params p = {.model_name = "m\"x"};
    server_start(&p);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    server_end();
    return 0;
}

/* A chat body whose last message is the script; `more` is further fields, each with a comma. */
static char *chat_body(const char *script, const char *more)
{
    static char body[8192];
    snprintf(body, sizeof body, "{%s\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}", more,
             script);
    return body;
}

static json_t *chat(const char *script, const char *more, int wanted_status)
{
    struct raw_reply r;
    int status = ask("POST", CHAT, "", chat_body(script, more), &r);
    if (status != wanted_status) fail_msg("status %d: %s", status, r.body.data);
    json_t *v = reply_json(&r);
    raw_reply_fini(&r);
    return v;
}

/* Replaces what differs from run to run: "id":"chatcmpl-*" and "created":*. */
static void mask(struct hg_buf *b)
{
    for (char *s = b->data; (s = strstr(s, "chatcmpl-")) != NULL; s += 9) {
        for (char *t = s + 9; *t != '"'; t++) assert_non_null(strchr("0123456789abcdef", *t));
        memmove(s + 9, s + 9 + 24, strlen(s + 9 + 24) + 1);
    }
    for (char *s = b->data; (s = strstr(s, "\"created\":")) != NULL;) {
        s += 10;
        size_t n = strspn(s, "0123456789");
        assert_true(n >= 10);
        memmove(s, s + n, strlen(s + n) + 1);
    }
}

#define HEAD                                                                                       \
    "data: "                                                                                       \
    "{\"id\":\"chatcmpl-\",\"object\":\"chat.completion.chunk\",\"created\":,\"model\":"           \
    "\"m\\\"x\",\"choices\":["
#define DELTA HEAD "{\"index\":0,\"delta\":{"
#define TAIL  "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"

static void test_stream_bytes(void **state)
{
    (void)state;
    static const char wanted[] = DELTA
        "\"role\":\"assistant\",\"content\":\"\"" TAIL DELTA
        "\"reasoning_content\":\"hm\\n\"" TAIL DELTA "\"content\":\"H\xc3\xa9\\\"llo\"" TAIL DELTA
        "\"tool_calls\":[{\"index\":0,\"id\":\"call_x\",\"type\":\"function\",\"function\":{"
        "\"name\":\"bash\",\"arguments\":\"\"}}]" TAIL DELTA
        "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\"}}]" TAIL DELTA
        "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\":1\"}}]" TAIL DELTA
        "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]" TAIL HEAD
        "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"tool_calls\"}]}\n\n"
        "data: [DONE]\n\n";
    struct raw_reply r;
    const char *script = "think:hm\\n|text:H\xc3\xa9\\\"llo|call:bash:{\\\"a\\\":1}";
    assert_int_equal(ask("POST", CHAT, "", chat_body(script, "\"stream\":true,"), &r), 200);
    char v[64];
    assert_string_equal(raw_header(&r, "Content-Type", v, sizeof v),
                        "text/event-stream; charset=utf-8");
    assert_true(r.chunked);
    mask(&r.body);
    assert_string_equal(r.body.data, wanted);
    raw_reply_fini(&r);
}

static void test_stream_usage_and_empty_answer(void **state)
{
    (void)state;
    struct raw_reply r;
    const char *more = "\"stream\":true,\"stream_options\":{\"include_usage\":true},";
    assert_int_equal(ask("POST", CHAT, "", chat_body("length", more), &r), 200);
    mask(&r.body);
    assert_non_null(strstr(r.body.data, "\"role\":\"assistant\""));
    assert_non_null(strstr(r.body.data, "\"finish_reason\":\"length\"}],\"usage\":null}\n\n"));
    const char *last = strstr(r.body.data, HEAD "],\"usage\":{\"prompt_tokens\":11,"
                                                "\"completion_tokens\":5,\"total_tokens\":16,"
                                                "\"prompt_tokens_details\":{\"cached_tokens\":7}}");
    assert_non_null(last);
    assert_non_null(strstr(last, "\"ttft_ms\":250.000"));
    assert_string_equal(strstr(last, "\n\n"), "\n\ndata: [DONE]\n\n");
    raw_reply_fini(&r);
}

/* What is ready goes out: events that come apart in time are writes of their own. */
static void test_stream_is_flushed_and_coalesced(void **state)
{
    (void)state;
    int fd = raw_connect(fix.port);
    raw_request(fd, "POST", CHAT, "",
                chat_body("text:a|sleep:150|text:b|text:c|text:d", "\"stream\":true,"));
    char block[4096];
    ssize_t n = recv(fd, block, sizeof block - 1, 0);
    assert_true(n > 0);
    block[n] = 0;
    assert_non_null(strstr(block, "\"content\":\"a\""));
    assert_null(strstr(block, "\"content\":\"b\""));
    assert_false(raw_readable(fd, 50));
    close(fd);
}

static void test_whole_reply(void **state)
{
    (void)state;
    json_t *v = chat("think:why|text:A|text:B|call:f:{}|call:g:{\\\"k\\\":[1]}", "", 200);
    assert_string_equal(json_string_value(json_path(v, "object", NULL)), "chat.completion");
    assert_string_equal(json_string_value(json_path(v, "model", NULL)), "m\"x");
    json_t *c = json_path(v, "choices", "0", NULL);
    assert_string_equal(json_string_value(json_path(c, "message", "content", NULL)), "AB");
    assert_string_equal(json_string_value(json_path(c, "message", "reasoning_content", NULL)),
                        "why");
    assert_string_equal(json_string_value(json_path(c, "finish_reason", NULL)), "tool_calls");
    json_t *call = json_path(c, "message", "tool_calls", "1", NULL);
    assert_string_equal(json_string_value(json_path(call, "function", "name", NULL)), "g");
    assert_string_equal(json_string_value(json_path(call, "function", "arguments", NULL)),
                        "{\"k\":[1]}");
    assert_int_equal(json_integer_value(json_path(v, "usage", "total_tokens", NULL)), 16);
    assert_string_equal(json_string_value(json_path(v, "timings", "logits_hash", NULL)),
                        "0000000000000abc");
    json_decref(v);
    v = chat("call:f:{}", "", 200);
    assert_true(json_is_null(json_path(v, "choices", "0", "message", "content", NULL)));
    assert_null(json_path(v, "choices", "0", "message", "reasoning_content", NULL));
    json_decref(v);
    v = chat("badutf8", "", 200);
    json_t *content = json_path(v, "choices", "0", "message", "content", NULL);
    assert_int_equal(json_string_length(content), 7);
    assert_memory_equal(json_string_value(content), "a\xef\xbf\xbd\"\0b", 7);
    json_decref(v);
}

static void test_logprobs(void **state)
{
    (void)state;
    json_t *v = chat("lp:x|lp:\xc3\xa9", "\"logprobs\":true,\"top_logprobs\":2,", 200);
    assert_int_equal(fake.rp.n_logprobs, 2);
    json_t *list = json_path(v, "choices", "0", "logprobs", "content", NULL);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(json_string_value(json_path(list, "1", "token", NULL)), "\xc3\xa9");
    assert_int_equal(json_integer_value(json_path(list, "1", "bytes", "0", NULL)), 0xc3);
    json_t *top = json_path(list, "0", "top_logprobs", NULL);
    assert_string_equal(json_string_value(json_path(top, "1", "token", NULL)),
                        "\xef\xbf\xbd\xef\xbf\xbd");
    assert_int_equal(json_integer_value(json_path(top, "1", "logprob", NULL)), -9999);
    json_decref(v);
    v = chat("lp:x|lastlp", "\"logprobs\":true,", 200);
    assert_int_equal(json_array_size(json_path(v, "choices", "0", "logprobs", "content", NULL)), 2);
    json_decref(v);
    struct raw_reply r;
    assert_int_equal(
        ask("POST", CHAT, "", chat_body("lp:x|lastlp", "\"logprobs\":true,\"stream\":true,"), &r),
        200);
    assert_non_null(
        strstr(r.body.data, "\"delta\":{},\"logprobs\":{\"content\":[{\"token\":\"\","));
    raw_reply_fini(&r);
    assert_int_equal(
        ask("POST", "/v1/completions", "", "{\"prompt\":\"lp:\xc3\xa9x|lp:y\",\"logprobs\":2}", &r),
        200);
    v = reply_json(&r);
    json_t *lp = json_path(v, "choices", "0", "logprobs", NULL);
    assert_int_equal(json_array_size(json_path(lp, "tokens", NULL)), 2);
    assert_int_equal(json_integer_value(json_path(lp, "text_offset", "1", NULL)), 2);
    assert_non_null(json_path(lp, "top_logprobs", "0", "bytes:\\xf0\\x9f", NULL));
    json_decref(v);
    raw_reply_fini(&r);
}

static void test_completions(void **state)
{
    (void)state;
    struct raw_reply r;
    assert_int_equal(
        ask("POST", "/v1/completions", "", "{\"prompt\":[\"text:a|text:b\"],\"stream\":true}", &r),
        200);
    assert_non_null(strstr(r.body.data,
                           "\"choices\":[{\"index\":0,\"text\":\"a\",\"logprobs\":null,"
                           "\"finish_reason\":null}]}\n\n"));
    assert_non_null(strstr(r.body.data, "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"));
    raw_reply_fini(&r);
    assert_int_equal(ask("POST", "/v1/completions", "", "{\"prompt\":[5,6,7],\"echo\":false}", &r),
                     200);
    assert_int_equal(fake.rp.n_prompt_ids, 3);
    assert_int_equal(fake.ids[2], 7);
    json_t *v = reply_json(&r);
    assert_string_equal(json_string_value(json_path(v, "object", NULL)), "text_completion");
    assert_string_equal(json_string_value(json_path(v, "choices", "0", "text", NULL)), "ids");
    json_decref(v);
    raw_reply_fini(&r);
}

static void test_small_endpoints(void **state)
{
    (void)state;
    struct raw_reply r;
    assert_int_equal(ask("GET", "/v1/models", "", NULL, &r), 200);
    json_t *v = reply_json(&r);
    assert_string_equal(json_string_value(json_path(v, "data", "0", "id", NULL)), "m\"x");
    json_decref(v);
    raw_reply_fini(&r);
    assert_int_equal(ask("GET", "/v1/models/m%22x?a=b", "", NULL, &r), 200);
    raw_reply_fini(&r);
    assert_int_equal(ask("GET", "/v1/models/other", "", NULL, &r), 404);
    raw_reply_fini(&r);
    assert_int_equal(ask("GET", "/health", "", NULL, &r), 200);
    assert_string_equal(r.body.data, "{\"status\":\"ok\",\"running\":0,\"waiting\":0}");
    raw_reply_fini(&r);
    assert_int_equal(ask("POST", "/tokenize", "", "{\"content\":\"ab\",\"add_special\":true}", &r),
                     200);
    assert_string_equal(r.body.data, "{\"tokens\":[97,98,999],\"count\":3}");
    raw_reply_fini(&r);
    assert_int_equal(ask("POST", "/tokenize", "", "{\"prompt\":\"a\",\"parse_special\":false}", &r),
                     200);
    assert_string_equal(r.body.data, "{\"tokens\":[97],\"count\":1}");
    raw_reply_fini(&r);
    assert_int_equal(ask("POST", "/detokenize", "", "{\"tokens\":[72,105,34]}", &r), 200);
    assert_string_equal(r.body.data, "{\"content\":\"Hi\\\"\"}");
    raw_reply_fini(&r);
    assert_int_equal(ask("POST", "/detokenize", "", "{\"tokens\":[72,1000]}", &r), 400);
    assert_non_null(strstr(r.body.data, "tokens[1]: 1000 is no token id in 0..999"));
    raw_reply_fini(&r);
    assert_int_equal(ask("POST", "/tokenize", "", "{}", &r), 400);
    raw_reply_fini(&r);
    assert_int_equal(ask("POST", "/tokenize", "", "", &r), 400);
    raw_reply_fini(&r);
}

static void test_routing(void **state)
{
    (void)state;
    struct raw_reply r;
    char v[128];
    assert_int_equal(ask("GET", "/nope", "", NULL, &r), 404);
    json_t *j = reply_json(&r);
    assert_string_equal(json_string_value(json_path(j, "error", "type", NULL)),
                        "invalid_request_error");
    json_decref(j);
    assert_string_equal(raw_header(&r, "Access-Control-Allow-Origin", v, sizeof v), "*");
    raw_reply_fini(&r);
    assert_int_equal(ask("GET", CHAT, "", NULL, &r), 405);
    assert_string_equal(raw_header(&r, "Allow", v, sizeof v), "POST, OPTIONS");
    raw_reply_fini(&r);
    assert_int_equal(ask("DELETE", "/v1/models", "", NULL, &r), 405);
    assert_string_equal(raw_header(&r, "Allow", v, sizeof v), "GET, HEAD, OPTIONS");
    raw_reply_fini(&r);
    assert_int_equal(ask("OPTIONS", CHAT, "", NULL, &r), 204);
    assert_string_equal(raw_header(&r, "Access-Control-Allow-Methods", v, sizeof v),
                        "POST, OPTIONS");
    raw_reply_fini(&r);
}

/* ------------------------------------------------------------------------------ engine side -- */

static void test_what_the_engine_gets(void **state)
{
    (void)state;
    struct raw_reply r;
    assert_int_equal(ask("POST", CHAT, "X-Session-ID: conv-1\r\n", chat_body("text:x", ""), &r),
                     200);
    raw_reply_fini(&r);
    assert_string_equal(fake.session_id, "conv-1");
    assert_true(fake.rp.sampling.temperature > 0.69f && fake.rp.sampling.top_k == 20);
    assert_int_equal(fake.rp.max_tokens, 0);
    assert_int_equal(fake.rp.reasoning, HG_REASONING_AUTO);
    assert_false(fake.rp.sampling.has_seed);
    json_decref(chat("text:x",
                     "\"temperature\":0.0,\"max_completion_tokens\":1024,\"stream\":false,"
                     "\"seed\":42,\"chat_template_kwargs\":{\"enable_thinking\":true,\"k\":1},",
                     200));
    assert_true(fake.rp.sampling.temperature == 0);
    assert_int_equal(fake.rp.max_tokens, 1024);
    assert_int_equal(fake.rp.sampling.seed, 42);
    assert_int_equal(fake.rp.reasoning, HG_REASONING_ON);
    assert_string_equal(fake.kwargs, "{\"enable_thinking\":true,\"k\":1}");
}

static void check_error(const char *script, const char *more, int status, const char *code)
{
    json_t *v = chat(script, more, status);
    const char *got = json_string_value(json_path(v, "error", "code", NULL));
    if (code)
        assert_string_equal(got, code);
    else
        assert_null(got);
    assert_true(json_is_string(json_path(v, "error", "message", NULL)));
    json_decref(v);
}

static void test_engine_errors(void **state)
{
    (void)state;
    check_error("submit:EINVAL", "", 400, NULL);
    check_error("submit:ETOOLONG", "", 400, "context_length_exceeded");
    check_error("submit:EUNSUP", "", 400, "unsupported_parameter");
    check_error("submit:ECANCELED", "", 503, NULL);
    check_error("submit:EINTERNAL", "", 500, NULL);
    check_error("error:ENOMEM", "", 500, NULL);
    check_error("sleep:20|error:EBUSY", "\"stream\":true,", 429, "queue_full");
    struct raw_reply r;
    char v[64];
    assert_int_equal(ask("POST", CHAT, "", chat_body("submit:EBUSY", ""), &r), 429);
    assert_string_equal(raw_header(&r, "Retry-After", v, sizeof v), "1");
    raw_reply_fini(&r);
    /* An error after the stream began is an event of its own; then the message ends. */
    assert_int_equal(
        ask("POST", CHAT, "", chat_body("text:a|sleep:20|error:EINTERNAL", "\"stream\":true,"), &r),
        200);
    const char *last = strstr(r.body.data, "data: {\"error\":{\"message\":\"scripted EINTERNAL\"");
    assert_non_null(last);
    assert_null(strstr(r.body.data, "[DONE]"));
    assert_string_equal(strstr(last, "\n\n"), "\n\n");
    raw_reply_fini(&r);
}

static void test_bad_bodies(void **state)
{
    (void)state;
    struct raw_reply r;
    struct hg_buf deep;
    hg_buf_init(&deep);
    hg_buf_str(&deep, "{\"messages\":");
    for (int i = 0; i < 100000; i++) hg_buf_char(&deep, '[');
    const char *bodies[] = {"",
                            "{",
                            "[]",
                            "null",
                            "{\"messages\":\"\xff\"}",
                            "{} x",
                            "\xef\xbb\xbf{}",
                            "nul",
                            "{\"messages\":[]}",
                            deep.data};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        assert_int_equal(ask("POST", CHAT, "", bodies[i], &r), 400);
        json_decref(reply_json(&r));
        raw_reply_fini(&r);
    }
    /* 2 million values in 4 MB of text */
    hg_buf_clear(&deep);
    hg_buf_str(&deep, "{\"messages\":[");
    for (int i = 0; i < 2000000; i++) hg_buf_str(&deep, "0,");
    hg_buf_str(&deep, "0]}");
    assert_int_equal(ask("POST", CHAT, "", deep.data, &r), 400);
    assert_non_null(strstr(r.body.data, "JSON of more than"));
    raw_reply_fini(&r);
    hg_buf_fini(&deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_bytes),
        cmocka_unit_test(test_stream_usage_and_empty_answer),
        cmocka_unit_test(test_stream_is_flushed_and_coalesced),
        cmocka_unit_test(test_whole_reply),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_completions),
        cmocka_unit_test(test_small_endpoints),
        cmocka_unit_test(test_routing),
        cmocka_unit_test(test_what_the_engine_gets),
        cmocka_unit_test(test_engine_errors),
        cmocka_unit_test(test_bad_bodies),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
