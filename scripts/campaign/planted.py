"""`onnx-cast reduce` on planted faults: how many nodes are left, whether the faulty one is among them, runs, seconds.

    PYTHONPATH=scripts python -P -m campaign.planted target/release/onnx-cast FOLDER... [--pairs N] [--seed N]

Of the models below the folders, each with one fault at a node: an attribute changed, another operator, a weight scaled,
operands swapped, a detour that overflows, one that makes NaN. Half of the pairs are converted to FLOAT16 as well. A
pair counts if `compare` fails on it. A line each, and the shares at the end; a case fails in ONNX Runtime too if its two
models differ there by more than the tolerance. Needs onnx and onnxruntime.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TOLERANCE = {False: ["--rtol=1e-3", "--atol=1e-4"], True: ["--rtol=2e-2", "--atol=2e-2"]}
OTHER = {
    "Relu": "Neg",
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Sigmoid": "Tanh",
    "Tanh": "Sigmoid",
    "Exp": "Sqrt",
    "MaxPool": "AveragePool",
    "Erf": "Tanh",
    "Sqrt": "Abs",
    "ReduceMean": "ReduceSum",
    "Softmax": "LogSoftmax",
}


def names(model):
    return {name for node in model.graph.node for name in (node.name, *node.input, *node.output)}


def attribute(model, node, rng):
    """Another value of an attribute of the node."""
    for held in node.attribute:
        if held.name in ("epsilon", "alpha", "beta", "gamma"):
            held.f = held.f * 4 + 0.25
            return f"{held.name} changed"
    return None


def operator(model, node, rng):
    """Another operator in the node's place."""
    other = OTHER.get(node.op_type)
    if other is None:
        return None
    node.op_type = other
    if other == "AveragePool":
        kept = [
            held
            for held in node.attribute
            if held.name in ("kernel_shape", "pads", "strides", "auto_pad")
        ]
        del node.attribute[:]
        node.attribute.extend(kept)
    return f"{other} in its place"


def swapped(model, node, rng):
    """The operands the other way round."""
    if node.op_type not in ("Sub", "Div", "Pow") or node.input[0] == node.input[1]:
        return None
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return "operands swapped"


def weight(model, node, rng):
    """A weight of the node alone that is half as large again."""
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    for name in node.input:
        tensor = held.get(name)
        uses = sum(name == used for other in model.graph.node for used in other.input)
        if (
            tensor is None
            or uses != 1
            or tensor.data_type != TensorProto.FLOAT
            or tensor.external_data
        ):
            continue
        values = numpy_helper.to_array(tensor) * np.float32(1.5)
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float32), name))
        return f"{name} scaled"
    return None


def detour(model, node, rng, ops, about):
    """Nodes behind the node's first output."""
    place = list(model.graph.node).index(node)
    value = node.output[0]
    inner = value + "_before"
    node.output[0] = inner
    made = ops(inner, value)
    for offset, new in enumerate(made):
        model.graph.node.insert(place + 1 + offset, new)
    return about


def overflow(model, node, rng):
    """The result times 3e38, and back."""
    model.graph.initializer.append(numpy_helper.from_array(np.float32(3e38), "planted_large"))

    def ops(inner, value):
        return [
            helper.make_node(
                "Mul", [inner, "planted_large"], ["planted_product"], name="planted_scale"
            ),
            helper.make_node(
                "Div", ["planted_product", "planted_large"], [value], name="planted_unscale"
            ),
        ]

    return detour(model, node, rng, ops, "overflows")


def not_a_number(model, node, rng):
    """The square root of the result, squared."""

    def ops(inner, value):
        return [
            helper.make_node("Sqrt", [inner], ["planted_root"], name="planted_sqrt"),
            helper.make_node(
                "Mul", ["planted_root", "planted_root"], [value], name="planted_square"
            ),
        ]

    return detour(model, node, rng, ops, "NaN of what is negative")


FAULTS = [attribute, operator, swapped, weight, overflow, not_a_number]


def planted(model, rng):
    """The model with a fault, the names of the faulty nodes and what is wrong; nothing if it has no place for one."""
    types = floats(model)
    places = list(range(len(model.graph.node)))
    faults = rng.sample(FAULTS, len(FAULTS))
    for fault in faults:
        rng.shuffle(places)
        for place in places[:40]:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            node = copy.graph.node[place]
            if not node.output or types.get(node.output[0]) != TensorProto.FLOAT:
                continue
            about = fault(copy, node, rng)
            if about:
                new = [n.name for n in copy.graph.node if n.name.startswith("planted_")]
                return copy, new or [label(node)], f"{fault.__name__}: {about} at {node.op_type}"
    return None


def label(node):
    return node.name or next(name for name in node.output if name)


def floats(model):
    """The element types of values."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:
        inferred = model
    infos = [*inferred.graph.value_info, *inferred.graph.output]
    return {info.name: info.type.tensor_type.elem_type for info in infos}


def run(program, *arguments, timeout=600):
    """What a program says, its seconds, and the MiB of its largest process."""
    start = time.time()
    command = ["timeout", timeout, program, *arguments]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen([*map(str, command)], stdout=out, stderr=err)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        done = subprocess.CompletedProcess(command, child.returncode, out.read(), err.read())
    return done, time.time() - start, used.ru_maxrss >> 10


def is_valid(case):
    """Whether onnx's checker takes both models of a case, with its strict inference of types and shapes."""
    try:
        for name in ("reference.onnx", "model.onnx"):
            onnx.checker.check_model(str(case / name), full_check=True)
    except Exception:
        return False
    return True


