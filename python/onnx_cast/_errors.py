"""What can go wrong, each with the one line that says why."""

from __future__ import annotations

import re
from typing import Optional


class OnnxCastError(Exception):
    """Something cannot be done, or is not within its limits. ``str(error)`` is one line."""

    #: ``"call"``, ``"model"``, ``"limit"``, ``"input"`` or ``"tolerance"``.
    kind: str = "call"

    @property
    def line(self) -> str:
        """The program's line, without its ``error: ``, and with keywords for options."""
        return str(self)


class OnnxCastWarning(UserWarning):
    """What passed may not pass in use: the inputs were random."""


class CallError(OnnxCastError):
    """The call makes no sense: an option that does not exist, values of the wrong kind."""

    kind = "call"


class ProgramError(CallError):
    """The program ``onnx-cast`` is missing, of another version, or another program of that name."""


class ModelError(OnnxCastError):
    """A model cannot be read or run."""

    kind = "model"


class LimitError(ModelError):
    """A model needs more memory or time than it is given."""

    kind = "limit"


class InputError(OnnxCastError):
    """An input cannot be read, or does not fit the model."""

    kind = "input"


class ToleranceError(OnnxCastError):
    """A model runs, and is not within its tolerance or limits."""

    kind = "tolerance"


_KINDS = (CallError, ModelError, LimitError, InputError, ToleranceError)
_BY_KIND = {error.kind: error for error in _KINDS}

_OF_A_CALL = re.compile(
    r"unexpected argument|unrecognized subcommand|invalid value|required arguments|cannot be used with|"
    r"a value is required|equal sign is needed"
)
#: Arrays go through files that the caller never named.
_OF_A_SCRATCH_FILE = re.compile(r"-i \S*test_data_set_0/input_\d+\.pb: ")
#: The keywords for options that have another name in the shell.
_KEYWORDS = {
    "-i": "inputs",
    "-o": "output",
    "--from": "from_types",
    "--keep-op": "keep_ops",
    "--range": "ranges",
    "--set": "sizes",
}
#: A name or a command in backticks stays as it is.
_AN_OPTION = re.compile(
    r"`[^`]*`|(?<![\w/.-])(-[io]|--(?!help)[a-z]+(?:-[a-z]+)*)(?: <[A-Z_]+>)?(?![\w.-])"
)
_OF_AN_INPUT = re.compile(r"(^|: )-i |\binput `|--set |\.np[yz]\b|input_\d+\.pb")


def from_line(line: str, kind: Optional[str]) -> OnnxCastError:
    """The error that a line of the program's is, of the kind that the program says."""
    line = _OF_A_SCRATCH_FILE.sub("", line.removeprefix("error: ").strip())
    if kind not in _BY_KIND:
        kind = (
            "call" if _OF_A_CALL.search(line) else "input" if _OF_AN_INPUT.search(line) else "model"
        )
    line = line.replace(
        "`onnx-cast fix MODEL.onnx -o FIXED.onnx`", "`onnx_cast.fix(model, output)`"
    )
    return _BY_KIND[kind](_AN_OPTION.sub(_keyword, line))


def _keyword(option: re.Match[str]) -> str:
    name = option[1]
    if name is None:
        return option[0]
    return _KEYWORDS.get(name) or name.lstrip("-").replace("-", "_")
