/* Messages and tools of a chat request. What the engine's template gets to see:
 *
 *   role        system, user, assistant or tool; "developer" becomes "system"
 *   content     a string; a list of text parts is joined. The assistant's may be null or absent
 *               and stays so; anybody else's must be there
 *   reasoning_content   a string (assistant); `reasoning` stands in where it is absent
 *   tool_calls  (assistant) function.arguments is an object: a JSON string is parsed, as templates
 *               iterate over its pairs; an empty string or no arguments at all means {}
 *
 * Other keys of a message pass through. */
#include "server/api_request.h"

#include <stdio.h>
#include <string.h>

#include "server/request_fields.h"

enum { MAX_TOOL_NAME = 256 };

static enum hg_status no_memory(const char *param, struct hg_api_err *err)
{
    return hg_api_fail(err, HG_ENOMEM, param, "out of memory");
}

static enum hg_status wrong_kind(const char *where, const char *key, const json_t *v,
                                 const char *wanted, struct hg_api_err *err)
{
    char param[128];
    snprintf(param, sizeof param, "%s%s%s", where, *key ? "." : "", key);
    return hg_api_fail(err, HG_EINVAL, param, "got %s, wanted %s", hg_json_kind(v), wanted);
}

/* Joins [{"type":"text","text":".."}, ..] into one string and puts it in the message. */
static enum hg_status join_parts(json_t *message, const json_t *parts, const char *where,
                                 struct hg_api_err *err)
{
    struct hg_buf text;
    hg_buf_init(&text);
    size_t i;
    json_t *part;
    enum hg_status s = HG_OK;
    json_array_foreach(parts, i, part)
    {
        char param[96];
        snprintf(param, sizeof param, "%s.content[%zu]", where, i);
        const json_t *type = json_object_get(part, "type");
        const json_t *value = json_object_get(part, "text");
        if (!json_is_object(part))
            s = wrong_kind(param, "", part, "an object", err);
        else if (!json_is_string(type))
            s = wrong_kind(param, "type", type, "a string", err);
        else if (strcmp(json_string_value(type), "text") != 0)
            s = hg_api_fail(err, HG_EUNSUP, param,
                            "part of type \"%.64s\" is not supported, only \"text\"",
                            json_string_value(type));
        else if (!json_is_string(value))
            s = wrong_kind(param, "text", value, "a string", err);
        if (s != HG_OK) break;
        hg_buf_add(&text, json_string_value(value), json_string_length(value));
    }
    json_t *joined =
        s == HG_OK && !text.oom ? json_stringn_nocheck(text.data ? text.data : "", text.len) : NULL;
    hg_buf_fini(&text);
    if (s != HG_OK) return s;
    return json_object_set_new(message, "content", joined) ? no_memory(where, err) : HG_OK;
}

static enum hg_status check_content(json_t *message, const char *role, const char *where,
                                    struct hg_api_err *err)
{
    json_t *content = json_object_get(message, "content");
    if (json_is_string(content)) return HG_OK;
    if (json_is_array(content)) return join_parts(message, content, where, err);
    if ((!content || json_is_null(content)) && strcmp(role, "assistant") == 0) return HG_OK;
    return wrong_kind(where, "content", content, "a string or an array of text parts", err);
}

static enum hg_status check_reasoning(json_t *message, const char *where, struct hg_api_err *err)
{
    json_t *given = hg_field_get(message, "reasoning_content");
    if (given)
        return json_is_string(given)
                   ? HG_OK
                   : wrong_kind(where, "reasoning_content", given, "a string", err);
    json_t *other = json_object_get(message, "reasoning");
    if (!json_is_string(other)) return HG_OK;
    return json_object_set(message, "reasoning_content", other) ? no_memory(where, err) : HG_OK;
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!strchr(" \t\r\n", s[i]) || !s[i]) return false;
    }
    return true;
}

static enum hg_status check_arguments(json_t *function, const char *where, size_t *budget,
                                      struct hg_api_err *err)
{
    char param[128];
    snprintf(param, sizeof param, "%s.arguments", where);
    json_t *v = hg_field_get(function, "arguments");
    if (json_is_object(v)) return HG_OK;
    if (v && !json_is_string(v)) return wrong_kind(param, "", v, "a JSON string or an object", err);
    const char *text = v ? json_string_value(v) : "";
    size_t n = v ? json_string_length(v) : 0;
    json_t *object = NULL;
    if (is_blank(text, n))
        object = json_object();
    else
        HG_TRY(hg_json_in(text, n, true, budget, param, &object, err));
    if (object && !json_is_object(object)) {
        enum hg_status s = wrong_kind(param, "", object, "a JSON object in the string", err);
        json_decref(object);
        return s;
    }
    return json_object_set_new(function, "arguments", object) ? no_memory(param, err) : HG_OK;
}

static enum hg_status check_function_type(const json_t *object, const char *where,
                                          struct hg_api_err *err)
{
    const json_t *type = hg_field_get(object, "type");
    if (!type) return HG_OK;
    if (!json_is_string(type)) return wrong_kind(where, "type", type, "\"function\"", err);
    if (strcmp(json_string_value(type), "function") != 0)
        return hg_api_fail(err, HG_EUNSUP, where,
                           "type \"%.64s\" is not supported, only \"function\"",
                           json_string_value(type));
    return HG_OK;
}

