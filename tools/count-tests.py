"""Adds up JUnit reports: count-tests.py FAILED_BUILDS REPORT... prints the closing line of a run."""

import sys
import xml.etree.ElementTree as tree


def verdict(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def main():
    count = {"passed": 0, "failed": int(sys.argv[1]), "skipped": 0}
    for path in sys.argv[2:]:
        try:
            root = tree.parse(path).getroot()
        except (OSError, tree.ParseError) as why:
            print(f"no report: {why}")
            count["failed"] += 1
            continue
        for suite in root.iter("testsuite"):
            cases = list(suite.iter("testcase"))
            for case in cases:
                count[verdict(case)] += 1
            # A program that died, or whose plan was not kept, fails as a whole.
            broken = int(suite.get("errors", 0)) > 0
            if broken and all(verdict(case) != "failed" for case in cases):
                print(f"failed: {suite.get('name')}")
                count["failed"] += 1
    line = f"{count['passed']} passed, {count['failed']} failed"
    print(line + (f", {count['skipped']} skipped" if count["skipped"] else ""))
    return 1 if count["failed"] or not count["passed"] else 0


sys.exit(main())
