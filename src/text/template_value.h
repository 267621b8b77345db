/* template_value.h: the values of a template: Python's, as far as templates see them.
 *
 * Every value of a render lives in the render's arena (struct tmpl_run); strings of the caller's
 * JSON are borrowed. Strings are UTF-8 with a length, not terminated. Nothing changes once made
 * but namespaces, the position of a TV_ITER, and lists and dicts under construction. */
#ifndef HG_TEXT_TEMPLATE_VALUE_H
#define HG_TEXT_TEMPLATE_VALUE_H

#include "base/err.h"
#include "text/template_ast.h"

struct json_t;
struct tmpl_run;

/* -------------------------------------------------------------------- template_value.c -- */

struct tmpl_val tmpl_bool(bool b);
struct tmpl_val tmpl_int(int64_t i);
struct tmpl_val tmpl_float(double f);
struct tmpl_val tmpl_strn(const char *s, size_t n); /* borrowed */
struct tmpl_val tmpl_undef(enum tmpl_undef how, const char *s, size_t n);
#define TMPL_STR(lit) tmpl_strn(lit, sizeof(lit) - 1)
#define TMPL_NONE     ((struct tmpl_val){.kind = TV_NONE})
bool tmpl_is(const struct tmpl_val *v, const char *s); /* a string equal to s */

enum hg_status tmpl_str_copy(struct tmpl_run *r, const char *s, size_t n, struct tmpl_val *out);
enum hg_status tmpl_str_printf(struct tmpl_run *r, struct tmpl_val *out, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum hg_status tmpl_concat(struct tmpl_run *r, const struct tmpl_val *a, const struct tmpl_val *b,
                           struct tmpl_val *out);
struct tmpl_list *tmpl_list_new(struct tmpl_run *r, size_t cap);
enum hg_status tmpl_push(struct tmpl_run *r, struct tmpl_list *l, const struct tmpl_val *v);
struct tmpl_dict *tmpl_dict_new(struct tmpl_run *r, size_t cap);
/* Sets or replaces. Fails for keys that Python cannot hash. */
enum hg_status tmpl_put(struct tmpl_run *r, struct tmpl_dict *d, const struct tmpl_val *k,
                        const struct tmpl_val *v);
enum hg_status tmpl_dict_find(struct tmpl_run *r, const struct tmpl_dict *d,
                              const struct tmpl_val *k, const struct tmpl_val **v);
const struct tmpl_val *tmpl_dict_get(const struct tmpl_dict *d, const char *s, size_t n);
struct tmpl_val tmpl_box(enum tmpl_kind kind, struct tmpl_list *l);
enum hg_status tmpl_from_json(struct tmpl_run *r, const struct json_t *j, struct tmpl_val *out);

bool tmpl_truth(const struct tmpl_val *v);
bool tmpl_hashable(const struct tmpl_val *v);
const char *tmpl_type_name(const struct tmpl_val *v); /* as Python's type(v).__name__ */
enum hg_status tmpl_fail_undef(struct tmpl_run *r, const struct tmpl_val *v);
enum hg_status tmpl_equal(struct tmpl_run *r, const struct tmpl_val *a, const struct tmpl_val *b,
                          bool *out);
/* op: TK_LT, TK_LE, TK_GT or TK_GE. */
enum hg_status tmpl_order(struct tmpl_run *r, enum tmpl_tok_kind op, const struct tmpl_val *a,
                          const struct tmpl_val *b, bool *out);
enum hg_status tmpl_contains(struct tmpl_run *r, const struct tmpl_val *seq,
                             const struct tmpl_val *v, bool *out);
/* len(v); *n is SIZE_MAX when the type has no length. */
enum hg_status tmpl_len(struct tmpl_run *r, const struct tmpl_val *v, size_t *n);
/* The items that iteration gives, as a list not to be changed; uses up a TV_ITER. */
enum hg_status tmpl_items(struct tmpl_run *r, const struct tmpl_val *v, struct tmpl_list **out);
bool tmpl_iterable(const struct tmpl_val *v);
static inline bool tmpl_is_number(const struct tmpl_val *v)
{
    return v->kind == TV_BOOL || v->kind == TV_INT || v->kind == TV_FLOAT;
}
/* The value of a bool or int; false for other kinds. */
bool tmpl_as_int(const struct tmpl_val *v, int64_t *out);
double tmpl_as_float(const struct tmpl_val *v); /* of a number */

/* ------------------------------------------------------ text (template_str.c, _json.c) -- */

size_t tmpl_cp_len(const char *s, size_t n);
/* Decodes one code point of valid UTF-8; returns its bytes. */
size_t tmpl_cp(const char *s, size_t n, int32_t *cp);
/* Decodes the one that ends at s[n], n > 0. */
size_t tmpl_cp_before(const char *s, size_t n, int32_t *cp);
void tmpl_scrub(char *text); /* '?' for what is no UTF-8: a message may have cut a character */
bool tmpl_space(int32_t cp); /* Python's str.isspace for one code point */
/* str.strip(chars); chars NULL: white space. */
struct tmpl_val tmpl_strip(const struct tmpl_val *s, const struct tmpl_val *chars, bool left,
                           bool right);
enum hg_status tmpl_case(struct tmpl_run *r, const struct tmpl_val *s, char how,
                         struct tmpl_val *out); /* how: 'u', 'l', 'c'apitalize, 't'itle */
bool tmpl_is_case(const struct tmpl_val *s, bool upper);
enum hg_status tmpl_replace(struct tmpl_run *r, const struct tmpl_val *s,
                            const struct tmpl_val *old, const struct tmpl_val *with, int64_t count,
                            struct tmpl_val *out);
enum hg_status tmpl_splitlines(struct tmpl_run *r, const struct tmpl_val *s, bool keep,
                               struct tmpl_list *l);
enum hg_status tmpl_join(struct tmpl_run *r, const struct tmpl_val *sep, const struct tmpl_list *l,
                         bool convert, struct tmpl_val *out);
enum hg_status tmpl_escape(struct tmpl_run *r, const struct tmpl_val *s, struct tmpl_val *out);

enum hg_status tmpl_str(struct tmpl_run *r, const struct tmpl_val *v, struct tmpl_val *out);
enum hg_status tmpl_write(struct tmpl_run *r, const struct tmpl_val *v); /* str(v) to r->out */
/* Builds a string at the end of r->out: mark, append to r->out, take. */
enum hg_status tmpl_take(struct tmpl_run *r, size_t mark, struct tmpl_val *out);
enum hg_status tmpl_out_check(struct tmpl_run *r); /* after appending to r->out */
enum hg_status tmpl_repr_float(struct tmpl_run *r, double f);
enum hg_status tmpl_tojson(struct tmpl_run *r, const struct tmpl_val *self,
                           const struct tmpl_val *a, struct tmpl_val *out);

#endif
