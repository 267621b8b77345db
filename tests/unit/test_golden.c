/* Logits of trained and of random checkpoints against vectors that others computed:
 *   tests/golden/tiny/CASE/vectors.safetensors   transformers' Qwen3_5ForCausalLM in fp32
 *                                                (tools/make_tiny.py), on every device
 *   models/nano and ../shared/models/nano-bf16   goldens.json: the 64 best logits behind a prompt
 *                                                and 48 greedy tokens */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "../lib/model_fixture.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shards.h"

#if defined(__SANITIZE_ADDRESS__)
enum { THOROUGH = 0 };
#else
enum { THOROUGH = 1 };
#endif

enum { N_PAGES = 28, MAX_TOKENS = N_PAGES * HG_PAGE_TOKENS, CHUNK = 512 };

/* A checkpoint on a device with one sequence. */
struct loaded {
    struct hg_config c;
    struct hg_shards *shards;
    struct hg_backend *be;
    struct hg_model *m;
    struct hg_seq seq;
    int32_t pages[N_PAGES];
    char about[200];
};

static void load(struct loaded *l, const char *dir, const char *device, enum hg_kv kv)
{
    struct hg_err err = {0};
    struct hg_weights w;
    struct hg_backend_params bp = {.device = device, .max_rows = CHUNK, .n_threads = 2};
    struct hg_model_params mp = {.n_slots = 1,
                                 .n_pages = N_PAGES,
                                 .max_rows = CHUNK,
                                 .max_seqs = 1,
                                 .max_want = CHUNK,
                                 .kv = kv};
    memset(l, 0, sizeof *l);
    snprintf(l->about, sizeof l->about, "%s on %s, KV %s", dir, device,
             kv == HG_KV_F32    ? "f32"
             : kv == HG_KV_BF16 ? "bf16"
                                : "fp8");
    if (hg_config_open(dir, &l->c, &err) || hg_shards_open(dir, &l->shards, &err) ||
        hg_backend_open(&bp, &l->be, &err) ||
        hg_weights_load(&w, &l->c, l->shards, l->be, NULL, NULL, &err) ||
        hg_model_create(&l->c, &w, l->be, &mp, &l->m, &err))
        fail_msg("%s: %s", l->about, err.text);
    for (int32_t i = 0; i < N_PAGES; i++) l->pages[i] = N_PAGES - 1 - i;
    l->seq = (struct hg_seq){.pages = l->pages, .n_pages = N_PAGES};
}

static void unload(struct loaded *l)
{
    hg_model_free(l->m);
    hg_backend_close(l->be);
    hg_shards_close(l->shards);
}

/* Extends by n tokens; logits of the last row, or with `all` (n <= CHUNK) of every row. */
static const float *extend(struct loaded *l, const hg_tok *tok, int32_t n, bool all)
{
    static struct hg_row rows[CHUNK];
    struct hg_err err = {0};
    struct hg_step_out out = {0};
    struct hg_seq *s = &l->seq;
    for (int32_t i = 0, k; i < n; i += k) {
        k = n - i < CHUNK ? n - i : CHUNK;
        for (int32_t j = 0; j < k; j++)
            rows[j] = (struct hg_row){.token = tok[i + j],
                                      .pos = s->n_past + j,
                                      .parent = j - 1,
                                      .want = all || i + j == n - 1};
        if (hg_step(l->m, HG_EXTEND, rows, k, &s, 1, &out, &err))
            fail_msg("%s: %s", l->about, err.text);
    }
    return out.logits;
}

static void restart(struct loaded *l)
{
    hg_slot_reset(l->m, 0);
    l->seq.n_past = 0;
}

/* ------------------------------------------------------------------- tiny random checkpoints -- */

static const double TINY_BOUND = 2e-4; /* max |a - b| / max |b| */

struct vectors {
    struct hg_map map;
    struct hg_arena arena;
    struct hg_tensor *t;
    size_t n;
};

static const void *vector(const struct vectors *v, const char *name, enum hg_dtype dtype,
                          int64_t *rows)
{
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->t[i].name, name) == 0) {
            assert_int_equal(v->t[i].dtype, dtype);
            assert_int_equal((uintptr_t)v->t[i].data % 4, 0);
            *rows = v->t[i].shape[0];
            return v->t[i].data;
        }
    return NULL;
}

static double compare(const float *got, const float *want, size_t n)
{
    double diff = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(got[i])) return INFINITY;
        diff = fmax(diff, fabs((double)got[i] - (double)want[i]));
        size = fmax(size, fabs((double)want[i]));
    }
    return diff / size;
}

