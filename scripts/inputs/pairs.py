# ruff: noqa: E501 (a row is a pair, its graphs side by side)
"""Conversions that are wrong only where few look, and beside each one that is right: text for `onnx.parser`.

A pair is an original, its ruin and a sound rewriting, bodies of one graph. `{…}` in them is filled in for each variant.
"""

from itertools import product

PAIRS = []


def pair(kind, name, inputs, bodies, constants="", outputs="float[] y", **variants):
    """Adds a pair for each combination of what fills the braces, which are doubled where they stay."""
    original, ruined, sound = bodies
    keys = list(variants)
    for values in product(*variants.values()):
        filling = dict(zip(keys, values, strict=True))
        parts = [text.format(**filling) for text in (inputs, constants, original, ruined, sound)]
        suffix = "-".join(str(value).replace(" ", "") for value in values)
        PAIRS.append((kind, f"{name}-{suffix}" if suffix else name, *parts, outputs))


# Along an axis.
PLANE = "float[{b}, {s}] x"
SIZES = {"b": ["batch", "?"], "s": ["seq"]}
pair(
    "axis",
    "hardmax",
    PLANE,
    (
        "y = Softmax<axis=1>(x)",
        "y = Hardmax<axis=1>(x)",
        "t = Transpose<perm=[1,0]>(x) s = Softmax<axis=0>(t) y = Transpose<perm=[1,0]>(s)",
    ),
    **SIZES,
)
pair(
    "axis",
    "softmax-axis",
    PLANE,
    ("y = Softmax<axis=-1>(x)", "y = Softmax<axis=0>(x)", "y = Softmax<axis=1>(x)"),
    **SIZES,
)
pair(
    "axis",
    "mean-as",
    PLANE,
    (
        "y = ReduceMean(x, ax)",
        "y = {r}(x, ax)",
        "s = ReduceSum(x, ax) h = Shape(x) n = Gather(h, one) f = Cast<to=1>(n) y = Div(s, f)",
    ),
    "int64[1] ax = {{1}}, int64 one = {{1}}",
    r=["ReduceSum", "ReduceMax"],
    **SIZES,
)
pair(
    "axis",
    "cumsum",
    PLANE,
    ("y = CumSum(x, ax)", "y = CumSum<{how}>(x, ax)", "y = CumSum<reverse=0>(x, ax)"),
    "int64 ax = {{1}}",
    how=["reverse=1", "exclusive=1"],
    b=["batch"],
    s=["seq"],
)
pair(
    "axis",
    "last-for-first",
    PLANE,
    ("y = Gather<axis=1>(x, i)", "y = Gather<axis=1>(x, j)", "y = Slice(x, z, o, o)"),
    "int64[1] i = {{0}}, int64[1] j = {{-1}}, int64[1] z = {{0}}, int64[1] o = {{1}}",
    **SIZES,
)
pair(
    "axis",
    "centre-axis",
    PLANE,
    (
        "m = ReduceMean(x, ax) y = Sub(x, m)",
        "m = ReduceMean(x, z) y = Sub(x, m)",
        "m = ReduceMean(x, ax) n = Neg(m) y = Add(n, x)",
    ),
    "int64[1] ax = {{1}}, int64[1] z = {{0}}",
    **SIZES,
)

