/* request_fields.h: reading fields of a request's JSON object, strictly: a wrong type or value is
 * EINVAL and names the field. null counts as absent, and then the output is left alone. */
#ifndef HG_SERVER_REQUEST_FIELDS_H
#define HG_SERVER_REQUEST_FIELDS_H

#include "server/json_io.h"

/* Member of an object; NULL when absent or null. */
json_t *hg_field_get(const json_t *object, const char *key);

enum hg_status hg_field_int(const json_t *object, const char *key, int64_t min, int64_t max,
                            int64_t *out, struct hg_api_err *err);
enum hg_status hg_field_i32(const json_t *object, const char *key, int32_t min, int32_t max,
                            int32_t *out, struct hg_api_err *err);
enum hg_status hg_field_float(const json_t *object, const char *key, double min, double max,
                              float *out, struct hg_api_err *err);
enum hg_status hg_field_bool(const json_t *object, const char *key, bool *out,
                             struct hg_api_err *err);
/* Checks the type only; *out may be NULL. */
enum hg_status hg_field_string(const json_t *object, const char *key, const char **out,
                               struct hg_api_err *err);
enum hg_status hg_field_object(const json_t *object, const char *key, json_t **out,
                               struct hg_api_err *err);

#endif
