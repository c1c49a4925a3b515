"""Writes networks of at least 10^7 multiply-adds in FLOAT, FLOAT16 and BFLOAT16, to be timed against each other:
`python scripts/bench/half_models.py FOLDER`, with onnx and numpy as scripts/requirements.txt pins them.

Each folder `NETWORK_TYPE` holds model.onnx and test_data_set_0/input_0.pb, as `cargo bench --bench models` reads them.
With `--onnxruntime` every model that ONNX Runtime takes is also timed by it, on one thread, the shortest of 20 runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {name: getattr(TensorProto, name) for name in ("FLOAT", "FLOAT16", "BFLOAT16")}
RUNS = 20


class Network:
    """A graph under construction, of one element type."""

    def __init__(self, dtype: int) -> None:
        self.dtype = dtype
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []

    def name(self) -> str:
        return f"v{len(self.nodes) + len(self.initializers)}"

    def weight(self, *shape: int) -> str:
        scale = 1 / np.sqrt(max(1, np.prod(shape[1:])))
        values = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        self.initializers.append(tensor(self.name(), self.dtype, values))
        return self.initializers[-1].name

    def shape(self, *dims: int) -> str:
        self.initializers.append(numpy_helper.from_array(np.array(dims, np.int64), self.name()))
        return self.initializers[-1].name

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        output = self.name()
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        return output


def tensor(name: str, dtype: int, values: np.ndarray) -> TensorProto:
    return helper.make_tensor(name, dtype, values.shape, values.ravel())


def cnn(n: Network) -> tuple[Sequence[int], str]:
    x, channels = "x", 3
    for width in (32, 64, 64, 128):
        weights = n.weight(width, channels, 3, 3), n.weight(width)
        y = n.node("Conv", x, *weights, pads=[1] * 4)
        y = n.node("Relu", y)
        z = n.node("Conv", y, n.weight(width, width, 3, 3), n.weight(width), pads=[1] * 4)
        x = n.node("MaxPool", n.node("Add", y, z), kernel_shape=[2, 2], strides=[2, 2])
        channels = width
    x = n.node("Flatten", n.node("GlobalAveragePool", x))
    return [1, 3, 64, 64], n.node("Gemm", x, n.weight(channels, 10), n.weight(10))


def transformer(n: Network) -> tuple[Sequence[int], str]:
    width, heads, length, x = 256, 4, 64, "x"
    for _ in range(4):
        normal = n.node("LayerNormalization", x, n.weight(width), n.weight(width))
        parts = []
        for _ in range(3):
            part = n.node("Add", n.node("MatMul", normal, n.weight(width, width)), n.weight(width))
            part = n.node("Reshape", part, n.shape(1, length, heads, width // heads))
            parts.append(n.node("Transpose", part, perm=[0, 2, 1, 3]))
        query, key, value = parts
        scores = n.node("MatMul", query, n.node("Transpose", key, perm=[0, 1, 3, 2]))
        mixed = n.node("MatMul", n.node("Softmax", scores, axis=-1), value)
        mixed = n.node("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = n.node("Reshape", mixed, n.shape(1, length, width))
        x = n.node("Add", x, n.node("MatMul", mixed, n.weight(width, width)))
        normal = n.node("LayerNormalization", x, n.weight(width), n.weight(width))
        hidden = n.node("Gelu", n.node("MatMul", normal, n.weight(width, 4 * width)))
        x = n.node("Add", x, n.node("MatMul", hidden, n.weight(4 * width, width)))
    return [1, length, width], x


def lstm(n: Network) -> tuple[Sequence[int], str]:
    width = 256
    weights = n.weight(1, 4 * width, 128), n.weight(1, 4 * width, width), n.weight(1, 8 * width)
    y = n.node("LSTM", "x", *weights, hidden_size=width)
    return [64, 1, 128], n.node("Relu", n.node("Reshape", y, n.shape(64, width)))


NETWORKS: dict[str, Callable[[Network], tuple[Sequence[int], str]]] = {
    "cnn": cnn,
    "transformer": transformer,
    "lstm": lstm,
}


def write(folder: Path, build: Callable[[Network], tuple[Sequence[int], str]], dtype: int) -> None:
    network = Network(dtype)
    shape, output = build(network)
    graph = helper.make_graph(
        network.nodes,
        folder.name,
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info(output, dtype, None)],
        network.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (data / "input_0.pb").write_bytes(tensor("x", dtype, values).SerializeToString())


def by_onnxruntime(folder: Path) -> str:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = str(folder / "model.onnx")
    try:
        session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    except Exception as error:
        return f"refused: {str(error).splitlines()[0][:80]}"
    proto = TensorProto()
    proto.ParseFromString((folder / "test_data_set_0" / "input_0.pb").read_bytes())
    inputs = {session.get_inputs()[0].name: numpy_helper.to_array(proto)}
    shortest = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        session.run(None, inputs)
        shortest = min(shortest, time.perf_counter() - start)
    return f"{shortest * 1e3:.3f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--onnxruntime", action="store_true")
    arguments = parser.parse_args()
    for name, build in NETWORKS.items():
        for type_name, dtype in TYPES.items():
            folder = arguments.folder / f"{name}_{type_name}"
            write(folder, build, dtype)
            if arguments.onnxruntime:
                print(f"{folder}: {by_onnxruntime(folder)}")


if __name__ == "__main__":
    main()
