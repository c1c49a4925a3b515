"""What is printed of results, and shown of them in a notebook."""

from __future__ import annotations

import html as markup
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._results import Audit, Cast, Comparison, Tensor
    from ._written import Converted, Fixed, Kept, Reduced

OUTPUTS = ("output", "types", "max abs", "cosine", "result")
#: So many culprits are told.
MOST = 5
CASTS = ("cast", "types", "values", "what became of them")


def comparison(result: Comparison) -> Iterator[str]:
    """Lines about a comparison: the culprit first, as pytest's summary has room for one."""
    if not result.passed:
        parting = result.parting
        if result.verdict == "broken" and result.culprits:
            yield f"culprit: {result.cause}"
            others = result.culprits[1:MOST]
            yield from (f"also: {other.op} `{other.node}`: {other.text}" for other in others)
        elif parting and parting.culprit:
            yield f"culprit: {parting.culprit}"
        elif result.culprit:
            yield f"culprit: `{result.culprit}`"
        judged = f"{result.verdict}: {result.verdict_reason}"
        if result.verdict and not result.json.get("is_judged_by_tolerance"):
            yield f"{result.converted} against {result.reference}: {judged}"
        else:
            yield f"{result.converted} is not {result.reference} within the tolerance"
            if result.verdict:
                yield f"by its arithmetic {judged}"
        for output in result.outputs:
            if not output.passed:
                yield f"output `{output.name}`: {output.why}"
        if parting:
            what = "damage" if result.first_damage else "difference"
            yield f"first {what}: {parting}"
        if result.remedy or result.next:
            yield f"next: {result.remedy or result.next}"
        yield from (f"note: {note}" for note in result.notes)
    yield from (f"warning: {warning}" for warning in result.warnings)
    if result.report and not result.passed:
        yield f"report: {result.report}"


def audit(result: Audit) -> Iterator[str]:
    """Lines about an audit."""
    if not result.passed:
        yield from result.wrong
        yield f"{result.model} is beyond its limits"
        yield from (f"note: {note}" for note in result.notes)
    yield from (f"warning: {warning}" for warning in result.warnings)
    if result.report and not result.passed:
        yield f"report: {result.report}"


def kept(result: Kept) -> Iterator[str]:
    """Lines about nodes to keep."""
    name = f"{result.model} as {result.to}"
    if result.problem:
        yield f"{name}: {result.problem}"
    elif result.quantized:
        yield f"{result.model} is quantised: what each of {len(result.quantizers)} quantisers does alone"
    elif not result.nodes:
        yield f"{name}: no node needs to stay in FLOAT"
    else:
        argument = "nodes_to_exclude" if result.quantizers else "node_block_list"
        yield f"{name}: keep {len(result.nodes)} nodes in FLOAT: {argument}={result.node_block_list!r}"
    yield from (f"{row.op_type} `{row.node}`: {row.why}" for row in result.nodes)
    yield from map(str, result.quantizers[:10])
    yield from (f"note: {note}" for note in result.notes)


def fixed(result: Fixed) -> Iterator[str]:
    """Lines about what was corrected."""
    left = f", {len(result.left)} left" if result.left else ""
    yield f"{result.output}: {len(result.changes)} fixed{left}"
    for change in result.changes:
        yield f"{change.kind} {change.place}: {change.before} → {change.after}"
    yield from (f"left: {line}" for line in result.left)


def converted(result: Converted) -> Iterator[str]:
    """Lines about a conversion."""
    if result.problem is not None:
        yield f"FAIL {result.model} as {result.to}: {result.problem}"
    else:
        many = "node stays as it is" if len(result.kept) == 1 else "nodes stay as they are"
        kept = f", {len(result.kept)} {many}" if result.kept else ""
        yield f"PASS {result.output}: {result.model} as {result.to} {result.verdict}{kept}"
    yield from (f"{row.op_type} `{row.node}` stays: {row.why}" for row in result.kept)
    yield from (f"note: {note}" for note in result.notes)


def reduced(result: Reduced) -> Iterator[str]:
    """Lines about a reduction."""
    if not result.cases:
        yield f"nothing to show: {result.problem}"
    for case in result.cases:
        yield f"{case.folder}: {len(case.left)} of {result.nodes} nodes: {case.finding}"


def text(passed: bool, name: str, summary: str) -> str:
    """The verdict, and what there is to say of it."""
    first = f"PASS {name}" if passed else "FAIL"
    return f"{first}\n{summary}".replace("FAIL\n", "FAIL ", 1).rstrip()


def output(tensor: Tensor) -> Sequence[str]:
    """A row about an output."""
    types = {tensor.reference_type, tensor.converted_type}
    return (
        tensor.name,
        str(tensor.reference_type)
        if len(types) == 1
        else f"{tensor.reference_type} → {tensor.converted_type}",
        _number(tensor.max_abs),
        _number(tensor.cosine),
        "PASS" if tensor.passed else f"FAIL: {tensor.why}",
    )


def cast(cast: Cast) -> Sequence[str]:
    """A row about a cast."""
    did = ", ".join(f"{count} {kind}" for kind, count in cast.outcomes.items() if count)
    return (cast.node, f"{cast.source_type} → {cast.target_type}", str(cast.elements), did)


def html(said: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lines and a table, for a notebook."""

    def row(cells: Sequence[str], tag: str) -> str:
        return (
            "<tr>"
            + "".join(
                f'<{tag} style="text-align:left">{markup.escape(cell)}</{tag}>' for cell in cells
            )
            + "</tr>"
        )

    first, *rest = said.split("\n")
    colour = "#b3261e" if first.startswith("FAIL") else "inherit"
    body = "".join(row(cells, "td") for cells in rows)
    lines = "".join(f"<div>{markup.escape(line)}</div>" for line in rest)
    table = f"<table><thead>{row(heads, 'th')}</thead><tbody>{body}</tbody></table>" if body else ""
    return f'<div><b style="color:{colour}">{markup.escape(first)}</b>{lines}{table}</div>'


def _number(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.6g}"
