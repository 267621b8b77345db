/* template_tests.c: what may stand behind `is`. */
#include "text/template_int.h"

#include <math.h>
#include <string.h>

#define TEST(name)                                                                                 \
    static enum hg_status name(struct tmpl_run *r, const struct tmpl_val *v,                       \
                               const struct tmpl_val *a, struct tmpl_val *out)
#define SIMPLE(name, condition)                                                                    \
    TEST(name)                                                                                     \
    {                                                                                              \
        (void)r;                                                                                   \
        (void)a;                                                                                   \
        *out = tmpl_bool(condition);                                                               \
        return HG_OK;                                                                              \
    }

SIMPLE(t_defined, v->kind != TV_UNDEF)
SIMPLE(t_undefined, v->kind == TV_UNDEF)
SIMPLE(t_none, v->kind == TV_NONE)
SIMPLE(t_boolean, v->kind == TV_BOOL)
SIMPLE(t_true, v->kind == TV_BOOL && v->b)
SIMPLE(t_false, v->kind == TV_BOOL && !v->b)
SIMPLE(t_integer, v->kind == TV_INT)
SIMPLE(t_float, v->kind == TV_FLOAT)
SIMPLE(t_number, tmpl_is_number(v))
SIMPLE(t_string, v->kind == TV_STR)
SIMPLE(t_mapping, v->kind == TV_DICT)
SIMPLE(t_iterable, tmpl_iterable(v))
SIMPLE(t_sequence, v->kind == TV_STR || v->kind == TV_LIST || v->kind == TV_TUPLE ||
                       v->kind == TV_DICT || v->kind == TV_RANGE || v->kind == TV_UNDEF)
SIMPLE(t_callable, v->kind == TV_MACRO || v->kind == TV_FUNC || v->kind == TV_METHOD ||
                       v->kind == TV_LOOP || v->kind == TV_UNDEF)
SIMPLE(t_escaped, v->kind == TV_STR && v->sub)
SIMPLE(t_filter, v->kind == TV_STR && tmpl_has_filter(v->s, v->n))

/* The same object: of values that cannot change only the constants are told apart in Python. */
SIMPLE(t_sameas,
       v->kind == a->kind && (v->kind == TV_NONE || (v->kind == TV_BOOL && v->b == a->b) ||
                              (v->kind > TV_BOOL && v->s == a->s && v->n == a->n)))

static enum hg_status remainder_is(struct tmpl_run *r, const struct tmpl_val *v,
                                   const struct tmpl_val *by, int64_t want, struct tmpl_val *out)
{
    struct tmpl_val rest, wanted = tmpl_int(want);
    bool same;
    HG_TRY(tmpl_binary(r, TK_MOD, v, by, &rest));
    HG_TRY(tmpl_equal(r, &rest, &wanted, &same));
    *out = tmpl_bool(same);
    return HG_OK;
}

TEST(t_odd)
{
    struct tmpl_val two = tmpl_int(2);
    (void)a;
    return remainder_is(r, v, &two, 1, out);
}

TEST(t_even)
{
    struct tmpl_val two = tmpl_int(2);
    (void)a;
    return remainder_is(r, v, &two, 0, out);
}

TEST(t_divisibleby)
{
    return remainder_is(r, v, a, 0, out);
}

static enum hg_status is_case(struct tmpl_run *r, const struct tmpl_val *v, bool upper,
                              struct tmpl_val *out)
{
    struct tmpl_val s;
    HG_TRY(tmpl_str(r, v, &s));
    *out = tmpl_bool(tmpl_is_case(&s, upper));
    return tmpl_charge(r, s.n);
}

TEST(t_lower)
{
    (void)a;
    return is_case(r, v, false, out);
}

TEST(t_upper)
{
    (void)a;
    return is_case(r, v, true, out);
}

TEST(t_in)
{
    bool yes;
    HG_TRY(tmpl_contains(r, a, v, &yes));
    *out = tmpl_bool(yes);
    return HG_OK;
}

TEST(t_eq)
{
    bool yes;
    HG_TRY(tmpl_equal(r, v, a, &yes));
    *out = tmpl_bool(yes);
    return HG_OK;
}

TEST(t_ne)
{
    HG_TRY(t_eq(r, v, a, out));
    out->b = !out->b;
    return HG_OK;
}

#define ORDER(name, op)                                                                            \
    TEST(name)                                                                                     \
    {                                                                                              \
        bool yes;                                                                                  \
        HG_TRY(tmpl_order(r, op, v, a, &yes));                                                     \
        *out = tmpl_bool(yes);                                                                     \
        return HG_OK;                                                                              \
    }
ORDER(t_lt, TK_LT)
ORDER(t_le, TK_LE)
ORDER(t_gt, TK_GT)
ORDER(t_ge, TK_GE)

static const struct tmpl_def tests[] = {{"defined", t_defined, "", 0},
                                        {"undefined", t_undefined, "", 0},
                                        {"none", t_none, "", 0},
                                        {"boolean", t_boolean, "", 0},
                                        {"true", t_true, "", 0},
                                        {"false", t_false, "", 0},
                                        {"integer", t_integer, "", 0},
                                        {"float", t_float, "", 0},
                                        {"number", t_number, "", 0},
                                        {"string", t_string, "", 0},
                                        {"mapping", t_mapping, "", 0},
                                        {"iterable", t_iterable, "", 0},
                                        {"sequence", t_sequence, "", 0},
                                        {"callable", t_callable, "", 0},
                                        {"escaped", t_escaped, "", 0},
                                        {"filter", t_filter, "", 0},
                                        {"sameas", t_sameas, "other", 1},
                                        {"odd", t_odd, "", 0},
                                        {"even", t_even, "", 0},
                                        {"divisibleby", t_divisibleby, "num", 1},
                                        {"lower", t_lower, "", 0},
                                        {"upper", t_upper, "", 0},
                                        {"in", t_in, "seq", 1},
                                        {"eq", t_eq, "b", 1},
                                        {"equalto", t_eq, "b", 1},
                                        {"==", t_eq, "b", 1},
                                        {"ne", t_ne, "b", 1},
                                        {"!=", t_ne, "b", 1},
                                        {"lt", t_lt, "b", 1},
                                        {"lessthan", t_lt, "b", 1},
                                        {"<", t_lt, "b", 1},
                                        {"le", t_le, "b", 1},
                                        {"<=", t_le, "b", 1},
                                        {"gt", t_gt, "b", 1},
                                        {"greaterthan", t_gt, "b", 1},
                                        {">", t_gt, "b", 1},
                                        {"ge", t_ge, "b", 1},
                                        {">=", t_ge, "b", 1},
                                        {0}};

enum hg_status tmpl_test(struct tmpl_run *r, const char *name, size_t n,
                         const struct tmpl_val *self, const struct tmpl_args *args, bool *out)
{
    const struct tmpl_def *def = tmpl_find_def(tests, name, n);
    struct tmpl_val v;
    if (!def) return tmpl_fail(r, "No test named '%.*s'.", (int)(n > 100 ? 100 : n), name);
    HG_TRY(tmpl_call_def(r, def, self, args, &v));
    *out = v.b;
    return HG_OK;
}