static double check_row(const struct loaded *l, const char *what, int64_t at, const float *got,
                        const float *want)
{
    double e = compare(got, want, (size_t)l->c.n_vocab);
    if (!(e <= TINY_BOUND))
        fail_msg("%s: %s %lld: off by %.3g, bound %g", l->about, what, (long long)at, e,
                 TINY_BOUND);
    return e;
}

/* Each length as a prompt of its own; on ref, which is slow, one prompt grows from length to
 * length, and ref:chunked leaves the longest to it. */
static double tiny_case(const char *dir, const char *device)
{
    bool grows = strcmp(device, "ref") == 0, chunked = strcmp(device, "ref:chunked") == 0;
    struct loaded l;
    struct vectors v = {.map = {0}};
    struct hg_err err = {0};
    char path[300];
    double worst = 0;
    int64_t n_ids, n_lengths, n_logits, n_all = 0;
    load(&l, dir, device, HG_KV_F32);
    size_t vocab = (size_t)l.c.n_vocab;
    snprintf(path, sizeof path, "%s/vectors.safetensors", dir);
    hg_arena_init(&v.arena);
    if (hg_map_open(&v.map, path, &err) ||
        hg_safetensors_parse(path, v.map.data, v.map.size, &v.arena, &v.t, &v.n, &err))
        fail_msg("%s", err.text);
    const int32_t *ids = vector(&v, "ids", HG_I32, &n_ids);
    const int32_t *lengths = vector(&v, "lengths", HG_I32, &n_lengths);
    const float *logits = vector(&v, "logits", HG_F32, &n_logits);
    const float *all = vector(&v, "all65", HG_F32, &n_all);
    assert_true(ids && lengths && logits && n_lengths == n_logits);
    for (int64_t i = 0; i < n_lengths; i++) {
        assert_true(lengths[i] <= n_ids && lengths[i] <= MAX_TOKENS);
        if (lengths[i] > 200 && (chunked || !THOROUGH)) continue;
        if (!grows) restart(&l);
        int32_t past = l.seq.n_past;
        assert_true(past < lengths[i]);
        const float *got = extend(&l, ids + past, lengths[i] - past, false);
        worst = fmax(worst, check_row(&l, "length", lengths[i], got, logits + (size_t)i * vocab));
    }
    restart(&l);
    const float *rows = n_all ? extend(&l, ids, (int32_t)n_all, true) : NULL;
    for (int64_t i = 0; i < n_all; i++)
        worst =
            fmax(worst, check_row(&l, "row", i, rows + (size_t)i * vocab, all + (size_t)i * vocab));
    hg_arena_fini(&v.arena);
    hg_map_close(&v.map);
    unload(&l);
    return worst;
}

static void test_tiny(void **state)
{
    (void)state;
    char device[64], path[300], worst_at[400] = "";
    int32_t n_cases = 0;
    double worst = 0;
    DIR *d = opendir("tests/golden/tiny");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "tests/golden/tiny/%s/vectors.safetensors", e->d_name);
        if (e->d_name[0] == '.' || !hg_file_exists(path)) continue;
        snprintf(path, sizeof path, "tests/golden/tiny/%s", e->d_name);
        n_cases++;
        for (int32_t i = 0; fix_device(&i, device);) {
            double off = tiny_case(path, device);
            if (off <= worst) continue;
            worst = off;
            snprintf(worst_at, sizeof worst_at, "%s on %s", e->d_name, device);
        }
    }
    closedir(d);
    if (n_cases == 0) fail_msg("tests/golden/tiny has no cases");
    print_message("transformers: %d cases, worst error %.2g (%s)\n", n_cases, worst, worst_at);
}

/* ---------------------------------------------------------------------- trained checkpoints -- */

/* What a KV format may cost: the largest difference of one of the 64 best logits, which lie
 * around 15. Measured: 2e-5, 0.01, 0.12. */
static const struct {
    enum hg_kv kv;
    double bound;
} kvs[] = {{HG_KV_F32, 2e-4}, {HG_KV_BF16, 0.05}, {HG_KV_FP8, 0.5}};

static hg_tok best(const float *logits, int32_t n)
{
    int32_t b = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[b]) b = i;
    return b;
}

static bool is_eos(const struct hg_config *c, hg_tok t)
{
    for (int32_t i = 0; i < c->n_eos; i++)
        if (c->eos[i] == t) return true;
    return false;
}

