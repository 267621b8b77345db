/* cmd_bench.c: hedge bench agentic: replays recorded agent conversations over HTTP, against any
 * server or against one of its own in this process. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "bench/report.h"
#include "cli/cli.h"
#include "server/server.h"

enum {
    OPT_TRACE = 0x400,
    OPT_URL,
    OPT_API_KEY,
    OPT_CONVERSATION,
    OPT_TURNS,
    OPT_MAX_TOKENS,
    OPT_USAGE,
    OPT_MODEL_NAME,
    OPT_JSON
};

#define CONVERSATIONS_MAX 64

static const struct argp_option options[] = {
    {"trace", OPT_TRACE, "FILE", 0, "Conversations to replay, in MLPerf's JSON lines", 0},
    {"url", OPT_URL, "URL", 0, "A running server (default: one in this process, on MODEL)", 0},
    {"api-key", OPT_API_KEY, "KEY", 0, "Key of that server (default: none)", 0},
    {"model-name", OPT_MODEL_NAME, "NAME", 0, "The request's \"model\" (default: hedge)", 0},
    {"conversation", OPT_CONVERSATION, "ID", 0, "Only this one; may be given often (default: all)",
     0},
    {"turns", OPT_TURNS, "N", 0, "Only the first N turns of each conversation (default: all)", 0},
    {"max-tokens", OPT_MAX_TOKENS, "N", 0, "Most tokens of an answer (default: 1024)", 0},
    {"usage", OPT_USAGE, NULL, 0,
     "Ask the server for token counts (default: only when it runs in this process)", 0},
    {"json", OPT_JSON, "FILE", 0, "Write the report, turn by turn, as JSON; - is stdout", 0},
    {0}};

static const char doc[] =
    "Replay agent conversations against a server and measure each turn.\v"
    "Requests are those of MLPerf's Edge Agentic harness: the recorded assistant turns are sent "
    "back as history, what the server answers is measured and compared.";

struct bench {
    struct cli_model model;
    struct hg_client_params client;
    struct hg_replay_params replay;
    const char *conversations[CONVERSATIONS_MAX];
    const char *trace, *json;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct bench *b = state->input;
    struct hg_err err;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &b->model; return 0;
    case OPT_TRACE: b->trace = arg; return 0;
    case OPT_URL: b->client.url = arg; return 0;
    case OPT_API_KEY: b->client.api_key = arg; return 0;
    case OPT_MODEL_NAME: b->replay.model = arg; return 0;
    case OPT_CONVERSATION:
        if (b->replay.n_conversations == CONVERSATIONS_MAX)
            cli_usage(state, "--conversation: more than %d of them", CONVERSATIONS_MAX);
        b->conversations[b->replay.n_conversations++] = arg;
        return 0;
    case OPT_TURNS:
        cli_want(state, hg_opt_i32("--turns", arg, 1, INT32_MAX, &b->replay.n_turns, &err), &err);
        return 0;
    case OPT_MAX_TOKENS:
        cli_want(state, hg_opt_i32("--max-tokens", arg, 1, INT32_MAX, &b->replay.max_tokens, &err),
                 &err);
        return 0;
    case OPT_USAGE: b->replay.usage = true; return 0;
    case OPT_JSON: b->json = arg; return 0;
    case ARGP_KEY_END:
        if (!b->trace) cli_usage(state, "--trace FILE is missing");
        if (b->client.url && (b->model.p.model || b->model.p.dummy))
            cli_usage(state, "give --url or a model, not both");
        if (!b->client.url) b->replay.usage = true;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&cli_model_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {options, parse, "--trace FILE [--url URL | MODEL]", doc, children,
                                 NULL,    NULL};

static void on_turn(void *ctx, const struct hg_replay_turn *t, int32_t done, int32_t total)
{
    (void)ctx;
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K%d/%d %s turn %d: %s", (int)done, (int)total, t->conversation,
            (int)t->turn, t->failed ? t->error : t->finish);
    if (done == total || t->failed) fputc('\n', stderr);
}

static volatile bool interrupted;

static void on_signal(void *ctx, int sig)
{
    (void)ctx;
    if (interrupted) _exit(128 + sig);
    interrupted = true;
    fprintf(stderr, "\nending after this turn; again to end now\n");
}

/* Writes the JSON report where it was asked for. */
static enum hg_status write_report(const json_t *report, const char *path, struct hg_err *err)
{
    size_t flags = JSON_INDENT(1) | JSON_REAL_PRECISION(9);
    if (!strcmp(path, "-")) {
        json_dumpf(report, stdout, flags);
        putchar('\n');
        return HG_OK;
    }
    if (json_dump_file(report, path, flags) == 0) return HG_OK;
    return hg_fail(err, HG_EIO, "%s: the report could not be written", path);
}

