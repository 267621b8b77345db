/* test_template.c: the chat template interpreter. jinja2's answers to the small cases are in
 * tests/golden/template_cases.jsonl, written by tools/oracle_template.py --write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "text/template.h"
#include "text/template_int.h"

static const char nano_path[] = "models/nano/chat_template.jinja";
static const char qwen_path[] = "tests/golden/qwen36_chat_template.jinja";

static json_t *parse_json(const char *text)
{
    json_error_t e;
    json_t *j = json_loads(text, JSON_ALLOW_NUL, &e);
    if (!j) fail_msg("%s: %s", text, e.text);
    return j;
}

/* Parses and renders; vars is JSON text or NULL. limits NULL: the public function. */
static enum hg_status render(const char *src, const char *vars, const struct tmpl_limits *limits,
                             struct hg_rendered *out, struct hg_err *err)
{
    struct hg_template *t;
    *out = (struct hg_rendered){0};
    enum hg_status s = hg_template_parse("t", src, strlen(src), &t, err);
    if (s != HG_OK) return s;
    json_t *v = parse_json(vars ? vars : "{}");
    s = limits ? tmpl_render(t, v, limits, out, err) : hg_template_render(t, v, out, err);
    json_decref(v);
    hg_template_free(t);
    return s;
}

static void gives(const char *src, const char *vars, const char *want)
{
    struct hg_rendered r;
    struct hg_err err;
    if (render(src, vars, NULL, &r, &err) != HG_OK) fail_msg("%s: %s", src, err.text);
    assert_string_equal(r.text, want);
    assert_int_equal(r.n, strlen(want));
    hg_rendered_fini(&r);
}

static void fails(const char *src, enum hg_status status, const char *want)
{
    struct hg_rendered r;
    struct hg_err err;
    enum hg_status s = render(src, "{\"n\": 5, \"l\": [1, 2]}", NULL, &r, &err);
    if (s == HG_OK) fail_msg("%s: rendered as %s", src, r.text);
    assert_string_equal(err.text, want);
    assert_int_equal(s, status);
    assert_int_equal(err.status, status);
    assert_null(r.text);
}

static struct hg_template *load(const char *path)
{
    struct hg_template *t;
    struct hg_err err;
    char *src;
    size_t n;
    if (hg_file_read(path, 1 << 20, &src, &n, &err) != HG_OK ||
        hg_template_parse(path, src, n, &t, &err) != HG_OK)
        fail_msg("%s", err.text);
    free(src);
    return t;
}

/* ---------------------------------------------------------------------------------- goldens -- */

static void one_golden(json_t *c, json_t *vars)
{
    json_t *src = json_object_get(c, "t"), *want = json_object_get(c, "ok");
    const char *raised = json_string_value(json_object_get(c, "raised"));
    struct hg_template *t = NULL;
    struct hg_rendered r = {0};
    struct hg_err err;
    const char *text = json_string_value(src);
    enum hg_status s = hg_template_parse("t", text, json_string_length(src), &t, &err);
    if (s == HG_OK) s = hg_template_render(t, vars, &r, &err);
    if (want && s != HG_OK) fail_msg("%s: %s", text, err.text);
    if (!want && s == HG_OK) fail_msg("%s: no error, rendered as %s", text, r.text);
    if (want && (json_string_length(want) != r.n || memcmp(json_string_value(want), r.text, r.n)))
        fail_msg("%s: %s, not %s", text, r.text, json_string_value(want));
    if (raised) assert_string_equal(err.text, raised);
    hg_rendered_fini(&r);
    hg_template_free(t);
}

static void test_goldens(void **state)
{
    (void)state;
    FILE *f = fopen("tests/golden/template_cases.jsonl", "r");
    assert_non_null(f);
    char *line = NULL;
    size_t cap = 0, n = 0;
    json_t *vars = NULL;
    for (ssize_t len; (len = getline(&line, &cap, f)) > 0; n++) {
        json_t *c = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, NULL);
        assert_non_null(c);
        if (n == 0)
            vars = json_incref(json_object_get(c, "vars"));
        else
            one_golden(c, vars);
        json_decref(c);
    }
    assert_true(n > 1000);
    json_decref(vars);
    free(line);
    fclose(f);
}

