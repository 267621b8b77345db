#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/log.h"
#include "checkpoint/shards.h"
#include "engine/engine_impl.h"

enum { DEFAULT_CTX = 32768, DEFAULT_CHUNK = 512, DEFAULT_QUEUE = 16 };

static enum hg_status check_params(const struct hg_engine_params *p, struct hg_err *err)
{
    if (p->n_ctx < 0 || p->n_ctx == 1)
        return hg_fail(err, HG_EINVAL, "ctx: %d, at least 2", p->n_ctx);
    if (p->n_chunk < 0 || p->n_chunk > 65536)
        return hg_fail(err, HG_EINVAL, "chunk: %d, allowed are 1 to 65536", p->n_chunk);
    if (p->n_threads < 0 || p->n_threads > 1024)
        return hg_fail(err, HG_EINVAL, "threads: %d, allowed are 1 to 1024", p->n_threads);
    if (p->cache_disk > 0 && !p->cache_dir)
        return hg_fail(err, HG_EINVAL, "cache_disk: needs a directory (cache_dir)");
    if (p->n_queue < 0) return hg_fail(err, HG_EINVAL, "queue: %d is negative", p->n_queue);
    return HG_OK;
}

/* Hash over what decides the state that a prefix leads to. Weights: every tensor's name, type, shape
 * and a sample of its bytes (all of them would be read twice at every start). */
static void hash_weights(XXH3_state_t *h, const struct hg_shards *shards)
{
    enum { SAMPLES = 16, SAMPLE = 64 };
    for (size_t i = 0; i < hg_shards_count(shards); i++) {
        const struct hg_tensor *t = hg_shards_at(shards, i);
        XXH3_128bits_update(h, t->name, strlen(t->name) + 1);
        XXH3_128bits_update(h, &t->dtype, sizeof t->dtype);
        XXH3_128bits_update(h, t->shape, (size_t)t->rank * sizeof *t->shape);
        size_t step = t->n_bytes / SAMPLES + 1;
        for (size_t at = 0; at < t->n_bytes; at += step) {
            size_t n = t->n_bytes - at < SAMPLE ? t->n_bytes - at : SAMPLE;
            XXH3_128bits_update(h, (const char *)t->data + at, n);
        }
    }
}

static enum hg_status load_weights(struct hg_engine *eng, const struct hg_engine_params *p,
                                   enum hg_format dummy_format, struct hg_weights *w,
                                   XXH3_state_t *h, struct hg_err *err)
{
    const struct hg_config *c = &eng->assets.cfg;
    struct hg_shards *shards;
    if (p->dummy) {
        XXH3_128bits_update(h, p->dummy, strlen(p->dummy));
        return hg_weights_dummy(w, c, dummy_format, 1, eng->be, p->progress, p->progress_ctx, err);
    }
    HG_TRY(hg_shards_open(eng->assets.dir, &shards, err));
    enum hg_status st = hg_weights_load(w, c, shards, eng->be, p->progress, p->progress_ctx, err);
    if (st == HG_OK) hash_weights(h, shards);
    hg_shards_close(shards);
    return st;
}

/* Loads the weights and lays out memory and cache. */
static enum hg_status open_model(struct hg_engine *eng, const struct hg_engine_params *p,
                                 enum hg_format dummy_format, struct hg_err *err)
{
    static const char numerics[] = "hedge numerics 1"; /* raise when kernels change their bits */
    const struct hg_config *c = &eng->assets.cfg;
    XXH3_state_t *h = XXH3_createState();
    if (!h) return hg_fail(err, HG_ENOMEM, "engine: out of memory");
    enum hg_kv kv = p->kv ? p->kv : c->kv_fp8 ? HG_KV_FP8 : HG_KV_BF16;
    XXH3_128bits_reset(h);
    XXH3_128bits_update(h, numerics, sizeof numerics);
    XXH3_128bits_update(h, eng->be->name, strlen(eng->be->name) + 1);
    XXH3_128bits_update(h, &kv, sizeof kv);
    XXH3_128bits_update(h, c, offsetof(struct hg_config, eos));
    struct hg_weights w;
    enum hg_status st = load_weights(eng, p, dummy_format, &w, h, err);
    XXH128_canonical_t key;
    XXH128_canonicalFromHash(&key, XXH3_128bits_digest(h));
    XXH3_freeState(h);
    if (st != HG_OK) return st;
    return hg_engine_memory(eng, kv, p, &w, key.digest, err);
}

