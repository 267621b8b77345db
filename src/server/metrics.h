/* metrics.h: what GET /metrics tells, in the Prometheus text format 0.0.4. Histograms are of whole
 * requests, taken on the loop thread; everything else is the engine's own counters. */
#ifndef HG_SERVER_METRICS_H
#define HG_SERVER_METRICS_H

#include "base/buf.h"
#include "hedge.h"

enum { HG_METRIC_BUCKETS = 14 };

struct hg_histogram {
    uint64_t count[HG_METRIC_BUCKETS + 1]; /* the last is beyond every bound */
    uint64_t n;
    double sum; /* seconds */
};

struct hg_metrics {
    struct hg_histogram ttft, latency, per_token; /* per_token: after the first */
    uint64_t n_ok, n_failed, n_left; /* requests that reached the engine, by how they ended */
};

/* Notes a request's last event. */
void hg_metrics_add(struct hg_metrics *m, const struct hg_event *last);
/* Appends the whole page. */
void hg_metrics_write(const struct hg_metrics *m, const struct hg_stats *s, struct hg_buf *out);

#endif
