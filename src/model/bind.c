/* Every tensor of weights.def from its source, a checkpoint or a random generator, onto the
 * device. One walk (bind_scope) serves both, and so does one accounting. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "checkpoint/shards.h"
#include "model/model.h"
#include "quant/nvfp4.h"

enum scope { SCOPE_ROOT, SCOPE_BODY, SCOPE_BLOCK, SCOPE_ATTN, SCOPE_GDN, SCOPE_MTP };
enum prepare { PLAIN, ADD_ONE, NEG_EXP };

struct binder {
    const struct hg_config *c;
    struct hg_weights *w;
    struct hg_backend *be;
    hg_progress_fn *progress;
    void *progress_ctx;
    uint64_t done, total; /* bytes */
    struct hg_err *err;
    /* source: checkpoint */
    const struct hg_shards *shards;
    const char *body; /* prefix of the body's tensors */
    bool *used;       /* [hg_shards_count] */
    /* source: random (shards NULL) */
    struct hg_rng rng;
    enum hg_format format;
};

/* ------------------------------------------------------------------ source: checkpoint ------ */

static const struct hg_tensor *take(struct binder *b, const char *name)
{
    const struct hg_tensor *t = hg_shards_find(b->shards, name);
    if (t) b->used[t - hg_shards_at(b->shards, 0)] = true;
    return t;
}

static enum hg_status missing(struct binder *b, const char *name, const char *wanted)
{
    return hg_fail(b->err, HG_EFORMAT, "%s: missing from the checkpoint, expected %s", name,
                   wanted);
}

static enum hg_status want_shape(struct binder *b, const struct hg_tensor *t, int32_t rank,
                                 const int64_t *shape)
{
    char got[128], want[128];
    if (t->rank == rank && memcmp(t->shape, shape, (size_t)rank * sizeof *shape) == 0) return HG_OK;
    return hg_fail(b->err, HG_EFORMAT, "%s: shape %s, expected %s (%s)", t->name,
                   hg_shape_text(t->rank, t->shape, got, sizeof got),
                   hg_shape_text(rank, shape, want, sizeof want), t->file);
}

static enum hg_status bad_dtype(struct binder *b, const struct hg_tensor *t, const char *wanted)
{
    return hg_fail(b->err, HG_EUNSUP, "%s: stored as %s, supported here is %s (%s)", t->name,
                   hg_dtype_name(t->dtype), wanted, t->file);
}

static float element(const struct hg_tensor *t, int64_t i)
{
    uint16_t h;
    float f;
    if (t->dtype == HG_F32) {
        memcpy(&f, (const char *)t->data + i * 4, 4);
        return f;
    }
    memcpy(&h, (const char *)t->data + i * 2, 2);
    return t->dtype == HG_BF16 ? hg_bf16_to_f32(h) : hg_f16_to_f32(h);
}

static bool is_float(const struct hg_tensor *t)
{
    return t->dtype == HG_F32 || t->dtype == HG_BF16 || t->dtype == HG_F16;
}

/* Optional F32 scalar beside a linear: `base` + suffix. Returns `missing_value` when absent. */
static enum hg_status scalar(struct binder *b, const char *base, const char *suffix,
                             float missing_value, float *out)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", base, suffix);
    const struct hg_tensor *t = take(b, name);
    *out = missing_value;
    if (!t) return HG_OK;
    if (!is_float(t)) return bad_dtype(b, t, "F32");
    if (hg_tensor_count(t) != 1) return want_shape(b, t, 0, NULL);
    *out = element(t, 0);
    if (!(*out > 0) || !isfinite(*out))
        return hg_fail(b->err, HG_EFORMAT, "%s: scale %g is not a positive number (%s)", name,
                       (double)*out, t->file);
    return HG_OK;
}

