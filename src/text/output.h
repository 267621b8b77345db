/* output.h: what the model writes -> reasoning, visible text and tool calls, incrementally.
 *
 * Grammar of the Qwen3.5/3.6 output:
 *   [reasoning </think>] text? { <tool_call>\n<function=NAME>\n {<parameter=K>\nV\n</parameter>\n}
 *   </function>\n</tool_call> }*
 * Exactly one newline is stripped on each side of V. V becomes JSON by the parameter's type in the
 * tool's schema: string stays raw; integer, number, boolean, array, object, null are parsed
 * (5 stays 5, 5.0 stays 5.0; True/False/None and Python literals are accepted); what does not
 * parse, or an ambiguous union, stays a string. String values stream as they come.
 *
 * Invariants: the events do not depend on how the text is cut into feeds; the concatenated
 * ARGS fragments of a call are one valid JSON object, also when the text is cut short; markup
 * never leaks into text while tools are on; text before a call is not held back longer than a
 * possible marker prefix. */
#ifndef HG_TEXT_OUTPUT_H
#define HG_TEXT_OUTPUT_H

#include "base/err.h"

struct json_t;
struct hg_output;

struct hg_output_params {
    bool in_reasoning;    /* the prompt ended inside <think> */
    struct json_t *tools; /* OpenAI tools array; NULL = calls are not parsed, markup is text */
    /* Text that was forced into the prompt (tool_choice required/named) and belongs to the output,
     * e.g. "<tool_call>\n<function=f>\n". NULL = none. */
    const char *forced;
};

struct hg_output_sink {
    /* type: HG_EV_TEXT, REASONING, TOOL_BEGIN (name), TOOL_ARGS (text), TOOL_END; index = call. */
    void (*event)(void *ctx, enum hg_event_type type, int32_t index, const char *name,
                  const char *text, size_t n_text);
    void *ctx;
};

/* References params->tools. NULL when memory is out. */
struct hg_output *hg_output_create(const struct hg_output_params *p);
void hg_output_free(struct hg_output *o);
/* Feeds whole UTF-8 characters. ENOMEM only. */
enum hg_status hg_output_feed(struct hg_output *o, const char *text, size_t n,
                              const struct hg_output_sink *sink);
/* End of generation: flushes what was held back, closes an open call. */
enum hg_status hg_output_finish(struct hg_output *o, const struct hg_output_sink *sink);
int32_t hg_output_n_calls(const struct hg_output *o);

#endif
