"""What the program wrote or would have written, as objects. Each keeps the JSON that it was made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

from . import _show
from ._errors import ToleranceError
from ._rows import Json


@dataclass(frozen=True)
class KeptNode:
    """A node to keep in FLOAT, and why."""

    node: str
    op_type: Optional[str]
    why: Optional[str]


@dataclass(frozen=True)
class QuantizerEffect:
    """What a quantiser does to a model's outputs where no other one is there.

    Attributes:
        tensor: What it quantises.
        kind: ``"activation"``, ``"weight"`` or ``"bias"``.
        type: What the tensor becomes.
        nodes: The nodes that it is for.
        sqnr: The ratio of signal to noise of each output in decibels; ``None`` where the model fails.
    """

    tensor: str
    kind: str
    type: str
    nodes: list[str]
    sqnr: dict[str, Optional[float]]

    @staticmethod
    def of(row: Json) -> QuantizerEffect:
        outputs = row.get("outputs") or []
        found = {str(output.get("name")): output.get("sqnr") for output in outputs}
        return QuantizerEffect(
            tensor=str(row.get("tensor")),
            kind=str(row.get("kind")),
            type=str(row.get("type")),
            nodes=[str(node) for node in row.get("nodes") or []],
            # JSON has no infinity, which is a word there.
            sqnr={name: None if sqnr is None else float(sqnr) for name, sqnr in found.items()},
        )

    def __str__(self) -> str:
        told = (
            f"{name} {'fails' if x is None else f'{x:.1f} dB'}" for name, x in self.sqnr.items()
        )
        return f"{self.type} {self.kind} `{self.tensor}` alone: {', '.join(told)}"


@dataclass(frozen=True)
class Kept:
    """The nodes that a conversion has to leave in FLOAT.

    Attributes:
        confirmed: Whether the conversion that keeps these nodes was run, in simulation, and each is needed or overflows.
        problem: Why there is no list.
        notes: What to know, such as that the inputs were random.
        runs: How often the model was run.
        formats: The list as converters take it, such as a line of Python, by converter.
        quantizers: What each quantiser does alone, worst first, where the model is quantised or to be quantised.
        quantized: Whether the model is quantised already, so that no list was searched for.
    """

    model: str
    to: str
    nodes: list[KeptNode]
    confirmed: bool
    formats: dict[str, str]
    problem: Optional[str]
    notes: list[str]
    runs: int
    quantizers: list[QuantizerEffect]
    quantized: bool
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
            problem=json.get("problem"),
            notes=[str(note) for note in json.get("notes") or []],
            runs=int(json.get("runs") or 0),
            quantizers=[QuantizerEffect.of(row) for row in json.get("quantizers") or []],
            quantized=bool(json.get("quantized")),
            json=json,
        )

    @property
    def passed(self) -> bool:
        """Whether there is such a list; an empty one is a list."""
        return self.problem is None

    @property
    def node_block_list(self) -> list[str]:
        """The argument of that name of onnxconverter-common and of ONNX Runtime's converters."""
        return [row.node for row in self.nodes]

    @property
    def nodes_to_exclude(self) -> list[str]:
        """The same as ONNX Runtime's quantisers call it."""
        return self.node_block_list

    def _lines(self) -> Iterator[str]:
        """Lines about nodes to keep."""
        name = f"{self.model} as {self.to}"
        if self.problem:
            yield f"{name}: {self.problem}"
        elif self.quantized:
            yield f"{self.model} is quantised: what each quantiser does alone"
        elif not self.nodes:
            yield f"{name}: no node needs to stay in FLOAT"
        else:
            argument = "nodes_to_exclude" if self.quantizers else "node_block_list"
            nodes = _show.counted(len(self.nodes), "node")
            yield f"{name}: keep {nodes} in FLOAT: {argument}={self.node_block_list!r}"
        yield from (f"{row.op_type} `{row.node}`: {row.why}" for row in self.nodes)
        yield from map(str, self.quantizers[:10])
        yield from (f"note: {note}" for note in self.notes)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        rows = ((row.node, row.op_type or "", row.why or "") for row in self.nodes)
        return _show.html(str(self), ("node", "operator", "why"), rows)


@dataclass(frozen=True)
class Change:
    """Something that was corrected, and ``text``, which says so in words."""

    kind: str
    place: Optional[str]
    before: Optional[str]
    after: Optional[str]
    text: str = ""


@dataclass(frozen=True)
class Fixed:
    """What was wrong with a model.

    Attributes:
        output: Where the corrected model is.
        changes: What was corrected.
        left: What is wrong and was left.
    """

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
                Change(
                    kind=str(row.get("kind")),
                    place=row.get("place"),
                    before=row.get("from"),
                    after=row.get("to"),
                    text=str(row.get("text") or ""),
                )
                for row in rows
            ],
            left=list(json.get("left") or []),
            json=json,
        )

    def _lines(self) -> Iterator[str]:
        """Lines about what was corrected."""
        left = f", {len(self.left)} left" if self.left else ""
        yield f"{self.output}: {len(self.changes)} fixed{left}"
        yield from (change.text for change in self.changes)
        yield from (f"left: {line}" for line in self.left)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        rows = ((c.kind, c.place or "", c.before or "", c.after or "") for c in self.changes)
        return _show.html(str(self), ("change", "place", "before", "after"), rows)


