"""What README.md and docs/python.md show, run as it stands in a folder with the repository's models."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: With the fewest examples that each has.
PAGES = {"README.md": 6, "docs/python.md": 25}

pytest.importorskip("onnxconverter_common")
pytest.importorskip("onnxruntime")
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
