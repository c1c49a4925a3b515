"""Checks conversions of ONNX models, through the program ``onnx-cast`` that comes with this package.

>>> import onnx_cast
>>> result = onnx_cast.compare("model.onnx", "model_fp16.onnx", inputs={"x": x}, rtol=1e-2, atol=1e-2)
>>> result.passed, result.culprit, result.remedy
>>> result.check()  # raises ToleranceError where it did not pass

Models and folders are paths. Inputs are a dict of arrays by name, a list of such dicts for several sets, or the path of a folder, a
.npz, .npy or .pb file. Without inputs those beside the model are taken, and otherwise random ones, which the result says.
"""

from ._calls import audit, compare, fix, keep, record, run
from ._errors import (
    CallError,
    InputError,
    LimitError,
    ModelError,
    OnnxCastError,
    ProgramError,
    ToleranceError,
)
from ._program import program
from ._results import Audit, Cast, Change, Comparison, Fixed, Kept, KeptNode, Parting, Tensor

__all__ = [
    "Audit",
    "CallError",
    "Cast",
    "Change",
    "Comparison",
    "Fixed",
    "InputError",
    "Kept",
    "KeptNode",
    "LimitError",
    "ModelError",
    "OnnxCastError",
    "Parting",
    "ProgramError",
    "Tensor",
    "ToleranceError",
    "audit",
    "compare",
    "fix",
    "keep",
    "program",
    "record",
    "run",
]
