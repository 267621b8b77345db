/* POST /v1/completions: the replies. Thinking and calls are no matter here: all is text. */
#include <string.h>

#include "server/server_impl.h"

enum { LP_TOKENS, LP_LOGPROBS, LP_TOP, LP_OFFSETS };
static const char *const lp_names[HG_JOB_LOGPROB_BUFS] = {"tokens", "token_logprobs",
                                                          "top_logprobs", "text_offset"};

static bool is_utf8(const char *s, size_t n)
{
    size_t len;
    for (; n > 0; s += len, n -= len) {
        len = hg_utf8_char(s, n);
        if (len == 0) return false;
    }
    return true;
}

/* The token as text where it is UTF-8, else as OpenAI writes it: "bytes:\xf0\x9f" (so that keys of
 * top_logprobs stay distinct). */
static void json_token_name(struct hg_buf *b, const struct hg_top_logprob *t)
{
    size_t n = (size_t)t->n_text;
    if (is_utf8(t->text, n)) {
        hg_json_out(b, t->text, n);
        return;
    }
    hg_buf_str(b, "\"bytes:");
    for (size_t i = 0; i < n; i++)
        hg_buf_printf(b, "\\\\x%02x", (unsigned)(unsigned char)t->text[i]);
    hg_buf_char(b, '"');
}

static int32_t count_chars(const char *s, int32_t n)
{
    int32_t chars = 0;
    for (int32_t i = 0; i < n; i++) chars += ((unsigned char)s[i] & 0xc0) != 0x80;
    return chars;
}

/* Appends the tokens of the event to the four lists. */
static void add_logprobs(struct hg_job *j, const struct hg_event *ev)
{
    struct hg_buf *lp = j->logprobs;
    for (int32_t i = 0; i < ev->n_logprobs; i++) {
        const struct hg_logprob *t = &ev->logprobs[i];
        if (lp[LP_TOKENS].len) {
            for (int32_t k = 0; k < HG_JOB_LOGPROB_BUFS; k++) hg_buf_char(&lp[k], ',');
        }
        json_token_name(&lp[LP_TOKENS], &t->drawn);
        hg_buf_printf(&lp[LP_LOGPROBS], "%.6g", hg_job_finite(t->drawn.logprob));
        hg_buf_printf(&lp[LP_OFFSETS], "%d", j->n_chars);
        hg_buf_char(&lp[LP_TOP], '{');
        for (int32_t k = 0; k < t->n_top; k++) {
            if (k) hg_buf_char(&lp[LP_TOP], ',');
            json_token_name(&lp[LP_TOP], &t->top[k]);
            hg_buf_printf(&lp[LP_TOP], ":%.6g", hg_job_finite(t->top[k].logprob));
        }
        hg_buf_char(&lp[LP_TOP], '}');
        j->n_chars += count_chars(t->drawn.text, t->drawn.n_text);
    }
}

/* Writes the lists collected so far and empties them. */
static void json_logprobs(struct hg_job *j)
{
    if (!j->want_logprobs) {
        hg_buf_str(&j->out, "null");
        return;
    }
    for (int32_t k = 0; k < HG_JOB_LOGPROB_BUFS; k++) {
        struct hg_buf *lp = &j->logprobs[k];
        hg_buf_printf(&j->out, "%c\"%s\":[", k ? ',' : '{', lp_names[k]);
        if (lp->len) hg_buf_add(&j->out, lp->data, lp->len);
        hg_buf_char(&j->out, ']');
        if (lp->oom) j->oom = true;
        hg_buf_clear(lp);
    }
    hg_buf_char(&j->out, '}');
}

static void json_choice(struct hg_job *j, const char *text, size_t n, const char *finish)
{
    hg_buf_str(&j->out, "{\"index\":0,\"text\":");
    hg_json_out(&j->out, text, n);
    hg_buf_str(&j->out, ",\"logprobs\":");
    json_logprobs(j);
    hg_buf_str(&j->out, ",\"finish_reason\":");
    if (finish)
        hg_json_out_str(&j->out, finish);
    else
        hg_buf_str(&j->out, "null");
    hg_buf_char(&j->out, '}');
}

static void completion_chunk(struct hg_job *j, const struct hg_event *ev)
{
    if (ev->n_text == 0 && ev->n_logprobs == 0) return;
    add_logprobs(j, ev);
    hg_job_chunk_begin(j);
    json_choice(j, ev->text, ev->n_text, NULL);
    hg_job_chunk_end(j);
}

static void completion_finish_chunk(struct hg_job *j, const struct hg_event *done)
{
    add_logprobs(j, done);
    hg_job_chunk_begin(j);
    json_choice(j, "", 0, hg_job_finish_name(done->finish));
    hg_job_chunk_end(j);
}

static void completion_collect(struct hg_job *j, const struct hg_event *ev)
{
    add_logprobs(j, ev);
    if (ev->n_text) hg_buf_add(&j->text, ev->text, ev->n_text);
}

static void completion_choice(struct hg_job *j, const struct hg_event *done)
{
    json_choice(j, j->text.data, j->text.len, hg_job_finish_name(done->finish));
}

static const struct hg_dialect completion_dialect = {
    .id_prefix = "cmpl-",
    .object = "text_completion",
    .chunk_object = "text_completion",
    .chunk = completion_chunk,
    .finish_chunk = completion_finish_chunk,
    .collect = completion_collect,
    .choice = completion_choice,
};

static void completion_prepare(struct hg_job *j)
{
    struct hg_api_request q;
    struct hg_api_err err;
    if (hg_completion_request_parse(j->body.data, j->body.len, &j->srv->limits, &q, &err) !=
        HG_OK) {
        hg_job_fail(j, &err);
        return;
    }
    hg_job_submit(j, &q);
    hg_api_request_fini(&q);
}

void hg_v1_completions(struct hg_server *s, struct hg_http_req *r)
{
    hg_job_start(s, r, completion_prepare, &completion_dialect);
}
