//! What the rewrite knows of a value.

use crate::cast::element_type::{ElementType, Family};

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fact {
    /// `None` where only tract's analysis can tell; never an exotic type then.
    pub(super) ty: Option<ElementType>,
    pub(super) origin: Origin,
    /// Whether tract may hold it as symbolic dimensions.
    pub(super) may_be_symbolic: bool,
    /// Whether it may be a number beyond 32 bits, or become one when it is cast to INT64.
    pub(super) may_exceed_32_bits: bool,
}

/// What a value is computed from; the last that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// Nothing but constants.
    Constants,
    /// The shapes of values.
    Shapes,
    /// What a graph is fed.
    Data,
}

impl Fact {
    /// A value that a graph is fed.
    pub(super) fn data(ty: Option<ElementType>) -> Fact {
        let may_exceed_32_bits = has_values_beyond_32_bits(ty);
        Fact { ty, origin: Origin::Data, may_be_symbolic: false, may_exceed_32_bits }
    }

    /// A constant.
    pub(super) fn constant(ty: ElementType, may_exceed_32_bits: bool) -> Fact {
        let origin = Origin::Constants;
        Fact { ty: Some(ty), origin, may_be_symbolic: false, may_exceed_32_bits }
    }

    /// Dimensions that were made numbers.
    pub(super) fn numbers() -> Fact {
        let ty = Some(ElementType::Int64);
        Fact { ty, origin: Origin::Data, may_be_symbolic: false, may_exceed_32_bits: false }
    }

    /// Whether it is INT64, as far as is known.
    pub(super) fn may_be_int64(&self) -> bool {
        self.ty.is_none_or(|ty| ty == ElementType::Int64)
    }
}

/// Whether a type has numbers beyond 32 bits; one that is not known may have.
pub(super) fn has_values_beyond_32_bits(ty: Option<ElementType>) -> bool {
    let Some(ty) = ty else { return true };
    match ty.family() {
        Family::Bool => false,
        Family::Signed => ty.bits() > 32,
        Family::Unsigned => ty.bits() > 16,
        Family::Float(format) => format.bias > 31,
        Family::Text => true,
    }
}
