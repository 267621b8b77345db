/* checkpoint_writer.h: checkpoints made by hand: a list of tensors, which a test fills and then
 * spoils, and its writing as safetensors shards. Failures fail the running cmocka test. */
#ifndef HG_TESTS_CHECKPOINT_WRITER_H
#define HG_TESTS_CHECKPOINT_WRITER_H

#include "base/rng.h"
#include "checkpoint/tensor.h"

enum { CK_TENSORS = 256 };

struct ck_tensor {
    char name[160];
    enum hg_dtype dtype;
    int32_t rank;
    int64_t shape[4];
    uint8_t *data; /* owned */
    size_t n_bytes;
};

struct ck {
    struct ck_tensor t[CK_TENSORS];
    int32_t n;
    struct hg_rng rng;
};

void ck_init(struct ck *ck, uint64_t seed);
void ck_fini(struct ck *ck);

/* Appends a tensor of zeros. rank 0 = scalar. */
struct ck_tensor *ck_add(struct ck *ck, const char *name, enum hg_dtype dtype, int32_t rank,
                         const int64_t *shape);
/* Element i of an F32, F16 (normal numbers) or BF16 tensor. */
void ck_set(struct ck_tensor *t, int64_t i, float value);
/* Small random numbers into an F32, F16 or BF16 tensor. */
void ck_random(struct ck *ck, struct ck_tensor *t);
/* NAME.weight as NVFP4 [n][k]: weight, weight_scale, weight_scale_2, input_scale. base = "NAME." */
void ck_add_nvfp4(struct ck *ck, const char *base, int64_t n, int64_t k);

/* NULL if there is none. */
struct ck_tensor *ck_find(struct ck *ck, const char *name);
void ck_remove(struct ck *ck, const char *name);
/* Gives the tensor another shape or type, with data of zeros. */
void ck_reshape(struct ck_tensor *t, enum hg_dtype dtype, int32_t rank, const int64_t *shape);

/* model.safetensors in dir, or the first half of the tensors in a.safetensors, the rest in
 * b.safetensors and the index. `pad` spaces (0 to 7) behind the header shift the alignment of all
 * data. ck_unlink removes what was written. */
void ck_write(const struct ck *ck, const char *dir, int32_t n_shards, int32_t pad);
void ck_unlink(const char *dir);

#endif
