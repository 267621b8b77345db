/* ids.h: a pool of reference-counted ids base..base+n-1: device pages and snapshot slots. */
#ifndef HG_CACHE_IDS_H
#define HG_CACHE_IDS_H

#include "base/err.h"

struct ids {
    int32_t base, n_total, n_free;
    int32_t *free; /* [n_total] stack of free ids */
    int32_t *refs; /* [n_total] 0 = free */
};

/* False when memory is out. */
bool ids_init(struct ids *p, int32_t base, int32_t n_total);
void ids_fini(struct ids *p);
/* A free id with one reference. There is one. */
int32_t ids_take(struct ids *p);
void ids_ref(struct ids *p, int32_t id);
/* The last reference frees the id. */
void ids_unref(struct ids *p, int32_t id);

#endif
