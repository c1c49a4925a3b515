"""Writes vectors of operators that are computed as compositions of others, and of those that run
node by node only: `python -m operators.make_compositions [FILE]`, by default
tests/data/compositions.tsv, as `node_vectors.py` describes it.

What is expected is ONNX Runtime's of its own operators, and of onnx's that its evaluator lacks;
onnx's evaluator's of the others; or what a case says where neither has the operator.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import onnxruntime
from onnx.reference import ReferenceEvaluator

from operators.node_vectors import Case, Input, drawn, given

ROOT = Path(__file__).resolve().parents[2]
OWN = "com.microsoft."
LEARNED = "ai.onnx.ml."
FLOAT = np.float32
BFLOAT = ml_dtypes.bfloat16
# Of these onnx's evaluator has no more than the plainest cases.
RUNTIME = {"LpPool", "MaxRoiPool", "Reshape", "TopK", "Upsample"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = ROOT / "tests" / "data" / "compositions.tsv"
    parser.add_argument("file", nargs="?", type=Path, default=default)
    arguments = parser.parse_args()
    arguments.file.write_text("".join(case.line() for case in all_cases()))


def all_cases() -> Iterator[Case]:
    for case in (
        *normalised(),
        *products(),
        *attention(),
        *grouped(),
        *losses(),
        *moved(),
        *kernels(),
        *learned(),
        *machines(),
        *unfit(),
        *recurrent(),
        *experts(),
        *convolved(),
        *halves(),
        *bfloats(),
        *states(),
        *routed(),
        *pooled(),
        *scored(),
    ):
        judge(case)
        yield case


def judge(case: Case) -> None:
    """Gives a case the outputs that it should have, where it has none."""
    if case.refused or all(output is not None for output in case.outputs):
        return
    count = len(case.outputs)
    wanted = [output is None for output in case.outputs]
    case.outputs = [np.zeros(0, FLOAT) if want else None for want in wanted]
    model = case.model()
    for value in model.graph.output:
        value.ClearField("type")
    if case.operator.startswith((OWN, LEARNED)) or case.operator in RUNTIME:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        # A state is quantised for as many places of a batch as a thread has.
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        made = iter(session.run(None, case.feeds()))
    else:
        made = iter(ReferenceEvaluator(model).run(None, case.feeds()))
    case.outputs = [next(made) if want else None for want in wanted]
    assert len(case.outputs) == count


def case(
    operator: str,
    attributes: dict[str, object],
    inputs: list[Input | None],
    outputs: int | list[object] = 1,
    opset: int = 21,
) -> Case:
    """`outputs` is how many are wanted, or `None` for each one that is and `False` for others."""
    wanted = [None] * outputs if isinstance(outputs, int) else outputs
    return Case(operator, opset, attributes, inputs, list(wanted))


def integers(*values: int, ty: type = np.int32) -> Input:
    return given(np.array(values, ty))


def grid(values: object, ty: type = np.int32) -> Input:
    return given(np.array(values, ty))


def normalised() -> Iterator[Case]:
    x, skip = drawn((2, 3, 8), 1), drawn((2, 3, 8), 2)
    gamma, beta, bias = (drawn((8,), seed) for seed in (3, 4, 5))
    for name, last in (
        ("SkipLayerNormalization", [beta]),
        ("SkipSimplifiedLayerNormalization", []),
    ):
        for more in ([], [bias]):
            yield case(OWN + name, {"epsilon": 1e-5}, [x, skip, gamma, *last, *more])
    yield case(OWN + "SkipLayerNormalization", {}, [x, drawn((1, 3, 8), 6), gamma, None, bias])
    summed = [None, False, False, None]
    yield case(OWN + "SkipLayerNormalization", {}, [x, skip, gamma, beta, bias], summed)
    yield case(OWN + "SkipSimplifiedLayerNormalization", {}, [x, skip, gamma, bias], summed)
    half = [drawn(i.value.shape, s, 1.0, "FLOAT16") for s, i in enumerate((x, skip, gamma, beta))]
    yield case(OWN + "SkipLayerNormalization", {}, half)
    ids, segments = grid([[1, 4, 2], [0, 3, 3]]), grid([[0, 1, 1], [1, 0, 0]])
    words, places, kinds = drawn((5, 8), 7), drawn((6, 8), 8), drawn((2, 8), 9)
    mask = grid([[1, 1, 0], [1, 0, 0]])
    embedded = [ids, segments, words, places, kinds, gamma, beta]
    name = OWN + "EmbedLayerNormalization"
    yield case(name, {"mask_index_type": 1}, [*embedded, mask], 2)
    yield case(name, {}, [*embedded, mask], 2)
    yield case(name, {"epsilon": 1e-3}, [ids, None, words, places, None, gamma, beta], 2)
    yield case(name, {"mask_index_type": 0}, [*embedded, mask], 2)
    at = grid([[2, 0, 5], [1, 1, 4]])
    yield case(name, {}, [*embedded, None, at], [None, False, None])
    image, scale, shift = drawn((2, 3, 4, 6), 10), drawn((6,), 11), drawn((6,), 12)
    for activation in (0, 1):
        attributes = {"groups": 3, "activation": activation, "epsilon": 1e-5}
        expected = group_norm(image.value, scale.value, shift.value, 3, activation)
        yield Case(OWN + "GroupNorm", 21, attributes, [image, scale, shift], [expected])
        more = drawn((2, 6), 13)
        total = image.value + more.value[:, None, None, :] + shift.value
        expected = group_norm(total, scale.value, shift.value, 3, activation)
        inputs = [image, scale, shift, more, shift]
        yield Case(OWN + "SkipGroupNorm", 21, attributes, inputs, [expected, total])
    erf = np.vectorize(__import__("math").erf)
    a, b = drawn((2, 3, 8), 14, 3.0), drawn((8,), 15)
    left, right = np.split((a.value + b.value).astype(np.float64), 2, axis=-1)
    expected = (left * 0.5 * right * (1 + erf(right / np.sqrt(2)))).astype(FLOAT)
    yield Case(OWN + "BiasSplitGelu", 21, {}, [a, b], [expected])


def group_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray, groups: int, swish: int):
    """Of channels that come last."""
    wide = x.astype(np.float64).reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    mean, variance = (f(wide, axis=(1, 3), keepdims=True) for f in (np.mean, np.var))
    y = ((wide - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape) * scale + shift
    return (y / (1 + np.exp(-y)) if swish else y).astype(FLOAT)


def products() -> Iterator[Case]:
    codes, weights = drawn((2, 3, 4), 1, 100.0, "INT8"), drawn((4, 5), 2, 120.0, "INT8")
    codes = given((codes.value.astype(np.int32) + 110).astype(np.uint8))
    unit, units = grid(0.02, FLOAT), drawn((5,), 3, 0.1)
    zero, zeros = grid(120, np.uint8), given(np.array([1, -2, 3, 0, 5], np.int8))
    bias = drawn((5,), 4)
    name = OWN + "MatMulIntegerToFloat"
    yield case(name, {}, [codes, weights, unit, units, zero, zeros, bias])
    yield case(name, {}, [codes, weights, unit, grid(0.05, FLOAT)])
    name = OWN + "DynamicQuantizeMatMul"
    x = drawn((2, 3, 4), 5, 2.0)
    yield case(name, {}, [x, weights, units, zeros, bias])
    yield case(name, {}, [x, weights, grid(0.05, FLOAT)])
    yield case(OWN + "TransposeMatMul", {"transB": 1, "alpha": 0.5}, [x, drawn((6, 4), 6)])
    name, row = OWN + "FusedMatMul", drawn((4,), 9)
    yield case(name, {"transA": 1, "transB": 1, "alpha": 0.5}, [row, drawn((6, 4), 6)])
    yield case(name, {"transB": 1}, [row, drawn((2, 6, 4), 6)])
    yield case(name, {"transA": 1, "transB": 1}, [row, row])
    yield case(name, {"transB": 1}, [x, row])
    refused = "transposes a matrix or batches beside a vector, the model imports 21"
    yield Case(name, 21, {"transA": 1}, [drawn((4, 4), 6), row], refused=refused)
    yield Case(name, 21, {"transBatchB": 1}, [row, x], refused=refused)
    yield case(OWN + "ExpandDims", {}, [x, grid(1, np.int32)])
    for metric in ("euclidean", "sqeuclidean"):
        yield case(OWN + "CDist", {"metric": metric}, [drawn((3, 4), 7), drawn((5, 4), 8)])


def learned() -> Iterator[Case]:
    x, name = drawn((2, 3), 1, 3.0), LEARNED + "Scaler"
    yield case(name, {"offset": [1.5, -2.0, 0.25], "scale": [0.5, 3.0, 1.0]}, [x])
    yield case(name, {"offset": [1.5], "scale": [0.1]}, [x])
    yield case(
        name, {"offset": [1.0, 2.0, 3.0], "scale": [0.5] * 3}, [grid([[1, 2, 3], [4, -5, 6]])]
    )
    rows = grid([[1.5, -3.0, 2.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -4.0]], FLOAT)
    for norm in ("MAX", "L1", "L2"):
        yield case(LEARNED + "Normalizer", {"norm": norm}, [rows])
    yield case(LEARNED + "Normalizer", {}, [grid([[3, -6, 2], [-1, -2, -4]], np.int64)])
    for places in ([2, 0], [[1, 1, 0]]):
        for values in (rows, integers(4, 5, 6, ty=np.int64)):
            inputs = [values, grid(places, np.int64)]
            yield case(LEARNED + "ArrayFeatureExtractor", {}, inputs)
    line = {"coefficients": [0.5, -0.25, 1.0], "intercepts": [0.125], "classlabels_ints": [4, 9]}
    for several in (0, 1):
        more = {"multi_class": several, "post_transform": "LOGISTIC"}
        yield case(LEARNED + "LinearClassifier", line | more, [x], 2)
    refused = "has 3 coefficients for 1 scores of 2 features"
    line = {"coefficients": [0.5, -0.25, 1.0]}
    yield Case(LEARNED + "LinearRegressor", 21, line, [drawn((2, 2), 1)], refused=refused)
    numbers = grid([[math.nan], [0.5], [1.0], [-1.0]], FLOAT)
    for mode in ("LEQ", "LT", "GTE", "GT", "EQ"):
        for is_true in (0, 1):
            more = {"nodes_missing_value_tracks_true": [is_true, 0, 0]}
            attributes = tree(f"BRANCH_{mode}") | more
            yield case(LEARNED + "TreeEnsembleClassifier", attributes, [numbers], 2)
    yield case(LEARNED + "TreeEnsembleClassifier", tree("BRANCH_GTE"), [numbers], 2)
    for more in ({}, {"threshold": 0.5}, {"threshold": -1.5}):
        yield case(LEARNED + "Binarizer", more, [x])
    missing = grid([[math.nan, 2.0, 1.0], [3.0, math.nan, 1.0]], FLOAT)
    for replaced in (math.nan, 1.0):
        for values in ([0.5], [0.5, -1.0, 4.0]):
            attributes = {"imputed_value_floats": values, "replaced_value_float": replaced}
            yield case(LEARNED + "Imputer", attributes, [missing])
    attributes = {"imputed_value_int64s": [7, 8, 9], "replaced_value_int64": 1}
    yield case(LEARNED + "Imputer", attributes, [grid([[1, 2, 1], [3, 1, -1]], np.int64)])
    for zeros in (0, 1):
        attributes = {"cats_int64s": [4, 1, 7], "zeros": zeros}
        yield case(LEARNED + "OneHotEncoder", attributes, [grid([[7, 4], [1, 4]], np.int64)])
    attributes = {"cats_int64s": [4, 1, 7]}
    yield case(LEARNED + "OneHotEncoder", attributes, [grid([7, 5, 4], FLOAT)])
    rows = grid([[math.nan, 1.0], [0.25, -1.0], [1.0, 0.5], [-1.0, 3.0]], FLOAT)
    for together in ("SUM", "AVERAGE"):
        for more in (
            {"n_targets": 1},
            {"n_targets": 2},
            {"n_targets": 2, "base_values": [0.5, -1.0]},
        ):
            attributes = trees(more["n_targets"]) | more | {"aggregate_function": together}
            yield case(LEARNED + "TreeEnsembleRegressor", attributes, [rows])


def machines() -> Iterator[Case]:
    """Support vectors of each kernel, of two classes and of three, with probabilities or without."""
    rows = drawn((4, 2), 1, 2.0)
    weights = [0.5, -0.25, 1.0, -0.75, 0.25, -1.0, 0.125, 0.875, -0.5, 0.75]
    vectors = {"support_vectors": [float(x) for x in drawn((5, 2), 3).value.ravel()]}
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        kind = {"kernel_type": kernel, "kernel_params": [0.5, 0.25, 2.0]}
        machine = vectors | kind
        for one in (0, 1):
            more = {"coefficients": weights[:5], "n_supports": 5, "rho": [0.125], "one_class": one}
            yield case(LEARNED + "SVMRegressor", machine | more, [rows])
        for sizes in ([2, 3], [2, 1, 2]):
            classes = len(sizes)
            pairs = classes * (classes - 1) // 2
            more = {
                "classlabels_ints": [7, 3, 5][:classes],
                "coefficients": weights[: 5 * (classes - 1)],
                "rho": [0.125, -0.5, 0.25][:pairs],
                "vectors_per_class": sizes,
            }
            sure = {"prob_a": [-2.0, -1.5, -0.5][:pairs], "prob_b": [0.25, -0.125, 0.5][:pairs]}
            for shown in ({}, {"post_transform": "LOGISTIC"}, sure):
                yield case(LEARNED + "SVMClassifier", machine | more | shown, [rows], 2)
    linear = {"coefficients": [0.5, -0.25], "n_supports": 0, "rho": [0.125]}
    kind = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    yield case(LEARNED + "SVMRegressor", linear | kind, [rows])


def unfit() -> Iterator[Case]:
    """What ONNX Runtime refuses for its lengths, and would be stretched otherwise."""
    rows = drawn((2, 3), 1)
    scaled = {"offset": [1.0, 2.0, 3.0], "scale": [0.5]}
    name = LEARNED + "Scaler"
    refused = "has lists `offset` and `scale` of two lengths, the model imports 21"
    yield Case(name, 21, scaled, [rows], refused=refused)
    refused = "has an `offset` of other than one number or one for each feature"
    yield Case(name, 21, {"offset": [1.0, 2.0, 3.0]}, [drawn((2, 1), 1)], refused=refused)
    refused = "has a `scale` of other than one number or one for each feature"
    yield Case(name, 21, {"scale": [1.0, 2.0]}, [rows], refused=refused)
    refused = "has other than one length for each sequence of its batch, the model imports 21"
    for batch, count in ((0, 1), (1, 2)):
        axes = {"batch_axis": batch, "time_axis": 1 - batch}
        lengths = integers(*[1] * count, ty=np.int64)
        yield Case("ReverseSequence", 21, axes, [rows, lengths], refused=refused)
    for theta, batch in ((1, 2), (2, 1), (2, 4)):
        inputs = [drawn((theta, 2, 3), 1), integers(batch, 1, 2, 2, ty=np.int64)]
        yield Case("AffineGrid", 21, {}, inputs, refused="AffineGrid")


def trees(targets: int) -> dict[str, object]:
    """Two, of one and of two questions."""
    return {
        "nodes_treeids": [0, 0, 0, 1, 1, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2, 3, 4],
        "nodes_featureids": [0, 0, 0, 1, 0, 0, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0, 0.75, 0.25, 0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LT", "BRANCH_GT"] + ["LEAF"] * 3,
        "nodes_truenodeids": [1, 0, 0, 1, 2, 0, 0, 0],
        "nodes_falsenodeids": [2, 0, 0, 4, 3, 0, 0, 0],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0],
        "target_treeids": [0] * 2 * targets + [1] * 3 * targets,
        "target_nodeids": [node for node in (1, 2, 2, 3, 4) for _ in range(targets)],
        "target_ids": list(range(targets)) * 5,
        "target_weights": [0.25, -3.0, 10.0, 0.5, -0.125, 1.5, 2.0, -4.0, 0.0, 7.0][: 5 * targets],
    }


def tree(mode: str) -> dict[str, object]:
    """Of one question about 0.5, and three classes."""
    return {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": [mode, "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0] * 6,
        "class_nodeids": [1, 1, 1, 2, 2, 2],
        "class_ids": [0, 1, 2, 0, 1, 2],
        "class_weights": [0.25, 0.125, 0.5, 0.75, -0.25, 0.375],
        "classlabels_int64s": [3, 5, 7],
    }


def attention() -> Iterator[Case]:
    x, w, b = drawn((2, 3, 6), 1), drawn((6, 24), 2), drawn((24,), 3)
    name, heads = OWN + "Attention", {"num_heads": 2}
    yield case(name, heads, [x, w, b])
    yield case(name, heads | {"unidirectional": 1, "scale": 0.3}, [x, w, b])
    masks = [
        integers(3, 2),
        integers(3, 2, 0, 1),
        integers(3, 2, 0, 3, 6, 0, 3, 6),
        grid([[1, 1, 0], [1, 1, 1]]),
        grid([[[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[1, 1, 1]] * 3]),
    ]
    for mask in masks:
        yield case(name, heads, [x, w, b, mask])
    yield case(name, heads | {"mask_filter_value": -5.0}, [x, w, b, masks[3]])
    past = drawn((2, 2, 2, 4, 4), 4)
    yield case(name, heads | {"unidirectional": 1}, [x, w, b, None, past], 2)
    seen = grid([[1] * 5 + [0] * 2, [1] * 7])
    yield case(name, heads, [x, w, b, seen, past], 2)
    yield case(name, heads, [x, w, b, masks[3], None, drawn((1, 2, 3, 3), 5)])
    sizes = heads | {"qkv_hidden_sizes": [8, 8, 4]}
    yield case(name, sizes, [x, drawn((6, 20), 6), drawn((20,), 7)])
    name = OWN + "QAttention"
    codes = given((drawn((2, 3, 6), 8, 120.0, "INT32").value + 120).astype(np.uint8))
    weights = drawn((6, 24), 9, 120.0, "INT8")
    inputs = [codes, weights, b, grid(0.02, FLOAT), grid(0.01, FLOAT)]
    zeros = [grid(128, np.uint8), grid(2, np.int8)]
    yield case(name, heads, [*inputs, None, *zeros])
    yield case(name, heads | {"unidirectional": 1}, [*inputs, masks[0], *zeros, past], 2)
    yield from many_headed()


def many_headed() -> Iterator[Case]:
    name, heads = OWN + "MultiHeadAttention", {"num_heads": 2}
    q, k, v = (drawn((2, 3 if seed == 1 else 5, 8), seed) for seed in (1, 2, 3))
    bias, value = drawn((24,), 4), drawn((2, 5, 6), 5)
    yield case(name, heads, [q, k, v])
    yield case(name, heads, [q, k, v, bias])
    yield case(name, heads, [q, k, value, drawn((22,), 6)])
    for mask in (
        integers(5, 2),
        integers(5, 2, 0, 3, 6, 0, 5, 10),
        grid([[1, 1, 0, 1, 0], [1] * 5]),
        grid([[[1, 0, 1, 1, 0]] * 3] * 2),
    ):
        yield case(name, heads, [q, k, v, bias, mask])
    added = drawn((1, 2, 3, 5), 7)
    yield case(name, heads, [q, k, v, None, grid([[1, 1, 0, 1, 0], [1] * 5]), added])
    yield case(
        name,
        heads | {"scale": 0.4, "unidirectional": 1},
        [q, drawn((2, 3, 8), 8), drawn((2, 3, 8), 9)],
    )
    past = [drawn((2, 2, 4, 4), 10), drawn((2, 2, 4, 4), 11)]
    new = [q, drawn((2, 3, 8), 12), drawn((2, 3, 8), 13)]
    yield case(name, heads, [*new, bias, None, None, *past], 3)
    yield case(name, heads, [*new, None, grid([[1] * 7, [0] * 2 + [1] * 5]), None, *past], 3)
    cached = [drawn((2, 2, 5, 4), 14), drawn((2, 2, 5, 4), 15)]
    yield case(name, heads, [q, *cached, bias])
    for shape in ((2, 5, 2, 2, 4), (2, 3, 2, 3, 4)):
        packed = drawn(shape, 16)
        rows = [given(part.reshape(2, shape[1], 8)) for part in np.moveaxis(packed.value, 3, 0)]
        apart = case(name, heads, rows if shape[3] == 3 else [q, *rows])
        judge(apart)
        inputs = [packed] if shape[3] == 3 else [q, packed]
        yield Case(name, 21, heads, inputs, apart.outputs)


def grouped() -> Iterator[Case]:
    name = OWN + "GroupQueryAttention"
    heads = {"num_heads": 4, "kv_num_heads": 2}
    q, k, v = drawn((2, 3, 64), 1), drawn((2, 3, 32), 2), drawn((2, 3, 32), 3)
    past = [drawn((2, 2, 5, 16), 4), drawn((2, 2, 5, 16), 5)]
    empty = [drawn((2, 2, 0, 16), 4), drawn((2, 2, 0, 16), 5)]
    tables = [drawn((12, 8), 6), drawn((12, 8), 7)]
    first = [integers(2, 2), grid(3)]
    yield case(name, heads, [q, k, v, *empty, *first], 3)
    yield case(name, heads, [q, k, v, None, None, *first], 3)
    packed = drawn((2, 3, 128), 8)
    yield case(name, heads, [packed, None, None, *empty, *first], 3)
    turned = heads | {"do_rotary": 1}
    for more in ({}, {"rotary_interleaved": 1}, {"local_window_size": 2}, {"softcap": 0.7}):
        yield case(name, turned | more, [q, k, v, *empty, *first, *tables], 3)
    step = [drawn((2, 1, 64), 9), drawn((2, 1, 32), 10), drawn((2, 1, 32), 11)]
    kinds = {"scale": 0.2, "local_window_size": 3, "rotary_interleaved": 1, "smooth_softmax": 1}
    for more in ({}, *({kind: value} for kind, value in kinds.items())):
        yield case(name, turned | more, [*step, *past, integers(5, 5), grid(6), *tables], 3)
    yield case(
        name,
        turned,
        [drawn((2, 1, 128), 12), None, None, *past, integers(5, 5), grid(6), *tables],
        3,
    )
    # Of a prompt the first number alone counts.
    for at in ([[0, 0, 0], [0, 0, 0]], [[2, 0, 5], [1, 7, 3]]):
        inputs = [*first, *tables, grid(at, np.int64)]
        yield case(name, turned, [q, k, v, *empty, *inputs], 3)
        yield case(name, turned, [q, k, v, None, None, *inputs], 3)
    inputs = [*step, *past, integers(5, 5), grid(6), *tables, grid([[3], [7]], np.int64)]
    yield case(name, turned, inputs, 3)
    sinks = [None, None, drawn((4,), 15)]
    yield case(name, heads, [q, k, v, *empty, *first, None, None, *sinks], 3)
    yield case(name, heads | {"smooth_softmax": 1}, [q, k, v, *empty, *first], 3)
    added = [None, None, None, drawn((1, 4, 3, 3), 16)]
    yield case(name, heads, [q, k, v, *empty, *first, *added], 3)
    one = [drawn((1, 3, 64), 17), drawn((1, 3, 32), 18), drawn((1, 3, 32), 19)]
    before = [drawn((1, 2, 5, 16), 20), drawn((1, 2, 5, 16), 21)]
    yield case(name, turned, [*one, *before, integers(7), grid(8), *tables], 3)
    yield case(
        name, heads | {"softcap": 0.5}, [*one, *before, integers(7), grid(8), None, None, *sinks], 3
    )
    # Caches with room for more: what is behind the keys and the values is 0, whatever was there.
    roomy = [drawn((2, 2, 7, 16), 22), drawn((2, 2, 7, 16), 23)]
    yield case(name, turned, [q, k, v, *roomy, *first, *tables], 3)
    yield case(name, heads, [*step, *roomy, integers(4, 1), grid(5)], 3)


def losses() -> Iterator[Case]:
    x, weights = drawn((3, 5, 2, 2), 1), drawn((5,), 2)
    target = grid(np.arange(12).reshape(3, 2, 2) % 5, np.int64)
    for reduction in ("mean", "sum", "none"):
        for attributes in ({}, {"ignore_index": 2}):
            both = {"reduction": reduction} | attributes
            for inputs in ([x, target], [x, target, weights]):
                yield case("NegativeLogLikelihoodLoss", both, inputs)
                yield case("SoftmaxCrossEntropyLoss", both, inputs, 2)
    flat = [drawn((3, 5), 3), integers(1, -1, 4)]
    yield case("SoftmaxCrossEntropyLoss", {"ignore_index": -1}, flat)


def moved() -> Iterator[Case]:
    x = drawn((3, 4, 5), 1)
    lengths = integers(2, 3, 1, 2, ty=np.int64)
    for batch, time, of in ((1, 0, lengths), (0, 1, integers(4, 1, 3, ty=np.int64))):
        yield case("ReverseSequence", {"batch_axis": batch, "time_axis": time}, [x, of])
    where = given(np.array([True, False, True]))
    yield case("Compress", {"axis": 0}, [x, where])
    yield case("Compress", {"axis": -1}, [x, where])
    yield case("Compress", {}, [x, where])
    yield case("CenterCropPad", {}, [x, integers(5, 2, 5, ty=np.int64)])
    yield case("CenterCropPad", {"axes": [-1, 0]}, [x, integers(2, 6, ty=np.int64)])
    image = drawn((2, 3, 7, 6), 2)
    for attributes in (
        {"kernel_shape": [3, 2]},
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "p": 3},
        {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "p": 1},
        {"kernel_shape": [2, 2], "dilations": [2, 3]},
        {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [2, 3], "strides": [3, 2], "dilations": [2, 1], "ceil_mode": 1, "p": 1},
        {"kernel_shape": [2, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1},
        {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [0, 0, 1, 1], "ceil_mode": 1},
    ):
        yield case("LpPool", attributes, [image])
    left, right = (integers(3, 250, 7, ty=np.uint8), grid([[1, 2], [130, 4], [5, 255]], np.uint8))
    zeros = [given(np.array(3, np.uint8)), given(np.array(5, np.uint8))]
    stack = given(np.arange(24).astype(np.uint8).reshape(4, 3, 2))
    for a, b in ((left, left), (left, right), (stack, integers(9, 7, ty=np.uint8)), (left, stack)):
        yield case("MatMulInteger", {}, [a, b])
        yield case("MatMulInteger", {}, [a, b, *zeros])
    one = [given(np.array(value, FLOAT)) for value in (0.5, 0.25, 1.7)]
    for a, b in ((left, left), (left, right), (stack, integers(9, 7, ty=np.uint8))):
        inputs = [a, one[0], zeros[0], b, one[1], zeros[1], one[2], zeros[0]]
        yield case("QLinearMatMul", {}, inputs)
    for shape in ((2, 3, 4, 5), (2, 3)):
        for slope in ((3,), (1,)):
            yield case("PRelu", {}, [drawn(shape, 1), drawn(slope, 2)], opset=6)
    statistics = [given(np.array([value], FLOAT)) for value in (0.5, -1.0, 0.25, 2.0)]
    yield case("BatchNormalization", {}, [drawn((5,), 1, 3.0), *statistics])
    for attributes in ({}, {"axes": [1, -1]}):
        yield case("MeanVarianceNormalization", attributes, [drawn((2, 3, 4, 5), 7)])
    for ty, code in ((FLOAT, 1), (np.float64, 11), (np.int32, 6)):
        for sizes in ((8, 16, 8192), (10, 64, 16000)):
            of = np.float64 if ty is np.float64 else FLOAT
            edges = [given(np.array(edge, of)) for edge in (20, 3900)]
            inputs = [*(given(np.array(size)) for size in sizes), *edges]
            yield case("MelWeightMatrix", {"output_datatype": code}, inputs)
    cache, more = drawn((2, 3, 6, 4), 3), drawn((2, 3, 2, 4), 4)
    for mode, at in (("linear", [1, 3]), ("circular", [5, 4])):
        inputs = [cache, more, integers(*at, ty=np.int64)]
        yield case("TensorScatter", {"mode": mode}, inputs, opset=24)
    yield case("TensorScatter", {"axis": 2}, [cache, more], opset=24)
    for size, theta in (
        ((2, 3, 4, 5), (2, 2, 3)),
        ((2, 1, 2, 4, 3), (2, 3, 4)),
        ((1, 1, 1, 2), (1, 2, 3)),
    ):
        for align in (0, 1):
            inputs = [drawn(theta, 5), integers(*size, ty=np.int64)]
            yield case("AffineGrid", {"align_corners": align}, inputs)
    yield case("Upsample", {"mode": "nearest"}, [image, grid([1, 1, 2, 1.5], FLOAT)], opset=9)
    yield case("Upsample", {"mode": "linear"}, [image, grid([1, 1, 2, 3], FLOAT)], opset=9)
    pooled = {"kernel_shape": [2, 2], "strides": [2, 2]}
    inputs = [grid([[[[1, 2], [3, 4]]]], FLOAT), grid([[[[5, 7], [13, 15]]]], np.int64)]
    yield case("MaxUnpool", pooled, inputs)
    yield case("MaxUnpool", pooled, [*inputs, integers(1, 1, 5, 5, ty=np.int64)])
    yield case("SwiGLU", {"alpha": 1.5}, [x, drawn((3, 4, 5), 6)], opset=28)
    rows, kernel, bias = drawn((2, 3, 5), 7), drawn((3, 1, 4), 8), drawn((3,), 9)
    state = drawn((2, 3, 3), 10)
    for activation in ("none", "silu"):
        for inputs in ([rows, kernel], [rows, kernel, bias, state]):
            yield case("CausalConvWithState", {"activation": activation}, inputs, 2, 27)


def kernels() -> Iterator[Case]:
    """What runs node by node only."""
    x = drawn((3, 4, 5), 1)
    for attributes in ({}, {"exclusive": 1}, {"reverse": 1}, {"reverse": 1, "exclusive": 1}):
        for axis in (0, -1):
            yield case("CumProd", attributes, [x, given(np.array(axis))], opset=26)
    yield case("CumProd", {}, [integers(3, -2, 5, 7, ty=np.int64), given(np.array(0))], opset=26)
    yield case("Det", {}, [drawn((2, 3, 4, 4), 2)])
    yield case("Det", {}, [grid([[0, 2, 1], [3, 0, 4], [1, 1, 0]], FLOAT)])
    rows = grid([[1, 0, 2], [3, 3, 1], [1, 0, 2], [0, 5, 1]], np.int64)
    for attributes in ({}, {"axis": 0}):
        yield case("Unique", attributes, [rows], 4)
    for axis in (None, 1):
        # The evaluator sorts all the same.
        made = np.unique(rows.value, True, True, True, axis=axis)
        order = np.argsort(made[1])
        inverse = np.argsort(order)[made[2].ravel()]
        expected = [made[0].take(order, axis or 0), made[1][order], inverse, made[3][order]]
        attributes = {"sorted": 0} | ({} if axis is None else {"axis": axis})
        yield Case("Unique", 21, attributes, [rows], expected)
    yield case("Unique", {}, [grid([2.5, -1, 2.5, 0, -1], FLOAT)], 4)
    image, regions = (
        drawn((2, 3, 8, 9), 3),
        grid([[0, 0, 6, 7], [1.5, 2, 7, 5], [3, 1, 3.2, 1.3]], FLOAT),
    )
    where = integers(0, 1, 1, ty=np.int64)
    for attributes in (
        {},
        {"mode": "max"},
        {"coordinate_transformation_mode": "output_half_pixel"},
    ):
        for ratio in (0, 2):
            size = {
                "output_height": 2,
                "output_width": 3,
                "sampling_ratio": ratio,
                "spatial_scale": 0.8,
            }
            yield case("RoiAlign", size | attributes, [image, regions, where])
    columns = drawn((1, 12, 6), 4)
    shape, block = integers(5, 6, ty=np.int64), integers(2, 2, ty=np.int64)
    yield case("Col2Im", {"strides": [2, 2], "pads": [0, 0, 0, 0]}, [columns, shape, block])
    spread = {"dilations": [2, 3], "pads": [1, 0, 0, 1]}
    yield case("Col2Im", spread, [drawn((2, 8, 16), 5), integers(5, 6, ty=np.int64), block])
    image, kernel = drawn((2, 4, 5, 6), 6), drawn((6, 2, 2, 2), 7)
    offsets, mask = drawn((2, 16, 4, 5), 8, 1.5), drawn((2, 8, 4, 5), 9)
    both = {"group": 2, "offset_group": 2}
    yield case("DeformConv", both, [image, kernel, offsets, drawn((6,), 10), mask])
    wide = {"strides": [2, 1], "pads": [1, 0, 1, 2], "dilations": [2, 2], "group": 2}
    yield case("DeformConv", wide, [image, kernel, drawn((2, 8, 3, 6), 11)])
    q, k, v = drawn((2, 3, 16), 12), drawn((2, 3, 8), 13), drawn((2, 3, 6), 14)
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    state, gate, beta = drawn((2, 2, 4, 3), 15), drawn((2, 3, 8), 16), drawn((2, 3, 2), 17)
    for rule in ("linear", "gated", "delta", "gated_delta"):
        for scale in (0.0, 0.3):
            more = {"update_rule": rule, "scale": scale}
            decay = gate if rule.startswith("gated") and scale else drawn((2, 3, 2), 18)
            decay = decay if rule.startswith("gated") else None
            inputs = [q, k, v, state if scale else None, decay]
            inputs += [beta] if rule.endswith("delta") else []
            yield case("LinearAttention", heads | more, inputs, 2, 27)
    words = integers(1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8, ty=np.int32)
    for mode, row in (("TF", words), ("TFIDF", given(words.value.reshape(2, 6))), ("IDF", words)):
        attributes = {
            "mode": mode,
            "min_gram_length": 1,
            "max_gram_length": 2,
            "max_skip_count": 2,
            "ngram_counts": [0, 4],
            "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
            "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        }
        weights = {} if mode == "TF" else {"weights": [0.5, 1.5, 2.0, 1.0, 0.25, 3.0, 1.0]}
        yield case("TfIdfVectorizer", attributes | weights, [row])
    ages = integers(5, 2, 9, 2, ty=np.int64)
    coded = {"keys_int64s": [2, 5], "values_floats": [0.5, 1.5], "default_float": -2.0}
    yield case("ai.onnx.ml.LabelEncoder", coded, [ages])
    yield case("ai.onnx.ml.LabelEncoder", coded, [integers(ty=np.int64)])


def recurrent() -> Iterator[Case]:
    """LSTM of quantised weights, in either direction, of either sign, by tensor and by column."""
    x, size = drawn((3, 2, 4), 1), {"hidden_size": 3}

    def weights(count: int, ty: type) -> list[Input]:
        low = 0 if ty == np.uint8 else -128
        codes = [np.arange(n) * 77 % 256 + low for n in (count * 48, count * 36)]
        w, r = (code.reshape(count, -1, 12).astype(ty) for code in codes)
        return [given(w), given(r)]

    def scaled(count: int, ty: type, columns: bool = False) -> list[Input]:
        shape = (count, 12) if columns else (count,)
        middle = 128 if ty == np.uint8 else 0
        units = (np.arange(np.prod(shape)) % 5 * 0.001 + 0.004).reshape(shape).astype(FLOAT)
        zeros = np.full(shape, middle, ty)
        return [given(units), given(zeros), given(units[..., ::-1].copy()), given(zeros)]

    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        for ty in (np.int8, np.uint8):
            attributes = size | {"direction": direction}
            state = [drawn((count, 2, 3), 2), drawn((count, 2, 3), 3)]
            inputs = [x, *weights(count, ty), drawn((count, 24), 4), None, *state, None]
            yield case(OWN + "DynamicQuantizeLSTM", attributes, inputs + scaled(count, ty), 3)
    columns = [x, *weights(1, np.int8), *[None] * 5, *scaled(1, np.int8, columns=True)]
    yield case(OWN + "DynamicQuantizeLSTM", size, columns, 3)
    late = x.value.copy()
    late[2] = 100
    inputs = [given(late), *weights(1, np.int8), None, integers(2, 1), *[None] * 3]
    yield case(OWN + "DynamicQuantizeLSTM", size, [*inputs, *scaled(1, np.int8)], 3)
    asked = size | {"clip": 0.5, "input_forget": 1, "activations": ["Sigmoid", "Tanh", "Relu"]}
    inputs = [x, *weights(1, np.int8), drawn((1, 24), 4), integers(3, 1), None, None]
    peepholes = drawn((1, 9), 5)
    yield case(OWN + "DynamicQuantizeLSTM", asked, [*inputs, peepholes, *scaled(1, np.int8)], 3)


def experts() -> Iterator[Case]:
    """Mixtures of experts: each function, one and two of four, packed weights."""
    tokens, router = drawn((3, 8), 1), drawn((3, 4), 2, 2.0)
    first, last = drawn((4, 4, 8), 3), drawn((4, 8, 4), 4)
    biases = [drawn((4, 4), 5), drawn((4, 8), 6)]
    plain = [tokens, router, first, biases[0], last, biases[1]]
    for function in ("relu", "gelu", "silu", "identity"):
        for k, normalized in ((1, 0), (2, 0), (2, 1)):
            attributes = {"activation_type": function, "k": k}
            attributes["normalize_routing_weights"] = normalized
            yield case(OWN + "MoE", attributes, plain)
    equal = grid([[1, 1, 1, 0], [0, 0, 0, 0], [-1, 2, 2, 2]], FLOAT)
    yield case(OWN + "MoE", {"k": 2}, [drawn((1, 3, 8), 7), equal, first, None, last])
    pairs = drawn((4, 8, 8), 8)
    for more in ({}, {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.75}):
        gated = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2} | more
        yield case(OWN + "MoE", gated, [tokens, router, pairs, drawn((4, 8), 9), last])
    unfused = {"activation_type": "swiglu"}
    refused = case(OWN + "MoE", unfused, plain)
    refused.outputs, refused.refused = [tokens.value], "`swiglu_fusion` that is not 1"
    yield refused

    def codes(shape: tuple[int, ...], seed: int) -> Input:
        places = np.arange(np.prod(shape)).reshape(shape)
        return given(((places * 91 + seed) % 256).astype(np.uint8))

    def units(shape: tuple[int, ...], seed: int) -> Input:
        return given(((drawn(shape, seed).value * 0.16 + 0.32) / 2**bits).astype(FLOAT))

    for bits in (4, 8):
        packed = 8 // bits
        weights = codes((4, 4, 8 // packed), 1), codes((4, 8, 4 // packed), 2)
        scales = units((4, 4), 3), units((4, 8), 4)
        inputs = [tokens, router, weights[0], scales[0], biases[0], weights[1], scales[1]]
        attributes = {"expert_weight_bits": bits, "k": 2, "activation_type": "silu"}
        yield case(OWN + "QMoE", attributes, [*inputs, biases[1]])
        zeros = codes((4, 4 // packed), 5), codes((4, 8 // packed), 6)
        yield case(OWN + "QMoE", attributes, [*inputs, *[None] * 4, *zeros])
        wide = drawn((2, 32), 1), drawn((2, 2), 2)
        weights = codes((2, 32, 32 // packed), 7), codes((2, 32, 16 // packed), 8)
        scales = units((2, 32, 2), 9), units((2, 32, 1), 10)
        gated = {"activation_type": "swiglu", "swiglu_fusion": 1, "block_size": 16}
        inputs = [*wide, weights[0], scales[0], None, weights[1], scales[1], *[None] * 4]
        zeros = codes((2, 32, 2 // packed), 11), codes((2, 32, 1), 12)
        for more in ([], [*zeros]):
            gated |= {"expert_weight_bits": bits}
            yield case(OWN + "QMoE", gated, inputs + more)


def convolved() -> Iterator[Case]:
    """Channels last. ONNX Runtime has it on other devices only: a Conv between Transposes."""
    x, w, bias = drawn((1, 4, 5, 4), 1), drawn((6, 3, 2, 2), 2), drawn((6,), 3)
    attributes = {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 1]}
    moved = [given(np.moveaxis(i.value, 3, 1).copy()) for i in (x, w)]
    judged = case("Conv", attributes, [*moved, bias])
    judge(judged)
    made = np.moveaxis(judged.outputs[0], 1, 3).copy()
    yield Case(OWN + "NhwcConv", 21, attributes, [x, w, bias], [made])


def halves() -> Iterator[Case]:
    """What is in range once it is scaled, added or activated."""
    half = np.float16
    codes = [grid([[255] * 8], np.uint8), grid([[127]] * 8, np.int8)]
    small = [grid([[1, 1]], np.uint8), grid([[1], [1]], np.int8)]
    name = OWN + "MatMulIntegerToFloat"
    for a, b, unit in (*((*codes, u) for u in (0.01, 0.0003)), (*small, 0.03)):
        scales = [grid(unit, half), grid(unit, half)]
        of = a.value.astype(np.float64) @ b.value * np.float64(scales[0].value) ** 2
        yield Case(name, 21, {}, [a, b, *scales], [of.astype(half)])
    for ty, factor in ((half, 0.001), (half, 0.3), (BFLOAT, 0.3)):
        a, b = grid([[400.0, 3.0]], ty), grid([[400.0], [1.0]], ty)
        of = (a.value.astype(FLOAT) @ b.value.astype(FLOAT) * FLOAT(factor)).astype(ty)
        yield Case(OWN + "FusedMatMul", 21, {"alpha": factor}, [a, b], [of])
        yield Case(OWN + "TransposeMatMul", 21, {"alpha": factor}, [a, b], [of])
    a, b = grid([[1.0]], BFLOAT), grid([[171.0]], BFLOAT)
    yield Case(OWN + "FusedMatMul", 21, {"alpha": 0.3}, [a, b], [np.array([[51.25]], BFLOAT)])
    a, b = grid([[[[200.0]]]], half), grid([[[[350.0]]]], half)
    for added, made in ((-60000.0, 10000.0), (-65504.0, 4496.0)):
        inputs = [a, b, None, grid([[[[added]]]], half)]
        of = np.array([[[[made]]]], half)
        yield Case(OWN + "FusedConv", 21, {"activation": "Relu"}, inputs, [of])
    leaky = {"activation": "LeakyRelu"}
    a, b = grid([[[[-200.0]]]], half), grid([[[[500.0]]]], half)
    of = np.array([[[[-10000.0]]]], half)
    yield Case(OWN + "FusedConv", 21, leaky | {"activation_params": [0.1]}, [a, b], [of])
    a, b = grid([[-200.0]], half), grid([[500.0]], half)
    attributes = leaky | {"activation_alpha": 0.1}
    yield Case(OWN + "FusedGemm", 21, attributes, [a, b], [of.reshape(1, 1)])
    a, b = (grid([[at] * 4], half) for at in (0.0001, 0.0002))
    apart = np.linalg.norm(a.value.astype(FLOAT) - b.value.astype(FLOAT))
    of = np.array([[apart]]).astype(half)
    yield Case(OWN + "CDist", 21, {"metric": "euclidean"}, [a, b], [of])
    small = grid([[1, 2, 3], [200, 200, 200], [-7, 100, 100], [5, 120, 120]], half)
    columns, shape = given(small.value.reshape(1, 4, 3)), integers(1, 6, ty=np.int64)
    block = integers(1, 4, ty=np.int64)
    for ty in (np.uint8, np.int8, np.int64):
        given_ = given(columns.value.astype(np.int64).astype(ty))
        yield case("Col2Im", {}, [given_, shape, block])


def bfloats() -> Iterator[Case]:
    """As in FLOAT, and rounded once."""

    def rounded(inputs: list[Input | None], ty: type) -> list[Input | None]:
        def one(x: Input | None) -> Input | None:
            is_float = x is not None and x.value.dtype in (FLOAT, BFLOAT)
            return given(x.value.astype(BFLOAT).astype(ty)) if is_float else x

        return [one(x) for x in inputs]

    heads = {"q_num_heads": 2, "kv_num_heads": 1, "update_rule": "linear"}
    tokens = [drawn((1, 2, 4), 8), drawn((1, 2, 2), 9), drawn((1, 2, 3), 10)]
    cells = {"output_height": 2, "output_width": 3, "sampling_ratio": 2}
    regions = grid([[0, 0, 6, 7], [1.5, 2, 7, 5]], FLOAT)
    aligned = [drawn((1, 2, 8, 9), 4), regions, integers(0, 0, ty=np.int64)]
    columns = [drawn((1, 4, 2), 3), integers(2, 3, ty=np.int64), integers(2, 2, ty=np.int64)]
    deformed = [drawn((1, 2, 4, 4), 5), drawn((3, 2, 2, 2), 6), drawn((1, 8, 3, 3), 7)]
    for name, opset, attributes, inputs, count in (
        ("Det", 22, {}, [drawn((2, 3, 3), 1)], 1),
        ("CumProd", 26, {}, [drawn((3, 4), 2, 2.0), given(np.array(0))], 1),
        ("Col2Im", 18, {}, columns, 1),
        ("RoiAlign", 22, cells, aligned, 1),
        ("DeformConv", 22, {}, deformed, 1),
        ("LinearAttention", 27, heads, tokens, 2),
        ("MeanVarianceNormalization", 13, {"axes": [1]}, [grid([[1, 2, 3, 9]], FLOAT)], 1),
    ):
        judged = case(name, attributes, rounded(inputs, FLOAT), count, opset)
        judge(judged)
        made = [y.astype(BFLOAT) for y in judged.outputs]
        yield Case(name, opset, attributes, rounded(inputs, BFLOAT), made)


if __name__ == "__main__":
    main()


def states() -> Iterator[Case]:
    """Layers of ONNX Runtime's that hand a state on."""
    q, k, v = (drawn((2, 3, width), seed) for width, seed in ((16, 1), (8, 2), (6, 3)))
    past, decay, beta = drawn((2, 2, 4, 3), 4), drawn((2, 3, 2), 5), drawn((2, 3, 2), 6)
    name = OWN + "LinearAttention"
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    yield case(name, heads | {"update_rule": "linear"}, [q, k, v], 2)
    yield case(name, heads | {"scale": 0.3}, [q, k, v, past, decay, beta], 2)
    inverse = {"q_num_heads": 1, "kv_num_heads": 2, "update_rule": "gated"}
    yield case(name, inverse, [drawn((2, 3, 4), 7), k, v, None, decay], 2)
    name = OWN + "CausalConvWithState"
    x, weight, bias = drawn((2, 6, 5), 8), drawn((6, 1, 3), 9), drawn((6,), 10)
    yield case(name, {}, [x, weight], 2)
    yield case(name, {"activation": "silu"}, [x, weight, bias, drawn((2, 6, 2), 11)], 2)
    spread = {"dilation": 2, "activation": "swish"}
    yield case(name, spread, [x, weight, bias, drawn((2, 6, 4), 12)], 2)
    last = {"channels_last": 1}
    yield case(name, last, [drawn((2, 5, 6), 13), weight, bias, drawn((2, 2, 6), 14)], 2)
    pair = [drawn((2, 5, 2, 3), 15), weight, bias, drawn((2, 4, 2, 3), 16)]
    yield case(name, last | spread, pair, 2)
    yield case(name, last | spread, pair[:2], 2)


