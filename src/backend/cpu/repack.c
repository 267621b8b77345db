/* Checkpoint matrices to tile order (tile.h), in parallel over tiles, straight from the file
 * mapping: source rows may have any alignment. */
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/tile.h"

struct repack {
    const struct hg_matrix_src *src;
    const struct hg_matrix *dst;
};

static size_t matrix_bytes(enum hg_format f, int32_t n, int32_t k)
{
    return (size_t)tile_count(n) * (size_t)tile_records(f, k) * (size_t)tile_record(f);
}

/* 16-bit formats and F32: element k of row r of a tile. */
static void pack_plain(const struct repack *j, int32_t row0, int32_t n_rows, struct tile t)
{
    int32_t k_all = j->src->k;
    const uint8_t *data = j->src->data;
    size_t es = j->src->format == HG_FMT_F32 ? 4 : 2;
    for (int32_t r = 0; r < n_rows; r++) {
        const uint8_t *from = data + (size_t)(row0 + r) * (size_t)k_all * es;
        switch (j->src->format) {
        case HG_FMT_F32:
            for (int32_t k = 0; k < k_all; k++)
                memcpy((uint8_t *)t.p + k * t.step + 4 * r, from + 4 * (size_t)k, 4);
            break;
        case HG_FMT_F16:
            for (int32_t k = 0; k < k_all; k++)
                memcpy((uint8_t *)t.p + k * t.step + 2 * r, from + 2 * (size_t)k, 2);
            break;
        default: /* BF16: two k to a record */
            for (int32_t k = 0; k < k_all; k += 2)
                memcpy((uint8_t *)t.p + k / 2 * t.step + 4 * r, from + 2 * (size_t)k,
                       k + 1 < k_all ? 4 : 2);
        }
    }
}

static void pack_nvfp4(const struct repack *j, int32_t row0, int32_t n_rows, struct tile t)
{
    int32_t groups = j->src->k / 16;
    for (int32_t r = 0; r < n_rows; r++) {
        const uint8_t *code = (const uint8_t *)j->src->data + (size_t)(row0 + r) * groups * 8;
        const uint8_t *scale = j->src->scale + (size_t)(row0 + r) * groups;
        int32_t half = r / 8, i = r % 8;
        for (int32_t g = 0; g < groups; g++) {
            uint8_t *rec = (uint8_t *)t.p + g * t.step;
            for (int32_t k8 = 0; k8 < 2; k8++) {
                const uint8_t *b = code + 8 * (size_t)g + 4 * k8; /* 8 codes, k ascending */
                uint8_t *to = rec + 64 * half + 32 * k8 + 16 * (i / 4) + 2 * (i % 4);
                to[0] = (uint8_t)((b[0] & 15) | b[2] << 4);   /* k 0 and 4 */
                to[1] = (uint8_t)(b[0] >> 4 | (b[2] & 0xf0)); /* k 1 and 5 */
                to[8] = (uint8_t)((b[1] & 15) | b[3] << 4);   /* k 2 and 6 */
                to[9] = (uint8_t)(b[1] >> 4 | (b[3] & 0xf0)); /* k 3 and 7 */
            }
            rec[128 + r] = scale[g];
        }
    }
}

static void pack_tile(void *ctx, int32_t i, int32_t thread)
{
    (void)thread;
    const struct repack *j = ctx;
    int32_t row0 = i * TILE_ROWS, left = j->dst->n - row0;
    int32_t n_rows = left < TILE_ROWS ? left : TILE_ROWS;
    if (j->src->format == HG_FMT_NVFP4)
        pack_nvfp4(j, row0, n_rows, tile_at(j->dst, i));
    else
        pack_plain(j, row0, n_rows, tile_at(j->dst, i));
}

enum hg_status cpu_matrix_load(struct hg_backend *be, const struct hg_matrix_src *src,
                               struct hg_matrix *out, struct hg_err *err)
{
    *out = (struct hg_matrix){0};
    if (src->n < 1 || src->k < 1)
        return hg_fail(err, HG_EFORMAT, "matrix of shape [%d, %d] is empty", src->n, src->k);
    if ((unsigned)src->format >= HG_N_FORMATS)
        return hg_fail(err, HG_EUNSUP, "weight format %d is unknown", (int)src->format);
    if (src->format == HG_FMT_NVFP4 && src->k % 16)
        return hg_fail(err, HG_EFORMAT, "nvfp4 matrix with k = %d, which is no multiple of 16",
                       src->k);
    *out = (struct hg_matrix){.format = src->format,
                              .n = src->n,
                              .k = src->k,
                              .scale2 = src->format == HG_FMT_NVFP4 ? src->scale2 : 1.0f,
                              .n_bytes = matrix_bytes(src->format, src->n, src->k)};
    HG_TRY(hg_host_alloc(be, out->n_bytes, &out->data, err)); /* zeroed: the padding */
    struct repack j = {src, out};
    hg_pool_run(cpu_of(be)->pool, pack_tile, &j, tile_count(src->n));
    return HG_OK;
}

void cpu_matrix_free(struct hg_backend *be, struct hg_matrix *m)
{
    hg_host_free(be, m->data);
    *m = (struct hg_matrix){0};
}
