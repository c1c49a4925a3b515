"""What the program found, as objects. Each keeps the JSON that it was made of, whose fields docs/report-format.md describes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from ._errors import ToleranceError
from ._graph import makers_and_readers

Json = dict[str, Any]


def number(value: object) -> Optional[float]:
    """A number of the JSON, in which NaN and infinities are strings and what is not known is null."""
    return None if value is None else float(value)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Tensor:
    """An output or an inner tensor: how far the conversion's values are from the reference's."""

    name: str
    reference_type: Optional[str]
    converted_type: Optional[str]
    shape: Optional[list[int]]
    elements: int
    passed: bool
    identical: bool
    #: Elements beyond the tolerance.
    mismatches: int
    max_abs: Optional[float]
    max_rel: Optional[float]
    max_ulp: Optional[float]
    cosine: Optional[float]
    #: The smallest tolerance that would pass, each on its own.
    passing_atol: Optional[float]
    passing_rtol: Optional[float]
    first_mismatch: Optional[str]
    #: Why it could not be compared.
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
            problem=json.get("problem"),
            json=json,
        )


@dataclass(frozen=True)
class Cast:
    """A cast, a quantiser or an operator on half precision, and what it did to the values that passed it."""

    node: str
    op: Optional[str]
    graph: Optional[str]
    source_type: Optional[str]
    target_type: Optional[str]
    elements: int
    #: Elements by outcome: ``exact``, ``rounded``, ``overflowed``, …
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

    def __str__(self) -> str:
        did = ", ".join(
            f"{count} {kind}" for kind, count in self.outcomes.items() if count and kind != "exact"
        )
        return f"`{self.node}` {self.source_type} to {self.target_type}" + (
            f": {did}" if did else ""
        )


@dataclass(frozen=True)
class Parting:
    """The first tensor where something of the conversion goes wrong."""

    tensor: Tensor
    #: The node that makes it, and its operator.
    node: Optional[str]
    op: Optional[str]
    #: The worst cast before it that spoils values and that the reference does not have.
    culprit: Optional[Cast]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Optional[Json]) -> Optional[Parting]:
        if not isinstance(json, dict):
            return None
        culprit = json.get("culprit")
        return Parting(
            tensor=Tensor.of(json.get("tensor") or {}),
            node=json.get("node"),
            op=json.get("op"),
            culprit=Cast.of(culprit) if isinstance(culprit, dict) else None,
            json=json,
        )

    def __str__(self) -> str:
        made = f", which {self.op} `{self.node}` makes" if self.node else ""
        return f"`{self.tensor.name}`{made}: {self.tensor.first_mismatch or self.tensor.problem or 'off'}"


@dataclass(frozen=True)
class Comparison:
    """A model against its conversion."""

    reference: str
    converted: str
    #: ``passed``, ``failed`` or ``unusable``.
    status: str
    #: How many sets of inputs they ran on.
    sets: int
    #: How things were compared, a sentence each: whether inputs were random, among others.
    notes: list[str]
    outputs: list[Tensor]
    #: Every inner tensor that both have, with ``all_tensors=True``.
    tensors: list[Tensor]
    first_difference: Optional[Parting]
    #: The first tensor with NaN or infinities that the reference does not have.
    first_damage: Optional[Parting]
    #: What the casts of the converted model did, the worst first.
    casts: list[Cast]
    #: The page, where one was asked for.
    report: Optional[str]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Json, report: Optional[str]) -> Comparison:
        return Comparison(
            reference=str(json.get("reference")),
            converted=str(json.get("converted")),
            status=str(json.get("status")),
            sets=int(json.get("sets") or 0),
            notes=[str(note) for note in json.get("notes") or []],
            outputs=[Tensor.of(row) for row in json.get("outputs") or []],
            tensors=[Tensor.of(row) for row in json.get("tensors") or []],
            first_difference=Parting.of(json.get("first_difference")),
            first_damage=Parting.of(json.get("first_damage")),
            casts=[Cast.of(row) for row in json.get("converted_casts") or []],
            report=report,
            json=json,
        )

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance."""
        return self.status == "passed"

    @property
    def parting(self) -> Optional[Parting]:
        """Where it goes wrong: the first damage, or else the first difference beyond the tolerance."""
        return self.first_damage or self.first_difference

    @property
    def culprit(self) -> Optional[str]:
        """The node to blame: the cast that spoils values, or else the node where the two part."""
        parting = self.parting
        if parting is None:
            return None
        return parting.culprit.node if parting.culprit else parting.node

    @property
    def remedy(self) -> Optional[str]:
        """What to tell the converter where values leave the narrow type's range: the nodes to keep in FLOAT.

        It follows from this one comparison. :func:`onnx_cast.keep` finds the smallest set of nodes and confirms it by running.
        """
        damage = self.first_damage
        if damage is None:
            return None
        makers, readers = makers_and_readers(self.reference, damage.tensor.name)
        # A cast that overflows has its input from FLOAT: then what reads that is to stay, else what makes and reads the value.
        kept = makers if damage.culprit else [*makers, *readers]
        if not kept:
            return None
        return f"keep {', '.join(f'`{node}`' for node in kept)} in FLOAT: node_block_list={kept!r}"

    def summary(self) -> str:
        """What a failed test should say, a line per fact; empty where it passed."""
        if self.passed:
            return ""
        lines = [f"{self.converted} is not {self.reference} within the tolerance"]
        for output in self.outputs:
            if not output.passed:
                why = (
                    output.problem
                    or f"{output.mismatches} of {output.elements} values differ, {output.first_mismatch}"
                )
                lines.append(f"output `{output.name}`: {why}")
        if self.parting:
            lines.append(f"first {'damage' if self.first_damage else 'difference'}: {self.parting}")
            if self.parting.culprit:
                lines.append(f"culprit: {self.parting.culprit}")
        if self.remedy:
            lines.append(f"remedy: {self.remedy}")
        lines.extend(f"note: {note}" for note in self.notes)
        if self.report:
            lines.append(f"report: {self.report}")
        return "\n".join(lines)

    def check(self) -> Comparison:
        """Itself where it passed; raises :class:`ToleranceError` where it did not."""
        if not self.passed:
            failed = [output.name for output in self.outputs if not output.passed]
            blamed = f", culprit `{self.culprit}`" if self.culprit else ""
            raise ToleranceError(
                f"{self.converted}: {len(failed)} of {len(self.outputs)} outputs beyond the tolerance{blamed}"
            )
        return self


