/* state.h: a model's memory as things to copy: state slots (recurrent state and conv windows of
 * every GDN layer) and KV pages (of every attention layer). Snapshots, restores and cache tiers are
 * made of these. An image is the bytes of one over all layers, in layer order; it is only good for the same
 * model, KV type and backend. */
#ifndef HG_MODEL_STATE_H
#define HG_MODEL_STATE_H

#include "model/model.h"

/* Zero state: an empty sequence begins. */
void hg_slot_reset(struct hg_model *m, int32_t slot);
void hg_slot_copy(struct hg_model *m, int32_t dst, int32_t src);
void hg_slot_read(struct hg_model *m, int32_t slot, void *image); /* m->slot_bytes */
void hg_slot_write(struct hg_model *m, int32_t slot, const void *image);

void hg_page_copy(struct hg_model *m, int32_t dst, int32_t src);
void hg_page_read(struct hg_model *m, int32_t page, void *image); /* m->page_bytes */
void hg_page_write(struct hg_model *m, int32_t page, const void *image);

#endif
