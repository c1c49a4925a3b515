"""Random graphs of a few operators, with odd attributes, shapes and values: what optimisers and converters rewrite."""

import random
import re

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

words = re.compile(r"\w+").findall
FLOATS = (np.float32, np.float64, np.float16)
WHOLES = (np.int64, np.int32, np.uint8, np.int8)
UNARY = words(
    "Relu Neg Abs Sigmoid Tanh Exp Sqrt Softplus Erf Elu Selu HardSigmoid HardSwish Celu "
    "Softsign Mish ThresholdedRelu LeakyRelu Ceil Floor Round Sign Reciprocal Identity IsNaN "
    "IsInf Gelu Dropout "
)
BINARY = words(
    "Add Sub Mul Div Pow Max Min Mod PRelu Less Greater Equal GreaterOrEqual LessOrEqual "
)
REDUCED = words(
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare "
    "ReduceLogSum ReduceLogSumExp "
)
OPSETS = (8, 9, 10, 11, 12, 13, 13, 16, 17, 18, 18, 19, 20, 21, 22, 22, 23, 23)
# What was an attribute before an opset, in the order of the later inputs.
ATTRIBUTES = {
    "Squeeze": (13, "axes"),
    "Unsqueeze": (13, "axes"),
    "ReduceSum": (13, "axes"),
    "Split": (13, "split"),
    "Pad": (11, "pads", "value"),
    "Clip": (11, "min", "max"),
    "Slice": (10, "starts", "ends", "axes"),
}


class Growing:
    """A graph that grows by nodes that can be computed."""

    def __init__(self, rng, opset):
        self.rng = rng
        self.draw = np.random.default_rng(rng.randrange(1 << 30))
        self.opset = opset or rng.choice(OPSETS)
        self.nodes, self.constants, self.inputs, self.pool = [], {}, {}, {}
        self.is_special = rng.random() < 0.15

    def values(self, shape, dtype):
        if dtype == np.bool_:
            return self.draw.random(shape) < 0.5
        if np.issubdtype(dtype, np.integer):
            low = 0 if dtype == np.uint8 else -6
            return np.asarray(self.draw.integers(low, 7, shape), dtype)
        made = np.asarray(self.draw.normal(0, 2, shape), dtype)
        if self.is_special and made.size:
            special = self.draw.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], shape)
            made = np.where(self.draw.random(shape) < 0.2, special, made).astype(dtype)
        return np.asarray(made, dtype)

    def input(self, shape, dtype):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.pool[name] = self.values(shape, dtype)
        return name

    def constant(self, value, dtype=None):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def shape(self, rank=None):
        rank = self.rng.choice([0, 1, 2, 2, 3, 3, 4, 4]) if rank is None else rank
        return tuple(self.rng.choice([1, 1, 2, 3, 4, 5]) for _ in range(rank))

    def pick(self, is_fit=lambda value: True):
        """A value that fits, one that was made last above all."""
        fit = [name for name, value in self.pool.items() if is_fit(value)]
        if not fit:
            return None
        return fit[-1] if self.rng.random() < 0.7 else self.rng.choice(fit)

    def of(self, dtypes, rank=None, least=0):
        """A value of one of these types and ranks."""
        return self.pick(
            lambda v: (
                v.dtype.type in dtypes and (v.ndim == rank if rank is not None else v.ndim >= least)
            )
        )

    def add(self, op, inputs, outputs=1, **attributes):
        """Adds a node, if onnx's evaluator computes it and its values are of use."""
        if None in inputs:
            return False
        named = [f"v{len(self.nodes)}_{place}" for place in range(outputs)]
        held = {**self.pool, **self.constants}
        try:
            inputs = self.as_attributes(op, inputs, attributes)
            node = helper.make_node(op, inputs, named, name=f"n{len(self.nodes)}", **attributes)
            made = computed(node, {name: held[name] for name in inputs if name}, self.opset)
        except Exception:
            return False
        if any(
            not isinstance(value, np.ndarray | np.generic) or np.size(value) > 4096
            for value in made
        ):
            return False
        self.nodes.append(node)
        self.pool.update(
            {name: np.asarray(value) for name, value in zip(named, made, strict=False)}
        )
        return True

    def as_attributes(self, op, inputs, attributes):
        """The inputs, without those that are attributes at this opset."""
        until, *names = ATTRIBUTES.get(op, (0,))
        if self.opset >= until:
            return inputs
        for name, given in zip(names, inputs[1:], strict=False):
            if given:
                value = self.constants[given].tolist()
                attributes[name] = float(value) if name in ("value", "min", "max") else value
        return inputs[:1]

    def model(self):
        """The model, its inputs and what onnx's evaluator made."""
        used = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes for name in node.output]
        outputs = [name for name in made if name not in used]
        inputs = {name: value for name, value in self.inputs.items() if name in used}
        constants = {name: value for name, value in self.constants.items() if name in used}

        def info(name):
            value = self.pool[name]
            return helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )

        graph = helper.make_graph(
            self.nodes,
            "g",
            [info(name) for name in inputs],
            [info(name) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
        )
        imports = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10), list(inputs.values())