# At a length beyond 500.
CUBE = "float[{b}, {s}, 4] x"
LONG = {"b": ["batch"], "s": ["seq", "frames"]}
pair(
    "length",
    "pool-first",
    CUBE,
    (
        "y = ReduceSum(x, a)",
        "c = Slice(x, z, e, a) y = ReduceSum(c, a)",
        "c = Slice(x, z, all, a) y = ReduceSum(c, a)",
    ),
    "int64[1] a = {{1}}, int64[1] z = {{0}}, int64[1] e = {{{end}}}, int64[1] all = {{1000000}}",
    end=[500, 511],
    **LONG,
)
RANGE = "h = Shape(x) n = Gather(h, one) r = Range(zero, n, one) "
pair(
    "length",
    "cut-off",
    CUBE,
    (
        "y = Relu(x)",
        RANGE + "c = Less(r, end) u = Unsqueeze(c, a) t = Relu(x) y = Where(u, t, nil)",
        RANGE + "c = Less(r, far) u = Unsqueeze(c, a) t = Relu(x) y = Where(u, t, nil)",
    ),
    "int64 one = {{1}}, int64 zero = {{0}}, int64 end = {{{end}}}, int64 far = {{9999999}}, int64[1] a = {{1}}, "
    "float nil = {{0}}",
    end=[500, 512],
    **LONG,
)
SCORES = "float[batch, {q}, 8] x"
CAUSAL = (
    "t = Transpose<perm=[0,2,1]>(x) s = MatMul(x, t) h = Shape(x) n = Gather(h, one) r = Range(zero, n, one) "
    "k = Unsqueeze(r, z) q = Unsqueeze(r, o) "
)
END = " m = Where(c, s, far) p = Softmax<axis=-1>(m) y = MatMul(p, x)"
ATTENTION = (
    "int64 one = {{1}}, int64 zero = {{0}}, int64[1] z = {{0}}, int64[1] o = {{1}}, float far = {{-10000}}, "
    "int64 w = {{{w}}}, int64 late = {{{late}}}"
)
pair(
    "attention",
    "causal-off-by-one-late",
    SCORES,
    (
        CAUSAL + "c = LessOrEqual(k, q)" + END,
        CAUSAL
        + "l = Less(k, q) e = LessOrEqual(k, q) t1 = Less(q, late) d = And(t1, e) g = Or(l, d) "
        "f = Less(q, one) h1 = And(f, e) c = Or(g, h1)" + END,
        CAUSAL + "g = Greater(k, q) c = Not(g)" + END,
    ),
    ATTENTION,
    w=[0],
    late=[16, 128, 500],
    q=["seq"],
)
pair(
    "attention",
    "window",
    SCORES,
    (
        CAUSAL + "c = LessOrEqual(k, q)" + END,
        CAUSAL + "e = LessOrEqual(k, q) d = Sub(q, k) n1 = Less(d, w) c = And(e, n1)" + END,
        CAUSAL + "e = GreaterOrEqual(q, k) d = Sub(q, k) n1 = Less(d, late) c = And(e, n1)" + END,
    ),
    ATTENTION,
    w=[8, 128, 256],
    late=[100000],
    q=["seq"],
)

# At values beyond 100.
VALUES = "float[{n}, {k}] x"
FREE = {"n": ["n", "2"], "k": ["16"]}
pair(
    "values",
    "clip",
    VALUES,
    ("y = Abs(x)", "t = Abs(x) y = Clip(t, l, h)", "t = Abs(x) y = Clip(t, l, f)"),
    "float l = {{0}}, float h = {{{h}}}, float f = {{1000000}}",
    h=[100, 127],
    **FREE,
)
pair(
    "values",
    "half-square",
    VALUES,
    (
        "m = Mul(x, x) y = Mul(m, c)",
        "h = Cast<to=10>(x) m = Mul(h, h) f = Mul(m, d) y = Cast<to=1>(f)",
        "g = Mul(x, c) y = Mul(g, x)",
    ),
    "float c = {{8}}, float16 d = {{8}}",
    **FREE,
)
pair(
    "values",
    "byte",
    VALUES,
    (
        "y = Round(x)",
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)",
        "r = Round(x) d = Cast<to=11>(r) y = Cast<to=1>(d)",
    ),
    "float s = {{1}}, int8 z = {{0}}",
    **FREE,
)
pair(
    "values",
    "small-epsilon",
    "float[batch, {k}] x",
    (
        "m = ReduceMean(x, a) c = Sub(x, m) q = Mul(c, c) v = ReduceMean(q, a) e = Add(v, eps) s = Sqrt(e) y = Div(c, s)",
        "m = ReduceMean(x, a) c = Sub(x, m) q = Mul(c, c) v = ReduceMean(q, a) e = Add(v, eps3) s = Sqrt(e) y = Div(c, s)",
        "m = ReduceMean(x, a) c = Sub(x, m) q = Mul(c, c) v = ReduceMean(q, a) e = Add(eps, v) s = Sqrt(e) y = Div(c, s)",
    ),
    "int64[1] a = {{-1}}, float eps = {{0.00001}}, float eps3 = {{0.001}}",
    k=["8", "64"],
)
pair(
    "values",
    "large-whole-numbers",
    "int64[n] x",
    (
        "y = Cast<to=1>(x)",
        "c = Min(x, h) y = Cast<to=1>(c)",
        "t = Cast<to=11>(x) y = Cast<to=1>(t)",
    ),
    "int64 h = {{{h}}}",
    h=[100, 255],
)

