/* tokenizer.json -> struct hg_tokenizer. What would give other ids than PyPI `tokenizers` is
 * refused: EFORMAT when the file contradicts itself, EUNSUP when it asks for what is not here. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

enum {
    LOAD_MAX_FILE = 256 << 20,
    LOAD_MAX_ID = 1 << 24,
    LOAD_MAX_ADDED = 512, /* bytes of an added token: bounds the work per place in a text */
    LOAD_MAX_WHOLE = 256, /* longer words are always merged */
    ALPHABET_END = 324    /* code points of the byte alphabet are below this */
};

struct loader {
    struct hg_tokenizer *t;
    json_t *root, *model, *vocab, *merges, *added;
    int16_t byte_of[ALPHABET_END]; /* by code point; -1: not in the alphabet */
    char *fill;                    /* free part of t->bytes */
    struct hg_err *err;
};

/* Texts in messages are cut short. */
#define SHOW(s, n) (int)((n) < 60 ? (n) : 60), (s)

static const char *json_kind(const json_t *j)
{
    static const char *const names[] = {"an object", "an array", "a string", "an integer",
                                        "a real",    "true",     "false",    "null"};
    return j ? names[json_typeof(j)] : "missing";
}

/* A missing flag is false. */
static enum hg_status get_flag(const json_t *o, const char *key, const char *where, bool *out,
                               struct hg_err *err)
{
    const json_t *v = json_object_get(o, key);
    if (v && !json_is_boolean(v))
        return hg_fail(err, HG_EFORMAT, "%s.%s is %s, expected a boolean", where, key,
                       json_kind(v));
    *out = json_is_true(v);
    return HG_OK;
}

static const char *get_type(const json_t *o)
{
    const char *s = json_string_value(json_object_get(o, "type"));
    return s ? s : json_is_object(o) ? "(no type)" : json_kind(o);
}

/* ------------------------------------------------------- normalizer and pre-tokenizer -- */

static enum hg_status load_normalizer(struct loader *l)
{
    const json_t *n = json_object_get(l->root, "normalizer");
    if (!n || json_is_null(n)) return HG_OK;
    const char *type = get_type(n);
    if (!strcmp(type, "NFC")) {
        l->t->nfc = true;
        return HG_OK;
    }
    if (strcmp(type, "Sequence") != 0)
        return hg_fail(l->err, HG_EUNSUP, "normalizer %s is not supported, only NFC is", type);
    json_t *list = json_object_get(n, "normalizers"), *one;
    if (!json_is_array(list))
        return hg_fail(l->err, HG_EFORMAT, "normalizer.normalizers is %s, expected an array",
                       json_kind(list));
    size_t i;
    json_array_foreach(list, i, one)
    {
        if (strcmp(get_type(one), "NFC") != 0)
            return hg_fail(l->err, HG_EUNSUP, "normalizer %s is not supported, only NFC is",
                           get_type(one));
        l->t->nfc = true;
    }
    return HG_OK;
}

static enum hg_status check_byte_level(struct loader *l, const json_t *b, bool *use_regex)
{
    bool prefix;
    if (strcmp(get_type(b), "ByteLevel") != 0)
        return hg_fail(l->err, HG_EUNSUP, "pre_tokenizer %s where ByteLevel is supported",
                       get_type(b));
    HG_TRY(get_flag(b, "add_prefix_space", "ByteLevel", &prefix, l->err));
    if (prefix)
        return hg_fail(l->err, HG_EUNSUP, "ByteLevel.add_prefix_space true is not supported");
    *use_regex = true; /* also when it is missing */
    if (json_object_get(b, "use_regex"))
        HG_TRY(get_flag(b, "use_regex", "ByteLevel", use_regex, l->err));
    return HG_OK;
}

