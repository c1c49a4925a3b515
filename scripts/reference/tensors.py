"""Element codes to and from ONNX TensorProto and NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from reference.exact import DATA_TYPES, Code, bit_width

TYPE_NAMES = {number: name for name, number in DATA_TYPES.items()}
TYPED_FIELDS = {
    "FLOAT": "float_data",
    "DOUBLE": "double_data",
    "INT64": "int64_data",
    "UINT32": "uint64_data",
    "UINT64": "uint64_data",
}


def make_tensor(
    name: str, dtype: str, dims: Sequence[int], codes: Sequence[Code], typed: bool = False
) -> TensorProto:
    """A tensor in raw_data, or with `typed` in the field ONNX assigns to its element type."""
    if math.prod(dims) != len(codes):
        raise ValueError(f"{name}: {len(codes)} elements do not fill the shape {list(dims)}")
    tensor = TensorProto(name=name, data_type=DATA_TYPES[dtype], dims=dims)
    if dtype == "STRING":
        tensor.string_data.extend(str(text).encode() for text in codes)
    elif typed:
        fill_typed_field(tensor, dtype, codes)
    else:
        tensor.raw_data = pack(dtype, codes)
    check_against_onnx(tensor, dtype, codes)
    return tensor


def pack(dtype: str, codes: Sequence[Code]) -> bytes:
    """One little-endian bit stream fits every width: element i starts at bit i * width."""
    bits = bit_width(dtype)
    stream = sum(int(code) << (i * bits) for i, code in enumerate(codes))
    return stream.to_bytes(-(-len(codes) * bits // 8), "little")


def unpack(dtype: str, data: bytes, count: int) -> list[int]:
    bits = bit_width(dtype)
    stream = int.from_bytes(data, "little")
    return [stream >> (i * bits) & ((1 << bits) - 1) for i in range(count)]


def fill_typed_field(tensor: TensorProto, dtype: str, codes: Sequence[Code]) -> None:
    field = getattr(tensor, TYPED_FIELDS.get(dtype, "int32_data"))
    if bit_width(dtype) in (2, 4):
        field.extend(pack(dtype, codes))
        return
    numpy_types = {"FLOAT": "<f4", "DOUBLE": "<f8", "INT64": "<i8", "INT32": "<i4"}
    numpy_types |= {"INT16": "<i2", "INT8": "i1"}
    if dtype in numpy_types:
        field.extend(np.frombuffer(pack(dtype, codes), numpy_types[dtype]).tolist())
    else:
        field.extend(codes)


def check_against_onnx(tensor: TensorProto, dtype: str, codes: Sequence[Code]) -> None:
    """The packing above must be what onnx itself reads."""
    read = array_codes(numpy_helper.to_array(tensor), dtype)
    if read != list(codes):
        raise AssertionError(f"{tensor.name}: onnx reads {read}, written {list(codes)}")


def array_codes(array: np.ndarray, dtype: str) -> list[Code]:
    """The codes of an array as onnx hands it out: ml_dtypes elements of whole bytes."""
    if dtype == "STRING":
        return [str(text) for text in np.asarray(array).reshape(-1)]
    flat = np.ascontiguousarray(array).reshape(-1)
    unsigned = flat.view(f"<u{flat.dtype.itemsize}")
    mask = (1 << bit_width("INT8" if dtype == "BOOL" else dtype)) - 1
    return [int(code) & mask for code in unsigned]


def proto_codes(tensor: TensorProto) -> list[Code]:
    return array_codes(numpy_helper.to_array(tensor), TYPE_NAMES[tensor.data_type])


def array_tensor(name: str, array: Any, typed: bool = False) -> TensorProto:
    """A tensor of a NumPy array of a type NumPy itself has."""
    proto = numpy_helper.from_array(np.asarray(array), name)
    if not typed or proto.data_type == TensorProto.STRING:
        return proto
    dtype = TYPE_NAMES[proto.data_type]
    return make_tensor(name, dtype, proto.dims, proto_codes(proto), typed=True)
