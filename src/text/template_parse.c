/* template_parse.c: tokens to statements; hg_template_parse. Expressions: template_ast.c. */
#include "text/template_parse.h"
#include "text/template.h"
#include "text/template_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static enum hg_status parse_body(struct tmpl_parser *p, struct tmpl_node *n, const char *ends);

#define NODE(var, kind, line)                                                                      \
    struct tmpl_node *var = tmpl_node(p, kind, line);                                              \
    if (!var) return HG_ENOMEM

/* ------------------------------------------------------------------------- parser's tools -- */

enum hg_status tmpl_syntax(struct tmpl_parser *p, int line, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tmpl_scrub(text);
    return hg_fail(p->err, HG_EFORMAT, "%s:%d: %s", p->t->name, line, text);
}

bool tmpl_at_name(const struct tmpl_parser *p, const char *word)
{
    const struct tmpl_token *t = tmpl_cur(p);
    return t->kind == TK_NAME && t->n == strlen(word) && memcmp(t->s, word, t->n) == 0;
}

bool tmpl_skip(struct tmpl_parser *p, enum tmpl_tok_kind kind)
{
    if (tmpl_cur(p)->kind != kind) return false;
    p->at += kind != TK_EOF;
    return true;
}

bool tmpl_skip_name(struct tmpl_parser *p, const char *word)
{
    bool is = tmpl_at_name(p, word);
    p->at += is;
    return is;
}

enum hg_status tmpl_expect(struct tmpl_parser *p, enum tmpl_tok_kind kind, const char *what)
{
    if (tmpl_skip(p, kind)) return HG_OK;
    const struct tmpl_token *t = tmpl_cur(p);
    const char *got = t->kind == TK_EOF         ? "the end of the template"
                      : t->kind == TK_VAR_END   ? "}}"
                      : t->kind == TK_BLOCK_END ? "%}"
                      : t->kind == TK_DATA      ? "text"
                                                : NULL;
    if (got) return tmpl_syntax(p, t->line, "expected %s, got %s", what, got);
    return tmpl_syntax(p, t->line, "expected %s, got '%.*s'", what, (int)(t->n > 60 ? 60 : t->n),
                       t->s);
}

struct tmpl_node *tmpl_node(struct tmpl_parser *p, enum tmpl_node_kind kind, int line)
{
    struct tmpl_node *n = hg_arena_alloc(&p->t->mem, sizeof *n);
    if (!n) {
        hg_fail(p->err, HG_ENOMEM, "%s: out of memory", p->t->name);
        return NULL;
    }
    n->kind = (uint8_t)kind;
    n->line = line;
    return n;
}

/* Arrays double when their length is a power of two; what they outgrow stays in the arena. */
enum hg_status tmpl_add_node(struct tmpl_parser *p, struct tmpl_node ***v, size_t *n,
                             struct tmpl_node *node)
{
    if ((*n & (*n - 1)) == 0) {
        struct tmpl_node **grown =
            hg_arena_array(&p->t->mem, *n ? 2 * *n : 1, sizeof(struct tmpl_node *));
        if (!grown) return hg_fail(p->err, HG_ENOMEM, "%s: out of memory", p->t->name);
        if (*n) memcpy(grown, *v, *n * sizeof **v);
        *v = grown;
    }
    (*v)[(*n)++] = node;
    return HG_OK;
}

static bool symbols_grow(struct tmpl_symbols *y)
{
    size_t cap = y->cap ? 2 * y->cap : 64, n_slots = 4 * cap;
    struct tmpl_val *names = realloc(y->names, cap * sizeof *names);
    if (!names) return false;
    y->names = names;
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < y->n; i++) {
        size_t h = XXH3_64bits(names[i].s, names[i].n) % n_slots;
        while (slots[h]) h = (h + 1) % n_slots;
        slots[h] = (uint32_t)i + 1;
    }
    free(y->slots);
    y->slots = slots;
    y->n_slots = n_slots;
    y->cap = cap;
    return true;
}

