#!/usr/bin/env python3
"""The forward pass of the Qwen3.5 dense hybrid in numpy: the executable description of the model,
and the oracle of its oracle (make_tiny.py checks it against transformers).

    tools/ref_model.py MODEL_DIR --ids 1,2,3 [--top 10]

prints the largest logits behind the last id. Everything is computed in float64 from the stored
weights (quantized ones: dequantized; activations are never quantized), token by token where the
model is recurrent. Slow, and meant to be read from top to bottom; needs numpy only.

Shapes: T tokens, d = hidden_size, V = vocab_size; attention: H heads, G kv heads of D dims;
gated delta net: K key heads of dk dims, N value heads of dv dims.
"""
import argparse
import json
import mmap
import os
import struct

import numpy as np

# ------------------------------------------------------------------------------ checkpoint --

NUMPY_DTYPE = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "F8_E4M3": "u1", "U8": "u1",
    "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "BOOL": "?",
}  # fmt: skip


def e4m3_table():
    """The 256 values of F8_E4M3: 1 sign, 4 exponent (bias 7) and 3 mantissa bits, no infinities."""
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, code & 7
    value = np.where(
        exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    )
    value[code & 127 == 127] = np.nan
    return np.where(code & 128, -value, value)


E4M3 = e4m3_table()
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
NVFP4_GROUP = 16


def read_safetensors(path):
    """{name: (dtype name, array)} of one file. BF16 and F8_E4M3 arrays hold the raw codes."""
    with open(path, "rb") as f:
        image = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    (n,) = struct.unpack("<Q", image[:8])
    header = json.loads(image[8 : 8 + n])
    header.pop("__metadata__", None)
    out = {}
    for name, t in header.items():
        dtype, shape = np.dtype(NUMPY_DTYPE[t["dtype"]]), t["shape"]
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(image, dtype, count, 8 + n + t["data_offsets"][0])
        out[name] = (t["dtype"], array.reshape(shape))
    return out


def decode(dtype, array):
    """Stored elements as float64."""
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype == "F8_E4M3":
        return E4M3[array]
    return array.astype(np.float64)


def nvfp4_decode(codes, scale, scale_2):
    """codes U8 [n, k/2] (low nibble = even k), scale [n, k/16], scale_2 scalar -> W [n, k]."""
    n, half = codes.shape
    w = np.empty((n, 2 * half))
    w[:, 0::2] = E2M1[codes & 15]
    w[:, 1::2] = E2M1[codes >> 4]
    return w * np.repeat(scale, NVFP4_GROUP, axis=1) * scale_2


def fp8_block_decode(w, scale_inv, block=128):
    """W [n, k] with one multiplier per block x block tile."""
    n, k = w.shape
    return w * np.repeat(np.repeat(scale_inv, block, 0)[:n], block, 1)[:, :k]


class Checkpoint:
    """A model directory: its config and its tensors by name, without the prefix of the body."""

    PREFIXES = ("model.language_model.", "language_model.model.", "model.")

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            self.root = json.load(f)
        self.config = self.root.get("text_config") or self.root
        index = os.path.join(folder, "model.safetensors.index.json")
        files = ["model.safetensors"]
        if os.path.exists(index):
            with open(index, encoding="utf-8") as f:
                files = sorted(set(json.load(f)["weight_map"].values()))
        self.tensors = {}
        for file in files:
            for name, tensor in read_safetensors(os.path.join(folder, file)).items():
                self.tensors[self.short(name)] = tensor

    def short(self, name):
        for prefix in self.PREFIXES:
            if name.startswith(prefix):
                return name[len(prefix) :]
        return name

    def has(self, name):
        return name in self.tensors

    def vector(self, name):
        return decode(*self.tensors[name])

    def matrix(self, name):
        """NAME.weight [n, k], dequantized by what lies beside it."""
        dtype, raw = self.tensors[name + ".weight"]
        if dtype == "U8":
            scale, scale_2 = (
                self.vector(name + suffix) for suffix in (".weight_scale", ".weight_scale_2")
            )
            return nvfp4_decode(raw, scale, scale_2)
        w = decode(dtype, raw)
        if self.has(name + ".weight_scale_inv"):
            return fp8_block_decode(w, self.vector(name + ".weight_scale_inv"))
        if self.has(name + ".weight_scale"):  # per tensor, or [n, 1] per row
            return w * self.vector(name + ".weight_scale")
        return w


