/* Binding of checkpoints: what loads, and every way in which a tensor can be missing, too much or
 * wrong. Checkpoints are written tensor by tensor from the table below, which is kept by hand and
 * knows nothing of weights.def. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "../lib/checkpoint_writer.h"
#include "../lib/model_fixture.h"
#include "backend/ref/ref.h"
#include "checkpoint/shards.h"

/* Layer 0 is GDN, layer 1 attention. */
static const struct hg_config tiny = {.model_type = "qwen3_5_text",
                                      .n_layers = 2,
                                      .layer_kind = {HG_LAYER_GDN, HG_LAYER_ATTN},
                                      .n_vocab = 24,
                                      .d_model = 32,
                                      .d_ff = 48,
                                      .rms_eps = 1e-6f,
                                      .n_heads = 2,
                                      .n_kv_heads = 1,
                                      .d_head = 16,
                                      .d_rope = 8,
                                      .rope_theta = 1e4f,
                                      .n_k_heads = 1,
                                      .n_v_heads = 2,
                                      .d_k = 8,
                                      .d_v = 16};

struct spec {
    const char *name;
    int32_t rank;
    int64_t shape[3];
};
static const struct spec body[] = {
    {"embed_tokens.weight", 2, {24, 32}},
    {"norm.weight", 1, {32}},
    {"layers.0.input_layernorm.weight", 1, {32}},
    {"layers.0.post_attention_layernorm.weight", 1, {32}},
    {"layers.0.mlp.gate_proj.weight", 2, {48, 32}},
    {"layers.0.mlp.up_proj.weight", 2, {48, 32}},
    {"layers.0.mlp.down_proj.weight", 2, {32, 48}},
    {"layers.0.linear_attn.in_proj_qkv.weight", 2, {48, 32}},
    {"layers.0.linear_attn.in_proj_z.weight", 2, {32, 32}},
    {"layers.0.linear_attn.in_proj_a.weight", 2, {2, 32}},
    {"layers.0.linear_attn.in_proj_b.weight", 2, {2, 32}},
    {"layers.0.linear_attn.conv1d.weight", 3, {48, 1, 4}},
    {"layers.0.linear_attn.A_log", 1, {2}},
    {"layers.0.linear_attn.dt_bias", 1, {2}},
    {"layers.0.linear_attn.norm.weight", 1, {16}},
    {"layers.0.linear_attn.out_proj.weight", 2, {32, 32}},
    {"layers.1.input_layernorm.weight", 1, {32}},
    {"layers.1.post_attention_layernorm.weight", 1, {32}},
    {"layers.1.mlp.gate_proj.weight", 2, {48, 32}},
    {"layers.1.mlp.up_proj.weight", 2, {48, 32}},
    {"layers.1.mlp.down_proj.weight", 2, {32, 48}},
    {"layers.1.self_attn.q_proj.weight", 2, {64, 32}},
    {"layers.1.self_attn.k_proj.weight", 2, {16, 32}},
    {"layers.1.self_attn.v_proj.weight", 2, {16, 32}},
    {"layers.1.self_attn.o_proj.weight", 2, {32, 32}},
    {"layers.1.self_attn.q_norm.weight", 1, {16}},
    {"layers.1.self_attn.k_norm.weight", 1, {16}},
};
static const struct spec head = {"lm_head.weight", 2, {24, 32}};
static const struct spec mtp[] = {
    {"mtp.fc.weight", 2, {32, 64}},
    {"mtp.pre_fc_norm_embedding.weight", 1, {32}},
    {"mtp.pre_fc_norm_hidden.weight", 1, {32}},
    {"mtp.norm.weight", 1, {32}},
    {"mtp.layers.0.input_layernorm.weight", 1, {32}},
    {"mtp.layers.0.post_attention_layernorm.weight", 1, {32}},
    {"mtp.layers.0.mlp.gate_proj.weight", 2, {48, 32}},
    {"mtp.layers.0.mlp.up_proj.weight", 2, {48, 32}},
    {"mtp.layers.0.mlp.down_proj.weight", 2, {32, 48}},
    {"mtp.layers.0.self_attn.q_proj.weight", 2, {64, 32}},
    {"mtp.layers.0.self_attn.k_proj.weight", 2, {16, 32}},
    {"mtp.layers.0.self_attn.v_proj.weight", 2, {16, 32}},
    {"mtp.layers.0.self_attn.o_proj.weight", 2, {32, 32}},
    {"mtp.layers.0.self_attn.q_norm.weight", 1, {16}},
    {"mtp.layers.0.self_attn.k_norm.weight", 1, {16}},
};
enum { N_BODY = sizeof body / sizeof *body, N_MTP = sizeof mtp / sizeof *mtp };

