"""What is under test: the optimisation levels of ONNX Runtime, and what rewrites models."""

import numpy as np
import onnx

LEVELS = ("disabled", "basic", "extended", "all")


def run(model, feeds, level):
    """What ONNX Runtime makes at an optimisation level."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = getattr(
        levels, "ORT_DISABLE_ALL" if level == "disabled" else f"ORT_ENABLE_{level.upper()}"
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    taken = {taken.name for taken in session.get_inputs()}
    return session.run(None, {name: value for name, value in feeds.items() if name in taken})


def copied(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def onnxsim(model, feeds):
    import onnxsim as tool

    return tool.simplify(copied(model))[0]


def onnxslim(model, feeds):
    import onnxslim as tool

    return tool.slim(copied(model))


def float16(model, feeds):
    from onnxconverter_common import float16 as tool

    largest = max(
        (np.abs(x[np.isfinite(x)]).max(initial=0) for x in feeds.values() if x.dtype.kind == "f"),
        default=0,
    )
    return (
        None if largest > 1e3 else tool.convert_float_to_float16(copied(model), keep_io_types=True)
    )


def to_version(newest):
    def convert(model, feeds):
        try:
            return onnx.version_converter.convert_version(copied(model), newest)
        except RuntimeError:
            # It says what it has no adapter for.
            return None

    return convert


def inlined(model, feeds):
    import onnx.inliner

    return onnx.inliner.inline_local_functions(copied(model))


CONVERTERS = {
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "float16": float16,
    **{f"to_opset_{version}": to_version(version) for version in (23, 21, 18, 13, 11, 8)},
}


def loosened(tool, difference, x, y):
    """The difference of two lists of outputs, as far as a conversion's type explains none."""
    if tool != "float16":
        return difference(x, y)
    # What is rounded before it is cut to whole numbers may come out another one.
    kept = [place for place, value in enumerate(x) if np.asarray(value).dtype == np.float32]
    rough = [[np.asarray(of[place]) for place in kept] for of in (x, y)]
    told = difference(*rough)
    if told is None or any(a.shape != b.shape for a, b in zip(*rough, strict=True)):
        return told
    with np.errstate(all="ignore"):
        off = [
            np.abs(a - b)[np.isfinite(a)].max(initial=0)
            / max(np.abs(a)[np.isfinite(a)].max(initial=0), 0.1)
            for a, b in zip(*rough, strict=True)
        ]
    return told if max(off, default=0) > 0.2 else None
