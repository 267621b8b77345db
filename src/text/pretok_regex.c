/* Patterns in tokenizer.json are written for Oniguruma (Ruby syntax, UTF-8). PCRE2 reads most of
 * them alike; what it reads differently is translated or refused:
 *   \s \S     White_Space; PCRE2 would add U+180E         -> \p{White_Space} \P{White_Space}
 *   \uHHHH    unknown to PCRE2                            -> \x{HHHH}
 *   ^ $       match at every line; inline options reach farther; {n}+ and {n}? nest;
 *   [a[b]], [a&&b], \h, \w, \b, named groups, (*VERB)...  -> EUNSUP, with the place
 * The properties come from PCRE2's own Unicode version, so characters younger than that may be
 * split otherwise than by PyPI tokenizers; the hand-written scanners do not have this flaw. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretok_regex.h"

#include <ctype.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
    REGEX_MAX_PATTERN = 1 << 16,
    REGEX_MATCH_LIMIT = 10 * 1000 * 1000, /* backtracking steps of one match */
    REGEX_HEAP_KIB = 64 << 10,
    REGEX_JIT_STACK = 1 << 20
};

struct hg_regex {
    pcre2_code *code;
};

struct hg_regex_match {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; /* NULL: the small default one */
};

/* ------------------------------------------------------------------------- translation -- */

struct pattern {
    const char *s;
    size_t n, i;
    struct hg_buf out;
};

static bool follows(const struct pattern *p, const char *what)
{
    size_t len = strlen(what);
    return p->n - p->i >= len && !memcmp(p->s + p->i, what, len);
}

static void copy(struct pattern *p, size_t len)
{
    hg_buf_add(&p->out, p->s + p->i, len);
    p->i += len;
}

static enum hg_status refuse(const struct pattern *p, const char *what, struct hg_err *err)
{
    return hg_fail(err, HG_EUNSUP, "pattern: %s at byte %zu is not supported", what, p->i);
}

/* Copies \p{...} or \x{...}: two bytes and the braces. */
static enum hg_status copy_braced(struct pattern *p, struct hg_err *err)
{
    const char *close = memchr(p->s + p->i, '}', p->n - p->i);
    if (p->n - p->i < 4 || p->s[p->i + 2] != '{' || !close)
        return refuse(p, "an escape without {...}", err);
    copy(p, (size_t)(close - (p->s + p->i)) + 1);
    return HG_OK;
}

static enum hg_status translate_escape(struct pattern *p, struct hg_err *err)
{
    if (p->n - p->i < 2) return refuse(p, "a backslash at the end", err);
    unsigned char c = (unsigned char)p->s[p->i + 1];
    switch (c) {
    case 's':
    case 'S':
        hg_buf_str(&p->out, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
        p->i += 2;
        return HG_OK;
    case 'p':
    case 'P':
    case 'x': return copy_braced(p, err);
    case 'u':
        for (size_t k = 2; k < 6; k++)
            if (p->n - p->i <= k || !isxdigit((unsigned char)p->s[p->i + k]))
                return refuse(p, "\\u without four hexadecimal digits", err);
        hg_buf_printf(&p->out, "\\x{%.4s}", p->s + p->i + 2);
        p->i += 6;
        return HG_OK;
    case 'd':
    case 'D':
    case 'r':
    case 'n':
    case 't':
    case 'f': copy(p, 2); return HG_OK;
    default:
        if (isalnum(c) || c >= 0x80) return refuse(p, "an escape of this kind", err);
        copy(p, 2);
        return HG_OK;
    }
}

static enum hg_status translate_class(struct pattern *p, struct hg_err *err)
{
    copy(p, follows(p, "[^") ? 2 : 1);
    if (follows(p, "]")) return refuse(p, "] as the first member of a class", err);
    while (p->i < p->n && p->s[p->i] != ']') {
        if (p->s[p->i] == '[') return refuse(p, "a class within a class", err);
        if (follows(p, "&&")) return refuse(p, "&& in a class", err);
        if (p->s[p->i] == '\\')
            HG_TRY(translate_escape(p, err));
        else
            copy(p, 1);
    }
    if (p->i == p->n) return refuse(p, "a class without end", err);
    copy(p, 1);
    return HG_OK;
}

static enum hg_status translate_group(struct pattern *p, struct hg_err *err)
{
    static const char *const known[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        if (!follows(p, known[k])) continue;
        copy(p, strlen(known[k]));
        return HG_OK;
    }
    if (follows(p, "(?") || follows(p, "(*")) return refuse(p, "a group of this kind", err);
    copy(p, 1);
    return HG_OK;
}

static enum hg_status translate(struct pattern *p, struct hg_err *err)
{
    while (p->i < p->n) {
        switch (p->s[p->i]) {
        case '\\': HG_TRY(translate_escape(p, err)); break;
        case '[': HG_TRY(translate_class(p, err)); break;
        case '(': HG_TRY(translate_group(p, err)); break;
        case '^':
        case '$': return refuse(p, "a line anchor", err);
        default:
            if (follows(p, "}+") || follows(p, "}?") || follows(p, "{,"))
                return refuse(p, "a quantifier of this kind", err);
            copy(p, 1);
        }
    }
    return p->out.oom ? hg_fail(err, HG_ENOMEM, "pattern: out of memory") : HG_OK;
}

/* ---------------------------------------------------------------------------- compiling -- */

static enum hg_status compile(const char *pattern, size_t n, pcre2_code **out, struct hg_err *err)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return hg_fail(err, HG_ENOMEM, "pattern: out of memory");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF); /* "." is all but \n */
    /* Anchored here and not per match: only so is the JIT code used. */
    uint32_t options = PCRE2_ANCHORED | PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    int code;
    PCRE2_SIZE at;
    *out = pcre2_compile((PCRE2_SPTR)pattern, n, options, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!*out) {
        PCRE2_UCHAR text[256];
        pcre2_get_error_message(code, text, sizeof text);
        return hg_fail(err, HG_EFORMAT, "pattern: %s (byte %zu of its PCRE2 form)", (char *)text,
                       (size_t)at);
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* where it fails, the interpreter serves */
    return HG_OK;
}

