/* The 20 recorded agent conversations (1,007 prompts, rendered and tokenized as the engine does) against
 * the cache and the snapshot policy, without running the model: what each turn would prefill. Needs
 * ../shared/data; skips without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "bench/trace.h"
#include "engine/policy.h"
#include "text/template.h"
#include "text/tokenizer.h"

#define TRACE "../shared/data/mlperf/agentic_coding_2.5h.jsonl"

enum { CTX_PAGES = 512, MOST_MISSED = 8 };

static struct hg_tokenizer *tok;
static struct hg_template *tmpl;
static struct hg_trace trace;

struct prompt {
    struct hg_toks ids;
    struct hg_cut cuts[HG_MAX_CUTS];
    int32_t n_cuts;
};

static void build(const struct hg_trace_conv *c, int32_t turn, bool sub_agent, struct prompt *p)
{
    struct hg_err err;
    struct hg_rendered r;
    memset(p, 0, sizeof *p);
    json_t *messages = json_array();
    int32_t n = sub_agent ? 2 : c->turns[turn].n_messages;
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(messages, json_deep_copy(json_array_get(c->messages, (size_t)i)));
    if (sub_agent) { /* same system and tools, a task of its own */
        char task[64];
        snprintf(task, sizeof task, "Summarise step %d for me.", turn);
        json_object_set_new(json_array_get(messages, 1), "content", json_string(task));
    }
    size_t i, j;
    json_t *m, *call;
    json_array_foreach(messages, i, m) json_array_foreach(json_object_get(m, "tool_calls"), j, call)
    {
        json_t *f = json_object_get(call, "function"), *args = json_object_get(f, "arguments");
        if (json_is_string(args))
            json_object_set_new(f, "arguments", json_loads(json_string_value(args), 0, NULL));
    }
    json_t *vars = json_pack("{s:O, s:O, s:b, s:b}", "messages", messages, "tools", c->tools,
                             "add_generation_prompt", 1, "enable_thinking", 0);
    if (hg_template_render(tmpl, vars, &r, &err)) fail_msg("%s", err.text);
    int64_t *starts = calloc(r.n_starts + 1, sizeof *starts);
    assert_int_equal(
        hg_tokenizer_encode(tok, r.text, r.n, true, r.starts, r.n_starts, starts, &p->ids, &err),
        HG_OK);
    p->n_cuts = hg_policy_cuts(messages, starts, r.n_starts, p->cuts);
    free(starts);
    hg_rendered_fini(&r);
    json_decref(vars);
    json_decref(messages);
}

/* ------------------------------------------------------------------- a cache without a model ---- */

static void no_copy(void *ctx, int32_t dst, int32_t src)
{
    (void)ctx, (void)dst, (void)src;
}
static void no_read(void *ctx, int32_t id, void *dst)
{
    (void)ctx, (void)id;
    memset(dst, 0, 16);
}
static void no_write(void *ctx, int32_t id, const void *src)
{
    (void)ctx, (void)id, (void)src;
}

static struct hg_cache *make_cache(int32_t n_pages, int32_t n_slots)
{
    struct hg_cache *c;
    struct hg_err err;
    struct hg_cache_params p = {
        .mem = {196608, 3700000, no_copy, no_read, no_write, no_copy, no_read, no_write, NULL},
        .n_pages = n_pages,
        .slot0 = 1,
        .n_slots = n_slots};
    assert_int_equal(hg_cache_create(&p, &c, &err), HG_OK);
    return c;
}

/* What the scheduler does with a prompt; returns the tokens taken from the cache. */
static int32_t prefill(struct hg_cache *c, struct hg_seq *seq, const struct prompt *p)
{
    int32_t n = (int32_t)p->ids.n, done;
    hg_cache_release(c, seq);
    struct hg_cache_hit hit = hg_cache_lookup(c, p->ids.ids, n);
    done = hit.n_tokens > 0 && hg_cache_restore(c, hit, seq) ? hit.n_tokens : 0;
    int32_t cached = done;
    while (done < n) {
        struct hg_cut cut = hg_policy_next(p->cuts, p->n_cuts, done, n);
        assert_true(cut.pos > done && cut.pos <= n);
        assert_true(hg_cache_reserve(c, seq, cut.pos));
        seq->n_past = done = cut.pos;
        if (done < n) hg_cache_publish(c, p->ids.ids, seq, cut.kind);
    }
    hg_cache_publish(c, p->ids.ids, seq, HG_CACHE_END);
    return cached;
}

