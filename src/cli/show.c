/* show.c: a request's events on the terminal, and what they came to. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "cli/cli.h"

static void set_dim(struct cli_show *s, bool dim)
{
    if (dim == s->dim) return;
    if (cli_color()) fputs(dim ? "\033[2m" : "\033[0m", stderr);
    if (!dim) fputc('\n', stderr);
    s->dim = dim;
}

static void end_line(struct cli_show *s)
{
    if (s->in_line) putchar('\n');
    s->in_line = false;
}

static void show_text(struct cli_show *s, const struct hg_event *ev)
{
    hg_buf_add(&s->text, ev->text, ev->n_text);
    if (s->quiet || !ev->n_text) return;
    set_dim(s, false);
    fwrite(ev->text, 1, ev->n_text, stdout);
    fflush(stdout);
    s->in_line = ev->text[ev->n_text - 1] != '\n';
}

static void show_reasoning(struct cli_show *s, const struct hg_event *ev)
{
    hg_buf_add(&s->reasoning, ev->text, ev->n_text);
    if (s->quiet) return;
    set_dim(s, true);
    fwrite(ev->text, 1, ev->n_text, stderr);
}

/* The call is whole: the engine promises that its arguments are a JSON object. */
static void end_call(struct cli_show *s)
{
    json_t *args = json_loadb(s->args.data ? s->args.data : "", s->args.len, JSON_ALLOW_NUL, NULL);
    json_t *call = json_pack("{s:s, s:o}", "name", s->name ? s->name : "", "arguments",
                             args ? args : json_object());
    if (!s->calls) s->calls = json_array();
    json_array_append(s->calls, call);
    if (!s->quiet) {
        set_dim(s, false);
        end_line(s);
        json_dumpf(call, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
    }
    json_decref(call);
}

enum hg_status cli_show_run(struct cli_show *s, struct hg_request *req, struct hg_err *err)
{
    const struct hg_event *ev;
    enum hg_status status = HG_OK;
    while ((ev = hg_request_wait(req)) != NULL) {
        switch (ev->type) {
        case HG_EV_TEXT: show_text(s, ev); break;
        case HG_EV_REASONING: show_reasoning(s, ev); break;
        case HG_EV_TOOL_BEGIN:
            free(s->name);
            s->name = strdup(ev->name);
            hg_buf_clear(&s->args);
            break;
        case HG_EV_TOOL_ARGS: hg_buf_add(&s->args, ev->text, ev->n_text); break;
        case HG_EV_TOOL_END: end_call(s); break;
        case HG_EV_DONE:
            s->finish = ev->finish;
            s->usage = ev->usage;
            s->timings = ev->timings;
            break;
        case HG_EV_ERROR:
            *err = ev->err;
            status = ev->err.status;
            break;
        }
    }
    set_dim(s, false);
    if (!s->quiet) end_line(s);
    fflush(stdout);
    return status;
}

static double per_second(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

/* The first token comes from the prefill, so decoding made one less than were generated. */
void cli_show_summary(const struct cli_show *s, const struct hg_engine *eng)
{
    const struct hg_usage *u = &s->usage;
    const struct hg_timings *t = &s->timings;
    double n = u->n_completion > 1 ? u->n_completion - 1 : 0;
    double bytes = (double)hg_engine_info(eng)->weight_bytes * t->n_rounds;
    hg_log(HG_LOG_INFO,
           "prompt %d tokens (%d cached), prefill %.1f tok/s, TTFT %.1f ms; generated %d tokens, "
           "%.1f tok/s, %.2f ms/tok, %.2f GB/s; logits %016llx",
           (int)u->n_prompt, (int)u->n_cached, per_second(u->n_prompt - u->n_cached, t->prefill_s),
           t->ttft_s * 1e3, (int)u->n_completion, per_second(n, t->decode_s),
           n > 0 ? t->decode_s * 1e3 / n : 0, per_second(bytes, t->decode_s) / 1e9,
           (unsigned long long)t->logits_hash);
}

static json_t *text_json(const struct hg_buf *b)
{
    json_t *v = json_stringn(b->data ? b->data : "", b->len);
    return v ? v : json_string("");
}

json_t *cli_show_json(const struct cli_show *s)
{
    static const char *const finishes[] = {"stop", "length", "tool_calls", "canceled"};
    char hash[32];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->timings.logits_hash);
    return json_pack("{s:o, s:o, s:o, s:s, s:{s:i, s:i, s:i}, s:{s:f, s:f, s:f, s:f, s:i}, s:s}",
                     "text", text_json(&s->text), "reasoning", text_json(&s->reasoning),
                     "tool_calls", s->calls ? json_incref(s->calls) : json_array(), "finish_reason",
                     finishes[s->finish], "usage", "prompt_tokens", s->usage.n_prompt,
                     "cached_tokens", s->usage.n_cached, "completion_tokens", s->usage.n_completion,
                     "timings", "queue_s", s->timings.queue_s, "prefill_s", s->timings.prefill_s,
                     "decode_s", s->timings.decode_s, "ttft_s", s->timings.ttft_s, "rounds",
                     s->timings.n_rounds, "logits_hash", hash);
}

void cli_show_fini(struct cli_show *s)
{
    hg_buf_fini(&s->text);
    hg_buf_fini(&s->reasoning);
    hg_buf_fini(&s->args);
    json_decref(s->calls);
    free(s->name);
    *s = (struct cli_show){0};
}
