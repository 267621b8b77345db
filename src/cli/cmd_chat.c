/* cmd_chat.c: hedge chat: a conversation on the terminal. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { OPT_SYSTEM = 0x400 };

static const struct argp_option options[] = {
    {"system", OPT_SYSTEM, "TEXT", 0, "System message (default: none)", 0}, {0}};

static const char doc[] = "Talk to the model on the terminal.\v"
                          "Commands: /system TEXT sets the system message, /clear forgets the "
                          "conversation, /quit ends. Ctrl-C ends an answer, not the program.";

struct chat {
    struct cli_model model;
    struct cli_sampling sampling;
    const char *system_arg;
    struct hg_engine *eng;
    json_t *messages;
    pthread_mutex_t lock;
    struct hg_request *current; /* the answer that Ctrl-C ends; under lock */
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct chat *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->model;
        state->child_inputs[1] = &c->sampling;
        return 0;
    case OPT_SYSTEM: c->system_arg = arg; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&cli_model_argp, 0, NULL, 0}, {&cli_sampling_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {options, parse, "[MODEL]", doc, children, NULL, NULL};

static void on_signal(void *ctx, int sig)
{
    struct chat *c = ctx;
    if (sig != SIGINT) _exit(128 + sig);
    pthread_mutex_lock(&c->lock);
    if (c->current)
        hg_request_cancel(c->current);
    else
        fputs("\n(/quit ends)\n> ", stderr);
    pthread_mutex_unlock(&c->lock);
}

static void set_current(struct chat *c, struct hg_request *req)
{
    pthread_mutex_lock(&c->lock);
    c->current = req;
    pthread_mutex_unlock(&c->lock);
}

static bool say(struct chat *c, const char *role, const char *text)
{
    json_t *m = json_pack("{s:s, s:s}", "role", role, "content", text);
    if (m && json_array_append_new(c->messages, m) == 0) return true;
    fprintf(stderr, "hedge: the %s message is not valid UTF-8\n", role);
    return false;
}

static void forget(struct chat *c, const char *system)
{
    json_array_clear(c->messages);
    if (system && *system) say(c, "system", system);
}

/* The answer, as far as it came, becomes part of the conversation. */
static void remember(struct chat *c, const struct cli_show *show)
{
    json_t *whole = cli_show_json(show);
    json_t *m =
        json_pack("{s:s, s:O, s:O}", "role", "assistant", "content", json_object_get(whole, "text"),
                  "reasoning_content", json_object_get(whole, "reasoning"));
    json_array_append_new(c->messages, m);
    json_decref(whole);
}

static void take_back(struct chat *c)
{
    json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

static void turn(struct chat *c, const char *text)
{
    struct hg_request_params rp;
    struct hg_request *req;
    struct hg_err err;
    if (!say(c, "user", text)) return;
    hg_request_params_init(&rp);
    cli_sampling_apply(&c->sampling, c->eng, &rp);
    rp.messages = c->messages;
    if (hg_request_submit(c->eng, &rp, &req, &err) != HG_OK) {
        cli_fail(&err);
        take_back(c);
        return;
    }
    struct cli_show show = {.quiet = false};
    set_current(c, req);
    enum hg_status s = cli_show_run(&show, req, &err);
    set_current(c, NULL);
    hg_request_free(req);
    if (s == HG_OK) {
        remember(c, &show);
        cli_show_summary(&show, c->eng);
    } else if (s == HG_ECANCELED && show.text.len) {
        remember(c, &show);
        fputs("(interrupted)\n", stderr);
    } else {
        cli_fail(&err);
        take_back(c);
    }
    cli_show_fini(&show);
}

/* False at /quit. */
static bool handle(struct chat *c, const char *line)
{
    static const char system[] = "/system ";
    if (!strcmp(line, "/quit")) return false;
    if (!strcmp(line, "/clear")) {
        forget(c, c->system_arg);
    } else if (!strncmp(line, system, sizeof system - 1)) {
        c->system_arg = NULL; /* replaced for good */
        forget(c, line + sizeof system - 1);
    } else if (line[0] == '/') {
        fprintf(stderr, "commands: /system TEXT, /clear, /quit\n");
    } else if (line[0]) {
        turn(c, line);
    }
    return true;
}

static void talk(struct chat *c)
{
    bool terminal = isatty(STDIN_FILENO);
    char *line = NULL;
    size_t cap = 0;
    for (bool go = true; go;) {
        if (terminal) fputs("> ", stderr);
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0) break;
        if (n && line[n - 1] == '\n') line[n - 1] = 0;
        go = handle(c, line);
    }
    free(line);
}

int cmd_chat(int argc, char **argv)
{
    struct chat c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    cli_parse(&argp, argc, argv, &c);
    cli_on_signal(NULL, NULL);
    c.eng = cli_open(&c.model);
    if (!c.eng) return 1;
    int rc = 1;
    if (!hg_engine_info(c.eng)->has_template) {
        fprintf(stderr, "hedge: %s has no chat template\n", hg_engine_info(c.eng)->model_name);
    } else if ((c.messages = json_array()) != NULL) {
        forget(&c, c.system_arg);
        cli_on_signal(on_signal, &c);
        talk(&c);
        cli_on_signal(NULL, NULL);
        rc = 0;
    }
    json_decref(c.messages);
    hg_engine_close(c.eng);
    return rc;
}
