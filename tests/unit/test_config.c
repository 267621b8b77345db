/* config.json: every geometry of the family, every refusal. A test edits one key of a good base
 * config and looks at the struct or at the message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/file.h"
#include "checkpoint/config.h"

static struct hg_config config;
static struct hg_err err;

/* qwen3.6-27b as published: nested, with a vision part and interleaved mrope. */
static const char nested[] =
    "{\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],\"model_type\":\"qwen3_5\","
    "\"image_token_id\":248056,\"language_model_only\":false,\"tie_word_embeddings\":false,"
    "\"vision_config\":{\"model_type\":\"qwen3_5\",\"hidden_size\":1152,\"depth\":27},"
    "\"text_config\":{\"model_type\":\"qwen3_5_text\",\"vocab_size\":248320,\"hidden_size\":5120,"
    "\"intermediate_size\":17408,\"num_hidden_layers\":64,\"num_attention_heads\":24,"
    "\"num_key_value_heads\":4,\"head_dim\":256,\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-06,"
    "\"attention_bias\":false,\"attn_output_gate\":true,\"linear_conv_kernel_dim\":4,"
    "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,\"linear_num_key_heads\":16,"
    "\"linear_num_value_heads\":48,\"full_attention_interval\":4,\"mamba_ssm_dtype\":\"float32\","
    "\"mtp_num_hidden_layers\":1,\"mtp_use_dedicated_embeddings\":false,"
    "\"output_gate_type\":\"swish\",\"max_position_embeddings\":262144,\"eos_token_id\":248044,"
    "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000000,"
    "\"partial_rotary_factor\":0.25,\"mrope_interleaved\":true,\"mrope_section\":[11,11,10]}}}";

/* The least that a text-only config must say. */
static const char flat[] =
    "{\"model_type\":\"qwen3_5_text\",\"vocab_size\":100,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"
    "\"rope_theta\":1000000.0}";

static enum hg_status parse(const char *text, const char *gen)
{
    memset(&err, 0, sizeof err);
    return hg_config_parse("d/config.json", text, strlen(text), gen, gen ? strlen(gen) : 0, &config,
                           &err);
}

/* The base config with the members `edit` put over its root or its text_config; null stands for
 * absent, as in HF files. */
static enum hg_status parse_edited(const char *base, bool in_text, const char *edit)
{
    char wrapped[2048];
    snprintf(wrapped, sizeof wrapped, "{%s}", edit);
    json_t *root = json_loads(base, 0, NULL), *changes = json_loads(wrapped, 0, NULL);
    assert_non_null(root);
    if (!changes) fail_msg("bad test: %s", wrapped);
    json_t *at = in_text ? json_object_get(root, "text_config") : root;
    json_object_update(at, changes);
    char *text = json_dumps(root, 0);
    enum hg_status s = parse(text, NULL);
    free(text);
    json_decref(root);
    json_decref(changes);
    return s;
}

static void good(const char *edit)
{
    if (parse_edited(flat, false, edit) != HG_OK) fail_msg("%s refused: %s", edit, err.text);
}

static void bad(enum hg_status want, const char *edit, const char *says)
{
    enum hg_status s = parse_edited(flat, false, edit);
    if (s != want) fail_msg("%s: status %s %s", edit, hg_status_name(s), err.text);
    assert_int_equal(err.status, want);
    if (strncmp(err.text, "d/config.json: ", 15) != 0 || !strstr(err.text, says))
        fail_msg("%s: error \"%s\" lacks \"%s\"", edit, err.text, says);
}

