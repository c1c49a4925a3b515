"""Faults of ONNX Runtime's optimiser and kernels and of tools that rewrite models, each reduced to a case.

    PYTHONPATH=scripts python -P -m campaign.campaign onnx-cast FOLDER [--graphs N] [--seed N] [--models FOLDER...]

Over random graphs (`graphs`), onnx's own node tests and the models below folders, every tool of `tools` is judged (`judge`).
What it does wrong is reduced by `onnx-cast reduce --check`, which asks this process by a socket (`ask`). FOLDER/NAME is a
case for each tool, kind and set of operators that is left; FOLDER/rows.jsonl says what was found, with runs and seconds.
"""

import argparse
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime  # noqa: F401 - loaded once for all children
from onnx import numpy_helper

from campaign import graphs, judge, tools

ASK = Path(__file__).with_name("ask.py")


def sources(options):
    """Names, models and inputs."""
    for seed in range(options.seed, options.seed + options.graphs):
        try:
            made = graphs.graph(seed)
        except Exception:
            continue
        if made:
            yield f"graph {seed}", *made
    if options.nodes:
        from onnx.backend.test.case.node import collect_testcases

        for case in collect_testcases(None):
            if case.data_sets and case.model and re.match(options.nodes, case.name):
                yield case.name, case.model, [array(value) for value in case.data_sets[0][0]]
    for file in sorted(file for folder in options.models for file in folder.rglob("model.onnx")):
        data = file.parent / "test_data_set_0"
        count = len(list(data.glob("input_*.pb")))
        try:
            given = [onnx.load_tensor(str(data / f"input_{place}.pb")) for place in range(count)]
            yield str(file.parent.name), onnx.load(file), [numpy_helper.to_array(x) for x in given]
        except Exception:
            continue


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def feeds_of(model, arrays):
    held = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in held]
    return dict(zip(names, arrays, strict=False))


def serve(path):
    """Answers questions about parts: tool, model, folder of inputs; the status of what is wrong is the answer."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def answer():
        while True:
            asked, _ = listening.accept()
            with asked:
                tool, model, inputs = asked.recv(1 << 16).decode().split("\0")
                try:
                    status = status_of(tool, Path(model), Path(inputs))
                except Exception:
                    status = 1
                asked.sendall(bytes([status]))

    threading.Thread(target=answer, daemon=True).start()


def status_of(tool, file, inputs):
    model = onnx.load(file)
    files = sorted(inputs.glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
    arrays = [numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files]
    found = judge.judged(tool, model, feeds_of(model, arrays))
    return judge.KINDS[found[0]] if found else 0


def reduced(options, tool, kind, model, arrays, scratch):
    """What `onnx-cast reduce` makes of it."""
    case, whole = scratch / "case", scratch / "model.onnx"
    shutil.rmtree(case, ignore_errors=True)
    onnx.save(model, whole)
    given = []
    for name, value in feeds_of(model, arrays).items():
        np.save(scratch / f"{len(given)}.npy", value)
        given += ["-i", f"{name}={scratch / f'{len(given)}.npy'}"]
    check = f"{sys.executable} -SE {ASK} {scratch / 'socket'} {tool} {{model}} {{inputs}}"
    command = [options.program, "reduce", whole, "--check", check, "--status", judge.KINDS[kind]]
    start = time.time()
    done = subprocess.run(
        [*map(str, command), "-o", str(case), "--json", *given], capture_output=True, text=True
    )
    took = time.time() - start
    if done.returncode:
        return None, f"exit {done.returncode}: {done.stderr.strip()[:200]} {done.stdout[-200:]}"
    facts = json.loads(done.stdout)
    return case, {
        "left": [op for _, op in facts["cases"][0]["left"]],
        "nodes": facts["nodes"],
        "runs": facts["runs"],
        "seconds": round(took, 2),
        "bytes": facts["cases"][0]["bytes"],
    }


def told(case, tool):
    """The sentence of a case."""
    model = onnx.load(case / "model.onnx")
    data = case / "test_data_set_0"
    count = len(list(data.glob("input_*.pb")))
    arrays = [
        numpy_helper.to_array(onnx.load_tensor(str(data / f"input_{n}.pb"))) for n in range(count)
    ]
    found = judge.judged(tool, model, feeds_of(model, arrays))
    return found[1] if found else "no longer"


def signature(kind, text, model):
    """What tells faults apart before they are reduced: the message, or of wrong values the operators."""
    if kind in ("invalid", "refused"):
        return re.sub(r"\b[ncvx]\d+(_\d+)?\b|\d+", "#", text)[:160]
    return " ".join(sorted({node.op_type for node in model.graph.node}))


def campaign(options):
    options.folder.mkdir(parents=True, exist_ok=True)
    scratch = options.folder / "scratch"
    scratch.mkdir(exist_ok=True)
    (scratch / "socket").unlink(missing_ok=True)
    serve(scratch / "socket")
    seen, count = {}, 0
    log = options.folder / "rows.jsonl"
    for row in map(json.loads, log.read_text().splitlines() if log.exists() else []):
        seen[tuple(row["sign"])] = seen.get(tuple(row["sign"]), 0) + 1
        held = (row["tool"], row["kind"], "left", "_".join(row.get("left", []))[:60])
        seen[held] = seen.get(held, 0) + 1
    rows = log.open("a")
    for name, model, arrays in sources(options):
        count += 1
        if any(
            re.search("Random|Bernoulli|Multinomial", node.op_type) for node in model.graph.node
        ):
            continue
        for tool in options.tools:
            found = judge.judged(tool, model, feeds_of(model, arrays))
            if not found:
                continue
            kind, text = found
            sign = (tool, kind, signature(kind, text, model))
            if seen.setdefault(sign, 0) >= options.most:
                continue
            seen[sign] += 1
            case, facts = reduced(options, tool, kind, model, arrays, scratch)
            row = {"source": name, "tool": tool, "kind": kind, "sign": sign}
            if case is None:
                row["problem"] = facts
            else:
                left = "_".join(facts["left"])[:60]
                number = seen[tool, kind, "left", left] = (
                    seen.get((tool, kind, "left", left), 0) + 1
                )
                row |= {**facts, "text": told(case, tool)}
                if number <= options.most:
                    row["case"] = f"{tool}-{kind}-{left}-{number}"
                    shutil.rmtree(options.folder / row["case"], ignore_errors=True)
                    shutil.move(case, options.folder / row["case"])
            print(json.dumps(row), file=rows, flush=True)
            if tool in tools.LEVELS:
                break
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{count} models, {len(seen)} signatures, largest child {peak >> 10} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--graphs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", help="onnx's own node tests whose names begin so")
    parser.add_argument("--models", type=Path, nargs="*", default=[])
    parser.add_argument("--most", type=int, default=2, help="cases of one signature")
    parser.add_argument("--tools", nargs="*", default=[*tools.LEVELS, *tools.CONVERTERS])
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    campaign(options)


if __name__ == "__main__":
    main()
