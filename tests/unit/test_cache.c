/* The cache in hand-written scenarios, with a fake model (cache_fixture.inc). The random test is
 * test_cache_random.c, the disk tier test_cache_disk.c. */
#include "cache_fixture.inc"

enum { P = HG_PAGE_TOKENS, CAP = SEQ_PAGES * P };

static hg_tok text[CAP];

/* Publishes tokens[0..at[k]) for each k on the way of a turn to n; returns what was cached. */
static int32_t turn_at(struct fake *f, struct hg_seq *s, const hg_tok *tokens, int32_t n,
                       const int32_t *at, int32_t n_at, enum hg_cache_kind kind)
{
    int32_t cached = 0;
    struct hg_cache_hit hit = hg_cache_lookup(f->c, tokens, n);
    if (hg_cache_restore(f->c, hit, s)) cached = s->n_past;
    fake_verify(f, s, tokens);
    assert_true(hg_cache_reserve(f->c, s, n));
    for (int32_t k = 0; k < n_at; k++) {
        if (at[k] < s->n_past) continue;
        fake_run(f, s, tokens, at[k]);
        hg_cache_publish(f->c, tokens, s, kind);
        hg_cache_check(f->c);
    }
    fake_run(f, s, tokens, n);
    fake_verify(f, s, tokens);
    hg_cache_check(f->c);
    return cached;
}

static int32_t turn_gen(struct fake *f, const hg_tok *tokens, int32_t gen, int32_t n)
{
    int32_t cached = turn_at(f, &f->seq[0], tokens, n, &gen, 1, HG_CACHE_GENERATION);
    hg_cache_release(f->c, &f->seq[0]);
    return cached;
}

static void open_plain(struct fake *f, int32_t n_pages, int32_t n_slots)
{
    struct hg_cache_params p = fake_params(f, n_pages, n_slots);
    assert_int_equal(fake_open(f, &p), HG_OK);
}

/* llama.cpp#20225 and others: every turn of an append-only conversation prefills the new suffix
 * only, over 20 turns, with as little as one snapshot slot. */
static void test_append_only(void **state)
{
    (void)state;
    for (int32_t n_slots = 1; n_slots <= 3; n_slots++) {
        struct fake f;
        open_plain(&f, 64, n_slots);
        fake_text(text, 0, CAP, 7);
        int32_t gen = 0;
        for (int32_t t = 0; t < 20; t++) {
            int32_t next = gen + 37 + t * 5;
            assert_int_equal(turn_gen(&f, text, next, next + 7), gen);
            gen = next;
        }
        struct hg_cache_stats s = fake_stats(&f);
        assert_int_equal(s.n_lookups, 20);
        assert_int_equal(s.n_hits, 19);
        assert_true(s.n_entries <= n_slots);
        fake_close(&f);
    }
}

/* sglang#22935: the same prompt again hits the longest checkpoint that is shorter. */
static void test_same_prompt_twice(void **state)
{
    (void)state;
    struct fake f;
    open_plain(&f, 64, 4);
    fake_text(text, 0, CAP, 1);
    int32_t at[] = {50, 130, 200};
    assert_int_equal(turn_at(&f, &f.seq[0], text, 200, at, 3, HG_CACHE_GENERATION), 0);
    hg_cache_release(f.c, &f.seq[0]);
    assert_int_equal(turn_gen(&f, text, 200, 200), 130);
    assert_int_equal(turn_gen(&f, text, 201, 201), 200);
    assert_int_equal(turn_gen(&f, text, 130, 130), 50);
    assert_int_equal(turn_gen(&f, text, 50, 50), 0);
    fake_close(&f);
}

static void test_branch_and_edit(void **state)
{
    (void)state;
    struct fake f;
    open_plain(&f, 64, 8);
    hg_tok other[CAP];
    fake_text(text, 0, CAP, 1);
    memcpy(other, text, sizeof other);
    fake_text(other, 150, CAP, 2); /* agrees on 150 */
    int32_t at[] = {100, 140, 300};
    turn_at(&f, &f.seq[0], text, 310, at, 3, HG_CACHE_GENERATION);
    hg_cache_release(f.c, &f.seq[0]);
    assert_int_equal(turn_gen(&f, other, 290, 300), 140);
    assert_int_equal(turn_gen(&f, text, 400, 410), 300); /* neither line spoils the other */
    assert_int_equal(turn_gen(&f, other, 400, 410), 290);
    other[120]++; /* an edit in the middle falls back to the checkpoint before it */
    assert_int_equal(turn_gen(&f, other, 400, 410), 100);
    other[20]++;
    assert_int_equal(turn_gen(&f, other, 390, 410), 0);
    assert_int_equal(turn_gen(&f, text, 410, 420), 400);
    fake_close(&f);
}

