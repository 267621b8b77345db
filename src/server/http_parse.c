#include "server/http_parse.h"

#include <string.h>
#include <strings.h>

enum { MAX_EXTRA = 8192, MAX_CHUNK_DIGITS = 15 };

/* RFC 9110 section 5.6.2 */
static bool is_token_char(unsigned char c)
{
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
    return c && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

int64_t hg_http_head_end(const char *p, size_t n, size_t *scan)
{
    size_t i = *scan;
    if (i == 0 && n > 0 && !is_token_char((unsigned char)p[0])) return -1;
    for (; i < n; i++) {
        bool after_cr = i > 0 && p[i - 1] == '\r';
        if (after_cr != (p[i] == '\n')) return -1;
        if (p[i] == '\n' && i >= 3 && p[i - 2] == '\n') return (int64_t)i + 1;
    }
    *scan = n;
    return 0;
}

/* Cuts the line that starts at *p; returns it NUL-terminated and moves *p behind its CRLF. */
static char *next_line(char **p, char *end)
{
    char *line = *p;
    char *lf = memchr(line, '\n', (size_t)(end - line));
    if (!lf || lf == line || lf[-1] != '\r') return NULL;
    lf[-1] = 0;
    *p = lf + 1;
    return line;
}

/* In place; false on a bad escape or an encoded NUL. */
static bool percent_decode(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (*s != '%') {
            *to++ = *s;
            continue;
        }
        int hi = hex_value(s[1]);
        int lo = hi < 0 ? -1 : hex_value(s[2]);
        if (lo < 0 || (hi | lo) == 0) return false;
        *to++ = (char)(hi * 16 + lo);
        s += 2;
    }
    *to = 0;
    return true;
}

static int parse_target(char *target, struct hg_http_head *out, const char **why)
{
    for (const char *s = target; *s; s++) {
        if (*s > ' ' && *s != 0x7f) continue;
        *why = "request target: control or non-ASCII character";
        return 400;
    }
    if (strncasecmp(target, "http://", 7) == 0) {
        char *slash = strchr(target + 7, '/');
        target = slash ? slash : strcpy(target, "/");
    }
    if (target[0] != '/' && strcmp(target, "*") != 0) {
        *why = "request target: must be a path";
        return 400;
    }
    target[strcspn(target, "?#")] = 0;
    if (!percent_decode(target)) {
        *why = "request target: bad percent escape";
        return 400;
    }
    out->path = target;
    return 0;
}

static int parse_request_line(char *line, struct hg_http_head *out, const char **why)
{
    *why = "request line: must be METHOD TARGET HTTP/1.1";
    char *sp = strchr(line, ' ');
    char *sp2 = sp ? strchr(sp + 1, ' ') : NULL;
    if (!sp2 || sp == line || sp2 == sp + 1 || strchr(sp2 + 1, ' ')) return 400;
    *sp = *sp2 = 0;
    for (const char *s = line; *s; s++) {
        if (!is_token_char((unsigned char)*s)) return 400;
    }
    const char *version = sp2 + 1;
    if (strncmp(version, "HTTP/", 5) != 0) return 400;
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0) {
        *why = "only HTTP/1.0 and HTTP/1.1 are spoken here";
        return 505;
    }
    out->method = line;
    out->minor = version[7] - '0';
    out->keep_alive = out->minor == 1;
    return parse_target(sp + 1, out, why);
}

static bool parse_header_line(char *line, struct hg_http_header *h)
{
    char *colon = strchr(line, ':');
    if (!colon || colon == line) return false;
    for (const char *s = line; s < colon; s++) {
        if (!is_token_char((unsigned char)*s)) return false;
    }
    *colon = 0;
    char *v = colon + 1;
    for (const char *s = v; *s; s++) {
        if (((unsigned char)*s < ' ' && *s != '\t') || *s == 0x7f) return false;
    }
    v += strspn(v, " \t");
    size_t n = strlen(v);
    while (n > 0 && (v[n - 1] == ' ' || v[n - 1] == '\t')) v[--n] = 0;
    h->name = line;
    h->value = v;
    return true;
}

static int parse_length(const char *v, struct hg_http_head *out, const char **why)
{
    int64_t n = 0;
    size_t len = strlen(v);
    if (len == 0 || len > 18 || strspn(v, "0123456789") != len) {
        *why = "Content-Length: must be one decimal number";
        return 400;
    }
    for (; *v; v++) n = n * 10 + (*v - '0');
    out->content_length = n;
    return 0;
}

/* True if the comma-separated list holds the word, in any case. */
static bool list_has(const char *list, const char *word)
{
    size_t n_word = strlen(word);
    while (*list) {
        list += strspn(list, ", \t");
        size_t n = strcspn(list, ", \t");
        if (n == n_word && strncasecmp(list, word, n) == 0) return true;
        list += n;
    }
    return false;
}

