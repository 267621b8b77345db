/* recall.h: what the model really wrote, for when a client sends it back in other words.
 *
 * Clients return an assistant message re-serialised: JSON with other spacing, text trimmed. Rendered
 * again it may give other tokens than those that were generated, and the prefix cache would end
 * there. So the generated tokens of each answer are kept under a key of its meaning (text and
 * reasoning without the white space around them, call names, arguments as values); when a message
 * of a prompt has that key, they are spliced in for the rendered ones. Bounded; oldest go first.
 * Any thread. */
#ifndef HG_ENGINE_RECALL_H
#define HG_ENGINE_RECALL_H

#include "text/template.h"
#include "text/tokenizer.h"

struct json_t;
struct hg_recall;

enum { HG_RECALL_ANSWERS = 512, HG_RECALL_TOKENS = 1 << 20 };

struct hg_recall *hg_recall_create(void); /* NULL when memory is out */
void hg_recall_free(struct hg_recall *r);

/* Keeps ids[0..n) as what was generated behind the generation prompt gen[0..n_gen) for an assistant
 * message (content, reasoning_content, tool_calls as in a prompt). Does nothing when memory is out. */
void hg_recall_keep(struct hg_recall *r, struct json_t *message, const hg_tok *gen, size_t n_gen,
                    const hg_tok *ids, size_t n);

/* ids: the encoded prompt; starts[i]: token index of message i, starts[n messages]: of the generation
 * prompt, as from hg_tokenizer_encode (-1 = unknown: such messages are left alone). Replaces the
 * generated part of every assistant message that is remembered and begins like the generation
 * prompt; moves starts along. eos: the token that ends a message. */
enum hg_status hg_recall_splice(struct hg_recall *r, struct json_t *messages, hg_tok eos,
                                struct hg_toks *ids, int64_t *starts, struct hg_err *err);

#endif
