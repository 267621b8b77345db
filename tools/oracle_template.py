#!/usr/bin/env python3
"""oracle_template.py [SHARED_DIR] [--write]: our chat template interpreter against jinja2.

Renders with jinja2, set up as transformers' apply_chat_template does, and with
tests/tools/template_dump.c: the small cases of template_cases.py; edge cases of chats; and, where
SHARED_DIR (../shared) has them, every prompt of the MLPerf trace and of the BFCL set. Outputs must
be equal to the byte; where jinja2 raises, ours must fail, with the same text for raise_exception.
--write keeps the small cases with jinja2's answers in tests/golden/template_cases.jsonl.
Exit status: 0 equal, 1 not, 77 when jinja2 is missing."""

import datetime
import json
import os
import subprocess
import sys
import tempfile

try:
    import jinja2
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("skip: needs jinja2 (pip install jinja2)")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import template_cases  # noqa: E402

GOLDEN = os.path.join(ROOT, "tests/golden/template_cases.jsonl")
NANO = os.path.join(ROOT, "models/nano/chat_template.jinja")
QWEN = os.path.join(ROOT, "tests/golden/qwen36_chat_template.jinja")


class Raised(jinja2.TemplateError):
    """What raise_exception raises, told apart from jinja2's own errors."""


class Generation(Extension):
    """{% generation %} of transformers: a block in a scope of its own."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("show"), [], [], body).set_lineno(line)

    def show(self, caller):
        return caller()


def environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise Raised(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: datetime.datetime.now().strftime(format)
    return env


ENV = environment()


def reference(template, variables):
    """("ok", text), ("raised", message) or ("error", what jinja2 says)."""
    try:
        t = ENV.from_string(template) if isinstance(template, str) else template
        text = t.render(**variables)
        text.encode()
        return "ok", text
    except Raised as e:
        return "raised", str(e)
    except Exception as e:  # anything that Python may throw is an error of the template
        return "error", f"{type(e).__name__}: {e}"


class Ours:
    """Runs template_dump over a file of requests; answers come back in order."""

    def __init__(self, dump):
        self.dump = dump

    def __call__(self, requests, template=None):
        with tempfile.TemporaryFile() as f:
            for r in requests:
                f.write(json.dumps(r, ensure_ascii=False).encode() + b"\n")
            f.seek(0)
            command = [self.dump] + ([template] if template else [])
            p = subprocess.run(command, stdin=f, stdout=subprocess.PIPE, check=True)
        at = 0
        while at < len(p.stdout):
            end = p.stdout.index(b"\n", at)
            what, n = p.stdout[at:end].split()
            yield what.decode(), p.stdout[end + 1:end + 1 + int(n)].decode()
            at = end + 2 + int(n)


def build(into):
    dump = os.path.join(into, "template_dump")
    sources = ["tests/tools/template_dump.c"]
    for d, prefix in (("src/text", "template_"), ("src/base", "")):
        sources += [os.path.join(d, f) for f in sorted(os.listdir(os.path.join(ROOT, d)))
                    if f.startswith(prefix) and f.endswith(".c")]
    subprocess.run([os.environ.get("CC", "gcc"), "-std=c11", "-D_GNU_SOURCE", "-O2", "-g",
                    "-ffp-contract=off", "-Iinclude", "-Isrc", "-o", dump, *sources, "-ljansson",
                    "-lutf8proc", "-lxxhash", "-lpthread", "-lm"], cwd=ROOT, check=True)
    return dump


failures = 0


def check(name, want, got):
    global failures
    kind, text = want
    good = (got == ("ok", text) if kind == "ok" else
            got == ("error", text) if kind == "raised" else got[0] == "error")
    if good:
        return
    failures += 1
    if failures <= 40:
        print(f"DIFFERENT {name}\n    jinja2: {kind} {text[:600]!r}\n    ours:   {got[0]} {got[1][:600]!r}")


def small_cases(ours, write):
    cases = list(template_cases.cases())
    wants = [reference(t, v) for t, v in cases]
    # No variable of the cases is changed by a render, so one object serves all.
    requests = [{"template": t, "vars": v} for t, v in cases]
    for (t, _), want, got in zip(cases, wants, ours(requests), strict=True):
        check(repr(t), want, got)
    if write:
        with open(GOLDEN, "w") as f:
            print(json.dumps({"vars": template_cases.V}), file=f)
            for (t, _), (kind, text) in zip(cases, wants):
                print(json.dumps({"t": t, kind: True if kind == "error" else text}), file=f)
    print(f"small cases: {len(cases)}, of them {sum(w[0] != 'ok' for w in wants)} errors")


# ------------------------------------------------------------------------------------ chats --

def openai_messages(messages):
    """As the server does before it renders: arguments that are JSON become objects."""
    out = json.loads(json.dumps(messages))
    for m in out:
        for call in m.get("tool_calls") or []:
            f = call.get("function", call)
            if isinstance(f.get("arguments"), str):
                f["arguments"] = json.loads(f["arguments"])
    return out


def trace_prompts(path):
    """Each request of the trace: system, the rows before, its own (workload.md 1.5, 1.6)."""
    messages, tools, conversation = [], None, None
    with open(path, encoding="utf-8") as f:
        for row in map(json.loads, f):
            if row["conversation_id"] != conversation:
                conversation, tools = row["conversation_id"], row.get("tools")
                messages = [{"role": "system", "content": row["system"]}]
            if row["role"] == "assistant":
                yield conversation, list(messages), tools
                messages.append({k: row[k] for k in ("role", "content", "tool_calls", "reasoning_content")
                                 if k in row})
            elif row["role"] == "tool":
                messages += [{"role": "tool", "content": r["content"], "tool_call_id": r["tool_call_id"]}
                             for r in row["tool_results"]]
            else:
                messages.append({"role": "user", "content": row["content"]})


VARIANTS = [{"add_generation_prompt": True, "enable_thinking": False},
            {"add_generation_prompt": True, "enable_thinking": True},
            {"add_generation_prompt": True}, {"add_generation_prompt": False}, {}]


def compare(ours, path, named):
    """named: (name, variables) pairs, rendered with one template file."""
    with open(path, encoding="utf-8") as f:
        template = ENV.from_string(f.read())
    n = n_bytes = 0
    named = list(named)
    answers = ours(({"vars": v} for _, v in named), path)
    for (name, variables), got in zip(named, answers, strict=True):
        want = reference(template, variables)
        check(f"{os.path.relpath(path, ROOT)} {name}", want, got)
        n, n_bytes = n + 1, n_bytes + len(want[1].encode())
    return n, n_bytes


def batches(items, n):
    batch = []
    for i in items:
        batch.append(i)
        if len(batch) == n:
            yield batch
            batch = []
    if batch:
        yield batch


def prompts(ours, what, path, source):
    """Every prompt with thinking off, every seventh with the other variants too."""
    for template in (QWEN, NANO):
        n = n_bytes = 0

        def variables():
            for i, (name, messages, tools) in enumerate(source(path)):
                messages = openai_messages(messages)
                for k, variant in enumerate(VARIANTS if i % 7 == 0 else VARIANTS[:1]):
                    v = {"messages": messages, **variant}
                    if tools is not None:
                        v["tools"] = tools
                    yield f"{what} {i} {name} variant {k}", v

        for batch in batches(variables(), 200):
            a, b = compare(ours, template, batch)
            n, n_bytes = n + a, n_bytes + b
        print(f"{what}, {os.path.relpath(template, ROOT)}: {n} renders, {n_bytes} bytes")


def bfcl_prompts(path):
    with open(path, encoding="utf-8") as f:
        for row in map(json.loads, f):
            yield row["id"], row["messages"], row.get("tools")


def edge_chats():
    def call(arguments, name="f", **more):
        return {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments, **more}}

    user, system = {"role": "user", "content": "hi"}, {"role": "system", "content": " sys "}
    args = {"s": "x\ny", "i": 5, "f": 5.0, "e": 1e22, "small": 1e-7, "n": None, "t": True, "big": 2**62,
            "neg": -1, "l": [1, "a", [2.5, None]], "o": {"k": {"j": [False]}}, "": "", "é": "☃",
            "empty": "", "el": [], "eo": {}, "quote": "\"\\/\t\u0001\u007f\u2028"}
    tool = {"type": "function", "function": {"name": "f", "description": "d <é> & 'q' \"z\"\n",
            "parameters": {"type": "object", "properties": {"items": {"type": "integer", "default": 1.0},
                           "b": {"enum": [None, 1, 2.5, "x", 1e16]}}, "required": []}}}
    assistant = {"role": "assistant", "content": "A"}
    chats = {
        "plain": [user], "none": [], "only system": [system], "system late": [user, system], "two systems": [system, system, user],
        "system, user": [system, user], "unknown role": [user, {"role": "zz", "content": "x"}], "developer": [{"role": "developer", "content": "x"}, user],
        "no role": [{"content": "x"}, user], "empty content": [{"role": "user", "content": ""}], "null content": [{"role": "user", "content": None}],
        "no content": [{"role": "user"}], "spaces": [{"role": "user", "content": " \n\t x \u3000\u00a0"}], "number content": [{"role": "user", "content": 5}],
        "true content": [{"role": "user", "content": True}], "object content": [{"role": "user", "content": {"text": "x"}}],
        "parts": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": " b "}]}], "empty parts": [{"role": "user", "content": []}],
        "string parts": [{"role": "user", "content": ["a", "text"]}], "number parts": [{"role": "user", "content": [1]}], "null parts": [{"role": "user", "content": [None]}],
        "image": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what"}, {"type": "image_url", "image_url": {"url": "u"}}, {"video": 1}]}],
        "system image": [{"role": "system", "content": [{"type": "image"}]}, user], "system video": [{"role": "system", "content": [{"type": "video"}]}, user],
        "bad part": [{"role": "user", "content": [{"type": "zz"}]}], "part text number": [{"role": "user", "content": [{"text": 5.0}]}], "system parts": [{"role": "system", "content": [{"text": "s"}]}, user],
        "non-ascii": [{"role": "user", "content": "héllo ☃ 日本語 😀 \u0301"}], "specials": [{"role": "user", "content": "<|im_end|>\n<tool_response>x</tool_response> {{ x }} {% if %}"}],
        "tool response user": [user, assistant, {"role": "user", "content": "<tool_response>x</tool_response>"}], "only tool response": [{"role": "user", "content": "<tool_response>x</tool_response>"}],
        "assistant": [user, assistant, user], "assistant last": [user, assistant], "assistant first": [assistant], "assistant null": [user, {"role": "assistant", "content": None}],
        "think in content": [user, {"role": "assistant", "content": "<think>\nr r\n</think>\n\nanswer"}], "think twice": [user, {"role": "assistant", "content": "<think>a</think>b<think>c</think>d"}],
        "think open only": [user, {"role": "assistant", "content": "<think>abc"}], "think earlier": [user, {"role": "assistant", "content": "<think>a</think>b"}, user],
        "reasoning": [user, {"role": "assistant", "content": "x", "reasoning_content": " \nwhy\n "}], "reasoning earlier": [user, {"role": "assistant", "content": "x", "reasoning_content": "why"}, user, {"role": "assistant", "content": "y", "reasoning_content": ""}],
        "reasoning null": [user, {"role": "assistant", "content": "x", "reasoning_content": None}], "reasoning number": [user, {"role": "assistant", "content": "x", "reasoning_content": 5}],
        "calls": [user, {"role": "assistant", "content": "", "tool_calls": [call(args), call({}), call({"a": "b"})]}, {"role": "tool", "content": "r1"}, {"role": "tool", "content": "r2"}],
        "call with content": [user, {"role": "assistant", "content": " t ", "tool_calls": [call({"a": 1}), call({"b": [1, 2]})]}], "call without wrapper": [user, {"role": "assistant", "tool_calls": [{"name": "g", "arguments": {"x": 1.5}}]}],
        "call without content": [user, {"role": "assistant", "tool_calls": [call({"a": 1})], "reasoning_content": "r"}], "call without arguments": [user, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "g"}}]}],
        "arguments string": [user, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "g", "arguments": "{}"}}]}], "arguments null": [user, {"role": "assistant", "content": "", "tool_calls": [call(None)]}],
        "arguments list": [user, {"role": "assistant", "content": "", "tool_calls": [call([1])]}], "calls null": [user, {"role": "assistant", "content": "x", "tool_calls": None}], "calls empty": [user, {"role": "assistant", "content": "x", "tool_calls": []}],
        "calls object": [user, {"role": "assistant", "content": "x", "tool_calls": {"a": 1}}], "call no name": [user, {"role": "assistant", "content": "x", "tool_calls": [{"function": {"arguments": {}}}]}], "name number": [user, {"role": "assistant", "content": "x", "tool_calls": [call({}, name=5)]}],
        "tool": [user, {"role": "assistant", "content": "", "tool_calls": [call({})]}, {"role": "tool", "content": "r"}, assistant, user], "tool first": [{"role": "tool", "content": "r"}, user], "tool last": [user, {"role": "tool", "content": [{"text": "r"}]}],
        "tool null": [user, {"role": "tool", "content": None}], "tools between": [user, {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}, user, {"role": "tool", "content": "3"}], "message string": ["x", user], "message null": [None, user],
        "long": [system] + [user, {"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": [call(args)]}, {"role": "tool", "content": "t"}, assistant] * 20 + [user],
    }
    extras = [{}, {"tools": [tool]}, {"tools": [tool, args, "x", 5.0, None]}, {"tools": []}, {"tools": None}, {"tools": {"a": 1}}, {"preserve_thinking": True}, {"preserve_thinking": False},
              {"preserve_thinking": "yes"}, {"add_vision_id": True, "preserve_thinking": True}, {"enable_thinking": None}, {"enable_thinking": 0}, {"enable_thinking": "false"}]
    for name, messages in chats.items():
        for i, extra in enumerate(extras):
            for k, variant in enumerate(VARIANTS if i < 2 else VARIANTS[2:4]):
                yield f"{name}, extra {i}, variant {k}", {"messages": messages, **variant, **extra}
    for bad in (None, "text", 5, {"role": "user"}, [[]], [5]):
        yield f"messages {bad!r}", {"messages": bad, "add_generation_prompt": True}
    yield "no messages", {}


def main():
    write = "--write" in sys.argv
    places = [a for a in sys.argv[1:] if not a.startswith("-")]
    shared = places[0] if places else os.path.join(ROOT, "../shared")
    with tempfile.TemporaryDirectory() as into:
        ours = Ours(build(into))
        small_cases(ours, write)
        for template in (QWEN, NANO):
            n, n_bytes = compare(ours, template, edge_chats())
            print(f"edge chats, {os.path.relpath(template, ROOT)}: {n} renders, {n_bytes} bytes")
        for what, path, source in (("BFCL", "data/bfcl/gate995.jsonl", bfcl_prompts),
                                   ("trace", "data/mlperf/agentic_coding_2.5h.jsonl", trace_prompts)):
            path = os.path.join(shared, path)
            if os.path.exists(path):
                prompts(ours, what, path, source)
            else:
                print(f"skip: {what} prompts, no {path}")
    print("template: " + (f"{failures} DIFFERENT" if failures else "equal to jinja2 " + jinja2.__version__))
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
