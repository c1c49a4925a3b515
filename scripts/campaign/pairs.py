"""`onnx-cast reduce` without a tolerance on conversions with a fault planted: nodes left, runs, seconds, memory.

    PYTHONPATH=scripts python -P -m campaign.pairs PROGRAM [--faults N] [--seed N] [--only NETWORK] [--keep FOLDER]

Of each network of `verdicts`, N of its conversions with one fault each, as `verdicts.plant` makes them. A line each, and
the shares at the end, as `planted` tells them: a case fails in ONNX Runtime too if its two models differ there at all.
--keep keeps the pairs, with their cases, of which more than 3 nodes are left, or the planted one is not.
"""

import argparse
import logging
import random
import shutil
import tempfile
from pathlib import Path

from campaign.planted import fails_in_onnxruntime, is_small, measured, shares
from verdicts import conversions, plant
from verdicts.networks import networks

LIMIT = 1e-6


def row_of(program, case, keep):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        plant.write(folder, case)
        pair = [folder / "reference.onnx", folder / "converted.onnx", folder / "case"]
        given = ["-i", folder / "inputs.npz"]
        facts = measured(program, *pair, sorted(case.planted.nodes), *given)
        if facts and "bytes" in facts:
            facts["onnxruntime"] = fails_in_onnxruntime(folder / "case", LIMIT)
        about = {"network": case.network, "conversion": case.conversion, "fault": case.kind}
        if facts and keep and not (is_small(facts) and facts["is_there"]):
            kept = keep / ".".join(about.values()).replace(" ", "_")
            shutil.copytree(folder, kept, dirs_exist_ok=True)
            (kept / "planted.txt").write_text(f"{case.planted.text}\n{facts}\n")
    return facts and about | facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--faults", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    logging.disable()
    options.program = conversions.PROGRAM[:] = [options.program]
    rows = []
    for name, (model, values) in networks().items():
        if options.only and name not in options.only:
            continue
        rng = random.Random(f"{name} {options.seed}")
        cases = plant.faulty(options, plant.sound(options, name, model, values), rng)
        for case in cases:
            row = None if case.saved else row_of(*options.program, case, options.keep)
            if row:
                rows.append(row)
                print(*row.values(), sep=" | ", flush=True)
    shares(rows)


if __name__ == "__main__":
    main()
