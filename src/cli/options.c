/* options.c: the option tables that several commands share. */
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/opt.h"
#include "cli/cli.h"

enum {
    OPT_DUMMY = 0x100,
    OPT_DEVICE,
    OPT_THREADS,
    OPT_KV,
    OPT_REASONING,
    OPT_CACHE_DEVICE,
    OPT_CACHE_HOST,
    OPT_CACHE_DISK,
    OPT_CACHE_DIR,
    OPT_TEMPERATURE,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_MIN_P,
    OPT_SEED,
    OPT_IGNORE_EOS,
    OPT_STOP
};

static const struct argp_option model_options[] = {
    {NULL, 0, NULL, 0, "Model:", 10},
    {"dummy", OPT_DUMMY, "GEOMETRY", 0,
     "Random weights in a known geometry, such as qwen3.5-0.8b or qwen3.6-27b:bf16 (default "
     "format: "
     "nvfp4), instead of MODEL",
     0},
    {"device", OPT_DEVICE, "NAME", 0,
     "auto, cpu, cpu:avx2, cpu:portable or ref; see 'hedge devices' (default: auto)", 0},
    {"ctx", 'c', "N", 0,
     "Most tokens of prompt and answer together (default: the model's limit, at most 32768)", 0},
    {"threads", OPT_THREADS, "N", 0, "Threads to compute with (default: one per core)", 0},
    {"kv", OPT_KV, "FORMAT", 0,
     "KV cache: fp8, bf16, f32 or auto (default: auto, fp8 if the checkpoint has scales for it, "
     "else bf16)",
     0},
    {"reasoning", OPT_REASONING, "MODE", 0,
     "Thinking before the answer: off, on or auto (default: auto, as the chat template has it)", 0},
    {"cache-device", OPT_CACHE_DEVICE, "SIZE", 0,
     "Prefix cache beside the running context; 0 = none (default: 2G, at most an eighth of memory)",
     0},
    {"cache-host", OPT_CACHE_HOST, "SIZE", 0, "Prefix cache in host memory (default: 0)", 0},
    {"cache-disk", OPT_CACHE_DISK, "SIZE", 0,
     "Prefix cache on disk, which survives a restart (default: 0)", 0},
    {"cache-dir", OPT_CACHE_DIR, "PATH", 0, "Where it lies (default: ~/.cache/hedge)", 0},
    {0}};

/* ~/.cache/hedge of this user, by the password file: the environment does not steer Hedge. */
static const char *default_cache_dir(void)
{
    static char path[4096];
    const struct passwd *pw = getpwuid(getuid());
    if (!pw || !pw->pw_dir) return NULL; /* --cache-disk then needs --cache-dir */
    snprintf(path, sizeof path, "%s/.cache/hedge", pw->pw_dir);
    return path;
}

/* 0 on the command line means none, which the engine spells negative. */
static int64_t cache_size(struct argp_state *state, const char *name, const char *arg)
{
    struct hg_err err;
    uint64_t n = 0;
    cli_want(state, hg_opt_size(name, arg, &n, &err), &err);
    return n ? (int64_t)n : -1;
}

