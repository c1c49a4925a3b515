//! Which operands of which operators tract reads without a look at their shape.

/// An operand's place among the inputs of a node, and its name in the specification.
pub(super) type NamedOperand = (usize, &'static str);

/// The operands that tract reads as one number, or as one for each channel, with or without a look
/// at their length.
pub(super) const SCALARS: &[(&str, &[NamedOperand])] = &[
    ("BlackmanWindow", &[(0, "size")]),
    ("ConvInteger", &[(2, "x_zero_point"), (3, "w_zero_point")]),
    ("CumSum", &[(1, "axis")]),
    ("DFT", &[(1, "dft_length"), (2, "axis")]),
    ("Dropout", &[(1, "ratio"), (2, "training_mode")]),
    ("HammingWindow", &[(0, "size")]),
    ("HannWindow", &[(0, "size")]),
    ("If", &[(0, "cond")]),
    ("MatMulInteger", &[(2, "a_zero_point"), (3, "b_zero_point")]),
    (
        "MelWeightMatrix",
        &[
            (0, "num_mel_bins"),
            (1, "dft_length"),
            (2, "sample_rate"),
            (3, "lower_edge_hertz"),
            (4, "upper_edge_hertz"),
        ],
    ),
    (
        "NonMaxSuppression",
        &[(2, "max_output_boxes_per_class"), (3, "iou_threshold"), (4, "score_threshold")],
    ),
    ("OneHot", &[(1, "depth"), (2, "values")]),
    ("Pad", &[(2, "constant_value")]),
    ("QLinearConv", QUANTIZED),
    ("QLinearMatMul", QUANTIZED),
    ("Range", &[(0, "start"), (1, "limit"), (2, "delta")]),
    ("STFT", &[(1, "frame_step"), (3, "frame_length")]),
    ("TopK", &[(1, "K")]),
    ("Trilu", &[(1, "k")]),
];

const QUANTIZED: &[NamedOperand] = &[
    (1, "scale"),
    (2, "zero_point"),
    (4, "scale"),
    (5, "zero_point"),
    (6, "scale"),
    (7, "zero_point"),
];

/// The operators of elements at the same place of operands that are stretched to one shape.
pub(crate) const BROADCASTING: &[&str] = &[
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Clip",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
];

/// Other operators of whose operands tract makes sums and products.
pub(super) const COMPOSED: &[&str] = &[
    "BatchNormalization",
    "Gemm",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "PRelu",
    "RMSNormalization",
];

/// Operands by their places, and the least rank of each: a batch, channels and an axis to slide
/// along, or a row of indices.
pub(super) const RANKS: &[(&str, &[(usize, usize)])] = &[
    ("AveragePool", &[(0, 3)]),
    ("BatchNormalization", &[(0, 2)]),
    ("Conv", &[(0, 3), (1, 3)]),
    ("ConvInteger", &[(0, 3), (1, 3)]),
    ("ConvTranspose", &[(0, 3), (1, 3)]),
    ("GatherND", &[(0, 1), (1, 1)]),
    ("LRN", &[(0, 2)]),
    ("LpPool", &[(0, 3)]),
    ("MatMul", &[(0, 1), (1, 1)]),
    ("MatMulInteger", &[(0, 1), (1, 1)]),
    ("MaxPool", &[(0, 3)]),
    ("QLinearConv", &[(0, 3), (3, 3)]),
    ("QLinearMatMul", &[(0, 1), (3, 1)]),
    ("ScatterND", &[(0, 1), (1, 1)]),
    ("Trilu", &[(0, 2)]),
];
