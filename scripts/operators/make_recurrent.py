"""Writes vectors of RNN, GRU and LSTM: `python -m operators.make_recurrent [FILE]`, by default
tests/data/recurrent.tsv, as `node_vectors.py` describes it.

A layer is computed here in DOUBLE by the standard's equations, one element after the other in time.
ONNX Runtime has to agree with each case of FLOAT, and onnx's evaluator with each that it computes: of
the usual functions, without `clip`, `input_forget` and lengths, and RNN's functions that it has.
Where the standard says nothing, ONNX Runtime is followed: `clip` is for the sums of gates, not for an
LSTM's cell; a sequence of no steps has no state; `activation_alpha` has a number for each function
that uses one.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np

from operators.node_vectors import Case, Input, drawn, given

VECTORS = Path(__file__).resolve().parent.parent.parent / "tests" / "data" / "recurrent.tsv"
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
ALPHA = {
    "Affine": None,
    "Elu": 1,
    "ScaledTanh": None,
    "ThresholdedRelu": 1,
    "HardSigmoid": 0.2,
    "LeakyRelu": 0.01,
}
BETA = {"Affine": 0, "HardSigmoid": 0.5, "ScaledTanh": None}
FUNCTIONS = {
    "Affine": lambda x, a, b: a * x + b,
    "Elu": lambda x, a, b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "Relu": lambda x, a, b: np.where(x < 0, 0, x),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x, a, b: np.logaddexp(0, x),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "ThresholdedRelu": lambda x, a, b: np.where(x < a, 0, x),
}
TIMES, BATCH, INPUTS, HIDDEN = 4, 2, 3, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=VECTORS)
    arguments = parser.parse_args()
    lines = []
    for case in cases():
        is_float = all(v is None or v.value.dtype != np.float64 for v in case.inputs)
        has_lengths = case.inputs[4:5] != [] and case.inputs[4] is not None
        if not case.refused:
            # ONNX Runtime does not have DOUBLE, the layout of the batch first, nor NaN in its functions.
            finite = all(v is None or np.isfinite(v.value).all() for v in case.inputs)
            # Its ThresholdedRelu has another default than the operator of that name.
            acts, numbers = case.attributes.get("activations", []), case.attributes.keys()
            is_other = "ThresholdedRelu" in acts and "activation_alpha" not in numbers
            if is_float and finite and "layout" not in case.attributes and not is_other:
                case.check_by_onnxruntime()
            odd = {"clip", "input_forget", "activations"} & case.attributes.keys()
            if not odd and not has_lengths and case.outputs[0] is not None:
                case.check_by_evaluator()
        lines.append(case.line())
    arguments.file.write_text("".join(lines))
    print(len(lines), "cases,", sum(map(len, lines)), "bytes")


def functions(op: str, attributes: dict[str, object], count: int) -> list:
    names = attributes.get("activations", USUAL[op] * count)
    alphas = iter(attributes.get("activation_alpha", []))
    betas = iter(attributes.get("activation_beta", []))

    def function(name: str):
        alpha = next(alphas, ALPHA[name]) if name in ALPHA else 0
        beta = next(betas, BETA[name]) if name in BETA else 0
        return lambda x: FUNCTIONS[name](
            x, np.float64(np.float32(alpha)), np.float64(np.float32(beta))
        )

    made = [function(name) for name in names]
    each = len(made) // count
    return [made[at * each : (at + 1) * each] for at in range(count)]


def one_way(op, attributes, acts, x, w, r, b, h, c, p):
    """One sequence of one direction: all states, and the last."""
    size = r.shape[1]
    clip = np.float64(np.float32(attributes.get("clip", np.inf)))
    bound = lambda v: np.clip(v, -clip, clip)  # noqa: E731
    of_x, of_h = np.split(b, 2)
    all_h = []
    for row in x:
        if op == "RNN":
            h = acts[0](bound(w @ row + r @ h + of_x + of_h))
        elif op == "LSTM":
            gi, go, gf, gc = np.split(w @ row + r @ h + of_x + of_h, 4)
            pi, po, pf = np.split(p, 3)
            i = acts[0](bound(gi + pi * c))
            f = 1 - i if attributes.get("input_forget") else acts[0](bound(gf + pf * c))
            c = f * c + i * acts[1](bound(gc))
            h = acts[0](bound(go + po * c)) * acts[2](c)
        else:
            xz, xr, xh = np.split(w @ row + of_x, 3)
            bz, br, bh = np.split(of_h, 3)
            rz, rr, rh = np.split(r, 3)
            z, reset = acts[0](bound(xz + rz @ h + bz)), acts[0](bound(xr + rr @ h + br))
            if attributes.get("linear_before_reset"):
                new = acts[1](bound(xh + reset * (rh @ h + bh)))
            else:
                new = acts[1](bound(xh + rh @ (reset * h) + bh))
            h = (1 - z) * new + z * h
        all_h.append(h)
    assert size == len(h)
    return np.array(all_h).reshape(-1, size), h, c


def layer(op: str, attributes: dict[str, object], inputs: list[Input | None]) -> list[np.ndarray]:
    values = [None if v is None else v.value for v in [*inputs, *[None] * (8 - len(inputs))]]
    ty = values[0].dtype
    x, w, r, b, lengths, h0, c0, p = [
        v if v is None or v.dtype == np.int32 else v.astype(np.float64) for v in values
    ]
    batch_first = attributes.get("layout", 0) == 1
    if batch_first:
        x = x.swapaxes(0, 1)
        h0, c0 = [None if v is None else v.swapaxes(0, 1) for v in (h0, c0)]
    times, batch, _ = x.shape
    count, _, size = r.shape
    b = np.zeros((count, 2 * GATES[op] * size)) if b is None else b
    p = np.zeros((count, 3 * size)) if p is None else p
    h0, c0 = [np.zeros((count, batch, size)) if v is None else v for v in (h0, c0)]
    lengths = [times] * batch if lengths is None else lengths
    y = np.zeros((times, count, batch, size))
    last_h, last_c = np.zeros((2, count, batch, size))
    acts = functions(op, attributes, count)
    for d, place in product(range(count), range(batch)):
        length = lengths[place]
        if length == 0:
            continue
        order = slice(None, None, -1 if d == 1 or attributes.get("direction") == "reverse" else 1)
        of_d = (w[d], r[d], b[d], h0[d, place], c0[d, place], p[d])
        states, h, c = one_way(op, attributes, acts[d], x[:length, place][order], *of_d)
        y[:length, d, place], last_h[d, place], last_c[d, place] = states[order], h, c
    if batch_first:
        y, last_h, last_c = y.transpose(2, 0, 1, 3), last_h.swapaxes(0, 1), last_c.swapaxes(0, 1)
    made = [y, last_h, last_c] if op == "LSTM" else [y, last_h]
    return [np.ascontiguousarray(v).astype(ty) for v in made]


def sketch(op: str, given_too: str, attributes: dict[str, object], **options) -> Case:
    """A case with the inputs of these letters beside x, W and R."""
    count = 2 if attributes.get("direction") == "bidirectional" else 1
    ty, opset = options.get("ty", "FLOAT"), options.get("opset", 22)
    times, batch = options.get("times", TIMES), options.get("batch", BATCH)
    size, inputs = options.get("hidden", HIDDEN), options.get("inputs", INPUTS)
    first = attributes.get("layout") == 1
    state = (batch, count, size) if first else (count, batch, size)
    width = GATES[op] * size
    tensors = [
        drawn((batch, times, inputs) if first else (times, batch, inputs), 1, 2.0, ty),
        drawn((count, width, inputs), 2, 1.0, ty),
        drawn((count, width, size), 3, 1.0, ty),
        drawn((count, 2 * width), 4, 0.5, ty) if "B" in given_too else None,
        given(np.array(options["lengths"], np.int32)) if "L" in given_too else None,
        drawn(state, 5, 1.0, ty) if "H" in given_too else None,
        drawn(state, 6, 1.0, ty) if "C" in given_too else None,
        drawn((count, 3 * size), 7, 1.0, ty) if "P" in given_too else None,
    ]
    while tensors[-1] is None:
        tensors.pop()
    attributes = {"hidden_size": size, **attributes}
    outputs = layer(op, attributes, tensors)
    kept = options.get("kept", (True, True, True))
    outputs = [value if keep else None for value, keep in zip(outputs, kept, strict=False)]
    while outputs[-1] is None:
        outputs.pop()
    return Case(op, opset, attributes, tensors, outputs)


def cases() -> list[Case]:
    made = []
    ways = [{}, {"direction": "reverse"}, {"direction": "bidirectional"}]
    for op, way in product(GATES, ways):
        states = "HCP" if op == "LSTM" else "H"
        made += [sketch(op, "", way), sketch(op, "B" + states, way), sketch(op, states[0], way)]
        made.append(sketch(op, "BL" + states, way, times=5, batch=3, hidden=2, lengths=[3, 0, 5]))
        made.append(sketch(op, "L", way, lengths=[4, 1], kept=(False, True, True)))
        made += [
            sketch(op, "B", {**way, "clip": 0.5}),
            sketch(op, "B" + states, {**way, "clip": 0.2}),
        ]
        made.append(sketch(op, "B" + states, {**way, "layout": 1}))
        made.append(sketch(op, "BL", {**way, "layout": 1}, lengths=[2, 4]))
        made.append(sketch(op, "B" + states, way, ty="DOUBLE"))
        made.append(sketch(op, "B", way, kept=(True, False)))
        made.append(sketch(op, "B", way, kept=(False, True)))
        made.append(sketch(op, "B", way, times=1))
        made.append(sketch(op, "B", way, times=3, batch=9, inputs=1, hidden=2))
        made += [sketch(op, "B", way, opset=opset, kept=(True, True)) for opset in (7, 14)]
        count = 2 if way.get("direction") == "bidirectional" else 1
        if way.get("direction") != "forward":
            made += [
                sketch(op, "B", {**way, "activations": acts * count, **numbers})
                for acts, numbers in activations(op, count)
            ]
        if op == "RNN" and count == 1:
            # The schema's default, which has a function for either direction.
            made.append(sketch(op, "B", {**way, "activations": ["Tanh", "Tanh"]}))
        if op == "GRU":
            linear = {**way, "linear_before_reset": 1}
            made += [sketch(op, letters, linear) for letters in ("", "B", "BH")]
            made.append(sketch(op, "BLH", linear, times=5, batch=3, hidden=2, lengths=[3, 0, 5]))
            made += [
                sketch(op, "B", {**linear, "clip": 0.2}),
                sketch(op, "BH", {**linear, "layout": 1}),
            ]
            made += [sketch(op, "BH", linear, ty="DOUBLE"), sketch(op, "B", linear, times=1)]
            made.append(sketch(op, "B", linear, times=5, inputs=1))
        if op == "LSTM":
            coupled = {**way, "input_forget": 1}
            made += [sketch(op, letters, coupled) for letters in ("", "B", "BHCP", "C", "P")]
            made.append(sketch(op, "BHC", way, kept=(False, False, True)))
    made += [large(op) for op in GATES] + [with_nan(op) for op in GATES] + refused()
    return made


def activations(op: str, count: int) -> list[tuple[list[str], dict[str, object]]]:
    """Each function in each place, with its own numbers and with the default ones."""
    made = []
    for name in FUNCTIONS:
        for at in range(len(USUAL[op])):
            acts = [name if at == other else usual for other, usual in enumerate(USUAL[op])]
            numbers = {}
            if at == 0 or name in ("Affine", "Elu", "ScaledTanh"):
                if name in ALPHA:
                    numbers["activation_alpha"] = [0.375 + 0.25 * d for d in range(count)]
                if name in BETA:
                    numbers["activation_beta"] = [0.25 + 0.5 * d for d in range(count)]
            has_numbers = "activation_alpha" in numbers or ALPHA.get(name, 0) is not None
            if has_numbers and (numbers or count == 1):
                made.append((acts, numbers))
    return made


def large(op: str) -> Case:
    """More than one panel of weights, and more rows than are multiplied at once; the last state alone, to be short."""
    attributes = {"direction": "bidirectional"}
    case = sketch(op, "B", attributes, times=3, batch=11, inputs=37, hidden=35, kept=(False, True))
    scaled = [drawn(v.value.shape, at, 0.25) for at, v in enumerate(case.inputs) if v is not None]
    case.inputs = scaled[:3] + scaled[3:]
    case.outputs = [None, layer(op, case.attributes, case.inputs)[1]]
    return case


def with_nan(op: str) -> Case:
    """NaN in one place of the batch, from one time on."""
    case = sketch(op, "B", {})
    case.inputs[0] = given(case.inputs[0].value.copy())
    case.inputs[0].value[2, 1, 0] = np.nan
    case.inputs[0] = given(case.inputs[0].value)
    case.outputs = layer(op, case.attributes, case.inputs)
    return case


def refused() -> list[Case]:
    def refuse(case: Case, reason: str, at: int | None = None, shape: tuple[int, ...] = ()) -> Case:
        case.refused = reason
        if at is not None:
            case.inputs[at] = drawn(shape, at)
        return case

    def attribute(op: str, name: str, value: object, reason: str) -> Case:
        case = sketch(op, "", {})
        case.attributes[name] = value
        return refuse(case, reason)

    made = [
        refuse(sketch("LSTM", "", {}), "has W of shape [1, 12, 2], not [1, 12, 3]", 1, (1, 12, 2)),
        refuse(sketch("GRU", "", {}), "has W of shape [1, 8, 3], not [1, 9, 3]", 1, (1, 8, 3)),
        refuse(sketch("RNN", "", {}), "has R of shape [1, 3, 2], not [1, 3, 3]", 2, (1, 3, 2)),
        refuse(sketch("LSTM", "B", {}), "has B of shape [1, 12], not [1, 24]", 3, (1, 12)),
        refuse(
            sketch("GRU", "H", {}), "has initial_h of shape [1, 3, 3], not [1, 2, 3]", 5, (1, 3, 3)
        ),
        refuse(sketch("LSTM", "P", {}), "has P of shape [1, 12], not [1, 9]", 7, (1, 12)),
        refuse(sketch("LSTM", "L", {}, lengths=[4, 5]), "has a sequence length of 5, of 4 steps"),
        attribute("LSTM", "hidden_size", 4, "has W of shape [1, 12, 3], not [1, 16, 3]"),
        attribute("LSTM", "hidden_size", 0, "has attribute `hidden_size` 0"),
        attribute("RNN", "direction", "backward", 'has attribute `direction` "backward"'),
        attribute("RNN", "direction", "bidirectional", "has W of shape [1, 3, 3], not [2, 3, 3]"),
        attribute("RNN", "activations", ["Gelu"], 'has no activation function "Gelu"'),
        attribute("LSTM", "activations", ["Tanh"], "has 1 `activations`, not 3"),
        attribute("GRU", "clip", -1.0, "has attribute `clip` -1"),
        attribute("GRU", "layout", 2, "has attribute `layout` 2, not 0 or 1"),
    ]
    made += [
        attribute("RNN", "activations", [name], f"has no `activation_alpha` for {name}")
        for name in ("Affine", "ScaledTanh")
    ]
    both = attribute(
        "GRU", "activations", ["Sigmoid", "LeakyRelu"], "has 2 `activation_alpha` for 1 function"
    )
    both.attributes["activation_alpha"] = [0.9, 0.1]
    return [*made, both]


if __name__ == "__main__":
    main()
