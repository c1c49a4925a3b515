//! `Cast` and `CastLike` in tract: inference rules, and the op that is left in a typed model.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::ops::change_axes::{AxisChangeConsequence, AxisOp, InOut};
use tract_onnx::tract_hir::internal::*;

use crate::conversion::Conversion;
use crate::element_type::{ElementType, Family};
use crate::error::Error;
use crate::rewrite::{DOMAIN, PrivateCast};
use crate::rules::Rules;
use crate::spec::{CastSpec, node_name};

/// Builds the inference op of a `Cast` or `CastLike` node: of one that the rewrite has prepared, or, where only the ops
/// were registered, of one as it stands in the file.
pub(crate) fn build(
    context: &ParsingContext,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let private = if node.domain == DOMAIN {
        PrivateCast::read(node)?
    } else {
        // tract says 0 for a model that imports no default domain, which is opset 1.
        let spec = CastSpec::parse(node, context.onnx_operator_set_version.max(1))?;
        let (to, rules, opset) = (spec.to, spec.rules(), spec.opset);
        PrivateCast { from: None, to, rules, opset, concrete: false }
    };
    let op = InferenceCast { node: node_name(node), op_type: node.op_type.clone(), private };
    Ok((expand(op), vec![]))
}

/// A `Cast` whose input's tract type is still to be inferred.
#[derive(Debug, Clone)]
struct InferenceCast {
    node: String,
    op_type: String,
    private: PrivateCast,
}

impl InferenceCast {
    fn refuse(&self, problem: String) -> Error {
        Error::Node { node: self.node.clone(), op: self.op_type.clone(), problem }
    }

    /// tract's type of the output. INT64 made of a symbolic dimension stays one: nothing is computed, and nothing lost.
    fn output_type(&self, input: DatumType, to: ElementType) -> DatumType {
        let stays_symbolic =
            input == DatumType::TDim && to == ElementType::Int64 && !self.private.concrete;
        if stays_symbolic { DatumType::TDim } else { to.datum_type() }
    }

    /// The element type that a tract type stands for where nothing else is known.
    fn native(&self, datum_type: DatumType) -> Result<ElementType, Error> {
        ElementType::native(datum_type)
            .ok_or_else(|| self.refuse(format!("tract's {datum_type:?} is no ONNX element type")))
    }

    /// The element type of an input, which must be one that the model's opset has.
    fn source(&self, datum_type: DatumType) -> Result<ElementType, Error> {
        let from = match self.private.from {
            Some(from) if from.datum_type() != datum_type => {
                return Err(self.refuse(format!("its input of {from} came as {datum_type:?}")));
            }
            Some(from) => from,
            None => self.native(datum_type)?,
        };
        if from.since() > self.private.opset {
            let (since, opset) = (from.since(), self.private.opset);
            let problem =
                format!("input of type {from} needs opset {since}, the model imports {opset}");
            return Err(self.refuse(problem));
        }
        Ok(from)
    }
}

impl Expansion for InferenceCast {
    fn name(&self) -> StaticName {
        "OnnxCast".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, if self.private.to.is_some() { 1 } else { 2 })?;
        check_output_arity(outputs, 1)?;
        s.equals(&outputs[0].rank, &inputs[0].rank)?;
        s.equals(&outputs[0].shape, &inputs[0].shape)?;
        match self.private.to {
            Some(to) if to != ElementType::Int64 || self.private.concrete => {
                s.equals(&outputs[0].datum_type, to.datum_type())
            }
            Some(to) => s.given(&inputs[0].datum_type, move |s, from| {
                s.equals(&outputs[0].datum_type, self.output_type(from, to))
            }),
            None => {
                s.given_2(&inputs[0].datum_type, &inputs[1].datum_type, move |s, from, like| {
                    let to = self.native(like)?;
                    s.equals(&outputs[0].datum_type, self.output_type(from, to))
                })
            }
        }
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let datum_type = |index: usize| -> TractResult<DatumType> {
            let outlet = inputs.get(index).context("an input is missing")?;
            Ok(model.outlet_fact(*outlet)?.datum_type)
        };
        let from = self.source(datum_type(0)?)?;
        let to = match self.private.to {
            Some(to) => to,
            None => self.native(datum_type(1)?)?,
        };
        let op = OnnxCast {
            node: self.node.clone(),
            conversion: Conversion::new(from, to, self.private.rules),
            concrete: self.private.concrete,
        };
        model.wire_node(prefix, op, &inputs[..1])
    }
}

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
    concrete: bool,
}

impl OnnxCast {
    /// A cast between two element types, as a typed model's op.
    ///
    /// `node` is what run-time errors call it.
    pub fn new(node: &str, from: ElementType, to: ElementType, rules: Rules) -> OnnxCast {
        OnnxCast {
            node: node.into(),
            conversion: Conversion::new(from, to, rules),
            concrete: false,
        }
    }

    /// The conversion that the op performs.
    pub fn conversion(&self) -> &Conversion {
        &self.conversion
    }

    fn output_type(&self, input: DatumType) -> DatumType {
        let to = self.conversion.to();
        if input == DatumType::TDim && to == ElementType::Int64 && !self.concrete {
            DatumType::TDim
        } else {
            to.datum_type()
        }
    }

    /// Whether the output is the input.
    fn changes_nothing(&self, input: DatumType) -> bool {
        self.conversion.is_identity() && self.output_type(input) == input
    }

    fn convert(&self, input: &Tensor, symbols: &SymbolValues) -> TractResult<Tensor> {
        if input.datum_type() != DatumType::TDim {
            return self.conversion.run(input);
        }
        let dims = input.try_as_plain_ram()?;
        let numbers = dims
            .as_slice::<TDim>()?
            .iter()
            .map(|dim| Ok(dim.eval(symbols).to_i64()?))
            .collect::<TractResult<Vec<i64>>>()?;
        self.conversion.run(&Tensor::from_shape(input.shape(), &numbers)?)
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
            let is_one = tensor.datum_type() == DatumType::TDim && tensor.volume() == 1;
            let view = tensor.try_as_plain_ram().ok().filter(|_| is_one)?;
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
        self.conversion == other.conversion && self.concrete == other.concrete
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
        if self.changes_nothing(input.datum_type()) {
            return Ok(tvec!(input));
        }
        let output = if input.datum_type() == DatumType::TDim {
            self.convert(&input, context.symbols).map(IntoTValue::into_tvalue)
        } else {
            self.conversion.run_value(input)
        };
        Ok(tvec!(output.with_context(|| format!("node `{}`", self.node))?))
    }
}

impl TypedOp for OnnxCast {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("a cast has one input, not {}", inputs.len()) };
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
        if self.changes_nothing(model.outlet_fact(node.inputs[0])?.datum_type) {
            return TypedModelPatch::shunt_one_op(model, node);
        }
        // As tract's own cast does, and no further: before a broadcast there is less to convert, and swapping with other
        // ops hides patterns that tract looks for.
        if let Some(before) = model.linear_prec(node.id)?
            && (before.op_is::<IntoShape>() || before.op_is::<MultiBroadcastTo>())
        {
            let mut patch = TypedModelPatch::default();
            let input = patch.tap_model(model, before.inputs[0])?;
            let cast = patch.wire_node(&node.name, &node.op, &[input])?;
            let shaped = patch.wire_node(&before.name, &before.op, &cast)?;
            patch.shunt_outside(model, node.id.into(), shaped[0])?;
            return Ok(Some(patch));
        }
        Ok(None)
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
