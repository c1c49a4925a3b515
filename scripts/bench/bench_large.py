"""Large models beside ONNX Runtime: `bench_large.py PROGRAM FOLDER [SIZE]`; `make bench-large` does.

A language model of SIZE (`small`: 124 million weights, `medium`: 0.5, `large`: 1.1 billion) is made in
FOLDER, seeded, unless it is there: in FLOAT, in FLOAT16 and with weights of 4 bits (MatMulNBits). Each
row is two processes, ours and then ONNX Runtime's, which includes Python's imports: the processor's
seconds, those of the clock, and the most memory that it held, mapped files included; then the ratios
of the first and the last. Beside `compare` runs what users write by hand: every tensor of both models
is an output, and those of one name are compared in numpy; `compare` is told twice, with a verdict and
with a tolerance alone, and with a FLOAT16 model of which the weight of a norm is 1.5 times what it was.
`compare --weights-only` is told last, by the processor's time an element of the FLOAT model.
Without ONNX Runtime ours alone is told.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZES = {
    "small": (12, 768, 50257),
    "medium": (24, 1216, 100000),
    "large": (24, 1856, 65000),
}
TYPES = ("FLOAT", "FLOAT16", "int4")
BLOCK = 32
HEAD = 64
LENGTH = 32
RUNTIME = """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, dict(numpy.load(sys.argv[2])))
"""
SCRIPT = """
import os, sys, numpy, onnx, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
made = []
for path in sys.argv[1:3]:
    model = onnx.load(path, load_external_data=False)
    names = [name for node in model.graph.node for name in node.output if name]
    outputs = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in outputs)
    whole = f"{path}.{os.getpid()}.onnx"
    onnx.save(model, whole)
    try:
        session = onnxruntime.InferenceSession(whole, options, ["CPUExecutionProvider"])
    finally:
        os.unlink(whole)
    made.append(dict(zip(names, session.run(names, dict(numpy.load(sys.argv[3]))))))
    del session
a, b = made
both = [(a[name].astype("f4"), b[name].astype("f4")) for name in a if name in b]
close = [bool((abs(x - y) <= 1e-2 + 1e-2 * abs(x)).all()) for x, y in both if x.shape == y.shape]
"""

# What the script does, and no more.
NO_VERDICT = ["--no-verdict", "--all-tensors", "--rtol=1e-2", "--atol=1e-2"]
# The processor's seconds, the clock's, MB, and what went wrong.
Spent = tuple[float, float, int, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("size", nargs="?", choices=SIZES, default="small")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    ids = arguments.folder / f"{arguments.size}.npz"
    models = {}
    for ty in TYPES:
        models[ty] = arguments.folder / f"{arguments.size}.{ty}" / "model.onnx"
        if not models[ty].is_file():
            models[ty].parent.mkdir(exist_ok=True)
            Model(arguments.size, ty).save(models[ty])
    vocabulary = SIZES[arguments.size][2]
    np.savez(ids, ids=np.random.default_rng(1).integers(0, vocabulary, (1, LENGTH)))
    program = str(arguments.program.resolve())
    columns = "processor, s | clock, s | MB"
    print(f"| | ours: {columns} | ONNX Runtime: {columns} | ratios |\n{'|---' * 8}|")
    has_peer = find_spec("onnxruntime") is not None
    peer = [sys.executable, "-c"]
    for ty, model in models.items():
        given = [str(model), str(ids)]
        other = measure([*peer, RUNTIME, *given]) if has_peer else None
        for engine in ("plan", "nodes"):
            command = [program, "run", f"--engine={engine}", str(model), "-i", str(ids)]
            tell(f"run {ty}, {engine}", measure(command), other)
    models["FLOAT16, broken"] = broken(models["FLOAT16"], SIZES[arguments.size][0] // 2)
    for ty in [ty for ty in models if ty != "FLOAT"]:
        pair = [str(models["FLOAT"]), str(models[ty])]
        other = measure([*peer, SCRIPT, *pair, str(ids)]) if has_peer else None
        for name, more in (("", []), (", no verdict", NO_VERDICT)):
            ours = measure([program, "compare", *pair, "-i", str(ids), *more])
            tell(f"compare FLOAT with {ty}{name}", ours, other)
    weights = elements(models["FLOAT"])
    for ty in [ty for ty in TYPES if ty != "FLOAT"]:
        pair = [str(models["FLOAT"]), str(models[ty])]
        ours = measure([program, "compare", "--weights-only", *pair])
        tell(f"weights of FLOAT with {ty}: {ours[0] * 1e9 / weights:.1f} ns an element", ours, None)


def elements(model: Path) -> int:
    """How many elements the weights of a model have."""
    graph = onnx.load(model, load_external_data=False).graph
    return sum(math.prod(held.dims) for held in graph.initializer)


def broken(model: Path, layer: int) -> Path:
    """A model with the data of another one: the weight of a layer's first norm is 1.5 times that."""
    proto = onnx.load(model, load_external_data=False)
    weight = next(held for held in proto.graph.initializer if held.name == f"{layer}.first")
    scaled = numpy_helper.to_array(weight) * np.float16(1.5)
    weight.CopyFrom(numpy_helper.from_array(scaled, weight.name))
    path = model.with_name("broken.onnx")
    onnx.save(proto, path)
    return path


