/* The engine on the embedded model: requests from submit to the last event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "hedge.h"

static struct hg_engine *eng;

static void nap(double s)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)((s - (time_t)s) * 1e9)},
              NULL);
}

static int setup(void **state)
{
    (void)state;
    struct hg_engine_params p = {.model = "models/nano",
                                 .n_ctx = 4096,
                                 .n_queue = 2,
                                 .n_chunk = 32,
                                 .reasoning = HG_REASONING_OFF};
    struct hg_err err;
    if (hg_engine_open(&p, &eng, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hg_engine_close(eng);
    return 0;
}

/* Everything a request said. */
struct answer {
    struct hg_buf text, reasoning, args[4];
    char name[4][64], id[4][64];
    int n_calls, n_text, n_logprobs;
    enum hg_finish finish;
    struct hg_usage usage;
    struct hg_timings timings;
    struct hg_err err; /* status OK unless it ended with ERROR */
};

static void collect(struct hg_request *r, struct answer *a)
{
    const struct hg_event *ev;
    memset(a, 0, sizeof *a);
    while ((ev = hg_request_wait(r)) != NULL) {
        a->n_logprobs += ev->n_logprobs;
        switch (ev->type) {
        case HG_EV_TEXT:
            hg_buf_add(&a->text, ev->text, ev->n_text);
            a->n_text++;
            break;
        case HG_EV_REASONING: hg_buf_add(&a->reasoning, ev->text, ev->n_text); break;
        case HG_EV_TOOL_BEGIN:
            assert_int_equal(ev->index, a->n_calls);
            assert_true(a->n_calls < 4);
            snprintf(a->name[a->n_calls], 64, "%s", ev->name);
            snprintf(a->id[a->n_calls++], 64, "%s", ev->id);
            break;
        case HG_EV_TOOL_ARGS: hg_buf_add(&a->args[ev->index], ev->text, ev->n_text); break;
        case HG_EV_TOOL_END: break;
        case HG_EV_DONE:
            a->finish = ev->finish;
            a->usage = ev->usage;
            a->timings = ev->timings;
            break;
        case HG_EV_ERROR: a->err = ev->err; break;
        }
    }
}

static void answer_fini(struct answer *a)
{
    hg_buf_fini(&a->text);
    hg_buf_fini(&a->reasoning);
    for (int i = 0; i < 4; i++) hg_buf_fini(&a->args[i]);
}

static struct hg_request *submit(const struct hg_request_params *p)
{
    struct hg_request *r;
    struct hg_err err;
    if (hg_request_submit(eng, p, &r, &err)) fail_msg("%s", err.text);
    return r;
}

static void ask(const struct hg_request_params *p, struct answer *a)
{
    struct hg_request *r = submit(p);
    collect(r, a);
    hg_request_free(r);
}

static struct hg_request_params completion(const char *text, int32_t max_tokens)
{
    struct hg_request_params p;
    hg_request_params_init(&p);
    p.prompt = text;
    p.n_prompt = strlen(text);
    p.max_tokens = max_tokens;
    return p;
}

