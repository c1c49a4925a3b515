"""Faults of one node or weight, as converters and exporters have made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from verdicts.conversions import graphs

# What only changes the form of a weight: the weight's fault is there as well as behind.
FORMS = {"DequantizeLinear", "Cast", "Transpose", "Reshape", "Identity", "Unsqueeze", "Squeeze"}
OTHER = {
    "Abs": "Neg",
    "Add": "Sub",
    "Cos": "Sin",
    "Elu": "Relu",
    "Erf": "Tanh",
    "Exp": "Softplus",
    "Greater": "Less",
    "HardSigmoid": "Sigmoid",
    "LogSoftmax": "Softmax",
    "Max": "Min",
    "ReduceMax": "ReduceMean",
    "ReduceMean": "ReduceSum",
    "Relu": "Elu",
    "Sigmoid": "HardSigmoid",
    "Sin": "Tanh",
    "Softmax": "LogSoftmax",
    "Softplus": "Relu",
    "Sqrt": "Abs",
    "Sub": "Add",
    "Tanh": "Sigmoid",
}
WORDS = {
    "mode": {"linear": "nearest", "nearest": "linear", "CRD": "DCR"},
    "coordinate_transformation_mode": {
        "half_pixel": "align_corners",
        "asymmetric": "align_corners",
    },
    "nearest_mode": {"floor": "ceil"},
    "direction": {"forward": "reverse"},
}


@dataclass
class Planted:
    """A fault: the names of the nodes where it is, and what was done."""

    nodes: set[str] = field(default_factory=set)
    text: str = ""


Sites = Iterable[Callable[[], Planted]]


def takers(graph: GraphProto, value: str) -> list[NodeProto]:
    return [node for node in graph.node if value in node.input]


def at_weight(model: ModelProto, weight: TensorProto, text: str) -> Planted:
    """The nodes that take a weight, also behind what only changes its form."""
    planted = Planted({weight.name}, f"{text} of {weight.name}")
    for graph in graphs(model):
        values = [weight.name]
        while values:
            for node in takers(graph, values.pop()):
                planted.nodes.add(node.name)
                if node.op_type in FORMS:
                    values += node.output
    return planted


def replaced(weight: TensorProto, value: np.ndarray) -> None:
    weight.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value), weight.name))


def weights(model: ModelProto, least: int) -> Iterable[tuple[TensorProto, np.ndarray]]:
    for graph in graphs(model):
        for weight in graph.initializer:
            value = numpy_helper.to_array(weight)
            if value.size >= least and value.dtype.kind != "b":
                yield weight, value


def weight(model: ModelProto) -> Sites:
    """Another weight: turned, scaled, shuffled, with a channel gone or a block spoiled."""

    def part(value: np.ndarray) -> np.ndarray:
        value = value.copy()
        value[: max(1, len(value) // 8)] = 0
        return value

    def scaled(value: np.ndarray) -> np.ndarray:
        if value.dtype.kind in "iu":
            return value // 2 if value.dtype.kind == "i" else 255 - value
        return (value.astype(np.float32) * 1.25).astype(value.dtype)

    ways = {
        "rows reversed": lambda value: value[::-1],
        "columns reversed": lambda value: value[..., ::-1],
        "other values": scaled,
        "rows are 0": part,
        "rows moved by one": lambda value: np.roll(value, 1, 0),
    }
    for held, value in weights(model, 24):
        if value.dtype == np.int64:
            continue
        for text, way in ways.items():

            def change(held=held, value=value, text=text, way=way) -> Planted:
                replaced(held, way(value))
                return at_weight(model, held, text)

            yield change


def bias(model: ModelProto) -> Sites:
    for held, value in weights(model, 2):
        is_scale = "scale" in held.name
        if value.ndim == 1 and value.dtype.kind in "fV" and value.size <= 256 and not is_scale:

            def change(held=held, value=value) -> Planted:
                replaced(held, -value)
                return at_weight(model, held, "sign")

            yield change


def at_node(node: NodeProto, text: str) -> Planted:
    return Planted({node.name}, f"{text} of {node.op_type} {node.name}")


def attribute(model: ModelProto) -> Sites:
    """Another number, direction or mode."""
    for graph in graphs(model):
        for node in graph.node:
            for held in node.attribute:
                word = WORDS.get(held.name, {}).get(held.s.decode() if held.s else "")
                is_number = held.name in ("alpha", "beta", "gamma", "linear_before_reset")
                if not word and not is_number:
                    continue

                def change(node=node, held=held, word=word) -> Planted:
                    if word:
                        held.s = word.encode()
                    elif held.type == onnx.AttributeProto.INT:
                        held.i = 1 - held.i
                    else:
                        held.f = held.f * 1.5
                    return at_node(node, held.name)

                yield change
            for name, op in (("reverse", "CumSum"), ("exclusive", "CumSum"), ("alpha", "Gemm")):
                if node.op_type == op and all(held.name != name for held in node.attribute):

                    def add(node=node, name=name) -> Planted:
                        value = 0.5 if name == "alpha" else 1
                        node.attribute.append(helper.make_attribute(name, value))
                        return at_node(node, name)

                    yield add


def axis(model: ModelProto) -> Sites:
    """Another axis, or another order of axes."""
    for graph in graphs(model):
        for node in graph.node:
            for held in node.attribute:
                if held.name == "axis" and node.op_type not in ("QuantizeLinear", "Flatten"):
                    for other in (-1, 0, 1, 2):
                        if other != held.i:

                            def change(node=node, held=held, other=other) -> Planted:
                                held.i = other
                                return at_node(node, held.name)

                            yield change
                elif held.name in ("axes", "perm") and len(held.ints):
                    for others in ([0], [1], [0, 1, 3, 2], [0, 2, 1, 3], [1, 0, 2], [0, 2, 1]):
                        if len(others) == len(held.ints) and others != list(held.ints):

                            def turn(node=node, held=held, others=others) -> Planted:
                                del held.ints[:]
                                held.ints.extend(others)
                                return at_node(node, held.name)

                            yield turn


def quantiser(place: int) -> Callable[[ModelProto], Sites]:
    """Another scale, or another zero point, at one node alone."""

    def sites(model: ModelProto) -> Sites:
        held = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            takes = {
                "QuantizeLinear": [place],
                "DequantizeLinear": [place],
                "QLinearMatMul": [place, place + 3, place + 5],
                "QLinearConv": [place, place + 3, place + 5],
                "QLinearAdd": [place, place + 3],
            }.get(node.op_type, [])
            for at in takes:
                tensor = held.get(node.input[at]) if at < len(node.input) else None
                if tensor is None:
                    continue

                def change(node=node, at=at, tensor=tensor) -> Planted:
                    value = numpy_helper.to_array(tensor)
                    more = value * 1.5 if place == 1 else value.astype(int) + 24
                    value = more.astype(value.dtype)
                    name = f"{tensor.name}_planted"
                    model.graph.initializer.append(numpy_helper.from_array(value, name))
                    node.input[at] = name
                    return Planted({node.name, name}, f"{tensor.name} at {node.name}")

                yield change

    return sites


def product_scale(model: ModelProto) -> Sites:
    """Another scale of a weight whose product is of integers, or in blocks."""
    names = {held.name for held in model.graph.initializer}
    for held, value in weights(model, 1):
        # One that quantisers and what takes their codes share is only coarser then.
        codes = held.name.removesuffix("_scale")
        is_weight = held.name.endswith("_scales") or codes in names or f"{codes}_quantized" in names
        if held.name.endswith(("_scale", "_scales")) and value.dtype == np.float32 and is_weight:

            def change(held=held, value=value) -> Planted:
                replaced(held, value * np.float32(1.4))
                planted = at_weight(model, held, "scale")
                makers = {name: node for node in model.graph.node for name in node.output}
                for node in list(model.graph.node):
                    if node.name in planted.nodes and node.op_type == "Mul":
                        # The product of integers that it scales.
                        for scaled in takers(model.graph, node.output[0]):
                            planted.nodes.add(scaled.name)
                            for name in scaled.input:
                                while name in makers and makers[name].op_type != "Mul":
                                    planted.nodes.add(makers[name].name)
                                    if makers[name].op_type.endswith("Integer"):
                                        break
                                    name = makers[name].input[0]
                return planted

            yield change


def epsilon(model: ModelProto) -> Sites:
    for graph in graphs(model):
        for node in graph.node:
            for held in node.attribute:
                if held.name == "epsilon":

                    def change(node=node, held=held) -> Planted:
                        held.f = 0.5
                        return at_node(node, held.name)

                    yield change
    for held, value in weights(model, 1):
        is_small = value.size == 1 and value.dtype.kind in "fV" and 0 < float(value.max()) < 0.02
        if is_small and "scale" not in held.name:

            def add(held=held, value=value) -> Planted:
                replaced(held, np.full_like(value, 0.5))
                return at_weight(model, held, "epsilon")

            yield add


def input_order(model: ModelProto) -> Sites:
    for graph in graphs(model):
        for node in graph.node:
            if node.op_type in ("Sub", "Div", "MatMul", "Pow", "Concat", "Greater", "Gather"):

                def change(node=node) -> Planted:
                    node.input[0], node.input[1] = node.input[1], node.input[0]
                    return at_node(node, "order of inputs")

                yield change
            if node.op_type == "Where":

                def turn(node=node) -> Planted:
                    node.input[1], node.input[2] = node.input[2], node.input[1]
                    return at_node(node, "order of inputs")

                yield turn


def wiring(model: ModelProto) -> Sites:
    """Another tensor, of an earlier node."""
    for graph in graphs(model):
        made: list[str] = []
        for node in graph.node:
            for at, value in enumerate(node.input):
                if value in made and node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
                    for other in made[-4:]:
                        if other != value:

                            def change(node=node, at=at, other=other) -> Planted:
                                node.input[at] = other
                                return at_node(node, "input")

                            yield change
            made += node.output


def activation(model: ModelProto) -> Sites:
    for graph in graphs(model):
        for node in graph.node:
            if other := OTHER.get(node.op_type):

                def change(node=node, other=other) -> Planted:
                    planted = at_node(node, f"{other} in the place")
                    node.op_type = other
                    allowed = onnx.defs.get_schema(other).attributes
                    for held in [held for held in node.attribute if held.name not in allowed]:
                        node.attribute.remove(held)
                    return planted

                yield change


def mask(model: ModelProto) -> Sites:
    """A mask that hides nothing, or what is to be seen."""
    for held, value in weights(model, 1):
        if value.dtype == bool or (value.dtype.kind in "fV" and float(value.min()) < -1e4):

            def change(held=held, value=value) -> Planted:
                replaced(held, ~value if value.dtype == bool else np.zeros_like(value))
                return at_weight(model, held, "mask")

            yield change


def missing(model: ModelProto) -> Sites:
    for graph in graphs(model):
        outputs = {value.name for value in graph.output}
        computed = {name for node in graph.node for name in node.output}
        for node in graph.node:
            taken = [value for value in node.input if value in computed]
            if len(node.output) != 1 or len(taken) != 1 or node.output[0] in outputs:
                continue
            is_form = "Quantize" in node.op_type or node.op_type in ("Cast", "Identity", "Constant")
            if is_form or "_scale" in node.name:
                continue

            def change(graph=graph, node=node, taken=taken[0]) -> Planted:
                planted = Planted({node.name}, f"no {node.op_type} {node.name}")
                behind = list(takers(graph, node.output[0]))
                for other in behind:
                    planted.nodes.add(other.name)
                    if other.op_type in FORMS or "QuantizeLinear" in other.op_type:
                        behind += takers(graph, other.output[0])
                    for at, value in enumerate(other.input):
                        if value == node.output[0]:
                            other.input[at] = taken
                graph.node.remove(node)
                return planted

            yield change


def added(model: ModelProto) -> Sites:
    for graph in graphs(model):
        for at, node in enumerate(graph.node):
            if node.op_type not in ("Relu", "Add", "MatMul", "Conv", "Gemm", "Mul", "Transpose"):
                continue
            for op in ("Relu", "Neg", "Tanh"):
                if op == node.op_type or not takers(graph, node.output[0]):
                    continue

                def change(graph=graph, at=at, node=node, op=op) -> Planted:
                    made, name = f"{node.output[0]}_planted", f"planted_{op}_{at}"
                    for other in takers(graph, node.output[0]):
                        for place, value in enumerate(other.input):
                            if value == node.output[0]:
                                other.input[place] = made
                    new = helper.make_node(op, [node.output[0]], [made], name)
                    graph.node.insert(at + 1, new)
                    return at_node(new, "added")

                yield change


KINDS: dict[str, Callable[[ModelProto], Sites]] = {
    "weight": weight,
    "bias": bias,
    "attribute": attribute,
    "axis": axis,
    "scale": quantiser(1),
    "zero point": quantiser(2),
    "product's scale": product_scale,
    "epsilon": epsilon,
    "order of inputs": input_order,
    "wiring": wiring,
    "activation": activation,
    "mask": mask,
    "missing node": missing,
    "added node": added,
}
