#!/bin/sh
# make style: the checks a machine can do. Fails on a wrong include, on formatting (where clang-format
# is installed), on an overlong file that does not say why at its top, and on words that do not
# belong into the repository; prints overlong functions.
set -u
cd "$(dirname "$0")/.."
bad=0
fail() { echo "style: $*"; bad=1; }
ours() { # the files that are or could be committed
    git ls-files --cached --others --exclude-standard -- "$@" 2>/dev/null | sort -u |
        while read -r f; do [ -f "$f" ] && echo "$f"; done
}

tools/check_includes.sh || bad=1

if command -v clang-format >/dev/null; then
    for f in $(ours '*.c' '*.h' | xargs clang-format --dry-run -Werror 2>&1 |
        sed -n 's/^\([^ :]*\):[0-9]*:.*clang-formatted.*/\1/p' | sort -u); do
        fail "$f: run clang-format -i"
    done
else
    echo "style: clang-format is not installed, formatting not checked"
fi

# Length. "Long:" in the comment that opens the file is the reason.
for f in $(ours 'src/*.c' 'src/*.h' 'include/*.h' 'tests/*.c' 'tests/*.h' 'tests/*.inc' '*.cu'); do
    case $f in
    include/hedge.h) most=400 ;;
    *.h) most=200 ;;
    *.cu) most=800 ;;
    *) most=600 ;;
    esac
    n=$(wc -l <"$f")
    [ "$n" -le $most ] || head -12 "$f" | grep -qiE 'long:|written by tools/' ||
        fail "$f: $n lines, over $most; split it, or open with a comment 'Long: why'"
done
for f in $(ours 'src/*.c' 'tests/*.c'); do
    awk -v f="$f" '/^{/ { start = FNR } /^}/ { if (start && FNR - start > 81)
        print "style: note: " f ":" start ": function of " FNR - start - 1 " lines"; start = 0 }' "$f"
done

# No unfinished marks. They are spelt in two parts here so that this file passes.
marks='TO''DO|FIX''ME|XX''X'
found=$(ours 'src' 'include' 'tests/*.c' 'tools' | tr '\n' '\0' |
    xargs -0 grep -nIE "\\b($marks)\\b" 2>/dev/null | grep -v XXXXXX)
[ -z "$found" ] || fail "unfinished:
$found"

[ $bad = 0 ] && echo "style: ok"
exit $bad