static void test_page_edges(void **state)
{
    (void)state;
    static const int32_t edge[] = {1,         2,     P - 1,     P,         P + 1,
                                   2 * P - 1, 2 * P, 2 * P + 1, 3 * P - 1, 3 * P};
    int32_t n = sizeof edge / sizeof *edge;
    fake_text(text, 0, CAP, 3);
    for (int32_t a = 0; a < n; a++)
        for (int32_t b = 0; b < n; b++) {
            struct fake f;
            open_plain(&f, 16, 4);
            turn_gen(&f, text, edge[a], edge[a]);
            assert_int_equal(turn_gen(&f, text, edge[b], edge[b]), edge[a] < edge[b] ? edge[a] : 0);
            int32_t both = edge[a] > edge[b] ? edge[a] : edge[b];
            assert_int_equal(turn_gen(&f, text, both + 1, both + 1), both);
            fake_close(&f);
        }
}

static void test_tiny_prompts(void **state)
{
    (void)state;
    struct fake f;
    open_plain(&f, 8, 4);
    fake_text(text, 0, CAP, 3);
    assert_int_equal(hg_cache_lookup(f.c, text, 0).n_tokens, 0);
    assert_int_equal(hg_cache_lookup(f.c, text, 1).n_tokens, 0);
    assert_false(hg_cache_publish(f.c, text, &f.seq[0], HG_CACHE_END)); /* nothing computed */
    turn_gen(&f, text, 1, 1);
    assert_int_equal(hg_cache_lookup(f.c, text, 1).n_tokens, 0);
    assert_int_equal(turn_gen(&f, text, 2, 2), 1);
    assert_int_equal(turn_gen(&f, text, 3, 3), 2); /* vllm-ascend#7103: short prompts hit too */
    assert_false(hg_cache_restore(f.c, (struct hg_cache_hit){0, -1}, &f.seq[0]));
    hg_cache_unpin(f.c, (struct hg_cache_hit){0, -1});
    fake_close(&f);
}

/* Three sequences go on from one partly filled page in different ways, at the same time. */
static void test_partial_page_is_private(void **state)
{
    (void)state;
    struct fake f;
    open_plain(&f, 64, 8);
    static hg_tok line[4][CAP];
    for (int32_t k = 0; k < 4; k++) {
        fake_text(line[k], 0, 100, 5);
        fake_text(line[k], 100, CAP, 100 + (uint64_t)k);
    }
    struct hg_seq *w = &f.seq[3];
    int32_t at = 100;
    turn_at(&f, w, line[3], 101, &at, 1, HG_CACHE_SYSTEM); /* stays alive and goes on writing */
    for (int32_t k = 0; k < 3; k++) assert_int_equal(fake_turn(&f, &f.seq[k], line[k], 101), 100);
    for (int32_t n = 102; n < 200; n += 9)
        for (int32_t k = 0; k < 4; k++) {
            assert_true(hg_cache_reserve(f.c, &f.seq[k], n + 8));
            fake_run(&f, &f.seq[k], line[k], n);
            if (n % 2) hg_cache_publish(f.c, line[k], &f.seq[k], HG_CACHE_END);
            for (int32_t j = 0; j < 4; j++) fake_verify(&f, &f.seq[j], line[j]);
        }
    for (int32_t k = 0; k < 4; k++) {
        hg_cache_release(f.c, &f.seq[k]);
        assert_true(fake_turn(&f, &f.seq[k], line[k], 250) >= 100);
    }
    hg_cache_check(f.c);
    fake_close(&f);
}

