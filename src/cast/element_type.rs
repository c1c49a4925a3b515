//! The list: one row per ONNX element type that `Cast` knows. Names, ids, widths, first versions,
//! families, carriers: whatever needs to know types reads it here.

#![forbid(unsafe_code)]

use std::fmt;

use crate::cast::format::{self, FloatFormat};

/// What the bits of an element mean. Conversions are defined by family, not by pair of types
/// ([SEMANTICS §5–9](crate::semantics)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// The integers 0 and 1.
    Bool,
    /// Two's complement integers.
    Signed,
    /// Plain binary integers.
    Unsigned,
    /// Floating-point numbers of the given format.
    Float(&'static FloatFormat),
    /// UTF-8 text.
    Text,
}

/// The types that processors and runtimes have: one place in an array of them holds one element.
///
/// Of an element type that is none of them, it holds the code: the bit pattern of a BFLOAT16 in
/// `U16` and of a small float in the low bits of `U8`, the value of a small integer in `U8` or,
/// sign-extended, in `I8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MachineType {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
    Text,
}

macro_rules! element_types {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $name:literal, $bits:literal bits, since $since:literal,
       $family:expr, in $carrier:ident;)*) => {
        /// An ONNX element type that `Cast` accepts in some version: 26 in all ([SEMANTICS
        /// §1](crate::semantics)). The discriminant is the `TensorProto.DataType` id.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum ElementType { $($(#[$doc])* $variant = $id),* }

        impl ElementType {
            /// Every element type, in the order of the ONNX ids.
            pub const ALL: &'static [ElementType] = &[$(ElementType::$variant),*];

            /// The type with this `TensorProto.DataType` id; `None` for ids that no `Cast` accepts,
            /// such as complex ones.
            pub const fn from_id(id: i32) -> Option<ElementType> {
                match id { $($id => Some(ElementType::$variant),)* _ => None }
            }

            /// ONNX's name, as `TensorProto.DataType` spells it: `FLOAT8E4M3FN`.
            pub const fn name(self) -> &'static str {
                match self { $(ElementType::$variant => $name),* }
            }

            /// Bits per element as ONNX stores it; 0 for STRING, whose elements differ in length.
            pub const fn bits(self) -> u32 {
                match self { $(ElementType::$variant => $bits),* }
            }

            /// The first version of the `Cast` operator that accepts the type.
            pub const fn since(self) -> i64 {
                match self { $(ElementType::$variant => $since),* }
            }

            /// What the bits mean.
            pub const fn family(self) -> Family {
                match self { $(ElementType::$variant => $family),* }
            }

            /// The machine type that holds an element: the element's own, or one that carries its
            /// code.
            pub(crate) const fn machine_type(self) -> MachineType {
                match self { $(ElementType::$variant => MachineType::$carrier),* }
            }
        }
    };
}

