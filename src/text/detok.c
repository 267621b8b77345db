/* Ids -> text that is whole UTF-8 at every moment. Broken bytes come out as U+FFFD, one for each
 * maximal broken part, as Unicode 3.9 recommends and PyPI `tokenizers` does. */
#include <string.h>

#include "base/buf.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

static const char replacement[] = "\xef\xbf\xbd";

void hg_detok_init(struct hg_detok *d)
{
    memset(d, 0, sizeof *d);
}

/* Completes the pending character with bytes from s; returns how many it took. */
static size_t finish_pending(struct hg_detok *d, const char *s, size_t n, struct hg_buf *out)
{
    size_t taken = 0;
    while (d->n_pending && taken < n) {
        d->pending[d->n_pending] = (uint8_t)s[taken];
        int len = hg_utf8_check((const char *)d->pending, (size_t)d->n_pending + 1);
        if (len == 0) {
            d->n_pending++;
            taken++;
        } else if (len > 0) {
            hg_buf_add(out, d->pending, (size_t)len);
            d->n_pending = 0;
            taken++;
        } else { /* the new byte does not continue it, and may begin another */
            hg_buf_str(out, replacement);
            d->n_pending = 0;
        }
    }
    return taken;
}

void hg_detok_push(struct hg_detok *d, const struct hg_tokenizer *t, hg_tok id, bool keep_special,
                   struct hg_buf *out)
{
    size_t n;
    const char *s = hg_tokenizer_bytes(t, id, &n);
    if (!s || (!keep_special && hg_tokenizer_is_special(t, id))) return;
    size_t i = finish_pending(d, s, n, out);
    size_t plain = i; /* s[plain..i) is valid and not yet copied */
    while (i < n) {
        int len = hg_utf8_check(s + i, n - i);
        if (len > 0) {
            i += (size_t)len;
            continue;
        }
        hg_buf_add(out, s + plain, i - plain);
        if (len == 0) {
            d->n_pending = (int32_t)(n - i);
            memcpy(d->pending, s + i, n - i);
            return;
        }
        hg_buf_str(out, replacement);
        i += (size_t)-len;
        plain = i;
    }
    hg_buf_add(out, s + plain, i - plain);
}

void hg_detok_finish(struct hg_detok *d, struct hg_buf *out)
{
    if (d->n_pending) hg_buf_str(out, replacement);
    d->n_pending = 0;
}
