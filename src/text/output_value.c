#include "text/output_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "text/unicode.h"

enum {
    MAX_DEPTH = 128,      /* of nested values */
    MAX_SCHEMA_DEPTH = 8, /* of nested anyOf and $ref */
    MAX_NUMBER = 512,     /* bytes of a literal */
};

/* ------------------------------------------------------------------------------- schema -- */

json_t *hg_tool_properties(json_t *tools, const char *name, json_t **root)
{
    size_t i;
    json_t *tool;
    *root = NULL;
    json_array_foreach(tools, i, tool)
    {
        json_t *fn = json_object_get(tool, "function");
        if (!fn) fn = tool;
        const char *s = json_string_value(json_object_get(fn, "name"));
        if (!s || strcmp(s, name) != 0) continue;
        *root = json_object_get(fn, "parameters");
        return json_object_get(*root, "properties");
    }
    return NULL;
}

/* JSON Schema's names, and the Python ones that careless clients send. */
static unsigned type_by_name(const char *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } table[] = {
        {"string", HG_JT_STRING}, {"str", HG_JT_STRING},    {"integer", HG_JT_NUMBER},
        {"int", HG_JT_NUMBER},    {"number", HG_JT_NUMBER}, {"float", HG_JT_NUMBER},
        {"double", HG_JT_NUMBER}, {"boolean", HG_JT_BOOL},  {"bool", HG_JT_BOOL},
        {"null", HG_JT_NULL},     {"array", HG_JT_ARRAY},   {"list", HG_JT_ARRAY},
        {"tuple", HG_JT_ARRAY},   {"object", HG_JT_OBJECT}, {"dict", HG_JT_OBJECT},
    };
    for (size_t i = 0; name && i < sizeof table / sizeof *table; i++)
        if (!strcmp(name, table[i].name)) return table[i].type;
    return 0;
}

static unsigned type_of_value(json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING: return HG_JT_STRING;
    case JSON_INTEGER:
    case JSON_REAL: return HG_JT_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE: return HG_JT_BOOL;
    case JSON_NULL: return HG_JT_NULL;
    case JSON_ARRAY: return HG_JT_ARRAY;
    case JSON_OBJECT: return HG_JT_OBJECT;
    }
    return 0;
}

/* The value at "#/a/b" in root. The escapes ~0 and ~1 of JSON pointers do not occur in names of
 * definitions that tools generate; such a reference is not found and the type is unknown. */
static json_t *follow_ref(json_t *root, const char *ref)
{
    if (!ref || *ref++ != '#') return NULL;
    while (root && *ref == '/') {
        size_t n = strcspn(++ref, "/");
        root = json_object_getn(root, ref, n);
        ref += n;
    }
    return root;
}

static unsigned schema_types(json_t *root, json_t *schema, int depth)
{
    if (depth > MAX_SCHEMA_DEPTH) return 0;
    size_t i;
    json_t *item, *type = json_object_get(schema, "type");
    unsigned types = type_by_name(json_string_value(type));
    json_array_foreach(type, i, item) types |= type_by_name(json_string_value(item));
    if (types) return types;

    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    for (size_t u = 0; u < sizeof unions / sizeof *unions; u++) {
        json_array_foreach(json_object_get(schema, unions[u]), i, item) types |=
            schema_types(root, item, depth + 1);
    }
    json_t *to = follow_ref(root, json_string_value(json_object_get(schema, "$ref")));
    if (to) types |= schema_types(root, to, depth + 1);
    if (types) return types;

    json_array_foreach(json_object_get(schema, "enum"), i, item) types |= type_of_value(item);
    json_t *only = json_object_get(schema, "const");
    return only ? types | type_of_value(only) : types;
}

unsigned hg_schema_types(json_t *root, json_t *schema)
{
    return schema_types(root, schema, 0);
}

bool hg_schema_lists(json_t *schema, const char *s, size_t n)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(schema, "enum"), i, item)
    {
        if (json_is_string(item) && json_string_length(item) == n &&
            !memcmp(json_string_value(item), s, n))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------ literals -- */

struct reader {
    const char *p, *end;
    struct hg_buf *out;
};

static bool read_value(struct reader *r, int depth);

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_space(struct reader *r)
{
    while (r->p < r->end && is_space(*r->p)) r->p++;
}

static char peek(const struct reader *r)
{
    return r->p < r->end ? *r->p : 0;
}

static bool take(struct reader *r, char c)
{
    skip_space(r);
    if (peek(r) != c) return false;
    r->p++;
    return true;
}

static bool read_word(struct reader *r)
{
    static const char *const words[][2] = {
        {"true", "true"}, {"false", "false"}, {"null", "null"},
        {"True", "true"}, {"False", "false"}, {"None", "null"},
    };
    size_t n = 0, left = (size_t)(r->end - r->p);
    while (n < left && ((r->p[n] | 32) >= 'a' && (r->p[n] | 32) <= 'z')) n++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i][0]) != n || memcmp(words[i][0], r->p, n) != 0) continue;
        hg_buf_str(r->out, words[i][1]);
        r->p += n;
        return true;
    }
    return false;
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && is_digit(*p)) p++;
    return p;
}

