"""Writes the tables of ONNX's operators: `python scripts/operators/make_operator_table.py [FOLDER]`,
by default src/onnx/operators.

`schemas.tsv` has one row per operator of the default domain and version, from the schemas of the
pinned onnx package, sorted by name and version.  Its columns, one without entries `-`, several entries apart by one space;
an empty column, or one that is missing at the end, is that of the row above:

- the operator
- the version: the opset since which the row holds
- `deprecated` where it is
- the inputs, each with its type: a variable's name, or an element type; `?` after an input that may
  be left out, `*` after one that may be repeated with the same type, `**` with other types
- the outputs, likewise
- the variables with the types that they allow: `T=FLOAT,DOUBLE`; `seq` and `optional` stand for any
  sequences and optionals
- the attributes whose number (or, in Cast's first version, whose word) is an element type, with the
  default if they have one: `to`, `dtype=FLOAT`

`attributes.tsv` has the same of the default domain, with what ONNX Runtime has there beyond ONNX, and
of `ai.onnx.ml` and `com.microsoft`, whose operators have that in front of their names: the operator,
the version, and its attributes: name, type and, after `!`, that it is required, or, after `=`, its
default; a list's members apart by commas.

Two runs with the versions of requirements.txt give the same bytes.  With `--check` nothing is
written, and the exit status tells whether FOLDER holds exactly what would be written.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as runtime
from onnx import AttributeProto, helper
from onnx.defs import OpSchema, get_all_schemas_with_history

ROOT = Path(__file__).resolve().parent.parent.parent
REQUIREMENTS = ROOT / "scripts" / "requirements.txt"
FOLDER = ROOT / "src" / "onnx" / "operators"
TYPE_ATTRIBUTES = {
    "dtype",
    "output_datatype",
    "output_dtype",
    "precision",
    "softmax_precision",
    "stash_type",
    "to",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    arguments = parser.parse_args()
    for package in ("onnx", "onnxruntime"):
        if f"{package}=={version(package)}" not in REQUIREMENTS.read_text().splitlines():
            print(f"{package} is {version(package)}, not as requirements.txt says", file=sys.stderr)
            return 1
    schemas = get_all_schemas_with_history()
    own = [schema for schema in schemas if schema.domain in ("", "ai.onnx")]
    with_ml = own + [schema for schema in schemas if schema.domain == "ai.onnx.ml"]
    foreign = runtime_schemas({schema.name for schema in own})
    texts = {
        "schemas.tsv": table(own, row),
        "attributes.tsv": table(with_ml + foreign, attribute_row),
    }
    stale = [
        arguments.folder / name
        for name, text in texts.items()
        if not (arguments.folder / name).is_file() or (arguments.folder / name).read_text() != text
    ]
    if arguments.check:
        for file in stale:
            print(f"{file} would be written anew", file=sys.stderr)
        return 1 if stale else 0
    for file in stale:
        file.write_text(texts[file.name])
    return 0


def table(schemas: list[OpSchema], row: Callable[[OpSchema], list[str]]) -> str:
    schemas = sorted(schemas, key=lambda s: (qualified(s), s.since_version))
    rows = [row(schema) for schema in schemas]
    above = [[], *rows]
    lines = ["\t".join(changed(*pair)).rstrip("\t") for pair in zip(rows, above, strict=False)]
    return "".join(line + "\n" for line in lines)


def runtime_schemas(own: set[str]) -> list[runtime.schemadef.OpSchema]:
    """ONNX Runtime's own operators: those of its domain, and those of ONNX's that ONNX lacks."""
    return [
        schema
        for schema in runtime.get_all_operator_schema()
        if schema.domain == "com.microsoft" or (schema.domain == "" and schema.name not in own)
    ]


def qualified(schema: OpSchema) -> str:
    has_own_domain = schema.domain not in ("", "ai.onnx")
    return f"{schema.domain}::{schema.name}" if has_own_domain else schema.name


def attribute_row(schema: OpSchema) -> list[str]:
    attributes = [attribute(entry) for _, entry in sorted(schema.attributes.items())]
    return [qualified(schema), str(schema.since_version), " ".join(attributes) or "-"]


def attribute(entry: OpSchema.Attribute) -> str:
    text = f"{entry.name}:{entry.type.name}"
    if entry.required:
        return f"{text}!"
    default = (
        entry.default_value if isinstance(entry, OpSchema.Attribute) else runtime_default(entry)
    )
    if not default.name:
        return text
    value = helper.get_attribute_value(default)
    values = value if isinstance(value, (list, tuple)) else [value]
    words = ",".join(word(value) for value in values)
    assert not re.search(r"\s", words), entry.name
    return f"{text}={words}"


def runtime_default(entry: runtime.schemadef.OpSchema.Attribute) -> AttributeProto:
    return AttributeProto.FromString(entry._default_value)


def word(value: bytes | float) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return str(np.float32(value)) if isinstance(value, float) else str(value)


def changed(row: list[str], above: list[str]) -> list[str]:
    """The columns of a row, those that are as above empty."""
    return ["" if above and column == above[at] else column for at, column in enumerate(row)]


def row(schema: OpSchema) -> list[str]:
    variables = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    columns = [
        schema.name,
        str(schema.since_version),
        "deprecated" if schema.deprecated else "",
        " ".join(parameter(p, variables) for p in schema.inputs),
        " ".join(parameter(p, variables) for p in schema.outputs),
        " ".join(f"{name}={allowed(types)}" for name, types in sorted(variables.items())),
        " ".join(type_attributes(schema)),
    ]
    return [column or "-" for column in columns]


def parameter(parameter: OpSchema.FormalParameter, variables: dict[str, list[str]]) -> str:
    name = parameter.type_str
    if name not in variables:
        tensor = element_type(name)
        assert tensor is not None, name
        name = tensor
    match parameter.option:
        case OpSchema.FormalParameterOption.Single:
            return name
        case OpSchema.FormalParameterOption.Optional:
            return f"{name}?"
        case OpSchema.FormalParameterOption.Variadic:
            return f"{name}*" if parameter.is_homogeneous else f"{name}**"
    raise AssertionError(parameter.option)


def allowed(types: list[str]) -> str:
    tensors = {name for name in map(element_type, types) if name is not None}
    names = sorted(tensors, key=onnx.TensorProto.DataType.Value)
    names += [kind for kind in ("seq", "optional") if any(t.startswith(f"{kind}(") for t in types)]
    return ",".join(names)


def element_type(name: str) -> str | None:
    """The element type of a tensor type; None for a sequence or an optional."""
    match = re.fullmatch(r"tensor\((\w+)\)", name)
    if match is None:
        assert name.startswith(("seq(", "optional(")), name
        return None
    upper = match[1].upper()
    # Fails for a name that ONNX does not have.
    onnx.TensorProto.DataType.Value(upper)
    return upper


def type_attributes(schema: OpSchema) -> list[str]:
    attributes = []
    for name, attribute in sorted(schema.attributes.items()):
        kind = attribute.type.name
        if name not in TYPE_ATTRIBUTES:
            assert kind not in ("INT", "STRING") or not re.search("type|precision", name), name
            continue
        assert kind in ("INT", "STRING"), name
        default = attribute.default_value.i if kind == "INT" else 0
        has_default = default != 0
        attributes.append(
            f"{name}={onnx.TensorProto.DataType.Name(default)}" if has_default else name
        )
    return attributes


if __name__ == "__main__":
    sys.exit(main())