def computed(node, feeds, opset):
    """What onnx's evaluator makes of a node."""
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output
    ]
    graph = helper.make_graph([node], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, feeds)


def unary(g):
    op = g.rng.choice(UNARY)
    given = {}
    if op in ("Elu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid"):
        given["alpha"] = g.rng.choice([0.0, -0.5, 0.2, 1.0, 3.0])
    if op == "HardSigmoid":
        given["beta"] = g.rng.choice([0.0, 0.5, -0.3])
    return g.add(op, [g.of(FLOATS)], **given)


def binary(g):
    op = g.rng.choice(BINARY)
    a = g.of((*FLOATS, np.int32, np.int64))
    if a is None:
        return False
    value = g.pool[a]
    other = g.pick(lambda v: v.dtype == value.dtype) if g.rng.random() < 0.3 else None
    if other is None:
        shape = g.rng.choice([(), (1,), value.shape, value.shape[-1:], (1,) * (value.ndim + 1)])
        simple = g.rng.choice([0, 1, -1, 2, -0.0, None, None])
        held = g.values(shape, value.dtype.type) if simple is None else np.full(shape, simple)
        other = g.constant(held, value.dtype)
    both = [a, other] if op == "PRelu" or g.rng.random() < 0.6 else [other, a]
    if op == "Mod" and value.dtype.type in FLOATS:
        return g.add(op, both, fmod=1)
    return g.add(op, both)


def logic(g):
    condition = g.of((np.bool_,))
    if condition is None or g.rng.random() < 0.3:
        return g.add(g.rng.choice(["Not", "And", "Or", "Xor"]), [condition] * 1) or g.add(
            "Not", [condition]
        )
    a = g.of((*FLOATS, np.int64))
    b = g.constant(g.rng.choice([0, 1, -1]), g.pool[a].dtype) if a else None
    return g.add("Where", [condition, a, b] if g.rng.random() < 0.5 else [condition, b, a])


def cast(g):
    to = g.rng.choice([1, 1, 10, 11, 6, 7, 2, 3, 9])
    return g.add("Cast", [g.pick(lambda v: v.dtype != object)], to=to)


def clip(g):
    a = g.of((*FLOATS, np.int32, np.int64))
    if a is None:
        return False
    low, high = (g.constant(g.rng.choice([-3, -1, 0, 1, 6]), g.pool[a].dtype) for _ in "ab")
    return g.add("Clip", g.rng.choice([[a, low, high], [a, low], [a, "", high]]))


