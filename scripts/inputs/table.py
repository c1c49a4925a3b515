"""What is generated of inputs that nobody gives, held against the values saved beside the models.

    python -m inputs.table target/debug/onnx-cast FOLDER... [--sets N] [--all]

Each model below the folders runs on sets of generated inputs (`onnx-cast record`). A row is an input of a kind (an index,
a mask, a length …; `truth.py`), how many models have it, and in how many of them the generated values are of that kind;
below are those that are not, models that do not run, and outputs that are constant, NaN or saturated on generated inputs and
not on saved ones. `--all` lists every input. The exit status is 1 where fewer than 95 % of the typed inputs are right.
"""

import argparse
import json
import subprocess
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from inputs.truth import UNTYPED, kind_of, wrong

# Models of one Cast alone for each pair of types, which tell nothing of their inputs.
SINGLE_CASTS = {"node", "audit"}
RIGHT = 0.95
# So large a share of the elements at one end of the range is saturation.
SATURATED = 0.99


def read(folder, what):
    """The tensors of a set, in their order."""
    files = sorted(folder.glob(f"{what}_*.pb"), key=lambda path: int(path.stem.split("_")[-1]))
    return [numpy_helper.to_array(onnx.load_tensor(str(path))) for path in files]


def numbers(array):
    return None if array.dtype.kind == "O" else array.astype(np.float64)


def flaw(arrays):
    """What is suspicious of an output in all sets: NaN, constant, or at an end of its range."""
    numeric = [numbers(array) for array in arrays]
    if any(array is None for array in numeric):
        return None
    together = np.concatenate([array.ravel() for array in numeric])
    if not np.all(np.isfinite(together)):
        return "NaN or infinite"
    if together.size < 2:
        return None
    if together.min() == together.max():
        return "constant"
    at_ends = np.mean((together == together.min()) | (together == together.max()))
    is_binary = np.unique(together).size <= 2
    return "saturated" if at_ends > SATURATED and not is_binary else None


def of_model(program, path, sets):
    """Each typed input's row, and what is wrong with the model's run."""
    model = onnx.load(str(path), load_external_data=False)
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in held]
    outputs = [value.name for value in model.graph.output]
    beside = sorted(path.parent.glob("test_data_set_*")) or [path.parent]
    saved_inputs, saved_outputs = read(beside[0], "input"), read(beside[0], "output")
    asked = json.loads(subprocess.run(
        [program, "run", str(path), "--json"], capture_output=True, text=True, check=False
    ).stdout or "{}")  # fmt: skip
    taken = {
        i["name"]: i["taken_for"] for i in asked.get("inputs", {}).get("look", {}).get("inputs", [])
    }
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "record", str(path), folder, "--sets", str(sets)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            return path, [], [f"does not run: {ran.stderr.strip().splitlines()[-1][:160]}"]
        made = sorted(Path(folder).glob("test_data_set_*"))
        made_inputs = [read(one, "input") for one in made]
        made_outputs = [read(one, "output") for one in made]
    rows, flaws = [], []
    for place, (name, saved) in enumerate(zip(inputs, saved_inputs, strict=False)):
        kind = kind_of(str(path.parent), name, saved)
        if kind in UNTYPED - {"plain"}:
            continue
        generated = [numbers(one[place]) for one in made_inputs]
        why = wrong(kind, numbers(saved), generated) if kind else "the table of kinds lacks it"
        rows.append((kind or "?", name, why, taken.get(name, "plain numbers")))
    for place, (name, saved) in enumerate(zip(outputs, saved_outputs, strict=False)):
        found = flaw([one[place] for one in made_outputs])
        # Of one saved value nobody can tell whether it is constant.
        is_known = found != "constant" or saved.size > 1
        if found and is_known and flaw([saved]) is None:
            flaws.append(f"output `{name}` is {found}")
    return path, rows, flaws


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    models = sorted(path for folder in args.folders for path in folder.rglob("*.onnx"))
    models = [
        path
        for path in models
        if not SINGLE_CASTS & set(path.parts) and "invalid" not in path.parts
    ]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda path: of_model(args.program, path, args.sets), models))
    tally = defaultdict(lambda: [0, 0])
    for path, rows, flaws in done:
        for kind, name, why, taken in rows:
            tally[kind][0] += 1
            tally[kind][1] += why is None
            if why or args.all:
                print(f"{path.parent}: `{name}`, {kind}: taken for {taken}: {why or 'right'}")
        for found in flaws:
            print(f"{path.parent}: {found}")
    print("| kind | inputs | right |\n|---|--:|--:|")
    for kind, (count, right) in sorted(tally.items()):
        print(f"| {kind} | {count} | {right} |")
    typed = [counts for kind, counts in tally.items() if kind not in UNTYPED]
    count, right = (sum(column) for column in zip(*typed, strict=True))
    ran = sum(not any(found.startswith("does not run") for found in flaws) for _, _, flaws in done)
    flawed = sum(bool(flaws) for _, _, flaws in done) - (len(done) - ran)
    print(f"{ran} of {len(done)} models run, {flawed} with a constant, NaN or saturated output")
    print(f"{right} of {count} typed inputs are right, {100 * right / count:.1f} %")
    return int(right < RIGHT * count)


if __name__ == "__main__":
    raise SystemExit(main())