/* Equal prefixes that two sequences computed apart are stored once. */
static void test_pages_are_shared(void **state)
{
    (void)state;
    struct fake f;
    open_plain(&f, 64, 8);
    hg_tok other[CAP];
    fake_text(text, 0, CAP, 1);
    memcpy(other, text, sizeof other);
    fake_text(other, 5 * P + 10, CAP, 2);
    assert_true(hg_cache_reserve(f.c, &f.seq[0], 6 * P));
    assert_true(hg_cache_reserve(f.c, &f.seq[1], 6 * P));
    fake_run(&f, &f.seq[0], text, 6 * P);
    fake_run(&f, &f.seq[1], other, 6 * P);
    hg_cache_publish(f.c, text, &f.seq[0], HG_CACHE_END);
    hg_cache_publish(f.c, other, &f.seq[1], HG_CACHE_END);
    assert_int_equal(fake_stats(&f).n_pages_free, 64 - 12);
    hg_cache_release(f.c, &f.seq[0]);
    hg_cache_release(f.c, &f.seq[1]);
    hg_cache_check(f.c);
    assert_int_equal(fake_stats(&f).n_pages_free, 64 - 7);
    hg_cache_clear(f.c);
    assert_int_equal(fake_stats(&f).n_pages_free, 64);
    assert_int_equal(fake_stats(&f).n_slots_free, 8);
    assert_int_equal(fake_stats(&f).device_bytes, 0);
    fake_close(&f);
}

/* sglang#36935: under slot pressure state and pages go together, and reuse goes on. */
static void test_slot_pressure(void **state)
{
    (void)state;
    struct fake f;
    open_plain(&f, 64, 2);
    for (uint64_t k = 0; k < 10; k++) {
        fake_text(text, 0, CAP, k);
        assert_int_equal(turn_gen(&f, text, 100, 110), 0);
        assert_int_equal(turn_gen(&f, text, 200, 210), 100);
    }
    struct hg_cache_stats s = fake_stats(&f);
    assert_int_equal(s.n_entries, 2);
    assert_int_equal(s.n_slots_free, 0);
    assert_true(s.n_pages_free >= 64 - 2 * 4);
    assert_int_equal(s.n_published, 20);
    assert_int_equal(s.n_evicted, 18);
    fake_close(&f);
}

static void test_page_pressure(void **state)
{
    (void)state;
    struct fake f;
    open_plain(&f, 8, 4);
    fake_text(text, 0, CAP, 1);
    turn_gen(&f, text, 4 * P, 4 * P);
    struct hg_cache_hit pin = hg_cache_lookup(f.c, text, 5 * P);
    assert_int_equal(pin.n_tokens, 4 * P);
    hg_tok other[CAP];
    fake_text(other, 0, CAP, 2);
    turn_gen(&f, other, 3 * P, 3 * P);
    /* 4 pages pinned, 3 evictable, 1 free */
    assert_false(hg_cache_reserve(f.c, &f.seq[1], 5 * P));
    assert_int_equal(f.seq[1].n_pages, 0);
    assert_int_equal(fake_stats(&f).n_entries, 2); /* what cannot succeed destroys nothing */
    assert_true(hg_cache_reserve(f.c, &f.seq[1], 4 * P));
    assert_int_equal(fake_stats(&f).n_entries, 1);
    hg_cache_clear(f.c);
    assert_int_equal(fake_stats(&f).n_entries, 1); /* pinned */
    assert_true(hg_cache_restore(f.c, pin, &f.seq[0]));
    fake_verify(&f, &f.seq[0], text);
    assert_false(hg_cache_reserve(f.c, &f.seq[0], 5 * P)); /* all are live sequences' */
    assert_int_equal(f.seq[0].n_pages, 4);
    fake_verify(&f, &f.seq[0], text);
    hg_cache_check(f.c);
    fake_close(&f);
}

/* Too few pages for a restore: clean miss, all pages given back. */
static void test_restore_without_pages(void **state)
{
    (void)state;
    struct fake f;
    open_plain(&f, 4, 2);
    fake_text(text, 0, CAP, 1);
    turn_gen(&f, text, 3 * P + 5, 3 * P + 5); /* a restore needs a copy of the last page */
    struct hg_cache_hit hit = hg_cache_lookup(f.c, text, 4 * P);
    assert_int_equal(hit.n_tokens, 3 * P + 5);
    assert_false(hg_cache_restore(f.c, hit, &f.seq[0]));
    assert_int_equal(f.seq[0].n_pages, 0);
    assert_int_equal(fake_stats(&f).n_entries, 1);
    assert_true(hg_cache_reserve(f.c, &f.seq[0], 4 * P)); /* cold: the entry makes room */
    assert_int_equal(fake_stats(&f).n_entries, 0);
    fake_close(&f);
}

