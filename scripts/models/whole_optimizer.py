"""Casts where tract's optimiser works: beside matrix products, after one another, around data movement."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from models.cases import Case
from models.sketch import FLOAT_TOLERANCE, Sketch, rng, uniform, whole_case
from reference.tensors import array_tensor


def optimizer_cases() -> Iterator[Case]:
    for target in ("INT8", "UINT8", "INT32", "FLOAT"):
        yield integer_product(target)
    for target in ("FLOAT16", "DOUBLE", "INT8"):
        yield convolution(target)
        yield transposed_product(target)
    yield softmax_in_float()
    yield chains_that_join()
    yield chains_that_do_not()
    yield gathered_rows()
    yield sliced_and_tiled()


def integers(seed: int, low: int, high: int, dtype: type, *dims: int) -> np.ndarray:
    return rng(seed).integers(low, high, dims).astype(dtype)


def integer_product(target: str) -> Case:
    """The product may store in the target type itself; what does not fit wraps."""
    s = Sketch()
    s.input("x", "UINT8", [8, 16])
    s.constant("w", integers(70, -20, 21, np.int8, 16, 24))
    s.node("MatMulInteger", ["x", "w"], "product")
    s.cast("product", target, "y")
    s.output("y", target, [8, 24])
    name = f"matmul_integer_to_{target}"
    return whole_case(
        name,
        f"MatMulInteger, then a Cast to {target}.",
        s.model(name, 17),
        [array_tensor("x", integers(71, 0, 40, np.uint8, 8, 16))],
        features=["Cast", "INT32", target, "matrix_product"],
    )


def convolution(target: str) -> Case:
    s = Sketch()
    s.input("x", "FLOAT", [1, 3, 9, 9])
    s.constant("w", uniform(72, 4, 3, 3, 3))
    s.node("Conv", ["x", "w"], "image")
    s.cast("image", target, "y")
    s.output("y", target, [1, 4, 7, 7])
    name = f"conv_to_{target}"
    return whole_case(
        name,
        f"Conv, then a Cast to {target}.",
        s.model(name, 17),
        [array_tensor("x", uniform(73, 1, 3, 9, 9))],
        tolerance=None if target == "INT8" else FLOAT_TOLERANCE | {"rtol": 2e-3},
        features=["Cast", "FLOAT", target, "matrix_product"],
    )


def transposed_product(target: str) -> Case:
    s = Sketch()
    s.input("x", "FLOAT", [1, 8, 16])
    s.constant("w", uniform(74, 16, 24))
    s.constant("axis", np.array([0], np.int64))
    s.node("MatMul", ["x", "w"], "product")
    s.node("Transpose", ["product"], "turned", perm=[0, 2, 1])
    s.cast("turned", target, "cast")
    s.node("Squeeze", ["cast", "axis"], "y")
    s.output("y", target, [24, 8])
    name = f"matmul_transpose_to_{target}"
    return whole_case(
        name,
        f"MatMul and Transpose, then a Cast to {target} and Squeeze.",
        s.model(name, 17),
        [array_tensor("x", uniform(75, 1, 8, 16))],
        tolerance=None if target == "INT8" else FLOAT_TOLERANCE | {"rtol": 2e-3},
        features=["Cast", "FLOAT", target, "matrix_product"],
    )


def softmax_in_float() -> Case:
    """What fp16 converters leave around operators that they keep in FLOAT."""
    s = Sketch()
    s.input("x", "FLOAT16", ["batch", 16])
    s.cast("x", "FLOAT", "wide")
    s.node("Softmax", ["wide"], "softmax", axis=-1)
    s.cast("softmax", "FLOAT16", "y")
    s.output("y", "FLOAT16", ["batch", 16])
    return whole_case(
        "softmax_in_float",
        "A Softmax in FLOAT between FLOAT16 values.",
        s.model("softmax_in_float", 17),
        [array_tensor("x", uniform(76, 3, 16).astype(np.float16))],
        tolerance={"rtol": 1e-3, "atol": 1e-6},
        features=["Cast", "FLOAT16", "FLOAT", "symbolic_batch"],
    )


def chain(s: Sketch, start: str, *types: str) -> None:
    """Casts in a row, whose last result is an output."""
    value = start
    for i, dtype in enumerate(types):
        value = s.cast(value, dtype, f"{start}_{'_'.join(types)}_{i}")
    s.output(value, types[-1], [64])


def numbers() -> np.ndarray:
    """Floats of every magnitude, halves among them, within what the references define for integers."""
    random = rng(77)
    return (np.ldexp(random.integers(-255, 256, 64), random.integers(-9, 8, 64))).astype(np.float32)


def chains_that_join() -> Case:
    """Two casts that are one: the first keeps every value, or integers keep low bits."""
    s = Sketch()
    s.input("x", "FLOAT", [64])
    s.input("h", "FLOAT16", [64])
    s.input("i", "INT32", [64])
    chain(s, "x", "DOUBLE", "FLOAT16")
    chain(s, "x", "DOUBLE", "FLOAT")
    chain(s, "h", "FLOAT", "DOUBLE", "INT32")
    chain(s, "h", "FLOAT", "FLOAT16")
    chain(s, "i", "INT64", "FLOAT")
    chain(s, "i", "INT16", "INT8")
    chain(s, "i", "DOUBLE", "INT32")
    return whole_case(
        "chains_that_join",
        "Casts of casts that one cast can stand for.",
        s.model("chains_that_join", 17),
        [
            array_tensor("x", numbers()),
            array_tensor("h", numbers().astype(np.float16)),
            array_tensor("i", integers(78, -(2**31), 2**31, np.int32, 64)),
        ],
        features=["Cast", "cast_chain"],
    )


def chains_that_do_not() -> Case:
    """Two casts that no single one stands for: both round, or the middle loses something."""
    s = Sketch()
    s.input("x", "FLOAT", [64])
    s.input("d", "DOUBLE", [64])
    s.input("i", "INT32", [64])
    chain(s, "x", "FLOAT16", "FLOAT")
    chain(s, "x", "INT32", "FLOAT")
    chain(s, "x", "INT32", "BOOL")
    chain(s, "d", "FLOAT", "FLOAT16")
    chain(s, "i", "FLOAT", "INT64")
    chain(s, "i", "INT8", "INT32")
    ties = (1 + 2.0**-11 + np.ldexp(1.0, -rng(79).integers(25, 50, 64))).astype(np.float64)
    return whole_case(
        "chains_that_do_not",
        "Casts of casts that must both stay, on values that show it.",
        s.model("chains_that_do_not", 17),
        [
            array_tensor("x", numbers()),
            array_tensor("d", ties),
            array_tensor("i", integers(80, -(2**31) + 128, 2**31 - 128, np.int32, 64)),
        ],
        features=["Cast", "cast_chain"],
    )


def gathered_rows() -> Case:
    """A table is cast, and three of its rows are used."""
    s = Sketch()
    s.input("table", "FLOAT16", [50, 4])
    s.input("rows", "INT64", [3])
    s.cast("table", "FLOAT", "wide")
    s.node("Gather", ["wide", "rows"], "y", axis=0)
    s.output("y", "FLOAT", [3, 4])
    return whole_case(
        "gathered_rows",
        "A Cast of a table, and a Gather of a few of its rows.",
        s.model("gathered_rows", 17),
        [
            array_tensor("table", uniform(81, 50, 4).astype(np.float16)),
            array_tensor("rows", np.array([7, 49, -1], np.int64)),
        ],
        features=["Cast", "FLOAT16", "FLOAT", "Gather"],
    )


def sliced_and_tiled() -> Case:
    """A cast before a Slice, and one after a Tile."""
    s = Sketch()
    s.input("x", "FLOAT16", [40, 4])
    for name, value in (("from", 3), ("to", 9), ("axis", 0)):
        s.constant(name, np.array([value], np.int64))
    s.constant("repeats", np.array([2, 3], np.int64))
    s.cast("x", "FLOAT", "wide")
    s.node("Slice", ["wide", "from", "to", "axis"], "sliced")
    s.node("Tile", ["sliced", "repeats"], "tiled")
    s.cast("tiled", "DOUBLE", "y")
    s.output("y", "DOUBLE", [12, 12])
    return whole_case(
        "sliced_and_tiled",
        "A Cast, a Slice, a Tile and a Cast.",
        s.model("sliced_and_tiled", 17),
        [array_tensor("x", uniform(82, 40, 4).astype(np.float16))],
        features=["Cast", "FLOAT16", "FLOAT", "DOUBLE", "Slice", "Tile"],
    )