# ------------------------------------------------------------------------------- functions --


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return np.logaddexp(0, x)


def rms_norm(x, weight, eps):
    """The ordinary norm: its weight is stored minus one."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * (1 + weight)


def l2_norm(x):
    """Of q and k in the gated delta net: sum, not mean."""
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + 1e-6)


def rope(x, position, n_rotated, theta):
    """Rotates the pairs (i, i + n_rotated/2) of x [T, heads, D]; dims from n_rotated on stay.
    The three position rows of mRoPE are equal for text, so this is all of it."""
    half = n_rotated // 2
    angle = np.outer(position, theta ** (-2.0 * np.arange(half) / n_rotated))[:, None, :]
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = x[..., :half], x[..., half:n_rotated]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., n_rotated:]], axis=-1)


def causal_conv(x, weight):
    """Depthwise over time: x [T, C], weight [C, 4]; weight[:, 3] meets the current token."""
    taps = weight.shape[1]
    padded = np.concatenate([np.zeros((taps - 1, x.shape[1])), x])
    return sum(padded[j : j + len(x)] * weight[:, j] for j in range(taps))


def delta_rule(q, k, v, alpha, beta):
    """The recurrence. q, k [T, N, dk], v [T, N, dv], alpha, beta [T, N] -> o [T, N, dv].
    S decays first, the error of its prediction of v is written at k, then q reads."""
    state = np.zeros((q.shape[1], q.shape[2], v.shape[2]))  # [N, dk, dv]
    out = np.empty_like(v)
    for t in range(len(q)):
        state *= alpha[t][:, None, None]
        predicted = (k[t][:, None, :] @ state)[:, 0]
        delta = beta[t][:, None] * (v[t] - predicted)
        state += k[t][:, :, None] * delta[:, None, :]
        out[t] = (q[t][:, None, :] @ state)[:, 0]
    return out


# ----------------------------------------------------------------------------------- model --


class Model:
    """hidden(ids) -> [T, d] behind the final norm; logits(ids) -> [T, V]; draft_logits: MTP."""

    def __init__(self, folder):
        self.ckpt = ck = Checkpoint(folder)
        c = self.c = ck.config
        self.eps = c.get("rms_norm_eps", 1e-6)
        self.head_dim = c.get("head_dim", 256)
        rope_parameters = c.get("rope_parameters") or c
        self.theta = float(rope_parameters.get("rope_theta", 10000.0))
        self.n_rotated = int(self.head_dim * rope_parameters.get("partial_rotary_factor", 0.25))
        self.full = self.full_attention_layers()
        self.embedding = ck.matrix("embed_tokens")
        tied = ck.root.get("tie_word_embeddings", c.get("tie_word_embeddings", False))
        self.lm_head = self.embedding if tied else ck.matrix("lm_head")
        self.cache = {}

    def full_attention_layers(self):
        n, types = self.c["num_hidden_layers"], self.c.get("layer_types")
        if types is None:
            interval = self.c.get("full_attention_interval", 4)
            return [(i + 1) % interval == 0 for i in range(n)]
        return [{"full_attention": True, "linear_attention": False}[t] for t in types]

    def linear(self, name, x):
        """W x for every row of x. Decoded weights are kept: meant for small models."""
        if name not in self.cache:
            self.cache[name] = self.ckpt.matrix(name)
        return x @ self.cache[name].T

    def norm(self, name, x):
        return rms_norm(x, self.ckpt.vector(name + ".weight"), self.eps)

    def attention(self, name, x, position):
        """Gated attention; x [T, d] is normed already."""
        n_tokens, D = len(x), self.head_dim
        H, G = self.c["num_attention_heads"], self.c["num_key_value_heads"]
        # Rows of q_proj: per head D of the query, then D of its gate.
        query_gate = self.linear(name + "q_proj", x).reshape(n_tokens, H, 2, D)
        q, gate = query_gate[:, :, 0], query_gate[:, :, 1]
        k = self.linear(name + "k_proj", x).reshape(n_tokens, G, D)
        v = self.linear(name + "v_proj", x).reshape(n_tokens, G, D)
        q = rope(self.norm(name + "q_norm", q), position, self.n_rotated, self.theta)
        k = rope(self.norm(name + "k_norm", k), position, self.n_rotated, self.theta)
        future = np.triu(np.ones((n_tokens, n_tokens), dtype=bool), 1)
        out = np.empty((n_tokens, H, D))
        for h in range(H):
            g = h // (H // G)
            score = q[:, h] @ k[:, g].T / np.sqrt(D)
            score[future] = -np.inf
            weight = np.exp(score - score.max(axis=1, keepdims=True))
            out[:, h] = weight @ v[:, g] / weight.sum(axis=1, keepdims=True)
        return self.linear(name + "o_proj", (out * sigmoid(gate)).reshape(n_tokens, H * D))

    def gated_delta_net(self, name, x):
        """x [T, d] is normed already."""
        ck, c, n_tokens = self.ckpt, self.c, len(x)
        K, N = c["linear_num_key_heads"], c["linear_num_value_heads"]
        dk, dv = c["linear_key_head_dim"], c["linear_value_head_dim"]
        mixed = self.linear(name + "in_proj_qkv", x)  # channels q | k | v
        mixed = silu(causal_conv(mixed, ck.vector(name + "conv1d.weight")[:, 0]))
        q, k, v = np.split(mixed, [K * dk, 2 * K * dk], axis=1)
        # Value head n works with key head n // (N/K).
        q = np.repeat(l2_norm(q.reshape(n_tokens, K, dk)), N // K, axis=1) / np.sqrt(dk)
        k = np.repeat(l2_norm(k.reshape(n_tokens, K, dk)), N // K, axis=1)
        beta = sigmoid(self.linear(name + "in_proj_b", x))
        a = self.linear(name + "in_proj_a", x)
        rate = np.exp(ck.vector(name + "A_log"))
        alpha = np.exp(-rate * softplus(a + ck.vector(name + "dt_bias")))
        o = delta_rule(q, k, v.reshape(n_tokens, N, dv), alpha, beta)
        # The one norm with a plain weight, per value head, before the gate.
        o = rms_norm(o, ck.vector(name + "norm.weight") - 1, self.eps)
        o *= silu(self.linear(name + "in_proj_z", x)).reshape(n_tokens, N, dv)
        return self.linear(name + "out_proj", o.reshape(n_tokens, N * dv))

    def block(self, name, x, full, position):
        """One layer on the residual stream x [T, d]."""
        y = self.norm(name + "input_layernorm", x)
        if full:
            x = x + self.attention(name + "self_attn.", y, position)
        else:
            x = x + self.gated_delta_net(name + "linear_attn.", y)
        y = self.norm(name + "post_attention_layernorm", x)
        y = silu(self.linear(name + "mlp.gate_proj", y)) * self.linear(name + "mlp.up_proj", y)
        return x + self.linear(name + "mlp.down_proj", y)

    def hidden(self, ids):
        x = self.embedding[np.asarray(ids)]
        for i, full in enumerate(self.full):
            x = self.block("layers.%d." % i, x, full, np.arange(len(x)))
        return self.norm("norm", x)

    def logits(self, ids):
        return self.hidden(ids) @ self.lm_head.T

    def draft_logits(self, ids, hidden):
        """The MTP head. Row p pairs hidden[p] (what hidden() gives for token p) with the token
        behind it, ids[p+1], and predicts ids[p+2] -> ([T-1, d] for the next depth, [T-1, V])."""
        e = self.norm("mtp.pre_fc_norm_embedding", self.embedding[np.asarray(ids[1:])])
        u = self.norm("mtp.pre_fc_norm_hidden", hidden[: len(e)])
        x = self.linear("mtp.fc", np.concatenate([e, u], axis=1))
        x = self.norm("mtp.norm", self.block("mtp.layers.0.", x, True, np.arange(len(x))))
        own_head = self.ckpt.has("mtp.lm_head.weight")
        return x, self.linear("mtp.lm_head", x) if own_head else x @ self.lm_head.T


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", help="directory with config.json and safetensors")
    parser.add_argument("--ids", required=True, help="token ids, comma-separated")
    parser.add_argument("--top", type=int, default=10, help="logits to print (default 10)")
    options = parser.parse_args()
    model = Model(options.model)
    ids = [int(i) for i in options.ids.split(",")]
    for i in ids:
        if not 0 <= i < len(model.embedding):
            parser.error("id %d is outside the vocabulary of %d" % (i, len(model.embedding)))
    last = model.logits(ids)[-1]
    for i in np.argsort(-last)[: options.top]:
        print("%7d  %10.5f" % (i, last[i]))


if __name__ == "__main__":
    main()
