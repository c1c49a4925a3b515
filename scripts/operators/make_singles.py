"""Writes vectors of single operators that tract has otherwise: `python -m operators.make_singles
[FILE]`, by default tests/data/singles.tsv, as `node_vectors.py` describes it.

What is expected is onnx's evaluator's, or what a case says where that has none or is not the
standard's. Where ONNX Runtime has something else it is named.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from operators.node_vectors import TYPES, Case, Input, drawn, given

# Of these, onnx's evaluator has another shape, or another place than the standard.
WRONG = {"ConvTranspose", "Resize"}
VECTORS = Path(__file__).resolve().parent.parent.parent / "tests" / "data" / "singles.tsv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=VECTORS)
    arguments = parser.parse_args()
    lines, agreed = [], 0
    plain = [*einsums(), *pools(), *places(), *others(), *resized(), *numbers()]
    for case in [*plain, *fused(), *scaled(), *forest()]:
        if not case.outputs or case.outputs[0] is None:
            count = max(len(case.outputs), 1)
            case.outputs = [np.zeros(0, np.float32)] * count
            model = case.model()
            case.outputs = [np.asarray(y) for y in run(model, case.feeds())]
        if not case.refused:
            try:
                case.check_by_onnxruntime()
                agreed += 1
            except Exception as error:
                print("ONNX Runtime:", case.line()[:100].rstrip(), str(error)[:90].split("\n")[0])
        lines.append(case.line())
    arguments.file.write_text("".join(lines))
    print(len(lines), "cases,", sum(map(len, lines)), "bytes,", agreed, "by ONNX Runtime too")


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs by onnx's evaluator, or by ONNX Runtime where it does better or is alone."""
    for output in model.graph.output:
        output.type.Clear()
    if all(node.domain == "" and node.op_type not in WRONG for node in model.graph.node):
        return ReferenceEvaluator(model).run(None, feeds)
    inferred = onnx.shape_inference.infer_shapes(model)
    for output in inferred.graph.output:
        if not output.type.tensor_type.elem_type:
            output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    session = onnxruntime.InferenceSession(inferred.SerializeToString())
    return session.run(None, feeds)


