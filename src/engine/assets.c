/* What a checkpoint directory holds beside its weights, and the geometries of --dummy. */
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/datadir.h"
#include "base/file.h"
#include "engine/engine_impl.h"

enum { MAX_TEMPLATE = 4 << 20, MAX_CONFIG = 16 << 20 };

const char *const *hg_preset_names(void)
{
    static const char *const names[] = {"qwen3.5-0.8b", "qwen3.5-2b",  "qwen3.5-4b",
                                        "qwen3.5-9b",   "qwen3.6-27b", NULL};
    return names;
}

static enum hg_status data_path(const char *name, char *buf, size_t n, struct hg_err *err)
{
    if (hg_data_path(name, buf, n)) return HG_OK;
    return hg_fail(err, HG_EIO,
                   "%s: found neither beside the program nor under its prefix; see "
                   "`make install`",
                   name);
}

/* --dummy NAME[:nvfp4|:bf16]; the tokenizer and template of the embedded model serve it. */
static enum hg_status open_dummy(struct hg_assets *a, const char *dummy, enum hg_format *format,
                                 struct hg_err *err)
{
    char have[256] = "", path[sizeof a->dir + 300], presets[sizeof a->dir], *text;
    size_t n_name = strcspn(dummy, ":"), n;
    const char *fmt = dummy[n_name] ? dummy + n_name + 1 : "nvfp4";
    *format = strcmp(fmt, "bf16") == 0 ? HG_FMT_BF16 : HG_FMT_NVFP4;
    if (strcmp(fmt, hg_format_name(*format)) != 0)
        return hg_fail(err, HG_EINVAL, "dummy '%s': format '%s', known are nvfp4 and bf16", dummy,
                       fmt);
    bool known = false;
    for (const char *const *p = hg_preset_names(); *p; p++) {
        known |= strlen(*p) == n_name && memcmp(*p, dummy, n_name) == 0;
        snprintf(have + strlen(have), sizeof have - strlen(have), " %s", *p);
    }
    if (!known)
        return hg_fail(err, HG_EINVAL, "dummy '%.*s': unknown geometry; known are%s", (int)n_name,
                       dummy, have);
    HG_TRY(data_path("presets", presets, sizeof presets, err));
    snprintf(path, sizeof path, "%s/%.*s.json", presets, (int)n_name, dummy);
    HG_TRY(hg_file_read(path, MAX_CONFIG, &text, &n, err));
    enum hg_status st = hg_config_parse(path, text, n, NULL, 0, &a->cfg, err);
    free(text);
    snprintf(a->name, sizeof a->name, "dummy %s", dummy);
    return st;
}

static enum hg_status read_json(const char *dir, const char *file, json_t **out, struct hg_err *err)
{
    char path[sizeof((struct hg_assets *)0)->dir + 64], *text;
    size_t n;
    json_error_t je;
    *out = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    if (!hg_file_exists(path)) return HG_OK;
    HG_TRY(hg_file_read(path, MAX_CONFIG, &text, &n, err));
    *out = json_loadb(text, n, JSON_ALLOW_NUL, &je);
    free(text);
    if (!*out) return hg_fail(err, HG_EFORMAT, "%s: line %d: %s", path, je.line, je.text);
    return HG_OK;
}

/* chat_template.jinja, else "chat_template" of tokenizer_config.json; neither: no chat. Special
 * tokens are strings or {"content": string}. */
static enum hg_status open_template(struct hg_assets *a, const char *dir, struct hg_err *err)
{
    char path[sizeof a->dir + 64], *text = NULL;
    size_t n = 0;
    json_t *conf;
    HG_TRY(read_json(dir, "tokenizer_config.json", &conf, err));
    a->specials = json_object();
    static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *v = json_object_get(conf, names[i]);
        if (json_is_object(v)) v = json_object_get(v, "content");
        if (json_is_string(v)) json_object_set(a->specials, names[i], v);
    }
    enum hg_status st = HG_OK;
    json_t *inlined = json_object_get(conf, "chat_template");
    snprintf(path, sizeof path, "%s/chat_template.jinja", dir);
    if (hg_file_exists(path)) {
        st = hg_file_read(path, MAX_TEMPLATE, &text, &n, err);
        if (st == HG_OK) st = hg_template_parse(path, text, n, &a->tmpl, err);
    } else if (json_is_string(inlined)) {
        st = hg_template_parse("tokenizer_config.json: chat_template", json_string_value(inlined),
                               json_string_length(inlined), &a->tmpl, err);
    }
    free(text);
    json_decref(conf);
    return st;
}

enum hg_status hg_assets_open(struct hg_assets *a, const struct hg_engine_params *p,
                              enum hg_format *dummy_format, struct hg_err *err)
{
    char text_dir[sizeof a->dir], base[sizeof a->dir];
    *a = (struct hg_assets){0};
    if (p->model && p->dummy)
        return hg_fail(err, HG_EINVAL, "model '%s' and dummy '%s': give one", p->model, p->dummy);
    if (p->model)
        snprintf(a->dir, sizeof a->dir, "%s", p->model);
    else
        HG_TRY(data_path("nano", a->dir, sizeof a->dir, err));
    memcpy(text_dir, a->dir, sizeof text_dir);
    if (p->dummy) {
        HG_TRY(open_dummy(a, p->dummy, dummy_format, err));
        a->dir[0] = 0;
    } else {
        HG_TRY(hg_config_open(a->dir, &a->cfg, err));
        memcpy(base, a->dir, sizeof base);
        snprintf(a->name, sizeof a->name, "%s", basename(base));
    }
    enum hg_status st = hg_tokenizer_open(text_dir, &a->tok, err);
    if (st == HG_OK) st = open_template(a, text_dir, err);
    if (st == HG_OK && hg_tokenizer_size(a->tok) > a->cfg.n_vocab)
        st = hg_fail(err, HG_EFORMAT, "tokenizer.json has ids up to %d, the model %d rows",
                     hg_tokenizer_size(a->tok) - 1, a->cfg.n_vocab);
    if (st != HG_OK) hg_assets_close(a);
    return st;
}

void hg_assets_close(struct hg_assets *a)
{
    hg_tokenizer_free(a->tok);
    hg_template_free(a->tmpl);
    json_decref(a->specials);
    *a = (struct hg_assets){0};
}
