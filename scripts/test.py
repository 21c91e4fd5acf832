#!/usr/bin/env python3
"""Runs `cargo test --locked` with the given arguments and prints which suites and tests took longest.

Durations of single tests are reconstructed from the output, because only nightly toolchains report them: libtest starts
tests in the order of their names, a new one whenever one ends.
"""

import os
import re
import subprocess
import sys
import time

MAX_ROWS = 12
COLOR = re.compile(r"\x1b\[[0-9;]*m")
SUITE = re.compile(r"^ +Running (?:unittests )?(\S+) \(\S*?([\w-]+?)(?:-[0-9a-f]{16})?\)$")
DOCTESTS = re.compile(r"^ +Doc-tests (\S+)$")
COUNT = re.compile(r"^running \d+ tests?$")
TEST = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)")
RESULT = re.compile(r"^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored;.*finished in ([\d.]+)s")


class Suite:
    """One test binary, or the doctests of one crate."""

    def __init__(self, name, is_doctest):
        self.name, self.is_doctest = name, is_doctest
        self.passed = self.failed = self.ignored = 0
        self.seconds = 0.0
        self.began = time.monotonic()
        self.ends = {}

    def finish(self, result):
        self.passed, self.failed, self.ignored = (int(count) for count in result.groups()[:3])
        self.seconds = float(result[4])

    def durations(self, threads):
        """Seconds of each test: replays the schedule of libtest on the observed ends."""
        waiting = sorted(self.ends)
        starts = dict.fromkeys(waiting[:threads], 0.0)
        waiting = iter(waiting[threads:])
        for _, end in sorted(self.ends.items(), key=lambda item: item[1]):
            starts.update({name: end for name in [next(waiting, None)] if name})
        return {name: max(0.0, end - starts.get(name, 0.0)) for name, end in self.ends.items()}


def thread_count(arguments):
    for position, argument in enumerate(arguments):
        if argument.startswith("--test-threads"):
            return int(argument.partition("=")[2] or arguments[position + 1])
    return int(os.environ.get("RUST_TEST_THREADS") or len(os.sched_getaffinity(0)))


def run(arguments):
    """Runs the tests, copies their output, and returns (exit status, suites, seconds before the first suite)."""
    color = ["--color=always"] if sys.stdout.isatty() else []
    command = ["cargo", "test", "--locked", *color, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    began, suites, build_seconds = time.monotonic(), [], None
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        text = COLOR.sub("", line.rstrip("\n"))
        suite, doctests = SUITE.match(text), DOCTESTS.match(text)
        if suite or doctests:
            suites.append(Suite(f"{suite[2]} ({suite[1]})" if suite else f"{doctests[1]} (doctests)", bool(doctests)))
            if build_seconds is None:
                build_seconds = time.monotonic() - began
        elif suites and COUNT.match(text):
            suites[-1].began = time.monotonic()
        elif suites and (test := TEST.match(text)):
            suites[-1].ends[test[1]] = time.monotonic() - suites[-1].began
        elif suites and (result := RESULT.match(text)):
            suites[-1].finish(result)
    return process.wait(), suites, build_seconds or time.monotonic() - began


def print_rows(title, rows):
    print(f"\n{title}")
    for name, seconds in sorted(rows, key=lambda row: -row[1])[:MAX_ROWS]:
        print(f"{seconds:9.1f} s  {name}")


def main():
    arguments = sys.argv[1:]
    status, suites, build_seconds = run(arguments)
    if suites:
        threads = thread_count(arguments)
        tests = [
            (f"{suite.name.split(' ')[0]}: {name}", seconds)
            for suite in suites
            if not suite.is_doctest
            for name, seconds in suite.durations(threads).items()
        ]
        print_rows("Slowest suites:", [(suite.name, suite.seconds) for suite in suites])
        print_rows("Slowest tests:", tests)
        passed = sum(suite.passed for suite in suites if not suite.is_doctest)
        doctests = sum(suite.passed for suite in suites if suite.is_doctest)
        failed, ignored = sum(suite.failed for suite in suites), sum(suite.ignored for suite in suites)
        seconds = sum(suite.seconds for suite in suites)
        print(
            f"\n{len(suites)} suites: {passed} tests and {doctests} doctests passed, {failed} failed, {ignored} ignored;"
            f" built in {build_seconds:.0f} s, ran for {seconds:.0f} s"
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
