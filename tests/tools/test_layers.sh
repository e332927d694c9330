#!/usr/bin/env bash
# tools/check-layers passes on this tree and catches each kind of trespass. TAP on standard output.
set -uo pipefail
root=$1
temp=$(mktemp -d)
place=$temp
trap 'rm -rf "$temp"' EXIT
number=0
check() { # check TITLE EXPECTED-STATUS EXPECTED-TEXT
    number=$((number + 1))
    local out status=0
    out=$("$place/tools/check-layers" 2>&1) || status=$?
    if [ "$status" -eq "$2" ] && [[ $out == *"$3"* ]]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        printf '# status %s: %s\n' "$status" "$out"
    fi
}

echo 1..6
mkdir -p "$place/tools" "$place/src/base" "$place/src/engine"
cp "$root/tools/check-layers" "$root/tools/layers.txt" "$place/tools/"
git -C "$place" init -q
echo '#include "base/err.h"' >"$place/src/engine/engine.c"
check "a lower module may be included" 0 ""
echo '#include "engine/engine.h"' >"$place/src/base/str.c"
check "a higher module may not" 1 'src/base/str.c:1: module base may not include "engine/engine.h"'
echo '#include "base/internal.h"' >"$place/src/engine/engine.c"
rm "$place/src/base/str.c"
check "an internal header is only for its module" 1 'is only for module base'
rm "$place/src/engine/engine.c"
echo '#include <jansson.h>' | tee "$place/src/base/json.c" >"$place/src/base/other.c"
check "a third-party header has one place" 1 'one place only'
rm -r "$place/src/base"
mkdir "$place/src/attic"
echo '' >"$place/src/attic/old.c"
check "an unknown module is named" 1 'module attic is not in tools/layers.txt'
place=$root
check "this tree keeps its layers" 0 ""
