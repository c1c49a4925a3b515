"""The table of single-node cases."""

from __future__ import annotations

from dataclasses import dataclass

REF, ORT, REF_NEWEST, EXACT = "ref", "ort", "ref-newest", "exact"


@dataclass(frozen=True)
class Row:
    """One case.  `values` are decimal literals; None takes the edges of the type pair."""

    opset: int
    source: str
    target: str
    note: str = ""
    saturate: int | None = None
    round_mode: str | None = None
    values: tuple[str, ...] | None = None
    dims: tuple[int, ...] | None = None
    typed: bool = False
    oracle: str = REF
    why: str = ""
    like: bool = False
    to_text: str | None = None
    opset_import: bool = True

    @property
    def name(self) -> str:
        origin = f"opset{self.opset}" if self.opset_import else "ir2_no_opset_import"
        parts = ["castlike" if self.like else "cast", origin, self.note]
        parts += [self.source, "to", self.target]
        parts += [f"round_{self.round_mode}"] if self.round_mode is not None else []
        parts += [f"saturate{self.saturate}"] if self.saturate is not None else []
        return "_".join(part for part in parts if part)


# One row a line reads best, so no formatter here.
# fmt: off
NO_REFERENCE = "no reference runs this pair"
TWO_ROUNDINGS = "the references round twice on these values"

FLOAT8 = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
UINT32_SAFE = ("0", "-0", "0.9", "2.9", "-0.9", "4294967040", "2147483648", "16777216")
INTEGER_TEXT = ("0", "1", "-1", "+7", "000123", "100", "-42")
PLAIN_FLOATS = (
    "0", "-0", "1", "-1", "0.5", "0.1", "0.2961402", "0.039187793", "3.14159274", "1e4",
    "12345.6787", "-0.0625", "999999", "0.001",
)
SCALE_VALUES = (
    "1", "1.0000001", "1.4999999", "1.5", "1.5000001", "1.9999999", "2", "3", "0.75", "0.7",
    "6e4", "1e30", "1e-30", "1.17549435e-38", "1.7014118e38", "5", "6", "7", "448", "0.1",
)
SCALE_SPECIALS = (
    "nan", "inf", "-inf", "0", "-0", "-1", "-1e30", "1e-45", "1e-39", "5.877471754e-39",
    "5.9e-39", "1.1754942e-38", "1.17549435e-38", "1.7014118e38", "1.7014120e38", "3.4028235e38",
)

BY_NAME = [
    Row(1, "FLOAT", "FLOAT16"),
    Row(1, "FLOAT", "FLOAT16", note="lower_case_to", to_text="float16", values=PLAIN_FLOATS),
    Row(2, "INT32", "UINT8"),
    Row(2, "DOUBLE", "UINT64"),
    Row(3, "UINT8", "INT64"),
    Row(3, "FLOAT16", "BOOL"),
    Row(4, "INT64", "INT8"),
    Row(4, "UINT16", "INT16"),
    Row(4, "UINT32", "DOUBLE"),
    Row(5, "BOOL", "FLOAT"),
    Row(5, "INT16", "UINT32"),
    Row(5, "UINT64", "INT32"),
    Row(5, "INT8", "UINT16"),
    Row(1, "DOUBLE", "FLOAT", opset_import=False),
]

