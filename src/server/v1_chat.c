/* POST /v1/chat/completions: the replies. A stream starts with a role-only delta in the same write
 * as the first content; a tool call is announced with its whole name and then fed with fragments of
 * its JSON arguments. */
#include <stdlib.h>
#include <string.h>

#include "server/server_impl.h"

static void json_token(struct hg_buf *b, const struct hg_top_logprob *t)
{
    hg_buf_str(b, "{\"token\":");
    hg_json_out(b, t->text, (size_t)t->n_text);
    hg_buf_printf(b, ",\"logprob\":%.6g,\"bytes\":[", hg_job_finite(t->logprob));
    for (int32_t i = 0; i < t->n_text; i++)
        hg_buf_printf(b, "%s%u", i ? "," : "", (unsigned)(unsigned char)t->text[i]);
    hg_buf_char(b, ']');
}

/* Appends elements of logprobs.content. */
static void json_logprobs(struct hg_buf *b, const struct hg_event *ev)
{
    for (int32_t i = 0; i < ev->n_logprobs; i++) {
        const struct hg_logprob *lp = &ev->logprobs[i];
        if (b->len && b->data[b->len - 1] == '}') hg_buf_char(b, ',');
        json_token(b, &lp->drawn);
        hg_buf_str(b, ",\"top_logprobs\":[");
        for (int32_t k = 0; k < lp->n_top; k++) {
            if (k) hg_buf_char(b, ',');
            json_token(b, &lp->top[k]);
            hg_buf_char(b, '}');
        }
        hg_buf_str(b, "]}");
    }
}

/* ---------------------------------------------------------------------------------- stream -- */

static void delta_begin(struct hg_job *j)
{
    hg_job_chunk_begin(j);
    hg_buf_str(&j->out, "{\"index\":0,\"delta\":{");
}

/* Closes the delta and the chunk. */
static void delta_end(struct hg_job *j, const struct hg_event *ev, const char *finish)
{
    hg_buf_str(&j->out, "},\"logprobs\":");
    if (ev && ev->n_logprobs > 0) {
        hg_buf_str(&j->out, "{\"content\":[");
        json_logprobs(&j->out, ev);
        hg_buf_str(&j->out, "],\"refusal\":null}");
    } else {
        hg_buf_str(&j->out, "null");
    }
    hg_buf_str(&j->out, ",\"finish_reason\":");
    if (finish)
        hg_json_out_str(&j->out, finish);
    else
        hg_buf_str(&j->out, "null");
    hg_buf_char(&j->out, '}');
    hg_job_chunk_end(j);
}

static void role_chunk(struct hg_job *j)
{
    if (j->begun) return;
    delta_begin(j);
    hg_buf_str(&j->out, "\"role\":\"assistant\",\"content\":\"\"");
    delta_end(j, NULL, NULL);
}

static void json_call_head(struct hg_buf *b, int32_t index, const char *id, const char *name)
{
    char made[48];
    if (!id || !*id) hg_random_id(made, sizeof made, "call_");
    hg_buf_printf(b, "{\"index\":%d,\"id\":", index);
    hg_json_out_str(b, id && *id ? id : made);
    hg_buf_str(b, ",\"type\":\"function\",\"function\":{\"name\":");
    hg_json_out_str(b, name ? name : "");
    hg_buf_str(b, ",\"arguments\":");
}