static enum hg_status check_name(const json_t *function, const char *where, struct hg_api_err *err)
{
    const json_t *name = hg_field_get(function, "name");
    if (!json_is_string(name)) return wrong_kind(where, "name", name, "a string", err);
    size_t n = json_string_length(name);
    if (n == 0 || n > MAX_TOOL_NAME || strlen(json_string_value(name)) != n)
        return hg_api_fail(err, HG_EINVAL, where, "name: wanted 1..%d bytes without NUL",
                           MAX_TOOL_NAME);
    return HG_OK;
}

static enum hg_status check_tool_calls(json_t *message, const char *where, size_t *budget,
                                       struct hg_api_err *err)
{
    json_t *calls = hg_field_get(message, "tool_calls");
    if (!calls) return HG_OK;
    if (!json_is_array(calls)) return wrong_kind(where, "tool_calls", calls, "an array", err);
    size_t i;
    json_t *call;
    json_array_foreach(calls, i, call)
    {
        char param[96];
        snprintf(param, sizeof param, "%s.tool_calls[%zu]", where, i);
        if (!json_is_object(call)) return wrong_kind(param, "", call, "an object", err);
        HG_TRY(check_function_type(call, param, err));
        json_t *function = hg_field_get(call, "function");
        if (!json_is_object(function))
            return wrong_kind(param, "function", function, "an object", err);
        strcat(param, ".function");
        HG_TRY(check_name(function, param, err));
        HG_TRY(check_arguments(function, param, budget, err));
    }
    return HG_OK;
}

static enum hg_status check_message(json_t *message, size_t i, size_t *budget,
                                    struct hg_api_err *err)
{
    char where[48];
    snprintf(where, sizeof where, "messages[%zu]", i);
    if (!json_is_object(message)) return wrong_kind(where, "", message, "an object", err);
    const json_t *role_value = json_object_get(message, "role");
    if (!json_is_string(role_value)) return wrong_kind(where, "role", role_value, "a string", err);
    const char *role = json_string_value(role_value);
    if (strcmp(role, "developer") == 0) {
        if (json_object_set_new(message, "role", json_string("system")))
            return no_memory(where, err);
        role = "system";
    }
    if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 &&
        strcmp(role, "assistant") != 0 && strcmp(role, "tool") != 0) {
        strcat(where, ".role");
        return hg_api_fail(err, HG_EINVAL, where,
                           "unknown role \"%.64s\", wanted system, user, assistant or tool", role);
    }
    HG_TRY(check_content(message, role, where, err));
    if (strcmp(role, "assistant") != 0) return HG_OK;
    HG_TRY(check_reasoning(message, where, err));
    return check_tool_calls(message, where, budget, err);
}

enum hg_status hg_chat_messages_check(json_t *messages, size_t *budget, struct hg_api_err *err)
{
    if (!json_is_array(messages)) return wrong_kind("messages", "", messages, "an array", err);
    if (json_array_size(messages) == 0)
        return hg_api_fail(err, HG_EINVAL, "messages", "empty, wanted at least one");
    for (size_t i = 0; i < json_array_size(messages); i++)
        HG_TRY(check_message(json_array_get(messages, i), i, budget, err));
    return HG_OK;
}

static enum hg_status check_tool(const json_t *tool, const char *where, json_t *seen,
                                 struct hg_api_err *err)
{
    if (!json_is_object(tool)) return wrong_kind(where, "", tool, "an object", err);
    HG_TRY(check_function_type(tool, where, err));
    const json_t *function = hg_field_get(tool, "function");
    char param[96];
    snprintf(param, sizeof param, "%s.function", where);
    if (!json_is_object(function)) return wrong_kind(param, "", function, "an object", err);
    HG_TRY(check_name(function, param, err));
    const json_t *description = hg_field_get(function, "description");
    if (description && !json_is_string(description))
        return wrong_kind(param, "description", description, "a string", err);
    const json_t *parameters = hg_field_get(function, "parameters");
    if (parameters && !json_is_object(parameters))
        return wrong_kind(param, "parameters", parameters, "an object", err);
    const char *name = json_string_value(json_object_get(function, "name"));
    if (json_object_get(seen, name))
        return hg_api_fail(err, HG_EINVAL, param, "name \"%.64s\" is declared twice", name);
    return json_object_set_new_nocheck(seen, name, json_true()) ? no_memory(where, err) : HG_OK;
}

enum hg_status hg_chat_tools_check(const json_t *tools, struct hg_api_err *err)
{
    if (!tools) return HG_OK;
    if (!json_is_array(tools)) return wrong_kind("tools", "", tools, "an array", err);
    json_t *seen = json_object();
    if (!seen) return no_memory("tools", err);
    enum hg_status s = HG_OK;
    for (size_t i = 0; i < json_array_size(tools) && s == HG_OK; i++) {
        char where[48];
        snprintf(where, sizeof where, "tools[%zu]", i);
        s = check_tool(json_array_get(tools, i), where, seen, err);
    }
    json_decref(seen);
    return s;
}