def moves(g):
    a = g.pick()
    value = g.pool[a]
    rank = value.ndim
    op = g.rng.choice(
        words("Transpose Transpose Reshape Reshape Squeeze Unsqueeze Flatten Expand Tile")
    )
    if op == "Transpose":
        return g.add(op, [a], perm=g.rng.sample(range(rank), rank))
    if op == "Flatten":
        return g.add(op, [a], axis=g.rng.randint(-rank, rank))
    if op == "Squeeze":
        ones = [axis for axis in range(rank) if value.shape[axis] == 1]
        some = g.rng.sample(ones, g.rng.randint(0, len(ones)))
        return g.add(op, [a, g.constant(some, np.int64)] if some else [a])
    if op == "Unsqueeze":
        axes = g.rng.sample(range(-rank - 2, rank + 2), g.rng.choice([1, 2]))
        return g.add(op, [a, g.constant(axes, np.int64)])
    if op == "Expand":
        shape = [g.rng.choice([1, size, 1 if size > 1 else 3]) for size in value.shape]
        return g.add(op, [a, g.constant(g.rng.choice([[], [2], [1]]) + shape, np.int64)])
    if op == "Tile":
        return g.add(
            op, [a, g.constant([g.rng.choice([1, 1, 2, 3]) for _ in range(rank)], np.int64)]
        )
    return reshape(g, a, value)


def reshape(g, a, value):
    shape, rest = [], value.size
    while rest > 1 and g.rng.random() < 0.8:
        shape.append(g.rng.choice([n for n in range(1, rest + 1) if rest % n == 0]))
        rest //= shape[-1]
    shape.append(rest)
    if g.rng.random() < 0.5:
        shape[g.rng.randrange(len(shape))] = -1
    if value.ndim and shape[0] == value.shape[0]:
        shape[0] = 0
    given = {"allowzero": 0} if g.opset >= 14 and g.rng.random() < 0.2 else {}
    return g.add("Reshape", [a, g.constant(shape, np.int64)], **given)


def parts(g):
    a = g.pick(lambda v: v.ndim >= 1 and v.size > 0)
    if a is None:
        return False
    value = g.pool[a]
    rank = value.ndim
    axis = g.rng.randrange(-rank, rank)
    size = value.shape[axis]
    op = g.rng.choice(
        words("Slice Slice Gather Gather Concat Split Pad GatherElements ScatterElements Trilu")
    )
    if op == "Slice":
        start, end = (g.rng.choice([0, 1, -1, -2, 2, size, -size, 9**9, -(9**9)]) for _ in "ab")
        given = [[start], [end], [axis], [g.rng.choice([1, 1, 2, -1, -2])]]
        return g.add(op, [a, *(g.constant(x, g.rng.choice([np.int64])) for x in given)])
    if op in ("Gather", "GatherElements"):
        shape = g.rng.choice([(), (1,), (2,), (2, 1)]) if op == "Gather" else value.shape
        return g.add(op, [a, g.constant(g.draw.integers(-size, size, shape), np.int64)], axis=axis)
    if op == "ScatterElements":
        index = g.constant(g.draw.permutation(size)[:1].reshape([1] * rank), np.int64)
        return g.add(op, [a, index, g.constant(np.ones([1] * rank), value.dtype)], axis=axis)
    if op == "Concat":
        other = g.pick(lambda v: v.dtype == value.dtype and v.ndim == rank)
        return g.add(op, g.rng.choice([[a, other], [a], [other, a, a]]), axis=axis)
    if op == "Split":
        first = g.rng.randint(0, size)
        return g.add(op, [a, g.constant([first, size - first], np.int64)], 2, axis=axis)
    if op == "Trilu":
        return g.add(
            op, [a, g.constant(g.rng.randint(-2, 2), np.int64)], upper=g.rng.choice([0, 1])
        )
    pads = [g.rng.choice([0, 0, 1, 2, -1]) for _ in range(2 * rank)]
    mode = g.rng.choice(["constant", "constant", "edge", "reflect"])
    held = [g.constant(g.rng.choice([0, 1, -2]), value.dtype)] if mode == "constant" else []
    return g.add(op, [a, g.constant(pads, np.int64), *held], mode=mode)


