#include "engine/policy.h"

#include <jansson.h>
#include <string.h>

static bool has_role(json_t *message, const char *role)
{
    const char *r = json_string_value(json_object_get(message, "role"));
    return r && strcmp(r, role) == 0;
}

/* Keeps out sorted and free of doubles; of two at one place the first added stays. */
static void add(struct hg_cut *out, int32_t *n, int64_t pos, enum hg_cache_kind kind)
{
    int32_t i = 0;
    if (pos <= 0) return;
    while (i < *n && out[i].pos < pos) i++;
    if (i < *n && out[i].pos == pos) return;
    memmove(out + i + 1, out + i, (size_t)(*n - i) * sizeof *out);
    out[i] = (struct hg_cut){.pos = (int32_t)pos, .kind = kind};
    ++*n;
}

int32_t hg_policy_cuts(json_t *messages, const int64_t *starts, size_t n_starts, struct hg_cut *out)
{
    int32_t n = 0;
    size_t n_messages = json_array_size(messages), first = 0, user = n_messages;
    if (n_starts != n_messages + 1) return 0; /* the template loops over something else */
    while (first < n_messages && has_role(json_array_get(messages, first), "system")) first++;
    for (size_t i = 0; i < n_messages; i++)
        if (has_role(json_array_get(messages, i), "user")) user = i;
    if (user < n_messages) add(out, &n, starts[user + 1], HG_CACHE_USER);
    add(out, &n, starts[first], HG_CACHE_SYSTEM);
    add(out, &n, starts[n_messages], HG_CACHE_GENERATION);
    return n;
}

struct hg_cut hg_policy_next(const struct hg_cut *cuts, int32_t n_cuts, int32_t pos, int32_t n)
{
    int32_t at = (pos / HG_SNAPSHOT_INTERVAL + 1) * HG_SNAPSHOT_INTERVAL;
    struct hg_cut next = {.pos = at, .kind = HG_CACHE_INTERVAL};
    for (int32_t i = n_cuts - 1; i >= 0; i--)
        if (cuts[i].pos > pos && cuts[i].pos <= next.pos) next = cuts[i];
    if (next.pos >= n) next.pos = n;
    return next;
}
