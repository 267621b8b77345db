#include "model/state.h"

/* One contiguous piece of a slot or page in device memory. */
struct piece {
    char *base; /* of number 0 */
    size_t n;   /* bytes of one */
};

/* The pieces of a slot (GDN layers) or page (attention layers) in layer i; returns how many. */
static int32_t slot_pieces(const struct hg_model *m, int32_t i, struct piece out[2])
{
    const struct hg_gdn_state *s = &m->mem[i].state;
    if (m->w.layer[i].kind != HG_LAYER_GDN) return 0;
    size_t cells = (size_t)s->dims.n_v_heads * (size_t)s->dims.d_k * (size_t)s->dims.d_v;
    out[0] = (struct piece){(char *)s->s, cells * sizeof(float)};
    out[1] = (struct piece){s->conv, 3 * (size_t)s->conv_dim * m->be->act_size};
    return 2;
}

static int32_t page_pieces(const struct hg_model *m, int32_t i, struct piece out[2])
{
    const struct hg_kv_layer *kv = &m->mem[i].kv;
    if (m->w.layer[i].kind != HG_LAYER_ATTN) return 0;
    out[0] = (struct piece){(char *)kv->pool, kv->page_bytes};
    return 1;
}

typedef int32_t pieces_fn(const struct hg_model *m, int32_t layer, struct piece out[2]);

enum move { COPY, READ, WRITE, RESET };

/* Number `id` of every layer's pieces: copied to number `dst`, to or from the image, or zeroed. */
static void move(struct hg_model *m, pieces_fn *pieces, enum move how, int32_t id, int32_t dst,
                 char *image)
{
    const struct hg_backend_ops *op = m->be->ops;
    for (int32_t i = 0; i < m->cfg.n_layers; i++) {
        struct piece p[2];
        for (int32_t j = 0, n = pieces(m, i, p); j < n; j++) {
            char *at = p[j].base + (size_t)id * p[j].n;
            switch (how) {
            case COPY: op->copy(m->be, p[j].base + (size_t)dst * p[j].n, at, p[j].n); break;
            case READ: op->download(m->be, image, at, p[j].n); break;
            case WRITE: op->upload(m->be, at, image, p[j].n); break;
            case RESET: op->zero(m->be, at, p[j].n); break;
            }
            if (image) image += p[j].n;
        }
    }
}

void hg_slot_reset(struct hg_model *m, int32_t slot)
{
    move(m, slot_pieces, RESET, slot, 0, NULL);
}

void hg_slot_copy(struct hg_model *m, int32_t dst, int32_t src)
{
    move(m, slot_pieces, COPY, src, dst, NULL);
}

void hg_slot_read(struct hg_model *m, int32_t slot, void *image)
{
    move(m, slot_pieces, READ, slot, 0, image);
}

void hg_slot_write(struct hg_model *m, int32_t slot, const void *image)
{
    move(m, slot_pieces, WRITE, slot, 0, (char *)(uintptr_t)image);
}

void hg_page_copy(struct hg_model *m, int32_t dst, int32_t src)
{
    move(m, page_pieces, COPY, src, dst, NULL);
}

void hg_page_read(struct hg_model *m, int32_t page, void *image)
{
    move(m, page_pieces, READ, page, 0, image);
}

void hg_page_write(struct hg_model *m, int32_t page, const void *image)
{
    move(m, page_pieces, WRITE, page, 0, (char *)(uintptr_t)image);
}