static void check_geometry(int d_model, int n_layers, int n_attn, int n_heads, int n_kv, int d_ff,
                           int n_k, int n_v, int conv, bool tied)
{
    int n = 0;
    for (int i = 0; i < config.n_layers; i++) {
        n += config.layer_kind[i] == HG_LAYER_ATTN;
        assert_int_equal(config.layer_kind[i], i % 4 == 3 ? HG_LAYER_ATTN : HG_LAYER_GDN);
    }
    assert_int_equal(n, n_attn);
    assert_int_equal(config.d_model, d_model);
    assert_int_equal(config.n_layers, n_layers);
    assert_int_equal(config.n_heads, n_heads);
    assert_int_equal(config.n_kv_heads, n_kv);
    assert_int_equal(config.d_ff, d_ff);
    assert_int_equal(config.n_k_heads, n_k);
    assert_int_equal(config.n_v_heads, n_v);
    assert_int_equal(hg_config_conv_dim(&config), conv);
    assert_int_equal(config.tied, tied);
    assert_int_equal(config.d_head, 256);
    assert_int_equal(config.d_rope, 64);
    assert_int_equal(config.d_k, 128);
    assert_int_equal(config.d_v, 128);
    assert_int_equal(config.n_mtp, 1);
    assert_true(config.rms_eps == 1e-6f);
}

static void test_presets(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int d_model, n_layers, n_attn, n_heads, n_kv, d_ff, n_k, n_v, conv;
        bool tied;
    } rows[] = {
        {"qwen3.5-0.8b", 1024, 24, 6, 8, 2, 3584, 16, 16, 6144, true},
        {"qwen3.5-2b", 2048, 24, 6, 8, 2, 6144, 16, 16, 6144, true},
        {"qwen3.5-4b", 2560, 32, 8, 16, 4, 9216, 16, 32, 8192, true},
        {"qwen3.5-9b", 4096, 32, 8, 16, 4, 12288, 16, 32, 8192, false},
        {"qwen3.6-27b", 5120, 64, 16, 24, 4, 17408, 16, 48, 10240, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64], *text;
        snprintf(path, sizeof path, "models/presets/%s.json", rows[i].name);
        assert_int_equal(hg_file_read(path, 1 << 20, &text, NULL, &err), HG_OK);
        if (parse(text, NULL) != HG_OK) fail_msg("%s: %s", path, err.text);
        free(text);
        check_geometry(rows[i].d_model, rows[i].n_layers, rows[i].n_attn, rows[i].n_heads,
                       rows[i].n_kv, rows[i].d_ff, rows[i].n_k, rows[i].n_v, rows[i].conv,
                       rows[i].tied);
        assert_int_equal(config.n_vocab, 248320);
        assert_int_equal(config.n_ctx_max, 262144);
        assert_int_equal(config.n_eos, 2);
        assert_true(config.rope_theta == 1e7f);
    }
}

static void test_nested(void **state)
{
    (void)state;
    if (parse(nested, "{\"eos_token_id\":[248046,248044],\"do_sample\":true,\"temperature\":0.6,"
                      "\"top_k\":20,\"top_p\":0.95}") != HG_OK)
        fail_msg("%s", err.text);
    check_geometry(5120, 64, 16, 24, 4, 17408, 16, 48, 10240, false);
    assert_string_equal(config.model_type, "qwen3_5_text");
    assert_int_equal(config.n_eos, 2);
    assert_int_equal(config.eos[0], 248046);
    assert_int_equal(config.sampling.top_k, 20);
    assert_true(config.sampling.top_p == 0.95f);
    assert_true(config.sampling.temperature == 0.6f);
    assert_false(config.kv_fp8);
    /* errors name the nested key */
    assert_int_equal(parse_edited(nested, true, "\"head_dim\":0"), HG_EFORMAT);
    assert_non_null(strstr(err.text, "text_config.head_dim is 0, expected an integer from 2"));
    assert_int_equal(parse_edited(nested, false, "\"text_config\":7"), HG_EFORMAT);
    assert_non_null(strstr(err.text, "text_config is 7, expected an object"));
    /* text_config without a model_type of its own */
    assert_int_equal(parse_edited(nested, true, "\"model_type\":null"), HG_OK);
    assert_string_equal(config.model_type, "qwen3_5");
}

