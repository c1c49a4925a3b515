"""Writes vectors of Attention: `python -m operators.make_attention [FILE]`, by default
tests/data/attention.tsv, as `node_vectors.py` describes it.

What is expected is onnx's evaluator's. Where ONNX Runtime has something else it is named: it puts the least number in the
place of minus infinity in the products it puts out, and is not followed with rows of DOUBLE of which all is hidden.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
from onnx.reference import ReferenceEvaluator

from operators.node_vectors import Case, Input, drawn, given

VECTORS = Path(__file__).resolve().parent.parent.parent / "tests" / "data" / "attention.tsv"
BATCH, QUERIES, KEYS, PAST, SIZE, VALUES = 2, 3, 4, 2, 4, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=VECTORS)
    arguments = parser.parse_args()
    lines, agreed, silent, others = [], 0, {}, []
    for case in cases():
        if case.refused:
            case.outputs = []
        else:
            case.outputs = [np.zeros(0, np.float32) if keep else None for keep in case.outputs]
            model = case.model()
            for output in model.graph.output:
                output.type.tensor_type.ClearField("shape")
            made = iter(ReferenceEvaluator(model).run(None, case.feeds()))
            case.outputs = [
                None if value is None else np.array(next(made)) for value in case.outputs
            ]
            try:
                case.check_by_onnxruntime()
                agreed += 1
            except AssertionError:
                others.append(case.line()[:120])
            except Exception as error:  # What ONNX Runtime does not have it refuses.
                silent[str(error)[:150]] = silent.get(str(error)[:150], 0) + 1
        lines.append(case.line())
    arguments.file.write_text("".join(lines))
    print(len(lines), "cases,", sum(map(len, lines)), "bytes,", agreed, "by ONNX Runtime too")
    for line in others:
        print("ONNX Runtime has something else:", line)
    for error, count in silent.items():
        print(count, error)


def sketch(attributes: dict[str, object], parts: str = "", **options) -> Case:
    """A case with a mask (`M`), a past (`P`) or lengths (`L`) beside Q, K and V."""
    opset, ty = options.get("opset", 24), options.get("ty", "FLOAT")
    heads, groups = options.get("heads", (2, 2))
    queries, keys = options.get("queries", QUERIES), options.get("keys", KEYS)
    past = (BATCH, groups, PAST)
    if options.get("flat"):
        shapes = [(queries, heads * SIZE), (keys, groups * SIZE), (keys, groups * VALUES)]
        attributes = {"q_num_heads": heads, "kv_num_heads": groups, **attributes}
    else:
        shapes = [(heads, queries, SIZE), (groups, keys, SIZE), (groups, keys, VALUES)]
    inputs: list[Input | None] = [drawn((BATCH, *s), at, 2.0, ty) for at, s in enumerate(shapes, 1)]
    inputs.append(options["mask"] if "M" in parts else None)
    inputs.append(drawn((*past, SIZE), 5, 2.0, ty) if "P" in parts else None)
    inputs.append(drawn((*past, VALUES), 6, 2.0, ty) if "P" in parts else None)
    inputs.append(given(np.array(options["lengths"], np.int64)) if "L" in parts else None)
    while inputs[-1] is None:
        inputs.pop()
    kept = options.get("kept", (True, True, True) if "P" in parts else (True,))
    return Case("Attention", opset, attributes, inputs, [True if keep else None for keep in kept])


def truths(shape: tuple[int, ...], hidden_row: bool = False) -> Input:
    mask = (np.arange(int(np.prod(shape))) * 7 % 5 > 1).reshape(shape)
    if hidden_row:
        mask[..., 0, :] = False
    return given(mask)


def numbers(shape: tuple[int, ...], ty: type = np.float32, hidden: bool = True) -> Input:
    mask = drawn(shape, 4, 1.0).value.astype(ty)
    if hidden:
        mask[..., 0, :] = -np.inf
    return given(mask)


def cases() -> list[Case]:
    made = []
    whole = (BATCH, 2, QUERIES, KEYS)
    for opset, flat, causal in product((23, 24), (False, True), (0, 1)):
        way = {"is_causal": causal} if causal else {}
        options = {"opset": opset, "flat": flat}
        made += [sketch(way, **options), sketch(way, "P", **options)]
        made.append(sketch(way, **options, heads=(4, 2)))
        made.append(sketch(way, "P", **options, heads=(4, 1)))
        made.append(sketch({**way, "softcap": 1.5}, "P", **options))
        made.append(sketch({**way, "scale": 0.25}, **options))
        made.append(sketch(way, "M", **options, mask=truths((QUERIES, KEYS), True)))
        made.append(sketch(way, "M", **options, mask=numbers((QUERIES, KEYS))))
        made.append(sketch(way, "MP", **options, mask=truths((1, 2, QUERIES, KEYS + PAST), True)))
        made.append(sketch(way, **options, queries=5, keys=2))
    for mask in (
        truths(whole),
        truths((2, 1, 1, KEYS)),
        truths((2, QUERIES, KEYS)),
        truths((KEYS,)),
    ):
        made.append(sketch({}, "M", mask=mask))
    for mask in (
        numbers(whole),
        numbers((1, 2, QUERIES, KEYS), hidden=False),
        truths((QUERIES, KEYS - 1)),
    ):
        made.append(sketch({}, "M", mask=mask))
    made.append(sketch({}, "M", mask=numbers((QUERIES, KEYS - 2), hidden=False)))
    for mode in (1, 2, 3):
        attributes = {"qk_matmul_output_mode": mode, "softcap": 2.0}
        kept = (True, None, None, True)
        made.append(sketch(attributes, "M", mask=truths((QUERIES, KEYS), True), kept=kept))
        made.append(sketch({**attributes, "is_causal": 1}, kept=kept, flat=True))
    made.append(sketch({}, kept=(True, None, None, True)))
    for way in ({}, {"is_causal": 1}):
        made.append(sketch(way, "L", lengths=[4, 3]))
        made.append(sketch(way, "L", lengths=[1, 0]))
        made.append(sketch(way, "ML", lengths=[3, 4], mask=truths((QUERIES, KEYS))))
    for left, right, causal in ((1, -1, 0), (-1, 1, 0), (1, 0, 0), (2, 1, 1), (0, 0, 1)):
        window = {"left_window_size": left, "right_window_size": right, "is_causal": causal}
        made += [sketch(window, part, opset=25) for part in ("", "P")]
        made.append(sketch(window, "L", opset=25, lengths=[4, 2]))
        made.append(sketch(window, "M", opset=25, mask=truths((KEYS,))))
    made.append(sketch({"softmax_precision": 11}, "P"))
    made.append(sketch({"is_causal": 1}, "P", ty="DOUBLE"))
    made.append(sketch({}, "M", ty="DOUBLE", mask=numbers((QUERIES, KEYS), np.float64)))
    made.append(sketch({}, "M", queries=37, keys=35, heads=(1, 1), mask=truths((1, 35))))

    def refuse(case: Case, reason: str) -> None:
        case.refused = reason
        made.append(case)

    refuse(sketch({"q_num_heads": 2}), "has one of `q_num_heads` and `kv_num_heads`, not both")
    refuse(sketch({"softmax_precision": 7}), "has attribute `softmax_precision` 7")
    refuse(sketch({"softcap": -1.0}), "has attribute `softcap` -1")
    refuse(sketch({"left_window_size": -2}, opset=25), "has attribute `left_window_size` -2")
    refuse(sketch({"qk_matmul_output_mode": 4}), "has attribute `qk_matmul_output_mode` 4")
    refuse(sketch({}, heads=(3, 2)), "has 3 heads of queries for 2 of keys")
    refuse(sketch({}, "M", mask=truths((QUERIES, KEYS + 1))), "has a mask of shape [3, 5]")
    refuse(sketch({}, "PL", lengths=[4, 3]), "has both `past_key` and `nonpad_kv_seqlen`")
    return made


if __name__ == "__main__":
    main()
