"""Casts in ONNX Runtime, numpy with ml_dtypes, and PyTorch against ours, taking turns in one run.

usage: python scripts/bench/bench_peers.py SERVE TABLE [--all] [ELEMENTS ...]

SERVE is the `serve` bench of this crate, TABLE the file that the table is written to; with `--all` it is every pair of types
that the peers have. Every peer has one thread and writes to an output that was allocated before; ours runs through a tract
plan. With "kernels serve LEVEL" for SERVE, the example of the conversions alone, ours is without a plan and at a level that
may be lower than the CPU's best. A figure is the shortest of several rounds, in nanoseconds per element. The rows also go
to standard output, and after them how many pairs are slower than ONNX Runtime's.
"""

from __future__ import annotations

import math
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper

ROUNDS = 2
SECONDS = 0.05
OPSET = 25

NUMPY = {
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "FLOAT16": np.float16,
    "BFLOAT16": ml_dtypes.bfloat16,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT16": np.int16,
    "UINT16": np.uint16,
    "INT32": np.int32,
    "UINT32": np.uint32,
    "INT64": np.int64,
    "UINT64": np.uint64,
    "BOOL": np.bool_,
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8E5M2": ml_dtypes.float8_e5m2,
    "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "FLOAT8E8M0": ml_dtypes.float8_e8m0fnu,
    "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
    "INT4": ml_dtypes.int4,
    "UINT4": ml_dtypes.uint4,
}

TORCH = {
    "FLOAT": torch.float32,
    "DOUBLE": torch.float64,
    "FLOAT16": torch.float16,
    "BFLOAT16": torch.bfloat16,
    "INT8": torch.int8,
    "UINT8": torch.uint8,
    "INT16": torch.int16,
    "UINT16": torch.uint16,
    "INT32": torch.int32,
    "UINT32": torch.uint32,
    "INT64": torch.int64,
    "UINT64": torch.uint64,
    "BOOL": torch.bool,
    "FLOAT8E4M3FN": torch.float8_e4m3fn,
    "FLOAT8E4M3FNUZ": torch.float8_e4m3fnuz,
    "FLOAT8E5M2": torch.float8_e5m2,
    "FLOAT8E5M2FNUZ": torch.float8_e5m2fnuz,
    "FLOAT8E8M0": torch.float8_e8m0fnu,
}

F8 = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"]
WHOLE = ["INT8", "UINT8", "INT16", "INT32", "INT64", "UINT32", "UINT64", "BOOL"]
PAIRS = (
    [("FLOAT", to) for to in ["FLOAT16", "BFLOAT16", "DOUBLE", *WHOLE, *F8, "FLOAT4E2M1", "INT4"]]
    + [(of, "FLOAT") for of in ["FLOAT16", "BFLOAT16", "DOUBLE", "INT8", "UINT8", "INT32"]]
    + [(of, "FLOAT") for of in ["INT64", "BOOL", *F8, "FLOAT4E2M1", "INT4"]]
    + [("DOUBLE", "FLOAT16"), ("INT64", "INT32"), ("INT32", "INT64"), ("INT32", "INT8")]
    + [("UINT8", "FLOAT16"), ("FLOAT16", "INT32"), ("FLOAT16", "FLOAT8E4M3FN")]
    + [("BFLOAT16", "FLOAT8E4M3FN"), ("FLOAT8E4M3FN", "FLOAT16")]
    + [("FLOAT8E4M3FN", "FLOAT8E5M2"), ("FLOAT", "STRING"), ("INT64", "STRING")]
    + [("STRING", "FLOAT"), ("STRING", "INT64")]
)

SMALL = {*F8, "INT4", "UINT4"}
ALL = [(of, to) for of in NUMPY for to in NUMPY if of != to]
# ONNX Runtime's Python takes strings only beside types that numpy has by itself.
ALL += [
    pair
    for name, dtype in NUMPY.items()
    if issubclass(dtype, (np.number, np.bool_)) and dtype.__module__ == "numpy"
    for pair in ((name, "STRING"), ("STRING", name))
    # The strings spell numbers of up to four digits.
    if pair not in (("STRING", "INT8"), ("STRING", "UINT8"))
]

Run = Callable[[], object]


def values(name: str, elements: int) -> np.ndarray:
    """The same elements as the crate's benches have."""
    numbers = (np.arange(elements) % 97 * 0.25).astype(np.float32)
    if name == "STRING":
        return np.array([f"{x}".replace(".", "") for x in numbers], dtype=object)
    return numbers.astype(NUMPY[name])


def ort_run(of: str, to: str, x: np.ndarray) -> Run | None:
    """IO binding to memory of ours, so that neither input nor output is copied or allocated."""
    ids = {name: getattr(TensorProto, name) for name in (of, to)}
    node = helper.make_node("Cast", ["x"], ["y"], to=ids[to])
    info = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [info("x", ids[of], ["n"])], [info("y", ids[to], ["n"])])
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=13)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        if "STRING" in (of, to):
            feed = {"x": x}
            return lambda: session.run(None, feed)
        packed = {"INT4", "UINT4", "FLOAT4E2M1"}
        source = pack(x) if of in packed else np.ascontiguousarray(x).view(np.uint8)
        width = NUMPY[to](0).itemsize if hasattr(NUMPY[to](0), "itemsize") else 1
        target = np.zeros(len(x) * width, np.uint8)
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, ids[of], [len(x)], source.ctypes.data)
        binding.bind_output("y", "cpu", 0, ids[to], [len(x)], target.ctypes.data)
        inner, bound = session._sess, binding._iobinding

        def run(keep: object = (source, target, binding)) -> object:
            # The public wrapper costs more than a small cast.
            return inner.run_with_iobinding(bound, None)

        run()
        return run
    except Exception:  # whatever ONNX Runtime says, it has no such cast
        return None


