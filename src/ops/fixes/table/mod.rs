//! What tract 0.23.9 computes wrongly, a row for operators that are put right alike.

use super::arithmetic::{binary, bit_shift, einsum, greater, is_nan, product};
use super::control::{branches, classes, random, scan, tree_ensemble};
use super::places::{
    expand, gathered, indices, one_hot, pad, range, slice, split, squeeze, suppression, tile, top,
};
use super::products::{convolution, integers};
use super::windows::{max_pool, resize, tapered, transform, transposed};
use super::{attention, functions, recurrent, reductions, rows, shapes, windows};
use crate::ops::host::hook::{Hook, Wire};
use crate::ops::host::stock::Build;
use crate::ops::quantize;

/// Operators of tract's that are put right.
#[allow(dead_code, reason = "a test reads why")]
pub(crate) struct OperatorFix {
    pub(crate) operators: &'static [&'static str],
    pub(crate) by: By,
    /// What tract does, in short.
    pub(crate) reason: &'static str,
    /// The row of `docs/upstream.md` that says so, by its first column.
    pub(crate) row: &'static str,
}

/// What takes its place.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// One of ours, whatever the types are.
    Build(Build),
    /// One of ours or tract's own, of which the types decide.
    Hook(Hook),
}

const fn fix(
    operators: &'static [&'static str],
    by: By,
    reason: &'static str,
    row: &'static str,
) -> OperatorFix {
    OperatorFix { operators, by, reason, row }
}

const fn hook(wire: Wire) -> By {
    By::Hook(Hook::Instead(wire))
}

const PRODUCTS: By = By::Hook(Hook::Products);

