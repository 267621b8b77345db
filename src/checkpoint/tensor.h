/* tensor.h: element types and named const views of tensors as stored in a checkpoint. */
#ifndef HG_CHECKPOINT_TENSOR_H
#define HG_CHECKPOINT_TENSOR_H

#include <stddef.h>
#include <stdint.h>

enum hg_dtype {
    HG_F32,
    HG_F16,
    HG_BF16,
    HG_F8_E4M3,
    HG_F8_E5M2,
    HG_U8,
    HG_I8,
    HG_I16,
    HG_I32,
    HG_I64,
    HG_F64,
    HG_BOOL,
    HG_N_DTYPES
};

enum { HG_MAX_RANK = 8 };

const char *hg_dtype_name(enum hg_dtype t); /* safetensors spelling: "F32", "BF16", "F8_E4M3" */
size_t hg_dtype_size(enum hg_dtype t);      /* bytes per element */

struct hg_tensor {
    const char *name;
    enum hg_dtype dtype;
    int32_t rank;               /* 0 = scalar */
    int64_t shape[HG_MAX_RANK]; /* outermost first */
    const void *data;           /* in the file mapping; alignment is NOT guaranteed */
    size_t n_bytes;
    const char *file; /* for messages */
};

int64_t hg_tensor_count(const struct hg_tensor *t); /* elements */
/* "[8192, 2560]" into buf; returns buf. */
const char *hg_shape_text(int32_t rank, const int64_t *shape, char *buf, size_t n);

#endif
