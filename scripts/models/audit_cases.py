"""Models for every pair of types, with what an audit of them must count.

The counts are made from the exact values of `exact`, by the definitions of docs/checking-a-conversion.md,
as rationals: nothing here is shared with the crate.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from models.cases import Case
from models.sketch import Sketch
from reference import exact, samples
from reference.exact import DATA_TYPES, E8M0, FLOAT8, FLOATS, INTEGERS, Code, Number
from reference.reach import is_beyond, last_place
from reference.tensors import make_tensor

OPSET = 28
# As many as are enough to meet every outcome of every pair.
EXTRA = 40
ORACLE = "exact rational arithmetic, scripts/reference/exact.py"


def audit_cases() -> Iterator[Case]:
    for source in DATA_TYPES:
        yield text_case() if source == "STRING" else numeric_case(source)


def variants(target: str) -> Iterator[dict[str, Any]]:
    """The attributes that change what a cast to the target does."""
    yield {}
    if target in FLOAT8:
        yield {"saturate": 0}
    if target == E8M0:
        for mode in ("up", "down", "nearest"):
            for saturate in (0, 1):
                yield {"saturate": saturate, "round_mode": mode}


def numeric_case(source: str) -> Case:
    codes = source_codes(source)
    s = Sketch()
    s.input("x", source, ["N"])
    nodes = [
        ("x", codes, target, attributes) for target in DATA_TYPES for attributes in variants(target)
    ]
    inputs = [make_tensor("x", source, (len(codes),), codes)]
    return case(s, source, nodes, inputs)


def text_case() -> Case:
    """Each target has an input of its own, for what one can read is an error for another."""
    s = Sketch()
    nodes, inputs = [], []
    for target in DATA_TYPES:
        texts = [str(text) for text in samples.edge_codes("STRING", target)] + long_texts(target)
        texts = [text for text in texts if is_readable(text, target)]
        name = s.input(f"x_{target}", "STRING", [f"N_{target}"])
        inputs.append(make_tensor(name, "STRING", (len(texts),), texts))
        nodes += [(name, texts, target, attributes) for attributes in variants(target)]
    return case(s, "STRING", nodes, inputs)


def case(s: Sketch, source: str, nodes: Sequence[tuple], inputs: Sequence[Any]) -> Case:
    outputs, counts = [], {}
    for value, codes, target, attributes in nodes:
        name = "_".join([f"to_{target}", *(f"{v}" for v in attributes.values())])
        s.cast(value, target, name, **attributes)
        s.output(name, target, [None])
        saturate, mode = attributes.get("saturate", 1), attributes.get("round_mode", "up")
        results = exact.cast(codes, source, target, bool(saturate), mode)
        outputs.append(make_tensor(name, target, (len(codes),), results))
        counts[f"Cast_{name}"] = count(source, target, codes, results)
    return Case(
        name=f"audit/from_{source}",
        covers=f"Casts of {source} to every type, and what an audit of them counts.",
        model=s.model(f"from_{source}", OPSET),
        inputs=inputs,
        outputs=outputs,
        oracle=ORACLE,
        features=["Cast", source],
        side_files={"counts.json": lines(counts).encode()},
    )


def lines(counts: dict[str, Any]) -> str:
    """A line for each cast."""
    rows = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in counts.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def source_codes(source: str) -> list[Code]:
    """The edges of every target, and codes that look like nothing in particular."""
    bits = exact.bit_width(source)
    if source == "BOOL":
        return [0, 1, 1, 0, 1]
    if bits <= 8:
        return list(range(1 << bits))
    rng = random.Random(source)
    edges = (code for target in DATA_TYPES for code in samples.edge_codes(source, target))
    extra = (rng.getrandbits(bits) for _ in range(EXTRA))
    near_one = (code for _ in range(EXTRA) if (code := ordinary(source, rng)) is not None)
    return list(dict.fromkeys([*edges, *extra, *near_one]))


def ordinary(source: str, rng: random.Random) -> Code | None:
    value = Fraction(rng.randint(-(1 << 20), 1 << 20), 1 << rng.randint(0, 20))
    return samples.encode(source, exact.finite(value))


def long_texts(target: str) -> list[str]:
    """Values that no DOUBLE has."""
    texts = ["464.00000000000000000001", "464", "65519.999999999999999", "65520", "1e400", "-1e400"]
    texts += ["1e-400", "-1e-400", "3.4028235677973366e38", "0.1000000000000000055511151231257827"]
    texts += ["5.0000000000000000000001", "1e-7", "2.98023223876953125e-8", "-0.0", "1" + "0" * 30]
    texts += ["170141183460469231731687303715884105728", "1.00000000000000000001"]
    # All the white space that a cast trims.
    texts += ["\v1", "\f2\v", " \t\r\n3 "]
    return [*texts, "18446744073709551615"]


def is_readable(text: str, target: str) -> bool:
    try:
        exact.cast_one(text, "STRING", target, True, "up")
    except exact.CastError:
        return False
    return True


def count(
    source: str, target: str, codes: Sequence[Code], results: Sequence[Code]
) -> dict[str, Any]:
    outcomes: Counter[str] = Counter()
    subnormal = lost = 0
    errors = [Fraction(0)] * 3
    for code, result in zip(codes, results, strict=True):
        x = number(source, code)
        y = x if target == "STRING" else exact.decode(target, result)
        outcomes[outcome(source, target, x, y)] += 1
        subnormal += is_subnormal(target, y) and x.kind == "finite" and not is_subnormal(source, x)
        lost += loses_sign(target, x, y)
        if x.kind == y.kind == "finite":
            errors = [max(pair) for pair in zip(errors, differences(target, x, y), strict=True)]
    values = [number(source, code) for code in codes]
    return {
        "elements": len(codes),
        "outcomes": dict(sorted(outcomes.items())),
        "became_subnormal": subnormal,
        "sign_lost": lost,
        **dict(zip(("max_abs", "max_rel", "max_ulp"), map(error, errors), strict=True)),
        "source": source_range(values, is_text=source == "STRING"),
    }


def number(source: str, code: Code) -> Number:
    if source == "STRING" and str(code).strip().lower() in ("true", "false"):
        return exact.finite(Fraction(str(code).strip().lower() == "true"))
    return exact.decode(source, code)


def outcome(source: str, target: str, x: Number, y: Number) -> str:
    if x.kind == y.kind == "nan" or (
        x.kind == y.kind != "nan" and x.value == y.value and x_sign(x, y)
    ):
        return "exact"
    if target == "BOOL":
        return "truncated"
    if target in INTEGERS:
        if source in INTEGERS or source == "BOOL":
            return "wrapped"
        return "undefined" if x.kind != "finite" or is_beyond(target, x) else "truncated"
    if x.kind == "nan":
        return "nan_lost"
    if y.kind == "nan":
        return "became_nan"
    if y.kind == "inf":
        return "overflowed"
    if is_beyond(target, x):
        return "saturated"
    return "rounded" if y.magnitude else "flushed"


def x_sign(x: Number, y: Number) -> bool:
    return x.kind == "finite" or x.negative == y.negative


def is_subnormal(dtype: str, x: Number) -> bool:
    if dtype not in FLOATS or x.kind != "finite":
        return False
    return 0 < x.magnitude < exact.power_of_two(1 - FLOATS[dtype].bias)


def loses_sign(target: str, x: Number, y: Number) -> bool:
    if target == "STRING" or "nan" in (x.kind, y.kind):
        return False
    to_float = target in FLOATS or target == E8M0
    had = x.negative and (to_float or x.kind == "inf" or x.magnitude != 0)
    return had and not y.negative


def differences(target: str, x: Number, y: Number) -> tuple[Fraction, Fraction, Fraction]:
    distance = abs(x.value - y.value)
    relative = distance / x.magnitude if x.magnitude else Fraction(0)
    return distance, relative, distance / last_place(target, x) if distance else Fraction(0)


def source_range(values: Sequence[Number], is_text: bool) -> dict[str, Any]:
    numbers = [x for x in values if x.kind == "finite"]
    # The logarithm of a text is that of the nearest finite DOUBLE that is not zero.
    sizes = [clamped(x.magnitude) if is_text else x.magnitude for x in numbers]
    logs = Counter(exact.floor_log2(size) for size in sizes if size)
    return {
        "min": rounded(min(x.value for x in numbers)),
        "max": rounded(max(x.value for x in numbers)),
        "zeros": sum(not size for size in sizes),
        "nans": sum(x.kind == "nan" for x in values),
        "infinities": sum(x.kind == "inf" for x in values),
        "log2": sorted(logs.items()),
    }


def clamped(magnitude: Fraction) -> Fraction:
    return max(Fraction(rounded(magnitude)), exact.power_of_two(-1074)) if magnitude else magnitude


def rounded(x: Fraction) -> float:
    """The nearest DOUBLE, the largest one for what is beyond."""
    try:
        return float(x)
    except OverflowError:
        largest = float.fromhex("0x1.fffffffffffffp1023")
        return -largest if x < 0 else largest


def error(x: Fraction) -> float | str:
    """As JSON has it, which has no infinity."""
    try:
        return float(x)
    except OverflowError:
        return "Infinity"
