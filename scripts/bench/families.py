"""Networks of families that scripts/verdicts lacks: a cache, suppression of boxes, diffusion, a merged decoder, QDQ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import ModelProto, TensorProto, helper

from verdicts.networks import Network


def body(
    net: Network, made: Callable[[], list[str]], inputs: Sequence[str] = ()
) -> helper.GraphProto:
    """What a function adds, as a body of its own."""
    outside, net.nodes = net.nodes, []
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in made()]
    nodes, net.nodes = net.nodes, outside
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in inputs]
    return helper.make_graph(nodes, "body", given, outputs)


def cached(net: Network, x: str, width: int, past: tuple[str, str]) -> tuple[str, str, str]:
    """Attention of one new token on all before it; what comes out, and the new cache."""
    query, key, value = (net.heads(net.dense(x, width, width), 1, 4, width // 4) for _ in range(3))
    key, value = (net.Concat(old, new, axis=2) for old, new in zip(past, (key, value), strict=True))
    scores = net.MatMul(query, net.Transpose(key, perm=[0, 1, 3, 2]))
    scores = net.Mul(scores, net.held((width // 4) ** -0.5))
    made = net.MatMul(net.Softmax(scores, axis=-1), value)
    made = net.Reshape(net.Transpose(made, perm=[0, 2, 1, 3]), net.whole(1, 1, width))
    return net.dense(made, width, width), key, value


def cached_decoder(net: Network) -> list[str]:
    """A step of a decoder, with keys and values of the steps before as inputs and outputs."""
    width, caches = 32, []
    table = net.held(net.random.standard_normal((50, width)))
    x = net.Gather(table, net.input(1, 1, high=50), axis=0)
    for _ in range(2):
        past = (net.input(1, 4, 6, 8), net.input(1, 4, 6, 8))
        made, key, value = cached(net, net.layer_norm(x, width), width, past)
        x = net.Add(x, made)
        inner = net.gelu(net.dense(net.layer_norm(x, width), width, 64))
        x = net.Add(x, net.dense(inner, 64, width))
        caches += [key, value]
    return [net.MatMul(x, net.weight(width, 50)), *caches]


def suppressed_boxes(net: Network) -> list[str]:
    """A feature pyramid whose boxes NonMaxSuppression chooses from."""
    x = net.Relu(net.conv(net.input(1, 3, 16, 16), 3, 8))
    low = net.Relu(net.conv(x, 8, 8, strides=[2, 2]))
    size = net.Concat(net.whole(1, 8), net.Slice(net.Shape(x), net.whole(2), net.whole(4)), axis=0)
    x = net.Add(x, net.Resize(low, "", "", size, mode="nearest"))
    x = net.Reshape(net.conv(x, 8, 6, 1), net.whole(1, 6, 256))
    place, extent, score = net.node("Split", [x, net.whole(2, 2, 2)], 3, axis=1)
    place, extent = (net.Transpose(y, perm=[0, 2, 1]) for y in (place, extent))
    half = net.Mul(net.Exp(extent), net.held(0.5))
    boxes = net.Concat(net.Sub(place, half), net.Add(place, half), axis=2)
    score = net.Sigmoid(score)
    most, limit = net.held(4, np.int64), net.held(0.5)
    chosen = net.NonMaxSuppression(boxes, score, most, limit, limit)
    where = net.Squeeze(net.Slice(chosen, net.whole(2), net.whole(3), net.whole(1)), net.whole(1))
    return [boxes, score, net.Gather(boxes, where, axis=1)]


def diffusion_u_net(net: Network) -> list[str]:
    """Noise of a picture at a time step, whose sines and cosines an exporter writes out."""
    x = net.input(1, 4, 16, 16)
    step = net.Cast(net.given("step", np.array([487])), to=TensorProto.FLOAT)
    rates = net.held(np.exp(-np.log(1e4) * np.arange(8) / 8).reshape(1, 8))
    angles = net.Mul(net.Unsqueeze(step, net.whole(1)), rates)
    time = net.Concat(net.Cos(angles), net.Sin(angles), axis=1)
    time = net.gemm(net.Mul(time, net.Sigmoid(time)), 16, 16)

    def block(y: str, taken: int, made: int) -> str:
        groups = net.Reshape(y, net.whole(1, 4, -1))
        ones, zeros = net.held(np.ones(4)), net.held(np.zeros(4))
        normal = net.InstanceNormalization(groups, ones, zeros, epsilon=1e-5)
        y = net.Reshape(normal, net.Shape(y))
        y = net.conv(net.Mul(y, net.Sigmoid(y)), taken, made)
        shift = net.Unsqueeze(net.gemm(time, 16, made), net.whole(2, 3))
        return net.Add(y, shift)

    x = net.conv(x, 4, 16)
    low = block(net.conv(block(x, 16, 16), 16, 16, strides=[2, 2]), 16, 16)
    flat = net.Transpose(net.Reshape(low, net.whole(1, 16, 64)), perm=[0, 2, 1])
    flat = net.Add(flat, net.attention(net.layer_norm(flat, 16), 64, 16, 2, lambda s: s))
    low = net.Reshape(net.Transpose(flat, perm=[0, 2, 1]), net.whole(1, 16, 8, 8))
    high = net.Resize(low, "", net.held([1, 1, 2, 2]), mode="nearest")
    x = block(net.Concat(x, high, axis=1), 32, 16)
    return [net.conv(net.Mul(x, net.Sigmoid(x)), 16, 4)]


def merged_decoder(net: Network) -> list[str]:
    """A speech recogniser: an encoder of spectra, and a decoder that takes its cache or makes one in an If."""
    width = 32
    sound = net.gelu(net.Conv(net.input(1, 8, 24), net.weight(width, 8, 3, fan=24), pads=[1, 1]))
    sound = net.Transpose(sound, perm=[0, 2, 1])
    sound = net.Add(sound, net.attention(net.layer_norm(sound, width), 24, width, 4, lambda s: s))
    past = (net.input(1, 4, 5, 8), net.input(1, 4, 5, 8))
    has_past = net.given("has_past", np.array(True))
    token = net.Gather(net.held(net.random.standard_normal((60, width))), net.input(1, 1, high=60))
    projections = [(net.weight(width, width), net.bias(width)) for _ in range(2)]

    def made() -> list[str]:
        kept = [net.Add(net.MatMul(sound, weight), bias) for weight, bias in projections]
        return [net.heads(value, 24, 4, 8) for value in kept]

    def taken() -> list[str]:
        return [net.Identity(value) for value in past]

    bodies = {"then_branch": body(net, taken), "else_branch": body(net, made)}
    cache = net.node("If", [has_past], 2, **bodies)
    out, key, value = cached(net, net.layer_norm(token, width), width, tuple(cache))
    x = net.Add(token, out)
    return [net.MatMul(x, net.weight(width, 60)), key, value]


def quantised_beside_float(net: Network) -> list[str]:
    """A convolution of INT8 weights and quantised activations between others in FLOAT."""

    def quantised(y: str, scale: float) -> str:
        given = net.held(scale), net.held(128, np.uint8)
        return net.DequantizeLinear(net.QuantizeLinear(y, *given), *given)

    x = net.Relu(net.conv(net.input(1, 3, 12, 12), 3, 8))
    codes = net.held(net.random.integers(-127, 128, (8, 8, 3, 3)), np.int8)
    scales = net.held(net.random.uniform(0.5, 1, 8) / 600), net.held(np.zeros(8), np.int8)
    weight = net.DequantizeLinear(codes, *scales, axis=0)
    x = net.Relu(net.Conv(quantised(x, 0.03), weight, net.bias(8), pads=[1] * 4))
    x = net.GlobalAveragePool(quantised(x, 0.03))
    return [net.Softmax(net.gemm(net.Flatten(x), 8, 5), axis=-1)]


def delayed_scan(net: Network) -> list[str]:
    """A recurrent layer as a Scan over frames."""
    weight, inner = net.weight(12, 16), net.weight(16, 16)
    frames = net.dense(net.input(9, 2, 12), 12, 12)

    def step() -> list[str]:
        state = net.Tanh(net.Add(net.MatMul("frame", weight), net.MatMul("state", inner)))
        return [state, net.Identity(state)]

    made = body(net, step, ["state", "frame"])
    start = net.held(np.zeros((2, 16)))
    last, states = net.node("Scan", [start, frames], 2, num_scan_inputs=1, body=made)
    return [net.dense(states, 16, 4), last]


ALL = [
    cached_decoder,
    suppressed_boxes,
    diffusion_u_net,
    merged_decoder,
    quantised_beside_float,
    delayed_scan,
]


def families() -> dict[str, ModelProto]:
    """Each network by its name."""
    made = {}
    for seed, build in enumerate(ALL):
        net = Network(seed + 100)
        made[build.__name__] = net.model(*build(net))
    return made
