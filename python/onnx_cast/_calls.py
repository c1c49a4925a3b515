"""The program's commands as functions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Optional, Union

from . import _arrays, _graph
from ._arrays import Array
from ._errors import CallError, InputError, OnnxCastError, ProgramError
from ._program import Limits, call
from ._results import Audit, Comparison, Fixed, Kept

Path = Union[str, "os.PathLike[str]"]
#: Arrays by input name, several sets of them, or the path of a file or folder that holds them.
Inputs = Union[Mapping[str, Any], Sequence[Mapping[str, Any]], Path]
Sizes = Optional[Mapping[str, int]]


def compare(
    reference: Union[Path, Mapping[str, Any]],
    converted: Union[Path, Mapping[str, Any]],
    inputs: Optional[Inputs] = None,
    *,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    ulp: Optional[float] = None,
    cosine: Optional[float] = None,
    sqnr: Optional[float] = None,
    per_output: Optional[Mapping[str, str]] = None,
    tolerance: Optional[Path] = None,
    all_tensors: bool = False,
    graph: Optional[Path] = None,
    sizes: Sizes = None,
    seed: Optional[int] = None,
    sets: Optional[int] = None,
    report: Optional[Path] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
) -> Comparison:
    """Runs a model and its conversion on the same inputs, and says where they part.

    Either side may be values that another runtime computed: a dict of arrays by output name, or a path of a .npz or a folder.
    Without a tolerance, values must be the same. ``tolerance`` is a file of limits, ``per_output`` has a tolerance such as
    ``"rtol=1e-2,atol=1e-3"`` by output, ``sizes`` has symbolic dimensions' sizes. ``graph`` is the model
    whose tensors both sides are, where both were saved. ``report`` is where to write the page.

    ``timeout`` is how many seconds the call may take, ``max_memory`` how many GiB tract may use, and ``max_nodes`` how many nodes it
    may be given to load; a model that is beyond them raises a :class:`ModelError`, which is a :class:`LimitError` for time and memory.
    Without them the program's own defaults hold, by which a model may run as long as it likes.

    A conversion beyond its tolerance is an answer, whose ``passed`` is false; ``compare(…).check()`` raises.
    """
    with (
        _given(inputs, converted if _is_saved(reference) else reference) as given,
        _values(reference) as left,
        _values(converted) as right,
    ):
        arguments = ["compare", left, right, *given, *_sizes(sizes)]
        arguments += _options(
            rtol=rtol, atol=atol, ulp=ulp, cosine=cosine, sqnr=sqnr, seed=seed, sets=sets
        )
        arguments += _options(tolerance=tolerance, graph=graph, report=report)
        for name, limits in (per_output or {}).items():
            arguments.append(f"--per-output={name}:{limits}")
        if all_tensors:
            arguments.append("--all-tensors")
        facts = call(arguments, Limits(timeout, max_memory, max_nodes)).facts
    return Comparison.of(_single(facts, "comparisons"), _text(report))


def audit(
    model: Path,
    inputs: Optional[Inputs] = None,
    *,
    baseline: Optional[Path] = None,
    allow: Sequence[str] = (),
    tolerance: Optional[Path] = None,
    sizes: Sizes = None,
    seed: Optional[int] = None,
    sets: Optional[int] = None,
    report: Optional[Path] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
) -> Audit:
    """Runs a model and counts what its casts do to the numbers, the worst first.

    ``allow`` has limits such as ``"wrapped"`` or ``"overflowed=3"``. What the model ``baseline`` does too is not held against this
    one. ``timeout``, ``max_memory`` and ``max_nodes`` are as in :func:`compare`.
    """
    with _given(inputs, model) as given:
        arguments = ["audit", _path(model), *given, *_sizes(sizes)]
        arguments += _options(
            baseline=baseline, tolerance=tolerance, seed=seed, sets=sets, report=report
        )
        arguments += [f"--allow={kind}" for kind in allow]
        facts = call(arguments, Limits(timeout, max_memory, max_nodes)).facts
    return Audit.of(_single(facts, "models"), _text(report))


def keep(
    model: Path,
    to: str = "FLOAT16",
    inputs: Optional[Inputs] = None,
    *,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    sizes: Sizes = None,
    seed: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
) -> Kept:
    """Finds the smallest set of nodes that a conversion to ``to`` has to keep in FLOAT.

    ``timeout``, ``max_memory`` and ``max_nodes`` are as in :func:`compare`.
    """
    with _given(inputs, model) as given:
        arguments = ["keep", _path(model), f"--to={to}", *given, *_sizes(sizes)]
        arguments += _options(rtol=rtol, atol=atol, seed=seed)
        facts = call(arguments, Limits(timeout, max_memory, max_nodes)).facts
    return Kept.of(facts)


def fix(
    model: Path,
    output: Path,
    *,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
) -> Fixed:
    """Mends what is plainly wrong with a model's casts and declarations, and leaves the rest byte for byte.

    ``timeout``, ``max_memory`` and ``max_nodes`` are as in :func:`compare`.
    """
    limits = Limits(timeout, max_memory, max_nodes)
    return Fixed.of(call(["fix", _path(model), "-o", _path(output)], limits).facts)


def record(
    model: Path,
    folder: Path,
    inputs: Optional[Inputs] = None,
    *,
    sets: Optional[int] = None,
    sizes: Sizes = None,
    seed: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
) -> list[str]:
    """Records a model's outputs as goldens, to be replayed by ``onnx-cast test``; the folders of the new sets.

    ``timeout``, ``max_memory`` and ``max_nodes`` are as in :func:`compare`.
    """
    before = set(_data_sets(folder))
    with _given(inputs, model) as given:
        arguments = [
            "record",
            _path(model),
            _path(folder),
            *given,
            *_sizes(sizes),
            *_options(sets=sets, seed=seed),
        ]
        call(arguments, Limits(timeout, max_memory, max_nodes), writes_json=False)
    return [path for path in _data_sets(folder) if path not in before]


def run(
    model: Path,
    inputs: Optional[Inputs] = None,
    *,
    sizes: Sizes = None,
    seed: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
) -> dict[str, Array]:
    """Runs a model through tract; its outputs by name, in the graph's order.

    Types that numpy lacks are those of ml_dtypes. ``timeout``, ``max_memory`` and ``max_nodes`` are as in :func:`compare`.
    """
    with _given(inputs, model, one_set=True) as given, _scratch() as folder:
        arguments = [
            "run",
            _path(model),
            *given,
            *_sizes(sizes),
            *_options(seed=seed),
            "-o",
            folder,
        ]
        call(arguments, Limits(timeout, max_memory, max_nodes))
        return _arrays.read_all(folder, "output")


@contextmanager
def _given(
    inputs: Optional[Inputs], model: Union[Path, Mapping[str, Any]], one_set: bool = False
) -> Iterator[list[str]]:
    """The inputs as options, in files for as long as this lasts."""
    if inputs is None:
        yield []
        return
    if isinstance(inputs, (str, os.PathLike)):
        yield [f"--input={_path(inputs)}"]
        return
    sets = [inputs] if isinstance(inputs, Mapping) else inputs
    if (
        not isinstance(sets, Sequence)
        or not sets
        or not all(isinstance(arrays, Mapping) for arrays in sets)
    ):
        raise CallError("inputs are a dict of arrays by name, a list of such dicts, or a path")
    if one_set and len(sets) != 1:
        raise CallError(f"one set of inputs is run at a time, and {len(sets)} are given")
    with _scratch() as folder:
        _arrays.write_sets(folder, "input", list(sets))
        if len(sets) == 1:
            first = os.path.join(folder, "test_data_set_0")
            # A name may begin as an option does.
            yield [f"--input={name}={first}/input_{index}.pb" for index, name in enumerate(sets[0])]
            return
        _check_names(sets, model)
        yield [f"--input={folder}"]


def _check_names(sets: Sequence[Mapping[str, Any]], model: Union[Path, Mapping[str, Any]]) -> None:
    """A folder's files may go to inputs by their order; arrays of a dict go by name only."""
    graph = None if isinstance(model, Mapping) else _graph.read(_path(model))
    for name in (name for arrays in sets for name in arrays if graph):
        if graph and name not in graph.inputs:
            raise InputError(f"{model}: the model has no input `{name}`, but {graph.inputs}")