def routed() -> Iterator[Case]:
    """Experts of two bits, and by weights that are not the router's."""
    tokens, router, chosen = drawn((3, 8), 1), drawn((3, 4), 2, 2.0), drawn((3, 4), 3)
    first, last = drawn((4, 4, 8), 3), drawn((4, 8, 4), 4)
    sparse = {"k": 2, "use_sparse_mixer": 1}
    for normalized in (0, 1):
        more = {"normalize_routing_weights": normalized}
        yield case(OWN + "MoE", sparse | more, [tokens, router, first, None, last])
    refused = "has a `use_sparse_mixer` of other than two experts"
    alone = sparse | {"k": 1}
    yield Case(
        OWN + "MoE", 21, alone, [tokens, router, first, None, last], [tokens.value], refused=refused
    )

    def codes(shape: tuple[int, ...], seed: int) -> Input:
        places = np.arange(np.prod(shape)).reshape(shape)
        return given(((places * 91 + seed) % 256).astype(np.uint8))

    def units(shape: tuple[int, ...], seed: int) -> Input:
        return given((drawn(shape, seed).value * 0.02 + 0.04).astype(FLOAT))

    two = {"expert_weight_bits": 2, "k": 2, "activation_type": "silu"}
    weights = [codes((4, 4, 2), 1), units((4, 4), 3), None, codes((4, 8, 1), 2), units((4, 8), 4)]
    yield case(OWN + "QMoE", two, [tokens, router, *weights])
    zeros = codes((4, 1), 5), codes((4, 2), 6)
    yield case(OWN + "QMoE", two, [tokens, router, *weights, *[None] * 4, *zeros])
    wide = drawn((2, 32), 1), drawn((2, 2), 2)
    blocks = [codes((2, 32, 8), 7), units((2, 32, 2), 9), None]
    blocks += [codes((2, 32, 8), 8), units((2, 32, 2), 10)]
    zeros = codes((2, 32, 1), 11), codes((2, 32, 1), 12)
    of_blocks = two | {"block_size": 16}
    yield case(OWN + "QMoE", of_blocks, [*wide, *blocks])
    yield case(OWN + "QMoE", of_blocks, [*wide, *blocks, *[None] * 4, *zeros])
    for normalized in (0, 1):
        more = two | {"normalize_routing_weights": normalized, "use_sparse_mixer": normalized}
        yield case(OWN + "QMoE", more, [tokens, router, *weights, *[None] * 7, chosen])