# In a branch.
IF = "y = If({c}) <then_branch = a () => (float[] p) {{{{ p = {p}(x) }}}}, else_branch = b () => (float[] q) {{{{ q = {q}(x) }}}}>"


def branches(name, inputs, condition, of, constants):
    good = condition + IF.format(c=of, p="Neg", q="Sin")
    then, other = IF.format(c=of, p="Abs", q="Sin"), IF.format(c=of, p="Neg", q="Tanh")
    sound = f"{condition}w = Not({of}) " + IF.format(c="w", p="Sin", q="Neg")
    for side, ruined in (("then", then), ("else", other)):
        pair("branch", f"{name}-{side}", inputs, (good, condition + ruined, sound), constants)


branches("given", "float[4] x, bool flag", "", "flag", "")
branches("cast", "float[4] x, int64 mode", "c = Cast<to=9>(mode) ", "c", "")
branches("above-20", "float[4] x, int64 step", "c = Greater(step, z) ", "c", "int64 z = {{20}}")
branches(
    "sum", "float[6] x", "s = ReduceSum<keepdims=0>(x) c = Greater(s, z) ", "c", "float z = {{0}}"
)
branches(
    "maximum",
    "float[6] x",
    "s = ReduceMax<keepdims=0>(x) c = Greater(s, z) ",
    "c",
    "float z = {{40}}",
)
branches(
    "long",
    "float[batch, seq] x",
    "h = Shape(x) n = Gather(h, one) c = Greater(n, z) ",
    "c",
    "int64 one = {{1}}, int64 z = {{500}}",
)
branches(
    "one",
    "float[batch, seq] x",
    "h = Shape(x) n = Gather(h, one) c = Equal(n, one) ",
    "c",
    "int64 one = {{1}}",
)
branches(
    "batch-4",
    "float[batch, seq] x",
    "h = Shape(x) n = Gather(h, z) c = Greater(n, f) ",
    "c",
    "int64 z = {{0}}, int64 f = {{4}}",
)

# For a mask with zeros.
MASK = "float[batch, seq] x, {t}[batch, seq] {m}"
TO = {"t": ["int64", "bool", "float"], "m": ["attention_mask"]}
pair(
    "mask",
    "bias-gone",
    MASK,
    (
        "f = Cast<to=1>({m}) i = Sub(one, f) b = Mul(i, far) s = Add(x, b) y = Softmax(s)",
        "f = Cast<to=1>({m}) i = Sub(one, f) b = Mul(i, nil) s = Add(x, b) y = Softmax(s)",
        "f = Cast<to=1>({m}) i = Sub(one, f) b = Mul(i, farther) s = Add(x, b) y = Softmax(s)",
    ),
    "float one = {{1}}, float far = {{-10000}}, float farther = {{-50000}}, float nil = {{0}}",
    **TO,
)
pair(
    "mask",
    "multiplied",
    MASK,
    (
        "f = Cast<to=1>({m}) y = Mul(x, f)",
        "f = Cast<to=1>({m}) z = Sub(f, f) y = Add(x, z)",
        "f = Cast<to=1>({m}) y = Mul(f, x)",
    ),
    **TO,
)
pair(
    "mask",
    "first-row-for-all",
    MASK,
    (
        "c = Cast<to=9>({m}) y = Where(c, x, far)",
        "r = Slice({m}, z, o, z) c = Cast<to=9>(r) y = Where(c, x, far)",
        "c = Cast<to=9>({m}) n = Not(c) y = Where(n, far, x)",
    ),
    "float far = {{-10000}}, int64[1] z = {{0}}, int64[1] o = {{1}}",
    **TO,
)
pair(
    "mask",
    "lengths",
    "float[batch, seq, 4] x, int64[batch] lengths",
    (
        RANGE + "l = Unsqueeze(lengths, a) c = Less(r, l) u = Unsqueeze(c, t) y = Where(u, x, nil)",
        "y = Identity(x)",
        RANGE
        + "l = Unsqueeze(lengths, a) g = GreaterOrEqual(r, l) u = Unsqueeze(g, t) y = Where(u, nil, x)",
    ),
    "int64 one = {{1}}, int64 zero = {{0}}, int64[1] a = {{1}}, int64[1] t = {{2}}, float nil = {{0}}",
)

