#!/usr/bin/env bash
# tools/unused passes on this tree and finds each kind of function that no program needs. TAP on standard output.
set -uo pipefail
root=$1
temp=$(mktemp -d)
place=$temp
trap 'rm -rf "$temp"' EXIT
number=0
check() { # check TITLE EXPECTED-STATUS EXPECTED-TEXT
    number=$((number + 1))
    local out status=0
    out=$("$place/tools/unused" 2>&1) || status=$?
    if [ "$status" -eq "$2" ] && [[ $out == *"$3"* ]]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        printf '# status %s: %s\n' "$status" "$out"
    fi
}

echo 1..8
mkdir -p "$place/tools" "$place/src/bin" "$place/src/base" "$place/tests"
cp "$root/tools/unused" "$place/tools/"
git -C "$place" init -q
cat >"$place/src/bin/program.c" <<'C'
#include "base/word.h"
static const struct verb verbs[] = {{"word", word_run}};
int main(void)
{
    return verbs[0].run();
}
C
cat >"$place/src/base/word.c" <<'C'
#include "base/word.h"
int word_run(void)
{
    return WORD_OF(1);
}

int word_of(int n)
{
    return n;
}
C
cat >"$place/src/base/word.h" <<'C'
int word_run(void);
int word_of(int n);
#define WORD_OF(n) word_of(n)
C
check "tables and macros lead to functions" 0 ""
cat >"$place/src/base/other.c" <<'C'
/* word_help() calls nobody. */
int other_help(void)
{
    return 0;
}

int other_run(void)
{
    return other_help();
}
C
check "what nobody calls is found" 1 'src/base/other.c:7: other_run: no program calls it'
check "and what only that one calls" 1 'src/base/other.c:2: other_help: no program calls it'
echo 'int main(void) { return other_run(); }' >"$place/tests/test_other.c"
check "a test is no program" 1 'other_run: no program calls it, only tests and benches do'
echo '# They see what no program shows.
other_* looks' >"$place/tools/unused.txt"
check "an exception is taken" 0 ""
rm "$place/src/base/other.c"
check "an exception that is not needed is reported" 1 'tools/unused.txt: other_*: there is no such function'
rm "$place/tools/unused.txt" "$place/tests/test_other.c"
sed -i 's/WORD_OF(1)/word_of(1)/' "$place/src/base/word.c"
sed -i '/define/d' "$place/src/base/word.h"
check "what one file uses should be static" 1 'src/base/word.c:7: word_of: no other file uses it; make it static'
place=$root
check "this tree has none" 0 ""
