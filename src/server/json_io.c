#include "server/json_io.h"

#include <stdio.h>
#include <string.h>

enum hg_status hg_api_fail(struct hg_api_err *err, enum hg_status s, const char *param,
                           const char *fmt, ...)
{
    struct hg_err what;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what.text, sizeof what.text, fmt, ap);
    va_end(ap);
    snprintf(err->param, sizeof err->param, "%s", param ? param : "");
    return hg_fail(&err->e, s, "%s%s%s", err->param, param ? ": " : "", what.text);
}

/* At least the number of values in the text: each follows an opening bracket or a comma. */
static size_t count_values(const char *p, size_t n)
{
    size_t count = 1;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (p[i] == '\\')
                i++;
            else if (p[i] == '"')
                in_string = false;
        } else if (p[i] == '"') {
            in_string = true;
        } else if (p[i] == ',' || p[i] == '[' || p[i] == '{') {
            count++;
        }
    }
    return count;
}

enum hg_status hg_json_in(const char *text, size_t n, bool wide, size_t *budget, const char *param,
                          json_t **out, struct hg_api_err *err)
{
    *out = NULL;
    size_t count = count_values(text, n);
    if (count > *budget)
        return hg_api_fail(err, HG_EINVAL, param, "JSON of more than %zu values", *budget);
    *budget -= count;
    size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY;
    json_error_t e;
    *out = json_loadb(text, n, flags, &e);
    if (!*out && wide && json_error_code(&e) == json_error_numeric_overflow)
        *out = json_loadb(text, n, flags | JSON_DECODE_INT_AS_REAL, &e);
    if (*out) return HG_OK;
    if (json_error_code(&e) == json_error_out_of_memory)
        return hg_api_fail(err, HG_ENOMEM, param, "JSON: out of memory");
    return hg_api_fail(err, HG_EINVAL, param, "not valid JSON: line %d column %d: %s", e.line,
                       e.column, e.text);
}

const char *hg_json_kind(const json_t *v)
{
    if (!v) return "nothing";
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    default: return "null";
    }
}

size_t hg_utf8_char(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    if (n == 0) return 0;
    if (p[0] < 0x80) return 1;
    /* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF */
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > n) return 0;
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] > 0x9f) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    return len;
}

void hg_json_out(struct hg_buf *b, const char *s, size_t n)
{
    hg_buf_char(b, '"');
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        size_t len = hg_utf8_char(s + i, n - i);
        if (len) {
            i += len;
            continue;
        }
        hg_buf_json(b, s + from, i - from);
        hg_buf_str(b, "\xef\xbf\xbd");
        from = ++i;
    }
    if (n) hg_buf_json(b, s + from, n - from);
    hg_buf_char(b, '"');
}

void hg_json_out_str(struct hg_buf *b, const char *s)
{
    hg_json_out(b, s, strlen(s));
}

int hg_http_status(enum hg_status s)
{
    switch (s) {
    case HG_OK: return 200;
    case HG_EINVAL:
    case HG_ETOOLONG:
    case HG_EUNSUP: return 400;
    case HG_EBUSY: return 429;
    case HG_ECANCELED: return 503;
    default: return 500;
    }
}

void hg_json_error(struct hg_buf *b, int http_status, const char *code, const char *param,
                   const char *message)
{
    const char *type = http_status == 429  ? "rate_limit_error"
                       : http_status < 500 ? "invalid_request_error"
                                           : "server_error";
    hg_buf_str(b, "{\"error\":{\"message\":");
    hg_json_out_str(b, message);
    hg_buf_printf(b, ",\"type\":\"%s\",\"param\":", type);
    if (param && *param)
        hg_json_out_str(b, param);
    else
        hg_buf_str(b, "null");
    hg_buf_str(b, ",\"code\":");
    if (code)
        hg_json_out_str(b, code);
    else
        hg_buf_str(b, "null");
    hg_buf_str(b, "}}");
}

void hg_json_api_error(struct hg_buf *b, const struct hg_api_err *err)
{
    const char *code = NULL;
    if (err->e.status == HG_ETOOLONG) code = "context_length_exceeded";
    if (err->e.status == HG_EUNSUP) code = "unsupported_parameter";
    if (err->e.status == HG_EBUSY) code = "queue_full";
    hg_json_error(b, hg_http_status(err->e.status), code, err->param, err->e.text);
}
