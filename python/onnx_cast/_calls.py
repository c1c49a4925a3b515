"""The commands that judge models: ``compare``, ``audit`` and ``keep``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional, Union

from . import _files, _options
from ._errors import CallError, OnnxCastWarning
from ._files import Inputs, Model, Path, Side
from ._options import Ranges, Sizes, options
from ._program import Engine, Resources, call
from ._results import Audit, Comparison
from ._written import Kept

Half = Literal["FLOAT16", "BFLOAT16", "float16", "bfloat16", "fp16", "bf16"]
#: Types of few bits, in any case.
Narrow = Literal["INT8", "UINT8", "FLOAT8E4M3FN", "INT4", "int8", "uint8", "float8e4m3fn", "int4"]


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
    per_output: _options.OutputLimits = None,
    tolerance: Optional[Path] = None,
    suggest_tolerance: bool = False,
    all_tensors: bool = False,
    weights_only: bool = False,
    graph: Optional[Model] = None,
    strict: bool = False,
    samples: Optional[int] = None,
    no_verdict: bool = False,
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
    model_explorer: Optional[Path] = None,
    top: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    engine: Optional[Engine] = None,
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
        suggest_tolerance: Write such a file, with limits that the conversion keeps and a fault would not, if it passes and there is
            none.
        all_tensors: Compare every inner tensor that belongs to one of the other model.
        weights_only: Compare the weights alone: nothing is run, and no inputs are taken.
        graph: The model whose tensors both sides are, where both are values.
        strict: Fail where the verdict stands on little: one set of random inputs, sizes of 1, branches that did not run.
        samples: How often the conversion runs with its roundings perturbed, to see how far they carry.
        no_verdict: Leave the verdict out, which takes several runs of both models: a tolerance judges alone.
        sizes: Sizes of symbolic dimensions by name.
        ranges: Where the random values of an input lie: ``{"image": (0, 255)}``.
        seed: Of the random values.
        sets: How many sets of random inputs.
        random: Take random inputs though there are recorded ones.
        search: For how many seconds random inputs with larger errors are searched; 0 turns it off.
        search_steps: The most runs of that search.
        keep_inputs: A new folder for the sets of inputs that were used.
        limit: Take at most so many of the samples that ``inputs`` holds.
        shuffle: The seed by which these are shuffled before.
        report: Where to write the page: one HTML file.
        markdown: Where to write Markdown for a pull request.
        junit: Where to write JUnit's XML.
        model_explorer: Where to write node data for Model Explorer.
        top: How many rows of a table the reports show.
        timeout: How many seconds the call may take.
        max_memory: How many GiB tract may use.
        max_nodes: How many nodes tract may be given to load.
        engine: ``"nodes"``, one node after the other, or ``"plan"``, which tract makes of the whole model.
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
    resources = Resources(timeout, max_memory, max_nodes, progress, engine)
    with _files.scratch() as folder:
        left = _files.side(reference, folder, "reference")
        right = _files.side(converted, folder, "converted")
        runs = right if _files.is_saved(left) else left
        words = ["compare", left, right, *_files.inputs(inputs, runs, folder)]
        words += options(
            rtol=rtol, atol=atol, ulp=ulp, cosine=cosine, sqnr=sqnr, per_output=per_output,
            tolerance=tolerance, suggest_tolerance=suggest_tolerance, all_tensors=all_tensors,
            weights_only=weights_only, strict=strict, samples=samples, no_verdict=no_verdict,
            graph=graph if graph is None else _files.model(graph, folder, "graph"),
            sizes=sizes, ranges=ranges, seed=seed, sets=sets, random=random, search=search,
            search_steps=search_steps, keep_inputs=keep_inputs, limit=limit, shuffle=shuffle,
            report=report, markdown=markdown, junit=junit, model_explorer=model_explorer, top=top,
        )  # fmt: skip
        facts = _files.without(folder, call(words, resources).facts)
    result = Comparison.of(_single(facts, "comparisons"), _path(report))
    warn(result.passed and result.inputs.are_random, result.warnings)
    return result


def audit(
    model: Model,
    inputs: Optional[Inputs] = None,
    *,
    baseline: Optional[Model] = None,
    allow: Sequence[str] = (),
    tolerance: Optional[Path] = None,
    strict: bool = False,
    sizes: Sizes = None,
    ranges: Ranges = None,
    seed: Optional[int] = None,
    sets: Optional[int] = None,
    random: bool = False,
    limit: Optional[int] = None,
    shuffle: Optional[int] = None,
    report: Optional[Path] = None,
    markdown: Optional[Path] = None,
    junit: Optional[Path] = None,
    model_explorer: Optional[Path] = None,
    top: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    engine: Optional[Engine] = None,
    progress: Optional[bool] = None,
) -> Audit:
    """Runs a model and counts what its casts and quantisers do to the numbers, the worst first.

    Args:
        model: A path, an ``onnx.ModelProto`` or its bytes.
        inputs: As in :func:`compare`; so are ``tolerance`` and all that follows it.
        baseline: The original of which the model is a conversion: what it does as well is excused.
        allow: Limits such as ``"wrapped"`` or ``"overflowed=3"``: so many values may go that way.

    Returns:
        What was found. A model beyond its limits is an answer, whose ``passed`` is false.

    Raises:
        ModelError, InputError, CallError: As in :func:`compare`.

    Example:
        >>> audit("model_fp16.onnx", {"x": x}).casts[0].outcomes["overflowed"]
        2
    """
    resources = Resources(timeout, max_memory, max_nodes, progress, engine)
    with _files.scratch() as folder:
        file = _files.model(model, folder)
        words = ["audit", file, *_files.inputs(inputs, file, folder)]
        words += options(
            baseline=baseline if baseline is None else _files.model(baseline, folder, "baseline"),
            allow=allow, tolerance=tolerance, strict=strict, sizes=sizes, ranges=ranges, seed=seed,
            sets=sets, random=random, limit=limit, shuffle=shuffle, report=report,
            markdown=markdown, junit=junit, model_explorer=model_explorer, top=top,
        )  # fmt: skip
        facts = _files.without(folder, call(words, resources).facts)
    result = Audit.of(_single(facts, "models"), _path(report))
    warn(result.passed and result.inputs.are_random, result.warnings)
    return result


def keep(
    model: Model,
    to: Union[Half, Narrow] = "FLOAT16",
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
    search: Optional[float] = None,
    search_steps: Optional[int] = None,
    keep_inputs: Optional[Path] = None,
    limit: Optional[int] = None,
    shuffle: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    engine: Optional[Engine] = None,
    progress: Optional[bool] = None,
) -> Kept:
    """Finds the nodes that a conversion has to keep in FLOAT, by running simulated conversions.

    To ``"int8"``, ``"uint8"`` and ``"float8e4m3fn"`` the conversion is ONNX Runtime's ``quantize_static``, to ``"int4"`` its
    ``MatMulNBitsQuantizer``, and what each quantiser does alone is told. Of a model that is quantised already that alone is.

    Args:
        model: The model in FLOAT: a path, an ``onnx.ModelProto`` or its bytes.
        to: What it is to be converted to: half precision, or a type of few bits.
        inputs: As in :func:`compare`; so are the tolerances and all that follows ``fewest``.
        fewest: Keep only what the outputs need, and not what overflows without harm to them.

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
    resources = Resources(timeout, max_memory, max_nodes, progress, engine)
    with _files.scratch() as folder:
        file = _files.model(model, folder)
        words = ["keep", file, f"--to={to}", *_files.inputs(inputs, file, folder)]
        words += options(
            rtol=rtol, atol=atol, ulp=ulp, cosine=cosine, sqnr=sqnr, fewest=fewest, sizes=sizes,
            ranges=ranges, seed=seed, sets=sets, random=random, search=search,
            search_steps=search_steps, keep_inputs=keep_inputs, limit=limit, shuffle=shuffle,
        )  # fmt: skip
        return Kept.of(_files.without(folder, call(words, resources).facts))


def warn(is_random: bool, reasons: Sequence[str]) -> None:
    """Has Python's own warnings say that inputs were random, pytest's summary among them."""
    if is_random:
        warnings.warn("; ".join(reasons), OnnxCastWarning, stacklevel=3)


def _path(given: Optional[Path]) -> Optional[str]:
    return None if given is None else os.fspath(given)


def _single(facts: Mapping[str, Any], key: str) -> dict[str, Any]:
    rows = facts.get(key)
    if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], dict):
        count = len(rows) if isinstance(rows, list) else "no"
        raise CallError(f"one model at a time, and the path holds {count}")
    return rows[0]
