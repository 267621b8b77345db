/* sampler.h: one logits row -> one token. Order as in HF: bias and penalties, temperature, top-k,
 * top-p, min-p, draw. Host memory, fp32. Deterministic for a seed: the n-th drawn token uses the
 * n-th number of the request's own stream, whatever else runs. */
#ifndef HG_SAMPLE_SAMPLER_H
#define HG_SAMPLE_SAMPLER_H

#include "base/err.h"

struct hg_sampler;

/* n_vocab: width of the logits; n_tokens: ids the tokenizer knows (rows beyond are never drawn).
 * Copies what it needs. Errors: EINVAL naming the field and the value (temperature < 0, top_p
 * outside (0,1], bias id outside the vocabulary, NaN, ...). */
enum hg_status hg_sampler_create(const struct hg_sampling *p, int32_t n_vocab, int32_t n_tokens,
                                 struct hg_sampler **out, struct hg_err *err);
void hg_sampler_free(struct hg_sampler *s);

/* Tells the prompt (for repetition_penalty) or an output token (for all penalties). */
void hg_sampler_see_prompt(struct hg_sampler *s, const hg_tok *ids, size_t n);
void hg_sampler_see_output(struct hg_sampler *s, hg_tok id);

/* Draws from logits[n_vocab] (not modified). Ties at temperature 0: the lowest id. Non-finite
 * logits: NaN counts as -inf; if nothing is left, returns -1 (the caller reports EINTERNAL).
 * Does not call see_output. Allocates nothing. The draw uses random number `n_drawn` of the
 * stream: the number of output tokens seen so far. */
hg_tok hg_sampler_draw(struct hg_sampler *s, const float *logits);

/* Log-probabilities of the undistorted row: of `drawn`, and of the n_top best (descending; ties by
 * id). top_ids and top_lp hold n_top entries; where the row has fewer above -inf, the last ones
 * become -1 and -inf. NaN counts as -inf. */
void hg_logprobs(const float *logits, int32_t n_vocab, hg_tok drawn, float *drawn_lp, int32_t n_top,
                 hg_tok *top_ids, float *top_lp);

#endif
