#include "model_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

bool fix_device(int32_t *i, char name[64])
{
    const char *d;
    while ((d = hg_backend_device((*i)++)) != NULL) {
        if (strcmp(d, "cpu") == 0) continue; /* an alias of the first cpu:<isa> */
        snprintf(name, 64, "%s", d);
        return true;
    }
    return false;
}

/* Uniform in least..most. */
static int32_t between(struct hg_rng *rng, int32_t least, int32_t most)
{
    return least + (int32_t)hg_rng_below(rng, (uint32_t)(most - least + 1));
}

void fix_config(struct hg_rng *rng, enum hg_format format, struct hg_config *c)
{
    int32_t unit = format == HG_FMT_NVFP4 ? 16 : 1;
    *c = (struct hg_config){.model_type = "qwen3_5_text", .rms_eps = 1e-6f, .rope_theta = 1e4f};
    c->n_layers = between(rng, 2, 8);
    uint32_t mix = hg_rng_below(rng, 6); /* 0: all GDN, 1: all attention */
    for (int32_t i = 0; i < c->n_layers; i++)
        c->layer_kind[i] = mix == 0               ? HG_LAYER_GDN
                           : mix == 1             ? HG_LAYER_ATTN
                           : hg_rng_below(rng, 3) ? HG_LAYER_GDN
                                                  : HG_LAYER_ATTN;
    c->n_vocab = between(rng, 19, 80);
    c->d_model = unit == 1 ? between(rng, 8, 24) * 2 + 1 : between(rng, 1, 3) * 16;
    c->d_ff = unit == 1 ? between(rng, 5, 70) : between(rng, 1, 4) * 16;
    c->tied = hg_rng_below(rng, 3) == 0;
    c->n_kv_heads = between(rng, 1, 2);
    c->n_heads = c->n_kv_heads * between(rng, 1, 3);
    c->d_head = unit == 1 ? between(rng, 4, 36) : between(rng, 1, 2) * 16;
    c->d_rope = between(rng, 1, c->d_head / 2) * 2;
    if (hg_rng_below(rng, 2)) c->rope_theta = 1e7f;
    c->n_k_heads = between(rng, 1, 2);
    c->n_v_heads = c->n_k_heads * between(rng, 1, 3);
    c->d_k = between(rng, 4, 20);
    c->d_v = unit == 1 ? between(rng, 3, 20) : 16;
    if (c->d_k == c->d_v) c->d_k++;
    c->n_ctx_max = FIX_SEQ_PAGES * HG_PAGE_TOKENS;
}

static const char *kv_name(enum hg_kv kv)
{
    return kv == HG_KV_FP8 ? "fp8" : kv == HG_KV_BF16 ? "bf16" : "f32";
}

static void describe(struct fix_model *t, const struct hg_config *c, enum hg_format format,
                     enum hg_kv kv, uint64_t seed)
{
    char kinds[HG_MAX_LAYERS + 1];
    for (int32_t i = 0; i < c->n_layers; i++)
        kinds[i] = c->layer_kind[i] == HG_LAYER_ATTN ? 'A' : 'G';
    kinds[c->n_layers] = 0;
    snprintf(t->about, sizeof t->about,
             "seed %llu, %s x%d, weights %s, KV %s, layers %s, vocab %d%s, d_model %d, d_ff %d, "
             "heads %d/%d of %d (rope %d, %g), GDN heads %d/%d of %d x %d",
             (unsigned long long)seed, t->be->name, t->be->n_threads, hg_format_name(format),
             kv_name(kv), kinds, c->n_vocab, c->tied ? " tied" : "", c->d_model, c->d_ff,
             c->n_heads, c->n_kv_heads, c->d_head, c->d_rope, (double)c->rope_theta, c->n_k_heads,
             c->n_v_heads, c->d_k, c->d_v);
}