@contextmanager
def _values(side: Union[Path, Mapping[str, Any]]) -> Iterator[str]:
    """A side of a comparison as a path: arrays are written as saved outputs."""
    if not isinstance(side, Mapping):
        yield _path(side)
        return
    with _scratch() as folder:
        _arrays.write_all(folder, "output", side)
        yield folder


@contextmanager
def _scratch() -> Iterator[str]:
    try:
        folder = tempfile.TemporaryDirectory(prefix="onnx-cast-")
    except OSError as error:
        raise ProgramError(f"no temporary folder: {error.strerror}") from None
    with folder as path:
        try:
            yield path
        except OnnxCastError as error:
            # The caller knows nothing of this folder.
            raise type(error)(str(error).replace(path + os.sep, "")) from None


def _is_saved(side: Union[Path, Mapping[str, Any]]) -> bool:
    return isinstance(side, Mapping) or (
        not _path(side).endswith(".onnx")
        and not os.path.exists(os.path.join(_path(side), "model.onnx"))
    )


def _sizes(sizes: Sizes) -> list[str]:
    return [f"--set={symbol}={size}" for symbol, size in (sizes or {}).items()]


def _options(**values: Any) -> list[str]:
    """`--name=value` of what is given. A value of its own word could be taken for an option."""
    given = {name.replace("_", "-"): value for name, value in values.items() if value is not None}
    return [f"--{name}={_text(value)}" for name, value in given.items()]


def _text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _path(path: Path) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise CallError(f"a path is asked for, not {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise CallError("a path is text, not bytes")
    return os.path.join(".", text) if text.startswith("-") else text


def _data_sets(folder: Path) -> list[str]:
    path = _path(folder)
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
