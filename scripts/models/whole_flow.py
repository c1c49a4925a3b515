"""Casts inside If and Scan, values that are only moved between casts, and everyday mixtures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import GraphProto

from models.cases import Case
from models.sketch import FLOAT_TOLERANCE, Sketch, narrowed, rng, uniform, whole_case
from reference.exact import bit_width
from reference.tensors import array_tensor, make_tensor

# What Pad, Transpose, Reshape and their like move, and since which opset; never the 6-bit types.
MOVED = (
    ("FLOAT8E4M3FN", 21),
    ("FLOAT8E5M2FNUZ", 21),
    ("INT4", 21),
    ("UINT4", 22),
    ("FLOAT4E2M1", 23),
    ("FLOAT8E8M0", 24),
    ("INT2", 25),
)


def flow_cases() -> Iterator[Case]:
    for taken in (True, False):
        yield if_with_casts(taken)
        yield if_float8_from_outside(taken)
    yield scan_bfloat16_state()
    yield scan_bfloat16_delay()
    yield scan_bool_counts()
    yield moved_bfloat16()
    for dtype, opset in MOVED:
        yield moved(dtype, opset)
    yield streaming_filter()
    yield half_precision_layer()
    yield image_bytes()
    yield strings_through_numbers()
    yield cast_like_scale()
    yield cast_like_small_types()


def branches(yes: Sketch, no: Sketch, dtype: str) -> dict[str, GraphProto]:
    yes.output("yes_y", dtype, [2, 3])
    no.output("no_y", dtype, [2, 3])
    return {"then_branch": yes.graph("yes"), "else_branch": no.graph("no")}


def if_with_casts(taken: bool) -> Case:
    """The condition itself is a cast, and each branch casts a value of the outer graph."""
    s = Sketch()
    s.input("count", "INT64", [])
    s.input("x", "FLOAT", [2, 3])
    s.cast("count", "BOOL", "condition")
    yes, no = Sketch(), Sketch()
    yes.cast("x", "INT32", "yes_whole")
    yes.cast("yes_whole", "FLOAT", "yes_y")
    no.cast("x", "FLOAT8E4M3FN", "no_small", saturate=0)
    no.cast("no_small", "FLOAT", "no_y")
    s.node("If", ["condition"], "y", **branches(yes, no, "FLOAT"))
    s.output("y", "FLOAT", [2, 3])
    name = f"if_casts_{'then' if taken else 'else'}"
    return whole_case(
        name,
        "If on an INT64 cast to BOOL; the branches truncate to INT32 or round to FLOAT8E4M3FN.",
        s.model(name, 19),
        [
            array_tensor("count", np.array(2 if taken else 0, np.int64)),
            array_tensor("x", uniform(60, 2, 3) * np.float32(200)),
        ],
        reference=True,
        features=["Cast", "If", "BOOL", "INT32", "FLOAT8E4M3FN"],
    )


def if_float8_from_outside(taken: bool) -> Case:
    """Float8 weights captured by both branches, and a float8 value coming out of the If."""
    s = Sketch()
    s.input("condition", "BOOL", [])
    s.input("x", "FLOAT8E5M2", [2, 3])
    s.initializer(narrowed("w", "FLOAT8E5M2", uniform(61, 2, 3)))
    yes, no = Sketch(), Sketch()
    yes.node("Identity", ["w"], "yes_y")
    no.cast("x", "FLOAT", "no_wide")
    no.node("Neg", ["no_wide"], "no_negative")
    no.cast("no_negative", "FLOAT8E5M2", "no_y")
    s.node("If", ["condition"], "chosen", **branches(yes, no, "FLOAT8E5M2"))
    s.cast("chosen", "FLOAT", "y")
    s.output("chosen", "FLOAT8E5M2", [2, 3])
    s.output("y", "FLOAT", [2, 3])
    name = f"if_float8_outer_{'then' if taken else 'else'}"
    return whole_case(
        name,
        "FLOAT8E5M2 weights captured by an If branch, and FLOAT8E5M2 coming out of the If.",
        s.model(name, 21),
        [
            array_tensor("condition", np.array(taken)),
            narrowed("x", "FLOAT8E5M2", uniform(62, 2, 3)),
        ],
        reference=True,
        features=["Cast", "If", "FLOAT8E5M2", "captured", "graph_output"],
    )


def scan(s: Sketch, body: Sketch, inputs: list[str], outputs: list[str]) -> None:
    s.nodes_of("Scan", inputs, outputs, num_scan_inputs=1, body=body.graph("step"))


def scan_bfloat16_state() -> Case:
    """A running sum whose state is rounded to BFLOAT16 at every step."""
    body = Sketch()
    body.input("state", "BFLOAT16", [4])
    body.input("item", "FLOAT", [4])
    body.cast("state", "FLOAT", "before")
    body.node("Add", ["before", "item"], "total")
    body.cast("total", "BFLOAT16", "next_state")
    body.output("next_state", "BFLOAT16", [4])
    body.output("total", "FLOAT", [4])
    s = Sketch()
    s.input("x", "FLOAT", [6, 4])
    s.initializer(narrowed("start", "BFLOAT16", uniform(63, 4), typed=True))
    scan(s, body, ["start", "x"], ["last", "totals"])
    s.output("last", "BFLOAT16", [4])
    s.output("totals", "FLOAT", [6, 4])
    return whole_case(
        "scan_bfloat16_state",
        "A Scan that casts its BFLOAT16 state to FLOAT, adds, and casts it back each step.",
        s.model("scan_bfloat16_state", 16),
        [array_tensor("x", uniform(64, 6, 4))],
        reference=True,
        features=["Cast", "Scan", "BFLOAT16", "typed_field", "graph_output"],
    )


def scan_bfloat16_delay() -> Case:
    """BFLOAT16 flows through the body untouched; the cast comes after."""
    body = Sketch()
    body.input("previous", "BFLOAT16", [4])
    body.input("item", "BFLOAT16", [4])
    body.node("Identity", ["item"], "next_previous")
    body.node("Identity", ["previous"], "delayed")
    body.output("next_previous", "BFLOAT16", [4])
    body.output("delayed", "BFLOAT16", [4])
    s = Sketch()
    s.input("x", "BFLOAT16", [5, 4])
    s.initializer(narrowed("start", "BFLOAT16", uniform(65, 4)))
    scan(s, body, ["start", "x"], ["last", "shifted"])
    s.cast("shifted", "FLOAT", "y")
    s.output("last", "BFLOAT16", [4])
    s.output("y", "FLOAT", [5, 4])
    return whole_case(
        "scan_bfloat16_delay",
        "A Scan that only moves BFLOAT16 items through its state, cast to FLOAT afterwards.",
        s.model("scan_bfloat16_delay", 16),
        [narrowed("x", "BFLOAT16", uniform(66, 5, 4))],
        reference=True,
        features=["Cast", "Scan", "BFLOAT16", "graph_output"],
    )


def scan_bool_counts() -> Case:
    """Counts positive items so far: BOOL cast to INT64 inside the body, added to INT64 state."""
    body = Sketch()
    body.input("count", "INT64", [3])
    body.input("item", "FLOAT", [3])
    body.constant("zero", np.float32(0))
    body.node("Greater", ["item", "zero"], "positive")
    body.cast("positive", "INT64", "one_or_zero")
    body.node("Add", ["count", "one_or_zero"], "next_count")
    body.cast("next_count", "FLOAT16", "report")
    body.output("next_count", "INT64", [3])
    body.output("report", "FLOAT16", [3])
    s = Sketch()
    s.input("x", "FLOAT", [7, 3])
    s.constant("start", np.array([0, 2**40, 5], np.int64))
    scan(s, body, ["start", "x"], ["total", "reports"])
    s.output("total", "INT64", [3])
    s.output("reports", "FLOAT16", [7, 3])
    return whole_case(
        "scan_bool_counts",
        "A Scan counting in INT64 with BOOL cast to INT64, one count beyond 32 bits.",
        s.model("scan_bool_counts", 16),
        [array_tensor("x", uniform(67, 7, 3))],
        features=["Cast", "Scan", "BOOL", "INT64", "FLOAT16", "graph_output"],
    )


def moved_bfloat16() -> Case:
    """Every operator that moves elements without looking at them, on BFLOAT16."""
    s = Sketch()
    s.input("x", "BFLOAT16", ["batch", 6])
    s.input("keep", "BOOL", [2, 3])
    settings = {
        "to_pairs": [-1, 2, 3], "order": [1, 0, 1], "begin": [1], "end": [3], "front": [0],
        "parts": [2, 4], "widened": [2, 1, 1, 1], "pads": [1, 0, 0, 2], "repeats": [1, 2],
    }  # fmt: skip
    for name, values in settings.items():
        s.constant(name, np.array(values, np.int64))
    s.initializer(make_tensor("fill", "BFLOAT16", (), [0x7FC0]))
    s.initializer(narrowed("other", "BFLOAT16", uniform(68, 2, 3)))
    s.node("Reshape", ["x", "to_pairs"], "pairs")
    s.node("Where", ["keep", "pairs", "other"], "chosen")
    s.node("Transpose", ["chosen"], "turned", perm=[0, 2, 1])
    s.node("Gather", ["turned", "order"], "picked", axis=1)
    s.node("Slice", ["turned", "begin", "end", "front"], "tail")
    s.node("Concat", ["picked", "turned"], "joined", axis=1)
    s.nodes_of("Split", ["joined", "parts"], ["left", "right"], axis=1)
    s.node("Unsqueeze", ["tail", "front"], "deep")
    s.node("Squeeze", ["deep", "front"], "shallow")
    s.node("Unsqueeze", ["left", "front"], "expandable")
    s.node("Expand", ["expandable", "widened"], "wide_left")
    s.node("Flatten", ["right"], "flat", axis=1)
    s.node("Pad", ["flat", "pads", "fill"], "padded")
    s.node("Tile", ["padded", "repeats"], "tiled")
    s.node("Identity", ["tiled"], "same")
    s.cast("shallow", "FLOAT", "y_tail")
    s.cast("wide_left", "FLOAT16", "y_left")
    s.output("same", "BFLOAT16", ["padded_batch", 20])
    s.output("y_tail", "FLOAT", [2, 3, 2])
    s.output("y_left", "FLOAT16", [2, "batch", 2, 2])
    keep = rng(69).integers(0, 2, (2, 3)).astype(np.bool_)
    return whole_case(
        "moves_BFLOAT16",
        "BFLOAT16 reshaped, selected, sliced, gathered, joined, padded and tiled between casts.",
        s.model("moves_BFLOAT16", 16),
        [narrowed("x", "BFLOAT16", uniform(70, 3, 6)), array_tensor("keep", keep)],
        reference=True,
        features=["Cast", "BFLOAT16", "moves", "graph_output", "symbolic_batch"],
    )


def moved(dtype: str, opset: int) -> Case:
    """The moves ONNX allows for the small types; a row of 5 leaves packed bytes half full."""
    s = Sketch()
    s.input("x", dtype, ["batch", 15])
    for name, values in (("cube", [-1, 3, 5]), ("axis", [0]), ("pads", [0, 0, 1, 1, 0, 0])):
        s.constant(name, np.array(values, np.int64))
    s.initializer(make_tensor("fill", dtype, (), [1]))
    s.node("Reshape", ["x", "cube"], "cubes")
    s.node("Transpose", ["cubes"], "turned", perm=[0, 2, 1])
    s.node("Unsqueeze", ["turned", "axis"], "deep")
    s.node("Squeeze", ["deep", "axis"], "shallow")
    s.node("Pad", ["shallow", "pads", "fill"], "padded")
    s.node("Flatten", [s.node("Identity", ["padded"], "same")], "flat", axis=1)
    s.cast("flat", "FLOAT", "y")
    s.output("flat", dtype, ["padded_batch", 20])
    s.output("y", "FLOAT", ["padded_batch", 20])
    codes = rng(71).integers(0, 1 << bit_width(dtype), 45).tolist()
    name = f"moves_{dtype}"
    return whole_case(
        name,
        f"{dtype} reshaped, transposed, padded and flattened, then cast to FLOAT.",
        s.model(name, opset),
        [make_tensor("x", dtype, (3, 15), codes)],
        reference=True,
        features=["Cast", dtype, "moves", "graph_output", "symbolic_batch"],
    )


def half_precision_layer() -> Case:
    """A layer converted to FLOAT16 with its inputs and outputs kept in FLOAT.

    Quarters of small integers make its FLOAT16 sums exact in any order.
    """
    s = Sketch()
    s.input("x", "FLOAT", ["batch", 8])
    s.initializer(narrowed("w", "FLOAT16", quarters(72, 8, 5)))
    s.initializer(narrowed("b", "FLOAT16", quarters(73, 5)))
    s.cast("x", "FLOAT16", "x_half")
    s.node("Add", [s.node("MatMul", ["x_half", "w"], "product"), "b"], "logits_half")
    s.cast("logits_half", "FLOAT", "logits")
    s.node("Softmax", ["logits"], "y", axis=-1)
    s.node("ArgMax", ["y"], "best", axis=1, keepdims=0)
    s.cast("best", "INT32", "label")
    s.output("y", "FLOAT", ["batch", 5])
    s.output("label", "INT32", ["batch"])
    return whole_case(
        "half_precision_layer",
        "FLOAT input cast to FLOAT16 for a layer, back for Softmax, and ArgMax cast to INT32.",
        s.model("half_precision_layer", 13),
        [array_tensor("x", quarters(74, 4, 8))],
        tolerance=FLOAT_TOLERANCE,
        features=["Cast", "FLOAT16", "INT32", "graph_output", "symbolic_batch"],
    )


def quarters(seed: int, *dims: int) -> np.ndarray:
    return (np.round(uniform(seed, *dims) * 4) / 4).astype(np.float32)


def image_bytes() -> Case:
    """UINT8 pixels in and out; all weights are powers of two, so every step is exact."""
    s = Sketch()
    s.input("image", "UINT8", ["batch", 1, 5, 5])
    s.constant("blur", np.full((1, 1, 3, 3), 0.125, np.float32))
    s.constant("low", np.float32(0))
    s.constant("high", np.float32(255))
    s.cast("image", "FLOAT", "pixels")
    s.node("Conv", ["pixels", "blur"], "blurred", pads=[1, 1, 1, 1])
    s.node("Clip", ["blurred", "low", "high"], "clipped")
    s.cast("clipped", "UINT8", "y")
    s.output("y", "UINT8", ["batch", 1, 5, 5])
    image = rng(75).integers(0, 256, (2, 1, 5, 5)).astype(np.uint8)
    return whole_case(
        "image_bytes",
        "UINT8 pixels cast to FLOAT, blurred, clipped and truncated back to UINT8.",
        s.model("image_bytes", 13),
        [array_tensor("image", image)],
        features=["Cast", "UINT8", "FLOAT", "graph_output", "symbolic_batch"],
    )


def strings_through_numbers() -> Case:
    s = Sketch()
    s.input("price", "STRING", ["batch"])
    s.input("count", "STRING", ["batch"])
    s.constant("factor", np.array(2.5, np.float64))
    s.constant("more", np.array(4_000_000_000, np.int64))
    s.cast("price", "DOUBLE", "price_number")
    s.cast("count", "INT64", "count_number")
    s.cast(s.node("Mul", ["price_number", "factor"], "raised"), "STRING", "new_price")
    s.cast(s.node("Add", ["count_number", "more"], "grown"), "STRING", "new_count")
    for name in ("new_price", "new_count"):
        s.output(name, "STRING", ["batch"])
    price = np.array(["1.5", "-0.25", "1e3", "0.1", "+7"], dtype=object)
    count = np.array(["0", "-5", "9007199254740993", "300", "007"], dtype=object)
    return whole_case(
        "strings_through_numbers",
        "STRING cast to DOUBLE and INT64, computed with, and cast back to STRING.",
        s.model("strings_through_numbers", 13),
        [array_tensor("price", price), array_tensor("count", count)],
        reference=True,
        features=["Cast", "STRING", "DOUBLE", "INT64", "graph_output", "symbolic_batch"],
    )


def cast_like_scale() -> Case:
    """A FLOAT scale brought to whatever type the data has, and sizes to the type of a shape."""
    s = Sketch()
    s.input("x", "FLOAT16", ["batch", 4])
    s.constant("sizes", np.array([4.0, -1.0], np.float32))
    s.constant("scale", np.array([0.1, 1.0, -2.5, 4096.5], np.float32))
    s.node("CastLike", ["scale", "x"], "scale_half")
    s.node("Mul", ["x", "scale_half"], "scaled")
    s.node("CastLike", ["sizes", s.node("Shape", ["x"], "shape")], "target")
    s.node("Reshape", ["scaled", "target"], "reshaped")
    s.node("CastLike", ["reshaped", "scale"], "y")
    s.output("y", "FLOAT", ["rows", "columns"])
    x = uniform(76, 2, 4).astype(np.float16)
    return whole_case(
        "castlike_scale",
        "CastLike from FLOAT to the data's FLOAT16, to a shape's INT64 for Reshape, and back.",
        s.model("castlike_scale", 15),
        [array_tensor("x", x)],
        # ONNX Runtime multiplies FLOAT16 in FLOAT here and drops the rounding after it.
        reference=True,
        features=["CastLike", "FLOAT16", "INT64", "symbolic_batch"],
    )


def cast_like_small_types() -> Case:
    """The second input is an initializer, another cast's output, or a graph input."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", 3])
    s.input("like", "INT4", [2])
    s.initializer(narrowed("brain", "BFLOAT16", uniform(77, 1)))
    s.cast("x", "FLOAT8E5M2", "eighth")
    s.node("CastLike", ["x", "brain"], "as_brain")
    s.node("CastLike", ["x", "eighth"], "as_eighth", saturate=0)
    s.node("CastLike", ["x", "like"], "as_like")
    for name, dtype in (("as_brain", "BFLOAT16"), ("as_eighth", "FLOAT8E5M2"), ("as_like", "INT4")):
        s.output(name, dtype, ["batch", 3])
    return whole_case(
        "castlike_small_types",
        "CastLike to the type of an initializer, of another cast's output and of a graph input.",
        s.model("castlike_small_types", 21),
        [array_tensor("x", uniform(78, 2, 3)), make_tensor("like", "INT4", (2,), [1, 15])],
        reference=True,
        features=["CastLike", "Cast", "BFLOAT16", "FLOAT8E5M2", "INT4", "graph_output"],
    )


def streaming_filter() -> Case:
    """What can be run a few frames at a time: casts on the axis of time, and a filter that remembers two frames."""
    s = Sketch()
    s.input("sound", "FLOAT16", [1, 2, "time"])
    s.constant("taps", uniform(83, 3, 2, 3))
    s.cast("sound", "FLOAT", "wide")
    s.node("Conv", ["wide", "taps"], "filtered")
    s.cast("filtered", "BFLOAT16", "y")
    s.cast("filtered", "INT8", "levels")
    s.output("y", "BFLOAT16", [1, 3, "frames"])
    s.output("levels", "INT8", [1, 3, "frames"])
    return whole_case(
        "streaming_filter",
        "A filter over time between FLOAT16 and BFLOAT16, that can be streamed.",
        s.model("streaming_filter", 17),
        [array_tensor("sound", uniform(84, 1, 2, 24).astype(np.float16))],
        tolerance={"rtol": 1e-2, "atol": 1e-3},
        reference=True,
        features=["Cast", "FLOAT16", "BFLOAT16", "INT8", "streaming"],
    )
