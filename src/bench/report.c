#include "bench/report.h"

#include <stdlib.h>
#include <string.h>

/* Values of one kind over the turns that have one. */
struct series {
    double *v;
    int32_t n;
    double sum;
};

static bool series_init(struct series *s, int32_t n)
{
    *s = (struct series){.v = calloc((size_t)n + 1, sizeof(double))};
    return s->v != NULL;
}

static void series_add(struct series *s, double v)
{
    s->v[s->n++] = v;
    s->sum += v;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Percentile with linear interpolation; null of nothing. */
static json_t *percentile(struct series *s, double q)
{
    if (!s->n) return json_null();
    qsort(s->v, (size_t)s->n, sizeof *s->v, compare);
    double at = q * (s->n - 1);
    int32_t i = (int32_t)at, j = i + 1 < s->n ? i + 1 : i;
    return json_real(s->v[i] + (at - i) * (s->v[j] - s->v[i]));
}

static json_t *real_or_null(double v, bool there)
{
    return there ? json_real(v) : json_null();
}

static json_t *int_or_null(json_int_t v)
{
    return v >= 0 ? json_integer(v) : json_null();
}

static json_t *turn_json(const struct hg_replay_turn *t)
{
    json_t *o = json_pack("{s:s, s:i, s:b, s:b}", "conversation", t->conversation, "turn", t->turn,
                          "issued", t->issued, "failed", t->failed);
    if (t->failed) json_object_set_new(o, "error", json_string(t->error));
    json_object_set_new(o, "ttft_s", real_or_null(t->ttft_s, t->ttft_s >= 0));
    json_object_set_new(o, "latency_s", real_or_null(t->latency_s, t->latency_s >= 0));
    json_object_set_new(o, "tpot_s", real_or_null(t->tpot_s, t->tpot_s >= 0));
    json_object_set_new(o, "prompt_tokens", int_or_null(t->n_prompt));
    json_object_set_new(o, "cached_tokens", int_or_null(t->n_cached));
    json_object_set_new(o, "completion_tokens", json_integer(t->n_completion));
    json_object_set_new(o, "tool_calls", json_integer(t->n_calls));
    json_object_set_new(o, "invalid_arguments", json_integer(t->n_bad_args));
    json_object_set_new(o, "invalid_events", json_integer(t->n_bad_events));
    json_object_set_new(o, "iou", real_or_null(t->iou, t->iou >= 0));
    json_object_set_new(o, "calls_as_recorded", json_boolean(t->as_recorded));
    json_object_set_new(o, "finish_reason", t->finish[0] ? json_string(t->finish) : json_null());
    return o;
}

struct sums {
    json_int_t issued, failed, missing, with_usage, prompt, cached, completion;
    json_int_t calls, bad_args, bad_events, as_recorded;
    bool has_prompt, has_cached;
    struct series ttft, tpot, latency, iou;
};

static void sum_turn(struct sums *s, const struct hg_replay_turn *t)
{
    s->issued += t->issued;
    s->failed += t->failed;
    s->missing += !t->issued && !t->failed;
    s->with_usage += t->has_usage;
    s->completion += t->n_completion;
    s->calls += t->n_calls;
    s->bad_args += t->n_bad_args;
    s->bad_events += t->n_bad_events;
    s->as_recorded += t->as_recorded;
    if (t->n_prompt >= 0) {
        s->prompt += t->n_prompt;
        s->has_prompt = true;
    }
    if (t->n_cached >= 0) {
        s->cached += t->n_cached;
        s->has_cached = true;
    }
    if (t->iou >= 0) series_add(&s->iou, t->iou);
    if (t->failed || !t->issued) return;
    if (t->ttft_s >= 0) series_add(&s->ttft, t->ttft_s);
    if (t->tpot_s >= 0) series_add(&s->tpot, t->tpot_s);
    if (t->latency_s >= 0) series_add(&s->latency, t->latency_s);
}

static json_t *sums_json(struct sums *s, const struct hg_replay *r)
{
    json_int_t answered = s->issued - s->failed;
    json_t *o = json_pack("{s:i, s:I, s:I, s:I, s:f, s:i}", "turns", r->n_turns, "issued",
                          s->issued, "failed", s->failed, "missing", s->missing, "seconds",
                          r->seconds, "connections", r->n_connections);
    json_object_set_new(o, "tokens_from",
                        json_string(answered && s->with_usage == answered ? "usage" : "deltas"));
    json_object_set_new(o, "prompt_tokens", int_or_null(s->has_prompt ? s->prompt : -1));
    json_object_set_new(o, "cached_tokens", int_or_null(s->has_cached ? s->cached : -1));
    json_object_set_new(o, "completion_tokens", json_integer(s->completion));
    json_object_set_new(o, "tokens_per_s",
                        real_or_null((double)s->completion / r->seconds, r->seconds > 0));
    json_object_set_new(o, "ttft_p50_s", percentile(&s->ttft, 0.5));
    json_object_set_new(o, "ttft_p90_s", percentile(&s->ttft, 0.9));
    json_object_set_new(o, "tpot_p50_s", percentile(&s->tpot, 0.5));
    json_object_set_new(o, "latency_mean_s",
                        real_or_null(s->latency.sum / s->latency.n, s->latency.n > 0));
    json_object_set_new(o, "tool_calls", json_integer(s->calls));
    json_object_set_new(o, "invalid_arguments", json_integer(s->bad_args));
    json_object_set_new(o, "invalid_events", json_integer(s->bad_events));
    json_object_set_new(o, "calls_as_recorded", json_integer(s->as_recorded));
    json_object_set_new(o, "iou", real_or_null(s->iou.sum / s->iou.n, s->iou.n > 0));
    json_object_set_new(o, "iou_turns", json_integer(s->iou.n));
    return o;
}

json_t *hg_report_json(const struct hg_replay *r)
{
    struct sums s = {0};
    json_t *o = NULL;
    if (series_init(&s.ttft, r->n_turns) && series_init(&s.tpot, r->n_turns) &&
        series_init(&s.latency, r->n_turns) && series_init(&s.iou, r->n_turns)) {
        json_t *turns = json_array();
        for (int32_t i = 0; i < r->n_turns; i++) {
            sum_turn(&s, &r->turns[i]);
            json_array_append_new(turns, turn_json(&r->turns[i]));
        }
        o = sums_json(&s, r);
        json_object_set_new(o, "per_turn", turns);
    }
    free(s.ttft.v);
    free(s.tpot.v);
    free(s.latency.v);
    free(s.iou.v);
    return o;
}

/* One row of the table: label, then a figure of the report or "-". */
static void row(FILE *out, const char *label, const json_t *v, double scale, const char *unit,
                int decimals)
{
    if (json_is_integer(v) && scale == 1)
        fprintf(out, "  %-26s %12lld %s\n", label, (long long)json_integer_value(v), unit);
    else if (json_is_number(v))
        fprintf(out, "  %-26s %12.*f %s\n", label, decimals, json_number_value(v) * scale, unit);
    else
        fprintf(out, "  %-26s %12s\n", label, "-");
}

static void print_failures(const json_t *report, FILE *out)
{
    size_t i;
    const json_t *t;
    json_array_foreach(json_object_get(report, "per_turn"), i, t)
    {
        const char *why = json_string_value(json_object_get(t, "error"));
        if (why)
            fprintf(out, "  failed: %s turn %lld: %s\n",
                    json_string_value(json_object_get(t, "conversation")),
                    (long long)json_integer_value(json_object_get(t, "turn")), why);
    }
}

void hg_report_print(const json_t *report, FILE *out)
{
    static const struct {
        const char *label, *key, *unit;
        double scale;
        int decimals;
    } rows[] = {
        {"turns", "turns", "", 1, 0},
        {"failed", "failed", "", 1, 0},
        {"missing", "missing", "", 1, 0},
        {"duration", "seconds", "s", 1, 2},
        {"connections", "connections", "", 1, 0},
        {"prompt tokens", "prompt_tokens", "", 1, 0},
        {"of these cached", "cached_tokens", "", 1, 0},
        {"completion tokens", "completion_tokens", "", 1, 0},
        {"completion tokens/s", "tokens_per_s", "(whole run)", 1, 2},
        {"TTFT p50", "ttft_p50_s", "ms", 1e3, 1},
        {"TTFT p90", "ttft_p90_s", "ms", 1e3, 1},
        {"TPOT p50", "tpot_p50_s", "ms", 1e3, 2},
        {"latency mean", "latency_mean_s", "ms", 1e3, 1},
        {"tool calls", "tool_calls", "", 1, 0},
        {"invalid arguments", "invalid_arguments", "", 1, 0},
        {"invalid events", "invalid_events", "", 1, 0},
        {"turns called as recorded", "calls_as_recorded", "", 1, 0},
        {"IoU of programs", "iou", "(mean of scorable turns)", 1, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        row(out, rows[i].label, json_object_get(report, rows[i].key), rows[i].scale, rows[i].unit,
            rows[i].decimals);
    const char *from = json_string_value(json_object_get(report, "tokens_from"));
    if (from && !strcmp(from, "deltas"))
        fprintf(out, "  (no usage from the server: completion tokens are counted as deltas)\n");
    print_failures(report, out);
}
