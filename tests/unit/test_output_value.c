/* The tolerant reader of values; and every call of the BFCL gate's ground truth, written as Qwen
 * XML, parsed, and typed by its tool's schema. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "text/output.h"
#include "text/output_value.h"

/* --------------------------------------------------------------------------------- values -- */

static void test_value_json(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json; /* NULL = neither JSON nor Python */
    } table[] = {
        /* clang-format off */
        {"5", "5"}, {"-0", "-0"}, {"5.0", "5.0"}, {"1E5", "1E5"}, {"0.10", "0.10"},
        {"00", NULL}, {"-", NULL}, {"1.", NULL}, {".5", NULL}, {"+1", NULL}, {"1e", NULL},
        {"0x10", NULL}, {"1e400", NULL}, {"1 2", NULL}, {"NaN", NULL}, {"", NULL}, {" ", NULL},
        {"true", "true"}, {"True", "true"}, {"TRUE", NULL}, {"None", "null"}, {"nullx", NULL},
        {" [ ] ", "[]"}, {"[1,]", "[1]"}, {"[,]", NULL}, {"[1 2]", NULL}, {"[1", NULL},
        {"(1, 'a')", "[1,\"a\"]"}, {"(1,)", "[1]"}, {"(1)", NULL}, {"()", "[]"},
        {"{}", "{}"}, {"{'a': 1,}", "{\"a\":1}"}, {"{a: 1}", NULL}, {"{'a' 1}", NULL},
        {"{1: 2, -3: 4}", "{\"1\":2,\"-3\":4}"}, {"{\"a\": }", NULL}, {"{'a'", NULL},
        {"{\"\\u0000\": 1}", NULL}, {"'it\"s'", "\"it\\\"s\""}, {"\"it's\"", "\"it's\""},
        {"'a", NULL}, {"'a\\", NULL}, {"\"\\u00e9\\ud83d\\ude00\"", "\"é\xf0\x9f\x98\x80\""},
        {"\"\\ud83d\"", "\"\xef\xbf\xbd\""}, {"\"\\ude00x\"", "\"\xef\xbf\xbdx\""},
        {"\"\\ud83d\\u0041\"", "\"\xef\xbf\xbd" "A\""}, {"\"\\u0000\"", "\"\\u0000\""},
        {"'\\x41\\xe9'", "\"Aé\""}, {"'\\d\\w'", "\"\\\\d\\\\w\""},
        {"'\\u12'", "\"\\\\u12\""}, {"\"a\nb\"", "\"a\\nb\""}, {"\"\\/\"", "\"/\""},
        {"\"\\\\n\"", "\"\\\\n\""}, {"'\\\\'", "\"\\\\\""},
        {"[\"a\", 'b', {\"c\": (None, False)}]", "[\"a\",\"b\",{\"c\":[null,false]}]"},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct hg_buf b;
        hg_buf_init(&b);
        hg_buf_str(&b, "=");
        bool ok = hg_value_json(table[i].text, strlen(table[i].text), &b);
        if (ok != (table[i].json != NULL) || (ok && strcmp(b.data + 1, table[i].json) != 0))
            fail_msg("%s: wanted %s, got %s", table[i].text, table[i].json ? table[i].json : "-",
                     ok ? b.data + 1 : "-");
        if (!ok) assert_string_equal(b.data, "=");
        hg_buf_fini(&b);
    }
}

static void test_value_member(void **state)
{
    (void)state;
    static const char s[] = "{\"a\":\"x,\\\"}\",\"bb\":[1,{\"c\":2}],\"c\":-5,\"a\":1}";
    static const char *const want[][2] = {
        {"a", "\"x,\\\"}\""}, {"bb", "[1,{\"c\":2}]"}, {"c", "-5"}, {"b", NULL}, {"", NULL}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        size_t n = 0;
        const char *v = hg_value_member(s, sizeof s - 1, want[i][0], &n);
        if (!want[i][1]) {
            assert_null(v);
            continue;
        }
        assert_non_null(v);
        assert_int_equal(n, strlen(want[i][1]));
        assert_memory_equal(v, want[i][1], n);
    }
    size_t n;
    assert_null(hg_value_member("{}", 2, "a", &n));
    assert_null(hg_value_member("[1]", 3, "a", &n));
}

/* ----------------------------------------------------------------------------------- BFCL -- */

struct bfcl_count {
    int n_rows, n_calls, n_values, n_by_text;
};

/* The first accepted value of each parameter; absent where that is "" (leave it out). */
static json_t *first_answers(json_t *accepted)
{
    json_t *args = json_object(), *list;
    const char *key;
    json_object_foreach(accepted, key, list)
    {
        json_t *v = json_array_get(list, 0);
        if (v && !(json_is_string(v) && json_string_length(v) == 0)) json_object_set(args, key, v);
    }
    return args;
}

/* As the chat template writes a value: strings raw, all else JSON. */
static void write_value(struct hg_buf *b, json_t *v)
{
    if (json_is_string(v)) {
        hg_buf_add(b, json_string_value(v), json_string_length(v));
        return;
    }
    char *s = json_dumps(v, JSON_ENCODE_ANY);
    hg_buf_str(b, s);
    free(s);
}

static bool same_text(json_t *a, json_t *b)
{
    struct hg_buf x, y;
    hg_buf_init(&x);
    hg_buf_init(&y);
    write_value(&x, a);
    write_value(&y, b);
    bool same = x.len == y.len && !memcmp(x.data ? x.data : "", y.data ? y.data : "", x.len);
    hg_buf_fini(&x);
    hg_buf_fini(&y);
    return same;
}

