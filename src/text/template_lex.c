/* template_lex.c: source text to tokens, with jinja2's trim_blocks and lstrip_blocks.
 *
 * Text before a tag: `{%-` drops all white space before the tag; else `{%` and `{#` (not `{{`)
 * drop blanks back to the start of the line, `{%+` keeps them. Text after a tag: `-%}` drops all
 * white space; else `%}` and `#}` drop one newline, `+%}` keeps it. */
#include "text/template_parse.h"
#include "text/template_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct lexer {
    struct tmpl_parser *p;
    const char *s; /* newlines normalised, one at the very end dropped */
    size_t n, at;
    int line;
    char open[TMPL_PARSE_DEPTH]; /* brackets not yet closed */
    int n_open;
};

static enum hg_status push(struct lexer *x, enum tmpl_tok_kind kind, const char *s, size_t n)
{
    struct tmpl_parser *p = x->p;
    if (p->n_tok == p->cap_tok) {
        size_t cap = p->cap_tok ? 2 * p->cap_tok : 256;
        struct tmpl_token *tok = realloc(p->tok, cap * sizeof *tok);
        if (!tok) return hg_fail(p->err, HG_ENOMEM, "%s: out of memory", p->t->name);
        p->tok = tok;
        p->cap_tok = cap;
    }
    p->tok[p->n_tok++] = (struct tmpl_token){.kind = kind, .line = x->line, .s = s, .n = n};
    return HG_OK;
}

static void skip_to(struct lexer *x, size_t to)
{
    for (; x->at < to; x->at++) x->line += x->s[x->at] == '\n';
}

static void skip_space(struct lexer *x)
{
    while (x->at < x->n) {
        int32_t cp;
        size_t k = tmpl_cp(x->s + x->at, x->n - x->at, &cp);
        if (!tmpl_space(cp)) return;
        skip_to(x, x->at + k);
    }
}

static bool starts(const struct lexer *x, size_t at, const char *lit)
{
    size_t k = strlen(lit);
    return x->n - at >= k && memcmp(x->s + at, lit, k) == 0;
}

/* The end of a tag at x->at, if it is one: skips it and what its sign says. */
static bool tag_end(struct lexer *x, const char *end, bool trim)
{
    char sign = x->s[x->at];
    bool dash = sign == '-', plus = sign == '+' && trim;
    size_t at = x->at + (dash || plus);
    if (!starts(x, at, end)) return false;
    skip_to(x, at + 2);
    if (dash)
        skip_space(x);
    else if (!plus && trim && x->at < x->n && x->s[x->at] == '\n')
        skip_to(x, x->at + 1);
    return true;
}

/* Text from x->at to the tag at `to`, less what the tag's sign drops; then moves to the tag. */
static enum hg_status data(struct lexer *x, size_t to, char sign, bool variable)
{
    struct tmpl_val text = tmpl_strn(x->s + x->at, to - x->at);
    if (sign == '-') {
        text = tmpl_strip(&text, NULL, false, true);
    } else if (sign != '+' && !variable) {
        struct tmpl_val line = text;
        const char *nl = memrchr(text.s, '\n', text.n);
        size_t from = nl ? (size_t)(nl - text.s) + 1 : 0;
        line.s += from;
        line.n -= from;
        bool line_start = nl || x->at == 0 || x->s[x->at - 1] == '\n';
        if (line_start && tmpl_strip(&line, NULL, true, true).n == 0) text.n = from;
    }
    if (text.n) HG_TRY(push(x, TK_DATA, text.s, text.n));
    skip_to(x, to);
    return HG_OK;
}

static size_t put_utf8(char *to, int32_t cp)
{
    return (size_t)utf8proc_encode_char(cp, (utf8proc_uint8_t *)to);
}

/* Escape of the given number of hex digits at s[0..n): the code point, or -1. */
static int32_t hex(const char *s, size_t n, size_t digits)
{
    int64_t cp = 0;
    if (n < digits) return -1;
    for (size_t i = 0; i < digits; i++) {
        const char *set = "0123456789abcdef", *d = strchr(set, s[i] | 0x20);
        if (!d || s[i] == 0 || (s[i] | 0x20) == 0x20) return -1;
        cp = cp * 16 + (d - set);
    }
    return cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000) ? -1 : (int32_t)cp;
}