def pooled() -> Iterator[Case]:
    """Means of no layer, channels that are last, regions, and attributes of the first versions."""
    x, skip, gamma, bias = drawn((2, 3, 8), 1), drawn((2, 3, 8), 2), drawn((8,), 3), drawn((8,), 4)
    yield case(OWN + "SkipSimplifiedLayerNormalization", {}, [x, skip, gamma, bias], 4)
    yield case(OWN + "SkipSimplifiedLayerNormalization", {}, [x, skip, gamma], [None, None])
    image, kernel = drawn((1, 2, 4, 4), 5, 8.0), drawn((3, 2, 3, 3), 6)
    yield case(OWN + "FusedConv", {"activation": "HardSwish"}, [image, kernel])
    unit = [given(np.array(0.1, FLOAT)), given(np.array(120, np.uint8))]
    unit += [given(np.array(0.05, FLOAT)), given(np.array(100, np.uint8))]
    last = {"channels_last": 1}
    for shape in ((2, 4, 5, 3), (1, 6, 2)):
        codes = given((np.arange(np.prod(shape)) * 91 % 256).astype(np.uint8).reshape(shape))
        yield case(OWN + "QLinearGlobalAveragePool", last, [codes, *unit])
    codes = given((np.arange(150) * 91 % 256).astype(np.uint8).reshape(2, 5, 5, 3))
    for more in (
        {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 1, 1]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ):
        yield case(OWN + "QLinearAveragePool", last | more, [codes, *unit])
    regions = grid([[0, 0, 0, 3, 3], [1, 1, 2, 5, 5], [1, -3, -3, -2, 1], [0, 4, 4, 9, 9]], FLOAT)
    for size, scale in (([2, 2], 1.0), ([3, 2], 0.5), ([4, 5], 1.0)):
        grids = {"pooled_shape": size, "spatial_scale": scale}
        yield case("MaxRoiPool", grids, [drawn((2, 3, 6, 6), 7), regions])
    yield case("TopK", {"k": 2}, [drawn((3, 5), 8)], 2, 1)
    yield case("TopK", {"k": 2, "axis": 0}, [drawn((3, 5), 8)], 2, 9)
    yield case("Reshape", {"shape": [0, 2, -1]}, [drawn((3, 4), 9)], 1, 1)


