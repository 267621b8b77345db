/* POST /v1/completions: the body's own fields; the shared ones are in api_request.c.
 *
 *   prompt     string | [string] | [ids] | [[ids]]    exactly one prompt
 *   logprobs   0..20                                  of the drawn token, and of the k best
 *   echo, suffix, best_of > 1                         EUNSUP
 *   max_tokens                                        the server's default, not OpenAI's 16
 */
#include <string.h>

#include "server/api_request.h"
#include "server/request_fields.h"

static enum hg_status read_prompt(struct hg_api_request *q, int32_t n_vocab, struct hg_api_err *err)
{
    json_t *v = hg_field_get(q->body, "prompt");
    const json_t *first = json_array_get(v, 0);
    if (json_is_string(first) || json_is_array(first)) {
        if (json_array_size(v) != 1)
            return hg_api_fail(err, HG_EUNSUP, "prompt", "%zu prompts, only one is supported",
                               json_array_size(v));
        v = json_array_get(v, 0);
    }
    if (json_is_string(v)) {
        q->rp.prompt = json_string_value(v);
        q->rp.n_prompt = json_string_length(v);
        return HG_OK;
    }
    if (!json_is_array(v))
        return hg_api_fail(err, HG_EINVAL, "prompt", "got %s, wanted a string or token ids",
                           hg_json_kind(v));
    if (json_array_size(v) == 0) return hg_api_fail(err, HG_EINVAL, "prompt", "empty");
    return hg_api_token_ids(&q->arena, v, "prompt", n_vocab, &q->rp.prompt_ids, &q->rp.n_prompt_ids,
                            err);
}

static enum hg_status read_completion(struct hg_api_request *q, const struct hg_api_limits *lim,
                                      struct hg_api_err *err)
{
    HG_TRY(read_prompt(q, lim->n_vocab, err));
    HG_TRY(hg_api_request_common(q, lim, err));
    return hg_field_i32(q->body, "logprobs", 0, 20, &q->rp.n_logprobs, err);
}

enum hg_status hg_completion_request_parse(const char *text, size_t n,
                                           const struct hg_api_limits *lim,
                                           struct hg_api_request *out, struct hg_api_err *err)
{
    size_t budget;
    enum hg_status s = hg_api_request_begin(text, n, lim, out, &budget, err);
    if (s == HG_OK) s = read_completion(out, lim, err);
    if (s != HG_OK) hg_api_request_fini(out);
    return s;
}
