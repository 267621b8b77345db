#include "server/request_fields.h"

#include <string.h>

json_t *hg_field_get(const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);
    return json_is_null(v) ? NULL : v;
}

static enum hg_status wrong_kind(const char *key, const json_t *v, const char *wanted,
                                 struct hg_api_err *err)
{
    return hg_api_fail(err, HG_EINVAL, key, "got %s, wanted %s", hg_json_kind(v), wanted);
}

enum hg_status hg_field_int(const json_t *object, const char *key, int64_t min, int64_t max,
                            int64_t *out, struct hg_api_err *err)
{
    const json_t *v = hg_field_get(object, key);
    if (!v) return HG_OK;
    if (!json_is_integer(v)) return wrong_kind(key, v, "an integer", err);
    int64_t i = json_integer_value(v);
    if (i < min || i > max)
        return hg_api_fail(err, HG_EINVAL, key, "%lld is not in %lld..%lld", (long long)i,
                           (long long)min, (long long)max);
    *out = i;
    return HG_OK;
}

enum hg_status hg_field_i32(const json_t *object, const char *key, int32_t min, int32_t max,
                            int32_t *out, struct hg_api_err *err)
{
    int64_t i = *out;
    HG_TRY(hg_field_int(object, key, min, max, &i, err));
    *out = (int32_t)i;
    return HG_OK;
}

enum hg_status hg_field_float(const json_t *object, const char *key, double min, double max,
                              float *out, struct hg_api_err *err)
{
    const json_t *v = hg_field_get(object, key);
    if (!v) return HG_OK;
    if (!json_is_number(v)) return wrong_kind(key, v, "a number", err);
    double d = json_number_value(v);
    if (!(d >= min && d <= max))
        return hg_api_fail(err, HG_EINVAL, key, "%g is not in %g..%g", d, min, max);
    *out = (float)d;
    return HG_OK;
}

enum hg_status hg_field_bool(const json_t *object, const char *key, bool *out,
                             struct hg_api_err *err)
{
    const json_t *v = hg_field_get(object, key);
    if (!v) return HG_OK;
    if (!json_is_boolean(v)) return wrong_kind(key, v, "a boolean", err);
    *out = json_is_true(v);
    return HG_OK;
}

enum hg_status hg_field_string(const json_t *object, const char *key, const char **out,
                               struct hg_api_err *err)
{
    const json_t *v = hg_field_get(object, key);
    if (!v) return HG_OK;
    if (!json_is_string(v)) return wrong_kind(key, v, "a string", err);
    if (out) *out = json_string_value(v);
    return HG_OK;
}

enum hg_status hg_field_object(const json_t *object, const char *key, json_t **out,
                               struct hg_api_err *err)
{
    json_t *v = hg_field_get(object, key);
    if (!v) return HG_OK;
    if (!json_is_object(v)) return wrong_kind(key, v, "an object", err);
    *out = v;
    return HG_OK;
}
