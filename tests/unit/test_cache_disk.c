/* The disk tier of the cache: restart, kill -9, damaged and foreign files, a directory that cannot
 * be used, no space left, two servers. Whatever is restored is compared with computing it anew. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "cache/disk_io.h"
#include "cache_fixture.inc"

enum { P = HG_PAGE_TOKENS, CHATS = 5, SYSTEM = 90, CAP = 700, PATH_CAP = 300 };

static char dir[64];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/hg-cache-disk-XXXXXX");
    hg_log_set(log_sink, HG_LOG_WARN);
    n_log = 0;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    disk_write_fails = NULL;
    hg_log_set(NULL, HG_LOG_WARN);
    fake_remove_dir(dir);
    return 0;
}

static struct hg_cache_params disk_params(struct fake *f, int32_t n_slots)
{
    struct hg_cache_params p = fake_params(f, 64, n_slots);
    p.disk_dir = dir;
    p.disk_bytes = 1 << 22;
    return p;
}

static void open_disk(struct fake *f, int32_t n_slots)
{
    struct hg_cache_params p = disk_params(f, n_slots);
    assert_int_equal(fake_open(f, &p), HG_OK);
}

/* The tokens of chat k: all begin with the same system prompt. */
static void chat(hg_tok *tokens, uint64_t k)
{
    fake_text(tokens, 0, SYSTEM, 1);
    fake_text(tokens, SYSTEM, CAP, 100 + k);
}

/* A turn of chat k with the generation prompt at n. Returns what was cached. */
static int32_t turn(struct fake *f, uint64_t k, int32_t n)
{
    hg_tok tokens[CAP];
    struct hg_seq *s = &f->seq[0];
    chat(tokens, k);
    int32_t cached = fake_turn(f, s, tokens, n);
    hg_cache_publish(f->c, tokens, s, HG_CACHE_GENERATION);
    hg_cache_release(f->c, s);
    hg_cache_check(f->c);
    return cached;
}

/* Restores what there is of chat k, longest first and then ever shorter. Returns the longest. */
static int32_t probe(struct fake *f, uint64_t k)
{
    hg_tok tokens[CAP];
    chat(tokens, k);
    int32_t longest = 0;
    for (int32_t n = CAP; n > 1;) {
        struct hg_cache_hit hit = hg_cache_lookup(f->c, tokens, n);
        if (hit.n_tokens == 0) break;
        bool ok = hg_cache_restore(f->c, hit, &f->seq[0]);
        assert_int_equal(f->seq[0].n_past, ok ? hit.n_tokens : 0);
        fake_verify(f, &f->seq[0], tokens);
        hg_cache_release(f->c, &f->seq[0]);
        hg_cache_check(f->c);
        if (ok && hit.n_tokens > longest) longest = hit.n_tokens;
        n = hit.n_tokens; /* a proper prefix of this one next */
    }
    return longest;
}

static void test_restart(void **state)
{
    (void)state;
    struct fake f;
    open_disk(&f, 8);
    for (uint64_t k = 0; k < CHATS; k++)
        for (int32_t n = 128; n <= 320; n += 64 + (int32_t)k) turn(&f, k, n);
    fake_close(&f); /* SIGTERM */
    for (int32_t again = 0; again < 2; again++) {
        open_disk(&f, 8);
        assert_int_equal(n_log, 0);
        for (uint64_t k = 0; k < CHATS; k++) {
            int32_t last = 128 + (k ? 2 : 3) * (64 + (int32_t)k);
            assert_int_equal(turn(&f, k, 321 + again), again ? 321 : last);
        }
        assert_int_equal(fake_stats(&f).n_restored_disk, CHATS);
        fake_close(&f);
    }
    open_disk(&f, 0); /* no slot on the device: straight into the sequence */
    for (uint64_t k = 0; k < CHATS; k++) assert_int_equal(turn(&f, k, 330), 322);
    fake_close(&f);
}

static int32_t count_files(const char *ext)
{
    DIR *d = opendir(dir);
    struct dirent *de;
    int32_t n = 0;
    while ((de = readdir(d))) {
        size_t len = strlen(de->d_name), e = strlen(ext);
        n += len >= e && strcmp(de->d_name + len - e, ext) == 0;
    }
    closedir(d);
    return n;
}

