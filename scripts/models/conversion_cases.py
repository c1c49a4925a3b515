"""A network in FLOAT, its conversion to FLOAT16 that overflows, and the conversion that does not.

The sum of squares that a normalisation divides by is beyond 65504 for an input that is nothing out of the ordinary, as in
models that people convert. The first conversion computes it in FLOAT and casts it, as converters do that keep a list of
operators in FLOAT; the second casts what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from models.cases import Case
from models.sketch import FLOAT_TOLERANCE, Sketch, narrowed, uniform, whole_case
from reference.tensors import array_tensor

FEATURES, HIDDEN, CLASSES = 8, 512, 4


def conversion_cases() -> Iterator[Case]:
    yield original()
    yield converted("rms_norm_FLOAT16", "whose sum of squares overflows", early=True)
    yield converted("rms_norm_FLOAT16_fixed", "whose sum of squares stays in FLOAT", early=False)


def model_input() -> list:
    return [array_tensor("x", uniform(61, 2, FEATURES))]


def weights(s: Sketch, dtype: str) -> None:
    s.initializer(narrowed("w1", dtype, uniform(62, FEATURES, HIDDEN) * 2))
    s.initializer(narrowed("w2", dtype, uniform(63, HIDDEN, CLASSES)))


def original() -> Case:
    s = Sketch()
    s.input("x", "FLOAT", ["batch", FEATURES])
    weights(s, "FLOAT")
    s.constant("axes", np.array([1], np.int64))
    s.node("MatMul", ["x", "w1"], "hidden")
    s.node("Mul", ["hidden", "hidden"], "squares")
    s.node("ReduceSum", ["squares", "axes"], "sum", keepdims=1)
    s.node("Div", ["hidden", s.node("Sqrt", ["sum"], "norm")], "normal")
    s.node("MatMul", ["normal", "w2"], "scores")
    s.output("scores", "FLOAT", ["batch", CLASSES])
    return finished(s, "rms_norm_FLOAT", "A normalised network in FLOAT.", ["MatMul", "ReduceSum"])


def converted(name: str, which: str, early: bool) -> Case:
    s = Sketch()
    s.input("x", "FLOAT", ["batch", FEATURES])
    weights(s, "FLOAT16")
    s.constant("axes", np.array([1], np.int64))
    s.node("MatMul", [s.cast("x", "FLOAT16", "x_half"), "w1"], "hidden")
    wide = s.cast("hidden", "FLOAT", "hidden_wide")
    s.node("Mul", [wide, wide], "squares")
    s.node("ReduceSum", ["squares", "axes"], "sum", keepdims=1)
    if early:
        s.node("Sqrt", [s.cast("sum", "FLOAT16", "sum_half")], "norm")
    else:
        s.cast(s.node("Sqrt", ["sum"], "norm_wide"), "FLOAT16", "norm")
    s.node("Div", ["hidden", "norm"], "normal")
    s.cast(s.node("MatMul", ["normal", "w2"], "scores_half"), "FLOAT", "scores")
    s.output("scores", "FLOAT", ["batch", CLASSES])
    return finished(s, name, f"A conversion to FLOAT16 {which}.", ["Cast", "FLOAT16"])


def finished(s: Sketch, name: str, covers: str, features: list[str]) -> Case:
    """ONNX Runtime's CPU computes FLOAT16 in FLOAT and drops the casts in between, so that nothing would overflow."""
    is_half = "FLOAT16" in features
    return whole_case(
        name,
        covers,
        s.model(name, 19),
        model_input(),
        tolerance={"rtol": 1e-2, "atol": 1e-2} if is_half else FLOAT_TOLERANCE,
        reference=is_half,
        features=features,
    )
