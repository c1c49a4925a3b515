//! Which operators are of which family.

/// What moves elements, with the place of the first input and how many move.
pub(in super::super) const MOVED: &[(&str, usize, usize)] = &[
    ("Compress", 0, 1),
    ("Concat", 0, usize::MAX),
    ("DepthToSpace", 0, 1),
    ("Dropout", 0, 1),
    ("Expand", 0, 1),
    ("Flatten", 0, 1),
    ("Gather", 0, 1),
    ("GatherElements", 0, 1),
    ("GatherND", 0, 1),
    ("GlobalMaxPool", 0, 1),
    ("Identity", 0, 1),
    ("MaxPool", 0, 1),
    ("ReduceMax", 0, 1),
    ("Reshape", 0, 1),
    ("ReverseSequence", 0, 1),
    ("Slice", 0, 1),
    ("SpaceToDepth", 0, 1),
    ("Split", 0, 1),
    ("Squeeze", 0, 1),
    ("Tile", 0, 1),
    ("Transpose", 0, 1),
    ("Unsqueeze", 0, 1),
    ("Where", 1, 2),
];

/// What sums up products of its inputs, with how many of them.
pub(in super::super) const SUMS: &[(&str, usize)] = &[
    ("AveragePool", 1),
    ("Conv", 3),
    ("ConvTranspose", 3),
    ("CumSum", 1),
    ("Einsum", 2),
    ("Gemm", 3),
    ("GlobalAveragePool", 1),
    ("MatMul", 2),
    ("ReduceMean", 1),
    ("ReduceSum", 1),
];

/// What works element by element, and has no other attributes than say how.
pub(super) const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "And",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "Div",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "Greater",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "PRelu",
    "Pow",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Xor",
];

/// What makes integers, in whatever type, which is no rounding of its own.
pub(super) const WHOLE: [&str; 4] = ["Ceil", "Floor", "Round", "Sign"];

/// Whether an operator is of no family: its doubt is measured.
pub(in super::super) fn has_many_steps(op: &str) -> bool {
    let is_moved = MOVED.iter().any(|(name, ..)| *name == op);
    let is_sum = SUMS.iter().any(|(name, _)| *name == op);
    let is_coder = op.starts_with("Cast") || op.ends_with("Linear");
    !(is_moved || is_sum || is_coder || ELEMENTWISE.contains(&op))
}
