"""Integers that matter exactly: shapes that pass through Cast, wide INT64 values, indices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from models.cases import Case
from models.sketch import Sketch, uniform, whole_case
from reference.tensors import array_tensor

INT64_MAX = (1 << 63) - 1


def shape_cases() -> Iterator[Case]:
    yield flatten_through_cast()
    yield merge_batch_and_time()
    yield half_size()
    yield ceil_pooling_size()
    yield shape_as_outputs()
    yield position_ids()
    yield timestamps()
    yield hashes()
    yield gather_by_cast_indices()
    yield slice_to_the_end()
    yield int64_extremes()


def flatten_through_cast() -> Case:
    """What exporters wrote for x.view(x.size(0), -1): Shape, casts, Gather, Concat, Reshape."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", 3, 4])
    s.node("Shape", ["x"], "shape")
    s.cast("shape", "INT32", "shape32")
    s.constant("zero", np.array(0, np.int64))
    s.node("Gather", ["shape32", "zero"], "batch32", axis=0)
    s.cast("batch32", "INT64", "batch64")
    s.constant("first_axis", np.array([0], np.int64))
    s.node("Unsqueeze", ["batch64", "first_axis"], "batch_row")
    s.constant("rest", np.array([-1], np.int64), typed=True)
    s.node("Concat", ["batch_row", "rest"], "target", axis=0)
    s.node("Reshape", ["x", "target"], "y")
    s.output("y", "FLOAT", ["batch", 12])
    return whole_case(
        "shape_flatten",
        "Shape cast to INT32 and back, gathered and concatenated into a Reshape target.",
        s.model("shape_flatten", 13),
        [array_tensor("x", uniform(50, 2, 3, 4))],
        features=["Cast", "Shape", "INT64", "INT32", "symbolic_batch"],
    )


def merge_batch_and_time() -> Case:
    """A product of two symbols on its way through Cast."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", "time", 4])
    s.node("Shape", ["x"], "shape")
    s.cast("shape", "INT64", "shape64")
    for i, name in enumerate(("batch", "time")):
        s.constant(f"at_{name}", np.array([i], np.int64))
        s.node("Gather", ["shape64", f"at_{name}"], name, axis=0)
    s.node("Mul", ["batch", "time"], "rows")
    s.constant("rest", np.array([-1], np.int64))
    s.node("Concat", [s.cast("rows", "INT64", "rows64"), "rest"], "target", axis=0)
    s.node("Reshape", ["x", "target"], "y")
    s.output("y", "FLOAT", ["rows", 4])
    return whole_case(
        "shape_merge_axes",
        "The product of two symbolic sizes, cast INT64 to INT64, as a Reshape target.",
        s.model("shape_merge_axes", 13),
        [array_tensor("x", uniform(51, 2, 5, 4))],
        features=["Cast", "Shape", "INT64", "symbolic_batch"],
    )


def half_size() -> Case:
    """floor(size * 0.5) by way of FLOAT, as resizing code is exported."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", 8])
    s.node("Shape", ["x"], "shape")
    s.constant("zero", np.array([0], np.int64))
    s.node("Gather", ["shape", "zero"], "size")
    s.cast("size", "FLOAT", "size_float")
    s.constant("half", np.array([0.5], np.float32), typed=True)
    s.node("Floor", [s.node("Mul", ["size_float", "half"], "halved")], "floored")
    s.cast("floored", "INT64", "end")
    s.node("Slice", ["x", "zero", "end", "zero"], "y")
    s.output("y", "FLOAT", ["half_batch", 8])
    s.output("end", "INT64", [1])
    return whole_case(
        "shape_half_size",
        "A symbolic size cast to FLOAT, halved, floored and cast to INT64 as a Slice end.",
        s.model("shape_half_size", 13),
        [array_tensor("x", uniform(52, 5, 8))],
        features=["Cast", "Shape", "INT64", "FLOAT", "symbolic_batch"],
    )


