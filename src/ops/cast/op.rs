//! The op that is left of a `Cast` or `CastLike` in a typed model: what it is and what it computes.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::cast::Cast;

use crate::cast::element_type::{ElementType, Family};
use crate::cast::rules::Rules;
use crate::ops::host::label::Label;
use crate::tensor::conversion::Conversion;
use crate::tensor::memory::Memory;
use crate::tensor::symbolic::numbers;

/// An ONNX `Cast` in a typed model: elements of one carrier in, as many of another out.
///
/// A symbolic dimension (`TDim`) is an INT64. Cast to INT64 it stays symbolic; cast to anything
/// else, its symbols are resolved when the model runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnnxCast {
    /// For messages.
    node: Label,
    conversion: Conversion,
    /// Whether a symbolic input becomes numbers even as INT64.
    resolves_symbols: bool,
}

impl OnnxCast {
    /// A cast between two element types, as a typed model's op.
    ///
    /// `node` is what run-time errors call it.
    pub fn new(node: &str, from: ElementType, to: ElementType, rules: Rules) -> OnnxCast {
        OnnxCast::of_conversion(node, Conversion::new(from, to, rules))
    }

    pub(crate) fn of_conversion(node: &str, conversion: Conversion) -> OnnxCast {
        OnnxCast { node: node.into(), conversion, resolves_symbols: false }
    }

    /// The same, which shares what is kept of large outputs with the casts that a model has.
    pub(crate) fn beside_casts_of(self, model: &TypedModel) -> OnnxCast {
        // Casts are wired one after the other, so the last one is not far.
        let other = model.nodes.iter().rev().find_map(|node| node.op_as::<OnnxCast>());
        match other {
            Some(other) => {
                OnnxCast { conversion: self.conversion.beside(&other.conversion), ..self }
            }
            None => self,
        }
    }

    /// Has it keep its large outputs where others keep theirs.
    pub(crate) fn share(&mut self, memory: &Memory) {
        self.conversion = self.conversion.clone().sharing(memory);
    }

    /// The same op of another conversion.
    pub(super) fn with_conversion(&self, conversion: Conversion) -> OnnxCast {
        OnnxCast { conversion: conversion.beside(&self.conversion), ..self.clone() }
    }

    /// The same, but a symbolic dimension becomes a number even as INT64.
    pub(crate) fn resolving_symbols(self, resolves_symbols: bool) -> OnnxCast {
        OnnxCast { resolves_symbols, ..self }
    }

    /// The conversion that the op performs.
    pub fn conversion(&self) -> &Conversion {
        &self.conversion
    }

    /// Whether a symbolic dimension becomes a number even as INT64.
    pub(crate) fn resolves_symbols(&self) -> bool {
        self.resolves_symbols
    }

    /// What errors call the op.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// The op for an input of another native type than it was made for, as tract's change of a
    /// model's float precision leaves it. What it casts to stays. `None` where nothing is to be
    /// changed, or nothing can be.
    pub(super) fn adapted_to(&self, input: DatumType) -> Option<OnnxCast> {
        let from = self.conversion.source();
        if input == from.datum_type() || input == DatumType::TDim || from.is_exotic() {
            return None;
        }
        let to = self.conversion.target();
        let conversion = Conversion::new(ElementType::native(input)?, to, self.conversion.rules());
        Some(self.with_conversion(conversion))
    }

    /// tract's type of the output.
    pub(crate) fn output_type(&self, input: DatumType) -> DatumType {
        let to = self.conversion.target();
        if input == DatumType::TDim && to == ElementType::Int64 && !self.resolves_symbols {
            DatumType::TDim
        } else {
            to.datum_type()
        }
    }

    /// tract's own cast for this one, on an input of a type that may be symbolic, where they are
    /// equal.
    pub(crate) fn equal_core_cast(&self, input: DatumType) -> Option<Cast> {
        let from = self.conversion.source();
        let is_its_input = input == from.datum_type() || input == DatumType::TDim;
        let becomes = self.output_type(input);
        let is_equal = is_its_input && self.conversion.equals_core_cast();
        (is_equal && becomes != DatumType::TDim).then(|| Cast::new(becomes))
    }

    /// Whether the output is the input.
    pub(super) fn changes_nothing(&self, input: DatumType) -> bool {
        self.conversion.is_identity() && self.output_type(input) == input
    }

    pub(super) fn convert(&self, input: &Tensor, symbols: &SymbolValues) -> TractResult<Tensor> {
        let numbers = numbers(input, symbols)?;
        Ok(self.conversion.run(&numbers)?)
    }

    /// The symbolic value that every element of the input has, if the cast keeps it.
    pub(super) fn uniform_tdim(&self, input: &TypedFact) -> Option<TDim> {
        let (from, to) = (self.conversion.source(), self.conversion.target());
        // Dimensions are small numbers, but not so small that every type holds them; truth values
        // are. Of a float factor that is such a number tract makes a constant without the factor's
        // shape (tract-core, `optim/uniform_mask.rs`).
        let holds_dimensions =
            matches!(to.family(), Family::Signed | Family::Unsigned) && to.bits() >= 32;
        let holds_truth = from == ElementType::Bool && to != ElementType::Float8E8M0;
        if !holds_dimensions && !holds_truth {
            return None;
        }
        let symbolic_scalar = |tensor: &Arc<Tensor>| {
            let is_scalar = tensor.datum_type() == DatumType::TDim && tensor.volume() == 1;
            let view = tensor.try_as_plain_ram().ok().filter(|_| is_scalar)?;
            Some(view.as_slice::<TDim>().ok()?.first()?.eval(&SymbolValues::default()))
        };
        let known = [&input.uniform, &input.konst];
        let of_value = || known.into_iter().flatten().find_map(symbolic_scalar);
        input.uniform_tdim.clone().or_else(of_value)
    }
}
