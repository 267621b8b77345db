/* HTTP heads and chunked bodies: the same bytes, whole and one by one, must read the same. */
#include <stdlib.h>
#include <string.h>

#include "server/http_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BODY = 1000 };

static void require(bool ok)
{
    if (!ok) abort();
}

static void check_chunked(const char *p, size_t n)
{
    struct hg_http_chunked whole = {0}, bytewise = {0};
    struct hg_buf a, b;
    hg_buf_init(&a);
    hg_buf_init(&b);
    size_t used = hg_http_chunked_feed(&whole, p, n, &a, MAX_BODY), at = 0;
    while (at < n && bytewise.state < HG_CHUNK_DONE)
        at += hg_http_chunked_feed(&bytewise, p + at, 1, &b, MAX_BODY);
    require(used == at && whole.state == bytewise.state && a.len == b.len && a.len <= MAX_BODY);
    require(a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
    require(used == n || whole.state >= HG_CHUNK_DONE);
    hg_buf_fini(&a);
    hg_buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    size_t scan = 0, scan_bytewise = 0;
    int64_t end = hg_http_head_end(p, size, &scan), bytewise = 0;
    for (size_t n = 1; n <= size && bytewise == 0; n++)
        bytewise = hg_http_head_end(p, n, &scan_bytewise);
    require(end == bytewise);
    if (end <= 0) {
        check_chunked(p, size);
        return 0;
    }
    char *copy = malloc((size_t)end); /* exactly, so that reading beyond it is seen */
    require(copy != NULL);
    memcpy(copy, p, (size_t)end);
    struct hg_http_head head;
    const char *why = NULL;
    int status = hg_http_head_parse(copy, (size_t)end, &head, &why);
    if (status) {
        require(status >= 400 && status < 600 && why);
    } else {
        require(head.method[0] && head.path && head.content_length >= 0);
        require(!(head.chunked && head.content_length > 0));
        if (head.minor == 1) require(hg_http_head_get(&head, "host") != NULL);
        if (head.chunked) check_chunked(p + end, size - (size_t)end);
    }
    free(copy);
    return 0;
}
