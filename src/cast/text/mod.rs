//! STRING both ways ([SEMANTICS §8–9](crate::semantics)).

#![forbid(unsafe_code)]

pub(crate) mod parse;
mod scratch;
pub(crate) mod spell;