def pack(x: np.ndarray) -> np.ndarray:
    nibbles = np.resize(x.view(np.uint8) & 15, (len(x) + 1) // 2 * 2)
    return (nibbles[::2] | nibbles[1::2] << 4).astype(np.uint8)


def numpy_run(of: str, to: str, x: np.ndarray) -> Run | None:
    if to == "STRING":
        return lambda: x.astype(str)
    if of == "STRING":
        texts = x.astype(str)
        return lambda: texts.astype(NUMPY[to])
    y = np.empty(len(x), NUMPY[to])
    try:
        np.copyto(y, x, casting="unsafe")
    except TypeError:  # ml_dtypes has no such conversion
        return None
    return lambda: np.copyto(y, x, casting="unsafe")


def torch_run(of: str, to: str, x: np.ndarray) -> Run | None:
    if of not in TORCH or to not in TORCH:
        return None
    try:
        source = torch.from_numpy(np.ascontiguousarray(x).view(np.uint8)).view(TORCH[of])
        target = torch.empty(len(x), dtype=TORCH[to])
        target.copy_(source)
    except Exception:  # PyTorch has no such conversion
        return None
    return lambda: target.copy_(source)


def shortest(run: Run, elements: int) -> float:
    runs = max(1, 20_000 // elements)
    best, start = math.inf, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        begin = time.perf_counter()
        for _ in range(runs):
            run()
        best = min(best, (time.perf_counter() - begin) / runs)
    return best * 1e9 / elements


def ask(server: subprocess.Popen[str], of: str, to: str, elements: int) -> float:
    assert server.stdin and server.stdout
    server.stdin.write(f"{of} {to} {elements} {SECONDS}\n")
    server.stdin.flush()
    return float(server.stdout.readline())


def main() -> None:
    serve, table, *words = sys.argv[1:]
    pairs = ALL if "--all" in words else PAIRS
    sizes = [int(word) for word in words if word != "--all"] or [16 << 10, 1 << 20, 16 << 20]
    torch.set_num_threads(1)
    server = subprocess.Popen(
        shlex.split(serve), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    lines = [
        "| elements | pair | ours | ONNX Runtime | numpy | PyTorch | ORT/ours | best peer/ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for elements in sizes:
        times = {}
        for of, to in pairs:
            if "STRING" in (of, to) and elements > 1 << 20:
                continue
            best = shortest_of_each(server, of, to, elements)
            if best[0] == math.inf:
                continue
            times[of, to] = best
            lines.append(row(of, to, elements, best))
            print(lines[-1], flush=True)
        print(summary(elements, times), flush=True)
    Path(table).write_text("\n".join(lines) + "\n")


def shortest_of_each(server: subprocess.Popen[str], of: str, to: str, elements: int) -> list[float]:
    """Ours, ONNX Runtime's, numpy's and PyTorch's; infinite where there is none."""
    x = values(of, elements)
    runs = [make(of, to, x) for make in (ort_run, numpy_run, torch_run)]
    best = [math.inf] * 4
    for _ in range(ROUNDS):
        best[0] = min(best[0], ask(server, of, to, elements))
        for index, run in enumerate(runs):
            if run is not None:
                best[index + 1] = min(best[index + 1], shortest(run, elements))
    return best


def row(of: str, to: str, elements: int, best: list[float]) -> str:
    shown = [f"{time:.3f}" if time < math.inf else "\N{EN DASH}" for time in best]
    ratios = [
        f"{time / best[0]:.2f}" if time < math.inf else "\N{EN DASH}"
        for time in (best[1], min(best[1:]))
    ]
    return f"| {elements} | {of} → {to} | {' | '.join(shown + ratios)} |"


def summary(elements: int, times: dict[tuple[str, str], list[float]]) -> str:
    ratios = {pair: best[1] / best[0] for pair, best in times.items() if best[1] < math.inf}
    small = [math.log(ratio) for pair, ratio in ratios.items() if SMALL.intersection(pair)]
    mean = math.exp(sum(small) / len(small)) if small else math.nan
    slower = [pair for pair, ratio in ratios.items() if ratio < 1 / 1.1]
    torch_pairs = {p: best for p, best in times.items() if SMALL.intersection(p)}
    behind = [pair for pair, best in torch_pairs.items() if best[3] < best[0]]
    return (
        f"{elements} elements: {len(ratios)} pairs that ONNX Runtime has, ours beyond 1.1 times its time on"
        f" {len(slower)} {slower}; it takes {mean:.1f} times ours on geometric mean over the {len(small)}"
        f" of float8, e8m0 and int4; of these PyTorch is faster on {len(behind)} {behind}"
    )


if __name__ == "__main__":
    assert onnx.defs.onnx_opset_version() >= OPSET
    main()
