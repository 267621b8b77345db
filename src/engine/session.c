#include <stdlib.h>
#include <string.h>

#include "engine/engine_impl.h"

enum hg_status hg_session_create(struct hg_engine *eng, int32_t slot, struct hg_session **out,
                                 struct hg_err *err)
{
    struct hg_session *s = calloc(1, sizeof *s);
    if (s) {
        s->seq.slot = slot;
        s->seq.pages = calloc((size_t)eng->pages.n_total, sizeof *s->seq.pages);
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

void hg_session_reset(struct hg_engine *eng, struct hg_session *s)
{
    hg_pages_give(&eng->pages, s->seq.pages, s->seq.n_pages);
    s->seq.n_pages = 0;
    s->seq.n_past = 0;
    hg_slot_reset(eng->model, s->seq.slot);
}

void hg_session_free(struct hg_engine *eng, struct hg_session *s)
{
    if (!s) return;
    if (s->seq.pages) hg_pages_give(&eng->pages, s->seq.pages, s->seq.n_pages);
    free(s->seq.pages);
    free(s->tokens);
    free(s->rows);
    free(s);
}

enum hg_status hg_session_extend(struct hg_engine *eng, struct hg_session *s, const hg_tok *ids,
                                 int32_t n, bool all, int32_t *n_done, struct hg_step_out *out,
                                 struct hg_err *err)
{
    struct hg_seq *seq = &s->seq;
    int32_t most = all ? eng->model->p.max_want : eng->n_chunk, k = n < most ? n : most;
    if (seq->n_past + k > eng->info.n_ctx)
        return hg_fail(err, HG_ETOOLONG, "context of %d tokens is full", eng->info.n_ctx);
    int32_t need = (seq->n_past + k + HG_PAGE_TOKENS - 1) / HG_PAGE_TOKENS - seq->n_pages;
    if (need > 0) {
        if (!hg_pages_take(&eng->pages, need, seq->pages + seq->n_pages))
            return hg_fail(err, HG_EBUSY, "KV cache: %d pages wanted, %d free", need,
                           eng->pages.n_free);
        seq->n_pages += need;
    }
    for (int32_t i = 0; i < k; i++)
        s->rows[i] = (struct hg_row){.token = ids[i], .pos = seq->n_past + i, .parent = i - 1,
                                     .want = all || i == n - 1};
    memcpy(s->tokens + seq->n_past, ids, (size_t)k * sizeof *ids);
    HG_TRY(hg_step(eng->model, HG_EXTEND, s->rows, k, &seq, 1, out, err));
    *n_done = k;
    return HG_OK;
}
