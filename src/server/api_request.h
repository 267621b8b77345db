/* api_request.h: OpenAI request bodies -> hg_request_params. Pure: bytes in, parameters or an
 * error that names the field out. The tables of fields are at the top of chat_request.c
 * and completion_request.c. */
#ifndef HG_SERVER_API_REQUEST_H
#define HG_SERVER_API_REQUEST_H

#include "base/arena.h"
#include "server/json_io.h"

/* What the parser needs to know of the model and the server. */
struct hg_api_limits {
    struct hg_sampling sampling; /* defaults */
    int32_t n_vocab;
    int32_t default_max_tokens; /* 0 = to the end of the context */
};

struct hg_api_request {
    struct hg_request_params rp; /* points into what follows */
    bool stream, include_usage;
    json_t *body;
    struct hg_arena arena;
};

/* On failure there is nothing to free; otherwise hg_api_request_fini. */
enum hg_status hg_chat_request_parse(const char *text, size_t n, const struct hg_api_limits *lim,
                                     struct hg_api_request *out, struct hg_api_err *err);
enum hg_status hg_completion_request_parse(const char *text, size_t n,
                                           const struct hg_api_limits *lim,
                                           struct hg_api_request *out, struct hg_api_err *err);
void hg_api_request_fini(struct hg_api_request *q);

/* ------------------------------------------------------------- shared by the two dialects -- */

/* Bound on the JSON values of one body; a context of 262,144 token ids fits. */
#define HG_API_MAX_VALUES ((size_t)1 << 20)

/* Parses the body into an object and sets the defaults. *budget: values left. */
enum hg_status hg_api_request_begin(const char *text, size_t n, const struct hg_api_limits *lim,
                                    struct hg_api_request *q, size_t *budget,
                                    struct hg_api_err *err);
/* Fields that both dialects have: lengths, sampling, stop, logit_bias, streaming; refuses fields
 * that would change the answer and that we do not do. */
enum hg_status hg_api_request_common(struct hg_api_request *q, const struct hg_api_limits *lim,
                                     struct hg_api_err *err);
/* An array of token ids, copied into the arena; each must be in 0..n_vocab-1. */
enum hg_status hg_api_token_ids(struct hg_arena *a, const json_t *array, const char *param,
                                int32_t n_vocab, const hg_tok **out, size_t *n_out,
                                struct hg_api_err *err);

/* Checks messages and brings them into the one form the template sees (see chat_messages.c).
 * Changes them in place. */
enum hg_status hg_chat_messages_check(json_t *messages, size_t *budget, struct hg_api_err *err);
/* Checks tools; NULL is fine. */
enum hg_status hg_chat_tools_check(const json_t *tools, struct hg_api_err *err);

#endif
