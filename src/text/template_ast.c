/* template_ast.c: tokens to expressions, by recursive descent in jinja2's order of precedence:
 *
 *     a if b else c  <  or  <  and  <  not  <  == != < <= > >= in  <  + -  <  ~  <  * / // %
 *     <  **  <  unary + -  <  .name [item] (call)  <  |filter, is test
 *
 * (~ binds tighter than +, and both unary minus and ** are looser than filters, as there.) */
#include "text/template_parse.h"
#include "text/template_value.h"

#include <string.h>

static enum hg_status parse_or(struct tmpl_parser *p, struct tmpl_node **out);
static enum hg_status parse_unary(struct tmpl_parser *p, bool filters, struct tmpl_node **out);

#define NODE(var, kind, line)                                                                      \
    struct tmpl_node *var = tmpl_node(p, kind, line);                                              \
    if (!var) return HG_ENOMEM

static enum hg_status deeper(struct tmpl_parser *p)
{
    if (++p->depth > TMPL_PARSE_DEPTH)
        return tmpl_syntax(p, tmpl_cur(p)->line, "nested deeper than %d", TMPL_PARSE_DEPTH);
    return HG_OK;
}

static void set_str(struct tmpl_node *n, const struct tmpl_token *t)
{
    n->val = tmpl_strn(t->s, t->n);
}

static enum hg_status name_node(struct tmpl_parser *p, const struct tmpl_token *t,
                                struct tmpl_node **out)
{
    static const struct {
        const char *word;
        uint8_t kind;
        bool b;
    } constants[] = {{"true", TV_BOOL, true},   {"True", TV_BOOL, true},  {"false", TV_BOOL, false},
                     {"False", TV_BOOL, false}, {"none", TV_NONE, false}, {"None", TV_NONE, false}};
    NODE(n, T_NAME, t->line);
    *out = n;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (t->n != strlen(constants[i].word) || memcmp(t->s, constants[i].word, t->n)) continue;
        n->kind = T_CONST;
        n->val = (struct tmpl_val){.kind = constants[i].kind, .b = constants[i].b};
        return HG_OK;
    }
    set_str(n, t);
    n->sym = tmpl_symbol(p->t, t->s, t->n);
    if (n->sym < 0) return hg_fail(p->err, HG_ENOMEM, "%s: out of memory", p->t->name);
    int bit = n->sym == p->t->sym_caller    ? TC_CALLER
              : n->sym == p->t->sym_kwargs  ? TC_KWARGS
              : n->sym == p->t->sym_varargs ? TC_VARARGS
                                            : 0;
    for (struct tmpl_node *m = p->macro; bit && m; m = m->other) m->op |= (uint8_t)bit;
    return HG_OK;
}

/* Adjacent strings are one, as in Python. */
static enum hg_status string_node(struct tmpl_parser *p, struct tmpl_node *n)
{
    size_t total = 0, at = p->at;
    for (; tmpl_cur(p)->kind == TK_STRING; p->at++) total += tmpl_cur(p)->n;
    if (p->at - at == 1) {
        set_str(n, &p->tok[at]);
        return HG_OK;
    }
    char *s = hg_arena_alloc(&p->t->mem, total), *to = s;
    if (!s) return hg_fail(p->err, HG_ENOMEM, "%s: out of memory", p->t->name);
    for (; at < p->at; at++) {
        memcpy(to, p->tok[at].s, p->tok[at].n);
        to += p->tok[at].n;
    }
    n->val = tmpl_strn(s, total);
    return HG_OK;
}

static enum hg_status sequence(struct tmpl_parser *p, struct tmpl_node *n, enum tmpl_tok_kind end)
{
    while (tmpl_cur(p)->kind != end) {
        struct tmpl_node *item;
        if (n->n_kids) HG_TRY(tmpl_expect(p, TK_COMMA, "','"));
        if (tmpl_cur(p)->kind == end) break;
        HG_TRY(tmpl_parse_expr(p, &item));
        HG_TRY(tmpl_add_node(p, &n->kids, &n->n_kids, item));
        if (n->kind == T_DICT) {
            HG_TRY(tmpl_expect(p, TK_COLON, "':'"));
            HG_TRY(tmpl_parse_expr(p, &item));
            HG_TRY(tmpl_add_node(p, &n->kids, &n->n_kids, item));
        }
    }
    p->at++;
    return HG_OK;
}