OPSET_6_TO_12 = [
    Row(6, "FLOAT", "INT32"),
    Row(6, "FLOAT", "UINT8", note="scalar", values=("300.7",), dims=()),
    Row(6, "INT64", "FLOAT", note="typed", typed=True),
    Row(6, "DOUBLE", "FLOAT", note="typed", typed=True),
    Row(7, "UINT64", "DOUBLE", note="typed", typed=True),
    Row(7, "FLOAT", "FLOAT", note="same"),
    Row(7, "FLOAT16", "INT8"),
    Row(7, "FLOAT", "UINT32", values=UINT32_SAFE),
    Row(8, "DOUBLE", "INT64"),
    Row(8, "INT64", "BOOL"),
    Row(8, "DOUBLE", "FLOAT16", note="rank5", dims=(2, 1, 3, 2, 3)),
    Row(8, "INT32", "INT64", note="empty", dims=(2, 0, 3)),
    Row(9, "FLOAT", "STRING", values=PLAIN_FLOATS),
    Row(9, "STRING", "FLOAT"),
    Row(9, "STRING", "INT64", values=("9007199254740993", "9223372036854775807", *INTEGER_TEXT)),
    Row(9, "FLOAT", "FLOAT16", note="empty", dims=(0,)),
    Row(10, "INT64", "STRING"),
    Row(10, "STRING", "BOOL", values=("1", "7", "-1", "2.5", "True", "nan"), dims=(2, 3)),
    Row(11, "STRING", "BOOL", note="zeros", values=("0", "-0.0", "0e9", "False", "tRUE", "1e-9"),
        oracle=EXACT, why="the evaluator takes every non-empty string for true"),
    Row(11, "FLOAT", "STRING", note="specials", oracle=ORT, values=("nan", "inf", "-inf", "0.5"),
        why="the evaluator does not write NaN and INF as the operator's text does"),
    Row(11, "FLOAT", "STRING", note="positional", values=("1e-5", "1e20", "16777216", "1e-45"),
        oracle=EXACT, why="the references switch to exponents"),
    Row(11, "DOUBLE", "STRING", values=("0.1", "1", "-2.718281828459045", "123456789.125", "0")),
    Row(11, "STRING", "DOUBLE", note="empty", dims=(0, 4)),
    Row(12, "STRING", "INT32", note="truncated", values=("100.5", "-2.718", "1e2", "-0.5", " 7\t"),
        oracle=EXACT, why="one reference refuses fractions, the other reads 1e2 as 1"),
    Row(12, "STRING", "STRING", note="same", values=("", "abc", "é", "1e5")),
    Row(12, "BOOL", "STRING"),
    Row(12, "FLOAT16", "STRING", values=("0.5", "1", "-2", "768", "0.125", "0"), dims=(6,)),
    Row(12, "STRING", "UINT8", note="scalar", values=("255",), dims=()),
]

BFLOAT16 = [
    Row(13, "FLOAT", "BFLOAT16"),
    Row(13, "BFLOAT16", "FLOAT", note="typed", typed=True),
    Row(13, "BFLOAT16", "INT32"),
    Row(14, "INT64", "BFLOAT16"),
    Row(14, "BFLOAT16", "BFLOAT16", note="same"),
    Row(15, "DOUBLE", "BFLOAT16"),
    Row(16, "DOUBLE", "BFLOAT16", note="near_tie", oracle=EXACT, why=TWO_ROUNDINGS,
        values=("1.0039062500000002", "1.00390625", "1.0117187499999998", "-1.0039062500000002")),
    Row(17, "STRING", "BFLOAT16", oracle=ORT, why="the evaluator cannot parse to this type",
        values=("0", "1", "-1", "0.1", "3.14", "65504", "NaN", "INF", "-INF", "1e-40")),
    Row(18, "BFLOAT16", "STRING", oracle=EXACT, why="the references lose digits or refuse",
        values=("0.1", "1", "-0", "1e30", "nan", "-inf")),
    Row(18, "BFLOAT16", "UINT16", note="scalar", values=("-1",), dims=()),
]

FLOAT_8 = [
    *(Row(19, "FLOAT", target) for target in FLOAT8),
    *(Row(19, "FLOAT", target, saturate=0) for target in FLOAT8),
    *(Row(20, source, "FLOAT") for source in FLOAT8),
    Row(20, "FLOAT16", "FLOAT8E4M3FN", saturate=1),
    Row(20, "FLOAT16", "FLOAT8E5M2FNUZ", saturate=0, dims=(2, 3, 1, 4)),
    Row(19, "BFLOAT16", "FLOAT8E5M2", saturate=1),
    Row(19, "DOUBLE", "FLOAT8E4M3FNUZ", saturate=0, note="typed", typed=True),
    Row(20, "DOUBLE", "FLOAT8E4M3FN", saturate=0, note="near_tie", oracle=EXACT,
        why=TWO_ROUNDINGS, values=("464", "464.00000000000006", "463.99999999999994")),
    Row(20, "INT32", "FLOAT8E5M2", saturate=0),
    Row(20, "UINT16", "FLOAT8E4M3FNUZ", saturate=1, note="typed", typed=True),
    Row(20, "BOOL", "FLOAT8E4M3FN", note="typed", typed=True),
    Row(19, "FLOAT8E4M3FN", "BOOL", dims=(4, 8)),
    Row(19, "FLOAT8E5M2", "INT32", values=("0", "-0", "1.75", "-1.75", "57344", "-3", "1e-9")),
    Row(20, "FLOAT8E4M3FN", "FLOAT8E5M2FNUZ"),
    Row(20, "FLOAT8E5M2", "FLOAT8E4M3FN", saturate=0),
    Row(20, "FLOAT8E5M2", "FLOAT8E5M2", note="same"),
    Row(20, "FLOAT8E5M2", "FLOAT8E5M2", note="same", saturate=0),
    Row(20, "FLOAT8E4M3FNUZ", "FLOAT8E4M3FNUZ", note="same_typed", typed=True),
    Row(19, "STRING", "FLOAT8E4M3FN", oracle=ORT, why="the evaluator cannot parse to this type"),
    Row(19, "FLOAT8E4M3FN", "STRING", oracle=EXACT, why="the references lose digits or refuse"),
    Row(20, "FLOAT", "FLOAT8E5M2", note="scalar", values=("-0.3",), dims=()),
    Row(20, "FLOAT8E5M2FNUZ", "FLOAT16", note="empty", dims=(3, 0)),
]

