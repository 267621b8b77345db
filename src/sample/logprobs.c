#include "sample/sampler.h"

#include <math.h>

/* v - max; 0 also where both are infinite, so that infinite logits share the probability. */
static float below(float v, float max)
{
    return v == max ? 0 : v - max;
}

/* Where v belongs among lp[0..n), which descends. Equal ones keep their order. */
static int32_t place(const float *lp, int32_t n, float v)
{
    while (n > 0 && v > lp[n - 1]) n--;
    return n;
}

/* The n_top largest logits, descending; ids ascend where they are equal. Returns how many are
 * finite or +inf; the rest is filled with id -1. */
static int32_t find_top(const float *logits, int32_t n_vocab, int32_t n_top, hg_tok *ids,
                        float *top)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_vocab; i++) {
        float v = logits[i];
        if (!(v > (n == n_top ? top[n - 1] : -INFINITY))) continue;
        int32_t at = place(top, n, v);
        if (n < n_top) n++;
        for (int32_t j = n - 1; j > at; j--) top[j] = top[j - 1], ids[j] = ids[j - 1];
        top[at] = v;
        ids[at] = i;
    }
    for (int32_t j = n; j < n_top; j++) top[j] = -INFINITY, ids[j] = -1;
    return n;
}

void hg_logprobs(const float *logits, int32_t n_vocab, hg_tok drawn, float *drawn_lp, int32_t n_top,
                 hg_tok *top_ids, float *top_lp)
{
    float max = -INFINITY;
    for (int32_t i = 0; i < n_vocab; i++)
        if (logits[i] > max) max = logits[i];
    double sum = 0;
    for (int32_t i = 0; i < n_vocab; i++)
        if (logits[i] > -INFINITY) sum += (double)expf(below(logits[i], max));
    double log_sum = log(sum);
    *drawn_lp = -INFINITY;
    if (drawn >= 0 && drawn < n_vocab && logits[drawn] > -INFINITY)
        *drawn_lp = (float)((double)below(logits[drawn], max) - log_sum);
    if (n_top <= 0) return;
    int32_t n = find_top(logits, n_vocab, n_top, top_ids, top_lp);
    for (int32_t i = 0; i < n; i++) top_lp[i] = (float)((double)below(top_lp[i], max) - log_sum);
}