def einsums() -> Iterator[Case]:
    """Letters that are there twice, empty outputs, ellipses, axes of one element."""
    equations: list[tuple[str, list[tuple[int, ...]]]] = [
        ("i->", [(3,)]),
        ("a,b->", [(2,), (3,)]),
        ("a,b,c->", [(2,), (2,), (2,)]),
        ("a,a->", [(3,), (3,)]),
        ("ii,i->i", [(2, 2), (2,)]),
        ("ii,ij->j", [(2, 2), (2, 3)]),
        ("ii,ij", [(2, 2), (2, 3)]),
        ("ii,j->ij", [(2, 2), (3,)]),
        ("iij->ji", [(2, 2, 3)]),
        ("iii", [(2, 2, 2)]),
        ("ba", [(2, 3)]),
        ("bA", [(2, 3)]),
        ("...ij,...jk", [(2, 3, 4), (2, 4, 2)]),
        ("...ij , ...jk -> ...ik", [(2, 1, 3, 4), (3, 4, 2)]),
        ("i...,j...->j...i", [(2, 3), (4, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("ab,ab->", [(2, 3), (2, 3)]),
        ("ab,ba->", [(2, 3), (3, 2)]),
        ("ab,ab,b->a", [(2, 3), (2, 3), (3,)]),
        ("ij,j->i", [(2, 3), (1,)]),
        ("bhwc,hkc->bhwk", [(2, 3, 2, 4), (3, 2, 4)]),
    ]
    for equation, shapes in equations:
        for ty in ("FLOAT", "DOUBLE", "INT64"):
            scale = 5000.0 if ty == "INT64" else 2.0
            inputs = [drawn(shape, at + 1, scale, ty) for at, shape in enumerate(shapes)]
            expected = np.einsum(equation.replace(" ", ""), *[i.value for i in inputs])
            yield Case("Einsum", 12, {"equation": equation}, inputs, [np.asarray(expected)])
    for equation, shapes, problem in [
        ("ij->ijk", [(2, 3)], "no operand with the axis k"),
        ("ij->ii", [(2, 3)], "the axis i twice"),
        ("ij->i", [(2, 3, 4)], "`ij` stands for an input of rank 3"),
        ("i...->i", [(2, 3)], "an ellipsis before the arrow only"),
        ("ii->i", [(2, 3)], "2 by 3"),
    ]:
        inputs = [drawn(shape, 1) for shape in shapes]
        yield Case("Einsum", 12, {"equation": equation}, inputs, [inputs[0].value], problem)


def pools() -> Iterator[Case]:
    """The least numbers, NaN, places in either order, windows without room."""
    least = np.array([[[5, 1, -np.inf, -np.inf, np.nan, 1, 1, np.nan]]], np.float32)
    rows = [given(least), given(np.array([[[5, 1, -128, -128]]], np.int8))]
    rows.append(given(np.array([[[5, 1, 0, 0]]], np.uint8)))
    for row in rows:
        for outputs in (1, 2):
            attributes = {"kernel_shape": [2], "strides": [2]}
            yield Case("MaxPool", 12, attributes, [row], [None] * outputs)
    image = drawn((2, 2, 5, 6), 3, 2.0)
    for attributes in (
        {"kernel_shape": [2, 3]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 1]},
        {"kernel_shape": [3, 2], "dilations": [2, 2]},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"kernel_shape": [2, 2], "strides": [2, 4], "ceil_mode": 1},
    ):
        yield Case("MaxPool", 12, attributes, [image], by_window(image.value, attributes)[:1])
        for order in (0, 1):
            ordered = attributes | {"storage_order": order}
            yield Case("MaxPool", 12, ordered, [image], by_window(image.value, ordered))
    yield Case("MaxPool", 12, {"kernel_shape": [2, 1, 2]}, [drawn((1, 2, 3, 2, 3), 4, 2.0)], [None])
    yield Case("MaxPool", 12, {"kernel_shape": [2]}, [drawn((1, 2, 3), 4, 2.0, "DOUBLE")], [None])
    for operator in ("MaxPool", "AveragePool"):
        narrow = [drawn((1, 1, 2), 1)]
        why = "has a window of 3 places along an axis of 2"
        yield Case(operator, 12, {"kernel_shape": [3]}, narrow, [narrow[0].value], why)


def places() -> Iterator[Case]:
    """Axes in any order, sizes that take away, indices and NaN."""
    for axes, shape in [([2, 0], (1, 2, 1)), ([-1, 0], (1, 3, 1, 1)), ([1, -4], (1, 1, 2, 3))]:
        x = drawn(shape, 1)
        made = np.squeeze(x.value, tuple(axes))
        yield Case("Squeeze", 13, {}, [x, given(np.array(axes))], [made])
        yield Case("Squeeze", 11, {"axes": axes}, [x], [made])
    for axes, problem in [([0, 0], "with 0 twice"), ([0, 3], "3, where it takes -3 to 2")]:
        inputs = [drawn((1, 2, 1), 1), given(np.array(axes))]
        yield Case("Squeeze", 13, {}, inputs, [inputs[0].value], problem)
    x = drawn((3, 4), 2, 2.0)
    for pads in ([-1, 0, 0, 2], [0, -1, -2, -1], [1, -2, -1, 1], [0, -4, 0, 1]):
        top, left, bottom, right = pads
        cut = x.value[max(-top, 0) : 3 - max(-bottom, 0), max(-left, 0) : 4 - max(-right, 0)]
        around = [(max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0))]
        for mode in ("constant", "edge", "reflect"):
            if cut.size == 0 and mode != "constant":
                continue
            made = np.pad(cut, around, mode=mode)
            yield Case("Pad", 13, {"mode": mode}, [x, given(np.array(pads))], [made])
        if cut.size:
            wrapped = [x, given(np.array(pads))]
            yield Case("Pad", 19, {"mode": "wrap"}, wrapped, [np.pad(cut, around, mode="wrap")])
    far = [x, given(np.array([7, 9, 1, 4]))]
    yield Case("Pad", 21, {"mode": "wrap"}, far, [np.pad(x.value, [(7, 1), (9, 4)], mode="wrap")])
    yield Case("Pad", 18, {"mode": "wrap"}, far, [x.value], "from opset 19 on")
    for ty, dtype in ((np.bool_, {}), (np.float32, {"dtype": 9}), (np.bool_, {"dtype": 1})):
        made = np.eye(3, 4, 1, np.float32 if dtype.get("dtype") == 1 else np.bool_)
        yield Case("EyeLike", 9, {"k": 1} | dtype, [given(np.ones((3, 4), ty))], [made])
    axes = [given(np.array([-1])), given(np.float32(7))]
    made = np.pad(x.value[:, 1:], [(0, 0), (0, 2)], constant_values=7)
    yield Case("Pad", 18, {}, [x, given(np.array([-1, 2])), axes[1], axes[0]], [made])
    for mode in ("edge", "reflect"):
        inputs = [x, given(np.array([1, 0, 0, 1])), given(np.float32(7))]
        made = np.pad(x.value, [(1, 0), (0, 1)], mode=mode)
        yield Case("Pad", 13, {"mode": mode}, inputs, [made])
    nan, five = np.float32(np.nan), np.float32(5)
    for ty in (np.float32, np.float64):
        data, updates = np.array([1, nan, 3, 4], ty), np.array([nan, five, five, -five], ty)
        for reduction, choose in (("max", np.maximum), ("min", np.minimum)):
            made = choose(data, updates)
            rows = given(np.arange(4).reshape(4, 1))
            attributes = {"reduction": reduction}
            yield Case("ScatterND", 18, attributes, [given(data), rows, given(updates)], [made])
            inputs = [given(data), given(np.arange(4)), given(updates)]
            yield Case("ScatterElements", 18, attributes, inputs, [made])


