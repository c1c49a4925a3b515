"""Writes four layers of 4096 x 4096 with weights of four bits and of FLOAT: `python scripts/bench/int4_models.py FOLDER`,
with onnx and numpy as scripts/requirements.txt pins them.

Each folder `WEIGHTS_ROWS` holds model.onnx and test_data_set_0/input_0.pb, as `cargo bench --bench models` reads them:
FLOAT; INT4 in blocks of 32 (DequantizeLinear), with scales that FLOAT16 has and with others; MatMulNBits. For an x of
one row and of 32.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS = 4
SIZE = 4096
BLOCK = 32


def packed(codes: np.ndarray) -> bytes:
    codes = codes.astype(np.uint8).ravel() & 15
    return (codes[::2] | codes[1::2] << 4).tobytes()


def layer(kind: str, index: int, rng: np.random.Generator) -> tuple[list, list]:
    """Nodes and initializers of a product of x{index}."""
    codes = rng.integers(-8, 8, (SIZE, SIZE), np.int8)
    scales = rng.uniform(0.001, 0.004, (SIZE // BLOCK, SIZE)).astype(np.float32)
    if kind != "INT4_rounded":
        scales = scales.astype(np.float16).astype(np.float32)
    x, y, q, s, w = f"x{index}", f"x{index + 1}", f"q{index}", f"s{index}", f"w{index}"
    if kind == "FLOAT":
        weights = codes * scales.repeat(BLOCK, 0)
        return [helper.make_node("MatMul", [x, w], [y])], [numpy_helper.from_array(weights, w)]
    if kind == "MatMulNBits":
        # N rows of K, as distances from 8.
        data = np.frombuffer(packed(codes.T + 8), np.uint8)
        data = data.reshape(SIZE, SIZE // BLOCK, BLOCK // 2)
        sizes = {"K": SIZE, "N": SIZE, "bits": 4, "block_size": BLOCK}
        node = helper.make_node("MatMulNBits", [x, q, s], [y], domain="com.microsoft", **sizes)
        initializers = [
            numpy_helper.from_array(data, q),
            numpy_helper.from_array(np.ascontiguousarray(scales.T).ravel(), s),
        ]
        return [node], initializers
    weights = helper.make_tensor(q, TensorProto.INT4, codes.shape, packed(codes), raw=True)
    attributes = {"axis": 0, "block_size": BLOCK}
    nodes = [
        helper.make_node("DequantizeLinear", [q, s], [w], **attributes),
        helper.make_node("MatMul", [x, w], [y]),
    ]
    return nodes, [weights, numpy_helper.from_array(scales, s)]


def main() -> None:
    folder = Path(sys.argv[1])
    for kind in ("FLOAT", "INT4", "INT4_rounded", "MatMulNBits"):
        rng = np.random.default_rng(0)
        layers = [layer(kind, index, rng) for index in range(LAYERS)]
        nodes = [node for nodes, _ in layers for node in nodes]
        initializers = [tensor for _, tensors in layers for tensor in tensors]
        for rows in (1, 32):
            info = helper.make_tensor_value_info
            graph = helper.make_graph(
                nodes,
                "g",
                [info("x0", TensorProto.FLOAT, [rows, SIZE])],
                [info(f"x{LAYERS}", TensorProto.FLOAT, [rows, SIZE])],
                initializers,
            )
            opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
            model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
            data = folder / f"{kind}_{rows}" / "test_data_set_0"
            data.mkdir(parents=True, exist_ok=True)
            onnx.save(model, data.parent / "model.onnx")
            x = rng.standard_normal((rows, SIZE)).astype(np.float32)
            (data / "input_0.pb").write_bytes(numpy_helper.from_array(x, "x0").SerializeToString())


if __name__ == "__main__":
    main()