static enum hg_status load_split(struct loader *l, const json_t *split)
{
    bool invert;
    const json_t *regex = json_object_get(json_object_get(split, "pattern"), "Regex");
    const char *behavior = json_string_value(json_object_get(split, "behavior"));
    if (strcmp(get_type(split), "Split") != 0)
        return hg_fail(l->err, HG_EUNSUP,
                       "pre_tokenizer %s before ByteLevel: only Split is "
                       "supported",
                       get_type(split));
    if (!json_is_string(regex))
        return hg_fail(l->err, HG_EUNSUP, "Split.pattern is no {\"Regex\": string}");
    HG_TRY(get_flag(split, "invert", "Split", &invert, l->err));
    if (!behavior || strcmp(behavior, "Isolated") != 0 || invert)
        return hg_fail(l->err, HG_EUNSUP,
                       "Split with behavior %s, invert %s: only Isolated, false "
                       "is supported",
                       behavior ? behavior : "missing", invert ? "true" : "false");
    return hg_pretok_create(json_string_value(regex), json_string_length(regex), l->t->classes,
                            false, &l->t->pretok, l->err);
}

/* ByteLevel with the GPT-2 pattern, or [Split, ByteLevel without a pattern of its own]. */
static enum hg_status load_pretok(struct loader *l)
{
    const json_t *p = json_object_get(l->root, "pre_tokenizer"), *last = p, *split = NULL;
    bool use_regex;
    if (!strcmp(get_type(p), "Sequence")) {
        const json_t *list = json_object_get(p, "pretokenizers");
        size_t n = json_array_size(list);
        if (n < 1 || n > 2)
            return hg_fail(l->err, HG_EUNSUP,
                           "pre_tokenizer Sequence of %zu, supported is [Split, "
                           "ByteLevel]",
                           n);
        last = json_array_get(list, n - 1);
        split = n == 2 ? json_array_get(list, 0) : NULL;
    }
    HG_TRY(check_byte_level(l, last, &use_regex));
    if (use_regex != !split)
        return hg_fail(l->err, HG_EUNSUP, "ByteLevel.use_regex %s %s a Split is not supported",
                       use_regex ? "true" : "false", split ? "after" : "without");
    if (split) return load_split(l, split);
    return hg_pretok_create(HG_PRETOK_GPT2, strlen(HG_PRETOK_GPT2), l->t->classes, false,
                            &l->t->pretok, l->err);
}

/* ----------------------------------------------------------------------- byte alphabet -- */

/* GPT-2 writes bytes as printable characters: those that are printable in Latin-1 stand for
 * themselves, the rest are U+0100, U+0101, ... in order. */
static void fill_alphabet(struct loader *l)
{
    memset(l->byte_of, 0xff, sizeof l->byte_of);
    int next = 0x100;
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        l->byte_of[printable ? b : next++] = (int16_t)b;
    }
}

/* Writes the bytes that s[0..n), valid UTF-8, stands for (never more than n). False when one of
 * its characters is not in the alphabet. */
static bool from_alphabet(const struct loader *l, const char *s, size_t n, char *out, size_t *n_out)
{
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        unsigned len;
        uint32_t c = hg_utf8_get(s + i, &len);
        if (c >= ALPHABET_END || l->byte_of[c] < 0) return false;
        out[k++] = (char)l->byte_of[c];
        i += len;
    }
    *n_out = k;
    return true;
}

/* --------------------------------------------------------------------------- vocabulary -- */

static enum hg_status get_id(const json_t *v, const char *where, const char *s, size_t n,
                             hg_tok *id, struct hg_err *err)
{
    if (!json_is_integer(v))
        return hg_fail(err, HG_EFORMAT, "%s: id of \"%.*s\" is %s", where, SHOW(s, n),
                       json_kind(v));
    json_int_t i = json_integer_value(v);
    if (i < 0 || i >= LOAD_MAX_ID)
        return hg_fail(err, HG_EFORMAT, "%s: id %lld of \"%.*s\" is not in 0..%d", where,
                       (long long)i, SHOW(s, n), LOAD_MAX_ID - 1);
    *id = (hg_tok)i;
    return HG_OK;
}

