//! Which numbers operators take, by their specification, a row for each operator.

/// Where a node gives numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NumberSource {
    Attribute(&'static str),
    /// An input by its place, if it is a constant, and its name in the specification.
    Input(usize, &'static str),
}

/// What the numbers must be, r being the rank of the first input.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Must {
    /// From -r to r - 1.
    Axis,
    /// As [`Must::Axis`], none of them twice.
    Axes,
    /// From -r to r: before which axis, or behind the last.
    Boundary,
    /// Axes of the output, which has as many more as there are numbers.
    NewAxes,
    /// Each axis once, and none counted from the end.
    Permutation,
    /// How many axes the first two inputs both have and one more.
    Batch,
    /// An axis that is not the last.
    AxisButLast,
    /// One for each input or output that a `Scan` goes along: an axis of it, or a direction, which
    /// is 0 or 1.
    Scanned { outputs: bool, axes: bool },
    /// From 0 to the length of the first input's axis `axis`.
    Length,
    /// A float above 0.
    Positive,
    /// Two for each axis, of which those below 0 cut off what there is.
    Pads,
    /// From the first to the second.
    Within(i64, i64),
    /// As many as `times` for each axis behind the batch and the channels, from `least` on.
    Spatial { times: usize, least: i64 },
}

/// What an operator takes.
pub(crate) type OperatorRanges = (&'static str, &'static [(NumberSource, Must)]);

/// No dimension of a tensor is larger, so no window is, nor a step that matters; a product of two
/// is a number still.
pub(super) const MOST: i64 = 1 << 31;

const COUNT: Must = Must::Within(1, MOST);
const SIZE: Must = Must::Within(0, i64::MAX);

const fn of(name: &'static str, must: Must) -> (NumberSource, Must) {
    (NumberSource::Attribute(name), must)
}

const fn input(place: usize, name: &'static str, must: Must) -> (NumberSource, Must) {
    (NumberSource::Input(place, name), must)
}

const AXIS: &[(NumberSource, Must)] = &[of("axis", Must::Axis)];
const REDUCED: &[(NumberSource, Must)] = &[of("axes", Must::Axis), input(1, "axes", Must::Axis)];
const LENGTH: &[(NumberSource, Must)] = &[input(0, "size", Must::Within(0, MOST))];
const STEPS: Must = Must::Spatial { times: 1, least: 1 };
const PADS: (NumberSource, Must) = of("pads", Must::Spatial { times: 2, least: 0 });
const POOL: &[(NumberSource, Must)] =
    &[of("kernel_shape", STEPS), of("strides", STEPS), of("dilations", STEPS), PADS];
const CONVOLUTION: &[(NumberSource, Must)] = &[
    of("kernel_shape", STEPS),
    of("strides", STEPS),
    of("dilations", STEPS),
    PADS,
    of("group", COUNT),
    of("output_padding", Must::Spatial { times: 1, least: 0 }),
    of("output_shape", Must::Spatial { times: 1, least: 0 }),
];
const HEADS: &[(NumberSource, Must)] = &[
    of("kv_num_heads", COUNT),
    of("num_heads", Must::Within(0, MOST)),
    of("q_num_heads", COUNT),
    of("rotary_embedding_dim", Must::Within(0, MOST)),
];
const LAYER: &[(NumberSource, Must)] = &[of("hidden_size", COUNT)];

