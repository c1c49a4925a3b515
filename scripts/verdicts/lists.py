"""Whether the lists of `onnx-cast keep --to INT8|UINT8|FLOAT8E4M3FN|INT4` hold in ONNX Runtime.

    python -m verdicts.lists --program target/debug/onnx-cast [--to INT8] [--gain 6] [--only NETWORK] [--model FOLDER]

Each network of networks.py, and of each FOLDER/model.onnx with inputs beside it, is quantised by ONNX Runtime as the
list's line says, with no node left out. Then `keep` is asked for a list by which outputs have a ratio of signal to noise
that is `--gain` decibels better, and the network is quantised with that list. A line each: the ratio without the list,
the one asked for, the nodes of the list and how many of them are needed, and the ratio with it, of the worst output and
set; last that with the kernels by which ONNX Runtime replaces operators between quantisers, which round otherwise, and
may saturate. A list holds if the quantised model, run as it is, is within SLACK of what was asked for. Exit status 1 if a
list does not hold.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantType,
    matmul_nbits_quantizer,
    quantize_static,
)

from verdicts.conversions import Batches
from verdicts.networks import Values, networks

SLACK = 0.5
AS_IT_IS = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
BY_KERNELS = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
STATIC = {
    "INT8": {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8},
    "UINT8": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8},
    "FLOAT8E4M3FN": {
        "activation_type": QuantType.QFLOAT8E4M3FN,
        "weight_type": QuantType.QFLOAT8E4M3FN,
        "calibrate_method": CalibrationMethod.Distribution,
    },
}


class Sets(CalibrationDataReader):
    def __init__(self, sets: list[Values]) -> None:
        self.left = iter(sets)

    def get_next(self) -> Values | None:
        return next(self.left, None)


def quantised(model: Path, to: str, sets: list[Values], left_out: list[str]) -> ModelProto:
    if to == "INT4":
        quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(
            onnx.load(model), bits=4, block_size=128, nodes_to_exclude=left_out
        )
        quantizer.process()
        return quantizer.model.model
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/quantised.onnx"
        options = STATIC[to] | {"per_channel": True, "nodes_to_exclude": left_out}
        quantize_static(str(model), target, Sets(sets), **options)
        return onnx.load(target)


def outputs(
    model: ModelProto, sets: list[Values], level: onnxruntime.GraphOptimizationLevel = AS_IT_IS
) -> list[list[np.ndarray]]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    held = model.SerializeToString()
    session = onnxruntime.InferenceSession(held, options, providers=["CPUExecutionProvider"])
    return [session.run(None, values) for values in sets]


def ratio(wanted: list[list[np.ndarray]], got: list[list[np.ndarray]]) -> float:
    """That of the worst output of all sets, in decibels; integers count as numbers."""
    worst = math.inf
    for want, has in (
        (w, g) for ws, gs in zip(wanted, got, strict=True) for w, g in zip(ws, gs, strict=True)
    ):
        if want.dtype.kind not in "fiu":
            continue
        want, has = want.astype(np.float64), has.astype(np.float64)
        noise, signal = np.sum((want - has) ** 2), np.sum(want**2)
        if not np.isfinite(noise):
            return -math.inf
        if noise > 0:
            worst = min(worst, 10 * math.log10(signal / noise) if signal > 0 else -math.inf)
    return worst


def write(folder: Path, model: ModelProto, sets: list[Values]) -> None:
    onnx.save(model, folder / "model.onnx")
    order = [value.name for value in model.graph.input]
    for number, values in enumerate(sets):
        place = folder / "sets" / f"test_data_set_{number}"
        place.mkdir(parents=True)
        for at, name in enumerate(order):
            proto = numpy_helper.from_array(values[name], name)
            (place / f"input_{at}.pb").write_bytes(proto.SerializeToString())


def beside(folder: Path) -> tuple[ModelProto, list[Values]]:
    model = onnx.load(folder / "model.onnx")
    sets = []
    for place in sorted(folder.glob("test_data_set_*")):
        files = sorted(
            place.glob("input_*.pb"), key=lambda path: int(re.findall(r"\d+", path.name)[0])
        )
        protos = [onnx.TensorProto.FromString(file.read_bytes()) for file in files]
        sets.append({proto.name: numpy_helper.to_array(proto) for proto in protos})
    return model, sets


def judged(
    program: list[str], name: str, to: str, gain: float, model: ModelProto, sets: list[Values]
) -> bool | None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, model, sets)
        path = folder / "model.onnx"
        wanted = outputs(model, sets)
        try:
            without = ratio(wanted, outputs(quantised(path, to, sets, []), sets))
        except (
            Exception
        ) as problem:  # What ONNX Runtime cannot quantise or run says nothing of a list.
            print(f"{name:18} not quantised: {str(problem).splitlines()[0][:90]}")
            return None
        if without == math.inf:
            print(f"{name:18} nothing is quantised")
            return None
        least = max(round(without, 1), 0.0) + gain
        words = [
            "keep",
            str(path),
            "--to",
            to,
            "--sqnr",
            f"{least}",
            "-i",
            str(folder / "sets"),
            "--json",
        ]
        ran = subprocess.run([*program, *words], capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            print(f"{name:18} no list: {(ran.stderr or ran.stdout).splitlines()[-1][:120]}")
            return False
        found = json.loads(ran.stdout)
        nodes = [row["node"] for row in found["keep"]]
        made = quantised(path, to, sets, nodes)
        with_list, by_kernels = (
            ratio(wanted, outputs(made, sets, level)) for level in (AS_IT_IS, BY_KERNELS)
        )
        holds = with_list >= least - SLACK
        fewer = [[other for other in nodes if other != node] for node in nodes]
        needed = sum(
            ratio(wanted, outputs(quantised(path, to, sets, rest), sets)) < least for rest in fewer
        )
        left_out = f"{len(nodes):2} of {len(model.graph.node):3} left out ({needed} needed)"
        reached = f"{with_list:5.1f} with, {by_kernels:5.1f} by kernels"
        verdict = "" if holds else "  DOES NOT HOLD"
        start = f"{name:18} {without:6.1f} dB without, {least:5.1f} asked for"
        print(f"{start}, {left_out}, {reached}{verdict}", flush=True)
        return holds


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="onnx-cast", type=shlex.split)
    parser.add_argument("--to", default="INT8", choices=[*STATIC, "INT4"])
    parser.add_argument("--gain", default=6.0, type=float)
    parser.add_argument("--only", action="append")
    parser.add_argument("--model", action="append", default=[], type=Path)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    models = {
        name: (model, list(Batches(values).batches)) for name, (model, values) in networks().items()
    }
    models |= {folder.name: beside(folder) for folder in arguments.model}
    chosen = {
        name: held for name, held in models.items() if not arguments.only or name in arguments.only
    }
    told = [
        judged(arguments.program, name, arguments.to, arguments.gain, *held)
        for name, held in chosen.items()
    ]
    judged_ones = [holds for holds in told if holds is not None]
    print(f"{sum(judged_ones)} of {len(judged_ones)} lists hold")
    return 0 if all(judged_ones) else 1


if __name__ == "__main__":
    sys.exit(main())
