/* A draw works on a row of n_tokens logits. Without penalties and bias that is the model's own
 * row; otherwise a copy, corrected at the few ids concerned. From the row, the tokens that can
 * be drawn at all are gathered once; top-p then takes only as many as it needs, best first, from
 * a heap. Weights are exp((z - max) / temperature), so the best token has weight 1. */
#include "sample/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/rng.h"

/* Weights under e^-50 are left out: half a million of them together weigh less than the 2^-53
 * that one random number resolves. */
#define MIN_EXPONENT (-50.0)

struct candidate {
    float weight; /* holds the logit until the weights are known */
    hg_tok id;
};

struct hg_sampler {
    struct hg_sampling p;       /* but for the bias */
    struct hg_logit_bias *bias; /* [p.n_bias] our copy; NULL when there is none */
    int32_t n_tokens;
    uint64_t stream;   /* seed of the request's random numbers */
    uint64_t n_output; /* tokens told by see_output: the number of the next random number */

    bool penalize;
    uint32_t *count; /* [n_tokens] SEEN | times in the output; NULL without penalties */
    hg_tok *seen;    /* [n_tokens] the first n_seen ids have a count; NULL without penalties */
    int32_t n_seen;

    float *row;             /* [n_tokens] corrected logits; NULL when nothing is corrected */
    float *best;            /* [top_k] heap of the largest logits */
    struct candidate *cand; /* [n_tokens]; NULL when greedy */
};

#define SEEN 0x80000000u

/* -------------------------------------------------------------------------------- create -- */

static enum hg_status check_number(const char *name, double v, bool ok, const char *want,
                                   struct hg_err *err)
{
    if (ok && isfinite(v)) return HG_OK;
    return hg_fail(err, HG_EINVAL, "%s: %g, must be %s", name, v, want);
}

static enum hg_status check(const struct hg_sampling *p, int32_t n_vocab, int32_t n_tokens,
                            struct hg_err *err)
{
    if (n_tokens <= 0 || n_tokens > n_vocab)
        return hg_fail(err, HG_EINVAL, "n_tokens: %d, must be in 1..%d", n_tokens, n_vocab);
    HG_TRY(check_number("temperature", p->temperature, p->temperature >= 0, "0 or more", err));
    if (p->top_k < 0)
        return hg_fail(err, HG_EINVAL, "top_k: %d, must be 0 (off) or more", p->top_k);
    HG_TRY(check_number("top_p", p->top_p, p->top_p > 0 && p->top_p <= 1, "in (0, 1]", err));
    HG_TRY(check_number("min_p", p->min_p, p->min_p >= 0 && p->min_p <= 1, "in [0, 1]", err));
    HG_TRY(check_number("repetition_penalty", p->repetition_penalty, p->repetition_penalty > 0,
                        "above 0", err));
    HG_TRY(check_number("presence_penalty", p->presence_penalty, true, "a finite number", err));
    HG_TRY(check_number("frequency_penalty", p->frequency_penalty, true, "a finite number", err));
    if (p->n_bias < 0 || (p->n_bias > 0 && !p->bias))
        return hg_fail(err, HG_EINVAL, "logit_bias: %d entries without a list", p->n_bias);
    for (int32_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].id < 0 || p->bias[i].id >= n_vocab)
            return hg_fail(err, HG_EINVAL, "logit_bias: token %d, must be in 0..%d", p->bias[i].id,
                           n_vocab - 1);
        if (!isfinite(p->bias[i].bias))
            return hg_fail(err, HG_EINVAL, "logit_bias of token %d: %g, must be a finite number",
                           p->bias[i].id, (double)p->bias[i].bias);
    }
    return HG_OK;
}

static uint64_t fresh_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed) return seed;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* An array of n elements, at least one; *ok becomes false when memory is out. */
static void *array(size_t n, size_t size, bool *ok)
{
    void *p = calloc(n ? n : 1, size);
    if (!p) *ok = false;
    return p;
}

