"""Writes the table of ONNX's operators: `python scripts/operators/make_operator_table.py [FILE]`,
by default src/onnx/operators/schemas.tsv.

One row per operator of the default domain and version, from the schemas of the pinned onnx package,
sorted by name and version.  Its columns, one without entries `-`, several entries apart by one space;
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

Two runs with the version of requirements.txt give the same bytes.  With `--check` nothing is
written, and the exit status tells whether FILE holds exactly what would be written.
"""

from __future__ import annotations

import argparse
import re
import sys
from importlib.metadata import version
from pathlib import Path

import onnx
from onnx.defs import OpSchema, get_all_schemas_with_history

ROOT = Path(__file__).resolve().parent.parent.parent
REQUIREMENTS = ROOT / "scripts" / "requirements.txt"
TABLE = ROOT / "src" / "onnx" / "operators" / "schemas.tsv"
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
    parser.add_argument("file", nargs="?", type=Path, default=TABLE)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    arguments = parser.parse_args()
    pinned = re.search(r"^onnx==(\S+)$", REQUIREMENTS.read_text(), re.MULTILINE)
    if pinned is None or version("onnx") != pinned[1]:
        print(f"onnx is {version('onnx')}, not as requirements.txt says", file=sys.stderr)
        return 1
    text = table()
    if arguments.check:
        is_same = arguments.file.is_file() and arguments.file.read_text() == text
        if not is_same:
            print(f"{arguments.file} would be written anew", file=sys.stderr)
        return 0 if is_same else 1
    arguments.file.write_text(text)
    return 0


def table() -> str:
    schemas = [s for s in get_all_schemas_with_history() if s.domain in ("", "ai.onnx")]
    schemas.sort(key=lambda s: (s.name, s.since_version))
    rows = [row(schema) for schema in schemas]
    above = [[], *rows]
    lines = ["\t".join(changed(*pair)).rstrip("\t") for pair in zip(rows, above, strict=False)]
    return "".join(line + "\n" for line in lines)


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
