"""Runs ONNX's own backend tests: `python -m backend.suite PROGRAM FOLDER [TABLE]`, by default
tests/data/backend.tsv; `make test-backend` does.

PROGRAM is a built `onnx-cast`.  The tests are those of the pinned onnx package, of the kinds `node`,
`simple`, `pytorch-converted` and `pytorch-operator`; they are written into FOLDER, in the layout of
ONNX's tests, and each is held to the tolerance that onnx's own runner would allow it.

TABLE has one row per test, sorted: its kind and name, what came of it, and why.

- `passes`
- `refused`: an error, and no outputs
- `wrong`: other numbers, types or shapes than ONNX's.  What there is of these is no fault here:
  - `test_attention_*_bf16`: the expected outputs come of sums that are rounded to BFLOAT16 after
    each term; ours are the exact ones, rounded once, in all places.
  - `test_attention_*_bf16_expanded`, `…_fp16_expanded`: the same, where each node's result is
    rounded, once.
  - `test_bernoulli*_expanded`: random numbers, which ONNX leaves to who draws them.

Without `--write` the run is compared with TABLE and nothing is written: the exit status is 1 where a
test that passes in TABLE does not, or one that is refused there is wrong.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "scripts" / "requirements.txt"
TABLE = ROOT / "tests" / "data" / "backend.tsv"
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
BETTER = {"wrong": 0, "refused": 1, "passes": 2}

Row = tuple[str, str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("table", nargs="?", type=Path, default=TABLE)
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--engine", choices=("plan", "nodes"), help="run them all on this one")
    arguments = parser.parse_args()
    if f"onnx=={version('onnx')}" not in PINS.read_text().splitlines():
        raise SystemExit(f"error: onnx {version('onnx')} is installed, {PINS} pins another")
    tolerances = write_suite(arguments.folder)
    rows = run(arguments.program, arguments.folder, tolerances, arguments.engine)
    for verdict, count in sorted(Counter(verdict for _, verdict, _ in rows).items()):
        print(f"{verdict}: {count}")
    if arguments.write:
        arguments.table.write_text("".join("\t".join(row) + "\n" for row in rows))
        return 0
    return report(read(arguments.table), rows)


def write_suite(folder: Path) -> dict[str, tuple[float, float]]:
    """Writes all cases, and tells the tolerance of each."""
    shutil.rmtree(folder, ignore_errors=True)
    tolerances = {}
    for kind in KINDS:
        with warnings.catch_warnings():
            # The tests' own arithmetic overflows where it means to.
            warnings.simplefilter("ignore")
            cases = load_model_tests(kind=kind)
        for case in cases:
            name = f"{kind}/{case.name}"
            if case.model_dir is None:
                for file, content in files(case.model, case.data_sets):
                    path = folder / name / file
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
            else:
                shutil.copytree(case.model_dir, folder / name)
            tolerances[name] = (case.rtol, case.atol)
    return tolerances


def files(model: Any, data_sets: Any) -> Iterator[tuple[str, bytes]]:
    yield "model.onnx", model.SerializeToString()
    for index, (inputs, outputs) in enumerate(data_sets):
        for kind, values, declared in (
            ("input", inputs, model.graph.input),
            ("output", outputs, model.graph.output),
        ):
            for place, (value, info) in enumerate(zip(values, declared, strict=True)):
                proto = message(value, info.name, info.type)
                file = f"test_data_set_{index}/{kind}_{place}.pb"
                yield file, proto.SerializeToString()


def message(value: Any, name: str, declared: TypeProto) -> Any:
    if isinstance(value, TensorProto):
        return value
    if declared.HasField("optional_type"):
        return numpy_helper.from_optional(value, name)
    if declared.HasField("sequence_type"):
        return numpy_helper.from_list(value, name)
    return numpy_helper.from_array(np.asarray(value), name)


def run(
    program: Path,
    folder: Path,
    tolerances: dict[str, tuple[float, float]],
    engine: str | None = None,
) -> list[Row]:
    groups = defaultdict(list)
    for name, tolerance in tolerances.items():
        groups[tolerance].append(name)
    rows = []
    for (rtol, atol), names in groups.items():
        command = [program.resolve(), "test", "--json", f"--rtol={rtol}", f"--atol={atol}"]
        command += [f"--engine={engine}"] if engine else []
        command += names
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True)
        cases = json.loads(done.stdout)["cases"]
        rows += [verdict(case["path"], case["reason"]) for case in cases]
    return sorted(rows)


def verdict(name: str, reason: str | None) -> Row:
    if reason is None:
        return name, "passes", ""
    reason = " ".join(reason.split())
    is_wrong = reason.startswith(("output `", "the model has "))
    return name, "wrong" if is_wrong else "refused", reason


def read(table: Path) -> list[Row]:
    rows = (line.split("\t") for line in table.read_text().splitlines())
    return [(name, verdict, reason) for name, verdict, reason in rows]


def report(before: Iterable[Row], now: Iterable[Row]) -> int:
    held = {name: verdict for name, verdict, _ in before}
    worse = 0
    for name, verdict, reason in now:
        if BETTER[verdict] < BETTER[held.get(name, "wrong")]:
            print(f"{name}: {held[name]} before, {verdict}: {reason}", file=sys.stderr)
            worse += 1
    for name in held.keys() - {name for name, _, _ in now}:
        print(f"{name}: is not among onnx's tests", file=sys.stderr)
        worse += 1
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