#[rustfmt::skip]
pub(crate) const FIXES: &[OperatorFix] = &[
    fix(&["Acosh", "Asinh", "Softplus"], hook(functions::function), "overflows", "Softplus, Asinh, Acosh of large numbers"),
    fix(&["Add"], hook(binary::add), "simplifies sums of a DOUBLE and almost 0", "Mul, Div by almost 1, Add, Sub of almost 0 (DOUBLE)"),
    fix(&["And", "Or"], hook(binary::logic), "forgets open sizes", "logic with a constant, of open sizes"),
    fix(&["BitwiseAnd"], hook(binary::logic), "forgets open sizes", "logic with a constant, of open sizes"),
    fix(&["ArgMax", "ArgMin"], hook(reductions::row), "panics at an axis that there is not", "reductions along an axis that there is not"),
    fix(&["Attention"], By::Build(attention::build), "gives NaN for a row of which all is hidden", "Attention, a row of which all is hidden"),
    fix(&["AveragePool"], By::Hook(Hook::Checked(windows::check, windows::pool)), "takes a window that has no room", "MaxPool, AveragePool of a window that has no room"),
    fix(&["BatchNormalization"], hook(rows::batch::batch_norm), "takes a scale of 0 for a result of 0", "scales of 0"),
    fix(&["BitShift"], hook(bit_shift::bit_shift), "takes the low bits of the number of bits", "BitShift by 64 or more"),
    fix(&["BlackmanWindow", "HammingWindow", "HannWindow"], hook(tapered::window), "computes in FLOAT", "HannWindow, HammingWindow, BlackmanWindow of DOUBLE"),
    fix(&["Celu"], hook(functions::function), "leaves out a factor", "Celu with `alpha`"),
    fix(&["Clip", "Max", "Min"], hook(functions::extreme), "drops NaN", "NaN in Relu, Clip, Max, Min, Tanh, Sigmoid, HardSigmoid, Celu, Swish"),
    fix(&["Concat"], hook(shapes::concat), "leaves out parts without elements", "Concat of parts without elements"),
    fix(&["Conv"], By::Hook(Hook::Checked(windows::check, windows::stock)), "moves a stride before the padding", "Slice with a step of Conv with `auto_pad`"),
    fix(&["ConvInteger", "QLinearConv"], hook(convolution::convolution), "moves a stride before the padding", "Slice with a step of Conv with `auto_pad`"),
    fix(&["ConvTranspose"], hook(transposed::conv_transpose), "pads at the wrong end, or panics", "ConvTranspose with `output_shape`"),
    fix(&["CumSum"], hook(rows::cumulated::cum_sum), "makes zeros by what it knows of a shape", "CumSum of what comes before, of a slice of an open size"),
    fix(&["DFT"], By::Build(transform::build), "takes the axis as long as it is", "DFT of another length than the axis"),
    fix(&["Div"], hook(binary::div), "panics at a division by 0", "Div and Mod of an integer by 0"),
    fix(&["Einsum"], By::Build(einsum::build), "sums over too little", "Einsum with an empty output, or a letter twice"),
    fix(&["Elu", "Erf", "Gelu", "Mish", "Selu", "Sigmoid", "Sinh", "Tanh"], hook(functions::function), "is off by more than a unit", "Sigmoid, Tanh, Erf, Gelu, Swish, Mish, Elu, Selu, Sinh of some numbers"),
    fix(&["Equal"], hook(binary::equal), "has no kernel for BOOL", "Equal of BOOL"),
    fix(&["Expand"], By::Build(expand::build), "makes a shape of its own of dimensions that are data", "Expand to dimensions that are data"),
    fix(&["Flatten"], hook(shapes::flatten), "takes the sizes of no elements for other ones", "Flatten of no elements"),
    fix(&["GRU", "LSTM", "RNN"], By::Hook(Hook::Checked(recurrent::check, recurrent::recurrent)), "has one direction, and one set of functions", "RNN, GRU, LSTM with `direction = \"reverse\"`"),
    fix(&["Gather", "GatherElements"], hook(gathered::gather), "panics at an index that the axis has not", "Gather, GatherElements, ScatterElements, index outside of the axis"),
    fix(&["GatherND"], hook(indices::gather_nd), "cuts indices to 32 bits", "GatherND, index beyond 32 bits"),
    fix(&["Gemm"], hook(product::gemm), "refuses integers", "Gemm of integers"),
    fix(&["GlobalAveragePool"], hook(shapes::global_pool), "divides by the number of no elements", "Softmax, Hardmax, LpNormalization, RMSNormalization, global pools without elements"),
    fix(&["GlobalLpPool"], hook(shapes::global_lp_pool), "divides by the count", "GlobalLpPool"),
    fix(&["GlobalMaxPool"], hook(shapes::global_pool), "begins with the least finite number", "Softmax, Hardmax, LpNormalization, RMSNormalization, global pools without elements"),
    fix(&["Greater"], By::Build(greater::build), "is off by two about dimensions", "Greater of dimensions"),
    fix(&["GroupNormalization"], PRODUCTS, "adds FLOATs one after the other", "sums of many FLOATs"),
    fix(&["HardSigmoid", "Relu"], hook(functions::function), "drops NaN", "NaN in Relu, Clip, Max, Min, Tanh, Sigmoid, HardSigmoid, Celu, Swish"),
    fix(&["HardSwish", "LeakyRelu", "Round"], hook(functions::function), "has no DOUBLE", "Round, Erf, Gelu, HardSwish, LeakyRelu, Sigmoid, Tanh, … of DOUBLE"),
    fix(&["If"], By::Build(branches::build), "takes the then-branch's values for both", "If whose then-branch is constant"),
    fix(&["Hardmax"], hook(rows::softmax), "panics at an axis without elements", "Softmax, Hardmax, LpNormalization, RMSNormalization, global pools without elements"),
    fix(&["InstanceNormalization"], PRODUCTS, "squares DOUBLE in FLOAT", "means of squares of DOUBLE"),
    fix(&["IsInf"], By::Build(is_nan::build), "has no kernel for FLOAT16 and DOUBLE", "IsInf of FLOAT16 and DOUBLE"),
    fix(&["IsNaN"], By::Build(is_nan::build), "has no kernel for DOUBLE", "IsNaN of DOUBLE"),
    fix(&["LinearClassifier"], By::Build(classes::build), "has no labels of STRING", "LinearClassifier, TreeEnsembleClassifier of STRING labels"),
    fix(&["LinearRegressor"], hook(classes::regressor), "multiplies by rows of another length", "LinearClassifier, LinearRegressor of rows of another length"),
    fix(&["LogSoftmax"], hook(rows::softmax), "takes the logarithm of 0", "LogSoftmax, ReduceLogSumExp of numbers far apart, or large"),
    fix(&["LayerNormalization", "LpNormalization"], hook(shapes::of_nothing), "panics at an axis without elements", "Softmax, Hardmax, LpNormalization, RMSNormalization, global pools without elements"),
    fix(&["MatMul"], hook(shapes::matmul), "rounds integers to FLOAT", "MatMul, Einsum of INT64, UINT32, UINT64"),
    fix(&["MatMulInteger"], hook(integers::matmul_integer), "takes products for what an expansion makes of them", "product of an expansion"),
    fix(&["QLinearMatMul"], hook(integers::qlinear_matmul), "takes products for what an expansion makes of them", "product of an expansion"),
    fix(&["MatMulNBits"], By::Build(quantize::n_bits::build), "rounds scales, and trusts the lengths of tensors", "MatMulNBits, blocks of 32"),
    fix(&["MaxPool"], By::Hook(Hook::Checked(windows::check, max_pool::max_pool)), "begins with the least finite number", "MaxPool of infinities, and its Indices"),
    fix(&["Mean"], hook(shapes::mean), "refuses operands of several ranks", "MatMul of two vectors; Mean of operands of several ranks"),
    fix(&["Mod"], hook(binary::modulo), "refuses a left operand that is broadcast", "Mod with a left operand that is broadcast"),
    fix(&["MultiHeadAttention"], By::Build(attention::build_multi_head), "does not look at unidirectional", "MultiHeadAttention with `unidirectional = 1`"),
    fix(&["Mul"], hook(binary::mul), "squares in FLOAT, and simplifies NaN times 0", "Mul of a value by itself"),
    fix(&["NonMaxSuppression"], hook(suppression::suppression), "takes no limit for none", "NonMaxSuppression of no boxes"),
    fix(&["OneHot"], hook(one_hot::one_hot), "cuts indices to 32 bits, and panics at those beyond the depth", "OneHot, index outside of the depth"),
    fix(&["PRelu"], hook(binary::prelu), "takes a slope of 0 for a result of 0", "PRelu by 0"),
    fix(&["Pad"], By::Build(pad::build), "takes negative sizes for large ones", "Pad by negative sizes"),
    fix(&["Pow"], hook(binary::pow), "computes integers in FLOAT", "Pow of integers, large and negative exponents"),
    fix(&["RandomNormalLike", "RandomUniformLike"], By::Build(random::build), "goes by the node's name", "RandomNormalLike, RandomUniformLike"),
    fix(&["RMSNormalization", "SimplifiedLayerNormalization"], hook(shapes::of_nothing), "divides by the number of no elements", "Softmax, Hardmax, LpNormalization, RMSNormalization, global pools without elements"),
    fix(&["Range"], By::Build(range::build), "computes INT64 in FLOAT", "Range of INT64"),
    fix(&["ReduceL1", "ReduceMean", "ReduceProd", "ReduceSum"], hook(reductions::reduced), "refuses integers, or computes them in FLOAT", "ReduceSum, ReduceMean, ReduceL1, … of INT64"),
    fix(&["ReduceL2", "ReduceLogSum", "ReduceSumSquare"], hook(reductions::reduced), "refuses integers, or computes them in FLOAT", "ReduceSumSquare, ReduceL2, ReduceLogSum, ReduceLogSumExp of integers"),
    fix(&["ReduceLogSumExp"], hook(reductions::row), "refuses integers, or computes them in FLOAT", "ReduceSumSquare, ReduceL2, ReduceLogSum, ReduceLogSumExp of integers"),
    fix(&["ReduceMax", "ReduceMin"], hook(reductions::extreme), "begins with the least finite number", "ReduceMax, ReduceMin of infinities"),
    fix(&["Resize"], By::Build(resize::build), "computes all types in FLOAT", "Resize of DOUBLE and of integers"),
    fix(&["RotaryEmbedding"], hook(gathered::rotary), "panics at a position that the cosines have not", "RotaryEmbedding, a position beyond the cosines"),
    fix(&["Scan"], By::Build(scan::build), "counts without end", "Scan of a body with fewer inputs than are scanned"),
    fix(&["Scatter", "ScatterElements"], hook(indices::scatter_elements), "drops NaN", "ScatterElements, ScatterND of NaN"),
    fix(&["ScatterND"], hook(indices::scatter_nd), "panics at negative indices", "GatherND and ScatterND, negative index"),
    fix(&["Slice"], By::Build(slice::build), "takes ends for places in the axis", "Slice with end < start"),
    fix(&["SpaceToDepth"], hook(shapes::space_to_depth), "does not read mode", "SpaceToDepth with `mode` CRD"),
    fix(&["Split"], hook(split::split), "leaves out parts without elements", "Concat of parts without elements"),
    fix(&["Sqrt"], hook(functions::function), "vanishes where it is squared", "ReduceL2, ReduceSumSquare, Mul, Pow by 2 of a root"),
    fix(&["Squeeze"], By::Build(squeeze::build), "takes a symbolic size for other than 1", "Squeeze without axes of a symbolic size"),
    fix(&["Sub"], hook(binary::sub), "simplifies differences of a DOUBLE and almost 0", "Mul, Div by almost 1, Add, Sub of almost 0 (DOUBLE)"),
    fix(&["Swish"], hook(functions::function), "does not read alpha", "Swish with `alpha`"),
    fix(&["Tile"], By::Build(tile::build), "has no zero of STRING", "Tile of STRING"),
    fix(&["TopK"], hook(top::top), "orders NaN at random", "TopK of NaN, and of more elements than there are"),
    fix(&["TreeEnsembleClassifier"], By::Build(tree_ensemble::build), "has one class", "TreeEnsembleClassifier of two classes"),
];

#[cfg(test)]
mod tests;
