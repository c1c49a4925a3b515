//! How codes are named, and what moves them.

/// What ONNX Runtime puts behind the name of a value to name its codes.
const SUFFIXES: [&str; 3] = ["_QuantizeLinear_Output", "_quantized", "quantized"];

/// Operators that only move what they take, codes as well.
pub(crate) const MOVERS: [&str; 9] = [
    "Flatten",
    "Gather",
    "Identity",
    "MaxPool",
    "Reshape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// The value after which codes are named.
pub(crate) fn named_after(codes: &str) -> Option<&str> {
    SUFFIXES.iter().find_map(|suffix| codes.strip_suffix(suffix))
}