static void test_small_budgets(void **state)
{
    (void)state;
    struct fake f;
    struct hg_cache_params p = fake_params(&f, 16, 0);
    p.host_bytes = p.mem.slot_bytes - 1;
    p.disk_dir = "/nonexistent";
    p.disk_bytes = p.mem.slot_bytes - 1;
    hg_log_set(log_sink, HG_LOG_WARN);
    n_log = 0;
    assert_int_equal(fake_open(&f, &p), HG_OK);
    assert_int_equal(n_log, 3); /* one clear line each */
    fake_text(text, 0, CAP, 1);
    for (int32_t t = 0; t < 3; t++) assert_int_equal(turn_gen(&f, text, 100, 120), 0);
    assert_int_equal(fake_stats(&f).n_entries, 0);
    assert_int_equal(n_log, 3);
    fake_close(&f);
    hg_log_set(NULL, HG_LOG_WARN);
}

enum { SYSTEM = 200 };

/* One turn as the engine does it: SYSTEM once, GENERATION at gen, then an answer that the next
 * prompt will not repeat, END. Returns what was cached. */
static int32_t agent_turn(struct fake *f, const hg_tok *tokens, int32_t gen)
{
    static uint64_t n_answers;
    static hg_tok answer[CAP];
    struct hg_seq *s = &f->seq[0];
    int32_t cached = 0;
    if (hg_cache_restore(f->c, hg_cache_lookup(f->c, tokens, gen + 4), s)) cached = s->n_past;
    fake_verify(f, s, tokens);
    assert_true(hg_cache_reserve(f->c, s, gen + 34));
    if (s->n_past < SYSTEM) {
        fake_run(f, s, tokens, SYSTEM);
        hg_cache_publish(f->c, tokens, s, HG_CACHE_SYSTEM);
    }
    if (s->n_past < gen) {
        fake_run(f, s, tokens, gen);
        hg_cache_publish(f->c, tokens, s, HG_CACHE_GENERATION);
    }
    memcpy(answer, tokens, sizeof answer);
    fake_text(answer, gen, gen + 34, 1u << 20 | n_answers++);
    fake_run(f, s, answer, gen + 34);
    fake_verify(f, s, answer);
    hg_cache_publish(f->c, answer, s, HG_CACHE_END);
    hg_cache_release(f->c, s);
    hg_cache_check(f->c);
    return cached;
}

/* Four conversations turn by turn, a sub-agent with the same system prompt between every two
 * turns: each turn finds its own last checkpoint, each sub-agent the system prompt. */
static void interleave(int32_t n_slots, size_t host_slots)
{
    enum { CHATS = 4, TURNS = 12, STEP = 150 };
    struct fake f;
    struct hg_cache_params p = fake_params(&f, 240, n_slots);
    p.host_bytes = host_slots * (p.mem.slot_bytes + 16 * p.mem.page_bytes);
    assert_int_equal(fake_open(&f, &p), HG_OK);
    fake_text(text, 0, SYSTEM, 1000);
    for (int32_t t = 0; t < TURNS; t++)
        for (uint64_t k = 0; k < CHATS; k++) {
            fake_text(text, SYSTEM, CAP, k);
            int32_t gen = SYSTEM + STEP * (t + 1), want = t ? gen - STEP : k ? SYSTEM : 0;
            assert_int_equal(agent_turn(&f, text, gen), want);
            fake_text(text, SYSTEM, CAP, 5000 + (uint64_t)t * CHATS + k);
            assert_int_equal(agent_turn(&f, text, SYSTEM + 40), SYSTEM);
        }
    fake_close(&f);
}

static void test_interleaved(void **state)
{
    (void)state;
    interleave(10, 0);
    interleave(2, 12);
    interleave(1, 12);
}

static void test_host_tier(void **state)
{
    (void)state;
    struct fake f;
    struct hg_cache_params p = fake_params(&f, 32, 1);
    p.host_bytes = 2 * p.mem.slot_bytes + 7 * p.mem.page_bytes;
    assert_int_equal(fake_open(&f, &p), HG_OK);
    hg_tok other[CAP];
    fake_text(text, 0, CAP, 1);
    memcpy(other, text, sizeof other);
    fake_text(other, 3 * P, CAP, 2);
    turn_gen(&f, text, 5 * P, 5 * P);
    turn_gen(&f, other, 4 * P + 5, 4 * P + 5);
    fake_text(text, 0, 1, 3);
    turn_gen(&f, text, 2 * P, 2 * P); /* device; the other two in host share 3 pages there */
    hg_cache_check(f.c);
    struct hg_cache_stats s = fake_stats(&f);
    assert_int_equal(s.n_entries, 3);
    assert_int_equal(s.host_bytes, 2 * p.mem.slot_bytes + 7 * p.mem.page_bytes);
    fake_text(text, 0, 1, 1);
    assert_int_equal(fake_turn(&f, &f.seq[1], text, 5 * P + 1), 5 * P);
    assert_int_equal(fake_stats(&f).n_restored_host, 1);
    hg_cache_check(f.c);
    hg_cache_release(f.c, &f.seq[1]);
    hg_cache_clear(f.c);
    assert_int_equal(fake_stats(&f).host_bytes, 0);
    fake_close(&f);
}