enum hg_status tmpl_parse_primary(struct tmpl_parser *p, struct tmpl_node **out)
{
    struct tmpl_token t = *tmpl_cur(p);
    if (t.kind == TK_NAME) {
        p->at++;
        return name_node(p, &t, out);
    }
    if (t.kind == TK_LPAREN) {
        p->at++;
        if (tmpl_skip(p, TK_RPAREN)) {
            *out = tmpl_node(p, T_TUPLE, t.line);
            return *out ? HG_OK : HG_ENOMEM;
        }
        HG_TRY(tmpl_parse_tuple(p, true, out));
        return tmpl_expect(p, TK_RPAREN, "')'");
    }
    NODE(n, T_CONST, t.line);
    *out = n;
    switch (t.kind) {
    case TK_STRING: return string_node(p, n);
    case TK_INT: n->val = tmpl_int(t.i); break;
    case TK_FLOAT: n->val = tmpl_float(t.f); break;
    case TK_LBRACKET:
        n->kind = T_LIST;
        p->at++;
        return sequence(p, n, TK_RBRACKET);
    case TK_LBRACE:
        n->kind = T_DICT;
        p->at++;
        return sequence(p, n, TK_RBRACE);
    default: return tmpl_expect(p, TK_NAME, "an expression");
    }
    p->at++;
    return HG_OK;
}

/* What is between [ and ]: an expression, or a slice of `object`. */
static enum hg_status subscript(struct tmpl_parser *p, struct tmpl_node **object)
{
    int line = tmpl_cur(p)->line;
    struct tmpl_node *part[3] = {NULL}, *n;
    int n_colons = 0;
    p->at++;
    while (tmpl_cur(p)->kind != TK_RBRACKET) {
        if (tmpl_cur(p)->kind == TK_COLON && n_colons < 2) {
            p->at++;
            n_colons++;
            continue;
        }
        if (part[n_colons]) return tmpl_expect(p, TK_RBRACKET, "']'");
        if (n_colons)
            HG_TRY(tmpl_parse_expr(p, &part[n_colons]));
        else
            HG_TRY(tmpl_parse_tuple(p, true, &part[n_colons]));
    }
    p->at++;
    if (!n_colons && !part[0]) return tmpl_syntax(p, line, "expected a subscript between []");
    n = tmpl_node(p, n_colons ? T_SLICE : T_ITEM, line);
    if (!n) return HG_ENOMEM;
    n->a = *object;
    n->b = part[0];
    if (n_colons) {
        n->n_kids = 3;
        n->kids = hg_arena_array(&p->t->mem, 3, sizeof *n->kids);
        if (!n->kids) return hg_fail(p->err, HG_ENOMEM, "%s: out of memory", p->t->name);
        memcpy(n->kids, part, sizeof part);
    }
    *object = n;
    return HG_OK;
}

static enum hg_status argument(struct tmpl_parser *p, struct tmpl_node **out)
{
    struct tmpl_token *t = tmpl_cur(p);
    enum tmpl_node_kind kind = t->kind == TK_MUL                              ? T_STAR
                               : t->kind == TK_POW                            ? T_DSTAR
                               : t->kind == TK_NAME && t[1].kind == TK_ASSIGN ? T_KWARG
                                                                              : T_CONST;
    if (kind == T_CONST) return tmpl_parse_expr(p, out);
    NODE(n, kind, t->line);
    if (kind == T_KWARG) set_str(n, t);
    p->at += kind == T_KWARG ? 2 : 1;
    *out = n;
    return tmpl_parse_expr(p, &n->a);
}