static void test_nano(void **state)
{
    (void)state;
    static const struct {
        const char *dir;
        bool tied, kv_fp8;
    } models[] = {{"models/nano", false, true}, {"../shared/models/nano-bf16", true, false}};
    for (size_t i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/config.json", models[i].dir);
        if (!hg_file_exists(path)) {
            print_message("skip: no %s\n", models[i].dir);
            continue;
        }
        if (hg_config_open(models[i].dir, &config, &err) != HG_OK) fail_msg("%s", err.text);
        check_geometry(320, 12, 3, 4, 2, 768, 2, 6, 1280, models[i].tied);
        assert_int_equal(config.kv_fp8, models[i].kv_fp8);
        assert_int_equal(config.n_vocab, 8192);
        assert_int_equal(config.eos[0], 8161);
        assert_int_equal(config.eos[1], 8159);
        assert_true(config.sampling.temperature == 0);
        assert_true(config.rope_theta == 1e6f);
    }
}

static void test_defaults(void **state)
{
    (void)state;
    good("");
    assert_int_equal(config.d_head, 256);
    assert_int_equal(config.d_rope, 64);
    assert_int_equal(config.n_ctx_max, 32768);
    assert_int_equal(config.n_mtp, 0);
    assert_int_equal(config.n_eos, 0);
    assert_false(config.tied);
    assert_true(config.rms_eps == 1e-6f);
    assert_true(config.sampling.temperature == 0 && config.sampling.top_p == 1);
    assert_true(config.sampling.repetition_penalty == 1);
    good("\"unknown_key\":{\"x\":[1]},\"head_dim\":null,\"hidden_act\":null,\"layer_types\":null,"
         "\"rope_scaling\":null,\"rope_parameters\":null,\"eos_token_id\":null,"
         "\"text_config\":null,\"num_experts\":0");
    assert_int_equal(config.d_head, 256);
}

static void test_layer_types(void **state)
{
    (void)state;
    good("\"full_attention_interval\":2");
    assert_int_equal(config.layer_kind[0], HG_LAYER_GDN);
    assert_int_equal(config.layer_kind[1], HG_LAYER_ATTN);
    good("\"full_attention_interval\":1");
    assert_int_equal(config.layer_kind[0], HG_LAYER_ATTN);
    good("\"full_attention_interval\":1,\"layer_types\":[\"full_attention\",\"linear_attention\","
         "\"linear_attention\",\"full_attention\"]"); /* layer_types wins */
    assert_int_equal(config.layer_kind[0], HG_LAYER_ATTN);
    assert_int_equal(config.layer_kind[1], HG_LAYER_GDN);
    bad(HG_EFORMAT, "\"full_attention_interval\":0", "full_attention_interval is 0");
    bad(HG_EFORMAT, "\"layer_types\":[\"full_attention\"]",
        "layer_types has 1 entries, num_hidden_layers is 4");
    bad(HG_EFORMAT, "\"layer_types\":\"full_attention\"", "expected an array");
    bad(HG_EUNSUP,
        "\"layer_types\":[\"full_attention\",\"linear_attention\",\"sliding_attention\",\"x\"]",
        "layer_types[2] is \"sliding_attention\", supported:");
    bad(HG_EUNSUP, "\"layer_types\":[1,2,3,4]", "layer_types[0] is 1");
}