/* Checks shapes and ids, and makes room for what they ask for. */
static enum hg_status measure(struct loader *l)
{
    const char *key;
    json_t *value;
    size_t n, n_bytes = 0, i;
    hg_tok id, most = -1;
    json_object_keylen_foreach(l->vocab, key, n, value)
    {
        HG_TRY(get_id(value, "model.vocab", key, n, &id, l->err));
        if (id > most) most = id;
        n_bytes += n + 1;
    }
    json_array_foreach(l->added, i, value)
    {
        json_t *content = json_object_get(value, "content");
        if (!json_is_string(content))
            return hg_fail(l->err, HG_EFORMAT, "added_tokens[%zu].content is %s", i,
                           json_kind(content));
        n = json_string_length(content);
        HG_TRY(get_id(json_object_get(value, "id"), "added_tokens", json_string_value(content), n,
                      &id, l->err));
        if (id > most) most = id;
        n_bytes += n + 1;
    }
    struct hg_tokenizer *t = l->t;
    size_t n_slots = 16;
    while (n_slots < 2 * json_object_size(l->vocab)) n_slots *= 2;
    t->n_ids = most + 1;
    t->tokens = calloc((size_t)t->n_ids + 1, sizeof *t->tokens);
    t->bytes = l->fill = malloc(n_bytes + 1);
    t->words = malloc(n_slots * sizeof *t->words);
    t->word_mask = (uint32_t)(n_slots - 1);
    if (!t->tokens || !t->bytes || !t->words)
        return hg_fail(l->err, HG_ENOMEM, "out of memory for %d tokens", t->n_ids);
    memset(t->words, 0xff, n_slots * sizeof *t->words);
    return HG_OK;
}

static enum hg_status load_vocab(struct loader *l)
{
    struct hg_tokenizer *t = l->t;
    const char *key;
    json_t *value;
    size_t n;
    json_object_keylen_foreach(l->vocab, key, n, value)
    {
        hg_tok id = (hg_tok)json_integer_value(value);
        struct hg_token *k = &t->tokens[id];
        if (k->bytes)
            return hg_fail(l->err, HG_EFORMAT,
                           "model.vocab: id %d is given twice, again for "
                           "\"%.*s\"",
                           id, SHOW(key, n));
        size_t len = n;
        k->bytes = l->fill;
        if (n && from_alphabet(l, key, n, l->fill, &len)) {
            struct hg_word_slot *w = hg_word_slot(t, k->bytes, len);
            w->tag = (uint32_t)(hg_word_hash(k->bytes, len) >> 32);
            w->id = id;
            k->flags = HG_TOKEN_ALPHABET;
        } else {
            memcpy(l->fill, key, n);
        }
        k->n = (uint32_t)len;
        l->fill[len] = 0;
        l->fill += len + 1;
    }
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        t->bpe.byte_id[b] = hg_word_slot(t, &c, 1)->id;
        if (t->bpe.byte_id[b] < 0)
            return hg_fail(l->err, HG_EFORMAT, "model.vocab has no token for byte 0x%02x", b);
    }
    return HG_OK;
}

/* ------------------------------------------------------------------------------- merges -- */

struct part {
    const char *s;
    size_t n;
};

/* ["a", "b"] or "a b". */
static bool merge_parts(const json_t *m, struct part *a, struct part *b)
{
    if (json_is_array(m)) {
        const json_t *x = json_array_get(m, 0), *y = json_array_get(m, 1);
        if (json_array_size(m) != 2 || !json_is_string(x) || !json_is_string(y)) return false;
        *a = (struct part){json_string_value(x), json_string_length(x)};
        *b = (struct part){json_string_value(y), json_string_length(y)};
        return true;
    }
    const char *s = json_string_value(m), *space = s ? strchr(s, ' ') : NULL;
    if (!space || strchr(space + 1, ' ')) return false;
    *a = (struct part){s, (size_t)(space - s)};
    *b = (struct part){space + 1, json_string_length(m) - a->n - 1};
    return true;
}

/* Writes the bytes of p at out and looks them up. */
static enum hg_status merge_token(const struct loader *l, size_t i, struct part p, char *out,
                                  size_t *n, hg_tok *id)
{
    *id = -1;
    if (p.n && from_alphabet(l, p.s, p.n, out, n)) *id = hg_word_slot(l->t, out, *n)->id;
    return *id >= 0 ? HG_OK
                    : hg_fail(l->err, HG_EFORMAT, "model.merges[%zu]: no token \"%.*s\"", i,
                              SHOW(p.s, p.n));
}

