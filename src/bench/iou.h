/* iou.h: do two turns run the same programs? The "online checker" of MLPerf Edge Agentic.
 *
 * Of each call of the tool `bash` the command text is taken; here-documents and quoted and
 * back-ticked text are blanked out; it is split at || | && ; and line ends; of each piece the
 * leading NAME=value words and wrappers (env, time, sudo ...) are dropped and the next word's base
 * name, lower-cased and without a version ".N[.N]" at its end, is looked up in a fixed table of
 * names. Unknown names count for nothing. The score of a turn is
 *
 *     |recorded n generated| / |recorded u generated|     as multisets. */
#ifndef HG_BENCH_IOU_H
#define HG_BENCH_IOU_H

#include <jansson.h>
#include <stdint.h>

#define HG_IOU_KINDS 64

/* How often each program of the table occurs. */
struct hg_iou_bag {
    int32_t n[HG_IOU_KINDS];
    int32_t total;
};

void hg_iou_add(struct hg_iou_bag *b, const char *command);
/* Calls as [{"name", "arguments": object}]; other tools than bash are skipped. */
void hg_iou_add_calls(struct hg_iou_bag *b, const json_t *calls);
/* -1 when the recorded bag is empty: the turn has no score. */
double hg_iou_score(const struct hg_iou_bag *recorded, const struct hg_iou_bag *generated);

#endif
