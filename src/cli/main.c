/* main.c: the table of commands. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/opt.h"
#include "cli/cli.h"

static int cmd_version(int argc, char **argv);
static int cmd_help(int argc, char **argv);

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"run", cmd_run, "complete a prompt, or answer one chat turn"},
    {"chat", cmd_chat, "talk to the model on the terminal"},
    {"serve", cmd_serve, "serve the OpenAI API over HTTP"},
    {"bench", cmd_bench, "measure: replay agent conversations against a server"},
    {"inspect", cmd_inspect, "show what a checkpoint holds"},
    {"tokenize", cmd_tokenize, "text to token ids, and back"},
    {"logits", cmd_logits, "logits of a prompt, to compare with another implementation"},
    {"devices", cmd_devices, "show the devices and kernels this machine can use"},
    {"version", cmd_version, "show the version"},
    {"help", cmd_help, "show the help of a command"},
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

static void print_help(FILE *out)
{
    fprintf(out, "Usage: hedge COMMAND [MODEL] [OPTION...]\n"
                 "An LLM engine for agents on edge machines.\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\nMODEL is a checkpoint directory; without it the embedded model is used.\n"
                 "'hedge help COMMAND' shows a command's options.\n"
                 "Environment: HG_LOG=error|warn|info|debug (default: info), NO_COLOR.\n");
}

static int unknown(const char *name)
{
    const char *names[N_COMMANDS + 1] = {NULL};
    for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    const char *near = hg_opt_nearest(name, names);
    fprintf(stderr, "hedge: unknown command '%s'", name);
    if (near) fprintf(stderr, "; did you mean '%s'?", near);
    fprintf(stderr, "\nTry 'hedge help'.\n");
    return 2;
}

/* argv[0] becomes "hedge NAME": that is how its messages and its help begin. */
static int run(const struct command *c, int argc, char **argv)
{
    char name[32];
    snprintf(name, sizeof name, "hedge %s", c->name);
    argv[0] = name;
    return c->run(argc, argv);
}

static int cmd_version(int argc, char **argv)
{
    static const struct argp argp = {.doc = "Show the version."};
    cli_parse(&argp, argc, argv, NULL);
    puts("hedge " HG_VERSION);
    return 0;
}

static int cmd_help(int argc, char **argv)
{
    const struct command *c = argc > 1 ? find(argv[1]) : NULL;
    if (argc > 1 && !c) return unknown(argv[1]);
    if (!c || c->run == cmd_help) {
        print_help(stdout);
        return 0;
    }
    char *args[] = {NULL, (char[]){"--help"}, NULL};
    return run(c, 2, args);
}

static void log_to_stderr(enum hg_log_level level, const char *text)
{
    static const char *const marks[] = {"hedge: error: ", "hedge: warning: ", "", "hedge: debug: "};
    fprintf(stderr, "%s%s\n", marks[level], text);
}

static bool install_log(void)
{
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
    const char *want = getenv("HG_LOG");
    int level = HG_LOG_INFO;
    struct hg_err err;
    if (want && *want && hg_opt_word("HG_LOG", want, levels, &level, &err) != HG_OK) {
        fprintf(stderr, "hedge: %s\n", err.text);
        return false;
    }
    hg_log_set(log_to_stderr, (enum hg_log_level)level);
    return true;
}

/* What was written to stdout did not get there: a full disk must not look like success. */
static int flushed(int rc)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return rc;
    perror("hedge: writing to stdout");
    return 1;
}

int main(int argc, char **argv)
{
    if (!install_log()) return 2;
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) name = "version";
    const struct command *c = find(name);
    return c ? flushed(run(c, argc - 1, argv + 1)) : unknown(name);
}
