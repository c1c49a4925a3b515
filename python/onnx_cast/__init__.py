"""Checks conversions of ONNX models, through the program ``onnx-cast`` that comes with this package.

>>> import onnx_cast
>>> result = onnx_cast.compare("model.onnx", "model_fp16.onnx", inputs={"x": x}, rtol=1e-2, atol=1e-2)
>>> print(result)  # FAIL, the culprit, and what to do next
>>> result.check()  # raises ToleranceError where it did not pass

Models are paths, of a file or of a folder with a model.onnx, or an onnx.ModelProto, or its bytes. Inputs are a dict of arrays by
name, a list of such dicts for several sets, or the path of a folder, a .npz, .npy or .pb file. Without inputs those recorded beside
the model (test_data_set_*) are taken, and otherwise random ones: `result.inputs` and `result.warnings` say so, and a pass on random
ones is a warning.
"""

from importlib import metadata as _metadata

from ._calls import audit, compare, keep
from ._errors import (
    CallError,
    InputError,
    LimitError,
    ModelError,
    OnnxCastError,
    OnnxCastWarning,
    ProgramError,
    ToleranceError,
)
from ._making import convert, fix, record, run
from ._program import program
from ._reduce import reduce
from ._results import Audit, Comparison, Culprit, Inputs, Parting
from ._rows import Cast, Tensor
from ._written import (
    Change,
    Converted,
    Fixed,
    Kept,
    KeptNode,
    QuantizerEffect,
    Reduced,
    ReducedCase,
)

try:
    __version__ = _metadata.version("onnx-cast")
except _metadata.PackageNotFoundError:  # used from a checkout
    __version__ = "0"

__all__ = [
    "Audit",
    "CallError",
    "Cast",
    "Change",
    "Comparison",
    "Converted",
    "Culprit",
    "Fixed",
    "InputError",
    "Inputs",
    "Kept",
    "KeptNode",
    "LimitError",
    "ModelError",
    "OnnxCastError",
    "OnnxCastWarning",
    "Parting",
    "ProgramError",
    "QuantizerEffect",
    "Reduced",
    "ReducedCase",
    "Tensor",
    "ToleranceError",
    "__version__",
    "audit",
    "compare",
    "convert",
    "fix",
    "keep",
    "program",
    "record",
    "reduce",
    "run",
]
