"""Arrays to tensor files and back: ONNX's TensorProto, written and read without the package ``onnx``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._errors import CallError, InputError

Array = NDArray[Any]


class Type(NamedTuple):
    """An ONNX element type: its number, numpy's or ml_dtypes' name, and how many bits an element takes in a file."""

    number: int
    name: str
    bits: int


STRING = 8
TYPES = (
    Type(1, "float32", 32),
    Type(2, "uint8", 8),
    Type(3, "int8", 8),
    Type(4, "uint16", 16),
    Type(5, "int16", 16),
    Type(6, "int32", 32),
    Type(7, "int64", 64),
    Type(9, "bool", 8),
    Type(10, "float16", 16),
    Type(11, "float64", 64),
    Type(12, "uint32", 32),
    Type(13, "uint64", 64),
    Type(16, "bfloat16", 16),
    Type(17, "float8_e4m3fn", 8),
    Type(18, "float8_e4m3fnuz", 8),
    Type(19, "float8_e5m2", 8),
    Type(20, "float8_e5m2fnuz", 8),
    Type(21, "uint4", 4),
    Type(22, "int4", 4),
    Type(23, "float4_e2m1fn", 4),
    Type(24, "float8_e8m0fnu", 8),
    Type(25, "uint2", 2),
    Type(26, "int2", 2),
    Type(27, "float6_e2m3fn", 6),
    Type(28, "float6_e3m2fn", 6),
)
BY_NAME = {row.name: row for row in TYPES}
BY_NUMBER = {row.number: row for row in TYPES}


def write(path: str, name: str, array: object) -> None:
    """Writes one tensor with its name."""
    with open(path, "wb") as file:
        file.write(encoded(name, array))


def encoded(name: str, array: object) -> bytes:
    """A TensorProto."""
    try:
        values = np.asarray(array)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"input `{name}`: numpy makes no array of it: {reason}") from None
    dims = b"".join(_field(1, dim) for dim in values.shape)
    if values.dtype.kind in "US" or values.dtype == object:
        rows = b"".join(_field(6, _bytes_of(element, name)) for element in values.ravel().tolist())
        return dims + _field(2, STRING) + rows + _field(8, name.encode())
    row = BY_NAME.get(values.dtype.name)
    if row is None:
        raise InputError(f"input `{name}`: ONNX has no element type for arrays of {values.dtype}")
    data = _packed(np.ascontiguousarray(values), row)
    return dims + _field(2, row.number) + _field(8, name.encode()) + _field(9, data)


def _bytes_of(element: object, name: str) -> bytes:
    if isinstance(element, str):
        return element.encode()
    if isinstance(element, bytes):
        return element
    raise InputError(
        f"input `{name}`: an array of objects may hold strings only, not {type(element).__name__}"
    )


def _packed(values: Array, row: Type) -> bytes:
    if row.bits >= 8:
        little = (
            values.astype(values.dtype.newbyteorder("<"))
            if values.dtype.byteorder == ">"
            else values
        )
        return little.tobytes()
    # One element is one byte in memory, and the low bits of it in a file, the first element lowest.
    codes = values.ravel().view(np.uint8)
    bits = np.unpackbits(codes[:, None], axis=1, count=row.bits, bitorder="little")
    return np.packbits(bits.ravel(), bitorder="little").tobytes()


def read(path: str) -> tuple[str, Array]:
    """A tensor file's name and values."""
    with open(path, "rb") as file:
        return decoded(file.read())


