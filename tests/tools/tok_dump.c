/* tok_dump DIR [raw]: encodes texts for tools/oracle_tokenizer.py.
 * stdin: for each text its length (u32) and its bytes. stdout: for each text the number of ids
 * (u32) and the ids (i32). stderr: seconds to load, seconds to encode, bytes encoded.
 * raw: special tokens in the text are plain text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "text/tokenizer.h"

static void die(const char *what)
{
    fprintf(stderr, "tok_dump: %s\n", what);
    exit(1);
}

int main(int argc, char **argv)
{
    struct hg_err err;
    struct hg_tokenizer *t;
    char *in;
    size_t n, n_bytes = 0;
    bool parse_special = argc < 3 || strcmp(argv[2], "raw") != 0;
    if (argc < 2) die("usage: tok_dump DIR [raw]");
    double start = hg_now();
    if (hg_tokenizer_open(argv[1], &t, &err)) die(err.text);
    double loaded = hg_now() - start, spent = 0;
    if (hg_file_read("-", (size_t)1 << 31, &in, &n, &err)) die(err.text);
    struct hg_toks ids = {0};
    for (size_t i = 0; i < n;) {
        uint32_t len, n_ids;
        if (n - i < sizeof len) die("short input");
        memcpy(&len, in + i, sizeof len);
        i += sizeof len;
        if (n - i < len) die("short input");
        ids.n = 0;
        start = hg_now();
        if (hg_tokenizer_encode(t, in + i, len, parse_special, NULL, 0, NULL, &ids, &err))
            die(err.text);
        spent += hg_now() - start;
        i += len;
        n_bytes += len;
        n_ids = (uint32_t)ids.n;
        fwrite(&n_ids, sizeof n_ids, 1, stdout);
        fwrite(ids.ids, sizeof *ids.ids, ids.n, stdout);
    }
    fprintf(stderr, "%.6f %.6f %zu\n", loaded, spent, n_bytes);
    hg_toks_fini(&ids);
    hg_tokenizer_free(t);
    free(in);
    return fflush(stdout) ? 1 : 0;
}