static void test_rope(void **state)
{
    (void)state;
    good("\"rope_theta\":null,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5e5,"
         "\"partial_rotary_factor\":0.5}");
    assert_true(config.rope_theta == 5e5f);
    assert_int_equal(config.d_rope, 128);
    good("\"partial_rotary_factor\":0.125");
    assert_int_equal(config.d_rope, 32);
    good("\"partial_rotary_factor\":0.125,\"rope_theta\":7,"
         "\"rope_parameters\":{\"rope_theta\":8,\"partial_rotary_factor\":1}");
    assert_true(config.rope_theta == 8.0f); /* rope_parameters wins */
    assert_int_equal(config.d_rope, 256);
    good("\"rope_scaling\":{\"type\":\"default\",\"rope_type\":\"default\",\"mrope_section\":[1]}");
    bad(HG_EUNSUP, "\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4}",
        "rope_parameters.rope_type is \"yarn\", supported: \"default\"");
    bad(HG_EUNSUP, "\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}", "rope_scaling.type");
    bad(HG_EUNSUP, "\"rope_scaling\":{\"rope_type\":\"dynamic\"}", "rope_scaling.rope_type");
    bad(HG_EFORMAT, "\"rope_parameters\":[]", "expected an object");
    bad(HG_EFORMAT, "\"rope_theta\":null", "rope_parameters.rope_theta is missing");
    bad(HG_EFORMAT, "\"rope_theta\":0", "rope_theta is 0, expected a number from 1");
    bad(HG_EFORMAT, "\"rope_theta\":1e300", "rope_theta is 1");
    bad(HG_EFORMAT, "\"rope_theta\":\"1e6\"", "rope_theta is \"1e6\"");
    bad(HG_EFORMAT, "\"partial_rotary_factor\":1.5", "partial_rotary_factor is 1.5");
    bad(HG_EFORMAT, "\"partial_rotary_factor\":-1", "partial_rotary_factor is -1");
    bad(HG_EFORMAT, "\"head_dim\":6", "rotates 1 dimensions, expected an even number");
    bad(HG_EFORMAT, "\"head_dim\":2", "rotates 0 dimensions, expected an even number");
}

static void test_model_types(void **state)
{
    (void)state;
    bad(HG_EUNSUP, "\"model_type\":\"qwen3_5_moe_text\"",
        "model_type is \"qwen3_5_moe_text\", MoE is not supported yet");
    bad(HG_EUNSUP, "\"model_type\":\"qwen3_moe\"", "MoE is not supported yet");
    bad(HG_EUNSUP, "\"num_experts\":256", "num_experts is 256, MoE is not supported yet");
    bad(HG_EUNSUP, "\"model_type\":\"llama\"",
        "model_type is \"llama\", supported: \"qwen3_5\" and \"qwen3_5_text\"");
    bad(HG_EUNSUP, "\"model_type\":\"qwen3_next\"", "supported:");
    bad(HG_EUNSUP, "\"model_type\":5", "model_type is 5");
    bad(HG_EFORMAT, "\"model_type\":null", "model_type is missing");
    assert_int_equal(parse_edited(nested, false, "\"model_type\":\"qwen3_5_moe\""), HG_EUNSUP);
    assert_int_equal(parse_edited(nested, true, "\"model_type\":\"qwen3_5_moe_text\""), HG_EUNSUP);
    assert_non_null(strstr(err.text, "text_config.model_type"));
    assert_int_equal(parse_edited(nested, true, "\"num_experts\":8"), HG_EUNSUP);
}

static void test_fixed_values(void **state)
{
    (void)state;
    good("\"output_gate_type\":\"silu\",\"hidden_act\":\"silu\"");
    bad(HG_EUNSUP, "\"hidden_act\":\"gelu\"", "hidden_act is \"gelu\", supported: \"silu\"");
    bad(HG_EUNSUP, "\"output_gate_type\":\"sigmoid\"",
        "output_gate_type is \"sigmoid\", supported: \"swish\" or \"silu\"");
    bad(HG_EUNSUP, "\"attention_bias\":true", "attention_bias is true, supported: false");
    bad(HG_EUNSUP, "\"attn_output_gate\":false", "attn_output_gate is false, supported: true");
    bad(HG_EUNSUP, "\"attn_output_gate\":1", "attn_output_gate is 1, supported: true");
    bad(HG_EUNSUP, "\"linear_conv_kernel_dim\":3", "linear_conv_kernel_dim is 3, supported: 4");
    bad(HG_EUNSUP, "\"linear_conv_kernel_dim\":4.0", "supported: 4");
    bad(HG_EUNSUP, "\"mtp_use_dedicated_embeddings\":true", "supported: false");
}

