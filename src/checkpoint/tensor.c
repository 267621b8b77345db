#include "checkpoint/tensor.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    const char *name;
    uint8_t size;
} dtypes[HG_N_DTYPES] = {
    [HG_F32] = {"F32", 4},         [HG_F16] = {"F16", 2},         [HG_BF16] = {"BF16", 2},
    [HG_F8_E4M3] = {"F8_E4M3", 1}, [HG_F8_E5M2] = {"F8_E5M2", 1}, [HG_U8] = {"U8", 1},
    [HG_I8] = {"I8", 1},           [HG_I16] = {"I16", 2},         [HG_I32] = {"I32", 4},
    [HG_I64] = {"I64", 8},         [HG_F64] = {"F64", 8},         [HG_BOOL] = {"BOOL", 1},
};

const char *hg_dtype_name(enum hg_dtype t)
{
    return (unsigned)t < HG_N_DTYPES ? dtypes[t].name : "?";
}

size_t hg_dtype_size(enum hg_dtype t)
{
    return (unsigned)t < HG_N_DTYPES ? dtypes[t].size : 0;
}

int64_t hg_tensor_count(const struct hg_tensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

const char *hg_shape_text(int32_t rank, const int64_t *shape, char *buf, size_t n)
{
    int at = snprintf(buf, n, "[");
    for (int32_t i = 0; i < rank && (size_t)at < n; i++)
        at += snprintf(buf + at, n - (size_t)at, "%s%" PRId64, i ? ", " : "", shape[i]);
    if ((size_t)at < n) snprintf(buf + at, n - (size_t)at, "]");
    return buf;
}
