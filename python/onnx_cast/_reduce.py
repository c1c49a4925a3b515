"""The command ``reduce``, and functions as its check."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Callable, Optional, Union

from . import _arrays, _callback, _files, _options
from ._arrays import Array
from ._errors import CallError
from ._files import Inputs, Model, Path
from ._options import Ranges, Sizes, options
from ._program import Engine, Resources, call
from ._written import Reduced

#: Takes the path of a model and its inputs by name. It fails if it raises an exception or returns False.
Check = Callable[[str, dict[str, Array]], Any]


def reduce(
    reference: Model,
    converted: Optional[Model] = None,
    directory: Optional[Path] = None,
    inputs: Optional[Inputs] = None,
    *,
    check: Union[Check, str, None] = None,
    status: Optional[int] = None,
    stderr: Optional[str] = None,
    shell: bool = False,
    check_timeout: Optional[int] = None,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    ulp: Optional[float] = None,
    cosine: Optional[float] = None,
    sqnr: Optional[float] = None,
    per_output: _options.OutputLimits = None,
    tolerance: Optional[Path] = None,
    sizes: Sizes = None,
    ranges: Ranges = None,
    seed: Optional[int] = None,
    sets: Optional[int] = None,
    random: bool = False,
    limit: Optional[int] = None,
    shuffle: Optional[int] = None,
    timeout: Optional[float] = None,
    max_memory: Optional[int] = None,
    max_nodes: Optional[int] = None,
    engine: Optional[Engine] = None,
    progress: Optional[bool] = None,
) -> Reduced:
    """Reduces a pair of models to the smallest part in which they diverge, or a model to the smallest part that a check fails on.

    Args:
        reference: The model that is right; with ``check`` the model.
        converted: The model that is judged; nothing with ``check``.
        directory: Where the case is written: a new folder, or an empty one.
        inputs: As in :func:`compare`; so are the tolerances and all that follows.
        check: Called with the path of a model and its inputs by name. It fails, which is what is to stay so, if it raises an
            exception or returns False, as a test does. Or a command, in which ``{model}`` and ``{inputs}`` stand for paths.
        status: The exit status that a command fails with, 128 and its number for a signal; any but 0 without it.
        stderr: What a command has to write to standard error to have failed.
        shell: Have a shell run the command.
        check_timeout: How many seconds a call of ``check`` may take. One that takes longer is not ended, but does not count.

    Returns:
        What was written. ``cases`` is empty where there is nothing to show.

    Raises:
        ModelError, InputError, CallError: As in :func:`compare`.

    Example:
        >>> reduce("model.onnx", "model_fp16.onnx", "case", rtol=1e-2).cases[0].node
        'Pow_3'
        >>> reduce("model.onnx", directory="case", check=fails_in_my_runtime)
    """
    if check is not None and directory is None and isinstance(converted, (str, os.PathLike)):
        converted, directory = None, converted
    if directory is None:
        raise CallError("directory: the folder that the case is written to is asked for")
    if (converted is None) == (check is None):
        raise CallError("either a converted model is asked for or a check")
    if not isinstance(check, str) and (status is not None or stderr is not None or shell):
        raise CallError("status, stderr and shell are for a check that is a command")
    with _files.scratch() as folder, _served(check) as command:
        file = _files.model(reference, folder, "reference")
        words = ["reduce", file, "-o", _files.path(directory)]
        if converted is not None:
            words.append(_files.model(converted, folder, "converted"))
        words += _files.inputs(inputs, file, folder)
        words += options(
            check=command, status=_callback.FAILS if callable(check) else status,
            stderr=stderr, shell=shell, check_timeout=check_timeout, rtol=rtol, atol=atol, ulp=ulp,
            cosine=cosine, sqnr=sqnr, per_output=per_output, tolerance=tolerance, sizes=sizes,
            ranges=ranges, seed=seed, sets=sets, random=random, limit=limit, shuffle=shuffle,
        )  # fmt: skip
        resources = Resources(timeout, max_memory, max_nodes, progress, engine)
        return Reduced.of(_files.without(folder, call(words, resources).facts))


@contextmanager
def _served(check: Union[Check, str, None]) -> Iterator[Optional[str]]:
    """The command that has a function called, for as long as it may be asked for; a command is one already."""
    if check is None or isinstance(check, str):
        yield check
        return
    key = secrets.token_bytes(16)
    with Listener(authkey=key) as listener:
        is_over = threading.Event()
        server = threading.Thread(target=_serve, args=(listener, check, is_over), daemon=True)
        server.start()
        words = [sys.executable, "-I", _callback.__file__, str(listener.address), key.hex()]
        try:
            yield f"{shlex.join(words)} {{model}} {{inputs}}"
        finally:
            is_over.set()
            # Who waits for a connection is not woken by the listener's end.
            Client(listener.address, authkey=key).close()
            server.join()


def _serve(listener: Listener, check: Check, is_over: threading.Event) -> None:
    """Answers one process after the other, until it is over."""
    while not is_over.is_set():
        # Who asked may have been ended.
        with (
            suppress(EOFError, ConnectionError, AuthenticationError),
            listener.accept() as connection,
        ):
            if not is_over.is_set():
                _answer(connection, check)


def _answer(connection: Connection, check: Check) -> None:
    model, folder = connection.recv()
    inputs = _arrays.read_all(folder, "input")
    try:
        fails = check(model, inputs) is False
    except Exception:
        fails = True
    connection.send(fails)