/* Pages that entries share are stored once, and go with the last entry. */
static void test_shared_pages(void **state)
{
    (void)state;
    struct fake f;
    open_disk(&f, 8);
    turn(&f, 0, 4 * P);
    while (hg_cache_idle(f.c)) continue;
    assert_int_equal(count_files(".page"), 4);
    turn(&f, 0, 4 * P + 20);
    turn(&f, 0, 6 * P);
    turn(&f, 1, 3 * P);
    while (hg_cache_idle(f.c)) continue;
    assert_int_equal(count_files(".page"), 6 + 2); /* the system prompt fills one page */
    assert_int_equal(count_files(".entry"), 3);    /* one was superseded before it was written */
    assert_false(hg_cache_idle(f.c));
    hg_cache_clear(f.c);
    assert_int_equal(count_files(".page") + count_files(".entry"), 0);
    assert_int_equal(fake_stats(&f).disk_bytes, 0);
    fake_close(&f);
}

/* A child serves chats until it is killed at a random moment. */
static void serve_until_killed(uint64_t seed)
{
    static struct fake f;
    struct hg_cache_params p = disk_params(&f, 3);
    struct hg_rng r = {seed};
    int32_t at[CHATS];
    p.host_bytes = 6000;
    p.disk_bytes = 60000;
    if (fake_open(&f, &p) != HG_OK) _exit(1);
    for (int32_t k = 0; k < CHATS; k++) at[k] = SYSTEM + 1 + (int32_t)hg_rng_below(&r, 100);
    for (;;) {
        uint32_t k = hg_rng_below(&r, CHATS);
        turn(&f, k, at[k]);
        at[k] += 1 + (int32_t)hg_rng_below(&r, 90);
        if (at[k] > CAP - 1) at[k] = SYSTEM + 1;
        if (hg_rng_below(&r, 2)) hg_cache_idle(f.c);
    }
}

static uint64_t seed0;

static void test_kill(void **state)
{
    (void)state;
    struct hg_rng r = {seed0};
    int32_t found = 0, longest = 0;
    for (int32_t i = 0; i < 60; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) serve_until_killed(hg_rng_u64(&r) + (uint64_t)i);
        uint32_t us = 1000 + hg_rng_below(&r, 25000);
        nanosleep(&(struct timespec){0, us * 1000L}, NULL);
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it has not failed by itself */
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        struct fake f;
        struct hg_cache_params p = disk_params(&f, 2);
        p.disk_bytes = 60000;
        assert_int_equal(fake_open(&f, &p), HG_OK);
        found += fake_stats(&f).n_entries;
        for (uint64_t k = 0; k < CHATS; k++) {
            int32_t n = probe(&f, k);
            if (n > longest) longest = n;
        }
        assert_int_equal(fake_stats(&f).n_dropped_damaged, 0);
        assert_int_equal(count_files(".tmp"), 0);
        fake_close(&f);
    }
    assert_int_equal(n_log, 0);
    printf("60 kills: %d entries found, longest %d tokens\n", found, longest);
    assert_true(found > 0);
}

/* ----------------------------------------------------------------------- damaged files -- */

static void fill_dir(void)
{
    struct fake f;
    open_disk(&f, 8);
    for (uint64_t k = 0; k < 3; k++) {
        turn(&f, k, 150 + 32 * (int32_t)k);
        hg_cache_idle(f.c);
        turn(&f, k, 300 + 20 * (int32_t)k);
    }
    fake_close(&f);
}

/* The i-th file (by directory order) with one of our extensions. */
static bool nth_file(int32_t i, char path[PATH_CAP])
{
    DIR *d = opendir(dir);
    struct dirent *de;
    bool found = false;
    while (!found && (de = readdir(d)))
        if (strchr(de->d_name, '.') > de->d_name && i-- == 0) {
            snprintf(path, PATH_CAP, "%s/%s", dir, de->d_name);
            found = true;
        }
    closedir(d);
    return found;
}

static void empty_dir(void)
{
    fake_remove_dir(dir);
    assert_int_equal(mkdir(dir, 0700), 0);
}

