/* stops.h: stop strings over a stream. Holds back only what could still become a stop string. */
#ifndef HG_TEXT_STOPS_H
#define HG_TEXT_STOPS_H

#include "base/buf.h"

struct hg_stops {
    const char *const *list; /* borrowed */
    int32_t n;
    struct hg_buf held; /* a proper prefix of some stop string, not yet released */
};
void hg_stops_init(struct hg_stops *s, const char *const *list, int32_t n);
void hg_stops_fini(struct hg_stops *s);
/* Appends to out what is certainly not part of a stop string. True when one was found: out ends
 * before it and the rest is dropped. */
bool hg_stops_feed(struct hg_stops *s, const char *text, size_t n, struct hg_buf *out);
void hg_stops_finish(struct hg_stops *s, struct hg_buf *out); /* releases what was held */

#endif
