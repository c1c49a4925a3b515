//! The fields of `TensorProto` that hold data, and which holds that of which type.

#![forbid(unsafe_code)]

use tract_onnx::pb::TensorProto;

use crate::cast::element_type::{ElementType, Family};

/// A field of `TensorProto` that may hold the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Raw,
    Float,
    Int32,
    String,
    Int64,
    Double,
    Uint64,
}

impl Field {
    pub(super) const ALL: [Field; 7] = [
        Field::Raw,
        Field::Float,
        Field::Int32,
        Field::String,
        Field::Int64,
        Field::Double,
        Field::Uint64,
    ];

    /// The field for the type's elements where they are not in `raw_data` ([SEMANTICS §11](crate::semantics)).
    pub(super) const fn of(ty: ElementType) -> Field {
        match (ty.family(), ty.bits()) {
            (Family::Text, _) => Field::String,
            (Family::Float(_), 64) => Field::Double,
            (Family::Float(_), 32) => Field::Float,
            (Family::Signed, 64) => Field::Int64,
            (Family::Unsigned, 32 | 64) => Field::Uint64,
            (Family::Float(_) | Family::Signed | Family::Unsigned | Family::Bool, _) => {
                assert!(ty.bits() <= 32, "an entry of int32_data has 32 bits");
                Field::Int32
            }
        }
    }

    /// ONNX's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Field::Raw => "raw_data",
            Field::Float => "float_data",
            Field::Int32 => "int32_data",
            Field::String => "string_data",
            Field::Int64 => "int64_data",
            Field::Double => "double_data",
            Field::Uint64 => "uint64_data",
        }
    }

    /// Entries in the field, of `raw_data` bytes.
    pub(super) fn length(self, proto: &TensorProto) -> usize {
        match self {
            Field::Raw => proto.raw_data.len(),
            Field::Float => proto.float_data.len(),
            Field::Int32 => proto.int32_data.len(),
            Field::String => proto.string_data.len(),
            Field::Int64 => proto.int64_data.len(),
            Field::Double => proto.double_data.len(),
            Field::Uint64 => proto.uint64_data.len(),
        }
    }
}

/// Every type has a field.
const _: () = {
    let mut index = 0;
    while index < ElementType::ALL.len() {
        Field::of(ElementType::ALL[index]);
        index += 1;
    }
};
