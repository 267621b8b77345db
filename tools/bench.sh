#!/bin/sh
# bench.sh [BENCH_OPS_OPTION...]: builds and runs the kernel benchmark (bench/kern/bench_ops.c) on
# the shipped library; `make bench` runs it over every kernel.
set -eu
build=build/release
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -g -Iinclude -Isrc -Wall -Wextra -o $build/bench_ops \
    bench/kern/bench_ops.c $build/libhedge.a -lpthread -lm
exec $build/bench_ops "$@"
