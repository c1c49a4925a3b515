//! The conversions to few bits that nodes can be left out of.

use tract_onnx_cast::ElementType;

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
}

/// `MatMulNBitsQuantizer`'s usual block.
const BLOCK: usize = 128;

const SCHEMES: [Scheme; 4] = [
    static_of("INT8", ElementType::Int8, ElementType::Int8),
    static_of("UINT8", ElementType::Uint8, ElementType::Int8),
    static_of("FLOAT8E4M3FN", ElementType::Float8E4M3FN, ElementType::Float8E4M3FN),
    Scheme { name: "INT4", activations: None, weights: ElementType::Uint4, block: Some(BLOCK) },
];

/// `quantize_static` with a scale for each channel of weights.
const fn static_of(name: &'static str, activations: ElementType, weights: ElementType) -> Scheme {
    Scheme { name, activations: Some(activations), weights, block: None }
}

impl Scheme {
    /// That of a name of `--to`, in any case.
    pub(crate) fn of(name: &str) -> Option<Scheme> {
        SCHEMES.into_iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name))
    }

    /// Whether scales are found by the spread of values, and not by their range.
    pub(super) fn is_float(&self) -> bool {
        self.weights == ElementType::Float8E4M3FN
    }

    /// What the list is given to: a call of ONNX Runtime's as far as its arguments, ModelOpt's
    /// option, and Olive's pass, if it has one.
    pub(crate) fn converters(&self) -> (&'static str, &'static str, Option<&'static str>) {
        let olive = Some("OnnxStaticQuantization");
        match self.name {
            "INT8" => (
                "quantize_static(activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, per_channel=True",
                "--quantize_mode=int8",
                olive,
            ),
            "UINT8" => (
                "quantize_static(activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True",
                "--quantize_mode=int8",
                olive,
            ),
            "INT4" => (
                "MatMulNBitsQuantizer(bits=4, block_size=128",
                "--quantize_mode=int4",
                Some("OnnxBlockWiseRtnQuantization"),
            ),
            _ => (
                "quantize_static(activation_type=QuantType.QFLOAT8E4M3FN, weight_type=QuantType.QFLOAT8E4M3FN, per_channel=True, calibrate_method=CalibrationMethod.Distribution",
                "--quantize_mode=fp8",
                None,
            ),
        }
    }
}