/* Python's string escapes. `to` has room for n bytes: no escape grows. Returns the length, or
 * SIZE_MAX for an escape that stands for nothing. */
static size_t unescape(char *to, const char *s, size_t n)
{
    static const char names[] = "abfnrtv\\'\"", codes[] = "\a\b\f\n\r\t\v\\'\"";
    char *start = to;
    for (size_t i = 0; i < n;) {
        if (s[i] != '\\' || i + 1 == n) {
            *to++ = s[i++];
            continue;
        }
        char c = s[i + 1];
        const char *known = c ? strchr(names, c) : NULL;
        size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        i += 2;
        if (known) {
            *to++ = codes[known - names];
        } else if (c == '\n') {
            continue;
        } else if (digits) {
            int32_t cp = hex(s + i, n - i, digits);
            if (cp < 0) return SIZE_MAX;
            to += put_utf8(to, cp);
            i += digits;
        } else if (c >= '0' && c <= '7') {
            int32_t cp = c - '0';
            for (int k = 1; k < 3 && i < n && s[i] >= '0' && s[i] <= '7'; k++)
                cp = cp * 8 + (s[i++] - '0');
            to += put_utf8(to, cp);
        } else if (c == 'N') {
            return SIZE_MAX;
        } else {
            *to++ = '\\';
            *to++ = c;
        }
    }
    return (size_t)(to - start);
}

static enum hg_status string(struct lexer *x)
{
    char quote = x->s[x->at];
    size_t from = x->at + 1, end = from;
    while (end < x->n && x->s[end] != quote) end += x->s[end] == '\\' ? 2 : 1;
    if (end >= x->n) return tmpl_syntax(x->p, x->line, "string without an end");
    char *to = hg_arena_alloc(&x->p->t->mem, end - from + 1);
    if (!to) return hg_fail(x->p->err, HG_ENOMEM, "%s: out of memory", x->p->t->name);
    size_t n = unescape(to, x->s + from, end - from);
    if (n == SIZE_MAX) return tmpl_syntax(x->p, x->line, "bad escape in a string");
    HG_TRY(push(x, TK_STRING, to, n));
    skip_to(x, end + 1);
    return HG_OK;
}

static size_t digits(const struct lexer *x, size_t at)
{
    size_t from = at;
    while (at < x->n && ((x->s[at] >= '0' && x->s[at] <= '9') ||
                         (x->s[at] == '_' && at > from && x->s[at - 1] != '_')))
        at++;
    return at > from && x->s[at - 1] == '_' ? at - 1 : at;
}

/* Integers in the four notations, floats with a digit on each side of the point. */
static enum hg_status number(struct lexer *x)
{
    size_t at = x->at, end = digits(x, at);
    bool is_float = false, after_dot = at > 0 && x->s[at - 1] == '.';
    int base = 10;
    char c = at + 1 < x->n && x->s[at] == '0' ? (char)(x->s[at + 1] | 0x20) : 0;
    if (c == 'x' || c == 'o' || c == 'b') {
        base = c == 'x' ? 16 : c == 'o' ? 8 : 2;
        for (end = at + 2; end < x->n && (hex(x->s + end, 1, 1) >= 0 || x->s[end] == '_');) end++;
    } else if (!after_dot) {
        if (end + 1 < x->n && x->s[end] == '.' && digits(x, end + 1) > end + 1) {
            is_float = true;
            end = digits(x, end + 1);
        }
        if (end < x->n && (x->s[end] | 0x20) == 'e') {
            size_t e = end + 1 + (end + 1 < x->n && strchr("+-", x->s[end + 1]) != NULL);
            if (digits(x, e) > e) {
                is_float = true;
                end = digits(x, e);
            }
        }
    }
    char text[400];
    size_t n = 0;
    for (size_t i = at + (base == 10 ? 0 : 2); i < end && n < sizeof text - 1; i++)
        if (x->s[i] != '_') text[n++] = x->s[i];
    text[n] = 0;
    char *rest = text;
    HG_TRY(push(x, is_float ? TK_FLOAT : TK_INT, x->s + at, end - at));
    struct tmpl_token *tok = &x->p->tok[x->p->n_tok - 1];
    errno = 0;
    if (is_float)
        tok->f = strtod(text, &rest);
    else
        tok->i = strtoll(text, &rest, base);
    if (rest != text + n || n == 0 || (!is_float && errno) ||
        (!is_float && base == 10 && n > 1 && text[0] == '0' && strspn(text, "0") != n))
        return tmpl_syntax(x->p, x->line, "%.*s is no number that fits 64 bits",
                           (int)(end - at > 60 ? 60 : end - at), x->s + at);
    skip_to(x, end);
    return HG_OK;
}

