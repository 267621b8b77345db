/* Request bodies -> parameters: what is taken, what is refused and how the field is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/api_request.h"

/* Ours, so that the library's engine need not be linked. */
void hg_request_params_init(struct hg_request_params *p)
{
    memset(p, 0, sizeof *p);
    p->n_logprobs = -1;
    p->sampling.top_p = 1;
    p->sampling.repetition_penalty = 1;
}

static const struct hg_api_limits limits = {
    .sampling = {.temperature = 0.6f, .top_p = 0.95f, .top_k = 20, .repetition_penalty = 1},
    .n_vocab = 1000,
    .default_max_tokens = 77};
static struct hg_api_request q;
static struct hg_api_err err;

#define USER  "{\"role\":\"user\",\"content\":\"x\"}"
#define MSGS  "\"messages\":[" USER "]"
#define TOOL  "{\"type\":\"function\",\"function\":{\"name\":\"bash\"}}"
#define TOOLS "\"tools\":[" TOOL "]"

static enum hg_status parse(const char *text)
{
    return hg_chat_request_parse(text, strlen(text), &limits, &q, &err);
}

static enum hg_status parse_completion(const char *text)
{
    return hg_completion_request_parse(text, strlen(text), &limits, &q, &err);
}

/* Parses {MSGS, fields}; the caller frees q. */
static void good(const char *fields)
{
    char text[2048];
    snprintf(text, sizeof text, "{" MSGS ",%s}", fields);
    if (parse(text) != HG_OK) fail_msg("%s: %s", fields, err.e.text);
}

static void ok(const char *fields)
{
    good(fields);
    hg_api_request_fini(&q);
}

static void check_failed(const char *what, enum hg_status got, enum hg_status wanted,
                         const char *param)
{
    if (got == HG_OK) fail_msg("taken: %s", what);
    if (got != wanted || strcmp(err.param, param) != 0)
        fail_msg("%s: got %s for %s: %s", what, hg_status_name(got), err.param, err.e.text);
    assert_int_equal(err.e.status, wanted);
    assert_true(strncmp(err.e.text, param, strlen(param)) == 0);
    assert_null(q.body);
}

static void bad(const char *fields, enum hg_status wanted, const char *param)
{
    char text[2048];
    snprintf(text, sizeof text, "{" MSGS ",%s}", fields);
    check_failed(fields, parse(text), wanted, param);
}

static void bad_messages(const char *messages, enum hg_status wanted, const char *param)
{
    char text[2048];
    snprintf(text, sizeof text, "{\"messages\":%s}", messages);
    check_failed(messages, parse(text), wanted, param);
}

