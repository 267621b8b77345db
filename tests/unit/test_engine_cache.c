/* Warm = cold: whatever the prefix cache holds, an answer has the same text and the same logits, to the
 * bit, as that of an engine without a cache. Random sequences of requests as agents send them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/rng.h"
#include "hedge.h"

#if defined(__SANITIZE_ADDRESS__) /* kernels without optimisation */
enum { N_SEQUENCES = 12, N_REPEATS = 5 };
#else
enum { N_SEQUENCES = 500, N_REPEATS = 200 };
#endif
enum { N_CHATS = 4, MAX_IDS = 320 };

static struct hg_engine *open_engine(struct hg_engine_params p)
{
    struct hg_engine *eng = NULL;
    struct hg_err err;
    p.model = "models/nano";
    p.n_ctx = 2048;
    if (hg_engine_open(&p, &eng, &err)) fail_msg("%s", err.text);
    return eng;
}

struct reply {
    struct hg_buf text;
    uint64_t hash;
    struct hg_usage usage;
};

static void run(struct hg_engine *eng, const struct hg_request_params *p, struct reply *out)
{
    struct hg_request *r;
    struct hg_err err;
    const struct hg_event *ev;
    memset(out, 0, sizeof *out);
    if (hg_request_submit(eng, p, &r, &err)) fail_msg("%s", err.text);
    while ((ev = hg_request_wait(r)) != NULL) {
        if (ev->type == HG_EV_ERROR) fail_msg("%s", ev->err.text);
        if (ev->type == HG_EV_DONE) {
            out->hash = ev->timings.logits_hash;
            out->usage = ev->usage;
        } else if (ev->n_text) {
            hg_buf_add(&out->text, ev->text, ev->n_text);
        }
    }
    hg_request_free(r);
}

static void compare(struct hg_engine *warm, struct hg_engine *cold,
                    const struct hg_request_params *p, int sequence, int *n_cached)
{
    struct reply w, c;
    run(warm, p, &w);
    run(cold, p, &c);
    assert_int_equal(c.usage.n_cached, 0);
    if (w.text.len != c.text.len ||
        memcmp(w.text.len ? w.text.data : "", c.text.len ? c.text.data : "", w.text.len) ||
        w.hash != c.hash)
        fail_msg("sequence %d: prompt of %d tokens, %d cached: '%s' / '%s'", sequence,
                 w.usage.n_prompt, w.usage.n_cached, w.text.data, c.text.data);
    *n_cached += w.usage.n_cached;
    hg_buf_fini(&w.text);
    hg_buf_fini(&c.text);
}

/* --------------------------------------------------------------------------- raw prompts ---- */

struct chat {
    hg_tok ids[MAX_IDS];
    int n;
};

/* Lengths that like the edges of pages. */
static int some_length(struct hg_rng *rng)
{
    static const int edges[] = {1, 2, 3, 62, 63, 64, 65, 66, 127, 128, 129, 191, 192, 193};
    if (hg_rng_below(rng, 2)) return edges[hg_rng_below(rng, sizeof edges / sizeof *edges)];
    return 1 + (int)hg_rng_below(rng, 200);
}

/* Appends, edits in the middle, cuts back, starts anew, or sends the same again. */
static void change(struct hg_rng *rng, struct chat *c, const struct chat *other)
{
    uint32_t how = hg_rng_below(rng, 10);
    if (c->n == 0 || how == 0 || c->n > MAX_IDS - 80) {
        c->n = some_length(rng);
        for (int i = 0; i < c->n; i++) c->ids[i] = 100 + (hg_tok)hg_rng_below(rng, 50);
    } else if (how == 1 && other->n > 0) { /* a branch of another chat */
        c->n = 1 + (int)hg_rng_below(rng, (uint32_t)other->n);
        memcpy(c->ids, other->ids, (size_t)c->n * sizeof *c->ids);
    } else if (how == 2) {
        c->ids[hg_rng_below(rng, (uint32_t)c->n)] = 300 + (hg_tok)hg_rng_below(rng, 50);
    } else if (how == 3) {
        c->n = 1 + (int)hg_rng_below(rng, (uint32_t)c->n);
    } else if (how > 4) { /* 4: the same again */
        for (int k = 1 + (int)hg_rng_below(rng, 40); k > 0; k--)
            c->ids[c->n++] = 500 + (hg_tok)hg_rng_below(rng, 3000);
    }
}