enum hg_status hg_sampler_create(const struct hg_sampling *p, int32_t n_vocab, int32_t n_tokens,
                                 struct hg_sampler **out, struct hg_err *err)
{
    *out = NULL;
    HG_TRY(check(p, n_vocab, n_tokens, err));
    struct hg_sampler *s = calloc(1, sizeof *s);
    if (!s) return hg_fail(err, HG_ENOMEM, "sampler: out of memory");
    s->p = *p;
    s->p.bias = NULL;
    s->n_tokens = n_tokens;
    if (p->top_k >= n_tokens) s->p.top_k = 0;
    /* Mixed once, so that neighbouring seeds do not share parts of one sequence. */
    struct hg_rng rng = {p->has_seed ? p->seed : fresh_seed()};
    s->stream = hg_rng_u64(&rng);
    s->penalize =
        p->repetition_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;

    bool ok = true;
    size_t n = (size_t)n_tokens;
    if (p->n_bias > 0) {
        s->bias = array((size_t)p->n_bias, sizeof *s->bias, &ok);
        if (s->bias) memcpy(s->bias, p->bias, (size_t)p->n_bias * sizeof *s->bias);
    }
    if (s->penalize) s->count = array(n, sizeof *s->count, &ok);
    if (s->penalize) s->seen = array(n, sizeof *s->seen, &ok);
    if (s->penalize || p->n_bias > 0) s->row = array(n, sizeof *s->row, &ok);
    if (p->temperature > 0) s->best = array((size_t)s->p.top_k, sizeof *s->best, &ok);
    if (p->temperature > 0) s->cand = array(n, sizeof *s->cand, &ok);
    if (!ok) {
        hg_sampler_free(s);
        return hg_fail(err, HG_ENOMEM, "sampler: out of memory for %d tokens", n_tokens);
    }
    *out = s;
    return HG_OK;
}

void hg_sampler_free(struct hg_sampler *s)
{
    if (!s) return;
    free(s->bias);
    free(s->count);
    free(s->seen);
    free(s->row);
    free(s->best);
    free(s->cand);
    free(s);
}

/* --------------------------------------------------------------------- bias and penalties -- */

static void see(struct hg_sampler *s, hg_tok id, uint32_t n)
{
    if (!s->penalize || id < 0 || id >= s->n_tokens) return;
    if (!s->count[id]) s->seen[s->n_seen++] = id;
    s->count[id] = (s->count[id] | SEEN) + n;
}

void hg_sampler_see_prompt(struct hg_sampler *s, const hg_tok *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) see(s, ids[i], 0);
}

void hg_sampler_see_output(struct hg_sampler *s, hg_tok id)
{
    see(s, id, 1);
    s->n_output++;
}

/* The row to draw from: bias first, then the penalties, as in HF. */
static const float *correct(struct hg_sampler *s, const float *logits)
{
    if (!s->row) return logits;
    memcpy(s->row, logits, (size_t)s->n_tokens * sizeof *logits);
    for (int32_t i = 0; i < s->p.n_bias; i++) {
        const struct hg_logit_bias *b = &s->bias[i];
        if (b->id >= s->n_tokens) continue;
        s->row[b->id] = b->bias <= -100 ? -INFINITY : s->row[b->id] + b->bias;
    }
    for (int32_t i = 0; i < s->n_seen; i++) {
        float *z = &s->row[s->seen[i]];
        uint32_t n = s->count[s->seen[i]] & ~SEEN;
        *z = *z > 0 ? *z / s->p.repetition_penalty : *z * s->p.repetition_penalty;
        if (n > 0) *z -= (float)n * s->p.frequency_penalty + s->p.presence_penalty;
    }
    return s->row;
}

/* ------------------------------------------------------------------------------ selection -- */

/* The largest of the row, -inf when it holds nothing else than that and NaN. In lanes, since a
 * single chain of maxima is bound by latency. */
static float row_max(const float *z, int32_t n)
{
    enum { LANES = 16 };
    float lane[LANES], max = -INFINITY;
    int32_t i = 0;
    for (int j = 0; j < LANES; j++) lane[j] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] = z[i + j] > lane[j] ? z[i + j] : lane[j];
    for (int j = 0; j < LANES; j++) max = lane[j] > max ? lane[j] : max;
    for (; i < n; i++) max = z[i] > max ? z[i] : max;
    return max;
}

static hg_tok first_equal(const float *z, int32_t n, float v)
{
    for (int32_t i = 0; i < n; i++)
        if (z[i] == v) return i;
    return -1;
}

/* The k-th largest of the row; -inf when it has fewer. A heap of the k largest so far, the
 * smallest on top: nearly all of a long row fails the one comparison with the top. */
