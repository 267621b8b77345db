/* Choosing a backend by name, and facts about weight formats. */
#include "backend/backend.h"

#include <stdio.h>
#include <string.h>

const char *hg_format_name(enum hg_format f)
{
    static const char *const names[HG_N_FORMATS] = {"f32", "bf16", "f16", "nvfp4"};
    return (unsigned)f < HG_N_FORMATS ? names[f] : "?";
}

size_t hg_format_bytes(enum hg_format f, int64_t n)
{
    switch (f) {
    case HG_FMT_F32: return (size_t)n * 4;
    case HG_FMT_BF16:
    case HG_FMT_F16: return (size_t)n * 2;
    case HG_FMT_NVFP4: return (size_t)n / 2 + (size_t)n / 16;
    case HG_N_FORMATS: break;
    }
    return 0;
}

const char *hg_backend_device(int32_t i)
{
    static const char *const fixed[] = {"cpu", "ref", "ref:chunked"};
    static _Thread_local char name[64];
    if (i < 1) return fixed[0];
    const char *isa = hg_cpu_isa(i - 1);
    if (isa) {
        snprintf(name, sizeof name, "cpu:%s", isa);
        return name;
    }
    int32_t n_isa = 0;
    while (hg_cpu_isa(n_isa)) n_isa++;
    i -= n_isa;
    return i < 3 ? fixed[i] : NULL;
}

enum hg_status hg_backend_open(const struct hg_backend_params *p, struct hg_backend **out,
                               struct hg_err *err)
{
    const char *d = p->device ? p->device : "auto";
    if (strcmp(d, "auto") == 0 || strcmp(d, "cpu") == 0) return hg_cpu_open(p, NULL, out, err);
    if (strncmp(d, "cpu:", 4) == 0) return hg_cpu_open(p, d + 4, out, err);
    if (strcmp(d, "ref") == 0 || strcmp(d, "ref:chunked") == 0) return hg_ref_open(p, out, err);
    char have[256] = "auto";
    for (int32_t i = 0; hg_backend_device(i); i++) {
        size_t n = strlen(have);
        snprintf(have + n, sizeof have - n, ", %s", hg_backend_device(i));
    }
    return hg_fail(err, HG_EINVAL, "device '%s': unknown; this machine has: %s", d, have);
}

void hg_backend_close(struct hg_backend *be)
{
    if (be) be->ops->close(be);
}
