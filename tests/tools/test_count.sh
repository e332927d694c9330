#!/usr/bin/env bash
# tools/count-tests.py lists skips with their reasons and keeps its closing line. TAP on standard output.
set -uo pipefail
root=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
number=0
check() { # check TITLE EXPECTED-STATUS EXPECTED-OUTPUT ARGUMENT...
    number=$((number + 1))
    local title=$1 wanted=$2 text=$3 out status=0
    shift 3
    out=$(/usr/bin/python3 "$place/tools/count-tests.py" "$@" 2>&1) || status=$?
    if [ "$status" -eq "$wanted" ] && [ "$out" = "$text" ]; then
        echo "ok $number - $title"
    else
        echo "not ok $number - $title"
        printf 'status %s: %s\n' "$status" "$out" | sed 's/^/# /'
    fi
}

echo 1..10
unset SG_MUST_WORK
mkdir -p "$place/tools" "$place/tests"
cp "$root/tools/count-tests.py" "$place/tools/"
printf '# a comment\njail/quota-* | no * here | needs a loop device\n' >"$place/tests/skips.txt"

# As Meson writes them: a suite for a program with cases, one case for a program without.
cat >"$place/cases.xml" <<'XML'
<testsuites><testsuite name="sandglass.sandglass:unit / jail/quota-rootless" errors="0">
<testcase name="1 - a"><skipped /><system-out>no image here</system-out></testcase>
<testcase name="2 - b"><skipped /><system-out>no image here</system-out></testcase>
<testcase name="3 - c" /></testsuite></testsuites>
XML
cat >"$place/whole.xml" <<'XML'
<testsuites><testsuite name="sandglass" errors="0">
<testcase name="sandglass:unit / kernel/ipykernel"><skipped /><system-out>1..0 # SKIP no pandas</system-out></testcase>
<testcase name="sandglass:unit / other"><skipped /></testcase>
<testcase name="sandglass:unit / more" /></testsuite></testsuites>
XML
cat >"$place/nested.xml" <<'XML'
<testsuites><testsuite name="sandglass.sandglass:integration / integration/api" errors="0">
<testcase name="1 - outer" /><system-out>    ok 1 - inner # SKIP no image here
ok 1 - outer</system-out></testsuite></testsuites>
XML
cat >"$place/plain.xml" <<'XML'
<testsuites><testsuite name="sandglass.sandglass:unit / base/str" errors="0"><testcase name="1 - a" /></testsuite></testsuites>
XML
cat >"$place/died.xml" <<'XML'
<testsuites><testsuite name="sandglass.sandglass:unit / base/str" errors="1"><testcase name="1 - a" /></testsuite></testsuites>
XML

cat >"$place/failed.xml" <<'XML'
<testsuites><testsuite name="sandglass.sandglass:unit / base/str" errors="0">
<testcase name="1 - a" /><testcase name="2 - b"><failure /><system-out>1 is not 2</system-out></testcase></testsuite>
<testsuite name="sandglass" errors="0">
<testcase name="sandglass:unit / other"><failure /></testcase></testsuite></testsuites>
XML

cp "$place/plain.xml" "$place/crash.junit.xml"
echo '{"name": "sandglass:unit / base/str", "result": "TIMEOUT"}' >"$place/crash.json"

check "without skips there is only the closing line" 0 "1 passed, 0 failed" 0 "$place/plain.xml"
check "equal reasons are one line" 0 "skipped:
    2  no image here (jail/quota-rootless)
1 passed, 0 failed, 2 skipped" 0 "$place/cases.xml"
check "whole programs are listed" 0 "skipped:
    1  no pandas (kernel/ipykernel)
    1  no reason given (other)
1 passed, 0 failed, 2 skipped" 0 "$place/whole.xml"
check "subtests are listed" 0 "skipped:
    1  no image here (integration/api)
1 passed, 0 failed, 1 skipped" 0 "$place/nested.xml"
check "a program that died and a tree that did not build are failures" 1 \
    "failed: base/str: ended in an error ($place/died.xml)
1 passed, 2 failed" 1 "$place/died.xml"
check "failed cases are named at the end, with what they said" 1 "failed: base/str: 2 - b ($place/failed.xml)
    1 is not 2
failed: other: the whole program ($place/failed.xml)
1 passed, 2 failed" 0 "$place/failed.xml"
check "a program that ended badly after cases that passed is a failure" 1 \
    "failed: base/str: ended with timeout ($place/crash.junit.xml)
1 passed, 1 failed" 0 "$place/crash.junit.xml"
export SG_MUST_WORK=1
check "an allowed skip stays one" 0 "skipped:
    2  no image here (jail/quota-rootless)
1 passed, 0 failed, 2 skipped" 0 "$place/cases.xml"
check "the same reason in another program is a failure" 1 \
    "failed: integration/api: inner: skipped, and tests/skips.txt does not allow it: no image here
1 passed, 1 failed" 0 "$place/nested.xml"
check "a whole program is a failure" 1 \
    "failed: kernel/ipykernel: the whole program: skipped, and tests/skips.txt does not allow it: no pandas
failed: other: the whole program: skipped, and tests/skips.txt does not allow it: no reason given
1 passed, 2 failed" 0 "$place/whole.xml"
