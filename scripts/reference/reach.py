"""How far an element type reaches and how fine it is, in rational numbers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from reference import exact
from reference.exact import E8M0, FLOATS, INTEGERS, Number


def limits(dtype: str) -> Iterator[tuple[str, int]]:
    """The largest and the smallest finite value, the smallest above zero and, of floating-point types, the smallest of full
    precision: names and codes."""
    if dtype in FLOATS:
        fmt = FLOATS[dtype]
        codes = (fmt.max_code, fmt.sign_bit | fmt.max_code, 1, 1 << fmt.mantissa_bits)
    elif dtype == E8M0:
        codes = (0xFE, 0, 0, 0)
    elif dtype == "BOOL":
        codes = (1, 0, 1)
    else:
        bits, signed = INTEGERS[dtype], dtype[0] == "I"
        codes = ((1 << bits - signed) - 1, signed << bits - 1, 1)
    named = list(zip(("max", "min", "min_positive", "min_normal"), codes, strict=False))
    if exact.bit_width(dtype) <= 16:
        check_limits(dtype, dict(named))
    yield from named


def check_limits(dtype: str, codes: dict[str, int]) -> None:
    """Every code of a small type is within them."""
    count = 2 if dtype == "BOOL" else 1 << exact.bit_width(dtype)
    numbers = (exact.decode(dtype, code) for code in range(count))
    values = [number.value for number in numbers if number.kind == "finite"]
    wanted = (max(values), min(values), min(value for value in values if value > 0))
    for name, want in zip(("max", "min", "min_positive"), wanted, strict=True):
        assert exact.decode(dtype, codes[name]).value == want, (dtype, name)


def is_beyond(target: str, x: Number) -> bool:
    """Whether a cast of x has no place for it. Where it rounds or truncates, what comes of that is judged; FLOAT8E8M0
    judges x itself."""
    if target == E8M0:
        return x.kind == "inf" or not exact.power_of_two(-127) <= x.value <= exact.power_of_two(127)
    if x.kind == "inf":
        return True
    if target in INTEGERS:
        return not low(target) <= int(x.value) <= high(target)
    fmt = FLOATS[target]
    return exact.round_to_format(fmt, x.magnitude) > fmt.finite(fmt.max_code)


def low(target: str) -> int:
    return -(1 << (INTEGERS[target] - 1)) if target[0] == "I" else 0


def high(target: str) -> int:
    return (1 << (INTEGERS[target] - (target[0] == "I"))) - 1


def last_place(target: str, x: Number) -> Fraction:
    """The spacing of the target's values around x; of its last binade beyond them."""
    if target in INTEGERS or target == "BOOL":
        return Fraction(1)
    if target == E8M0:
        exponent = exact.floor_log2(x.magnitude) if x.magnitude else -127
        return exact.power_of_two(min(max(exponent, -127), 127))
    fmt = FLOATS[target]
    top = exact.floor_log2(fmt.finite(fmt.max_code))
    exponent = exact.floor_log2(x.magnitude) if x.magnitude else 1 - fmt.bias
    return exact.power_of_two(min(max(exponent, 1 - fmt.bias), top) - fmt.mantissa_bits)
