/* Checkpoint directories, made under /tmp: shards and hg_inspect. */
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

#include "base/file.h"
#include "checkpoint/shards.h"

static const char *const files[] = {"config.json",       "generation_config.json",
                                    "a.safetensors",     "b.safetensors",
                                    "model.safetensors", "model.safetensors.index.json"};
static char dir[64];
static struct hg_shards *shards;
static struct hg_err err;

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/hedge_shards_XXXXXX");
    shards = NULL;
    memset(&err, 0, sizeof err);
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    hg_shards_close(shards);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    return rmdir(dir);
}

static void put(const char *name, const void *data, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static void put_shard(const char *name, const char *header, size_t n_data)
{
    static uint8_t image[4096];
    size_t n = strlen(header);
    assert_true(8 + n + n_data <= sizeof image);
    memset(image, 0, sizeof image);
    image[0] = (uint8_t)n;
    image[1] = (uint8_t)(n >> 8);
    memcpy(image + 8, header, n);
    for (size_t i = 0; i < n_data; i++) image[8 + n + i] = (uint8_t)(i + 1);
    put(name, image, 8 + n + n_data);
}

static void put_index(const char *weight_map)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":1},\"weight_map\":%s}", weight_map);
    put_text("model.safetensors.index.json", text);
}

#define U8(name, from, to)                                                                         \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" #to "],\"data_offsets\":[" #from "," #to "]}"

static void fails(enum hg_status want, const char *says, const char *says_too)
{
    assert_int_equal(hg_shards_open(dir, &shards, &err), want);
    assert_null(shards);
    if (!strstr(err.text, says) || !strstr(err.text, says_too))
        fail_msg("error \"%s\" lacks \"%s\" or \"%s\"", err.text, says, says_too);
}

static void test_single(void **state)
{
    (void)state;
    put_shard("model.safetensors",
              "{" U8("z", 0, 2) ",\"a\":{\"dtype\":\"U8\",\"shape\":[],"
                                "\"data_offsets\":[2,3]}}",
              3);
    put_index("7"); /* not read */
    assert_int_equal(hg_shards_open(dir, &shards, &err), HG_OK);
    assert_int_equal(hg_shards_count(shards), 2);
    assert_string_equal(hg_shards_at(shards, 0)->name, "a");
    assert_string_equal(hg_shards_at(shards, 1)->name, "z");
    assert_int_equal(*(const uint8_t *)hg_shards_find(shards, "a")->data, 3);
    assert_int_equal(*(const uint8_t *)hg_shards_find(shards, "z")->data, 1);
    assert_null(hg_shards_find(shards, "m"));
    assert_null(hg_shards_find(shards, ""));
    assert_non_null(strstr(hg_shards_at(shards, 0)->file, "model.safetensors"));
}

static void test_two_shards(void **state)
{
    (void)state;
    put_shard("a.safetensors", "{" U8("m", 0, 2) "}", 2);
    put_shard("b.safetensors", "{" U8("b", 0, 3) "}", 3);
    put_index("{\"m\":\"a.safetensors\",\"b\":\"b.safetensors\"}");
    assert_int_equal(hg_shards_open(dir, &shards, &err), HG_OK);
    assert_int_equal(hg_shards_count(shards), 2);
    assert_string_equal(hg_shards_at(shards, 0)->name, "b");
    assert_int_equal(hg_shards_find(shards, "m")->n_bytes, 2);
    assert_non_null(strstr(hg_shards_find(shards, "m")->file, "/a.safetensors"));
}

static void test_no_tensors(void **state)
{
    (void)state;
    put_shard("model.safetensors", "{}", 0);
    assert_int_equal(hg_shards_open(dir, &shards, &err), HG_OK);
    assert_int_equal(hg_shards_count(shards), 0);
    assert_null(hg_shards_find(shards, "a"));
}

