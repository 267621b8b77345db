#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/buf.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

enum { ENCODE_MAX = 1 << 30 }; /* bytes of one text; NFC may triple it, BPE counts in 32 bits */

void hg_toks_fini(struct hg_toks *t)
{
    free(t->ids);
    memset(t, 0, sizeof *t);
}

bool hg_toks_push(struct hg_toks *t, hg_tok id)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        hg_tok *p = realloc(t->ids, cap * sizeof *p);
        if (!p) return false;
        t->ids = p;
        t->cap = cap;
    }
    t->ids[t->n++] = id;
    return true;
}

int32_t hg_tokenizer_size(const struct hg_tokenizer *t)
{
    return t->n_ids;
}

const char *hg_tokenizer_bytes(const struct hg_tokenizer *t, hg_tok id, size_t *n)
{
    if (id < 0 || id >= t->n_ids || !t->tokens[id].bytes) return NULL;
    *n = t->tokens[id].n;
    return t->tokens[id].bytes;
}

bool hg_tokenizer_is_special(const struct hg_tokenizer *t, hg_tok id)
{
    return id >= 0 && id < t->n_ids && (t->tokens[id].flags & HG_TOKEN_SPECIAL);
}

uint64_t hg_word_hash(const char *s, size_t n)
{
    return XXH3_64bits(s, n);
}

struct hg_word_slot *hg_word_slot(const struct hg_tokenizer *t, const char *s, size_t n)
{
    uint64_t h = hg_word_hash(s, n);
    for (uint32_t i = (uint32_t)h & t->word_mask;; i = (i + 1) & t->word_mask) {
        struct hg_word_slot *w = &t->words[i];
        if (w->id < 0) return w;
        if (w->tag != (uint32_t)(h >> 32)) continue;
        const struct hg_token *k = &t->tokens[w->id];
        if (k->n == n && !memcmp(k->bytes, s, n)) return w;
    }
}

/* ----------------------------------------------------------------------- added tokens -- */

/* The first in a->ids[lo..hi) that has a byte of at least c at `depth`, or hi. */
static size_t added_bound(const struct hg_tokenizer *t, const struct hg_added *a, size_t lo,
                          size_t hi, size_t depth, int c)
{
    while (lo < hi) {
        size_t m = lo + (hi - lo) / 2;
        if ((uint8_t)t->tokens[a->ids[m]].bytes[depth] < c)
            lo = m + 1;
        else
            hi = m;
    }
    return lo;
}

/* The longest added token that s[0..n) starts with: its id, or -1. */
static hg_tok added_at(const struct hg_tokenizer *t, const struct hg_added *a, const char *s,
                       size_t n)
{
    size_t lo = 0, hi = a->n; /* ids[lo..hi) share the first `depth` bytes with s */
    hg_tok found = -1;
    for (size_t depth = 0; lo < hi; depth++) {
        const struct hg_token *k = &t->tokens[a->ids[lo]];
        if (k->n == depth) { /* sorted: the shortest of them comes first */
            found = a->ids[lo++];
            if (lo == hi) break;
        }
        if (depth == n) break;
        hi = added_bound(t, a, lo, hi, depth, (uint8_t)s[depth] + 1);
        lo = added_bound(t, a, lo, hi, depth, (uint8_t)s[depth]);
    }
    return found;
}

/* The first added token in s[from..n): its id and *at, or -1 and *at = n. */
static hg_tok added_next(const struct hg_tokenizer *t, const struct hg_added *a, const char *s,
                         size_t n, size_t from, size_t *at)
{
    for (size_t i = from; a->n && i < n; i++) {
        if (a->only_first >= 0) {
            const char *p = memchr(s + i, a->only_first, n - i);
            if (!p) break;
            i = (size_t)(p - s);
        } else if (!a->first[(uint8_t)s[i]]) {
            continue;
        }
        hg_tok id = added_at(t, a, s + i, n - i);
        if (id >= 0) {
            *at = i;
            return id;
        }
    }
    *at = n;
    return -1;
}

hg_tok hg_tokenizer_find(const struct hg_tokenizer *t, const char *text, size_t n)
{
    hg_tok id = added_at(t, &t->all, text, n);
    if (id >= 0 && t->tokens[id].n == n) return id;
    return n ? hg_word_slot(t, text, n)->id : -1;
}