/* What the headers say about framing and the connection. */
static int read_semantics(struct hg_http_head *out, const char **why)
{
    int32_t n_length = 0, n_coding = 0, n_host = 0;
    for (int32_t i = 0; i < out->n_headers; i++) {
        const char *name = out->headers[i].name, *v = out->headers[i].value;
        if (strcasecmp(name, "Content-Length") == 0) {
            n_length++;
            int refused = parse_length(v, out, why);
            if (refused) return refused;
        } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
            n_coding++;
            if (strcasecmp(v, "chunked") != 0) {
                *why = "Transfer-Encoding: only chunked is supported";
                return 501;
            }
            out->chunked = true;
        } else if (strcasecmp(name, "Host") == 0) {
            n_host++;
        } else if (strcasecmp(name, "Connection") == 0) {
            if (list_has(v, "close"))
                out->keep_alive = false;
            else if (out->minor == 0 && list_has(v, "keep-alive"))
                out->keep_alive = true;
        } else if (strcasecmp(name, "Expect") == 0) {
            if (strcasecmp(v, "100-continue") != 0) {
                *why = "Expect: only 100-continue is supported";
                return 417;
            }
            out->expect_continue = out->minor == 1;
        }
    }
    *why = NULL;
    if (n_length > 1)
        *why = "Content-Length: given more than once";
    else if (n_coding > 1)
        *why = "Transfer-Encoding: given more than once";
    else if (n_length && n_coding)
        *why = "Content-Length: not allowed beside Transfer-Encoding";
    else if (n_coding && out->minor == 0)
        *why = "Transfer-Encoding: not allowed in HTTP/1.0";
    else if (n_host > 1)
        *why = "Host: given more than once";
    else if (n_host == 0 && out->minor == 1)
        *why = "Host: missing";
    return *why ? 400 : 0;
}

int hg_http_head_parse(char *p, size_t n, struct hg_http_head *out, const char **why)
{
    memset(out, 0, sizeof *out);
    *why = "head: NUL byte";
    if (memchr(p, 0, n)) return 400;
    char *end = p + n;
    *why = "head: lines must end in CR LF";
    char *line = next_line(&p, end);
    if (!line) return 400;
    int refused = parse_request_line(line, out, why);
    if (refused) return refused;
    for (;;) {
        *why = "head: lines must end in CR LF";
        line = next_line(&p, end);
        if (!line) return 400;
        if (!*line) break;
        if (out->n_headers == HG_HTTP_MAX_HEADERS) {
            *why = "head: more than 100 header lines";
            return 431;
        }
        *why = "header line: must be NAME: VALUE, unfolded and without control characters";
        if (!parse_header_line(line, &out->headers[out->n_headers])) return 400;
        out->n_headers++;
    }
    return read_semantics(out, why);
}

const char *hg_http_head_get(const struct hg_http_head *h, const char *name)
{
    for (int32_t i = 0; i < h->n_headers; i++) {
        if (strcasecmp(h->headers[i].name, name) == 0) return h->headers[i].value;
    }
    return NULL;
}

/* One byte of the size line, behind a chunk, or in the trailer. */
static enum hg_http_chunk_state chunk_byte(struct hg_http_chunked *c, char b, size_t room)
{
    switch (c->state) {
    case HG_CHUNK_SIZE: {
        int v = hex_value(b);
        if (v >= 0) {
            if (++c->n_digits > MAX_CHUNK_DIGITS) return HG_CHUNK_BAD;
            c->left = c->left * 16 + (uint64_t)v;
            return c->left > room ? HG_CHUNK_TOO_LONG : HG_CHUNK_SIZE;
        }
        if (c->n_digits == 0) return HG_CHUNK_BAD;
        if (b == '\r') return HG_CHUNK_SIZE_LF;
        return b == ';' || b == ' ' || b == '\t' ? HG_CHUNK_EXT : HG_CHUNK_BAD;
    }
    case HG_CHUNK_EXT:
        if (b == '\r') return HG_CHUNK_SIZE_LF;
        return b == '\n' || ++c->n_extra > MAX_EXTRA ? HG_CHUNK_BAD : HG_CHUNK_EXT;
    case HG_CHUNK_SIZE_LF:
        if (b != '\n') return HG_CHUNK_BAD;
        return c->left ? HG_CHUNK_DATA : HG_CHUNK_TRAILER;
    case HG_CHUNK_DATA_CR: return b == '\r' ? HG_CHUNK_DATA_LF : HG_CHUNK_BAD;
    case HG_CHUNK_DATA_LF: c->n_digits = 0; return b == '\n' ? HG_CHUNK_SIZE : HG_CHUNK_BAD;
    case HG_CHUNK_TRAILER:
        if (b == '\r') return HG_CHUNK_END_LF;
        /* fall through */
    case HG_CHUNK_TRAILER_LINE:
        if (b == '\r') return HG_CHUNK_TRAILER_LF;
        return b == '\n' || ++c->n_extra > MAX_EXTRA ? HG_CHUNK_BAD : HG_CHUNK_TRAILER_LINE;
    case HG_CHUNK_TRAILER_LF: return b == '\n' ? HG_CHUNK_TRAILER : HG_CHUNK_BAD;
    case HG_CHUNK_END_LF: return b == '\n' ? HG_CHUNK_DONE : HG_CHUNK_BAD;
    default: return HG_CHUNK_BAD;
    }
}

size_t hg_http_chunked_feed(struct hg_http_chunked *c, const char *p, size_t n, struct hg_buf *body,
                            size_t max)
{
    size_t i = 0;
    while (i < n && c->state < HG_CHUNK_DONE) {
        if (c->state != HG_CHUNK_DATA) {
            c->state = chunk_byte(c, p[i++], max - body->len);
            continue;
        }
        size_t take = n - i < c->left ? n - i : (size_t)c->left;
        hg_buf_add(body, p + i, take);
        if (body->oom) c->state = HG_CHUNK_TOO_LONG;
        i += take;
        c->left -= take;
        if (c->left == 0 && c->state == HG_CHUNK_DATA) c->state = HG_CHUNK_DATA_CR;
    }
    return i;
}