static void flip_bit(const char *path, uint64_t bit)
{
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    uint8_t b;
    assert_int_equal(pread(fd, &b, 1, (off_t)(bit / 8)), 1);
    b ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(pwrite(fd, &b, 1, (off_t)(bit / 8)), 1);
    close(fd);
}

/* All that can be had is right, and a second start finds nothing more to complain about. */
static void probe_twice(int32_t n_chats)
{
    for (int32_t again = 0; again < 2; again++) {
        struct fake f;
        open_disk(&f, 8);
        for (int32_t k = 0; k < n_chats; k++) probe(&f, (uint64_t)k);
        fake_close(&f);
    }
}

static void test_damage(void **state)
{
    (void)state;
    struct hg_rng r = {seed0};
    int32_t n_files, noticed = 0, tries = 150;
    char path[PATH_CAP];
    for (int32_t i = 0; i < tries; i++) {
        empty_dir();
        fill_dir();
        for (n_files = 0; nth_file(n_files, path);) n_files++;
        assert_true(n_files > 8);
        nth_file((int32_t)hg_rng_below(&r, (uint32_t)n_files), path);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        if (i % 3 == 0) /* also to nothing */
            assert_int_equal(truncate(path, hg_rng_below(&r, (uint32_t)st.st_size)), 0);
        else if (i % 3 == 1)
            flip_bit(path, hg_rng_below(&r, (uint32_t)st.st_size * 8));
        else
            assert_int_equal(unlink(path), 0);
        n_log = 0;
        probe_twice(3);
        noticed += n_log > 0;
        n_log = 0;
        probe_twice(3);
        assert_in_range(n_log, 0, 4); /* only what is not ours any more is still there */
    }
    printf("%d damaged files, %d noticed in the log\n", tries, noticed);
    assert_true(noticed > tries / 2);
}

/* The flip of each single bit of the head of an entry. */
static void test_every_head_bit(void **state)
{
    (void)state;
    for (uint64_t bit = 0; bit < sizeof(struct disk_head) * 8; bit += 5) {
        char path[PATH_CAP];
        empty_dir();
        struct fake f;
        open_disk(&f, 2);
        turn(&f, 0, 70);
        fake_close(&f);
        int32_t i = 0;
        while (nth_file(i, path) && !strstr(path, ".entry")) i++;
        flip_bit(path, bit);
        open_disk(&f, 2);
        assert_int_equal(fake_stats(&f).n_entries, 0);
        assert_int_equal(turn(&f, 0, 71), 0);
        fake_close(&f);
    }
}

/* Heads that someone made up, checksum and all: a word of the head, the tokens or the page numbers
 * is changed and the head sealed again. */
static void test_forged_heads(void **state)
{
    (void)state;
    struct hg_rng r = {seed0};
    static const uint32_t odd[] = {0, 1, 64, 128, 0x7fffffff, 0x80000000u, 0xffffffffu};
    int32_t n_odd = sizeof odd / sizeof *odd;
    for (int32_t i = 0; i < 150; i++) {
        empty_dir();
        fill_dir();
        char path[PATH_CAP];
        int32_t n_files = 0;
        while (nth_file(n_files, path)) n_files++;
        nth_file((int32_t)hg_rng_below(&r, (uint32_t)n_files), path);
        static uint64_t block[1 << 10];
        int fd = open(path, O_RDWR);
        ssize_t n = read(fd, block, sizeof block);
        struct disk_head *h = (struct disk_head *)block;
        size_t n_head = disk_io_head_bytes(h->is_entry, (int32_t)h->n_tokens);
        assert_true((size_t)n > n_head);
        uint32_t word = hg_rng_below(&r, (uint32_t)n_head / 4), pick = hg_rng_below(&r, 12);
        /* Not what says whose state this is: sealed anew, such a head is as good as a real one. */
        uint32_t tokens = sizeof *h / 4, count = offsetof(struct disk_head, n_tokens) / 4;
        if (word == count || (word >= tokens && word < tokens + h->n_tokens)) word = count + 1;
        ((uint32_t *)block)[word] =
            pick < (uint32_t)n_odd ? odd[pick] : ((uint32_t *)block)[word] + pick - 9;
        disk_io_seal_head(h, n_head);
        assert_int_equal(pwrite(fd, block, n_head, 0), n_head);
        close(fd);
        probe_twice(3);
    }
}

