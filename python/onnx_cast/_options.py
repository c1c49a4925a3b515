"""Keyword arguments as options of the program. Those of its resources (``timeout``, ``max_memory``) are in ``_program``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from ._errors import CallError

Sizes = Optional[Mapping[str, int]]
Ranges = Optional[Mapping[str, tuple[float, float]]]
#: Limits of one output: ``{"rtol": 1e-2}``, or as the shell has them, ``"rtol=1e-2,atol=1e-3"``.
Limit = Union[str, Mapping[str, float]]
OutputLimits = Optional[Mapping[str, Limit]]


def options(**given: Any) -> list[str]:
    """The words for what is given. What is ``None`` or ``False`` is not, and ``True`` is a flag.

    Each value stands in one word with its option, since alone it could be taken for another.
    """
    return [
        word
        for name, value in given.items()
        if value is not None and value is not False
        for word in _SPELLED.get(name, _plain)(name.replace("_", "-"), value)
    ]


def _plain(name: str, value: Any) -> Iterator[str]:
    yield f"--{name}" if value is True else f"--{name}={_text(value)}"


def _each(option: str) -> Callable[[str, Any], Iterator[str]]:
    def words(name: str, values: Union[str, Iterable[str]]) -> Iterator[str]:
        for value in [values] if isinstance(values, str) else values:
            yield f"--{option}={value}"

    return words


def _sizes(name: str, sizes: Mapping[str, int]) -> Iterator[str]:
    yield from (f"--set={symbol}={size}" for symbol, size in sizes.items())


def _ranges(name: str, ranges: Mapping[str, Sequence[float]]) -> Iterator[str]:
    try:
        yield from (f"--range={input}={low}:{high}" for input, (low, high) in ranges.items())
    except (TypeError, ValueError):
        raise CallError("ranges are a dict of (low, high) by input name") from None


def _limits(name: str, limits: Mapping[str, Limit]) -> Iterator[str]:
    for output, limit in limits.items():
        if not isinstance(limit, str):
            limit = ",".join(f"{what}={number}" for what, number in limit.items())
        yield f"--{name}={output}:{limit}"


def _text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


#: The keywords that are no options of the same name.
_SPELLED: Mapping[str, Callable[[str, Any], Iterator[str]]] = {
    "allow": _each("allow"),
    "from_types": _each("from"),
    "keep": _each("keep"),
    "keep_ops": _each("keep-op"),
    "per_output": _limits,
    "ranges": _ranges,
    "sizes": _sizes,
}
