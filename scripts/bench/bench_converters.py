"""`onnx-cast convert` beside onnxconverter-common and ONNX Runtime's float16 tool: how many models are sound and load.

    python scripts/bench/bench_converters.py target/release/onnx-cast models/whole

Of every model with FLOAT weights below the folders that ONNX Runtime runs. A converted model passes if `onnx.checker`
does with full check, and shape inference that is strict and propagates data; it holds if ONNX Runtime's outputs have a
signal-to-noise ratio of 30 dB or more to the original's, on the same random inputs. Neither converter runs the model.
Needs onnx, onnxruntime and onnxconverter-common.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

COMMON = """
import sys, onnx
from onnxconverter_common import float16
onnx.save(float16.convert_float_to_float16(onnx.load(sys.argv[1]), keep_io_types=True), sys.argv[2])
"""
RUNTIME = """
import sys, onnx
from onnxruntime.transformers.float16 import convert_float_to_float16
onnx.save(convert_float_to_float16(onnx.load(sys.argv[1]), keep_io_types=True), sys.argv[2])
"""
LEAST = 30.0


def casts(graph):
    """How many casts a graph has, those in its bodies among them."""
    bodies = [b for node in graph.node for a in node.attribute for b in [a.g, *a.graphs] if b.node]
    own = sum(node.op_type == "Cast" for node in graph.node)
    return own + sum(casts(body) for body in bodies)


def is_sound(path):
    """Whether a file passes ONNX's own checks."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
        model = onnx.load(path, load_external_data=False)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception:
        return False
    return True


def run(path, feed=None):
    """The inputs, random where there are none, and the outputs of a model; None if it cannot be run."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    random = np.random.default_rng(0)
    try:
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        if feed is None:
            feed = {}
            for value in session.get_inputs():
                shape = [size if isinstance(size, int) and size > 0 else 2 for size in value.shape]
                kind = {"float": "float32", "double": "float64"}.get(
                    value.type[7:-1], value.type[7:-1]
                )
                numbers = (
                    random.standard_normal(shape)
                    if "float" in kind
                    else random.integers(0, 2, shape)
                )
                feed[value.name] = numbers.astype(kind)
        return feed, session.run(None, feed)
    except Exception:
        return None


def ratio(want, got):
    """The least signal-to-noise ratio of the outputs, in decibels."""
    least = np.inf
    for a, b in zip(want, got, strict=False):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        noise = np.square(a - b).sum() if a.shape == b.shape else np.inf
        if noise != 0:
            least = min(least, 10 * np.log10(np.square(a).sum() / noise))
    return least


def peak(command):
    """Whether a command succeeds, how many seconds it takes, its peak memory in MB, and what it says."""
    start = time.perf_counter()
    measure = (
        "import resource, subprocess, sys; "
        "s = subprocess.run(sys.argv[1:], capture_output=True, text=True); "
    )
    measure += (
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, s.stdout, sep='\\n'); "
        "sys.exit(s.returncode != 0)"
    )
    done = subprocess.run([sys.executable, "-c", measure, *command], capture_output=True, text=True)
    memory, _, said = done.stdout.partition("\n")
    return done.returncode == 0, time.perf_counter() - start, int(memory or 0) / 1024, said


def models(folders):
    """The files of models with FLOAT weights that are sound and that ONNX Runtime runs, with inputs and outputs."""
    for path in sorted(p for folder in folders for p in Path(folder).rglob("*.onnx")):
        try:
            weights = onnx.load(path, load_external_data=False).graph.initializer
        except Exception:
            continue
        if any(tensor.data_type == onnx.TensorProto.FLOAT for tensor in weights) and is_sound(path):
            ran = run(path)
            if ran and all(np.asarray(output).dtype.kind in "fiub" for output in ran[1]):
                yield path, *ran


def main(program, *folders):
    """Prints a table."""
    converters = {
        "onnx-cast": lambda a, b: [
            program,
            "convert",
            a,
            "--to",
            "FLOAT16",
            "--unverified",
            "-o",
            b,
        ],
        "onnxconverter-common": lambda a, b: [sys.executable, "-c", COMMON, a, b],
        "ONNX Runtime's float16": lambda a, b: [sys.executable, "-c", RUNTIME, a, b],
    }
    rows = {name: [0, 0, 0, 0, 0, 0.0, 0.0] for name in converters}
    count = both = 0
    stays = {}
    with tempfile.TemporaryDirectory() as folder:
        for path, feed, want in models(folders):
            count += 1
            found = {}
            for name, command in converters.items():
                output, row = Path(folder) / f"{count}-{name}.onnx", rows[name]
                done, seconds, memory, said = peak(command(str(path), str(output)))
                for line in said.splitlines():
                    if line.startswith("stays: ") and name == "onnx-cast":
                        op, why = line[7:].split(" `", 1)[0], line.rsplit("`: ", 1)[-1]
                        stays.setdefault((op, why), set()).add(count)
                row[0] += done
                row[5] += seconds
                row[6] = max(row[6], memory)
                if not done:
                    continue
                row[1] += is_sound(output)
                ran = run(output, feed)
                row[2] += ran is not None
                row[3] += ran is not None and bool(ratio(want, ran[1]) >= LEAST)
                if ran:
                    found[name] = casts(onnx.load(output, load_external_data=False).graph)
            if len(found) == len(converters):
                both += 1
                for name, number in found.items():
                    rows[name][4] += number
    print(f"{count} models; casts in the {both} that ONNX Runtime loads from both\n")
    print(
        "| | written | pass | load | hold | casts | seconds | peak MB |\n|---|---|---|---|---|---|---|---|"
    )
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(map(str, row[:5]))} | {row[5]:.0f} | {row[6]:.0f} |")
    print("\n| stays | why | models |\n|---|---|---|")
    for (op, why), models_of in sorted(stays.items(), key=lambda row: (-len(row[1]), row[0])):
        print(f"| {op} | {why} | {len(models_of)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
