"""`onnx-cast compare` without inputs, on conversions with a planted fault each, and on sound ones beside them.

    python -m inputs.planted target/debug/onnx-cast [--only KIND] [--keep FOLDER]

Each pair of `pairs.py` and `edges.py` is compared twice: the original with its ruin, which must fail, and with a sound
rewriting, which must pass. A line each that does otherwise, a table by kind, and the times. The exit status is 1 if one
does.
"""

import argparse
import subprocess
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from onnx import parser, save

from inputs.edges import PAIRS

PASSED, FAILED = 0, 1


def model(inputs, constants, body, outputs):
    held = f"<{constants}>" if constants else ""
    text = (
        f'<ir_version: 8, opset_import: ["" : 19]> g ({inputs}) => ({outputs}) {held} {{ {body} }}'
    )
    return parser.parse_model(text)


def compared(program, one, other):
    start = time.monotonic()
    ran = subprocess.run(
        [program, "compare", one, other], capture_output=True, text=True, check=False
    )
    return ran.returncode, time.monotonic() - start, (ran.stdout + ran.stderr).strip()


def of_pair(program, folder, number, pair):
    kind, name, inputs, constants, original, ruined, sound, outputs = pair
    paths = []
    for place, body in enumerate((original, ruined, sound)):
        paths.append(
            str(folder / f"{number:03}-{kind}-{name}-{'abc'[place]}.onnx".replace("?", "open"))
        )
        save(model(inputs, constants, body, outputs), paths[-1])
    return [compared(program, paths[0], other) for other in paths[1:]]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("program")
    arguments.add_argument("--only")
    arguments.add_argument("--keep", type=Path)
    args = arguments.parse_args()
    pairs = [pair for pair in PAIRS if args.only in (None, pair[0])]
    tally, times, wrong = defaultdict(lambda: [0, 0, 0]), [], 0
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        folder = args.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        run = pool.map(lambda numbered: of_pair(args.program, folder, *numbered), enumerate(pairs))
        for number, (pair, (ruined, sound)) in enumerate(zip(pairs, run, strict=True)):
            counts = tally[pair[0]]
            counts[0] += 1
            for place, expected, (status, seconds, said) in (
                (1, FAILED, ruined),
                (2, PASSED, sound),
            ):
                counts[place] += status == expected
                times.append(seconds)
                if status != expected:
                    wrong += 1
                    what = "ruined" if expected == FAILED else "sound"
                    print(
                        f"{number:03} {pair[0]} {pair[1]}, {what}: {status}: {said.splitlines()[0][:150]}"
                    )
    print("| kind | pairs | ruined found | sound passed |\n|---|--:|--:|--:|")
    for kind, (count, found, passed) in sorted(tally.items()):
        print(f"| {kind} | {count} | {found} | {passed} |")
    found, passed = (sum(counts[place] for counts in tally.values()) for place in (1, 2))
    times.sort()
    print(
        f"{found} of {len(pairs)} ruined conversions are found, {passed} of {len(pairs)} sound ones pass"
    )
    print(f"{times[len(times) // 2]:.1f} s at the median, {times[-1]:.1f} s at most")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