enum hg_status hg_regex_create(const char *pattern, size_t n, struct hg_regex **out,
                               struct hg_err *err)
{
    if (n > REGEX_MAX_PATTERN)
        return hg_fail(err, HG_EFORMAT, "pattern: %zu bytes, the limit is %d", n,
                       REGEX_MAX_PATTERN);
    struct hg_regex *r = calloc(1, sizeof *r);
    if (!r) return hg_fail(err, HG_ENOMEM, "pattern: out of memory");
    struct pattern p = {.s = pattern, .n = n};
    enum hg_status s = translate(&p, err);
    if (s == HG_OK) s = compile(p.out.data ? p.out.data : "", p.out.len, &r->code, err);
    hg_buf_fini(&p.out);
    if (s != HG_OK) {
        hg_regex_free(r);
        return s;
    }
    *out = r;
    return HG_OK;
}

void hg_regex_free(struct hg_regex *r)
{
    if (!r) return;
    pcre2_code_free(r->code);
    free(r);
}

/* ----------------------------------------------------------------------------- matching -- */

struct hg_regex_match *hg_regex_match_create(const struct hg_regex *r)
{
    struct hg_regex_match *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->data = pcre2_match_data_create_from_pattern(r->code, NULL);
    m->context = pcre2_match_context_create(NULL);
    if (!m->data || !m->context) {
        hg_regex_match_free(m);
        return NULL;
    }
    pcre2_set_match_limit(m->context, REGEX_MATCH_LIMIT);
    pcre2_set_heap_limit(m->context, REGEX_HEAP_KIB);
    m->stack = pcre2_jit_stack_create(32 << 10, REGEX_JIT_STACK, NULL);
    if (m->stack) pcre2_jit_stack_assign(m->context, NULL, m->stack);
    return m;
}

void hg_regex_match_free(struct hg_regex_match *m)
{
    if (!m) return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_jit_stack_free(m->stack);
    free(m);
}

enum hg_status hg_regex_at(const struct hg_regex *r, struct hg_regex_match *m, const char *text,
                           size_t n, size_t pos, size_t *end, struct hg_err *err)
{
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(r->code, (PCRE2_SPTR)text, n, pos, options, m->data, m->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has the larger heap */
        rc = pcre2_match(r->code, (PCRE2_SPTR)text, n, pos, options | PCRE2_NO_JIT, m->data,
                         m->context);
    if (rc == PCRE2_ERROR_NOMATCH) {
        *end = SIZE_MAX;
        return HG_OK;
    }
    if (rc < 0) {
        PCRE2_UCHAR what[256];
        pcre2_get_error_message(rc, what, sizeof what);
        return hg_fail(err, rc == PCRE2_ERROR_NOMEMORY ? HG_ENOMEM : HG_EINVAL,
                       "pre-tokenizer pattern at byte %zu of a text of %zu: %s", pos, n,
                       (char *)what);
    }
    *end = pcre2_get_ovector_pointer(m->data)[1];
    return HG_OK;
}
