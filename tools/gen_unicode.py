#!/usr/bin/env python3
"""Writes src/text/unicode_data.h: the character classes that the tokenizer works with.

The tables are asked out of PyPI `tokenizers` itself (pip install tokenizers), because ids must
equal its ids: its regex engine knows Unicode 16, its NFC only Unicode 9, and neither follows the
libraries of the machine that Hedge runs on.

    tools/gen_unicode.py > src/text/unicode_data.h
"""

import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
nfc = normalizers.NFC().normalize_str


def matching(pattern):
    """The code points that a one-character pattern matches."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set()
    for i in range(0, len(CODE_POINTS), 4096):
        text = "".join(map(chr, CODE_POINTS[i : i + 4096]))
        rest = "".join(piece for piece, _ in split.pre_tokenize_str(text))
        found |= set(map(ord, text)) - set(map(ord, rest))
    return found


def nfc_active():
    """What NFC may change, move or attach to the character before it."""
    active = set()
    for c in CODE_POINTS:
        s = chr(c)
        # U+0345 has the highest combining class (240), U+0334 the lowest (1): a character with a
        # class of its own changes places with one of them.
        if (
            nfc(s) != s
            or nfc("a\u0345" + s) != "a\u0345" + s
            or nfc("a" + s + "\u0334") != "a" + s + "\u0334"
        ):
            active.add(c)
        parts = unicodedata.normalize("NFD", s)
        if parts != s and nfc(parts) == s:
            active |= set(map(ord, parts[1:]))
    return active


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def main():
    print(
        "/* Written by tools/gen_unicode.py from PyPI tokenizers %s: do not edit."
        % tokenizers.__version__
    )
    print(" * {first, last} of each run of code points of a class. */")
    print("/* clang-format off */")
    for name, points in (
        ("letter", matching(r"\p{L}")),
        ("mark", matching(r"\p{M}")),
        ("number", matching(r"\p{N}")),
        ("space", matching(r"\s")),
        ("nfc_active", nfc_active()),
    ):
        print(
            "\nstatic const uint32_t %s_ranges[][2] = { /* %d code points */" % (name, len(points))
        )
        line = ""
        for cell in ("{0x%x,0x%x}," % tuple(r) for r in ranges(points)):
            if len(line) + len(cell) > 100:
                print(line)
                line = ""
            line += cell
        print(line + "\n};")


main()
