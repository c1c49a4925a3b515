"""Large models beside ONNX Runtime: `bench_large.py PROGRAM FOLDER [SIZE]`; `make bench-large` does.

A language model of SIZE (`small`: 124 million weights, `medium`: 0.5, `large`: 1.1 billion) is made in
FOLDER, seeded, unless it is there: in FLOAT, in FLOAT16 and with weights of 4 bits (MatMulNBits). Each
row is one process: the processor's seconds, those of the clock, and the most memory that it held,
mapped files included. ONNX Runtime's rows include Python's imports.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
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
    print("| | processor, s | clock, s | memory, MB |\n|---|---|---|---|")
    for ty, model in models.items():
        for engine in ("plan", "nodes"):
            command = [program, "run", f"--engine={engine}", str(model), "-i", str(ids)]
            measure(f"run {ty}, {engine}", command)
        measure(f"ONNX Runtime, {ty}", [sys.executable, "-c", RUNTIME, str(model), str(ids)])
    for ty in TYPES[1:]:
        pair = [str(models["FLOAT"]), str(models[ty])]
        measure(f"compare FLOAT with {ty}", [program, "compare", *pair, "-i", str(ids)])


def measure(name: str, command: list[str]) -> None:
    """A row; the memory is that of the largest process."""
    start, before = time.monotonic(), os.times()
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    most = 0
    while program.poll() is None:
        most = max(most, *map(resident, family(program.pid)), 0)
        time.sleep(0.02)
    after, wall = os.times(), time.monotonic() - start
    spent = sum(after[2:4]) - sum(before[2:4])
    errors = program.stderr.read().decode() if program.stderr else ""
    failed = (
        f", {errors.strip().splitlines()[-1][:80]}" if program.returncode > 1 and errors else ""
    )
    print(f"| {name}{failed} | {spent:.1f} | {wall:.1f} | {most // 1000:,} |", flush=True)


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

    def drawn(self, name: str, *shape: int) -> str:
        value = self.random.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[0]))
        return self.held(name, value.astype(self.float))

    def op(self, op: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        name = f"{op}_{len(self.nodes)}"
        node = helper.make_node(op, inputs, [name], name, domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def linear(self, x: str, name: str, rows: int, columns: int) -> str:
        if self.ty != "int4":
            return self.op("MatMul", x, self.drawn(name, rows, columns))
        codes = self.random.integers(0, 256, (columns, rows // BLOCK, BLOCK // 2), np.uint8)
        scale = np.full(columns * (rows // BLOCK), 0.2 / np.sqrt(rows), np.float32)
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
        x = self.op("Gather", self.drawn("tokens", self.vocabulary, self.width), "ids")
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
