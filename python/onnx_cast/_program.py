"""Finding the program, and calling it."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Literal, NamedTuple, Optional

from ._errors import CallError, LimitError, OnnxCastError, ProgramError, from_line

NAME = "onnx-cast"
#: Tells the program that Python calls it, and the folder of files of which the caller has never heard.
FILES = "ONNX_CAST_PYTHON_FILES"
#: The folder of the call that is being made.
folder: ContextVar[str] = ContextVar("folder", default="")
#: Names another program than the one of this package.
VARIABLE = "ONNX_CAST_PROGRAM"
#: What runs models: a plan of the whole, or one node after the other.
Engine = Literal["plan", "nodes"]


class Said(NamedTuple):
    """What a call came to: the exit status, 0 or 1, and the JSON object on standard output."""

    status: int
    facts: dict[str, Any]


def program() -> str:
    """The path of the program: ``$ONNX_CAST_PROGRAM``, the one that was installed with this package, or the first on the path.

    It must be ``onnx-cast`` itself, in this package's version.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return _checked(named, _stamp(named))
    executable = NAME + (sysconfig.get_config_var("EXE") or "")
    for folder in _folders():
        path = os.path.join(folder, executable)
        if os.path.isfile(path):
            return _checked(path, _stamp(path))
    found = shutil.which(NAME)
    if found is None:
        raise ProgramError(
            f"the program `{NAME}` is not installed: reinstall the package, or let {VARIABLE} name it"
        )
    return _checked(found, _stamp(found))


def _folders() -> Iterator[str]:
    """Where pip puts programs: of the environment, of the user, of ``--target``."""
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", f"{os.name}_user")
    target = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    yield os.path.join(target, "bin")


def _stamp(path: str) -> int:
    """Changes when another program takes the place of this one."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from None


def _version() -> Optional[str]:
    try:
        return importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        return None  # used from a checkout, beside a program that was built there


@cache
def _checked(path: str, _stamp: int) -> str:
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=30
        )
    except OSError as error:
        raise ProgramError(f"{path} does not start: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{path} is another program: it does not answer to --version") from None
    words = answer.stdout.decode(errors="replace").split()
    if answer.returncode != 0 or len(words) != 2 or words[0] != NAME:
        raise ProgramError(f"{path} is another program of the name `{NAME}`")
    wanted = _version()
    if wanted is not None and words[1] != wanted:
        raise ProgramError(
            f"{path} is version {words[1]}, this package is version {wanted}: reinstall the package"
        )
    return path


class Resources(NamedTuple):
    """What a call may take: seconds, GiB, and how many nodes tract is given to load; and how it is run. ``None`` is the
    program's default.
    """

    timeout: Optional[float] = None
    max_memory: Optional[int] = None
    max_nodes: Optional[int] = None
    #: Whether to tell how long it has been running; ``None`` is at a terminal and in notebooks.
    progress: Optional[bool] = None
    engine: Optional[Engine] = None

    def options(self) -> list[str]:
        """As the program takes them."""
        for name in ("timeout", "max_memory", "max_nodes"):
            value = getattr(self, name)
            kinds = (int, float) if name == "timeout" else (int,)
            is_number = isinstance(value, kinds) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 < value < math.inf):
                raise CallError(f"{name} is {value!r}, which is no such number")
        options = []
        if self.timeout is not None:
            options.append(f"--timeout={math.ceil(self.timeout)}")
        if self.max_memory is not None:
            options.append(f"--max-memory={self.max_memory}")
        if self.max_nodes is not None:
            options.append(f"--max-nodes={self.max_nodes}")
        if self.engine is not None:
            options.append(f"--engine={self.engine}")
        return options


DEFAULTS = Resources()
#: The program ends what takes too long by itself, and says what it was; it is given so many seconds for that.
GRACE = 5


def call(
    arguments: Sequence[str], resources: Resources = DEFAULTS, writes_json: bool = True
) -> Said:
    """Calls the program. Raises what its error line says; exit status 1, a finding, is an answer."""
    command = [program(), *arguments, *resources.options(), *(["--json"] if writes_json else [])]
    try:
        with _progress(arguments[0], resources.progress):
            answer = _answer(command, resources.timeout)
    except OSError as error:
        raise ProgramError(f"{command[0]} does not start: {error.strerror}") from None
    except ValueError:
        raise ProgramError(
            "a path or a name holds a character that no program can be given"
        ) from None
    text = answer.stdout.decode(errors="replace")
    said = answer.stderr.decode(errors="replace")
    if answer.returncode not in (0, 1):
        raise _refusal(answer.returncode, text, said)
    if not writes_json:
        return Said(answer.returncode, {})
    facts = _object(text)
    if facts is None:
        raise ProgramError(f"{command[0]} wrote no JSON: {said.strip() or text.strip()[:200]}")
    return Said(answer.returncode, facts)


@contextmanager
def _progress(what: str, is_wanted: Optional[bool]) -> Iterator[None]:
    """Tells on standard error how long something has been running, from its third second on."""
    if is_wanted is None:
        is_wanted = "ipykernel" in sys.modules or bool(sys.stderr and sys.stderr.isatty())
    if not is_wanted:
        yield
        return
    start, is_done = time.monotonic(), threading.Event()

    def tell() -> None:
        said = ""
        while not is_done.wait(1):
            seconds = int(time.monotonic() - start)
            if seconds > 1:
                said = f"{NAME} {what}: {seconds} s"
                print(f"\r{said}", end="", file=sys.stderr, flush=True)
        if said:
            print("\r" + " " * len(said) + "\r", end="", file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_done.set()
        teller.join()


def _answer(command: Sequence[str], timeout: Optional[float]) -> subprocess.CompletedProcess[bytes]:
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, FILES: folder.get()},
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout and timeout + GRACE)
        except subprocess.TimeoutExpired:
            # It removes what is half-written, if it can.
            process.terminate()
            try:
                process.communicate(timeout=GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
            raise LimitError(f"the call takes longer than the timeout of {timeout} s") from None
        except BaseException:
            process.terminate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def _refusal(status: int, text: str, said: str) -> OnnxCastError:
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    if lines:
        return from_line(lines[0], _kind(_object(text)))
    if status < 0:
        return ProgramError(f"the program was ended by signal {-status}")
    return ProgramError(f"the program ended with status {status}: {said.strip()[:500]}")


def _object(text: str) -> Optional[dict[str, Any]]:
    try:
        facts = json.loads(text)
    except ValueError:
        return None
    return facts if isinstance(facts, dict) else None


def _kind(facts: Optional[dict[str, Any]]) -> Optional[str]:
    """The kind that the JSON gives, for the whole call or for the one model that it was about."""
    if facts is None:
        return None
    about = [
        facts,
        *(
            row
            for key in ("comparisons", "models")
            for row in facts.get(key) or []
            if isinstance(row, dict)
        ),
    ]
    for row in about:
        error = row.get("error")
        if isinstance(error, dict) and isinstance(error.get("kind"), str):
            return str(error["kind"])
    return None