/* ----------------------------------------------------------------------------------- errors -- */

static void test_syntax_errors(void **state)
{
    (void)state;
    fails("a\nb {{ n", HG_EFORMAT, "t:2: tag without an end");
    fails("\n\n{% if n %}x", HG_EFORMAT, "t:3: this block has no {% endif %}");
    fails("{% for x in l %}{% else %}", HG_EFORMAT, "t:1: this block has no {% endfor %}");
    fails("{# x", HG_EFORMAT, "t:1: comment without an end");
    fails("{% raw %}", HG_EFORMAT, "t:1: raw without endraw");
    fails("{{ 'a }}", HG_EFORMAT, "t:1: string without an end");
    fails("{{ '\\x4' }}", HG_EFORMAT, "t:1: bad escape in a string");
    fails("{{ 99999999999999999999 }}", HG_EFORMAT,
          "t:1: 99999999999999999999 is no number that fits 64 bits");
    fails("{{ n $ }}", HG_EFORMAT, "t:1: unexpected character U+0024");
    fails("{{ (n] }}", HG_EFORMAT, "t:1: unexpected ']'");
    fails("{{ n n }}", HG_EFORMAT, "t:1: expected }}, got 'n'");
    fails("{{ }}", HG_EFORMAT, "t:1: expected an expression, got }}");
    fails("{% zork %}", HG_EFORMAT, "t:1: unknown tag 'zork'");
    fails("x\n{% include 'a' %}", HG_EFORMAT, "t:2: {% include %} is not supported");
    fails("{% import 'a' as b %}", HG_EFORMAT, "t:1: {% import %} is not supported");
    fails("{% extends 'a' %}", HG_EFORMAT, "t:1: {% extends %} is not supported");
    fails("{% for x in l recursive %}{% endfor %}", HG_EFORMAT,
          "t:1: recursive loops are not supported");
    fails("{% break %}", HG_EFORMAT, "t:1: break outside a loop");
    fails("{% set 5 = 1 %}", HG_EFORMAT, "t:1: expected a name to assign to, got '5'");
    fails("{{ f(a=1, 2) }}", HG_EFORMAT, "t:1: positional argument behind a named one");
    fails("a\n\xff", HG_EFORMAT, "t:2: not valid UTF-8");
    fails("{{ n if }}", HG_EFORMAT, "t:1: expected an expression, got }}");
}

static void test_run_time_errors(void **state)
{
    (void)state;
    fails("\n{{ raise_exception('No \xc3\xa9, ' ~ n) }}", HG_EINVAL, "No \xc3\xa9, 5");
    fails("\n\n{{ nosuch.x }}", HG_EINVAL, "t:3: 'nosuch' is undefined");
    fails("{{ {'a': 1}.b.c }}", HG_EINVAL, "t:1: 'dict object' has no attribute 'b'");
    fails("{{ none.b.c }}", HG_EINVAL, "t:1: 'None' has no attribute 'b'");
    fails("{{ l[7].x }}", HG_EINVAL, "t:1: object has no element 7");
    fails("{{ n\n + 'x' }}", HG_EINVAL, "t:2: unsupported operand type(s) for +: 'int' and 'str'");
    fails("{% if 1 %}\n{{ n < 'x' }}{% endif %}", HG_EINVAL,
          "t:2: '<' not supported between instances of 'int' and 'str'");
    fails("{{ l.append(3) }}", HG_EINVAL,
          "t:1: access to attribute 'append' of 'list' object is unsafe.");
    fails("{{ n|zork }}", HG_EINVAL, "t:1: No filter named 'zork'.");
    fails("{{ n is zork }}", HG_EINVAL, "t:1: No test named 'zork'.");
    fails("{{ n|items|list }}", HG_EINVAL, "t:1: Can only get item pairs from a mapping.");
    fails("{{ 9223372036854775807 + 1 }}", HG_EINVAL, "t:1: integer overflow");
    fails("{{ -9223372036854775807 - 1 - 1 }}", HG_EINVAL, "t:1: integer overflow");
    fails("{{ 10 ** 19 }}", HG_EINVAL, "t:1: integer overflow in **");
    fails("{{ (1e300 * 1e10)|int }}", HG_EINVAL, "t:1: int: the value does not fit 64 bits");
    fails("{{ '%s' % n }}", HG_EINVAL, "t:1: formatting of strings with % is not supported");
    fails("{{ 'a'.startswith('a', 0) }}", HG_EINVAL,
          "t:1: startswith takes at most 1 argument (2 given)");
    fails("{{ n|default(zork=1) }}", HG_EINVAL,
          "t:1: default got an unexpected keyword argument 'zork'");
    fails("{% macro m(a) %}{% endmacro %}{{ m(b=1) }}", HG_EINVAL,
          "t:1: macro 'm' takes no keyword argument 'b'");
    fails("{% for a, b in l %}{% endfor %}", HG_EINVAL, "t:1: 'int' object is not iterable");
}

