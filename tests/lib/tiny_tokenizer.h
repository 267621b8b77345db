/* tiny_tokenizer.h: writes small tokenizer.json texts for tests: 256 byte tokens (id = byte), a
 * few merges, and whatever part a test wants to spoil. */
#ifndef HG_TESTS_TINY_TOKENIZER_H
#define HG_TESTS_TINY_TOKENIZER_H

#include <string.h>

#include "base/buf.h"
#include "text/pretok.h"

struct tiny {                  /* JSON fragments; NULL: the default */
    const char *normalizer;    /* a value; NFC */
    const char *pattern;       /* raw text; Qwen3.5's */
    const char *pre_tokenizer; /* a value, replaces the one with `pattern` */
    const char *model;         /* members, ", ..." */
    const char *vocab;         /* members, ", ..."; ab bc abc 256..258 and the merges' */
    const char *merges;        /* elements */
    const char *added;         /* elements */
    int skip_byte;             /* byte without token, 0 = none */
};

static inline void tiny_byte(struct hg_buf *b, int byte)
{
    int c = byte;
    if (!((byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae)) {
        c = 0x100;
        for (int k = 0; k < byte; k++)
            c += !((k >= '!' && k <= '~') || (k >= 0xa1 && k <= 0xac) || k >= 0xae);
    }
    if (c == '"' || c == '\\') hg_buf_char(b, '\\');
    if (c < 0x80)
        hg_buf_char(b, (char)c);
    else
        hg_buf_printf(b, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
}

static inline void tiny_json(const struct tiny *t, struct hg_buf *b)
{
#define TINY_OR(x, d) ((x) ? (x) : (d))
    hg_buf_printf(
        b, "{\"normalizer\":%s,\"pre_tokenizer\":", TINY_OR(t->normalizer, "{\"type\":\"NFC\"}"));
    if (t->pre_tokenizer) {
        hg_buf_str(b, t->pre_tokenizer);
    } else {
        const char *p = TINY_OR(t->pattern, HG_PRETOK_QWEN35);
        hg_buf_str(b, "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
                      "{\"Regex\":\"");
        hg_buf_json(b, p, strlen(p));
        hg_buf_str(b, "\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
                      "\"add_prefix_space\":false,\"use_regex\":false}]}");
    }
    hg_buf_str(b, ",\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int i = 0; i < 256; i++) {
        if (t->skip_byte && i == t->skip_byte) continue;
        hg_buf_str(b, i ? ",\"" : "\"");
        tiny_byte(b, i);
        hg_buf_printf(b, "\":%d", i);
    }
    hg_buf_str(b, TINY_OR(t->vocab, ",\"ab\":256,\"bc\":257,\"abc\":258,\"xyz\":259,\"aa\":260,"
                                    "\"aaaa\":261,\"\xc4\xa0"
                                    "a\":262"));
    hg_buf_printf(b, "},\"merges\":[%s]%s},\"added_tokens\":[%s]}",
                  TINY_OR(t->merges, "[\"b\",\"c\"],[\"a\",\"b\"],\"a bc\",[\"a\",\"a\"],"
                                     "[\"aa\",\"aa\"],[\"\xc4\xa0\",\"a\"]"),
                  TINY_OR(t->model, ""),
                  TINY_OR(t->added, "{\"id\":300,\"content\":\"<s>\",\"special\":true},"
                                    "{\"id\":301,\"content\":\"<sx>\",\"special\":false},"
                                    "{\"id\":302,\"content\":\"<s><s>\",\"special\":true}"));
#undef TINY_OR
}

#endif