def ceil_pooling_size() -> Case:
    """size / 3 rounded up in DOUBLE, then used to Expand."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", 7])
    s.input("row", "FLOAT", [1, 1])
    s.node("Shape", ["x"], "shape")
    s.cast("shape", "DOUBLE", "shape_double")
    s.constant("three", np.array([3.0], np.float64), typed=True)
    s.node("Ceil", [s.node("Div", ["shape_double", "three"], "thirds")], "ceiled")
    s.cast("ceiled", "INT64", "target")
    s.node("Expand", ["row", "target"], "y")
    s.output("y", "FLOAT", ["rows", "columns"])
    return whole_case(
        "shape_ceil_thirds",
        "Both sizes cast to DOUBLE, divided, rounded up and cast to INT64 as an Expand target.",
        s.model("shape_ceil_thirds", 13),
        [array_tensor("x", uniform(53, 4, 7)), array_tensor("row", uniform(54, 1, 1))],
        features=["Cast", "Shape", "INT64", "DOUBLE", "symbolic_batch"],
    )


def shape_as_outputs() -> Case:
    s = Sketch()
    s.input("x", "FLOAT", ["batch", 3, "time"])
    s.node("Shape", ["x"], "shape")
    targets = ("INT64", "INT32", "FLOAT", "FLOAT16", "DOUBLE", "UINT8", "BOOL", "STRING")
    for target in targets:
        s.cast("shape", target, f"as_{target}")
        s.output(f"as_{target}", target, [3])
    return whole_case(
        "shape_as_outputs",
        "A symbolic shape cast to eight element types, every one of them a graph output.",
        s.model("shape_as_outputs", 13),
        [array_tensor("x", uniform(55, 2, 3, 5))],
        features=["Cast", "Shape", "symbolic_batch", "graph_output", *targets],
    )


def position_ids() -> Case:
    """Positions of unmasked tokens: cumulative sum of a mask, as language models export it."""
    s = Sketch()
    s.input("ids", "INT64", ["batch", "time"])
    s.constant("pad", np.array(0, np.int64))
    s.constant("axis", np.array(1, np.int64))
    s.constant("one", np.array(1, np.int64))
    s.node("Not", [s.node("Equal", ["ids", "pad"], "is_pad")], "keep")
    s.cast("keep", "INT64", "mask")
    s.node("CumSum", ["mask", "axis"], "counts")
    s.node("Mul", [s.node("Sub", ["counts", "one"], "places"), "mask"], "positions")
    s.constant("table", uniform(56, 8, 4))
    s.node("Gather", ["table", "positions"], "embedded")
    s.cast("keep", "FLOAT", "mask_float")
    s.constant("last", np.array([-1], np.int64))
    s.node("Mul", ["embedded", s.node("Unsqueeze", ["mask_float", "last"], "weights")], "y")
    s.output("y", "FLOAT", ["batch", "time", 4])
    s.output("positions", "INT64", ["batch", "time"])
    ids = np.array([[5, 6, 7, 0, 0], [9, 1, 0, 0, 0]], np.int64)
    return whole_case(
        "mask_positions",
        "BOOL masks cast to INT64 and FLOAT, positions by CumSum, Gather by them.",
        s.model("mask_positions", 14),
        [array_tensor("ids", ids)],
        features=["Cast", "BOOL", "INT64", "symbolic_batch", "graph_output"],
    )


def timestamps() -> Case:
    """Seconds as DOUBLE to nanoseconds as INT64: every value is far beyond 32 bits."""
    s = Sketch()
    s.input("seconds", "DOUBLE", ["batch"])
    s.cast("seconds", "INT64", "whole")
    s.constant("billion", np.array(1_000_000_000, np.int64), typed=True)
    s.node("Mul", ["whole", "billion"], "nanos")
    s.constant("day", np.array(86_400, np.int64))
    s.node("Div", ["whole", "day"], "days")
    s.node("Sub", ["whole", s.node("Mul", ["days", "day"], "midnight")], "since_midnight")
    s.cast("since_midnight", "FLOAT", "clock")
    for name, dtype in (("whole", "INT64"), ("nanos", "INT64"), ("clock", "FLOAT")):
        s.output(name, dtype, ["batch"])
    values = np.array([1.7e9 + 0.75, 4294967296.5, 2147483648.0, 0.0, 9.2e9, 8589934593.9])
    return whole_case(
        "int64_timestamps",
        "DOUBLE seconds cast to INT64 and multiplied to nanoseconds, all graph outputs.",
        s.model("int64_timestamps", 13),
        [array_tensor("seconds", values)],
        features=["Cast", "DOUBLE", "INT64", "graph_output", "symbolic_batch"],
    )


def hashes() -> Case:
    """A multiply-add hash whose products fill all 63 bits and never overflow them."""
    s = Sketch()
    s.input("low", "UINT32", [6])
    s.input("high", "INT32", [6])
    s.cast("low", "INT64", "low64")
    s.cast("high", "INT64", "high64")
    s.constant("prime", np.array(2_147_483_629, np.int64))
    s.node("Mul", ["low64", "prime"], "mixed")
    s.node("Add", ["mixed", "high64"], "hash")
    s.cast("hash", "UINT64", "hash_bits")
    s.cast("hash", "INT32", "folded")
    s.output("hash", "INT64", [6])
    s.output("hash_bits", "UINT64", [6])
    s.output("folded", "INT32", [6])
    low = np.array([0, 1, 2**31, 2**32 - 1, 123456789, 2**31 - 1], np.uint32)
    high = np.array([-1, 2**31 - 1, -(2**31), 0, 7, -7], np.int32)
    return whole_case(
        "int64_hashes",
        "UINT32 and INT32 words cast to INT64, hashed by Mul and Add, cast to UINT64 and INT32.",
        s.model("int64_hashes", 13),
        [array_tensor("low", low, typed=True), array_tensor("high", high, typed=True)],
        features=["Cast", "UINT32", "INT32", "INT64", "UINT64", "graph_output", "typed_field"],
    )


def gather_by_cast_indices() -> Case:
    """Indices that arrive as FLOAT or as INT32, negative ones included."""
    s = Sketch()
    s.input("where_float", "FLOAT", ["count"])
    s.input("where_int", "INT32", ["count"])
    s.constant("table", uniform(57, 5, 3), typed=True)
    s.cast("where_float", "INT64", "rows")
    s.cast("where_int", "INT64", "rows_too")
    s.node("Gather", ["table", "rows"], "a", axis=0)
    s.node("Gather", ["table", "rows_too"], "b", axis=0)
    s.output("a", "FLOAT", ["count", 3])
    s.output("b", "FLOAT", ["count", 3])
    return whole_case(
        "gather_by_cast_indices",
        "Gather by indices cast from FLOAT (fractions dropped) and from INT32.",
        s.model("gather_by_cast_indices", 13),
        [
            array_tensor("where_float", np.array([0.0, 4.9, -1.2, 2.0], np.float32)),
            array_tensor("where_int", np.array([3, -5, 1, -2], np.int32)),
        ],
        features=["Cast", "Gather", "INT64", "symbolic_batch"],
    )


def slice_to_the_end() -> Case:
    """The usual open end, INT64's maximum, comes out of a Cast; 32 bits would make it -1."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", 5])
    s.constant("open_end", np.array([INT64_MAX], np.uint64), typed=True)
    s.constant("begin", np.array([1.0], np.float32))
    s.cast("open_end", "INT64", "end")
    s.cast("begin", "INT64", "start")
    s.constant("axis", np.array([0], np.int64))
    s.node("Slice", ["x", "start", "end", "axis"], "y")
    s.output("y", "FLOAT", ["rest", 5])
    s.output("end", "INT64", [1])
    return whole_case(
        "slice_to_int64_max",
        "A Slice whose end is INT64's maximum, cast from UINT64, and also a graph output.",
        s.model("slice_to_int64_max", 13),
        [array_tensor("x", uniform(58, 4, 5))],
        features=["Cast", "Slice", "UINT64", "INT64", "graph_output", "symbolic_batch"],
    )


def int64_extremes() -> Case:
    s = Sketch()
    s.input("x", "INT64", [6])
    s.cast("x", "INT64", "same")
    s.constant("one", np.array(1, np.int64))
    s.node("Add", ["same", "one"], "next")
    s.cast(s.cast("x", "STRING", "text"), "INT64", "back")
    s.cast("x", "INT8", "low_byte")
    for name, dtype in (("same", "INT64"), ("next", "INT64"), ("text", "STRING")):
        s.output(name, dtype, [6])
    s.output("back", "INT64", [6])
    s.output("low_byte", "INT8", [6])
    values = np.array([INT64_MAX - 1, -(2**63), 2**32, -1, 2**53 + 1, 0], np.int64)
    return whole_case(
        "int64_extremes",
        "INT64 values of all 64 bits cast to INT64, STRING and back, and INT8.",
        s.model("int64_extremes", 13),
        [array_tensor("x", values, typed=True)],
        features=["Cast", "INT64", "STRING", "INT8", "graph_output"],
    )
