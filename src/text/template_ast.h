/* template_ast.h: the values of a template and its syntax tree.
 * The tree lives in the template's arena and is read-only once parsed. */
#ifndef HG_TEXT_TEMPLATE_AST_H
#define HG_TEXT_TEMPLATE_AST_H

#include "base/arena.h"
#include "base/err.h"

struct hg_template;

/* -------------------------------------------------------------------------------- values -- */

enum tmpl_kind {
    TV_MISSING, /* no value at all: an argument not given, a name not bound */
    TV_UNDEF,   /* s: the name; sub: how it came about (enum tmpl_undef or the owner's kind) */
    TV_NONE,
    TV_BOOL,
    TV_INT,
    TV_FLOAT,
    TV_STR, /* s, n; sub 1: Markup (came through |safe or |escape) */
    TV_LIST,
    TV_TUPLE,
    TV_DICT,
    TV_VIEW, /* list; sub: enum tmpl_view */
    TV_RANGE,
    TV_ITER, /* list from list->pos on: what Python's generators and iterators give, once */
    TV_NS,   /* dict */
    TV_MACRO,
    TV_FUNC,   /* i: enum tmpl_func */
    TV_METHOD, /* bound */
    TV_LOOP
};

/* sub of TV_UNDEF; smaller values are the kind of the object that lacks the attribute. */
enum tmpl_undef { TU_NAME = 100, TU_HINT, TU_ELEMENT };
enum tmpl_view { TW_KEYS, TW_VALUES, TW_ITEMS };
enum tmpl_func { TF_RANGE, TF_DICT, TF_NAMESPACE, TF_RAISE, TF_STRFTIME, TF_COUNT };

struct tmpl_val {
    uint8_t kind, sub;
    size_t n; /* bytes of s */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s;
        struct tmpl_list *list; /* LIST, TUPLE, VIEW, ITER */
        struct tmpl_dict *dict; /* DICT, NS */
        const struct tmpl_range *range;
        const struct tmpl_macro *macro;
        const struct tmpl_bound *bound;
        struct tmpl_loop *loop;
    };
};

struct tmpl_list {
    struct tmpl_val *v;
    size_t n, cap, pos;
};

struct tmpl_dict { /* in order of insertion */
    struct tmpl_val *k, *v;
    size_t n, cap;
};

struct tmpl_range {
    int64_t start, stop, step;
    size_t n;
};

struct tmpl_macro {
    const struct tmpl_node *def; /* T_MACRO */
    struct tmpl_scope *scope;    /* where it was defined */
};

/* ---------------------------------------------------------------------------- syntax tree -- */

/* Tokens; those of operators are also the op of T_BINARY and T_OPERAND. */
/* clang-format off */
enum tmpl_tok_kind {
    TK_EOF, TK_DATA, TK_VAR_BEGIN, TK_VAR_END, TK_BLOCK_BEGIN, TK_BLOCK_END, TK_NAME, TK_STRING,
    TK_INT, TK_FLOAT, TK_ADD, TK_SUB, TK_MUL, TK_DIV, TK_FLOORDIV, TK_MOD, TK_POW, TK_TILDE,
    TK_EQ, TK_NE, TK_LT, TK_LE, TK_GT, TK_GE, TK_IN, TK_NOT_IN, /* the last two: parser only */
    TK_ASSIGN, TK_DOT, TK_COMMA, TK_COLON, TK_PIPE, TK_SEMICOLON, TK_LPAREN, TK_RPAREN,
    TK_LBRACKET, TK_RBRACKET, TK_LBRACE, TK_RBRACE
};
/* clang-format on */

enum tmpl_node_kind {
    /* expressions */
    T_CONST,  /* val */
    T_NAME,   /* sym */
    T_LIST,   /* kids */
    T_TUPLE,  /* kids */
    T_DICT,   /* kids: key, value, key, value ... */
    T_ATTR,   /* a.val */
    T_ITEM,   /* a[b] */
    T_SLICE,  /* a[kids[0] : kids[1] : kids[2]], each may be NULL */
    T_CALL,   /* a(kids) */
    T_FILTER, /* a | val(kids) */
    T_TEST,   /* a is val(kids) */
    T_KWARG,  /* among kids of calls: val = a */
    T_STAR,   /* among kids of calls: *a */
    T_DSTAR,  /* among kids of calls: **a */
    T_NOT,
    T_NEG,
    T_POS,
    T_AND,
    T_OR,
    T_BINARY,  /* a op b; op: a token kind */
    T_CONCAT,  /* kids joined by ~ */
    T_COMPARE, /* a, then kids: T_OPERAND */
    T_OPERAND, /* op a */
    T_COND,    /* b if a else c; c may be NULL */
    T_INPUT,   /* the captured text that a filter block or a block set filters */
    T_NSREF,   /* sym.val as the target of an assignment */
    /* statements */
    T_DATA,         /* val */
    T_PRINT,        /* a */
    T_IF,           /* kids: T_BRANCH */
    T_BRANCH,       /* a (NULL: else), kids */
    T_FOR,          /* for a in b if c: kids; other: T_SCOPE for else, or NULL */
    T_SET,          /* a = b */
    T_SET_BLOCK,    /* a = b (filters over T_INPUT) of what kids print */
    T_MACRO,        /* sym(params) : kids; op: enum tmpl_catch bits */
    T_PARAM,        /* among params: sym = a (NULL: no default) */
    T_CALL_BLOCK,   /* a: T_CALL, other: T_MACRO of the body */
    T_FILTER_BLOCK, /* b over what kids print */
    T_WITH,         /* params: T_SET; kids */
    T_SCOPE,        /* kids in a scope of their own */
    T_BREAK,
    T_CONTINUE
};

enum tmpl_catch { TC_CALLER = 1, TC_KWARGS = 2, TC_VARARGS = 4 };

struct tmpl_node {
    uint8_t kind, op;
    int line, sym;
    struct tmpl_val val;
    struct tmpl_node *a, *b, *c, *other;
    struct tmpl_node **kids, **params;
    size_t n_kids, n_params;
};

/* Names are numbered in order of appearance, so that scopes compare integers. */
struct tmpl_symbols {
    struct tmpl_val *names; /* TV_STR */
    size_t n, cap;
    uint32_t *slots; /* open addressing over names: index + 1 */
    size_t n_slots;
};

struct hg_template {
    struct hg_arena mem;
    char *name;
    struct tmpl_node *root; /* T_SCOPE */
    struct tmpl_symbols syms;
    int sym_messages, sym_loop, sym_caller, sym_kwargs, sym_varargs;
    int sym_func[TF_COUNT];
};

#endif