# In a cache.
CACHE = "float[batch, 2, seq, 4] x, float[batch, 2, {p}, 4] past_key"
OUT = "float[] y, float[] present_key"
PASTS = {"p": ["past", "past_sequence_length"]}
SUM = " y = ReduceSum(present_key, a)"
pair(
    "cache",
    "order",
    CACHE,
    (
        "present_key = Concat<axis=2>(past_key, x)" + SUM,
        "present_key = Concat<axis=2>(x, past_key)" + SUM,
        "i = Identity(x) present_key = Concat<axis=-2>(past_key, i)" + SUM,
    ),
    "int64[1] a = {{2}}",
    OUT,
    **PASTS,
)
pair(
    "cache",
    "unused",
    CACHE,
    (
        "present_key = Concat<axis=2>(past_key, x)" + SUM,
        "present_key = Concat<axis=2>(past_key, x) y = ReduceSum(x, a)",
        "present_key = Concat<axis=2>(past_key, x) s = ReduceSum(x, a) t = ReduceSum(past_key, a) y = Add(s, t)",
    ),
    "int64[1] a = {{2}}",
    OUT,
    **PASTS,
)
EMPTY = "h = Shape(past_key) n = Gather(h, two) e = Equal(n, zero) "
pair(
    "cache",
    "empty",
    CACHE,
    (
        "present_key = Concat<axis=2>(past_key, x)" + SUM,
        EMPTY + "f = Cast<to=1>(e) v = Add(x, f) present_key = Concat<axis=2>(past_key, v)" + SUM,
        EMPTY
        + "f = Cast<to=1>(e) z = Sub(f, f) v = Add(x, z) present_key = Concat<axis=2>(past_key, v)"
        + SUM,
    ),
    "int64[1] a = {{2}}, int64 two = {{2}}, int64 zero = {{0}}",
    OUT,
    **PASTS,
)
STATE = "float[batch, seq, 4] x, float[batch, 4] {h}"
pair(
    "cache",
    "state",
    STATE,
    (
        "u = Unsqueeze({h}, a) v = Mul(u, k) y = Add(x, v) m = ReduceMean<keepdims=0>(y, a) {h}_out = Tanh(m)",
        "u = Unsqueeze({h}, a) v = Mul(u, l) y = Add(x, v) m = ReduceMean<keepdims=0>(y, a) {h}_out = Tanh(m)",
        "u = Unsqueeze({h}, a) v = Mul(k, u) y = Add(v, x) m = ReduceMean<keepdims=0>(y, a) {h}_out = Tanh(m)",
    ),
    "int64[1] a = {{1}}, float k = {{0.5}}, float l = {{0.4}}",
    "float[] y, float[] state_out",
    h=["state"],
)

# Positions, tables.
TABLE = "int64[{b}, {s}] input_ids"
POSITIONS = "h = Shape(input_ids) n = Gather(h, one) r = Range(zero, n, one) "
TABLES = "int64 one = {{1}}, int64 zero = {{0}}, int64 last = {{{last}}}, int64 far = {{1000}}"
pair(
    "table",
    "positions-held-at",
    TABLE,
    (
        POSITIONS + "f = Cast<to=1>(r) y = Sin(f)",
        POSITIONS + "m = Min(r, last) f = Cast<to=1>(m) y = Sin(f)",
        POSITIONS + "m = Min(r, far) f = Cast<to=1>(m) y = Sin(f)".replace("far", "n"),
    ),
    TABLES,
    last=[31, 255, 510],
    b=["batch"],
    s=["seq"],
)