void fix_open(struct fix_model *t, const struct hg_config *c, enum hg_format format, enum hg_kv kv,
              uint64_t seed, const char *device, int32_t n_threads)
{
    struct hg_err err = {0};
    struct hg_weights w;
    struct hg_rng rng = {seed ^ 0x70616765};
    struct hg_backend_params bp = {.device = device,
                                   .max_rows = FIX_ROWS,
                                   .n_threads = n_threads ? n_threads : 1 + (int32_t)(seed % 2)};
    struct hg_model_params mp = {.n_slots = FIX_SLOTS,
                                 .n_pages = FIX_PAGES,
                                 .max_rows = FIX_ROWS,
                                 .max_verify = HG_TREE_ROWS,
                                 .max_seqs = FIX_SEQS,
                                 .max_want = FIX_ROWS,
                                 .kv = kv};
    memset(t, 0, sizeof *t);
    if (hg_backend_open(&bp, &t->be, &err)) fail_msg("%s: %s", device, err.text);
    describe(t, c, format, kv, seed);
    if (hg_weights_dummy(&w, c, format, seed, t->be, NULL, NULL, &err))
        fail_msg("%s: %s", t->about, err.text);
    for (int32_t i = 0; i < c->n_layers; i++) { /* read with FP8 KV only */
        w.layer[i].k_scale = 0.05f + (float)hg_rng_f64(&rng);
        w.layer[i].v_scale = 0.05f + (float)hg_rng_f64(&rng);
    }
    if (hg_model_create(c, &w, t->be, &mp, &t->m, &err)) fail_msg("%s: %s", t->about, err.text);
    t->exact = strcmp(t->be->name, "ref:chunked") != 0;
    for (int32_t i = 0; i < FIX_PAGES; i++) t->page_ids[i] = i;
    for (int32_t i = FIX_PAGES - 1; i > 0; i--) {
        int32_t j = between(&rng, 0, i), id = t->page_ids[i];
        t->page_ids[i] = t->page_ids[j];
        t->page_ids[j] = id;
    }
}

void fix_close(struct fix_model *t)
{
    hg_model_free(t->m);
    hg_backend_close(t->be);
    memset(t, 0, sizeof *t);
}

void fix_begin(struct fix_model *t, struct fix_seq *s, int32_t slot)
{
    memcpy(s->pages, t->page_ids + slot * FIX_SEQ_PAGES, sizeof s->pages);
    s->s = (struct hg_seq){.slot = slot, .pages = s->pages, .n_pages = FIX_SEQ_PAGES};
    hg_slot_reset(t->m, slot);
}

void fix_tokens(struct hg_rng *rng, const struct hg_config *c, hg_tok *tok, int32_t n)
{
    for (int32_t i = 0; i < n; i++) tok[i] = between(rng, 0, c->n_vocab - 1);
}

void fix_forest(struct hg_rng *rng, const struct hg_config *c, int32_t n, struct fix_tree *tree)
{
    int32_t kind = between(rng, 1, 4); /* bushy, a chain, long branches, in between */
    int32_t reach = kind == 1 ? n : kind == 2 ? 1 : between(rng, 2, kind == 3 ? 2 : 6);
    tree->n = n;
    fix_tokens(rng, c, tree->tok, n);
    for (int32_t i = 0; i < n; i++) /* no further up than reach */
        tree->parent[i] = between(rng, i < reach ? -1 : i - reach, i - 1);
}

int32_t fix_path(const struct fix_tree *tree, int32_t leaf, int32_t path[HG_TREE_ROWS])
{
    int32_t n = 0;
    for (int32_t r = leaf; r >= 0; r = tree->parent[r]) n++;
    for (int32_t r = leaf, i = n; r >= 0; r = tree->parent[r]) path[--i] = r;
    return n;
}

int32_t fix_put_chain(struct hg_row *rows, int32_t n_rows, int32_t seq, const struct fix_seq *s,
                      const hg_tok *tok, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        rows[n_rows + i] = (struct hg_row){.token = tok[i],
                                           .seq = seq,
                                           .pos = s->s.n_past + i,
                                           .parent = i ? n_rows + i - 1 : -1,
                                           .want = 1};
    return n_rows + n;
}

int32_t fix_put_tree(struct hg_row *rows, int32_t n_rows, int32_t seq, const struct fix_seq *s,
                     const struct fix_tree *tree)
{
    for (int32_t i = 0; i < tree->n; i++) {
        int32_t up = tree->parent[i];
        rows[n_rows + i] = (struct hg_row){.token = tree->tok[i],
                                           .seq = seq,
                                           .pos = up < 0 ? s->s.n_past : rows[n_rows + up].pos + 1,
                                           .parent = up < 0 ? -1 : n_rows + up,
                                           .want = 1};
    }
    return n_rows + tree->n;
}

const float *fix_step(struct fix_model *t, enum hg_step_kind kind, const struct hg_row *rows,
                      int32_t n_rows, struct fix_seq *const *seqs, int32_t n_seqs)
{
    struct hg_err err = {0};
    struct hg_step_out out;
    struct hg_seq *s[FIX_SEQS];
    for (int32_t i = 0; i < n_seqs; i++) s[i] = &seqs[i]->s;
    if (hg_step(t->m, kind, rows, n_rows, s, n_seqs, &out, &err))
        fail_msg("%s: step of %d rows: %s", t->about, n_rows, err.text);
    return out.logits;
}

