"""What README.md and docs/ show of Python, run as it stands in a folder with the repository's models."""

import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onnx_cast

ROOT = Path(__file__).parents[2]
#: With the fewest examples that each has.
PAGES = {"README.md": 6, "docs/python.md": 25}
X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)

pytest.importorskip("onnxconverter_common")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxslim")


@pytest.mark.parametrize("page", PAGES)
def test_the_page_shows_what_is_printed(page, tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(
        str(ROOT / page),
        module_relative=False,
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert tried >= PAGES[page] and failed == 0


def blocks(page):
    """The blocks of Python that a page shows as a file's and not as a session's."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model, its input and the repository's models."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(ROOT / "models")
    case = ROOT / "models" / "whole" / "rms_norm_FLOAT"
    shutil.copy(case / "model.onnx", "model.onnx")
    return tmp_path


def test_the_script_that_saves_tensors_of_onnx_runtime(folder):
    (script,) = blocks("docs/checking-a-conversion.md")
    np.savez("inputs.npz", x=X)
    (folder / "dump.py").write_text(script)
    words = [sys.executable, "dump.py", "model.onnx", "inputs.npz", "dump.npz"]
    subprocess.run(words, check=True)
    assert onnx_cast.compare("model.onnx", "dump.npz", rtol=1e-3, atol=1e-4).passed


def test_the_call_that_converts(folder):
    (lines,) = blocks("docs/converting.md")
    names = {"onnx_cast": onnx_cast, "x": X}
    exec(lines, names)
    assert names["converted"].passed and (folder / "model_fp16.onnx").exists()


def test_the_check_that_reduces(folder):
    (lines,) = blocks("docs/reducing.md")

    def right(model, inputs):
        return onnxruntime.InferenceSession(model).run(None, inputs)[0] + 1

    exec(lines, {"onnx_cast": onnx_cast, "np": np, "onnxruntime": onnxruntime, "right": right})
    assert (folder / "case" / "model.onnx").exists()


def test_the_test_of_the_fixture(pytester):
    (lines,) = blocks("docs/python.md")
    (pytester.path / "models").symlink_to(ROOT / "models")
    pytester.makepyfile(lines)
    pytester.runpytest_subprocess("-q").assert_outcomes(failed=1)