FOUR_BIT = [
    Row(21, "FLOAT", "INT4"),
    Row(21, "FLOAT16", "UINT4", saturate=0),
    Row(21, "INT4", "FLOAT", dims=(3, 5)),
    Row(21, "UINT4", "FLOAT16", note="typed_odd", typed=True, dims=(3, 5)),
    Row(22, "INT16", "INT4"),
    Row(22, "INT4", "INT64", note="typed", typed=True),
    Row(22, "UINT4", "INT4", oracle=ORT, why="the evaluator refuses the pair"),
    Row(22, "INT4", "UINT8"),
    Row(22, "INT4", "INT4", note="same_odd", dims=(7,)),
    Row(21, "FLOAT8E4M3FN", "UINT4", values=("0", "0.9", "7", "15", "2.5"), dims=(5,)),
    Row(22, "STRING", "INT4", oracle=ORT, values=("-8", "7", "0", "-1", "3"),
        why="the evaluator cannot parse to this type"),
    Row(22, "INT4", "STRING", oracle=ORT, why="the evaluator refuses the pair"),
    Row(22, "UINT4", "BOOL", note="scalar", values=("9",), dims=()),
    Row(22, "BOOL", "UINT4", note="empty", dims=(0,)),
]

FLOAT_4 = [
    Row(23, "FLOAT", "FLOAT4E2M1"),
    Row(23, "FLOAT4E2M1", "FLOAT", dims=(2, 2, 2, 2)),
    Row(23, "FLOAT16", "FLOAT4E2M1", note="odd", dims=(3, 5)),
    Row(23, "FLOAT4E2M1", "BFLOAT16", note="typed", typed=True),
    Row(23, "FLOAT4E2M1", "INT8"),
    Row(23, "INT32", "FLOAT4E2M1", note="scalar", values=("5",), dims=()),
    Row(23, "FLOAT4E2M1", "BOOL"),
    Row(23, "UINT4", "FLOAT4E2M1", oracle=EXACT, why=NO_REFERENCE),
]

SCALES = [
    *(Row(24, "FLOAT", "FLOAT8E8M0", round_mode=mode, saturate=saturate, values=SCALE_VALUES)
      for mode in ("up", "down", "nearest") for saturate in (0, 1)),
    *(Row(24, "FLOAT", "FLOAT8E8M0", note="specials", round_mode=mode, saturate=saturate,
          values=SCALE_SPECIALS, oracle=ORT, why="the evaluator is wrong at the edges of the range")
      for mode, saturate in (("up", None), ("down", 0), ("nearest", 0), ("nearest", 1))),
    Row(24, "FLOAT", "FLOAT8E8M0", values=SCALE_VALUES),
    Row(24, "FLOAT8E8M0", "FLOAT"),
    Row(24, "FLOAT8E8M0", "FLOAT16", note="typed", typed=True),
    Row(24, "BFLOAT16", "FLOAT8E8M0", round_mode="nearest", values=SCALE_VALUES),
    Row(24, "INT32", "FLOAT8E8M0", note="near_tie", values=("16777216", "16777217", "3", "0"),
        oracle=EXACT, why=TWO_ROUNDINGS),
    Row(24, "STRING", "FLOAT8E8M0", round_mode="down", values=("1", "1.9", "3e9", "NaN", "INF"),
        oracle=EXACT, why=NO_REFERENCE),
    Row(24, "FLOAT8E8M0", "INT32", values=("1", "2", "1073741824", "0.5", "4096")),
    Row(24, "FLOAT8E8M0", "BOOL"),
    Row(24, "FLOAT8E8M0", "FLOAT8E4M3FN", saturate=0, oracle=ORT,
        why="the evaluator refuses the pair"),
    Row(24, "FLOAT8E8M0", "FLOAT8E8M0", note="same", round_mode="down"),
    Row(24, "FLOAT", "FLOAT16", note="attributes_ignored", round_mode="down", saturate=0),
]

