#!/bin/sh
# The demo: starts ./hedge serve on the embedded model, asks it one question the way any OpenAI
# client would, replays the recorded agent conversations of models/demo against it over HTTP, prints
# the report and stops the server.
set -eu
cd "$(dirname "$0")/.."
log=$(mktemp)
server=""
stop() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null || true; }
    rm -f "$log"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '\n== %s\n' "$*"; }

say "./hedge serve --port 0     (the embedded model, models/nano)"
HG_LOG=info ./hedge serve --port 0 2>"$log" &
server=$!
url=""
for _ in $(seq 200); do
    url=$(sed -n 's/^listening on //p' "$log")
    [ -z "$url" ] || break
    kill -0 "$server" 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.1
done
[ -n "$url" ] || { echo "demo: the server did not start within 20 s" >&2; cat "$log" >&2; exit 1; }
sed 's/^/   /; / curl /,$d' "$log"

body='{"messages":[{"role":"user","content":"Set a timer of 25 minutes called tea."}],
 "tools":[{"type":"function","function":{"name":"set_timer","description":"Set a timer",
  "parameters":{"type":"object","properties":{
   "minutes":{"type":"integer","description":"Length in minutes"},
   "name":{"type":"string","description":"Name of the timer"}},
  "required":["minutes","name"]}}}]}'
say "one chat turn with a tool"
printf '%s\n' "   curl $url/v1/chat/completions -H 'Content-Type: application/json' -d '$body'" |
    sed '2,$s/^/   /'
echo
if command -v curl >/dev/null; then
    curl -sS --fail "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$body" |
        sed 's/^/   /'
    echo
else
    echo "   (curl is not installed)"
fi

say "./hedge bench agentic --trace models/demo/agent.jsonl --url $url --usage"
./hedge bench agentic --trace models/demo/agent.jsonl --url "$url" --usage

say "done; the server stops"
kill "$server"
wait "$server"
server=""
cat <<'EOF'
   The embedded model is small and trained for tool calls only: a demonstration and a test load.
   Try: ./hedge chat        ./hedge run --chat -p "What can you do?"        ./hedge serve DIR
EOF