static unsigned type_of(json_t *v)
{
    return json_is_string(v)    ? HG_JT_STRING
           : json_is_number(v)  ? HG_JT_NUMBER
           : json_is_boolean(v) ? HG_JT_BOOL
           : json_is_array(v)   ? HG_JT_ARRAY
           : json_is_object(v)  ? HG_JT_OBJECT
                                : HG_JT_NULL;
}

/* Equal as JSON values. Where the answer is of another type than the schema (Java and JavaScript
 * answers are all strings), the text decides the type: then equal when written. */
static void compare_call(const char *id, json_t *tools_, const char *name, json_t *want,
                         json_t *got, struct bfcl_count *c)
{
    json_t *root, *v;
    const char *key;
    json_t *props = hg_tool_properties(tools_, name, &root);
    assert_int_equal(json_object_size(want), json_object_size(got));
    json_object_foreach(want, key, v)
    {
        json_t *g = json_object_get(got, key), *typed = NULL;
        unsigned types = hg_schema_types(root, json_object_get(props, key));
        bool equal = json_equal(v, g);
        if (!equal && !(type_of(v) & types)) {
            if (json_is_string(v)) {
                struct hg_buf b;
                hg_buf_init(&b);
                if (hg_value_json(json_string_value(v), json_string_length(v), &b))
                    typed = json_loadb(b.data, b.len, JSON_DECODE_ANY, NULL);
                hg_buf_fini(&b);
            }
            equal = typed ? json_equal(typed, g) : same_text(v, g);
            json_decref(typed);
            c->n_by_text++;
        }
        char *w = equal ? NULL : json_dumps(v, JSON_ENCODE_ANY);
        char *h = equal ? NULL : json_dumps(g, JSON_ENCODE_ANY);
        if (!equal) fail_msg("%s: %s.%s: wanted %s, got %s", id, name, key, w, h);
        c->n_values++;
    }
}

static void on_bfcl_event(void *ctx, enum hg_event_type type, int32_t index, const char *name,
                          const char *text, size_t n)
{
    json_t *calls = ctx;
    static struct hg_buf args; /* of the open call; freed at its end */
    (void)index;
    switch (type) {
    case HG_EV_TOOL_BEGIN: json_array_append_new(calls, json_pack("{ss}", "name", name)); break;
    case HG_EV_TOOL_ARGS: hg_buf_add(&args, text, n); break;
    case HG_EV_TOOL_END: {
        json_t *call = json_array_get(calls, json_array_size(calls) - 1);
        json_object_set_new(call, "args", json_loadb(args.data, args.len, 0, NULL));
        hg_buf_fini(&args);
        break;
    }
    default: fail_msg("unexpected text: %.*s", (int)n, text);
    }
}

/* Writes the row's ground truth as the model would, parses it, compares. */
static void check_row(json_t *row, struct bfcl_count *c)
{
    const char *id = json_string_value(json_object_get(row, "id")), *name, *key;
    json_t *truth = json_object_get(row, "ground_truth"), *t = json_object_get(row, "tools");
    json_t *call, *accepted, *v, *want = json_array(), *got = json_array();
    struct hg_buf b;
    size_t i;
    hg_buf_init(&b);
    json_array_foreach(truth, i, call)
    {
        json_object_foreach(call, name, accepted)
        {
            json_t *args = first_answers(accepted);
            struct hg_buf fn;
            hg_buf_init(&fn);
            hg_buf_str(&fn, name);
            for (char *s = fn.data; *s; s++) *s = *s == '.' ? '_' : *s;
            hg_buf_printf(&b, "<tool_call>\n<function=%s>\n", fn.data);
            json_object_foreach(args, key, v)
            {
                hg_buf_printf(&b, "<parameter=%s>\n", key);
                write_value(&b, v);
                hg_buf_str(&b, "\n</parameter>\n");
            }
            hg_buf_str(&b, "</function>\n</tool_call>\n");
            json_array_append_new(want, json_pack("{ssso}", "name", fn.data, "args", args));
            hg_buf_fini(&fn);
        }
    }
    struct hg_output_params p = {.tools = t};
    struct hg_output_sink sink = {on_bfcl_event, got};
    struct hg_output *o = hg_output_create(&p);
    assert_int_equal(hg_output_feed(o, b.data ? b.data : "", b.len, &sink), HG_OK);
    assert_int_equal(hg_output_finish(o, &sink), HG_OK);
    assert_int_equal(json_array_size(got), json_array_size(want));
    json_array_foreach(want, i, call)
    {
        json_t *g = json_array_get(got, i);
        name = json_string_value(json_object_get(call, "name"));
        assert_string_equal(name, json_string_value(json_object_get(g, "name")));
        compare_call(id, t, name, json_object_get(call, "args"), json_object_get(g, "args"), c);
        c->n_calls++;
    }
    c->n_rows++;
    hg_output_free(o);
    hg_buf_fini(&b);
    json_decref(want);
    json_decref(got);
}

static void test_bfcl(void **state)
{
    (void)state;
    const char *path = "../shared/data/bfcl/gate995.jsonl";
    if (access(path, R_OK) != 0) {
        printf("%s is absent: using the sample of it\n", path);
        path = "tests/golden/bfcl_sample.jsonl";
    }
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    struct bfcl_count c = {0};
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, f) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        check_row(row, &c);
        json_decref(row);
    }
    free(line);
    fclose(f);
    printf("BFCL: %d rows, %d calls, %d values all equal (%d of them by their text: the answer's "
           "type is not the schema's)\n",
           c.n_rows, c.n_calls, c.n_values, c.n_by_text);
    assert_true(c.n_calls > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_value_json),
        cmocka_unit_test(test_value_member),
        cmocka_unit_test(test_bfcl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