static void test_missing_files(void **state)
{
    (void)state;
    fails(HG_EIO, "neither model.safetensors nor model.safetensors.index.json", dir);
    put_shard("a.safetensors", "{" U8("m", 0, 2) "}", 2);
    put_index("{\"m\":\"a.safetensors\",\"b\":\"b.safetensors\"}");
    fails(HG_EIO, "/b.safetensors: No such file", dir);
    assert_int_equal(hg_shards_open("/nonexistent/model", &shards, &err), HG_EIO);
    assert_int_equal(hg_shards_open("/nonexistent/model", &shards, NULL), HG_EIO);
}

static void test_index_disagrees(void **state)
{
    (void)state;
    put_shard("a.safetensors", "{" U8("m", 0, 2) "}", 2);
    put_shard("b.safetensors", "{" U8("b", 0, 3) "}", 3);
    put_index("{\"m\":\"a.safetensors\",\"b\":\"b.safetensors\",\"c\":\"b.safetensors\"}");
    fails(HG_EFORMAT, "index.json: c is not in b.safetensors", "");
    put_index("{\"m\":\"a.safetensors\",\"c\":\"b.safetensors\"}");
    fails(HG_EFORMAT, "b.safetensors: b is not in ", "index.json");
    put_index("{\"m\":\"b.safetensors\",\"b\":\"b.safetensors\"}");
    fails(HG_EFORMAT, "index.json: m is not in b.safetensors", "");
    put_index("{\"m\":\"a.safetensors\",\"b\":\"a.safetensors\"}");
    fails(HG_EFORMAT, "index.json: b is not in a.safetensors", "");
    put_shard("b.safetensors",
              "{" U8("b", 0, 3) ",\"m\":{\"dtype\":\"U8\",\"shape\":[0],"
                                "\"data_offsets\":[3,3]}}",
              3); /* m twice */
    put_index("{\"m\":\"a.safetensors\",\"b\":\"b.safetensors\"}");
    fails(HG_EFORMAT, "b.safetensors: has m, which ", "puts into a.safetensors");
}

static void test_bad_index(void **state)
{
    (void)state;
    put_shard("a.safetensors", "{" U8("m", 0, 2) "}", 2);
    static const char *const maps[] = {"{\"m\":\"../a.safetensors\"}",
                                       "{\"m\":\"/etc/passwd\"}",
                                       "{\"m\":\"..\"}",
                                       "{\"m\":\"x/a.safetensors\"}",
                                       "{\"m\":\"\"}",
                                       "{\"m\":7}",
                                       "{\"m\":null}",
                                       "{\"m\":\"a\\u001b\"}"};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        put_index(maps[i]);
        fails(HG_EFORMAT, "shard of m is ", "index.json");
    }
    put_index("{\"m\\u001b\":\"a.safetensors\"}");
    fails(HG_EFORMAT, "control character", "index.json");
    put_index("{}");
    fails(HG_EFORMAT, "weight_map", "index.json");
    put_index("[]");
    fails(HG_EFORMAT, "weight_map", "index.json");
    put_text("model.safetensors.index.json", "[]");
    fails(HG_EFORMAT, "weight_map", "index.json");
    put_index("{\"m\":\"a.safetensors\",\"m\":\"a.safetensors\"}");
    fails(HG_EFORMAT, "duplicate", "index.json");
    put_text("model.safetensors.index.json", "");
    fails(HG_EFORMAT, "bad JSON", "index.json");
}

static void test_bad_shard(void **state)
{
    (void)state;
    put_index("{\"m\":\"a.safetensors\"}");
    put_text("a.safetensors", "");
    fails(HG_EFORMAT, "/a.safetensors: 0 bytes", dir);
    put_text("a.safetensors", "<html>404 not found</html>");
    fails(HG_EFORMAT, "/a.safetensors: safetensors header of", dir);
    put_shard("a.safetensors", "{" U8("m", 0, 2) "}", 1);
    fails(HG_EFORMAT, "/a.safetensors: m: data_offsets", "");
}

