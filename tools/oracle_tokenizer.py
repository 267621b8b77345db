#!/usr/bin/env python3
"""Compares Hedge's tokenizer with PyPI `tokenizers`: ids on every text of the data directory and
on a Unicode torture set, then single-thread speed. Needs `pip install tokenizers` and gcc.

    tools/oracle_tokenizer.py [DATA_DIR, default ../shared] [--seed N] [--random N]
    tools/oracle_tokenizer.py --golden tests/golden/tokenizer_nano.jsonl

Exit 0: all equal and at least as fast; 1: not. What is not in DATA_DIR is skipped. --golden
writes a small set of texts with PyPI's ids for the unit test instead.
"""

import argparse
import array
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
NOT_WHITE = "\u180e\u200b\u200c\u200d\u2060\ufeff\x1c\x1d\x1e\x1f\x00\x7f"


# ----------------------------------------------------------------------------------- texts --


def strings(value, out):
    if isinstance(value, str):
        out.append(value)
    elif isinstance(value, list):
        for v in value:
            strings(v, out)
    elif isinstance(value, dict):
        for k, v in value.items():
            out.append(k)
            strings(v, out)


def data_texts(root):
    """Every string in the .json and .jsonl files under root, and every text file whole."""
    found = []
    for folder, _, files in sorted(os.walk(root)):
        for name in sorted(files):
            path = os.path.join(folder, name)
            try:
                text = open(path, encoding="utf-8", newline="").read()
            except (UnicodeDecodeError, OSError):
                continue
            found.append(text)
            if not name.endswith((".json", ".jsonl")):
                continue
            try:
                values = [json.loads(text)]
            except ValueError:
                values = [json.loads(line) for line in text.split("\n") if line.strip()]
            for v in values:
                strings(v, found)
    return list(dict.fromkeys(found))


def torture_texts(rng, n_random, added, every=True):
    fixed = [
        "",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\r",
        "\n\n\n",
        " \n ",
        "\t\t\n  x",
        "a  b",
        "a \n b",
        "   a",
        "don't DON'T we'LL they'Re I'M 'sam 'x ''s '\u017f '\u017ft x'\u017f 'ſe it'd've 'l 'll 'L",
        "e\u0301 n\u0303o \u0041\u030a \u212b \u2126 \u1100\u1161\u11a8 \uac00\u11a8 \u0958 \u0344 \ufb1d \u2f800",
        "a\u0323\u0307 a\u0307\u0323 q\u0307\u0323 \u0061\u0315\u0300\u05ae\u0062 \u0f71\u0f72\u0f73 \u0340\u0341\u0343",
        "\u0301 \u0301\u0301x \u0301",
        "नमस्ते दुनिया क्षत्रिय",
        "தமிழ் மொழி",
        "สวัสดีชาวโลก",
        "ကျွန်ုပ်",
        "السَّلَامُ عَلَيْكُمْ",
        "שָׁלוֹם עוֹלָם",
        "한국어 각 한",
        "日本語のテキスト、「引用」。",
        "か\u3099き\u309a",
        "中文，测试！１２３",
        "ǅ ǈ ﬁ ﬀ ß ẞ İ ı ŉ",
        "👩\u200d👩\u200d👧\u200d👦 👍🏽 🏴\U000e0067\U000e0062\U000e007f ❤\ufe0f 1\ufe0f\u20e3 🇩🇪",
        "x²½Ⅷ①٣४ ๓ 𝟘 𐒠 1234567 1,000.5",
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        "<|im_start|><|im_start|>x<|im_start |><|im_<|im_end|>e\u0301<tool_call>\u0301</tool_call>\u0301",
        "<think>'s</think> 's",
        "\U0010ffff \ue000 \ufffd \ufdd0 \u0378 \U000e0001",
        "Ġ Ċ ĠĠ Ã©",
        "\u0897\u0301 \U00011935\U00011930 \u07fd\u0323 a\u0898\u0323",
    ]
    long_runs = [
        c * n
        for c in (
            "a",
            " ",
            "\n",
            "é",
            "e\u0301",
            "!",
            "'",
            "\u0301",
            "ab",
            " \n",
            "你",
            "<",
            "\r\n",
            "'s",
            "1",
            "\u3000",
            "<|",
        )
        for n in (1, 2, 3, 63, 95, 96, 97, 98, 255, 1000, 20000)
    ]
    marks = "\u0301\u0323\u0327\u0338\u0345\u0334\u05b0\u064b\u0e38\u093c\u094d\u0300\u0308\u031b\u0344\u1161\u11a8\u09be\u0dcf\u3099"
    bases = "aeoAbq\u0391\u03b1\u0915\u0928\u1100\uac00\uac01\u304b\u05d0\u0627 \n1!\u0958\u212b\u1ea5\u0344\u01d5"
    cells = (
        WHITE
        + NOT_WHITE
        + marks
        + bases
        + "'stremvldSTLD\"#<|>{}()_-.,;:0123\u0660\u00bd\u2164\u4e00\u3042\u1f600\U0001f600\U0001f3fd"
    )
    pieces = (
        list(cells)
        + added
        + [
            "'s",
            "'ll",
            "\r\n",
            "  ",
            "the",
            " the",
            "Hello",
            "e\u0301",
            "क्षि",
            "\u1112\u1161\u11ab",
        ]
    )
    for sep in WHITE + NOT_WHITE:
        for a, b in (
            ("a", "b"),
            ("", "b"),
            ("a", ""),
            (" ", "b"),
            ("!", "1"),
            ("\n", "b"),
            (sep, "b"),
            (sep, "\n"),
            ("\u0301", "\u0301"),
        ):
            fixed.append(a + sep + b)
    out = fixed + long_runs
    for _ in range(n_random):
        out.append("".join(rng.choices(pieces, k=rng.randrange(1, 30))))
        out.append("".join(rng.choices(bases + marks * 2, k=rng.randrange(1, 12))))
        out.append(
            "".join(
                chr(c)
                for c in (rng.randrange(1, 0x110000) for _ in range(rng.randrange(1, 20)))
                if not 0xD800 <= c < 0xE000
            )
        )
        out.append(
            "".join(
                chr(c)
                for c in (
                    rng.choice((rng.randrange(1, 0x3000), rng.randrange(0x10000, 0x20000)))
                    for _ in range(rng.randrange(1, 20))
                )
            )
        )
    # Every code point, in its neighbours' company and after a letter and a space.
    points = [c for c in range(0x110000) if every and not 0xD800 <= c < 0xE000]
    for i in range(0, len(points), 64):
        chunk = [chr(c) for c in points[i : i + 64]]
        out.append("".join(chunk))
        out.append("".join("a" + c + "e\u0345 " + c + "\u0323." for c in chunk))
    return out


