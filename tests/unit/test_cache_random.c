/* The cache under random operations, against a naive model: the list of published prefixes. What
 * is restored must be such a prefix, the longest one when nothing was evicted, with the content
 * that computing it anew gives. Then allocation failure at every point of a script. */
#include "cache_fixture.inc"

#include <time.h>

enum { MAX_TOKENS = 420, N_LINES = 12, MAX_HITS = 2, ALWAYS_CHECKED = 20000, CHECK_EVERY = 100 };

struct line {
    hg_tok tok[MAX_TOKENS];
};

/* Everything that was ever published, as hashes of the prefixes by length. */
struct model {
    uint64_t *hash[MAX_TOKENS + 1];
    int32_t n[MAX_TOKENS + 1], cap[MAX_TOKENS + 1];
};

struct world {
    struct fake f;
    struct model m;
    struct hg_rng rng;
    struct line line[N_LINES];         /* the conversations */
    struct line of[MAX_SEQS];          /* the tokens of each sequence */
    struct hg_cache_hit hit[MAX_HITS]; /* pinned for a while */
    struct line hit_of[MAX_HITS];
    bool exact; /* nothing is ever evicted */
    uint64_t n_hits;
};

static uint32_t below(struct world *w, uint32_t n)
{
    return hg_rng_below(&w->rng, n);
}

static bool model_has(const struct model *m, uint64_t hash, int32_t n)
{
    for (int32_t i = 0; i < m->n[n]; i++)
        if (m->hash[n][i] == hash) return true;
    return false;
}

static void model_add(struct model *m, const hg_tok *tokens, int32_t n)
{
    uint64_t h = 1;
    for (int32_t i = 0; i < n; i++) h = mix(h, tokens[i]);
    if (model_has(m, h, n)) return;
    if (m->n[n] == m->cap[n]) {
        m->cap[n] = m->cap[n] ? 2 * m->cap[n] : 4;
        m->hash[n] = realloc(m->hash[n], (size_t)m->cap[n] * sizeof *m->hash[n]);
    }
    m->hash[n][m->n[n]++] = h;
}

/* The longest published proper prefix up to length n; `is` whether the one of that length is. */
static int32_t model_longest(const struct model *m, const hg_tok *tokens, int32_t n, int32_t at,
                             bool *is)
{
    uint64_t h = 1;
    int32_t best = 0;
    *is = at == 0;
    for (int32_t i = 1; i < n; i++) {
        h = mix(h, tokens[i - 1]);
        if (!model_has(m, h, i)) continue;
        best = i;
        if (i == at) *is = true;
    }
    return best;
}

static void model_clear(struct model *m)
{
    memset(m->n, 0, sizeof m->n);
}

/* Branches a conversation off another, or edits one in the middle. */
static void change_line(struct world *w)
{
    struct line *l = &w->line[below(w, N_LINES)];
    *l = w->line[below(w, N_LINES)];
    fake_text(l->tok, (int32_t)below(w, MAX_TOKENS), MAX_TOKENS, hg_rng_u64(&w->rng));
}

static void checked_lookup(struct world *w, const hg_tok *tokens, int32_t n,
                           struct hg_cache_hit *hit)
{
    *hit = hg_cache_lookup(w->f.c, tokens, n);
    bool is;
    int32_t longest = model_longest(&w->m, tokens, n, hit->n_tokens, &is);
    assert_true(is && hit->n_tokens <= longest);
    if (w->exact) assert_int_equal(hit->n_tokens, longest);
    w->n_hits += hit->n_tokens > 0;
}

static void op_start(struct world *w, int32_t k)
{
    struct hg_seq *s = &w->f.seq[k];
    struct hg_cache_hit hit;
    w->of[k] = w->line[below(w, N_LINES)];
    int32_t n = 1 + (int32_t)below(w, MAX_TOKENS - 1);
    checked_lookup(w, w->of[k].tok, n, &hit);
    if (below(w, 16) == 0) {
        hg_cache_unpin(w->f.c, hit);
        return;
    }
    bool ok = hg_cache_restore(w->f.c, hit, s);
    assert_int_equal(s->n_past, ok ? hit.n_tokens : 0);
    fake_verify(&w->f, s, w->of[k].tok);
}

