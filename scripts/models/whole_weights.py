"""Small networks whose weights are kept in fewer bits and cast back on the way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from models.cases import Case
from models.sketch import FLOAT_TOLERANCE, Sketch, narrowed, uniform, whole_case
from reference.tensors import array_tensor, make_tensor

FEATURES, HIDDEN, CLASSES, BLOCK = 16, 12, 4, 4
# Element type, the opset that brought it, typed storage, and whether ONNX Runtime has the cast.
STORED = (
    ("BFLOAT16", 13, False, True),
    ("FLOAT16", 13, True, True),
    ("FLOAT8E4M3FN", 19, False, True),
    ("FLOAT8E5M2", 19, True, True),
    ("FLOAT8E4M3FNUZ", 21, True, True),
    ("INT4", 21, False, True),
    ("UINT4", 21, True, True),
    ("FLOAT4E2M1", 23, True, False),
    ("INT2", 25, False, True),
    ("FLOAT6E3M2", 28, False, False),
    ("FLOAT6E2M3", 28, True, False),
)
# Puts the weights across the range of the types that -3 to 3 would not fill.
SPREAD = {"INT4": 2.5, "UINT4": 2.5, "FLOAT4E2M1": 2.0, "FLOAT6E3M2": 8.0, "FLOAT6E2M3": 2.5}


def weight_cases() -> Iterator[Case]:
    for stored in STORED:
        yield stored_weights(*stored)
    for dtype, opset in (("FLOAT4E2M1", 24), ("FLOAT8E4M3FN", 24), ("FLOAT6E3M2", 28)):
        yield block_scaled(dtype, opset)
    yield external_weights()
    yield constant_nodes()
    yield constant_of_shape()


def batch_input() -> TensorProto:
    return array_tensor("x", uniform(7, 3, FEATURES))


def stored_weights(dtype: str, opset: int, typed: bool, in_runtime: bool) -> Case:
    """y = relu(x W1 s1 + b1) W2' s2 + b2, with both W stored in `dtype`."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", FEATURES])
    factor = SPREAD.get(dtype, 1.0)
    s.initializer(narrowed("w1", dtype, uniform(1, FEATURES, HIDDEN) * factor, typed))
    s.initializer(narrowed("w2", dtype, uniform(2, CLASSES, HIDDEN) * factor, typed))
    s.constant("scale1", np.float32(0.25))
    s.constant("scale2", np.linspace(0.5, 1.0, CLASSES, dtype=np.float32).reshape(CLASSES, 1))
    s.constant("b1", uniform(3, HIDDEN), typed=True)
    s.constant("b2", uniform(4, CLASSES))
    s.node("Mul", [s.cast("w1", "FLOAT", "w1_wide"), "scale1"], "w1_real")
    s.node("Mul", [s.cast("w2", "FLOAT", "w2_wide"), "scale2"], "w2_real")
    s.node("Add", [s.node("MatMul", ["x", "w1_real"], "product"), "b1"], "sum")
    s.node("Relu", ["sum"], "hidden")
    s.node("Gemm", ["hidden", "w2_real", "b2"], "y", transB=1)
    s.output("y", "FLOAT", ["batch", CLASSES])
    name = f"mlp_weights_{dtype}"
    return whole_case(
        name,
        f"A two-layer network with {dtype} weights cast to FLOAT and scaled.",
        s.model(name, opset),
        [batch_input()],
        tolerance=FLOAT_TOLERANCE,
        reference=not in_runtime,
        features=["Cast", dtype, "initializer", "symbolic_batch"],
    )


def block_scaled(dtype: str, opset: int) -> Case:
    """Microscaling: each block of a row shares one power-of-two scale."""
    s = Sketch()
    blocks = FEATURES // BLOCK
    s.input("x", "FLOAT", ["batch", FEATURES])
    s.initializer(narrowed("w", dtype, uniform(11, HIDDEN, blocks, BLOCK)))
    scales = [120 + (5 * i) % 9 for i in range(HIDDEN * blocks)]
    s.initializer(make_tensor("scales", "FLOAT8E8M0", (HIDDEN, blocks, 1), scales))
    s.constant("flat", np.array([HIDDEN, FEATURES], np.int64), typed=True)
    s.cast("w", "FLOAT", "w_wide")
    s.cast("scales", "FLOAT", "scales_wide")
    s.node("Mul", ["w_wide", "scales_wide"], "w_scaled")
    s.node("Reshape", ["w_scaled", "flat"], "w_rows")
    s.node("Transpose", ["w_rows"], "w_columns", perm=[1, 0])
    s.node("Relu", [s.node("MatMul", ["x", "w_columns"], "product")], "y")
    s.output("y", "FLOAT", ["batch", HIDDEN])
    name = f"mlp_block_scales_{dtype}"
    return whole_case(
        name,
        f"{dtype} weights with a FLOAT8E8M0 scale for each block of {BLOCK}.",
        s.model(name, opset),
        [batch_input()],
        tolerance=FLOAT_TOLERANCE,
        reference=dtype != "FLOAT8E4M3FN",
        features=["Cast", dtype, "FLOAT8E8M0", "initializer", "symbolic_batch"],
    )