static void describe(struct hg_engine *eng)
{
    static const char *const kv_names[] = {"?", "fp8", "bf16", "f32"};
    const struct hg_model *m = eng->model;
    const struct hg_weights *w = &m->w;
    const char *gemm = eng->be->ops->variant(eng->be, "gemm");
    const char *attn = eng->be->ops->variant(eng->be, "attn");
    int64_t cache_tokens = (int64_t)m->p.n_pages * HG_PAGE_TOKENS - eng->info.n_ctx;
    snprintf(eng->lines[0], sizeof eng->lines[0],
             "%s: %.1f M parameters, %.2f bits/weight, %.1f MB%s", eng->assets.name,
             (double)w->n_params / 1e6, 8.0 * (double)w->n_bytes / (double)w->n_params,
             (double)w->n_bytes / 1e6, w->has_mtp ? ", MTP head present (not used yet)" : "");
    snprintf(eng->lines[1], sizeof eng->lines[1], "%s: %d threads; gemm %s; attention %s",
             eng->be->name, eng->be->n_threads, gemm, attn);
    snprintf(
        eng->lines[2], sizeof eng->lines[2],
        "context %d tokens: KV %s, %.1f MB; prefix cache: %d snapshots of %.1f MB, %lld tokens "
        "of KV",
        eng->info.n_ctx, kv_names[m->p.kv],
        (double)m->page_bytes * eng->info.n_ctx / HG_PAGE_TOKENS / 1e6, m->p.n_slots - 1,
        (double)m->slot_bytes / 1e6, (long long)cache_tokens);
    eng->info.model_name = eng->assets.name;
    eng->info.model_line = eng->lines[0];
    eng->info.device_line = eng->lines[1];
    eng->info.capacity_line = eng->lines[2];
    eng->info.n_vocab = eng->assets.cfg.n_vocab;
    eng->info.n_tokens = hg_tokenizer_size(eng->assets.tok);
    eng->info.weight_bytes = w->n_bytes_token;
    eng->info.has_template = eng->assets.tmpl != NULL;
    eng->info.sampling = eng->assets.cfg.sampling;
}

static enum hg_status open_parts(struct hg_engine *eng, const struct hg_engine_params *p,
                                 struct hg_err *err)
{
    enum hg_format dummy_format = HG_FMT_NVFP4;
    HG_TRY(hg_assets_open(&eng->assets, p, &dummy_format, err));
    const struct hg_config *c = &eng->assets.cfg;
    int32_t most = c->n_ctx_max < DEFAULT_CTX ? c->n_ctx_max : DEFAULT_CTX;
    eng->info.n_ctx = p->n_ctx ? p->n_ctx : most;
    if (eng->info.n_ctx > c->n_ctx_max)
        return hg_fail(err, HG_EINVAL, "ctx: %d, the model's limit is %d tokens", p->n_ctx,
                       c->n_ctx_max);
    eng->n_chunk = p->n_chunk ? p->n_chunk : DEFAULT_CHUNK;
    eng->n_queue = p->n_queue ? p->n_queue : DEFAULT_QUEUE;
    eng->reasoning = p->reasoning;
    struct hg_backend_params bp = {.device = p->device,
                                   .n_threads = p->n_threads,
                                   .max_rows = eng->n_chunk > HG_LOGITS_ROWS ? eng->n_chunk
                                                                             : HG_LOGITS_ROWS};
    HG_TRY(hg_backend_open(&bp, &eng->be, err));
    HG_TRY(open_model(eng, p, dummy_format, err));
    HG_TRY(hg_session_create(eng, 0, &eng->session, err));
    eng->recall = hg_recall_create();
    if (!eng->recall) return hg_fail(err, HG_ENOMEM, "engine: out of memory");
    describe(eng);
    if (pthread_create(&eng->thread, NULL, hg_sched_main, eng))
        return hg_fail(err, HG_ENOMEM, "scheduler thread: cannot be created");
    eng->has_thread = true;
    return HG_OK;
}

enum hg_status hg_engine_open(const struct hg_engine_params *p, struct hg_engine **out,
                              struct hg_err *err)
{
    HG_TRY(check_params(p, err));
    struct hg_engine *eng = calloc(1, sizeof *eng);
    if (!eng) return hg_fail(err, HG_ENOMEM, "engine: out of memory");
    pthread_mutex_init(&eng->device, NULL);
    pthread_mutex_init(&eng->lock, NULL);
    pthread_cond_init(&eng->wake, NULL);
    enum hg_status st = open_parts(eng, p, err);
    if (st != HG_OK) {
        hg_engine_close(eng);
        return st;
    }
    *out = eng;
    return HG_OK;
}

