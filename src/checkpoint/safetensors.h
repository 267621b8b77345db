/* safetensors.h: one safetensors file.
 *
 *   u64 little-endian N | N bytes of JSON (may be space-padded) | data
 *   JSON: { "__metadata__": {string: string}?, NAME: {"dtype": "BF16", "shape": [..],
 *           "data_offsets": [begin, end]} ... }      offsets relative to the data
 *
 * Refused, each with an error that names file, tensor and value: N beyond the file or 100 MB;
 * JSON that is not such an object; duplicate names; unknown dtype; rank > 8; negative or
 * overflowing shapes; end - begin != product(shape) * size; ranges outside the data; ranges that
 * overlap; holes in the data or bytes behind the last tensor. */
#ifndef HG_CHECKPOINT_SAFETENSORS_H
#define HG_CHECKPOINT_SAFETENSORS_H

#include "base/arena.h"
#include "base/err.h"
#include "checkpoint/tensor.h"

/* Parses a whole file image. `file` (for messages; borrowed) and `image` must outlive the views;
 * the views and names live in `arena`. */
enum hg_status hg_safetensors_parse(const char *file, const uint8_t *image, size_t n_image,
                                    struct hg_arena *arena, struct hg_tensor **out, size_t *n_out,
                                    struct hg_err *err);

#endif
