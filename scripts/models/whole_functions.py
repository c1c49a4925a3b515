"""Models whose Casts stand in model-local functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, TensorProto, helper, parser
from onnxscript import opset18 as op
from onnxscript import script, values
from onnxscript.onnx_types import FLOAT, INT64

from models.cases import Case, ir_version
from models.sketch import uniform, whole_case
from reference.tensors import array_tensor

PROGRAM = "tract-onnx-cast"


@dataclass(frozen=True)
class Text:
    """A model in ONNX's textual form."""

    name: str
    covers: str
    text: str
    features: tuple[str, ...]
    # Judged by onnx's evaluator, where ONNX Runtime's own inlining fails.
    reference: bool = False


ATTRIBUTES = Text(
    "attributes",
    "A Cast whose `to` is the function's attribute: given, at its default, and handed down.",
    """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    attributes (float[batch,3] x) => (bfloat16[batch,3] b, float[batch,3] y, uint8[batch,3] u) {
        [narrow] b = local.Convert <target = 16> (x)
        [widen] y = local.Convert (b)
        [byte] u = local.Doubled <target = 2> (x)
    }
    <domain: "local", opset_import: ["" : 21]>
    Convert <target: int = 1> (value) => (result) {
        [cast] result = Cast <to: int = @target> (value)
    }
    <domain: "local", opset_import: ["" : 21, "local" : 1]>
    Doubled <target> (value) => (result) {
        sum = Add (value, value)
        [cast] result = local.Convert <target: int = @target> (sum)
    }
    """,
    ("attribute_default", "nested"),
)

ABSENT = Text(
    "absent_attribute",
    "`saturate` is the function's attribute: given once, and once neither given nor at a default.",
    """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    absent_attribute (float[batch,3] x) => (float[batch,3] y, float[batch,3] z) {
        a = local.Eighth <saturate = 0> (x)
        b = local.Eighth (x)
        y = Cast <to = 1> (a)
        z = Cast <to = 1> (b)
    }
    <domain: "local", opset_import: ["" : 21]>
    Eighth <saturate> (value) => (result) {
        large = Constant <value_float = 1000.0> ()
        scaled = Mul (value, large)
        result = Cast <to = 17, saturate: int = @saturate> (scaled)
    }
    """,
    ("FLOAT8E4M3FN",),
)

OPTIONAL = Text(
    "optional_values",
    "Calls that leave out an input in the middle, one at the end, and outputs.",
    """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    optional_values (float[batch,3] x, float low, float high)
            => (int32[batch,3] y, int32[batch,3] z, int32[batch,3] w, int64[2] shape) {
        y, shape = local.Clipped (x, low, high)
        z, "" = local.Clipped (x, "", high)
        w, "" = local.Clipped (x, low)
    }
    <domain: "local", opset_import: ["" : 21]>
    Clipped (value, low, high) => (result, shape) {
        clipped = Clip (value, low, high)
        result = Cast <to = 6> (clipped)
        shape = Shape (value)
    }
    """,
    ("INT32", "optional"),
)

BRANCHES = Text(
    "in_branches",
    "A function called in both branches of an If, and an If in a function whose branches take its input.",
    """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    in_branches (bool condition, float[batch,3] x) => (float[batch,3] y, float[batch,3] z) {
        y = If (condition) <
            then_branch = yes () => (float[batch,3] yes_y) { yes_y = local.Rounded <target = 6> (x) },
            else_branch = no () => (float[batch,3] no_y) { no_y = local.Rounded <target = 16> (x) }
        >
        z = local.Chosen (condition, x)
    }
    <domain: "local", opset_import: ["" : 21]>
    Rounded <target> (value) => (result) {
        rounded = Cast <to: int = @target> (value)
        result = Cast <to = 1> (rounded)
    }
    <domain: "local", opset_import: ["" : 21, "local" : 1]>
    Chosen (flag, value) => (result) {
        other = Not (flag)
        doubled = Add (value, value)
        result = If (other) <
            then_branch = yes () => (float[N,M] r) { r = local.Rounded <target = 10> (doubled) },
            else_branch = no () => (float[N,M] s) {
                half = Cast <to = 10> (value)
                s = Cast <to = 1> (half)
            }
        >
    }
    """,
    ("If", "nested"),
)

SHADOW = Text(
    "operator_names",
    "A function with an operator's name in a domain of its own, and one that says what an operator is.",
    """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    operator_names (float[batch,3] x) => (float[batch,3] y, float[N,2] cropped) {
        b = local.Celu (x)
        y = Cast <to = 1> (b)
        size = Constant <value_ints = [2, 2]> ()
        cropped = CenterCropPad (x, size)
    }
    <domain: "local", opset_import: ["" : 21]>
    Celu <alpha: float = 1.0> (X) => (Y) {
        big = Constant <value_float: float = @alpha> ()
        sum = Add (X, big)
        Y = Cast <to = 16> (sum)
    }
    <domain: "", opset_import: ["" : 21]>
    CenterCropPad (input_data, shape) => (output_data) {
        start = Constant <value_ints = [0, 0]> ()
        wide = Cast <to = 11> (input_data)
        part = Slice (wide, start, shape)
        output_data = Cast <to = 1> (part)
    }
    """,
    ("BFLOAT16", "attribute_default"),
)

