"""QuantizeLinear and DequantizeLinear in ONNX Runtime against ours, taking turns in one run.

usage: python scripts/bench/bench_quantizers.py SERVE TABLE [ELEMENTS ...]

SERVE and TABLE are those of bench_peers.py. Both run the same file, of one node whose scale and zero point are constants,
with one thread. A figure is the shortest of several rounds, in nanoseconds per element.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from bench_peers import NUMPY, Run, ask, pack, shortest, values
from onnx import TensorProto, helper

ROUNDS = 3
# The newest that ONNX Runtime has its quantisers for.
OPSET = 23
BYTES = ("UINT8", "INT8")
FLOAT8 = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
PACKED = ("UINT4", "INT4", "FLOAT4E2M1")
QUANTIZED = (*BYTES, "UINT16", "INT16", *FLOAT8, *PACKED)
# Elements of the scales' axis, and of a block.
AXIS = 256
BLOCK = 32
LAYOUTS = ("tensor", "axis 0", "axis 1", "blocks")


def model(operator: str, dtype: str, layout: str, elements: int, floating: str) -> onnx.ModelProto:
    """A quantiser of AXIS rows, or for axis 1 of AXIS columns; one that makes or takes elements of a floating type."""
    ids = {name: getattr(TensorProto, name) for name in (dtype, floating)}
    shape = [elements // AXIS, AXIS] if layout == "axis 1" else [AXIS, elements // AXIS]
    scales = {"tensor": [], "axis 0": [AXIS], "axis 1": [AXIS], "blocks": [AXIS, -1]}[layout]
    attributes = {} if layout == "tensor" else {"axis": int(layout != "axis 0")}
    if layout == "blocks":
        scales[1] = shape[1] // BLOCK
        attributes["block_size"] = BLOCK
    count = math.prod(scales)
    steps = (0.05 + np.arange(count) % 7 * 0.01).astype(NUMPY[floating])
    zero = 0 if "FLOAT" in dtype else 3
    constants = [
        helper.make_tensor("scale", ids[floating], scales, steps.astype(np.float32)),
        helper.make_tensor("zero", ids[dtype], scales, [zero] * count),
    ]
    node = helper.make_node(operator, ["x", "scale", "zero"], ["y"], **attributes)
    of, to = (floating, dtype) if operator == "QuantizeLinear" else (dtype, floating)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "g", [info("x", ids[of], shape)], [info("y", ids[to], shape)], constants
    )
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opset, ir_version=11)


def ort_run(model: onnx.ModelProto, of: str, to: str, x: np.ndarray) -> Run | None:
    """With memory of ours for input and output, which is neither copied nor allocated."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        source = pack(x) if of in PACKED else np.ascontiguousarray(x).view(np.uint8)
        target = np.zeros(len(x) * np.dtype(NUMPY[to]).itemsize, np.uint8)
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, getattr(TensorProto, of), shape, source.ctypes.data)
        binding.bind_output("y", "cpu", 0, getattr(TensorProto, to), shape, target.ctypes.data)
        inner, bound = session._sess, binding._iobinding

        def run(keep: object = (source, target, binding)) -> object:
            # The public wrapper costs more than a small tensor.
            return inner.run_with_iobinding(bound, None)

        run()
        return run
    except Exception:  # whatever ONNX Runtime says, it has no such quantiser
        return None


def main() -> None:
    serve, table, *words = sys.argv[1:]
    sizes = [int(word) for word in words] or [16 << 10, 1 << 20]
    server = subprocess.Popen([serve], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    head = [f"{layout}: ours, ONNX Runtime, ORT/ours" for layout in LAYOUTS]
    lines = [
        f"| elements | operator | types | {' | '.join(head)} |",
        "|---" * (3 + len(head)) + "|",
    ]
    cases = [
        (operator, dtype, floating)
        for operator in ("QuantizeLinear", "DequantizeLinear")
        for floating in ("FLOAT", "FLOAT16")
        for dtype in (QUANTIZED if floating == "FLOAT" else (*BYTES, *FLOAT8, "INT4"))
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        for elements in sizes:
            for operator, dtype, floating in cases:
                of, to = (floating, dtype) if operator == "QuantizeLinear" else (dtype, floating)
                cells = []
                for layout in LAYOUTS:
                    made = model(operator, dtype, layout, elements, floating)
                    onnx.save(made, path)
                    cells.append(cell(server, made, path, of, to, elements))
                lines.append(f"| {elements} | {operator} | {of} → {to} | {' | '.join(cells)} |")
                print(lines[-1], flush=True)
    Path(table).write_text("\n".join(lines) + "\n")


def cell(
    server: subprocess.Popen[str],
    made: onnx.ModelProto,
    path: Path,
    of: str,
    to: str,
    elements: int,
) -> str:
    run = ort_run(made, of, to, values(of, elements))
    ours = theirs = math.inf
    for _ in range(ROUNDS):
        ours = min(ours, ask(server, str(path), of, elements))
        if run is not None:
            theirs = min(theirs, shortest(run, elements))
    if theirs == math.inf:
        return f"{ours:.3f}, \N{EN DASH}"
    return f"{ours:.3f}, {theirs:.3f}, **{theirs / ours:.2f}**"


if __name__ == "__main__":
    main()