static enum hg_status nvfp4_source(struct binder *b, const struct hg_tensor *t, const char *base,
                                   struct hg_matrix_src *s)
{
    char name[512];
    float ignored;
    int64_t n = s->n, k = s->k;
    if (k % HG_NVFP4_GROUP)
        return hg_fail(b->err, HG_EFORMAT, "%s: NVFP4 with %d columns, not a multiple of 16 (%s)",
                       t->name, s->k, t->file);
    HG_TRY(want_shape(b, t, 2, (int64_t[]){n, k / 2}));
    snprintf(name, sizeof name, "%sweight_scale", base);
    const struct hg_tensor *sc = take(b, name);
    if (!sc) return missing(b, name, "F8_E4M3 block scales of an NVFP4 (U8) weight");
    if (sc->dtype != HG_F8_E4M3) return bad_dtype(b, sc, "F8_E4M3");
    HG_TRY(want_shape(b, sc, 2, (int64_t[]){n, k / HG_NVFP4_GROUP}));
    HG_TRY(scalar(b, base, "weight_scale_2", 0, &s->scale2));
    snprintf(name, sizeof name, "%sweight_scale_2", base);
    if (s->scale2 == 0) return missing(b, name, "F32 global scale of an NVFP4 weight");
    HG_TRY(scalar(b, base, "input_scale", 1, &ignored)); /* W4A4 activations; unused here */
    s->format = HG_FMT_NVFP4;
    s->scale = sc->data;
    return HG_OK;
}

static enum hg_status checkpoint_matrix(struct binder *b, const char *name, struct hg_matrix_src *s)
{
    char want[128], base[256];
    const struct hg_tensor *t = take(b, name);
    if (!t) {
        hg_shape_text(2, (int64_t[]){s->n, s->k}, want, sizeof want);
        return missing(b, name, want);
    }
    s->data = t->data;
    s->scale2 = 1;
    size_t stem = strlen(name) - strlen("weight"); /* every MATRIX name ends in "weight" */
    snprintf(base, sizeof base, "%.*s", (int)stem, name);
    if (t->dtype == HG_U8) return nvfp4_source(b, t, base, s);
    if (!is_float(t)) return bad_dtype(b, t, "F32, F16, BF16 or NVFP4 (U8 with weight_scale)");
    s->format = t->dtype == HG_F32 ? HG_FMT_F32 : t->dtype == HG_F16 ? HG_FMT_F16 : HG_FMT_BF16;
    return want_shape(b, t, 2, (int64_t[]){s->n, s->k});
}

static enum hg_status checkpoint_vector(struct binder *b, const char *name, int64_t count,
                                        float *out)
{
    char want[64];
    const struct hg_tensor *t = take(b, name);
    bool conv = strstr(name, "conv1d") != NULL;
    int64_t flat[] = {count}, taps[] = {count / HG_CONV_KERNEL, 1, HG_CONV_KERNEL};
    if (!t) {
        hg_shape_text(conv ? 3 : 1, conv ? taps : flat, want, sizeof want);
        return missing(b, name, want);
    }
    if (!is_float(t)) return bad_dtype(b, t, "F32, F16 or BF16");
    HG_TRY(want_shape(b, t, conv ? 3 : 1, conv ? taps : flat));
    for (int64_t i = 0; i < count; i++) {
        out[i] = element(t, i);
        if (!isfinite(out[i]))
            return hg_fail(b->err, HG_EFORMAT, "%s: element %lld is %g (%s)", name, (long long)i,
                           (double)out[i], t->file);
    }
    return HG_OK;
}

/* ---------------------------------------------------------------------- source: random ------ */

/* Weights of variance about 1/k, so that projections of normalised inputs stay normalised. */
static void *random_matrix(struct binder *b, struct hg_matrix_src *s)
{
    int64_t n = (int64_t)s->n * s->k;
    size_t codes = s->format == HG_FMT_NVFP4 ? (size_t)n / 2 : (size_t)n * 2;
    size_t bytes = hg_format_bytes(s->format, n), words = (bytes + 7) / 8;
    uint64_t *p = malloc(words * 8);
    if (!p) return NULL;
    s->data = p;
    s->scale2 = 1;
    int exponent = 127 + (int)floor(log2(0.6 / sqrt(s->k)));
    /* sign and mantissa at random, the exponent set; a BF16 pattern twice is an F32, too */
    uint64_t keep = 0x807f, set = (uint64_t)exponent << 7;
    if (s->format == HG_FMT_F16) {
        keep = 0x83ff;
        set = (uint64_t)(exponent - 127 + 15) << 10; /* >= 1: k < 2^24 */
    }
    keep *= 0x0001000100010001u;
    set *= 0x0001000100010001u;
    for (size_t i = 0; i < words; i++) {
        uint64_t r = hg_rng_u64(&b->rng);
        p[i] = s->format == HG_FMT_NVFP4 ? r : (r & keep) | set;
    }
    if (s->format == HG_FMT_NVFP4) {
        uint8_t *scale = (uint8_t *)p + codes; /* 0.5 to 1.9 */
        for (size_t i = 0; i < bytes - codes; i++) scale[i] = 0x30 | (scale[i] & 15);
        s->scale = scale;
        s->scale2 = 0.3f / sqrtf((float)s->k);
    }
    return p;
}

