#include "bench/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/events.h"
#include "bench/iou.h"
#include "bench/answer.h"

char *hg_replay_request(const struct hg_trace_conv *c, int32_t turn,
                        const struct hg_replay_params *p)
{
    json_t *messages = json_array();
    for (int32_t i = 0; i < c->turns[turn].n_messages; i++)
        json_array_append(messages, json_array_get(c->messages, (size_t)i));
    json_t *body =
        json_pack("{s:s, s:o, s:f, s:i, s:b, s:i}", "model", p->model ? p->model : "hedge",
                  "messages", messages, "temperature", 0.0, "max_completion_tokens",
                  p->max_tokens ? p->max_tokens : 1024, "stream", true, "seed", 42);
    if (body && c->tools) json_object_set(body, "tools", c->tools);
    if (body && p->usage)
        json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", true));
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    return text;
}

/* A reply coming in. */
struct inflow {
    struct hg_events events;
    struct hg_answer *answer;
    double now;
};

static void on_event(void *ctx, const char *json, size_t n)
{
    struct inflow *in = ctx;
    hg_answer_add(in->answer, json, n, in->now);
}

static void on_bytes(void *ctx, const char *p, size_t n, double now)
{
    struct inflow *in = ctx;
    in->now = now;
    hg_events_feed(&in->events, p, n, on_event, in);
}

/* The recorded calls in the form of hg_answer_calls. */
static json_t *recorded_calls(const json_t *message)
{
    json_t *out = json_array();
    size_t i;
    const json_t *call;
    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
    {
        const json_t *f = json_object_get(call, "function");
        json_t *args = json_object_get(f, "arguments");
        args = json_is_string(args) ? json_loads(json_string_value(args), JSON_ALLOW_NUL, NULL)
                                    : json_incref(args);
        json_array_append_new(
            out, json_pack("{s:O?, s:o?}", "name", json_object_get(f, "name"), "arguments", args));
    }
    return out;
}

/* Failed and missing turns score 0, so they are scored too: with no calls. */
static void score(struct hg_replay_turn *t, const json_t *recorded, const json_t *generated)
{
    struct hg_iou_bag want = {{0}, 0}, got = {{0}, 0};
    json_t *calls = recorded_calls(recorded);
    hg_iou_add_calls(&want, calls);
    hg_iou_add_calls(&got, generated);
    t->iou = hg_iou_score(&want, &got);
    t->as_recorded = generated && json_equal(calls, generated);
    json_decref(calls);
}

static void measure(struct hg_replay_turn *t, const struct hg_answer *r, double start, double end)
{
    t->latency_s = end - start;
    t->n_prompt = r->n_prompt;
    t->n_cached = r->n_cached;
    t->has_usage = r->n_completion >= 0;
    t->n_completion = t->has_usage ? r->n_completion : r->n_deltas;
    t->n_calls = r->n_calls;
    t->n_bad_args = hg_answer_bad_args(r);
    t->n_bad_events = r->n_bad;
    memcpy(t->finish, r->finish, sizeof t->finish);
    if (r->t_first == 0) return;
    t->ttft_s = r->t_first - start;
    /* A reply that came as one delta has no time between tokens. */
    if (r->n_deltas > 1 && t->n_completion > 1)
        t->tpot_s = (end - r->t_first) / (t->n_completion - 1);
}

static void fail_turn(struct hg_replay_turn *t, const char *why)
{
    t->failed = true;
    snprintf(t->error, sizeof t->error, "%s", why);
}

static void run_turn(const struct hg_trace_conv *conv, int32_t turn, struct hg_client *c,
                     const struct hg_replay_params *p, struct hg_replay_turn *t)
{
    struct hg_answer answer;
    struct inflow in = {.answer = &answer};
    struct hg_err err;
    char *body = hg_replay_request(conv, turn, p);
    if (!body) {
        fail_turn(t, "out of memory");
        return;
    }
    hg_answer_init(&answer);
    hg_events_init(&in.events);
    double start = hg_now(), end;
    t->issued = true;
    if (hg_client_post(c, "chat/completions", conv->id, body, strlen(body), on_bytes, &in, &end,
                       &err) != HG_OK) {
        fail_turn(t, err.text);
    } else {
        in.now = end;
        hg_events_end(&in.events, on_event, &in);
        measure(t, &answer, start, end);
        if (in.events.failed)
            fail_turn(t, "an event of the stream is too long");
        else if (answer.error[0])
            fail_turn(t, answer.error);
        else if (!answer.finish[0])
            fail_turn(t, "the stream ended without a finish_reason");
    }
    json_t *calls = t->failed ? NULL : hg_answer_calls(&answer);
    score(t, conv->turns[turn].recorded, calls);
    json_decref(calls);
    hg_events_fini(&in.events);
    hg_answer_fini(&answer);
    free(body);
}

static int32_t turns_of(const struct hg_trace_conv *c, const struct hg_replay_params *p)
{
    return p->n_turns && p->n_turns < c->n_turns ? p->n_turns : c->n_turns;
}

static bool is_chosen(const struct hg_trace_conv *c, const struct hg_replay_params *p)
{
    for (int32_t i = 0; i < p->n_conversations; i++)
        if (!strcmp(p->conversations[i], c->id)) return true;
    return p->n_conversations == 0;
}

static void run_conv(const struct hg_trace_conv *conv, struct hg_client *c,
                     const struct hg_replay_params *p, struct hg_replay *out, int32_t total)
{
    bool broken = false;
    for (int32_t i = 0; i < turns_of(conv, p); i++) {
        struct hg_replay_turn *t = &out->turns[out->n_turns++];
        *t = (struct hg_replay_turn){.conversation = conv->id,
                                     .turn = i + 1,
                                     .ttft_s = -1,
                                     .latency_s = -1,
                                     .tpot_s = -1,
                                     .n_prompt = -1,
                                     .n_cached = -1};
        if (broken || (p->stop && *p->stop)) {
            score(t, conv->turns[i].recorded, NULL);
            continue;
        }
        run_turn(conv, i, c, p, t);
        broken = t->failed;
        if (p->on_turn) p->on_turn(p->ctx, t, out->n_turns, total);
    }
}

enum hg_status hg_replay_run(const struct hg_trace *t, struct hg_client *c,
                             const struct hg_replay_params *p, struct hg_replay *out,
                             struct hg_err *err)
{
    *out = (struct hg_replay){0};
    for (int32_t i = 0; i < p->n_conversations; i++)
        if (!hg_trace_find(t, p->conversations[i]))
            return hg_fail(err, HG_EINVAL, "the trace has no conversation '%s'; its first is '%s'",
                           p->conversations[i], t->convs[0].id);
    int32_t total = 0;
    for (int32_t i = 0; i < t->n_convs; i++)
        if (is_chosen(&t->convs[i], p)) total += turns_of(&t->convs[i], p);
    out->turns = calloc((size_t)total + 1, sizeof *out->turns);
    if (!out->turns) return hg_fail(err, HG_ENOMEM, "%d turns: out of memory", (int)total);
    double start = hg_now();
    for (int32_t i = 0; i < t->n_convs; i++)
        if (is_chosen(&t->convs[i], p)) run_conv(&t->convs[i], c, p, out, total);
    out->seconds = hg_now() - start;
    out->n_connections = hg_client_connections(c);
    return HG_OK;
}

void hg_replay_free(struct hg_replay *r)
{
    free(r->turns);
    *r = (struct hg_replay){0};
}
