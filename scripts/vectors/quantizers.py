"""Exact vectors of QuantizeLinear and DequantizeLinear: `python -m vectors.quantizers`.

Writes tests/data/quantizers.zip, a member for each operator with a line for each combination of types. Everything is
computed in exact rational numbers from docs/semantics.md, section 13, without a line of the crate; tests/data/vectors.md
describes the lines.

With `--check` nothing is written, and the exit status tells whether the archive holds what would be written. More elements
of each combination, for the tests to read from another archive, are had by `--scales N --archive FILE`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import multiprocessing
import random
import sys
import zipfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from reference import exact
from reference.exact import E8M0, FLOAT8, FLOATS, INTEGERS, Number
from vectors.make_vectors import to_hex

ARCHIVE = Path(__file__).parents[2] / "tests" / "data" / "quantizers.zip"
HALVES = ("FLOAT", "FLOAT16", "BFLOAT16")
SMALL_INTEGERS = ("UINT8", "INT8", "UINT16", "INT16", "UINT4", "INT4", "UINT2", "INT2")
SMALL_FLOATS = (
    "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
    "FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2",
)  # fmt: skip
QUANTIZED = SMALL_INTEGERS + SMALL_FLOATS
# The elements of each scale of a line.
EACH = 10

Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument("--scales", type=int, default=24, help="scales of a line")
    parser.add_argument("--archive", type=Path, default=ARCHIVE, help="the archive")
    arguments = parser.parse_args()
    quantized = functools.partial(quantize_row, scales=arguments.scales)
    dequantized = functools.partial(dequantize_row, scales=arguments.scales)
    with multiprocessing.Pool() as pool:
        members = {
            "quantize.jsonl": lines(pool.imap(quantized, quantizers())),
            "dequantize.jsonl": lines(pool.imap(dequantized, dequantizers())),
        }
    if not arguments.check:
        write(arguments.archive, members)
        return 0
    with zipfile.ZipFile(arguments.archive) as archive:
        wrong = [name for name, text in members.items() if archive.read(name).decode() != text]
    for name in wrong:
        print(f"differs: {arguments.archive}: {name}", file=sys.stderr)
    return 1 if wrong else 0


def lines(rows: Iterator[Row]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(path: Path, members: dict[str, str]) -> None:
    """The same bytes on every day and system."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in members.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            archive.writestr(info, text)


# Which types meet.


def quantizers() -> Iterator[Row]:
    scales = (*HALVES, "INT32", E8M0)
    for x, scale, y in itertools.product((*HALVES, "INT32"), scales, QUANTIZED):
        yield {"x": x, "scale": scale, "y": y}


def dequantizers() -> Iterator[Row]:
    for x, scale, y in itertools.product((*QUANTIZED, "INT32"), (*HALVES, E8M0), HALVES):
        yield {"x": x, "scale": scale, "y": y}


# Numbers and codes.


def nearest(dtype: str, x: Number) -> Number:
    """What an element of the type is worth that a number is cast to."""
    return exact.decode(dtype, exact.encode_float(dtype, x, saturate=True))


@functools.lru_cache(1 << 16)
def floated(dtype: str, code: int) -> Number:
    return nearest("FLOAT", exact.decode(dtype, code))


def number(value: Fraction, negative: bool) -> Number:
    """A number whose sign is kept apart."""
    return Number("finite", negative, abs(value))


def quotient(x: Number, scale: Number) -> Number:
    negative = x.negative != scale.negative
    zero = [n.kind == "finite" and n.magnitude == 0 for n in (x, scale)]
    if "nan" in (x.kind, scale.kind) or all(zero) or x.kind == scale.kind == "inf":
        return Number("nan", x.negative)
    if x.kind == "inf" or zero[1]:
        return Number("inf", negative)
    if scale.kind == "inf":
        return number(Fraction(0), negative)
    return nearest("FLOAT", number(x.magnitude / scale.magnitude, negative))


def product(x: Number, scale: Number) -> Number:
    negative = x.negative != scale.negative
    kinds = (x.kind, scale.kind)
    if "nan" in kinds:
        return Number("nan", x.negative)
    if "inf" in kinds:
        has_zero = any(n.kind == "finite" and n.magnitude == 0 for n in (x, scale))
        return Number("nan", x.negative) if has_zero else Number("inf", negative)
    return nearest("FLOAT", number(x.magnitude * scale.magnitude, negative))


def total(a: Number, b: Number) -> Number:
    """a + b, of which b is finite or a is too."""
    if "nan" in (a.kind, b.kind):
        return Number("nan", a.negative)
    if a.kind == b.kind == "inf" and a.negative != b.negative:
        return Number("nan", a.negative)
    if a.kind == "inf" or b.kind == "inf":
        return a if a.kind == "inf" else b
    value = a.value + b.value
    negative = value < 0 if value else a.negative and b.negative
    return nearest("FLOAT", number(value, negative))


def ends(dtype: str) -> tuple[int, int]:
    bits = INTEGERS[dtype]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "I" else (0, (1 << bits) - 1)


def divided(row: Row, x: int, scale: int) -> Number:
    return quotient(floated(row["x"], x), floated(row["scale"], scale))


def quantized(row: Row, v: Number, zero: int | None, saturate: bool) -> int:
    """What becomes of a quotient that has been rounded to the precision."""
    y = row["y"]
    if y in INTEGERS:
        least, greatest = ends(y)
        offset = 0 if zero is None else int(exact.decode(y, zero).value)
        if v.kind == "nan":
            return least % (1 << INTEGERS[y])
        if v.kind == "inf":
            return (least if v.negative else greatest) % (1 << INTEGERS[y])
        return min(max(round(v.value) + offset, least), greatest) % (1 << INTEGERS[y])
    if zero is not None and y not in FLOAT8:
        v = total(v, exact.decode(y, zero))
    return exact.encode_float(y, v, saturate)


