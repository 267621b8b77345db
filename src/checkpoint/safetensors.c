#include "checkpoint/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/json.h"

enum {
    MAX_HEADER = 100 * 1000 * 1000, /* the limit of the reference implementation */
    MAX_VALUES = 4 << 20,           /* ~400k tensors; the largest published models have 190k */
    MAX_NAME = 512,
    SHOWN = 64 /* characters of a bad value in a message */
};

struct reader {
    const char *file;
    const uint8_t *data; /* behind the header */
    size_t n_data;
    struct hg_arena *arena;
    struct hg_err *err;
};

static enum hg_status read_header(const char *file, const uint8_t *image, size_t n_image,
                                  json_t **header, size_t *n_header, struct hg_err *err)
{
    if (n_image < 8)
        return hg_fail(err, HG_EFORMAT, "%s: %zu bytes, too short for a safetensors file", file,
                       n_image);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | image[i];
    if (n > MAX_HEADER)
        return hg_fail(err, HG_EFORMAT,
                       "%s: safetensors header of %" PRIu64 " bytes, the limit is %d", file, n,
                       MAX_HEADER);
    if (n > n_image - 8)
        return hg_fail(err, HG_EFORMAT,
                       "%s: header of %" PRIu64 " bytes in a file of %zu bytes:"
                       " truncated or no safetensors file",
                       file, n, n_image);
    if (n == 0 || image[8] != '{')
        return hg_fail(err, HG_EFORMAT, "%s: the safetensors header does not start with '{'", file);
    HG_TRY(hg_json_parse(file, (const char *)image + 8, n, MAX_VALUES, header, err));
    *n_header = n;
    return HG_OK;
}

static enum hg_status check_metadata(const char *file, const json_t *meta, struct hg_err *err)
{
    char shown[SHOWN];
    if (!json_is_object(meta))
        return hg_fail(err, HG_EFORMAT, "%s: __metadata__ is %s, not an object", file,
                       hg_json_shown(meta, shown, sizeof shown));
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)meta, key, v)
    {
        if (!json_is_string(v))
            return hg_fail(err, HG_EFORMAT, "%s: a value of __metadata__ is %s, not a string", file,
                           hg_json_shown(v, shown, sizeof shown));
    }
    return HG_OK;
}

/* Names end up in messages, logs and terminals. */
static enum hg_status check_name(const struct reader *r, const char *name)
{
    size_t len = strlen(name);
    if (!hg_json_printable(name))
        return hg_fail(r->err, HG_EFORMAT, "%s: control character in a tensor name", r->file);
    if (len == 0 || len > MAX_NAME)
        return hg_fail(r->err, HG_EFORMAT, "%s: tensor name of %zu bytes, allowed are 1 to %d",
                       r->file, len, MAX_NAME);
    return HG_OK;
}

static enum hg_status parse_dtype(const struct reader *r, const json_t *v, struct hg_tensor *t)
{
    char shown[SHOWN];
    const char *s = json_string_value(v);
    for (int i = 0; s && i < HG_N_DTYPES; i++) {
        if (strcmp(s, hg_dtype_name((enum hg_dtype)i)) != 0) continue;
        t->dtype = (enum hg_dtype)i;
        return HG_OK;
    }
    return hg_fail(r->err, HG_EFORMAT, "%s: %s: unknown dtype %s", r->file, t->name,
                   v ? hg_json_shown(v, shown, sizeof shown) : "(missing)");
}

/* Also refuses shapes whose non-zero dimensions overflow, so that any partial product of a shape
 * that is let through fits. */
