"""Writes tests/data/vectors.zip: `python -m vectors.make_vectors`.

What is cast is recorded beside this file: `pairs.jsonl` (elements of every pair of types), `sweeps.jsonl` (seeds of long
inputs) and `nodes.jsonl` (nodes to accept or refuse). What must come of it is computed here from `reference.exact` and, for
nodes, from the table of versions below: docs/semantics.md once more, in rational numbers, without a line of the crate.
tests/data/vectors.md describes the members.

The sweeps are 89 million elements, an hour's work of one core. `--keep-sweeps` takes their digests from the archive that is
there. With `--check` nothing is written, and the exit status tells whether the archive holds what would be written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reference import exact
from reference.exact import DATA_TYPES, FLOATS, Code

HERE = Path(__file__).parent
ARCHIVE = HERE.parents[1] / "tests" / "data" / "vectors.zip"
# How many elements of a sweep are shown, to debug.
HEAD, TEXT_HEAD = 32, 8
WORD = (1 << 64) - 1

# The version of Cast that a type came with; those that are not here came with the first.
SINCE = {
    "STRING": 9,
    "BFLOAT16": 13,
    "FLOAT8E4M3FN": 19,
    "FLOAT8E4M3FNUZ": 19,
    "FLOAT8E5M2": 19,
    "FLOAT8E5M2FNUZ": 19,
    "UINT4": 21,
    "INT4": 21,
    "FLOAT4E2M1": 23,
    "FLOAT8E8M0": 24,
    "UINT2": 25,
    "INT2": 25,
    "FLOAT6E2M3": 28,
    "FLOAT6E3M2": 28,
}
NEVER = {14: "COMPLEX64", 15: "COMPLEX128"}
TYPE_NAMES = {number: name for name, number in DATA_TYPES.items()}

Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument(
        "--keep-sweeps", action="store_true", help="take the digests from the archive"
    )
    arguments = parser.parse_args()
    members = {
        "pairs.jsonl": lines(map(pair, recorded("pairs.jsonl"))),
        "nodes.jsonl": lines(map(node, recorded("nodes.jsonl"))),
        "sweeps.jsonl": member("sweeps.jsonl") if arguments.keep_sweeps else lines(sweeps()),
    }
    if not arguments.check:
        write(members)
        return 0
    wrong = [name for name, text in members.items() if member(name) != text]
    for name in wrong:
        print(f"differs: {ARCHIVE}: {name}", file=sys.stderr)
    return 1 if wrong else 0


def recorded(name: str) -> Iterator[Row]:
    with (HERE / name).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def lines(rows: Iterator[Row]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def member(name: str) -> str:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return archive.read(name).decode()


def write(members: dict[str, str]) -> None:
    """The same bytes on every day and system."""
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in members.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            archive.writestr(info, text)


# Elements in hexadecimal: carriers back to back, little-endian, signed ones not extended.


def carrier_bytes(dtype: str) -> int:
    return max(exact.bit_width(dtype), 8) // 8


def to_hex(dtype: str, codes: Sequence[Code]) -> str:
    return to_bytes(dtype, codes).hex()


def to_bytes(dtype: str, codes: Sequence[Code]) -> bytes:
    size = carrier_bytes(dtype)
    return b"".join(int(code).to_bytes(size, "little") for code in codes)


def from_hex(dtype: str, text: str) -> list[Code]:
    data, size = bytes.fromhex(text), carrier_bytes(dtype)
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def rules(row: Row) -> tuple[bool, str]:
    return row["saturate"] in (None, 1), row["round_mode"] or "up"


def pair(row: Row) -> Row:
    """The row with what its elements become, or none of them where each is an error."""
    source, target = row["from"], row["to"]
    codes = row["in"] if source == "STRING" else from_hex(source, row["in_hex"])
    if row.get("error"):
        for text in codes:
            refuse(text, target, *rules(row))
        return row
    results = exact.cast(codes, source, target, *rules(row))
    result = {"out": results} if target == "STRING" else {"out_hex": to_hex(target, results)}
    strict = {"nan_sign": row.pop("nan_sign")} if "nan_sign" in row else {}
    return row | result | strict


def refuse(text: str, target: str, saturate: bool, mode: str) -> None:
    try:
        exact.cast_one(text, "STRING", target, saturate, mode)
    except exact.CastError:
        return
    raise AssertionError(f"{text!r} is recorded as an error for {target}, and is none")


# Nodes.


def version(opset: int) -> int:
    return max(v for v in (1, 6, 9, 13, 19, 21, 23, 24, 25, 28) if v <= opset)


def node(row: Row) -> Row:
    verdict, fixed = judge(row), {key: row[key] for key in row if key != "basis"}
    if verdict in DATA_TYPES:
        return fixed | {"valid": True, "to": verdict, "basis": row["basis"]}
    return fixed | {"valid": False, "reason": verdict, "basis": row["basis"]}


def judge(row: Row) -> str:
    """The name of the type that the node casts to, or why it is refused."""
    opset, number, text = row["opset"], row["to_int"], row["to_str"]
    if number is None and text is None:
        return "attribute `to` is required, once"
    if (text is None) == (opset < 6):
        return f"opset {opset}: `to` must be {'a STRING' if opset < 6 else 'an INT'} attribute"
    if opset < 6:
        target = text.upper()
        if target not in DATA_TYPES or target in SINCE:
            return f"opset {version(opset)}: unknown or unsupported `to` {text!r}"
    elif number in NEVER:
        return f"{NEVER[number]} is never allowed"
    elif number not in TYPE_NAMES:
        return f"`to`={number} is not a DataType"
    else:
        target = TYPE_NAMES[number]
    for dtype in (target, row["from"] or "FLOAT"):
        if SINCE.get(dtype, 1) > version(opset):
            return f"{dtype} needs opset {SINCE[dtype]}"
    for attribute, since in (("saturate", 19), ("round_mode", 24)):
        if row[attribute] is not None and opset < since:
            return f"`{attribute}` needs opset {since}"
    if row["round_mode"] not in (None, "up", "down", "nearest"):
        return f"round_mode {row['round_mode']!r}"
    return target


# Sweeps.


def sweeps() -> Iterator[Row]:
    with multiprocessing.Pool() as pool:
        yield from pool.imap(sweep, recorded("sweeps.jsonl"))


def sweep(row: Row) -> Row:
    source, target = row["from"], row["to"]
    is_text = target == "STRING"
    head, digest, head_in, head_out = TEXT_HEAD if is_text else HEAD, hashlib.sha256(), [], []
    for code in inputs(row):
        result = one_nan(target, exact.cast_one(code, source, target, *rules(row)))
        if len(head_in) < head:
            head_in.append(code)
            head_out.append(result)
        if is_text:
            digest.update(str(result).encode() + b"\n")
        else:
            digest.update(to_bytes(target, [result]))
    shown = {"head": head_out} if is_text else {"head_hex": to_hex(target, head_out)}
    fixed = {key: row[key] for key in row if key != "basis"}
    tail = {"in_head_hex": to_hex(source, head_in)}
    return fixed | {"sha256": digest.hexdigest(), "basis": row["basis"]} | shown | tail


def one_nan(dtype: str, code: Code) -> Code:
    """The canonical NaN with its sign bit clear for every NaN."""
    if dtype not in FLOATS:
        return code
    return FLOATS[dtype].nan_code if exact.is_nan(dtype, code) else code


def splitmix64(seed: int) -> Iterator[int]:
    while True:
        seed = seed + 0x9E3779B97F4A7C15 & WORD
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & WORD
        z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
        yield z ^ z >> 31


def inputs(row: Row) -> Iterator[int]:
    dtype, kind, count = row["from"], row["inputs"], row["count"]
    bits, random = exact.bit_width(dtype), splitmix64(int(row["seed"] or "0", 16))
    mask = (1 << bits) - 1
    for index in range(count):
        if kind == "all":
            yield index
        elif kind == "random":
            yield next(random) & mask
        elif kind == "pos":
            yield next(random) & mask >> 1
        elif kind == "log":
            yield logarithmic(dtype, bits, next(random), next(random)) & mask
        elif kind == "shaped":
            yield shaped(dtype, 40, 80, next(random), next(random), next(random))
        else:
            top = int(kind.lstrip("fitu"))
            code = shaped(dtype, 12, 12 + top, next(random), next(random), next(random))
            yield code & mask >> 1 if kind.startswith("fitu") else code


def logarithmic(dtype: str, bits: int, a: int, b: int) -> int:
    signed = dtype.startswith("INT")
    width = bits - signed
    value = (a & (1 << width) - 1) >> b % width
    return -value if signed and b >> 63 else value


def shaped(dtype: str, below: int, span: int, a: int, b: int, c: int) -> int:
    fmt = FLOATS[dtype]
    field = fmt.bias - below + a % span
    mantissa = b >> 64 - fmt.mantissa_bits
    cleared = c % (fmt.mantissa_bits + 1)
    sign = fmt.sign_bit if a >> 63 else 0
    return sign | field << fmt.mantissa_bits | mantissa >> cleared << cleared


if __name__ == "__main__":
    sys.exit(main())