/* Every integer key: below, above, huge, real, text, bool, list; missing where required. */
static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int least, most;
        bool required;
    } keys[] = {
        {"vocab_size", 1, 1 << 24, true},
        {"hidden_size", 1, 1 << 16, true},
        {"intermediate_size", 1, 1 << 18, true},
        {"num_hidden_layers", 1, 256, true},
        {"num_attention_heads", 1, 1024, true},
        {"num_key_value_heads", 1, 1024, true},
        {"head_dim", 2, 512, false},
        {"linear_num_key_heads", 1, 128, true},
        {"linear_num_value_heads", 1, 256, true},
        {"linear_key_head_dim", 1, 256, false},
        {"linear_value_head_dim", 1, 256, false},
        {"max_position_embeddings", 1, 1 << 24, false},
        {"mtp_num_hidden_layers", 0, 1, false},
    };
    static const char *const bad_values[] = {"-1",
                                             "-9223372036854775808",
                                             "9223372036854775807",
                                             "2147483648",
                                             "4294967298",
                                             "4.0",
                                             "4.5",
                                             "1e3",
                                             "\"4\"",
                                             "true",
                                             "[4]",
                                             "{}"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char edit[128], says[128];
        snprintf(says, sizeof says, "expected an integer from %d to %d", keys[i].least,
                 keys[i].most);
        for (size_t j = 0; j < sizeof bad_values / sizeof *bad_values; j++) {
            snprintf(edit, sizeof edit, "\"%s\":%s", keys[i].key, bad_values[j]);
            bad(HG_EFORMAT, edit, says);
            assert_non_null(strstr(err.text, keys[i].key));
        }
        snprintf(edit, sizeof edit, "\"%s\":%d", keys[i].key, keys[i].least - 1);
        bad(HG_EFORMAT, edit, says);
        snprintf(edit, sizeof edit, "\"%s\":%d", keys[i].key, keys[i].most + 1);
        bad(HG_EFORMAT, edit, says);
        snprintf(edit, sizeof edit, "\"%s\":null", keys[i].key);
        if (keys[i].required)
            bad(HG_EFORMAT, edit, "is missing");
        else
            good(edit);
    }
    bad(HG_EFORMAT, "\"num_key_value_heads\":3",
        "num_attention_heads is 4, expected a multiple of num_key_value_heads 3");
    bad(HG_EFORMAT, "\"num_attention_heads\":130",
        "num_attention_heads is 130, expected at most 64 for each of the 2 num_key_value_heads");
    bad(HG_EFORMAT, "\"linear_num_key_heads\":3",
        "linear_num_value_heads is 4, expected a multiple of linear_num_key_heads 3");
}

/* The largest values together: the int32 products that the limits promise. */
static void test_largest(void **state)
{
    (void)state;
    good("\"vocab_size\":16777216,\"hidden_size\":65536,\"intermediate_size\":262144,"
         "\"num_hidden_layers\":256,\"num_attention_heads\":1024,\"num_key_value_heads\":1024,"
         "\"head_dim\":512,\"linear_num_key_heads\":128,\"linear_num_value_heads\":256,"
         "\"linear_key_head_dim\":256,\"linear_value_head_dim\":256,"
         "\"max_position_embeddings\":16777216,\"mtp_num_hidden_layers\":1");
    assert_int_equal(config.n_layers, 256);
    assert_int_equal(2 * config.n_heads * config.d_head, 1 << 20);
    assert_int_equal(hg_config_conv_dim(&config), (2 * 128 + 256) * 256);
    assert_int_equal(config.n_v_heads * config.d_k * config.d_v, 1 << 24);
}