static error_t parse_model(int key, char *arg, struct argp_state *state)
{
    /* In the order of enum hg_kv and enum hg_reasoning. */
    static const char *const kvs[] = {"auto", "fp8", "bf16", "f32", NULL};
    static const char *const reasonings[] = {"auto", "off", "on", NULL};
    struct cli_model *m = state->input;
    struct hg_err err;
    int i = 0;
    switch (key) {
    case ARGP_KEY_ARG:
        if (m->p.model) return ARGP_ERR_UNKNOWN;
        m->p.model = arg;
        return 0;
    case OPT_DUMMY: m->p.dummy = arg; return 0;
    case OPT_DEVICE: m->p.device = arg; return 0;
    case 'c':
        cli_want(state, hg_opt_i32("--ctx", arg, 2, INT32_MAX, &m->p.n_ctx, &err), &err);
        return 0;
    case OPT_THREADS:
        cli_want(state, hg_opt_i32("--threads", arg, 1, 1024, &m->p.n_threads, &err), &err);
        return 0;
    case OPT_KV:
        cli_want(state, hg_opt_word("--kv", arg, kvs, &i, &err), &err);
        m->p.kv = (enum hg_kv)i;
        return 0;
    case OPT_REASONING:
        cli_want(state, hg_opt_word("--reasoning", arg, reasonings, &i, &err), &err);
        m->p.reasoning = (enum hg_reasoning)i;
        return 0;
    case OPT_CACHE_DEVICE: m->p.cache_device = cache_size(state, "--cache-device", arg); return 0;
    case OPT_CACHE_HOST: m->p.cache_host = cache_size(state, "--cache-host", arg); return 0;
    case OPT_CACHE_DISK: m->p.cache_disk = cache_size(state, "--cache-disk", arg); return 0;
    case OPT_CACHE_DIR: m->p.cache_dir = arg; return 0;
    case ARGP_KEY_END:
        if (!m->p.cache_dir) m->p.cache_dir = default_cache_dir();
        if (m->p.model && m->p.dummy)
            cli_usage(state, "give a model ('%s') or --dummy %s, not both", m->p.model, m->p.dummy);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp cli_model_argp = {.options = model_options, .parser = parse_model};

static const struct argp_option sampling_options[] = {
    {NULL, 0, NULL, 0, "Sampling (defaults: those of the model's generation_config.json):", 20},
    {"temperature", OPT_TEMPERATURE, "T", 0, "0 takes the likeliest token", 0},
    {"top-k", OPT_TOP_K, "K", 0, "Draw from the K likeliest tokens; 0 = off", 0},
    {"top-p", OPT_TOP_P, "P", 0, "Draw from the likeliest tokens that sum to P; 1 = off", 0},
    {"min-p", OPT_MIN_P, "P", 0, "Drop tokens less likely than P times the likeliest; 0 = off", 0},
    {"seed", OPT_SEED, "N", 0, "Seed of the draws (default: a fresh one)", 0},
    {"max-tokens", 'n', "N", 0,
     "Most tokens to generate; 0 = to the end of the context (default: 1024)", 0},
    {"ignore-eos", OPT_IGNORE_EOS, NULL, 0, "Go on after the end token", 0},
    {"stop", OPT_STOP, "TEXT", 0, "End before this text; may be given up to 16 times", 0},
    {0}};

static float read_float(struct argp_state *state, const char *name, const char *arg, double max)
{
    struct hg_err err;
    double v = 0;
    cli_want(state, hg_opt_f64(name, arg, 0, max, &v, &err), &err);
    return (float)v;
}

static error_t parse_sampling(int key, char *arg, struct argp_state *state)
{
    struct cli_sampling *s = state->input;
    struct hg_err err;
    switch (key) {
    case OPT_TEMPERATURE:
        s->given.temperature = read_float(state, "--temperature", arg, 100);
        s->has_temperature = true;
        return 0;
    case OPT_TOP_K:
        cli_want(state, hg_opt_i32("--top-k", arg, 0, INT32_MAX, &s->given.top_k, &err), &err);
        s->has_top_k = true;
        return 0;
    case OPT_TOP_P:
        s->given.top_p = read_float(state, "--top-p", arg, 1);
        s->has_top_p = true;
        return 0;
    case OPT_MIN_P:
        s->given.min_p = read_float(state, "--min-p", arg, 1);
        s->has_min_p = true;
        return 0;
    case OPT_SEED:
        cli_want(state, hg_opt_u64("--seed", arg, &s->given.seed, &err), &err);
        s->given.has_seed = true;
        return 0;
    case 'n':
        cli_want(state, hg_opt_i32("--max-tokens", arg, 0, INT32_MAX, &s->max_tokens, &err), &err);
        s->has_max_tokens = true;
        return 0;
    case OPT_IGNORE_EOS: s->ignore_eos = true; return 0;
    case OPT_STOP:
        if (s->n_stop == CLI_STOPS_MAX)
            cli_usage(state, "--stop: more than %d of them", CLI_STOPS_MAX);
        if (!*arg) cli_usage(state, "--stop: the text is empty");
        s->stop[s->n_stop++] = arg;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp cli_sampling_argp = {.options = sampling_options, .parser = parse_sampling};

void cli_sampling_apply(const struct cli_sampling *s, const struct hg_engine *eng,
                        struct hg_request_params *rp)
{
    rp->sampling = hg_engine_info(eng)->sampling;
    if (s->has_temperature) rp->sampling.temperature = s->given.temperature;
    if (s->has_top_k) rp->sampling.top_k = s->given.top_k;
    if (s->has_top_p) rp->sampling.top_p = s->given.top_p;
    if (s->has_min_p) rp->sampling.min_p = s->given.min_p;
    rp->sampling.seed = s->given.seed;
    rp->sampling.has_seed = s->given.has_seed;
    rp->max_tokens = s->has_max_tokens ? s->max_tokens : 1024;
    rp->ignore_eos = s->ignore_eos;
    rp->stop = s->stop;
    rp->n_stop = s->n_stop;
}
