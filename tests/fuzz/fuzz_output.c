/* The output parser: the first byte picks the parameters and how the rest is cut. Cutting must
 * not change the events, arguments must be JSON objects, text must be whole UTF-8. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/rng.h"
#include "text/output.h"
#include "text/output_value.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},"
    "\"a\":{\"type\":\"array\"},\"o\":{\"type\":\"object\"},"
    "\"n\":{\"type\":[\"string\",\"null\"]},"
    "\"u\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\"}]}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]";

struct record {
    struct hg_buf events, args;
    int last;
    bool open;
};

static void require(bool ok)
{
    if (!ok) abort();
}

static void check_utf8(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        int len = hg_utf8_check(s + i, n - i);
        require(len > 0);
        i += (size_t)len;
    }
}

static void on_event(void *ctx, enum hg_event_type type, int32_t index, const char *name,
                     const char *text, size_t n)
{
    struct record *r = ctx;
    check_utf8(text, n);
    if (r->last != (int)type) hg_buf_printf(&r->events, "\n%d.%d:", (int)type, (int)index);
    r->last = (int)type;
    hg_buf_add(&r->events, text, n);
    require(r->open == (type == HG_EV_TOOL_ARGS || type == HG_EV_TOOL_END));
    if (type == HG_EV_TOOL_ARGS) hg_buf_add(&r->args, text, n);
    if (type == HG_EV_TOOL_BEGIN) {
        hg_buf_str(&r->events, name);
        hg_buf_clear(&r->args);
        r->open = true;
    }
    if (type == HG_EV_TOOL_END) {
        json_t *v =
            json_loadb(r->args.data, r->args.len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        require(json_is_object(v));
        json_decref(v);
        r->open = false;
        r->last = -1;
    }
}

static void parse(struct record *r, const struct hg_output_params *p, const char *s, size_t n,
                  uint32_t max, struct hg_rng *rng)
{
    memset(r, 0, sizeof *r);
    r->last = -1;
    struct hg_output_sink sink = {on_event, r};
    struct hg_output *o = hg_output_create(p);
    require(o != NULL);
    for (size_t i = 0, end; i < n; i = end) {
        end = max ? i + 1 + hg_rng_below(rng, max) : n;
        if (end > n) end = n;
        while (end < n && ((unsigned char)s[end] & 0xc0) == 0x80) end++;
        require(hg_output_feed(o, s + i, end - i, &sink) == HG_OK);
    }
    require(hg_output_finish(o, &sink) == HG_OK && !r->open);
    hg_output_free(o);
}

static void record_fini(struct record *r)
{
    hg_buf_fini(&r->events);
    hg_buf_fini(&r->args);
}

/* The reader of literals: what it accepts is JSON, and is read again as itself. */
static void check_value(const char *s, size_t n)
{
    struct hg_buf once, twice;
    hg_buf_init(&once);
    hg_buf_init(&twice);
    if (hg_value_json(s, n, &once)) {
        json_t *v = json_loadb(once.data, once.len,
                               JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        require(v != NULL);
        json_decref(v);
        require(hg_value_json(once.data, once.len, &twice));
        require(once.len == twice.len && !memcmp(once.data, twice.data, once.len));
    }
    hg_buf_fini(&once);
    hg_buf_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static json_t *tools;
    if (!tools) tools = json_loads(tools_text, 0, NULL);
    if (!size) return 0;
    struct hg_buf text;
    hg_buf_init(&text);
    const char *s = (const char *)data + 1;
    for (size_t i = 0; i < size - 1;) {
        int len = hg_utf8_check(s + i, size - 1 - i);
        if (len > 0) hg_buf_add(&text, s + i, (size_t)len);
        i += len > 0 ? (size_t)len : len < 0 ? (size_t)-len : size;
    }
    const char *t = text.data ? text.data : "";
    struct hg_output_params p = {.in_reasoning = data[0] & 1,
                                 .tools = data[0] & 2 ? NULL : tools,
                                 .forced = data[0] & 4 ? "<tool_call>\n<function=f>\n" : NULL};
    struct hg_rng rng = {data[0]};
    struct record whole, cut;
    parse(&whole, &p, t, text.len, 0, NULL);
    for (uint32_t max = 1; max <= 16; max *= 4) {
        parse(&cut, &p, t, text.len, max, &rng);
        require(cut.events.len == whole.events.len);
        require(!cut.events.len || !memcmp(cut.events.data, whole.events.data, cut.events.len));
        record_fini(&cut);
    }
    record_fini(&whole);
    check_value(t, text.len);
    hg_buf_fini(&text);
    return 0;
}