static void op_extend(struct world *w, int32_t k)
{
    struct hg_seq *s = &w->f.seq[k];
    int32_t n = s->n_past + 1 + (int32_t)below(w, 90), before = s->n_pages;
    if (n > MAX_TOKENS) n = MAX_TOKENS;
    if (!hg_cache_reserve(w->f.c, s, n)) {
        assert_int_equal(s->n_pages, before);
        return;
    }
    fake_run(&w->f, s, w->of[k].tok, n);
}

static void op_publish(struct world *w, int32_t k)
{
    struct hg_seq *s = &w->f.seq[k];
    enum hg_cache_kind kind = (enum hg_cache_kind)below(w, 5);
    if (hg_cache_publish(w->f.c, w->of[k].tok, s, kind))
        model_add(&w->m, w->of[k].tok, s->n_past);
    else if (w->exact)
        assert_int_equal(s->n_past, 0);
}

static void op_hit(struct world *w)
{
    int32_t k = (int32_t)below(w, MAX_HITS), seq = (int32_t)below(w, MAX_SEQS);
    struct hg_seq *s = &w->f.seq[seq];
    if (w->hit[k].n_tokens && s->n_pages == 0) {
        w->of[seq] = w->hit_of[k];
        hg_cache_restore(w->f.c, w->hit[k], s);
        fake_verify(&w->f, s, w->of[seq].tok);
    } else {
        hg_cache_unpin(w->f.c, w->hit[k]);
    }
    w->hit_of[k] = w->line[below(w, N_LINES)];
    checked_lookup(w, w->hit_of[k].tok, MAX_TOKENS, &w->hit[k]);
}

static void one_op(struct world *w)
{
    int32_t k = (int32_t)below(w, MAX_SEQS);
    struct hg_seq *s = &w->f.seq[k];
    uint32_t r = below(w, 1000);
    if (r < 2) {
        change_line(w);
    } else if (r < 3 && !w->exact) {
        hg_cache_clear(w->f.c);
        if (!w->hit[0].n_tokens && !w->hit[1].n_tokens) model_clear(&w->m);
    } else if (r < 30) {
        op_hit(w);
    } else if (r < 50) {
        hg_cache_idle(w->f.c);
    } else if (s->n_pages == 0 && r < 600) {
        op_start(w, k);
    } else if (r < 250) {
        fake_verify(&w->f, s, w->of[k].tok);
        hg_cache_release(w->f.c, s);
    } else if (r < 700) {
        op_extend(w, k);
    } else {
        op_publish(w, k);
    }
}

static void run_world(const char *name, uint64_t seed, int32_t n_pages, int32_t n_slots,
                      size_t host_slots, const char *dir, size_t disk_slots, int64_t n_ops,
                      bool exact)
{
    static struct world w;
    memset(&w, 0, sizeof w);
    struct hg_cache_params p = fake_params(&w.f, n_pages, n_slots);
    size_t entry = p.mem.slot_bytes + 2 * p.mem.page_bytes;
    p.host_bytes = host_slots * entry;
    p.disk_dir = dir;
    p.disk_bytes = disk_slots * (entry + 4096);
    w.rng.s = seed;
    w.exact = exact;
    assert_int_equal(fake_open(&w.f, &p), HG_OK);
    for (int32_t i = 0; i < N_LINES; i++) fake_text(w.line[i].tok, 0, MAX_TOKENS, 1);
    for (int32_t i = 0; i < 3 * N_LINES; i++) change_line(&w);
    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    for (int64_t i = 0; i < n_ops; i++) {
        one_op(&w);
        if (i < ALWAYS_CHECKED || i % CHECK_EVERY == 0) hg_cache_check(w.f.c);
    }
    clock_gettime(CLOCK_MONOTONIC, &t1);
    struct hg_cache_stats s = fake_stats(&w.f);
    printf("%s: %lld ops, %.1f s, %llu of %llu hits, %llu published, %llu evicted, restored %llu "
           "device %llu host %llu disk\n",
           name, (long long)n_ops,
           (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec),
           (unsigned long long)s.n_hits, (unsigned long long)s.n_lookups,
           (unsigned long long)s.n_published, (unsigned long long)s.n_evicted,
           (unsigned long long)s.n_restored_device, (unsigned long long)s.n_restored_host,
           (unsigned long long)s.n_restored_disk);
    for (int32_t k = 0; k < MAX_HITS; k++) hg_cache_unpin(w.f.c, w.hit[k]);
    for (int32_t k = 0; k < MAX_SEQS; k++) hg_cache_release(w.f.c, &w.f.seq[k]);
    hg_cache_clear(w.f.c);
    hg_cache_check(w.f.c);
    s = fake_stats(&w.f);
    assert_int_equal(s.n_entries, 0);
    assert_int_equal(s.n_pages_free, n_pages);
    assert_int_equal(s.n_slots_free, n_slots);
    assert_int_equal(s.device_bytes + s.host_bytes + s.disk_bytes, 0);
    assert_int_equal(s.n_dropped_damaged, 0);
    fake_close(&w.f);
    for (int32_t i = 0; i <= MAX_TOKENS; i++) free(w.m.hash[i]);
}

