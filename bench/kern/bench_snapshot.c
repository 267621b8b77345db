/* bench_snapshot: what taking and restoring a snapshot costs, against the memory's own speed.
 * Usage: bench_snapshot [MODEL_DIR]; tools/bench.sh builds it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "checkpoint/shards.h"
#include "model/step.h"

enum { N_SLOTS = 16, REPEAT = 200 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *t)
{
    qsort(t, REPEAT, sizeof *t, compare);
    return t[REPEAT / 2];
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "models/nano";
    struct hg_err err;
    struct hg_config c;
    struct hg_shards *shards;
    struct hg_backend *be;
    struct hg_weights w;
    struct hg_model *m;
    struct hg_backend_params bp = {.max_rows = 64};
    struct hg_model_params mp = {.n_slots = N_SLOTS,
                                 .n_pages = 64,
                                 .max_rows = 64,
                                 .max_seqs = 1,
                                 .max_want = 1,
                                 .kv = HG_KV_FP8};
    if (hg_config_open(dir, &c, &err) || hg_shards_open(dir, &shards, &err) ||
        hg_backend_open(&bp, &be, &err) || hg_weights_load(&w, &c, shards, be, NULL, NULL, &err) ||
        hg_model_create(&c, &w, be, &mp, &m, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    static double slot[REPEAT], page[REPEAT], plain[REPEAT];
    size_t n = m->slot_bytes;
    char *a = malloc(n * N_SLOTS);
    memset(a, 1, n * N_SLOTS);
    for (int i = 0; i < N_SLOTS; i++) hg_slot_reset(m, i);
    for (int i = 0; i < REPEAT; i++) {
        int dst = (i * 7 + 1) % N_SLOTS, src = (i * 5) % N_SLOTS;
        if (dst == src) dst = (dst + 1) % N_SLOTS;
        double t0 = hg_now();
        hg_slot_copy(m, dst, src);
        double t1 = hg_now();
        memcpy(a + (size_t)dst * n, a + (size_t)src * n, n);
        double t2 = hg_now();
        hg_page_copy(m, i % 32, 32 + i % 32);
        page[i] = hg_now() - t2;
        slot[i] = t1 - t0;
        plain[i] = t2 - t1;
    }
    double s = median(slot), p = median(plain), g = median(page);
    printf(
        "snapshot or restore: %zu bytes, %.0f us, %.1f GB/s; one memcpy of as many: %.0f us, %.1f "
        "GB/s\npage copy (%d tokens): %zu bytes, %.1f us\n",
        n, s * 1e6, (double)n / s / 1e9, p * 1e6, (double)n / p / 1e9, HG_PAGE_TOKENS,
        m->page_bytes, g * 1e6);
    free(a);
    hg_model_free(m);
    hg_backend_close(be);
    hg_shards_close(shards);
    return 0;
}