static const char config[] =
    "{\"model_type\":\"qwen3_5_text\",\"vocab_size\":8,\"hidden_size\":16,\"intermediate_size\":8,"
    "\"num_hidden_layers\":4,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"rope_theta\":"
    "1e6,"
    "\"linear_num_key_heads\":1,\"linear_num_value_heads\":2}";

static json_int_t number(const json_t *o, const char *path)
{
    char key[64];
    for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        o = json_object_get(o, key);
    }
    assert_true(json_is_integer(json_object_get(o, path)));
    return json_integer_value(json_object_get(o, path));
}

static void test_inspect(void **state)
{
    (void)state;
    json_t *out;
    assert_int_equal(hg_inspect(NULL, &out, &err), HG_EINVAL);
    assert_null(out);
    assert_int_equal(hg_inspect(dir, &out, &err), HG_EIO);
    assert_non_null(strstr(err.text, "/config.json: No such file"));
    put_text("config.json", config);
    assert_int_equal(hg_inspect(dir, &out, &err), HG_EIO);
    assert_non_null(strstr(err.text, "model.safetensors.index.json"));
    put_shard("model.safetensors",
              "{\"u\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
              "\"q.weight\":{\"dtype\":\"U8\",\"shape\":[4,8],\"data_offsets\":[2,34]},"
              "\"q.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[4,1],\"data_offsets\":[34,38]},"
              "\"q.weight_scale_2\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[38,42]},"
              "\"n.weight\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[42,48]}}",
              48);
    assert_int_equal(hg_inspect(dir, &out, &err), HG_OK);
    assert_int_equal(number(out, "parameters"), 2 + 64 + 3);
    assert_int_equal(number(out, "bytes"), 48);
    assert_int_equal(number(out, "formats.U8.tensors"), 2);
    assert_int_equal(number(out, "formats.U8.bytes"), 34);
    assert_int_equal(number(out, "formats.BF16.bytes"), 6);
    assert_int_equal(number(out, "config.d_model"), 16);
    assert_string_equal(json_string_value(json_object_get(out, "model")), dir);
    const json_t *list = json_object_get(out, "tensors");
    assert_int_equal(json_array_size(list), 5);
    const json_t *q = json_array_get(list, 1);
    assert_string_equal(json_string_value(json_object_get(q, "name")), "q.weight");
    assert_string_equal(json_string_value(json_object_get(q, "dtype")), "U8");
    assert_string_equal(json_string_value(json_object_get(q, "file")), "model.safetensors");
    assert_int_equal(number(q, "bytes"), 32);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(q, "shape"), 1)), 8);
    json_decref(out);
}

/* The NVFP4 and BF16 twins have the same parameters but for the former's lm_head of its own. */
static void test_nano(void **state)
{
    (void)state;
    static const struct {
        const char *dir;
        json_int_t parameters, bytes;
    } models[] = {{"models/nano", 25857388 + 8192 * 320, 19922940},
                  {"../shared/models/nano-bf16", 25857388, 51714884}};
    for (size_t i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/config.json", models[i].dir);
        if (!hg_file_exists(path)) {
            print_message("skip: no %s\n", models[i].dir);
            continue;
        }
        json_t *out;
        if (hg_inspect(models[i].dir, &out, &err) != HG_OK) fail_msg("%s", err.text);
        assert_int_equal(number(out, "config.n_layers"), 12);
        assert_int_equal(number(out, "parameters"), models[i].parameters);
        assert_int_equal(number(out, "bytes"), models[i].bytes);
        json_decref(out);
    }
}

#define WITH_DIR(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DIR(test_single),        WITH_DIR(test_two_shards),      WITH_DIR(test_no_tensors),
        WITH_DIR(test_missing_files), WITH_DIR(test_index_disagrees), WITH_DIR(test_bad_index),
        WITH_DIR(test_bad_shard),     WITH_DIR(test_inspect),         cmocka_unit_test(test_nano),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
