"""A chart of the table that bench_peers.py writes: how many times as long the fastest peer takes.

usage: python scripts/bench/chart_peers.py TABLE SVG
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
# Text stays text, and the file is the same for the same table.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "peers"})

import matplotlib.pyplot as plt  # noqa: E402

# Legible on light and on dark pages, which the chart lets through.
INK, SIZES = "#808080", {"16384": "#4c8dd6", "1048576": "#e08a3c"}


def main() -> None:
    table, svg = sys.argv[1:3]
    rows = [line.strip("| ").split(" | ") for line in Path(table).read_text().splitlines()[2:]]
    pairs = list(dict.fromkeys(row[1] for row in rows))
    ratios = {(row[0], row[1]): row[7] for row in rows}
    figure, axes = plt.subplots(figsize=(8, 0.27 * len(pairs)))
    for index, (size, colour) in enumerate(SIZES.items()):
        places = [place + 0.38 * (index - 0.5) for place in range(len(pairs))]
        widths = [float(ratios[size, pair]) for pair in pairs]
        axes.barh(places, widths, 0.36, color=colour, label=f"{size} elements")
    axes.axvline(1, color=INK)
    axes.set(xscale="log", yticks=range(len(pairs)), yticklabels=pairs, ylim=(len(pairs), -1))
    axes.set_xlabel("time of the fastest peer as a multiple of ours", color=INK)
    axes.tick_params(colors=INK, which="both", labelsize=8)
    axes.spines[:].set_color(INK)
    axes.legend(labelcolor=INK, framealpha=0)
    figure.savefig(svg, transparent=True, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