static bool is_name_char(int32_t cp, bool first)
{
    if (cp < 0x80)
        return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') || cp == '_' ||
               (!first && cp >= '0' && cp <= '9');
    utf8proc_category_t c = utf8proc_category(cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) || c == UTF8PROC_CATEGORY_NL ||
           (!first && (c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC ||
                       c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_PC));
}

static size_t name_len(const struct lexer *x)
{
    size_t at = x->at;
    while (at < x->n) {
        int32_t cp;
        size_t k = tmpl_cp(x->s + at, x->n - at, &cp);
        if (!is_name_char(cp, at == x->at)) break;
        at += k;
    }
    return at - x->at;
}

static enum hg_status bracket(struct lexer *x, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    const char *o = strchr(opening, c), *e = strchr(closing, c);
    if (o) {
        if (x->n_open == TMPL_PARSE_DEPTH)
            return tmpl_syntax(x->p, x->line, "more than %d brackets within brackets",
                               TMPL_PARSE_DEPTH);
        x->open[x->n_open++] = closing[o - opening];
    } else if (e && (x->n_open == 0 || x->open[--x->n_open] != c)) {
        return tmpl_syntax(x->p, x->line, "unexpected '%c'", c);
    }
    return HG_OK;
}

static enum hg_status operator(struct lexer *x) {
    static const struct {char text[3]; enum tmpl_tok_kind kind;}
ops[] = {{"//", TK_FLOORDIV}, {"**", TK_POW},     {"==", TK_EQ},    {"!=", TK_NE},
         {">=", TK_GE},       {"<=", TK_LE},      {"+", TK_ADD},    {"-", TK_SUB},
         {"/", TK_DIV},       {"*", TK_MUL},      {"%", TK_MOD},    {"~", TK_TILDE},
         {"[", TK_LBRACKET},  {"]", TK_RBRACKET}, {"(", TK_LPAREN}, {")", TK_RPAREN},
         {"{", TK_LBRACE},    {"}", TK_RBRACE},   {">", TK_GT},     {"<", TK_LT},
         {"=", TK_ASSIGN},    {".", TK_DOT},      {":", TK_COLON},  {"|", TK_PIPE},
         {",", TK_COMMA},     {";", TK_SEMICOLON}};
for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    if (!starts(x, x->at, ops[i].text)) continue;
    HG_TRY(bracket(x, ops[i].text[0]));
    HG_TRY(push(x, ops[i].kind, x->s + x->at, strlen(ops[i].text)));
    skip_to(x, x->at + strlen(ops[i].text));
    return HG_OK;
}
int32_t cp;
tmpl_cp(x->s + x->at, x->n - x->at, &cp);
return tmpl_syntax(x->p, x->line, "unexpected character U+%04X", (unsigned)cp);
}

/* The tokens between `{{` and `}}` or `{%` and `%}`; x->at is behind the opening. */
static enum hg_status tag(struct lexer *x, bool variable)
{
    int line = x->line;
    HG_TRY(push(x, variable ? TK_VAR_BEGIN : TK_BLOCK_BEGIN, "", 0));
    x->n_open = 0;
    while (x->at < x->n) {
        int end_line = x->line;
        if (x->n_open == 0 && tag_end(x, variable ? "}}" : "%}", !variable)) {
            HG_TRY(push(x, variable ? TK_VAR_END : TK_BLOCK_END, "", 0));
            x->p->tok[x->p->n_tok - 1].line = end_line;
            return HG_OK;
        }
        size_t before = x->at;
        skip_space(x);
        if (x->at != before) continue;
        char c = x->s[x->at];
        size_t k;
        if (c >= '0' && c <= '9') {
            HG_TRY(number(x));
        } else if ((k = name_len(x)) > 0) {
            HG_TRY(push(x, TK_NAME, x->s + x->at, k));
            skip_to(x, x->at + k);
        } else if (c == '"' || c == '\'') {
            HG_TRY(string(x));
        } else {
            HG_TRY(operator(x));
        }
    }
    return tmpl_syntax(x->p, line, "tag without an end");
}

