"""Models of a single Cast or CastLike node, one for each row of the table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from onnx import ModelProto, TensorProto, checker, helper

from models.cases import Case, make_model
from models.node_table import EXACT, ORT, REF, REF_NEWEST, ROWS, Row
from reference import exact
from reference.exact import DATA_TYPES, Code
from reference.runtimes import REFERENCE, RUNTIME, run_reference, run_runtime
from reference.samples import edge_codes, parse_codes
from reference.tensors import make_tensor, proto_codes

NEWEST_OPSET = 28
ORACLES = {
    REF: REFERENCE,
    ORT: RUNTIME,
    REF_NEWEST: f"{REFERENCE} on the equivalent opset-{NEWEST_OPSET} node",
    EXACT: "scripts/reference/exact.py (exact rational arithmetic)",
}


def node_cases() -> Iterator[Case]:
    check_coverage(ROWS)
    for row in ROWS:
        yield node_case(row)


def node_case(row: Row) -> Case:
    codes = input_codes(row)
    dims = (len(codes),) if row.dims is None else row.dims
    inputs = [make_tensor("x", row.source, dims, codes, row.typed)]
    if row.like:
        # One element, because only the type of the second input may matter.
        inputs.append(make_tensor("like", row.target, (1,), ["" if row.target == "STRING" else 0]))
    model = node_model(row, dims)
    # Today's shape inference only knows an INT `to`.
    checker.check_model(model, full_check=not named_target(row))
    if not row.opset_import:
        drop_opset_import(model)
    wanted = make_tensor("y", row.target, dims, exact_codes(row, codes))
    output = oracle_output(row, model, inputs, wanted)
    check_agreement(row, codes, output, wanted)
    return Case(
        name=f"node/{row.name}",
        covers=covers(row, dims),
        model=model,
        inputs=inputs,
        outputs=[output],
        oracle=ORACLES[oracle(row)] + (f": {row.why}" if row.why else ""),
        features=features(row, dims),
    )


def oracle(row: Row) -> str:
    """No reference reads the STRING `to` of opsets below 6, so they run its newest form."""
    return REF_NEWEST if row.oracle == REF and named_target(row) else row.oracle


def named_target(row: Row) -> bool:
    return row.opset < 6 and not row.like


def input_codes(row: Row) -> list[Code]:
    given = row.values is not None
    codes = parse_codes(row.source, row.values) if given else edge_codes(row.source, row.target)
    if row.dims is None:
        return codes
    return [codes[i % len(codes)] for i in range(math.prod(row.dims))]


def exact_codes(row: Row, codes: Sequence[Code]) -> list[Code]:
    saturate = row.saturate is None or row.saturate != 0
    return exact.cast(codes, row.source, row.target, saturate, row.round_mode or "up")


def node_model(row: Row, dims: Sequence[int], opset: int | None = None) -> ModelProto:
    opset = opset or row.opset
    attributes: dict[str, Any] = {"saturate": row.saturate, "round_mode": row.round_mode}
    attributes = {key: value for key, value in attributes.items() if value is not None}
    inputs = [helper.make_tensor_value_info("x", DATA_TYPES[row.source], dims)]
    if row.like:
        inputs.append(helper.make_tensor_value_info("like", DATA_TYPES[row.target], (1,)))
        node = helper.make_node("CastLike", ["x", "like"], ["y"], "cast", **attributes)
    else:
        to = DATA_TYPES[row.target] if opset >= 6 else row.to_text or row.target
        node = helper.make_node("Cast", ["x"], ["y"], "cast", to=to, **attributes)
    output = helper.make_tensor_value_info("y", DATA_TYPES[row.target], dims)
    return make_model(helper.make_graph([node], row.name, inputs, [output]), opset)


def drop_opset_import(model: ModelProto) -> None:
    """IR 2 and older had no operator set imports; such a model is an opset 1 model."""
    model.ir_version = 2
    del model.opset_import[:]


def oracle_output(
    row: Row, model: ModelProto, inputs: Sequence[TensorProto], wanted: TensorProto
) -> TensorProto:
    which = oracle(row)
    if which == EXACT:
        return wanted
    if which == ORT:
        return run_runtime(model, inputs)[0]
    if which == REF_NEWEST:
        return run_reference(node_model(row, inputs[0].dims, NEWEST_OPSET), inputs)[0]
    return run_reference(model, inputs)[0]


def check_agreement(
    row: Row, codes: Sequence[Code], output: TensorProto, wanted: TensorProto
) -> None:
    """The oracle and the exact model share no code, so their agreement means something."""
    if list(output.dims) != list(wanted.dims):
        raise AssertionError(f"{row.name}: shape {list(output.dims)}, not {list(wanted.dims)}")
    for x, got, want in zip(codes, proto_codes(output), proto_codes(wanted), strict=True):
        if not exact.same(row.target, got, want):
            raise AssertionError(f"{row.name}: {x!r} gives {got!r}, exactly {want!r}")


def covers(row: Row, dims: Sequence[int]) -> str:
    operator = "CastLike" if row.like else "Cast"
    attributes = [f"{row.round_mode} rounding"] if row.round_mode else []
    attributes += [f"saturate {row.saturate}"] if row.saturate is not None else []
    detail = f" with {' and '.join(attributes)}" if attributes else ""
    shape = "a scalar" if not dims else f"shape {'x'.join(map(str, dims))}"
    note = f" ({row.note.replace('_', ' ')})" if row.note else ""
    origin = f"at opset {row.opset}" if row.opset_import else "in IR 2, without opset_import"
    return f"{operator} of {row.source} to {row.target}{detail} {origin}, {shape}{note}."


def features(row: Row, dims: Sequence[int]) -> list[str]:
    found = {
        "named_to": named_target(row),
        "typed_field": row.typed,
        "string": "STRING" in (row.source, row.target),
        "scalar": not dims,
        "empty": 0 in dims,
        "saturate": row.saturate is not None,
        "round_mode": row.round_mode is not None,
        "same_type": row.source == row.target,
    }
    operator = "CastLike" if row.like else "Cast"
    return [operator, row.source, row.target, *(name for name, true in found.items() if true)]


def check_coverage(rows: Sequence[Row]) -> None:
    """What the table promises: every version, type and attribute value."""
    names = [row.name for row in rows]
    assert len(set(names)) == len(names), "two rows share a name"
    casts = [row for row in rows if not row.like]
    assert {row.source for row in casts} == set(DATA_TYPES), "a source type is missing"
    assert {row.target for row in casts} == set(DATA_TYPES), "a target type is missing"
    assert {row.opset for row in casts} >= {1, 6, 9, 13, 19, 21, 23, 24, 25, 28}
    assert {row.opset for row in rows if row.like} >= {15, 19, 21, 23, 24, 25}
    assert {row.saturate for row in casts} == {None, 0, 1}
    assert {row.round_mode for row in casts} == {None, "up", "down", "nearest"}
