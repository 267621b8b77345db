#!/usr/bin/env python3
"""Writes tests/golden/tiny: tiny checkpoints with random weights, and what transformers'
Qwen3_5ForCausalLM answers on them.

    python3 tools/make_tiny.py --out tests/golden/tiny [--case NAME] --seed 1

Needs torch, transformers >= 5.17 and numpy; no network, no GPU (CPU, float32, eager attention, the
torch path of the delta rule). About a minute. The same seed gives the same weights and ids. Each
CASE/ holds config.json, the weights (one file or shards) and vectors.safetensors:

    ids     I32 [1000]       one random prompt; the shorter ones are its prefixes
    lengths I32 [11]         1 2 3 4 63 64 65 127 128 129 1000
    logits  F32 [11, vocab]  of the last position of ids[:length], each length a run of its own
    all65   F32 [65, vocab]  of every position of the run of length 65
    mtp65   F32 [64, vocab]  only with an MTP head, and from ref_model.py (transformers has no
                             MTP): row p pairs the hidden state of ids[p] with ids[p + 1]

Weights are rounded to their storage type (or to NVFP4) first; both oracles, transformers in float32
and the numpy twin ref_model.py in float64, then see the stored values. The script fails unless
they agree.

What is committed is held small by MAX_BYTES and MAX_BYTES_TOTAL. With b bytes per weight (F32 4,
BF16 and F16 2, NVFP4 0.5625) and the letters of the case table, f32-deep for example:
    embedding, head      V d b each                   128 x 56 x 4 x 2              =  57 KB
    attention layer      (3 H + 2 G) D d b            5 x 32 x 56 x 4, 3 layers     = 108 KB
    delta-net layer      (2 K dk + 3 N dv + 2 N) d b  214 x 56 x 4, 5 layers        = 240 KB
    MLP, every layer     3 f d b                      3 x 72 x 56 x 4, 8 layers     = 387 KB
    vectors              (11 + 65) V 4 + 4 KB         76 x 128 x 4 + 4 KB           =  43 KB
and 20 to 40 KB of headers, norms and convolutions.
"""
import argparse
import copy
import glob
import json
import os
import struct
import sys
import time
import traceback
import zlib

# The oracle is transformers' own torch code on the CPU: hide kernels and devices before it looks.
for package in ("fla", "causal_conv1d", "flash_attn"):
    sys.modules[package] = None
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")

import numpy as np  # noqa: E402

import ref_model  # noqa: E402

LENGTHS = [1, 2, 3, 4, 63, 64, 65, 127, 128, 129, 1000]
N_ALL = 65
BOUND, BOUND_LONG = 2e-4, 1e-3  # of max |a - b| / max |b|: up to N_ALL tokens, and beyond
LOGIT_STD = (0.7, 4.0)  # outside: the weights are not lively
MAX_BYTES, MAX_BYTES_TOTAL = 1_200_000, 6_000_000