/* The messages as the engine would get them. */
static void check_messages(const char *messages, const char *wanted)
{
    char text[2048];
    snprintf(text, sizeof text, "{\"messages\":%s}", messages);
    if (parse(text) != HG_OK) fail_msg("%s: %s", messages, err.e.text);
    char *got = json_dumps(q.rp.messages, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(got, wanted);
    free(got);
    hg_api_request_fini(&q);
}

static void test_defaults(void **state)
{
    (void)state;
    good("\"store\":true,\"metadata\":{},\"whatever\":[1],\"temperature\":null,\"stop\":null,"
         "\"tools\":null,\"tool_choice\":null,\"stream\":null,\"n\":null,\"logit_bias\":null,"
         "\"stream_options\":null,\"response_format\":null,\"echo\":false");
    assert_true(q.rp.sampling.temperature > 0.59f && q.rp.sampling.top_p < 0.96f);
    assert_int_equal(q.rp.sampling.top_k, 20);
    assert_int_equal(q.rp.max_tokens, 77);
    assert_int_equal(q.rp.n_logprobs, -1);
    assert_false(q.stream || q.include_usage || q.rp.ignore_eos || q.rp.sampling.has_seed);
    assert_null(q.rp.tools);
    hg_api_request_fini(&q);
}

static void test_sampling(void **state)
{
    (void)state;
    good("\"temperature\":1,\"top_k\":-1,\"top_p\":0.5,\"min_p\":0.1,\"repetition_penalty\":1.1,"
         "\"presence_penalty\":-2,\"frequency_penalty\":2,\"seed\":-1,\"ignore_eos\":true,"
         "\"skip_special_tokens\":false,\"max_tokens\":5,\"max_completion_tokens\":6");
    const struct hg_sampling *s = &q.rp.sampling;
    assert_true(s->temperature == 1 && s->top_k == 0 && s->top_p == 0.5f && s->min_p == 0.1f);
    assert_true(s->presence_penalty == -2 && s->frequency_penalty == 2);
    assert_true(s->has_seed && s->seed == UINT64_MAX);
    assert_true(q.rp.ignore_eos && q.rp.echo_special);
    assert_int_equal(q.rp.max_tokens, 6);
    hg_api_request_fini(&q);
    good("\"top_p\":0,\"max_tokens\":5");
    assert_true(q.rp.sampling.top_k == 1 && q.rp.sampling.top_p == 1);
    assert_int_equal(q.rp.max_tokens, 5);
    hg_api_request_fini(&q);
    bad("\"temperature\":\"1\"", HG_EINVAL, "temperature");
    bad("\"temperature\":-0.1", HG_EINVAL, "temperature");
    bad("\"temperature\":true", HG_EINVAL, "temperature");
    bad("\"top_p\":1.01", HG_EINVAL, "top_p");
    bad("\"top_k\":1.5", HG_EINVAL, "top_k");
    bad("\"top_k\":-2", HG_EINVAL, "top_k");
    bad("\"repetition_penalty\":0", HG_EINVAL, "repetition_penalty");
    bad("\"max_tokens\":0", HG_EINVAL, "max_tokens");
    bad("\"max_tokens\":2147483648", HG_EINVAL, "max_tokens");
    bad("\"max_completion_tokens\":-1", HG_EINVAL, "max_completion_tokens");
    bad("\"seed\":1.0", HG_EINVAL, "seed");
    bad("\"seed\":99999999999999999999", HG_EINVAL, "body"); /* no 64-bit integer */
    bad("\"ignore_eos\":1", HG_EINVAL, "ignore_eos");
    bad("\"model\":5", HG_EINVAL, "model");
    bad("\"user\":[]", HG_EINVAL, "user");
}

static void test_stop_and_bias(void **state)
{
    (void)state;
    good("\"stop\":\"END\",\"logit_bias\":{\"0\":-100,\"999\":0.5}");
    assert_int_equal(q.rp.n_stop, 1);
    assert_string_equal(q.rp.stop[0], "END");
    assert_int_equal(q.rp.sampling.n_bias, 2);
    assert_int_equal(q.rp.sampling.bias[1].id, 999);
    assert_true(q.rp.sampling.bias[1].bias == 0.5f);
    hg_api_request_fini(&q);
    good("\"stop\":[\"a\",\"b\"],\"logit_bias\":{}");
    assert_int_equal(q.rp.n_stop, 2);
    assert_string_equal(q.rp.stop[1], "b");
    hg_api_request_fini(&q);
    ok("\"stop\":[]");
    bad("\"stop\":5", HG_EINVAL, "stop");
    bad("\"stop\":\"\"", HG_EINVAL, "stop");
    bad("\"stop\":\"a\\u0000b\"", HG_EINVAL, "stop");
    bad("\"stop\":[\"a\",null]", HG_EINVAL, "stop[1]");
    bad("\"stop\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", HG_EINVAL, "stop");
    static const char *const keys[] = {"1000", "-1", "01", "+1", "1 ", "", "x", "12345678901"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char text[64];
        snprintf(text, sizeof text, "\"logit_bias\":{\"%s\":1}", keys[i]);
        bad(text, HG_EINVAL, "logit_bias");
    }
    bad("\"logit_bias\":{\"1\":101}", HG_EINVAL, "logit_bias");
    bad("\"logit_bias\":{\"1\":null}", HG_EINVAL, "logit_bias");
    bad("\"logit_bias\":[1]", HG_EINVAL, "logit_bias");
}

static void test_stream_and_logprobs(void **state)
{
    (void)state;
    good("\"stream\":true,\"stream_options\":{\"include_usage\":true},\"logprobs\":true,"
         "\"top_logprobs\":20");
    assert_true(q.stream && q.include_usage);
    assert_int_equal(q.rp.n_logprobs, 20);
    hg_api_request_fini(&q);
    good("\"logprobs\":true");
    assert_int_equal(q.rp.n_logprobs, 0);
    hg_api_request_fini(&q);
    ok("\"logprobs\":false,\"top_logprobs\":0");
    bad("\"stream\":\"yes\"", HG_EINVAL, "stream");
    bad("\"stream_options\":[]", HG_EINVAL, "stream_options");
    bad("\"stream_options\":{\"include_usage\":1}", HG_EINVAL, "stream_options.include_usage");
    bad("\"logprobs\":3", HG_EINVAL, "logprobs");
    bad("\"top_logprobs\":3", HG_EINVAL, "top_logprobs");
    bad("\"logprobs\":true,\"top_logprobs\":21", HG_EINVAL, "top_logprobs");
}

static void test_reasoning(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        enum hg_reasoning wanted;
    } cases[] = {{"\"reasoning_effort\":\"none\"", HG_REASONING_OFF},
                 {"\"reasoning_effort\":\"high\"", HG_REASONING_AUTO},
                 {"\"enable_thinking\":true", HG_REASONING_ON},
                 {"\"chat_template_kwargs\":{\"enable_thinking\":false}", HG_REASONING_OFF},
                 {"\"chat_template_kwargs\":{\"a\":1}", HG_REASONING_AUTO},
                 {"\"enable_thinking\":true,\"chat_template_kwargs\":{\"enable_thinking\":false}",
                  HG_REASONING_OFF}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        good(cases[i].fields);
        assert_int_equal(q.rp.reasoning, cases[i].wanted);
        hg_api_request_fini(&q);
    }
    bad("\"chat_template_kwargs\":\"x\"", HG_EINVAL, "chat_template_kwargs");
    bad("\"chat_template_kwargs\":{\"enable_thinking\":1}", HG_EINVAL,
        "chat_template_kwargs.enable_thinking");
    bad("\"enable_thinking\":\"yes\"", HG_EINVAL, "enable_thinking");
    bad("\"reasoning_effort\":1", HG_EINVAL, "reasoning_effort");
}

