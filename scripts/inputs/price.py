"""What `compare` takes without inputs beside what it takes on one set that is given, as a table.

    python -m inputs.price onnx-cast ORIGINAL CONVERSION...

Without inputs it may take 10 seconds and five runs more: a run is what the comparison takes on the first of the sets that
were chosen. Columns: how many sets there were, runs of the search, seconds without inputs, with one set and with all of
them given. The exit status is 1 where it is more.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

SEARCH, RUNS = 10.0, 5


def compared(program, *call):
    start = time.monotonic()
    ran = subprocess.run(
        [program, "compare", *map(str, call)], capture_output=True, text=True, check=False
    )
    return ran, time.monotonic() - start


def row_of(program, original, conversion):
    """How many sets and steps, and the seconds; nothing where the models cannot be compared."""
    with tempfile.TemporaryDirectory() as folder:
        chosen, first = Path(folder, "chosen"), Path(folder, "first")
        pair = (original, conversion)
        ran, free = compared(program, *pair, "--random", "--json", "--keep-inputs", chosen)
        if ran.returncode > 1:
            return None
        report = json.loads(ran.stdout)["comparisons"][0]
        search = report["inputs"].get("look", {}).get("search") or {}
        shutil.copytree(chosen / "test_data_set_0", first / "test_data_set_0")
        one, all_of = (compared(program, *pair, "-i", given)[1] for given in (first, chosen))
    return report["sets"], search.get("steps", 0), free, one, all_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("original", type=Path)
    parser.add_argument("conversions", type=Path, nargs="+")
    options = parser.parse_args()
    too_long = 0
    print("| conversion | sets | runs of the search | without | one set | all sets |")
    print("|---|--:|--:|--:|--:|--:|")
    for conversion in options.conversions:
        row = row_of(options.program, options.original, conversion)
        if row is None:
            print(f"| {conversion} | cannot be compared | | | | |", flush=True)
            continue
        sets, steps, *seconds = row
        free, one, _ = seconds
        too_long += free > SEARCH + (1 + RUNS) * one
        shown = " | ".join(f"{taken:.1f} s" for taken in seconds)
        print(f"| {conversion} | {sets} | {steps} | {shown} |", flush=True)
    print(f"{too_long} take more than {SEARCH:.0f} s and {RUNS} runs more than with inputs given")
    return int(too_long > 0)


if __name__ == "__main__":
    raise SystemExit(main())