static char dir[64];
static struct ck ck;
static struct hg_backend *be;
static struct hg_config config; /* of the running test */
static struct hg_shards *shards;
static struct hg_weights w;
static struct hg_err err;

static void add(const char *prefix, const struct spec *s, enum hg_dtype dtype)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s", prefix, s->name);
    if (dtype == HG_U8 && s->rank == 2) {
        name[strlen(name) - strlen("weight")] = 0;
        ck_add_nvfp4(&ck, name, s->shape[0], s->shape[1]);
        return;
    }
    ck_random(&ck, ck_add(&ck, name, dtype == HG_U8 ? HG_BF16 : dtype, s->rank, s->shape));
}

/* A good checkpoint. dtype HG_U8: NVFP4 for every matrix, BF16 else. */
static void fill(const char *prefix, enum hg_dtype dtype, bool with_mtp)
{
    ck_fini(&ck);
    ck_init(&ck, 5);
    for (int32_t i = 0; i < N_BODY; i++) add(prefix, &body[i], dtype);
    add("", &head, dtype);
    for (int32_t i = 0; with_mtp && i < N_MTP; i++) add("", &mtp[i], dtype);
}

static int setup(void **state)
{
    (void)state;
    struct hg_backend_params bp = {.device = "ref", .max_rows = 8};
    snprintf(dir, sizeof dir, "/tmp/hedge_bind_XXXXXX");
    config = tiny;
    fill("model.", HG_F32, false);
    return mkdtemp(dir) && hg_backend_open(&bp, &be, &err) == HG_OK ? 0 : -1;
}

static void unload(void)
{
    hg_weights_free(&w, &config, be);
    hg_shards_close(shards);
    shards = NULL;
}

static int teardown(void **state)
{
    (void)state;
    unload();
    hg_backend_close(be);
    ck_fini(&ck);
    ck_unlink(dir);
    return rmdir(dir);
}

static enum hg_status load(int32_t n_shards, int32_t pad)
{
    unload();
    err = (struct hg_err){0};
    ck_write(&ck, dir, n_shards, pad);
    if (hg_shards_open(dir, &shards, &err)) fail_msg("%s", err.text);
    return hg_weights_load(&w, &config, shards, be, NULL, NULL, &err);
}

static void loads(void)
{
    if (load(1, 0)) fail_msg("%s", err.text);
}

/* The load fails; the error has every one of the NULL-terminated words, and nothing is left. */
static void fails(enum hg_status want, ...)
{
    static const struct hg_weights nothing;
    enum hg_status got = load(1, 0);
    va_list ap;
    va_start(ap, want);
    for (const char *says; (says = va_arg(ap, const char *)) != NULL;)
        if (got != want || !strstr(err.text, says))
            fail_msg("status %d, expected %d; error \"%s\" lacks \"%s\"", got, want, err.text,
                     says);
    va_end(ap);
    assert_memory_equal(&w, &nothing, sizeof w);
}

/* "[48, 32]" */
static const char *shape_text(const struct ck_tensor *t, char buf[64])
{
    return hg_shape_text(t->rank, t->shape, buf, 64);
}

/* ------------------------------------------------------------------------------- what loads -- */

static void test_formats(void **state)
{
    (void)state;
    static const struct {
        enum hg_dtype dtype;
        enum hg_format format;
        uint64_t bytes; /* per 16 weights */
    } all[] = {{HG_F32, HG_FMT_F32, 64},
               {HG_F16, HG_FMT_F16, 32},
               {HG_BF16, HG_FMT_BF16, 32},
               {HG_U8, HG_FMT_NVFP4, 9}};
    int64_t n = 0, n_matrix = 0;
    for (int32_t i = 0; i <= N_BODY; i++) {
        const struct spec *s = i < N_BODY ? &body[i] : &head;
        int64_t count =
            s->shape[0] * (s->rank > 1 ? s->shape[1] : 1) * (s->rank > 2 ? s->shape[2] : 1);
        n += count;
        if (s->rank == 2) n_matrix += count;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fill("model.", all[i].dtype, false);
        loads();
        assert_int_equal(w.layer[0].gate.format, all[i].format);
        assert_int_equal(w.layer[1].o.format, all[i].format);
        assert_int_equal(w.lm_head.format, all[i].format);
        assert_int_equal(w.n_params, n);
        assert_int_equal(w.n_params_format[all[i].format], n_matrix);
        assert_int_equal(w.n_bytes, (uint64_t)n_matrix / 16 * all[i].bytes);
        assert_int_equal(w.n_bytes - w.n_bytes_token, 24 * 32 / 16 * all[i].bytes);
        assert_false(w.has_mtp);
        const struct ck_tensor *t = ck_find(&ck, "model.layers.0.mlp.gate_proj.weight");
        assert_memory_equal(w.layer[0].gate.data, t->data, t->n_bytes); /* ref keeps the order */
    }
    assert_true(w.layer[0].gate.scale2 == 0.05f);
}

