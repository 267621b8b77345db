/* What a request asks -> token ids: template variables, rendering, forced tool calls. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_impl.h"

static bool has_tools(const struct hg_request_params *p)
{
    return json_array_size(p->tools) > 0 && p->tool_choice != HG_TOOLS_NONE;
}

static bool must_call(const struct hg_request_params *p)
{
    return p->tool_choice == HG_TOOLS_REQUIRED || p->tool_choice == HG_TOOLS_NAMED;
}

static enum hg_status check_tools(const struct hg_request_params *p, struct hg_err *err)
{
    if (must_call(p) && json_array_size(p->tools) == 0)
        return hg_fail(err, HG_EINVAL, "tool_choice: a call is required, but there are no tools");
    if (p->tool_choice != HG_TOOLS_NAMED) return HG_OK;
    size_t i;
    json_t *tool;
    json_array_foreach(p->tools, i, tool)
    {
        const char *name =
            json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        if (name && p->tool_name && strcmp(name, p->tool_name) == 0) return HG_OK;
    }
    return hg_fail(err, HG_EINVAL, "tool_choice: no tool is named '%s'",
                   p->tool_name ? p->tool_name : "");
}

/* New reference, NULL when memory is out. */
static json_t *template_vars(const struct hg_engine *eng, const struct hg_request_params *p)
{
    json_t *vars = json_deep_copy(eng->assets.specials);
    int bad = !vars;
    enum hg_reasoning think = p->reasoning ? p->reasoning : eng->reasoning;
    if (must_call(p)) think = HG_REASONING_OFF; /* the forced call starts at once */
    /* first, so that what was checked cannot be replaced */
    if (p->template_kwargs) bad |= json_object_update(vars, p->template_kwargs);
    bad |= json_object_set(vars, "messages", p->messages);
    bad |= has_tools(p) ? json_object_set(vars, "tools", p->tools)
                        : json_object_set_new(vars, "tools", json_null());
    bad |= json_object_set_new(vars, "add_generation_prompt", json_true());
    if (think != HG_REASONING_AUTO)
        bad |= json_object_set_new(vars, "enable_thinking", json_boolean(think == HG_REASONING_ON));
    if (!bad) return vars;
    json_decref(vars);
    return NULL;
}

/* Text the model must continue from when a call is required. Empty when it is free. */
static void forced_text(const struct hg_request_params *p, struct hg_buf *out)
{
    if (!must_call(p)) return;
    hg_buf_str(out, "<tool_call>\n<function=");
    json_t *only = json_array_size(p->tools) == 1 ? json_array_get(p->tools, 0) : NULL;
    const char *name =
        json_string_value(json_object_get(json_object_get(only, "function"), "name"));
    if (p->tool_choice == HG_TOOLS_NAMED) name = p->tool_name;
    if (name) hg_buf_printf(out, "%s>\n", name);
}

static bool ends_in_think(const char *text, size_t n)
{
    static const char mark[] = "<think>";
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' ')) n--;
    return n >= sizeof mark - 1 && memcmp(text + n - (sizeof mark - 1), mark, sizeof mark - 1) == 0;
}

static enum hg_status encode_rendered(struct hg_request *r, const struct hg_request_params *p,
                                      struct hg_rendered *text, struct hg_err *err)
{
    struct hg_buf forced;
    hg_buf_init(&forced);
    forced_text(p, &forced);
    struct hg_output_params op = {.in_reasoning = ends_in_think(text->text, text->n),
                                  .tools = has_tools(p) ? p->tools : NULL,
                                  .forced = forced.data};
    int64_t *starts = calloc(text->n_starts + 1, sizeof *starts);
    if (forced.len == 0) r->said = json_pack("{s:s}", "role", "assistant");
    r->output = hg_output_create(&op);
    enum hg_status st = HG_OK;
    if (!starts || !r->output || forced.oom) st = hg_fail(err, HG_ENOMEM, "request: out of memory");
    if (st == HG_OK)
        st = hg_tokenizer_encode(r->eng->assets.tok, text->text, text->n, true, text->starts,
                                 text->n_starts, starts, &r->prompt, err);
    if (st == HG_OK && text->n_starts == json_array_size(p->messages) + 1)
        st = hg_recall_splice(r->eng->recall, p->messages, r->eng->assets.cfg.eos[0], &r->prompt,
                              starts, err);
    r->gen_at = st == HG_OK && text->n_starts ? starts[text->n_starts - 1] : -1;
    if (st == HG_OK) r->n_cuts = hg_policy_cuts(p->messages, starts, text->n_starts, r->cuts);
    if (st == HG_OK && forced.len)
        st = hg_tokenizer_encode(r->eng->assets.tok, forced.data, forced.len, true, NULL, 0, NULL,
                                 &r->prompt, err);
    hg_buf_fini(&forced);
    free(starts);
    return st;
}

static enum hg_status build_chat(struct hg_request *r, const struct hg_request_params *p,
                                 struct hg_err *err)
{
    struct hg_rendered text = {0};
    if (!r->eng->assets.tmpl)
        return hg_fail(err, HG_EUNSUP, "model %s has no chat template", r->eng->assets.name);
    HG_TRY(check_tools(p, err));
    json_t *vars = template_vars(r->eng, p);
    if (!vars) return hg_fail(err, HG_ENOMEM, "request: out of memory");
    enum hg_status st = hg_template_render(r->eng->assets.tmpl, vars, &text, err);
    if (st == HG_OK) st = encode_rendered(r, p, &text, err);
    hg_rendered_fini(&text);
    json_decref(vars);
    return st;
}

static enum hg_status build_ids(struct hg_request *r, const struct hg_request_params *p,
                                struct hg_err *err)
{
    for (size_t i = 0; i < p->n_prompt_ids; i++) {
        if (p->prompt_ids[i] < 0 || p->prompt_ids[i] >= r->eng->info.n_vocab)
            return hg_fail(err, HG_EINVAL, "prompt[%zu]: token %d is outside the vocabulary of %d",
                           i, p->prompt_ids[i], r->eng->info.n_vocab);
        if (!hg_toks_push(&r->prompt, p->prompt_ids[i]))
            return hg_fail(err, HG_ENOMEM, "request: out of memory");
    }
    return HG_OK;
}

enum hg_status hg_prompt_build(struct hg_request *r, const struct hg_request_params *p,
                               struct hg_err *err)
{
    if (!!p->messages + !!p->prompt + !!p->prompt_ids != 1)
        return hg_fail(err, HG_EINVAL, "one of messages, prompt and prompt_ids must be given");
    if (p->messages) return build_chat(r, p, err);
    if (p->prompt_ids) return build_ids(r, p, err);
    return hg_tokenizer_encode(r->eng->assets.tok, p->prompt, p->n_prompt, true, NULL, 0, NULL,
                               &r->prompt, err);
}