static int32_t common(const struct hg_toks *a, const struct hg_toks *b)
{
    int32_t n = 0;
    while ((size_t)n < a->n && (size_t)n < b->n && a->ids[n] == b->ids[n]) n++;
    return n;
}

struct total {
    int64_t prompt, cached, ideal;
    int32_t turns, worst; /* most tokens prefilled beyond the new ones */
};

/* Conversations [from, from + n) turn by turn in rotation; with a sub-agent's prompt between every two
 * turns if asked. Ideal: everything shared with the conversation's previous prompt. */
static void replay(struct hg_cache *c, struct hg_seq *seq, int32_t from, int32_t n, bool sub_agent,
                   struct total *t)
{
    struct hg_toks *last = calloc((size_t)n, sizeof *last);
    for (int32_t turn = 0, more = 1; more; turn++) {
        more = 0;
        for (int32_t i = 0; i < n; i++) {
            const struct hg_trace_conv *conv = &trace.convs[from + i];
            struct prompt p;
            if (turn >= conv->n_turns) continue;
            more = 1;
            build(conv, turn, false, &p);
            int32_t shared = common(&last[i], &p.ids), cached = prefill(c, seq, &p);
            if (turn > 0) {
                t->prompt += (int64_t)p.ids.n;
                t->cached += cached < shared ? cached : shared;
                t->ideal += shared;
                if (shared - cached > t->worst) t->worst = shared - cached;
            }
            t->turns++;
            hg_toks_fini(&last[i]);
            last[i] = p.ids;
            if (!sub_agent) continue;
            build(conv, turn, true, &p);
            prefill(c, seq, &p);
            hg_toks_fini(&p.ids);
        }
    }
    for (int32_t i = 0; i < n; i++) hg_toks_fini(&last[i]);
    free(last);
}

static void run(const char *name, int32_t together, bool sub_agent, int32_t n_slots)
{
    struct total t = {0};
    int32_t pages[CTX_PAGES];
    struct hg_seq seq = {.pages = pages};
    /* As the engine sizes it by default for the embedded model; or with hardly more snapshots than
     * conversations, where what is left of the promise is that no conversation is lost. */
    bool tight = n_slots < 100;
    struct hg_cache *c =
        make_cache(tight ? CTX_PAGES * (together + 1) : CTX_PAGES + 16 * n_slots, n_slots);
    for (int32_t i = 0; i < trace.n_convs; i += together)
        replay(c, &seq, i, together, sub_agent, &t);
    hg_cache_check(c);
    hg_cache_release(c, &seq);
    hg_cache_free(c);
    printf(
        "%s, %d snapshots: %d turns, %lld prompt tokens after the first turns, %lld from cache = "
        "%.3f %% of ideal; at most %d beyond the new ones prefilled\n",
        name, n_slots, t.turns, (long long)t.prompt, (long long)t.cached,
        100.0 * (double)t.cached / (double)t.ideal, t.worst);
    assert_int_equal(t.turns, 1007);
    assert_true(t.worst <= MOST_MISSED || tight);
    assert_true((double)t.cached >= (tight ? 0.995 : 0.999) * (double)t.ideal);
}

static void test_one_by_one(void **state)
{
    (void)state;
    run("one by one", 1, false, 300);
    run("one by one", 1, false, 4);
}

static void test_interleaved(void **state)
{
    (void)state;
    run("4 interleaved", 4, false, 300);
    run("4 interleaved", 4, false, 12);
}

static void test_sub_agent(void **state)
{
    (void)state;
    run("with a sub-agent between turns", 1, true, 300);
    run("with a sub-agent between turns", 1, true, 6);
}

int main(void)
{
    struct hg_err err;
    char *text;
    size_t n;
    if (!hg_file_exists(TRACE)) {
        puts("skip: " TRACE " is not here");
        return 77;
    }
    if (hg_trace_open(TRACE, &trace, &err) || hg_tokenizer_open("models/nano", &tok, &err) ||
        hg_file_read("models/nano/chat_template.jinja", 1 << 20, &text, &n, &err) ||
        hg_template_parse("nano", text, n, &tmpl, &err)) {
        puts(err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_by_one),
                                       cmocka_unit_test(test_interleaved),
                                       cmocka_unit_test(test_sub_agent)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(text);
    hg_template_free(tmpl);
    hg_tokenizer_free(tok);
    hg_trace_close(&trace);
    return failed;
}
