/* tree.h: compressed radix tree over tokens. A node ends a run of tokens; entries hang on nodes.
 * Every leaf has an entry, so below every node there is one. */
#ifndef HG_CACHE_TREE_H
#define HG_CACHE_TREE_H

#include "base/err.h"

struct cache_entry;

struct tree_node {
    struct tree_node *parent, *child, *next; /* next: sibling */
    hg_tok *tok;                             /* [n_tok] the run from the parent to here */
    int32_t n_tok;
    int32_t depth;                   /* tokens from the root to here */
    struct cache_entry *entry;       /* NULL = none ends here */
    int32_t above, n_turns, n_users; /* evict_survey's */
};

struct tree {
    struct tree_node root;
};

/* Where a walk along tokens ended: n_match tokens agree, the last of them in node's run. */
struct tree_spot {
    struct tree_node *node;
    int32_t n_match;
};

void tree_fini(struct tree *t);
struct tree_spot tree_find(struct tree *t, const hg_tok *tokens, int32_t n);
/* The deepest entry that lies wholly on the walk, at most `most` tokens deep; NULL = none. */
struct cache_entry *tree_prefix(struct tree_spot s, int32_t most);
/* An entry at or below the spot: it agrees with the walk on all n_match tokens. NULL if n_match
 * is 0. */
struct cache_entry *tree_below(struct tree_spot s);
/* The node at the end of tokens, made if missing; the caller gives it an entry or prunes it. NULL
 * when memory is out; the tree is as it was then. n > 0. */
struct tree_node *tree_insert(struct tree *t, const hg_tok *tokens, int32_t n);
/* Removes a node without entry as far as it is not needed, and what it alone was needed for. */
void tree_prune(struct tree_node *n);
/* Writes the depth tokens that lead to n. */
void tree_tokens(const struct tree_node *n, hg_tok *out);
/* Visits every node of the subtree of `top`: enter before its children, leave (NULL = none) behind
 * them. */
void tree_walk(struct tree_node *top, void (*enter)(struct tree_node *n, void *ctx),
               void (*leave)(struct tree_node *n, void *ctx), void *ctx);

#endif
