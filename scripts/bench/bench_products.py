"""Products and convolutions of integers, and some operators of FLOAT, in ONNX Runtime against ours, taking turns in one run.

usage: python scripts/bench/bench_products.py SERVE TABLE [NAME ...]

SERVE is the program of `cargo bench --bench serve --no-run`. Both run the same file, of one node whose other inputs are
constants, with one thread. A figure is the shortest run of several rounds, in microseconds.
"""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROUNDS = 3
SECONDS = 0.3
OPSET = 21
TYPES = {"UINT8": np.uint8, "INT8": np.int8, "FLOAT": np.float32}
RANDOM = np.random.default_rng(0)


class Case:
    """A node whose first input is the model's."""

    def __init__(
        self,
        operator: str,
        dtype: str,
        shape: list[int],
        inputs: list[object],
        **attributes: object,
    ) -> None:
        self.operator, self.dtype, self.shape = operator, dtype, shape
        constants = [
            numpy_helper.from_array(np.asarray(value), f"c{place}")
            for place, value in enumerate(inputs)
            if value is not None
        ]
        names = ["x", *("" if value is None else f"c{at}" for at, value in enumerate(inputs))]
        node = helper.make_node(operator, names, ["y"], "node", **attributes)
        x = helper.make_tensor_value_info("x", getattr(TensorProto, dtype), shape)
        y = onnx.ValueInfoProto(name="y")
        graph = helper.make_graph([node], "g", [x], [y], constants)
        opset = [helper.make_opsetid("", OPSET)]
        self.model = helper.make_model(graph, opset_imports=opset, ir_version=10)


def byte(dtype: str, *shape: int) -> np.ndarray:
    return RANDOM.integers(0, 256, shape).astype(np.uint8).view(TYPES[dtype])


def scale(value: float) -> np.float32:
    return np.float32(value)


def cases() -> Iterator[tuple[str, Case]]:
    for m, k, n in ((1, 256, 256), (64, 256, 256), (128, 768, 768)):
        for a, b in (("UINT8", "INT8"), ("INT8", "INT8"), ("UINT8", "UINT8")):
            zeros = [TYPES[a](3), TYPES[b](0)]
            yield (
                f"MatMulInteger {a} {b} {m}x{k}x{n}",
                Case("MatMulInteger", a, [m, k], [byte(b, k, n), *zeros]),
            )
            quantised = [scale(0.02), zeros[0], byte(b, k, n), scale(0.01), zeros[1]]
            yield (
                f"QLinearMatMul {a} {b} {m}x{k}x{n}",
                Case("QLinearMatMul", a, [m, k], [*quantised, scale(0.1), TYPES[a](5)]),
            )
    for channels, size, kernel, group in (
        (64, 28, 3, 1),
        (64, 28, 1, 1),
        (3, 64, 3, 1),
        (64, 28, 3, 64),
    ):
        weights = [64, channels // group, kernel, kernel]
        pads = {"pads": [kernel // 2] * 4, "group": group}
        where = f"{channels}x{size}x{size} kernel {kernel} group {group}"
        for a, b in (("UINT8", "INT8"), ("INT8", "INT8"), ("UINT8", "UINT8")):
            shape = [1, channels, size, size]
            zeros = [TYPES[a](3), TYPES[b](0)]
            if a == "UINT8":
                yield (
                    f"ConvInteger {a} {b} {where}",
                    Case("ConvInteger", a, shape, [byte(b, *weights), *zeros], **pads),
                )
            scales = np.full(64, 0.01, np.float32), np.zeros(64, TYPES[b])
            bias = RANDOM.integers(-1000, 1000, 64).astype(np.int32)
            quantised = [scale(0.02), zeros[0], byte(b, *weights), *scales]
            yield (
                f"QLinearConv {a} {b} {where}",
                Case("QLinearConv", a, shape, [*quantised, scale(0.1), TYPES[a](5), bias], **pads),
            )
    image = [1, 16, 64, 64]
    grid = RANDOM.uniform(-1.1, 1.1, (1, 64, 64, 2)).astype(np.float32)
    yield "GridSample", Case("GridSample", "FLOAT", image, [grid])
    ones = np.ones(16, np.float32)
    yield "InstanceNormalization", Case("InstanceNormalization", "FLOAT", image, [ones, ones])
    yield "Softmax last axis", Case("Softmax", "FLOAT", [256, 1024], [])
    yield "Softmax first axis", Case("Softmax", "FLOAT", [256, 1024], [], axis=0)
    pool = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2]}
    yield "MaxPool", Case("MaxPool", "FLOAT", image, [], **pool)
    scales = np.array([1, 1, 2, 2], np.float32)
    yield "Resize linear", Case("Resize", "FLOAT", image, [None, scales], mode="linear")
    for operator in ("Sigmoid", "Tanh", "Erf", "Gelu", "Softplus", "Elu", "LogSoftmax"):
        yield operator, Case(operator, "FLOAT", [64, 1024], [])


def theirs(case: Case) -> float:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        case.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    x = (np.arange(math.prod(case.shape)) % 97 * 0.25).astype(TYPES[case.dtype])
    feed = {"x": x.reshape(case.shape)}
    best, start = math.inf, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        begin = time.perf_counter()
        session.run(None, feed)
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def ours(server: subprocess.Popen[str], case: Case, path: Path) -> float:
    assert server.stdin and server.stdout
    onnx.save(case.model, path)
    elements = math.prod(case.shape)
    server.stdin.write(f"{path} {case.dtype} {elements} {SECONDS}\n")
    server.stdin.flush()
    return float(server.stdout.readline()) * elements / 1e3


def main() -> None:
    serve, table, *words = sys.argv[1:]
    server = subprocess.Popen([serve], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    lines = ["| operator | ours | ONNX Runtime | ours/ORT |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        for name, case in cases():
            if words and not any(word in name for word in words):
                continue
            best = [math.inf, math.inf]
            for _ in range(ROUNDS):
                # Whatever it says, ONNX Runtime has no such operator.
                with contextlib.suppress(Exception):
                    best[1] = min(best[1], theirs(case))
                best[0] = min(best[0], ours(server, case, path))
            lines.append(f"| {name} | {best[0]:.1f} | {best[1]:.1f} | {best[0] / best[1]:.2f} |")
            print(lines[-1], flush=True)
    Path(table).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
