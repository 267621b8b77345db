/* tile.h: the order in which the CPU backend keeps weight matrices.
 *
 * Output rows are taken in tiles of 16, the last one padded with zero rows. A tile is one stream:
 * records of `group` consecutive k for its 16 rows, k ascending. Tiles follow each other, so a
 * kernel reads one stream, or four side by side.
 *
 * A record (rows 0-7 before rows 8-15 unless said otherwise):
 *   F32    group 1,  64 bytes: float [16]
 *   F16    group 1,  32 bytes: half [16]
 *   BF16   group 2,  64 bytes: u16 [2 halves][8 rows][2 k]; as a 32-bit lane the odd k is the
 *          upper half, so one mask or one shift makes eight floats
 *   NVFP4  group 16, 144 bytes: u8 [2 halves][2 (k 0-7, 8-15)][32] codes, then e4m3 [16] scales.
 *          Byte b of the 32 holds row 4*(b/16) + b%8/2 of its half, k = b%2 + 2*(b%16/8) in the
 *          low nibble and 4 more in the high one: byte shuffles and unpacks then give pairs of
 *          bf16 in BF16's order.
 * k is padded with zeros to the group (only BF16 can need it; NVFP4 has k % 16 = 0).
 * Bytes: those of the checkpoint, but for the padding of n to 16. */
#ifndef HG_BACKEND_CPU_TILE_H
#define HG_BACKEND_CPU_TILE_H

#include "backend/ops.h"

enum { TILE_ROWS = 16 };

static inline int32_t tile_group(enum hg_format f)
{
    return f == HG_FMT_NVFP4 ? 16 : f == HG_FMT_BF16 ? 2 : 1;
}
static inline int32_t tile_record(enum hg_format f)
{
    return f == HG_FMT_NVFP4 ? 144 : f == HG_FMT_F16 ? 32 : 64;
}
static inline int64_t tile_records(enum hg_format f, int32_t k)
{
    return (k + tile_group(f) - 1) / tile_group(f);
}
static inline int32_t tile_count(int32_t n)
{
    return n / TILE_ROWS + (n % TILE_ROWS != 0);
}

/* A tile as a stream: record i is at p + i * step. */
struct tile {
    const uint8_t *p;
    int64_t step;
};
static inline struct tile tile_at(const struct hg_matrix *w, int32_t tile)
{
    int64_t record = tile_record(w->format);
    return (struct tile){(const uint8_t *)w->data + tile * record * tile_records(w->format, w->k),
                         record};
}

#endif
