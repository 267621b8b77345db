/* template_dump.c: renders templates for tools/oracle_template.py.
 *
 *     template_dump [TEMPLATE] < requests > answers
 *
 * A request is a line of JSON: {"vars": {...}} for TEMPLATE, or {"template": "...", "vars": {...}}.
 * An answer is "ok N\n" or "error N\n", then N bytes (the text or the message), then "\n". With
 * "repeat": K the request is rendered K times and the message of the best time goes to stderr. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "text/template.h"

enum { MAX_TEMPLATE = 1 << 24 };

static void answer(const char *what, const char *text, size_t n)
{
    printf("%s %zu\n", what, n);
    fwrite(text, 1, n, stdout);
    putchar('\n');
}

static void render(const struct hg_template *t, json_t *request)
{
    struct hg_rendered r;
    struct hg_err err;
    double best = 1e9;
    json_int_t repeat = json_integer_value(json_object_get(request, "repeat"));
    for (json_int_t i = 1; i < repeat; i++) {
        double start = hg_now();
        if (hg_template_render(t, json_object_get(request, "vars"), &r, &err) != HG_OK) break;
        double took = hg_now() - start;
        if (took < best) best = took;
        hg_rendered_fini(&r);
    }
    if (hg_template_render(t, json_object_get(request, "vars"), &r, &err) != HG_OK) {
        answer("error", err.text, strlen(err.text));
        return;
    }
    if (repeat > 1) fprintf(stderr, "%zu bytes rendered in %.3f ms\n", r.n, 1e3 * best);
    answer("ok", r.text, r.n);
    hg_rendered_fini(&r);
}

int main(int argc, char **argv)
{
    struct hg_template *fixed = NULL;
    struct hg_err err;
    char *src, *line = NULL;
    size_t n, cap = 0;
    if (argc > 1) {
        if (hg_file_read(argv[1], MAX_TEMPLATE, &src, &n, &err) != HG_OK ||
            hg_template_parse(argv[1], src, n, &fixed, &err) != HG_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        free(src);
    }
    for (ssize_t len; (len = getline(&line, &cap, stdin)) > 0;) {
        json_error_t je;
        json_t *request = json_loadb(line, (size_t)len, JSON_ALLOW_NUL, &je);
        if (!request) {
            fprintf(stderr, "request: %s\n", je.text);
            return 1;
        }
        json_t *own = json_object_get(request, "template");
        struct hg_template *t = NULL;
        if (own && hg_template_parse("template", json_string_value(own), json_string_length(own),
                                     &t, &err) != HG_OK)
            answer("error", err.text, strlen(err.text));
        else if (t || fixed)
            render(t ? t : fixed, request);
        hg_template_free(t);
        json_decref(request);
    }
    free(line);
    hg_template_free(fixed);
    return 0;
}
