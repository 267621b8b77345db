/* cmd_serve.c: hedge serve: the OpenAI API over HTTP, until SIGINT or SIGTERM. */
#include <string.h>

#include "base/opt.h"
#include "cli/cli.h"
#include "server/server.h"

enum { OPT_HOST = 0x400, OPT_PORT, OPT_API_KEY, OPT_MODEL_NAME, OPT_QUEUE, OPT_CHUNK };

static const struct argp_option options[] = {
    {"host", OPT_HOST, "NAME", 0,
     "Address to listen on; 0.0.0.0 for all (default: loopback, 127.0.0.1 and ::1)", 0},
    {"port", OPT_PORT, "N", 0, "Port; 0 = any free one (default: 8080)", 0},
    {"api-key", OPT_API_KEY, "KEY", 0, "Key that clients must send (default: none)", 0},
    {"model-name", OPT_MODEL_NAME, "NAME", 0, "Name told to clients (default: the directory's)", 0},
    {"queue", OPT_QUEUE, "N", 0, "Requests that may wait before others get 429 (default: 16)", 0},
    {"chunk", OPT_CHUNK, "N", 0, "Prompt tokens per step (default: 512)", 0},
    {0}};

static const char doc[] = "Serve the OpenAI API over HTTP.\v"
                          "SIGTERM or Ctrl-C lets requests under way finish for ten seconds; a "
                          "second one ends them at once.";

struct serve {
    struct cli_model model;
    struct hg_server_params server;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct serve *s = state->input;
    struct hg_err err;
    int32_t port = 0;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &s->model; return 0;
    case OPT_HOST: s->server.host = arg; return 0;
    case OPT_PORT:
        cli_want(state, hg_opt_i32("--port", arg, 0, 65535, &port, &err), &err);
        s->server.port = (uint16_t)port;
        return 0;
    case OPT_API_KEY:
        if (!*arg) cli_usage(state, "--api-key: the key is empty");
        s->server.api_key = arg;
        return 0;
    case OPT_MODEL_NAME: s->server.model_name = arg; return 0;
    case OPT_QUEUE:
        cli_want(state, hg_opt_i32("--queue", arg, 1, 1 << 20, &s->model.p.n_queue, &err), &err);
        return 0;
    case OPT_CHUNK:
        cli_want(state, hg_opt_i32("--chunk", arg, 1, 1 << 20, &s->model.p.n_chunk, &err), &err);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&cli_model_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {options, parse, "[MODEL]", doc, children, NULL, NULL};

static void on_signal(void *ctx, int sig)
{
    (void)sig;
    hg_server_stop(ctx);
}

static void print_address(const struct serve *s, struct hg_server *server)
{
    const char *host = s->server.host ? s->server.host : "127.0.0.1";
    bool v6 = strchr(host, ':') != NULL;
    char url[300], key[300] = "";
    snprintf(url, sizeof url, "http://%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "",
             (unsigned)hg_server_port(server));
    if (s->server.api_key) snprintf(key, sizeof key, " -H 'Authorization: Bearer YOUR_KEY'");
    fprintf(stderr,
            "listening on %s\n"
            "  curl %s/v1/chat/completions%s -H 'Content-Type: application/json' \\\n"
            "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n",
            url, url, key);
}

int cmd_serve(int argc, char **argv)
{
    struct serve s = {.server = {.port = 8080}};
    struct hg_server *server = NULL;
    struct hg_err err;
    cli_parse(&argp, argc, argv, &s);
    cli_on_signal(NULL, NULL);
    struct hg_engine *eng = cli_open(&s.model);
    if (!eng) return 1;
    enum hg_status status = hg_server_open(eng, &s.server, &server, &err);
    if (status == HG_OK) {
        cli_on_signal(on_signal, server);
        print_address(&s, server);
        status = hg_server_run(server, &err);
        cli_on_signal(NULL, NULL);
    }
    hg_server_close(server);
    hg_engine_close(eng);
    return status == HG_OK ? 0 : cli_fail(&err);
}