def reductions(g):
    a = g.of((np.float32, np.float64, np.int32, np.int64), least=1)
    if a is None:
        return False
    rank = g.pool[a].ndim
    op = g.rng.choice(
        [*REDUCED, "ArgMax", "ArgMin", "CumSum", "Softmax", "LogSoftmax", "Hardmax", "TopK"]
    )
    axis = g.rng.randrange(-rank, rank)
    if op in ("ArgMax", "ArgMin"):
        last, kept = g.rng.choice([0, 1]), g.rng.choice([0, 1])
        return g.add(op, [a], axis=axis, keepdims=kept, select_last_index=last)
    if op in ("Softmax", "LogSoftmax", "Hardmax"):
        return g.add(op, [a], axis=axis)
    if op == "CumSum":
        given = {"exclusive": g.rng.choice([0, 1]), "reverse": g.rng.choice([0, 1])}
        return g.add(op, [a, g.constant(axis, np.int64)], **given)
    if op == "TopK":
        count = g.constant([g.rng.randint(1, max(1, g.pool[a].shape[axis]))], np.int64)
        return g.add(op, [a, count], 2, axis=axis, largest=g.rng.choice([0, 1]))
    axes, kept = g.rng.sample(range(rank), g.rng.randint(0, rank)), g.rng.choice([0, 1])
    given = {"keepdims": kept}
    if g.opset >= 18 or op == "ReduceSum":
        given["noop_with_empty_axes"] = g.rng.choice([0, 0, 1])
        return g.add(
            op, [a, g.constant(axes, np.int64)] if axes or g.rng.random() < 0.3 else [a], **given
        )
    return g.add(op, [a], **({"axes": axes} if axes else {}), **given)


def products(g):
    a = g.of((np.float32,), least=1)
    if a is None:
        return False
    value = g.pool[a]
    op = g.rng.choice(["MatMul", "MatMul", "Gemm", "Einsum"])
    inner, outer = value.shape[-1], g.rng.choice([1, 2, 3])
    if op == "MatMul":
        shape = g.rng.choice([(inner, outer), (inner,), (2, inner, outer)])
        other = g.pick(lambda v: v.dtype == np.float32 and v.ndim and v.shape[0] == inner)
        other = other if other and g.rng.random() < 0.4 else g.constant(g.values(shape, np.float32))
        return g.add(op, [a, other])
    if op == "Einsum" and value.ndim == 2:
        equation = g.rng.choice(["ij,jk->ik", "ij,jk->ki", "ij,jk->i", "ij,jk"])
        return g.add(op, [a, g.constant(g.values((inner, outer), np.float32))], equation=equation)
    a = g.of((np.float32,), rank=2)
    if a is None:
        return False
    turned = [g.rng.choice([0, 1]) for _ in "ab"]
    inner = g.pool[a].shape[0 if turned[0] else 1]
    other = (outer, inner) if turned[1] else (inner, outer)
    bias = g.rng.choice([(), (1,), (outer,), (g.pool[a].shape[1 if turned[0] else 0], 1)])
    held = [g.constant(g.values(shape, np.float32)) for shape in (other, bias)]
    scales = {"alpha": g.rng.choice([1.0, 0.5, 0.0]), "beta": g.rng.choice([1.0, 0.5, 0.0])}
    return g.add(
        op, [a, *held[: g.rng.choice([1, 2])]], transA=turned[0], transB=turned[1], **scales
    )


