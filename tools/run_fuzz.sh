#!/bin/sh
# run_fuzz.sh SECONDS FUZZER...: runs each fuzzer for so long on a scratch copy of its corpus; a
# finding ends the run with the input's path.
set -eu
seconds=$1; shift
for f in "$@"; do
    name=${f#fuzz_} out=build/fuzz/corpus/$f
    mkdir -p "$out"
    seed=tests/fuzz/corpus/$name
    [ -d "$seed" ] || seed=""
    echo "== $f: ${seconds}s"
    build/fuzz/bin/"$f" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$f-" -verbosity=0 "$out" $seed 2>"build/fuzz/$f.log" || {
        tail -40 "build/fuzz/$f.log"; echo "FINDING in $f, see build/fuzz/$f.log and build/fuzz/$f-*"; exit 1; }
    grep -E 'number_of_executed_units|peak_rss_mb' "build/fuzz/$f.log" || true
done