static enum hg_status parse_shape(const struct reader *r, const json_t *v, struct hg_tensor *t)
{
    char shown[SHOWN];
    if (!json_is_array(v) || json_array_size(v) > HG_MAX_RANK)
        return hg_fail(r->err, HG_EFORMAT, "%s: %s: shape %s is no array of at most %d dimensions",
                       r->file, t->name, v ? hg_json_shown(v, shown, sizeof shown) : "(missing)",
                       HG_MAX_RANK);
    t->rank = (int32_t)json_array_size(v);
    int64_t bytes = (int64_t)hg_dtype_size(t->dtype);
    for (int32_t i = 0; i < t->rank; i++) {
        const json_t *d = json_array_get(v, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return hg_fail(r->err, HG_EFORMAT,
                           "%s: %s: shape %s has a dimension that is no integer >= 0", r->file,
                           t->name, hg_json_shown(v, shown, sizeof shown));
        t->shape[i] = json_integer_value(d);
        if (t->shape[i] && __builtin_mul_overflow(bytes, t->shape[i], &bytes))
            return hg_fail(r->err, HG_EFORMAT, "%s: %s: shape %s overflows", r->file, t->name,
                           hg_json_shown(v, shown, sizeof shown));
    }
    return HG_OK;
}

static enum hg_status parse_offsets(const struct reader *r, const json_t *v, struct hg_tensor *t)
{
    char shown[SHOWN];
    const json_t *jb = json_array_get(v, 0), *je = json_array_get(v, 1);
    if (json_array_size(v) != 2 || !json_is_integer(jb) || !json_is_integer(je))
        return hg_fail(r->err, HG_EFORMAT, "%s: %s: data_offsets %s, expected two integers",
                       r->file, t->name, v ? hg_json_shown(v, shown, sizeof shown) : "(missing)");
    int64_t begin = json_integer_value(jb), end = json_integer_value(je);
    if (begin < 0 || end < begin || (uint64_t)end > r->n_data)
        return hg_fail(r->err, HG_EFORMAT,
                       "%s: %s: data_offsets [%" PRId64 ", %" PRId64
                       "] outside the data of %zu bytes",
                       r->file, t->name, begin, end, r->n_data);
    int64_t want = hg_tensor_count(t) * (int64_t)hg_dtype_size(t->dtype);
    if (end - begin != want) {
        char shape[SHOWN * 4];
        return hg_fail(r->err, HG_EFORMAT,
                       "%s: %s: %" PRId64 " bytes of data, %s %s takes %" PRId64, r->file, t->name,
                       end - begin, hg_dtype_name(t->dtype),
                       hg_shape_text(t->rank, t->shape, shape, sizeof shape), want);
    }
    t->data = r->data + begin;
    t->n_bytes = (size_t)want;
    return HG_OK;
}

static enum hg_status parse_tensor(const struct reader *r, const char *name, const json_t *v,
                                   struct hg_tensor *t)
{
    char shown[SHOWN];
    HG_TRY(check_name(r, name));
    if (!json_is_object(v))
        return hg_fail(r->err, HG_EFORMAT, "%s: %s is %s, not an object", r->file, name,
                       hg_json_shown(v, shown, sizeof shown));
    t->file = r->file;
    t->name = hg_arena_strndup(r->arena, name, strlen(name));
    if (!t->name) return hg_fail(r->err, HG_ENOMEM, "%s: out of memory", r->file);
    HG_TRY(parse_dtype(r, json_object_get(v, "dtype"), t));
    HG_TRY(parse_shape(r, json_object_get(v, "shape"), t));
    return parse_offsets(r, json_object_get(v, "data_offsets"), t);
}

static int by_place(const void *pa, const void *pb)
{
    const struct hg_tensor *a = pa, *b = pb;
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    if (x != y) return x < y ? -1 : 1;
    return (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes); /* empty ones first */
}

/* The sorted ranges must tile the data. */
static enum hg_status check_tiling(const struct reader *r, const struct hg_tensor *t, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t begin = (size_t)((const uint8_t *)t[i].data - r->data);
        if (begin < at)
            return hg_fail(r->err, HG_EFORMAT, "%s: the data of %s and %s overlap at offset %zu",
                           r->file, t[i - 1].name, t[i].name, begin);
        if (begin > at)
            return hg_fail(r->err, HG_EFORMAT, "%s: hole of %zu bytes in the data before %s",
                           r->file, begin - at, t[i].name);
        at = begin + t[i].n_bytes;
    }
    if (at != r->n_data)
        return hg_fail(r->err, HG_EFORMAT, "%s: %zu bytes behind the last tensor", r->file,
                       r->n_data - at);
    return HG_OK;
}

static enum hg_status parse_tensors(const struct reader *r, json_t *header, struct hg_tensor **out,
                                    size_t *n_out)
{
    struct hg_tensor *t = hg_arena_array(r->arena, json_object_size(header), sizeof *t);
    if (!t) return hg_fail(r->err, HG_ENOMEM, "%s: out of memory", r->file);
    size_t n = 0;
    const char *name;
    json_t *v;
    json_object_foreach(header, name, v)
    {
        if (strcmp(name, "__metadata__") == 0)
            HG_TRY(check_metadata(r->file, v, r->err));
        else
            HG_TRY(parse_tensor(r, name, v, &t[n++]));
    }
    qsort(t, n, sizeof *t, by_place);
    HG_TRY(check_tiling(r, t, n));
    *out = t;
    *n_out = n;
    return HG_OK;
}

enum hg_status hg_safetensors_parse(const char *file, const uint8_t *image, size_t n_image,
                                    struct hg_arena *arena, struct hg_tensor **out, size_t *n_out,
                                    struct hg_err *err)
{
    json_t *header;
    size_t n_header = 0;
    *out = NULL;
    *n_out = 0;
    HG_TRY(read_header(file, image, n_image, &header, &n_header, err));
    struct reader r = {.file = file,
                       .data = image + 8 + n_header,
                       .n_data = n_image - 8 - n_header,
                       .arena = arena,
                       .err = err};
    enum hg_status s = parse_tensors(&r, header, out, n_out);
    json_decref(header);
    return s;
}
