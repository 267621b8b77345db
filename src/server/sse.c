#include "server/sse.h"

void hg_sse_begin(struct hg_buf *b)
{
    hg_buf_str(b, "data: ");
}

void hg_sse_end(struct hg_buf *b)
{
    hg_buf_str(b, "\n\n");
}

void hg_sse_done(struct hg_buf *b)
{
    hg_buf_str(b, "data: [DONE]\n\n");
}