static void test_reals_and_bools(void **state)
{
    (void)state;
    good("\"rms_norm_eps\":1e-5");
    assert_true(config.rms_eps == 1e-5f);
    bad(HG_EFORMAT, "\"rms_norm_eps\":0", "rms_norm_eps is 0, expected a number");
    bad(HG_EFORMAT, "\"rms_norm_eps\":1e-60", "expected a number");
    bad(HG_EFORMAT, "\"rms_norm_eps\":\"x\"", "rms_norm_eps is \"x\"");
    good("\"tie_word_embeddings\":true");
    assert_true(config.tied);
    bad(HG_EFORMAT, "\"tie_word_embeddings\":1", "expected true or false");
    assert_int_equal(parse_edited(nested, false, "\"tie_word_embeddings\":true"), HG_OK);
    assert_true(config.tied);
    assert_int_equal(parse_edited(nested, true, "\"tie_word_embeddings\":true"), HG_OK);
    assert_true(config.tied);
}

static void test_eos(void **state)
{
    (void)state;
    good("\"eos_token_id\":99");
    assert_int_equal(config.n_eos, 1);
    assert_int_equal(config.eos[0], 99);
    good("\"eos_token_id\":[]");
    assert_int_equal(config.n_eos, 0);
    bad(HG_EFORMAT, "\"eos_token_id\":100", "eos_token_id is 100, expected ids from 0 to below");
    bad(HG_EFORMAT, "\"eos_token_id\":[1,-1]", "eos_token_id is [1,-1]");
    bad(HG_EFORMAT, "\"eos_token_id\":1.5", "eos_token_id is 1.5");
    bad(HG_EFORMAT, "\"eos_token_id\":\"</s>\"", "eos_token_id is \"</s>\"");
    bad(HG_EFORMAT, "\"eos_token_id\":[1,2,3,4,5,6,7,8,9]", "lists 9 ids, the limit is 8");
    /* text_config, else the root */
    assert_int_equal(parse_edited(nested, false, "\"eos_token_id\":5"), HG_OK);
    assert_int_equal(config.eos[0], 248044);
    assert_int_equal(parse(flat, "{\"eos_token_id\":[7,8]}"), HG_OK);
    assert_int_equal(config.n_eos, 2);
    assert_int_equal(config.eos[1], 8);
    assert_int_equal(parse(flat, "{\"eos_token_id\":100}"), HG_EFORMAT);
    assert_non_null(strstr(err.text, "d/generation_config.json: eos_token_id is 100"));
}

