/* cmd_logits.c: hedge logits: the largest logits after a prompt, to compare implementations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "cli/cli.h"

enum { OPT_IDS = 0x400, OPT_TOP, OPT_ALL, OPT_JSON };

static const struct argp_option options[] = {
    {"prompt", 'p', "TEXT", 0, "The prompt as text; special tokens are recognised", 0},
    {"ids", OPT_IDS, "IDS", 0, "The prompt as token ids, such as 1,2,3", 0},
    {"top", OPT_TOP, "K", 0, "How many of the largest to print (default: 64)", 0},
    {"all", OPT_ALL, NULL, 0, "At every position (default: at the last)", 0},
    {"json", OPT_JSON, NULL, 0,
     "One line a position: {\"pos\":N,\"ids\":[..],\"logits\":[..]}, largest first", 0},
    {0}};

struct logits {
    struct cli_model model;
    const char *prompt, *ids;
    int32_t top;
    bool all, json;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct logits *a = state->input;
    struct hg_err err;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->model; return 0;
    case 'p': a->prompt = arg; return 0;
    case OPT_IDS: a->ids = arg; return 0;
    case OPT_TOP:
        cli_want(state, hg_opt_i32("--top", arg, 1, INT32_MAX, &a->top, &err), &err);
        return 0;
    case OPT_ALL: a->all = true; return 0;
    case OPT_JSON: a->json = true; return 0;
    case ARGP_KEY_END:
        if (!a->prompt == !a->ids) cli_usage(state, "give either -p TEXT or --ids 1,2,3");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&cli_model_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    options,
    parse,
    "[MODEL] -p TEXT|--ids IDS",
    "Print the largest logits after a prompt, to compare with another implementation.",
    children,
    NULL,
    NULL};

/* Largest first; equal logits by id, so that the order is the same everywhere. NaN counts as the
 * smallest: it must not upset the sort. */
static int compare(const void *x, const void *y, void *row)
{
    hg_tok a = *(const hg_tok *)x, b = *(const hg_tok *)y;
    float va = ((const float *)row)[a], vb = ((const float *)row)[b];
    if (isnan(va) != isnan(vb)) return isnan(va) ? 1 : -1;
    if (va != vb && !isnan(va)) return va < vb ? 1 : -1;
    return (a > b) - (a < b);
}

static void print_number(float v)
{
    if (isfinite(v))
        printf("%.9g", (double)v);
    else
        printf("null"); /* JSON has no such numbers */
}

static void print_json(size_t pos, const hg_tok *order, int32_t top, const float *row)
{
    printf("{\"pos\":%zu,\"ids\":[", pos);
    for (int32_t i = 0; i < top; i++) printf("%s%d", i ? "," : "", (int)order[i]);
    printf("],\"logits\":[");
    for (int32_t i = 0; i < top; i++) {
        if (i) putchar(',');
        print_number(row[order[i]]);
    }
    printf("]}\n");
}

static void print_table(struct hg_engine *eng, size_t pos, const hg_tok *order, int32_t top,
                        const float *row)
{
    printf("position %zu\n", pos);
    for (int32_t i = 0; i < top; i++) {
        char *text;
        size_t n;
        struct hg_err err;
        json_t *piece = NULL;
        if (hg_detokenize(eng, &order[i], 1, &text, &n, &err) == HG_OK) {
            piece = json_stringn(text, n);
            free(text);
        }
        printf("  %8d %14.7g  ", (int)order[i], (double)row[order[i]]);
        if (piece) json_dumpf(piece, stdout, JSON_ENCODE_ANY);
        putchar('\n');
        json_decref(piece);
    }
}

static enum hg_status print_logits(const struct logits *a, struct hg_engine *eng, const hg_tok *ids,
                                   size_t n, struct hg_err *err)
{
    int32_t n_vocab = hg_engine_info(eng)->n_vocab;
    int32_t top = a->top < n_vocab ? a->top : n_vocab;
    size_t n_rows = a->all ? n : 1;
    float *rows = calloc(n_rows ? n_rows : 1, (size_t)n_vocab * sizeof *rows);
    hg_tok *order = calloc((size_t)n_vocab, sizeof *order);
    enum hg_status s;
    if (!rows || !order)
        s = hg_fail(err, HG_ENOMEM, "logits of %zu positions: %.1f GB of memory not available",
                    n_rows, (double)n_rows * n_vocab * sizeof *rows / 1e9);
    else
        s = hg_logits(eng, ids, n, a->all, rows, err);
    for (size_t r = 0; s == HG_OK && r < n_rows; r++) {
        const float *row = rows + r * (size_t)n_vocab;
        for (int32_t i = 0; i < n_vocab; i++) order[i] = i;
        qsort_r(order, (size_t)n_vocab, sizeof *order, compare, (void *)(uintptr_t)row);
        size_t pos = a->all ? r : n - 1;
        if (a->json)
            print_json(pos, order, top, row);
        else
            print_table(eng, pos, order, top, row);
    }
    free(order);
    free(rows);
    return s;
}

int cmd_logits(int argc, char **argv)
{
    struct logits a = {.top = 64};
    struct hg_err err;
    hg_tok *ids = NULL;
    size_t n = 0;
    cli_parse(&argp, argc, argv, &a);
    struct hg_engine *eng = cli_open(&a.model);
    if (!eng) return 1;
    enum hg_status s = a.ids ? hg_opt_ids("--ids", a.ids, &ids, &n, &err)
                             : hg_tokenize(eng, a.prompt, strlen(a.prompt), true, &ids, &n, &err);
    if (s == HG_OK && n == 0) s = hg_fail(&err, HG_EINVAL, "the prompt is empty");
    if (s == HG_OK) s = print_logits(&a, eng, ids, n, &err);
    free(ids);
    hg_engine_close(eng);
    return s == HG_OK ? 0 : cli_fail(&err);
}
