/* rng.h: small seeded generator (splitmix64) for sampling, dummy weights and tests: the same
 * seed gives the same numbers on every machine. */
#ifndef HG_BASE_RNG_H
#define HG_BASE_RNG_H

#include <stdint.h>

struct hg_rng {
    uint64_t s;
};

static inline uint64_t hg_rng_u64(struct hg_rng *r)
{
    uint64_t z = (r->s += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1), 53 bits. */
static inline double hg_rng_f64(struct hg_rng *r)
{
    return (double)(hg_rng_u64(r) >> 11) * 0x1p-53;
}

/* Uniform in [0, n); n > 0. The modulo bias is below 2^-32 for n < 2^32. */
static inline uint32_t hg_rng_below(struct hg_rng *r, uint32_t n)
{
    return (uint32_t)(((hg_rng_u64(r) >> 32) * n) >> 32);
}

/* Approximately normal: sum of four uniforms, scaled to variance 1. */
static inline float hg_rng_normal(struct hg_rng *r)
{
    uint64_t a = hg_rng_u64(r);
    float s = (float)(a & 0xffff) + (float)((a >> 16) & 0xffff) + (float)((a >> 32) & 0xffff) +
              (float)(a >> 48);
    return (s - 131070.0f) * (1.7320508f / 65536.0f);
}

#endif