# layers: one letter per layer, A = full attention, L = linear (gated delta net).
# attn: H heads, G kv heads, D dims, rotated part. gdn: K key heads, N value heads, dk, dv.
# d: hidden_size, f: intermediate_size, V: vocab.
# dtype_of: storage type of the tensors whose names end so; nvfp4: what is quantized.
CASES = [
    dict(name="f32-tied", dtype="F32", d=48, f=88, vocab=160, tied=True, layers="AL",
         attn=(2, 1, 32, 0.5), gdn=(2, 2, 16, 16)),
    dict(name="bf16-sharded", dtype="BF16", d=104, f=120, vocab=192, layers="LAALL",
         attn=(3, 1, 64, 0.25), gdn=(1, 3, 32, 32), shards=5, theta=1e6),
    dict(name="f16-one-attn", dtype="F16", d=72, f=88, vocab=131, layers="LLLLAL",
         attn=(2, 2, 32, 0.5), gdn=(2, 4, 16, 32), eps=1e-5),
    dict(name="bf16-nested", dtype="BF16", d=64, f=96, vocab=256, layers="LLLA", derived=True,
         attn=(2, 1, 256, 0.25), gdn=(1, 2, 128, 128), shards=3, nested=True, theta=1e7,
         dtype_of={"A_log": "F32", "linear_attn.norm.weight": "F32", "dt_bias": "F16"}),
    dict(name="f32-deep", dtype="F32", d=56, f=72, vocab=128, layers="LAALLLLA",
         attn=(1, 1, 32, 0.25), gdn=(1, 3, 32, 16), shards=9),
    dict(name="bf16-mtp", dtype="BF16", d=40, f=56, vocab=200, tied=True, layers="ALLA", mtp=True,
         attn=(4, 2, 64, 0.5), gdn=(2, 6, 16, 24), shards=2, dtype_of={"A_log": "F32"}),
    dict(name="nvfp4", dtype="BF16", d=80, f=112, vocab=320, layers="LALLA",
         attn=(4, 2, 256, 0.25), gdn=(1, 3, 128, 128), theta=1e7, odd_offset=True,
         nvfp4=dict(skip=("in_proj_a", "in_proj_b"), lm_head=True, shared_scales=False)),
    dict(name="nvfp4-f16", dtype="F16", d=48, f=80, vocab=144, layers="ALA",
         attn=(3, 3, 64, 0.5), gdn=(2, 4, 32, 32), shards=4,
         nvfp4=dict(skip=(), lm_head=False, shared_scales=True)),
]  # fmt: skip

# ---------------------------------------------------------------------------------- config --


def text_config(case):
    H, G, D, rotated = case["attn"]
    K, N, dk, dv = case["gdn"]
    kinds = {"A": "full_attention", "L": "linear_attention"}
    c = {
        "model_type": "qwen3_5_text",
        "vocab_size": case["vocab"],
        "hidden_size": case["d"],
        "intermediate_size": case["f"],
        "num_hidden_layers": len(case["layers"]),
        "num_attention_heads": H,
        "num_key_value_heads": G,
        "head_dim": D,
        "hidden_act": "silu",
        "rms_norm_eps": case.get("eps", 1e-6),
        "attention_bias": False,
        "attn_output_gate": True,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": dk,
        "linear_value_head_dim": dv,
        "linear_num_key_heads": K,
        "linear_num_value_heads": N,
        "layer_types": [kinds[x] for x in case["layers"]],
        "tie_word_embeddings": case.get("tied", False),
        "mtp_num_hidden_layers": int(case.get("mtp", False)),
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 2048,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": case.get("theta", 1e4),
            "partial_rotary_factor": rotated,
        },
        "dtype": {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[case["dtype"]],
        "eos_token_id": case["vocab"] - 1,
    }
    if case.get("derived"):  # as in the first exports: every fourth layer is full
        del c["layer_types"]
        c["full_attention_interval"] = 4
    return c


def ignored_modules(rule):
    skipped = ["model.embed_tokens", "*linear_attn.conv1d"]
    skipped += ["*linear_attn." + s for s in rule["skip"]]
    return skipped + ([] if rule["lm_head"] else ["lm_head"])


def write_configs(case, folder):
    c = text_config(case)
    if case.get("nested"):
        vision = {"model_type": "qwen3_5_vision", "depth": 1, "hidden_size": 16}
        root = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5"}
        root.update(tie_word_embeddings=c["tie_word_embeddings"], dtype=c["dtype"])
        root.update(text_config=c, vision_config=vision)
    else:
        root = {"architectures": ["Qwen3_5ForCausalLM"], **c}
    if rule := case.get("nvfp4"):
        four = {"num_bits": 4, "type": "float", "group_size": ref_model.NVFP4_GROUP}
        ignore = ignored_modules(rule)
        group = {"targets": ["Linear"], "weights": four, "input_activations": four}
        root["quantization_config"] = {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "config_groups": {"group_0": group},
            "ignore": ignore,
        }
        quant = {"quant_algo": "NVFP4", "kv_cache_quant_algo": None}
        quant.update(group_size=ref_model.NVFP4_GROUP, exclude_modules=ignore)
        write_json(folder, "hf_quant_config.json", {"quantization": quant})
    write_json(folder, "config.json", root)


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