def external_weights() -> Case:
    """The oracle sees the weights inline; the model on disk has them in a side file."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", FEATURES])
    s.initializer(narrowed("w1", "BFLOAT16", uniform(21, FEATURES, HIDDEN)))
    s.initializer(narrowed("w2", "FLOAT", uniform(22, HIDDEN, CLASSES)))
    s.node("MatMul", ["x", s.cast("w1", "FLOAT", "w1_wide")], "product")
    s.node("MatMul", [s.node("Relu", ["product"], "hidden"), "w2"], "y")
    s.output("y", "FLOAT", ["batch", CLASSES])
    name = "mlp_external_data"
    case = whole_case(
        name,
        "BFLOAT16 and FLOAT weights in a side file.",
        s.model(name, 21),
        [batch_input()],
        tolerance=FLOAT_TOLERANCE,
        features=["Cast", "BFLOAT16", "external_data", "symbolic_batch"],
    )
    case.side_files["model.onnx.data"] = move_outside(case.model.graph.initializer)
    return case


def move_outside(tensors: list[TensorProto]) -> bytes:
    """Moves raw data to one byte string, each tensor aligned as mapped files want it."""
    side = b""
    for tensor in tensors:
        side += bytes(-len(side) % 64)
        location = {"location": "model.onnx.data", "offset": len(side)}
        location["length"] = len(tensor.raw_data)
        for key, value in location.items():
            tensor.external_data.add(key=key, value=str(value))
        side += tensor.raw_data
        tensor.data_location = TensorProto.EXTERNAL
        tensor.ClearField("raw_data")
    return side


def constant_nodes() -> Case:
    """Constant nodes instead of initializers, raw and typed."""
    s = Sketch()
    s.input("x", "FLOAT", [2, 3])
    types = ("BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "UINT4", "INT4")
    for i, dtype in enumerate(types):
        tensor = narrowed(f"value_{dtype}", dtype, uniform(30 + i, 2, 3), typed=i % 2 == 1)
        s.node("Constant", [], f"c_{dtype}", value=tensor)
        s.cast(f"c_{dtype}", "FLOAT", f"wide_{dtype}")
        s.node("Add", ["x", f"wide_{dtype}"], f"y_{dtype}")
        s.output(f"y_{dtype}", "FLOAT", [2, 3])
    name = "constant_nodes"
    return whole_case(
        name,
        "Constant nodes of five small types, each cast to FLOAT and added.",
        s.model(name, 21),
        [array_tensor("x", uniform(40, 2, 3))],
        features=["Cast", "Constant", *types],
    )


def constant_of_shape() -> Case:
    s = Sketch()
    s.input("x", "FLOAT", ["batch", 3])
    s.node("Shape", ["x"], "shape")
    for code, dtype in ((0x45, "FLOAT8E4M3FN"), (0x3FC0, "BFLOAT16"), (0xD, "INT4")):
        value = make_tensor(f"value_{dtype}", dtype, (1,), [code])
        s.node("ConstantOfShape", ["shape"], f"fill_{dtype}", value=value)
        s.cast(f"fill_{dtype}", "FLOAT", f"wide_{dtype}")
        s.node("Mul", ["x", f"wide_{dtype}"], f"y_{dtype}")
        s.output(f"y_{dtype}", "FLOAT", ["batch", 3])
    name = "constant_of_shape"
    return whole_case(
        name,
        "ConstantOfShape filling a symbolic shape with small types, cast to FLOAT.",
        s.model(name, 21),
        [array_tensor("x", uniform(41, 2, 3))],
        reference=True,
        features=["Cast", "ConstantOfShape", "FLOAT8E4M3FN", "BFLOAT16", "INT4", "symbolic_batch"],
    )