int tmpl_symbol(struct hg_template *t, const char *s, size_t n)
{
    struct tmpl_symbols *y = &t->syms;
    if (y->n == y->cap && !symbols_grow(y)) return -1;
    size_t h = XXH3_64bits(s, n) % y->n_slots;
    for (; y->slots[h]; h = (h + 1) % y->n_slots) {
        const struct tmpl_val *name = &y->names[y->slots[h] - 1];
        if (name->n == n && memcmp(name->s, s, n) == 0) return (int)y->slots[h] - 1;
    }
    y->names[y->n] = tmpl_strn(s, n);
    y->slots[h] = (uint32_t)++y->n;
    return (int)y->n - 1;
}

/* ------------------------------------------------------------------------------ statements -- */

/* A name, ns.attr, or a tuple of targets: what `for` and `set` may bind. The tuple ends at
 * anything that is no comma. */
static enum hg_status parse_target(struct tmpl_parser *p, bool nsref, struct tmpl_node **out)
{
    struct tmpl_node *tuple = NULL;
    for (;;) {
        struct tmpl_node *item;
        struct tmpl_token t = *tmpl_cur(p);
        if (++p->depth > TMPL_PARSE_DEPTH)
            return tmpl_syntax(p, t.line, "nested deeper than %d", TMPL_PARSE_DEPTH);
        if (tmpl_skip(p, TK_LPAREN)) {
            HG_TRY(parse_target(p, nsref, &item));
            HG_TRY(tmpl_expect(p, TK_RPAREN, "')'"));
        } else if (t.kind == TK_NAME) {
            HG_TRY(tmpl_parse_primary(p, &item));
            if (item->kind != T_NAME)
                return tmpl_syntax(p, t.line, "cannot assign to %.*s", (int)t.n, t.s);
            if (nsref && tmpl_skip(p, TK_DOT)) {
                const struct tmpl_token *attr = tmpl_cur(p);
                item->kind = T_NSREF;
                item->val = tmpl_strn(attr->s, attr->n);
                HG_TRY(tmpl_expect(p, TK_NAME, "a name behind '.'"));
            }
        } else {
            return tmpl_expect(p, TK_NAME, "a name to assign to");
        }
        p->depth--;
        bool comma = tmpl_skip(p, TK_COMMA);
        if (!tuple && !comma) {
            *out = item;
            return HG_OK;
        }
        if (!tuple) {
            tuple = *out = tmpl_node(p, T_TUPLE, t.line);
            if (!tuple) return HG_ENOMEM;
        }
        HG_TRY(tmpl_add_node(p, &tuple->kids, &tuple->n_kids, item));
        if (!comma || tmpl_at_name(p, "in") || tmpl_cur(p)->kind == TK_RPAREN) return HG_OK;
    }
}

/* The end tag was matched: nothing may follow its name. */
static enum hg_status end_tag(struct tmpl_parser *p)
{
    p->at++;
    return tmpl_expect(p, TK_BLOCK_END, "%}");
}

static enum hg_status parse_if(struct tmpl_parser *p, struct tmpl_node *n)
{
    for (bool otherwise = false; !otherwise;) {
        NODE(branch, T_BRANCH, tmpl_cur(p)->line);
        otherwise = tmpl_at_name(p, "else");
        p->at++;
        if (!otherwise) HG_TRY(tmpl_parse_tuple(p, false, &branch->a));
        HG_TRY(tmpl_add_node(p, &n->kids, &n->n_kids, branch));
        HG_TRY(parse_body(p, branch, otherwise ? "endif" : "elif else endif"));
        if (tmpl_at_name(p, "endif")) break;
    }
    return end_tag(p);
}

static enum hg_status parse_for(struct tmpl_parser *p, struct tmpl_node *n)
{
    p->at++;
    HG_TRY(parse_target(p, false, &n->a));
    if (!tmpl_skip_name(p, "in")) return tmpl_expect(p, TK_EOF, "'in'");
    HG_TRY(tmpl_parse_tuple(p, false, &n->b));
    if (tmpl_skip_name(p, "if")) HG_TRY(tmpl_parse_expr(p, &n->c));
    if (tmpl_at_name(p, "recursive"))
        return tmpl_syntax(p, n->line, "recursive loops are not supported");
    p->loop_depth++;
    HG_TRY(parse_body(p, n, "else endfor"));
    p->loop_depth--;
    if (tmpl_at_name(p, "else")) {
        NODE(other, T_SCOPE, tmpl_cur(p)->line);
        n->other = other;
        p->at++;
        HG_TRY(parse_body(p, other, "endfor"));
    }
    return end_tag(p);
}

