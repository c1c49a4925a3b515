"""Small networks between QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from models.cases import Case
from models.sketch import FLOAT_TOLERANCE, Sketch, narrowed, uniform, whole_case
from reference.exact import DATA_TYPES
from reference.tensors import array_tensor, make_tensor

FEATURES, HIDDEN, BLOCK = 16, 12, 6


def quantizer_cases() -> Iterator[Case]:
    yield softmax_between()
    yield channels()
    yield blocks()
    yield float8_layer()
    yield microscaled()
    yield dynamic_parameters()
    yield same_bits()


def softmax_between() -> Case:
    """A softmax looks at its whole row, not at one of 256 codes."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", FEATURES])
    s.constant("in_scale", np.float32(0.03))
    s.constant("in_zero", np.uint8(128))
    s.constant("out_scale", np.float32(1 / 256))
    s.constant("out_zero", np.uint8(0))
    s.node("QuantizeLinear", ["x", "in_scale", "in_zero"], "x_q")
    s.node("DequantizeLinear", ["x_q", "in_scale", "in_zero"], "x_d")
    s.node("Softmax", ["x_d"], "soft", axis=-1)
    s.node("QuantizeLinear", ["soft", "out_scale", "out_zero"], "y")
    s.output("y", "UINT8", ["batch", FEATURES])
    name = "qdq_softmax"
    return whole_case(
        name,
        "A Softmax between UINT8 quantisers.",
        s.model(name, 13),
        [array_tensor("x", uniform(31, 3, FEATURES))],
        features=["QuantizeLinear", "DequantizeLinear", "UINT8", "symbolic_batch"],
    )


def channels() -> Case:
    """A scale for each channel, of weights and of what they make."""
    s = Sketch()
    s.input("x", "FLOAT", [1, 3, 5, 5])
    weights = np.arange(4 * 3 * 3 * 3, dtype=np.int64).reshape(4, 3, 3, 3) * 37 % 255 - 127
    s.constant("w", weights.astype(np.int8))
    s.constant("w_scale", np.array([0.01, 0.02, 0.005, 0.03], np.float32))
    s.constant("w_zero", np.zeros(4, np.int8))
    s.constant("y_scale", np.array([0.11, 0.07, 0.05, 0.2], np.float32))
    s.constant("y_zero", np.array([0, -300, 7, 1], np.int16))
    s.node("DequantizeLinear", ["w", "w_scale", "w_zero"], "w_d", axis=0)
    s.node("Conv", ["x", "w_d"], "product", kernel_shape=[3, 3])
    s.node("QuantizeLinear", ["product", "y_scale", "y_zero"], "y", axis=-3)
    s.output("y", "INT16", [1, 4, 3, 3])
    name = "qdq_channels"
    return whole_case(
        name,
        "A Conv of INT8 weights with a scale for each channel, quantised to INT16 by channels.",
        s.model(name, 21),
        [array_tensor("x", uniform(32, 1, 3, 5, 5))],
        features=["QuantizeLinear", "DequantizeLinear", "INT8", "INT16", "axis"],
    )