static void test_sampling(void **state)
{
    (void)state;
    static const struct {
        const char *gen;
        float temperature;
    } rows[] = {
        {"{}", 0},
        {"{\"do_sample\":false,\"temperature\":0.7}", 0},
        {"{\"do_sample\":true}", 1},
        {"{\"do_sample\":true,\"temperature\":0.75}", 0.75f},
        {"{\"temperature\":0.5}", 0.5f},
        {"{\"temperature\":null}", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(parse(flat, rows[i].gen), HG_OK);
        assert_true(config.sampling.temperature == rows[i].temperature);
    }
    assert_int_equal(parse(flat, "{\"do_sample\":true,\"top_k\":-1,\"min_p\":0.1,"
                                 "\"repetition_penalty\":1.05,\"presence_penalty\":1.5}"),
                     HG_OK);
    assert_int_equal(config.sampling.top_k, 0);
    assert_true(config.sampling.min_p == 0.1f && config.sampling.presence_penalty == 1.5f);
    assert_true(config.sampling.repetition_penalty == 1.05f);
    static const char *const bad_gens[] = {"{\"temperature\":-1}",
                                           "{\"temperature\":\"hot\"}",
                                           "{\"top_k\":1.5}",
                                           "{\"top_k\":-2}",
                                           "{\"top_p\":0}",
                                           "{\"top_p\":1.1}",
                                           "{\"min_p\":2}",
                                           "{\"repetition_penalty\":0}",
                                           "{\"do_sample\":1}",
                                           "[]",
                                           "",
                                           "{\"presence_penalty\":3}"};
    for (size_t i = 0; i < sizeof bad_gens / sizeof *bad_gens; i++) {
        assert_int_equal(parse(flat, bad_gens[i]), HG_EFORMAT);
        assert_non_null(strstr(err.text, "d/generation_config.json: "));
    }
}

static void test_kv_fp8(void **state)
{
    (void)state;
    good("\"quantization_config\":{\"kv_cache_scheme\":{\"num_bits\":8,\"type\":\"float\"}}");
    assert_true(config.kv_fp8);
    good("\"quantization_config\":{\"kv_cache_scheme\":{\"num_bits\":8,\"type\":\"int\"}}");
    assert_false(config.kv_fp8);
    good("\"quantization_config\":{\"kv_cache_scheme\":null}");
    assert_false(config.kv_fp8);
    good("\"quantization_config\":7");
    assert_false(config.kv_fp8);
}

static void test_hostile_json(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "7",
                                        "null",
                                        "\"x\"",
                                        "{\"a\":1,\"a\":2}",
                                        "{\"a\":\"\xff\"}",
                                        "{} x",
                                        "{\"vocab_size\":1e999}",
                                        "{\"vocab_size\":99999999999999999999}",
                                        "\xef\xbb\xbf{}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(parse(texts[i], NULL), HG_EFORMAT);
        assert_non_null(strstr(err.text, "d/config.json: "));
    }
    struct hg_buf b;
    hg_buf_init(&b);
    for (int i = 0; i < 100000; i++) hg_buf_str(&b, "{\"text_config\":");
    assert_int_equal(parse(b.data, NULL), HG_EFORMAT);
    assert_non_null(strstr(err.text, "depth"));
    hg_buf_clear(&b);
    for (int i = 0; i < 200000; i++) hg_buf_str(&b, "[],");
    assert_int_equal(parse(b.data, NULL), HG_EFORMAT);
    assert_non_null(strstr(err.text, "values, the limit is"));
    hg_buf_clear(&b);
    for (int i = 0; i < 17 << 10; i++) hg_buf_printf(&b, "%1024s", "");
    assert_int_equal(parse(b.data, NULL), HG_EFORMAT);
    assert_non_null(strstr(err.text, "the limit is 16777216"));
    hg_buf_clear(&b); /* a value too long to show */
    hg_buf_str(&b, "{\"model_type\":\"");
    for (int i = 0; i < 1000; i++) hg_buf_str(&b, "\xc3\xa9");
    hg_buf_str(&b, "\"}");
    assert_int_equal(parse(b.data, NULL), HG_EUNSUP);
    assert_true(strlen(err.text) < 250);
    hg_buf_fini(&b);
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_open(void **state)
{
    (void)state;
    char dir[] = "/tmp/hedge_config_XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    assert_int_equal(hg_config_open(dir, &config, &err), HG_EIO);
    assert_non_null(strstr(err.text, dir));
    assert_non_null(strstr(err.text, "/config.json: No such file"));
    assert_int_equal(hg_config_open("/nonexistent", &config, NULL), HG_EIO);
    put(dir, "config.json", flat);
    assert_int_equal(hg_config_open(dir, &config, &err), HG_OK);
    assert_false(config.kv_fp8);
    put(dir, "generation_config.json", "{\"eos_token_id\":3}");
    put(dir, "hf_quant_config.json", "{\"quantization\":{\"kv_cache_quant_algo\":\"FP8\"}}");
    assert_int_equal(hg_config_open(dir, &config, &err), HG_OK);
    assert_int_equal(config.eos[0], 3);
    assert_true(config.kv_fp8);
    put(dir, "hf_quant_config.json", "{");
    assert_int_equal(hg_config_open(dir, &config, &err), HG_EFORMAT);
    assert_non_null(strstr(err.text, "/hf_quant_config.json: bad JSON"));
    put(dir, "generation_config.json", "{");
    assert_int_equal(hg_config_open(dir, &config, &err), HG_EFORMAT);
    assert_non_null(strstr(err.text, "/generation_config.json: bad JSON"));
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "hf_quant_config.json"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_nano),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_layer_types),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_model_types),
        cmocka_unit_test(test_fixed_values),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_reals_and_bools),
        cmocka_unit_test(test_eos),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_kv_fp8),
        cmocka_unit_test(test_hostile_json),
        cmocka_unit_test(test_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