@dataclass(frozen=True)
class Converted:
    """What became of a conversion.

    Attributes:
        output: Where the converted model is; ``None`` if its outputs do not hold, and it was not written.
        to: The type that was asked for, and that of the weights.
        verdict: ``holds``, ``fails`` or ``unverified``.
        problem: Why it was not written.
        kept: The nodes that stay as they are.
        casts: How many casts the converted model has.
        notes: What to know, such as that the inputs were random.
    """

    model: str
    output: Optional[str]
    to: str
    verdict: str
    problem: Optional[str]
    kept: list[KeptNode]
    casts: int
    notes: list[str]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Json) -> Converted:
        rows = json.get("kept") or []
        return Converted(
            model=str(json.get("model")),
            output=json.get("output"),
            to=" and ".join(str(ty) for ty in (json.get("to"), json.get("coded_as")) if ty),
            verdict=str(json.get("verdict")),
            problem=json.get("problem"),
            kept=[KeptNode(str(row.get("node")), row.get("op"), row.get("why")) for row in rows],
            casts=int(json.get("casts") or 0),
            notes=[
                str(note)
                for notes in (json.get("notes"), (json.get("compared") or {}).get("warnings"))
                for note in notes or []
            ],
            json=json,
        )

    @property
    def passed(self) -> bool:
        """Whether the converted model was written."""
        return self.problem is None

    def check(self) -> Converted:
        """Itself where the model was written; raises :class:`ToleranceError` where it was not."""
        if self.problem is not None:
            raise ToleranceError(f"{self.model}: {self.problem}")
        return self

    def _lines(self) -> Iterator[str]:
        """Lines about a conversion."""
        if self.problem is not None:
            yield f"FAIL {self.model} as {self.to}: {self.problem}"
        else:
            many = "node stays as it is" if len(self.kept) == 1 else "nodes stay as they are"
            kept = f", {len(self.kept)} {many}" if self.kept else ""
            yield f"PASS {self.output}: {self.model} as {self.to} {self.verdict}{kept}"
        yield from (f"{row.op_type} `{row.node}` stays: {row.why}" for row in self.kept)
        yield from (f"note: {note}" for note in self.notes)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        rows = ((row.node, row.op_type or "", row.why or "") for row in self.kept)
        return _show.html(str(self), ("node that stays", "operator", "why"), rows)


@dataclass(frozen=True)
class ReducedCase:
    """A case that :func:`onnx_cast.reduce` has written.

    Attributes:
        node: The node that is to blame; of a check's case the last node.
        kind: ``overflow``, ``nan``, ``shape``, ``tolerance``, ``broken``, ``imprecise`` or ``command``.
        finding: What is wrong, in words.
        left: The nodes that are left, each with its operator.
    """

    folder: str
    node: str
    op_type: str
    kind: str
    finding: str
    left: list[tuple[str, str]]
    bytes: int


@dataclass(frozen=True)
class Reduced:
    """What became of a reduction.

    Attributes:
        nodes: How many nodes the model has.
        cases: The gravest first; empty where there is nothing to show.
        problem: Why there is none.
    """

    model: str
    nodes: int
    cases: list[ReducedCase]
    problem: Optional[str]
    runs: int
    notes: list[str]
    json: Json = field(repr=False)

    @staticmethod
    def of(json: Json) -> Reduced:
        rows = json.get("cases") or []
        return Reduced(
            model=str(json.get("model")),
            nodes=int(json.get("nodes") or 0),
            cases=[
                ReducedCase(
                    folder=str(row.get("folder")),
                    node=str(row.get("node")),
                    op_type=str(row.get("op")),
                    kind=str(row.get("kind")),
                    finding=str(row.get("finding")),
                    left=[(str(name), str(op)) for name, op in row.get("left") or []],
                    bytes=int(row.get("bytes") or 0),
                )
                for row in rows
            ],
            problem=json.get("problem"),
            runs=int(json.get("runs") or 0),
            notes=[str(note) for note in json.get("notes") or []],
            json=json,
        )

    def _lines(self) -> Iterator[str]:
        """Lines about a reduction."""
        if not self.cases:
            yield f"nothing to show: {self.problem}"
        for case in self.cases:
            nodes = _show.counted(self.nodes, "node")
            yield f"{case.folder}: {len(case.left)} of {nodes}: {case.finding}"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        rows = ((case.folder, case.node, case.op_type, case.finding) for case in self.cases)
        return _show.html(str(self), ("case", "node", "operator", "what is wrong"), rows)
