/* output_value.h: what a tool's schema says about a parameter, and its text -> JSON. */
#ifndef HG_TEXT_OUTPUT_VALUE_H
#define HG_TEXT_OUTPUT_VALUE_H

#include "base/buf.h"

struct json_t;

/* JSON types that a schema admits. */
enum {
    HG_JT_STRING = 1,
    HG_JT_NUMBER = 2, /* integer too */
    HG_JT_BOOL = 4,
    HG_JT_NULL = 8,
    HG_JT_ARRAY = 16,
    HG_JT_OBJECT = 32,
};

/* The "properties" object of function `name` in an OpenAI tools array (also of the flat form
 * without "function"); *root becomes its parameter schema. NULL: no such tool, or it has none. */
struct json_t *hg_tool_properties(struct json_t *tools, const char *name, struct json_t **root);

/* Types admitted by `schema`: type (a name or a list), anyOf, oneOf, allOf, enum, const, and $ref
 * within `root`. 0 when it does not say. */
unsigned hg_schema_types(struct json_t *root, struct json_t *schema);

/* Whether the schema's enum lists the string s[0..n). */
bool hg_schema_lists(struct json_t *schema, const char *s, size_t n);

/* Appends the value of a parameter that admits `types` (and maybe strings) as one JSON value. A
 * text that does not parse, or could as well be meant as a string, becomes a string. */
void hg_value_write(unsigned types, const char *s, size_t n, struct hg_buf *out);

/* Appends s[0..n), JSON or a Python literal, as compact JSON with numbers exactly as written.
 * False when it is neither, or is nested deeper than 128, or holds a number beyond a double; out
 * is then as before. */
bool hg_value_json(const char *s, size_t n, struct hg_buf *out);

/* The first member `key` of a compact JSON object made by hg_value_json. NULL when absent. */
const char *hg_value_member(const char *json, size_t n, const char *key, size_t *n_value);

#endif
