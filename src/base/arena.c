#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BLOCK = 64 * 1024, ARENA_ALIGN = 16 };

struct hg_arena_block {
    struct hg_arena_block *next;
    size_t used, size; /* of data */
    _Alignas(ARENA_ALIGN) char data[];
};

void hg_arena_init(struct hg_arena *a)
{
    a->head = NULL;
    a->n_bytes = 0;
}

void *hg_arena_alloc(struct hg_arena *a, size_t size)
{
    if (size > SIZE_MAX - sizeof(struct hg_arena_block) - ARENA_BLOCK) return NULL;
    size = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    struct hg_arena_block *b = a->head;
    if (!b || b->size - b->used < size) {
        size_t want = size > ARENA_BLOCK / 4 ? size : ARENA_BLOCK;
        b = calloc(1, sizeof *b + want);
        if (!b) return NULL;
        b->size = want;
        if (a->head && want == size) { /* a big one: keep filling the current block */
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
    }
    void *p = b->data + b->used;
    b->used += size;
    a->n_bytes += size;
    return p;
}

void *hg_arena_array(struct hg_arena *a, size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : hg_arena_alloc(a, bytes);
}

char *hg_arena_strndup(struct hg_arena *a, const char *s, size_t n)
{
    char *p = hg_arena_alloc(a, n + 1);
    if (p && n) memcpy(p, s, n);
    return p;
}

char *hg_arena_printf(struct hg_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : hg_arena_alloc(a, (size_t)n + 1);
    if (!p) return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}

void hg_arena_fini(struct hg_arena *a)
{
    for (struct hg_arena_block *b = a->head; b;) {
        struct hg_arena_block *next = b->next;
        free(b);
        b = next;
    }
    hg_arena_init(a);
}
