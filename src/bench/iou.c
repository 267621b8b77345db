#include "bench/iou.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Canonical name, then the names that mean the same. Verbs of navigation and output (cd, pwd,
 * echo) are left out on purpose: they say nothing about what a turn does. */
static const char *const programs[][5] = {
    {"python", "python2", "python3", "py"},
    {"pip", "pip3"},
    {"pytest"},
    {"pylint"},
    {"sphinx", "sphinx-build", "sphinx-quickstart"},
    {"cython"},
    {"make"},
    {"conda"},
    {"cat", "less", "more"},
    {"head"},
    {"tail"},
    {"wc"},
    {"diff"},
    {"grep", "egrep", "fgrep", "rg", "ag"},
    {"sed"},
    {"awk", "gawk"},
    {"tr"},
    {"sort"},
    {"uniq"},
    {"cut"},
    {"find", "locate"},
    {"ls"},
    {"xargs"},
    {"cp"},
    {"mv"},
    {"rm"},
    {"mkdir"},
    {"touch"},
    {"tee"},
    {"source", "."},
    {"which"},
    {"alias"},
    {"unset"},
    {"export"},
    {"git"},
    {"curl", "wget"},
    {"true"},
    {"false"},
    {"timeout"},
    {"date"},
    {"apt", "apt-get"},
    {"yum"},
};
_Static_assert(sizeof programs / sizeof *programs <= HG_IOU_KINDS, "HG_IOU_KINDS");

static const char *const wrappers[] = {"env", "time", "nice", "sudo", "exec", "command"};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Bytes of the here-document that starts with the << at s, to its closing word on a line of its
 * own and the empty lines behind it. 0 when it is none or never ends. */
static size_t heredoc(const char *s)
{
    const char *p = s + 2;
    if (*p == '-') p++;
    while (isspace((unsigned char)*p)) p++;
    if (*p == '\'' || *p == '"') p++;
    const char *word = p;
    while (is_name(*p)) p++;
    size_t n = (size_t)(p - word);
    if (n == 0 || isdigit((unsigned char)*word)) return 0;
    for (const char *line = strchr(p, '\n'); line; line = strchr(line + 1, '\n')) {
        if (strncmp(line + 1, word, n) != 0) continue;
        const char *last = NULL; /* the last line end, or end of text, that only blanks precede */
        for (const char *end = line + 1 + n;; end++) {
            if (!*end || *end == '\n') last = end;
            if (!isspace((unsigned char)*end)) break;
        }
        if (last) return (size_t)(last - s);
    }
    return 0;
}

/* Bytes of the quoted text that starts at s, 0 when it does not end. In double quotes a backslash
 * takes the next character with it, but not a line end. */
static size_t quoted(const char *s)
{
    for (const char *p = s + 1; *p; p++) {
        if (*p == *s) return (size_t)(p - s) + 1;
        if (*s != '"' || *p != '\\') continue;
        if (!*++p || *p == '\n') return 0;
    }
    return 0;
}

/* Replaces text that could look like commands by blanks. */
static void blank(char *s, size_t (*match)(const char *), const char *starts, const char *start2)
{
    while (*s) {
        bool here = strchr(starts, *s) && (!start2 || s[1] == *start2);
        size_t n = here ? match(s) : 0;
        if (n) memset(s, ' ', n);
        s += n ? n : 1;
    }
}

/* Is it a leading NAME=value or a wrapper? */
static bool is_prefix(const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        if (strlen(wrappers[i]) == n && !memcmp(wrappers[i], word, n)) return true;
    size_t i = 0;
    while (i < n && is_name(word[i])) i++;
    return i && i < n && word[i] == '=' && !isdigit((unsigned char)word[0]);
}

/* Length of name[0..n) without ".N" or ".N.N" at its end. */
static size_t without_version(const char *name, size_t n)
{
    for (int part = 0; part < 2; part++) {
        size_t i = n;
        while (i && isdigit((unsigned char)name[i - 1])) i--;
        if (i == n || i == 0 || name[i - 1] != '.') break;
        n = i - 1;
    }
    return n;
}

static void add_program(struct hg_iou_bag *b, const char *word, size_t n)
{
    char name[32];
    const char *slash = memrchr(word, '/', n);
    const char *leaf = slash ? slash + 1 : word;
    n = without_version(leaf, n - (size_t)(leaf - word));
    if (n == 0 || n >= sizeof name) return;
    for (size_t i = 0; i < n; i++) name[i] = (char)tolower((unsigned char)leaf[i]);
    name[n] = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (size_t j = 0; j < 5 && programs[i][j]; j++)
            if (!strcmp(programs[i][j], name)) {
                b->n[i]++;
                b->total++;
                return;
            }
}

/* The program of one piece of a command line. */
static void add_stage(struct hg_iou_bag *b, const char *p, size_t n)
{
    const char *end = p + n;
    for (;;) {
        while (p < end && isspace((unsigned char)*p)) p++;
        const char *word = p;
        while (p < end && !isspace((unsigned char)*p)) p++;
        if (p == word) return;
        if (is_prefix(word, (size_t)(p - word))) continue;
        add_program(b, word, (size_t)(p - word));
        return;
    }
}

void hg_iou_add(struct hg_iou_bag *b, const char *command)
{
    char *text = strdup(command);
    if (!text) return;
    blank(text, heredoc, "<", "<");
    blank(text, quoted, "'\"`", NULL);
    for (const char *p = text; *p;) {
        size_t n = 0; /* to a separator: a lone & is none */
        while (p[n] && !strchr("|;\n", p[n]) && !(p[n] == '&' && p[n + 1] == '&')) n++;
        add_stage(b, p, n);
        p += n;
        if (*p) p += *p == '&' ? 2 : 1;
    }
    free(text);
}

void hg_iou_add_calls(struct hg_iou_bag *b, const json_t *calls)
{
    size_t i;
    const json_t *call;
    json_array_foreach(calls, i, call)
    {
        const char *name = json_string_value(json_object_get(call, "name"));
        const json_t *args = json_object_get(call, "arguments");
        const char *command = json_string_value(json_object_get(args, "command"));
        if (!command || !*command) command = json_string_value(json_object_get(args, "cmd"));
        if (name && !strcmp(name, "bash") && command) hg_iou_add(b, command);
    }
}

double hg_iou_score(const struct hg_iou_bag *recorded, const struct hg_iou_bag *generated)
{
    int32_t both = 0, any = 0;
    for (int i = 0; i < HG_IOU_KINDS; i++) {
        int32_t r = recorded->n[i], g = generated->n[i];
        both += r < g ? r : g;
        any += r < g ? g : r;
    }
    return recorded->total ? (double)both / any : -1;
}