static enum hg_status load_merge(struct loader *l, size_t i, const json_t *m, char *scratch)
{
    struct part a, b;
    size_t n_a, n_b;
    hg_tok left, right;
    if (!merge_parts(m, &a, &b))
        return hg_fail(l->err, HG_EFORMAT, "model.merges[%zu] is no pair of strings", i);
    HG_TRY(merge_token(l, i, a, scratch, &n_a, &left));
    HG_TRY(merge_token(l, i, b, scratch + n_a, &n_b, &right));
    hg_tok merged = hg_word_slot(l->t, scratch, n_a + n_b)->id;
    if (merged < 0)
        return hg_fail(l->err, HG_EFORMAT, "model.merges[%zu]: no token \"%.*s%.*s\"", i,
                       SHOW(a.s, a.n), SHOW(b.s, b.n));
    if (!hg_bpe_add(&l->t->bpe, left, right, merged))
        return hg_fail(l->err, HG_EFORMAT, "model.merges[%zu] repeats \"%.*s\" \"%.*s\"", i,
                       SHOW(a.s, a.n), SHOW(b.s, b.n));
    return HG_OK;
}

static enum hg_status load_merges(struct loader *l)
{
    size_t i, longest = 0;
    json_t *m;
    struct part a, b;
    json_array_foreach(l->merges, i, m)
    {
        if (merge_parts(m, &a, &b) && a.n + b.n > longest) longest = a.n + b.n;
    }
    char *scratch = malloc(longest + 1);
    enum hg_status s = scratch ? HG_OK : hg_fail(l->err, HG_ENOMEM, "out of memory for merges");
    json_array_foreach(l->merges, i, m)
    {
        if (s != HG_OK) break;
        s = load_merge(l, i, m, scratch);
    }
    free(scratch);
    if (s == HG_OK) hg_bpe_finish(&l->t->bpe);
    return s;
}

/* ------------------------------------------------------------------------- added tokens -- */

static enum hg_status load_one_added(struct loader *l, const json_t *a)
{
    static const char *const off[] = {"single_word", "lstrip", "rstrip", "normalized"};
    struct hg_tokenizer *t = l->t;
    const char *s = json_string_value(json_object_get(a, "content"));
    size_t n = json_string_length(json_object_get(a, "content"));
    hg_tok id = (hg_tok)json_integer_value(json_object_get(a, "id"));
    bool special, flag;
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        HG_TRY(get_flag(a, off[i], "added_tokens", &flag, l->err));
        if (flag)
            return hg_fail(l->err, HG_EUNSUP, "added token \"%.*s\": %s true is not supported",
                           SHOW(s, n), off[i]);
    }
    HG_TRY(get_flag(a, "special", "added_tokens", &special, l->err));
    if (n < 1 || n > LOAD_MAX_ADDED)
        return hg_fail(l->err, HG_EFORMAT, "added token %d of %zu bytes, expected 1 to %d", id, n,
                       LOAD_MAX_ADDED);
    struct hg_token *k = &t->tokens[id];
    const json_t *in_vocab = json_object_getn(l->vocab, s, n);
    if (in_vocab && json_integer_value(in_vocab) != id)
        return hg_fail(l->err, HG_EFORMAT,
                       "added token \"%.*s\" has id %d, in model.vocab it is "
                       "%lld",
                       SHOW(s, n), id, (long long)json_integer_value(in_vocab));
    if (k->bytes && (k->n != n || memcmp(k->bytes, s, n) != 0 || (k->flags & HG_TOKEN_ADDED)))
        return hg_fail(l->err, HG_EFORMAT, "id %d of added token \"%.*s\" is taken by \"%.*s\"", id,
                       SHOW(s, n), SHOW(k->bytes, k->n));
    if (!k->bytes) {
        memcpy(l->fill, s, n);
        l->fill[n] = 0;
        k->bytes = l->fill;
        k->n = (uint32_t)n;
        l->fill += n + 1;
    }
    k->flags |= HG_TOKEN_ADDED | (special ? HG_TOKEN_SPECIAL : 0u);
    t->all.ids[t->all.n++] = id;
    return HG_OK;
}