pub(crate) const RANGES: &[OperatorRanges] = &[
    ("ArgMax", AXIS),
    ("ArgMin", AXIS),
    ("Attention", HEADS),
    ("AveragePool", POOL),
    ("BlackmanWindow", LENGTH),
    ("Compress", AXIS),
    ("Concat", AXIS),
    ("ConstantOfShape", &[input(0, "input", SIZE)]),
    ("Conv", CONVOLUTION),
    ("ConvInteger", CONVOLUTION),
    ("ConvTranspose", CONVOLUTION),
    ("CumSum", &[input(1, "axis", Must::Axis)]),
    (
        "DFT",
        &[
            of("axis", Must::AxisButLast),
            input(1, "dft_length", COUNT),
            input(2, "axis", Must::AxisButLast),
        ],
    ),
    ("DepthToSpace", &[of("blocksize", COUNT)]),
    ("Flatten", &[of("axis", Must::Boundary)]),
    ("GRU", LAYER),
    ("Gather", AXIS),
    ("GatherElements", AXIS),
    ("GatherND", &[of("batch_dims", Must::Batch)]),
    ("GlobalLpPool", &[of("p", COUNT)]),
    ("GroupNormalization", &[of("num_groups", COUNT)]),
    ("GroupQueryAttention", HEADS),
    ("HammingWindow", LENGTH),
    ("HannWindow", LENGTH),
    ("Hardmax", AXIS),
    ("LRN", &[of("size", COUNT)]),
    ("LSTM", LAYER),
    ("LayerNormalization", AXIS),
    ("LogSoftmax", AXIS),
    ("LpNormalization", AXIS),
    ("MaxPool", POOL),
    ("MeanVarianceNormalization", &[of("axes", Must::Axis)]),
    (
        "MelWeightMatrix",
        &[
            input(0, "num_mel_bins", COUNT),
            input(1, "dft_length", COUNT),
            input(2, "sample_rate", COUNT),
        ],
    ),
    ("MultiHeadAttention", HEADS),
    ("Multinomial", &[of("sample_size", COUNT)]),
    ("OneHot", &[of("axis", Must::NewAxes)]),
    ("Pad", &[of("pads", Must::Pads), input(1, "pads", Must::Pads), input(3, "axes", Must::Axes)]),
    ("QLinearConv", CONVOLUTION),
    ("RMSNormalization", AXIS),
    ("RNN", LAYER),
    ("ReduceL1", REDUCED),
    ("ReduceL2", REDUCED),
    ("ReduceLogSum", REDUCED),
    ("ReduceLogSumExp", REDUCED),
    ("ReduceMax", REDUCED),
    ("ReduceMean", REDUCED),
    ("ReduceMin", REDUCED),
    ("ReduceProd", REDUCED),
    ("ReduceSum", REDUCED),
    ("ReduceSumSquare", REDUCED),
    ("Resize", &[of("axes", Must::Axes), input(2, "scales", Must::Positive)]),
    ("RotaryEmbedding", HEADS),
    ("STFT", &[input(1, "frame_step", COUNT), input(3, "frame_length", COUNT)]),
    (
        "Scan",
        &[
            of("scan_input_axes", Must::Scanned { outputs: false, axes: true }),
            of("scan_input_directions", Must::Scanned { outputs: false, axes: false }),
            of("scan_output_axes", Must::Scanned { outputs: true, axes: true }),
            of("scan_output_directions", Must::Scanned { outputs: true, axes: false }),
        ],
    ),
    ("Scatter", AXIS),
    ("ScatterElements", AXIS),
    ("SimplifiedLayerNormalization", AXIS),
    ("Slice", &[of("axes", Must::Axes), input(3, "axes", Must::Axes)]),
    ("Softmax", AXIS),
    ("SpaceToDepth", &[of("blocksize", COUNT)]),
    (
        "Split",
        &[
            of("axis", Must::Axis),
            of("num_outputs", COUNT),
            of("split", SIZE),
            input(1, "split", SIZE),
        ],
    ),
    ("Squeeze", &[of("axes", Must::Axes), input(1, "axes", Must::Axes)]),
    ("Tile", &[input(1, "repeats", SIZE)]),
    ("TopK", &[of("axis", Must::Axis), of("k", Must::Length), input(1, "K", Must::Length)]),
    ("Transpose", &[of("perm", Must::Permutation)]),
    ("Unsqueeze", &[of("axes", Must::NewAxes), input(1, "axes", Must::NewAxes)]),
];