/* Greedy tokens up to an eos, or up to the first that is ahead of the next by less than the bound
 * allows both to move. Returns how many were compared. */
static int32_t check_greedy(struct loaded *l, const json_t *golden, const float *logits,
                            double bound, int32_t most)
{
    const json_t *want = json_object_get(golden, "greedy48");
    const json_t *margin = json_object_get(golden, "greedy48_margin");
    assert_int_equal(json_array_size(want), json_array_size(margin));
    int32_t i = 0;
    for (; i < (int32_t)json_array_size(want) && i < most; i++) {
        hg_tok t = best(logits, l->c.n_vocab);
        hg_tok w = (hg_tok)json_integer_value(json_array_get(want, (size_t)i));
        if (json_number_value(json_array_get(margin, (size_t)i)) < 2 * bound) break;
        if (t != w) fail_msg("%s: greedy token %d is %d, expected %d", l->about, i, t, w);
        if (is_eos(&l->c, t)) return i + 1;
        logits = extend(l, &t, 1, false);
    }
    return i;
}

static void check_prompt(struct loaded *l, const json_t *golden, double bound, int32_t n_greedy)
{
    static hg_tok ids[MAX_TOKENS];
    const json_t *prompt = json_object_get(golden, "prompt_ids");
    const json_t *top = json_object_get(golden, "last_top64_ids");
    const json_t *value = json_object_get(golden, "last_top64_logits");
    size_t n = json_array_size(prompt);
    double off = 0;
    assert_true(n > 0 && n + 48 <= MAX_TOKENS && json_array_size(top) == 64);
    for (size_t i = 0; i < n; i++) ids[i] = (hg_tok)json_integer_value(json_array_get(prompt, i));
    restart(l);
    const float *logits = extend(l, ids, (int32_t)n, false);
    for (size_t i = 0; i < 64; i++) {
        json_int_t id = json_integer_value(json_array_get(top, i));
        assert_in_range(id, 0, l->c.n_vocab - 1);
        off = fmax(off, fabs((double)logits[id] - json_number_value(json_array_get(value, i))));
    }
    if (!(off <= bound)) fail_msg("%s: a logit is off by %g, bound %g", l->about, off, bound);
    int32_t n_compared = check_greedy(l, golden, logits, bound, n_greedy);
    print_message("%s: %s, %zu tokens: logits off by %.2g, %d greedy tokens agree\n", l->about,
                  json_string_value(json_object_get(golden, "name")), n, off, n_compared);
}

/* Prompts of at most `longest` tokens. */
static void check_model(const char *dir, const char *device, int32_t kv, size_t longest,
                        int32_t n_greedy)
{
    char path[300];
    struct loaded l;
    snprintf(path, sizeof path, "%s/goldens.json", dir);
    json_t *goldens = json_load_file(path, 0, NULL);
    assert_non_null(goldens);
    load(&l, dir, device, kvs[kv].kv);
    for (size_t i = 0; i < json_array_size(goldens); i++) {
        const json_t *g = json_array_get(goldens, i);
        if (json_array_size(json_object_get(g, "prompt_ids")) <= longest)
            check_prompt(&l, g, kvs[kv].bound, n_greedy);
    }
    unload(&l);
    json_decref(goldens);
}

/* The fastest device runs everything; the others the shortest prompt (256 tokens). */
static void check_devices(const char *dir, const char *slow_device)
{
    char device[64], first[64] = "";
    for (int32_t i = 0; fix_device(&i, device);) {
        if (strncmp(device, "ref", 3) == 0 && (!THOROUGH || strcmp(device, slow_device) != 0))
            continue;
        bool slow = strncmp(device, "ref", 3) == 0;
        if (!first[0]) {
            strcpy(first, device);
            for (int32_t kv = 0; kv < (THOROUGH ? 3 : 1); kv++)
                check_model(dir, device, kv, kv ? 256 : THOROUGH ? MAX_TOKENS : 256, 48);
        } else if (THOROUGH) {
            check_model(dir, device, 0, 256, slow ? 2 : 48);
        }
    }
}

static void test_nano(void **state)
{
    (void)state;
    check_devices("models/nano", "ref");
}

static void test_nano_bf16(void **state)
{
    (void)state;
    const char *dir = "../shared/models/nano-bf16";
    char path[300];
    snprintf(path, sizeof path, "%s/goldens.json", dir);
    if (hg_file_exists(path))
        check_devices(dir, "ref:chunked");
    else
        print_message("skip: no %s\n", dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_nano),
        cmocka_unit_test(test_nano_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