element_types! {
    /// IEEE 754 single precision.
    Float = 1, "FLOAT", 32 bits, since 1, Family::Float(&format::FLOAT), in F32;
    /// Unsigned 8-bit integer.
    Uint8 = 2, "UINT8", 8 bits, since 1, Family::Unsigned, in U8;
    /// Signed 8-bit integer.
    Int8 = 3, "INT8", 8 bits, since 1, Family::Signed, in I8;
    /// Unsigned 16-bit integer.
    Uint16 = 4, "UINT16", 16 bits, since 1, Family::Unsigned, in U16;
    /// Signed 16-bit integer.
    Int16 = 5, "INT16", 16 bits, since 1, Family::Signed, in I16;
    /// Signed 32-bit integer.
    Int32 = 6, "INT32", 32 bits, since 1, Family::Signed, in I32;
    /// Signed 64-bit integer.
    Int64 = 7, "INT64", 64 bits, since 1, Family::Signed, in I64;
    /// UTF-8 text.
    String = 8, "STRING", 0 bits, since 9, Family::Text, in Text;
    /// Truth value, one byte.
    Bool = 9, "BOOL", 8 bits, since 1, Family::Bool, in Bool;
    /// IEEE 754 half precision.
    Float16 = 10, "FLOAT16", 16 bits, since 1, Family::Float(&format::FLOAT16), in F16;
    /// IEEE 754 double precision.
    Double = 11, "DOUBLE", 64 bits, since 1, Family::Float(&format::DOUBLE), in F64;
    /// Unsigned 32-bit integer.
    Uint32 = 12, "UINT32", 32 bits, since 1, Family::Unsigned, in U32;
    /// Unsigned 64-bit integer.
    Uint64 = 13, "UINT64", 64 bits, since 1, Family::Unsigned, in U64;
    /// The upper 16 bits of a FLOAT.
    BFloat16 = 16, "BFLOAT16", 16 bits, since 13, Family::Float(&format::BFLOAT16), in U16;
    /// 4 exponent and 3 mantissa bits, finite values and NaN.
    Float8E4M3FN = 17, "FLOAT8E4M3FN", 8 bits, since 19, Family::Float(&format::FLOAT8E4M3FN), in U8;
    /// As FLOAT8E4M3FN, without a negative zero.
    Float8E4M3FNUZ = 18, "FLOAT8E4M3FNUZ", 8 bits, since 19, Family::Float(&format::FLOAT8E4M3FNUZ), in U8;
    /// 5 exponent and 2 mantissa bits, with infinities.
    Float8E5M2 = 19, "FLOAT8E5M2", 8 bits, since 19, Family::Float(&format::FLOAT8E5M2), in U8;
    /// 5 exponent and 2 mantissa bits, finite values and NaN, without a negative zero.
    Float8E5M2FNUZ = 20, "FLOAT8E5M2FNUZ", 8 bits, since 19, Family::Float(&format::FLOAT8E5M2FNUZ), in U8;
    /// Unsigned 4-bit integer.
    Uint4 = 21, "UINT4", 4 bits, since 21, Family::Unsigned, in U8;
    /// Signed 4-bit integer.
    Int4 = 22, "INT4", 4 bits, since 21, Family::Signed, in I8;
    /// 2 exponent bits and 1 mantissa bit, finite values only.
    Float4E2M1 = 23, "FLOAT4E2M1", 4 bits, since 23, Family::Float(&format::FLOAT4E2M1), in U8;
    /// A power of two, or NaN.
    Float8E8M0 = 24, "FLOAT8E8M0", 8 bits, since 24, Family::Float(&format::FLOAT8E8M0), in U8;
    /// Unsigned 2-bit integer.
    Uint2 = 25, "UINT2", 2 bits, since 25, Family::Unsigned, in U8;
    /// Signed 2-bit integer.
    Int2 = 26, "INT2", 2 bits, since 25, Family::Signed, in I8;
    /// 2 exponent and 3 mantissa bits, finite values only.
    Float6E2M3 = 27, "FLOAT6E2M3", 6 bits, since 28, Family::Float(&format::FLOAT6E2M3), in U8;
    /// 3 exponent and 2 mantissa bits, finite values only.
    Float6E3M2 = 28, "FLOAT6E3M2", 6 bits, since 28, Family::Float(&format::FLOAT6E3M2), in U8;
}

impl ElementType {
    /// The type with this ONNX name, in any ASCII case: `bfloat16` is BFLOAT16.
    pub fn from_name(name: &str) -> Option<ElementType> {
        Self::ALL.iter().copied().find(|t| t.name().eq_ignore_ascii_case(name))
    }

    /// Whether it is a floating-point type, of however many bits.
    pub const fn is_float(self) -> bool {
        matches!(self.family(), Family::Float(_))
    }

    /// Whether it is FLOAT16 or BFLOAT16.
    pub const fn is_half(self) -> bool {
        matches!(self, ElementType::Float16 | ElementType::BFloat16)
    }

    /// Whether no machine type is its own, so that a carrier holds its codes.
    pub const fn is_exotic(self) -> bool {
        match self.family() {
            Family::Float(_) => !matches!(
                self.machine_type(),
                MachineType::F16 | MachineType::F32 | MachineType::F64
            ),
            Family::Signed | Family::Unsigned => self.bits() < 8,
            Family::Bool | Family::Text => false,
        }
    }

    /// Bytes per element in its machine type; `None` for STRING.
    pub const fn carrier_bytes(self) -> Option<usize> {
        match self.bits() {
            0 => None,
            bits => Some(bits.div_ceil(8) as usize),
        }
    }

    /// The low bits that hold an element in its carrier.
    pub const fn code_mask(self) -> u64 {
        match self.bits() {
            0 => 0,
            bits => u64::MAX >> (64 - bits),
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// ONNX's name of any `TensorProto.DataType` id, for messages: also of the ids that `Cast` never
/// accepts.
pub(crate) fn name_of_id(id: i32) -> String {
    match (ElementType::from_id(id), id) {
        (Some(t), _) => t.name().into(),
        (None, 0) => "UNDEFINED".into(),
        (None, 14) => "COMPLEX64".into(),
        (None, 15) => "COMPLEX128".into(),
        _ => format!("data type {id}"),
    }
}