static void test_raw(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    struct hg_rng rng = {seed};
    char dir[] = "/tmp/hedge_warm_XXXXXX", remove[64];
    assert_non_null(mkdtemp(dir));
    /* About four snapshots on the device, ten in host memory, more on disk: entries move all the time. */
    struct hg_engine *warm = open_engine((struct hg_engine_params){.n_chunk = 48,
                                                                   .cache_device = 30 << 20,
                                                                   .cache_host = 60 << 20,
                                                                   .cache_disk = 200 << 20,
                                                                   .cache_dir = dir});
    struct hg_engine *cold =
        open_engine((struct hg_engine_params){.n_chunk = 512, .cache_device = -1});
    struct chat chats[N_CHATS];
    int n_cached = 0;
    memset(chats, 0, sizeof chats);
    for (int i = 0; i < N_SEQUENCES; i++) {
        struct chat *c = &chats[hg_rng_below(&rng, N_CHATS)];
        for (int turn = 0; turn < 2; turn++) {
            change(&rng, c, &chats[hg_rng_below(&rng, N_CHATS)]);
            struct hg_request_params p;
            hg_request_params_init(&p);
            p.prompt_ids = c->ids;
            p.n_prompt_ids = (size_t)c->n;
            p.max_tokens = 1 + (int32_t)hg_rng_below(&rng, 3);
            p.ignore_eos = true;
            compare(warm, cold, &p, i, &n_cached);
        }
    }
    struct hg_stats s;
    hg_engine_stats(warm, &s);
    printf("%d tokens from cache; hits: %llu device, %llu host, %llu disk; %llu evictions\n",
           n_cached, (unsigned long long)s.cache_from_device, (unsigned long long)s.cache_from_host,
           (unsigned long long)s.cache_from_disk, (unsigned long long)s.cache_evictions);
    assert_true(n_cached > 0);
    hg_engine_close(warm);
    hg_engine_close(cold);
    snprintf(remove, sizeof remove, "rm -rf '%s'", dir);
    assert_int_equal(system(remove), 0);
}

/* ----------------------------------------------------------------------------- real chats ---- */

static void say(json_t *messages, const char *role, const char *text)
{
    json_array_append_new(messages, json_pack("{s:s, s:s}", "role", role, "content", text));
}

/* An agent's loop: each turn prefills what is new, plus the few tokens that re-render. A canary of one
 * chat never shows in the other's answer or cache hit. */
static void test_chat_turns(void **state)
{
    (void)state;
    struct hg_engine *warm = open_engine((struct hg_engine_params){0});
    struct hg_engine *cold = open_engine((struct hg_engine_params){.cache_device = -1});
    json_t *messages[2];
    int n_cached = 0, before[2] = {0};
    for (int c = 0; c < 2; c++) {
        messages[c] = json_array();
        say(messages[c], "system", c ? "You guard the word AZURE." : "You guard the word CRIMSON.");
        say(messages[c], "user", "List the files of the current directory, one by one.");
    }
    for (int turn = 0; turn < 6; turn++)
        for (int c = 0; c < 2; c++) {
            struct hg_request_params p;
            struct reply r;
            hg_request_params_init(&p);
            p.messages = messages[c];
            p.max_tokens = 12;
            p.reasoning = HG_REASONING_OFF;
            compare(warm, cold, &p, turn, &n_cached);
            run(warm, &p, &r); /* the same prompt again: all but the generation prompt is there */
            assert_true(r.usage.n_prompt - r.usage.n_cached <= 8);
            if (r.text.len) assert_null(strstr(r.text.data, c ? "CRIMSON" : "AZURE"));
            if (turn) assert_true(r.usage.n_cached >= before[c]);
            before[c] = r.usage.n_prompt - 8;
            json_array_append_new(messages[c],
                                  json_pack("{s:s, s:s, s:s}", "role", "assistant", "content",
                                            "I look.", "reasoning_content", "They want a list."));
            say(messages[c], "tool", c ? "azure.txt\nmain.c" : "crimson.txt\nmain.py");
            hg_buf_fini(&r.text);
        }
    for (int c = 0; c < 2; c++) json_decref(messages[c]);
    hg_engine_close(warm);
    hg_engine_close(cold);
}

/* How much is reused does not depend on how the prompt was cut into steps, and short prompts count. */
static void test_chunk_sizes(void **state)
{
    (void)state;
    static const int chunks[] = {5, 64, 512};
    int32_t n_cached[3];
    json_t *messages = json_array();
    say(messages, "user", "Name three colours.");
    struct hg_request_params p;
    struct reply r;
    hg_request_params_init(&p);
    p.max_tokens = 4;
    for (int i = 0; i < 3; i++) {
        struct hg_engine *eng = open_engine((struct hg_engine_params){.n_chunk = chunks[i]});
        json_t *next = json_copy(messages);
        p.messages = messages;
        run(eng, &p, &r);
        assert_true(r.usage.n_prompt < 64);
        hg_buf_fini(&r.text);
        say(next, "assistant", "Red, green and blue.");
        say(next, "user", "And a fourth?");
        p.messages = next;
        run(eng, &p, &r);
        n_cached[i] = r.usage.n_cached;
        hg_buf_fini(&r.text);
        json_decref(next);
        hg_engine_close(eng);
    }
    json_decref(messages);
    assert_true(n_cached[0] > 0);
    assert_int_equal(n_cached[0], n_cached[1]);
    assert_int_equal(n_cached[0], n_cached[2]);
}