def others() -> Iterator[Case]:
    """Resize of the first version, ConvTranspose to a shape, Celu of half precision, DFT of nothing."""
    # A real signal of which one place of the spectrum is given has none, as in ONNX Runtime.
    for shape, made in (((2, 1, 2), (2, 0, 1)), ((1, 2), (0, 1))):
        one = [drawn(shape, 7), None, given(np.array(len(shape) - 2))]
        whole = np.zeros(made, np.float32)
        yield Case("DFT", 20, {"inverse": 1, "onesided": 1}, one, [whole])
    for length, scale in ((4, 1.5), (3, 2.0), (5, 2.6), (4, 0.6), (10, 0.6)):
        x = drawn((1, 1, length, 1), 3, 2.0)
        places = np.arange(int(length * scale), dtype=np.float32) / np.float32(scale)
        # As ONNX's own test of that version has it, elements are left out upwards.
        below = (np.ceil if scale < 1 else np.floor)(places).astype(int)
        scales = given(np.array([1, 1, scale, 1], np.float32))
        yield Case("Resize", 10, {"mode": "nearest"}, [x, scales], [x.value[:, :, below]])
    image = drawn((1, 1, 4, 3), 4, 2.0)
    to_one = {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"}
    for scales in ([1, 1, 0.25, 1], [1, 1, 0.4, 2], [1, 1, 0.3, 0.5]):
        inputs = [image, None, given(np.array(scales, np.float32))]
        yield Case("Resize", 13, to_one, inputs, [None])
    inputs = [image, None, None, given(np.array([1, 5]))]
    yield Case("Resize", 18, to_one | {"axes": [2, 3]}, inputs, [None])
    x, w = drawn((1, 2, 3, 4), 5), drawn((2, 2, 3, 2), 6)
    for attributes in (
        {"output_shape": [4, 5]},
        {"output_shape": [4, 3], "auto_pad": "SAME_UPPER"},
        {"output_shape": [6, 7], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"output_shape": [7, 7], "strides": [2, 2], "group": 2},
        {"output_shape": [8, 9], "strides": [2, 2], "output_padding": [1, 1]},
    ):
        yield Case("ConvTranspose", 11, attributes, [x, w], [None])
    # Kernels of 3 and 2 places, shorter than their strides, as long, and longer.
    for strides in ([4, 2], [3, 3], [1, 5], [2, 2]):
        for side in ("SAME_UPPER", "SAME_LOWER"):
            attributes = {"auto_pad": side, "strides": strides}
            yield Case("ConvTranspose", 11, attributes, [x, w], [None])
    for shape in ((2, 3, 4), (2, 3), (2, 3, 2, 2)):
        per_channel = [drawn((3,), seed) for seed in (2, 3, 4)] + [given(np.ones(3, np.float32))]
        inputs = [drawn(shape, 1, 2.0), *per_channel]
        mean = inputs[0].value.mean(axis=tuple(a for a in range(len(shape)) if a != 1), dtype=float)
        column = (3, *[1] * (len(shape) - 2))
        apart = inputs[0].value - mean.reshape(column)
        variance = (apart**2).mean(axis=tuple(a for a in range(len(shape)) if a != 1))
        scale, bias = (given.value.reshape(column) for given in per_channel[:2])
        made = apart / np.sqrt(variance.reshape(column) + 1e-5) * scale + bias
        trained = {"training_mode": 1}
        yield Case("BatchNormalization", 15, trained, inputs, [made.astype(np.float32)])
    half = given(np.array([-1, 2, -0.25], np.float16))
    celu = np.where(half.value > 0, half.value, 0.5 * np.expm1(half.value.astype(float) / 0.5))
    yield Case("Celu", 12, {"alpha": 0.5}, [half], [celu.astype(np.float16)])


def resized() -> Iterator[Case]:
    """DOUBLE, integers, symmetric places, scales and sizes of single axes."""
    doubles = drawn((1, 1, 3, 4), 7, 2.0, "DOUBLE")
    to = given(np.array([1, 1, 5, 7]))
    for attributes in (
        {"mode": "linear"},
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
        {"mode": "nearest", "coordinate_transformation_mode": "half_pixel_symmetric"},
    ):
        yield Case("Resize", 19, attributes, [doubles, None, None, to], [evaluated(attributes)])
    down = given(np.array([2, 3]))
    for mode in ("linear", "cubic"):
        attributes = {"mode": mode, "antialias": 1, "axes": [2, 3]}
        made = evaluated(attributes, down)
        yield Case("Resize", 19, attributes, [doubles, None, None, down], [made])
    large = np.array([[16777217, -16777219, 2147483647]], np.int32)
    doubled = given(np.array([1, 2], np.float32))
    inputs = [given(large), None, doubled]
    yield Case("Resize", 13, {"mode": "nearest"}, inputs, [np.repeat(large, 2, 1)])
    eight = given(np.array([[200, 255, 3]], np.uint8))
    # Halfway between two, cut off as ONNX Runtime does.
    made = np.array([[200, 213, 241, 192, 66, 3]], np.uint8)
    yield Case("Resize", 13, {"mode": "linear"}, [eight, None, doubled], [made])
    wide = {"keep_aspect_ratio_policy": "not_larger", "axes": [2, 3], "mode": "nearest"}
    inputs = [drawn((1, 1, 2, 4), 8, 2.0), None, None, given(np.array([7, 6]))]
    yield Case("Resize", 18, wide, inputs, [None])


def evaluated(attributes: dict[str, object], to: Input | None = None) -> np.ndarray:
    """A DOUBLE resized by onnx's evaluator, which has the shapes right."""
    inputs = [
        drawn((1, 1, 3, 4), 7, 2.0, "DOUBLE"),
        None,
        None,
        to or given(np.array([1, 1, 5, 7])),
    ]
    case = Case("Resize", 19, attributes, inputs, [np.zeros(0, np.float64)])
    model = case.model()
    for output in model.graph.output:
        output.type.Clear()
    return np.asarray(ReferenceEvaluator(model).run(None, case.feeds())[0])


def numbers() -> Iterator[Case]:
    """Products of DOUBLE and INT32, infinities, what has no elements, and no boxes."""
    for ty, scale in (("DOUBLE", 2.0), ("INT32", 100.0)):
        a, b, c = (
            drawn((2, 3), 1, scale, ty),
            drawn((4, 3), 2, scale, ty),
            drawn((4,), 3, scale, ty),
        )
        made = 2 * a.value @ b.value.T - 3 * c.value
        attributes = {"alpha": 2.0, "beta": -3.0, "transB": 1}
        yield Case("Gemm", 13, attributes, [a, b, c], [made.astype(a.value.dtype)])
    infinite = np.array([np.inf, -np.inf, np.nan, 1, -0.0])
    for ty in (np.float16, np.float32, np.float64):
        for flags in ((1, 1), (1, 0), (0, 1), (0, 0)):
            attributes = dict(zip(("detect_positive", "detect_negative"), flags, strict=True))
            yield Case("IsInf", 20, attributes, [given(infinite.astype(ty))], [None])
    for shape in ((2, 0), (0, 3)):
        nothing = given(np.zeros(shape, np.float32))
        for operator in ("Hardmax", "LpNormalization"):
            yield Case(operator, 13, {"axis": -1}, [nothing], [nothing.value])
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32)
    scores = np.array([[[0.9, 0.8, 0.7]]], np.float32)
    for limit in (0, 1, 3):
        inputs = [given(boxes), given(scores), given(np.array([limit])), given(np.float32([0.5]))]
        made = np.array([[0, 0, 0], [0, 0, 2]][:limit], np.int64).reshape(-1, 3)
        yield Case("NonMaxSuppression", 11, {}, inputs, [made])
    none = np.zeros((0, 3), np.int64)
    yield Case("NonMaxSuppression", 11, {}, [given(boxes), given(scores)], [none])


