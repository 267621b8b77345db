#!/bin/sh
# The oracles that need PyPI packages, in a venv of their own (.venv): tokenizers, jinja2, openai.
# Each script skips what needs data that is not there (../shared, see README "Test data").
set -eu
data=${HEDGE_DATA:-../shared}
[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/pip install -q --disable-pip-version-check tokenizers jinja2 openai
.venv/bin/python tools/oracle_tokenizer.py "$data"
.venv/bin/python tools/oracle_template.py "$data"

port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
./hedge serve --host 127.0.0.1 --port "$port" --reasoning off >/dev/null 2>build/oracle_serve.log &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true' EXIT
for _ in $(seq 100); do
    python3 -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$port/health')" 2>/dev/null && break
    sleep 0.1
done
kill -0 $server || { cat build/oracle_serve.log >&2; exit 1; }
.venv/bin/python tools/oracle_openai.py "http://127.0.0.1:$port/v1"
