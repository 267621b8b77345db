/* cli.h: what the commands share.
 *
 * A command is a function int (argc, argv): argv[0] is "hedge run", the rest its own words. It
 * parses them with cli_parse (which exits 2 on a usage error), does its work and returns 0 for done
 * or 1 for failed, having said why on stderr. Answers go to stdout, all else to stderr. */
#ifndef HG_CLI_CLI_H
#define HG_CLI_CLI_H

#include <argp.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

int cmd_run(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_devices(int argc, char **argv);

/* ------------------------------------------------------------------------------- args.c -- */

/* argp_parse, but: an unknown option is answered with the nearest known one, a positional that no
 * parser wants is an error, and every error exits 2. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);
/* Prints "hedge run: ..." and where help is; exits 2. */
_Noreturn void cli_usage(const struct argp_state *state, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with err's text, unless s is HG_OK: for the readers of base/opt.h. */
void cli_want(const struct argp_state *state, enum hg_status s, const struct hg_err *err);

/* ---------------------------------------------------------------------------- options.c -- */

/* MODEL, --dummy, --device, --ctx, --threads, --kv, --reasoning. Input: struct cli_model. A
 * command that reads positionals itself sets p.model. */
struct cli_model {
    struct hg_engine_params p;
};
extern const struct argp cli_model_argp;

/* --temperature, --top-k ... --max-tokens, --stop. Input: struct cli_sampling. What is not given
 * is the model's own default. */
#define CLI_STOPS_MAX 16
struct cli_sampling {
    struct hg_sampling given;
    bool has_temperature, has_top_k, has_top_p, has_min_p;
    int32_t max_tokens;
    bool has_max_tokens;
    bool ignore_eos;
    const char *stop[CLI_STOPS_MAX];
    int32_t n_stop;
};
extern const struct argp cli_sampling_argp;
void cli_sampling_apply(const struct cli_sampling *s, const struct hg_engine *eng,
                        struct hg_request_params *rp);

/* ------------------------------------------------------------------------------- load.c -- */

/* Opens the engine with progress on a terminal, then prints the three start-up lines. NULL after
 * saying what is wrong. */
struct hg_engine *cli_open(const struct cli_model *m);
/* "hedge: TEXT"; returns 1. */
int cli_fail(const struct hg_err *err);
/* stderr is a terminal that may show colours (NO_COLOR). */
bool cli_color(void);
/* The file's JSON, "-" being stdin; NULL after saying what is wrong. */
json_t *cli_read_json(const char *path);
/* All of stdin as text, malloc'd; NULL after saying what is wrong. */
char *cli_read_stdin(size_t *n);
/* Prints the value on one line of stdout and drops the reference. Returns 0. */
int cli_print_json(json_t *v);

/* ---------------------------------------------------------------------------- signals.c -- */

/* From here on SIGINT and SIGTERM go to fn, on a thread of its own; NULL = end the program as the
 * signal would. The first call must come before any thread is started. */
typedef void cli_signal_fn(void *ctx, int sig);
void cli_on_signal(cli_signal_fn *fn, void *ctx);

/* ------------------------------------------------------------------------------- show.c -- */

/* An answer as it comes in. Zeroed storage is ready; cli_show_fini frees. */
struct cli_show {
    bool quiet;    /* collect only: nothing goes to stdout */
    json_t *calls; /* [{"name","arguments"}] */
    struct hg_buf text, reasoning;
    char *name; /* of the tool call that is open */
    struct hg_buf args;
    bool in_line, dim; /* stdout's cursor is not at a line's start; stderr is dimmed */
    enum hg_finish finish;
    struct hg_usage usage;
    struct hg_timings timings;
};

/* Reads the request to its end: text to stdout as it comes, tool calls as JSON lines, reasoning
 * dimmed to stderr. */
enum hg_status cli_show_run(struct cli_show *s, struct hg_request *req, struct hg_err *err);
/* The line of speeds at the end of a run. */
void cli_show_summary(const struct cli_show *s, const struct hg_engine *eng);
/* {"text", "reasoning", "tool_calls", "finish_reason", "usage", "timings"} */
json_t *cli_show_json(const struct cli_show *s);
void cli_show_fini(struct cli_show *s);

#endif