/* A restored host entry returns to the device when a slot is free. */
static void test_promote(void **state)
{
    (void)state;
    struct fake f;
    struct hg_cache_params p = fake_params(&f, 32, 1);
    p.host_bytes = 1 << 20;
    assert_int_equal(fake_open(&f, &p), HG_OK);
    fake_text(text, 0, CAP, 1);
    turn_gen(&f, text, 2 * P + 9, 2 * P + 20);
    hg_tok other[CAP];
    fake_text(other, 0, CAP, 2);
    turn_gen(&f, other, 70, 70);
    struct hg_cache_hit pin = hg_cache_lookup(f.c, text, CAP); /* keeps it through clear */
    hg_cache_clear(f.c);
    assert_int_equal(fake_stats(&f).n_slots_free, 1);
    assert_true(hg_cache_restore(f.c, pin, &f.seq[0]));
    fake_verify(&f, &f.seq[0], text);
    hg_cache_check(f.c);
    assert_int_equal(fake_stats(&f).n_slots_free, 0);
    assert_int_equal(fake_stats(&f).host_bytes, 0);
    assert_true(hg_cache_reserve(f.c, &f.seq[0], 4 * P));
    fake_text(text, 2 * P + 9, CAP, 9);
    fake_run(&f, &f.seq[0], text, 4 * P); /* behind the entry's positions in its last page */
    fake_text(text, 0, CAP, 1);
    assert_int_equal(fake_turn(&f, &f.seq[1], text, 3 * P), 2 * P + 9);
    assert_int_equal(fake_stats(&f).n_restored_device, 1);
    fake_close(&f);
}

/* Two entries of one sequence share a page. Only the one that needs less of it comes back to the
 * device; then another sequence publishes the whole page. */
static void test_device_copy_grows(void **state)
{
    (void)state;
    struct fake f;
    struct hg_cache_params p = fake_params(&f, 32, 2);
    p.host_bytes = 1 << 20;
    assert_int_equal(fake_open(&f, &p), HG_OK);
    fake_text(text, 0, CAP, 1);
    int32_t at[] = {P + 36, P + 86};
    turn_at(&f, &f.seq[0], text, 3 * P, at, 2, HG_CACHE_USER);
    hg_cache_release(f.c, &f.seq[0]);
    hg_tok other[CAP];
    for (uint64_t k = 2; k < 4; k++) { /* pushes both to the host */
        fake_text(other, 0, CAP, k);
        turn_gen(&f, other, 300, 300);
    }
    struct hg_cache_hit a = hg_cache_lookup(f.c, text, P + 86), b = hg_cache_lookup(f.c, text, CAP);
    assert_int_equal(a.n_tokens, P + 36);
    assert_int_equal(b.n_tokens, P + 86);
    hg_cache_clear(f.c); /* frees the slots; the two are pinned */
    assert_int_equal(fake_stats(&f).n_slots_free, 2);
    assert_true(hg_cache_restore(f.c, a, &f.seq[0]));
    fake_text(other, 0, CAP, 1);
    fake_text(other, P + 36, CAP, 9); /* the page on the device goes on otherwise */
    assert_true(hg_cache_reserve(f.c, &f.seq[0], 3 * P));
    fake_run(&f, &f.seq[0], other, 3 * P);
    hg_cache_unpin(f.c, b);
    hg_cache_check(f.c);
    assert_int_equal(fake_turn(&f, &f.seq[1], text, 2 * P), P + 36);
    assert_true(hg_cache_publish(f.c, text, &f.seq[1], HG_CACHE_USER));
    hg_cache_check(f.c);
    hg_cache_release(f.c, &f.seq[0]);
    hg_cache_release(f.c, &f.seq[1]);
    assert_int_equal(fake_turn(&f, &f.seq[0], text, 2 * P + 1), 2 * P);
    assert_int_equal(fake_turn(&f, &f.seq[1], text, P + 90), P + 86);
    assert_int_equal(fake_turn(&f, &f.seq[2], text, P + 37), P + 36);
    fake_close(&f);
}

