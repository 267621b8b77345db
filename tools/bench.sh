#!/bin/sh
# bench.sh [OPTION...]: the kernel benchmark (bench/kern/bench_ops.c) on the shipped library;
# bench.sh snapshot [MODEL_DIR]: the cost of a snapshot (bench/kern/bench_snapshot.c).
set -eu
build=build/release
bench=bench_ops
if [ "${1:-}" = snapshot ]; then bench=bench_snapshot; shift; fi
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -g -Iinclude -Isrc -Wall -Wextra -o $build/$bench \
    bench/kern/$bench.c $build/libhedge.a -ljansson -lpthread -lm
exec $build/$bench "$@"
