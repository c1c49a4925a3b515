"""Vectors of single nodes: what `tests/models/node_vectors.rs` reads.

One node a line, its columns separated by tabs:

- the operator, after its domain and a dot where that is not ONNX's own
- the opset
- the attributes, separated by `;`: `name=i:1`, `f:0.5`, `s:text`, and `is:`, `fs:`, `ss:` for lists
- the inputs, separated by spaces: `-` for one that is left out, `TYPE[shape]=` with elements, or
  `TYPE[shape]@seed*scale` for elements ((1916 index + 1093 seed) mod 2001 - 1000) / 1000 * scale
- the outputs likewise, or `refused` and a part of the message after a colon
"""

from __future__ import annotations

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

TYPES = {
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "FLOAT16": np.float16,
    "BFLOAT16": ml_dtypes.bfloat16,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
}
NAMES = {np.dtype(ty): name for name, ty in TYPES.items()}


@dataclass
class Input:
    """A tensor, and how it is written."""

    value: np.ndarray
    text: str


def drawn(shape: tuple[int, ...], seed: int, scale: float = 1.0, ty: str = "FLOAT") -> Input:
    index = np.arange(int(np.prod(shape)), dtype=np.int64)
    codes = (1916 * index + 1093 * seed) % 2001 - 1000
    value = (codes / 1000 * scale).astype(TYPES[ty]).reshape(shape)
    return Input(value, f"{ty}{dims(shape)}@{seed}*{scale}")


def given(value: np.ndarray) -> Input:
    return Input(value, spell(value))


def dims(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def spell(value: np.ndarray) -> str:
    def element(x: np.generic) -> str:
        return str(int(x)) if value.dtype.kind in "biu" else repr(float(str(x))).removesuffix(".0")

    return f"{NAMES[value.dtype]}{dims(value.shape)}=" + ",".join(map(element, value.ravel()))


@dataclass
class Case:
    operator: str
    opset: int
    attributes: dict[str, object]
    inputs: list[Input | None]
    outputs: list[np.ndarray | None] = field(default_factory=list)
    refused: str = ""

    def line(self) -> str:
        outputs = " ".join("-" if value is None else spell(value) for value in self.outputs)
        columns = [
            self.operator,
            str(self.opset),
            ";".join(f"{name}={attribute(value)}" for name, value in self.attributes.items()),
            " ".join("-" if value is None else value.text for value in self.inputs),
            f"refused:{self.refused}" if self.refused else outputs,
        ]
        return "\t".join(columns) + "\n"

    def model(self) -> onnx.ModelProto:
        domain, _, operator = self.operator.rpartition(".")
        names = [f"i{at}" if value is not None else "" for at, value in enumerate(self.inputs)]
        outputs = [f"o{at}" if value is not None else "" for at, value in enumerate(self.outputs)]
        node = helper.make_node(operator, names, outputs, domain=domain, **self.attributes)
        there = [(n, v) for n, v in zip(names, self.inputs, strict=True) if v is not None]
        results = [(n, v) for n, v in zip(outputs, self.outputs, strict=True) if v is not None]
        graph = helper.make_graph(
            [node],
            "g",
            [declared(name, value.value) for name, value in there],
            [declared(name, value) for name, value in results],
        )
        imports = [helper.make_opsetid("", self.opset)]
        if domain:
            imports.append(helper.make_opsetid(domain, 4 if domain == "ai.onnx.ml" else 1))
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def feeds(self) -> dict[str, np.ndarray]:
        return {f"i{at}": v.value for at, v in enumerate(self.inputs) if v is not None}

    def check(self, got: list[np.ndarray], judge: str, tolerance: float = 1e-5) -> None:
        """Fails where a judge has other outputs."""
        want = [value for value in self.outputs if value is not None]
        assert len(got) == len(want), (judge, self.line())
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape, (judge, self.line())
            if not np.allclose(a, b, rtol=tolerance, atol=tolerance / 5, equal_nan=True):
                raise AssertionError(f"{judge}: {self.line()}\n{a}\n{b}")

    def check_by_onnxruntime(self) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        model = self.model().SerializeToString()
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.check(session.run(None, self.feeds()), "ONNX Runtime")

    def check_by_evaluator(self) -> None:
        self.check(ReferenceEvaluator(self.model()).run(None, self.feeds()), "onnx's evaluator")


def declared(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    ty = TensorProto.DataType.Value(NAMES[value.dtype])
    return helper.make_tensor_value_info(name, ty, value.shape)


def attribute(value: object) -> str:
    match value:
        case int():
            return f"i:{value}"
        case float():
            return f"f:{value}"
        case str():
            return f"s:{value}"
        case [str(), *_]:
            return "ss:" + ",".join(value)
        case [float(), *_]:
            return "fs:" + ",".join(map(str, value))
        case [*_]:
            return "is:" + ",".join(map(str, value))
    raise TypeError(value)
