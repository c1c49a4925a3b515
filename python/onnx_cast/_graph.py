"""What is read of a model's graph here: names only."""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple, Optional

from ._arrays import fields
from ._errors import InputError

_GRAPH, _INPUT = 7, 11
_VALUE_NAME = 1


class Graph(NamedTuple):
    inputs: list[str]


def read(path: str) -> Optional[Graph]:
    """The main graph of a model, or of the `model.onnx` in a folder; nothing if it cannot be read, of which the program says why."""
    path = os.path.join(path, "model.onnx") if os.path.isdir(path) else path
    try:
        graph = b"".join(_messages(_bytes_of(path), _GRAPH))
        inputs = [name for value in _messages(graph, _INPUT) for name in _names(value, _VALUE_NAME)]
        return Graph(inputs)
    except (OSError, InputError):
        return None


def _bytes_of(path: str) -> bytes:
    """What a regular file holds: a pipe would be waited for, and a device may never end."""
    with open(path, "rb", opener=_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is no file", path)
        return file.read(status.st_size)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _messages(data: bytes, number: int) -> list[bytes]:
    return [value for field, value in fields(data) if field == number and isinstance(value, bytes)]


def _names(data: bytes, number: int) -> list[str]:
    return [value.decode(errors="replace") for value in _messages(data, number)]
