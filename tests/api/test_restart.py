#!/usr/bin/env python3
"""The disk tier of the prefix cache over restarts: after SIGTERM and after kill -9 at random moments the
next turn is served from disk or cold, and always as a server without any cache answers it."""
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from test_serve import Server  # noqa: E402

SYSTEM = {"role": "system", "content": "You are a patient assistant on a small machine. " * 8}


def turns(n):
    """The messages of an n-turn conversation; what the assistant said is fixed."""
    msgs = [SYSTEM]
    for i in range(n):
        msgs.append({"role": "user", "content": f"Question {i}: what does file number {i * 17} hold?"})
        if i + 1 < n:
            msgs.append({"role": "assistant", "content": f"It holds {i * 3} lines."})
    return msgs


def ask(server, n):
    status, _, raw = server.chat(messages=turns(n), max_tokens=6, temperature=0)
    assert status == 200, raw
    reply = json.loads(raw)
    return (reply["choices"][0]["message"], reply["timings"]["logits_hash"],
            reply["usage"]["prompt_tokens_details"]["cached_tokens"], reply["usage"]["prompt_tokens"])


class Restart(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="hedge_restart_")
        self.options = ("--ctx", "2048", "--cache-disk", "500M", "--cache-dir", self.dir)

    def tearDown(self):
        shutil.rmtree(self.dir)

    def test_restarts(self):
        seed = int(time.time())
        print("seed", seed)
        rng = random.Random(seed)
        cold_server = Server("--ctx", "2048", "--cache-device", "0")
        cold = {n: ask(cold_server, n) for n in range(1, 9)}
        cold_server.stop()
        from_disk = 0
        for n in range(1, 9):
            s = Server(*self.options)
            message, logits, cached, _ = ask(s, n)
            self.assertEqual((message, logits), cold[n][:2])
            from_disk += cached > 0
            if n % 2:
                self.assertEqual(s.stop(), 0)
                continue
            # kill -9 while it answers or writes behind
            t = threading.Thread(target=lambda: self.ignore(s, n))
            t.start()
            time.sleep(rng.random() * 0.3)
            s.process.send_signal(signal.SIGKILL)
            s.process.wait()
            s.process.stderr.close()
            t.join()
        self.assertGreaterEqual(from_disk, 4)

    @staticmethod
    def ignore(s, n):
        try:
            ask(s, n)
        except Exception:
            pass

    def test_sigterm_keeps_all(self):
        s = Server(*self.options)
        first = ask(s, 3)
        self.assertEqual(s.stop(), 0)
        s = Server(*self.options)
        again = ask(s, 3)
        self.assertEqual(s.stop(), 0)
        self.assertEqual(first[:2], again[:2])
        self.assertGreaterEqual(again[2], again[3] - 8)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
