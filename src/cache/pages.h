/* pages.h: the pool of KV page ids. A page is HG_PAGE_TOKENS tokens over all attention layers;
 * its bytes are the model's. Used by the scheduler thread only. */
#ifndef HG_CACHE_PAGES_H
#define HG_CACHE_PAGES_H

#include "base/err.h"

struct hg_pages {
    int32_t *free; /* stack of free ids */
    int32_t n_free, n_total;
};

enum hg_status hg_pages_init(struct hg_pages *p, int32_t n_total, struct hg_err *err);
void hg_pages_fini(struct hg_pages *p);
/* Takes n pages into out[0..n), all or none. */
bool hg_pages_take(struct hg_pages *p, int32_t n, int32_t *out);
void hg_pages_give(struct hg_pages *p, const int32_t *ids, int32_t n);

#endif
