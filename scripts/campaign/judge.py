"""Whether a tool or a runtime does wrong on a model, as onnx's evaluator and ONNX Runtime without optimisation say.

What the tools are is in `tools`. A fault is of a kind, which is also the exit status of a command that asks for it:
`values`, a wrong result; `invalid`, a model that nothing can load; `refused`, a model that an optimiser stops at;
`crashed`, the process.
"""

import os
import pickle
import signal

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from campaign import tools

KINDS = {"values": 3, "invalid": 4, "refused": 5, "crashed": 6}


class FaultError(Exception):
    """What is wrong."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def evaluated(model, feeds):
    """What onnx's evaluator makes."""
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, feeds)


def tried(run, *given):
    """What a run gives, or why it does not."""
    try:
        return run(*given), None
    except Exception as error:
        return None, error


def difference(right, found):
    """What two lists of outputs differ in beyond rounding; nothing where they do not."""
    for place, (x, y) in enumerate(zip(right, found, strict=True)):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind == "V" or y.dtype.kind == "V" or x.dtype.kind in "OSU":
            continue
        if x.shape != y.shape:
            return f"output {place} has shape {list(y.shape)} in the place of {list(x.shape)}"
        if x.dtype != y.dtype:
            return f"output {place} is {y.dtype} in the place of {x.dtype}"
        if not is_near(x, y):
            return f"output {place} is {shown(y)} in the place of {shown(x)}"
    return None


def is_near(x, y):
    if x.dtype.kind != "f":
        return np.array_equal(x, y)
    share = {2: 2e-2, 4: 1e-3, 8: 1e-6}.get(x.dtype.itemsize, 1e-3)
    wide, other = x.astype(np.float64), y.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    size = np.abs(finite).max() if finite.size else 0.0
    with np.errstate(invalid="ignore"):
        return np.allclose(other, wide, rtol=share, atol=share * min(size, 1.0), equal_nan=True)


def shown(array):
    flat = np.asarray(array).reshape(-1)
    return f"[{', '.join(f'{value:.6g}' for value in flat[:4].tolist())}{', …' if flat.size > 4 else ''}]"


def look(tool, model, feeds):
    """Raises a `FaultError` where the tool does wrong."""
    right, why = tried(evaluated, model, feeds)
    plain, unable = tried(tools.run, model, feeds, "disabled")
    # Whether the evaluator is at fault or the runtime, a third one says.
    if tool in (*tools.LEVELS, "evaluator"):
        return of_runtime(tool, model, feeds, (right, plain))
    if why and unable:
        return None
    if right and plain and difference(right, plain):
        # The evaluator is not to be trusted here.
        right = None
    made = tools.CONVERTERS[tool](model, feeds)
    if made is None:
        return None
    _, problem = tried(onnx.checker.check_model, made, True)
    found, found_why = tried(evaluated, made, feeds)
    found_plain, found_unable = tried(tools.run, made, feeds, "disabled")
    if not unable and found_unable and (problem or found_why):
        raise FaultError("invalid", first_line(problem or found_why))
    pairs = [(x, y) for x, y in ((right, found), (plain, found_plain)) if x and y]
    told = [tools.loosened(tool, difference, x, y) for x, y in pairs]
    if told and all(told):
        raise FaultError("values", told[0])
    return None


def of_runtime(level, model, feeds, of_others):
    right, plain = of_others
    if level in ("disabled", "evaluator"):
        if right and plain and difference(right, plain):
            raise FaultError("values", difference(right, plain))
        return
    if plain is None or (right and difference(right, plain)):
        return
    found, why = tried(tools.run, model, feeds, level)
    if found is None:
        raise FaultError("refused", first_line(why))
    told = difference(plain, found)
    if told:
        raise FaultError("values", told)


def first_line(error):
    return " ".join(str(error).split())[:300]


def judged(tool, model, feeds, seconds=20):
    """The kind of what is wrong and a sentence, by a process of its own; nothing where nothing is."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        answer = None
        try:
            look(tool, model, feeds)
        except FaultError as finding:
            answer = finding.kind, str(finding)
        except BaseException as error:
            answer = None, repr(error)[:300]
        os.write(write, pickle.dumps(answer))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGALRM:
        return "crashed", f"signal {os.WTERMSIG(status)}"
    answer = pickle.loads(told) if told else None
    return answer if answer and answer[0] else None