static float stored(const char *name, int64_t i)
{
    float f;
    memcpy(&f, ck_find(&ck, name)->data + 4 * i, 4);
    return f;
}

/* Vectors are prepared: +1, -exp, or plain. */
static void test_vectors(void **state)
{
    (void)state;
    loads();
    assert_true(w.norm[31] == 1 + stored("model.norm.weight", 31));
    assert_true(w.layer[0].norm_in[3] == 1 + stored("model.layers.0.input_layernorm.weight", 3));
    assert_true(w.layer[1].norm_post[3] ==
                1 + stored("model.layers.1.post_attention_layernorm.weight", 3));
    assert_true(w.layer[1].q_norm[15] == 1 + stored("model.layers.1.self_attn.q_norm.weight", 15));
    assert_true(w.layer[1].k_norm[0] == 1 + stored("model.layers.1.self_attn.k_norm.weight", 0));
    assert_true(w.layer[0].head_norm[2] == stored("model.layers.0.linear_attn.norm.weight", 2));
    assert_true(w.layer[0].neg_a[1] == -expf(stored("model.layers.0.linear_attn.A_log", 1)));
    assert_true(w.layer[0].dt_bias[1] == stored("model.layers.0.linear_attn.dt_bias", 1));
    assert_true(w.layer[0].conv[191] == stored("model.layers.0.linear_attn.conv1d.weight", 191));
    assert_true(w.layer[0].kind == HG_LAYER_GDN && w.layer[1].kind == HG_LAYER_ATTN);
    assert_null(w.layer[1].conv);
    assert_null(w.layer[0].q.data);
}

static void test_prefixes(void **state)
{
    (void)state;
    static const char *const all[] = {"model.", "model.language_model.", "language_model.model."};
    for (size_t i = 0; i < 3; i++) {
        char name[160];
        fill(all[i], HG_BF16, true);
        loads();
        assert_true(w.has_mtp);
        snprintf(name, sizeof name, "%snorm.weight", all[i]);
        ck_remove(&ck, name);
        fails(HG_EFORMAT, name, "missing", NULL);
    }
    /* without an embedding nothing tells the prefix */
    fill("model.language_model.", HG_BF16, false);
    ck_remove(&ck, "model.language_model.embed_tokens.weight");
    fails(HG_EFORMAT, "model.embed_tokens.weight: missing", "[24, 32]", NULL);
}

static void test_tied(void **state)
{
    (void)state;
    ck_remove(&ck, "lm_head.weight");
    fails(HG_EFORMAT, "lm_head.weight: missing from the checkpoint, expected [24, 32]", NULL);
    config.tied = true;
    loads();
    assert_ptr_equal(w.lm_head.data, w.embed.data);
    int64_t n = w.n_params;
    assert_true(w.n_bytes == w.n_bytes_token); /* the table is read whole, as lm_head */
    add("", &head, HG_BF16);                   /* a second copy is left alone */
    loads();
    assert_ptr_equal(w.lm_head.data, w.embed.data);
    assert_int_equal(w.n_params, n);
    /* config.json says nothing of the sort: an lm_head of its own, no copy */
    unload();
    config.tied = false;
    loads();
    assert_ptr_not_equal(w.lm_head.data, w.embed.data);
}

static void test_visual(void **state)
{
    (void)state;
    ck_add(&ck, "model.visual.blocks.0.attn.qkv.weight", HG_BF16, 2, (int64_t[]){3, 3});
    ck_add(&ck, "visual.pos_embed", HG_I64, 1, (int64_t[]){7});
    loads();
}

