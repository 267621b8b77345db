#include "cache/ids.h"

#include "cache/cache_impl.h"

bool ids_init(struct ids *p, int32_t base, int32_t n_total)
{
    *p = (struct ids){.base = base, .n_total = n_total, .n_free = n_total};
    p->free = cache_alloc((size_t)n_total * sizeof *p->free);
    p->refs = cache_alloc((size_t)n_total * sizeof *p->refs);
    if (!p->free || !p->refs) {
        ids_fini(p);
        return false;
    }
    for (int32_t i = 0; i < n_total; i++) p->free[i] = base + n_total - 1 - i; /* low ids first */
    return true;
}

void ids_fini(struct ids *p)
{
    cache_free(p->free);
    cache_free(p->refs);
    *p = (struct ids){0};
}

int32_t ids_take(struct ids *p)
{
    hg_assert(p->n_free > 0);
    int32_t id = p->free[--p->n_free];
    p->refs[id - p->base] = 1;
    return id;
}

void ids_ref(struct ids *p, int32_t id)
{
    hg_assert(p->refs[id - p->base] > 0);
    p->refs[id - p->base]++;
}

void ids_unref(struct ids *p, int32_t id)
{
    hg_assert(p->refs[id - p->base] > 0);
    if (--p->refs[id - p->base] == 0) p->free[p->n_free++] = id;
}