static enum hg_status parse_set(struct tmpl_parser *p, struct tmpl_node *n)
{
    p->at++;
    HG_TRY(parse_target(p, true, &n->a));
    if (tmpl_skip(p, TK_ASSIGN)) {
        HG_TRY(tmpl_parse_tuple(p, true, &n->b));
        return tmpl_expect(p, TK_BLOCK_END, "%}");
    }
    n->kind = T_SET_BLOCK;
    n->b = tmpl_node(p, T_INPUT, n->line);
    if (!n->b) return HG_ENOMEM;
    HG_TRY(tmpl_parse_filters(p, false, &n->b));
    HG_TRY(parse_body(p, n, "endset"));
    return end_tag(p);
}

static enum hg_status parse_signature(struct tmpl_parser *p, struct tmpl_node *n)
{
    bool defaults = false;
    HG_TRY(tmpl_expect(p, TK_LPAREN, "'('"));
    while (tmpl_cur(p)->kind != TK_RPAREN) {
        if (n->n_params) HG_TRY(tmpl_expect(p, TK_COMMA, "','"));
        const struct tmpl_token *t = tmpl_cur(p);
        NODE(param, T_PARAM, t->line);
        param->val = tmpl_strn(t->s, t->n);
        HG_TRY(tmpl_expect(p, TK_NAME, "the name of a parameter"));
        param->sym = tmpl_symbol(p->t, t->s, t->n);
        if (param->sym < 0) return hg_fail(p->err, HG_ENOMEM, "%s: out of memory", p->t->name);
        if (tmpl_skip(p, TK_ASSIGN)) {
            defaults = true;
            HG_TRY(tmpl_parse_expr(p, &param->a));
        } else if (defaults) {
            return tmpl_syntax(p, t->line, "%.*s: parameter without a default behind one with",
                               (int)(t->n > 60 ? 60 : t->n), t->s);
        }
        HG_TRY(tmpl_add_node(p, &n->params, &n->n_params, param));
    }
    return tmpl_expect(p, TK_RPAREN, "')'");
}

/* The body of a macro: `break` does not reach out of it. */
static enum hg_status macro_body(struct tmpl_parser *p, struct tmpl_node *n, const char *end)
{
    int loop_depth = p->loop_depth;
    p->loop_depth = 0;
    n->other = p->macro;
    p->macro = n;
    HG_TRY(parse_body(p, n, end));
    p->macro = n->other;
    p->loop_depth = loop_depth;
    return end_tag(p);
}

static enum hg_status parse_macro(struct tmpl_parser *p, struct tmpl_node *n)
{
    p->at++;
    const struct tmpl_token *t = tmpl_cur(p);
    HG_TRY(tmpl_expect(p, TK_NAME, "the name of a macro"));
    n->val = tmpl_strn(t->s, t->n);
    n->sym = tmpl_symbol(p->t, t->s, t->n);
    if (n->sym < 0) return hg_fail(p->err, HG_ENOMEM, "%s: out of memory", p->t->name);
    HG_TRY(parse_signature(p, n));
    return macro_body(p, n, "endmacro");
}

static enum hg_status parse_call_block(struct tmpl_parser *p, struct tmpl_node *n)
{
    p->at++;
    NODE(caller, T_MACRO, n->line);
    n->other = caller;
    caller->val = TMPL_STR("caller");
    if (tmpl_cur(p)->kind == TK_LPAREN) HG_TRY(parse_signature(p, caller));
    HG_TRY(tmpl_parse_expr(p, &n->a));
    if (n->a->kind != T_CALL) return tmpl_syntax(p, n->line, "call: expected a call of a macro");
    return macro_body(p, caller, "endcall");
}