static void test_kv_scales(void **state)
{
    (void)state;
    const char *name = "model.layers.1.self_attn.k_proj.k_scale";
    loads();
    assert_true(w.layer[1].k_scale == 1 && w.layer[1].v_scale == 1);
    struct ck_tensor *k = ck_add(&ck, name, HG_F32, 0, NULL);
    struct ck_tensor *v =
        ck_add(&ck, "model.layers.1.self_attn.v_proj.v_scale", HG_BF16, 1, (int64_t[]){1});
    ck_set(k, 0, 0.25f);
    ck_set(v, 0, 3);
    loads();
    assert_true(w.layer[1].k_scale == 0.25f && w.layer[1].v_scale == 3);
    const float bad[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < 4; i++) {
        ck_set(k, 0, bad[i]);
        fails(HG_EFORMAT, name, "is not a positive number", "model.safetensors", NULL);
    }
    ck_reshape(k, HG_F32, 1, (int64_t[]){2});
    fails(HG_EFORMAT, name, "shape [2], expected []", NULL);
    ck_reshape(k, HG_I32, 0, NULL);
    fails(HG_EUNSUP, name, "stored as I32", NULL);
    ck_remove(&ck, name);
    ck_set(ck_add(&ck, "model.layers.0.self_attn.k_proj.k_scale", HG_F32, 0, NULL), 0, 1);
    fails(HG_EFORMAT, "model.layers.0.self_attn.k_proj.k_scale: unknown tensor", NULL);
}

/* Data at odd addresses, and spread over two files, gives the same matrices on every device. */
static void test_alignment(void **state)
{
    (void)state;
    char device[64];
    static const enum hg_dtype all[] = {HG_F32, HG_F16, HG_BF16, HG_U8};
    for (int32_t i = 0; fix_device(&i, device);)
        for (size_t f = 0; f < 4; f++) {
            struct hg_backend_params bp = {.device = device, .max_rows = 8, .n_threads = 1};
            unload();
            hg_backend_close(be);
            be = NULL;
            assert_int_equal(hg_backend_open(&bp, &be, &err), HG_OK);
            fill("model.", all[f], true);
            loads();
            uint8_t *down = malloc(w.layer[1].down.n_bytes);
            memcpy(down, w.layer[1].down.data, w.layer[1].down.n_bytes);
            float norm = w.norm[5];
            for (int32_t pad = 1; pad < 8; pad++) {
                assert_int_equal(load(1 + pad % 2, pad), HG_OK);
                assert_memory_equal(down, w.layer[1].down.data, w.layer[1].down.n_bytes);
                assert_true(w.norm[5] == norm);
            }
            free(down);
        }
}

/* ------------------------------------------------------------------------------ what does not -- */

/* Every tensor in turn: missing, of another shape, of another rank, of another type. */
static void spoil_each(const char *prefix, const struct spec *specs, int32_t n, bool with_mtp)
{
    for (int32_t i = 0; i < n; i++) {
        char name[160], want[64], got[64], missing[320], shape[320];
        snprintf(name, sizeof name, "%s%s", prefix, specs[i].name);
        hg_shape_text(specs[i].rank, specs[i].shape, want, sizeof want);

        fill("model.", HG_BF16, with_mtp);
        struct ck_tensor *t = ck_find(&ck, name);
        int64_t longer[] = {t->shape[0], t->shape[1], t->shape[2], 1};
        longer[specs[i].rank - 1]++;
        ck_reshape(t, HG_BF16, specs[i].rank, longer);
        snprintf(shape, sizeof shape, "%s: shape %s, expected %s (%s/model.safetensors)", name,
                 shape_text(t, got), want, dir);
        fails(HG_EFORMAT, shape, NULL);

        longer[specs[i].rank - 1]--;
        longer[specs[i].rank] = 1;
        ck_reshape(t, HG_BF16, specs[i].rank + 1, longer);
        snprintf(shape, sizeof shape, "%s: shape %s, expected %s (%s/model.safetensors)", name,
                 shape_text(t, got), want, dir);
        fails(HG_EFORMAT, shape, NULL);

        ck_reshape(t, HG_I16, specs[i].rank, specs[i].shape);
        fails(HG_EUNSUP, name, ": stored as I16, supported here is F32, F16", "model.safetensors)",
              NULL);
        ck_reshape(t, HG_F8_E4M3, specs[i].rank, specs[i].shape);
        fails(HG_EUNSUP, name, ": stored as F8_E4M3, supported here is", NULL);

        ck_remove(&ck, name);
        snprintf(missing, sizeof missing, "%s: missing from the checkpoint, expected %s", name,
                 want);
        fails(HG_EFORMAT, missing, NULL);
    }
}

