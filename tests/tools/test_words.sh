#!/usr/bin/env bash
# tools/words passes on this tree and finds a phrase in each kind of text. TAP on standard output.
set -uo pipefail
root=$1
temp=$(mktemp -d)
place=$root
trap 'rm -rf "$temp"' EXIT
number=0
check() { # check TITLE EXPECTED-STATUS EXPECTED-TEXT
    number=$((number + 1))
    local out status=0
    out=$("$place/tools/words" 2>&1) || status=$?
    if [ "$status" -eq "$2" ] && [[ $out == *"$3"* ]]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        printf '# status %s: %s\n' "$status" "$out"
    fi
}

echo 1..12
check "this tree is clean" 0 ""

place=$temp
mkdir -p "$place/tools" "$place/src/base" "$place/docs"
cp "$root/tools/words" "$place/tools/"
printf '# a comment\nodd phrase | plain phrase\n' >"$place/tools/words.txt"
git -C "$place" init -q

cat >"$place/src/base/word.c" <<'C'
/* An oddphrase, odd and phrase. */
int odd_phrase(int odd) { return odd /*odd*/ ? '"' : odd; } /* odd
phrases */
C
check "identifiers and parts of words are no findings" 0 ""
printf 'int a;\n/* One odd\n * phrase. */\n' >"$place/src/base/word.c"
check "a comment that goes over two lines" 1 "src/base/word.c:2: 'odd phrase': write 'plain phrase'"
printf 'const char *a = "An Odd "\n                "phrase";\n' >"$place/src/base/word.c"
check "a string literal in two parts" 1 "src/base/word.c:1: 'odd phrase'"
printf "int a = '\"'; /* odd phrase */\n" >"$place/src/base/word.c"
check "a quote as a character constant" 1 "src/base/word.c:1: 'odd phrase'"
printf 'int a;\n' >"$place/src/base/word.c"
printf '# Title\n\nAn odd\nphrase.\n' >"$place/docs/API.md"
check "a document" 1 "docs/API.md:3: 'odd phrase'"
printf '# Title\n' >"$place/docs/API.md"
mkdir -p "$place/sdk/ts"
printf 'let a = 1;\n// An odd\n// phrase.\n' >"$place/sdk/ts/word.ts"
check "a comment of TypeScript" 1 "sdk/ts/word.ts:2: 'odd phrase'"
rm "$place/sdk/ts/word.ts"
printf 'a = 1\n# An odd\n# phrase.\n' >"$place/src/base/word.py"
check "a comment of Python" 1 "src/base/word.py:2: 'odd phrase'"
rm "$place/src/base/word.py"
printf 'TEST(an_odd_phrase)\n{\n}\n' >"$place/src/base/word.c"
check "the name of a test" 1 "src/base/word.c:1: 'odd phrase'"
printf 'int a;\n' >"$place/src/base/word.c"
mkdir -p "$place/tests"
printf '#!/bin/sh\n# An odd phrase.\n' >"$place/tools/make"
check "a script without a suffix" 1 "tools/make:2: 'odd phrase'"
rm "$place/tools/make"
for suffix in js cjs mjs sql sh; do
    printf 'An odd phrase.\n' >"$place/tests/word.$suffix"
done
check "tests and other languages" 1 "tests/word.sql:1: 'odd phrase'"
rm -r "$place/tests"
printf 'odd phrase\n' >"$place/tools/words.txt"
check "a phrase without a better one" 1 "tools/words.txt:1: must be"
