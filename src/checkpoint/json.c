#include "checkpoint/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* At least the number of values in the text: each is opened or preceded by one of , [ { (or is
 * the root). */
static size_t count_values(const char *text, size_t n)
{
    size_t count = 1;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '"') in_string = !in_string;
        if (in_string && c == '\\') i++;
        if (!in_string && (c == ',' || c == '[' || c == '{')) count++;
    }
    return count;
}

enum hg_status hg_json_parse(const char *name, const char *text, size_t n, size_t max_values,
                             json_t **out, struct hg_err *err)
{
    *out = NULL;
    size_t count = count_values(text, n);
    if (count > max_values)
        return hg_fail(err, HG_EFORMAT, "%s: JSON of about %zu values, the limit is %zu", name,
                       count, max_values);
    json_error_t e;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    if (*out) return HG_OK;
    if (json_error_code(&e) == json_error_out_of_memory)
        return hg_fail(err, HG_ENOMEM, "%s: out of memory parsing %zu bytes of JSON", name, n);
    return hg_fail(err, HG_EFORMAT, "%s: bad JSON, line %d column %d: %s", name, e.line, e.column,
                   e.text);
}

enum hg_status hg_json_read(const char *path, size_t max_bytes, size_t max_values, json_t **out,
                            struct hg_err *err)
{
    char *text;
    size_t n;
    *out = NULL;
    HG_TRY(hg_file_read(path, max_bytes, &text, &n, err));
    enum hg_status s = hg_json_parse(path, text, n, max_values, out, err);
    free(text);
    return s;
}

const char *hg_json_shown(const json_t *v, char *buf, size_t n)
{
    memset(buf, 0, n); /* jansson leaves out the pieces that no longer fit */
    size_t want = json_dumpb(v, buf, n - 1, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    if (want > n - 1) {
        size_t len = strlen(buf);
        if (len > n - 4) len = n - 4;
        memcpy(buf + len, "...", 4);
    }
    return buf;
}

json_t *hg_json_get(const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

bool hg_json_printable(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f) return false;
    return true;
}