# -------------------------------------------------------------------------------- comparing --


def build(folder):
    """The driver, from the sources it needs: no stale library can be measured."""
    exe = os.path.join(folder, "tok_dump")
    text = [
        "unicode",
        "nfc",
        "pretok",
        "pretok_regex",
        "bpe",
        "tokenizer",
        "tokenizer_load",
        "detok",
    ]
    files = ["tests/tools/tok_dump.c"] + ["src/text/%s.c" % f for f in text]
    files += ["src/base/%s.c" % f for f in ("err", "buf", "file", "clock")]
    subprocess.check_call(
        [
            os.environ.get("CC", "gcc"),
            "-std=c11",
            "-D_GNU_SOURCE",
            "-O2",
            "-Iinclude",
            "-Isrc",
            "-o",
            exe,
        ]
        + files
        + ["-ljansson", "-lpcre2-8", "-lutf8proc", "-lxxhash", "-lm"],
        cwd=ROOT,
    )
    return exe


def ours(exe, folder, texts, raw=False):
    """ids of each text, seconds to load, seconds to encode."""
    data = b"".join(struct.pack("<I", len(b)) + b for b in (t.encode() for t in texts))
    run = subprocess.run(
        [exe, folder] + (["raw"] if raw else []),
        input=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if run.returncode:
        sys.exit("tok_dump: " + run.stderr.decode(errors="replace"))
    words = array.array("i")
    words.frombytes(run.stdout)
    ids, i = [], 0
    while i < len(words):
        ids.append(words[i + 1 : i + 1 + words[i]].tolist())
        i += 1 + words[i]
    load_s, encode_s, _ = run.stderr.split()
    return ids, float(load_s), float(encode_s)


def theirs(tokenizer, texts):
    ids, spent = [], 0.0
    for t in texts:
        start = time.perf_counter()
        e = tokenizer.encode(t, add_special_tokens=False)
        spent += time.perf_counter() - start
        ids.append(e.ids)
    return ids, spent


def compare(label, exe, folder, tokenizer, texts, raw=False):
    tokenizer.encode_special_tokens = raw
    want, their_s = theirs(tokenizer, texts)
    got, load_s, our_s = ours(exe, folder, texts, raw)
    bad = [i for i in range(len(texts)) if got[i] != want[i]]
    n_bytes = sum(len(t.encode()) for t in texts)
    n_ids = sum(map(len, want))
    print(
        "%s: %d texts, %d bytes, %d ids, %d differ; load %.0f ms; MB/s ours %.1f, PyPI %.1f, ratio %.1f"
        % (
            label,
            len(texts),
            n_bytes,
            n_ids,
            len(bad),
            load_s * 1e3,
            n_bytes / our_s / 1e6,
            n_bytes / their_s / 1e6,
            their_s / our_s,
        )
    )
    for i in bad[:5]:
        print(
            "  text  %s\n  ours  %s\n  PyPI  %s"
            % (ascii(texts[i][:300]), got[i][:60], want[i][:60])
        )
    return len(bad), their_s / our_s


def write_variant(source, folder, pattern):
    """A copy of tokenizer.json, with another pattern when one is given."""
    spec = json.load(open(source, encoding="utf-8"))
    if pattern:
        spec["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern
    os.makedirs(folder)
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(spec, f, ensure_ascii=False)
    return [a["content"] for a in spec["added_tokens"]]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("data", nargs="?", default=os.path.join(ROOT, "..", "shared"))
    ap.add_argument("--seed", type=int, default=int(time.time()))
    ap.add_argument("--random", type=int, default=5000, help="random torture texts of each kind")
    ap.add_argument("--golden", help="write this file and stop")
    args = ap.parse_args()
    if args.golden:
        return write_golden(args.golden)
    print("seed %d" % args.seed)
    corpus = data_texts(os.path.join(args.data, "data")) if os.path.isdir(args.data) else []
    if not corpus:
        print("skip: no texts under %s/data, torture set only" % args.data)
    nano = os.path.join(ROOT, "models", "nano", "tokenizer.json")
    if not os.path.exists(nano):
        nano = os.path.join(args.data, "models", "nano", "tokenizer.json")
    qwen3 = os.path.join(args.data, "data", "qwen3", "tokenizer.json")
    n_bad, slowest = 0, []
    with tempfile.TemporaryDirectory() as tmp:
        exe = build(tmp)
        for name, source, pattern in (
            ("nano", nano, None),
            ("qwen3", qwen3, None),
            ("qwen3 with the 3.5 pattern", qwen3, QWEN35),
            ("qwen3 with a PCRE2 pattern", qwen3, LLAMA3),
        ):
            if not os.path.exists(source):
                print("skip %s: no %s" % (name, source))
                continue
            folder = os.path.join(tmp, name.replace(" ", "_"))
            added = write_variant(source, folder, pattern)
            tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
            rng = random.Random(args.seed)
            torture = torture_texts(rng, args.random, added)
            if pattern == LLAMA3:  # PCRE2's own Unicode is older than PyPI's
                torture = [t for t in torture if all(known(c) for c in t)]
            for label, texts, raw in (
                ("data", corpus, False),
                ("torture", torture, False),
                ("torture, raw", torture, True),
            ):
                if texts:
                    bad, ratio = compare(
                        "%s, %s" % (name, label), exe, folder, tokenizer, texts, raw
                    )
                    n_bad += bad
                    if label == "data":
                        slowest.append(ratio)
    ok = not n_bad and (not slowest or min(slowest) >= 1)
    print(
        "%s: %d differences%s"
        % (
            "ok" if ok else "FAILED",
            n_bad,
            ", at least %.1f times as fast" % min(slowest) if slowest else "",
        )
    )
    return 0 if ok else 1


def write_golden(path):
    """{"text", "ids", "raw"} a line: the fixed torture texts and some random ones."""
    folder = os.path.join(ROOT, "models", "nano")
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
    texts = [t for t in torture_texts(random.Random(1), 150, added, every=False) if len(t) <= 100]
    with open(path, "w", encoding="ascii") as f:
        for i, text in enumerate(dict.fromkeys(texts)):
            tokenizer.encode_special_tokens = raw = i % 4 == 3
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            f.write(
                json.dumps({"text": text, "ids": ids, "raw": raw}, separators=(",", ":")) + "\n"
            )


def known(c, _cache={}):
    """Assigned, and no private use, in this Python's Unicode."""
    import unicodedata

    if c not in _cache:
        _cache[c] = unicodedata.category(c) != "Cn"
    return _cache[c]


sys.exit(main())