# Ties, zeros, signs, halves.
FLAT = "float[{n}, {k}] x"
TWO = {"n": ["batch", "3"], "k": ["8"]}
pair(
    "ties",
    "arg-max",
    FLAT,
    (
        "r = Round(x) y = ArgMax<axis=1>(r)",
        "r = Round(x) y = ArgMax<axis=1, select_last_index=1>(r)",
        "r = Round(x) n = Neg(r) y = ArgMin<axis=1>(n)",
    ),
    outputs="int64[] y",
    **TWO,
)
pair(
    "ties",
    "round-half-up",
    FLAT,
    (
        "y = Round(x)",
        "t = Add(x, h) y = Floor(t)",
        "d = Cast<to=11>(x) r = Round(d) y = Cast<to=1>(r)",
    ),
    "float h = {{0.5}}",
    **TWO,
)
pair(
    "ties",
    "greater-or-equal",
    FLAT,
    (
        "c = Greater(x, z) y = Cast<to=1>(c)",
        "c = GreaterOrEqual(x, z) y = Cast<to=1>(c)",
        "c = Less(z, x) y = Cast<to=1>(c)",
    ),
    "float z = {{0}}",
    **TWO,
)
pair(
    "ties",
    "sign-of-zero",
    FLAT,
    (
        "y = Sign(x)",
        "c = GreaterOrEqual(x, z) y = Where(c, o, m)",
        "n = Neg(x) s = Sign(n) y = Neg(s)",
    ),
    "float z = {{0}}, float o = {{1}}, float m = {{-1}}",
    **TWO,
)
pair(
    "ties",
    "truncated",
    FLAT,
    ("y = Floor(x)", "i = Cast<to=7>(x) y = Cast<to=1>(i)", "n = Neg(x) c = Ceil(n) y = Neg(c)"),
    **TWO,
)
pair(
    "ties",
    "mod-of-negative",
    FLAT,
    (
        "r = Round(x) i = Cast<to=7>(r) m = Mod(i, five) y = Cast<to=1>(m)",
        "r = Round(x) y = Mod<fmod=1>(r, fives)",
        "r = Round(x) i = Cast<to=6>(r) m = Mod(i, five32) y = Cast<to=1>(m)",
    ),
    "int64 five = {{5}}, int32 five32 = {{5}}, float fives = {{5}}",
    **TWO,
)

# Whole numbers.
pair(
    "integers",
    "beyond-2^31",
    "int64[{n}] {x}",
    ("y = Add({x}, c)", "i = Cast<to=6>({x}) j = Cast<to=7>(i) y = Add(j, c)", "y = Add(c, {x})"),
    "int64 c = {{7}}",
    "int64[] y",
    n=["n", "6"],
    x=["x", "hash"],
)
pair(
    "integers",
    "beyond-2^24",
    "int32[n] x",
    (
        "d = Cast<to=11>(x) y = Cast<to=7>(d)",
        "f = Cast<to=1>(x) y = Cast<to=7>(f)",
        "y = Cast<to=7>(x)",
    ),
    outputs="int64[] y",
)
pair(
    "integers",
    "hours",
    "int64[n] seconds",
    (
        "h = Div(seconds, c) y = Mod(h, d)",
        "h = Div(seconds, c) y = Min(h, e)",
        "h = Div(seconds, c) q = Div(h, d) p = Mul(q, d) y = Sub(h, p)",
    ),
    "int64 c = {{3600}}, int64 d = {{24}}, int64 e = {{23}}",
    "int64[] y",
)
pair(
    "integers",
    "unsigned",
    "uint32[n] x",
    (
        "y = Cast<to=7>(x)",
        "i = Cast<to=6>(x) y = Cast<to=7>(i)",
        "u = Cast<to=13>(x) y = Cast<to=7>(u)",
    ),
    outputs="int64[] y",
)

# Indices from the end.
pair(
    "indices",
    "negative",
    "float[{n}, 4] x, int64[k] {i}",
    (
        "y = Gather(x, {i})",
        "p = Max({i}, z) y = Gather(x, p)",
        "h = Shape(x) n = Gather(h, z) c = Less({i}, z) s = Add({i}, n) p = Where(c, s, {i}) y = Gather(x, p)",
    ),
    "int64 z = {{0}}",
    n=["n", "9"],
    i=["indices"],
)
pair(
    "indices",
    "last",
    "float[5, 4] x, int64[k] indices",
    (
        "y = Gather(x, indices)",
        "p = Min(indices, z) y = Gather(x, p)",
        "y = Gather<axis=-2>(x, indices)",
    ),
    "int64 z = {{3}}",
)

