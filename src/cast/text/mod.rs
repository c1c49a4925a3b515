//! STRING both ways (SEMANTICS §8–9).

pub(crate) mod parse;
mod scratch;
pub(crate) mod spell;
