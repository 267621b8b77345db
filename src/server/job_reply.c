/* A job's reply: the parts that both dialects share. */
#include "server/server_impl.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/log.h"
#include "server/sse.h"

void hg_random_id(char *out, size_t cap, const char *prefix)
{
    unsigned char bytes[12] = {0};
    (void)!getrandom(bytes, sizeof bytes, 0); /* <= 256 bytes are never cut short */
    size_t n = (size_t)snprintf(out, cap, "%s", prefix);
    for (size_t i = 0; i < sizeof bytes && n + 3 <= cap; i++, n += 2)
        snprintf(out + n, cap - n, "%02x", bytes[i]);
}

/* ------------------------------------------------------------------------- pieces of JSON -- */

const char *hg_job_finish_name(enum hg_finish f)
{
    return f == HG_FINISH_LENGTH ? "length" : f == HG_FINISH_TOOL_CALLS ? "tool_calls" : "stop";
}

double hg_job_finite(float logprob)
{
    return logprob > -9999.0f ? (double)logprob : -9999.0;
}

static void job_json_head(struct hg_job *j, const char *object)
{
    hg_buf_printf(&j->out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", j->id,
                  object, (long long)j->created);
    hg_json_out_str(&j->out, j->srv->model_name);
    hg_buf_str(&j->out, ",\"choices\":[");
}

static void job_json_usage(struct hg_job *j, const struct hg_event *done)
{
    const struct hg_usage *u = &done->usage;
    const struct hg_timings *t = &done->timings;
    hg_buf_printf(&j->out,
                  ",\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%lld,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%d}}",
                  u->n_prompt, u->n_completion, (long long)u->n_prompt + u->n_completion,
                  u->n_cached);
    hg_buf_printf(&j->out,
                  ",\"timings\":{\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,"
                  "\"ttft_ms\":%.3f,\"n_rounds\":%d,\"logits_hash\":\"%016llx\"}",
                  t->queue_s * 1e3, t->prefill_s * 1e3, t->decode_s * 1e3, t->ttft_s * 1e3,
                  t->n_rounds, (unsigned long long)t->logits_hash);
}

void hg_job_chunk_begin(struct hg_job *j)
{
    hg_sse_begin(&j->out);
    job_json_head(j, j->dialect->chunk_object);
}

void hg_job_chunk_end(struct hg_job *j)
{
    hg_buf_str(&j->out, j->include_usage ? "],\"usage\":null}" : "]}");
    hg_sse_end(&j->out);
}

/* ------------------------------------------------------------------------------- the reply -- */

static void stream_last(struct hg_job *j, const struct hg_event *done)
{
    j->dialect->finish_chunk(j, done);
    if (j->include_usage) {
        hg_sse_begin(&j->out);
        job_json_head(j, j->dialect->chunk_object);
        hg_buf_char(&j->out, ']');
        job_json_usage(j, done);
        hg_buf_char(&j->out, '}');
        hg_sse_end(&j->out);
    }
    hg_sse_done(&j->out);
}

static void whole_reply(struct hg_job *j, const struct hg_event *done)
{
    struct hg_http_req *r = j->http;
    job_json_head(j, j->dialect->object);
    j->dialect->choice(j, done);
    hg_buf_char(&j->out, ']');
    job_json_usage(j, done);
    hg_buf_char(&j->out, '}');
    if (j->oom || j->text.oom || j->reasoning.oom) j->out.oom = true;
    j->http = NULL;
    hg_reply_json(r, 200, NULL, &j->out);
}

/* An error, or an end that the client did not ask for. */
static void fail_reply(struct hg_job *j, const struct hg_event *ev)
{
    struct hg_http_req *r = j->http;
    struct hg_api_err err = {.e = ev->err};
    if (ev->type == HG_EV_DONE)
        hg_api_fail(&err, HG_ECANCELED, NULL, "cancelled: the server is stopping");
    hg_log(HG_LOG_WARN, "%s: %s: %s", j->id, hg_status_name(err.e.status), err.e.text);
    if (j->begun) {
        hg_sse_begin(&j->out);
        hg_json_api_error(&j->out, &err);
        hg_sse_end(&j->out);
        return;
    }
    struct hg_buf b;
    hg_buf_init(&b);
    hg_json_api_error(&b, &err);
    j->http = NULL;
    hg_reply_json(r, hg_http_status(err.e.status), NULL, &b);
}

void hg_job_event(struct hg_job *j, const struct hg_event *ev)
{
    bool last = ev->type == HG_EV_DONE || ev->type == HG_EV_ERROR;
    j->over = last;
    if (last) hg_metrics_add(&j->srv->metrics, ev);
    bool failed = ev->type == HG_EV_ERROR || (last && ev->finish == HG_FINISH_CANCELED);
    if (failed) {
        fail_reply(j, ev);
    } else if (!j->stream) {
        j->dialect->collect(j, ev);
        if (last) whole_reply(j, ev);
    } else {
        /* Not before there is something to say: until then an error has its own HTTP status. */
        if (!j->begun)
            hg_http_stream_begin(j->http, HG_SSE_TYPE,
                                 HG_SSE_HEADERS "Access-Control-Allow-Origin: *\r\n");
        if (last)
            stream_last(j, ev);
        else
            j->dialect->chunk(j, ev);
        j->begun = true;
    }
}

void hg_job_flush(struct hg_job *j)
{
    static const char oom[] = "data: {\"error\":{\"message\":\"out of memory\","
                              "\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n";
    if (!j->http || !j->begun) return;
    struct hg_http_req *r = j->http;
    bool ok = !j->out.oom;
    bool sent = hg_http_stream_write(r, ok ? j->out.data : oom, ok ? j->out.len : sizeof oom - 1);
    hg_buf_clear(&j->out);
    if (sent && ok && !j->over) return;
    j->http = NULL;
    if (sent) hg_http_stream_end(r);
}