# --------------------------------------------------------------------------------- weights --


class Weights:
    """Float32 weights by tensor name (body without prefix), lively: each projection of a normed
    input has a standard deviation near 1, logits near 2, decays run from 0.5 to 0.999."""

    def __init__(self, case, rng):
        self.case, self.rng, self.tensors = case, rng, {}
        d, vocab, tied = case["d"], case["vocab"], case.get("tied", False)
        head_std = 2 / np.sqrt(d)
        self.normal("embed_tokens.weight", (vocab, d), head_std if tied else 1)
        self.normal("norm.weight", (d,), 0.2)
        if not tied:
            self.normal("lm_head.weight", (vocab, d), head_std)
        for i, kind in enumerate(case["layers"]):
            self.block("layers.%d." % i, kind)
        if case.get("mtp"):
            for norm in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
                self.normal("mtp.%s.weight" % norm, (d,), 0.2)
            self.linear("mtp.fc", d, 2 * d)
            self.block("mtp.layers.0.", "A")

    def normal(self, name, shape, std, mean=0.0):
        self.tensors[name] = (mean + std * self.rng.standard_normal(shape)).astype(np.float32)

    def linear(self, name, n, k, gain=1.0):
        self.normal(name + ".weight", (n, k), gain / np.sqrt(k))

    def block(self, name, kind):
        d, f = self.case["d"], self.case["f"]
        self.normal(name + "input_layernorm.weight", (d,), 0.2)
        self.normal(name + "post_attention_layernorm.weight", (d,), 0.2)
        if kind == "A":
            self.attention(name + "self_attn.")
        else:
            self.gated_delta_net(name + "linear_attn.")
        self.linear(name + "mlp.gate_proj", f, d)
        self.linear(name + "mlp.up_proj", f, d)
        self.linear(name + "mlp.down_proj", d, f, 1.5)

    def attention(self, name):
        d, (H, G, D, _) = self.case["d"], self.case["attn"]
        self.linear(name + "q_proj", 2 * H * D, d)
        self.linear(name + "k_proj", G * D, d)
        self.linear(name + "v_proj", G * D, d)
        self.linear(name + "o_proj", d, H * D, 3)  # an average of values is small
        self.normal(name + "q_norm.weight", (D,), 0.3)
        self.normal(name + "k_norm.weight", (D,), 0.3)

    def gated_delta_net(self, name):
        d, (K, N, dk, dv) = self.case["d"], self.case["gdn"]
        channels = 2 * K * dk + N * dv
        self.linear(name + "in_proj_qkv", channels, d)
        self.linear(name + "in_proj_z", N * dv, d)
        self.linear(name + "in_proj_b", N, d)
        self.linear(name + "in_proj_a", N, d, 0.5)
        self.linear(name + "out_proj", d, N * dv, 1.5)
        self.normal(name + "conv1d.weight", (channels, 1, 4), 0.5)
        self.normal(name + "norm.weight", (dv,), 0.2, mean=1)
        # Where a is 0, head decays are 1 - 0.001 ... 1/2, spread evenly in log(-log): one head
        # per stratum, in random order.
        u = (self.rng.permutation(N) + self.rng.uniform(size=N)) / N
        rate = 0.001 * 693**u
        dt_bias = self.rng.uniform(-4, 1, size=N)
        self.tensors[name + "dt_bias"] = dt_bias.astype(np.float32)
        self.tensors[name + "A_log"] = np.log(rate / ref_model.softplus(dt_bias)).astype(np.float32)


