"""The fixture ``onnx_cast``: a test that fails with the culprit's name, and leaves the page.

def test_fp16(onnx_cast):
    onnx_cast.compare("model.onnx", "model_fp16.onnx", rtol=1e-2, atol=1e-2)
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from ._results import Audit, Comparison
    from ._written import Kept


#: What ``compare`` and ``keep`` have in common.
_PASSED_ON = (
    *("rtol", "atol", "ulp", "cosine", "sqnr", "sizes", "ranges", "seed", "random"),
    *("limit", "shuffle", "timeout", "max_memory", "max_nodes", "engine"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("onnx-cast")
    group.addoption(
        "--onnx-cast-reports",
        metavar="DIR",
        default="onnx-cast-reports",
        help="where tests with the fixture `onnx_cast` leave their pages [default: onnx-cast-reports]",
    )
    group.addoption(
        "--onnx-cast-reduce",
        action="store_true",
        help="leave the smallest part that still fails beside the page of a comparison that fails",
    )


class Checker:
    """``compare``, ``audit`` and ``keep`` of :mod:`onnx_cast`, whose failures fail the test and leave a page."""

    def __init__(self, folder: Path, test: str, reduces: bool = False) -> None:
        self._folder = folder
        self._reduces = reduces
        self._test = re.sub(r"[^\w.-]+", "_", test)
        self._pages = 0

    def compare(
        self, reference: Any, converted: Any, inputs: Any = None, **options: Any
    ) -> Comparison:
        """As :func:`onnx_cast.compare`."""
        __tracebackhide__ = True
        from . import compare

        result: Comparison = self._called(compare, reference, converted, inputs, **options)
        if not result.passed:
            said = _with_kept(result, reference, inputs, options)
            if self._reduces:
                said += f"\n{self._reduced(reference, converted, inputs, options)}"
            pytest.fail(said, pytrace=False)
        return result

    def audit(self, model: Any, inputs: Any = None, **options: Any) -> Audit:
        """As :func:`onnx_cast.audit`."""
        __tracebackhide__ = True
        from . import audit

        result: Audit = self._called(audit, model, inputs, **options)
        if not result.passed:
            pytest.fail(result.summary(), pytrace=False)
        return result

    def keep(self, model: Any, to: Any = "FLOAT16", inputs: Any = None, **options: Any) -> Kept:
        """As :func:`onnx_cast.keep`: fails where there is no list."""
        __tracebackhide__ = True
        from . import OnnxCastError, keep

        try:
            kept, problem = keep(model, to, inputs, **options), None
        except OnnxCastError as error:
            problem = f"{error.kind}: {error}"
        if problem or kept.problem:
            pytest.fail(problem or str(kept), pytrace=False)
        return kept

    def _called(self, function: Callable[..., Any], *given: Any, **options: Any) -> Any:
        """The result; the page of a call that passed goes, unless somebody asked for it."""
        __tracebackhide__ = True
        from . import OnnxCastError

        page = self._page() if "report" not in options else None
        problem = None
        try:
            result = function(*given, **options, **({"report": page} if page else {}))
        except OnnxCastError as error:
            # Outside of this, so that it is told once.
            problem = f"{error.kind}: {error}"
        if problem:
            pytest.fail(problem, pytrace=False)
        if page and result.passed:
            page.unlink(missing_ok=True)
            return replace(result, report=None)
        return result

    def _reduced(self, reference: Any, converted: Any, inputs: Any, options: dict[str, Any]) -> str:
        """What the smallest part is that still fails, or why there is none."""
        from . import OnnxCastError, reduce

        folder = self._folder / f"{self._test}-case-{self._pages}"
        shutil.rmtree(folder, ignore_errors=True)
        passed_on = {name: options[name] for name in (*_PASSED_ON, "sets") if name in options}
        try:
            reduced = reduce(reference, converted, folder, inputs, **passed_on)
        except OnnxCastError as error:
            return f"not reduced: {error}"
        return f"reduced: {reduced}"

    def _page(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._pages += 1
        number = "" if self._pages == 1 else f"-{self._pages}"
        return self._folder / f"{self._test}{number}.html"


def _with_kept(result: Comparison, reference: Any, inputs: Any, options: dict[str, Any]) -> str:
    """What a failed test says, with the nodes to keep where the program finds them by running."""
    from . import OnnxCastError, keep

    said = f"{_brief(result)}\n{result.summary()}"
    if result.half is None:
        return said
    passed_on = {name: options[name] for name in _PASSED_ON if name in options}
    try:
        kept = keep(reference, result.half, inputs, **passed_on)  # type: ignore[arg-type]
    except OnnxCastError:
        return said
    if not kept.nodes:
        return said
    return f"{said}\nremedy: node_block_list={kept.node_block_list!r}, a conversion that passes in simulation"


def _brief(result: Comparison) -> str:
    """The line that pytest's short summary cuts off after some words."""
    failed = [output for output in result.outputs if not output.passed]
    about = f"`{failed[0].name}`: {failed[0].why}" if failed else "not within the tolerance"
    if result.verdict == "broken" and result.culprits:
        return f"`{result.culprits[0].node}`: {result.culprits[0].text}; {about}"
    if result.blamed:
        return f"`{result.blamed.node}`: {result.blamed.damage}; {about}"
    return f"`{result.culprit}`; {about}" if result.culprit else about


@pytest.fixture
def onnx_cast(request: pytest.FixtureRequest) -> Checker:
    """Checks conversions in this test."""
    folder = request.config.rootpath / request.config.getoption("--onnx-cast-reports")
    reduces = bool(request.config.getoption("--onnx-cast-reduce"))
    return Checker(folder, request.node.name, reduces)
