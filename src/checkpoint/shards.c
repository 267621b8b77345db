#include "checkpoint/shards.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "checkpoint/json.h"
#include "checkpoint/safetensors.h"

enum {
    MAX_INDEX_BYTES = 256 << 20,
    MAX_INDEX_VALUES = 4 << 20,
    MAX_SHARDS = 4096, /* one mapping each; Linux allows 65530 a process */
    SHOWN = 80
};

struct hg_shards {
    struct hg_arena arena; /* names, views, paths */
    struct hg_map *maps;   /* [n_maps], in the arena; closed by hg_shards_close */
    size_t n_maps;
    struct hg_tensor *tensors; /* [n_tensors], sorted by name */
    size_t n_tensors;
};

/* Tensors of one shard, before they are merged. */
struct part {
    struct hg_tensor *tensors;
    size_t n;
};

static enum hg_status out_of_memory(const char *dir, struct hg_err *err)
{
    return hg_fail(err, HG_ENOMEM, "%s: out of memory", dir);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct hg_tensor *)a)->name, ((const struct hg_tensor *)b)->name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A shard must lie in the directory itself; names are shown in messages. */
static enum hg_status check_shard_name(const char *index, const char *tensor, const json_t *v,
                                       struct hg_err *err)
{
    char shown[SHOWN];
    const char *s = json_string_value(v);
    if (!hg_json_printable(tensor))
        return hg_fail(err, HG_EFORMAT, "%s: control character in a tensor name", index);
    if (s && *s && strlen(s) <= NAME_MAX && !strchr(s, '/') && !strstr(s, "..") &&
        hg_json_printable(s))
        return HG_OK;
    return hg_fail(err, HG_EFORMAT,
                   "%s: shard of %.200s is %s, expected a file name without '/' and '..'", index,
                   tensor, hg_json_shown(v, shown, sizeof shown));
}

/* The distinct shard names of the index, sorted; they live as long as the index. */
static enum hg_status list_shards(struct hg_shards *s, const char *index, json_t *weight_map,
                                  const char ***out, size_t *n_out, struct hg_err *err)
{
    size_t n = json_object_size(weight_map), n_distinct = 0;
    if (n == 0)
        return hg_fail(err, HG_EFORMAT, "%s: weight_map is missing, empty or no object", index);
    const char **names = hg_arena_array(&s->arena, n, sizeof *names), *tensor;
    if (!names) return out_of_memory(index, err);
    size_t i = 0;
    json_t *v;
    json_object_foreach(weight_map, tensor, v)
    {
        HG_TRY(check_shard_name(index, tensor, v, err));
        names[i++] = json_string_value(v);
    }
    qsort(names, n, sizeof *names, by_text);
    for (i = 0; i < n; i++)
        if (i == 0 || strcmp(names[i], names[n_distinct - 1]) != 0) names[n_distinct++] = names[i];
    if (n_distinct > MAX_SHARDS)
        return hg_fail(err, HG_EFORMAT, "%s: %zu shards, the limit is %d", index, n_distinct,
                       MAX_SHARDS);
    *out = names;
    *n_out = n_distinct;
    return HG_OK;
}

/* Maps DIR/name as s->maps[n_maps++]. */
static enum hg_status open_part(struct hg_shards *s, const char *dir, const char *name,
                                struct part *out, struct hg_err *err)
{
    const char *path = hg_arena_printf(&s->arena, "%s/%s", dir, name);
    if (!path) return out_of_memory(dir, err);
    struct hg_map *m = &s->maps[s->n_maps];
    HG_TRY(hg_map_open(m, path, err));
    s->n_maps++;
    return hg_safetensors_parse(path, m->data, m->size, &s->arena, &out->tensors, &out->n, err);
}

/* Every tensor of a shard is in the index, under this shard. That also catches a name that two
 * shards have, for the index can give it to one of them only. */
static enum hg_status check_part(const char *index, const json_t *weight_map, const char *shard,
                                 const struct part *part, struct hg_err *err)
{
    for (size_t i = 0; i < part->n; i++) {
        const struct hg_tensor *t = &part->tensors[i];
        const char *want = json_string_value(json_object_get(weight_map, t->name));
        if (!want) return hg_fail(err, HG_EFORMAT, "%s: %s is not in %s", t->file, t->name, index);
        if (strcmp(want, shard) != 0)
            return hg_fail(err, HG_EFORMAT, "%s: has %s, which %s puts into %s", t->file, t->name,
                           index, want);
    }
    return HG_OK;
}