static uint64_t seed0;

static void test_random(void **state)
{
    (void)state;
    char dir[] = "/tmp/hg-cache-random-XXXXXX";
    assert_non_null(mkdtemp(dir));
    run_world("ample", seed0, 4000, 3000, 0, NULL, 0, 20000, true);
    run_world("device", seed0 + 1, 60, 6, 0, NULL, 0, 600000, false);
    run_world("few pages", seed0 + 2, 24, 20, 0, NULL, 0, 250000, false);
    run_world("host", seed0 + 3, 60, 4, 12, NULL, 0, 500000, false);
    run_world("disk", seed0 + 4, 60, 3, 6, dir, 12, 30000, false);
    run_world("disk only", seed0 + 5, 60, 1, 0, dir, 20, 20000, false);
    fake_remove_dir(dir);
}

/* ------------------------------------------------------------------- allocation failure -- */

static int64_t n_allocs, fail_from, fail_to;

static bool alloc_fails(void)
{
    n_allocs++;
    return n_allocs >= fail_from && n_allocs < fail_to;
}

/* Every operation, through all tiers; each may fail for want of memory, none may be wrong. */
static void script(const char *dir)
{
    static struct fake f;
    static struct line l[3];
    struct hg_cache_params p = fake_params(&f, 24, 2);
    p.host_bytes = 3 * p.mem.slot_bytes + 8 * p.mem.page_bytes;
    p.disk_dir = dir;
    p.disk_bytes = 1 << 20;
    for (uint64_t k = 0; k < 3; k++) {
        fake_text(l[k].tok, 0, MAX_TOKENS, 77);
        fake_text(l[k].tok, 90, MAX_TOKENS, k);
    }
    for (int32_t round = 0; round < 2; round++) { /* the second finds the first's files */
        if (fake_open(&f, &p) != HG_OK) {
            fake_close(&f);
            continue;
        }
        for (int32_t t = 1; t < 4; t++)
            for (int32_t k = 0; k < 3; k++) {
                struct hg_seq *s = &f.seq[k];
                fake_turn(&f, s, l[k].tok, 80 + 35 * t);
                hg_cache_check(f.c);
                hg_cache_publish(f.c, l[k].tok, s, t == 1 ? HG_CACHE_USER : HG_CACHE_GENERATION);
                hg_cache_check(f.c);
                hg_cache_release(f.c, s);
                if (k == 1) hg_cache_idle(f.c);
                hg_cache_check(f.c);
            }
        struct hg_cache_stats s = fake_stats(&f);
        assert_int_equal(s.n_dropped_damaged, 0);
        fake_close(&f);
    }
}

static void test_alloc_failure(void **state)
{
    (void)state;
    cache_alloc_fails = alloc_fails;
    int64_t points = 0;
    for (int32_t mode = 0; mode < 2; mode++) /* one fails; it and all behind it fail */
        for (int64_t n = 1;; n++) {
            char dir[] = "/tmp/hg-cache-alloc-XXXXXX";
            assert_non_null(mkdtemp(dir));
            n_allocs = 0;
            fail_from = n;
            fail_to = mode ? INT64_MAX : n + 1;
            script(dir);
            fail_from = fail_to = INT64_MAX;
            int64_t took = n_allocs;
            fake_remove_dir(dir);
            if (took < n) break;
            points++;
        }
    cache_alloc_fails = NULL;
    printf("allocation failure at %lld points\n", (long long)points);
}

int main(int argc, char **argv)
{
    seed0 = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_alloc_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
