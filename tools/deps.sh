#!/bin/sh
# Installs the Debian packages that the build needs and that are missing; says which when it may not.
set -eu
need="gcc make libjansson-dev libevent-dev libpcre2-dev libutf8proc-dev libxxhash-dev
libcurl4-openssl-dev libcmocka-dev python3"
case "${MODE:-}${MAKECMDGOALS:-}" in *fuzz*) need="$need clang-19 libclang-rt-19-dev" ;; esac
command -v dpkg-query >/dev/null || exit 0 # no Debian: the compiler will say what is missing
missing=""
for p in $need; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
echo "hedge: installing$missing" >&2
if [ "$(id -u)" = 0 ]; then sudo=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo="sudo"
else
    echo "hedge: these Debian packages are missing and this user may not install them; run:" >&2
    echo "    sudo apt-get install$missing" >&2
    exit 1
fi
$sudo apt-get update -q >/dev/null || true
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -q -y --no-install-recommends $missing >&2 || {
    echo "hedge: apt-get could not install$missing" >&2
    exit 1
}
