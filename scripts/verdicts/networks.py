"""Small FLOAT networks of the kinds that are converted, with seeded weights and inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

Values = dict[str, np.ndarray]
MASK = np.float32(-3.4028235e38)


class Network:
    """A graph under construction: `net.Relu(x)` adds a node and returns the name of its output."""

    def __init__(self, seed: int, opset: int = 17) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.values: Values = {}
        self.opset = opset
        self.count = 0

    def __getattr__(self, op: str) -> Callable[..., str]:
        return lambda *inputs, **attributes: self.node(op, inputs, **attributes)[0]

    def node(self, op: str, inputs: Any, outputs: int = 1, **attributes: Any) -> list[str]:
        self.count += 1
        name = f"{op.lower()}_{self.count}"
        made = [f"{name}_out{place or ''}" for place in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, name, **attributes))
        return made

    def input(self, *shape: int, low: float | None = None, high: int | None = None) -> str:
        """Normal values; from `low`, or whole numbers below `high`."""
        name = f"x{len(self.inputs)}"
        if high is not None:
            value = self.random.integers(0, high, shape)
        elif low is not None:
            value = self.random.uniform(low, 1, shape).astype(np.float32)
        else:
            value = self.random.standard_normal(shape).astype(np.float32)
        return self.given(name, value)

    def given(self, name: str, value: np.ndarray) -> str:
        ty = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, ty, value.shape))
        self.values[name] = value
        return name

    def held(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def whole(self, *values: int) -> str:
        return self.held(values, np.int64)

    def weight(self, *shape: int, fan: int | None = None) -> str:
        fan = fan or int(np.prod(shape[:-1]))
        return self.held(self.random.standard_normal(shape) * (1.6 / fan) ** 0.5)

    def bias(self, size: int) -> str:
        return self.held(self.random.standard_normal(size) * 0.2)

    def near_one(self, size: int) -> str:
        return self.held(1 + self.random.standard_normal(size) * 0.2)

    def dense(self, x: str, taken: int, made: int) -> str:
        return self.Add(self.MatMul(x, self.weight(taken, made)), self.bias(made))

    def gemm(self, x: str, taken: int, made: int) -> str:
        return self.Gemm(x, self.weight(made, taken, fan=taken), self.bias(made), transB=1)

    def conv(self, x: str, taken: int, made: int, size: int = 3, **attributes: Any) -> str:
        attributes.setdefault("pads", [size // 2] * 4)
        taken //= attributes.get("group", 1)
        weight = self.weight(made, taken, size, size, fan=taken * size * size)
        return self.Conv(x, weight, self.bias(made), **attributes)

    def batch_norm(self, x: str, size: int) -> str:
        variance = self.held(self.random.uniform(0.5, 1.5, size))
        return self.BatchNormalization(
            x, self.near_one(size), self.bias(size), self.bias(size), variance, epsilon=1e-3
        )

    def gelu(self, x: str) -> str:
        error = self.Erf(self.Div(x, self.held(2**0.5)))
        return self.Mul(self.Mul(x, self.Add(error, self.held(1))), self.held(0.5))

    def layer_norm(self, x: str, size: int) -> str:
        """As exporters before opset 17 write it."""
        off = self.Sub(x, self.ReduceMean(x, axes=[-1]))
        spread = self.ReduceMean(self.Pow(off, self.held(2)), axes=[-1])
        normal = self.Div(off, self.Sqrt(self.Add(spread, self.held(1e-5))))
        return self.Add(self.Mul(normal, self.near_one(size)), self.bias(size))

    def rms_norm(self, x: str, size: int) -> str:
        power = self.ReduceMean(self.Pow(x, self.held(2)), axes=[-1])
        root = self.Sqrt(self.Add(power, self.held(1e-6)))
        return self.Mul(self.Mul(x, self.Reciprocal(root)), self.near_one(size))

    def heads(self, x: str, length: int, heads: int, size: int) -> str:
        split = self.Reshape(x, self.whole(1, length, heads, size))
        return self.Transpose(split, perm=[0, 2, 1, 3])

    def attention(
        self, x: str, length: int, width: int, heads: int, mask: Callable[[str], str]
    ) -> str:
        size = width // heads
        query, key, value = (
            self.heads(self.dense(x, width, width), length, heads, size) for _ in range(3)
        )
        scores = self.MatMul(query, self.Transpose(key, perm=[0, 1, 3, 2]))
        shares = self.Softmax(mask(self.Div(scores, self.held(size**0.5))), axis=-1)
        joined = self.Transpose(self.MatMul(shares, value), perm=[0, 2, 1, 3])
        return self.dense(self.Reshape(joined, self.whole(1, length, width)), width, width)

    def model(self, *outputs: str) -> ModelProto:
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "network", self.inputs, made, self.weights)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9
        )
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model)
        return model


def perceptron(net: Network) -> list[str]:
    x = net.Relu(net.gemm(net.input(4, 32), 32, 48))
    x = net.Tanh(net.gemm(x, 48, 48))
    return [net.Softmax(net.gemm(x, 48, 10), axis=1)]


def gelu_perceptron(net: Network) -> list[str]:
    x = net.gelu(net.dense(net.input(4, 24), 24, 64))
    return [net.dense(net.gelu(net.dense(x, 64, 64)), 64, 12)]


def activations(net: Network) -> list[str]:
    x = net.LeakyRelu(net.gemm(net.input(4, 24), 24, 32), alpha=0.2)
    x = net.PRelu(net.dense(x, 32, 32), net.held(net.random.uniform(0.1, 0.4, 32)))
    x = net.Elu(net.dense(x, 32, 32), alpha=0.7)
    x = net.Clip(net.dense(x, 32, 32), net.held(-1.5), net.held(1.5))
    return [net.Softplus(net.dense(x, 32, 8))]


def convolutional(net: Network) -> list[str]:
    x = net.Relu(net.batch_norm(net.conv(net.input(1, 3, 16, 16), 3, 8), 8))
    x = net.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.Relu(net.batch_norm(net.conv(x, 8, 12), 12))
    x = net.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2])
    return [net.gemm(net.Flatten(x, axis=1), 192, 10)]


def residual(net: Network) -> list[str]:
    x = net.Relu(net.conv(net.input(1, 3, 16, 16), 3, 12))
    for _ in range(2):
        inner = net.Relu(net.batch_norm(net.conv(x, 12, 12), 12))
        x = net.Relu(net.Add(net.batch_norm(net.conv(inner, 12, 12), 12), x))
    return [net.gemm(net.Flatten(net.GlobalAveragePool(x)), 12, 10)]


def mobile(net: Network) -> list[str]:
    x = net.conv(net.input(1, 3, 16, 16), 3, 16, strides=[2, 2])
    x = net.Mul(x, net.HardSigmoid(x, alpha=0.2, beta=0.5))
    deep = net.Relu(net.batch_norm(net.conv(x, 16, 16, group=16), 16))
    narrow = net.Relu(net.conv(net.GlobalAveragePool(deep), 16, 4, 1))
    gate = net.Sigmoid(net.conv(narrow, 4, 16, 1))
    x = net.Add(net.conv(net.Mul(deep, gate), 16, 16, 1), x)
    return [net.gemm(net.Flatten(net.GlobalAveragePool(x)), 16, 8)]


def u_net(net: Network) -> list[str]:
    x = net.Relu(net.conv(net.input(1, 2, 16, 16), 2, 8))
    low = net.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
    low = net.Relu(net.conv(low, 8, 16))
    weight = net.weight(16, 8, 2, 2, fan=16)
    high = net.ConvTranspose(low, weight, net.bias(8), strides=[2, 2])
    x = net.Relu(net.conv(net.Concat(x, high, axis=1), 16, 8))
    return [net.Sigmoid(net.conv(x, 8, 1, 1))]


def super_resolution(net: Network) -> list[str]:
    x = net.input(1, 1, 8, 8, low=0)
    scales = net.held([1, 1, 2, 2])
    wide = net.Resize(x, "", scales, mode="linear", coordinate_transformation_mode="half_pixel")
    inner = net.Relu(net.conv(x, 1, 16))
    inner = net.DepthToSpace(net.conv(inner, 16, 4), blocksize=2, mode="CRD")
    return [net.Clip(net.Add(wide, inner), net.held(0), net.held(1))]


def encoder(net: Network) -> list[str]:
    length, width = 8, 32
    x = net.input(1, length, width)
    kept = net.Cast(net.given("mask", np.array([[1] * 6 + [0] * 2])), to=TensorProto.BOOL)
    kept = net.Unsqueeze(kept, net.whole(1, 2))
    shown = net.Where(kept, net.held(0), net.held(MASK))
    for _ in range(2):
        made = net.attention(x, length, width, 4, lambda s: net.Add(s, shown))
        x = net.layer_norm(net.Add(x, made), width)
        inner = net.dense(net.gelu(net.dense(x, width, 64)), 64, width)
        x = net.layer_norm(net.Add(x, inner), width)
    return [net.Tanh(net.dense(net.Gather(x, net.held(0, np.int64), axis=1), width, width))]


def decoder(net: Network) -> list[str]:
    length, width = 8, 32
    table = net.held(net.random.standard_normal((50, width)))
    x = net.Gather(table, net.input(1, length, high=50), axis=0)
    x = net.Add(x, net.held(net.random.standard_normal((1, length, width)) * 0.3))
    causal = net.held(np.triu(np.full((1, 1, length, length), MASK), 1))
    normal = net.LayerNormalization(x, net.near_one(width), net.bias(width), epsilon=1e-5, axis=-1)
    x = net.Add(x, net.attention(normal, length, width, 4, lambda s: net.Add(s, causal)))
    normal = net.LayerNormalization(x, net.near_one(width), net.bias(width), epsilon=1e-5, axis=-1)
    inner = net.dense(normal, width, 64)
    cubic = net.Mul(net.Pow(inner, net.held(3)), net.held(0.044715))
    bent = net.Tanh(net.Mul(net.Add(inner, cubic), net.held(0.7978846)))
    inner = net.Mul(net.Mul(inner, net.held(0.5)), net.Add(bent, net.held(1)))
    x = net.Add(x, net.dense(inner, 64, width))
    return [net.MatMul(x, net.weight(width, 50))]


def llama(net: Network) -> list[str]:
    length, width = 6, 32
    x = net.input(1, length, width)
    angles = np.outer(np.arange(length), 0.1 ** np.arange(4)).repeat(2, axis=-1)
    cosine, sine = net.held(np.cos(angles)), net.held(np.sin(angles))

    def turned(y: str) -> str:
        left, right = net.node("Split", [y, net.whole(4, 4)], 2, axis=-1)
        other = net.Concat(net.Neg(right), left, axis=-1)
        return net.Add(net.Mul(y, cosine), net.Mul(other, sine))

    normal = net.rms_norm(x, width)
    query, key, value = (
        net.heads(net.MatMul(normal, net.weight(width, width)), length, 4, 8) for _ in range(3)
    )
    scores = net.MatMul(turned(query), net.Transpose(turned(key), perm=[0, 1, 3, 2]))
    causal = net.held(np.tril(np.ones((1, 1, length, length))), np.bool_)
    scores = net.Where(causal, net.Mul(scores, net.held(8**-0.5)), net.held(-1e9))
    made = net.Transpose(net.MatMul(net.Softmax(scores, axis=-1), value), perm=[0, 2, 1, 3])
    made = net.Reshape(made, net.whole(1, length, width))
    x = net.Add(x, net.MatMul(made, net.weight(width, width)))
    normal = net.rms_norm(x, width)
    gate = net.MatMul(normal, net.weight(width, 64))
    inner = net.Mul(net.Mul(gate, net.Sigmoid(gate)), net.MatMul(normal, net.weight(width, 64)))
    return [net.Add(x, net.MatMul(inner, net.weight(64, width)))]


def vision(net: Network) -> list[str]:
    width = 24
    weight = net.weight(width, 3, 4, 4, fan=48)
    x = net.Conv(net.input(1, 3, 16, 16), weight, net.bias(width), strides=[4, 4])
    x = net.Transpose(net.Reshape(x, net.whole(1, width, 16)), perm=[0, 2, 1])
    x = net.Concat(net.held(net.random.standard_normal((1, 1, width))), x, axis=1)
    normal = net.layer_norm(x, width)
    x = net.Add(x, net.attention(normal, 17, width, 3, lambda s: s))
    inner = net.gelu(net.dense(net.layer_norm(x, width), width, 48))
    x = net.Add(x, net.dense(inner, 48, width))
    first = net.Slice(x, net.whole(0), net.whole(1), net.whole(1))
    return [net.dense(net.Squeeze(first, net.whole(1)), width, 10)]


def lstm(net: Network) -> list[str]:
    wide, narrow = net.weight(1, 64, 12, fan=12), net.weight(1, 64, 16, fan=16)
    made = net.node(
        "LSTM",
        [net.input(7, 2, 12), wide, narrow, net.held(net.random.standard_normal((1, 128)) * 0.2)],
        3,
        hidden_size=16,
    )
    x = net.Transpose(net.Squeeze(made[0], net.whole(1)), perm=[1, 0, 2])
    return [net.dense(x, 16, 6), made[1]]


def gru(net: Network) -> list[str]:
    wide, narrow = net.weight(2, 36, 10, fan=10), net.weight(2, 36, 12, fan=12)
    bias = net.held(net.random.standard_normal((2, 72)) * 0.2)
    made = net.node(
        "GRU",
        [net.input(6, 2, 10), wide, narrow, bias],
        2,
        hidden_size=12,
        direction="bidirectional",
        linear_before_reset=1,
    )
    x = net.Reshape(net.Transpose(made[0], perm=[0, 2, 1, 3]), net.whole(6, 2, 24))
    return [net.dense(net.ReduceMean(x, axes=[0], keepdims=0), 24, 5)]


def temporal(net: Network) -> list[str]:
    x = net.input(1, 8, 24)
    for dilation in (1, 2, 4):
        padded = net.Pad(x, net.whole(0, 0, 2 * dilation, 0, 0, 0))
        weight = net.weight(8, 8, 3, fan=24)
        made = net.Conv(padded, weight, net.bias(8), dilations=[dilation])
        x = net.Add(net.Relu(made), x)
    return [net.gemm(net.ReduceMax(x, axes=[2], keepdims=0), 8, 4)]


def autoencoder(net: Network) -> list[str]:
    x = net.Elu(net.conv(net.input(1, 1, 16, 16, low=0), 1, 8, strides=[2, 2]), alpha=1.0)
    x = net.Elu(net.conv(x, 8, 4, strides=[2, 2]), alpha=1.0)
    for taken, made in ((4, 8), (8, 1)):
        weight = net.weight(taken, made, 4, 4, fan=taken * 4)
        x = net.ConvTranspose(x, weight, net.bias(made), strides=[2, 2], pads=[1] * 4)
        x = net.Tanh(x) if made > 1 else net.Sigmoid(x)
    return [x]


def spectrogram(net: Network) -> list[str]:
    frames = net.Reshape(net.input(1, 256), net.whole(8, 32))
    window = net.Mul(frames, net.held(np.hanning(32)))
    angles = 2 * np.pi * np.outer(np.arange(32), np.arange(17)) / 32
    real = net.MatMul(window, net.held(np.cos(angles)))
    other = net.MatMul(window, net.held(np.sin(angles)))
    power = net.Add(net.Pow(real, net.held(2)), net.Pow(other, net.held(2)))
    bands = net.MatMul(power, net.held(np.abs(net.random.standard_normal((17, 10)))))
    loud = net.Log(net.Add(bands, net.held(1e-2)))
    return [net.Relu(net.dense(net.Sub(loud, net.ReduceMean(loud, axes=[0])), 10, 6))]


def detector(net: Network) -> list[str]:
    x = net.conv(net.input(1, 3, 8, 8), 3, 16)
    x = net.conv(net.Mul(x, net.Sigmoid(x)), 16, 7, 1)
    x = net.Transpose(net.Reshape(x, net.whole(1, 7, 64)), perm=[0, 2, 1])
    place, size, score = net.node("Split", [x, net.whole(2, 2, 3)], 3, axis=2)
    grid = net.held(np.stack(np.meshgrid(np.arange(8), np.arange(8)), -1).reshape(1, 64, 2))
    middle = net.Mul(net.Add(net.Sigmoid(place), grid), net.held(4))
    half = net.Mul(net.Exp(size), net.held(0.5))
    corners = net.Concat(net.Sub(middle, half), net.Add(middle, half), axis=2)
    return [corners, net.Sigmoid(score)]


def bag_of_words(net: Network) -> list[str]:
    table = net.held(net.random.standard_normal((80, 16)))
    x = net.Gather(table, net.input(3, 9, high=80), axis=0)
    mean, most = net.ReduceMean(x, axes=[1], keepdims=0), net.ReduceMax(x, axes=[1], keepdims=0)
    x = net.Relu(net.gemm(net.Concat(mean, most, axis=1), 32, 24))
    return [net.LogSoftmax(net.gemm(x, 24, 5), axis=-1)]


def style(net: Network) -> list[str]:
    x = net.conv(net.input(1, 3, 12, 12), 3, 8)
    x = net.Relu(net.InstanceNormalization(x, net.near_one(8), net.bias(8), epsilon=1e-3))
    x = net.Resize(
        x,
        "",
        net.held([1, 1, 2, 2]),
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    return [net.Tanh(net.conv(x, 8, 3))]


def two_towers(net: Network) -> list[str]:
    made = []
    for _ in range(2):
        x = net.dense(net.Relu(net.dense(net.input(4, 20), 20, 32)), 32, 16)
        made.append(net.Div(x, net.ReduceL2(x, axes=[1])))
    scores = net.MatMul(made[0], net.Transpose(made[1], perm=[1, 0]))
    return [net.Softmax(net.Mul(scores, net.held(5)), axis=1)]


def branches(net: Network) -> list[str]:
    x = net.Relu(net.dense(net.input(4, 16), 16, 24))
    positive = net.Greater(net.ReduceMean(x, keepdims=0), net.held(0))
    outside, bodies = net.nodes, []
    for bent in (net.Tanh, net.Sigmoid):
        net.nodes = []
        made = bent(net.dense(x, 24, 12))
        info = helper.make_tensor_value_info(made, TensorProto.FLOAT, None)
        bodies.append(helper.make_graph(net.nodes, "body", [], [info]))
    net.nodes = outside
    return [net.dense(net.If(positive, then_branch=bodies[0], else_branch=bodies[1]), 12, 4)]


def wave(net: Network) -> list[str]:
    x = net.input(2, 10, 6)
    x = net.CumSum(x, net.held(1, np.int64))
    x = net.Concat(net.Sin(x), net.Cos(x), axis=2)
    pairs = net.Einsum(x, net.weight(12, 8), equation="bij,jk->bik")
    return [net.Sqrt(net.Add(net.Abs(net.ReduceSum(pairs, net.whole(1))), net.held(1e-3)))]


def mixer(net: Network) -> list[str]:
    x = net.input(1, 9, 16)
    turned = net.Transpose(net.layer_norm(x, 16), perm=[0, 2, 1])
    inner = net.dense(net.gelu(net.dense(turned, 9, 18)), 18, 9)
    x = net.Add(x, net.Transpose(inner, perm=[0, 2, 1]))
    inner = net.dense(net.gelu(net.dense(net.layer_norm(x, 16), 16, 32)), 32, 16)
    return [net.dense(net.ReduceMean(net.Add(x, inner), axes=[1], keepdims=0), 16, 5)]


ALL = [
    perceptron,
    gelu_perceptron,
    activations,
    convolutional,
    residual,
    mobile,
    u_net,
    super_resolution,
    encoder,
    decoder,
    llama,
    vision,
    lstm,
    gru,
    temporal,
    autoencoder,
    spectrogram,
    detector,
    bag_of_words,
    style,
    two_towers,
    branches,
    wave,
    mixer,
]


def networks() -> dict[str, tuple[ModelProto, Values]]:
    """Each network with inputs for it."""
    made = {}
    for seed, build in enumerate(ALL):
        net = Network(seed)
        outputs = build(net)
        made[build.__name__] = (net.model(*outputs), net.values)
    return made