def tell(name: str, ours: Spent, other: Spent | None) -> None:
    """A row."""
    sides = [side for side in (ours, other) if side]
    failed = "".join(f", {side[3]}" for side in sides if side[3])
    cells = [f"{side[0]:.1f} | {side[1]:.1f} | {side[2]:,}" for side in sides]
    if other and not failed:
        cells.append(f"{ours[0] / other[0]:.2f}, {ours[2] / other[2]:.2f}")
    print(f"| {name}{failed} | {' | '.join(cells)} |", flush=True)


def measure(command: list[str]) -> Spent:
    """What a command takes; the memory is that of the largest process."""
    start, before = time.monotonic(), os.times()
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    most = 0
    while program.poll() is None:
        most = max(most, *map(resident, family(program.pid)), 0)
        time.sleep(0.02)
    after, wall = os.times(), time.monotonic() - start
    spent = sum(after[2:4]) - sum(before[2:4])
    errors = program.stderr.read().decode() if program.stderr else ""
    failed = errors.strip().splitlines()[-1][:80] if program.returncode > 1 and errors else ""
    return spent, wall, most // 1000, failed


def family(pid: int) -> list[int]:
    """A process and its children."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(inner for child in children for inner in family(int(child)))]


def resident(pid: int) -> int:
    """In kB."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


class Model:
    """A decoder of a language model, from token numbers to scores of the next."""

    def __init__(self, size: str, ty: str) -> None:
        self.layers, self.width, self.vocabulary = SIZES[size]
        self.ty = ty
        self.float = np.float16 if ty == "FLOAT16" else np.float32
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(7)

    def held(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def drawn(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[0]))

    def op(self, op: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        made = f"value_{len(self.nodes)}"
        node = helper.make_node(
            op, inputs, [made], f"{op}_{len(self.nodes)}", domain=domain, **attributes
        )
        self.nodes.append(node)
        return made

    def linear(self, x: str, name: str, rows: int, columns: int) -> str:
        weight = self.drawn(rows, columns)
        if self.ty != "int4":
            return self.op("MatMul", x, self.held(name, weight.astype(self.float)))
        blocks = weight.T.reshape(columns, rows // BLOCK, BLOCK)
        scale = np.abs(blocks).max(axis=2) / np.float32(7)
        wide = (np.rint(blocks / scale[:, :, None]) + 8).astype(np.uint8)
        codes = wide[..., ::2] | wide[..., 1::2] << 4
        scale = scale.reshape(-1)
        inputs = [x, self.held(name, codes), self.held(f"{name}.scale", scale)]
        attributes = {"K": rows, "N": columns, "bits": 4, "block_size": BLOCK}
        return self.op("MatMulNBits", *inputs, domain="com.microsoft", **attributes)

    def normalized(self, x: str, name: str) -> str:
        scale = self.held(name, np.ones(self.width, self.float))
        return self.op("RMSNormalization", x, scale, axis=-1)

    def layer(self, x: str, at: int) -> str:
        width, heads = self.width, self.width // HEAD
        y = self.normalized(x, f"{at}.first")
        q, k, v = (self.linear(y, f"{at}.{part}", width, width) for part in "qkv")
        y = self.op("Attention", q, k, v, q_num_heads=heads, kv_num_heads=heads, is_causal=1)
        x = self.op("Add", x, self.linear(y, f"{at}.out", width, width))
        y = self.normalized(x, f"{at}.second")
        gate = self.op("Gelu", self.linear(y, f"{at}.gate", width, 4 * width))
        return self.op("Add", x, self.linear(gate, f"{at}.down", 4 * width, width))

    def save(self, path: Path) -> None:
        tokens = self.drawn(self.vocabulary, self.width).astype(self.float)
        x = self.op("Gather", self.held("tokens", tokens), "ids")
        for at in range(self.layers):
            x = self.layer(x, at)
        self.linear(self.normalized(x, "last"), "scores", self.width, self.vocabulary)
        self.nodes[-1].output[0] = "logits"
        element = TensorProto.FLOAT16 if self.ty == "FLOAT16" else TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "large",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, LENGTH])],
            [helper.make_tensor_value_info("logits", element, [1, LENGTH, self.vocabulary])],
            self.weights,
        )
        imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=11)
        onnx.save(
            model, path, save_as_external_data=True, location="model.data", size_threshold=4096
        )


if __name__ == "__main__":
    main()