def fused() -> Iterator[Case]:
    """Operators of ONNX Runtime's that are several."""
    shapes = {(0, 0): (2, 3, 4), (1, 0): (2, 4, 3), (0, 1): (3, 2, 4), (1, 1): (4, 2, 3)}
    others = {(0, 0): (2, 4, 5), (1, 0): (2, 5, 4), (0, 1): (4, 2, 5), (1, 1): (5, 2, 4)}
    for (transposes, batch), shape in shapes.items():
        for (transposes_b, batch_b), other in others.items():
            attributes = {"alpha": 0.5, "transA": transposes, "transBatchA": batch}
            attributes |= {"transB": transposes_b, "transBatchB": batch_b}
            inputs = [drawn(shape, 1), drawn(other, 2)]
            yield Case("com.microsoft.FusedMatMul", 17, attributes, inputs, [None])
    x, w, b = drawn((1, 2, 4, 5), 3), drawn((3, 2, 2, 2), 4), drawn((3,), 5)
    for activation, params in (
        ("Relu", None),
        ("Tanh", None),
        ("Sigmoid", None),
        ("LeakyRelu", [0.25]),
        ("Clip", [-0.5, 0.5]),
        ("HardSigmoid", [0.3, 0.4]),
    ):
        attributes = {"activation": activation} | ({"activation_params": params} if params else {})
        yield Case("com.microsoft.FusedConv", 17, attributes, [x, w, b], [None])
    summed = [x, w, b, drawn((1, 3, 3, 4), 6)]
    yield Case("com.microsoft.FusedConv", 17, {"activation": "Relu"}, summed, [None])
    matrices = [drawn((2, 3), 7), drawn((4, 3), 8), drawn((4,), 9)]
    attributes = {"activation": "LeakyRelu", "activation_alpha": 0.25, "transB": 1, "alpha": 2.0}
    yield Case("com.microsoft.FusedGemm", 17, attributes, matrices, [None])
    plain = ["Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"]
    by_alpha = ["Elu:alpha", "ThresholdedRelu:alpha"]
    for function in (*plain, *by_alpha, "HardSigmoid:alpha,beta", "Selu:alpha,gamma"):
        name, _, given = function.partition(":")
        names = [f"activation_{word}" for word in given.split(",") if word]
        attributes = {"activation": name} | {word: 0.25 + at / 4 for at, word in enumerate(names)}
        yield Case("com.microsoft.FusedGemm", 17, attributes | {"transB": 1}, matrices, [None])


