#include "bench/events.h"

#include <string.h>

void hg_events_init(struct hg_events *e)
{
    *e = (struct hg_events){0};
    hg_buf_init(&e->buf);
}

void hg_events_fini(struct hg_events *e)
{
    hg_buf_fini(&e->buf);
}

static void read_line(const char *p, size_t n, hg_event_fn *fn, void *ctx)
{
    static const char data[] = "data:";
    size_t n_data = sizeof data - 1;
    if (n < n_data || memcmp(p, data, n_data) != 0) return;
    const char *begin = p + n_data, *end = p + n;
    while (begin < end && *begin == ' ') begin++;
    while (end > begin && (end[-1] == ' ' || end[-1] == '\r')) end--;
    if (end - begin >= 2 && *begin == '{' && end[-1] == '}') fn(ctx, begin, (size_t)(end - begin));
}

static void read_event(const char *p, size_t n, hg_event_fn *fn, void *ctx)
{
    while (n) {
        const char *lf = memchr(p, '\n', n);
        size_t len = lf ? (size_t)(lf - p) : n;
        read_line(p, len, fn, ctx);
        size_t used = len + (lf ? 1 : 0);
        p += used;
        n -= used;
    }
}

void hg_events_feed(struct hg_events *e, const char *p, size_t n, hg_event_fn *fn, void *ctx)
{
    if (e->failed) return;
    hg_buf_add(&e->buf, p, n);
    size_t done = 0; /* bytes of events that have been read */
    for (;;) {
        const char *at = e->buf.data + e->scan;
        const char *lf = e->scan < e->buf.len ? memmem(at, e->buf.len - e->scan, "\n\n", 2) : NULL;
        if (!lf) break;
        read_event(e->buf.data + done, (size_t)(lf - e->buf.data) - done, fn, ctx);
        done = e->scan = (size_t)(lf - e->buf.data) + 2;
    }
    hg_buf_shift(&e->buf, done);
    e->scan = e->buf.len ? e->buf.len - 1 : 0; /* the last byte may be the first LF of two */
    e->failed = e->buf.oom || e->buf.len > HG_EVENT_MAX;
    if (e->failed) hg_buf_clear(&e->buf);
}

void hg_events_end(struct hg_events *e, hg_event_fn *fn, void *ctx)
{
    if (e->buf.len) read_event(e->buf.data, e->buf.len, fn, ctx);
    hg_buf_clear(&e->buf);
    e->scan = 0;
}