static enum hg_status parse_filter_block(struct tmpl_parser *p, struct tmpl_node *n)
{
    p->at++;
    n->b = tmpl_node(p, T_INPUT, n->line);
    if (!n->b) return HG_ENOMEM;
    HG_TRY(tmpl_parse_filters(p, true, &n->b));
    HG_TRY(parse_body(p, n, "endfilter"));
    return end_tag(p);
}

static enum hg_status parse_with(struct tmpl_parser *p, struct tmpl_node *n)
{
    p->at++;
    while (tmpl_cur(p)->kind != TK_BLOCK_END) {
        if (n->n_params) HG_TRY(tmpl_expect(p, TK_COMMA, "','"));
        NODE(set, T_SET, tmpl_cur(p)->line);
        HG_TRY(parse_target(p, false, &set->a));
        HG_TRY(tmpl_expect(p, TK_ASSIGN, "'='"));
        HG_TRY(tmpl_parse_expr(p, &set->b));
        HG_TRY(tmpl_add_node(p, &n->params, &n->n_params, set));
    }
    HG_TRY(parse_body(p, n, "endwith"));
    return end_tag(p);
}

static enum hg_status parse_scope(struct tmpl_parser *p, struct tmpl_node *n)
{
    p->at++;
    HG_TRY(parse_body(p, n, "endgeneration"));
    return end_tag(p);
}

static enum hg_status parse_jump(struct tmpl_parser *p, struct tmpl_node *n)
{
    if (p->loop_depth == 0)
        return tmpl_syntax(p, n->line, "%s outside a loop",
                           n->kind == T_BREAK ? "break" : "continue");
    return end_tag(p);
}

static enum hg_status parse_statement(struct tmpl_parser *p, struct tmpl_node **out)
{
    static const struct {
        const char *tag;
        enum tmpl_node_kind kind;
        enum hg_status (*parse)(struct tmpl_parser *, struct tmpl_node *);
    } tags[] = {{"if", T_IF, parse_if},
                {"for", T_FOR, parse_for},
                {"set", T_SET, parse_set},
                {"macro", T_MACRO, parse_macro},
                {"call", T_CALL_BLOCK, parse_call_block},
                {"filter", T_FILTER_BLOCK, parse_filter_block},
                {"with", T_WITH, parse_with},
                /* transformers marks the assistant's text with it; what is inside is plain */
                {"generation", T_SCOPE, parse_scope},
                {"break", T_BREAK, parse_jump},
                {"continue", T_CONTINUE, parse_jump}};
    static const char *const refused[] = {"include", "import", "from",       "extends",
                                          "block",   "print",  "autoescape", "trans"};
    const struct tmpl_token *t = tmpl_cur(p);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!tmpl_at_name(p, tags[i].tag)) continue;
        *out = tmpl_node(p, tags[i].kind, t->line);
        return *out ? tags[i].parse(p, *out) : HG_ENOMEM;
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (tmpl_at_name(p, refused[i]))
            return tmpl_syntax(p, t->line, "{%% %s %%} is not supported", refused[i]);
    if (t->kind != TK_NAME) return tmpl_expect(p, TK_NAME, "the name of a tag");
    return tmpl_syntax(p, t->line, "unknown tag '%.*s'", (int)(t->n > 60 ? 60 : t->n), t->s);
}

/* Whether the current name is one of the words in `ends`. */
static bool at_end(const struct tmpl_parser *p, const char *ends)
{
    const struct tmpl_token *t = tmpl_cur(p);
    for (const char *w = ends; t->kind == TK_NAME && *w;) {
        size_t n = strcspn(w, " ");
        if (n == t->n && memcmp(w, t->s, n) == 0) return true;
        w += n + (w[n] == ' ');
    }
    return false;
}

