//! The conversions to few bits that nodes can be left out of.

use tract_onnx_cast::ElementType::{self, Float8E4M3FN, Int8, Uint4, Uint8};

/// How ONNX Runtime quantises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scheme {
    /// What `--to` calls it.
    pub(crate) name: &'static str,
    /// What activations become; `None` where only weights are quantised.
    pub(super) activations: Option<ElementType>,
    /// What weights become.
    pub(super) weights: ElementType,
    /// How many elements of a column share a scale, where not the whole channel does.
    pub(super) block: Option<usize>,
    /// The call of ONNX Runtime's that does it, as far as its arguments.
    pub(crate) call: &'static str,
    /// ModelOpt's option.
    pub(crate) mode: &'static str,
    /// Olive's pass, if it has one.
    pub(crate) olive: Option<&'static str>,
}

/// `quantize_static` with a scale for each channel of weights, and `MatMulNBitsQuantizer` with its
/// usual block.
const SCHEMES: [Scheme; 4] = [
    Scheme {
        name: "INT8",
        activations: Some(Int8),
        weights: Int8,
        block: None,
        call: "quantize_static(activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, per_channel=True",
        mode: "--quantize_mode=int8",
        olive: Some("OnnxStaticQuantization"),
    },
    Scheme {
        name: "UINT8",
        activations: Some(Uint8),
        weights: Int8,
        block: None,
        call: "quantize_static(activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True",
        mode: "--quantize_mode=int8",
        olive: Some("OnnxStaticQuantization"),
    },
    Scheme {
        name: "FLOAT8E4M3FN",
        activations: Some(Float8E4M3FN),
        weights: Float8E4M3FN,
        block: None,
        call: "quantize_static(activation_type=QuantType.QFLOAT8E4M3FN, weight_type=QuantType.QFLOAT8E4M3FN, per_channel=True, calibrate_method=CalibrationMethod.Distribution",
        mode: "--quantize_mode=fp8",
        olive: None,
    },
    Scheme {
        name: "INT4",
        activations: None,
        weights: Uint4,
        block: Some(128),
        call: "MatMulNBitsQuantizer(bits=4, block_size=128",
        mode: "--quantize_mode=int4",
        olive: Some("OnnxBlockWiseRtnQuantization"),
    },
];

impl Scheme {
    /// That of a name of `--to`, in any case.
    pub(crate) fn of(name: &str) -> Option<Scheme> {
        SCHEMES.into_iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name))
    }

    /// Whether scales are found by the spread of values, and not by their range.
    pub(super) fn is_float(&self) -> bool {
        self.weights == Float8E4M3FN
    }
}
