"""Counts, by Valgrind, the instructions of what the library does to models of 1,000 and 10,000 of everything.

growth.py [SIZE...]. Unlike time, instructions know neither caches nor what else the machine does. Fails where ten times as
much takes more than twelve times as many.
"""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEST = ["cargo", "test", "--quiet", "--locked", "--test", "growth", "--"]
RUNNER = "valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=*counted_work*"
MOST = 12
# What is the library's own: the others measure tract's work as well.
OWN = re.compile(r"^((?:rewriting::|types_of_)\w+): test$", re.M)


def run(*arguments: str, **environment: str) -> str:
    """What the tests print."""
    return subprocess.run(
        [*TEST, *arguments], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=os.environ | environment,
    ).stdout  # fmt: skip


def count(test: str, size: int) -> int:
    """Instructions of one test's work."""
    printed = run(
        "--exact", test, "--test-threads=1", COUNTED=str(size),
        CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=RUNNER,
    )  # fmt: skip
    return int(re.search(r"Collected : (\d+)", printed)[1])


def main() -> int:
    """Prints a row for each test."""
    sizes = [int(size) for size in sys.argv[1:]] or [1_000, 10_000]
    tests = OWN.findall(run("--list"))
    if not tests:
        sys.exit("growth: no tests")
    beyond = []
    for test in tests:
        counts = [count(test, size) for size in sizes]
        growth = [larger / smaller for smaller, larger in itertools.pairwise(counts)]
        print(f"{test}: {counts} instructions, {[round(times, 2) for times in growth]}", flush=True)
        beyond += [test for times in growth if times > MOST]
    if beyond:
        print(f"growth: more than {MOST} times for a tenfold: {beyond}", file=sys.stderr)
    return int(bool(beyond))


if __name__ == "__main__":
    sys.exit(main())
