"""A few lines of notation for building the whole-model graphs, and for judging them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, checker, helper

from models.cases import Case, make_model
from reference import exact
from reference.exact import DATA_TYPES, Code
from reference.runtimes import REFERENCE, RUNTIME, run_reference, run_runtime
from reference.tensors import array_codes, array_tensor, make_tensor

# Sums in another order and fused operations move the last bits of FLOAT results.
FLOAT_TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}

Dims = Sequence[int | str]


class Sketch:
    """A graph under construction; every method returns the name of the value it made."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []
        self.initializers: list[TensorProto] = []

    def input(self, name: str, dtype: str, dims: Dims | None) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, DATA_TYPES[dtype], dims))
        return name

    def output(self, name: str, dtype: str, dims: Dims | None) -> str:
        self.outputs.append(helper.make_tensor_value_info(name, DATA_TYPES[dtype], dims))
        return name

    def constant(self, name: str, array: Any, typed: bool = False) -> str:
        """An initializer of a type NumPy has."""
        return self.initializer(array_tensor(name, array, typed))

    def initializer(self, tensor: TensorProto) -> str:
        self.initializers.append(tensor)
        return tensor.name

    def node(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], f"{op}_{output}", **attributes))
        return output

    def nodes_of(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> None:
        self.nodes.append(helper.make_node(op, inputs, outputs, f"{op}_{outputs[0]}", **attributes))

    def cast(self, value: str, target: str, output: str, **attributes: Any) -> str:
        return self.node("Cast", [value], output, to=DATA_TYPES[target], **attributes)

    def graph(self, name: str) -> GraphProto:
        return helper.make_graph(
            self.nodes, name, self.inputs, self.outputs, initializer=self.initializers
        )

    def model(self, name: str, opset: int) -> ModelProto:
        return make_model(self.graph(name), opset)


def whole_case(
    name: str,
    covers: str,
    model: ModelProto,
    inputs: Sequence[TensorProto],
    *,
    tolerance: dict[str, float] | None = None,
    reference: bool = False,
    features: Sequence[str] = (),
) -> Case:
    """Judged by ONNX Runtime, or with `reference` by onnx's evaluator where it has no kernels."""
    checker.check_model(model, full_check=True)
    run = run_reference if reference else run_runtime
    return Case(
        name=f"whole/{name}",
        covers=covers,
        model=model,
        inputs=inputs,
        outputs=run(model, inputs),
        oracle=REFERENCE if reference else RUNTIME,
        tolerance=tolerance,
        features=features,
    )


def float_codes(array: np.ndarray) -> list[Code]:
    return array_codes(array.astype(np.float32), "FLOAT")


def narrowed(name: str, dtype: str, array: np.ndarray, typed: bool = False) -> TensorProto:
    """FLOAT values rounded to another element type."""
    codes = exact.cast(float_codes(array), "FLOAT", dtype)
    return make_tensor(name, dtype, array.shape, codes, typed)


def rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def uniform(seed: int, *dims: int) -> np.ndarray:
    """Values of -3 to 3 in steps of 2**-10, so that no mathematical library has a say in them."""
    return (rng(seed).integers(-3072, 3073, dims) / 1024).astype(np.float32)
