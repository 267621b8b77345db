#include "cache/tree.h"

#include <string.h>

#include "cache/cache_impl.h"

static void node_free(struct tree_node *n)
{
    if (!n) return;
    cache_free(n->tok);
    cache_free(n);
}

static hg_tok *run_copy(const hg_tok *a, int32_t na, const hg_tok *b, int32_t nb)
{
    hg_tok *t = cache_alloc(((size_t)na + (size_t)nb) * sizeof *t);
    if (!t) return NULL;
    memcpy(t, a, (size_t)na * sizeof *t);
    if (nb) memcpy(t + na, b, (size_t)nb * sizeof *t);
    return t;
}

static struct tree_node *node_create(const hg_tok *tok, int32_t n_tok, int32_t depth)
{
    struct tree_node *n = cache_alloc(sizeof *n);
    if (!n) return NULL;
    n->tok = run_copy(tok, n_tok, NULL, 0);
    if (!n->tok) {
        cache_free(n);
        return NULL;
    }
    n->n_tok = n_tok;
    n->depth = depth;
    return n;
}

static void add_child(struct tree_node *parent, struct tree_node *n)
{
    n->parent = parent;
    n->next = parent->child;
    parent->child = n;
}

/* The place that points at n: its parent's child or its elder sibling's next. */
static struct tree_node **link_to(struct tree_node *n)
{
    struct tree_node **l = &n->parent->child;
    while (*l != n) l = &(*l)->next;
    return l;
}

/* Puts `by` in n's place among n's siblings. */
static void replace(struct tree_node *n, struct tree_node *by)
{
    *link_to(n) = by;
    by->next = n->next;
    by->parent = n->parent;
}

void tree_fini(struct tree *t)
{
    struct tree_node *n = t->root.child;
    while (n) {
        while (n->child) n = n->child;
        struct tree_node *up = n->parent, *next = n->next;
        up->child = next;
        node_free(n);
        n = next ? next : up == &t->root ? NULL : up;
    }
    t->root = (struct tree_node){0};
}

struct tree_spot tree_find(struct tree *t, const hg_tok *tokens, int32_t n)
{
    struct tree_spot s = {&t->root, 0};
    while (s.n_match == s.node->depth && s.n_match < n) {
        struct tree_node *k = s.node->child;
        while (k && k->tok[0] != tokens[s.n_match]) k = k->next;
        if (!k) break;
        int32_t most = n - s.n_match < k->n_tok ? n - s.n_match : k->n_tok, i = 1;
        while (i < most && k->tok[i] == tokens[s.n_match + i]) i++;
        s = (struct tree_spot){k, s.n_match + i};
    }
    return s;
}

struct cache_entry *tree_prefix(struct tree_spot s, int32_t most)
{
    if (s.n_match < most) most = s.n_match;
    for (struct tree_node *n = s.node; n; n = n->parent)
        if (n->entry && n->depth <= most) return n->entry;
    return NULL;
}

struct cache_entry *tree_below(struct tree_spot s)
{
    if (s.n_match == 0) return NULL;
    struct tree_node *n = s.node;
    while (!n->entry) n = n->child;
    return n->entry;
}

struct tree_node *tree_insert(struct tree *t, const hg_tok *tokens, int32_t n)
{
    struct tree_spot s = tree_find(t, tokens, n);
    int32_t split = s.node->depth - s.n_match; /* tokens of node's run behind the spot */
    int32_t kept = s.node->n_tok - split;
    struct tree_node *up = s.node, *leaf = NULL;
    hg_tok *rest = NULL;
    if (n > s.n_match) {
        leaf = node_create(tokens + s.n_match, n - s.n_match, n);
        if (!leaf) return NULL;
    }
    if (split) {
        up = node_create(s.node->tok, kept, s.n_match);
        rest = run_copy(s.node->tok + kept, split, NULL, 0);
        if (!up || !rest) {
            node_free(leaf);
            node_free(up);
            cache_free(rest);
            return NULL;
        }
        replace(s.node, up);
        cache_free(s.node->tok);
        s.node->tok = rest;
        s.node->n_tok = split;
        add_child(up, s.node);
    }
    if (leaf) add_child(up, leaf);
    return leaf ? leaf : up;
}

/* Joins a node without entry and its only child. If memory is out the two stay as they are, which
 * costs one node. */
static void merge(struct tree_node *n)
{
    struct tree_node *k = n->child;
    hg_tok *tok = run_copy(n->tok, n->n_tok, k->tok, k->n_tok);
    if (!tok) return;
    cache_free(k->tok);
    k->tok = tok;
    k->n_tok += n->n_tok;
    replace(n, k);
    node_free(n);
}

void tree_prune(struct tree_node *n)
{
    while (n->parent && !n->entry && !n->child) {
        struct tree_node *up = n->parent;
        *link_to(n) = n->next;
        node_free(n);
        n = up;
    }
    if (n->parent && !n->entry && !n->child->next) merge(n);
}

void tree_tokens(const struct tree_node *n, hg_tok *out)
{
    for (; n->parent; n = n->parent)
        memcpy(out + n->depth - n->n_tok, n->tok, (size_t)n->n_tok * sizeof *out);
}

void tree_walk(struct tree_node *top, void (*enter)(struct tree_node *n, void *ctx),
               void (*leave)(struct tree_node *n, void *ctx), void *ctx)
{
    struct tree_node *n = top;
    for (;;) {
        enter(n, ctx);
        if (n->child) {
            n = n->child;
            continue;
        }
        for (;;) {
            if (leave) leave(n, ctx);
            if (n == top) return;
            if (n->next) break;
            n = n->parent;
        }
        n = n->next;
    }
}
