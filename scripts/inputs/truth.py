"""What the inputs of the models are, told by their saved values, and what generated ones must be.

A kind is a test of all sets of generated values together, some of it against the saved ones. `KINDS` says which kind an
input is where its type leaves that open.
"""

from fnmatch import fnmatch

import numpy as np

# Rows of a model's folder, an input's name, and its kind; the first that fits counts. `*` stands for anything.
KINDS = [
    ("*test_range*", "start", "setting"),
    ("*test_range*", "limit", "setting"),
    ("*test_range*", "delta", "setting"),
    ("*", "depth", "setting"),
    ("*declared_expansion", "sizes", "setting"),
    ("*functions_optional_values", "low", "setting"),
    ("*functions_optional_values", "high", "setting"),
    ("*", "*_zero_point*", "zero point"),
    ("*", "zero_point", "zero point"),
    ("*", "*_scale", "scale"),
    ("*", "bytes", "index"),
    ("*", "ids", "index"),
    ("*", "rows", "index"),
    ("*", "indices", "index"),
    ("*hf_vit*", "x", "plain"),
    ("*hf_*", "x", "index"),
    ("*gather_by_cast_indices", "where_*", "index"),
    ("*", "lengths", "length"),
    ("*", "nonpad_kv_seqlen", "length"),
    ("*", "sequence_lens", "length"),
    ("*", "keep", "mask"),
    ("*test_bitcast_bool*", "x", "mask"),
    ("*test_compress*", "condition", "mask"),
    ("*", "condition", "condition"),
    ("*if_casts_*", "count", "condition"),
    ("*", "image", "bytes"),
    ("*", "serving_default_input_2:0", "signal"),
    ("*", "sound", "signal"),
    ("*test_bitcast*", "x", "bits"),
    ("*int64_extremes", "x", "bits"),
    ("*int64_hashes", "*", "bits"),
    ("*chains_that_*", "i", "bits"),
    ("*", "seconds", "large"),
    ("*test_convinteger*", "[wx]", "quantised"),
    ("*test_matmulinteger", "[AB]", "quantised"),
    ("*test_qlinear*", "[abwx]", "quantised"),
    ("*test_dequantizelinear*", "x", "quantised"),
    ("*matmul_integer_to_*", "x", "quantised"),
    ("*moves_*INT*", "x", "quantised"),
    ("*found/*", "v[03]_0", "quantised"),
    ("*found/*div_and_mul_of_integers", "a", "setting"),
    ("*found/*div_and_mul_of_integers", "y0", "plain"),
    ("*found/*lstm_sequence_lens", "l", "length"),
    ("*found/*int*", "a", "plain"),
    ("*skl_*", "[xX]", "features"),
    ("*castlike_*", "like", "like"),
    ("*test_cast*", "input", "codes"),
]
# What only says a type, or what an output is like, is of no kind.
UNTYPED = {"plain", "like", "text", "features"}
# So many random values have one in the larger half of what they are drawn from.
ENOUGH = 16


def kind_of(model, name, values):
    """The kind of an input of a model; None where the table lacks it."""
    if values.dtype.kind == "O":
        return "text"
    found = (
        kind for models, inputs, kind in KINDS if fnmatch(model, models) and fnmatch(name, inputs)
    )
    is_whole = values.dtype.kind in "iub" or values.dtype.name.startswith(("int", "uint"))
    kind = next(found, None if is_whole else "plain")
    return "plain" if kind in ("bits", "codes") and not is_whole else kind


def wrong(kind, saved, sets):
    """Why generated sets, as FLOAT64 arrays, are not of the kind; None where they are. `saved` are the saved values."""
    together = np.concatenate([a.ravel() for a in sets]) if sets else np.zeros(0)
    if not together.size:
        return "nothing was generated"
    if not np.all(np.isfinite(together)):
        return "is not finite"
    least, most = float(saved.min()), float(saved.max())
    low, high = float(together.min()), float(together.max())
    is_varied = low < high
    is_whole = bool(np.all(together == np.round(together)))
    # Few values may miss the larger half of what is allowed.
    is_wide = high >= most / 2 or together.size < ENOUGH
    tests = {
        "plain": is_varied and high > 0,
        "setting": low >= -10 and high <= 100,
        "scale": low > 0 and high <= 10,
        "zero point": is_whole,
        # Where one counts from the end, all may.
        "index": is_whole and is_varied and is_wide and low >= (-most - 1 if least < 0 else 0),
        "length": is_whole and is_varied and low >= 1 and high <= 10 * most,
        "mask": set(np.unique(together)) == {0.0, 1.0},
        "condition": is_varied and is_whole and low == 0,
        "bytes": is_whole and low >= 0 and 200 <= high <= 255,
        "signal": low < 0 < high and high <= 4 and low >= -4,
        "bits": is_whole and high >= most / 8,
        "large": high >= 86_400,
        "quantised": is_varied and is_wide,
        # Of a few bits, of which all values are saved.
        "codes": is_whole and low <= least and high >= most,
    }
    if kind in UNTYPED - {"plain"} or tests[kind]:
        return None
    return f"{low:.6g} to {high:.6g} where {least:.6g} to {most:.6g} is saved"