void hg_engine_close(struct hg_engine *eng)
{
    if (!eng) return;
    if (eng->has_thread) {
        pthread_mutex_lock(&eng->lock);
        eng->closing = true;
        pthread_cond_signal(&eng->wake);
        pthread_mutex_unlock(&eng->lock);
        pthread_join(eng->thread, NULL);
    }
    hg_session_free(eng, eng->session);
    hg_cache_free(eng->cache);
    hg_recall_free(eng->recall);
    hg_model_free(eng->model);
    hg_backend_close(eng->be);
    hg_assets_close(&eng->assets);
    pthread_mutex_destroy(&eng->device);
    pthread_mutex_destroy(&eng->lock);
    pthread_cond_destroy(&eng->wake);
    free(eng);
}

const struct hg_engine_info *hg_engine_info(const struct hg_engine *eng)
{
    return &eng->info;
}

void hg_engine_stats(const struct hg_engine *eng, struct hg_stats *out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&eng->lock;
    pthread_mutex_lock(lock);
    *out = eng->stats;
    pthread_mutex_unlock(lock);
    struct hg_cache_stats c;
    hg_cache_stats(eng->cache, &c);
    out->cache_lookups = c.n_lookups;
    out->cache_hits = c.n_hits;
    out->cache_snapshots = c.n_published;
    out->cache_evictions = c.n_evicted;
    out->cache_damaged = c.n_dropped_damaged;
    out->cache_from_device = c.n_restored_device;
    out->cache_from_host = c.n_restored_host;
    out->cache_from_disk = c.n_restored_disk;
    out->cache_device_bytes = c.device_bytes;
    out->cache_host_bytes = c.host_bytes;
    out->cache_disk_bytes = c.disk_bytes;
    out->cache_entries = c.n_entries;
}

enum hg_status hg_tokenize(const struct hg_engine *eng, const char *text, size_t n_text,
                           bool parse_special, hg_tok **out, size_t *n_out, struct hg_err *err)
{
    struct hg_toks t = {0};
    enum hg_status st =
        hg_tokenizer_encode(eng->assets.tok, text, n_text, parse_special, NULL, 0, NULL, &t, err);
    if (st != HG_OK) {
        hg_toks_fini(&t);
        return st;
    }
    *out = t.ids;
    *n_out = t.n;
    return HG_OK;
}

enum hg_status hg_detokenize(const struct hg_engine *eng, const hg_tok *ids, size_t n, char **out,
                             size_t *n_out, struct hg_err *err)
{
    struct hg_detok d;
    struct hg_buf b;
    hg_detok_init(&d);
    hg_buf_init(&b);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        if (!hg_tokenizer_bytes(eng->assets.tok, ids[i], &len)) {
            hg_buf_fini(&b);
            return hg_fail(err, HG_EINVAL,
                           "token %d (number %zu): unknown id, the tokenizer has "
                           "%d",
                           ids[i], i, hg_tokenizer_size(eng->assets.tok));
        }
        hg_detok_push(&d, eng->assets.tok, ids[i], true, &b);
    }
    hg_detok_finish(&d, &b);
    *out = hg_buf_take(&b, n_out);
    return *out ? HG_OK : hg_fail(err, HG_ENOMEM, "detokenize: out of memory");
}

enum hg_status hg_logits(struct hg_engine *eng, const hg_tok *ids, size_t n_ids, bool all,
                         float *out, struct hg_err *err)
{
    if (n_ids == 0 || n_ids > (size_t)eng->info.n_ctx)
        return hg_fail(err, HG_ETOOLONG, "%zu tokens, allowed are 1 to %d", n_ids, eng->info.n_ctx);
    enum hg_status st = HG_OK;
    size_t row = (size_t)eng->info.n_vocab;
    pthread_mutex_lock(&eng->device);
    hg_session_begin(eng, eng->session, NULL, 0);
    for (size_t done = 0; st == HG_OK && done < n_ids;) {
        struct hg_step_out so;
        int32_t k = 0;
        st = hg_session_extend(eng, eng->session, ids + done, (int32_t)(n_ids - done),
                               all ? HG_WANT_ALL : HG_WANT_LAST, &k, &so, err);
        if (st != HG_OK) break;
        done += (size_t)k;
        memcpy(out, so.logits, (size_t)so.n_want * row * sizeof *out);
        if (all) out += (size_t)so.n_want * row;
    }
    pthread_mutex_unlock(&eng->device);
    return st;
}

json_t *hg_devices(void)
{
    json_t *all = json_array();
    for (int32_t i = 0; hg_backend_device(i); i++)
        json_array_append_new(all, json_string(hg_backend_device(i)));
    return all;
}