NAMES = Text(
    "same_names",
    "Values and nodes of the graph have the names that the parts of a call would be given.",
    """
    <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    same_names (float[batch,3] x) => (float[batch,3] y, float[batch,3] result) {
        ["call/cast"] "call/rounded" = Add (x, x)
        ["call"] y = local.Rounded ("call/rounded")
        result = local.Rounded (y)
    }
    <domain: "local", opset_import: ["" : 21]>
    Rounded (x) => (y) {
        [cast] rounded = Cast <to = 16> (x)
        [cast] y = Cast <to = 1> (rounded)
    }
    """,
    ("BFLOAT16", "names"),
    reference=True,
)

TEXTS = (ATTRIBUTES, ABSENT, OPTIONAL, BRANCHES, SHADOW, NAMES)


def function_cases() -> Iterator[Case]:
    for text in TEXTS:
        yield text_case(text)
    yield overloads()
    yield returned_input()
    yield described_values()
    yield onnxscript_functions()


def text_case(text: Text) -> Case:
    model = parser.parse_model(text.text)
    return function_case(text.name, text.covers, model, text.features, text.reference)


def function_case(
    name: str,
    covers: str,
    model: ModelProto,
    features: Sequence[str],
    reference: bool = False,
) -> Case:
    model.producer_name = PROGRAM
    return whole_case(
        f"functions_{name}",
        covers,
        model,
        feeds(model),
        reference=reference,
        features=["Cast", "functions", *features],
    )


def feeds(model: ModelProto) -> list[TensorProto]:
    tensors = []
    for place, value in enumerate(model.graph.input):
        dims = [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == TensorProto.BOOL:
            array = np.ones(dims, np.bool_)
        elif dims:
            array = np.abs(uniform(100 + place, *dims))
        else:
            array = np.array(0.5 + place, np.float32)
        tensors.append(array_tensor(value.name, array))
    return tensors


def overloads() -> Case:
    """Two functions of one name; the textual form has no overloads."""
    model = parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        overloads (float[batch,3] x) => (float[batch,3] y, float[batch,3] z) {
            y = local.Rounded (x)
            z = local.Rounded (x)
        }
        <domain: "local", opset_import: ["" : 21]>
        Rounded (value) => (result) {
            small = Cast <to = 17> (value)
            result = Cast <to = 1> (small)
        }
        <domain: "local", opset_import: ["" : 21]>
        Rounded (value) => (result) {
            whole = Cast <to = 6> (value)
            result = Cast <to = 1> (whole)
        }
        """
    )
    names = ("to_float8", "to_int32")
    for part in (model.functions, model.graph.node):
        for holder, name in zip(part, names, strict=True):
            holder.overload = name
    return function_case(
        "overloads", "Two overloads of one function, told apart by their third name.", model,
        ("FLOAT8E4M3FN", "INT32", "overload"),
    )  # fmt: skip


def returned_input() -> Case:
    return function_case(
        "returned_input",
        "A function that returns its input as it is, beside a cast of it, and one that only does that.",
        parser.parse_model(
            """
            <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
            returned_input (float[batch,3] x)
                    => (float[batch,3] y, float16[batch,3] half, float[batch,3] same) {
                y, half = local.Both (x)
                same = local.Same (y)
            }
            <domain: "local", opset_import: ["" : 21]>
            Both (value) => (value, half) {
                half = Cast <to = 10> (value)
            }
            <domain: "local", opset_import: ["" : 21]>
            Same (value) => (value) { }
            """
        ),
        ("FLOAT16",),
        reference=True,
    )


def described_values() -> Case:
    """The function's own value_info, which names inputs, outputs and what is between them."""
    model = parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
        described_values (float[batch,3] x) => (float[batch,3] y) {
            y = local.Described (x)
        }
        <domain: "local", opset_import: ["" : 21]>
        Described (value) => (result) {
            small = Cast <to = 16> (value)
            turned = Transpose <perm = [1, 0]> (small)
            result_turned = Cast <to = 1> (turned)
            result = Transpose <perm = [1, 0]> (result_turned)
        }
        """
    )
    for name, dtype in (
        ("value", TensorProto.FLOAT),
        ("turned", TensorProto.BFLOAT16),
        ("result", TensorProto.FLOAT),
    ):
        model.functions[0].value_info.append(helper.make_tensor_value_info(name, dtype, None))
    return function_case(
        "described_values",
        "A function with value_info of its own.",
        model,
        ("BFLOAT16", "value_info"),
    )


LIBRARY = values.Opset("local", 1)


@script(LIBRARY, default_opset=op)
def standardise(x: FLOAT[...], target: int = 1):
    mean = op.ReduceMean(x, keepdims=1)
    return op.Cast(op.Sub(x, mean), to=target)


# onnxscript reads a text as the name of a dimension.
@script(default_opset=op)
def labelled(x: FLOAT["batch", 3]) -> INT64["batch"]:  # noqa: F821, UP037
    half = standardise(x, target=10)
    whole = standardise(op.Cast(half, to=1))
    return op.ArgMax(op.Mul(whole, op.CastLike(half, whole)), axis=1, keepdims=0)


def onnxscript_functions() -> Case:
    """As onnxscript writes a program of several functions."""
    model = labelled.to_model_proto()
    model.ir_version = ir_version(18)
    for holder in (model.graph, *model.functions):
        holder.doc_string = ""
        for node in holder.node:
            del node.metadata_props[:]
    return function_case(
        "onnxscript", "onnxscript's export of a function with a default.", model,
        ("onnxscript", "CastLike", "INT64", "attribute_default"),
    )  # fmt: skip
