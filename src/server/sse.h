/* sse.h: server-sent events, as far as OpenAI clients go: each event is one line
 * "data: {json}" and an empty line, LF only. Several events may go into one write. */
#ifndef HG_SERVER_SSE_H
#define HG_SERVER_SSE_H

#include "base/buf.h"

#define HG_SSE_TYPE    "text/event-stream; charset=utf-8"
#define HG_SSE_HEADERS "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"

void hg_sse_begin(struct hg_buf *b); /* then append the JSON, on one line */
void hg_sse_end(struct hg_buf *b);
void hg_sse_done(struct hg_buf *b); /* the last event of a stream that succeeded */

#endif
