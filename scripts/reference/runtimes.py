"""Runs a model in the two public implementations and returns its outputs as tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from reference.tensors import TYPE_NAMES, array_codes, make_tensor, unpack

REFERENCE = f"onnx ReferenceEvaluator {onnx.__version__}"
RUNTIME = f"ONNX Runtime {onnxruntime.__version__}"
# The number types NumPy has, which are those ONNX Runtime's Python interface takes.
NUMPY_TYPES = {
    "FLOAT", "DOUBLE", "FLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64",
    "UINT8", "UINT16", "UINT32", "UINT64",
}  # fmt: skip


def run_reference(model: ModelProto, inputs: Sequence[TensorProto]) -> list[TensorProto]:
    feeds = {tensor.name: numpy_helper.to_array(tensor) for tensor in inputs}
    with np.errstate(all="ignore"):
        arrays = ReferenceEvaluator(model).run(None, feeds)
    outputs = []
    for value, array in zip(model.graph.output, arrays, strict=True):
        dtype = TYPE_NAMES[value.type.tensor_type.elem_type]
        shape = np.asarray(array).shape
        outputs.append(make_tensor(value.name, dtype, shape, array_codes(array, dtype)))
    return outputs


def run_runtime(model: ModelProto, inputs: Sequence[TensorProto]) -> list[TensorProto]:
    """ONNX Runtime without its optimisations, so that what runs is what the model says."""
    model, feeds = bake_other_types(model, inputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    values = {
        tensor.name: onnxruntime.OrtValue.ortvalue_from_numpy(numpy_helper.to_array(tensor))
        for tensor in feeds
    }
    results = session.run_with_ort_values(names, values)
    return [read_value(name, value) for name, value in zip(names, results, strict=True)]


def bake_other_types(
    model: ModelProto, inputs: Sequence[TensorProto]
) -> tuple[ModelProto, list[TensorProto]]:
    """Turns inputs of types NumPy lacks into initializers, the one way to hand them over."""
    baked = ModelProto()
    baked.CopyFrom(model)
    feeds = [t for t in inputs if TYPE_NAMES[t.data_type] in NUMPY_TYPES]
    others = [t for t in inputs if TYPE_NAMES[t.data_type] not in NUMPY_TYPES]
    names = {tensor.name for tensor in others}
    kept = [value for value in baked.graph.input if value.name not in names]
    del baked.graph.input[:]
    baked.graph.input.extend(kept)
    baked.graph.initializer.extend(others)
    return baked, feeds


def read_value(name: str, value: onnxruntime.OrtValue) -> TensorProto:
    dtype = TYPE_NAMES[value.element_type()]
    shape = value.shape()
    if dtype in NUMPY_TYPES | {"STRING"}:
        return make_tensor(name, dtype, shape, array_codes(value.numpy(), dtype))
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return make_tensor(name, dtype, shape, unpack(dtype, data, int(np.prod(shape))))
