/* cmd_run.c: hedge run: one completion, or one chat turn. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { OPT_CHAT = 0x400, OPT_SYSTEM, OPT_TOOLS, OPT_MESSAGES, OPT_TOOL_CHOICE, OPT_JSON };

static const struct argp_option options[] = {
    {"prompt", 'p', "TEXT", 0, "The prompt; - reads it from stdin", 0},
    {"chat", OPT_CHAT, NULL, 0,
     "The prompt is a user's message: apply the chat template (default: continue it as raw text)",
     0},
    {"system", OPT_SYSTEM, "TEXT", 0, "System message; implies --chat", 0},
    {"tools", OPT_TOOLS, "FILE", 0, "OpenAI tools, a JSON array; implies --chat", 0},
    {"messages", OPT_MESSAGES, "FILE", 0,
     "OpenAI messages, a JSON array, before the prompt; implies --chat", 0},
    {"tool-choice", OPT_TOOL_CHOICE, "WHICH", 0,
     "auto, none, required or a tool's name (default: auto)", 0},
    {"json", OPT_JSON, NULL, 0, "Print one JSON object at the end instead of the text", 0},
    {0}};

static const char doc[] = "Complete a prompt, or answer one chat turn.\v"
                          "The answer goes to stdout as it is generated, each tool call as a line "
                          "{\"name\":..,\"arguments\":{..}}; reasoning and figures go to stderr.";

struct run_args {
    struct cli_model model;
    struct cli_sampling sampling;
    const char *prompt, *system, *tools, *messages, *tool_choice;
    bool from_stdin, chat, json;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct run_args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->model;
        state->child_inputs[1] = &a->sampling;
        return 0;
    case ARGP_KEY_ARG:
        if (strcmp(arg, "-") != 0) return ARGP_ERR_UNKNOWN; /* MODEL */
        a->from_stdin = true;
        return 0;
    case 'p':
        if (!strcmp(arg, "-"))
            a->from_stdin = true;
        else
            a->prompt = arg;
        return 0;
    case OPT_CHAT: a->chat = true; return 0;
    case OPT_SYSTEM: a->system = arg; return 0;
    case OPT_TOOLS: a->tools = arg; return 0;
    case OPT_MESSAGES: a->messages = arg; return 0;
    case OPT_TOOL_CHOICE: a->tool_choice = arg; return 0;
    case OPT_JSON: a->json = true; return 0;
    case ARGP_KEY_END:
        if (a->prompt && a->from_stdin) cli_usage(state, "-p TEXT and - are two prompts");
        if (!a->prompt && !a->from_stdin && !a->messages)
            cli_usage(state, "nothing to complete: give -p TEXT, - or --messages FILE");
        if (a->system || a->tools || a->messages) a->chat = true;
        if (a->tool_choice && !a->tools) cli_usage(state, "--tool-choice without --tools");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&cli_model_argp, 0, NULL, 0}, {&cli_sampling_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {options, parse, "[MODEL] -p TEXT|-", doc, children, NULL, NULL};

/* An array from a file; NULL after saying what is wrong. */
static json_t *read_array(const char *path)
{
    json_t *v = cli_read_json(path);
    if (!v || json_is_array(v)) return v;
    fprintf(stderr, "hedge: %s: not a JSON array\n", path);
    json_decref(v);
    return NULL;
}

static json_t *message(const char *role, const char *text, size_t n)
{
    json_t *content = json_stringn(text, n);
    if (!content) fprintf(stderr, "hedge: the %s message is not valid UTF-8\n", role);
    return content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL;
}

/* System message, then the messages of the file, then the prompt. */
static json_t *messages_of(const struct run_args *a, const char *prompt, size_t n_prompt)
{
    json_t *list = a->messages ? read_array(a->messages) : json_array();
    if (list && a->system &&
        json_array_insert_new(list, 0, message("system", a->system, strlen(a->system)))) {
        json_decref(list);
        return NULL;
    }
    if (list && prompt && json_array_append_new(list, message("user", prompt, n_prompt))) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static void choose_tools(const char *choice, struct hg_request_params *rp)
{
    static const char *const words[] = {"auto", "none", "required"};
    if (!choice) return;
    rp->tool_choice = HG_TOOLS_NAMED;
    rp->tool_name = choice;
    for (int i = 0; i < 3; i++)
        if (!strcmp(words[i], choice)) rp->tool_choice = (enum hg_tool_choice)i;
}

static int answer(struct hg_engine *eng, const struct hg_request_params *rp, bool json)
{
    struct hg_err err;
    struct hg_request *req;
    if (hg_request_submit(eng, rp, &req, &err) != HG_OK) return cli_fail(&err);
    struct cli_show show = {.quiet = json};
    enum hg_status s = cli_show_run(&show, req, &err);
    hg_request_free(req);
    if (s == HG_OK) {
        if (json) cli_print_json(cli_show_json(&show));
        cli_show_summary(&show, eng);
    } else {
        cli_fail(&err);
    }
    cli_show_fini(&show);
    return s == HG_OK ? 0 : 1;
}

static int run(const struct run_args *a, const char *prompt, size_t n_prompt)
{
    struct hg_request_params rp;
    hg_request_params_init(&rp);
    rp.messages = a->chat ? messages_of(a, prompt, n_prompt) : NULL;
    rp.tools = a->tools ? read_array(a->tools) : NULL;
    int rc = 1;
    if ((!a->chat || rp.messages) && (!a->tools || rp.tools)) {
        struct hg_engine *eng = cli_open(&a->model);
        if (!a->chat) {
            rp.prompt = prompt;
            rp.n_prompt = n_prompt;
        }
        if (eng) {
            cli_sampling_apply(&a->sampling, eng, &rp);
            choose_tools(a->tool_choice, &rp);
            rc = answer(eng, &rp, a->json);
        }
        hg_engine_close(eng);
    }
    json_decref(rp.messages);
    json_decref(rp.tools);
    return rc;
}

int cmd_run(int argc, char **argv)
{
    struct run_args a = {0};
    cli_parse(&argp, argc, argv, &a);
    if (!a.from_stdin) return run(&a, a.prompt, a.prompt ? strlen(a.prompt) : 0);
    size_t n;
    char *text = cli_read_stdin(&n);
    int rc = text ? run(&a, text, n) : 1;
    free(text);
    return rc;
}
