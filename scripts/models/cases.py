"""A test case in the layout ONNX runtimes share, and its line in the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import GraphProto, ModelProto, TensorProto, helper


@dataclass
class Case:
    name: str
    covers: str
    model: ModelProto
    inputs: Sequence[TensorProto]
    outputs: Sequence[TensorProto]
    oracle: str
    tolerance: dict[str, float] | None = None
    features: Sequence[str] = ()
    side_files: dict[str, bytes] = field(default_factory=dict)

    def write(self, root: Path) -> None:
        folder = root / self.name
        data = folder / "test_data_set_0"
        data.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(self.model.SerializeToString(deterministic=True))
        for name, content in self.side_files.items():
            (folder / name).write_bytes(content)
        for kind, tensors in (("input", self.inputs), ("output", self.outputs)):
            for i, tensor in enumerate(tensors):
                (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())

    def manifest_entry(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "covers": self.covers,
            "opset": model_opset(self.model),
            "oracle": self.oracle,
            "tolerance": self.tolerance,
            "features": sorted(self.features),
        }


def model_opset(model: ModelProto) -> int:
    """A model from before opset_import existed is an opset 1 model."""
    versions = [item.version for item in model.opset_import if item.domain == ""]
    return versions[0] if versions else 1


def ir_version(opset: int) -> int:
    """The IR version of the first onnx release that had the opset."""
    return next(ir for _, ir, since, *_ in helper.VERSION_TABLE if since >= opset)


def make_model(graph: GraphProto, opset: int) -> ModelProto:
    return helper.make_model(
        graph,
        producer_name="tract-onnx-cast",
        ir_version=ir_version(opset),
        opset_imports=[helper.make_opsetid("", opset)],
    )