# Strings.
pair(
    "strings",
    "equal",
    "string[n] {x}",
    (
        "c = Equal({x}, w) y = Cast<to=1>(c)",
        "c = Equal({x}, w) z = Cast<to=1>(c) y = Sub(z, z)",
        "c = Equal(w, {x}) y = Cast<to=1>(c)",
    ),
    'string[1] w = {{"caf\u00e9"}}',
    x=["text"],
)

# Odd sizes.
IMAGE = "float[{n}, 3, {h}, {w}] x"
OPEN = {"n": ["batch"], "h": ["height", "?"], "w": ["width"]}
pair(
    "odd",
    "halved",
    IMAGE,
    (
        "y = AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=0>(x)",
        "y = AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x)",
        "i = Identity(x) y = AveragePool<kernel_shape=[2,2], strides=[2,2]>(i)",
    ),
    **OPEN,
)
pair(
    "odd",
    "same-upper",
    IMAGE,
    (
        'y = MaxPool<kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER">(x)',
        "y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[0,0,1,1]>(x)",
        'i = Identity(x) y = MaxPool<kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER">(i)',
    ),
    **OPEN,
)

# Loops.
LOOP = (
    "s = Loop(n, , z) <body = b (int64 i, bool c, float[] t) => (bool d, float[] u) {{{{ d = Identity(c) "
    "g = Gather(x, i) u = {op}(t, g) }}}}> y = Identity(s)"
)
COUNT = "h = Shape(x) l = Gather(h, zero) n = {count} "
pair(
    "loop",
    "last-turn-left-out",
    "float[steps, 4] x",
    (
        COUNT.format(count="Identity(l)") + LOOP.format(op="Add"),
        COUNT.format(count="Sub(l, one)") + LOOP.format(op="Add"),
        "y = ReduceSum<keepdims=0>(x, zeros)",
    ),
    "int64 zero = {{0}}, int64 one = {{1}}, int64[1] zeros = {{0}}, float[4] z = {{0,0,0,0}}",
)
pair(
    "loop",
    "turns-at-most",
    "float[steps, 4] x",
    (
        COUNT.format(count="Identity(l)") + LOOP.format(op="Add"),
        COUNT.format(count="Min(l, most)") + LOOP.format(op="Add"),
        "y = ReduceSum<keepdims=0>(x, zeros)",
    ),
    "int64 zero = {{0}}, int64 most = {{{most}}}, int64[1] zeros = {{0}}, float[4] z = {{0,0,0,0}}",
    most=[5, 64],
)

# Samples of a batch that touch each other.
pair(
    "batch",
    "normalised-together",
    "float[{n}, {k}] x",
    (
        "m = ReduceMean(x, a) y = Sub(x, m)",
        "m = ReduceMean(x) y = Sub(x, m)",
        "m = ReduceMean(x, a) y = Sub(x, m)",
    ),
    "int64[1] a = {{1}}",
    n=["batch", "N"],
    k=["8"],
)
pair(
    "batch",
    "first-for-all",
    "float[{n}, 8] x",
    ("y = Neg(x)", "f = Slice(x, z, o, z) n = Neg(f) t = Sub(x, x) y = Add(n, t)", "y = Mul(x, m)"),
    "int64[1] z = {{0}}, int64[1] o = {{1}}, float m = {{-1}}",
    n=["batch", "?"],
)
pair(
    "batch",
    "third-left-out",
    "float[batch, seq, 4] x",
    (
        "y = Neg(x)",
        "h = Shape(x) n = Gather(h, zero) r = Range(zero, n, one) c = Less(r, two) u = Unsqueeze(c, a) g = Neg(x) y = Where(u, g, x)",
        "y = Mul(x, m)",
    ),
    "int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64[2] a = {{1, 2}}, float m = {{-1}}",
)