def scaled() -> Iterator[Case]:
    """NaN by a scale of 0, powers of the type of their base, and zero points of rows."""
    x = given(np.array([[[1, 2, 3], [4, np.nan, 6]]], np.float32))
    two = [given(np.full(2, number, np.float32)) for number in (0, 1)]
    three = [given(np.full(3, number, np.float32)) for number in (0, 1)]
    yield Case("InstanceNormalization", 22, {}, [x, *two], [None])
    yield Case("GroupNormalization", 21, {"num_groups": 2}, [x, *two], [None])
    yield Case("BatchNormalization", 15, {}, [x, *two, *two], [None])
    yield Case("LayerNormalization", 17, {}, [x, *three], [None])
    yield Case("RMSNormalization", 23, {}, [x, three[0]], [None])
    row, column = given(np.array([[1, np.nan]], np.float32)), drawn((2, 1), 1)
    yield Case("Gemm", 13, {"alpha": 0.0}, [row, column], [None])
    exponents = given(np.array([2, 0.5, -1.5]))
    for ty in ("FLOAT", "FLOAT16"):
        yield Case("Pow", 15, {}, [given(np.array([3, 2, 4], TYPES[ty])), exponents], [None])
    a, b = given(np.arange(6, dtype=np.uint8).reshape(2, 3)), drawn((3, 2), 1, 9.0, "INT8")
    zeros = [given(np.array([[1], [2]], np.uint8)), given(np.array([[3, -4]], np.int8))]
    yield Case("MatMulInteger", 10, {}, [a, b, *zeros], [None])
    why = "has an input 1 of shape [0], which does not fit its first, of shape [1]"
    yield Case(
        "PRelu", 16, {}, [drawn((1,), 1), given(np.zeros(0, np.float32))], [two[0].value], why
    )
    why = "has an input 1 of shape [1], which does not fit its first, of shape []"
    yield Case("PRelu", 16, {}, [drawn((), 1), drawn((1,), 2)], [two[0].value], why)
    pads = {"kernel_shape": [2], "auto_pad": "SAME"}
    why = 'attribute `auto_pad` is "SAME"'
    yield Case("LpPool", 18, pads, [drawn((1, 1, 3), 1)], [two[0].value], why)
    why = "has an input of rank 3, where it takes rows"
    yield Case("ai.onnx.ml.Normalizer", 13, {"norm": "L1"}, [x], [two[0].value], why)
    kernel = drawn((1, 2, 2), 1)
    why = "has other than one kernel for each channel"
    yield Case("CausalConvWithState", 27, {}, [x, kernel], [two[0].value], why)
    why = "has inputs of two shapes"
    yield Case("SwiGLU", 28, {}, [x, drawn((1, 2, 1), 1)], [two[0].value], why)


