"""What the program found, as objects. Each keeps the JSON that it was made of, whose fields docs/report-format.md describes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Optional

from . import _show
from ._errors import ToleranceError
from ._rows import Cast, Json, Tensor, number

OUTPUTS = ("output", "types", "max abs", "cosine", "result")
CASTS = ("cast", "types", "values", "outcome")
#: So many culprits are told.
MOST = 5


@dataclass(frozen=True)
class Inputs:
    """Where the inputs came from.

    Attributes:
        origin: ``given``, ``random``, ``partly_random``, ``saved`` or ``none``.
        random: The inputs with random values.
        seeds: The seed of each set.
    """

    origin: str
    random: list[str]
    seeds: list[int]

    @staticmethod
    def of(json: Json) -> Inputs:
        return Inputs(
            origin=str(json.get("origin") or "none"),
            random=[str(name) for name in json.get("random") or []],
            seeds=[int(seed) for seed in json.get("seeds") or []],
        )

    @property
    def are_random(self) -> bool:
        """Whether nobody has chosen some of the values."""
        return self.origin in ("random", "partly_random")


@dataclass(frozen=True)
class Parting:
    """The first tensor where something of the conversion goes wrong.

    Attributes:
        node: The node that makes it, whose operator is ``op``.
        culprit: The worst cast or quantiser before it that spoils values and that the reference does not have.
    """

    tensor: Tensor
    node: Optional[str]
    op: Optional[str]
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
        return f"`{self.tensor.name}`{made}: {self.tensor.why or self.tensor.first_mismatch}"


@dataclass(frozen=True)
class Culprit:
    """A node to blame: given what the reference has there, it makes something else.

    Attributes:
        tensor: What it makes, in the converted model.
        kind: What is wrong, such as ``weight``, ``attribute``, ``scale`` or ``overflow``.
        local_error: How far an element is off that is made of the reference's values, and ``bound``, by how much rounding may
            put it off.
        text: What is wrong, in words.
    """

    node: str
    op: str
    tensor: str
    kind: str
    local_error: Optional[float]
    bound: Optional[float]
    text: str

    @staticmethod
    def of(json: Json) -> Culprit:
        return Culprit(
            node=str(json.get("node")),
            op=str(json.get("op") or ""),
            tensor=str(json.get("tensor")),
            kind=str(json.get("kind")),
            local_error=number(json.get("local_error")),
            bound=number(json.get("bound")),
            text=str(json.get("text")),
        )


@dataclass(frozen=True)
class Comparison:
    """A model against its conversion. ``print`` shows the verdict, and a notebook a table besides.

    Attributes:
        status: ``passed``, ``failed`` or ``unusable``.
        verdict: ``same``, ``rounded``, ``imprecise`` or ``broken``, by the arithmetic: it rules ``passed`` where no tolerance is
            given.
        verdict_reason: Why, in a sentence.
        culprits: The nodes to blame, the first first.
        cause: The root cause of a failure, in a sentence; ``next`` is what to do about it, a command where there is one.
        sets: How many sets of inputs they ran on.
        inputs: Where these came from.
        warnings: Why the verdict may be another in use: random inputs, or values close to the end of a type's range.
        notes: How things were compared, a sentence each.
        tensors: Every inner tensor that both have, with ``all_tensors=True``.
        first_damage: The first tensor with NaN or infinities that the reference does not have.
        first_difference: The first tensor beyond the tolerance.
        largest_jump: Where the error grows most.
        casts: What the casts of the converted model did, the worst first.
        report: The page, where one was asked for.
        json: Everything, as docs/report-format.md describes it.
    """

    reference: str
    converted: str
    status: str
    verdict: Optional[str]
    verdict_reason: str
    culprits: list[Culprit]
    cause: Optional[str]
    next: Optional[str]
    sets: int
    inputs: Inputs
    warnings: list[str]
    notes: list[str]
    outputs: list[Tensor]
    tensors: list[Tensor]
    first_difference: Optional[Parting]
    first_damage: Optional[Parting]
    largest_jump: Optional[Parting]
    casts: list[Cast]
    report: Optional[str]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Json, report: Optional[str]) -> Comparison:
        return Comparison(
            reference=str(json.get("reference")),
            converted=str(json.get("converted")),
            status=str(json.get("status")),
            verdict=json.get("verdict"),
            verdict_reason=str(json.get("verdict_reason") or ""),
            culprits=[Culprit.of(row) for row in json.get("culprits") or []],
            cause=json.get("cause"),
            next=json.get("next"),
            sets=int(json.get("sets") or 0),
            inputs=Inputs.of(json.get("inputs") or {}),
            warnings=[str(warning) for warning in json.get("warnings") or []],
            notes=[str(note) for note in json.get("notes") or []],
            outputs=[Tensor.of(row) for row in json.get("outputs") or []],
            tensors=[Tensor.of(row) for row in json.get("tensors") or []],
            first_difference=Parting.of(json.get("first_difference")),
            first_damage=Parting.of(json.get("first_damage")),
            largest_jump=Parting.of(json.get("largest_jump")),
            casts=[Cast.of(row) for row in json.get("converted_casts") or []],
            report=report,
            json=json,
        )

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance; without one, whether the verdict is ``same`` or ``rounded``."""
        return self.status == "passed"

    @property
    def parting(self) -> Optional[Parting]:
        """Where it goes wrong: the first damage, else a place with a cast to blame, else the first difference."""
        if self.passed:
            return None
        blamed = self.largest_jump if self.largest_jump and self.largest_jump.culprit else None
        return self.first_damage or blamed or self.first_difference

    @property
    def culprit(self) -> Optional[str]:
        """The node to blame: one that is broken, the cast that spoils values, or else the node where the two diverge."""
        parting = self.parting
        if parting is None:
            return None
        if self.verdict == "broken" and self.culprits:
            return self.culprits[0].node
        return parting.culprit.node if parting.culprit else parting.node

    @property
    def half(self) -> Optional[str]:
        """FLOAT16 or BFLOAT16, where values leave the range of that type."""
        damage = self.first_damage
        if self.passed or damage is None:
            return None
        cast = damage.culprit.target_type if damage.culprit else damage.tensor.converted_type
        return cast if cast in ("FLOAT16", "BFLOAT16") else None

    @property
    def remedy(self) -> Optional[str]:
        """What to do where values leave the range of half precision: the call that finds the nodes to keep in FLOAT.

        Which nodes these are, no single comparison tells: :func:`onnx_cast.keep` runs the conversions that its list is for.
        """
        if self.half is None:
            return None
        # What was given as an object has no path.
        reference = repr(self.reference) if os.path.exists(self.reference) else "reference"
        return f"onnx_cast.keep({reference}, to={self.half!r}, inputs=...) finds the nodes to keep in FLOAT"

    @property
    def blamed(self) -> Optional[Cast]:
        """What the node to blame did to values, if it is a cast or computes in half precision."""
        if self.parting and self.parting.culprit:
            return self.parting.culprit
        casts = (cast for cast in self.casts if cast.node == self.culprit and cast.damage)
        return next(casts, None)

    def _lines(self) -> Iterator[str]:
        """Lines about a comparison: the culprit first, as pytest's summary has room for one."""
        if not self.passed:
            parting = self.parting
            if self.verdict == "broken" and self.culprits:
                yield f"culprit: {self.cause}"
                others = self.culprits[1:MOST]
                yield from (f"also: {other.op} `{other.node}`: {other.text}" for other in others)
            elif self.culprit:
                yield f"culprit: {self.blamed or f'`{self.culprit}`'}"
            judged = f"{self.verdict}: {self.verdict_reason}"
            if self.verdict and not self.json.get("is_judged_by_tolerance"):
                yield f"{self.converted} against {self.reference}: {judged}"
            else:
                yield f"{self.converted} is not {self.reference} within the tolerance"
                if self.verdict:
                    yield f"by its arithmetic {judged}"
            for output in self.outputs:
                if not output.passed:
                    yield f"output `{output.name}`: {output.why}"
            if parting:
                what = "damage" if self.first_damage else "difference"
                yield f"first {what}: {parting}"
            if self.remedy or self.next:
                yield f"next: {self.remedy or self.next}"
            yield from (f"note: {note}" for note in self.notes)
        yield from (f"warning: {warning}" for warning in self.warnings)
        if self.report and not self.passed:
            yield f"report: {self.report}"

    def summary(self) -> str:
        """What a failed test should say, a line per fact, and the warnings; empty where all is well."""
        return "\n".join(self._lines())

    def __str__(self) -> str:
        verdict = f": {self.verdict}: {self.verdict_reason}" if self.verdict else ""
        name = f"{self.converted} against {self.reference}{verdict}"
        return _show.text(self.passed, name, self.summary())

    def _repr_html_(self) -> str:
        return _show.html(str(self), OUTPUTS, (tensor.cells() for tensor in self.outputs))

    def check(self) -> Comparison:
        """Itself where it passed; raises :class:`ToleranceError` where it did not."""
        if not self.passed:
            failed = sum(not output.passed for output in self.outputs)
            outputs = _show.counted(len(self.outputs), "output")
            why = f"{failed} of {outputs} beyond the tolerance"
            if self.verdict and not self.json.get("is_judged_by_tolerance"):
                why = f"{self.verdict}: {self.verdict_reason}"
            blamed = f", culprit `{self.culprit}`" if self.culprit else ""
            raise ToleranceError(f"{self.converted}: {why}{blamed}")
        return self


