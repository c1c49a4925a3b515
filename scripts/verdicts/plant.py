"""The verdicts of `onnx-cast compare`, no tolerance given, on sound conversions and on such with one fault planted.

    python -m verdicts.plant --program target/debug/onnx-cast [--faults 9] [--seed 1] [--only NETWORK] [--keep FOLDER]

Of each network of networks.py, and of each FLOAT model given by --model FOLDER/model.onnx, every conversion of
conversions.py is compared as it is, and `--faults` of them with a fault of faults.py in each. A fault counts as one if
ONNX Runtime (for BFLOAT16, which it has no kernels for, the program) makes outputs of it that are farther off those of
the sound conversion than that is off the network, and by more than LEAST. Kinds that begin with "kernel" are tensors that
ONNX Runtime saved of the faulty model, held against the sound one: a kernel that is off. A line each, and the shares at
the end; --keep writes the pairs that were judged otherwise than they should be. Exit status 1 if a sound conversion is
called broken, or less than 95 % of the faults are broken with the faulty node named first.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shlex
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, numpy_helper, shape_inference

from verdicts import conversions
from verdicts.faults import KINDS, Planted
from verdicts.networks import Values, networks

LEAST = 2e-3
# Up to which error outputs are of use: docs/verdict.md.
USE = {
    "float16": 0.05,
    "float16_io": 0.05,
    "bfloat16": 0.1,
    "int8_dynamic": 0.3,
    "int8_qdq": 0.3,
    "int8_qdq_channels": 0.3,
    "int8_operators": 0.3,
    "int4_blocks": 0.3,
}
# What onnxruntime 1.32's quantiser breaks by itself: it leaves out a Relu that the bodies of an If take as well.
CONVERTERS = {
    ("branches", f"int8_qdq{suffix}"): {f"matmul_{n}/MatMulAddFusion" for n in (1, 6, 9)}
    for suffix in ("", "_channels")
}


@dataclass
class Case:
    network: str
    conversion: str
    model: ModelProto
    values: Values
    converted: ModelProto
    # How far ONNX Runtime's outputs are off: a sound conversion's the network's, a faulty one's the sound one's.
    error: float
    kind: str = "sound"
    planted: Planted | None = None
    verdict: str = ""
    named: str = ""
    # What ONNX Runtime makes inside the faulty model, held against the sound one.
    saved: Values | None = None
    is_first: bool = False

    def __post_init__(self) -> None:
        nodes = CONVERTERS.get((self.network, self.conversion))
        if nodes and not self.planted:
            self.kind, self.planted = "converter's own", Planted(nodes, "a Relu left out")

    def line(self) -> str:
        what = self.planted.text if self.planted else ""
        first = "first" if self.is_first else f"named {self.named}" if self.planted else self.named
        return (
            f"{self.network:18} {self.conversion:18} {self.kind:16} {self.error:8.1e} "
            f"{self.verdict:10} {first:40} {what}"
        )

    def is_right(self) -> bool:
        if self.planted:
            return self.verdict == "broken" and self.is_first
        if self.error > 1.5 * USE.get(self.conversion, 1e-3):
            return self.verdict == "imprecise"
        return self.verdict != "broken"


def outputs(model: ModelProto, values: Values, program: list[str]) -> list[np.ndarray]:
    """What the model makes, in the order of its outputs."""
    is_bfloat16 = any(
        weight.data_type == onnx.TensorProto.BFLOAT16 for weight in model.graph.initializer
    )
    if not is_bfloat16:
        return [made.astype(np.float64) for made in run(model, values).values()]
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/model.onnx")
        np.savez(f"{folder}/inputs.npz", **values)
        call = ["run", f"{folder}/model.onnx", "-i", f"{folder}/inputs.npz", "-o", folder]
        subprocess.run([*program, *call], check=True, capture_output=True)
        found = [onnx.load_tensor(path) for path in sorted(Path(folder).glob("output_*.pb"))]
        return [numpy_helper.to_array(tensor).astype(np.float64) for tensor in found]


def run(model: ModelProto, values: Values) -> Values:
    """What ONNX Runtime makes, by name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    held = {tensor.name: tensor.type for tensor in session.get_inputs()}
    given = {
        name: value.astype(np.float16) if held[name] == "tensor(float16)" else value
        for name, value in values.items()
        if name in held
    }
    names = [tensor.name for tensor in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def inside(model: ModelProto, values: Values) -> Values:
    """All that the nodes of the main graph make."""
    copy = conversions.of_copy(model)
    held = {output.name for output in copy.graph.output}
    for node in copy.graph.node:
        names = [name for name in node.output if name and name not in held]
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return run(copy, values)


def around(model: ModelProto, names: set[str]) -> set[str]:
    """The nodes of the main graph whose bodies hold a node of these names."""
    found = set()
    for node in model.graph.node:
        bodies = [held.g for held in node.attribute if held.HasField("g")]
        if names & {inner.name for body in bodies for inner in body.node}:
            found.add(node.name)
    return found


def saturated(model: ModelProto, saved: Values) -> set[str]:
    """The products of codes that ONNX Runtime's own kernel saturates in, as it does on a CPU without VNNI."""
    held = saved | {held.name: numpy_helper.to_array(held) for held in model.graph.initializer}
    found = set()
    for node in model.graph.node:
        if node.op_type == "MatMulInteger" and all(name in held for name in node.input if name):
            a, b, *zeros = (held[name].astype(np.int64) if name else 0 for name in node.input)
            zeros = [*zeros, 0, 0]
            if np.any((a - zeros[0]) @ (b - zeros[1]) != held[node.output[0]]):
                found.add(node.name)
    return found


def apart(some: list[np.ndarray], others: list[np.ndarray]) -> float:
    """The largest error of an output by its size."""
    worst = 0.0
    for x, y in zip(some, others, strict=True):
        if x.shape != y.shape:
            raise ValueError("another shape")
        if not np.array_equal(np.isfinite(x), np.isfinite(y)):
            return np.inf
        size = np.linalg.norm(y[np.isfinite(y)])
        off = np.linalg.norm((x - y)[np.isfinite(y)])
        worst = max(worst, float(off / size) if size else float(off))
    return worst


def sound(args: argparse.Namespace, name: str, model: ModelProto, values: Values) -> list[Case]:
    cases = []
    exact = outputs(model, values, args.program)
    for conversion in conversions.CONVERSIONS:
        try:
            converted = conversions.convert(conversion, model, values)
            error = apart(outputs(converted, values, args.program), exact)
        except Exception as problem:
            print(f"{name:18} {conversion:18} no conversion: {str(problem)[:90]!r}")
            continue
        if converted.graph == model.graph:
            continue
        cases.append(Case(name, conversion, model, values, converted, error))
    return cases


def faulty(args: argparse.Namespace, cases: list[Case], rng: random.Random) -> list[Case]:
    """One fault of a kind after the other, at a conversion after the other."""
    made: list[Case] = []
    kinds = list(KINDS)
    rng.shuffle(kinds)
    cases = [case for case in rng.sample(cases, len(cases)) if not case.planted]
    for tried in range(6 * args.faults):
        if len(made) == args.faults:
            break
        case = cases[tried % len(cases)]
        for _ in kinds:
            kinds.append(kind := kinds.pop(0))
            if fault := plant(args, case, kind, rng):
                made.append(fault)
                break
    of_kernels = [
        case for case in cases if case.conversion in ("int8_dynamic", "int8_qdq", "opset_21")
    ]
    for case in of_kernels[:1]:
        for kind in rng.sample(["activation", "attribute", "bias", "axis"], 4):
            if fault := plant(args, case, kind, rng):
                fault.saved = inside(fault.converted, fault.values)
                # Of bodies nothing is saved but what the nodes that have them make.
                fault.planted.nodes |= around(fault.converted, fault.planted.nodes)
                fault.planted.nodes |= saturated(fault.converted, fault.saved | fault.values)
                fault.kind, fault.converted = f"kernel: {kind}", case.converted
                made.append(fault)
                break
    return made


def plant(args: argparse.Namespace, case: Case, kind: str, rng: random.Random) -> Case | None:
    sites = len(list(KINDS[kind](case.converted)))
    sound_outputs = outputs(case.converted, case.values, args.program)
    for place in rng.sample(range(sites), min(sites, 4)):
        copy = conversions.of_copy(case.converted)
        planted = list(KINDS[kind](copy))[place]()
        # Shapes that were inferred before may be others now.
        for graph in conversions.graphs(copy):
            del graph.value_info[:]
        try:
            # A node that does not take its input's type is refused, whatever the values are.
            shape_inference.infer_shapes(copy, check_type=True)
            moved = apart(outputs(copy, case.values, args.program), sound_outputs)
        except Exception:
            continue
        least = max(LEAST, case.error)
        if moved > least:
            return Case(
                case.network, case.conversion, case.model, case.values, copy, moved, kind, planted
            )
    return None


def judged(args: argparse.Namespace, case: Case) -> Case:
    """Asks the program."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write(folder, case)
        pair = (
            ["converted.onnx", "saved.npz"] if case.saved else ["reference.onnx", "converted.onnx"]
        )
        files = [str(folder / name) for name in pair]
        call = [*args.program, "compare", *files, "-i", str(folder / "inputs.npz"), "--json"]
        done = subprocess.run(call, capture_output=True, text=True)
        said = json.loads(done.stdout)
        comparison = (said.get("comparisons") or [{}])[0]
        case.verdict = comparison.get("verdict") or "error"
        culprits = comparison.get("culprits") or [{}]
        case.named = culprits[0].get("node", str(said.get("error") or "nothing"))
        case.is_first = bool(case.planted) and case.named in case.planted.nodes
        if args.keep and not case.is_right():
            kept = args.keep / f"{case.network}.{case.conversion}.{case.kind.replace(' ', '_')}"
            kept.mkdir(parents=True, exist_ok=True)
            write(kept, case)
            (kept / "planted.txt").write_text(case.line() + "\n")
    return case


def write(folder: Path, case: Case) -> None:
    onnx.save(case.model, str(folder / "reference.onnx"))
    onnx.save(case.converted, str(folder / "converted.onnx"))
    np.savez(folder / "inputs.npz", **case.values)
    if case.saved:
        np.savez(folder / "saved.npz", **case.saved)


def report(cases: list[Case]) -> int:
    def share(kind: str, cases: list[Case]) -> None:
        broken = sum(case.verdict == "broken" for case in cases)
        first = sum(case.is_right() for case in cases)
        print(f"{kind:24} {len(cases):5} {broken:7} {first:7} {100 * first / len(cases):6.1f} %")

    planted = [case for case in cases if case.planted]
    if planted:
        print(f"\n{'fault':24} {'count':>5} {'broken':>7} {'first':>7}")
        for key in ("kind", "conversion"):
            for kind in sorted({getattr(case, key) for case in planted}):
                share(kind, [case for case in planted if getattr(case, key) == kind])
        share("all", planted)
    others = [case for case in cases if not case.planted]
    verdicts = Counter(case.verdict for case in others)
    print(f"\nsound conversions: {len(others)}, {dict(verdicts)}")
    useless = [case for case in others if case.error > 1.5 * USE.get(case.conversion, 1e-3)]
    called = sum(case.verdict == "imprecise" for case in useless)
    print(
        f"of little use by their outputs in ONNX Runtime: {len(useless)}, called imprecise: {called}"
    )
    is_missed = len(planted) > 0 and sum(map(Case.is_right, planted)) < 0.95 * len(planted)
    return int(verdicts["broken"] > 0 or is_missed)


def given(path: Path) -> tuple[ModelProto, Values]:
    """A model beside its inputs, as its test data has them."""
    model = onnx.load(str(path))
    folder = next(iter(sorted(path.parent.glob("test_data_set_*"))), path.parent)
    values = {}
    for place, held in enumerate(model.graph.input):
        tensor = onnx.load_tensor(str(folder / f"input_{place}.pb"))
        values[held.name] = numpy_helper.to_array(tensor)
    for graph in conversions.graphs(model):
        for place, node in enumerate(graph.node):
            node.name = node.name or f"{node.op_type}_{place}"
    return model, values


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=shlex.split, required=True)
    parser.add_argument("--faults", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--model", type=Path, action="append", default=[])
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    logging.disable()
    conversions.PROGRAM[:] = args.program
    found = networks() | {str(path.parent.name): given(path) for path in args.model}
    cases = []
    for name, (model, values) in found.items():
        if args.only and name not in args.only:
            continue
        of_network = sound(args, name, model, values)
        rng = random.Random(f"{name} {args.seed}")
        of_network += faulty(args, of_network, rng)
        with ThreadPoolExecutor(args.jobs) as pool:
            for case in pool.map(lambda case: judged(args, case), of_network):
                print(("  " if case.is_right() else "! ") + case.line(), flush=True)
                cases.append(case)
    return report(cases)


if __name__ == "__main__":
    raise SystemExit(main())
