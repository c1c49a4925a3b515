"""What the cases of `models/found` show with the tools that are installed: TOOL__WHAT is a case of a tool of `tools`.

    PYTHONPATH=scripts python -P -m campaign.replay models/found

Prints a row for each: the case, the tool with its version, and what it does wrong. With --write, the expected outputs are
made anew by onnx's evaluator, and where that is at fault itself by ONNX Runtime. Exits with 1 if a case shows nothing.
"""

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime  # noqa: F401 - loaded once for all children
from onnx import numpy_helper

from campaign import judge, tools

PACKAGES = {
    "onnxsim": "onnxsim",
    "onnxslim": "onnxslim",
    "float16": "onnxconverter-common",
    **dict.fromkeys(tools.LEVELS, "onnxruntime"),
}


def case_of(folder):
    """A model, and its inputs by their names."""
    model = onnx.load(folder / "model.onnx")
    data = folder / "test_data_set_0"
    count = len(list(data.glob("input_*.pb")))
    given = [onnx.load_tensor(str(data / f"input_{place}.pb")) for place in range(count)]
    names = [value.name for value in model.graph.input]
    return model, dict(zip(names, map(numpy_helper.to_array, given), strict=True))


def write_outputs(folder, tool, model, feeds):
    data = folder / "test_data_set_0"
    right = judge.evaluated(model, feeds)
    if tool not in tools.LEVELS:
        plain = tools.run(model, feeds, "disabled")
        right = plain if judge.difference(right, plain) else right
    for place, value in enumerate(right):
        tensor = numpy_helper.from_array(np.asarray(value), model.graph.output[place].name)
        onnx.save_tensor(tensor, str(data / f"output_{place}.pb"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    missing = 0
    for folder in sorted(path.parent for path in options.folder.glob("*/model.onnx")):
        tool = folder.name.split("__")[0]
        model, feeds = case_of(folder)
        if options.write:
            write_outputs(folder, tool, model, feeds)
        kind, text = judge.judged(tool, model, feeds) or ("nothing", "")
        missing += kind == "nothing"
        package = PACKAGES.get(tool, "onnx")
        ops = " ".join(node.op_type for node in model.graph.node)
        print(f"| {folder.name} | {package} {version(package)} | {ops} | {kind} | {text[:110]} |")
    sys.exit(missing > 0)


if __name__ == "__main__":
    main()
