/* arena.h: many allocations, one free (the nginx pool). Not thread-safe. */
#ifndef HG_BASE_ARENA_H
#define HG_BASE_ARENA_H

#include <stddef.h>

struct hg_arena {
    struct hg_arena_block *head; /* newest block; NULL when empty */
    size_t n_bytes;              /* handed out so far */
};

void hg_arena_init(struct hg_arena *a);
/* Zeroed memory aligned to 16, or NULL when memory is out. size 0 gives a valid pointer. */
void *hg_arena_alloc(struct hg_arena *a, size_t size);
/* Zeroed array of n elements; NULL also when n*size overflows. */
void *hg_arena_array(struct hg_arena *a, size_t n, size_t size);
/* Copy of s[0..n) with a NUL behind it. */
char *hg_arena_strndup(struct hg_arena *a, const char *s, size_t n);
char *hg_arena_printf(struct hg_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void hg_arena_fini(struct hg_arena *a);

#endif