/* Replays, reports; *good = every turn was answered, every argument string valid. */
static enum hg_status replay(struct bench *b, const struct hg_trace *trace, bool *good,
                             struct hg_err *err)
{
    struct hg_client *client;
    struct hg_replay result;
    HG_TRY(hg_client_open(&b->client, &client, err));
    b->replay.conversations = b->conversations;
    b->replay.on_turn = on_turn;
    b->replay.stop = &interrupted;
    enum hg_status s = hg_replay_run(trace, client, &b->replay, &result, err);
    hg_client_close(client);
    if (s != HG_OK) return s;
    json_t *report = hg_report_json(&result);
    if (!report) {
        s = hg_fail(err, HG_ENOMEM, "report: out of memory");
    } else {
        if (!b->json || strcmp(b->json, "-") != 0) hg_report_print(report, stdout);
        if (b->json) s = write_report(report, b->json, err);
        *good = json_integer_value(json_object_get(report, "failed")) == 0 &&
                json_integer_value(json_object_get(report, "missing")) == 0 &&
                json_integer_value(json_object_get(report, "invalid_arguments")) == 0;
    }
    json_decref(report);
    hg_replay_free(&result);
    return s;
}

/* A server of our own. */
struct own {
    struct hg_engine *eng;
    struct hg_server *server;
    pthread_t thread;
    bool running;
    char url[64];
    enum hg_status status;
    struct hg_err err;
};

static void *serve(void *arg)
{
    struct own *o = arg;
    o->status = hg_server_run(o->server, &o->err);
    return NULL;
}

static enum hg_status own_start(struct own *o, struct hg_err *err)
{
    struct hg_server_params sp = {.host = "127.0.0.1"};
    HG_TRY(hg_server_open(o->eng, &sp, &o->server, err));
    if (pthread_create(&o->thread, NULL, serve, o))
        return hg_fail(err, HG_ENOMEM, "the server's thread could not be started");
    o->running = true;
    snprintf(o->url, sizeof o->url, "http://127.0.0.1:%u", (unsigned)hg_server_port(o->server));
    return HG_OK;
}

static void own_stop(struct own *o)
{
    if (o->running) {
        hg_server_stop(o->server);
        pthread_join(o->thread, NULL);
        if (o->status != HG_OK) cli_fail(&o->err);
    }
    hg_server_close(o->server);
    hg_engine_close(o->eng);
}

static int agentic(int argc, char **argv)
{
    struct bench b = {0};
    struct own own = {0};
    struct hg_trace trace;
    struct hg_err err;
    bool good = false;
    cli_parse(&argp, argc, argv, &b);
    if (hg_trace_open(b.trace, &trace, &err) != HG_OK) return cli_fail(&err);
    cli_on_signal(NULL, NULL);
    enum hg_status s = HG_OK;
    if (!b.client.url) {
        own.eng = cli_open(&b.model);
        if (!own.eng) {
            hg_trace_close(&trace);
            return 1;
        }
        s = own_start(&own, &err);
        b.client.url = own.url;
    }
    cli_on_signal(on_signal, NULL);
    if (s == HG_OK) s = replay(&b, &trace, &good, &err);
    if (s != HG_OK) cli_fail(&err);
    own_stop(&own);
    hg_trace_close(&trace);
    return s == HG_OK && good ? 0 : 1;
}

int cmd_bench(int argc, char **argv)
{
    static const char usage[] = "Usage: hedge bench agentic --trace FILE [--url URL | MODEL]\n"
                                "'hedge bench agentic --help' shows the options.\n";
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "agentic")) {
        argv[1] = (char[]){"hedge bench agentic"};
        return agentic(argc - 1, argv + 1);
    }
    bool help = !strcmp(what, "--help") || !strcmp(what, "-h");
    if (*what && !help) fprintf(stderr, "hedge bench: unknown benchmark '%s'\n", what);
    fputs(usage, help ? stdout : stderr);
    return help ? 0 : 2;
}
