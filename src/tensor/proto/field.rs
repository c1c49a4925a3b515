//! The fields of `TensorProto` that hold data, and which holds that of which type.

#![forbid(unsafe_code)]

use tract_onnx::pb::TensorProto;

use crate::cast::element_type::{ElementType, Family};

/// A field of `TensorProto` that may hold the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TensorField {
    Raw,
    Float,
    Int32,
    String,
    Int64,
    Double,
    Uint64,
}

impl TensorField {
    pub(super) const ALL: [TensorField; 7] = [
        TensorField::Raw,
        TensorField::Float,
        TensorField::Int32,
        TensorField::String,
        TensorField::Int64,
        TensorField::Double,
        TensorField::Uint64,
    ];

    /// The field for the type's elements where they are not in `raw_data` ([SEMANTICS
    /// §11](crate::semantics)).
    pub(super) const fn of(ty: ElementType) -> TensorField {
        match (ty.family(), ty.bits()) {
            (Family::Text, _) => TensorField::String,
            (Family::Float(_), 64) => TensorField::Double,
            (Family::Float(_), 32) => TensorField::Float,
            (Family::Signed, 64) => TensorField::Int64,
            (Family::Unsigned, 32 | 64) => TensorField::Uint64,
            (Family::Float(_) | Family::Signed | Family::Unsigned | Family::Bool, _) => {
                assert!(ty.bits() <= 32, "an entry of int32_data has 32 bits");
                TensorField::Int32
            }
        }
    }

    /// ONNX's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            TensorField::Raw => "raw_data",
            TensorField::Float => "float_data",
            TensorField::Int32 => "int32_data",
            TensorField::String => "string_data",
            TensorField::Int64 => "int64_data",
            TensorField::Double => "double_data",
            TensorField::Uint64 => "uint64_data",
        }
    }

    /// Entries in the field, of `raw_data` bytes.
    pub(super) fn length(self, proto: &TensorProto) -> usize {
        match self {
            TensorField::Raw => proto.raw_data.len(),
            TensorField::Float => proto.float_data.len(),
            TensorField::Int32 => proto.int32_data.len(),
            TensorField::String => proto.string_data.len(),
            TensorField::Int64 => proto.int64_data.len(),
            TensorField::Double => proto.double_data.len(),
            TensorField::Uint64 => proto.uint64_data.len(),
        }
    }
}

/// Every type has a field.
const _: () = {
    let mut index = 0;
    while index < ElementType::ALL.len() {
        TensorField::of(ElementType::ALL[index]);
        index += 1;
    }
};
