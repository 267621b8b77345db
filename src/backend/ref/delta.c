/* The gated delta rule for one v-head in its three forms; formulas: doc/model.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ref/ref.h"

enum { CHUNK = 64 };

/* S <- e^g S; delta = beta (v - k^T S); S <- S + k delta^T; o = q^T S. */
void ref_delta_recurrent(int32_t n, int32_t d_k, int32_t d_v, const float *q, const float *k,
                         const float *v, const float *g, const float *beta, float *s, float *o)
{
    for (int32_t t = 0; t < n; t++) {
        float alpha = expf(g[t]);
        for (int32_t j = 0; j < d_v; j++) {
            float read = 0, out = 0;
            for (int32_t i = 0; i < d_k; i++) read += k[t * d_k + i] * (alpha * s[i * d_v + j]);
            float delta = beta[t] * (v[t * d_v + j] - read);
            for (int32_t i = 0; i < d_k; i++) {
                float *cell = &s[i * d_v + j];
                *cell = alpha * *cell + k[t * d_k + i] * delta;
                out += q[t * d_k + i] * *cell;
            }
            o[t * d_v + j] = out;
        }
    }
}

static float dot(const float *a, const float *b, int32_t n)
{
    float sum = 0;
    for (int32_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* The tree form; a chunk is the tree in which every node's parent is the node before it.
 *   c_n = g_n + c_parent;  R = (I + M)^-1 B,  M[n,j] = beta_n e^{c_n - c_j} k_n.k_j (j above n),
 *   B_n = beta_n (v_n - e^{c_n} k_n^T S);  o_n = e^{c_n} q_n^T S + sum_j e^{c_n - c_j} q_n.k_j R_j
 * r: [n][d_v] and c: [n] are left for the state update. */
static void tree_solve(int32_t n, const int32_t *parent, int32_t d_k, int32_t d_v, const float *q,
                       const float *k, const float *v, const float *g, const float *beta,
                       const float *s, float *c, float *r, float *o)
{
    for (int32_t t = 0; t < n; t++) {
        c[t] = g[t] + (parent[t] >= 0 ? c[parent[t]] : 0);
        float gamma = expf(c[t]);
        for (int32_t j = 0; j < d_v; j++) {
            float ks = 0, qs = 0;
            for (int32_t i = 0; i < d_k; i++) {
                ks += k[t * d_k + i] * s[i * d_v + j];
                qs += q[t * d_k + i] * s[i * d_v + j];
            }
            r[t * d_v + j] = beta[t] * (v[t * d_v + j] - gamma * ks);
            o[t * d_v + j] = gamma * qs;
        }
        for (int32_t a = parent[t]; a >= 0; a = parent[a]) {
            float m = beta[t] * expf(c[t] - c[a]) * dot(&k[t * d_k], &k[a * d_k], d_k);
            for (int32_t j = 0; j < d_v; j++) r[t * d_v + j] -= m * r[a * d_v + j];
        }
        for (int32_t a = t; a >= 0; a = parent[a]) {
            float w = expf(c[t] - c[a]) * dot(&q[t * d_k], &k[a * d_k], d_k);
            for (int32_t j = 0; j < d_v; j++) o[t * d_v + j] += w * r[a * d_v + j];
        }
    }
}

void ref_delta_tree(int32_t n, const int32_t *parent, int32_t d_k, int32_t d_v, const float *q,
                    const float *k, const float *v, const float *g, const float *beta,
                    const float *s, float *o)
{
    float *c = calloc((size_t)n * (1 + (size_t)d_v), sizeof *c);
    hg_assert(c);
    tree_solve(n, parent, d_k, d_v, q, k, v, g, beta, s, c, c + n, o);
    free(c);
}

void ref_delta_chunk(int32_t n, int32_t d_k, int32_t d_v, const float *q, const float *k,
                     const float *v, const float *g, const float *beta, float *s, float *o)
{
    int32_t parent[CHUNK];
    float *c = calloc(CHUNK * (1 + (size_t)d_v), sizeof *c), *r = c + CHUNK;
    hg_assert(c);
    for (int32_t i = 0; i < CHUNK; i++) parent[i] = i - 1;
    for (int32_t t = 0; t < n; t += CHUNK) {
        int32_t m = n - t < CHUNK ? n - t : CHUNK;
        tree_solve(m, parent, d_k, d_v, q + t * d_k, k + t * d_k, v + t * d_v, g + t, beta + t, s,
                   c, r, o + t * d_v);
        /* S <- e^{c_last} S + sum_j e^{c_last - c_j} k_j R_j^T */
        for (int32_t i = 0; i < d_k; i++)
            for (int32_t j = 0; j < d_v; j++) {
                float sum = expf(c[m - 1]) * s[i * d_v + j];
                for (int32_t a = 0; a < m; a++)
                    sum += expf(c[m - 1] - c[a]) * k[(t + a) * d_k + i] * r[a * d_v + j];
                s[i * d_v + j] = sum;
            }
    }
    free(c);
}
