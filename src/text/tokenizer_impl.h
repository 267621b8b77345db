/* tokenizer_impl.h: the inside of struct hg_tokenizer, shared by loading and encoding. */
#ifndef HG_TEXT_TOKENIZER_IMPL_H
#define HG_TEXT_TOKENIZER_IMPL_H

#include "text/bpe.h"
#include "text/pretok.h"
#include "text/tokenizer.h"

enum {
    HG_TOKEN_SPECIAL = 1, /* added, "special": true */
    HG_TOKEN_ADDED = 2,
    HG_TOKEN_WHOLE = 4,   /* a word of just these bytes becomes this one token */
    HG_TOKEN_ALPHABET = 8 /* written in the byte alphabet: merging can make it */
};

struct hg_token {
    const char *bytes; /* NULL: no token has this id */
    uint32_t n, flags;
};

/* Added tokens sorted by their bytes, so that the ones sharing a prefix are neighbours. */
struct hg_added {
    hg_tok *ids; /* [n] */
    size_t n;
    bool first[256]; /* bytes that one of them starts with */
    int only_first;  /* that byte when there is just one, else -1 */
};

struct hg_word_slot {
    uint32_t tag; /* upper half of the hash */
    hg_tok id;    /* -1: free */
};

struct hg_tokenizer {
    struct hg_token *tokens;    /* [n_ids] */
    int32_t n_ids;              /* highest id + 1 */
    char *bytes;                /* what tokens[].bytes point into */
    struct hg_word_slot *words; /* [word_mask + 1] hash of the bytes of HG_TOKEN_ALPHABET ones */
    uint32_t word_mask;
    struct hg_added all, plain; /* plain: those that are not special */
    struct hg_bpe bpe;
    struct hg_pretok *pretok;
    uint8_t *classes; /* hg_unicode_classes() */
    bool nfc;
    bool ignore_merges; /* a word that is a token is never merged from its bytes */
};

uint64_t hg_word_hash(const char *s, size_t n);
/* Slot of the alphabet token with these bytes, or the free slot for it. */
struct hg_word_slot *hg_word_slot(const struct hg_tokenizer *t, const char *s, size_t n);

#endif
