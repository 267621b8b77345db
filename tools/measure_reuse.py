#!/usr/bin/env python3
"""Time to first token against context length, at a fixed number of new tokens.

    python3 tools/measure_reuse.py [--hedge ./hedge] [--svg doc/ttft_context.svg] [-- SERVE OPTIONS]

Starts a server on the embedded model (or what the options name), grows one conversation, and at each
context length asks for one token twice: a turn that adds about 100 new tokens (warm), and the same prompt
on a server without a cache (cold). Prints a Markdown table; --svg draws it. Standard library only.
"""
import argparse
import http.client
import json
import socket
import statistics
import subprocess
import time

LENGTHS = [1000, 2000, 4000, 8000, 12000, 16000, 20000, 24000, 28000]
FILLER = "The quick brown fox jumps over the lazy dog and runs back to its den before dark. "
NEW = "Now look at the next part and tell me what has changed in it, line by line, if you can. " * 4


class Server:
    def __init__(self, hedge, options):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.process = subprocess.Popen(
            [hedge, "serve", "--host", "127.0.0.1", "--port", str(self.port), "--reasoning", "off",
             "--ctx", "32768", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                self.call("GET", "/health")
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the server does not answer")

    def call(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        reply = json.loads(c.getresponse().read())
        c.close()
        return reply

    def ttft(self, messages):
        """-> (milliseconds, prompt tokens, cached tokens)"""
        r = self.call("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 1, "temperature": 0})
        u = r["usage"]
        return r["timings"]["ttft_ms"], u["prompt_tokens"], u["prompt_tokens_details"]["cached_tokens"]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def context(n_tokens, per_filler):
    text = FILLER * max(1, round(n_tokens / per_filler))
    return [{"role": "user", "content": text}, {"role": "assistant", "content": "I have read it."}]


def svg(rows, path):
    """Two lines over context length, time on a logarithmic axis."""
    import math
    w, h, left, bottom = 640, 320, 70, 40
    most_x, low, high = rows[-1][0], 10, max(r[3] for r in rows) * 1.5

    def xy(n, ms):
        y = (math.log10(ms) - math.log10(low)) / (math.log10(high) - math.log10(low))
        return f"{left + (w - left - 20) * n / most_x:.1f},{(h - bottom) * (1 - y) + 10:.1f}"
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h + 20}" font-family="sans-serif" '
           f'font-size="12"><rect width="100%" height="100%" fill="white"/>']
    tick = low
    while tick < high:
        x, y = xy(0, tick).split(",")
        out.append(f'<line x1="{x}" x2="{w - 20}" y1="{y}" y2="{y}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{float(y) + 4}" text-anchor="end">{tick} ms</text>')
        tick *= 10
    for i, (name, colour) in enumerate((("warm: about 100 new tokens", "#06c"), ("cold: all of the prompt", "#c30"))):
        points = " ".join(xy(r[0], r[2 + i]) for r in rows)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{left + 12}" y="{24 + 16 * i}" fill="{colour}">{name}</text>')
    for r in rows:
        x = xy(r[0], low).split(",")[0]
        out.append(f'<text x="{x}" y="{h - bottom + 28}" text-anchor="middle">{round(r[0] / 1000)}K</text>')
    out.append(f'<text x="{w / 2}" y="{h + 8}" text-anchor="middle">tokens of context</text></svg>')
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hedge", default="./hedge")
    p.add_argument("--svg")
    p.add_argument("options", nargs="*")
    a = p.parse_args()
    warm, cold = Server(a.hedge, a.options), Server(a.hedge, [*a.options, "--cache-device", "0"])
    per_filler = (warm.ttft(context(1000, 10))[1] - warm.ttft(context(10, 10))[1]) / 99
    rows = []
    print("| context | new tokens | TTFT warm, ms | TTFT cold, ms | ratio |\n|---|---|---|---|---|")
    for n in LENGTHS:
        base = context(n, per_filler)
        warm.ttft(base[:1])
        times = []
        for i in range(5):  # each time new words behind the same context
            ms, prompt, cached = warm.ttft(base + [{"role": "user", "content": f"Step {i}. {NEW}"}])
            times.append(ms)
        ms = statistics.median(times)
        all_ms = cold.ttft(base + [{"role": "user", "content": f"Step 0. {NEW}"}])[0]
        rows.append((prompt, prompt - cached, ms, all_ms))
        print(f"| {prompt} | {prompt - cached} | {ms:.1f} | {all_ms:.0f} | {all_ms / ms:.0f} |", flush=True)
    warm.stop()
    cold.stop()
    if a.svg:
        svg(rows, a.svg)


if __name__ == "__main__":
    main()
