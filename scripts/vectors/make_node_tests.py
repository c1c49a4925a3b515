"""Writes tests/data/node_tests and expanded_tests: `python -m vectors.make_node_tests`.

They are node tests of the pinned onnx package, as its `onnx.backend.test.case` makes them, to the byte: all those of
`Cast` and `CastLike`, and those that `expanded_tests.txt` beside this file names. That list has the smallest test that
tract can run of each other operator, and of each variant of attention, whose definition has a `Cast` or `CastLike`
inside; the tolerance beside them is the one that onnx's runner compares with.

With `--check` nothing is written, and the exit status tells whether the folders hold what would be written.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "tests" / "data"
PINS = HERE.parent / "requirements.txt"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    arguments = parser.parse_args()
    if f"onnx=={version('onnx')}" not in PINS.read_text().splitlines():
        raise SystemExit(f"error: onnx {version('onnx')} is installed, {PINS} pins another")
    wanted = dict(files())
    if arguments.check:
        return report(wanted)
    for folder in ("node_tests", "expanded_tests"):
        shutil.rmtree(DATA / folder, ignore_errors=True)
    for name, content in wanted.items():
        path = DATA / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return 0


def report(wanted: dict[str, bytes]) -> int:
    folders = (DATA / "node_tests", DATA / "expanded_tests")
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    found = {path.relative_to(DATA).as_posix(): path.read_bytes() for path in paths}
    wrong = [name for name in sorted(wanted.keys() | found) if wanted.get(name) != found.get(name)]
    for name in wrong:
        print(f"differs: {DATA / name}", file=sys.stderr)
    return 1 if wrong else 0


def files() -> Iterator[tuple[str, bytes]]:
    expanded = (HERE / "expanded_tests.txt").read_text().split()
    with warnings.catch_warnings():
        # The tests' own arithmetic overflows where it means to.
        warnings.simplefilter("ignore")
        cases = {case.name: case for case in collect_testcases(None)}
    casts = [name for name in cases if name.startswith("test_cast")]
    for name in casts:
        yield f"node_tests/{name}/model.onnx", cases[name].model.SerializeToString()
        yield from tensors(cases[name], f"node_tests/{name}")
    for name in expanded:
        case, folder = cases[name], f"expanded_tests/{name}"
        tolerance = {"rtol": case.rtol, "atol": case.atol}
        yield f"{folder}/model.onnx", case.model.SerializeToString()
        yield f"{folder}/tolerance.json", json.dumps(tolerance).encode()
        yield from tensors(case, f"{folder}/test_data_set_0")


def tensors(case: TestCase, folder: str) -> Iterator[tuple[str, bytes]]:
    ((inputs, outputs),) = case.data_sets
    graph = case.model.graph
    for kind, values, declared in (
        ("input", inputs, graph.input),
        ("output", outputs, graph.output),
    ):
        for index, (value, info) in enumerate(zip(values, declared, strict=True)):
            yield f"{folder}/{kind}_{index}.pb", tensor(value, info.name).SerializeToString()


def tensor(value: Any, name: str) -> TensorProto:
    return (
        value
        if isinstance(value, TensorProto)
        else numpy_helper.from_array(np.asarray(value), name)
    )


if __name__ == "__main__":
    sys.exit(main())