def decoded(data: bytes) -> tuple[str, Array]:
    """A TensorProto as the program writes it: its values in ``raw_data``, strings in ``string_data``."""
    dims: list[int] = []
    number, name, raw, strings = 0, "", b"", []
    for field, value in fields(data):
        if field == 1:
            dims.extend([value] if isinstance(value, int) else _varints(value))
        elif field == 2 and isinstance(value, int):
            number = value
        elif field == 6 and isinstance(value, bytes):
            strings.append(value.decode(errors="surrogateescape"))
        elif field == 8 and isinstance(value, bytes):
            name = value.decode(errors="replace")
        elif field == 9 and isinstance(value, bytes):
            raw = value
    if number == STRING:
        try:
            return name, np.array(strings, dtype=object).reshape(dims)
        except ValueError:
            raise InputError(f"`{name}`: the values do not fill the shape {dims}") from None
    row = BY_NUMBER.get(number)
    if row is None:
        raise InputError(f"`{name}`: element type {number} is not known here")
    try:
        return name, _unpacked(raw, row, dims, name)
    except ValueError:
        raise InputError(f"`{name}`: the values do not fill the shape {dims}") from None


def _unpacked(raw: bytes, row: Type, dims: list[int], name: str) -> Array:
    dtype = dtype_of(row, name)
    if row.bits >= 8:
        return np.frombuffer(raw, dtype=dtype).reshape(dims)
    count = int(np.prod(dims, dtype=np.int64))
    bits = np.unpackbits(
        np.frombuffer(raw, dtype=np.uint8), count=count * row.bits, bitorder="little"
    )
    codes = np.packbits(bits.reshape(count, row.bits), axis=1, bitorder="little").reshape(dims)
    if row.name in ("int4", "int2"):
        sign = np.int8(1 << (row.bits - 1))
        return ((codes.astype(np.int8) ^ sign) - sign).astype(dtype)
    return codes.view(dtype)


def dtype_of(row: Type, name: str) -> np.dtype[Any]:
    """numpy's own type, or that of ml_dtypes."""
    if hasattr(np, row.name):
        return np.dtype(row.name)
    try:
        import ml_dtypes
    except ImportError:
        raise CallError(
            f"`{name}` holds {row.name}, which numpy does not have: install ml_dtypes"
        ) from None
    if not hasattr(ml_dtypes, row.name):
        raise CallError(f"`{name}` holds {row.name}, which this version of ml_dtypes does not have")
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, row.name))
    return dtype


def write_sets(folder: str, kind: str, sets: list[Mapping[str, object]]) -> None:
    """Writes ``test_data_set_0/input_0.pb``, …, as ONNX lays out test cases."""
    for index, arrays in enumerate(sets):
        inner = os.path.join(folder, f"test_data_set_{index}")
        os.makedirs(inner)
        write_all(inner, kind, arrays)


def write_all(folder: str, kind: str, arrays: Mapping[str, object]) -> None:
    """Writes ``input_0.pb``, … of one set."""
    for index, (name, array) in enumerate(arrays.items()):
        if not isinstance(name, str):
            raise CallError(f"{kind}s are a dict by name, and {name!r} is no name")
        write(os.path.join(folder, f"{kind}_{index}.pb"), name, array)


def read_all(folder: str, kind: str) -> dict[str, Array]:
    """What is in ``output_0.pb``, …, by name and in their order."""
    arrays: dict[str, Array] = {}
    index = 0
    while os.path.exists(path := os.path.join(folder, f"{kind}_{index}.pb")):
        name, array = read(path)
        arrays[name] = array
        index += 1
    return arrays


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: numbers, and the bytes of everything else."""
    at = 0
    try:
        while at < len(data):
            key, at = _read_varint(data, at)
            wire = key & 7
            if wire == 0:
                value, at = _read_varint(data, at)
                yield key >> 3, value
            elif wire in (1, 5):
                at += 8 if wire == 1 else 4
                if at > len(data):
                    raise IndexError
            elif wire == 2:
                length, at = _read_varint(data, at)
                if at + length > len(data):
                    raise IndexError
                yield key >> 3, data[at : at + length]
                at += length
            else:
                raise IndexError
    except IndexError:
        raise InputError("a tensor file is broken") from None


def _varints(data: bytes) -> list[int]:
    values, at = [], 0
    try:
        while at < len(data):
            value, at = _read_varint(data, at)
            values.append(value)
    except IndexError:
        raise InputError("a tensor file is broken") from None
    return values


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and what follows it. 64 bits take no more than ten bytes; a file may have any number of them."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise IndexError