/* A page file that goes bad while the server runs costs the entries that need it their files, and
 * they can be written again. */
static void test_page_lost(void **state)
{
    (void)state;
    struct fake f;
    open_disk(&f, 8);
    for (uint64_t k = 0; k < 3; k++) turn(&f, k, 150);
    fake_close(&f);
    open_disk(&f, 1);
    char path[PATH_CAP];
    int32_t first = 0;
    snprintf(path, sizeof path, "%s/%016x.page", dir, 1); /* the system prompt's */
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    flip_bit(path, (uint64_t)st.st_size * 8 - 9);
    first = turn(&f, 0, 160);
    assert_int_equal(first, 0);
    assert_int_equal(n_log, 1);
    assert_int_equal(fake_stats(&f).n_entries, 1);
    assert_int_equal(turn(&f, 1, 160), 0);
    fake_close(&f);
    open_disk(&f, 2);
    assert_int_equal(turn(&f, 0, 170), 160);
    assert_int_equal(turn(&f, 1, 170), 160);
    fake_close(&f);
    assert_int_equal(n_log, 1);
}

/* ------------------------------------------------------------------- not ours, not usable -- */

static void test_other_key_and_version(void **state)
{
    (void)state;
    struct fake f;
    open_disk(&f, 2);
    turn(&f, 0, 150);
    fake_close(&f);
    struct hg_cache_params p = disk_params(&f, 2);
    p.key[3] ^= 1;
    assert_int_equal(fake_open(&f, &p), HG_OK);
    assert_int_equal(turn(&f, 0, 160), 0);
    fake_close(&f);
    open_disk(&f, 2); /* the first model's files are still there */
    assert_int_equal(turn(&f, 0, 160), 150);
    fake_close(&f);
    p = disk_params(&f, 2); /* but go first when room is short */
    p.key[3] ^= 2;
    p.disk_bytes = 4000;
    assert_int_equal(fake_open(&f, &p), HG_OK);
    assert_int_equal(turn(&f, 0, 150), 0);
    fake_close(&f);
    assert_int_equal(fake_open(&f, &p), HG_OK);
    assert_int_equal(turn(&f, 0, 160), 150);
    fake_close(&f);
    assert_int_equal(n_log, 0);
    char path[PATH_CAP];
    for (int32_t i = 0; nth_file(i, path); i++)
        flip_bit(path, offsetof(struct disk_head, version) * 8 + 1);
    assert_int_equal(fake_open(&f, &p), HG_OK);
    assert_int_equal(turn(&f, 0, 160), 0);
    fake_close(&f);
}

static void write_file(const char *name, const char *content)
{
    char path[PATH_CAP];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *fp = fopen(path, "w");
    assert_non_null(fp);
    fputs(content, fp);
    fclose(fp);
}

static void test_strangers_are_left_alone(void **state)
{
    (void)state;
    struct fake f;
    write_file("notes.txt", "HGCACHE1 but not named like ours");
    write_file("00000000000000aa.entry", "somebody else's");
    write_file("00000000000000ab.page.tmp", "somebody else's");
    write_file("00000000000000ac.page.tmp", "HGCACHE1"); /* ours, unfinished */
    write_file("00000000000000ad.entry", "HGC");         /* ours, truncated */
    open_disk(&f, 2);
    assert_int_equal(n_log, 2);
    turn(&f, 0, 150);
    fake_close(&f);
    open_disk(&f, 2);
    assert_int_equal(n_log, 3);
    assert_non_null(strstr(last_log, "00000000000000aa.entry: not a cache file"));
    assert_int_equal(turn(&f, 0, 160), 150);
    fake_close(&f);
    assert_int_equal(count_files("notes.txt"), 1);
    assert_int_equal(count_files("aa.entry"), 1);
    assert_int_equal(count_files(".tmp"), 1);
    assert_int_equal(count_files("ad.entry"), 0);
}