static enum hg_status merge(struct hg_shards *s, const char *dir, const struct part *parts,
                            size_t n_parts, struct hg_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < n_parts; i++) n += parts[i].n;
    s->tensors = hg_arena_array(&s->arena, n, sizeof *s->tensors);
    if (!s->tensors) return out_of_memory(dir, err);
    for (size_t i = 0; i < n_parts; i++) {
        if (parts[i].n)
            memcpy(s->tensors + s->n_tensors, parts[i].tensors, parts[i].n * sizeof *s->tensors);
        s->n_tensors += parts[i].n;
    }
    qsort(s->tensors, s->n_tensors, sizeof *s->tensors, by_name);
    return HG_OK;
}

static enum hg_status open_single(struct hg_shards *s, const char *dir, struct hg_err *err)
{
    struct part part;
    s->maps = hg_arena_array(&s->arena, 1, sizeof *s->maps);
    if (!s->maps) return out_of_memory(dir, err);
    HG_TRY(open_part(s, dir, "model.safetensors", &part, err));
    return merge(s, dir, &part, 1, err);
}

static enum hg_status open_indexed(struct hg_shards *s, const char *dir, const char *index,
                                   json_t *weight_map, struct hg_err *err)
{
    const char **names = NULL, *tensor;
    size_t n = 0;
    HG_TRY(list_shards(s, index, weight_map, &names, &n, err));
    struct part *parts = hg_arena_array(&s->arena, n, sizeof *parts);
    s->maps = hg_arena_array(&s->arena, n, sizeof *s->maps);
    if (!parts || !s->maps) return out_of_memory(dir, err);
    for (size_t i = 0; i < n; i++) {
        HG_TRY(open_part(s, dir, names[i], &parts[i], err));
        HG_TRY(check_part(index, weight_map, names[i], &parts[i], err));
    }
    HG_TRY(merge(s, dir, parts, n, err));
    json_t *v;
    json_object_foreach(weight_map, tensor, v)
    {
        if (!hg_shards_find(s, tensor))
            return hg_fail(err, HG_EFORMAT, "%s: %.200s is not in %s", index, tensor,
                           json_string_value(v));
    }
    return HG_OK;
}

/* model.safetensors wins over an index, as in transformers. */
static enum hg_status open_dir(struct hg_shards *s, const char *dir, struct hg_err *err)
{
    const char *single = hg_arena_printf(&s->arena, "%s/model.safetensors", dir);
    const char *index = hg_arena_printf(&s->arena, "%s/model.safetensors.index.json", dir);
    if (!single || !index) return out_of_memory(dir, err);
    if (access(single, F_OK) == 0) return open_single(s, dir, err);
    if (access(index, F_OK) != 0)
        return hg_fail(err, HG_EIO,
                       "%s: has neither model.safetensors nor model.safetensors.index.json", dir);
    json_t *root;
    HG_TRY(hg_json_read(index, MAX_INDEX_BYTES, MAX_INDEX_VALUES, &root, err));
    enum hg_status st = open_indexed(s, dir, index, json_object_get(root, "weight_map"), err);
    json_decref(root);
    return st;
}

enum hg_status hg_shards_open(const char *dir, struct hg_shards **out, struct hg_err *err)
{
    *out = NULL;
    struct hg_shards *s = calloc(1, sizeof *s);
    if (!s) return out_of_memory(dir, err);
    hg_arena_init(&s->arena);
    enum hg_status st = open_dir(s, dir, err);
    if (st != HG_OK) {
        hg_shards_close(s);
        return st;
    }
    *out = s;
    return HG_OK;
}

void hg_shards_close(struct hg_shards *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n_maps; i++) hg_map_close(&s->maps[i]);
    hg_arena_fini(&s->arena);
    free(s);
}

size_t hg_shards_count(const struct hg_shards *s)
{
    return s->n_tensors;
}

const struct hg_tensor *hg_shards_at(const struct hg_shards *s, size_t i)
{
    hg_assert(i < s->n_tensors);
    return &s->tensors[i];
}

const struct hg_tensor *hg_shards_find(const struct hg_shards *s, const char *name)
{
    struct hg_tensor key = {.name = name};
    return s->n_tensors ? bsearch(&key, s->tensors, s->n_tensors, sizeof key, by_name) : NULL;
}