def windows(g):
    a = g.pick(lambda v: v.dtype == np.float32 and v.ndim in (3, 4) and v.size)
    if a is None:
        a = g.input((1, 2, g.rng.randint(3, 6), g.rng.randint(3, 6)), np.float32)
    value = g.pool[a]
    rank, channels = value.ndim - 2, value.shape[1]
    op = g.rng.choice(
        words(
            "Conv Conv MaxPool AveragePool ConvTranspose LpPool GlobalAveragePool BatchNormalization"
        )
    )
    kernel = [g.rng.randint(1, 3) for _ in range(rank)]
    given = {"strides": [g.rng.randint(1, 2) for _ in range(rank)]}
    if g.rng.random() < 0.3:
        given["auto_pad"] = g.rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    else:
        given["pads"] = [g.rng.randint(0, size - 1) for size in kernel * 2]
    if op == "GlobalAveragePool":
        return g.add(op, [a])
    if op == "BatchNormalization":
        held = [
            g.constant(np.abs(g.values((channels,), np.float32)) + 0.1, np.float32)
            for _ in range(4)
        ]
        return g.add(op, [a, *held], epsilon=g.rng.choice([1e-5, 0.1]))
    if op in ("MaxPool", "AveragePool", "LpPool"):
        if g.opset >= 19 or op == "MaxPool":
            given["ceil_mode"] = g.rng.choice([0, 1])
        if op == "AveragePool":
            given["count_include_pad"] = g.rng.choice([0, 1])
        return g.add(op, [a], kernel_shape=kernel, **given)
    group = g.rng.choice([1, channels])
    out = g.rng.randint(1, 2)
    shape = [out * group, channels // group] if op == "Conv" else [channels, out]
    weights = [g.constant(g.values((*shape, *kernel), np.float32))]
    if g.rng.random() < 0.5:
        weights.append(g.constant(g.values((out * group,), np.float32)))
    return g.add(op, [a, *weights], group=group, **given)


def codes(g):
    a = g.of((np.float32,))
    whole = g.of((np.uint8, np.int8))
    dtype = g.rng.choice([np.uint8, np.int8])
    scale = g.rng.choice([0.1, 0.05, 1.0, 0.5])
    if whole and g.rng.random() < 0.7:
        zero = g.constant(g.rng.choice([0, 3]), g.pool[whole].dtype)
        return g.add("DequantizeLinear", [whole, g.constant(scale, np.float32), zero])
    zero = g.constant(g.rng.choice([0, 3, 100]), dtype)
    return g.add("QuantizeLinear", [a, g.constant(scale, np.float32), zero])


def sizes(g):
    op = g.rng.choice(
        ["Shape", "Size", "NonZero", "ConstantOfShape", "Resize", "LayerNormalization"]
    )
    a = g.of((np.float32,), least=1)
    if a is None:
        return False
    value = g.pool[a]
    if op == "Shape" and g.opset >= 15:
        return g.add(op, [a], start=g.rng.choice([0, 1, -1, -9]), end=g.rng.choice([1, -1, 9]))
    if op == "ConstantOfShape":
        return g.add(op, [g.constant(g.shape(), np.int64)])
    if op == "LayerNormalization" and g.opset >= 17:
        axis = g.rng.randrange(-value.ndim, value.ndim)
        held = g.constant(g.values(value.shape[axis:], np.float32))
        return g.add(op, [a, held], axis=axis)
    if op == "Resize":
        scales = g.constant([g.rng.choice([1, 2, 0.5, 1.5]) for _ in value.shape], np.float32)
        mode = g.rng.choice(["nearest", "linear"])
        turn = g.rng.choice(["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"])
        return g.add(op, [a, "", scales], mode=mode, coordinate_transformation_mode=turn)
    return g.add(op, [a])


KINDS = (unary, binary, binary, logic, cast, cast, clip, moves, moves, moves, parts, parts)
KINDS += (reductions, products, windows, codes, sizes)


def graph(seed, opset=None):
    """A model and its inputs, of a seed, and of any opset; nothing where none could be grown."""
    rng = random.Random(seed)
    g = Growing(rng, opset)
    dtype = rng.choice(
        [np.float32] * 8 + [np.int64, np.int32, np.float64, np.float16, np.bool_, np.uint8]
    )
    g.input(g.shape(), dtype)
    if rng.random() < 0.5:
        g.input(g.shape(), dtype)
    wanted, tries, kind = rng.randint(1, 6), 0, None
    while len(g.nodes) < wanted and tries < 40:
        tries += 1
        kind = kind if kind and rng.random() < 0.3 else rng.choice(KINDS)
        kind(g)
    return g.model() if g.nodes else None
