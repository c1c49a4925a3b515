"""What docs/python.md shows, run as it stands in a folder with the repository's models."""

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"

pytest.importorskip("onnxconverter_common")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxslim")


def test_the_page_shows_what_is_printed(tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(PAGE.parents[1] / "models")
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(
        str(PAGE),
        module_relative=False,
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert tried > 15 and failed == 0