def scored() -> Iterator[Case]:
    """Features beside each other, and scores that are transformed."""
    name = LEARNED + "FeatureVectorizer"
    yield case(name, {"inputdimensions": [3, 1]}, [drawn((2, 3), 1), drawn((2, 1), 2)])
    whole = [grid([[1, 2], [3, 4]], np.int64), grid([[5], [6]], np.int64)]
    yield case(name, {"inputdimensions": [2, 1]}, whole)
    rows, kind = drawn((4, 2), 1, 2.0), {"kernel_type": "RBF", "kernel_params": [0.5, 0.25, 2.0]}
    vectors = kind | {"support_vectors": [float(x) for x in drawn((5, 2), 3).value.ravel()]}
    line = {"coefficients": [0.5, -0.25, 1.0, -0.75, 0.25], "n_supports": 5, "rho": [0.125]}
    for transform in ("SOFTMAX", "SOFTMAX_ZERO"):
        more = {"post_transform": transform}
        yield case(LEARNED + "SVMRegressor", vectors | line | more, [rows])
    classes = vectors | {
        "classlabels_ints": [7, 3],
        "coefficients": [0.5, -0.25, 1.0, -0.75, 0.25],
        "rho": [0.125],
        "vectors_per_class": [2, 3],
        "prob_a": [-2.0],
        "prob_b": [0.25],
        "post_transform": "PROBIT",
    }
    yield case(LEARNED + "SVMClassifier", classes, [rows], 2)
    line = {"coefficients": [0.3, 0.1, 0.2, 0.0, 0.0, 0.0], "intercepts": [0.4, 0.1, 0.0]}
    for transform in ("SOFTMAX_ZERO", "PROBIT"):
        more = line | {"post_transform": transform, "targets": 3}
        yield case(LEARNED + "LinearRegressor", more, [drawn((3, 2), 1, 0.5)])
    line = {"coefficients": [0.3, 0.1], "intercepts": [0.4], "post_transform": "SOFTMAX_ZERO"}
    yield case(LEARNED + "LinearRegressor", line, [drawn((3, 2), 1, 0.5)])