static void test_unsupported(void **state)
{
    (void)state;
    ok("\"n\":1,\"response_format\":{\"type\":\"text\"},\"modalities\":[\"text\"],"
       "\"parallel_tool_calls\":false,\"functions\":[],\"guided_json\":null,\"min_tokens\":0");
    bad("\"n\":2", HG_EUNSUP, "n");
    bad("\"n\":\"1\"", HG_EINVAL, "n");
    bad("\"response_format\":{\"type\":\"json_object\"}", HG_EUNSUP, "response_format");
    bad("\"response_format\":{\"type\":\"json_schema\"}", HG_EUNSUP, "response_format");
    bad("\"response_format\":{}", HG_EINVAL, "response_format.type");
    bad("\"response_format\":\"text\"", HG_EINVAL, "response_format");
    bad("\"modalities\":[\"text\",\"audio\"]", HG_EUNSUP, "modalities");
    bad("\"modalities\":\"text\"", HG_EUNSUP, "modalities");
    bad("\"parallel_tool_calls\":false," TOOLS, HG_EUNSUP, "parallel_tool_calls");
    bad("\"functions\":[{}]", HG_EUNSUP, "functions");
    bad("\"guided_json\":{\"a\":1}", HG_EUNSUP, "guided_json");
    bad("\"chat_template\":\"x\"", HG_EUNSUP, "chat_template");
    bad("\"min_tokens\":3", HG_EUNSUP, "min_tokens");
    bad("\"add_generation_prompt\":false", HG_EUNSUP, "add_generation_prompt");
}

