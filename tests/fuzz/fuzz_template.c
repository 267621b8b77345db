/* fuzz_template.c: any bytes as a template, rendered with fixed variables and small limits. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "text/template_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char vars_text[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S \\u00e9\"},"
    " {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"hi\\nthere\"}]},"
    " {\"role\": \"assistant\", \"content\": null, \"reasoning_content\": \"r\","
    "  \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": [2.5, "
    "true]}}}]},"
    " {\"role\": \"tool\", \"content\": \"\\u2603 \\ud83d\\ude00\"}],"
    " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}],"
    " \"add_generation_prompt\": true, \"enable_thinking\": false, \"n\": 7, \"s\": \"a,b,c\","
    " \"l\": [3, 1, 2], \"d\": {\"k\": \"v\", \"items\": 1}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct tmpl_limits limits = {
        .steps = 20000, .calls = 20, .nesting = 150, .output = 1 << 16, .memory = 1 << 20};
    static json_t *vars;
    if (!vars) vars = json_loads(vars_text, 0, NULL);
    struct hg_template *t;
    struct hg_err err;
    struct hg_rendered r;
    if (hg_template_parse("fuzz", (const char *)data, size, &t, &err) != HG_OK) return 0;
    if (tmpl_render(t, vars, &limits, &r, &err) == HG_OK) {
        for (size_t i = 0; i < r.n_starts; i++)
            if (r.starts[i] > (i + 1 < r.n_starts ? r.starts[i + 1] : r.n)) abort();
        hg_rendered_fini(&r);
    }
    hg_template_free(t);
    return 0;
}