/* --------------------------------------------------------------------------- encoding -- */

struct encoder {
    const struct hg_tokenizer *t;
    struct hg_pretok_scan scan;
    struct hg_buf normal; /* NFC of one stretch */
    struct hg_toks *out;
    struct hg_err *err;
};

static enum hg_status push(struct encoder *e, hg_tok id)
{
    return hg_toks_push(e->out, id) ? HG_OK : hg_fail(e->err, HG_ENOMEM, "out of memory for ids");
}

/* s[0..n) is valid UTF-8 and normalised. */
static enum hg_status encode_words(struct encoder *e, const char *s, size_t n)
{
    const struct hg_tokenizer *t = e->t;
    for (size_t pos = 0, end; pos < n; pos = end) {
        HG_TRY(hg_pretok_next(&e->scan, s, n, pos, &end, e->err));
        hg_tok id = hg_word_slot(t, s + pos, end - pos)->id;
        if (id >= 0 && (t->tokens[id].flags & HG_TOKEN_WHOLE))
            HG_TRY(push(e, id));
        else if (!hg_bpe_encode(&t->bpe, s + pos, end - pos, e->out))
            return hg_fail(e->err, HG_ENOMEM, "out of memory for a word of %zu bytes", end - pos);
    }
    return HG_OK;
}

/* A stretch without added tokens. A byte that is no part of valid UTF-8 is a word of its own. */
static enum hg_status encode_stretch(struct encoder *e, const char *s, size_t n)
{
    const struct hg_tokenizer *t = e->t;
    while (n) {
        bool plain;
        size_t valid = hg_utf8_valid(t->classes, s, n, &plain);
        if (plain || !t->nfc) {
            HG_TRY(encode_words(e, s, valid));
        } else {
            hg_buf_clear(&e->normal);
            hg_nfc(t->classes, s, valid, &e->normal);
            if (e->normal.oom) return hg_fail(e->err, HG_ENOMEM, "out of memory for NFC");
            HG_TRY(encode_words(e, e->normal.data, e->normal.len));
        }
        if (valid < n) HG_TRY(push(e, t->bpe.byte_id[(uint8_t)s[valid++]]));
        s += valid;
        n -= valid;
    }
    return HG_OK;
}

/* Marks that have not been settled yet: those before `upto` are inside something, those at it
 * are at an edge that the next token starts from. */
struct marks {
    const size_t *at;
    int64_t *index;
    size_t i, n;
};

static void settle(struct marks *m, size_t upto, size_t n_ids)
{
    for (; m->i < m->n && m->at[m->i] <= upto; m->i++)
        m->index[m->i] = m->at[m->i] == upto ? (int64_t)n_ids : -1;
}

static enum hg_status encode_text(struct encoder *e, const char *s, size_t n,
                                  const struct hg_added *added, struct marks *marks)
{
    settle(marks, 0, e->out->n);
    for (size_t pos = 0, at; pos < n;) {
        hg_tok id = added_next(e->t, added, s, n, pos, &at);
        HG_TRY(encode_stretch(e, s + pos, at - pos));
        settle(marks, at, e->out->n);
        if (id < 0) break;
        HG_TRY(push(e, id));
        pos = at + e->t->tokens[id].n;
        settle(marks, pos, e->out->n);
    }
    while (marks->i < marks->n) marks->index[marks->i++] = -1; /* beyond the text */
    return HG_OK;
}

enum hg_status hg_tokenizer_encode(const struct hg_tokenizer *t, const char *text, size_t n,
                                   bool parse_special, const size_t *marks, size_t n_marks,
                                   int64_t *mark_at, struct hg_toks *out, struct hg_err *err)
{
    if (n > ENCODE_MAX)
        return hg_fail(err, HG_ETOOLONG, "text of %zu bytes, the limit is %d", n, ENCODE_MAX);
    struct encoder e = {.t = t, .out = out, .err = err};
    struct marks m = {marks, mark_at, 0, n_marks};
    size_t n_before = out->n;
    HG_TRY(hg_pretok_scan_init(&e.scan, t->pretok, err));
    enum hg_status s = encode_text(&e, text, n, parse_special ? &t->all : &t->plain, &m);
    if (s != HG_OK) out->n = n_before;
    hg_pretok_scan_fini(&e.scan);
    hg_buf_fini(&e.normal);
    return s;
}