/* "(" was seen. Positional arguments come first, then keywords, *list and **dict in any order. */
static enum hg_status call_args(struct tmpl_parser *p, struct tmpl_node *call)
{
    bool only_named = false;
    p->at++;
    while (tmpl_cur(p)->kind != TK_RPAREN) {
        struct tmpl_node *arg;
        if (call->n_kids) HG_TRY(tmpl_expect(p, TK_COMMA, "','"));
        if (tmpl_cur(p)->kind == TK_RPAREN) break;
        int line = tmpl_cur(p)->line;
        HG_TRY(argument(p, &arg));
        bool named = arg->kind == T_KWARG || arg->kind == T_STAR || arg->kind == T_DSTAR;
        if (only_named && !named)
            return tmpl_syntax(p, line, "positional argument behind a named one");
        only_named |= named;
        HG_TRY(tmpl_add_node(p, &call->kids, &call->n_kids, arg));
    }
    p->at++;
    return HG_OK;
}

static enum hg_status call(struct tmpl_parser *p, struct tmpl_node **node)
{
    NODE(n, T_CALL, tmpl_cur(p)->line);
    n->a = *node;
    *node = n;
    return call_args(p, n);
}

static enum hg_status attribute(struct tmpl_parser *p, struct tmpl_node **node)
{
    p->at++;
    struct tmpl_token *t = tmpl_cur(p);
    NODE(n, t->kind == TK_INT ? T_ITEM : T_ATTR, t->line);
    n->a = *node;
    *node = n;
    if (t->kind == TK_INT) {
        NODE(index, T_CONST, t->line);
        index->val = tmpl_int(t->i);
        n->b = index;
        p->at++;
        return HG_OK;
    }
    set_str(n, t);
    return tmpl_expect(p, TK_NAME, "a name or number behind '.'");
}

static enum hg_status postfix(struct tmpl_parser *p, struct tmpl_node **node)
{
    for (;;) {
        switch (tmpl_cur(p)->kind) {
        case TK_DOT: HG_TRY(attribute(p, node)); break;
        case TK_LBRACKET: HG_TRY(subscript(p, node)); break;
        case TK_LPAREN: HG_TRY(call(p, node)); break;
        default: return HG_OK;
        }
    }
}

/* The name of a filter or test may have dots. */
static enum hg_status dotted(struct tmpl_parser *p, struct tmpl_node *n)
{
    struct tmpl_token *t = tmpl_cur(p);
    HG_TRY(tmpl_expect(p, TK_NAME, "a name"));
    set_str(n, t);
    if (tmpl_cur(p)->kind == TK_DOT)
        return tmpl_syntax(p, t->line, "%.*s.: names of filters and tests have no dots here",
                           (int)(t->n > 60 ? 60 : t->n), t->s);
    return HG_OK;
}

enum hg_status tmpl_parse_filters(struct tmpl_parser *p, bool first, struct tmpl_node **node)
{
    while (first || tmpl_cur(p)->kind == TK_PIPE) {
        if (!first) p->at++;
        first = false;
        NODE(n, T_FILTER, tmpl_cur(p)->line);
        HG_TRY(dotted(p, n));
        n->a = *node;
        *node = n;
        if (tmpl_cur(p)->kind == TK_LPAREN) HG_TRY(call_args(p, n));
    }
    return HG_OK;
}

/* `is name`, `is not name`, `is name(args)`, `is name arg`. */
static enum hg_status test(struct tmpl_parser *p, struct tmpl_node **node)
{
    p->at++;
    int line = tmpl_cur(p)->line;
    bool negated = tmpl_skip_name(p, "not");
    NODE(n, T_TEST, line);
    HG_TRY(dotted(p, n));
    n->a = *node;
    *node = n;
    enum tmpl_tok_kind k = tmpl_cur(p)->kind;
    if (k == TK_LPAREN) {
        HG_TRY(call_args(p, n));
    } else if ((k == TK_NAME && !tmpl_at_name(p, "else") && !tmpl_at_name(p, "or") &&
                !tmpl_at_name(p, "and")) ||
               k == TK_STRING || k == TK_INT || k == TK_FLOAT || k == TK_LBRACKET ||
               k == TK_LBRACE) {
        struct tmpl_node *arg;
        if (tmpl_at_name(p, "is")) return tmpl_syntax(p, line, "tests cannot be chained");
        HG_TRY(tmpl_parse_primary(p, &arg));
        HG_TRY(postfix(p, &arg));
        HG_TRY(tmpl_add_node(p, &n->kids, &n->n_kids, arg));
    }
    if (!negated) return HG_OK;
    NODE(not_n, T_NOT, line);
    not_n->a = n;
    *node = not_n;
    return HG_OK;
}