/* ----------------------------------------------------------------------------------- limits -- */

static const struct tmpl_limits small = {
    .steps = 20000, .calls = 20, .nesting = 200, .output = 10000, .memory = 1 << 20};

static void limited(const char *src, const char *want)
{
    struct hg_rendered r;
    struct hg_err err;
    enum hg_status s = render(src, NULL, &small, &r, &err);
    if (s == HG_OK) fail_msg("%s: rendered, %zu bytes", src, r.n);
    assert_int_equal(s, HG_EINVAL);
    assert_string_equal(err.text, want);
}

static void test_limits(void **state)
{
    (void)state;
    limited("\n{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}",
            "t:2: macro calls nested deeper than 20");
    limited(
        "{% macro a() %}\n{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "t:2: macro calls nested deeper than 20");
    limited("{% set r = range(1000) %}{% for x in r %}\n{% for y in r %}{% endfor %}{% endfor %}",
            "t:2: the template takes more than 20000 steps");
    limited("{% for x in range(999) %}{{ 'abcdefghijklmnopqrst' }}{% endfor %}",
            "t:1: more than 10000 bytes of output");
    limited("{{ 'x' * 9999999999 }}", "t:1: repetition needs more than 1048576 bytes");
    limited("\n{{ ('x' * 300000) ~ ('y' * 300000) }}",
            "t:2: the values of this template need more than 1048576 bytes");
    limited("{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}"
            "{% endfor %}",
            "t:1: the values of this template need more than 1048576 bytes");
    limited("{% set n = namespace(l=[]) %}{% for i in range(999) %}{% set n.l = [n.l] %}"
            "{% endfor %}{{ n.l }}",
            "t:1: nested deeper than 200");
    limited("{{ [1]|map('map', 'map', 'map')|list }}", "t:1: 'int' object is not iterable");
    limited("{{ {'a': [1]}|tojson(indent='x' * 20000) }}", "t:1: more than 10000 bytes of output");
    limited("{{ ('x' * 9000)|replace('', 'yyyyyyyyyy') }}", "t:1: more than 10000 bytes of output");
}

static void test_deep_source(void **state)
{
    (void)state;
    static const char *const nests[][2] = {{"(", "t:1: nested deeper than 200"},
                                           {"[", "t:1: nested deeper than 200"},
                                           {"-", "t:1: nested deeper than 200"},
                                           {"not ", "t:1: nested deeper than 200"},
                                           {"a if b else ", "t:1: nested deeper than 200"}};
    enum { TIMES = 5000 };
    char *src = malloc(TIMES * 16 + 16);
    struct hg_rendered r;
    struct hg_err err;
    for (size_t i = 0; i < sizeof nests / sizeof *nests; i++) {
        strcpy(src, "{{ ");
        char *to = src + 3;
        for (int k = 0; k < TIMES; k++) to = stpcpy(to, nests[i][0]);
        assert_int_equal(render(src, NULL, NULL, &r, &err), HG_EFORMAT);
        if (i > 1) assert_string_equal(err.text, "t:1: tag without an end");
        strcpy(to, " }}");
        assert_int_equal(render(src, NULL, NULL, &r, &err), HG_EFORMAT);
        if (i > 1) assert_string_equal(err.text, nests[i][1]);
    }
    /* Chains nest at run time only. */
    char *to = stpcpy(src, "{{ 'x'");
    for (int k = 0; k < TIMES; k++) to = stpcpy(to, "|trim");
    strcpy(to, " }}");
    assert_int_equal(render(src, NULL, NULL, &r, &err), HG_EINVAL);
    assert_string_equal(err.text, "t:1: nested deeper than 1000");
    to = stpcpy(src, "");
    for (int k = 0; k < 300; k++) to = stpcpy(to, "{% if a %}");
    assert_int_equal(render(src, NULL, NULL, &r, &err), HG_EFORMAT);
    assert_string_equal(err.text, "t:1: nested deeper than 200");
    free(src);
}

static void test_deep_data(void **state)
{
    (void)state;
    struct hg_template *t;
    struct hg_rendered r;
    struct hg_err err;
    json_t *deep = json_array();
    for (int i = 0; i < 5000; i++) {
        json_t *outer = json_array();
        json_array_append_new(outer, deep);
        deep = outer;
    }
    json_t *vars = json_object();
    json_object_set_new(vars, "deep", deep);
    assert_int_equal(hg_template_parse("t", "{{ deep }}", 10, &t, &err), HG_OK);
    assert_int_equal(hg_template_render(t, vars, &r, &err), HG_EINVAL);
    assert_string_equal(err.text, "t:1: nested deeper than 1000");
    hg_template_free(t);
    assert_int_equal(hg_template_parse("t", "{{ x }}", 7, &t, &err), HG_OK);
    assert_int_equal(hg_template_render(t, vars, &r, &err), HG_OK); /* not named: not looked at */
    hg_rendered_fini(&r);
    hg_template_free(t);
    while (json_array_size(deep)) { /* freeing it in one call would recurse */
        json_t *inner = json_incref(json_array_get(deep, 0));
        json_array_clear(deep);
        json_object_set_new(vars, "deep", inner);
        deep = inner;
    }
    json_decref(vars);
}

/* ----------------------------------------------------------------------------------- starts -- */

#define MESSAGES                                                                                   \
    "\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, "                                  \
    "{\"role\": \"user\", \"content\": \"U\"}, {\"role\": \"assistant\", \"content\": \"AA\"}]"

static void starts_are(const char *src, size_t n, const size_t *want)
{
    struct hg_rendered r;
    struct hg_err err;
    if (render(src, "{" MESSAGES "}", NULL, &r, &err) != HG_OK) fail_msg("%s: %s", src, err.text);
    assert_int_equal(r.n_starts, n);
    for (size_t i = 0; i < n; i++)
        if (r.starts[i] != want[i])
            fail_msg("%s: start %zu is %zu, not %zu", src, i, r.starts[i], want[i]);
    hg_rendered_fini(&r);
}

static void test_starts(void **state)
{
    (void)state;
    starts_are("ab{% for m in messages %}<{{ m.content }}>{% endfor %}cd", 4,
               (size_t[]){2, 5, 8, 12});
    starts_are("{% for m in messages %}{% endfor %}x{% for m in messages %}{{ m.content }}"
               "{% endfor %}{% for m in messages %}{% endfor %}",
               4, (size_t[]){1, 2, 3, 5});
    starts_are("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}", 4,
               (size_t[]){0, 0, 1, 3});
    starts_are("{% for m in messages if m.role != 'system' %}{{ m.content ~ loop.length }}"
               "{% endfor %}",
               4, (size_t[]){0, 0, 2, 5});
    starts_are("{% for m in messages %}{{ m.content }}{% if loop.index == 2 %}{% break %}"
               "{% endif %}{% endfor %}x",
               4, (size_t[]){0, 1, 2, 2});
    starts_are("{% for m in messages %}{% for k in messages %}{{ k.content }}{% endfor %}"
               "{% endfor %}",
               4, (size_t[]){0, 4, 8, 12});
    starts_are("{% for m in messages[::-1] %}{{ m.content }}{% endfor %}", 0, NULL);
    starts_are(
        "{% set messages = messages[1:] %}{% for m in messages %}{{ m.content }}{% endfor %}", 0,
        NULL);
    starts_are("{% set x %}{% for m in messages %}{{ m.content }}{% endfor %}{% endset %}{{ x }}",
               0, NULL);
    starts_are("{% set x %}a long text{% endset %}{% for m in messages %}{% set y %}b{{ x }}"
               "{% endset %}{{ m.content }}{% endfor %}",
               4, (size_t[]){0, 1, 2, 4});
    starts_are("no loop", 0, NULL);
}

/* --------------------------------------------------------------------------- real templates -- */

#define CHAT                                                                                       \
    "{" MESSAGES ", \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], "      \
    "\"add_generation_prompt\": true, \"enable_thinking\": false}"

static void test_real_templates(void **state)
{
    (void)state;
    static const char tail[] = "<|im_start|>user\nU<|im_end|>\n"
                               "<|im_start|>assistant\n<think>\n\n</think>\n\nAA<|im_end|>\n"
                               "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    const char *const paths[] = {qwen_path, nano_path};
    for (int i = 0; i < 2; i++) {
        struct hg_template *t = load(paths[i]);
        json_t *vars = parse_json(CHAT);
        struct hg_rendered r;
        struct hg_err err;
        if (hg_template_render(t, vars, &r, &err) != HG_OK) fail_msg("%s", err.text);
        size_t n_tail = sizeof tail - 1, user = r.n - n_tail;
        assert_string_equal(r.text + user, tail);
        assert_non_null(
            strstr(r.text, "\n{\"type\": \"function\", \"function\": {\"name\": \"f\"}}\n"));
        assert_int_equal(r.n_starts, 4);
        assert_int_equal(r.starts[0], user); /* the system message was printed before the loop */
        assert_int_equal(r.starts[1], user);
        assert_int_equal(r.starts[2], user + strlen("<|im_start|>user\nU<|im_end|>\n"));
        assert_string_equal(r.text + r.starts[3], "<|im_start|>assistant\n<think>\n\n</think>\n\n");
        hg_rendered_fini(&r);
        json_object_set_new(vars, "messages", json_array());
        enum hg_status s = hg_template_render(t, vars, &r, &err);
        if (i == 0) {
            assert_int_equal(s, HG_EINVAL);
            assert_string_equal(err.text, "No messages provided.");
        }
        if (s == HG_OK) hg_rendered_fini(&r);
        json_decref(vars);
        hg_template_free(t);
    }
}

static void test_own(void **state)
{
    (void)state;
    gives("", NULL, "");
    gives("{{ a|length }}{{ a|tojson }}", "{\"a\": \"x\\u0000y\"}", "3\"x\\u0000y\"");
    gives("{{ range is callable }}{{ range }}", "{\"range\": \"mine\"}", "Falsemine");
    gives("{% set y = strftime_now('%Y') %}{{ y|length }}{{ y > '2000' }}", NULL, "4True");
    gives("{{ 'a' + 'b' + 'c' }}{% set x = 'a' + 'b' %}{% set y = x + 'c' %}{% set z = x + 'd' %}"
          "{{ x }} {{ y }} {{ z }}",
          NULL, "abcab abc abd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goldens),
                                       cmocka_unit_test(test_syntax_errors),
                                       cmocka_unit_test(test_run_time_errors),
                                       cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_deep_source),
                                       cmocka_unit_test(test_deep_data),
                                       cmocka_unit_test(test_starts),
                                       cmocka_unit_test(test_real_templates),
                                       cmocka_unit_test(test_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