static void random_vector(struct binder *b, const char *name, int64_t count, enum prepare prepare,
                          float *out)
{
    bool is_norm = strstr(name, "norm") != NULL, is_dt = strstr(name, "dt_bias") != NULL;
    for (int64_t i = 0; i < count; i++) {
        float r = hg_rng_normal(&b->rng);
        out[i] = prepare == NEG_EXP ? r - 1 : is_dt ? r : is_norm ? 0.1f * r : 0.4f * r;
        if (is_norm && prepare == PLAIN) out[i] += 1;
    }
}

/* ------------------------------------------------------------------------------ binding ----- */

static void account(struct binder *b, const struct hg_matrix_src *s, bool read_per_token)
{
    struct hg_weights *w = b->w;
    int64_t n = (int64_t)s->n * s->k;
    w->n_params += n;
    w->n_params_format[s->format] += n;
    w->n_bytes += hg_format_bytes(s->format, n);
    if (read_per_token) w->n_bytes_token += hg_format_bytes(s->format, n);
}

/* Some tied exports store the head a second time, in whatever format; the embedding is what counts. */
static void take_tied_copy(struct binder *b)
{
    for (size_t i = 0; i < hg_shards_count(b->shards); i++)
        if (strncmp(hg_shards_at(b->shards, i)->name, "lm_head.", 8) == 0) b->used[i] = true;
}

/* out NULL: checked only (the MTP head). */
static enum hg_status bind_matrix(struct binder *b, const char *prefix, const char *name, int64_t n,
                                  int64_t k, struct hg_matrix *out)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    struct hg_matrix_src s = {.n = (int32_t)n, .k = (int32_t)k};
    void *made = NULL;
    bool embed = out == &b->w->embed, lm_head = out == &b->w->lm_head;
    if (lm_head && b->c->tied) {
        if (b->shards) take_tied_copy(b);
        *out = b->w->embed;
        return HG_OK;
    }
    if (b->shards) {
        HG_TRY(checkpoint_matrix(b, full, &s));
    } else {
        s.format = b->format == HG_FMT_NVFP4 && (embed || k % 16) ? HG_FMT_BF16 : b->format;
        made = random_matrix(b, &s);
        if (!made) return hg_fail(b->err, HG_ENOMEM, "%s: out of memory for random weights", full);
    }
    if (!out) return HG_OK;
    account(b, &s, !embed || b->c->tied);
    enum hg_status st = b->be->ops->matrix_load(b->be, &s, out, b->err);
    free(made);
    if (st != HG_OK) return hg_fail_in(b->err, "%s", full);
    b->done += hg_format_bytes(s.format, n * k);
    if (b->progress) b->progress(b->progress_ctx, "loading", b->done, b->total);
    return HG_OK;
}

static enum hg_status bind_vector(struct binder *b, const char *prefix, const char *name,
                                  int64_t count, enum prepare prepare, float **out)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    float *v = malloc((size_t)count * sizeof *v);
    if (!v) return hg_fail(b->err, HG_ENOMEM, "%s: out of memory", full);
    enum hg_status st = HG_OK;
    if (b->shards)
        st = checkpoint_vector(b, full, count, v);
    else
        random_vector(b, full, count, prepare, v);
    for (int64_t i = 0; st == HG_OK && i < count; i++)
        v[i] = prepare == ADD_ONE ? 1 + v[i] : prepare == NEG_EXP ? -expf(v[i]) : v[i];
    for (int64_t i = 0; st == HG_OK && i < count; i++)
        if (!isfinite(v[i]))
            st = hg_fail(b->err, HG_EFORMAT, "%s: element %lld gives %g", full, (long long)i,
                         (double)v[i]);
    if (st == HG_OK && out) {
        void *dev;
        st = b->be->ops->alloc(b->be, (size_t)count * sizeof *v, &dev, b->err);
        if (st == HG_OK) {
            b->be->ops->upload(b->be, dev, v, (size_t)count * sizeof *v);
            *out = dev;
            b->w->n_params += count;
        }
    }
    free(v);
    return st;
}

