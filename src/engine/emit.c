/* Drawn tokens -> detokenizer -> stop strings -> output parser -> events. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_impl.h"
#include "base/rng.h"
#include "base/clock.h"

enum { MAX_TOP = 20 };

static void fill_top(const struct hg_request *r, struct hg_top_logprob *t, hg_tok id, float lp)
{
    size_t n = 0;
    const char *bytes = hg_tokenizer_bytes(r->eng->assets.tok, id, &n);
    *t = (struct hg_top_logprob){
        .id = id, .logprob = lp, .text = bytes ? bytes : "", .n_text = (int32_t)n};
}

static void add_logprob(struct hg_request *r, hg_tok id, const float *logits)
{
    int32_t k = r->n_logprobs < MAX_TOP ? r->n_logprobs : MAX_TOP;
    if (k > r->eng->info.n_vocab) k = r->eng->info.n_vocab;
    if (r->n_lp == r->cap_lp) {
        int32_t cap = r->cap_lp ? 2 * r->cap_lp : 16;
        void *lp = realloc(r->lp, (size_t)cap * sizeof *r->lp);
        if (lp) r->lp = lp;
        void *top = realloc(r->lp_top, (size_t)cap * MAX_TOP * sizeof *r->lp_top);
        if (top) r->lp_top = top;
        if (!lp || !top) {
            r->oom = true;
            return;
        }
        r->cap_lp = cap;
    }
    hg_tok ids[MAX_TOP];
    float lps[MAX_TOP], drawn;
    struct hg_logprob *lp = &r->lp[r->n_lp];
    struct hg_top_logprob *top = &r->lp_top[r->n_lp * MAX_TOP];
    hg_logprobs(logits, r->eng->info.n_vocab, id, &drawn, k, ids, lps);
    fill_top(r, &lp->drawn, id, drawn);
    for (int32_t i = 0; i < k; i++) fill_top(r, &top[i], ids[i], lps[i]);
    lp->n_top = k;
    r->n_lp++;
}

/* Queues ev with the log-probabilities that wait for text, if it is one that carries them. */
static void post(struct hg_request *r, struct hg_event *ev)
{
    bool carries = ev->type == HG_EV_TEXT || ev->type == HG_EV_REASONING || ev->type == HG_EV_DONE;
    if (carries && r->n_lp > 0) {
        for (int32_t i = 0; i < r->n_lp; i++) r->lp[i].top = &r->lp_top[i * MAX_TOP];
        ev->logprobs = r->lp;
        ev->n_logprobs = r->n_lp;
        r->n_lp = 0;
    }
    hg_request_post(r, ev);
}

/* Appends to a string member of r->said. */
static void said_text(struct hg_request *r, const char *field, const char *text, size_t n)
{
    json_t *old = json_object_get(r->said, field);
    struct hg_buf b;
    hg_buf_init(&b);
    hg_buf_add(&b, json_string_value(old), json_string_length(old));
    hg_buf_add(&b, text, n);
    if (!b.oom) json_object_set_new(r->said, field, json_stringn(b.data, b.len));
    hg_buf_fini(&b);
}

/* Keeps the answer in the form of the message that a client will send back. */
static void note(struct hg_request *r, enum hg_event_type type, const char *name, const char *text,
                 size_t n)
{
    if (!r->said) return;
    json_t *calls = json_object_get(r->said, "tool_calls");
    if (type == HG_EV_TEXT) said_text(r, "content", text, n);
    if (type == HG_EV_REASONING) said_text(r, "reasoning_content", text, n);
    if (type == HG_EV_TOOL_ARGS) hg_buf_add(&r->args, text, n);
    if (type == HG_EV_TOOL_BEGIN) {
        if (!calls) json_object_set_new(r->said, "tool_calls", calls = json_array());
        json_array_append_new(calls, json_pack("{s:{s:s}}", "function", "name", name));
        hg_buf_clear(&r->args);
    }
    if (type == HG_EV_TOOL_END) {
        json_t *call = json_array_get(calls, json_array_size(calls) - 1);
        json_object_set_new(json_object_get(call, "function"), "arguments",
                            json_stringn(r->args.data ? r->args.data : "", r->args.len));
    }
}

static void on_output(void *ctx, enum hg_event_type type, int32_t index, const char *name,
                      const char *text, size_t n_text)
{
    static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct hg_request *r = ctx;
    char id[32] = "";
    note(r, type, name, text, n_text);
    if (type == HG_EV_TOOL_BEGIN) { /* unique over requests: clock, address and index in it */
        struct hg_rng rng = {(uint64_t)(hg_now() * 1e9) ^ (uint64_t)(uintptr_t)r ^
                             (uint64_t)index << 48};
        memcpy(id, "call_", 5);
        for (int32_t i = 5; i < 29; i++) id[i] = alphabet[hg_rng_below(&rng, sizeof alphabet - 1)];
    }
    post(r, &(struct hg_event){.type = type,
                               .index = index,
                               .id = id,
                               .name = name ? name : "",
                               .text = text ? text : "",
                               .n_text = n_text});
}

static void visible(struct hg_request *r)
{
    struct hg_output_sink sink = {.event = on_output, .ctx = r};
    if (r->visible.oom || r->text.oom) r->oom = true;
    if (r->visible.len == 0) return;
    if (!r->output)
        on_output(r, HG_EV_TEXT, 0, NULL, r->visible.data, r->visible.len);
    else if (hg_output_feed(r->output, r->visible.data, r->visible.len, &sink) != HG_OK)
        r->oom = true;
    hg_buf_clear(&r->visible);
}

bool hg_emit_token(struct hg_request *r, hg_tok id, const float *logits)
{
    if (r->n_logprobs >= 0) add_logprob(r, id, logits);
    if (r->said && !hg_toks_push(&r->drawn, id)) r->oom = true;
    hg_buf_clear(&r->text);
    hg_detok_push(&r->detok, r->eng->assets.tok, id, r->keep_special, &r->text);
    bool stopped = hg_stops_feed(&r->stops, r->text.data, r->text.len, &r->visible);
    visible(r);
    r->stopped = stopped;
    return stopped;
}

void hg_emit_done(struct hg_request *r, enum hg_finish finish)
{
    struct hg_output_sink sink = {.event = on_output, .ctx = r};
    hg_buf_clear(&r->text);
    if (!r->stopped) { /* behind a stop string nothing comes out */
        hg_detok_finish(&r->detok, &r->text);
        if (!hg_stops_feed(&r->stops, r->text.data, r->text.len, &r->visible))
            hg_stops_finish(&r->stops, &r->visible);
    }
    visible(r);
    if (r->output && hg_output_finish(r->output, &sink) != HG_OK) r->oom = true;
    if (r->oom) {
        struct hg_event ev = {.type = HG_EV_ERROR};
        hg_fail(&ev.err, HG_ENOMEM, "out of memory while answering");
        hg_request_post(r, &ev);
        return;
    }
    /* Only now is every call known. */
    if (finish == HG_FINISH_STOP && r->output && hg_output_n_calls(r->output) > 0)
        finish = HG_FINISH_TOOL_CALLS;
    if (r->said && r->gen_at >= 0 && !r->stopped && finish != HG_FINISH_LENGTH)
        hg_recall_keep(r->eng->recall, r->said, r->prompt.ids + r->gen_at,
                       r->prompt.n - (size_t)r->gen_at, r->drawn.ids, r->drawn.n);
    post(r, &(struct hg_event){
                .type = HG_EV_DONE, .finish = finish, .usage = r->usage, .timings = r->timings});
}
