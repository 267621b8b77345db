#include "text/stops.h"

#include <string.h>

void hg_stops_init(struct hg_stops *s, const char *const *list, int32_t n)
{
    s->list = list;
    s->n = list ? n : 0;
    hg_buf_init(&s->held);
}

void hg_stops_fini(struct hg_stops *s)
{
    hg_buf_fini(&s->held);
}

/* Where the stop string that is complete first begins; of several that end there, the longest.
 * False when there is none. The choice is the one that a feed byte by byte would make. */
static bool find(const struct hg_stops *s, size_t *begin)
{
    size_t best_end = SIZE_MAX;
    for (int32_t i = 0; i < s->n; i++) {
        size_t len = strlen(s->list[i]);
        const char *p = len ? memmem(s->held.data, s->held.len, s->list[i], len) : NULL;
        if (!p) continue;
        size_t at = (size_t)(p - s->held.data), end = at + len;
        if (end > best_end || (end == best_end && at >= *begin)) continue;
        best_end = end;
        *begin = at;
    }
    return best_end != SIZE_MAX;
}

/* Length of the longest end of the held text that begins some stop string. */
static size_t count_open(const struct hg_stops *s)
{
    size_t best = 0;
    for (int32_t i = 0; i < s->n; i++) {
        size_t n = strlen(s->list[i]);
        if (n) n--;
        if (n > s->held.len) n = s->held.len;
        while (n > best && memcmp(s->held.data + s->held.len - n, s->list[i], n) != 0) n--;
        if (n > best) best = n;
    }
    return best;
}

bool hg_stops_feed(struct hg_stops *s, const char *text, size_t n, struct hg_buf *out)
{
    if (!n) return false;
    hg_buf_add(&s->held, text, n);
    if (s->held.oom) {
        out->oom = true; /* the one buffer that the caller looks at */
        return false;
    }
    size_t begin = 0;
    bool found = find(s, &begin);
    size_t n_free = found ? begin : s->held.len - count_open(s);
    hg_buf_add(out, s->held.data, n_free);
    if (found)
        hg_buf_clear(&s->held);
    else
        hg_buf_shift(&s->held, n_free);
    return found;
}

void hg_stops_finish(struct hg_stops *s, struct hg_buf *out)
{
    if (s->held.len) hg_buf_add(out, s->held.data, s->held.len);
    hg_buf_clear(&s->held);
}