def dequantize(row: Row, x: int, scale: int, zero: int | None) -> int:
    difference = floated(row["x"], x)
    if zero is not None:
        moved = exact.decode(row["x"], zero)
        opposite = Number(moved.kind, not moved.negative, moved.magnitude)
        difference = total(difference, opposite)
    result = product(difference, floated(row["scale"], scale))
    return exact.encode_float(row["y"], result, saturate=True)


# Elements.


def any_code(dtype: str, rng: random.Random) -> int:
    return rng.getrandbits(exact.bit_width(dtype))


def some_scale(dtype: str, rng: random.Random) -> int:
    """A scale as models have them, and now and then one that they should not have."""
    if dtype == E8M0:
        return rng.choice([any_code(dtype, rng), rng.randrange(110, 140)])
    if dtype == "INT32":
        return rng.choice([rng.randrange(1, 9), rng.randrange(-300, 300), any_code(dtype, rng)]) % (
            1 << 32
        )
    if rng.random() < 0.1:
        return any_code(dtype, rng)
    if rng.random() < 0.05:
        return rng.choice([0, FLOATS[dtype].sign_bit, FLOATS[dtype].max_code + 1])
    magnitude = Fraction(rng.choice([1, 3, 5, rng.getrandbits(24) + 1]), 1 << rng.randrange(0, 30))
    return exact.encode_float(dtype, number(magnitude, rng.random() < 0.2), saturate=True)


def some_zero(dtype: str, rng: random.Random) -> int:
    if dtype in FLOAT8 or dtype == "INT32":
        return 0
    return any_code(dtype, rng)


def some_x(row: Row, scale: int, zero: int | None, rng: random.Random) -> int:
    """An x near a tie, an end or a small number of steps, or any."""
    x, y = row["x"], row["y"]
    step = floated(row["scale"], scale)
    if rng.random() < 0.2 or step.kind != "finite":
        return any_code(x, rng)
    if y in INTEGERS:
        least, greatest = ends(y)
        offset = 0 if zero is None else int(exact.decode(y, zero).value)
        at = rng.choice([least, greatest, rng.randint(least, greatest), rng.randrange(-9, 9)])
        steps = Fraction(at - offset) + rng.choice([0, Fraction(1, 2), Fraction(-1, 2)])
    else:
        code = any_code(y, rng)
        above = exact.decode(y, code), exact.decode(y, (code + 1) & (2 * FLOATS[y].sign_bit - 1))
        steps = sum((n.value for n in above if n.kind == "finite"), Fraction(0)) / 2
    value = steps * step.value
    if x == "INT32":
        return round(min(max(value, Fraction(-(1 << 31))), Fraction((1 << 31) - 1))) % (1 << 32)
    code = exact.encode_float(x, number(value, value < 0), saturate=True)
    beside = code + rng.choice([0, 0, 1, -1])
    return max(beside, 0) & (2 * FLOATS[x].sign_bit - 1)


def some_parameters(
    row: Row, small: str, scales: int, rng: random.Random
) -> list[tuple[int, int | None]]:
    """Scales and zero points; a quarter of the lines has no zero points."""
    plain = rng.random() < 0.25
    return [
        (some_scale(row["scale"], rng), None if plain else some_zero(row[small], rng))
        for _ in range(scales)
    ]


def quantize_row(row: Row, scales: int) -> Row:
    rng = random.Random(repr(row))
    parameters = some_parameters(row, "y", scales, rng)
    elements = [
        (some_x(row, scale, zero, rng), scale, zero)
        for scale, zero in parameters
        for _ in range(EACH)
    ]
    quotients = [divided(row, x, scale) for x, scale, _ in elements]
    zeros = [zero for _, _, zero in elements]
    results = []
    for precision in HALVES:
        rounded = [nearest(precision, v) for v in quotients]
        for saturate in (True, False) if row["y"] in FLOAT8 else (True,):
            ys = [quantized(row, v, zero, saturate) for v, zero in zip(rounded, zeros, strict=True)]
            y_hex = to_hex(row["y"], ys)
            results.append({"precision": precision, "saturate": int(saturate), "y_hex": y_hex})
    return row | hexes(row, "y", parameters, elements) | {"results": results}


def dequantize_row(row: Row, scales: int) -> Row:
    rng = random.Random(repr(row))
    parameters = some_parameters(row, "x", scales, rng)
    bits = exact.bit_width(row["x"])
    codes = [
        index % (1 << bits) if bits <= 8 else any_code(row["x"], rng) >> rng.randrange(0, bits)
        for index in range(scales * EACH)
    ]
    elements = [(code, *parameters[index // EACH]) for index, code in enumerate(codes)]
    ys = [dequantize(row, *element) for element in elements]
    return row | hexes(row, "x", parameters, elements) | {"y_hex": to_hex(row["y"], ys)}


def hexes(
    row: Row,
    small: str,
    parameters: list[tuple[int, int | None]],
    elements: list[tuple[int, int, int | None]],
) -> Row:
    zeros = [zero for _, zero in parameters if zero is not None]
    return {
        "x_hex": to_hex(row["x"], [x for x, _, _ in elements]),
        "scale_hex": to_hex(row["scale"], [scale for scale, _ in parameters]),
        "zero_point_hex": to_hex(row[small], zeros) if zeros else None,
    }


if __name__ == "__main__":
    sys.exit(main())
