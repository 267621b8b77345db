/* load.c: opening the engine, and the small things around it: errors, files, terminals. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"

#define INPUT_BYTES_MAX ((size_t)256 << 20)

int cli_fail(const struct hg_err *err)
{
    fprintf(stderr, "hedge: %s\n", err->text);
    return 1;
}

bool cli_color(void)
{
    const char *no = getenv("NO_COLOR");
    return isatty(STDERR_FILENO) && !(no && *no);
}

struct progress {
    double last; /* when the line was drawn; 0 = never */
};

static void on_progress(void *ctx, const char *stage, uint64_t done, uint64_t total)
{
    struct progress *p = ctx;
    double now = hg_now();
    if (now - p->last < 0.1 && done < total) return;
    p->last = now;
    fprintf(stderr, "\r\033[K%s: %.0f %% of %.1f MB", stage,
            total ? 100.0 * (double)done / (double)total : 100.0, (double)total / 1e6);
}

struct hg_engine *cli_open(const struct cli_model *m)
{
    struct hg_engine_params p = m->p;
    struct progress progress = {0};
    struct hg_engine *eng = NULL;
    struct hg_err err;
    if (isatty(STDERR_FILENO)) {
        p.progress = on_progress;
        p.progress_ctx = &progress;
    }
    enum hg_status s = hg_engine_open(&p, &eng, &err);
    if (progress.last > 0) fprintf(stderr, "\r\033[K");
    if (s != HG_OK) {
        cli_fail(&err);
        return NULL;
    }
    const struct hg_engine_info *info = hg_engine_info(eng);
    hg_log(HG_LOG_INFO, "%s", info->model_line);
    hg_log(HG_LOG_INFO, "%s", info->device_line);
    hg_log(HG_LOG_INFO, "%s", info->capacity_line);
    return eng;
}

json_t *cli_read_json(const char *path)
{
    struct hg_err err;
    json_error_t je;
    char *text;
    size_t n;
    if (hg_file_read(path, INPUT_BYTES_MAX, &text, &n, &err) != HG_OK) {
        cli_fail(&err);
        return NULL;
    }
    json_t *v = json_loadb(text, n, JSON_ALLOW_NUL, &je);
    if (!v) fprintf(stderr, "hedge: %s:%d:%d: %s\n", path, je.line, je.column, je.text);
    free(text);
    return v;
}

char *cli_read_stdin(size_t *n)
{
    struct hg_err err;
    char *text;
    if (hg_file_read("-", INPUT_BYTES_MAX, &text, n, &err) == HG_OK) return text;
    cli_fail(&err);
    return NULL;
}

int cli_print_json(json_t *v)
{
    json_dumpf(v, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY);
    putchar('\n');
    json_decref(v);
    return 0;
}
