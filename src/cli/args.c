/* args.c: glibc's argp with better answers to mistakes. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "cli/cli.h"

#define NAMES_MAX 64

struct outer {
    void *input; /* of the command's own parser */
};

void cli_usage(const struct argp_state *state, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s: ", state->name);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\nTry '%s --help'.\n", state->name);
    va_end(ap);
    exit(2);
}

void cli_want(const struct argp_state *state, enum hg_status s, const struct hg_err *err)
{
    if (s != HG_OK) cli_usage(state, "%s", err->text);
}

/* Long options of a parser and its children, as "--name", into a NULL-terminated list. */
struct names {
    const char *name[NAMES_MAX + 1];
    bool has_arg[NAMES_MAX];
    char text[NAMES_MAX][40];
    int n;
};

static void collect(const struct argp *a, struct names *out)
{
    for (const struct argp_option *o = a->options; o && (o->name || o->key || o->doc); o++) {
        if (!o->name || out->n == NAMES_MAX) continue;
        snprintf(out->text[out->n], sizeof out->text[0], "--%s", o->name);
        out->name[out->n] = out->text[out->n];
        out->has_arg[out->n++] = o->arg != NULL;
    }
    for (const struct argp_child *c = a->children; c && c->argp; c++) collect(c->argp, out);
    out->name[out->n] = NULL;
}

/* What getopt found wrong with the word: it knows, but does not tell. */
_Noreturn static void explain(const struct argp_state *state, const char *word)
{
    struct names names = {.n = 0};
    collect(state->root_argp, &names);
    size_t n = strcspn(word, "=");
    if (strncmp(word, "--", 2) != 0)
        cli_usage(state, "unknown option, or no value for it: '%s'", word);
    int found = -1, n_found = 0;
    for (int i = 0; i < names.n; i++) {
        if (strncmp(names.name[i], word, n) != 0) continue;
        found = i;
        n_found++;
        if (!names.name[i][n]) { /* exact */
            n_found = 1;
            break;
        }
    }
    if (n_found > 1) cli_usage(state, "option '%s' is ambiguous", word);
    if (n_found == 1 && names.has_arg[found])
        cli_usage(state, "option '%s' needs a value", names.name[found]);
    if (n_found == 1) cli_usage(state, "option '%s' takes no value", names.name[found]);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(n < 60 ? n : 60), word);
    const char *near = hg_opt_nearest(name, names.name);
    if (near) cli_usage(state, "unknown option '%s'; did you mean '%s'?", name, near);
    cli_usage(state, "unknown option '%s'", name);
}

static error_t parse_outer(int key, char *arg, struct argp_state *state)
{
    struct outer *o = state->input;
    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = o->input; return 0;
    case 'h':
        state->flags &= ~(unsigned)ARGP_NO_ERRS; /* it silences help, too */
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ERROR: {
        const char *word = state->argv[state->next - 1];
        if (word[0] != '-' && state->next < state->argc) word = state->argv[state->next];
        explain(state, word);
    }
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Comes last, so sees only what nobody wanted. */
static error_t parse_rest(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_ARG) cli_usage(state, "unexpected argument '%s'", arg);
    return ARGP_ERR_UNKNOWN;
}

void cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    static const struct argp_option options[] = {
        {"help", 'h', NULL, 0, "Show this help and exit", -1}, {0}};
    static const struct argp rest = {.parser = parse_rest};
    const struct argp_child children[] = {{argp, 0, NULL, 0}, {&rest, 0, NULL, 0}, {0}};
    const struct argp outer_argp = {
        .options = options, .parser = parse_outer, .children = children};
    struct outer outer = {input};
    error_t e = argp_parse(&outer_argp, argc, argv, ARGP_NO_HELP | ARGP_NO_ERRS, NULL, &outer);
    if (e) {
        fprintf(stderr, "%s: %s\n", argv[0], strerror(e));
        exit(2);
    }
}
