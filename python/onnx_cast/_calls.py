"""The program's commands as functions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional, Union

from . import _arrays, _files
from ._arrays import Array
from ._errors import CallError, OnnxCastWarning
from ._files import Inputs, Model, Path, Side
from ._program import Limits, call
from ._results import Audit, Comparison, Converted, Fixed, Kept

Sizes = Optional[Mapping[str, int]]
Ranges = Optional[Mapping[str, tuple[float, float]]]
#: Limits of one output: ``{"rtol": 1e-2}``, or as the shell has them, ``"rtol=1e-2,atol=1e-3"``.
Limit = Union[str, Mapping[str, float]]
Half = Literal["FLOAT16", "BFLOAT16", "float16", "bfloat16", "fp16", "bf16"]


def compare(
    reference: Side,
    converted: Side,
    inputs: Optional[Inputs] = None,
    *,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    ulp: Optional[float] = None,
    cosine: Optional[float] = None,
    sqnr: Optional[float] = None,
    per_output: Optional[Mapping[str, Limit]] = None,
    tolerance: Optional[Path] = None,
    all_tensors: bool = False,
    graph: Optional[Model] = None,
    sizes: Sizes = None,
    ranges: Ranges = None,
    seed: Optional[int] = None,
    sets: Optional[int] = None,
    random: bool = False,
    search: Optional[float] = None,
    search_steps: Optional[int] = None,
    keep_inputs: Optional[Path] = None,
    limit: Optional[int] = None,
    shuffle: Optional[int] = None,
    report: Optional[Path] = None,
    markdown: Optional[Path] = None,
    junit: Optional[Path] = None,
    top: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    progress: Optional[bool] = None,
) -> Comparison:
    """Runs a model and its conversion on the same inputs, and says where they diverge.

    Args:
        reference: The model that is right: a path, an ``onnx.ModelProto`` or its bytes. Or its values: a dict of arrays by
            output name, or the path of a ``.npz`` or of a folder of ``.pb`` files.
        converted: The model that is judged, or its values.
        inputs: A dict of arrays by input name, a list of such dicts, or a path of a folder, a ``.npz``, ``.npy`` or ``.pb``.
            Without them those recorded beside the model (``test_data_set_*``), and else random ones.
        rtol: Relative tolerance: a value passes if ``|got - want| <= atol + rtol * |want|``.
        atol: Absolute tolerance.
        ulp: Tolerance in units in the last place of the coarser type.
        cosine: The least cosine similarity of a whole output.
        sqnr: The least ratio of an output's signal to its error, in decibels.
        per_output: Tolerances of single outputs, such as ``{"scores": {"rtol": 1e-2}}``.
        tolerance: A file of limits; by default ``NAME.tolerance.toml`` beside the converted model.
        all_tensors: Compare every inner tensor that belongs to one of the other model.
        graph: The model whose tensors both sides are, where both are values.
        sizes: Sizes of symbolic dimensions by name.
        ranges: Where the random values of an input lie: ``{"image": (0, 255)}``.
        seed: Where random values start.
        sets: How many sets of random inputs.
        random: Take random inputs though there are recorded ones.
        search: How many seconds random inputs are searched for that show more; 0 does not search.
        search_steps: The most runs of that search.
        keep_inputs: A new folder for the sets of inputs that were used.
        limit: Take at most so many of the samples that ``inputs`` holds.
        shuffle: The seed by which these are shuffled before.
        report: Where to write the page; ``markdown`` and ``junit`` likewise.
        markdown: Where to write Markdown for a pull request.
        junit: Where to write JUnit's XML.
        top: How many rows of a table the reports show.
        timeout: How many seconds the call may take.
        max_memory: How many GiB tract may use.
        max_nodes: How many nodes tract may be given to load.
        progress: Whether to tell on standard error how long it has been running; by default at a terminal and in notebooks.

    Returns:
        What was found. A conversion beyond its tolerance is an answer, whose ``passed`` is false.

    Raises:
        ModelError: A model cannot be read or run; ``LimitError`` if it needs more time or memory than it is given.
        InputError: An input cannot be read, or does not fit.
        CallError: The call makes no sense.

    Example:
        >>> result = compare("model.onnx", "model_fp16.onnx", {"x": x}, rtol=1e-2, atol=1e-2)
        >>> print(result)
        >>> result.check()  # raises ToleranceError if it did not pass
    """
    limits = Limits(timeout, max_memory, max_nodes, progress)
    with _files.scratch() as folder:
        left = _files.side(reference, folder, "reference")
        right = _files.side(converted, folder, "converted")
        runs = right if _files.is_saved(left) else left
        arguments = ["compare", left, right, *_files.inputs(inputs, runs, folder)]
        arguments += _options(
            rtol=rtol, atol=atol, ulp=ulp, cosine=cosine, sqnr=sqnr, seed=seed, sets=sets, top=top
        )
        arguments += _options(
            search=search, search_steps=search_steps, keep_inputs=keep_inputs, limit=limit
        )
        arguments += _options(shuffle=shuffle)
        arguments += _options(tolerance=tolerance, report=report, markdown=markdown, junit=junit)
        if graph is not None:
            arguments.append(f"--graph={_files.model(graph, folder, 'graph')}")
        arguments += [*_sizes(sizes), *_ranges(ranges)]
        for name, own in (per_output or {}).items():
            arguments.append(f"--per-output={name}:{_limit(own)}")
        arguments += _flags(all_tensors=all_tensors, random=random)
        facts = _files.without(folder, call(arguments, limits).facts)
    result = Comparison.of(_single(facts, "comparisons"), _text(report))
    _warn(result.passed and result.inputs.are_random, result.warnings)
    return result


def audit(
    model: Model,
    inputs: Optional[Inputs] = None,
    *,
    baseline: Optional[Model] = None,
    allow: Sequence[str] = (),
    tolerance: Optional[Path] = None,
    sizes: Sizes = None,
    ranges: Ranges = None,
    seed: Optional[int] = None,
    sets: Optional[int] = None,
    random: bool = False,
    report: Optional[Path] = None,
    markdown: Optional[Path] = None,
    junit: Optional[Path] = None,
    top: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    progress: Optional[bool] = None,
) -> Audit:
    """Runs a model and counts what its casts and quantisers do to the numbers, the worst first.

    Args:
        model: A path, an ``onnx.ModelProto`` or its bytes.
        inputs: As in :func:`compare`; so are ``tolerance`` and all that follows it.
        baseline: The original of which the model is a conversion: what it does as well is excused.
        allow: Limits such as ``"wrapped"`` or ``"overflowed=3"``.

    Returns:
        What was found. A model beyond its limits is an answer, whose ``passed`` is false.

    Raises:
        ModelError, InputError, CallError: As in :func:`compare`.

    Example:
        >>> audit("model_fp16.onnx", {"x": x}).casts[0].outcomes["overflowed"]
        2
    """
    limits = Limits(timeout, max_memory, max_nodes, progress)
    with _files.scratch() as folder:
        file = _files.model(model, folder)
        arguments = ["audit", file, *_files.inputs(inputs, file, folder)]
        arguments += _options(tolerance=tolerance, seed=seed, sets=sets, report=report, top=top)
        arguments += _options(markdown=markdown, junit=junit)
        if baseline is not None:
            arguments.append(f"--baseline={_files.model(baseline, folder, 'baseline')}")
        arguments += [*_sizes(sizes), *_ranges(ranges), *_flags(random=random)]
        arguments += [f"--allow={kind}" for kind in allow]
        facts = _files.without(folder, call(arguments, limits).facts)
    result = Audit.of(_single(facts, "models"), _text(report))
    _warn(result.passed and result.inputs.are_random, result.warnings)
    return result


def keep(
    model: Model,
    to: Half = "FLOAT16",
    inputs: Optional[Inputs] = None,
    *,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    ulp: Optional[float] = None,
    cosine: Optional[float] = None,
    sqnr: Optional[float] = None,
    fewest: bool = False,
    sizes: Sizes = None,
    ranges: Ranges = None,
    seed: Optional[int] = None,
    sets: Optional[int] = None,
    random: bool = False,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    progress: Optional[bool] = None,
) -> Kept:
    """Finds the nodes that a conversion to half precision has to keep in FLOAT, by running simulated conversions.

    Args:
        model: The model in FLOAT: a path, an ``onnx.ModelProto`` or its bytes.
        to: What it is to be converted to.
        inputs: As in :func:`compare`; so are the tolerances and all that follows ``fewest``.
        fewest: Keep only what the outputs need, and not what overflows though they bear it.

    Returns:
        The nodes, as converters take them.

    Raises:
        ModelError, InputError, CallError: As in :func:`compare`.

    Example:
        >>> keep("model.onnx", "float16", {"x": x}).node_block_list
        ['ReduceSum_sum', 'Sqrt_norm']
    """
    if not isinstance(to, str):
        raise CallError(f"to is {to!r}, which is no type's name")
    limits = Limits(timeout, max_memory, max_nodes, progress)
    with _files.scratch() as folder:
        file = _files.model(model, folder)
        arguments = ["keep", file, f"--to={to}", *_files.inputs(inputs, file, folder)]
        arguments += _options(
            rtol=rtol, atol=atol, ulp=ulp, cosine=cosine, sqnr=sqnr, seed=seed, sets=sets
        )
        arguments += [*_sizes(sizes), *_ranges(ranges), *_flags(fewest=fewest, random=random)]
        return Kept.of(_files.without(folder, call(arguments, limits).facts))


def fix(
    model: Model,
    output: Path,
    *,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
) -> Fixed:
    """Corrects what is plainly wrong with a model's casts and declarations, and leaves the rest byte for byte.

    Args:
        model: A path, an ``onnx.ModelProto`` or its bytes.
        output: Where the corrected model is written.
        timeout: How many seconds the call may take; ``max_memory`` and ``max_nodes`` as in :func:`compare`.

    Returns:
        What was changed, and what is left.

    Raises:
        ModelError, CallError: As in :func:`compare`.

    Example:
        >>> fix("model_fp16.onnx", "fixed.onnx").changes
    """
    limits = Limits(timeout, max_memory, max_nodes)
    with _files.scratch() as folder:
        arguments = ["fix", _files.model(model, folder), "-o", _files.path(output)]
        return Fixed.of(_files.without(folder, call(arguments, limits).facts))


def convert(
    model: Model,
    output: Path,
    to: Optional[str] = "FLOAT16",
    inputs: Optional[Inputs] = None,
    *,
    from_types: Sequence[str] = (),
    weights: Optional[str] = None,
    block: Optional[int] = None,
    opset: Optional[int] = None,
    keep: Sequence[str] = (),
    keep_ops: Sequence[str] = (),
    convert_io: bool = False,
    unverified: bool = False,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    sqnr: Optional[float] = None,
    sizes: Sizes = None,
    sets: Optional[int] = None,
    seed: Optional[int] = None,
    report: Optional[Path] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
) -> Converted:
    """Converts a model to ``to`` (FLOAT16, BFLOAT16, FLOAT or DOUBLE), and writes it as a new file if its outputs hold.

    ``weights`` (INT8, INT4 or FLOAT8E4M3FN) stores the weights of products and convolutions in few bits, with a scale for each
    channel, or each ``block`` of so many elements; with ``to=None`` nothing else changes. ``from_types`` are what is converted,
    where that is not FLOAT. ``opset`` raises the model's opset before.

    Without a tolerance outputs hold if their errors are noise: a signal-to-noise ratio of at least 40 dB in FLOAT16, 26 dB in BFLOAT16
    and with INT8 weights, 20 dB with FLOAT8E4M3FN and 10 dB with INT4 weights.
    The nodes of ``keep``, and those of the operators ``keep_ops``, stay as they are; what else has to is found out. ``unverified``
    writes the model without running it.

    ``timeout``, ``max_memory`` and ``max_nodes`` are as in :func:`compare`.
    """
    with _files.scratch() as folder:
        file = _files.model(model, folder)
        arguments = ["convert", file, "-o", _files.path(output)]
        arguments += [f"--from={name}" for name in from_types]
        arguments += _options(to=to, weights=weights, block=block, opset=opset)
        arguments += [*_files.inputs(inputs, file, folder), *_sizes(sizes)]
        arguments += [*(f"--keep={name}" for name in keep), *(f"--keep-op={op}" for op in keep_ops)]
        arguments += _flags(convert_io=convert_io, unverified=unverified)
        arguments += _options(rtol=rtol, atol=atol, sqnr=sqnr, sets=sets, seed=seed, report=report)
        facts = _files.without(
            folder, call(arguments, Limits(timeout, max_memory, max_nodes)).facts
        )
    return Converted.of(facts)


def record(
    model: Model,
    folder: Path,
    inputs: Optional[Inputs] = None,
    *,
    sets: Optional[int] = None,
    sizes: Sizes = None,
    ranges: Ranges = None,
    seed: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
) -> list[str]:
    """Records a model's outputs as goldens, to be replayed by ``onnx-cast test``.

    Args:
        model: A path, an ``onnx.ModelProto`` or its bytes.
        folder: Where the recordings are added.
        inputs: As in :func:`compare`; random ones without.
        sets: How many sets of random inputs; the other options are as in :func:`compare`.

    Returns:
        The folders of the new sets.

    Raises:
        ModelError, InputError, CallError: As in :func:`compare`.

    Example:
        >>> record("model.onnx", "goldens/model", {"x": x})
    """
    limits = Limits(timeout, max_memory, max_nodes)
    before = set(_data_sets(folder))
    with _files.scratch() as inner:
        file = _files.model(model, inner)
        arguments = ["record", file, _files.path(folder), *_files.inputs(inputs, file, inner)]
        arguments += [*_sizes(sizes), *_ranges(ranges), *_options(sets=sets, seed=seed)]
        call(arguments, limits, writes_json=False)
    return [path for path in _data_sets(folder) if path not in before]


def run(
    model: Model,
    inputs: Optional[Inputs] = None,
    *,
    sizes: Sizes = None,
    ranges: Ranges = None,
    seed: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
) -> dict[str, Array]:
    """Runs a model through tract.

    Args:
        model: A path, an ``onnx.ModelProto`` or its bytes.
        inputs: One set, as in :func:`compare`; what is missing is random. The other options are as there too.

    Returns:
        The outputs by name, in the graph's order. Types that numpy lacks are those of ml_dtypes.

    Raises:
        ModelError, InputError, CallError: As in :func:`compare`.

    Example:
        >>> run("model.onnx", {"x": x})["y"]
    """
    limits = Limits(timeout, max_memory, max_nodes)
    with _files.scratch() as folder:
        file, outputs = _files.model(model, folder), os.path.join(folder, "outputs")
        arguments = ["run", file, *_files.inputs(inputs, file, folder, one_set=True)]
        arguments += [*_sizes(sizes), *_ranges(ranges), *_options(seed=seed), "-o", outputs]
        call(arguments, limits)
        return _arrays.read_all(outputs, "output")


def _warn(is_random: bool, reasons: Sequence[str]) -> None:
    """Has Python's own warnings say that a pass is one on random inputs, pytest's summary among them."""
    if is_random:
        warnings.warn("; ".join(reasons), OnnxCastWarning, stacklevel=3)


def _sizes(sizes: Sizes) -> list[str]:
    return [f"--set={symbol}={size}" for symbol, size in (sizes or {}).items()]


def _ranges(ranges: Ranges) -> list[str]:
    try:
        return [f"--range={name}={low}:{high}" for name, (low, high) in (ranges or {}).items()]
    except (TypeError, ValueError):
        raise CallError("ranges are a dict of (low, high) by input name") from None


def _limit(limit: Limit) -> str:
    if isinstance(limit, str):
        return limit
    return ",".join(f"{what}={number}" for what, number in limit.items())


def _flags(**flags: bool) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name, is_set in flags.items() if is_set]


def _options(**values: Any) -> list[str]:
    """`--name=value` of what is given. A value of its own word could be taken for an option."""
    given = {name.replace("_", "-"): value for name, value in values.items() if value is not None}
    return [f"--{name}={_text(value)}" for name, value in given.items()]


def _text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _data_sets(folder: Path) -> list[str]:
    path = _files.path(folder)
    try:
        names = os.listdir(path)
    except OSError:
        return []
    return sorted(os.path.join(path, name) for name in names if name.startswith("test_data_set_"))


def _single(facts: Mapping[str, Any], key: str) -> dict[str, Any]:
    rows = facts.get(key)
    if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], dict):
        count = len(rows) if isinstance(rows, list) else "no"
        raise CallError(f"one model at a time, and the path holds {count}")
    return rows[0]