static void test_unusable_directory(void **state)
{
    (void)state;
    char path[PATH_CAP];
    struct fake f;
    struct hg_cache_params p = disk_params(&f, 2);
    write_file("file", "");
    snprintf(path, sizeof path, "%s/file/cache", dir);
    p.disk_dir = path;
    assert_int_equal(fake_open(&f, &p), HG_OK);
    assert_int_equal(n_log, 1);
    assert_non_null(strstr(last_log, path));
    turn(&f, 0, 150);
    assert_int_equal(turn(&f, 0, 160), 150);
    assert_false(hg_cache_idle(f.c));
    fake_close(&f);
    if (geteuid() != 0) {
        chmod(dir, 0500);
        p.disk_dir = dir;
        assert_int_equal(fake_open(&f, &p), HG_OK);
        assert_int_equal(n_log, 2);
        fake_close(&f);
        chmod(dir, 0700);
    }
    snprintf(path, sizeof path, "%s/a/b", dir); /* missing parents are made */
    p.disk_dir = path;
    assert_int_equal(fake_open(&f, &p), HG_OK);
    fake_close(&f);
    fake_remove_dir(path);
    path[strlen(path) - 2] = 0;
    fake_remove_dir(path);
}

static size_t disk_left;

static int no_space(size_t n)
{
    if (n > disk_left) return ENOSPC;
    disk_left -= n;
    return 0;
}

/* The disk fills up at every possible write: one line, no file half written, all goes on. */
static void test_disk_full(void **state)
{
    (void)state;
    for (size_t left = 0; left < 9000; left += 331) {
        empty_dir();
        struct fake f;
        open_disk(&f, 1);
        disk_left = left;
        disk_write_fails = no_space;
        n_log = 0;
        for (int32_t t = 0; t < 3; t++)
            for (uint64_t k = 0; k < 3; k++) turn(&f, k, 140 + 40 * t);
        fake_close(&f);
        assert_true(n_log <= 1 && (n_log == 1 || left > 6000));
        if (n_log) assert_non_null(strstr(last_log, "No space left"));
        disk_write_fails = NULL;
        assert_int_equal(count_files(".tmp"), 0);
        open_disk(&f, 4);
        for (uint64_t k = 0; k < 3; k++) probe(&f, k);
        assert_int_equal(fake_stats(&f).n_dropped_damaged, 0);
        fake_close(&f);
    }
}

static void test_budget(void **state)
{
    (void)state;
    struct fake f;
    struct hg_cache_params p = disk_params(&f, 1);
    p.disk_bytes = 15000;
    assert_int_equal(fake_open(&f, &p), HG_OK);
    for (int32_t t = 0; t < 6; t++)
        for (uint64_t k = 0; k < CHATS; k++) {
            turn(&f, k, 100 + 30 * t);
            assert_true(fake_stats(&f).disk_bytes <= p.disk_bytes);
        }
    fake_close(&f);
    p.disk_bytes = 5500; /* less than what is there */
    assert_int_equal(fake_open(&f, &p), HG_OK);
    assert_true(fake_stats(&f).disk_bytes <= 5500);
    int32_t found = 0;
    for (uint64_t k = 0; k < CHATS; k++) found += probe(&f, k) > 0;
    assert_true(found > 0);
    fake_close(&f);
    assert_int_equal(n_log, 0);
}

static void test_two_servers(void **state)
{
    (void)state;
    struct fake a, b;
    open_disk(&a, 2);
    turn(&a, 0, 150);
    hg_cache_idle(a.c);
    open_disk(&b, 2);
    assert_int_equal(n_log, 1);
    assert_non_null(strstr(last_log, "another server"));
    assert_int_equal(turn(&b, 0, 150), 0);
    assert_int_equal(turn(&b, 0, 160), 150);
    assert_false(hg_cache_idle(b.c));
    fake_close(&b);
    assert_int_equal(turn(&a, 0, 160), 150);
    fake_close(&a);
    open_disk(&b, 2);
    assert_int_equal(turn(&b, 0, 170), 160);
    fake_close(&b);
    assert_int_equal(n_log, 1);
}

int main(int argc, char **argv)
{
    seed0 = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed0);
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_restart),
        T(test_shared_pages),
        T(test_kill),
        T(test_damage),
        T(test_every_head_bit),
        T(test_forged_heads),
        T(test_page_lost),
        T(test_disk_full),
        T(test_other_key_and_version),
        T(test_budget),
        T(test_strangers_are_left_alone),
        T(test_two_servers),
        T(test_unusable_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
