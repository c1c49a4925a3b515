//! What the rewrite knows of a value.

use crate::cast::element_type::ElementType;

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fact {
    /// `None` where only tract's analysis can tell; never an exotic type then.
    pub(super) ty: Option<ElementType>,
    pub(super) origin: Origin,
}

/// What a value is computed from; the last that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// Nothing but constants.
    Constants,
    /// What a graph is fed, or the shape of a value.
    Data,
}

impl Fact {
    /// A value that a graph is fed.
    pub(super) fn data(ty: Option<ElementType>) -> Fact {
        Fact { ty, origin: Origin::Data }
    }
}