static int by_bytes(const void *a, const void *b, void *tokens)
{
    const struct hg_token *x = (struct hg_token *)tokens + *(const hg_tok *)a;
    const struct hg_token *y = (struct hg_token *)tokens + *(const hg_tok *)b;
    int c = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

static void find_first_bytes(const struct hg_tokenizer *t, struct hg_added *a)
{
    a->only_first = a->n ? (uint8_t)t->tokens[a->ids[0]].bytes[0] : -1;
    for (size_t i = 0; i < a->n; i++) {
        uint8_t c = (uint8_t)t->tokens[a->ids[i]].bytes[0];
        a->first[c] = true;
        if (c != a->only_first) a->only_first = -1;
    }
}

static enum hg_status load_added(struct loader *l)
{
    struct hg_tokenizer *t = l->t;
    size_t i, n = json_array_size(l->added);
    json_t *a;
    t->all.ids = calloc(n + 1, sizeof *t->all.ids);
    t->plain.ids = calloc(n + 1, sizeof *t->plain.ids);
    if (!t->all.ids || !t->plain.ids)
        return hg_fail(l->err, HG_ENOMEM, "out of memory for %zu added tokens", n);
    json_array_foreach(l->added, i, a) HG_TRY(load_one_added(l, a));
    qsort_r(t->all.ids, t->all.n, sizeof *t->all.ids, by_bytes, t->tokens);
    for (i = 0; i < t->all.n; i++) {
        if (i && !by_bytes(&t->all.ids[i - 1], &t->all.ids[i], t->tokens))
            return hg_fail(l->err, HG_EFORMAT, "added token \"%s\" is given twice, as %d and %d",
                           t->tokens[t->all.ids[i]].bytes, t->all.ids[i - 1], t->all.ids[i]);
        if (!(t->tokens[t->all.ids[i]].flags & HG_TOKEN_SPECIAL))
            t->plain.ids[t->plain.n++] = t->all.ids[i];
    }
    find_first_bytes(t, &t->all);
    find_first_bytes(t, &t->plain);
    return HG_OK;
}

/* -------------------------------------------------------------------------------- model -- */

/* Empty and null mean "off" in these. */
static enum hg_status check_model(struct loader *l)
{
    static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *m = l->model;
    bool fallback;
    if (!json_is_object(m) || (json_object_get(m, "type") && strcmp(get_type(m), "BPE") != 0))
        return hg_fail(l->err, HG_EUNSUP, "model %s is not supported, only BPE is", get_type(m));
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        const json_t *v = json_object_get(m, off[i]);
        bool is_off = !v || json_is_null(v) || (json_is_string(v) && !json_string_length(v)) ||
                      (json_is_number(v) && json_number_value(v) == 0);
        if (!is_off) return hg_fail(l->err, HG_EUNSUP, "model.%s is not supported", off[i]);
    }
    HG_TRY(get_flag(m, "byte_fallback", "model", &fallback, l->err));
    if (fallback) return hg_fail(l->err, HG_EUNSUP, "model.byte_fallback true is not supported");
    HG_TRY(get_flag(m, "ignore_merges", "model", &l->t->ignore_merges, l->err));
    l->vocab = json_object_get(m, "vocab");
    l->merges = json_object_get(m, "merges");
    l->added = json_object_get(l->root, "added_tokens");
    if (!json_is_object(l->vocab))
        return hg_fail(l->err, HG_EFORMAT, "model.vocab is %s", json_kind(l->vocab));
    if (!json_is_array(l->merges))
        return hg_fail(l->err, HG_EFORMAT, "model.merges is %s", json_kind(l->merges));
    if (l->added && !json_is_null(l->added) && !json_is_array(l->added))
        return hg_fail(l->err, HG_EFORMAT, "added_tokens is %s", json_kind(l->added));
    return HG_OK;
}

