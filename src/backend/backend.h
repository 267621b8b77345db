/* backend.h: a device as a const table of functions and a context. ref/ is the scalar oracle,
 * cpu/ the fast host one; other devices implement the same table.
 *
 * Memory: what `alloc` returns is device memory (zeroed). Ops run in call order on one thread
 * (the caller's); `sync` waits for them. Only open, alloc, matrix_load and plan may allocate. */
#ifndef HG_BACKEND_BACKEND_H
#define HG_BACKEND_BACKEND_H

#include "backend/ops.h"

struct hg_backend;

struct hg_backend_ops {
    void (*close)(struct hg_backend *be);
    enum hg_status (*alloc)(struct hg_backend *be, size_t n, void **out, struct hg_err *err);
    void (*free)(struct hg_backend *be, void *p);
    void (*upload)(struct hg_backend *be, void *dst, const void *src, size_t n);
    void (*download)(struct hg_backend *be, void *dst, const void *src, size_t n);
    void (*copy)(struct hg_backend *be, void *dst, const void *src, size_t n);
    void (*zero)(struct hg_backend *be, void *dst, size_t n);
    void (*sync)(struct hg_backend *be);
    /* act [n] -> fp32 on the host. */
    void (*read_act)(struct hg_backend *be, float *dst, const void *src, size_t n);

    enum hg_status (*matrix_load)(struct hg_backend *be, const struct hg_matrix_src *src,
                                  struct hg_matrix *out, struct hg_err *err);
    void (*matrix_free)(struct hg_backend *be, struct hg_matrix *m);
    size_t (*kv_page_bytes)(struct hg_backend *be, enum hg_kv dtype, int32_t n_kv_heads,
                            int32_t d_head);
    /* Called once per step before its ops. */
    enum hg_status (*plan)(struct hg_backend *be, const struct hg_plan *p, struct hg_err *err);

    void (*embed)(struct hg_backend *be, const struct hg_embed_args *a);
    void (*rmsnorm)(struct hg_backend *be, const struct hg_rmsnorm_args *a);
    void (*gemm)(struct hg_backend *be, const struct hg_gemm_args *a);
    void (*silu_mul)(struct hg_backend *be, const struct hg_silu_mul_args *a);
    void (*attn_in)(struct hg_backend *be, const struct hg_attn_in_args *a);
    void (*attn)(struct hg_backend *be, const struct hg_attn_args *a);
    void (*gdn_conv)(struct hg_backend *be, const struct hg_gdn_conv_args *a);
    void (*gdn)(struct hg_backend *be, const struct hg_gdn_args *a);
    void (*gdn_commit)(struct hg_backend *be, const struct hg_gdn_commit_args *a);
    void (*kv_move)(struct hg_backend *be, const struct hg_kv_move_args *a);
    void (*gather)(struct hg_backend *be, const struct hg_gather_args *a);

    /* Name of the kernel that would run, for logs and tests: variant(be, "gemm"). */
    const char *(*variant)(struct hg_backend *be, const char *op);
};

struct hg_backend {
    const struct hg_backend_ops *ops;
    const char *name; /* "cpu:avx2" */
    size_t act_size;  /* bytes of one activation */
    int32_t n_threads;
    int32_t max_rows; /* rows of the largest step (workspace is sized for it) */
};

struct hg_backend_params {
    const char *device; /* "auto", "cpu", "cpu:<isa>", "ref", "ref:chunked"; NULL = auto */
    int32_t n_threads;  /* 0 = one per core */
    int32_t max_rows;
};

/* Errors: EINVAL (unknown device: lists what there is), EUNSUP (the machine lacks it). */
enum hg_status hg_backend_open(const struct hg_backend_params *p, struct hg_backend **out,
                               struct hg_err *err);
void hg_backend_close(struct hg_backend *be); /* NULL is fine */
/* i-th device name that can be opened here, or NULL past the last. */
const char *hg_backend_device(int32_t i);

/* The oracle: fp32 scalar code, in the order of the formulas. device "ref": recurrent GDN for
 * every step; "ref:chunked": chunked form (C = 64) for EXTEND, tree form for VERIFY. */
enum hg_status hg_ref_open(const struct hg_backend_params *p, struct hg_backend **out,
                           struct hg_err *err);
/* The fast host backend. isa NULL = the best this machine has. */
enum hg_status hg_cpu_open(const struct hg_backend_params *p, const char *isa,
                           struct hg_backend **out, struct hg_err *err);
/* i-th instruction-set variant this machine can run ("avx2", "portable"), best first, or NULL. */
const char *hg_cpu_isa(int32_t i);

/* Host-memory implementations of alloc, free, copies and plan, for host backends. */
enum hg_status hg_host_alloc(struct hg_backend *be, size_t n, void **out, struct hg_err *err);
void hg_host_free(struct hg_backend *be, void *p);
void hg_host_copy(struct hg_backend *be, void *dst, const void *src, size_t n);
void hg_host_zero(struct hg_backend *be, void *dst, size_t n);
void hg_host_sync(struct hg_backend *be);
void hg_host_read_act(struct hg_backend *be, float *dst, const void *src, size_t n); /* fp32 act */
enum hg_status hg_host_plan(struct hg_backend *be, const struct hg_plan *p, struct hg_err *err);

#endif
