/* cmd_inspect.c: hedge inspect: what a checkpoint directory holds. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/datadir.h"
#include "cli/cli.h"

enum { OPT_TENSORS = 0x400, OPT_JSON };

static const struct argp_option options[] = {
    {"tensors", OPT_TENSORS, NULL, 0, "List every tensor, too", 0},
    {"json", OPT_JSON, NULL, 0, "Print everything as one JSON object", 0},
    {0}};

struct inspect {
    const char *model;
    bool tensors, json;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct inspect *a = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (a->model) return ARGP_ERR_UNKNOWN;
        a->model = arg;
        return 0;
    case OPT_TENSORS: a->tensors = true; return 0;
    case OPT_JSON: a->json = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options, parse, "[MODEL]", "Show what a checkpoint holds: geometry, formats, tensors.",
    NULL,    NULL,  NULL};

/* "gdn gdn gdn attention ..." as counts, which is what tells one geometry from another. */
static void print_layers(const json_t *layers)
{
    size_t i, n_attention = 0, n = json_array_size(layers);
    const json_t *kind;
    json_array_foreach(layers, i, kind) n_attention +=
        !strcmp(json_string_value(kind), "attention");
    printf("  %-14s %zu: %zu gdn, %zu attention\n", "layers", n, n - n_attention, n_attention);
}

static void print_config(json_t *config)
{
    const char *key;
    json_t *v;
    json_object_foreach(config, key, v)
    {
        if (!strcmp(key, "layers")) {
            print_layers(v);
            continue;
        }
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        const char *bare = json_is_string(v) ? json_string_value(v) : text;
        printf("  %-14s %s\n", key, bare ? bare : "?");
        free(text);
    }
}

static void print_formats(json_t *formats)
{
    const char *name;
    json_t *v;
    json_object_foreach(formats, name, v)
        printf("  %-14s %6lld tensors %12.1f MB\n", name,
               (long long)json_integer_value(json_object_get(v, "tensors")),
               json_number_value(json_object_get(v, "bytes")) / 1e6);
}

static void print_tensors(const json_t *tensors)
{
    size_t i;
    const json_t *t;
    json_array_foreach(tensors, i, t)
    {
        char *shape = json_dumps(json_object_get(t, "shape"), JSON_COMPACT);
        printf("  %-64s %-8s %-20s %12lld  %s\n", json_string_value(json_object_get(t, "name")),
               json_string_value(json_object_get(t, "dtype")), shape ? shape : "?",
               (long long)json_integer_value(json_object_get(t, "bytes")),
               json_string_value(json_object_get(t, "file")));
        free(shape);
    }
}

static void print(const json_t *o, bool tensors)
{
    double parameters = json_number_value(json_object_get(o, "parameters"));
    double bytes = json_number_value(json_object_get(o, "bytes"));
    printf("%s: %.1f M parameters, %.1f MB, %.2f bits/parameter\n",
           json_string_value(json_object_get(o, "model")), parameters / 1e6, bytes / 1e6,
           parameters > 0 ? bytes * 8 / parameters : 0);
    printf("geometry\n");
    print_config(json_object_get(o, "config"));
    printf("formats\n");
    print_formats(json_object_get(o, "formats"));
    if (!tensors) return;
    printf("tensors\n");
    print_tensors(json_object_get(o, "tensors"));
}

int cmd_inspect(int argc, char **argv)
{
    struct inspect a = {0};
    char embedded[PATH_MAX];
    struct hg_err err;
    json_t *o;
    cli_parse(&argp, argc, argv, &a);
    if (!a.model) {
        if (!hg_data_path("nano", embedded, sizeof embedded)) {
            fprintf(stderr, "hedge: the embedded model was not found; name a MODEL directory\n");
            return 1;
        }
        a.model = embedded;
    }
    if (hg_inspect(a.model, &o, &err) != HG_OK) return cli_fail(&err);
    if (a.json) return cli_print_json(o);
    print(o, a.tensors);
    json_decref(o);
    return 0;
}
