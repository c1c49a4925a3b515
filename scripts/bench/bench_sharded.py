"""`convert` of a model beyond 2 GB, with its weights in four files beside it: seconds and memory.

    python scripts/bench/bench_sharded.py target/debug/onnx-cast FOLDER

The model is made in FOLDER, seeded, which needs 6 GB: eleven products of 2.3 GB of FLOAT weights.
Neither conversion runs it. Needs onnx and numpy.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from bench_converters import peak
from onnx import TensorProto, helper

COUNT = 11
SIZES = (8192, 6400)
PER_FILE = 3


def weight(name, shape, location, offset):
    """A weight whose data is in a file."""
    tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    length = 4 * shape[0] * shape[1]
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def make(folder):
    """Writes the model and its data."""
    numbers = np.random.default_rng(0).standard_normal(SIZES) / 90
    piece = numbers.astype(np.float32).tobytes()
    nodes, weights, value = [], [], "x"
    for place in range(COUNT):
        location = f"weights_{place // PER_FILE}.bin"
        with (folder / location).open("ab" if place % PER_FILE else "wb") as file:
            file.write(piece)
        shape = SIZES if place % 2 == 0 else SIZES[::-1]
        offset = place % PER_FILE * len(piece)
        weights.append(weight(f"w{place}", shape, location, offset))
        nodes.append(helper.make_node("MatMul", [value, f"w{place}"], [f"h{place}"]))
        nodes.append(helper.make_node("Tanh", [f"h{place}"], [f"t{place}"]))
        value = f"t{place}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, SIZES[0]])
    y = helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, SIZES[1]])
    graph = helper.make_graph(nodes, "sharded", [x], [y], weights)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))


def main(program, text):
    """Prints a table."""
    folder = Path(text)
    folder.mkdir(parents=True, exist_ok=True)
    make(folder)
    print("| | seconds | peak MB | MB written |\n|---|---|---|---|")
    source = "model.onnx"
    for ty in ("FLOAT16", "FLOAT"):
        output = folder / f"{ty}.onnx"
        command = [program, "convert", str(folder / source), "--to", ty, "--unverified", "-o"]
        done, seconds, memory, said = peak([*command, str(output)])
        if not done:
            sys.exit(said)
        written = output.with_suffix(".onnx.data").stat().st_size / 1e6
        print(f"| {source} to {ty} | {seconds:.0f} | {memory:.0f} | {written:.0f} |")
        source = output.name


if __name__ == "__main__":
    main(*sys.argv[1:])
