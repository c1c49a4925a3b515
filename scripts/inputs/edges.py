# ruff: noqa: E501 (a row is a pair, its graphs side by side)
"""More of `pairs.py`: conversions that are wrong at single numbers alone, for rows of zeros, in large images and beyond their edges."""

from inputs.pairs import PAIRS, pair

ROWS = "float[{n}, {k}] x"
TWO = {"n": ["batch", "3"], "k": ["8"]}
SMALL = {"n": ["batch", "3"], "k": ["8", "2"]}
NUMBERS = ["0", "0.3", "6", "-2.5", "40"]


def compared(name, op, inputs, line="x", before="", ruin=None, constants="", **variants):
    """A comparison beside one that differs where both sides are equal."""
    turned = {"Greater": "Less", "Less": "Greater"}[op]
    pair(
        "kinks",
        name,
        inputs,
        (
            before + f"b = {op}({line}, c) y = Cast<to=1>(b)",
            before + f"b = {ruin or op + 'OrEqual'}({line}, c) y = Cast<to=1>(b)",
            before + f"b = {turned}(c, {line}) y = Cast<to=1>(b)",
        ),
        constants,
        **variants,
    )


LIMIT = "float c = {{{c}}}"
for op in ("Greater", "Less"):
    compared(op.lower(), op, ROWS, constants=LIMIT, c=NUMBERS, **SMALL)
compared("scalar", "Greater", "float[1] x", constants=LIMIT, c=["0", "0.5", "6"])
compared("whole", "Greater", "int64[n] x", constants="int64 c = {{{c}}}", c=["0", "1", "7", "100"])
compared("probability", "Greater", "float[n, 8] prob", "prob", constants=LIMIT, c=["0.5"])
compared("two-inputs", "Greater", "float[{n}, 8] x, float[{n}, 8] c", n=["3", "batch"])
compared(
    "line",
    "Greater",
    ROWS,
    "u",
    "t = Sub(x, m) u = Mul(t, s) ",
    constants=LIMIT + ", float m = {{0.5}}, float s = {{2}}",
    c=["0", "1.5"],
    **TWO,
)
compared(
    "sum",
    "Greater",
    ROWS,
    "s",
    "s = ReduceSum(x, a) ",
    constants="float c = {{0}}, int64[1] a = {{-1}}",
    **TWO,
)
pair(
    "kinks",
    "clip",
    ROWS,
    ("y = Clip(x, l, h)", "y = Clip(x, l, g)", "t = Max(x, l) y = Min(t, h)"),
    "float l = {{0}}, float h = {{6}}, float g = {{{g}}}",
    g=["6.1", "5.9"],
    **SMALL,
)

# Rows of zeros.
NORM = "q = Mul(x, x) s = ReduceSum(q, a) r = Sqrt(s) "
for name, inputs, variants in (
    ("norm", ROWS, {"n": ["3", "batch", "1"], "k": ["8"]}),
    ("norm-of-channels", "float[{n}, 4, 6, 6] x", {"n": ["3", "batch", "1"]}),
):
    pair(
        "rows",
        name,
        inputs,
        (
            NORM + "m = Max(r, e) y = Div(x, m)",
            NORM + "y = Div(x, r)",
            NORM + "m = Max(e, r) y = Div(x, m)",
        ),
        "int64[1] a = {{1}}, float e = {{0.000001}}",
        **variants,
    )
MEAN = "f = Cast<to=1>(mask) p = Mul(x, f) s = ReduceSum(p, a) c = ReduceSum(f, a) "
pair(
    "rows",
    "masked-mean",
    "float[batch, seq] x, int64[batch, seq] mask",
    (
        MEAN + "m = Max(c, o) y = Div(s, m)",
        MEAN + "y = Div(s, c)",
        MEAN + "m = Max(o, c) y = Div(s, m)",
    ),
    "int64[1] a = {{1}}, float o = {{1}}",
)

# Large images, and what lies beyond an image.
pair(
    "pictures",
    "side-cut",
    "float[{d}] x",
    (
        "y = GlobalAveragePool(x)",
        "c = Slice(x, z, e, a) y = GlobalAveragePool(c)",
        "y = ReduceMean(x, hw)",
    ),
    "int64[1] z = {{0}}, int64[1] e = {{{e}}}, int64[1] a = {{{a}}}, int64[2] hw = {{2, 3}}",
    d=["n, c, h, w", "n, 3, h, w", "?, ?, ?, ?", "1, c, h, w"],
    a=["2", "3"],
    e=["45", "200"],
)
GRID = "float[{n}, 2, 6, 5] x, float[{n}, 4, 4, 2] grid"
pair(
    "pictures",
    "grid-padding",
    GRID,
    (
        's = Mul(grid, t) y = GridSample<padding_mode="zeros">(x, s)',
        's = Mul(grid, t) y = GridSample<padding_mode="{m}">(x, s)',
        's = Mul(t, grid) y = GridSample<padding_mode="zeros">(x, s)',
    ),
    "float t = {{0.6}}",
    m=["border", "reflection"],
    n=["1", "n"],
)

__all__ = ["PAIRS"]
