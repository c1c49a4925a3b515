"""ONNX Runtime's values, to compare with. Needs the packages ``onnx`` and ``onnxruntime``."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np

from ._arrays import Array
from ._errors import CallError, InputError, ModelError

Path = Union[str, "os.PathLike[str]"]


def inner_tensors(
    model: Path,
    inputs: Mapping[str, Any],
    *,
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> dict[str, Array]:
    """Every value of the main graph that ONNX Runtime computes, outputs included, by name.

    The graph is run without optimisations, by which every value is there. Values of types that numpy lacks are left out, and so are
    sequences and optionals.
    """
    onnx, runtime = _packages()
    try:
        proto = onnx.load(os.fspath(model))
    except Exception as error:
        raise ModelError(f"{os.fspath(model)}: {_line(error)}") from None
    names = _values_of(onnx, proto)
    known = {output.name for output in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        # A path of its own keeps external data findable.
        session = runtime.InferenceSession(
            _with_data(onnx, proto, model), options, providers=list(providers)
        )
    except Exception as error:
        raise ModelError(f"{os.fspath(model)}: ONNX Runtime: {_line(error)}") from None
    wanted = [
        output.name
        for output in session.get_outputs()
        if output.name and _has_numpy_type(output.type)
    ]
    unknown = sorted(set(inputs) - {row.name for row in session.get_inputs()})
    if unknown:
        raise InputError(f"{os.fspath(model)} has no input `{unknown[0]}`")
    try:
        values = session.run(wanted, {name: np.asarray(value) for name, value in inputs.items()})
    except Exception as error:
        raise InputError(f"{os.fspath(model)}: ONNX Runtime: {_line(error)}") from None
    return {name: value for name, value in zip(wanted, values) if isinstance(value, np.ndarray)}


def dump(
    model: Path, inputs: Mapping[str, Any], path: Path, *, providers: Optional[Sequence[str]] = None
) -> list[str]:
    """Writes :func:`inner_tensors` to a .npz, which ``compare`` takes in the place of a model; their names."""
    tensors = inner_tensors(model, inputs, providers=providers or ("CPUExecutionProvider",))
    for name in tensors:
        if not _is_member(name):
            raise ModelError(
                f"{os.fspath(model)}: no .npz can hold a value of the name {name[:200]!r}"
            )
    file = os.fspath(path)
    # numpy's own function takes names as keywords, of which it has some itself.
    with zipfile.ZipFile(file if file.endswith(".npz") else file + ".npz", "w") as archive:
        for name, value in tensors.items():
            # ONNX Runtime has strings as objects, which numpy could only pickle.
            array = value.astype(np.str_) if value.dtype == object else value
            with archive.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return list(tensors)


def _is_member(name: str) -> bool:
    """Whether an archive can hold a name, which leads nowhere where somebody unpacks it."""
    leads_upwards = ".." in name.replace("\\", "/").split("/")
    return not leads_upwards and "\0" not in name and len(name.encode()) <= 65_530


def _packages() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise CallError(f"{error.name} is not installed: `pip install onnx onnxruntime`") from None
    return onnx, onnxruntime


def _values_of(onnx: Any, proto: Any) -> list[str]:
    return [name for node in proto.graph.node for name in node.output if name]


def _with_data(onnx: Any, proto: Any, model: Path) -> Any:
    """The model as bytes, its external data inside."""
    onnx.external_data_helper.load_external_data_for_model(
        proto, os.path.dirname(os.path.abspath(os.fspath(model)))
    )
    return proto.SerializeToString()


def _has_numpy_type(spelled: str) -> bool:
    """Whether values of a type as ONNX Runtime spells it, `tensor(float16)`, come as an array."""
    names = "float|float16|double|int8|int16|int32|int64|uint8|uint16|uint32|uint64|bool|string"
    return spelled in {f"tensor({name})" for name in names.split("|")}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