/* All rows of weights.def of one scope. layer: target of BLOCK, ATTN and GDN rows, NULL = check. */
static enum hg_status bind_scope(struct binder *b, enum scope scope, const char *prefix,
                                 struct hg_layer *layer)
{
    const struct hg_config *c = b->c;
#define TARGET_ROOT(f)  &b->w->f
#define TARGET_BODY(f)  &b->w->f
#define TARGET_BLOCK(f) (layer ? &layer->f : NULL)
#define TARGET_ATTN     TARGET_BLOCK
#define TARGET_GDN      TARGET_BLOCK
#define TARGET_MTP(f)   NULL
#define MATRIX(s, field, name, n, k)                                                               \
    if (scope == SCOPE_##s)                                                                        \
        HG_TRY(bind_matrix(b, prefix, name, (int64_t)(n), (int64_t)(k), TARGET_##s(field)));
#define VECTOR(s, field, name, count, prepare)                                                     \
    if (scope == SCOPE_##s)                                                                        \
        HG_TRY(bind_vector(b, prefix, name, (int64_t)(count), prepare, TARGET_##s(field)));
#include "model/weights.def"
    return HG_OK;
}

/* One block; its KV scales ride with k_proj and v_proj. */
static enum hg_status bind_block(struct binder *b, const char *prefix, enum hg_layer_kind kind,
                                 struct hg_layer *layer)
{
    HG_TRY(bind_scope(b, SCOPE_BLOCK, prefix, layer));
    HG_TRY(bind_scope(b, kind == HG_LAYER_ATTN ? SCOPE_ATTN : SCOPE_GDN, prefix, layer));
    float k_scale = 1, v_scale = 1, ignored;
    if (kind == HG_LAYER_ATTN && b->shards) {
        HG_TRY(scalar(b, prefix, "self_attn.k_proj.k_scale", 1, &k_scale));
        HG_TRY(scalar(b, prefix, "self_attn.v_proj.v_scale", 1, &v_scale));
        HG_TRY(scalar(b, prefix, "self_attn.q_proj.q_scale", 1, &ignored)); /* FP8 Q: unused */
    }
    if (!layer) return HG_OK;
    layer->kind = kind;
    layer->k_scale = k_scale;
    layer->v_scale = v_scale;
    return HG_OK;
}

static enum hg_status bind_mtp(struct binder *b)
{
    bool any = false;
    for (size_t i = 0; i < hg_shards_count(b->shards) && !any; i++)
        any = strncmp(hg_shards_at(b->shards, i)->name, "mtp.", 4) == 0;
    if (!any) return HG_OK; /* text-only exports drop it, also when config.json announces it */
    HG_TRY(bind_scope(b, SCOPE_MTP, "", NULL));
    HG_TRY(bind_block(b, "mtp.layers.0.", HG_LAYER_ATTN, NULL));
    if (hg_shards_find(b->shards, "mtp.lm_head.weight"))
        HG_TRY(bind_matrix(b, "mtp.", "lm_head.weight", b->c->n_vocab, b->c->d_model, NULL));
    b->w->has_mtp = true;
    return HG_OK;
}

static enum hg_status refuse_unknown(struct binder *b)
{
    for (size_t i = 0; i < hg_shards_count(b->shards); i++) {
        const struct hg_tensor *t = hg_shards_at(b->shards, i);
        if (b->used[i] || strncmp(t->name, "model.visual.", 13) == 0 ||
            strncmp(t->name, "visual.", 7) == 0)
            continue;
        return hg_fail(b->err, HG_EFORMAT,
                       "%s: unknown tensor, nothing in this architecture uses "
                       "it (%s)",
                       t->name, t->file);
    }
    return HG_OK;
}

static enum hg_status bind_all(struct binder *b)
{
    char prefix[512];
    const struct hg_config *c = b->c;
    b->w->layer = calloc((size_t)c->n_layers, sizeof *b->w->layer);
    if (!b->w->layer) return hg_fail(b->err, HG_ENOMEM, "weights: out of memory");
    HG_TRY(bind_scope(b, SCOPE_BODY, b->body, NULL));
    HG_TRY(bind_scope(b, SCOPE_ROOT, "", NULL));
    for (int32_t i = 0; i < c->n_layers; i++) {
        snprintf(prefix, sizeof prefix, "%slayers.%d.", b->body, i);
        HG_TRY(bind_block(b, prefix, c->layer_kind[i], &b->w->layer[i]));
    }
    if (!b->shards) return HG_OK;
    HG_TRY(bind_mtp(b));
    return refuse_unknown(b);
}

static const char *body_prefix(const struct hg_shards *shards)
{
    static const char *const known[] = {"model.language_model.", "language_model.model.", "model."};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char name[128];
        snprintf(name, sizeof name, "%sembed_tokens.weight", known[i]);
        if (hg_shards_find(shards, name)) return known[i];
    }
    return "model.";
}

enum hg_status hg_weights_load(struct hg_weights *w, const struct hg_config *c,
                               const struct hg_shards *shards, struct hg_backend *be,
                               hg_progress_fn *progress, void *progress_ctx, struct hg_err *err)
{
    struct binder b = {.c = c,
                       .w = w,
                       .be = be,
                       .progress = progress,
                       .err = err,
                       .progress_ctx = progress_ctx,
                       .shards = shards,
                       .body = body_prefix(shards)};
    *w = (struct hg_weights){0};
    size_t n = hg_shards_count(shards);
    b.used = calloc(n + 1, sizeof *b.used);
    if (!b.used) return hg_fail(err, HG_ENOMEM, "weights: out of memory");
    for (size_t i = 0; i < n; i++) b.total += hg_shards_at(shards, i)->n_bytes;
    enum hg_status st = bind_all(&b);
    free(b.used);
    if (st == HG_OK && progress) progress(progress_ctx, "loading", b.total, b.total);
    if (st != HG_OK) hg_weights_free(w, c, be);
    return st;
}

enum hg_status hg_weights_dummy(struct hg_weights *w, const struct hg_config *c,
                                enum hg_format format, uint64_t seed, struct hg_backend *be,
                                hg_progress_fn *progress, void *progress_ctx, struct hg_err *err)
{
    struct binder b = {.c = c,
                       .w = w,
                       .be = be,
                       .progress = progress,
                       .err = err,
                       .progress_ctx = progress_ctx,
                       .body = "model.",
                       .rng = {seed},
                       .format = format};
    *w = (struct hg_weights){0};
    enum hg_status st = bind_all(&b);
    if (st != HG_OK) hg_weights_free(w, c, be);
    return st;
}

void hg_weights_free(struct hg_weights *w, const struct hg_config *c, struct hg_backend *be)
{
    if (c->tied) w->lm_head.data = NULL;
    be->ops->matrix_free(be, &w->embed);
    be->ops->matrix_free(be, &w->lm_head);
    be->ops->free(be, w->norm);
    for (int32_t i = 0; w->layer && i < c->n_layers; i++) {
        struct hg_layer *layer = &w->layer[i];
#define FREE_MATRIX_BLOCK(f) be->ops->matrix_free(be, &layer->f);
#define FREE_VECTOR_BLOCK(f) be->ops->free(be, layer->f);
#define FREE_MATRIX_ATTN     FREE_MATRIX_BLOCK
#define FREE_VECTOR_ATTN     FREE_VECTOR_BLOCK
#define FREE_MATRIX_GDN      FREE_MATRIX_BLOCK
#define FREE_VECTOR_GDN      FREE_VECTOR_BLOCK
#define FREE_MATRIX_ROOT(f)
#define FREE_MATRIX_BODY(f)
#define FREE_VECTOR_BODY(f)
#define FREE_MATRIX_MTP(f)
#define FREE_VECTOR_MTP(f)
#define MATRIX(s, field, name, n, k)           FREE_MATRIX_##s(field)
#define VECTOR(s, field, name, count, prepare) FREE_VECTOR_##s(field)
#include "model/weights.def"
    }
    free(w->layer);
    *w = (struct hg_weights){0};
}
