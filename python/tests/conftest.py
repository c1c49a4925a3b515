"""What the tests share: the repository's models, and the fixture of pytest's own that runs tests in a folder of their own."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

WHOLE = Path(__file__).parents[2] / "models" / "whole"


@pytest.fixture
def whole():
    """The folder of the models that are real networks in small."""
    return WHOLE
