"""What converters make of a network: sound conversions, which must not be called broken."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import onnxsim
import onnxslim
from onnx import ModelProto, version_converter
from onnxconverter_common import float16
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    matmul_nbits_quantizer,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from verdicts.networks import Values

Convert = Callable[[ModelProto, Values], ModelProto]
# How the program is called; plant.py sets it.
PROGRAM: list[str] = ["onnx-cast"]


class Batches(CalibrationDataReader):
    """The inputs themselves, and others of their size."""

    def __init__(self, values: Values) -> None:
        random = np.random.default_rng(1)
        others = [
            {
                name: (value * random.uniform(0.5, 1.2)).astype(value.dtype)
                if value.dtype == np.float32
                else value
                for name, value in values.items()
            }
            for _ in range(3)
        ]
        self.batches: Iterator[Values] = iter([values, *others])

    def get_next(self) -> Values | None:
        return next(self.batches, None)


def by_files(convert: Callable[[str, str], object], model: ModelProto) -> ModelProto:
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        source, target = f"{folder}/source.onnx", f"{folder}/target.onnx"
        onnx.save(model, source)
        convert(source, target)
        return onnx.load(target)


def of_copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def half(keep_io_types: bool) -> Convert:
    return lambda model, _: float16.convert_float_to_float16(
        of_copy(model), keep_io_types=keep_io_types, disable_shape_infer=False
    )


def bfloat16(model: ModelProto, values: Values) -> ModelProto:
    def convert(source: str, target: str) -> None:
        call = [*PROGRAM, "convert", source, "--to", "BFLOAT16", "--unverified", "-o", target]
        subprocess.run(call, check=True, capture_output=True)

    return by_files(convert, model)


def dynamic(model: ModelProto, _: Values) -> ModelProto:
    return by_files(
        lambda source, target: quantize_dynamic(source, target, weight_type=QuantType.QInt8),
        model,
    )


def static(quant_format: QuantFormat, per_channel: bool) -> Convert:
    def quantize(model: ModelProto, values: Values) -> ModelProto:
        def convert(source: str, target: str) -> None:
            prepared = str(Path(source).with_name("prepared.onnx"))
            quant_pre_process(source, prepared, skip_symbolic_shape=True)
            quantize_static(
                prepared,
                target,
                Batches(values),
                quant_format=quant_format,
                per_channel=per_channel,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )

        return by_files(convert, model)

    return quantize


def four_bits(model: ModelProto, _: Values) -> ModelProto:
    quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(
        of_copy(model), block_size=16, is_symmetric=False
    )
    quantizer.process()
    return quantizer.model.model


def simplified(model: ModelProto, _: Values) -> ModelProto:
    made, is_equal = onnxsim.simplify(model)
    if not is_equal:
        raise ValueError("onnxsim changed what the model does")
    return made


CONVERSIONS: dict[str, Convert] = {
    "float16": half(True),
    "float16_io": half(False),
    "bfloat16": bfloat16,
    "int8_dynamic": dynamic,
    "int8_qdq": static(QuantFormat.QDQ, False),
    "int8_qdq_channels": static(QuantFormat.QDQ, True),
    "int8_operators": static(QuantFormat.QOperator, False),
    "int4_blocks": four_bits,
    "opset_21": lambda model, _: version_converter.convert_version(of_copy(model), 21),
    "onnxsim": simplified,
    "onnxslim": lambda model, _: onnxslim.slim(of_copy(model)),
}


def convert(name: str, model: ModelProto, values: Values) -> ModelProto:
    """The conversion, each of its nodes named."""
    made = CONVERSIONS[name](model, values)
    for graph in graphs(made):
        for place, node in enumerate(graph.node):
            node.name = node.name or f"{node.op_type}_of_{node.output[0] or place}"
    return made


def graphs(model: ModelProto) -> list[onnx.GraphProto]:
    """The graph, and those of bodies."""
    found, left = [], [model.graph]
    while left:
        graph = left.pop()
        found.append(graph)
        left += [held.g for node in graph.node for held in node.attribute if held.HasField("g")]
    return found
