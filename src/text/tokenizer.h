/* tokenizer.h: byte-level BPE from a Hugging Face tokenizer.json.
 *
 * Pipeline (equal to PyPI `tokenizers`): added tokens are cut out of the raw text (leftmost,
 * longest), the rest is NFC-normalised, split by the pre-tokenizer's pattern, mapped to the
 * byte alphabet and merged by rank. Immutable after open: any thread may encode. */
#ifndef HG_TEXT_TOKENIZER_H
#define HG_TEXT_TOKENIZER_H

#include "base/err.h"

struct hg_tokenizer;

struct hg_toks {
    hg_tok *ids; /* malloc'd; NULL when empty */
    size_t n, cap;
};
void hg_toks_fini(struct hg_toks *t);
bool hg_toks_push(struct hg_toks *t, hg_tok id); /* false when memory is out */

/* Reads DIR/tokenizer.json. Errors name the file and what in it is wrong (duplicate merge,
 * merge of unknown tokens, unknown pre-tokenizer type, ...). */
enum hg_status hg_tokenizer_open(const char *dir, struct hg_tokenizer **out, struct hg_err *err);
enum hg_status hg_tokenizer_parse(const char *name, const char *json, size_t n,
                                  struct hg_tokenizer **out, struct hg_err *err);
void hg_tokenizer_free(struct hg_tokenizer *t);

/* Highest id + 1. */
int32_t hg_tokenizer_size(const struct hg_tokenizer *t);
/* Id of a whole token by its text ("<|im_end|>", "Hello"), or -1. */
hg_tok hg_tokenizer_find(const struct hg_tokenizer *t, const char *text, size_t n);
/* The bytes that an id stands for (not UTF-8 by itself); NULL for unknown ids. */
const char *hg_tokenizer_bytes(const struct hg_tokenizer *t, hg_tok id, size_t *n);
/* True for added tokens with "special": true, hidden from visible text. */
bool hg_tokenizer_is_special(const struct hg_tokenizer *t, hg_tok id);

/* Appends the ids of text[0..n) to out. parse_special=false: added tokens with special=true are
 * treated as plain text.
 * marks[0..n_marks): ascending byte offsets into text; mark_at[i] becomes the index in out->ids of
 * the token that starts exactly there, or -1 if the offset is not at an added token's edge (so
 * that cutting there could change the tokens). n_marks may be 0. Invalid UTF-8 in the text is
 * encoded byte by byte (each bad byte as U+FFFD would lose data: bytes are kept). */
enum hg_status hg_tokenizer_encode(const struct hg_tokenizer *t, const char *text, size_t n,
                                   bool parse_special, const size_t *marks, size_t n_marks,
                                   int64_t *mark_at, struct hg_toks *out, struct hg_err *err);

/* Incremental detokenizing that never emits half a UTF-8 character. */
struct hg_detok {
    uint8_t pending[4]; /* bytes of an unfinished character */
    int32_t n_pending;
};
struct hg_buf;
void hg_detok_init(struct hg_detok *d);
/* Appends what is whole now. Bytes that can never become a character come out as U+FFFD.
 * Special tokens are skipped unless keep_special. */
void hg_detok_push(struct hg_detok *d, const struct hg_tokenizer *t, hg_tok id, bool keep_special,
                   struct hg_buf *out);
void hg_detok_finish(struct hg_detok *d, struct hg_buf *out); /* pending bytes -> one U+FFFD */

#endif
