"""Adds up JUnit reports: count-tests.py FAILED_BUILDS REPORT... prints the skipped cases by reason, the failed ones
with the end of what they said, then the closing line of a run: the last lines of a log tell what failed. With
SG_MUST_WORK=1 a skip that tests/skips.txt does not list counts as a failure."""

import json
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as tree
from fnmatch import fnmatchcase

ALLOWED = pathlib.Path(__file__).resolve().parent.parent / "tests/skips.txt"
REASON_MAX = 160
SAID_LINES_MAX = 6
PROGRAMS_MAX = 4
# Node indents the subtests of a test; Meson reads only what is not indented.
SUBTEST = re.compile(r"^\s+ok \d+(?: - (.*?))? # SKIP ?(.*)$", re.MULTILINE)
WHOLE = re.compile(r"^1\.\.0 # SKIP ?(.*)$", re.MULTILINE | re.IGNORECASE)


def verdict(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def program_of(name):
    """'sandglass.sandglass:unit / jail/jail' is the program jail/jail."""
    return name.rpartition(" / ")[2]


def tidy(reason):
    reason = " ".join(reason.split()) or "no reason given"
    return reason if len(reason) <= REASON_MAX else reason[: REASON_MAX - 3] + "..."


def skips_of(suite):
    """Each skip of a suite as (program, case, reason)."""
    for case in suite.iter("testcase"):
        if case.find("skipped") is None:
            continue
        text = case.findtext("system-out") or ""
        if " / " in case.get("name"):  # a program without cases; the text is its whole output
            found = WHOLE.search(text)
            yield program_of(case.get("name")), "the whole program", tidy(found[1] if found else text[-REASON_MAX:])
        else:
            yield program_of(suite.get("name")), case.get("name"), tidy(text)
    for found in SUBTEST.finditer(suite.findtext("system-out") or ""):
        yield program_of(suite.get("name")), found[1] or "a subtest", tidy(found[2])


def read_allowed():
    rows = []
    for line in ALLOWED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            program, reason, _why = (part.strip() for part in line.split("|"))
            rows.append((program, reason))
    return rows


def said_of(case, suite):
    """The last lines of what a failed case, or else its program, printed."""
    parts = [case.findtext("failure"), case.findtext("error"), case.findtext("system-out")]
    text = "\n".join(part for part in parts if part) or suite.findtext("system-err") or ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [line if len(line) <= REASON_MAX else line[: REASON_MAX - 3] + "..." for line in lines[-SAID_LINES_MAX:]]


def failures_of(path, suite):
    """Each failed case of a suite as the lines that tell it."""
    program = program_of(suite.get("name"))
    told = False
    for case in suite.iter("testcase"):
        if verdict(case) == "failed":
            told = True
            whole = " / " in case.get("name")
            name = f"{program_of(case.get('name'))}: the whole program" if whole else f"{program}: {case.get('name')}"
            yield [f"failed: {name} ({path})", *said_of(case, suite)]
    # A program that died, or whose plan was not kept, fails as a whole.
    if int(suite.get("errors", 0)) > 0 and not told:
        yield [f"failed: {program}: ended in an error ({path})"]


def programs_of(path):
    """Each program that ended badly, with how, from the log beside the report: the report itself does not say that a
    program crashed or ran out of time after cases that passed."""
    log = pathlib.Path(path.removesuffix(".junit.xml") + ".json")
    if log.exists():
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            test = json.loads(line)
            if test["result"] not in ("OK", "SKIP", "EXPECTEDFAIL"):
                yield program_of(test["name"]), test["result"].lower()


def print_skips(skips):
    groups = {}
    for program, _case, reason in skips:
        group = groups.setdefault(reason, {"count": 0, "programs": {}})
        group["count"] += 1
        group["programs"][program] = True
    if groups:
        print("skipped:")
    for reason, group in sorted(groups.items(), key=lambda item: (-item[1]["count"], item[0])):
        names = list(group["programs"])
        more = f" and {len(names) - PROGRAMS_MAX} more" if len(names) > PROGRAMS_MAX else ""
        print(f"{group['count']:5}  {reason} ({', '.join(names[:PROGRAMS_MAX])}{more})")


def main():
    count = {"passed": 0, "failed": int(sys.argv[1])}
    skips = []
    failures = []
    for path in sys.argv[2:]:
        try:
            root = tree.parse(path).getroot()
        except (OSError, tree.ParseError) as why:
            failures.append([f"no report: {why}"])
            continue
        tree_failures = []
        for suite in root.iter("testsuite"):
            count["passed"] += [verdict(case) for case in suite.iter("testcase")].count("passed")
            tree_failures += failures_of(path, suite)
            skips += skips_of(suite)
        for program, result in programs_of(path):
            if not any(lines[0].startswith(f"failed: {program}: ") for lines in tree_failures):
                tree_failures.append([f"failed: {program}: ended with {result} ({path})"])
        failures += tree_failures
    if os.environ.get("SG_MUST_WORK") == "1":
        allowed = read_allowed()
        refused = [
            skip
            for skip in skips
            if not any(fnmatchcase(skip[0], program) and fnmatchcase(skip[2], reason) for program, reason in allowed)
        ]
        for skip in refused:
            failures.append([f"failed: {skip[0]}: {skip[1]}: skipped, and tests/skips.txt does not allow it: {skip[2]}"])
            skips.remove(skip)
    count["failed"] += len(failures)
    print_skips(skips)
    for first, *said in failures:
        print(first, *(f"    {line}" for line in said), sep="\n")
    line = f"{count['passed']} passed, {count['failed']} failed"
    print(line + (f", {len(skips)} skipped" if skips else ""))
    return 1 if count["failed"] or not count["passed"] else 0


sys.exit(main())