/* Kinds: the system prompt outlives one-off prompts of the same length. */
static void test_kinds(void **state)
{
    (void)state;
    struct fake f;
    open_plain(&f, 256, 3);
    fake_text(text, 0, CAP, 1);
    int32_t at = 100;
    turn_at(&f, &f.seq[0], text, 100, &at, 1, HG_CACHE_SYSTEM);
    hg_cache_release(f.c, &f.seq[0]);
    for (uint64_t k = 0; k < 20; k++) {
        fake_text(text, 0, CAP, 50 + k);
        turn_at(&f, &f.seq[0], text, 100, &at, 1, HG_CACHE_END);
        hg_cache_release(f.c, &f.seq[0]);
    }
    fake_text(text, 0, CAP, 1);
    assert_int_equal(turn_gen(&f, text, 130, 130), 100);
    fake_close(&f);
}

/* A page that two entries share left the device; one of them comes back and runs on another way: what
 * the other holds behind the fork stays as it was. */
static void test_fork_after_promotion(void **state)
{
    (void)state;
    static hg_tok a[512], b[512];
    struct fake f;
    struct hg_cache_params p = fake_params(&f, 8, 4);
    p.host_bytes = 1 << 20;
    assert_int_equal(fake_open(&f, &p), HG_OK);
    fake_text(a, 0, 512, 1);
    memcpy(b, a, sizeof b);
    fake_text(b, 70, 512, 2);
    struct hg_seq *s = &f.seq[0];
    assert_true(hg_cache_reserve(f.c, s, 100));
    fake_run(&f, s, a, 70);
    assert_true(hg_cache_publish(f.c, a, s, HG_CACHE_USER));
    fake_run(&f, s, a, 100);
    assert_true(hg_cache_publish(f.c, a, s, HG_CACHE_USER));
    hg_cache_release(f.c, s);
    assert_true(hg_cache_reserve(f.c, s, 8 * P)); /* both leave the device */
    hg_cache_release(f.c, s);
    assert_int_equal(fake_turn(&f, s, b, 110), 70);
    hg_cache_publish(f.c, b, s, HG_CACHE_USER);
    hg_cache_release(f.c, s);
    assert_int_equal(fake_turn(&f, s, a, 101), 100); /* fake_turn verifies what it is given */
    hg_cache_release(f.c, s);
    hg_cache_check(f.c);
    fake_close(&f);
}

/* The work of one lookup, publish and restore must not grow with the number of tokens squared: a
 * line of many checkpoints in one conversation stays quick (seconds would show). */
static void test_long_line(void **state)
{
    (void)state;
    struct fake f;
    open_plain(&f, SEQ_PAGES + 2, CAP);
    fake_text(text, 0, CAP, 1);
    assert_true(hg_cache_reserve(f.c, &f.seq[0], CAP));
    for (int32_t n = 1; n <= CAP; n++) {
        fake_run(&f, &f.seq[0], text, n);
        assert_true(hg_cache_publish(f.c, text, &f.seq[0], HG_CACHE_INTERVAL));
    }
    hg_cache_release(f.c, &f.seq[0]);
    for (int32_t n = 2; n <= CAP; n += 97) {
        assert_int_equal(fake_turn(&f, &f.seq[0], text, n), n - 1);
        hg_cache_release(f.c, &f.seq[0]);
    }
    assert_int_equal(fake_stats(&f).n_pages_free, 2);
    fake_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append_only),
        cmocka_unit_test(test_same_prompt_twice),
        cmocka_unit_test(test_branch_and_edit),
        cmocka_unit_test(test_page_edges),
        cmocka_unit_test(test_tiny_prompts),
        cmocka_unit_test(test_partial_page_is_private),
        cmocka_unit_test(test_pages_are_shared),
        cmocka_unit_test(test_slot_pressure),
        cmocka_unit_test(test_page_pressure),
        cmocka_unit_test(test_restore_without_pages),
        cmocka_unit_test(test_small_budgets),
        cmocka_unit_test(test_interleaved),
        cmocka_unit_test(test_host_tier),
        cmocka_unit_test(test_promote),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_device_copy_grows),
        cmocka_unit_test(test_fork_after_promotion),
        cmocka_unit_test(test_long_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