# --------------------------------------------------------------------------------- storage --


def encode(x, dtype):
    """float32 -> stored elements, rounded to nearest even."""
    if dtype == "BF16":
        u = x.view(np.uint32)
        return ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16)
    return x.astype({"F32": np.float32, "F16": np.float16}[dtype])


def e4m3_encode(x):
    """Positive float -> the nearest F8_E4M3 code, ties to the even code, saturated at 448."""
    positive = ref_model.E4M3[:127]
    hi = np.clip(np.searchsorted(positive, x), 1, 126)
    lo = hi - 1
    to_lo, to_hi = x - positive[lo], positive[hi] - x
    return np.where((to_lo < to_hi) | ((to_lo == to_hi) & (lo % 2 == 0)), lo, hi).astype(np.uint8)


def nvfp4_encode(w, scale_2):
    """w [n, k] -> codes U8 [n, k/2], block scales F8_E4M3 [n, k/16]."""
    n, k = w.shape
    blocks = w.astype(np.float64).reshape(n, k // ref_model.NVFP4_GROUP, ref_model.NVFP4_GROUP)
    amax = np.abs(blocks).max(axis=2)
    wanted = np.where(amax == 0, 1.0, np.maximum(amax / (6 * scale_2), 2.0**-9))
    scale = e4m3_encode(wanted)
    x = np.abs(blocks) / (ref_model.E4M3[scale] * scale_2)[:, :, None]
    bounds = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    code = np.searchsorted(bounds, x)  # of a tie the lower code
    tie = x == bounds[np.minimum(code, 6)]
    code = (code + (tie & (code % 2 == 1)) + 8 * (blocks < 0)).astype(np.uint8).reshape(n, k)
    return code[:, 0::2] | code[:, 1::2] << 4, scale


SHARED_INPUT = [
    ("in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b"),
    ("q_proj", "k_proj", "v_proj"),
    ("gate_proj", "up_proj"),
]


def global_amax(rule, name, tensors):
    """The amax behind weight_scale_2; with shared_scales that of all linears of the same input."""
    stem, last = name.rsplit(".", 1) if "." in name else ("", name)
    names = [name]
    for group in SHARED_INPUT if rule["shared_scales"] else []:
        if last in group:
            names = [stem + "." + member for member in group]
    return max(float(np.abs(tensors[n + ".weight"]).max()) for n in names)


def is_quantized(rule, name, shape):
    if not rule or not name.endswith(".weight") or len(shape) != 2 or "embed_tokens" in name:
        return False
    if name == "lm_head.weight":
        return rule["lm_head"]
    return name.split(".")[-2] not in rule["skip"]


def stored_tensors(case, weights):
    """{name as in the checkpoint: (dtype name, array)}."""
    out, rule = {}, case.get("nvfp4")
    prefix = "model.language_model." if case.get("nested") else "model."
    for name, x in weights.items():
        full = name if name.startswith(("lm_head.", "mtp.")) else prefix + name
        if not is_quantized(rule, name, x.shape):
            suffixes = [s for s in case.get("dtype_of", {}) if name.endswith(s)]
            dtype = case["dtype_of"][suffixes[0]] if suffixes else case["dtype"]
            out[full] = (dtype, encode(x, dtype))
            continue
        stem = name[: -len(".weight")]
        scale_2 = np.float32(global_amax(rule, stem, weights) / (6 * 448))
        codes, scale = nvfp4_encode(x, float(scale_2))
        out[full] = ("U8", codes)
        out[full + "_scale"] = ("F8_E4M3", scale)
        out[full + "_scale_2"] = ("F32", np.array(scale_2))
        # For 4-bit activations of up to 8; readers that keep activations wide ignore it.
        input_scale = np.array(8 / (6 * 448), dtype=np.float32)
        out[full[: -len("weight")] + "input_scale"] = ("F32", input_scale)
    if case.get("nested"):  # to be skipped by text engines
        out["model.visual.pos_embed.weight"] = ("BF16", np.zeros((4, 16), np.uint16))
    return out


def write_safetensors(path, tensors, odd_offset=False):
    """Widest elements first, so that all are aligned, as the safetensors library does; odd_offset
    starts the data at an odd byte instead, which the format allows."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    order = sorted(tensors, key=lambda name: (-tensors[name][1].itemsize, name))
    for name in order:
        dtype, x = tensors[name]
        header[name] = {"dtype": dtype, "shape": list(x.shape),
                        "data_offsets": [offset, offset + x.nbytes]}  # fmt: skip
        offset += x.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8 + odd_offset)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            f.write(np.ascontiguousarray(tensors[name][1]).tobytes())


def write_weights(case, folder, tensors):
    n = case.get("shards", 1)
    if n == 1:
        path = os.path.join(folder, "model.safetensors")
        write_safetensors(path, tensors, case.get("odd_offset", False))
        return
    names = sorted(tensors)  # dealt in turn: neighbours, even a weight and its scales, part
    files = ["model-%05d-of-%05d.safetensors" % (i + 1, n) for i in range(n)]
    for i, file in enumerate(files):
        write_safetensors(os.path.join(folder, file), {k: tensors[k] for k in names[i::n]})
    total = sum(x.nbytes for _, x in tensors.values())
    where = {name: files[i % n] for i, name in enumerate(names)}
    index = {"metadata": {"total_size": total}, "weight_map": where}
    write_json(folder, "model.safetensors.index.json", index)


# --------------------------------------------------------------------------------- oracles --


def transformers_logits(case, folder, ids):
    """run(n) -> logits [n, vocab] float32 of ids[:n] by Qwen3_5ForCausalLM."""
    import torch
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float32)
    checkpoint = ref_model.Checkpoint(folder)
    not_fields = ("architectures", "model_type", "dtype", "quantization_config")
    fields = {k: v for k, v in checkpoint.config.items() if k not in not_fields}
    config = Qwen3_5TextConfig(**copy.deepcopy(fields))
    config._attn_implementation = "eager"
    model = Qwen3_5ForCausalLM(config).eval()
    if model.config._attn_implementation != "eager":
        raise RuntimeError("attention is %s, not eager" % model.config._attn_implementation)

    state, unused = {}, set(checkpoint.tensors)
    for key in model.state_dict():
        name = checkpoint.short(key)
        if name == "lm_head.weight" and case.get("tied"):
            name = "embed_tokens.weight"
        quantized = checkpoint.has(name + "_scale")
        value = checkpoint.matrix(name[: -len(".weight")]) if quantized else checkpoint.vector(name)
        state[key] = torch.from_numpy(np.array(value, dtype=np.float32))
        unused.discard(name)
    unused = [n for n in unused if not n.startswith(("mtp.", "visual.")) and "_scale" not in n]
    if unused:
        raise RuntimeError("Qwen3_5ForCausalLM does not have " + ", ".join(sorted(unused)))
    with torch.no_grad():
        model.load_state_dict(state, strict=True)
    for key, value in model.state_dict().items():
        if value.dtype != torch.float32 or not torch.equal(value, state[key]):
            raise RuntimeError("%s: not what was loaded" % key)

    if not case.get("nvfp4") and not case.get("nested"):  # also by transformers' own reader
        loaded = Qwen3_5ForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", local_files_only=True
        )
        for key, value in loaded.state_dict().items():
            if not torch.equal(value.to(torch.float32), state[key]):
                raise RuntimeError("%s: from_pretrained reads other values" % key)

    def run(n):
        with torch.no_grad():
            out = model(input_ids=torch.tensor([ids[:n].tolist()]), use_cache=False)
        return out.logits[0].to(torch.float32).numpy()

    return run


def relative(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def check_case(case, name, got, want, bound):
    error = relative(got, want)
    if not error <= bound:
        raise RuntimeError("%s: %s: off by %.2e, allowed %.0e" % (case["name"], name, error, bound))
    return error


def decay_range(weights):
    rates = []
    for name in weights:
        if name.endswith("A_log"):
            dt_bias = weights[name[: -len("A_log")] + "dt_bias"]
            rates.append(np.exp(weights[name]) * ref_model.softplus(dt_bias))
    rates = np.concatenate(rates)
    return np.exp(-rates.max()), np.exp(-rates.min())


def make_case(case, out, seed):
    """Writes one case and compares its oracles; returns its bytes on disk."""
    start = time.time()
    folder = os.path.join(out, case["name"])
    os.makedirs(folder, exist_ok=True)
    for old in glob.glob(os.path.join(folder, "*.safetensors")) + glob.glob(folder + "/*.json"):
        os.remove(old)
    rng = np.random.default_rng([seed, zlib.crc32(case["name"].encode())])
    ids = rng.integers(0, case["vocab"], LENGTHS[-1]).astype(np.int32)
    weights = Weights(case, rng).tensors
    write_configs(case, folder)
    write_weights(case, folder, stored_tensors(case, weights))

    run = transformers_logits(case, folder, ids)
    runs = {n: run(n) for n in LENGTHS}
    twin = ref_model.Model(folder)
    hidden = twin.hidden(ids)
    want = hidden @ twin.lm_head.T  # causal: row n - 1 answers the prompt of length n
    short = [check_case(case, "all of %d" % N_ALL, runs[N_ALL], want[:N_ALL], BOUND)]
    long = []
    for n in LENGTHS:
        bound, errors = (BOUND, short) if n <= N_ALL else (BOUND_LONG, long)
        errors.append(check_case(case, "length %d" % n, runs[n][-1], want[n - 1], bound))
    std = float(runs[LENGTHS[-1]].std())
    if not LOGIT_STD[0] <= std <= LOGIT_STD[1]:
        raise RuntimeError("%s: logits have a deviation of %.2f" % (case["name"], std))

    vectors = {
        "ids": ("I32", ids),
        "lengths": ("I32", np.array(LENGTHS, dtype=np.int32)),
        "logits": ("F32", np.stack([runs[n][-1] for n in LENGTHS]).astype(np.float32)),
        "all65": ("F32", runs[N_ALL].astype(np.float32)),
    }
    if case.get("mtp"):
        _, drafts = twin.draft_logits(ids[:N_ALL], hidden)
        vectors["mtp65"] = ("F32", drafts.astype(np.float32))
    write_safetensors(os.path.join(folder, "vectors.safetensors"), vectors)

    size = sum(os.path.getsize(f) for f in glob.glob(folder + "/*"))
    print(
        "%-13s %8d bytes  error <= %d: %.1e, beyond: %.1e  logit std %.2f  decay %.3f..%.4f  %.1f s"
        % (case["name"], size, N_ALL, max(short), max(long), std, *decay_range(weights),
           time.time() - start), flush=True)  # fmt: skip
    if size > MAX_BYTES:
        raise RuntimeError("%s: %d bytes, allowed %d" % (case["name"], size, MAX_BYTES))
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", default="tests/golden/tiny", help="default: %(default)s")
    parser.add_argument("--case", choices=[c["name"] for c in CASES], help="default: all")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    total, failed = 0, []
    for case in CASES:
        if options.case not in (None, case["name"]):
            continue
        try:
            total += make_case(case, options.out, options.seed)
        except Exception:  # the other cases still run: the machine with torch may be far away
            traceback.print_exc()
            failed.append(case["name"])
    print("%d bytes in all, allowed %d" % (total, MAX_BYTES_TOTAL))
    if failed or total > MAX_BYTES_TOTAL:
        sys.exit("make_tiny: failed: %s" % (", ".join(failed) or "too large"))


if __name__ == "__main__":
    main()