static enum hg_status filters_and_tests(struct tmpl_parser *p, struct tmpl_node **node)
{
    for (;;) {
        if (tmpl_cur(p)->kind == TK_PIPE)
            HG_TRY(tmpl_parse_filters(p, false, node));
        else if (tmpl_at_name(p, "is"))
            HG_TRY(test(p, node));
        else if (tmpl_cur(p)->kind == TK_LPAREN)
            HG_TRY(call(p, node));
        else
            return HG_OK;
    }
}

static enum hg_status parse_unary(struct tmpl_parser *p, bool filters, struct tmpl_node **out)
{
    HG_TRY(deeper(p));
    enum tmpl_tok_kind k = tmpl_cur(p)->kind;
    if (k == TK_SUB || k == TK_ADD) {
        NODE(n, k == TK_SUB ? T_NEG : T_POS, tmpl_cur(p)->line);
        p->at++;
        HG_TRY(parse_unary(p, false, &n->a));
        *out = n;
    } else {
        HG_TRY(tmpl_parse_primary(p, out));
    }
    HG_TRY(postfix(p, out));
    if (filters) HG_TRY(filters_and_tests(p, out));
    p->depth--;
    return HG_OK;
}

/* One level of left-associative operators per row, loosest first. */
static enum hg_status parse_math(struct tmpl_parser *p, int level, struct tmpl_node **out)
{
    enum { LOOSEST_CONCAT = 1, LEVELS = 4 };
    static const enum tmpl_tok_kind ops[LEVELS][4] = {
        {TK_ADD, TK_SUB}, {TK_TILDE}, {TK_MUL, TK_DIV, TK_FLOORDIV, TK_MOD}, {TK_POW}};
    if (level == LEVELS) return parse_unary(p, true, out);
    HG_TRY(parse_math(p, level + 1, out));
    for (;;) {
        enum tmpl_tok_kind k = tmpl_cur(p)->kind;
        int i = 0;
        while (i < 4 && ops[level][i] != k) i++;
        if (i == 4 || k == TK_EOF) return HG_OK;
        int line = tmpl_cur(p)->line;
        struct tmpl_node *left = *out, *right, *n = left;
        p->at++;
        HG_TRY(parse_math(p, level + 1, &right));
        if (level != LOOSEST_CONCAT || left->kind != T_CONCAT) {
            n = tmpl_node(p, level == LOOSEST_CONCAT ? T_CONCAT : T_BINARY, line);
            if (!n) return HG_ENOMEM;
            n->op = (uint8_t)k;
        }
        if (level == LOOSEST_CONCAT) {
            if (n != left) HG_TRY(tmpl_add_node(p, &n->kids, &n->n_kids, left));
            HG_TRY(tmpl_add_node(p, &n->kids, &n->n_kids, right));
        } else {
            n->a = left;
            n->b = right;
        }
        *out = n;
    }
}

static enum tmpl_tok_kind compare_op(struct tmpl_parser *p)
{
    enum tmpl_tok_kind k = tmpl_cur(p)->kind;
    if (k >= TK_EQ && k <= TK_GE) {
        p->at++;
        return k;
    }
    if (tmpl_skip_name(p, "in")) return TK_IN;
    const struct tmpl_token *next = tmpl_cur(p) + 1;
    if (!tmpl_at_name(p, "not") || next->kind != TK_NAME || next->n != 2 ||
        memcmp(next->s, "in", 2) != 0)
        return TK_EOF;
    p->at += 2;
    return TK_NOT_IN;
}

