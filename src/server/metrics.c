#include "server/metrics.h"

/* Upper bounds in seconds: from a token on a GPU to a long prefill on a CPU. */
static const double bounds[HG_METRIC_BUCKETS] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                                 0.2,   0.5,   1,     2,    5,    20,   60};

static void observe(struct hg_histogram *h, double seconds)
{
    int i = 0;
    while (i < HG_METRIC_BUCKETS && seconds > bounds[i]) i++;
    h->count[i]++;
    h->n++;
    h->sum += seconds;
}

void hg_metrics_add(struct hg_metrics *m, const struct hg_event *last)
{
    const struct hg_timings *t = &last->timings;
    bool failed = last->type == HG_EV_ERROR || last->finish == HG_FINISH_CANCELED;
    if (failed) {
        m->n_failed++;
        return;
    }
    m->n_ok++;
    observe(&m->ttft, t->ttft_s);
    observe(&m->latency, t->queue_s + t->prefill_s + t->decode_s);
    if (last->usage.n_completion > 1)
        observe(&m->per_token, t->decode_s / (last->usage.n_completion - 1));
}

static void head(struct hg_buf *b, const char *name, const char *type, const char *help)
{
    hg_buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void histogram(struct hg_buf *b, const char *name, const char *help,
                      const struct hg_histogram *h)
{
    uint64_t below = 0;
    head(b, name, "histogram", help);
    for (int i = 0; i < HG_METRIC_BUCKETS; i++) {
        below += h->count[i];
        hg_buf_printf(b, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)below);
    }
    hg_buf_printf(b, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.6f\n%s_count %llu\n", name,
                  (unsigned long long)h->n, name, h->sum, name, (unsigned long long)h->n);
}

void hg_metrics_write(const struct hg_metrics *m, const struct hg_stats *s, struct hg_buf *out)
{
    /* In rows: one metric each; those of one name and another label follow each other. */
    const struct {
        const char *name, *label, *type, *help;
        uint64_t value;
    } row[] = {
        {"hedge_requests_running", "", "gauge", "Requests on the device.", (uint64_t)s->n_running},
        {"hedge_requests_waiting", "", "gauge", "Requests in the queue.", (uint64_t)s->n_waiting},
        {"hedge_requests_total", "{result=\"ok\"}", "counter", "Requests by how they ended.",
         m->n_ok},
        {"hedge_requests_total", "{result=\"failed\"}", "", "", m->n_failed},
        {"hedge_requests_total", "{result=\"left\"}", "", "", m->n_left},
        {"hedge_prompt_tokens_total", "", "counter", "Prompt tokens.", s->n_prompt_tokens},
        {"hedge_prompt_tokens_cached_total", "", "counter", "Prompt tokens taken from the cache.",
         s->n_cached_tokens},
        {"hedge_completion_tokens_total", "", "counter", "Tokens generated.",
         s->n_completion_tokens},
        {"hedge_steps_total", "", "counter", "Steps of the model.", s->n_steps},
        {"hedge_cache_lookups_total", "", "counter", "Prefix lookups.", s->cache_lookups},
        {"hedge_cache_hits_total", "{tier=\"device\"}", "counter", "Prefix hits by tier.",
         s->cache_from_device},
        {"hedge_cache_hits_total", "{tier=\"host\"}", "", "", s->cache_from_host},
        {"hedge_cache_hits_total", "{tier=\"disk\"}", "", "", s->cache_from_disk},
        {"hedge_cache_snapshots_total", "", "counter", "Snapshots taken.", s->cache_snapshots},
        {"hedge_cache_evictions_total", "", "counter", "Entries evicted from a tier.",
         s->cache_evictions},
        {"hedge_cache_damaged_total", "", "counter", "Damaged files ignored.", s->cache_damaged},
        {"hedge_cache_entries", "", "gauge", "Entries in the cache.", (uint64_t)s->cache_entries},
        {"hedge_cache_bytes", "{tier=\"device\"}", "gauge", "Bytes that entries take by tier.",
         s->cache_device_bytes},
        {"hedge_cache_bytes", "{tier=\"host\"}", "", "", s->cache_host_bytes},
        {"hedge_cache_bytes", "{tier=\"disk\"}", "", "", s->cache_disk_bytes},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (row[i].type[0]) head(out, row[i].name, row[i].type, row[i].help);
        hg_buf_printf(out, "%s%s %llu\n", row[i].name, row[i].label,
                      (unsigned long long)row[i].value);
    }
    histogram(out, "hedge_ttft_seconds", "From submit to the first token.", &m->ttft);
    histogram(out, "hedge_request_seconds", "From submit to the last token.", &m->latency);
    histogram(out, "hedge_token_seconds", "Per token after the first.", &m->per_token);
}
