"""What is read of a model's graph here: names only."""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple, Optional

from ._arrays import fields
from ._errors import InputError

_GRAPH, _NODE, _INPUT = 7, 1, 11
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME = 1, 2, 3
_VALUE_NAME = 1


class Node(NamedTuple):
    name: str
    inputs: list[str]
    outputs: list[str]


class Graph(NamedTuple):
    inputs: list[str]
    nodes: list[Node]


def read(path: str) -> Optional[Graph]:
    """The main graph of a model, or of the `model.onnx` in a folder; nothing if it cannot be read, of which the program says why."""
    path = os.path.join(path, "model.onnx") if os.path.isdir(path) else path
    try:
        graph = b"".join(_messages(_bytes_of(path), _GRAPH))
        inputs = [name for value in _messages(graph, _INPUT) for name in _names(value, _VALUE_NAME)]
        return Graph(inputs, [_node(node) for node in _messages(graph, _NODE)])
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


def makers_and_readers(path: str, tensor: str) -> tuple[list[str], list[str]]:
    """The names of the nodes that make a value, and of those that read it."""
    graph = read(path)
    nodes = graph.nodes if graph else []
    makers = [node.name for node in nodes if tensor in node.outputs and node.name]
    return makers, [node.name for node in nodes if tensor in node.inputs and node.name]


def _node(data: bytes) -> Node:
    name = "".join(_names(data, _NODE_NAME))
    return Node(name, _names(data, _NODE_INPUT), _names(data, _NODE_OUTPUT))


def _messages(data: bytes, number: int) -> list[bytes]:
    return [value for field, value in fields(data) if field == number and isinstance(value, bytes)]


def _names(data: bytes, number: int) -> list[str]:
    return [value.decode(errors="replace") for value in _messages(data, number)]