static void test_tools(void **state)
{
    (void)state;
    good(TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"bash\"}},"
               "\"parallel_tool_calls\":true");
    assert_int_equal(q.rp.tool_choice, HG_TOOLS_NAMED);
    assert_string_equal(q.rp.tool_name, "bash");
    assert_int_equal(json_array_size(q.rp.tools), 1);
    hg_api_request_fini(&q);
    good(TOOLS ",\"tool_choice\":\"required\"");
    assert_int_equal(q.rp.tool_choice, HG_TOOLS_REQUIRED);
    hg_api_request_fini(&q);
    good("\"tools\":[],\"tool_choice\":\"none\"");
    assert_null(q.rp.tools);
    assert_int_equal(q.rp.tool_choice, HG_TOOLS_NONE);
    hg_api_request_fini(&q);
    ok("\"tool_choice\":\"auto\"");
    bad("\"tool_choice\":\"required\"", HG_EINVAL, "tool_choice");
    bad(TOOLS ",\"tool_choice\":\"any\"", HG_EINVAL, "tool_choice");
    bad(TOOLS ",\"tool_choice\":1", HG_EINVAL, "tool_choice");
    bad(TOOLS ",\"tool_choice\":{\"type\":\"function\"}", HG_EINVAL, "tool_choice");
    bad(TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"x\"}}", HG_EINVAL,
        "tool_choice");
    bad("\"tools\":{}", HG_EINVAL, "tools");
    bad("\"tools\":[5]", HG_EINVAL, "tools[0]");
    bad("\"tools\":[{}]", HG_EINVAL, "tools[0].function");
    bad("\"tools\":[{\"type\":\"web\"}]", HG_EUNSUP, "tools[0]");
    bad("\"tools\":[{\"function\":{}}]", HG_EINVAL, "tools[0].function.name");
    bad("\"tools\":[{\"function\":{\"name\":\"\"}}]", HG_EINVAL, "tools[0].function");
    bad("\"tools\":[{\"function\":{\"name\":\"a\",\"parameters\":[]}}]", HG_EINVAL,
        "tools[0].function.parameters");
    bad("\"tools\":[{\"function\":{\"name\":\"a\",\"description\":5}}]", HG_EINVAL,
        "tools[0].function.description");
    bad("\"tools\":[" TOOL "," TOOL "]", HG_EINVAL, "tools[1].function");
}

static void test_messages(void **state)
{
    (void)state;
    check_messages("[{\"role\":\"developer\",\"content\":\"d\"}," USER "]",
                   "[{\"role\":\"system\",\"content\":\"d\"}," USER "]");
    check_messages("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                   "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"user\",\"content\":[]}]",
                   "[{\"role\":\"user\",\"content\":\"ab\"},{\"role\":\"user\",\"content\":\"\"}]");
    /* The shape of the MLPerf client's history: no content key, arguments in a string. */
    check_messages(
        "[" USER ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"functions.bash:0\","
        "\"type\":\"function\",\"function\":{\"name\":\"bash\",\"arguments\":"
        "\"{\\\"command\\\": \\\"ls\\\", \\\"n\\\": 5.0}\"}}],\"reasoning_content\":\"r\"},"
        "{\"role\":\"tool\",\"content\":\"t\",\"tool_call_id\":\"functions.bash:0\"}]",
        "[" USER ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"functions.bash:0\","
        "\"type\":\"function\",\"function\":{\"name\":\"bash\",\"arguments\":"
        "{\"command\":\"ls\",\"n\":5.0}}}],\"reasoning_content\":\"r\"},"
        "{\"role\":\"tool\",\"content\":\"t\",\"tool_call_id\":\"functions.bash:0\"}]");
    check_messages(
        "[{\"role\":\"assistant\",\"content\":null,\"reasoning\":\"r\",\"tool_calls\":"
        "[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}},"
        "{\"function\":{\"name\":\"f\",\"arguments\":\" \"}},"
        "{\"function\":{\"name\":\"f\"}}]}]",
        "[{\"role\":\"assistant\",\"content\":null,\"reasoning\":\"r\",\"tool_calls\":"
        "[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}},"
        "{\"function\":{\"name\":\"f\",\"arguments\":{}}},"
        "{\"function\":{\"name\":\"f\",\"arguments\":{}}}],\"reasoning_content\":\"r\"}]");
    /* A model may write integers of any length; its call must not make the history unusable. */
    check_messages("[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
                   "\"arguments\":\"{\\\"n\\\":100000000000000000000}\"}}]}]",
                   "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
                   "\"arguments\":{\"n\":1e20}}}]}]");
}