/* JSON's grammar, copied as it is; only what fits a double, for the clients' parsers' sake. */
static bool read_number(struct reader *r)
{
    const char *p = r->p, *q;
    if (p < r->end && *p == '-') p++;
    q = p < r->end && *p == '0' ? p + 1 : skip_digits(p, r->end);
    if (q == p) return false;
    if (q < r->end && *q == '.') {
        p = q + 1;
        q = skip_digits(p, r->end);
        if (q == p) return false;
    }
    if (q < r->end && (*q | 32) == 'e') {
        p = q + 1;
        if (p < r->end && (*p == '+' || *p == '-')) p++;
        q = skip_digits(p, r->end);
        if (q == p) return false;
    }
    char text[MAX_NUMBER + 1];
    size_t n = (size_t)(q - r->p);
    if (n > MAX_NUMBER || (q < r->end && (is_digit(*q) || *q == '.'))) return false;
    memcpy(text, r->p, n);
    text[n] = 0;
    if (!isfinite(strtod(text, NULL))) return false;
    hg_buf_add(r->out, text, n);
    r->p = q;
    return true;
}

/* n hexadecimal digits at p, or -1. */
static long hex(const char *p, const char *end, int n)
{
    long v = 0;
    if (end - p < n) return -1;
    for (int i = 0; i < n; i++) {
        char c = p[i], lower = (char)(c | 32);
        if (is_digit(c))
            v = v * 16 + (c - '0');
        else if (lower >= 'a' && lower <= 'f')
            v = v * 16 + (lower - 'a' + 10);
        else
            return -1;
    }
    return v;
}

static void put_code_point(struct hg_buf *out, uint32_t c)
{
    struct hg_buf utf8;
    hg_buf_init(&utf8);
    hg_utf8_put(&utf8, c);
    hg_buf_json(out, utf8.data, utf8.len);
    out->oom |= utf8.oom;
    hg_buf_fini(&utf8);
}

/* \uXXXX at r->p (behind the backslash), with its second half if it is a surrogate pair. */
static bool read_unicode_escape(struct reader *r)
{
    long c = hex(r->p + 1, r->end, 4);
    if (c < 0) return false;
    r->p += 5;
    if (c >= 0xd800 && c < 0xe000) {
        long low = c < 0xdc00 && r->end - r->p >= 6 && r->p[0] == '\\' && r->p[1] == 'u'
                       ? hex(r->p + 2, r->end, 4)
                       : -1;
        bool pair = low >= 0xdc00 && low < 0xe000;
        c = pair ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
        if (pair) r->p += 6;
    }
    put_code_point(r->out, (uint32_t)c);
    return true;
}

/* r->p is behind a backslash. Escapes that neither language knows keep it, as in Python: models
 * write regular expressions and Windows paths that way. */
static void read_escape(struct reader *r)
{
    static const char from[] = "bfnrt\"\\'/", to[] = "\b\f\n\r\t\"\\'/";
    char c = *r->p;
    const char *e = c ? strchr(from, c) : NULL;
    if (c == 'u' && read_unicode_escape(r)) return;
    long x = c == 'x' ? hex(r->p + 1, r->end, 2) : -1;
    if (x >= 0) {
        put_code_point(r->out, (uint32_t)x);
        r->p += 3;
    } else if (e) {
        hg_buf_json(r->out, to + (e - from), 1);
        r->p++;
    } else {
        hg_buf_str(r->out, "\\\\");
    }
}

/* Raw newlines inside quotes are let through (escaped): the commonest slip of models. */
static bool read_string(struct reader *r)
{
    char quote = *r->p++;
    hg_buf_char(r->out, '"');
    const char *plain = r->p;
    for (; r->p < r->end; r->p++) {
        if (*r->p != quote && *r->p != '\\') continue;
        hg_buf_json(r->out, plain, (size_t)(r->p - plain));
        if (*r->p++ == quote) {
            hg_buf_char(r->out, '"');
            return true;
        }
        if (r->p == r->end) return false;
        read_escape(r);
        plain = r->p--;
    }
    return false;
}

