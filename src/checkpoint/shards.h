/* shards.h: a checkpoint directory's tensors, from model.safetensors or from the shards that
 * model.safetensors.index.json names (mmap; nothing is read but headers). Every tensor name is
 * unique over all shards. The text of hostile headers never ends up in wild memory: see
 * safetensors.h for what is refused. */
#ifndef HG_CHECKPOINT_SHARDS_H
#define HG_CHECKPOINT_SHARDS_H

#include "base/err.h"
#include "checkpoint/tensor.h"

struct hg_shards;

/* Errors: EIO (a file is missing: names it), EFORMAT. */
enum hg_status hg_shards_open(const char *dir, struct hg_shards **out, struct hg_err *err);
void hg_shards_close(struct hg_shards *s);

size_t hg_shards_count(const struct hg_shards *s);                         /* tensors */
const struct hg_tensor *hg_shards_at(const struct hg_shards *s, size_t i); /* sorted by name */
/* NULL if there is none. O(log n). */
const struct hg_tensor *hg_shards_find(const struct hg_shards *s, const char *name);

#endif
