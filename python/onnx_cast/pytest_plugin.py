"""The fixture ``onnx_cast``: a test that fails with the culprit's name, and leaves the page.

def test_fp16(onnx_cast):
    onnx_cast.compare("model.onnx", "model_fp16.onnx", rtol=1e-2, atol=1e-2)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from ._results import Audit, Comparison


#: What ``compare`` and ``keep`` have in common.
_PASSED_ON = ("rtol", "atol", "sizes", "seed", "timeout", "max_memory", "max_nodes")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("onnx-cast")
    group.addoption(
        "--onnx-cast-reports",
        metavar="DIR",
        default="onnx-cast-reports",
        help="where tests with the fixture `onnx_cast` leave their pages [default: onnx-cast-reports]",
    )


class Checker:
    """``compare`` and ``audit`` of :mod:`onnx_cast`, whose failures fail the test."""

    def __init__(self, folder: Path, test: str) -> None:
        self._folder = folder
        self._test = re.sub(r"[^\w.-]+", "_", test)
        self._pages = 0

    def compare(
        self, reference: Any, converted: Any, inputs: Any = None, **options: Any
    ) -> Comparison:
        """As :func:`onnx_cast.compare`."""
        __tracebackhide__ = True
        from . import OnnxCastError, compare

        options.setdefault("report", self._page())
        try:
            result = compare(reference, converted, inputs, **options)
        except OnnxCastError as error:
            pytest.fail(f"{error.kind}: {error}", pytrace=False)
        if not result.passed:
            pytest.fail(self._with_kept(result, inputs, options), pytrace=False)
        return result

    def audit(self, model: Any, inputs: Any = None, **options: Any) -> Audit:
        """As :func:`onnx_cast.audit`."""
        __tracebackhide__ = True
        from . import OnnxCastError, audit

        options.setdefault("report", self._page())
        try:
            result = audit(model, inputs, **options)
        except OnnxCastError as error:
            pytest.fail(f"{error.kind}: {error}", pytrace=False)
        if not result.passed:
            pytest.fail(result.summary(), pytrace=False)
        return result

    def _page(self) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._pages += 1
        number = "" if self._pages == 1 else f"-{self._pages}"
        return str(self._folder / f"{self._test}{number}.html")

    def _with_kept(self, result: Comparison, inputs: Any, options: dict[str, Any]) -> str:
        """What a failed test says, with the exact nodes to keep where the program finds them."""
        from . import OnnxCastError, keep

        parting = result.parting
        to = parting.culprit.target_type if parting and parting.culprit else None
        said = result.summary()
        if to not in ("FLOAT16", "BFLOAT16"):
            return said
        passed_on = {name: options[name] for name in _PASSED_ON if name in options}
        try:
            kept = keep(result.reference, to, inputs, **passed_on)
        except OnnxCastError:
            return said
        return (
            said + f"\nsmallest set that helps: node_block_list={kept.node_block_list!r}"
            if kept.nodes
            else said
        )


@pytest.fixture
def onnx_cast(request: pytest.FixtureRequest) -> Checker:
    """Checks conversions in this test."""
    folder = request.config.rootpath / request.config.getoption("--onnx-cast-reports")
    return Checker(folder, request.node.name)