def blocks() -> Case:
    """The last block of a column is short."""
    s = Sketch()
    count = -(-FEATURES // BLOCK)
    s.input("x", "FLOAT", ["batch", FEATURES])
    s.initializer(narrowed("w", "INT4", uniform(33, FEATURES, HIDDEN) * 2.5))
    zeros = [(3 * i) % 7 for i in range(count * HIDDEN)]
    s.initializer(make_tensor("w_zero", "INT4", (count, HIDDEN), zeros))
    s.constant("w_scale", (0.1 + np.abs(uniform(34, count, HIDDEN))).astype(np.float32))
    s.node("DequantizeLinear", ["w", "w_scale", "w_zero"], "w_d", axis=0, block_size=BLOCK)
    s.node("MatMul", ["x", "w_d"], "y")
    s.output("y", "FLOAT", ["batch", HIDDEN])
    name = "qdq_blocks"
    return whole_case(
        name,
        f"A MatMul of INT4 weights in blocks of {BLOCK}, with zero points.",
        s.model(name, 21),
        [array_tensor("x", uniform(35, 3, FEATURES))],
        tolerance=FLOAT_TOLERANCE,
        features=["DequantizeLinear", "INT4", "block_size", "symbolic_batch"],
    )


def float8_layer() -> Case:
    """Numbers beyond the type's range saturate, unless the node says otherwise."""
    s = Sketch()
    s.input("x", "FLOAT16", ["batch", FEATURES])
    s.constant("scale", np.float16(0.01))
    s.initializer(make_tensor("zero", "FLOAT8E4M3FN", (), [0]))
    s.node("QuantizeLinear", ["x", "scale", "zero"], "kept")
    s.node("QuantizeLinear", ["x", "scale", "zero"], "lost", saturate=0)
    s.node("DequantizeLinear", ["kept", "scale", "zero"], "y")
    s.output("kept", "FLOAT8E4M3FN", ["batch", FEATURES])
    s.output("lost", "FLOAT8E4M3FN", ["batch", FEATURES])
    s.output("y", "FLOAT16", ["batch", FEATURES])
    name = "qdq_float8"
    return whole_case(
        name,
        "FLOAT16 to FLOAT8E4M3FN and back, with and without saturation.",
        s.model(name, 19),
        [array_tensor("x", (uniform(36, 3, FEATURES) * 2).astype(np.float16))],
        reference=True,
        features=["QuantizeLinear", "DequantizeLinear", "FLOAT8E4M3FN", "FLOAT16", "saturate"],
    )


def microscaled() -> Case:
    """Powers of two as scales, which the output cannot be."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", FEATURES])
    s.initializer(narrowed("w", "FLOAT4E2M1", uniform(37, FEATURES, HIDDEN) * 2))
    scales = [120 + (5 * i) % 9 for i in range(HIDDEN * 4)]
    s.initializer(make_tensor("w_scale", "FLOAT8E8M0", (4, HIDDEN), scales))
    to = DATA_TYPES["FLOAT"]
    attributes = {"axis": 0, "block_size": 4, "output_dtype": to}
    s.node("DequantizeLinear", ["w", "w_scale"], "w_d", **attributes)
    s.node("MatMul", ["x", "w_d"], "y")
    s.output("y", "FLOAT", ["batch", HIDDEN])
    name = "qdq_microscaled"
    return whole_case(
        name,
        "A MatMul of FLOAT4E2M1 weights with a FLOAT8E8M0 scale for each block.",
        s.model(name, 24),
        [array_tensor("x", uniform(38, 3, FEATURES))],
        tolerance=FLOAT_TOLERANCE,
        reference=True,
        features=["DequantizeLinear", "FLOAT4E2M1", "FLOAT8E8M0", "block_size", "output_dtype"],
    )


def dynamic_parameters() -> Case:
    """The scale and the zero point are computed from x."""
    s = Sketch()
    s.input("x", "FLOAT", ["batch", FEATURES])
    s.nodes_of("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])
    s.node("DequantizeLinear", ["q", "scale", "zero"], "back")
    s.output("q", "UINT8", ["batch", FEATURES])
    s.output("scale", "FLOAT", [])
    s.output("zero", "UINT8", [])
    s.output("back", "FLOAT", ["batch", FEATURES])
    name = "qdq_dynamic"
    return whole_case(
        name,
        "DynamicQuantizeLinear, undone by a DequantizeLinear of its scale and zero point.",
        s.model(name, 13),
        [array_tensor("x", uniform(39, 3, FEATURES))],
        features=["DynamicQuantizeLinear", "DequantizeLinear", "UINT8", "symbolic_batch"],
    )


def same_bits() -> Case:
    """The bits of a FLOAT, and those of four small integers."""
    s = Sketch()
    s.input("x", "FLOAT", ["n"])
    s.node("BitCast", ["x"], "bits", to=DATA_TYPES["INT32"])
    s.node("BitCast", ["bits"], "back", to=DATA_TYPES["FLOAT"])
    s.output("bits", "INT32", ["n"])
    s.output("back", "FLOAT", ["n"])
    name = "bit_cast"
    return whole_case(
        name,
        "A BitCast there and back.",
        s.model(name, 26),
        [array_tensor("x", uniform(40, 7))],
        reference=True,
        features=["BitCast", "INT32"],
    )
