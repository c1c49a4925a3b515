//! The operators, how each is drawn and what it should make; and what ONNX says of their versions
//! and types.

use std::collections::HashMap;
use std::sync::LazyLock;

use tract_onnx_cast::ElementType;

use crate::answer::Oracle;
use crate::draw::Draw;
use crate::{functions, layers, movers, operands, places, products, samples, sums, windows};

/// Operators that are drawn alike.
#[derive(Clone, Copy)]
pub struct Row {
    /// The operators, apart by spaces.
    pub op: &'static str,
    /// Makes a node, and names the output that a chain goes on with.
    pub draw: fn(&mut Draw) -> Option<usize>,
    pub oracle: Oracle,
}

pub const fn row(op: &'static str, draw: fn(&mut Draw) -> Option<usize>, oracle: Oracle) -> Row {
    Row { op, draw, oracle }
}

/// A row for each operator.
pub fn rows() -> Vec<Row> {
    let rows = [
        functions::ROWS,
        operands::ROWS,
        sums::ROWS,
        products::ROWS,
        windows::ROWS,
        samples::ROWS,
        layers::ROWS,
        movers::ROWS,
        places::ROWS,
    ]
    .into_iter()
    .flatten();
    rows.flat_map(|row| row.op.split_whitespace().map(|op| Row { op, ..*row })).collect()
}

/// Operators that have no row: where they are tested instead, or what is missing.
const OTHERS: [(&str, &str); 9] = [
    ("Cast CastLike BitCast", "tests/numerics, all pairs"),
    (
        "QuantizeLinear DequantizeLinear DynamicQuantizeLinear com.microsoft.QuantizeLinear \
         com.microsoft.DequantizeLinear",
        "tests/numerics/quantizers.rs",
    ),
    ("RNN GRU LSTM Attention", "vectors in tests/data"),
    ("If Scan", "tests/graphs"),
    (
        "AffineGrid CausalConvWithState CenterCropPad Compress LpPool MaxUnpool MelWeightMatrix \
         ai.onnx.ml.Binarizer ai.onnx.ml.Imputer ai.onnx.ml.OneHotEncoder \
         ai.onnx.ml.TreeEnsembleRegressor \
         NegativeLogLikelihoodLoss ReverseSequence SoftmaxCrossEntropyLoss SwiGLU TensorScatter \
         Upsample com.microsoft.Attention com.microsoft.BiasSplitGelu \
         com.microsoft.CausalConvWithState com.microsoft.CDist com.microsoft.DynamicQuantizeLSTM \
         com.microsoft.DynamicQuantizeMatMul com.microsoft.MoE com.microsoft.NhwcConv \
         com.microsoft.QMoE \
         com.microsoft.EmbedLayerNormalization com.microsoft.ExpandDims com.microsoft.GroupNorm \
         com.microsoft.MatMulIntegerToFloat com.microsoft.QAttention com.microsoft.SkipGroupNorm \
         com.microsoft.TransposeMatMul ai.onnx.ml.Scaler",
        "compositions: vectors in tests/data",
    ),
    (
        "com.microsoft.BiasAdd com.microsoft.FusedConv com.microsoft.FusedGemm \
         com.microsoft.FusedMatMul com.microsoft.GatherBlockQuantized com.microsoft.MatMulBnb4 \
         com.microsoft.MatMulNBits \
         com.microsoft.MultiHeadAttention com.microsoft.QGemm com.microsoft.QLinearAdd \
         com.microsoft.QLinearAveragePool com.microsoft.QLinearConcat com.microsoft.QLinearConv \
         com.microsoft.QLinearGlobalAveragePool com.microsoft.QLinearLeakyRelu \
         com.microsoft.QLinearMul com.microsoft.QLinearSigmoid com.microsoft.QLinearSoftmax \
         com.microsoft.QLinearWhere com.microsoft.RotaryEmbedding",
        "tests/models, some cases of each",
    ),
    ("Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike", "no value"),
    (
        "Atanh ScaledTanh ParametricSoftplus com.microsoft.QuickGelu com.microsoft.FastGelu \
         com.microsoft.BiasGelu",
        "of less than a unit's precision",
    ),
    (
        "BlackmanWindow HammingWindow HannWindow STFT RotaryEmbedding com.microsoft.GridSample \
         com.microsoft.GroupQueryAttention com.microsoft.Pad com.microsoft.Range \
         ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.CategoryMapper \
         ai.onnx.ml.LinearClassifier ai.onnx.ml.LinearRegressor ai.onnx.ml.Normalizer \
         ai.onnx.ml.TreeEnsembleClassifier",
        "onnx's own backend tests at most",
    ),
];

const HONOURED: &str = include_str!("../../src/onnx/operators/honoured.tsv");

#[test]
fn every_operator_that_is_computed_has_a_row_or_a_reason() {
    let lines = HONOURED.lines().filter(|line| !line.starts_with('#'));
    let columns = lines.filter_map(|line| line.split('\t').next());
    let mut computed: Vec<String> =
        columns.flat_map(str::split_whitespace).map(|op| op.replace("::", ".")).collect();
    let others = OTHERS.iter().flat_map(|(ops, _)| ops.split_whitespace());
    let mut listed: Vec<&str> = rows().iter().map(|row| row.op).chain(others).collect();
    computed.sort_unstable();
    computed.dedup();
    listed.sort_unstable();
    assert_eq!(listed, computed);
}

const SCHEMAS: &str = include_str!("../../src/onnx/operators/schemas.tsv");

/// A version of an operator: the opset that it came with, and the types of its first input.
struct Version {
    since: i64,
    types: Vec<ElementType>,
}

static VERSIONS: LazyLock<HashMap<&str, Vec<Version>>> = LazyLock::new(|| {
    let mut versions: HashMap<&str, Vec<Version>> = HashMap::new();
    let mut columns = [""; 6];
    for line in SCHEMAS.lines() {
        for (column, own) in columns.iter_mut().zip(line.split('\t')) {
            if !own.is_empty() {
                *column = own;
            }
        }
        let [op, since, _, inputs, _, variables] = columns;
        let first = inputs.split(' ').next().unwrap_or_default().trim_end_matches(['?', '*']);
        let variable =
            variables.split(' ').find_map(|entry| entry.strip_prefix(first)?.strip_prefix('='));
        let names = variable.unwrap_or(first).split(',');
        let types = names.filter_map(ElementType::from_name).collect();
        let since = since.parse().expect("a version");
        versions.entry(op).or_default().push(Version { since, types });
    }
    versions
});

/// The newest opset that the tests write.
const NEWEST: i64 = 25;
/// Before it, operators were broadcast by attributes.
const OLDEST: i64 = 7;

/// The opsets with which each version of an operator can be had.
pub fn opsets(op: &str) -> Vec<(i64, i64)> {
    let Some(versions) = VERSIONS.get(op) else { return vec![(21, 21)] };
    let since: Vec<i64> = versions.iter().map(|version| version.since).collect();
    let ends = since.iter().skip(1).map(|next| next - 1).chain([NEWEST]);
    let ranges = since.iter().zip(ends).map(|(since, end)| (*since.max(&OLDEST), end));
    ranges
        .filter(|(since, end)| since <= end)
        .map(|(since, end)| (since, end.min(NEWEST)))
        .collect()
}

/// Whether ONNX's operator takes a type as its first input.
pub fn takes(op: &str, opset: i64, ty: ElementType) -> bool {
    let Some(versions) = VERSIONS.get(op) else { return true };
    let version = versions.iter().rfind(|version| version.since <= opset);
    version.is_some_and(|version| version.types.contains(&ty))
}
