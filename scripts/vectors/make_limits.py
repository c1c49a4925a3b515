"""Writes tests/data/limits.tsv and reach.tsv: `python -m vectors.make_limits`.

Both are of every numeric type, in rational numbers, from `reference.reach`. A value is written `NpE`, which is N times 2 to
the power of E.

`limits.tsv`: a type, a limit, the code of the element in hexadecimal and its value. The limits are `max` and `min`, the
largest and the smallest finite value; `min_positive`, the smallest above zero; and `min_normal` of the floating-point types,
the smallest positive one of full precision.

`reach.tsv`: a type, a value, whether a cast of the value to the type has no place for it (0 or 1), and the spacing of the
type's values around it, which is a unit in the last place. The values lie at the ends of the type and beside them, and
where 64-bit integers come near a power of two. BOOL, whose every number but zero is true, is left out.

With `--check` nothing is written, and the exit status tells whether the files hold what would be written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from reference import exact
from reference.exact import DATA_TYPES, Number
from reference.reach import is_beyond, last_place, limits
from reference.samples import edge_numbers

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
NUMERIC = [dtype for dtype in DATA_TYPES if dtype != "STRING"]
# Of any type: fractions beside the ends of integers, and integers that DOUBLE rounds to a power of two.
COMMON = [
    *(Fraction(text) for text in ("0.5", "0.875", "127.875", "128.5", "255.5", "255.875", "464")),
    *(Fraction(1 << power) + step for power in (31, 32, 53, 62, 63, 64) for step in (-1, 0, 1)),
    Fraction(11, 8) * exact.power_of_two(127),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    arguments = parser.parse_args()
    files = {
        "limits.tsv": "type\tlimit\tcode\tvalue\n" + "".join(limit_rows()),
        "reach.tsv": "type\tvalue\tbeyond\tulp\n" + "".join(reach_rows()),
    }
    if arguments.check:
        return int(any((DATA / name).read_text() != text for name, text in files.items()))
    for name, text in files.items():
        (DATA / name).write_text(text)
    return 0


def limit_rows() -> Iterator[str]:
    for dtype in NUMERIC:
        for limit, code in limits(dtype):
            value = exact.decode(dtype, code).value
            yield f"{dtype}\t{limit}\t{code:x}\t{dyadic(value)}\n"


def reach_rows() -> Iterator[str]:
    for dtype in NUMERIC:
        if dtype == "BOOL":
            continue
        for x in values(dtype):
            ulp = dyadic(last_place(dtype, x))
            yield f"{dtype}\t{dyadic(x.value)}\t{is_beyond(dtype, x):d}\t{ulp}\n"


def values(dtype: str) -> list[Number]:
    """Those that are so many times a power of two."""
    numbers = [x.value for x in edge_numbers(dtype) if x.kind == "finite"]
    numbers += [sign * value for value in COMMON for sign in (1, -1)]
    dyadics = {value for value in numbers if value.denominator & (value.denominator - 1) == 0}
    return [exact.finite(value) for value in sorted(dyadics)]


def dyadic(value: Fraction) -> str:
    """With an odd N, or 0p0."""
    numerator, exponent = value.numerator, 1 - value.denominator.bit_length()
    while numerator and numerator % 2 == 0:
        numerator, exponent = numerator // 2, exponent + 1
    return f"{numerator}p{exponent}"


if __name__ == "__main__":
    sys.exit(main())
