/* POST /v1/chat/completions: the body's own fields; those shared with completions are in
 * api_request.c, messages and tools in chat_messages.c.
 *
 *   field                    value                                effect
 *   messages                 array, not empty                     see chat_messages.c
 *   tools                    array of functions                   [] is as absent
 *   tool_choice              "auto" | "none" | "required" |       "required" and a name need tools,
 *                            {"type":"function",                  the name must be among them
 *                             "function":{"name":..}}
 *   parallel_tool_calls      true; false only without tools       else EUNSUP: nothing limits them
 *   chat_template_kwargs     object                               passed to the template;
 *     .enable_thinking       bool                                 reasoning on or off
 *   enable_thinking          bool                                 same, weaker
 *   reasoning_effort         string                               "none": off, weakest; others mean
 *                                                                 nothing to this family
 *   logprobs, top_logprobs   bool, 0..20                          the second needs the first
 *   response_format          {"type":"text"}                      json_* : EUNSUP
 *   modalities               ["text"]                             else EUNSUP
 */
#include <stdio.h>
#include <string.h>

#include "server/api_request.h"
#include "server/request_fields.h"

static bool has_tool(const json_t *tools, const char *name)
{
    size_t i;
    const json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0) return true;
    }
    return false;
}

static enum hg_status named_tool(struct hg_api_request *q, const json_t *choice,
                                 struct hg_api_err *err)
{
    static const char wanted[] = "{\"type\":\"function\",\"function\":{\"name\":..}}";
    const json_t *type = json_object_get(choice, "type");
    const json_t *name = json_object_get(json_object_get(choice, "function"), "name");
    if (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0 ||
        !json_is_string(name))
        return hg_api_fail(err, HG_EINVAL, "tool_choice", "wanted %s", wanted);
    if (!has_tool(q->rp.tools, json_string_value(name)))
        return hg_api_fail(err, HG_EINVAL, "tool_choice", "\"%.64s\" is not among the tools",
                           json_string_value(name));
    q->rp.tool_choice = HG_TOOLS_NAMED;
    q->rp.tool_name = json_string_value(name);
    return HG_OK;
}

static enum hg_status read_tool_choice(struct hg_api_request *q, struct hg_api_err *err)
{
    const json_t *v = hg_field_get(q->body, "tool_choice");
    if (!v) return HG_OK;
    if (json_is_object(v)) return named_tool(q, v, err);
    if (!json_is_string(v))
        return hg_api_fail(err, HG_EINVAL, "tool_choice", "got %s, wanted a string or an object",
                           hg_json_kind(v));
    const char *s = json_string_value(v);
    if (strcmp(s, "auto") == 0)
        q->rp.tool_choice = HG_TOOLS_AUTO;
    else if (strcmp(s, "none") == 0)
        q->rp.tool_choice = HG_TOOLS_NONE;
    else if (strcmp(s, "required") == 0)
        q->rp.tool_choice = HG_TOOLS_REQUIRED;
    else
        return hg_api_fail(err, HG_EINVAL, "tool_choice",
                           "\"%.64s\", wanted auto, none, required or a function", s);
    if (q->rp.tool_choice == HG_TOOLS_REQUIRED && !q->rp.tools)
        return hg_api_fail(err, HG_EINVAL, "tool_choice", "required, but there are no tools");
    return HG_OK;
}

static enum hg_status read_tools(struct hg_api_request *q, struct hg_api_err *err)
{
    json_t *tools = hg_field_get(q->body, "tools");
    HG_TRY(hg_chat_tools_check(tools, err));
    q->rp.tools = json_array_size(tools) ? tools : NULL;
    bool parallel = true;
    HG_TRY(hg_field_bool(q->body, "parallel_tool_calls", &parallel, err));
    if (!parallel && q->rp.tools)
        return hg_api_fail(err, HG_EUNSUP, "parallel_tool_calls", "false is not supported");
    return read_tool_choice(q, err);
}

static enum hg_status read_reasoning(struct hg_api_request *q, struct hg_api_err *err)
{
    const char *effort = "";
    HG_TRY(hg_field_string(q->body, "reasoning_effort", &effort, err));
    if (strcmp(effort, "none") == 0) q->rp.reasoning = HG_REASONING_OFF;
    bool think = false;
    if (hg_field_get(q->body, "enable_thinking")) {
        HG_TRY(hg_field_bool(q->body, "enable_thinking", &think, err));
        q->rp.reasoning = think ? HG_REASONING_ON : HG_REASONING_OFF;
    }
    json_t *kwargs = NULL;
    HG_TRY(hg_field_object(q->body, "chat_template_kwargs", &kwargs, err));
    q->rp.template_kwargs = kwargs;
    const json_t *v = hg_field_get(kwargs, "enable_thinking");
    if (!v) return HG_OK;
    if (!json_is_boolean(v))
        return hg_api_fail(err, HG_EINVAL, "chat_template_kwargs.enable_thinking",
                           "got %s, wanted a boolean", hg_json_kind(v));
    q->rp.reasoning = json_is_true(v) ? HG_REASONING_ON : HG_REASONING_OFF;
    return HG_OK;
}

static enum hg_status read_logprobs(struct hg_api_request *q, struct hg_api_err *err)
{
    bool on = false;
    int32_t top = 0;
    HG_TRY(hg_field_bool(q->body, "logprobs", &on, err));
    HG_TRY(hg_field_i32(q->body, "top_logprobs", 0, 20, &top, err));
    if (top > 0 && !on) return hg_api_fail(err, HG_EINVAL, "top_logprobs", "needs logprobs: true");
    q->rp.n_logprobs = on ? top : -1;
    return HG_OK;
}

static enum hg_status read_output_form(const json_t *body, struct hg_api_err *err)
{
    json_t *format = NULL;
    HG_TRY(hg_field_object(body, "response_format", &format, err));
    if (format) {
        const json_t *type = json_object_get(format, "type");
        if (!json_is_string(type))
            return hg_api_fail(err, HG_EINVAL, "response_format.type", "got %s, wanted a string",
                               hg_json_kind(type));
        if (strcmp(json_string_value(type), "text") != 0)
            return hg_api_fail(err, HG_EUNSUP, "response_format",
                               "type \"%.64s\" is not supported yet, only \"text\"",
                               json_string_value(type));
    }
    const json_t *modalities = hg_field_get(body, "modalities");
    const char *only = json_string_value(json_array_get(modalities, 0));
    if (modalities && !(json_array_size(modalities) == 1 && only && strcmp(only, "text") == 0))
        return hg_api_fail(err, HG_EUNSUP, "modalities", "only [\"text\"] is supported");
    return HG_OK;
}

static enum hg_status read_chat(struct hg_api_request *q, const struct hg_api_limits *lim,
                                size_t *budget, struct hg_api_err *err)
{
    q->rp.messages = json_object_get(q->body, "messages");
    HG_TRY(hg_chat_messages_check(q->rp.messages, budget, err));
    HG_TRY(read_tools(q, err));
    HG_TRY(hg_api_request_common(q, lim, err));
    HG_TRY(read_reasoning(q, err));
    HG_TRY(read_logprobs(q, err));
    return read_output_form(q->body, err);
}

enum hg_status hg_chat_request_parse(const char *text, size_t n, const struct hg_api_limits *lim,
                                     struct hg_api_request *out, struct hg_api_err *err)
{
    size_t budget;
    enum hg_status s = hg_api_request_begin(text, n, lim, out, &budget, err);
    if (s == HG_OK) s = read_chat(out, lim, &budget, err);
    if (s != HG_OK) hg_api_request_fini(out);
    return s;
}
