//! The op that is left of a `Cast` or `CastLike` in a typed model.
//!
//! - `inference`: nodes as the loader builds them
//! - `simplify`: what declutter does: no-ops, constants, casts of casts, less to cast
//! - `fuse`: casts that a matrix product takes into its store

mod fuse;
mod inference;
mod simplify;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::change_axes::{AxisChangeConsequence, AxisOp, InOut};

pub(crate) use inference::{build, of_node};

use crate::cast::element_type::{ElementType, Family};
use crate::cast::rules::Rules;
use crate::tensor::conversion::Conversion;
use crate::tensor::symbolic::numbers;

/// An ONNX `Cast` in a typed model: elements of one carrier in, as many of another out.
///
/// A symbolic dimension (`TDim`) is an INT64. Cast to INT64 it stays symbolic; cast to anything else, its symbols are
/// resolved when the model runs.
#[derive(Debug, Clone)]
pub struct OnnxCast {
    /// For messages; the op's identity does not depend on it.
    node: String,
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

    /// The op for an input of another native type than it was made for, as tract's change of a model's float precision
    /// leaves it. What it casts to stays. `None` where nothing is to be changed, or nothing can be.
    fn adapted_to(&self, input: DatumType) -> Option<OnnxCast> {
        let from = self.conversion.from();
        if input == from.datum_type() || input == DatumType::TDim || from.is_exotic() {
            return None;
        }
        let to = self.conversion.to();
        let conversion = Conversion::new(ElementType::native(input)?, to, self.conversion.rules());
        Some(OnnxCast { conversion, ..self.clone() })
    }

    /// tract's type of the output.
    pub(crate) fn output_type(&self, input: DatumType) -> DatumType {
        let to = self.conversion.to();
        if input == DatumType::TDim && to == ElementType::Int64 && !self.resolves_symbols {
            DatumType::TDim
        } else {
            to.datum_type()
        }
    }

    /// tract's own cast for this one, on an input of a type that may be symbolic, where they are equal.
    pub(crate) fn equal_core_cast(&self, input: DatumType) -> Option<Cast> {
        let from = self.conversion.from();
        let is_its_input = input == from.datum_type() || input == DatumType::TDim;
        let becomes = self.output_type(input);
        let is_equal = is_its_input && self.conversion.equals_core_cast();
        (is_equal && becomes != DatumType::TDim).then(|| Cast::new(becomes))
    }

    /// Whether the output is the input.
    fn changes_nothing(&self, input: DatumType) -> bool {
        self.conversion.is_identity() && self.output_type(input) == input
    }

    fn convert(&self, input: &Tensor, symbols: &SymbolValues) -> TractResult<Tensor> {
        let numbers = numbers(input, symbols)?;
        self.conversion.run(&numbers)
    }

    /// The symbolic value that every element of the input has, if the cast keeps it.
    fn uniform_tdim(&self, input: &TypedFact) -> Option<TDim> {
        let (from, to) = (self.conversion.from(), self.conversion.to());
        // Dimensions are small numbers, but not so small that every type holds them; truth values are.
        let holds_dimensions =
            matches!(to.family(), Family::Signed | Family::Unsigned | Family::Float(_))
                && to.bits() >= 32;
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

/// Two casts are the same op if they do the same, whatever the nodes are called.
impl PartialEq for OnnxCast {
    fn eq(&self, other: &OnnxCast) -> bool {
        self.conversion == other.conversion && self.resolves_symbols == other.resolves_symbols
    }
}

impl Eq for OnnxCast {}

impl Op for OnnxCast {
    fn name(&self) -> StaticName {
        "OnnxCast".into()
    }

    fn info(&self) -> TractResult<Vec<String>> {
        let (from, to) = (self.conversion.from(), self.conversion.to());
        let Rules { saturate, round_mode } = self.conversion.rules();
        let mut info = format!("{from} to {to}");
        if !saturate {
            info.push_str(", saturate=0");
        }
        if to == ElementType::Float8E8M0 {
            info.push_str(&format!(", round_mode={round_mode}"));
        }
        Ok(vec![info])
    }

    op_as_typed_op!();
}

impl EvalOp for OnnxCast {
    op_out_of_plan!();

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let got = input.datum_type();
        let output = if got == self.conversion.from().datum_type() {
            self.conversion.run_value(input)
        } else if let Some(adapted) = self.adapted_to(got) {
            return adapted.eval(context, tvec!(input));
        } else if self.changes_nothing(got) {
            Ok(input)
        } else {
            self.convert(&input, context.symbols).map(IntoTValue::into_tvalue)
        };
        Ok(tvec!(output.with_context(|| format!("node `{}`", self.node))?))
    }
}

impl TypedOp for OnnxCast {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("a cast has one input, not {}", inputs.len()) };
        if let Some(adapted) = self.adapted_to(input.datum_type) {
            return adapted.output_facts(inputs);
        }
        let mut fact = self.output_type(input.datum_type).fact(input.shape.clone());
        fact.uniform_tdim = self.uniform_tdim(input);
        if let Some(uniform) = &input.uniform {
            fact.uniform = if self.changes_nothing(uniform.datum_type()) {
                Some(uniform.clone())
            } else {
                // A symbolic value has no number yet, and a string that is none fails when the model runs.
                let converted = self.convert(uniform, &SymbolValues::default());
                converted.ok().map(Tensor::into_arc_tensor)
            };
        }
        Ok(tvec!(fact))
    }

    fn input_roi(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TVec<Option<TDim>>>> {
        tract_onnx::tract_core::optim::propagate_roi::bubble_roi(model, node)
    }

    fn declutter(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TypedModelPatch>> {
        simplify::simplify(self, model, node)
    }

    fn fuse(&self, model: &TypedModel, node: &TypedNode) -> TractResult<Option<TypedModelPatch>> {
        fuse::fuse(self, model, node)
    }

    fn axes_mapping(
        &self,
        inputs: &[&TypedFact],
        outputs: &[&TypedFact],
    ) -> TractResult<AxesMapping> {
        AxesMapping::natural(inputs, outputs)
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        _io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        Ok(Some(AxisChangeConsequence::new(model, node, None, change)))
    }

    fn slice(
        &self,
        patch: &mut TypedModelPatch,
        _model: &TypedModel,
        node: &TypedNode,
        _prefix: &str,
        inputs: &[OutletId],
        _output_axis: usize,
        _start: &TDim,
        _end: &TDim,
    ) -> TractResult<Option<TVec<OutletId>>> {
        patch.wire_node(&node.name, &node.op, inputs).map(Some)
    }

    as_op!();
}
