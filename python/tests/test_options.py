"""Every option of a command is a keyword of its function, and the other way round."""

import inspect
import re
import subprocess

import pytest

import onnx_cast

#: Keywords whose options have another name.
NAMES = {
    "inputs": "input",
    "sizes": "set",
    "ranges": "range",
    "from_types": "from",
    "keep_ops": "keep_op",
    "directory": "output",
}
#: What the commands print and where, which the functions return, and how many models go at once.
SHELL_ALONE = {"help", "json", "quiet", "jobs"}
#: What is a word without an option; and what the module does itself.
MODULE_ALONE = {"model", "reference", "converted", "folder", "progress"}
#: Of what the functions do otherwise: `fix` runs no model, and `run` reads what it has had written.
OTHERWISE = {"fix": {"engine"}, "run": {"output"}}


@pytest.mark.parametrize(
    "name", ["audit", "compare", "convert", "fix", "keep", "record", "reduce", "run"]
)
def test_functions_have_the_options_of_the_shell(name):
    said = subprocess.run(
        [onnx_cast.program(), name, "--help"], check=True, capture_output=True, text=True
    ).stdout
    options = re.findall(r"^ {2,6}(?:-\w, )?--([a-z-]+)", said, re.MULTILINE)
    options = {option.replace("-", "_") for option in options}
    keywords = inspect.signature(getattr(onnx_cast, name)).parameters
    keywords = {NAMES.get(keyword, keyword) for keyword in keywords}
    assert {"timeout", "engine"} <= options
    assert options - SHELL_ALONE - OTHERWISE.get(name, set()) == keywords - MODULE_ALONE


@pytest.mark.parametrize("name", onnx_cast.__all__)
def test_what_is_public_is_described(name):
    public = getattr(onnx_cast, name)
    if name.startswith("__"):
        return
    text = inspect.getdoc(public)
    assert text
    if inspect.isfunction(public) and name != "program":
        assert all(f"{part}:\n" in text for part in ("Args", "Returns", "Raises", "Example"))
        assert "Optional[" in str(inspect.signature(public))
