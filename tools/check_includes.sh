#!/bin/sh
# Includes point one way: a folder of src/ may include itself, hedge.h and the folders named for it
# here, nothing else. Prints each include that breaks this; exit 1 if there is any.
set -eu
cd "$(dirname "$0")/.."
files=$(find src -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh')
awk '
BEGIN {
    may["base"]       = ""
    may["checkpoint"] = "base"
    may["text"]       = "base"
    may["quant"]      = "base"
    may["backend"]    = "base checkpoint text quant"
    may["model"]      = "base checkpoint text quant backend"
    may["cache"]      = "base checkpoint text quant backend model"
    may["speculate"]  = "base checkpoint text quant backend model"
    may["sample"]     = "base checkpoint text quant backend model"
    may["engine"]     = "base checkpoint text quant backend model cache speculate sample"
    may["server"]     = "base"
    may["bench"]      = "base"
    may["cli"]        = "base server bench"
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split(FILENAME, part, "/"); from = part[2]
    split($0, quote, "\""); path = quote[2]
    to = path; sub("/.*", "", to)
    if (path == "hedge.h" || path !~ "/" || to == from) next
    if (!(from in may)) { print FILENAME ": src/" from " has no place in tools/check_includes.sh"; bad = 1 }
    else if (index(" " may[from] " ", " " to " ") == 0) {
        print FILENAME ":" FNR ": src/" from " must not include " path; bad = 1
    }
}
END { exit bad }' $files
