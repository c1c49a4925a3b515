"""Draws what `make demo` prints as a terminal, into docs/images/demo.svg: make demo | python -m pages.demo_picture."""

from __future__ import annotations

import html
import sys
import textwrap
from pathlib import Path

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "demo.svg"
COLUMNS = 112
#: Pixels of a character, and between lines.
WIDTH, HEIGHT = 7.3, 17
STYLE = """
.page { fill: #16181d } text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #d5d8df; white-space: pre }
.title { fill: #7fb4ff; font-weight: bold } .bad { fill: #ff8f87 } .good { fill: #8fd694 }
.typed { fill: #ffffff; font-weight: bold }
"""
BAD = ("FAIL", "stock tract", "beyond the tolerance", "overflowed", "infinite on one side")
GOOD = ("with ours", " 0 failed")


def shade(line: str) -> str:
    if line.startswith("# "):
        return "title"
    if line.startswith("$ "):
        return "typed"
    if any(word in line for word in BAD):
        return "bad"
    return "good" if any(word in line for word in GOOD) else "plain"


def main() -> None:
    # What cargo and make say of the build is not the demo.
    text = sys.stdin.read()
    printed = text[text.index("# What stock tract") :].rstrip().splitlines()
    rows = [("$ make demo", "typed"), ("", "plain")]
    for line in printed:
        wrapped = textwrap.wrap(line, COLUMNS, subsequent_indent="    ", drop_whitespace=False) or [
            ""
        ]
        rows.extend((part, shade(line)) for part in wrapped)
    width, height = COLUMNS * WIDTH + 32, len(rows) * HEIGHT + 32
    lines = [
        f'<text x="16" y="{28 + index * HEIGHT}" class="{style}" xml:space="preserve">{html.escape(part)}</text>'
        for index, (part, style) in enumerate(rows)
        if part.strip()
    ]
    PICTURE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">'
        f"<title>What make demo prints</title><style>{STYLE}</style>"
        f'<rect class="page" width="100%" height="100%" rx="8"/>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


main()