def forest() -> Iterator[Case]:
    """Trees of one decision each, with a weight for every target in every leaf."""
    trees, targets = range(2), range(6)
    leaves = [(tree, node, target) for tree in trees for node in (1, 2) for target in targets]
    attributes: dict[str, object] = {
        "n_targets": len(targets),
        "nodes_treeids": [tree for tree in trees for _ in range(3)],
        "nodes_nodeids": [0, 1, 2] * len(trees),
        "nodes_featureids": [0, 0, 0, 1, 0, 0],
        "nodes_values": [0.25, 0.0, 0.0, -0.25, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * len(trees),
        "nodes_truenodeids": [1, 0, 0] * len(trees),
        "nodes_falsenodeids": [2, 0, 0] * len(trees),
        "target_treeids": [tree for tree, _, _ in leaves],
        "target_nodeids": [node for _, node, _ in leaves],
        "target_ids": [target for _, _, target in leaves],
        "target_weights": [tree + 2.0 * node + target / 8 for tree, node, target in leaves],
    }
    for function in ("SUM", "AVERAGE"):
        given_so = attributes | {"aggregate_function": function}
        yield Case("ai.onnx.ml.TreeEnsembleRegressor", 13, given_so, [drawn((3, 2), 1)], [None])


def by_window(x: np.ndarray, attributes: dict[str, object]) -> list[np.ndarray]:
    """The greatest element of each window of an image, and its place, as the standard says."""
    size = x.shape[2:]
    kernel = attributes["kernel_shape"]
    stride = attributes.get("strides", [1, 1])
    dilation = attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0, 0, 0, 0])
    field = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    if "auto_pad" in attributes:
        made = [-(-n // s) for n, s in zip(size, stride, strict=True)]
        around = [
            max((m - 1) * s + f - n, 0)
            for m, s, f, n in zip(made, stride, field, size, strict=True)
        ]
        pads = [(p + 1) // 2 for p in around] + [p // 2 for p in around]
    else:
        room = [
            n + pads[a] + pads[a + 2] - f for a, (n, f) in enumerate(zip(size, field, strict=True))
        ]
        ceiled = attributes.get("ceil_mode", 0)
        made = [(-(-r // s) if ceiled else r // s) + 1 for r, s in zip(room, stride, strict=True)]
    values = np.zeros((*x.shape[:2], *made), x.dtype)
    places = np.zeros(values.shape, np.int64)
    strides = (1, size[0]) if attributes.get("storage_order") else (size[1], 1)
    for at in np.ndindex(values.shape):
        starts = [at[2 + a] * stride[a] - pads[a] for a in (0, 1)]
        taps = [[starts[a] + k * dilation[a] for k in range(kernel[a])] for a in (0, 1)]
        inside = [(h, w) for h in taps[0] for w in taps[1] if 0 <= h < size[0] and 0 <= w < size[1]]
        h, w = max(inside, key=lambda place: x[at[0], at[1], place[0], place[1]])
        values[at] = x[at[0], at[1], h, w]
        plane = (at[0] * x.shape[1] + at[1]) * size[0] * size[1]
        places[at] = plane + h * strides[0] + w * strides[1]
    return [values, places]


if __name__ == "__main__":
    main()