static enum hg_status comment(struct lexer *x)
{
    const char *end = memmem(x->s + x->at, x->n - x->at, "#}", 2);
    if (!end) return tmpl_syntax(x->p, x->line, "comment without an end");
    size_t to = (size_t)(end - x->s);
    if (to > x->at && (x->s[to - 1] == '-' || x->s[to - 1] == '+')) to--;
    skip_to(x, to);
    tag_end(x, "#}", true);
    return HG_OK;
}

/* Whether a `{%` tag whose sign was skipped holds just `word`: moves behind it, `%}` or `-%}`
 * included. endraw trims like any block, raw does not drop a newline. */
static bool word_tag(struct lexer *x, const char *word, bool trim)
{
    struct lexer was = *x;
    skip_space(x);
    if (starts(x, x->at, word)) {
        skip_to(x, x->at + strlen(word));
        skip_space(x);
        if (x->at < x->n && tag_end(x, "%}", trim)) return true;
    }
    *x = was;
    return false;
}

static char sign_at(const struct lexer *x, size_t at)
{
    return at < x->n && (x->s[at] == '-' || x->s[at] == '+') ? x->s[at] : 0;
}

static enum hg_status raw(struct lexer *x)
{
    for (struct lexer y = *x; y.at < y.n;) {
        const char *tagp = memmem(y.s + y.at, y.n - y.at, "{%", 2);
        if (!tagp) break;
        size_t to = (size_t)(tagp - y.s);
        char sign = sign_at(&y, to + 2);
        skip_to(&y, to + 2 + (sign != 0));
        struct lexer behind = y;
        if (word_tag(&behind, "endraw", true)) {
            HG_TRY(data(x, to, sign, false));
            *x = behind;
            return HG_OK;
        }
    }
    return tmpl_syntax(x->p, x->line, "raw without endraw");
}

static enum hg_status run(struct lexer *x)
{
    while (x->at < x->n) {
        size_t to = x->at;
        for (; to < x->n; to++) {
            const char *b = memchr(x->s + to, '{', x->n - to);
            to = b ? (size_t)(b - x->s) : x->n;
            if (to + 1 < x->n && strchr("{%#", x->s[to + 1]) && x->s[to + 1]) break;
        }
        if (to >= x->n) {
            HG_TRY(push(x, TK_DATA, x->s + x->at, x->n - x->at));
            skip_to(x, x->n);
            break;
        }
        char what = x->s[to + 1], sign = sign_at(x, to + 2);
        HG_TRY(data(x, to, sign, what == '{'));
        skip_to(x, to + 2 + (sign != 0));
        if (what == '#')
            HG_TRY(comment(x));
        else if (what == '{')
            HG_TRY(tag(x, true));
        else if (word_tag(x, "raw", false))
            HG_TRY(raw(x));
        else
            HG_TRY(tag(x, false));
    }
    return push(x, TK_EOF, "", 0);
}

enum hg_status tmpl_lex(struct tmpl_parser *p, const char *src, size_t n)
{
    char *s = hg_arena_alloc(&p->t->mem, n + 1);
    if (!s) return hg_fail(p->err, HG_ENOMEM, "%s: out of memory", p->t->name);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (src[i] == '\r') {
            s[k++] = '\n';
            if (i + 1 < n && src[i + 1] == '\n') i++;
        } else {
            s[k++] = src[i];
        }
    }
    struct lexer x = {.p = p, .s = s, .n = k, .line = 1};
    for (size_t i = 0; i < k;) {
        utf8proc_int32_t cp;
        utf8proc_ssize_t len =
            utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(k - i), &cp);
        if (len <= 0) {
            skip_to(&x, i);
            return tmpl_syntax(p, x.line, "not valid UTF-8");
        }
        i += (size_t)len;
    }
    if (k && s[k - 1] == '\n') x.n--;
    return run(&x);
}