def fails_in_onnxruntime(case, limit):
    """Whether the two models of a case differ there; nothing where it cannot run them."""
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    files = sorted(
        (case / "test_data_set_0").glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1])
    )
    given = [onnx.load_tensor(str(file)) for file in files]
    outputs = []
    try:
        for name in ("reference.onnx", "model.onnx"):
            session = onnxruntime.InferenceSession(
                str(case / name), quiet, providers=["CPUExecutionProvider"]
            )
            feeds = {}
            for tensor, taken in zip(given, session.get_inputs(), strict=True):
                to = {
                    "tensor(float)": np.float32,
                    "tensor(float16)": np.float16,
                    "tensor(double)": np.float64,
                }.get(taken.type)
                array = numpy_helper.to_array(tensor)
                feeds[taken.name] = array.astype(to) if to else array
            outputs.append(session.run(None, feeds)[0].astype(np.float64))
    except Exception as error:
        return f"cannot: {str(error)[:90]}"
    a, b = outputs
    if a.shape != b.shape:
        return True
    with np.errstate(invalid="ignore"):
        return not np.allclose(b, a, rtol=limit, atol=limit / 10, equal_nan=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=3_000_000, help="bytes of a model's file")
    parser.add_argument("--least", type=int, default=5, help="nodes of a model")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    files = sorted(file for folder in options.folders for file in folder.rglob("*.onnx"))
    files = [file for file in files if file.stat().st_size <= options.most]
    models = []
    for file in files:
        try:
            model = onnx.load(file)
        except Exception:
            continue
        for place, node in enumerate(model.graph.node):
            # Conversions rename outputs, by which nodes without names are called.
            node.name = node.name or f"node_{place}"
        if len(model.graph.node) >= options.least and not model.functions:
            models.append((file, model))
    rng.shuffle(models)
    print(f"{len(models)} models", flush=True)
    rows, tries = [], 0
    while len(rows) < options.pairs and tries < 12 * options.pairs:
        file, model = models[tries % len(models)]
        tries += 1
        row = pair(options.program, file, model, rng)
        if row:
            rows.append(row)
            print(*(f"{value}" for value in row.values()), sep=" | ", flush=True)
    shares(rows)


def pair(program, file, model, rng):
    """A row of what became of a pair; nothing where the models agree or cannot be run."""
    found = planted(model, rng)
    if not found:
        return None
    faulty, nodes, about = found
    is_half = rng.random() < 0.5
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        reference, converted, case = (
            folder / "reference.onnx",
            folder / "converted.onnx",
            folder / "case",
        )
        onnx.save(model, reference)
        onnx.save(faulty, converted)
        if is_half:
            half = folder / "half.onnx"
            done, _ = run(
                program, "convert", converted, "--to", "FLOAT16", "-o", half, "--unverified"
            )
            if done.returncode:
                return None
            converted = half
        row = {"file": f"{file.parent.name}/{file.name}", "half": is_half, "about": about}
        facts = measured(program, reference, converted, case, nodes, *TOLERANCE[is_half])
        if facts and "bytes" in facts:
            facts["onnxruntime"] = fails_in_onnxruntime(case, 2e-2 if is_half else 1e-3)
        return facts and row | facts


def measured(program, reference, converted, case, nodes, *options):
    """What `compare` and `reduce` say of a pair; nothing where `compare` does not fail in ten seconds."""
    pair = [reference, converted, *options]
    compared, seconds, memory = run(program, "compare", *pair, "--quiet", "--samples=0", timeout=10)
    if compared.returncode != 1:
        return None
    done, took, most = run(program, "reduce", *pair, "-o", case, "--json")
    if done.returncode:
        left = f"exit {done.returncode}: {done.stderr.strip()[:300]} {done.stdout[-300:]}"
        return {"nodes": nodes, "left": left}
    facts = json.loads(done.stdout)
    first = facts["cases"][0]
    left = [node for node, _ in first["left"]]
    return {
        "nodes": nodes,
        "left": len(left),
        "is_there": any(node in left for node in nodes),
        "all": facts["nodes"],
        "named": first["node"],
        "kind": first["kind"],
        "runs": facts["runs"],
        "seconds": round(took, 1),
        "compare": round(seconds, 1),
        "memory": most,
        "of_compare": round(most / memory, 2),
        "bytes": first["bytes"],
        "test": run(program, "test", case)[0].returncode,
        "valid": is_valid(case),
        "cases": len(facts["cases"]),
    }


def is_small(row):
    return isinstance(row["left"], int) and row["left"] <= 3


def shares(rows):
    done = [row for row in rows if isinstance(row["left"], int)]

    def share(condition):
        return f"{sum(map(condition, rows))} of {len(rows)}"

    print("written:", f"{len(done)} of {len(rows)}")
    print("at most 3 nodes left:", share(is_small))
    print("the faulty node is left:", share(lambda row: row.get("is_there") is True))
    print("below 100 KB:", share(lambda row: row.get("bytes", 1e9) < 100_000))
    print("`test` fails:", share(lambda row: row.get("test") == 1))
    print("the checker takes it:", share(lambda row: row.get("valid") is True))
    print("differs in ONNX Runtime:", share(lambda row: row.get("onnxruntime") is True))
    if done:
        for what in ("runs", "seconds", "compare", "memory", "of_compare"):
            values = sorted(row[what] for row in done)
            print(f"{what}: median {values[len(values) // 2]}, most {values[-1]}")


if __name__ == "__main__":
    main()