/* When the user speaks again the reasoning before vanishes from the history: what stands up to the end
 * of the user's last message is still there. */
static void test_new_user_message(void **state)
{
    (void)state;
    struct hg_engine *warm = open_engine((struct hg_engine_params){0});
    struct hg_engine *cold = open_engine((struct hg_engine_params){.cache_device = -1});
    json_t *messages = json_array();
    struct hg_request_params p;
    struct reply r;
    int n_cached = 0;
    hg_request_params_init(&p);
    p.messages = messages;
    p.max_tokens = 4;
    say(messages, "system", "You answer in few words, and you think before you do.");
    say(messages, "user", "Which of the files in this folder is the largest one?");
    run(warm, &p, &r);
    int32_t first = r.usage.n_prompt;
    hg_buf_fini(&r.text);
    for (int i = 0; i < 3; i++) { /* a tool loop with reasoning */
        json_array_append_new(messages, json_pack("{s:s, s:s, s:s}", "role", "assistant", "content",
                                                  "I look.", "reasoning_content",
                                                  "A long thought about files."));
        say(messages, "tool", "a.c 100\nb.c 200");
        compare(warm, cold, &p, i, &n_cached);
    }
    say(messages, "assistant", "It is b.c.");
    say(messages, "user", "Tell me a joke.");
    n_cached = 0;
    compare(warm, cold, &p, 9, &n_cached);
    assert_true(n_cached >= first - 8);
    json_decref(messages);
    hg_engine_close(warm);
    hg_engine_close(cold);
}

/* FP8 KV and reuse: the same query gives the same bits, two hundred times. */
static void test_repeats(void **state)
{
    (void)state;
    struct hg_engine *eng = open_engine((struct hg_engine_params){.kv = HG_KV_FP8});
    struct hg_request_params p;
    struct reply r;
    uint64_t hash = 0;
    hg_request_params_init(&p);
    p.prompt = "import os\nimport sys\n\ndef main():\n";
    p.n_prompt = strlen(p.prompt);
    p.max_tokens = 3;
    for (int i = 0; i < N_REPEATS; i++) {
        run(eng, &p, &r);
        if (i) assert_int_equal(r.hash, hash);
        hash = r.hash;
        hg_buf_fini(&r.text);
    }
    hg_engine_close(eng);
}

/* A restart finds on disk what the last run left, and a damaged file changes no answer. */
static void test_restart(void **state)
{
    (void)state;
    char dir[] = "/tmp/hedge_warm_XXXXXX", command[256];
    assert_non_null(mkdtemp(dir));
    struct hg_engine_params ep = {.cache_disk = 1 << 30, .cache_dir = dir};
    json_t *messages = json_array();
    say(messages, "system", "You are a patient assistant.");
    say(messages, "user", "Explain what a makefile is, in a few plain words, please.");
    struct hg_request_params p;
    hg_request_params_init(&p);
    p.messages = messages;
    p.max_tokens = 8;
    struct reply first, second;
    for (int round = 0; round < 3; round++) {
        struct hg_engine *eng = open_engine(ep);
        run(eng, &p, &second);
        hg_engine_close(eng);
        if (round == 0) {
            first = second;
            continue;
        }
        assert_int_equal(first.hash, second.hash);
        assert_string_equal(first.text.data, second.text.data);
        if (round == 1) {
            assert_true(second.usage.n_prompt - second.usage.n_cached <= 8);
            snprintf(command, sizeof command,
                     "for f in $(find '%s' -type f -size +100c); do printf X | dd of=$f bs=1 "
                     "seek=$(($(stat -c"
                     " %%s $f) / 2)) conv=notrunc status=none; done",
                     dir);
            assert_int_equal(system(command), 0);
        }
        hg_buf_fini(&second.text);
    }
    hg_buf_fini(&first.text);
    json_decref(messages);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raw),         cmocka_unit_test(test_chat_turns),
        cmocka_unit_test(test_chunk_sizes), cmocka_unit_test(test_new_user_message),
        cmocka_unit_test(test_repeats),     cmocka_unit_test(test_restart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
