"""What results are about, row by row: tensors that were compared, and casts. Each keeps the JSON that it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ._show import shown

Json = dict[str, Any]


def number(value: object) -> Optional[float]:
    """A number of the JSON, in which NaN and infinities are strings and what is not known is null."""
    return None if value is None else float(value)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Tensor:
    """An output or an inner tensor: how far the conversion's values are from the reference's.

    Attributes:
        mismatches: Elements beyond the tolerance.
        passing_atol: The smallest tolerance that would pass on its own; so is ``passing_rtol``.
        why: Why it did not pass, in words.
        problem: Why it could not be compared.
    """

    name: str
    reference_type: Optional[str]
    converted_type: Optional[str]
    shape: Optional[list[int]]
    elements: int
    passed: bool
    identical: bool
    mismatches: int
    max_abs: Optional[float]
    max_rel: Optional[float]
    max_ulp: Optional[float]
    cosine: Optional[float]
    passing_atol: Optional[float]
    passing_rtol: Optional[float]
    first_mismatch: Optional[str]
    why: Optional[str]
    problem: Optional[str]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Json) -> Tensor:
        return Tensor(
            name=str(json.get("name")),
            reference_type=json.get("reference_type"),
            converted_type=json.get("converted_type"),
            shape=json.get("shape"),
            elements=int(json.get("elements") or 0),
            passed=bool(json.get("passed")),
            identical=bool(json.get("identical")),
            mismatches=int(json.get("mismatches") or 0),
            max_abs=number(json.get("max_abs")),
            max_rel=number(json.get("max_rel")),
            max_ulp=number(json.get("max_ulp")),
            cosine=number(json.get("cosine")),
            passing_atol=number(json.get("passing_atol")),
            passing_rtol=number(json.get("passing_rtol")),
            first_mismatch=json.get("first_mismatch"),
            why=json.get("why") or json.get("problem"),
            problem=json.get("problem"),
            json=json,
        )

    def cells(self) -> Sequence[str]:
        """A row about it."""
        types = {self.reference_type, self.converted_type}
        return (
            self.name,
            str(self.reference_type)
            if len(types) == 1
            else f"{self.reference_type} → {self.converted_type}",
            shown(self.max_abs),
            shown(self.cosine),
            "PASS" if self.passed else f"FAIL: {self.why}",
        )


@dataclass(frozen=True)
class Cast:
    """A cast, a quantiser or an operator on half precision, and what it did to the values that passed it.

    Attributes:
        outcomes: Elements by outcome: ``exact``, ``rounded``, ``overflowed``, ...
    """

    node: str
    op: Optional[str]
    graph: Optional[str]
    source_type: Optional[str]
    target_type: Optional[str]
    elements: int
    outcomes: dict[str, int]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Json) -> Cast:
        outcomes = json.get("outcomes") or {}
        return Cast(
            node=str(json.get("node")),
            op=json.get("op"),
            graph=json.get("graph"),
            source_type=json.get("from"),
            target_type=json.get("to"),
            elements=int(json.get("elements") or 0),
            outcomes={str(kind): int(count) for kind, count in outcomes.items()},
            json=json,
        )

    @property
    def damage(self) -> str:
        """What became of the values that are not exact, the worst first, such as ``2 overflowed``."""
        worst = reversed(self.outcomes.items())
        return ", ".join(f"{count} {kind}" for kind, count in worst if count and kind != "exact")

    def __str__(self) -> str:
        types = f"{self.source_type} to {self.target_type}"
        return f"`{self.node}` {types}" + (f": {self.damage}" if self.damage else "")

    def cells(self) -> Sequence[str]:
        """A row about it."""
        did = ", ".join(f"{count} {kind}" for kind, count in self.outcomes.items() if count)
        return (self.node, f"{self.source_type} → {self.target_type}", str(self.elements), did)