static void test_each_tensor(void **state)
{
    (void)state;
    spoil_each("model.", body, N_BODY, false);
    spoil_each("", &head, 1, false);
}

static void test_mtp(void **state)
{
    (void)state;
    config.n_mtp = 1;
    loads(); /* announced, but a text-only export dropped it */
    assert_false(w.has_mtp);
    int64_t n = w.n_params;
    config.n_mtp = 0;
    fill("model.", HG_F16, true);
    loads();
    assert_true(w.has_mtp);
    assert_int_equal(w.n_params, n);
    add("mtp.", &head, HG_U8); /* quantized exports have an lm_head of its own */
    loads();
    ck_remove(&ck, "mtp.lm_head.weight_scale");
    fails(HG_EFORMAT, "mtp.lm_head.weight_scale: missing", NULL);
    fill("model.", HG_U8, true);
    loads();
    ck_set(ck_find(&ck, "mtp.fc.weight_scale_2"), 0, -1);
    fails(HG_EFORMAT, "mtp.fc.weight_scale_2: scale -1 is not a positive number", NULL);
    fill("model.", HG_U8, true);
    ck_add(&ck, "mtp.layers.1.mlp.up_proj.weight", HG_BF16, 2, (int64_t[]){48, 32});
    fails(HG_EFORMAT, "mtp.layers.1.mlp.up_proj.weight: unknown tensor", NULL);
    spoil_each("", mtp, N_MTP, true);
}

static void test_unknown(void **state)
{
    (void)state;
    static const char *const names[] = {
        "model.layers.0.mlp.gate_proj.bias",      /* no such tensor */
        "model.layers.0.self_attn.q_proj.weight", /* of the other kind of layer */
        "model.layers.1.linear_attn.A_log",
        "model.layers.2.input_layernorm.weight",   /* more layers than config.json says */
        "model.layers.0.mlp.up_proj.weight_scale", /* scales of a weight that is not NVFP4 */
        "model.visualiser.weight",
        "embed_tokens.weight",
        "x",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ck_add(&ck, names[i], HG_F32, 1, (int64_t[]){32});
        fails(HG_EFORMAT, names[i], ": unknown tensor, nothing in this architecture uses it (", dir,
              "/model.safetensors)", NULL);
        ck_remove(&ck, names[i]);
    }
    loads();
}

/* Which of two files holds the culprit. */
static void test_names_the_shard(void **state)
{
    (void)state;
    ck_reshape(&ck.t[0], HG_F32, 2, (int64_t[]){32, 24});
    assert_int_equal(load(2, 0), HG_EFORMAT);
    assert_non_null(strstr(err.text, "embed_tokens.weight: shape [32, 24], expected [24, 32] ("));
    assert_non_null(strstr(err.text, "/a.safetensors)"));
    fill("model.", HG_F32, false);
    ck_reshape(ck_find(&ck, "lm_head.weight"), HG_F64, 2, head.shape);
    assert_int_equal(load(2, 0), HG_EUNSUP);
    assert_non_null(strstr(err.text, "lm_head.weight: stored as F64"));
    assert_non_null(strstr(err.text, "/b.safetensors)"));
}

