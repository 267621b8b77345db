#include "engine/recall.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct answer {
    XXH128_hash_t key;
    hg_tok *ids;
    size_t n;
};

struct hg_recall {
    pthread_mutex_t lock;
    struct answer ring[HG_RECALL_ANSWERS]; /* oldest at `first` */
    size_t first, n, n_tokens;
};

struct hg_recall *hg_recall_create(void)
{
    struct hg_recall *r = calloc(1, sizeof *r);
    if (r) pthread_mutex_init(&r->lock, NULL);
    return r;
}

static void drop_oldest(struct hg_recall *r)
{
    struct answer *a = &r->ring[r->first];
    r->n_tokens -= a->n;
    free(a->ids);
    r->first = (r->first + 1) % HG_RECALL_ANSWERS;
    r->n--;
}

void hg_recall_free(struct hg_recall *r)
{
    if (!r) return;
    while (r->n) drop_oldest(r);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ----------------------------------------------------------------------------------- key ---- */

static void hash_trimmed(XXH3_state_t *h, json_t *text)
{
    const char *s = json_string_value(text);
    size_t n = json_string_length(text);
    while (n && strchr(" \t\r\n", s[n - 1])) n--;
    while (n && strchr(" \t\r\n", *s)) s++, n--;
    XXH3_128bits_update(h, &n, sizeof n);
    if (n) XXH3_128bits_update(h, s, n);
}

/* Arguments as a value: a JSON text is parsed, spacing and the order of keys do not count. */
static bool hash_arguments(XXH3_state_t *h, json_t *args)
{
    json_t *value = json_is_string(args)
                        ? json_loadb(json_string_value(args), json_string_length(args), 0, NULL)
                        : json_incref(args);
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (!text) return false;
    XXH3_128bits_update(h, text, strlen(text) + 1);
    free(text);
    return true;
}

/* False: no assistant message with plain text and well-formed calls. */
static bool message_key(json_t *m, const hg_tok *gen, size_t n_gen, XXH128_hash_t *key)
{
    const char *role = json_string_value(json_object_get(m, "role"));
    json_t *content = json_object_get(m, "content"), *call;
    if (!role || strcmp(role, "assistant") != 0) return false;
    if (content && !json_is_string(content) && !json_is_null(content)) return false;
    XXH3_state_t *h = XXH3_createState();
    if (!h) return false;
    XXH3_128bits_reset(h);
    XXH3_128bits_update(h, gen, n_gen * sizeof *gen);
    hash_trimmed(h, content);
    hash_trimmed(h, json_object_get(m, "reasoning_content"));
    bool good = true;
    size_t i;
    json_array_foreach(json_object_get(m, "tool_calls"), i, call)
    {
        json_t *f = json_object_get(call, "function");
        const char *name = json_string_value(json_object_get(f, "name"));
        if (name) XXH3_128bits_update(h, name, strlen(name) + 1);
        good = good && name && hash_arguments(h, json_object_get(f, "arguments"));
    }
    *key = XXH3_128bits_digest(h);
    XXH3_freeState(h);
    return good;
}

/* -------------------------------------------------------------------------- keep, splice ---- */

void hg_recall_keep(struct hg_recall *r, json_t *message, const hg_tok *gen, size_t n_gen,
                    const hg_tok *ids, size_t n)
{
    struct answer a = {.n = n};
    if (n == 0 || n > HG_RECALL_TOKENS || !message_key(message, gen, n_gen, &a.key)) return;
    a.ids = malloc(n * sizeof *ids);
    if (!a.ids) return;
    memcpy(a.ids, ids, n * sizeof *ids);
    pthread_mutex_lock(&r->lock);
    while (r->n == HG_RECALL_ANSWERS || (r->n && r->n_tokens + n > HG_RECALL_TOKENS))
        drop_oldest(r);
    r->ring[(r->first + r->n++) % HG_RECALL_ANSWERS] = a;
    r->n_tokens += n;
    pthread_mutex_unlock(&r->lock);
}

/* The newest answer of this key, or NULL. With the lock held. */
static const struct answer *find(const struct hg_recall *r, XXH128_hash_t key)
{
    for (size_t i = r->n; i-- > 0;) {
        const struct answer *a = &r->ring[(r->first + i) % HG_RECALL_ANSWERS];
        if (XXH128_isEqual(a->key, key)) return a;
    }
    return NULL;
}

/* Replaces ids[at..at+old) by with[0..n). */
static bool replace(struct hg_toks *ids, size_t at, size_t old, const hg_tok *with, size_t n)
{
    size_t used = ids->n, tail = used - at - old;
    while (ids->n < used - old + n) /* makes room */
        if (!hg_toks_push(ids, 0)) {
            ids->n = used;
            return false;
        }
    memmove(ids->ids + at + n, ids->ids + at + old, tail * sizeof *with);
    memcpy(ids->ids + at, with, n * sizeof *with);
    ids->n = at + n + tail;
    return true;
}

enum hg_status hg_recall_splice(struct hg_recall *r, json_t *messages, hg_tok eos,
                                struct hg_toks *ids, int64_t *starts, struct hg_err *err)
{
    size_t n_messages = json_array_size(messages);
    int64_t gen = starts[n_messages];
    enum hg_status st = HG_OK;
    if (gen < 0 || (size_t)gen >= ids->n) return HG_OK; /* unknown or empty */
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; st == HG_OK && i < n_messages; i++) {
        XXH128_hash_t key;
        int64_t from = starts[i], to = starts[i + 1];
        if (from < 0 || to < 0 ||
            !message_key(json_array_get(messages, i), ids->ids + starts[n_messages],
                         ids->n - (size_t)starts[n_messages], &key))
            continue;
        const struct answer *a = find(r, key);
        size_t n_gen = ids->n - (size_t)starts[n_messages], len = (size_t)(to - from);
        const hg_tok *m = ids->ids + from, *g = ids->ids + starts[n_messages];
        size_t end = len; /* of what was generated: the last eos of the message */
        while (end > 0 && m[end - 1] != eos) end--;
        if (!a || end == 0 || n_gen > end - 1 || memcmp(m, g, n_gen * sizeof *m) != 0) continue;
        size_t old = end - 1 - n_gen;
        if (old == a->n && memcmp(m + n_gen, a->ids, old * sizeof *m) == 0) continue;
        if (!replace(ids, (size_t)from + n_gen, old, a->ids, a->n))
            st = hg_fail(err, HG_ENOMEM, "prompt: out of memory");
        for (size_t j = i + 1; st == HG_OK && j <= n_messages; j++)
            if (starts[j] >= 0) starts[j] += (int64_t)a->n - (int64_t)old;
    }
    pthread_mutex_unlock(&r->lock);
    return st;
}
