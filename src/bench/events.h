/* events.h: the server-sent events of a chat stream, read as the MLPerf harness reads them.
 *
 * Events end with LF LF and nothing else (a stream of CRLF CRLF is one event, found only at its
 * end). Of an event, each line "data:", an optional blank, "{...}" is a payload; [DONE], comments
 * and other fields are nothing. */
#ifndef HG_BENCH_EVENTS_H
#define HG_BENCH_EVENTS_H

#include "base/buf.h"

/* An event that grows past this is dropped with the rest of its stream. */
#define HG_EVENT_MAX ((size_t)16 << 20)

struct hg_events {
    struct hg_buf buf; /* of the event that has not ended */
    size_t scan;       /* buf[0..scan) holds no LF LF */
    bool failed;       /* too long an event, or no memory */
};

typedef void hg_event_fn(void *ctx, const char *json, size_t n);

void hg_events_init(struct hg_events *e);
void hg_events_fini(struct hg_events *e);
void hg_events_feed(struct hg_events *e, const char *p, size_t n, hg_event_fn *fn, void *ctx);
/* The stream is over: what is left counts as an event. */
void hg_events_end(struct hg_events *e, hg_event_fn *fn, void *ctx);

#endif