static enum hg_status parse_compare(struct tmpl_parser *p, struct tmpl_node **out)
{
    struct tmpl_node *n = NULL;
    int line = tmpl_cur(p)->line;
    HG_TRY(parse_math(p, 0, out));
    for (enum tmpl_tok_kind k; (k = compare_op(p)) != TK_EOF;) {
        if (!n) {
            n = tmpl_node(p, T_COMPARE, line);
            if (!n) return HG_ENOMEM;
            n->a = *out;
            *out = n;
        }
        NODE(operand, T_OPERAND, tmpl_cur(p)->line);
        operand->op = (uint8_t)k;
        HG_TRY(parse_math(p, 0, &operand->a));
        HG_TRY(tmpl_add_node(p, &n->kids, &n->n_kids, operand));
    }
    return HG_OK;
}

static enum hg_status parse_not(struct tmpl_parser *p, struct tmpl_node **out)
{
    if (!tmpl_at_name(p, "not")) return parse_compare(p, out);
    HG_TRY(deeper(p));
    NODE(n, T_NOT, tmpl_cur(p)->line);
    p->at++;
    HG_TRY(parse_not(p, &n->a));
    *out = n;
    p->depth--;
    return HG_OK;
}

static enum hg_status parse_and(struct tmpl_parser *p, struct tmpl_node **out)
{
    HG_TRY(parse_not(p, out));
    while (tmpl_at_name(p, "and")) {
        NODE(n, T_AND, tmpl_cur(p)->line);
        p->at++;
        n->a = *out;
        HG_TRY(parse_not(p, &n->b));
        *out = n;
    }
    return HG_OK;
}

static enum hg_status parse_or(struct tmpl_parser *p, struct tmpl_node **out)
{
    HG_TRY(parse_and(p, out));
    while (tmpl_at_name(p, "or")) {
        NODE(n, T_OR, tmpl_cur(p)->line);
        p->at++;
        n->a = *out;
        HG_TRY(parse_and(p, &n->b));
        *out = n;
    }
    return HG_OK;
}

enum hg_status tmpl_parse_expr(struct tmpl_parser *p, struct tmpl_node **out)
{
    HG_TRY(deeper(p));
    HG_TRY(parse_or(p, out));
    while (tmpl_at_name(p, "if")) {
        NODE(n, T_COND, tmpl_cur(p)->line);
        p->at++;
        n->b = *out;
        HG_TRY(parse_or(p, &n->a));
        if (tmpl_skip_name(p, "else")) HG_TRY(tmpl_parse_expr(p, &n->c));
        *out = n;
    }
    p->depth--;
    return HG_OK;
}

static bool tuple_end(const struct tmpl_parser *p)
{
    enum tmpl_tok_kind k = tmpl_cur(p)->kind;
    return k == TK_VAR_END || k == TK_BLOCK_END || k == TK_RPAREN || k == TK_RBRACKET ||
           tmpl_at_name(p, "recursive");
}

enum hg_status tmpl_parse_tuple(struct tmpl_parser *p, bool cond, struct tmpl_node **out)
{
    struct tmpl_node *tuple = NULL;
    HG_TRY(cond ? tmpl_parse_expr(p, out) : parse_or(p, out));
    while (tmpl_cur(p)->kind == TK_COMMA) {
        if (!tuple) {
            tuple = tmpl_node(p, T_TUPLE, tmpl_cur(p)->line);
            if (!tuple) return HG_ENOMEM;
            HG_TRY(tmpl_add_node(p, &tuple->kids, &tuple->n_kids, *out));
            *out = tuple;
        }
        p->at++;
        if (tuple_end(p)) break;
        struct tmpl_node *item;
        HG_TRY(cond ? tmpl_parse_expr(p, &item) : parse_or(p, &item));
        HG_TRY(tmpl_add_node(p, &tuple->kids, &tuple->n_kids, item));
    }
    return HG_OK;
}
