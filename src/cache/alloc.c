#include "cache/cache_impl.h"

#include <stdlib.h>

bool (*cache_alloc_fails)(void);

void *cache_alloc(size_t n)
{
    if (cache_alloc_fails && cache_alloc_fails()) return NULL;
    return calloc(1, n ? n : 1);
}

void cache_free(void *p)
{
    free(p);
}