/* Most words of a text are tokens. Those that their own bytes merge into need no merging when
 * they are met; a few tokens are not reached by merging. */
static enum hg_status mark_whole(struct loader *l)
{
    struct hg_tokenizer *t = l->t;
    struct hg_toks got = {0};
    enum hg_status s = HG_OK;
    for (hg_tok id = 0; id < t->n_ids && s == HG_OK; id++) {
        struct hg_token *k = &t->tokens[id];
        if (!(k->flags & HG_TOKEN_ALPHABET)) continue;
        bool whole = t->ignore_merges;
        if (!whole && k->n <= LOAD_MAX_WHOLE) {
            got.n = 0;
            if (!hg_bpe_encode(&t->bpe, k->bytes, k->n, &got))
                s = hg_fail(l->err, HG_ENOMEM, "out of memory for %u bytes", k->n);
            whole = got.n == 1 && got.ids[0] == id;
        }
        if (whole) k->flags |= HG_TOKEN_WHOLE;
    }
    hg_toks_fini(&got);
    return s;
}

static enum hg_status load(struct loader *l)
{
    fill_alphabet(l);
    l->t->classes = hg_unicode_classes();
    if (!l->t->classes) return hg_fail(l->err, HG_ENOMEM, "out of memory for character classes");
    l->model = json_object_get(l->root, "model");
    HG_TRY(check_model(l));
    HG_TRY(load_normalizer(l));
    HG_TRY(load_pretok(l));
    HG_TRY(measure(l));
    if (!hg_bpe_init(&l->t->bpe, (uint32_t)json_array_size(l->merges)))
        return hg_fail(l->err, HG_ENOMEM, "out of memory for %zu merges",
                       json_array_size(l->merges));
    HG_TRY(load_vocab(l));
    HG_TRY(load_merges(l));
    HG_TRY(load_added(l));
    return mark_whole(l);
}

enum hg_status hg_tokenizer_parse(const char *name, const char *json, size_t n,
                                  struct hg_tokenizer **out, struct hg_err *err)
{
    struct hg_err local;
    if (!err) err = &local;
    if (n > LOAD_MAX_FILE)
        return hg_fail(err, HG_EFORMAT, "%s: %zu bytes, the limit is %d", name, n, LOAD_MAX_FILE);
    json_error_t bad;
    struct loader l = {.err = err};
    l.root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &bad);
    if (!l.root)
        return hg_fail(err, HG_EFORMAT, "%s: line %d column %d: %s", name, bad.line, bad.column,
                       bad.text);
    enum hg_status s = HG_ENOMEM;
    l.t = calloc(1, sizeof *l.t);
    if (!json_is_object(l.root))
        s = hg_fail(err, HG_EFORMAT, "the file is %s", json_kind(l.root));
    else
        s = l.t ? load(&l) : hg_fail(err, HG_ENOMEM, "out of memory");
    json_decref(l.root);
    if (s != HG_OK) {
        hg_tokenizer_free(l.t);
        return hg_fail_in(err, "%s", name);
    }
    *out = l.t;
    return HG_OK;
}

enum hg_status hg_tokenizer_open(const char *dir, struct hg_tokenizer **out, struct hg_err *err)
{
    char path[4096], *json;
    size_t n;
    int len = snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    if (len < 0 || (size_t)len >= sizeof path)
        return hg_fail(err, HG_EINVAL, "path of %d bytes is too long", len);
    HG_TRY(hg_file_read(path, LOAD_MAX_FILE, &json, &n, err));
    enum hg_status s = hg_tokenizer_parse(path, json, n, out, err);
    free(json);
    return s;
}

void hg_tokenizer_free(struct hg_tokenizer *t)
{
    if (!t) return;
    hg_bpe_fini(&t->bpe);
    hg_pretok_free(t->pretok);
    free(t->all.ids);
    free(t->plain.ids);
    free(t->words);
    free(t->tokens);
    free(t->bytes);
    free(t->classes);
    free(t);
}
