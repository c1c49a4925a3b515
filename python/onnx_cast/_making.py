"""The commands that make something of a model: ``fix``, ``convert``, ``record`` and ``run``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, Optional, Union

from . import _arrays, _files
from ._arrays import Array
from ._calls import Half, warn
from ._files import Inputs, Model, Path
from ._options import Ranges, Sizes, options
from ._program import Engine, Resources, call
from ._written import Converted, Fixed

#: The types that are no half precision, in any case.
Wide = Literal["FLOAT", "DOUBLE", "float", "double"]


def fix(
    model: Model,
    output: Path,
    *,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    progress: Optional[bool] = None,
) -> Fixed:
    """Corrects what is plainly wrong with a model's casts and declarations, and leaves the rest byte for byte.

    Args:
        model: A path, an ``onnx.ModelProto`` or its bytes.
        output: Where the corrected model is written.
        timeout: How many seconds the call may take; what follows is as in :func:`compare`.

    Returns:
        What was changed, and what is left.

    Raises:
        ModelError, CallError: As in :func:`compare`.

    Example:
        >>> fix("model_fp16.onnx", "fixed.onnx").changes
    """
    resources = Resources(timeout, max_memory, max_nodes, progress)
    with _files.scratch() as folder:
        words = ["fix", _files.model(model, folder), "-o", _files.path(output)]
        return Fixed.of(_files.without(folder, call(words, resources).facts))


def convert(
    model: Model,
    output: Path,
    to: Optional[Union[Half, Wide]] = None,
    inputs: Optional[Inputs] = None,
    *,
    from_types: Sequence[Union[Half, Wide]] = (),
    weights: Optional[Literal["INT8", "INT4", "FLOAT8E4M3FN"]] = None,
    block: Optional[int] = None,
    opset: Optional[int] = None,
    keep: Sequence[str] = (),
    keep_ops: Sequence[str] = (),
    keep_from: Optional[Path] = None,
    convert_io: bool = False,
    unverified: bool = False,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    ulp: Optional[float] = None,
    cosine: Optional[float] = None,
    sqnr: Optional[float] = None,
    sizes: Sizes = None,
    ranges: Ranges = None,
    seed: Optional[int] = None,
    sets: Optional[int] = None,
    random: bool = False,
    limit: Optional[int] = None,
    shuffle: Optional[int] = None,
    report: Optional[Path] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    engine: Optional[Engine] = None,
    progress: Optional[bool] = None,
) -> Converted:
    """Converts a model, runs what was written beside the original, and leaves the new file only if its outputs hold.

    Without a tolerance outputs hold if their errors are noise: a signal-to-noise ratio of at least 40 dB in FLOAT16, 26 dB in
    BFLOAT16 and with INT8 weights, 20 dB with FLOAT8E4M3FN and 10 dB with INT4 weights.

    Args:
        model: A path, an ``onnx.ModelProto`` or its bytes.
        output: Where the converted model is written.
        to: FLOAT16, BFLOAT16, FLOAT or DOUBLE, in any case; FLOAT16 where neither this nor ``weights`` is given. With
            ``weights`` alone nothing else changes its type.
        inputs: As in :func:`compare`; so are the tolerances and all that follows them.
        from_types: What is converted, where that is not FLOAT.
        weights: Store the weights of products and convolutions in that type, with scales, for ``DequantizeLinear``.
        block: How many elements of a weight share a scale; without it all of a channel do.
        opset: Raise the model's opset before, where its operators mean the same there.
        keep: Nodes that stay as they are. What else has to is found out.
        keep_ops: Operators of which all nodes stay as they are.
        keep_from: A file with the name of a node to keep in each line, or the JSON of ``keep``.
        convert_io: Convert the inputs and outputs too.
        unverified: Write the model without running it.

    Returns:
        What was written and what stays. A conversion that does not hold is an answer, whose ``passed`` is false.

    Raises:
        ModelError, InputError, CallError: As in :func:`compare`.

    Example:
        >>> convert("model.onnx", "model_fp16.onnx", "FLOAT16", {"x": x}).check()
    """
    resources = Resources(timeout, max_memory, max_nodes, progress, engine)
    if to is None and weights is None:
        to = "FLOAT16"
    with _files.scratch() as folder:
        file = _files.model(model, folder)
        words = ["convert", file, "-o", _files.path(output), *_files.inputs(inputs, file, folder)]
        words += options(
            to=to, from_types=from_types, weights=weights, block=block, opset=opset, keep=keep,
            keep_ops=keep_ops, keep_from=keep_from, convert_io=convert_io, unverified=unverified,
            rtol=rtol, atol=atol, ulp=ulp, cosine=cosine, sqnr=sqnr, sizes=sizes, ranges=ranges,
            seed=seed, sets=sets, random=random, limit=limit, shuffle=shuffle, report=report,
        )  # fmt: skip
        facts = _files.without(folder, call(words, resources).facts)
    result = Converted.of(facts)
    compared = facts.get("compared") or {}
    is_random = bool((compared.get("inputs") or {}).get("random"))
    warn(result.passed and is_random, [str(line) for line in compared.get("warnings") or []])
    return result


def record(
    model: Model,
    folder: Path,
    inputs: Optional[Inputs] = None,
    *,
    sets: Optional[int] = None,
    sizes: Sizes = None,
    ranges: Ranges = None,
    seed: Optional[int] = None,
    limit: Optional[int] = None,
    shuffle: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    engine: Optional[Engine] = None,
    progress: Optional[bool] = None,
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
    resources = Resources(timeout, max_memory, max_nodes, progress, engine)
    before = set(_data_sets(folder))
    with _files.scratch() as inner:
        file = _files.model(model, inner)
        words = ["record", file, _files.path(folder), *_files.inputs(inputs, file, inner)]
        words += options(
            sets=sets, sizes=sizes, ranges=ranges, seed=seed, limit=limit, shuffle=shuffle
        )
        call(words, resources, writes_json=False)
    return [path for path in _data_sets(folder) if path not in before]


def run(
    model: Model,
    inputs: Optional[Inputs] = None,
    *,
    sizes: Sizes = None,
    ranges: Ranges = None,
    seed: Optional[int] = None,
    limit: Optional[int] = None,
    shuffle: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    engine: Optional[Engine] = None,
    progress: Optional[bool] = None,
) -> dict[str, Array]:
    """Runs a model through tract.

    Args:
        model: A path, an ``onnx.ModelProto`` or its bytes.
        inputs: One set, as in :func:`compare`; what is missing is random, and a warning says so. The other options are as
            there too.

    Returns:
        The outputs by name, in the graph's order. Types that numpy lacks are those of ml_dtypes.

    Raises:
        ModelError, InputError, CallError: As in :func:`compare`.

    Example:
        >>> run("model.onnx", {"x": x})["y"]
    """
    resources = Resources(timeout, max_memory, max_nodes, progress, engine)
    with _files.scratch() as folder:
        file, outputs = _files.model(model, folder), os.path.join(folder, "outputs")
        words = ["run", file, *_files.inputs(inputs, file, folder, one_set=True), "-o", outputs]
        words += options(sizes=sizes, ranges=ranges, seed=seed, limit=limit, shuffle=shuffle)
        facts = _files.without(folder, call(words, resources).facts)
        warn(bool((facts.get("inputs") or {}).get("random")), [str(facts.get("note"))])
        return _arrays.read_all(outputs, "output")


def _data_sets(folder: Path) -> list[str]:
    path = _files.path(folder)
    try:
        names = os.listdir(path)
    except OSError:
        return []
    return sorted(os.path.join(path, name) for name in names if name.startswith("test_data_set_"))
