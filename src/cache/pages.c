#include "cache/pages.h"

#include <stdlib.h>
#include <string.h>

enum hg_status hg_pages_init(struct hg_pages *p, int32_t n_total, struct hg_err *err)
{
    *p = (struct hg_pages){.n_free = n_total, .n_total = n_total};
    p->free = malloc((size_t)n_total * sizeof *p->free);
    if (!p->free) return hg_fail(err, HG_ENOMEM, "page pool of %d pages: out of memory", n_total);
    for (int32_t i = 0; i < n_total; i++) p->free[i] = n_total - 1 - i; /* low ids first */
    return HG_OK;
}

void hg_pages_fini(struct hg_pages *p)
{
    free(p->free);
    *p = (struct hg_pages){0};
}

bool hg_pages_take(struct hg_pages *p, int32_t n, int32_t *out)
{
    if (n > p->n_free) return false;
    for (int32_t i = 0; i < n; i++) out[i] = p->free[--p->n_free];
    return true;
}

void hg_pages_give(struct hg_pages *p, const int32_t *ids, int32_t n)
{
    hg_assert(p->n_free + n <= p->n_total);
    for (int32_t i = n - 1; i >= 0; i--) p->free[p->n_free++] = ids[i];
}
