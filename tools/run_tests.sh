#!/bin/sh
# run_tests.sh UNIT_DIR [API_DIR]: runs every unit test program and every API test script; prints
# the output of those that fail and one closing line. Exit 1 if any failed.
set -u
unit=$1 api=${2:-}
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
    name=$1; shift
    start=$(date +%s.%N)
    "$@" >"$log" 2>&1; rc=$?
    took=$(echo "$(date +%s.%N) $start" | awk '{printf "%.1f", $1-$2}')
    if [ $rc = 0 ]; then passed=$((passed+1)); echo "ok      $name (${took}s)"; grep -iE '^(seed|skip)' "$log" | head -5
    elif [ $rc = 77 ]; then skipped=$((skipped+1)); echo "skipped $name: $(tail -1 "$log")"
    else failed=$((failed+1)); echo "FAILED  $name (exit $rc, ${took}s)"; tail -60 "$log"; fi
}
for t in "$unit"/test_*; do
    case $t in *.o | *.d) continue ;; esac
    [ -x "$t" ] && run "$(basename "$t")" "$t"
done
if [ -n "$api" ]; then
    for t in "$api"/test_*.py; do [ -e "$t" ] && run "$(basename "$t")" python3 "$t"; done
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed -gt 0 ]
