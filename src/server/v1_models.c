/* The small endpoints: models, health, metrics, tokenize, detokenize. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/request_fields.h"
#include "server/server_impl.h"

static void json_model(struct hg_server *s, struct hg_buf *b)
{
    hg_buf_str(b, "{\"id\":");
    hg_json_out_str(b, s->model_name);
    hg_buf_printf(b,
                  ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"hedge\","
                  "\"max_model_len\":%d}",
                  (long long)s->created, s->info->n_ctx);
}

void hg_v1_models(struct hg_server *s, struct hg_http_req *r)
{
    struct hg_buf b;
    hg_buf_init(&b);
    hg_buf_str(&b, "{\"object\":\"list\",\"data\":[");
    json_model(s, &b);
    hg_buf_str(&b, "]}");
    hg_reply_json(r, 200, NULL, &b);
}

void hg_v1_model(struct hg_server *s, struct hg_http_req *r)
{
    const char *id = r->head.path + strlen("/v1/models/");
    if (strcmp(id, s->model_name) != 0) {
        char text[512];
        snprintf(text, sizeof text, "no such model: %.128s; there is %.128s", id, s->model_name);
        hg_reply_error(r, 404, "model_not_found", text);
        return;
    }
    struct hg_buf b;
    hg_buf_init(&b);
    json_model(s, &b);
    hg_reply_json(r, 200, NULL, &b);
}

void hg_health(struct hg_server *s, struct hg_http_req *r)
{
    struct hg_stats stats;
    hg_engine_stats(s->eng, &stats);
    struct hg_buf b;
    hg_buf_init(&b);
    hg_buf_printf(&b, "{\"status\":\"%s\",\"running\":%d,\"waiting\":%d}",
                  s->stopping ? "stopping" : "ok", stats.n_running, stats.n_waiting);
    hg_reply_json(r, s->stopping ? 503 : 200, NULL, &b);
}

void hg_metrics_page(struct hg_server *s, struct hg_http_req *r)
{
    struct hg_stats stats;
    struct hg_buf b;
    hg_engine_stats(s->eng, &stats);
    hg_buf_init(&b);
    hg_metrics_write(&s->metrics, &stats, &b);
    hg_http_reply(r, b.oom ? 503 : 200, "text/plain; version=0.0.4", NULL, b.oom ? "" : b.data,
                  b.oom ? 0 : b.len);
    hg_buf_fini(&b);
}

static enum hg_status parse_object(const struct hg_buf *text, json_t **out, struct hg_api_err *err)
{
    memset(err, 0, sizeof *err);
    size_t budget = HG_API_MAX_VALUES;
    if (text->len == 0) return hg_api_fail(err, HG_EINVAL, "body", "empty, wanted a JSON object");
    HG_TRY(hg_json_in(text->data, text->len, false, &budget, "body", out, err));
    if (json_is_object(*out)) return HG_OK;
    return hg_api_fail(err, HG_EINVAL, "body", "got %s, wanted an object", hg_json_kind(*out));
}

static enum hg_status tokenize(struct hg_server *s, const json_t *body, struct hg_buf *b,
                               struct hg_api_err *err)
{
    const json_t *text = hg_field_get(body, "content");
    const char *field = text || !hg_field_get(body, "prompt") ? "content" : "prompt";
    text = hg_field_get(body, field);
    if (!json_is_string(text))
        return hg_api_fail(err, HG_EINVAL, field, "got %s, wanted a string", hg_json_kind(text));
    bool parse_special = true;
    HG_TRY(hg_field_bool(body, "parse_special", &parse_special, err));
    hg_tok *ids = NULL;
    size_t n = 0;
    HG_TRY(hg_tokenize(s->eng, json_string_value(text), json_string_length(text), parse_special,
                       &ids, &n, &err->e));
    hg_buf_str(b, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) hg_buf_printf(b, "%s%d", i ? "," : "", ids[i]);
    hg_buf_printf(b, "],\"count\":%zu}", n);
    free(ids);
    return HG_OK;
}

static enum hg_status detokenize(struct hg_server *s, const json_t *body, struct hg_buf *b,
                                 struct hg_api_err *err)
{
    const json_t *tokens = hg_field_get(body, "tokens");
    if (!json_is_array(tokens))
        return hg_api_fail(err, HG_EINVAL, "tokens", "got %s, wanted an array",
                           hg_json_kind(tokens));
    struct hg_arena arena;
    hg_arena_init(&arena);
    const hg_tok *ids = NULL;
    size_t n_ids = 0, n = 0;
    char *text = NULL;
    enum hg_status status =
        hg_api_token_ids(&arena, tokens, "tokens", s->limits.n_vocab, &ids, &n_ids, err);
    if (status == HG_OK) status = hg_detokenize(s->eng, ids, n_ids, &text, &n, &err->e);
    hg_arena_fini(&arena);
    if (status != HG_OK) return status;
    hg_buf_str(b, "{\"content\":");
    hg_json_out(b, text, n);
    hg_buf_char(b, '}');
    free(text);
    return HG_OK;
}

static void prepare_with(struct hg_job *j,
                         enum hg_status (*make)(struct hg_server *s, const json_t *body,
                                                struct hg_buf *b, struct hg_api_err *err))
{
    json_t *body = NULL;
    struct hg_api_err err;
    struct hg_buf b;
    hg_buf_init(&b);
    enum hg_status status = parse_object(&j->body, &body, &err);
    if (status == HG_OK) status = make(j->srv, body, &b, &err);
    json_decref(body);
    if (status == HG_OK)
        hg_job_reply(j, &b);
    else
        hg_job_fail(j, &err);
    hg_buf_fini(&b);
}

static void tokenize_prepare(struct hg_job *j)
{
    prepare_with(j, tokenize);
}

static void detokenize_prepare(struct hg_job *j)
{
    prepare_with(j, detokenize);
}

void hg_tokenize_text(struct hg_server *s, struct hg_http_req *r)
{
    hg_job_start(s, r, tokenize_prepare, NULL);
}

void hg_detokenize_ids(struct hg_server *s, struct hg_http_req *r)
{
    hg_job_start(s, r, detokenize_prepare, NULL);
}
