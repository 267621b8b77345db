/* The input is read twice: as a whole file, and as the JSON header of a file whose length field
 * is right and whose data size is the input's first two bytes, so that the fuzzer need not guess
 * either. What is accepted must tile the data. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const uint8_t *image, size_t n_image)
{
    struct hg_arena arena;
    struct hg_tensor *t;
    struct hg_err err = {0};
    size_t n;
    hg_arena_init(&arena);
    enum hg_status s = hg_safetensors_parse("fuzz", image, n_image, &arena, &t, &n, &err);
    if (s != HG_OK) {
        hg_assert(s == HG_EFORMAT && err.status == s && err.text[0]);
    } else {
        uint64_t n_header = 0;
        for (int i = 7; i >= 0; i--) n_header = n_header << 8 | image[i];
        const uint8_t *at = image + 8 + n_header;
        for (size_t i = 0; i < n; i++) {
            hg_assert((const uint8_t *)t[i].data == at);
            hg_assert(hg_tensor_count(&t[i]) * (int64_t)hg_dtype_size(t[i].dtype) ==
                      (int64_t)t[i].n_bytes);
            hg_assert(t[i].name[0] && t[i].rank >= 0 && t[i].rank <= HG_MAX_RANK);
            at += t[i].n_bytes;
        }
        hg_assert(at == image + n_image);
    }
    hg_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    check(data, n);
    if (n < 2) return 0;
    size_t n_data = (size_t)(data[0] | data[1] << 8), n_header = n - 2;
    uint8_t *image = calloc(1, 8 + n_header + n_data);
    if (!image) return 0;
    for (int i = 0; i < 8; i++) image[i] = (uint8_t)((uint64_t)n_header >> (8 * i));
    memcpy(image + 8, data + 2, n_header);
    check(image, 8 + n_header + n_data);
    free(image);
    return 0;
}
