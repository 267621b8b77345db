#include <stdlib.h>
#include <string.h>

#include "engine/engine_impl.h"

enum hg_status hg_session_create(struct hg_engine *eng, int32_t slot, struct hg_session **out,
                                 struct hg_err *err)
{
    size_t n_pages = ((size_t)eng->info.n_ctx + HG_PAGE_TOKENS - 1) / HG_PAGE_TOKENS;
    struct hg_session *s = calloc(1, sizeof *s);
    if (s) {
        s->seq.slot = slot;
        s->seq.pages = calloc(n_pages, sizeof *s->seq.pages);
        s->tokens = calloc((size_t)eng->info.n_ctx, sizeof *s->tokens);
        s->rows = calloc((size_t)eng->model->p.max_rows, sizeof *s->rows);
    }
    if (!s || !s->seq.pages || !s->tokens || !s->rows) {
        hg_session_free(eng, s);
        return hg_fail(err, HG_ENOMEM, "session of %d tokens: out of memory", eng->info.n_ctx);
    }
    *out = s;
    return HG_OK;
}

void hg_session_free(struct hg_engine *eng, struct hg_session *s)
{
    if (!s) return;
    if (s->seq.pages) hg_cache_release(eng->cache, &s->seq);
    free(s->seq.pages);
    free(s->tokens);
    free(s->rows);
    free(s);
}

int32_t hg_session_begin(struct hg_engine *eng, struct hg_session *s, const hg_tok *ids, int32_t n)
{
    hg_cache_release(eng->cache, &s->seq);
    while (n > 0) { /* an entry that cannot be restored leaves the shorter ones */
        struct hg_cache_hit hit = hg_cache_lookup(eng->cache, ids, n);
        if (hit.n_tokens == 0) break;
        if (hg_cache_restore(eng->cache, hit, &s->seq)) {
            memcpy(s->tokens, ids, (size_t)hit.n_tokens * sizeof *ids);
            return hit.n_tokens;
        }
        n = hit.n_tokens;
    }
    hg_slot_reset(eng->model, s->seq.slot);
    return 0;
}

enum hg_status hg_session_extend(struct hg_engine *eng, struct hg_session *s, const hg_tok *ids,
                                 int32_t n, enum hg_want want, int32_t *n_done,
                                 struct hg_step_out *out, struct hg_err *err)
{
    struct hg_seq *seq = &s->seq;
    int32_t most = want == HG_WANT_ALL ? eng->model->p.max_want : eng->n_chunk;
    int32_t k = n < most ? n : most;
    if (seq->n_past + k > eng->info.n_ctx)
        return hg_fail(err, HG_ETOOLONG, "context of %d tokens is full", eng->info.n_ctx);
    if (!hg_cache_reserve(eng->cache, seq, seq->n_past + k))
        return hg_fail(err, HG_EBUSY, "KV cache: no page is free for %d tokens", k);
    for (int32_t i = 0; i < k; i++)
        s->rows[i] =
            (struct hg_row){.token = ids[i],
                            .pos = seq->n_past + i,
                            .parent = i - 1,
                            .want = want == HG_WANT_ALL || (want == HG_WANT_LAST && i == n - 1)};
    memcpy(s->tokens + seq->n_past, ids, (size_t)k * sizeof *ids);
    HG_TRY(hg_step(eng->model, HG_EXTEND, s->rows, k, &seq, 1, out, err));
    *n_done = k;
    return HG_OK;
}

void hg_session_publish(struct hg_engine *eng, struct hg_session *s, enum hg_cache_kind kind)
{
    hg_cache_publish(eng->cache, s->tokens, &s->seq, kind);
}
