"""What is given as objects, in files for as long as a call lasts: arrays, and models."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Optional, Protocol, Union

from . import _arrays, _graph, _program
from ._errors import CallError, InputError, OnnxCastError, ProgramError


class Serializable(Protocol):
    """An ``onnx.ModelProto``, or another object that is written as one."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802


Path = Union[str, "os.PathLike[str]"]
#: A model: a path of a file or of a folder with a ``model.onnx``, an ``onnx.ModelProto``, or the bytes of one.
Model = Union[Path, Serializable, bytes]
#: A model, or values in its place: arrays by name, or the path of a ``.npz`` or of a folder of ``.pb`` files.
Side = Union[Model, Mapping[str, Any]]
#: Arrays by input name, several sets of them, or the path of a file or folder that holds them.
Inputs = Union[Mapping[str, Any], Sequence[Mapping[str, Any]], Path]

#: The fields of a ModelProto: numbers, and messages and texts.
_NUMBERS, _MESSAGES = (1, 5), (2, 3, 4, 6, 7, 8, 14, 20, 25, 26)


@contextmanager
def scratch() -> Iterator[str]:
    """A folder that the caller never hears of."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="onnx-cast-")
    except OSError as error:
        raise ProgramError(f"no temporary folder: {error.strerror}") from None
    with folder as path:
        token = _program.folder.set(path)
        try:
            yield path
        except OnnxCastError as error:
            raise type(error)(_told(str(error), path)) from None
        finally:
            _program.folder.reset(token)


def _told(line: str, folder: str) -> str:
    """An error without the files of a folder: the caller has given arrays."""
    name = rf"{re.escape(os.path.join(folder, 'inputs', 'test_data_set_'))}(\d+){re.escape(os.sep)}input_\d+\.pb"
    line = re.sub(
        name, lambda at: "the array" if at[1] == "0" else f"the array of set {at[1]}", line
    )
    if line.endswith("holds DOUBLE, not FLOAT"):
        line += ": `.astype(numpy.float32)` makes it that"
    return line.replace(folder + os.sep, "")


def path(given: Any) -> str:
    """A path as the program takes it."""
    if not isinstance(given, (str, os.PathLike)):
        raise CallError(f"a path is asked for, not {type(given).__name__}")
    text = os.fspath(given)
    if not isinstance(text, str):
        raise CallError("a path is text, not bytes")
    return os.path.join(".", text) if text.startswith("-") else text


def model(given: Any, folder: str, name: str = "model") -> str:
    """The path of a model, which is written to a folder if it is no path."""
    if isinstance(given, bytes):
        if not _is_model(given):
            raise CallError("a path is text, not bytes, and these bytes are no ONNX model")
        data = given
    elif hasattr(given, "SerializeToString"):
        try:
            data = given.SerializeToString()
        except Exception as error:
            raise CallError(
                f"the model cannot be written: {' '.join(str(error).split())[:300]}"
            ) from None
    else:
        return path(given)
    file = os.path.join(folder, f"{name}.onnx")
    with open(file, "wb") as out:
        out.write(data)
    return file


def _is_model(data: bytes) -> bool:
    """Whether bytes begin as a ModelProto does."""
    number, wire = (data[0] >> 3, data[0] & 7) if data else (0, 0)
    return number in {0: _NUMBERS, 2: _MESSAGES}.get(wire, ())


def side(given: Any, folder: str, name: str) -> str:
    """A side of a comparison as a path: arrays are written as saved outputs."""
    if not isinstance(given, Mapping):
        return model(given, folder, name)
    inner = os.path.join(folder, name)
    os.makedirs(inner)
    _arrays.write_all(inner, "output", given)
    return inner


def is_saved(given: str) -> bool:
    """Whether a path is no model's."""
    return not given.endswith(".onnx") and not os.path.exists(os.path.join(given, "model.onnx"))


def inputs(given: Optional[Inputs], model: str, folder: str, one_set: bool = False) -> list[str]:
    """The inputs of a model as options."""
    if given is None:
        return []
    if isinstance(given, (str, os.PathLike)):
        return [f"--input={path(given)}"]
    sets = [given] if isinstance(given, Mapping) else given
    if (
        not isinstance(sets, Sequence)
        or not sets
        or not all(isinstance(arrays, Mapping) for arrays in sets)
    ):
        raise CallError("inputs are a dict of arrays by name, a list of such dicts, or a path")
    for name, array in (item for arrays in sets for item in arrays.items()):
        if isinstance(array, os.PathLike) or (isinstance(array, str) and os.path.exists(array)):
            raise CallError(
                f"inputs[{name!r}] is a path: load the array, or give a .npz or a folder as inputs"
            )
    if one_set and len(sets) != 1:
        raise CallError(f"one set of inputs is run at a time, and {len(sets)} are given")
    inner = os.path.join(folder, "inputs")
    _arrays.write_sets(inner, "input", list(sets))
    if len(sets) > 1:
        _check_names(sets, model)
        return [f"--input={inner}"]
    first = os.path.join(inner, "test_data_set_0")
    # A name may begin as an option does.
    return [f"--input={name}={first}/input_{index}.pb" for index, name in enumerate(sets[0])]


def _check_names(sets: Sequence[Mapping[str, Any]], model: str) -> None:
    """A folder's files may go to inputs by their order; arrays of a dict go by name only."""
    graph = _graph.read(model)
    for name in (name for arrays in sets for name in arrays if graph):
        if graph and name not in graph.inputs:
            known = ", ".join(f"`{known}`" for known in graph.inputs)
            raise InputError(f"{model}: the model has no input `{name}`; its inputs: {known}")


def without(folder: str, facts: Any) -> Any:
    """What the program said, without the name of a folder."""
    if isinstance(facts, str):
        return facts.replace(folder + os.sep, "")
    if isinstance(facts, list):
        return [without(folder, row) for row in facts]
    if isinstance(facts, dict):
        return {key: without(folder, value) for key, value in facts.items()}
    return facts
