"""An exact and slow model of ONNX Cast, used to check every expected output.

Elements are codes: the bit pattern of one element as a non-negative int, or a str for STRING.
A cast decodes the code to a rational number, and rounds that number once.  It works on
rationals only, so that no float of the machine, no library of small floats and none of the
crate's own code can lend it a mistake.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Code = int | str

DATA_TYPES: dict[str, int] = {
    "FLOAT": 1,
    "UINT8": 2,
    "INT8": 3,
    "UINT16": 4,
    "INT16": 5,
    "INT32": 6,
    "INT64": 7,
    "STRING": 8,
    "BOOL": 9,
    "FLOAT16": 10,
    "DOUBLE": 11,
    "UINT32": 12,
    "UINT64": 13,
    "BFLOAT16": 16,
    "FLOAT8E4M3FN": 17,
    "FLOAT8E4M3FNUZ": 18,
    "FLOAT8E5M2": 19,
    "FLOAT8E5M2FNUZ": 20,
    "UINT4": 21,
    "INT4": 22,
    "FLOAT4E2M1": 23,
    "FLOAT8E8M0": 24,
    "UINT2": 25,
    "INT2": 26,
    "FLOAT6E2M3": 27,
    "FLOAT6E3M2": 28,
}


class CastError(ValueError):
    """A string that is not a number of the target type."""


@dataclass(frozen=True)
class Number:
    """A finite number, an infinity or a NaN, with the sign kept apart so that -0 exists."""

    kind: str
    negative: bool = False
    magnitude: Fraction = Fraction(0)

    @property
    def value(self) -> Fraction:
        return -self.magnitude if self.negative else self.magnitude


@dataclass(frozen=True)
class FloatFormat:
    """A signed float format.  `specials` names what its topmost codes mean:

    ieee: the top exponent holds Inf and NaN; fn: only the all-ones code is NaN, no Inf;
    fnuz: the code of -0 is the only NaN; none: every code is finite.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: str

    @functools.cached_property
    def sign_bit(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @functools.cached_property
    def max_code(self) -> int:
        """The code of the largest finite number."""
        infinity = ((1 << self.exponent_bits) - 1) << self.mantissa_bits
        below = {"ieee": infinity, "fn": self.sign_bit - 1}
        return below.get(self.specials, self.sign_bit) - 1

    @functools.cached_property
    def nan_code(self) -> int | None:
        """The canonical NaN: a quiet one where there is a choice."""
        quiet = ((1 << self.exponent_bits) - 1) << self.mantissa_bits | 1 << self.mantissa_bits - 1
        codes = {"ieee": quiet, "fn": self.sign_bit - 1, "fnuz": self.sign_bit}
        return codes.get(self.specials)

    def finite(self, code: int) -> Fraction:
        """The magnitude of a finite code without its sign bit."""
        exponent, mantissa = divmod(code, 1 << self.mantissa_bits)
        if exponent:
            mantissa += 1 << self.mantissa_bits
        scale = max(exponent, 1) - self.bias - self.mantissa_bits
        return mantissa * power_of_two(scale)


FLOATS: dict[str, FloatFormat] = {
    "DOUBLE": FloatFormat(11, 52, 1023, "ieee"),
    "FLOAT": FloatFormat(8, 23, 127, "ieee"),
    "BFLOAT16": FloatFormat(8, 7, 127, "ieee"),
    "FLOAT16": FloatFormat(5, 10, 15, "ieee"),
    "FLOAT8E5M2": FloatFormat(5, 2, 15, "ieee"),
    "FLOAT8E5M2FNUZ": FloatFormat(5, 2, 16, "fnuz"),
    "FLOAT8E4M3FN": FloatFormat(4, 3, 7, "fn"),
    "FLOAT8E4M3FNUZ": FloatFormat(4, 3, 8, "fnuz"),
    "FLOAT6E3M2": FloatFormat(3, 2, 3, "none"),
    "FLOAT6E2M3": FloatFormat(2, 3, 1, "none"),
    "FLOAT4E2M1": FloatFormat(2, 1, 1, "none"),
}
E8M0 = "FLOAT8E8M0"
FLOAT8 = {"FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"}
INTEGERS: dict[str, int] = {
    f"{sign}INT{bits}": bits for sign in ("", "U") for bits in (2, 4, 8, 16, 32, 64)
}


def bit_width(dtype: str) -> int:
    """Bits of one element in ONNX's packed storage."""
    if dtype in INTEGERS:
        return INTEGERS[dtype]
    if dtype in FLOATS:
        return FLOATS[dtype].sign_bit.bit_length()
    return 8


@functools.cache
def power_of_two(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def floor_log2(x: Fraction) -> int:
    """floor(log2 x) of a positive rational, with no float on the way."""
    over, under = x.numerator, x.denominator
    guess = over.bit_length() - under.bit_length()
    return guess if under << max(guess, 0) <= over << max(-guess, 0) else guess - 1


def is_nan(dtype: str, code: Code) -> bool:
    return dtype != "STRING" and decode(dtype, code).kind == "nan"


def same(dtype: str, left: Code, right: Code) -> bool:
    """Bitwise equality, with every NaN of a type equal to every other."""
    return left == right or (is_nan(dtype, left) and is_nan(dtype, right))


def decode(dtype: str, code: Code) -> Number:
    """The exact number an element stands for."""
    if isinstance(code, str):
        return parse(code)
    if dtype in FLOATS:
        return decode_float(FLOATS[dtype], code)
    if dtype == E8M0:
        return Number("nan") if code == 0xFF else finite(power_of_two(code - 127))
    if dtype == "BOOL":
        return finite(Fraction(code != 0))
    bits = INTEGERS[dtype]
    signed = dtype.startswith("INT") and code >> (bits - 1)
    return finite(Fraction(code - (1 << bits) if signed else code))


def decode_float(fmt: FloatFormat, code: int) -> Number:
    negative, body = bool(code & fmt.sign_bit), code & (fmt.sign_bit - 1)
    if fmt.specials == "fnuz" and code == fmt.sign_bit:
        return Number("nan", True)
    if body <= fmt.max_code:
        return Number("finite", negative, fmt.finite(body))
    if fmt.specials == "ieee" and body == fmt.max_code + 1:
        return Number("inf", negative)
    return Number("nan", negative)


def finite(value: Fraction) -> Number:
    return Number("finite", value < 0, abs(value))


def cast(
    codes: Sequence[Code],
    source: str,
    target: str,
    saturate: bool = True,
    round_mode: str = "up",
) -> list[Code]:
    """Casts a list of codes from one element type to another."""
    return [cast_one(code, source, target, saturate, round_mode) for code in codes]


def cast_one(code: Code, source: str, target: str, saturate: bool, round_mode: str) -> Code:
    if source == target and not (target == "FLOAT8E5M2" and saturate):
        return code
    if source == target and decode(source, code).kind != "inf":
        return code
    if target == "STRING":
        return format_number(source, decode(source, code))
    if target == "BOOL" and isinstance(code, str):
        return parse_bool(code)
    x = decode(source, code)
    if target == "BOOL":
        return int(x.kind != "finite" or x.magnitude != 0)
    if target == E8M0:
        return encode_e8m0(x, saturate, round_mode)
    if target in FLOATS:
        return encode_float(target, x, saturate)
    if isinstance(code, str):
        return encode_parsed_integer(target, x, code)
    if source in INTEGERS or source == "BOOL":
        return int(x.value) % (1 << INTEGERS[target])
    return encode_truncated(target, x)


def round_to_format(fmt: FloatFormat, x: Fraction) -> Fraction:
    """Nearest multiple of the format's spacing at x, ties to even, exponent unbounded above."""
    steps, exponent = steps_of(fmt, x)
    return steps * power_of_two(exponent - fmt.mantissa_bits)


def steps_of(fmt: FloatFormat, x: Fraction) -> tuple[int, int]:
    """x in the format's spacing at x, rounded to an integer, ties to even, and the exponent there."""
    if x == 0:
        return 0, 1 - fmt.bias
    exponent = max(floor_log2(x), 1 - fmt.bias)
    # The quotient of x and the spacing, of integers: a Fraction would be reduced at each step.
    shift = exponent - fmt.mantissa_bits
    over, under = x.numerator << max(-shift, 0), x.denominator << max(shift, 0)
    steps, rest = divmod(over, under)
    return steps + (2 * rest > under or (2 * rest == under and steps % 2 == 1)), exponent


def encode_magnitude(fmt: FloatFormat, x: Fraction) -> int:
    """The code of the number that x is rounded to, as if there were no greatest one.

    The codes of a binade are consecutive, and the next binade's follow: a carry needs no care.
    """
    steps, exponent = steps_of(fmt, x)
    return (exponent + fmt.bias - 1 << fmt.mantissa_bits) + steps


def encode_float(target: str, x: Number, saturate: bool) -> int:
    fmt = FLOATS[target]
    sign = fmt.sign_bit if x.negative else 0
    if x.kind == "nan":
        return encode_nan(fmt, sign)
    if x.kind == "finite":
        code = encode_magnitude(fmt, x.magnitude)
        if code <= fmt.max_code:
            return code if code == 0 and fmt.specials == "fnuz" else sign | code
    clamps = fmt.specials == "none" or (target in FLOAT8 and saturate)
    if clamps:
        return sign | fmt.max_code
    return sign | fmt.max_code + 1 if fmt.specials == "ieee" else encode_nan(fmt, sign)


def encode_nan(fmt: FloatFormat, sign: int) -> int:
    """A type without NaN gets a zero, whose sign is the opposite of the NaN's."""
    if fmt.nan_code is None:
        return sign ^ fmt.sign_bit
    return fmt.nan_code | sign


def encode_e8m0(x: Number, saturate: bool, round_mode: str) -> int:
    """The range test is on x itself, before rounding."""
    if x.kind == "nan":
        return 0xFF
    if (x.kind == "inf" and not x.negative) or x.value > power_of_two(127):
        return 0xFE if saturate else 0xFF
    if x.kind == "inf" or x.value < power_of_two(-127):
        return 0x00 if saturate else 0xFF
    k = floor_log2(x.magnitude)
    fraction = x.magnitude / power_of_two(k)
    threshold = {"up": Fraction(1), "down": Fraction(2), "nearest": Fraction(3, 2)}[round_mode]
    steps_up = fraction > threshold if round_mode == "up" else fraction >= threshold
    return k + 127 + steps_up


def encode_truncated(target: str, x: Number) -> int:
    """Float to integer: what convert-to-signed instructions give, low bits kept."""
    bits = INTEGERS[target]
    if x.kind == "finite":
        t = int(x.value)
        if in_signed_range(t, 32 if bits < 32 or target == "INT32" else 64):
            return t % (1 << bits)
        if target == "UINT64" and 0 <= t < 1 << 64:
            return t
    above = x.kind != "nan" and not x.negative
    if target == "UINT64":
        return 0 if above else 1 << 63
    return 1 << (bits - 1) if target in ("INT32", "INT64") else 0


def in_signed_range(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


LITERAL = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?:e(?P<exponent>[+-]?[0-9]+))?",
    re.ASCII | re.IGNORECASE,
)
WORD = re.compile(r"(?P<sign>[+-]?)(?P<word>inf|infinity|nan)", re.ASCII | re.IGNORECASE)
WHITE_SPACE = " \t\n\r\v\f"
# Far outside DOUBLE on both sides, and small enough to build as a rational.
EXPONENT_LIMIT = 2000


def parse(text: str) -> Number:
    """A decimal literal as an exact number."""
    text = text.strip(WHITE_SPACE)
    if word := WORD.fullmatch(text):
        kind = "nan" if word["word"].lower() == "nan" else "inf"
        return Number(kind, word["sign"] == "-")
    literal = LITERAL.fullmatch(text)
    if literal is None:
        raise CastError(f"{text!r} is not a number")
    part = literal["part"] or literal["only_part"] or ""
    digits = int((literal["whole"] or "") + part)
    exponent = int(literal["exponent"] or 0) - len(part)
    exponent = max(-EXPONENT_LIMIT, min(EXPONENT_LIMIT, exponent))
    return Number("finite", literal["sign"] == "-", digits * Fraction(10) ** exponent)


def parse_bool(text: str) -> int:
    word = text.strip(WHITE_SPACE).lower()
    if word in ("true", "false"):
        return int(word == "true")
    x = parse(text)
    return int(x.kind != "finite" or x.magnitude != 0)


def encode_parsed_integer(target: str, x: Number, text: str) -> int:
    bits = INTEGERS[target]
    low, high = (-(1 << bits - 1), 1 << bits - 1) if target[0] == "I" else (0, 1 << bits)
    if x.kind != "finite" or not low <= int(x.value) < high:
        raise CastError(f"{text!r} does not fit {target}")
    return int(x.value) % (1 << bits)


def format_number(source: str, x: Number) -> str:
    if x.kind == "nan":
        return "NaN"
    sign = "-" if x.negative else ""
    if x.kind == "inf":
        return sign + "INF"
    if source == "BOOL":
        return "True" if x.magnitude else "False"
    if source in INTEGERS:
        return f"{sign}{int(x.magnitude)}"
    return sign + shortest_decimal("DOUBLE" if source == "DOUBLE" else "FLOAT", x.magnitude)


def shortest_decimal(dtype: str, x: Fraction) -> str:
    """Fewest digits that read back, then the closest, then an even last digit."""
    if x == 0:
        return "0.0"
    fmt = FLOATS[dtype]
    point = decimal_exponent(x)
    for count in range(1, 18):
        unit = Fraction(10) ** (point - count)
        below = int(x / unit)
        fits = [n for n in (below, below + 1) if round_to_format(fmt, n * unit) == x]
        if fits:
            best = min(fits, key=lambda n: (abs(n * unit - x), n % 2))
            return positional(best, point - count)
    raise AssertionError("17 digits are enough for every DOUBLE")


def decimal_exponent(x: Fraction) -> int:
    """The p of 10**(p-1) <= x < 10**p."""
    p = len(str(x.numerator)) - len(str(x.denominator))
    while Fraction(10) ** p <= x:
        p += 1
    while Fraction(10) ** (p - 1) > x:
        p -= 1
    return p


def positional(digits: int, exponent: int) -> str:
    """digits * 10**exponent without an exponent, and a digit on each side of the point."""
    if exponent >= 0:
        return f"{digits * 10**exponent}.0"
    text = str(digits).rjust(1 - exponent, "0")
    whole, part = text[:exponent], text[exponent:].rstrip("0")
    return f"{whole}.{part or '0'}"