void fix_extend(struct fix_model *t, struct fix_seq *s, const hg_tok *tok, int32_t n,
                struct hg_rng *rng, int32_t most, float *logits)
{
    struct hg_row rows[FIX_ROWS];
    size_t vocab = (size_t)t->m->cfg.n_vocab;
    for (int32_t i = 0, k; i < n; i += k) {
        k = rng ? between(rng, 1, most) : most;
        if (k > n - i) k = n - i;
        fix_put_chain(rows, 0, 0, s, tok + i, k);
        if (!logits)
            for (int32_t j = 0; j < k; j++) rows[j].want = 0;
        const float *out = fix_step(t, HG_EXTEND, rows, k, &s, 1);
        if (logits) memcpy(logits + (size_t)i * vocab, out, (size_t)k * vocab * sizeof *logits);
    }
}

void fix_commit(struct fix_model *t, struct fix_seq *s, int32_t leaf)
{
    struct hg_err err = {0};
    if (hg_commit(t->m, &s->s, leaf, &err)) fail_msg("%s: commit: %s", t->about, err.text);
}

static size_t state_floats(const struct hg_gdn_state *s)
{
    return (size_t)s->dims.n_v_heads * (size_t)s->dims.d_k * (size_t)s->dims.d_v;
}

size_t fix_state_n(const struct fix_model *t)
{
    size_t n = 0;
    for (int32_t i = 0; i < t->m->cfg.n_layers; i++)
        if (t->m->w.layer[i].kind == HG_LAYER_GDN)
            n += state_floats(&t->m->mem[i].state) + 3 * (size_t)t->m->mem[i].state.conv_dim;
    return n;
}

float *fix_state(struct fix_model *t, int32_t slot)
{
    float *out = malloc((fix_state_n(t) + 1) * sizeof *out), *to = out;
    assert_non_null(out);
    for (int32_t i = 0; i < t->m->cfg.n_layers; i++) {
        if (t->m->w.layer[i].kind != HG_LAYER_GDN) continue;
        const struct hg_gdn_state *s = &t->m->mem[i].state;
        size_t n = state_floats(s), conv = 3 * (size_t)s->conv_dim;
        t->be->ops->download(t->be, to, s->s + (size_t)slot * n, n * sizeof *to);
        t->be->ops->read_act(t->be, to + n, (char *)s->conv + (size_t)slot * conv * t->be->act_size,
                             conv);
        to += n + conv;
    }
    t->be->ops->sync(t->be);
    return out;
}

uint8_t *fix_pages(struct fix_model *t, const struct fix_seq *s, size_t *n)
{
    int32_t whole = s->s.n_past / HG_PAGE_TOKENS;
    *n = (size_t)whole * t->m->page_bytes;
    uint8_t *out = malloc(*n + 1);
    assert_non_null(out);
    for (int32_t p = 0; p < whole; p++)
        hg_page_read(t->m, s->pages[p], out + (size_t)p * t->m->page_bytes);
    t->be->ops->sync(t->be);
    return out;
}

double fix_error(const float *a, const float *b, size_t n)
{
    double diff = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
        double d = (double)a[i] - (double)b[i];
        diff += d * d;
        size += (double)b[i] * (double)b[i];
    }
    return diff == 0 ? 0 : sqrt(diff / size);
}

void fix_same(const struct fix_model *t, const char *what, const float *a, const float *b, size_t n)
{
    double e = fix_error(a, b, n);
    if (t->exact ? e == 0 && memcmp(a, b, n * sizeof *a) == 0 : e <= FIX_BOUND) return;
    size_t i = 0;
    while (t->exact && i < n && memcmp(a + i, b + i, sizeof *a) == 0) i++;
    fail_msg("%s\n%s: relative error %g, allowed %g; first differing element %zu of %zu", t->about,
             what, e, t->exact ? 0 : FIX_BOUND, i, n);
}

void fix_same_state(struct fix_model *ta, int32_t a, struct fix_model *tb, int32_t b,
                    const char *what)
{
    char name[128];
    float *x = fix_state(ta, a), *y = fix_state(tb, b);
    snprintf(name, sizeof name, "%s: recurrent state and conv window", what);
    fix_same(ta, name, x, y, fix_state_n(ta));
    free(x);
    free(y);
}

void fix_same_seq(struct fix_model *ta, const struct fix_seq *a, struct fix_model *tb,
                  const struct fix_seq *b, const char *what)
{
    char name[128];
    size_t n, m;
    if (a->s.n_past != b->s.n_past)
        fail_msg("%s\n%s: n_past %d and %d", ta->about, what, a->s.n_past, b->s.n_past);
    fix_same_state(ta, a->s.slot, tb, b->s.slot, what);
    uint8_t *x = fix_pages(ta, a, &n), *y = fix_pages(tb, b, &m);
    assert_int_equal(n, m);
    snprintf(name, sizeof name, "%s: KV pages", what);
    if (ta->m->p.kv == HG_KV_F32)
        fix_same(ta, name, (const float *)(const void *)x, (const float *)(const void *)y, n / 4);
    else if (ta->exact && memcmp(x, y, n) != 0)
        fail_msg("%s\n%s differ", ta->about, name);
    free(x);
    free(y);
}
