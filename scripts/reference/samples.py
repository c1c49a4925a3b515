"""Input elements that probe the edges of a cast: the target's limits, ties and specials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from reference import exact
from reference.exact import E8M0, FLOATS, INTEGERS, Number, bit_width, power_of_two

# Far enough from a tie to survive a FLOAT on the way, which both references take.
NUDGE = power_of_two(-20)
COMMON = tuple(Fraction(text) for text in ("0", "1", "1.5", "2.5", "0.1", "3.140625", "100", "7"))
E8M0_MIN, E8M0_MAX = power_of_two(-127), power_of_two(127)
TEXT = (
    "0", "-0", "1", "-1", "+2", "2.5", "-3.5", "0.1", "1e2", "1E+2", "25e-1", ".5", "5.",
    "7 ", "\t3", "100.25", "-0.75", "000123",
)  # fmt: skip
TEXT_SPECIALS = ("INF", "-INF", "+INF", "inf", "NaN", "nan")


def edge_codes(source: str, target: str) -> list[exact.Code]:
    """Every code of a type of at most 6 bits; of others the codes nearest the target's edges."""
    if source == "STRING":
        return list(text_edges(target))
    if source == "BOOL":
        return [0, 1, 1, 0, 1]
    if bit_width(source) <= 6:
        return list(range(1 << bit_width(source)))
    codes = [code for x in edge_numbers(target) if (code := encode(source, x)) is not None]
    codes += spread(source) if bit_width(source) == 8 else []
    return list(dict.fromkeys(codes))


def parse_codes(source: str, texts: Iterable[str]) -> list[exact.Code]:
    """Codes of decimal literals, for inputs spelled out in a table."""
    if source == "STRING":
        return list(texts)
    return exact.cast(list(texts), "STRING", source, saturate=False)


def spread(source: str) -> list[int]:
    """A few 8-bit codes of every exponent, the last ones included."""
    return [*range(3, 256, 11), 0x7E, 0x7F, 0x80, 0xFF]


def text_edges(target: str) -> Iterator[str]:
    for text in TEXT:
        if target not in INTEGERS or fits_integer(target, text):
            yield text
    if target in FLOATS or target == E8M0:
        yield from TEXT_SPECIALS


def fits_integer(target: str, text: str) -> bool:
    try:
        exact.cast_one(text, "STRING", target, True, "up")
    except exact.CastError:
        return False
    return True


def edge_numbers(target: str) -> Iterator[Number]:
    for x in dict.fromkeys((*COMMON, *limits(target))):
        yield Number("finite", False, x)
        yield Number("finite", True, x)
    for kind in ("inf", "nan"):
        yield Number(kind, False)
        yield Number(kind, True)


def limits(target: str) -> tuple[Fraction, ...]:
    if target in FLOATS:
        return float_limits(target)
    if target == E8M0:
        return (*(power_of_two(e) for e in (-126, -7, 3, 126)), E8M0_MIN, E8M0_MAX)
    if target in INTEGERS:
        return integer_limits(INTEGERS[target])
    return (power_of_two(-149), Fraction("16777216"), Fraction("0.000123"), Fraction("65504"))


def float_limits(target: str) -> tuple[Fraction, ...]:
    fmt = FLOATS[target]
    tiny, normal, top = (fmt.finite(c) for c in (1, 1 << fmt.mantissa_bits, fmt.max_code))
    step = power_of_two(-fmt.mantissa_bits)
    last = top - fmt.finite(fmt.max_code - 1)
    ties = (tiny / 2, 1 + step / 2, 1 + step * 3 / 2, top + last / 2)
    near = (ties[1] * (1 + NUDGE), ties[3] * (1 - NUDGE), ties[3] * (1 + NUDGE))
    return (tiny, tiny * 3 / 4, normal, normal - tiny, top, top + last, top * 4, *ties, *near)


def integer_limits(bits: int) -> tuple[Fraction, ...]:
    half, full = Fraction(1 << (bits - 1)), Fraction(1 << bits)
    return (Fraction("0.9"), Fraction("2.9"), half - 1, half, half + 1, full - 1, full, full + 3)


def encode(source: str, x: Number) -> int | None:
    """The source's element nearest to x, or None where it has none of that kind."""
    if source in INTEGERS:
        bits = INTEGERS[source]
        low, high = (-(1 << bits - 1), 1 << bits - 1) if source[0] == "I" else (0, 1 << bits)
        fits = x.kind == "finite" and low <= int(x.value) < high
        return int(x.value) % (1 << bits) if fits else None
    if source == E8M0:
        fits = x.kind == "nan" or (not x.negative and E8M0_MIN <= x.magnitude <= E8M0_MAX)
        return exact.encode_e8m0(x, False, "nearest") if fits else None
    return exact.encode_float(source, x, saturate=False)