static const char weather[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"Current "
    "weather"
    " of a "
    "city.\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"
    "\"days\":{\"type\":\"integer\"}},\"required\":[\"city\"]}}}]";

static void test_completion(void **state)
{
    (void)state;
    struct answer a, b;
    struct hg_request_params p = completion("def add(a, b):\n", 12);
    p.ignore_eos = true;
    ask(&p, &a);
    assert_int_equal(a.err.status, HG_OK);
    assert_int_equal(a.finish, HG_FINISH_LENGTH);
    assert_int_equal(a.usage.n_completion, 12);
    assert_true(a.usage.n_prompt > 3);
    assert_true(a.text.len > 0);
    assert_true(a.timings.logits_hash != 0);
    ask(&p, &b); /* greedy repeats itself to the bit */
    assert_string_equal(a.text.data, b.text.data);
    assert_int_equal(a.timings.logits_hash, b.timings.logits_hash);
    answer_fini(&a);
    answer_fini(&b);
}

static void test_chunks_do_not_show(void **state)
{
    (void)state;
    struct answer a, b;
    struct hg_err err;
    struct hg_engine *own = eng, *other;
    struct hg_engine_params ep = {
        .model = "models/nano", .n_ctx = 512, .n_chunk = 7, .n_threads = 1};
    assert_int_equal(hg_engine_open(&ep, &other, &err), HG_OK);
    struct hg_request_params p =
        completion("import os\nimport sys\n\n\nclass Reader:\n    \"\"\"Reads "
                   "lines.\"\"\"\n\n    def __init__(self, path):\n",
                   24);
    ask(&p, &a);
    eng = other;
    ask(&p, &b);
    eng = own;
    hg_engine_close(other);
    assert_string_equal(a.text.data, b.text.data);
    assert_int_equal(a.timings.logits_hash, b.timings.logits_hash);
    answer_fini(&a);
    answer_fini(&b);
}

static void test_tool_call(void **state)
{
    (void)state;
    struct answer a;
    struct hg_request_params p;
    hg_request_params_init(&p);
    p.messages =
        json_loads("[{\"role\":\"user\",\"content\":\"What is the weather in Paris for the "
                   "next 3 days?\"}]",
                   0, NULL);
    p.tools = json_loads(weather, 0, NULL);
    p.max_tokens = 128;
    const enum hg_tool_choice choice[] = {HG_TOOLS_AUTO, HG_TOOLS_REQUIRED, HG_TOOLS_NAMED};
    for (int i = 0; i < 3; i++) {
        p.tool_choice = choice[i];
        p.tool_name = "get_weather";
        ask(&p, &a);
        assert_int_equal(a.err.status, HG_OK);
        assert_int_equal(a.n_calls, 1);
        assert_string_equal(a.name[0], "get_weather");
        assert_int_equal(strncmp(a.id[0], "call_", 5), 0);
        json_t *args = json_loads(a.args[0].data, 0, NULL);
        assert_non_null(args);
        assert_string_equal(json_string_value(json_object_get(args, "city")), "Paris");
        assert_int_equal(a.finish, HG_FINISH_TOOL_CALLS);
        assert_int_equal(a.text.len, 0);
        json_decref(args);
        answer_fini(&a);
    }
    struct hg_err err;
    struct hg_request *r;
    p.tool_name = "launch_rocket";
    assert_int_equal(hg_request_submit(eng, &p, &r, &err), HG_EINVAL);
    assert_non_null(strstr(err.text, "launch_rocket"));
    json_decref(p.messages);
    json_decref(p.tools);
}

static void test_stop_and_logprobs(void **state)
{
    (void)state;
    struct answer a, b;
    struct hg_request_params p = completion("def add(a, b):\n", 16);
    p.n_logprobs = 5;
    ask(&p, &a);
    assert_int_equal(a.n_logprobs, a.usage.n_completion);
    assert_true(a.text.len > 6);
    char stop[4] = {0};
    memcpy(stop, a.text.data + 4, 3);
    p.stop = (const char *const[]){"never there", stop};
    p.n_stop = 2;
    ask(&p, &b);
    assert_int_equal(b.finish, HG_FINISH_STOP);
    size_t at = (size_t)(strstr(a.text.data, stop) - a.text.data);
    assert_int_equal(b.text.len, at);
    assert_memory_equal(a.text.data, b.text.len ? b.text.data : "", at);
    answer_fini(&a);
    answer_fini(&b);
}

static void test_sampling_seed(void **state)
{
    (void)state;
    struct answer a[3];
    struct hg_request_params p = completion("The", 24);
    p.ignore_eos = true;
    p.sampling.temperature = 1;
    p.sampling.has_seed = true;
    for (int i = 0; i < 3; i++) {
        p.sampling.seed = i < 2 ? 7 : 8;
        ask(&p, &a[i]);
    }
    assert_string_equal(a[0].text.data, a[1].text.data);
    assert_string_not_equal(a[0].text.data, a[2].text.data);
    for (int i = 0; i < 3; i++) answer_fini(&a[i]);
}

static void test_bad_requests(void **state)
{
    (void)state;
    struct hg_err err;
    struct hg_request *r;
    struct hg_request_params p;
    hg_request_params_init(&p);
    assert_int_equal(hg_request_submit(eng, &p, &r, &err), HG_EINVAL);
    p = completion("", 1);
    assert_int_equal(hg_request_submit(eng, &p, &r, &err), HG_EINVAL);
    p = completion("x", 1);
    p.sampling.temperature = -1;
    assert_int_equal(hg_request_submit(eng, &p, &r, &err), HG_EINVAL);
    assert_non_null(strstr(err.text, "temperature"));
    hg_tok bad[] = {1, 999999};
    hg_request_params_init(&p);
    p.prompt_ids = bad;
    p.n_prompt_ids = 2;
    assert_int_equal(hg_request_submit(eng, &p, &r, &err), HG_EINVAL);
    assert_non_null(strstr(err.text, "999999"));

    hg_tok *many = calloc(5000, sizeof *many);
    for (int i = 0; i < 5000; i++) many[i] = 100;
    p.prompt_ids = many;
    p.n_prompt_ids = 5000;
    assert_int_equal(hg_request_submit(eng, &p, &r, &err), HG_ETOOLONG);
    assert_non_null(strstr(err.text, "5000"));
    assert_non_null(strstr(err.text, "4096"));
    free(many);

    hg_request_params_init(&p);
    p.messages = json_loads("[{\"role\":\"user\",\"content\":\"x\"}]", 0, NULL);
    p.tool_choice = HG_TOOLS_REQUIRED;
    assert_int_equal(hg_request_submit(eng, &p, &r, &err), HG_EINVAL);
    json_decref(p.messages);
}

/* A running one, two waiting ones, then no more; who leaves the queue makes room. */
static void test_queue_and_cancel(void **state)
{
    (void)state;
    struct hg_err err;
    struct hg_stats s;
    struct hg_request *r[4], *extra;
    struct hg_request_params p = completion("x = [", 0);
    p.ignore_eos = true;
    r[0] = submit(&p);
    do nap(0.001), hg_engine_stats(eng, &s);
    while (s.n_running == 0);
    r[1] = submit(&p);
    r[2] = submit(&p);
    assert_int_equal(hg_request_submit(eng, &p, &extra, &err), HG_EBUSY);
    assert_non_null(strstr(err.text, "2 requests"));
    struct answer waiting;
    hg_request_cancel(r[1]); /* ends at once, though r[0] still runs, and makes room */
    collect(r[1], &waiting);
    assert_int_equal(waiting.err.status, HG_ECANCELED);
    answer_fini(&waiting);
    hg_engine_stats(eng, &s);
    assert_int_equal(s.n_running, 1);
    hg_request_free(r[1]);
    r[3] = submit(&p);
    hg_request_cancel(r[0]);
    struct answer a;
    collect(r[0], &a);
    assert_int_equal(a.err.status, HG_ECANCELED);
    answer_fini(&a);
    for (int i = 0; i < 4; i++)
        if (i != 1) hg_request_free(r[i]);
    do nap(0.001), hg_engine_stats(eng, &s);
    while (s.n_running + s.n_waiting > 0);
}

/* A client that leaves in mid-prefill costs at most the step that runs. */
static void test_cancel_in_prefill(void **state)
{
    (void)state;
    struct hg_stats before, now;
    struct hg_request_params p;
    hg_tok *ids = calloc(4000, sizeof *ids);
    for (int i = 0; i < 4000; i++) ids[i] = 100 + i % 1000;
    hg_request_params_init(&p);
    p.prompt_ids = ids;
    p.n_prompt_ids = 4000; /* 125 steps of 32 rows */
    hg_engine_stats(eng, &before);
    struct hg_request *r = submit(&p);
    do hg_engine_stats(eng, &now);
    while (now.n_steps == before.n_steps);
    hg_request_cancel(r);
    hg_engine_stats(eng, &now);
    uint64_t at_cancel = now.n_steps;
    do nap(0.001), hg_engine_stats(eng, &now);
    while (now.n_running > 0);
    assert_true(now.n_steps <= at_cancel + 1);
    assert_true(now.n_steps - before.n_steps < 125);
    hg_request_free(r);
    free(ids);
}

static void count(void *ctx)
{
    ++*(int *)ctx;
}

static void test_free_unread(void **state)
{
    (void)state;
    int n = 0;
    struct hg_request_params p = completion("x", 64);
    p.notify = count;
    p.notify_ctx = &n;
    struct hg_request *r = submit(&p);
    nap(0.02);
    hg_request_free(r);
    int at_free = n;
    nap(0.02);
    assert_int_equal(n, at_free); /* never called after free */
}

static void test_logits(void **state)
{
    (void)state;
    struct hg_err err;
    hg_tok ids[100];
    size_t v = (size_t)hg_engine_info(eng)->n_vocab;
    float *all = malloc(100 * v * sizeof *all), *last = malloc(v * sizeof *last);
    for (int i = 0; i < 100; i++) ids[i] = 50 + i * 7;
    assert_int_equal(hg_logits(eng, ids, 100, true, all, &err), HG_OK);
    assert_int_equal(hg_logits(eng, ids, 100, false, last, &err), HG_OK);
    assert_memory_equal(all + 99 * v, last, v * sizeof *last);
    assert_int_equal(hg_logits(eng, ids, 71, false, last, &err), HG_OK);
    assert_memory_equal(all + 70 * v, last, v * sizeof *last);
    assert_int_equal(hg_logits(eng, ids, 0, false, last, &err), HG_ETOOLONG);
    free(all);
    free(last);
}

static void test_tokenize(void **state)
{
    (void)state;
    struct hg_err err;
    hg_tok *ids;
    char *text;
    size_t n, len;
    static const char s[] = "caf\xc3\xa9 <|im_end|>\n";
    assert_int_equal(hg_tokenize(eng, s, sizeof s - 1, true, &ids, &n, &err), HG_OK);
    assert_int_equal(hg_detokenize(eng, ids, n, &text, &len, &err), HG_OK);
    assert_string_equal(text, s);
    free(text);
    free(ids);
    hg_tok bad = 70000;
    assert_int_equal(hg_detokenize(eng, &bad, 1, &text, &len, &err), HG_EINVAL);
}

static void test_open_errors(void **state)
{
    (void)state;
    struct hg_engine *e;
    struct hg_err err;
    struct {
        struct hg_engine_params p;
        const char *says;
    } bad[] = {
        {{.model = "/nonexistent"}, "/nonexistent/config.json"},
        {{.model = "models/presets"}, "config.json"},
        {{.model = "models/nano", .n_ctx = 1 << 20}, "32768"},
        {{.model = "models/nano", .device = "tpu"}, "tpu"},
        {{.dummy = "gpt-9"}, "gpt-9"},
        {{.dummy = "qwen3.5-0.8b:int3"}, "int3"},
        {{.model = "a", .dummy = "b"}, "give one"},
        {{.model = "models/nano", .n_threads = -1}, "threads"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(hg_engine_open(&bad[i].p, &e, &err), HG_OK);
        if (!strstr(err.text, bad[i].says)) fail_msg("'%s' lacks '%s'", err.text, bad[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completion),       cmocka_unit_test(test_chunks_do_not_show),
        cmocka_unit_test(test_tool_call),        cmocka_unit_test(test_stop_and_logprobs),
        cmocka_unit_test(test_sampling_seed),    cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_queue_and_cancel), cmocka_unit_test(test_cancel_in_prefill),
        cmocka_unit_test(test_free_unread),      cmocka_unit_test(test_logits),
        cmocka_unit_test(test_tokenize),         cmocka_unit_test(test_open_errors),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
