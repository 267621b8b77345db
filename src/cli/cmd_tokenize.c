/* cmd_tokenize.c: hedge tokenize: text to token ids, and back. */
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "cli/cli.h"

enum { OPT_DECODE = 0x400, OPT_PIECES, OPT_PLAIN, OPT_JSON };

static const struct argp_option options[] = {
    {"decode", OPT_DECODE, "IDS", 0, "Text of the token ids, such as 1,2,3", 0},
    {"pieces", OPT_PIECES, NULL, 0, "The text of each id, too, one a line", 0},
    {"plain", OPT_PLAIN, NULL, 0,
     "Special tokens in the text are text (default: they are recognised)", 0},
    {"json", OPT_JSON, NULL, 0, "Print one JSON object", 0},
    {0}};

static const char doc[] = "Text to token ids, and back.\v"
                          "A lone positional is the TEXT; - reads it from stdin.";

struct tokenize {
    struct cli_model model;
    const char *arg[2], *decode;
    int n_args;
    bool pieces, plain, json;
};

/* [MODEL] TEXT, or [MODEL] with --decode. */
static void sort_args(struct argp_state *state, struct tokenize *a)
{
    int n_text = a->decode ? 0 : 1;
    if (a->n_args < n_text) cli_usage(state, "nothing to tokenize: give TEXT, - or --decode IDS");
    if (a->n_args > n_text + 1) cli_usage(state, "unexpected argument '%s'", a->arg[a->n_args - 1]);
    if (a->n_args == n_text + 1) a->model.p.model = a->arg[0];
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct tokenize *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->model; return 0;
    case ARGP_KEY_ARG:
        if (a->n_args == 2) return ARGP_ERR_UNKNOWN;
        a->arg[a->n_args++] = arg;
        return 0;
    case OPT_DECODE: a->decode = arg; return 0;
    case OPT_PIECES: a->pieces = true; return 0;
    case OPT_PLAIN: a->plain = true; return 0;
    case OPT_JSON: a->json = true; return 0;
    case ARGP_KEY_END: sort_args(state, a); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&cli_model_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {options, parse, "[MODEL] TEXT|-", doc, children, NULL, NULL};

/* The text of ids[0..n) as JSON; NULL and *err when the engine refuses. */
static json_t *text_of(struct hg_engine *eng, const hg_tok *ids, size_t n, struct hg_err *err)
{
    char *text;
    size_t n_text;
    if (hg_detokenize(eng, ids, n, &text, &n_text, err) != HG_OK) return NULL;
    json_t *v = json_stringn(text, n_text);
    if (!v) hg_fail(err, HG_ENOMEM, "text of %zu tokens: out of memory", n);
    free(text);
    return v;
}

static void print_pieces(const json_t *ids, const json_t *pieces)
{
    for (size_t i = 0; i < json_array_size(ids); i++) {
        printf("%lld\t", (long long)json_integer_value(json_array_get(ids, i)));
        json_dumpf(json_array_get(pieces, i), stdout, JSON_ENCODE_ANY);
        putchar('\n');
    }
}

static void print_ids(const json_t *ids)
{
    for (size_t i = 0; i < json_array_size(ids); i++)
        printf("%s%lld", i ? "," : "", (long long)json_integer_value(json_array_get(ids, i)));
    putchar('\n');
}

static enum hg_status report(const struct tokenize *a, struct hg_engine *eng, const hg_tok *ids,
                             size_t n, struct hg_err *err)
{
    json_t *list = json_array(), *pieces = json_array();
    enum hg_status s = HG_OK;
    for (size_t i = 0; i < n && s == HG_OK; i++) {
        json_array_append_new(list, json_integer(ids[i]));
        if (a->pieces && json_array_append_new(pieces, text_of(eng, &ids[i], 1, err)))
            s = err->status;
    }
    json_t *text = s == HG_OK && a->decode ? text_of(eng, ids, n, err) : NULL;
    if (s == HG_OK && a->decode && !text) s = err->status;
    if (s == HG_OK && a->json) {
        json_t *o = json_pack("{s:O}", "ids", list);
        if (text) json_object_set(o, "text", text);
        if (a->pieces) json_object_set(o, "pieces", pieces);
        cli_print_json(o);
    } else if (s == HG_OK && a->pieces) {
        print_pieces(list, pieces);
    } else if (s == HG_OK && text) {
        fwrite(json_string_value(text), 1, json_string_length(text), stdout);
        putchar('\n');
    } else if (s == HG_OK) {
        print_ids(list);
    }
    json_decref(text);
    json_decref(pieces);
    json_decref(list);
    return s;
}

static enum hg_status to_ids(const struct tokenize *a, struct hg_engine *eng, const char *text,
                             size_t n_text, hg_tok **ids, size_t *n, struct hg_err *err)
{
    if (a->decode) return hg_opt_ids("--decode", a->decode, ids, n, err);
    return hg_tokenize(eng, text, n_text, !a->plain, ids, n, err);
}

int cmd_tokenize(int argc, char **argv)
{
    struct tokenize a = {0};
    struct hg_err err;
    cli_parse(&argp, argc, argv, &a);
    const char *text = a.decode ? "" : a.arg[a.n_args - 1];
    char *from_stdin = NULL;
    size_t n_text = strlen(text), n = 0;
    if (!strcmp(text, "-")) {
        from_stdin = cli_read_stdin(&n_text);
        if (!from_stdin) return 1;
        text = from_stdin;
    }
    hg_tok *ids = NULL;
    struct hg_engine *eng = cli_open(&a.model);
    int rc = 1;
    if (eng) {
        enum hg_status s = to_ids(&a, eng, text, n_text, &ids, &n, &err);
        if (s == HG_OK) s = report(&a, eng, ids, n, &err);
        rc = s == HG_OK ? 0 : cli_fail(&err);
    }
    hg_engine_close(eng);
    free(ids);
    free(from_stdin);
    return rc;
}
