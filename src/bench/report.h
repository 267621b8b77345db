/* report.h: what a replay came to, as JSON for machines and, from that, as a table for people. */
#ifndef HG_BENCH_REPORT_H
#define HG_BENCH_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "bench/replay.h"

/* {"turns", "issued", "failed", "missing", "seconds", ..., "per_turn":[..]}: a new reference.
 * Figures that cannot be had (no usage, no scorable turn) are null. */
json_t *hg_report_json(const struct hg_replay *r);
void hg_report_print(const json_t *report, FILE *out);

#endif
