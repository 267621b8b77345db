#include "checkpoint_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"
#include "quant/float.h"

void ck_init(struct ck *ck, uint64_t seed)
{
    memset(ck, 0, sizeof *ck);
    ck->rng.s = seed;
}

void ck_fini(struct ck *ck)
{
    for (int32_t i = 0; i < ck->n; i++) free(ck->t[i].data);
    ck->n = 0;
}

void ck_reshape(struct ck_tensor *t, enum hg_dtype dtype, int32_t rank, const int64_t *shape)
{
    size_t n = hg_dtype_size(dtype);
    for (int32_t i = 0; i < rank; i++) n *= (size_t)shape[i];
    uint8_t *data = calloc(n + 1, 1);
    assert_true(data && rank <= 4);
    free(t->data);
    t->dtype = dtype;
    t->rank = rank;
    if (rank) memmove(t->shape, shape, (size_t)rank * sizeof *shape);
    t->data = data;
    t->n_bytes = n;
}

struct ck_tensor *ck_add(struct ck *ck, const char *name, enum hg_dtype dtype, int32_t rank,
                         const int64_t *shape)
{
    assert_true(ck->n < CK_TENSORS);
    struct ck_tensor *t = &ck->t[ck->n++];
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s", name);
    ck_reshape(t, dtype, rank, shape);
    return t;
}

void ck_set(struct ck_tensor *t, int64_t i, float value)
{
    uint32_t u = hg_bits_f32(value);
    uint16_t h = hg_f32_to_bf16(value);
    if (t->dtype == HG_F32) {
        memcpy(t->data + 4 * i, &value, 4);
        return;
    }
    assert_true(t->dtype == HG_BF16 || t->dtype == HG_F16);
    if (t->dtype == HG_F16) /* cut off; infinity and NaN stay what they are */
        h = (uint16_t)((u >> 16 & 0x8000) |
                       (value - value != 0 ? (value != value ? 0x7e00 : 0x7c00)
                        : value == 0       ? 0
                                           : ((u & 0x7fffffff) - (112u << 23)) >> 13));
    memcpy(t->data + 2 * i, &h, 2);
}

void ck_random(struct ck *ck, struct ck_tensor *t)
{
    int64_t n = (int64_t)(t->n_bytes / hg_dtype_size(t->dtype));
    for (int64_t i = 0; i < n; i++) { /* no subnormal halves: see ck_set */
        float r = hg_rng_normal(&ck->rng);
        ck_set(t, i, r < 0 ? 0.2f * r - 0.01f : 0.2f * r + 0.01f);
    }
}

void ck_add_nvfp4(struct ck *ck, const char *base, int64_t n, int64_t k)
{
    char name[160];
    snprintf(name, sizeof name, "%sweight", base);
    struct ck_tensor *t = ck_add(ck, name, HG_U8, 2, (int64_t[]){n, k / 2});
    for (size_t i = 0; i < t->n_bytes; i++) t->data[i] = (uint8_t)hg_rng_u64(&ck->rng);
    snprintf(name, sizeof name, "%sweight_scale", base);
    t = ck_add(ck, name, HG_F8_E4M3, 2, (int64_t[]){n, k / 16});
    for (size_t i = 0; i < t->n_bytes; i++)
        t->data[i] = (uint8_t)(0x30 + hg_rng_below(&ck->rng, 16));
    snprintf(name, sizeof name, "%sweight_scale_2", base);
    ck_set(ck_add(ck, name, HG_F32, 0, NULL), 0, 0.05f);
    snprintf(name, sizeof name, "%sinput_scale", base);
    ck_set(ck_add(ck, name, HG_F32, 0, NULL), 0, 0.1f);
}

struct ck_tensor *ck_find(struct ck *ck, const char *name)
{
    for (int32_t i = 0; i < ck->n; i++)
        if (strcmp(ck->t[i].name, name) == 0) return &ck->t[i];
    return NULL;
}

void ck_remove(struct ck *ck, const char *name)
{
    struct ck_tensor *t = ck_find(ck, name);
    assert_non_null(t);
    free(t->data);
    *t = ck->t[--ck->n];
}

static void put_file(const char *dir, const char *name, const struct hg_buf *b)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_false(b->oom);
    assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
}

static void write_shard(const struct ck *ck, const char *dir, const char *name, int32_t from,
                        int32_t to, int32_t pad)
{
    struct hg_buf head, out;
    size_t at = 0;
    hg_buf_init(&head);
    hg_buf_init(&out);
    for (int32_t i = from; i < to; i++) {
        const struct ck_tensor *t = &ck->t[i];
        hg_buf_printf(&head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i == from ? "{" : ",",
                      t->name, hg_dtype_name(t->dtype));
        for (int32_t j = 0; j < t->rank; j++)
            hg_buf_printf(&head, "%s%lld", j ? "," : "", (long long)t->shape[j]);
        hg_buf_printf(&head, "],\"data_offsets\":[%zu,%zu]}", at, at + t->n_bytes);
        at += t->n_bytes;
    }
    hg_buf_str(&head, "}");
    while (head.len % 8 != (size_t)pad) hg_buf_char(&head, ' ');
    for (int32_t i = 0; i < 8; i++) hg_buf_char(&out, (char)(head.len >> 8 * i));
    hg_buf_add(&out, head.data, head.len);
    for (int32_t i = from; i < to; i++) hg_buf_add(&out, ck->t[i].data, ck->t[i].n_bytes);
    put_file(dir, name, &out);
    hg_buf_fini(&head);
    hg_buf_fini(&out);
}

void ck_write(const struct ck *ck, const char *dir, int32_t n_shards, int32_t pad)
{
    struct hg_buf index;
    int32_t half = ck->n / 2;
    ck_unlink(dir);
    if (n_shards == 1) {
        write_shard(ck, dir, "model.safetensors", 0, ck->n, pad);
        return;
    }
    hg_buf_init(&index);
    hg_buf_str(&index, "{\"weight_map\":{");
    for (int32_t i = 0; i < ck->n; i++)
        hg_buf_printf(&index, "%s\"%s\":\"%s.safetensors\"", i ? "," : "", ck->t[i].name,
                      i < half ? "a" : "b");
    hg_buf_str(&index, "}}");
    put_file(dir, "model.safetensors.index.json", &index);
    hg_buf_fini(&index);
    write_shard(ck, dir, "a.safetensors", 0, half, pad);
    write_shard(ck, dir, "b.safetensors", half, ck->n, pad);
}

void ck_unlink(const char *dir)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "a.safetensors", "b.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
}
