"""Small networks that compute on half precision.

ONNX Runtime has no arithmetic on BFLOAT16, and on FLOAT16 it leaves out the rounding between operators.  So what it
runs is the same network written out: each operator in FLOAT, each of its results cast to half precision.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import ModelProto, checker, helper, shape_inference

from models.cases import Case
from models.sketch import Sketch, narrowed, uniform
from reference.exact import DATA_TYPES
from reference.runtimes import RUNTIME, run_runtime

FEATURES, HIDDEN = 12, 8
HALVES = {"FLOAT16": 22, "BFLOAT16": 22}

# A product of FLOATs that adds up in another order may round to the neighbour.
TOLERANCE = {
    "FLOAT16": {"rtol": 2e-3, "atol": 2e-4},
    "BFLOAT16": {"rtol": 1.6e-2, "atol": 2e-3},
}


def half_cases() -> Iterator[Case]:
    for dtype, opset in HALVES.items():
        yield perceptron(dtype, opset)
        yield convolution(dtype, opset)
        yield arithmetic(dtype, opset)


def perceptron(dtype: str, opset: int) -> Case:
    """Gemm, a normalization and a softmax, as exporters write them."""
    s = Sketch()
    s.input("x", dtype, ["batch", FEATURES])
    s.initializer(narrowed("w", dtype, uniform(51, HIDDEN, FEATURES) / 4))
    s.initializer(narrowed("b", dtype, uniform(52, HIDDEN)))
    s.initializer(narrowed("scale", dtype, uniform(53, HIDDEN)))
    s.node("Gemm", ["x", "w", "b"], "h", transB=1, alpha=0.5)
    s.node("LayerNormalization", ["h", "scale"], "n", axis=-1)
    s.node("Gelu", ["n"], "g", approximate="tanh")
    s.node("Transpose", ["g"], "t", perm=[1, 0])
    s.node("Softmax", ["t"], "y", axis=0)
    s.output("y", dtype, [HIDDEN, "batch"])
    x = narrowed("x", dtype, uniform(54, 3, FEATURES))
    return half_case(f"half_perceptron_{dtype}", "A perceptron on half precision.", s, opset, x)


def convolution(dtype: str, opset: int) -> Case:
    """What only moves is moved as it was computed."""
    s = Sketch()
    s.input("x", dtype, [1, 2, 6, 6])
    s.initializer(narrowed("w", dtype, uniform(55, 4, 2, 3, 3) / 4))
    s.constant("shape", np.array([1, -1], np.int64))
    s.node("Conv", ["x", "w"], "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    s.node("LeakyRelu", ["c"], "r", alpha=0.1)
    s.node("MaxPool", ["r"], "p", kernel_shape=[2, 2], strides=[2, 2])
    s.node("Concat", ["p", "p"], "twice", axis=1)
    s.node("Reshape", ["twice", "shape"], "flat")
    s.node("Tanh", ["flat"], "y")
    s.output("y", dtype, [1, 72])
    x = narrowed("x", dtype, uniform(56, 1, 2, 6, 6))
    return half_case(f"half_convolution_{dtype}", "A Conv on half precision.", s, opset, x)


def arithmetic(dtype: str, opset: int) -> Case:
    """Sums, differences, products and quotients, each rounded: the same bits everywhere."""
    s = Sketch()
    s.input("x", dtype, ["n"])
    s.initializer(narrowed("small", dtype, np.array([0.000244140625], np.float32)))
    s.initializer(narrowed("large", dtype, np.array([60000.0], np.float32)))
    s.node("Add", ["x", "small"], "a")
    s.node("Sub", ["a", "x"], "lost")
    s.node("Mul", ["x", "large"], "much")
    s.node("Mul", ["much", "small"], "less")
    s.node("Sqrt", ["less"], "root")
    s.output("lost", dtype, ["n"])
    s.output("less", dtype, ["n"])
    s.output("root", dtype, ["n"])
    x = narrowed("x", dtype, uniform(57, 9))
    return half_case(
        f"half_arithmetic_{dtype}",
        "Arithmetic on half precision that loses and overflows.",
        s,
        opset,
        x,
        is_exact=True,
    )


def half_case(
    name: str, covers: str, sketch: Sketch, opset: int, x: object, is_exact: bool = False
) -> Case:
    model = sketch.model(name, opset)
    checker.check_model(model, full_check=True)
    dtype = name.rsplit("_", 1)[1]
    return Case(
        name=f"whole/{name}",
        covers=covers,
        model=model,
        inputs=[x],
        outputs=run_runtime(written_out(model, dtype), [x]),
        oracle=f"{RUNTIME}, each operator in FLOAT",
        tolerance=None if is_exact else TOLERANCE[dtype],
        features=[dtype, "half_arithmetic"],
    )


def written_out(model: ModelProto, dtype: str) -> ModelProto:
    """The model with casts around each operator."""
    half, wide = DATA_TYPES[dtype], DATA_TYPES["FLOAT"]
    inferred = shape_inference.infer_shapes(model, strict_mode=True).graph
    typed = [*inferred.input, *inferred.output, *inferred.value_info]
    types = {value.name: value.type.tensor_type.elem_type for value in typed}
    types |= {tensor.name: tensor.data_type for tensor in inferred.initializer}
    written = ModelProto()
    written.CopyFrom(model)
    del written.graph.node[:]
    for node in model.graph.node:
        inner = helper.make_node(node.op_type, [], [], node.name)
        inner.attribute.extend(node.attribute)
        for name in node.input:
            is_half = types.get(name) == half
            inner.input.append(f"{node.name}.{name}" if is_half else name)
            if is_half and f"{node.name}.{name}" not in inner.input[:-1]:
                cast = helper.make_node("Cast", [name], [f"{node.name}.{name}"], to=wide)
                written.graph.node.append(cast)
        inner.output.extend(f"{name}.exact" for name in node.output)
        written.graph.node.append(inner)
        for name in node.output:
            cast = helper.make_node("Cast", [f"{name}.exact"], [name], to=types[name])
            written.graph.node.append(cast)
    return written