static float kth_largest(const float *z, int32_t n, float *heap, int32_t k)
{
    for (int32_t i = 0; i < k; i++) heap[i] = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        float v = z[i];
        if (!(v > heap[0])) continue;
        int32_t at = 0;
        for (int32_t child; (child = 2 * at + 1) < k; at = child) {
            if (child + 1 < k && heap[child + 1] < heap[child]) child++;
            if (heap[child] >= v) break;
            heap[at] = heap[child];
        }
        heap[at] = v;
    }
    return heap[0];
}

/* Fills cand, in order of ids, with the tokens at or over `least` that have any weight; returns
 * how many, and the sum of their weights. */
static int32_t gather(struct hg_sampler *s, const float *z, float max, float least, double *sum)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_tokens; i++) {
        s->cand[n] = (struct candidate){z[i], i};
        n += z[i] >= least && z[i] > -INFINITY;
    }
    double scale = 1 / (double)s->p.temperature;
    int32_t n_kept = 0;
    *sum = 0;
    for (int32_t i = 0; i < n; i++) {
        struct candidate c = s->cand[i];
        /* Infinite maxima are equal to themselves, yet their difference is NaN. */
        double d = c.weight == max ? 0 : ((double)c.weight - (double)max) * scale;
        if (d < MIN_EXPONENT) continue;
        c.weight = expf((float)d);
        s->cand[n_kept++] = c;
        *sum += (double)c.weight;
    }
    return n_kept;
}

static bool before(struct candidate a, struct candidate b)
{
    return a.weight > b.weight || (a.weight == b.weight && a.id < b.id);
}

static void sift(struct candidate *heap, int32_t n, int32_t at)
{
    struct candidate c = heap[at];
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], c)) break;
        heap[at] = heap[child];
    }
    heap[at] = c;
}

/* Keeps the smallest set of the best candidates that weighs top_p of the sum. They end up at the
 * *end* of cand[0..n), the best last; returns where they begin. */
static int32_t keep_top_p(struct candidate *cand, int32_t n, double sum, double top_p)
{
    int32_t n_heap = n;
    for (int32_t i = n / 2 - 1; i >= 0; i--) sift(cand, n, i);
    double kept = 0;
    while (n_heap > 0 && (n_heap == n || kept < top_p * sum)) {
        struct candidate best = cand[0];
        cand[0] = cand[--n_heap];
        cand[n_heap] = best;
        if (n_heap > 0) sift(cand, n_heap, 0);
        kept += (double)best.weight;
    }
    return n_heap;
}

/* Drops what is too light to be needed for top_p: less in total than the share left out. */
static int32_t drop_light(struct candidate *cand, int32_t n, double sum, double top_p)
{
    double least = (1 - top_p) * sum / n;
    int32_t n_kept = 0;
    for (int32_t i = 0; i < n; i++) {
        struct candidate c = cand[i];
        cand[n_kept] = c;
        n_kept += (double)c.weight >= least;
    }
    return n_kept;
}

hg_tok hg_sampler_draw(struct hg_sampler *s, const float *logits)
{
    const float *z = correct(s, logits);
    float max = row_max(z, s->n_tokens), least = -INFINITY;
    if (max == -INFINITY) return -1;
    if (s->p.temperature == 0) return first_equal(z, s->n_tokens, max);

    double sum;
    if (s->p.top_k > 0) least = kth_largest(z, s->n_tokens, s->best, s->p.top_k);
    struct candidate *cand = s->cand;
    int32_t n = gather(s, z, max, least, &sum), begin = 0;
    if (s->p.top_p < 1) {
        n = drop_light(cand, n, sum, (double)s->p.top_p);
        begin = keep_top_p(cand, n, sum, (double)s->p.top_p);
    }
    double kept = 0;
    for (int32_t i = begin; i < n; i++) {
        if (cand[i].weight < s->p.min_p) cand[i].weight = 0;
        kept += (double)cand[i].weight;
    }
    struct hg_rng rng = {s->stream + s->n_output * 0x9E3779B97F4A7C15u};
    double u = hg_rng_f64(&rng) * kept;
    hg_tok drawn = -1;
    for (int32_t i = begin; i < n; i++) {
        if (cand[i].weight == 0) continue;
        drawn = cand[i].id;
        u -= (double)cand[i].weight;
        if (u < 0) break;
    }
    return drawn;
}
