"""Renders a comment as GitHub does (cmark-gfm), and fails if a table or markup of it does not come out.

render_comment.py COMMENT.md
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path

import cmarkgfm

#: What a comment of a pull request may have.
MOST_CHARACTERS = 65_536


def main() -> str | None:
    text = Path(sys.argv[1]).read_text()
    if len(text) > MOST_CHARACTERS:
        return f"{len(text)} characters, more than a comment takes"
    page = cmarkgfm.github_flavored_markdown_to_html(
        text, options=cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE
    )
    tables = len(re.findall(r"^\|[-:| ]+\|$", text, re.MULTILINE))
    if page.count("<table>") != tables:
        return f"{tables} tables are written and {page.count('<table>')} come out"
    shown = html.unescape(re.sub(r"<(code|pre)>.*?</\1>|<[^>]+>", "", page, flags=re.DOTALL))
    raw = [line for line in shown.splitlines() if re.search(r"^\s*\||\|\s*$|\*\*|^#+ |^- ", line)]
    return f"this comes out as it was typed: {raw[0]}" if raw else None


sys.exit(main())