/* Keys with a NUL are refused, since jansson would refuse the whole value later. */
static bool read_key(struct reader *r)
{
    skip_space(r);
    char c = peek(r);
    size_t start = r->out->len;
    if (c == '"' || c == '\'')
        return read_string(r) &&
               !(r->out->data && memmem(r->out->data + start, r->out->len - start, "\\u0000", 6));
    if (c != '-' && !is_digit(c)) return false; /* a Python dict may have numbers as keys */
    hg_buf_char(r->out, '"');
    if (!read_number(r)) return false;
    hg_buf_char(r->out, '"');
    return true;
}

static bool read_object(struct reader *r, int depth)
{
    r->p++;
    hg_buf_char(r->out, '{');
    for (int n = 0; !take(r, '}'); n++) {
        if (n > 0) {
            if (!take(r, ',')) return false;
            if (take(r, '}')) break;
            hg_buf_char(r->out, ',');
        }
        if (!read_key(r) || !take(r, ':')) return false;
        hg_buf_char(r->out, ':');
        if (!read_value(r, depth + 1)) return false;
    }
    hg_buf_char(r->out, '}');
    return true;
}

/* Lists, and Python's tuples; "(5)" is none. */
static bool read_array(struct reader *r, int depth)
{
    char close = *r->p++ == '[' ? ']' : ')';
    hg_buf_char(r->out, '[');
    for (int n = 0; !take(r, close); n++) {
        if (n > 0) {
            if (!take(r, ',')) return false;
            if (take(r, close)) break;
            hg_buf_char(r->out, ',');
        }
        if (!read_value(r, depth + 1)) return false;
        skip_space(r);
        if (n == 0 && close == ')' && peek(r) == ')') return false;
    }
    hg_buf_char(r->out, ']');
    return true;
}

static bool read_value(struct reader *r, int depth)
{
    if (depth > MAX_DEPTH) return false;
    skip_space(r);
    switch (peek(r)) {
    case '{': return read_object(r, depth);
    case '[':
    case '(': return read_array(r, depth);
    case '"':
    case '\'': return read_string(r);
    default: return is_digit(peek(r)) || peek(r) == '-' ? read_number(r) : read_word(r);
    }
}

bool hg_value_json(const char *s, size_t n, struct hg_buf *out)
{
    struct reader r = {s, s + n, out};
    size_t start = out->len;
    if (n > 0 && read_value(&r, 0)) {
        skip_space(&r);
        if (r.p == r.end) return true;
    }
    out->len = start;
    if (out->data) out->data[start] = 0;
    return false;
}

void hg_value_write(unsigned types, const char *s, size_t n, struct hg_buf *out)
{
    size_t start = out->len;
    if (hg_value_json(s, n, out)) {
        if (!(types & HG_JT_STRING) || out->oom) return;
        /* "5" and "true" may be meant as strings, a whole array, object or null hardly. */
        char first = s[strspn(s, " \t\r\n")];
        if ((first == '[' && types & HG_JT_ARRAY) || (first == '{' && types & HG_JT_OBJECT) ||
            (out->data[start] == 'n' && types & HG_JT_NULL))
            return;
        out->len = start;
    }
    hg_buf_char(out, '"');
    hg_buf_json(out, s, n);
    hg_buf_char(out, '"');
}

/* Behind the string or the nested value that begins at p. */
static const char *skip_value(const char *p, const char *end)
{
    int depth = 0;
    for (bool quoted = false; p < end; p++) {
        if (quoted) {
            if (*p == '\\')
                p++;
            else if (*p == '"')
                quoted = false;
            continue;
        }
        if (*p == '"') quoted = true;
        if (*p == '{' || *p == '[') depth++;
        if ((*p == '}' || *p == ']') && depth-- == 0) break;
        if ((*p == ',' || *p == ':') && depth == 0) break;
    }
    return p;
}

const char *hg_value_member(const char *json, size_t n, const char *key, size_t *n_value)
{
    const char *p = json + 1, *end = json + n;
    size_t n_key = strlen(key);
    if (n < 2 || *json != '{') return NULL;
    while (p < end && *p == '"') {
        const char *k = p + 1, *v = skip_value(p, end) + 1;
        const char *next = skip_value(v, end);
        if ((size_t)(v - k) == n_key + 2 && !memcmp(k, key, n_key)) {
            *n_value = (size_t)(next - v);
            return v;
        }
        p = next + 1;
    }
    return NULL;
}