static enum hg_status parse_until(struct tmpl_parser *p, struct tmpl_node *n, const char *ends)
{
    for (;;) {
        struct tmpl_token t = *tmpl_cur(p);
        struct tmpl_node *kid = NULL;
        if (t.kind == TK_EOF) {
            if (!*ends) return HG_OK;
            const char *last = strrchr(ends, ' ');
            return tmpl_syntax(p, n->line, "this block has no {%% %s %%}", last ? last + 1 : ends);
        }
        p->at++;
        if (t.kind == TK_BLOCK_BEGIN && at_end(p, ends)) return HG_OK;
        if (t.kind == TK_BLOCK_BEGIN) {
            HG_TRY(parse_statement(p, &kid));
        } else if (t.kind == TK_VAR_BEGIN) {
            kid = tmpl_node(p, T_PRINT, t.line);
            if (!kid) return HG_ENOMEM;
            HG_TRY(tmpl_parse_tuple(p, true, &kid->a));
            HG_TRY(tmpl_expect(p, TK_VAR_END, "}}"));
        } else {
            kid = tmpl_node(p, T_DATA, t.line);
            if (!kid) return HG_ENOMEM;
            kid->val = tmpl_strn(t.s, t.n);
        }
        HG_TRY(tmpl_add_node(p, &n->kids, &n->n_kids, kid));
    }
}

/* The opening tag's rest was parsed: its `%}`, then statements up to a tag named in `ends`
 * ("elif else endif"), which becomes the current token. */
static enum hg_status parse_body(struct tmpl_parser *p, struct tmpl_node *n, const char *ends)
{
    tmpl_skip(p, TK_COLON);
    HG_TRY(tmpl_expect(p, TK_BLOCK_END, "%}"));
    if (++p->depth > TMPL_PARSE_DEPTH)
        return tmpl_syntax(p, n->line, "nested deeper than %d", TMPL_PARSE_DEPTH);
    HG_TRY(parse_until(p, n, ends));
    p->depth--;
    return HG_OK;
}

static enum hg_status parse_all(struct tmpl_parser *p, const char *src, size_t n)
{
    static const char *const funcs[TF_COUNT] = {[TF_RANGE] = "range",
                                                [TF_DICT] = "dict",
                                                [TF_NAMESPACE] = "namespace",
                                                [TF_RAISE] = "raise_exception",
                                                [TF_STRFTIME] = "strftime_now"};
    struct hg_template *t = p->t;
    t->sym_messages = tmpl_symbol(t, "messages", 8);
    t->sym_loop = tmpl_symbol(t, "loop", 4);
    t->sym_caller = tmpl_symbol(t, "caller", 6);
    t->sym_kwargs = tmpl_symbol(t, "kwargs", 6);
    t->sym_varargs = tmpl_symbol(t, "varargs", 7);
    for (int i = 0; i < TF_COUNT; i++) {
        t->sym_func[i] = tmpl_symbol(t, funcs[i], strlen(funcs[i]));
        if (t->sym_func[i] < 0) return hg_fail(p->err, HG_ENOMEM, "%s: out of memory", t->name);
    }
    HG_TRY(tmpl_lex(p, src, n));
    t->root = tmpl_node(p, T_SCOPE, 1);
    return t->root ? parse_until(p, t->root, "") : HG_ENOMEM;
}

enum hg_status hg_template_parse(const char *name, const char *src, size_t n,
                                 struct hg_template **out, struct hg_err *err)
{
    *out = NULL;
    if (n > TMPL_MAX_SOURCE)
        return hg_fail(err, HG_EFORMAT, "%s: template of %zu bytes, the limit is %d", name, n,
                       TMPL_MAX_SOURCE);
    struct hg_template *t = calloc(1, sizeof *t);
    if (!t) return hg_fail(err, HG_ENOMEM, "%s: out of memory", name);
    hg_arena_init(&t->mem);
    t->name = strdup(name);
    struct tmpl_parser p = {.t = t, .err = err};
    enum hg_status s =
        t->name ? parse_all(&p, src, n) : hg_fail(err, HG_ENOMEM, "%s: out of memory", name);
    free(p.tok);
    if (s == HG_OK)
        *out = t;
    else
        hg_template_free(t);
    return s;
}

void hg_template_free(struct hg_template *t)
{
    if (!t) return;
    hg_arena_fini(&t->mem);
    free(t->syms.names);
    free(t->syms.slots);
    free(t->name);
    free(t);
}