static void test_bad_messages(void **state)
{
    (void)state;
    bad_messages("null", HG_EINVAL, "messages");
    bad_messages("[]", HG_EINVAL, "messages");
    bad_messages("{}", HG_EINVAL, "messages");
    bad_messages("[5]", HG_EINVAL, "messages[0]");
    bad_messages("[{}]", HG_EINVAL, "messages[0].role");
    bad_messages("[" USER ",{\"role\":\"wizard\",\"content\":\"x\"}]", HG_EINVAL,
                 "messages[1].role");
    bad_messages("[{\"role\":\"user\"}]", HG_EINVAL, "messages[0].content");
    bad_messages("[{\"role\":\"tool\",\"content\":null}]", HG_EINVAL, "messages[0].content");
    bad_messages("[{\"role\":\"user\",\"content\":5}]", HG_EINVAL, "messages[0].content");
    bad_messages("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", HG_EUNSUP,
                 "messages[0].content[0]");
    bad_messages("[{\"role\":\"user\",\"content\":[5]}]", HG_EINVAL, "messages[0].content[0]");
    bad_messages("[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", HG_EINVAL,
                 "messages[0].content[0].text");
    bad_messages("[{\"role\":\"assistant\",\"reasoning_content\":5}]", HG_EINVAL,
                 "messages[0].reasoning_content");
    bad_messages("[{\"role\":\"assistant\",\"tool_calls\":{}}]", HG_EINVAL,
                 "messages[0].tool_calls");
    bad_messages("[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":5}]}]", HG_EINVAL,
                 "messages[0].tool_calls[0].function");
    bad_messages("[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":5}}]}]",
                 HG_EINVAL, "messages[0].tool_calls[0].function.name");
    static const char *const arguments[] = {"\"x\"", "\"{\"",    "\"[]\"",    "\"5\"", "5",
                                            "[]",    "\"null\"", "\"{} {}\"", "true"};
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "[" USER ",{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
                 "\"arguments\":%s}}]}]",
                 arguments[i]);
        bad_messages(text, HG_EINVAL, "messages[1].tool_calls[0].function.arguments");
    }
    /* The strings of many calls share one bound on values. */
    struct hg_buf b;
    hg_buf_init(&b);
    hg_buf_str(&b, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[");
    for (int i = 0; i < 3; i++) {
        hg_buf_str(&b, "{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[");
        for (int k = 0; k < 400000; k++) hg_buf_str(&b, "0,");
        hg_buf_str(&b, i < 2 ? "0]}\"}}," : "0]}\"}}]}]}");
    }
    check_failed("1.2 million values", parse(b.data), HG_EINVAL,
                 "messages[0].tool_calls[2].function.arguments");
    hg_buf_fini(&b);
}

static void test_completion(void **state)
{
    (void)state;
    assert_int_equal(parse_completion("{\"prompt\":\"a\\u0000b\",\"logprobs\":0,\"best_of\":1}"),
                     HG_OK);
    assert_int_equal(q.rp.n_prompt, 3);
    assert_int_equal(q.rp.n_logprobs, 0);
    hg_api_request_fini(&q);
    assert_int_equal(parse_completion("{\"prompt\":[[1,2]]}"), HG_OK);
    assert_int_equal(q.rp.n_prompt_ids, 2);
    assert_null(q.rp.prompt);
    hg_api_request_fini(&q);
    static const struct {
        const char *text;
        enum hg_status status;
        const char *param;
    } cases[] = {{"{}", HG_EINVAL, "prompt"},
                 {"{\"prompt\":[]}", HG_EINVAL, "prompt"},
                 {"{\"prompt\":5}", HG_EINVAL, "prompt"},
                 {"{\"prompt\":[\"a\",\"b\"]}", HG_EUNSUP, "prompt"},
                 {"{\"prompt\":[1,1000]}", HG_EINVAL, "prompt[1]"},
                 {"{\"prompt\":[1,\"a\"]}", HG_EINVAL, "prompt[1]"},
                 {"{\"prompt\":[[[1]]]}", HG_EINVAL, "prompt[0]"},
                 {"{\"prompt\":\"a\",\"echo\":true}", HG_EUNSUP, "echo"},
                 {"{\"prompt\":\"a\",\"suffix\":\"b\"}", HG_EUNSUP, "suffix"},
                 {"{\"prompt\":\"a\",\"best_of\":3}", HG_EUNSUP, "best_of"},
                 {"{\"prompt\":\"a\",\"logprobs\":true}", HG_EINVAL, "logprobs"},
                 {"{\"prompt\":\"a\",\"logprobs\":21}", HG_EINVAL, "logprobs"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_failed(cases[i].text, parse_completion(cases[i].text), cases[i].status,
                     cases[i].param);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),      cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_stop_and_bias), cmocka_unit_test(test_stream_and_logprobs),
        cmocka_unit_test(test_reasoning),     cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_tools),         cmocka_unit_test(test_messages),
        cmocka_unit_test(test_bad_messages),  cmocka_unit_test(test_completion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
