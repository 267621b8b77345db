/* Request bodies. The first byte picks the dialect, the rest is the body. What is accepted must
 * keep its promises to the engine; what is refused must name a field in valid JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/api_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) abort();
}

static void check_messages(const json_t *messages)
{
    size_t i, k;
    const json_t *m, *call;
    require(json_array_size(messages) > 0);
    json_array_foreach(messages, i, m)
    {
        const char *role = json_string_value(json_object_get(m, "role"));
        require(role != NULL);
        if (strcmp(role, "assistant") != 0) {
            require(json_is_string(json_object_get(m, "content")));
            continue;
        }
        json_array_foreach(json_object_get(m, "tool_calls"), k, call)
        {
            const json_t *function = json_object_get(call, "function");
            require(json_is_string(json_object_get(function, "name")));
            require(json_is_object(json_object_get(function, "arguments")));
        }
    }
}

static void check_accepted(const struct hg_api_request *q, int32_t n_vocab)
{
    const struct hg_request_params *p = &q->rp;
    require((p->messages != NULL) + (p->prompt != NULL) + (p->prompt_ids != NULL) == 1);
    if (p->messages) check_messages(p->messages);
    require(p->tool_choice != HG_TOOLS_NAMED || (p->tool_name && p->tools));
    require(p->max_tokens >= 0 && p->n_logprobs >= -1 && p->n_logprobs <= 20);
    const struct hg_sampling *s = &p->sampling;
    require(isfinite(s->temperature) && s->temperature >= 0 && s->top_k >= 0);
    require(s->top_p > 0 && s->top_p <= 1 && s->repetition_penalty > 0);
    for (int32_t i = 0; i < p->n_stop; i++) require(p->stop[i] && *p->stop[i]);
    for (int32_t i = 0; i < s->n_bias; i++) require(s->bias[i].id >= 0 && s->bias[i].id < n_vocab);
    for (size_t i = 0; i < p->n_prompt_ids; i++)
        require(p->prompt_ids[i] >= 0 && p->prompt_ids[i] < n_vocab);
}

static void check_refused(const struct hg_api_err *err, enum hg_status s)
{
    require(err->e.status == s && err->e.text[0]);
    struct hg_buf b;
    hg_buf_init(&b);
    hg_json_api_error(&b, err);
    json_t *v = json_loadb(b.data, b.len, 0, NULL);
    require(json_is_string(json_object_get(json_object_get(v, "error"), "param")));
    json_decref(v);
    hg_buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct hg_api_limits limits = {
        .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1}, .n_vocab = 1000};
    if (size == 0) return 0;
    struct hg_api_request q;
    struct hg_api_err err;
    const char *text = (const char *)data + 1;
    enum hg_status s = data[0] & 1 ? hg_completion_request_parse(text, size - 1, &limits, &q, &err)
                                   : hg_chat_request_parse(text, size - 1, &limits, &q, &err);
    if (s == HG_OK) {
        check_accepted(&q, limits.n_vocab);
        hg_api_request_fini(&q);
    } else {
        check_refused(&err, s);
    }
    return 0;
}