@dataclass(frozen=True)
class Audit:
    """What a model's casts did to the numbers. ``print`` shows the verdict, and a notebook a table besides.

    Attributes:
        status: ``passed``, ``failed`` or ``unusable``.
        inputs: Where the inputs came from; ``warnings`` and ``notes`` as of a :class:`Comparison`.
        casts: The worst first; ``roundings`` are operators on half precision that did more than round.
        exceeded: What was beyond the limits, a sentence each.
        cause: Why, in a sentence; ``next`` is what to do.
        findings: What is wrong with the graph itself, as the JSON has it.
    """

    model: str
    status: str
    sets: int
    inputs: Inputs
    warnings: list[str]
    notes: list[str]
    casts: list[Cast]
    roundings: list[Cast]
    exceeded: list[str]
    cause: Optional[str]
    next: Optional[str]
    findings: list[Json]
    report: Optional[str]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Json, report: Optional[str]) -> Audit:
        return Audit(
            model=str(json.get("model")),
            status=str(json.get("status")),
            sets=int(json.get("sets") or 0),
            inputs=Inputs.of(json.get("inputs") or {}),
            warnings=[str(warning) for warning in json.get("warnings") or []],
            notes=[str(note) for note in json.get("notes") or []],
            casts=[Cast.of(row) for row in json.get("casts") or []],
            roundings=[Cast.of(row) for row in json.get("roundings") or []],
            exceeded=[str(sentence) for sentence in json.get("exceeded") or []],
            cause=json.get("cause"),
            next=json.get("next"),
            findings=list(json.get("findings") or []),
            report=report,
            json=json,
        )

    @property
    def passed(self) -> bool:
        """Whether everything is within the limits."""
        return self.status == "passed"

    @property
    def wrong(self) -> list[str]:
        """What is beyond the limits or contradicts itself, a sentence each."""
        findings = [str(row.get("text")) for row in self.findings if row.get("is_error")]
        return self.exceeded or findings

    def _lines(self) -> Iterator[str]:
        """Lines about an audit."""
        if not self.passed:
            yield from self.wrong
            yield f"{self.model} is beyond its limits"
            if self.cause:
                yield f"why: {self.cause}"
            if self.next:
                yield f"next: {self.next}"
            yield from (f"note: {note}" for note in self.notes)
        yield from (f"warning: {warning}" for warning in self.warnings)
        if self.report and not self.passed:
            yield f"report: {self.report}"

    def summary(self) -> str:
        """What a failed test should say, a line per fact, and the warnings; empty where all is well."""
        return "\n".join(self._lines())

    def __str__(self) -> str:
        return _show.text(self.passed, self.model, self.summary())

    def _repr_html_(self) -> str:
        every = self.casts + self.roundings
        changed = [cast for cast in every if cast.damage] or every
        return _show.html(str(self), CASTS, (cast.cells() for cast in changed[:20]))

    def check(self) -> Audit:
        """Itself where it passed; raises :class:`ToleranceError` where it did not."""
        if not self.passed:
            raise ToleranceError(f"{self.model}: {'; '.join(self.wrong) or 'beyond its limits'}")
        return self
