/* Generated tokens come back where a client's message means the same, and only there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "engine/recall.h"

enum { EOS = 9, NL = 5, A = 1, B = 2 }; /* A B: the generation prompt */

static struct hg_recall *recall;
static const hg_tok gen[] = {A, B};

static json_t *message(const char *text)
{
    json_t *m = json_loads(text, 0, NULL);
    assert_non_null(m);
    return m;
}

/* Prompt: user message (7 7 7), assistant message (A B 10 11 12 EOS NL), generation prompt (A B). */
static void splice(const char *assistant, const char *want)
{
    struct hg_err err;
    static const hg_tok rendered[] = {7, 7, 7, A, B, 10, 11, 12, EOS, NL, A, B};
    int64_t starts[] = {0, 3, 10};
    struct hg_toks ids = {0};
    for (size_t i = 0; i < sizeof rendered / sizeof *rendered; i++)
        assert_true(hg_toks_push(&ids, rendered[i]));
    json_t *messages = json_array();
    json_array_append_new(messages, message("{\"role\":\"user\",\"content\":\"x\"}"));
    json_array_append_new(messages, message(assistant));
    assert_int_equal(hg_recall_splice(recall, messages, EOS, &ids, starts, &err), HG_OK);
    char got[128] = "";
    for (size_t i = 0; i < ids.n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i ? " " : "", ids.ids[i]);
    assert_string_equal(got, want);
    assert_int_equal(ids.ids[starts[2]], A); /* moved along */
    assert_int_equal(starts[2], (int64_t)ids.n - 2);
    hg_toks_fini(&ids);
    json_decref(messages);
}

static void test_splice(void **state)
{
    (void)state;
    static const hg_tok longer[] = {20, 21, 22, 23, 24}, shorter[] = {30};
    static const char same[] = "7 7 7 1 2 10 11 12 9 5 1 2";
    recall = hg_recall_create();
    json_t *call = message(
        "{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
        "\"{\\\"a\\\": [1, 2], \\\"b\\\": \\\"x\\\"}\"}}]}");
    json_t *text = message("{\"role\":\"assistant\",\"content\":\" Done. \\n\"}");
    hg_recall_keep(recall, call, gen, 2, longer, 5);
    hg_recall_keep(recall, text, gen, 2, shorter, 1);
    /* the same call as an object, keys in another order, with an id */
    splice("{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_1\",\"type\":"
           "\"function\",\"function\":{\"arguments\":{\"b\":\"x\",\"a\":[1,2]},\"name\":\"f\"}}]}",
           "7 7 7 1 2 20 21 22 23 24 9 5 1 2");
    splice("{\"role\":\"assistant\",\"content\":\"Done.\"}", "7 7 7 1 2 30 9 5 1 2");
    /* another value, name, text or reasoning is another message */
    splice("{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
           "{\"a\":[1,3],\"b\":\"x\"}}}]}",
           same);
    splice("{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"g\",\"arguments\":"
           "{\"a\":[1,2],\"b\":\"x\"}}}]}",
           same);
    splice("{\"role\":\"assistant\",\"content\":\"Done!\"}", same);
    splice("{\"role\":\"assistant\",\"content\":\"Done.\",\"reasoning_content\":\"hm\"}", same);
    splice("{\"role\":\"tool\",\"content\":\"Done.\"}", same);
    json_decref(call);
    json_decref(text);
    hg_recall_free(recall);
}

/* A message that does not begin like the generation prompt (its thinking was dropped) stays. */
static void test_other_beginning(void **state)
{
    (void)state;
    struct hg_err err;
    static const hg_tok kept[] = {20, 21}, rendered[] = {A, 10, EOS, NL, A, B};
    recall = hg_recall_create();
    json_t *m = message("{\"role\":\"assistant\",\"content\":\"hi\"}"), *messages = json_array();
    hg_recall_keep(recall, m, gen, 2, kept, 2);
    json_array_append_new(messages, m);
    struct hg_toks ids = {0};
    for (size_t i = 0; i < 6; i++) assert_true(hg_toks_push(&ids, rendered[i]));
    int64_t starts[] = {0, 4};
    assert_int_equal(hg_recall_splice(recall, messages, EOS, &ids, starts, &err), HG_OK);
    assert_int_equal(ids.n, 6);
    int64_t unknown[] = {-1, 4};
    assert_int_equal(hg_recall_splice(recall, messages, EOS, &ids, unknown, &err), HG_OK);
    assert_int_equal(ids.n, 6);
    hg_toks_fini(&ids);
    json_decref(messages);
    hg_recall_free(recall);
}

static void test_bounds(void **state)
{
    (void)state;
    recall = hg_recall_create();
    hg_tok *ids = calloc(HG_RECALL_TOKENS / 4, sizeof *ids);
    for (int i = 0; i < 2 * HG_RECALL_ANSWERS; i++) {
        json_t *m = json_pack("{s:s, s:s%}", "role", "assistant", "content", (char *)&i, (size_t)1);
        if (!m) m = json_pack("{s:s}", "role", "assistant");
        hg_recall_keep(recall, m, gen, 2, ids, i % 100 ? 3 : HG_RECALL_TOKENS / 4);
        json_decref(m);
    }
    free(ids);
    hg_recall_free(recall); /* the sanitizers look at the rest */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_splice),
                                       cmocka_unit_test(test_other_beginning),
                                       cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