static void test_nvfp4(void **state)
{
    (void)state;
#define Q "model.layers.1.self_attn.q_proj."
    fill("model.", HG_U8, false);
    loads();
    ck_remove(&ck, Q "input_scale"); /* weights alone are enough */
    loads();
    ck_remove(&ck, Q "weight_scale");
    fails(HG_EFORMAT, Q "weight_scale: missing from the checkpoint, expected F8_E4M3 block scales",
          NULL);
    ck_add(&ck, Q "weight_scale", HG_F8_E4M3, 2, (int64_t[]){64, 4});
    fails(HG_EFORMAT, Q "weight_scale: shape [64, 4], expected [64, 2] (", NULL);
    ck_reshape(ck_find(&ck, Q "weight_scale"), HG_F8_E4M3, 1, (int64_t[]){128});
    fails(HG_EFORMAT, Q "weight_scale: shape [128], expected [64, 2] (", NULL);
    ck_reshape(ck_find(&ck, Q "weight_scale"), HG_U8, 2, (int64_t[]){64, 2});
    fails(HG_EUNSUP, Q "weight_scale: stored as U8, supported here is F8_E4M3", NULL);
    ck_reshape(ck_find(&ck, Q "weight_scale"), HG_F8_E4M3, 2, (int64_t[]){64, 2});
    loads();
    ck_reshape(ck_find(&ck, Q "weight"), HG_U8, 2, (int64_t[]){64, 32});
    fails(HG_EFORMAT, Q "weight: shape [64, 32], expected [64, 16] (", NULL);

    fill("model.", HG_U8, false);
    const float bad[] = {0, -0.5f, NAN, INFINITY};
    for (size_t i = 0; i < 4; i++) {
        ck_set(ck_find(&ck, Q "weight_scale_2"), 0, bad[i]);
        fails(HG_EFORMAT, Q "weight_scale_2: scale ", "is not a positive number", dir, NULL);
    }
    ck_reshape(ck_find(&ck, Q "weight_scale_2"), HG_F32, 1, (int64_t[]){64});
    fails(HG_EFORMAT, Q "weight_scale_2: shape [64], expected []", NULL);
    ck_remove(&ck, Q "weight_scale_2");
    fails(HG_EFORMAT, Q "weight_scale_2: missing from the checkpoint, expected F32 global scale",
          NULL);
#undef Q
    /* 40 columns: not in groups of 16 */
    fill("model.", HG_BF16, false);
    config.d_ff = 40;
    ck_reshape(ck_find(&ck, "model.layers.0.mlp.gate_proj.weight"), HG_BF16, 2,
               (int64_t[]){40, 32});
    ck_reshape(ck_find(&ck, "model.layers.0.mlp.up_proj.weight"), HG_BF16, 2, (int64_t[]){40, 32});
    ck_reshape(ck_find(&ck, "model.layers.0.mlp.down_proj.weight"), HG_U8, 2, (int64_t[]){32, 20});
    fails(HG_EFORMAT, "model.layers.0.mlp.down_proj.weight: NVFP4 with 40 columns, not a multiple",
          NULL);
}

/* Vectors are looked at: one NaN in a norm spoils every token. */
static void test_not_finite(void **state)
{
    (void)state;
    static const enum hg_dtype all[] = {HG_F32, HG_F16, HG_BF16};
    for (int32_t i = 0; i < N_BODY; i++) {
        char name[160], says[200];
        if (body[i].rank == 2) continue;
        fill("model.", all[i % 3], false);
        snprintf(name, sizeof name, "model.%s", body[i].name);
        ck_set(ck_find(&ck, name), 1, i % 2 ? NAN : -INFINITY);
        snprintf(says, sizeof says, "%s: element 1 is %s", name, i % 2 ? "nan" : "-inf");
        fails(HG_EFORMAT, says, dir, NULL);
    }
}

/* ----------------------------------------------------------------------------------- dummies -- */

static void test_dummy(void **state)
{
    (void)state;
    for (enum hg_format f = 0; f < HG_N_FORMATS; f++) {
        unload();
        if (hg_weights_dummy(&w, &config, f, 3, be, NULL, NULL, &err)) fail_msg("%s", err.text);
        assert_int_equal(w.layer[0].gate.format, f);
        assert_int_equal(w.embed.format, f == HG_FMT_NVFP4 ? HG_FMT_BF16 : f);
        double sum = 0; /* of squares of the values: about 1 in k times k */
        for (int32_t j = 0; j < 32; j++)
            for (int32_t i = 0; i < 32; i++) {
                double x = (double)(ref_weight(&w.layer[1].o, j, i) * w.layer[1].o.scale2);
                sum += x * x / 32;
            }
        if (!(sum > 0.2 && sum < 3)) fail_msg("%s: variance %g / k", hg_format_name(f), sum);
        int64_t n = w.n_params;
        unload();
        config.tied = !config.tied;
        if (hg_weights_dummy(&w, &config, f, 3, be, NULL, NULL, &err)) fail_msg("%s", err.text);
        assert_int_equal(w.n_params, config.tied ? n - 24 * 32 : n + 24 * 32);
        unload();
        config.tied = !config.tied;
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_formats),    TEST(test_vectors),         TEST(test_prefixes),
        TEST(test_tied),       TEST(test_visual),          TEST(test_kv_scales),
        TEST(test_alignment),  TEST(test_each_tensor),     TEST(test_mtp),
        TEST(test_unknown),    TEST(test_names_the_shard), TEST(test_nvfp4),
        TEST(test_not_finite), TEST(test_dummy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
