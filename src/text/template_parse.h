/* template_parse.h: from source text to the syntax tree: what lexer and parser share. */
#ifndef HG_TEXT_TEMPLATE_PARSE_H
#define HG_TEXT_TEMPLATE_PARSE_H

#include "base/err.h"
#include "text/template_ast.h"

struct tmpl_token {
    enum tmpl_tok_kind kind;
    int line;
    const char *s; /* the source text; of a string, the unescaped value */
    size_t n;
    int64_t i;
    double f;
};

struct tmpl_parser {
    struct hg_template *t;
    struct hg_err *err;
    struct tmpl_token *tok; /* all tokens, the last is TK_EOF */
    size_t n_tok, cap_tok, at;
    int depth;               /* of the parser's own recursion */
    int loop_depth;          /* loops around, within the macro at hand */
    struct tmpl_node *macro; /* innermost macro; its `other` is the one around it */
};

enum { TMPL_PARSE_DEPTH = 200, TMPL_MAX_SOURCE = 1 << 20 };

/* Fails with "name:line: ...", EFORMAT. */
enum hg_status tmpl_syntax(struct tmpl_parser *p, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum hg_status tmpl_lex(struct tmpl_parser *p, const char *src, size_t n);
/* Number of a name; -1 when memory is out. */
int tmpl_symbol(struct hg_template *t, const char *s, size_t n);

static inline struct tmpl_token *tmpl_cur(const struct tmpl_parser *p)
{
    return &p->tok[p->at];
}
bool tmpl_at_name(const struct tmpl_parser *p, const char *word);
bool tmpl_skip(struct tmpl_parser *p, enum tmpl_tok_kind kind);
bool tmpl_skip_name(struct tmpl_parser *p, const char *word);
enum hg_status tmpl_expect(struct tmpl_parser *p, enum tmpl_tok_kind kind, const char *what);
struct tmpl_node *tmpl_node(struct tmpl_parser *p, enum tmpl_node_kind kind, int line);
/* Appends to a growing array of nodes in the template's arena. */
enum hg_status tmpl_add_node(struct tmpl_parser *p, struct tmpl_node ***v, size_t *n,
                             struct tmpl_node *node);
enum hg_status tmpl_parse_expr(struct tmpl_parser *p, struct tmpl_node **out);
/* One expression or, with commas, a tuple. cond: `a if b` is part of it. */
enum hg_status tmpl_parse_tuple(struct tmpl_parser *p, bool cond, struct tmpl_node **out);
enum hg_status tmpl_parse_primary(struct tmpl_parser *p, struct tmpl_node **out);
/* Filters over *node, up to the first token that is none; first: no `|` before the first. */
enum hg_status tmpl_parse_filters(struct tmpl_parser *p, bool first, struct tmpl_node **node);

#endif
