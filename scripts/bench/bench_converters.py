"""`onnx-cast convert` beside onnxconverter-common, ONNX Runtime's float16 and AutoCast: which models are sound and load.

    python scripts/bench/bench_converters.py target/release/onnx-cast models/whole
    python scripts/bench/bench_converters.py target/release/onnx-cast models/whole --networks --autocast PYTHON

Of every model with FLOAT weights below the folders that ONNX Runtime runs, and of the networks of scripts/verdicts and
families.py. All converters have the same models; seconds are those of processors, with what a converter starts. A
converted model passes if `onnx.checker` does with full check, and shape inference that is strict and propagates data; it
holds if ONNX Runtime's outputs have a signal-to-noise ratio of 30 dB or more to the original's, on the same random
inputs. Only AutoCast runs the model; PYTHON is one that has nvidia-modelopt[onnx], which needs torch. Needs onnx,
onnxruntime and onnxconverter-common.
"""

import argparse
import json
import subprocess
import sys
import tempfile
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
MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
print(done.stdout)
sys.exit(done.returncode != 0)
"""
LEAST = 30.0


def casts(graph):
    """How many casts a graph has, those in its bodies among them."""
    bodies = [b for node in graph.node for a in node.attribute for b in [a.g, *a.graphs] if b.node]
    own = sum(node.op_type == "Cast" for node in graph.node)
    return own + sum(casts(body) for body in bodies)


def kept(path):
    """How many nodes of a graph and its bodies make FLOAT, casts and constants aside."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path, load_external_data=False))

    def count(graph):
        values = [*graph.value_info, *graph.output]
        wide = {v.name for v in values if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT}
        nodes = [node for node in graph.node if node.op_type not in ("Cast", "Constant")]
        bodies = [b for node in graph.node for a in node.attribute for b in [a.g, *a.graphs]]
        own = sum(any(name in wide for name in node.output) for node in nodes)
        return own + sum(count(body) for body in bodies if body.node)

    return count(model.graph)


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
    """Whether a command succeeds, how many seconds of processors it takes, its peak memory in MB, and what it says."""
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], capture_output=True, text=True)
    measured, _, said = done.stdout.partition("\n")
    seconds, memory = measured.split() if measured else (0, 0)
    return done.returncode == 0, float(seconds), int(memory) / 1024, said


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


def write_networks(folder):
    """Writes the networks of scripts/verdicts and families.py as files."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from bench.families import families
    from verdicts.networks import networks

    all_of_them = {name: model for name, (model, _) in networks().items()} | families()
    for name, model in all_of_them.items():
        onnx.save(model, str(folder / f"{name}.onnx"))


def commands(program, autocast):
    """The converters: what converts one file to another."""
    python = sys.executable
    ours = [program, "convert", "--to", "FLOAT16", "--unverified", "--json", "-o"]
    found = {
        "onnx-cast": lambda a, b: [*ours, b, a],
        "onnxconverter-common": lambda a, b: [python, "-c", COMMON, a, b],
        "ONNX Runtime's float16": lambda a, b: [python, "-c", RUNTIME, a, b],
    }
    if autocast:
        call = [autocast, "-m", "modelopt.onnx.autocast", "--keep_io_types", "--onnx_path"]
        found["AutoCast"] = lambda a, b: [*call, a, "--output_path", b]
    return found


class Row:
    """What became of the models by one converter."""

    def __init__(self):
        self.written = self.passed = self.loaded = self.held = self.fewer = self.fewer_kept = 0
        self.both = self.casts = self.our_casts = 0
        self.seconds = self.memory = 0.0

    def convert(self, command, output, feed, want):
        """Converts a model. Returns its casts and kept nodes, if it loads, and what was said."""
        done, seconds, memory, said = peak(command)
        self.written += done
        self.seconds += seconds
        self.memory = max(self.memory, memory)
        if not done:
            return None, said
        self.passed += is_sound(output)
        ran = run(output, feed)
        self.loaded += ran is not None
        self.held += ran is not None and bool(ratio(want, ran[1]) >= LEAST)
        if not ran:
            return None, said
        graph = onnx.load(output, load_external_data=False).graph
        return (casts(graph), kept(output)), said

    def beside(self, ours, theirs):
        """Counts a model that both have converted, and that loads."""
        self.both += 1
        self.our_casts += ours[0]
        self.casts += theirs[0]
        self.fewer += ours[0] <= theirs[0]
        self.fewer_kept += ours[1] <= theirs[1]

    def cells(self):
        """The row of the table."""
        counts = [self.written, self.passed, self.loaded, self.held]
        beside = [self.casts, self.our_casts, self.both, self.fewer, self.fewer_kept]
        return [*counts, *beside, f"{self.seconds:.0f}", f"{self.memory:.0f}"]


def main():
    """Prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--networks", action="store_true")
    parser.add_argument("--autocast", metavar="PYTHON")
    given = parser.parse_args()
    converters = commands(given.program, given.autocast)
    rows = {name: Row() for name in converters}
    count, stays = 0, {}
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "networks").mkdir()
        if given.networks:
            write_networks(folder / "networks")
        for path, feed, want in models([*given.folders, folder / "networks"]):
            count += 1
            found = {}
            for name, command in converters.items():
                output = folder / f"{count}-{name}.onnx"
                made, said = rows[name].convert(command(str(path), str(output)), output, feed, want)
                if made:
                    found[name] = made
                if made and name == "onnx-cast":
                    for row in json.loads(said)["kept"]:
                        stays.setdefault((row["op"], row["why"]), set()).add(count)
            for name, made in found.items():
                if "onnx-cast" in found:
                    rows[name].beside(found["onnx-cast"], made)
    names = ["written", "pass", "load", "hold", "casts", "ours", "models", "fewer", "kept"]
    names += ["seconds", "MB"]
    print(f"{count} models\n\n| | {' | '.join(names)} |\n{'|---' * (len(names) + 1)}|")
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(map(str, row.cells()))} |")
    print("\n| stays | why | models |\n|---|---|---|")
    for (op, why), models_of in sorted(stays.items(), key=lambda row: (-len(row[1]), row[0])):
        print(f"| {op} | {why} | {len(models_of)} |")


if __name__ == "__main__":
    main()