static void chat_chunk(struct hg_job *j, const struct hg_event *ev)
{
    role_chunk(j);
    bool silent = ev->n_text == 0 && ev->n_logprobs == 0 && ev->type != HG_EV_TOOL_BEGIN;
    if (ev->type == HG_EV_TOOL_END || silent) return;
    struct hg_buf *b = &j->out;
    delta_begin(j);
    switch (ev->type) {
    case HG_EV_TOOL_BEGIN:
        hg_buf_str(b, "\"tool_calls\":[");
        json_call_head(b, ev->index, ev->id, ev->name);
        hg_buf_str(b, "\"\"}}]");
        break;
    case HG_EV_TOOL_ARGS:
        hg_buf_printf(b, "\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":", ev->index);
        hg_json_out(b, ev->text, ev->n_text);
        hg_buf_str(b, "}}]");
        break;
    default:
        hg_buf_str(b, ev->type == HG_EV_REASONING ? "\"reasoning_content\":" : "\"content\":");
        hg_json_out(b, ev->text, ev->n_text);
    }
    delta_end(j, ev, NULL);
}

static void chat_finish_chunk(struct hg_job *j, const struct hg_event *done)
{
    role_chunk(j);
    delta_begin(j);
    delta_end(j, done, hg_job_finish_name(done->finish)); /* may carry logprobs of no text */
}

/* ----------------------------------------------------------------------------------- whole -- */

static void add_call(struct hg_job *j, const struct hg_event *ev)
{
    struct hg_job_call *calls = realloc(j->calls, ((size_t)j->n_calls + 1) * sizeof *calls);
    if (!calls) {
        j->oom = true;
        return;
    }
    j->calls = calls;
    struct hg_job_call *call = &calls[j->n_calls++];
    memset(call, 0, sizeof *call);
    if (ev->id) hg_buf_str(&call->id, ev->id);
    if (ev->name) hg_buf_str(&call->name, ev->name);
}

static void chat_collect(struct hg_job *j, const struct hg_event *ev)
{
    json_logprobs(&j->logprobs[0], ev);
    switch (ev->type) {
    case HG_EV_TEXT: hg_buf_add(&j->text, ev->text, ev->n_text); break;
    case HG_EV_REASONING: hg_buf_add(&j->reasoning, ev->text, ev->n_text); break;
    case HG_EV_TOOL_BEGIN: add_call(j, ev); break;
    case HG_EV_TOOL_ARGS:
        if (ev->index >= 0 && ev->index < j->n_calls)
            hg_buf_add(&j->calls[ev->index].args, ev->text, ev->n_text);
        break;
    default: break;
    }
}

static void json_calls(struct hg_job *j)
{
    struct hg_buf *b = &j->out;
    hg_buf_str(b, ",\"tool_calls\":[");
    for (int32_t i = 0; i < j->n_calls; i++) {
        const struct hg_job_call *call = &j->calls[i];
        if (i) hg_buf_char(b, ',');
        json_call_head(b, i, call->id.data, call->name.data);
        hg_json_out(b, call->args.data, call->args.len);
        hg_buf_str(b, "}}");
        if (call->args.oom || call->name.oom || call->id.oom) j->oom = true;
    }
    hg_buf_char(b, ']');
}

static void chat_choice(struct hg_job *j, const struct hg_event *done)
{
    struct hg_buf *b = &j->out;
    hg_buf_str(b, "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    if (j->text.len == 0 && j->n_calls > 0)
        hg_buf_str(b, "null");
    else
        hg_json_out(b, j->text.data, j->text.len);
    hg_buf_str(b, ",\"refusal\":null");
    if (j->reasoning.len) {
        hg_buf_str(b, ",\"reasoning_content\":");
        hg_json_out(b, j->reasoning.data, j->reasoning.len);
    }
    if (j->n_calls) json_calls(j);
    hg_buf_str(b, "},\"logprobs\":");
    if (j->want_logprobs) {
        hg_buf_str(b, "{\"content\":[");
        hg_buf_add(b, j->logprobs[0].data, j->logprobs[0].len);
        hg_buf_str(b, "],\"refusal\":null}");
    } else {
        hg_buf_str(b, "null");
    }
    hg_buf_printf(b, ",\"finish_reason\":\"%s\"}", hg_job_finish_name(done->finish));
    if (j->logprobs[0].oom) j->oom = true;
}

static const struct hg_dialect chat_dialect = {
    .id_prefix = "chatcmpl-",
    .object = "chat.completion",
    .chunk_object = "chat.completion.chunk",
    .chunk = chat_chunk,
    .finish_chunk = chat_finish_chunk,
    .collect = chat_collect,
    .choice = chat_choice,
};

static void chat_prepare(struct hg_job *j)
{
    struct hg_api_request q;
    struct hg_api_err err;
    if (hg_chat_request_parse(j->body.data, j->body.len, &j->srv->limits, &q, &err) != HG_OK) {
        hg_job_fail(j, &err);
        return;
    }
    hg_job_submit(j, &q);
    hg_api_request_fini(&q);
}

void hg_v1_chat(struct hg_server *s, struct hg_http_req *r)
{
    hg_job_start(s, r, chat_prepare, &chat_dialect);
}
