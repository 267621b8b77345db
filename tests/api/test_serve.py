#!/usr/bin/env python3
"""The real binary on the embedded model, over loopback: what an agent's client relies on.

Standard library only. Exit 0 = passed.
"""
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

HEDGE = os.environ.get("HEDGE", "./hedge")
WEATHER = [{"type": "function", "function": {
    "name": "get_weather", "description": "Current weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"},
                                                    "days": {"type": "integer"}},
                   "required": ["city"]}}}]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, *options):
        self.port = free_port()
        self.process = subprocess.Popen(
            [HEDGE, "serve", "--host", "127.0.0.1", "--port", str(self.port), "--reasoning", "off", *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(200):
            try:
                if self.call("GET", "/health")[0] == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                raise RuntimeError(self.process.stderr.read())
            time.sleep(0.05)
        raise RuntimeError("server does not answer")

    def call(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        c.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, dict(r.getheaders()), text

    def chat(self, **body):
        body.setdefault("model", "nano")
        return self.call("POST", "/v1/chat/completions", body)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(20)
        self.process.stderr.close()
        return code


def events(raw):
    """SSE the way the benchmark client reads it: events end in LF LF, one JSON object a line."""
    out = []
    for part in raw.decode().split("\n\n"):
        if part.startswith("data: {"):
            assert "\n" not in part, part
            out.append(json.loads(part[6:]))
    return out


def merge(chunks):
    """Merges deltas into (text, [{"name", "arguments"}], finish_reason)."""
    text, calls, finish = "", {}, None
    for c in chunks:
        for choice in c["choices"]:
            d = choice["delta"]
            text += d.get("content") or ""
            for t in d.get("tool_calls", []):
                call = calls.setdefault(t["index"], {"name": None, "arguments": ""})
                call["name"] = t.get("function", {}).get("name", call["name"])
                call["arguments"] += t.get("function", {}).get("arguments", "")
            finish = choice.get("finish_reason") or finish
    return text, [calls[i] for i in sorted(calls)], finish


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server("--ctx", "4096", "--queue", "2", "--chunk", "64")

    @classmethod
    def tearDownClass(cls):
        assert cls.s.stop() == 0

    def test_stream_equals_whole(self):
        for tools in (None, WEATHER):
            body = {"messages": [{"role": "user", "content": "What is the weather in Paris for the next 3 days?"}],
                    "temperature": 0.0, "max_completion_tokens": 128, "seed": 42}
            if tools:
                body["tools"] = tools
            status, _, raw = self.s.chat(**body)
            self.assertEqual(status, 200, raw)
            whole = json.loads(raw)["choices"][0]
            status, headers, raw = self.s.chat(stream=True, stream_options={"include_usage": True}, **body)
            self.assertEqual(status, 200)
            chunks = events(raw)
            self.assertTrue(raw.endswith(b"data: [DONE]\n\n"))
            self.assertNotIn(b"\r", raw)
            text, calls, finish = merge(chunks)
            self.assertEqual(text, whole["message"]["content"] or "")
            self.assertEqual(finish, whole["finish_reason"])
            want = [t["function"] for t in whole["message"].get("tool_calls") or []]
            self.assertEqual(calls, want)
            self.assertEqual(len(calls), 1 if tools else 0)
            for c in calls:
                self.assertEqual(json.loads(c["arguments"])["city"], "Paris")
            self.assertEqual(chunks[-1]["choices"], [])
            self.assertGreater(chunks[-1]["usage"]["completion_tokens"], 0)

    def test_tool_choice(self):
        msgs = [{"role": "user", "content": "Hello, who are you?"}]
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            _, _, raw = self.s.chat(messages=msgs, tools=WEATHER, tool_choice=choice, max_tokens=128, temperature=0)
            call = json.loads(raw)["choices"][0]["message"]["tool_calls"][0]
            self.assertEqual(call["function"]["name"], "get_weather")
            json.loads(call["function"]["arguments"])
        _, _, raw = self.s.chat(messages=msgs, tools=WEATHER, tool_choice="none", max_tokens=64)
        self.assertFalse(json.loads(raw)["choices"][0]["message"].get("tool_calls"))

    def test_agent_history(self):
        """History as the benchmark sends it: no content key, arguments as a string, reasoning."""
        bash = [{"type": "function", "function": {"name": "bash", "parameters": {
            "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]
        msgs = [{"role": "system", "content": "You are a helpful assistant that can interact with a computer shell."},
                {"role": "user", "content": "List the files."},
                {"role": "assistant", "reasoning_content": "I list them.", "tool_calls": [
                    {"id": "functions.bash:0", "type": "function",
                     "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}]},
                {"role": "tool", "content": "a.py\nb.py", "tool_call_id": "functions.bash:0"}]
        status, _, raw = self.s.chat(messages=msgs, tools=bash, temperature=0.0, max_completion_tokens=64,
                                     stream=True, seed=42)
        self.assertEqual(status, 200, raw)
        _, calls, finish = merge(events(raw))
        self.assertIn(finish, ("stop", "tool_calls", "length"))
        for c in calls:
            json.loads(c["arguments"])

    def test_bad_requests(self):
        ok = [{"role": "user", "content": "x"}]
        bad = [
            (b"{", "JSON"), (b'{"messages": "\xff"}', ""), (b"[" * 100000, ""),
            ({"messages": [{"role": "wizard", "content": "x"}]}, "wizard"),
            ({"messages": []}, "messages"), ({}, "messages"), ({"messages": ok, "temperature": "hot"}, "temperature"),
            ({"messages": ok, "n": 2}, "n"), ({"messages": ok, "max_tokens": -5}, "max_tokens"),
            ({"messages": [*ok, {"role": "assistant", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "not json"}}]}]}, "arguments"),
        ]
        for body, word in bad:
            status, _, raw = self.s.call("POST", "/v1/chat/completions", body)
            self.assertEqual(status, 400, raw)
            self.assertIn(word, json.loads(raw)["error"]["message"])
        status, _, raw = self.s.chat(messages=[{"role": "user", "content": "word " * 6000}])
        self.assertEqual(status, 400)
        message = json.loads(raw)["error"]["message"]
        self.assertIn("4096", message)
        self.assertRegex(message, r"\b12\d\d\d\b")
        self.assertEqual(self.s.call("GET", "/nowhere")[0], 404)

    def test_busy_then_free(self):
        """One runs, two wait, the next gets 429; when the clients leave, all is free at once."""
        socks = []
        body = json.dumps({"messages": [{"role": "user", "content": "Count."}], "ignore_eos": True,
                           "stream": True}).encode()
        request = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                   b"Content-Length: %d\r\n\r\n" % len(body)) + body
        try:
            for i in range(3):
                s = socket.create_connection(("127.0.0.1", self.s.port))
                s.sendall(request)
                if i == 0:
                    s.recv(1)
                socks.append(s)
            time.sleep(0.3)
            status, headers, raw = self.s.chat(messages=[{"role": "user", "content": "x"}])
            self.assertEqual(status, 429, raw)
            self.assertIn("Retry-After", headers)
        finally:
            for s in socks:
                s.close()
        for _ in range(100):
            status, _, raw = self.s.chat(messages=[{"role": "user", "content": "x"}], max_tokens=4)
            if status == 200:
                break
            time.sleep(0.05)
        self.assertEqual(status, 200, raw)

    def test_other_endpoints(self):
        status, _, raw = self.s.call("GET", "/v1/models")
        self.assertEqual(json.loads(raw)["data"][0]["id"], "nano")
        status, _, raw = self.s.call("POST", "/v1/completions", {"prompt": "def add(a, b):\n", "max_tokens": 8})
        self.assertEqual(status, 200, raw)
        self.assertTrue(json.loads(raw)["choices"][0]["text"])
        status, _, raw = self.s.call("POST", "/tokenize", {"content": "Hello world"})
        self.assertGreater(len(json.loads(raw)["tokens"]), 1)

    def test_metrics(self):
        self.s.chat(messages=[{"role": "user", "content": "Hi"}], max_tokens=4)
        status, headers, raw = self.s.call("GET", "/metrics")
        self.assertEqual(status, 200)
        values = {}
        for line in raw.decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                self.assertNotIn(name, values)
                values[name] = float(value)
        self.assertGreater(values['hedge_requests_total{result="ok"}'], 0)
        self.assertGreater(values["hedge_ttft_seconds_count"], 0)
        self.assertEqual(values['hedge_ttft_seconds_bucket{le="+Inf"}'], values["hedge_ttft_seconds_count"])

    def test_next_turn_is_cached(self):
        """An agent's next turn prefills what is new: the shared prefix is reported as cached."""
        msgs = [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "Say a word. " * 40}]
        first = json.loads(self.s.chat(messages=msgs, max_tokens=8, temperature=0)[2])
        n = first["usage"]["prompt_tokens"]
        msgs += [{"role": "assistant", "content": first["choices"][0]["message"]["content"] or "word"},
                 {"role": "user", "content": "Another."}]
        second = json.loads(self.s.chat(messages=msgs, max_tokens=8, temperature=0)[2])
        cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertGreater(cached, n - 16)
        again = json.loads(self.s.chat(messages=msgs, max_tokens=8, temperature=0)[2])
        self.assertEqual(again["choices"][0]["message"], second["choices"][0]["message"])
        self.assertEqual(again["timings"]["logits_hash"], second["timings"]["logits_hash"])

    def test_concurrent(self):
        """Several at once: all are answered, and alike."""
        got = []

        def one():
            got.append(self.s.chat(messages=[{"role": "user", "content": "Hi"}], max_tokens=8, temperature=0))
        threads = [threading.Thread(target=one) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual({g[0] for g in got}, {200})
        self.assertEqual(len({json.loads(g[2])["choices"][0]["message"]["content"] for g in got}), 1)


class Start(unittest.TestCase):
    def test_port_in_use(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = str(s.getsockname()[1])
            r = subprocess.run([HEDGE, "serve", "--host", "127.0.0.1", "--port", port], capture_output=True, text=True)
        self.assertEqual(r.returncode, 1)
        self.assertIn(port, r.stderr)

    def test_api_key(self):
        s = Server("--api-key", "sesame", "--ctx", "512")
        try:
            self.assertEqual(s.call("GET", "/v1/models")[0], 401)
            self.assertEqual(s.call("GET", "/v1/models", headers={"Authorization": "Bearer sesame"})[0], 200)
        finally:
            self.assertEqual(s.stop(), 0)

    def test_missing_model(self):
        r = subprocess.run([HEDGE, "serve", "/nonexistent"], capture_output=True, text=True)
        self.assertEqual(r.returncode, 1)
        self.assertIn("/nonexistent/config.json", r.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
