"""Models that declare shapes as exporters do: stale, contradictory, or not at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, TensorShapeProto, ValueInfoProto, shape_inference

from models.cases import Case
from models.sketch import Sketch, uniform, whole_case
from reference.tensors import array_tensor

Dimension = TensorShapeProto.Dimension


@dataclass(frozen=True)
class Kind:
    name: str
    covers: str
    opset: int
    spoil: Callable[[ModelProto], None]


def inner(model: ModelProto) -> list[ValueInfoProto]:
    return [*model.graph.value_info, *model.graph.output]


def dims(values: list[ValueInfoProto]) -> Iterator[Dimension]:
    for value in values:
        yield from value.type.tensor_type.shape.dim


def traced_sizes(model: ModelProto) -> None:
    """PyTorch's exporter wrote the sizes of the example input behind operators it did not follow."""
    for dim in dims(inner(model)):
        dim.dim_value = dim.dim_value or 1


def other_symbols(model: ModelProto) -> None:
    """Each output, and each inner value, has symbols of its own for the one batch."""
    for value in inner(model):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param:
                dim.dim_param = f"{value.name}_dim_{axis}"


def one_symbol(model: ModelProto) -> None:
    """One symbol for all that varies."""
    for dim in dims([*model.graph.input, *inner(model)]):
        if dim.dim_param:
            dim.dim_param = "N"


def minus_one(model: ModelProto) -> None:
    """Paddle's exporter wrote -1 for a size it did not know."""
    for dim in dims([*model.graph.input, *inner(model)]):
        if dim.dim_param:
            dim.dim_value = -1


def zero(model: ModelProto) -> None:
    """Others wrote 0."""
    for dim in dims(inner(model)):
        if dim.dim_param:
            dim.dim_value = 0


def no_output_shapes(model: ModelProto) -> None:
    """tf2onnx leaves out the shapes it does not know."""
    for value in inner(model):
        value.type.tensor_type.ClearField("shape")


def wrong_ranks(model: ModelProto) -> None:
    """A converter kept the declarations of the graph that it changed."""
    for value in inner(model):
        value.type.tensor_type.shape.dim.add().dim_value = 1


def nameless_inputs(model: ModelProto) -> None:
    """skl2onnx and keras2onnx leave the batch without a name; here the outputs have one."""
    for dim in dims(list(model.graph.input)):
        if dim.dim_param:
            dim.Clear()


def nameless_and_stale(model: ModelProto) -> None:
    """What is declared would settle the inputs, if it were not wrong in part."""
    nameless_inputs(model)
    for value in model.graph.output[:1]:
        value.type.tensor_type.shape.dim.add().dim_value = 1


KINDS = (
    Kind("traced_sizes", "value_info and outputs with the sizes of a trace.", 9, traced_sizes),
    Kind("other_symbols", "value_info and outputs with symbols of their own.", 12, other_symbols),
    Kind("one_symbol", "one symbol for different sizes.", 14, one_symbol),
    Kind("minus_one", "sizes of -1.", 11, minus_one),
    Kind("zero", "sizes of 0 in value_info and outputs.", 10, zero),
    Kind("no_output_shapes", "value_info and outputs without shapes.", 15, no_output_shapes),
    Kind("wrong_ranks", "value_info and outputs of wrong rank.", 13, wrong_ranks),
    Kind("nameless_inputs", "inputs with nameless sizes.", 16, nameless_inputs),
    Kind(
        "nameless_and_stale",
        "inputs with nameless sizes and a stale output.",
        18,
        nameless_and_stale,
    ),
)


def declared_cases() -> Iterator[Case]:
    for kind in KINDS:
        name = f"declared_{kind.name}"
        model = masked(name, kind.opset)
        case = whole_case(
            name,
            f"A mask made by casts, and a shape passed through casts, with {kind.covers}",
            model,
            [array_tensor("x", uniform(110, 2, 3, 4))],
            features=["Cast", "declared", "INT64", "graph_output"],
        )
        # Judged as it is meant; ONNX's checker and ONNX Runtime would warn or refuse.
        spoilt = shape_inference.infer_shapes(model)
        kind.spoil(spoilt)
        yield dataclasses.replace(case, model=spoilt)
    yield expanded()


def masked(name: str, opset: int) -> ModelProto:
    s = Sketch()
    s.input("x", "FLOAT", ["batch", "time", 4])
    s.cast("x", "INT32", "whole")
    s.cast("whole", "BOOL", "flags")
    s.cast("flags", "FLOAT", "keep")
    s.node("Mul", ["x", "keep"], "y")
    s.cast(s.node("Shape", ["y"], "shape"), "INT32", "sizes32")
    s.cast("sizes32", "INT64", "sizes")
    s.output("y", "FLOAT", ["batch", "time", 4])
    s.output("flags", "BOOL", ["batch", "time", 4])
    s.output("sizes", "INT64", [3])
    return s.model(name, opset)


def expanded() -> Case:
    """As onnx's `test_expand_shape_model1`: what the dimensions amount to, only the output's declaration tells."""
    s = Sketch()
    s.input("x", "FLOAT", [1, 3, 1])
    s.input("sizes", "FLOAT", [2])
    s.cast("sizes", "INT64", "dims")
    s.node("Expand", ["x", "dims"], "wide")
    s.cast("wide", "FLOAT16", "y")
    s.output("y", "FLOAT16", [1, 3, 2])
    return whole_case(
        "declared_expansion",
        "Expand to dimensions that are data; the output's declaration types the model.",
        s.model("declared_expansion", 13),
        [array_tensor("x", uniform(111, 1, 3, 1)), array_tensor("sizes", np.float32([3, 2]))],
        features=["Cast", "declared", "INT64"],
    )