@dataclass(frozen=True)
class Audit:
    """What a model's casts did to the numbers."""

    model: str
    status: str
    sets: int
    notes: list[str]
    #: The worst first.
    casts: list[Cast]
    #: What was beyond the limits, a sentence each.
    exceeded: list[str]
    #: What is wrong with the graph itself, as the JSON has it.
    findings: list[Json]
    report: Optional[str]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Json, report: Optional[str]) -> Audit:
        return Audit(
            model=str(json.get("model")),
            status=str(json.get("status")),
            sets=int(json.get("sets") or 0),
            notes=[str(note) for note in json.get("notes") or []],
            casts=[Cast.of(row) for row in json.get("casts") or []],
            exceeded=[str(sentence) for sentence in json.get("exceeded") or []],
            findings=list(json.get("findings") or []),
            report=report,
            json=json,
        )

    @property
    def passed(self) -> bool:
        """Whether everything is within the limits."""
        return self.status == "passed"

    def summary(self) -> str:
        """What a failed test should say, a line per fact; empty where it passed."""
        if self.passed:
            return ""
        lines = [f"{self.model} is beyond its limits", *self.exceeded]
        lines.extend(
            str(finding.get("text")) for finding in self.findings if finding.get("is_error")
        )
        lines.extend(f"note: {note}" for note in self.notes)
        if self.report:
            lines.append(f"report: {self.report}")
        return "\n".join(lines)

    def check(self) -> Audit:
        """Itself where it passed; raises :class:`ToleranceError` where it did not."""
        if not self.passed:
            why = self.exceeded or [
                str(finding.get("text")) for finding in self.findings if finding.get("is_error")
            ]
            raise ToleranceError(f"{self.model}: {'; '.join(why) or 'beyond its limits'}")
        return self


@dataclass(frozen=True)
class KeptNode:
    """A node to keep in FLOAT, and why."""

    node: str
    op_type: Optional[str]
    why: Optional[str]


@dataclass(frozen=True)
class Kept:
    """The nodes that a conversion has to leave in FLOAT."""

    model: str
    to: str
    nodes: list[KeptNode]
    #: Whether the conversion with these nodes kept was run and found within the tolerance.
    confirmed: bool
    #: The same as converters take it, such as a line of Python, by converter.
    formats: dict[str, str]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Json) -> Kept:
        rows = json.get("keep") or []
        return Kept(
            model=str(json.get("model")),
            to=str(json.get("to")),
            nodes=[
                KeptNode(str(row.get("node")), row.get("op_type"), row.get("why")) for row in rows
            ],
            confirmed=bool(json.get("confirmed")),
            formats={str(name): str(text) for name, text in (json.get("formats") or {}).items()},
            json=json,
        )

    @property
    def node_block_list(self) -> list[str]:
        """The argument of that name of onnxconverter-common and of ONNX Runtime's converters."""
        return [row.node for row in self.nodes]


@dataclass(frozen=True)
class Change:
    """Something that was mended."""

    kind: str
    place: Optional[str]
    before: Optional[str]
    after: Optional[str]


@dataclass(frozen=True)
class Fixed:
    """What was wrong with a model, and what is left."""

    model: str
    output: Optional[str]
    changes: list[Change]
    left: list[Any]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Json) -> Fixed:
        rows = json.get("changes") or []
        return Fixed(
            model=str(json.get("model")),
            output=json.get("output"),
            changes=[
                Change(str(row.get("kind")), row.get("place"), row.get("from"), row.get("to"))
                for row in rows
            ],
            left=list(json.get("left") or []),
            json=json,
        )
