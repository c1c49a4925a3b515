"""How results are printed, and shown in a notebook."""

from __future__ import annotations

import html as markup
import re
from collections.abc import Iterable, Sequence
from typing import Optional


def counted(count: int, what: str) -> str:
    """How many there are of what is called so."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def text(passed: bool, name: str, summary: str) -> str:
    """The verdict, and what there is to say of it."""
    first = f"PASS {name}" if passed else "FAIL"
    return f"{first}\n{summary}".replace("FAIL\n", "FAIL ", 1).rstrip()


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
    lines = "".join(f"<div>{_coded(line)}</div>" for line in rest)
    table = f"<table><thead>{row(heads, 'th')}</thead><tbody>{body}</tbody></table>" if body else ""
    return f'<div><b style="color:{colour}">{_coded(first)}</b>{lines}{table}</div>'


def _coded(line: str) -> str:
    """A line, in which names stand between backquotes."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", markup.escape(line))


def shown(value: Optional[float]) -> str:
    """A number in a table."""
    return "-" if value is None else f"{value:.6g}"
