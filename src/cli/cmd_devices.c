/* cmd_devices.c: hedge devices: what this machine can compute with. */
#include "cli/cli.h"

enum { OPT_JSON = 0x400 };

static const struct argp_option options[] = {{"json", OPT_JSON, NULL, 0, "Print a JSON array", 0},
                                             {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key != OPT_JSON) return ARGP_ERR_UNKNOWN;
    *(bool *)state->input = true;
    return 0;
}

static const struct argp argp = {
    options, parse,
    NULL,    "Show the devices and kernel variants this machine can use, as --device takes them.",
    NULL,    NULL,
    NULL};

int cmd_devices(int argc, char **argv)
{
    bool json = false;
    cli_parse(&argp, argc, argv, &json);
    json_t *devices = hg_devices();
    if (!devices) {
        fprintf(stderr, "hedge: out of memory\n");
        return 1;
    }
    if (json) return cli_print_json(devices);
    for (size_t i = 0; i < json_array_size(devices); i++)
        puts(json_string_value(json_array_get(devices, i)));
    json_decref(devices);
    return 0;
}