TWO_BIT = [
    Row(25, "FLOAT", "INT2", values=("0", "1.9", "-1.9", "-3", "3", "-2", "2"), dims=(7,)),
    Row(25, "INT2", "FLOAT"),
    Row(25, "UINT2", "FLOAT", note="typed_odd", typed=True, dims=(7,)),
    Row(25, "INT8", "UINT2"),
    Row(25, "INT2", "INT64", dims=(3, 3)),
    Row(25, "UINT2", "INT4", oracle=ORT, why="the evaluator refuses the pair"),
    Row(26, "FLOAT16", "UINT2", note="rank3", dims=(2, 3, 3), values=("0", "1.5", "3.9", "-0.9")),
    Row(26, "UINT2", "UINT2", note="same_odd", dims=(5,)),
    Row(27, "INT2", "FLOAT4E2M1", oracle=EXACT, why=NO_REFERENCE),
    Row(26, "STRING", "UINT2", values=("0", "1", "2", "3"), oracle=ORT,
        why="the evaluator cannot parse to this type"),
]

SIX_BIT = [
    Row(28, "FLOAT", "FLOAT6E2M3"),
    Row(28, "FLOAT", "FLOAT6E3M2"),
    Row(28, "FLOAT6E2M3", "FLOAT"),
    Row(28, "FLOAT6E3M2", "FLOAT16", note="typed", typed=True),
    Row(28, "DOUBLE", "FLOAT6E3M2", note="odd", dims=(7,)),
    Row(28, "FLOAT6E2M3", "INT32", dims=(5, 5)),
    Row(28, "FLOAT6E3M2", "FLOAT6E2M3", oracle=EXACT, why=NO_REFERENCE),
    Row(28, "FLOAT6E2M3", "FLOAT6E2M3", note="same_odd", dims=(3, 3)),
    Row(28, "INT8", "FLOAT6E2M3", note="scalar", values=("-3",), dims=()),
    Row(28, "FLOAT6E3M2", "STRING", oracle=EXACT, why=NO_REFERENCE),
    Row(28, "FLOAT", "FLOAT8E4M3FN", saturate=0),
    Row(28, "FLOAT", "INT64"),
]

CAST_LIKE = [
    Row(15, "FLOAT", "FLOAT16", like=True),
    Row(15, "FLOAT", "BFLOAT16", like=True),
    Row(16, "INT64", "STRING", like=True),
    Row(18, "FLOAT", "INT64", note="scalar", values=("-2.9",), dims=(), like=True),
    Row(19, "FLOAT", "FLOAT8E4M3FN", saturate=0, like=True),
    Row(19, "FLOAT", "FLOAT8E5M2FNUZ", saturate=1, like=True),
    Row(21, "FLOAT", "INT4", like=True),
    Row(21, "UINT4", "FLOAT", like=True),
    Row(23, "FLOAT", "FLOAT4E2M1", like=True),
    Row(24, "FLOAT", "FLOAT8E8M0", values=SCALE_VALUES, like=True),
    Row(24, "FLOAT", "FLOAT8E8M0", round_mode="down", values=SCALE_VALUES, like=True,
        oracle=EXACT, why="the references ignore round_mode here"),
    Row(25, "FLOAT", "UINT2", values=("0", "1.9", "3", "-1"), like=True),
    Row(25, "INT2", "FLOAT16", note="empty", dims=(0, 2), like=True),
    Row(28, "FLOAT", "FLOAT8E5M2", saturate=0, like=True),
]

ROWS = (
    *BY_NAME, *OPSET_6_TO_12, *BFLOAT16, *FLOAT_8, *FOUR_BIT, *FLOAT_4, *SCALES, *TWO_BIT,
    *SIX_BIT, *CAST_LIKE,
)
