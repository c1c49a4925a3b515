//! A quantiser as tract's `TypedOp`: facts, the axes along which it has scales, decluttering.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::change_axes::{AxisChangeConsequence, AxisOp, InOut};
use tract_onnx::tract_core::ops::konst::Const;

use super::op::OnnxQuantizer;
use super::{small, table};
use crate::cast::quantize::layout;
use crate::cast::quantize::operator::{Quantize, Quantizer};
use crate::ops::host::hook::{Mapped, Patch};

impl Op for OnnxQuantizer {
    fn name(&self) -> StaticName {
        match self.quantizer() {
            Quantizer::Quantize(_) => "OnnxQuantizeLinear".into(),
            Quantizer::Dequantize(_) => "OnnxDequantizeLinear".into(),
        }
    }

    fn info(&self) -> TractResult<Vec<String>> {
        let OnnxQuantizer {
            node: _,
            opset: _,
            quantization: _,
            axis,
            block_size,
            small: _,
            constants: _,
        } = self;
        let quantizer = self.quantizer();
        let (x, scale, y) = (quantizer.x(), quantizer.scale(), quantizer.y());
        let mut info = format!("{x} to {y}, scale of {scale}, axis={axis}");
        if *block_size != 0 {
            info.push_str(&format!(", block_size={block_size}"));
        }
        if let Quantizer::Quantize(Quantize { x: _, scale: _, y: _, precision, saturate }) =
            quantizer
        {
            info.push_str(&format!(", precision={precision}"));
            if !saturate {
                info.push_str(", saturate=0");
            }
        }
        Ok(vec![info])
    }

    op_as_typed_op!();
}

impl EvalOp for OnnxQuantizer {
    /// What may become weights in few bits is not folded as it stands: `declutter` does so, with a
    /// look at what it is for.
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        if self.may_stay_small() {
            return Ok(None);
        }
        self.eval(&EvalContext::out_of_plan(), inputs).map(Some)
    }

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let datum_types: TVec<DatumType> = inputs.iter().map(|value| value.datum_type()).collect();
        let y = match self.adapted_to(&datum_types) {
            Some(adapted) => adapted.run(&inputs)?,
            None => self.run(&inputs)?,
        };
        Ok(tvec!(y.into_tvalue()))
    }
}

/// How the scales lie along x's axes, as far as axes matter.
enum Spread {
    /// One scale.
    Tensor,
    /// One for each index of this axis.
    Axis(usize),
    /// Along all axes, or not known.
    All,
}

impl OnnxQuantizer {
    fn spread(&self, x: &TypedFact, scale: &TypedFact) -> Spread {
        if scale.shape.iter().all(|dim| dim.is_one()) {
            return Spread::Tensor;
        }
        match layout::axis(self.axis, x.rank()) {
            Ok(axis) if self.block_size == 0 && scale.rank() == 1 => Spread::Axis(axis),
            _ => Spread::All,
        }
    }

    fn spread_at(&self, model: &TypedModel, node: &TypedNode) -> TractResult<Spread> {
        let [x, scale, ..] = &*node.inputs else { return Ok(Spread::All) };
        Ok(self.spread(model.outlet_fact(*x)?, model.outlet_fact(*scale)?))
    }
}

impl TypedOp for OnnxQuantizer {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [x, scale, ..] = inputs else { bail!("a quantiser has an x and a scale") };
        let datum_types: TVec<DatumType> = inputs.iter().map(|fact| fact.datum_type).collect();
        if let Some(adapted) = self.adapted_to(&datum_types) {
            return adapted.output_facts(inputs);
        }
        let quantizer = self.quantizer();
        let types = [quantizer.x(), quantizer.scale(), quantizer.zero_point()];
        for (fact, ty) in inputs.iter().zip(types) {
            let (got, expected) = (fact.datum_type, ty.datum_type());
            if got != expected {
                bail!(self.error(format!("its input of {ty} is {got:?}, not {expected:?}")));
            }
        }
        self.check_shapes(&x.shape, &scale.shape)?;
        Ok(tvec!(quantizer.y().datum_type().fact(x.shape.clone())))
    }

    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let facts = model.node_input_facts(node.id)?;
        let datum_types: TVec<DatumType> = facts.iter().map(|fact| fact.datum_type).collect();
        if let Some(adapted) = self.adapted_to(&datum_types) {
            return TypedModelPatch::replace_single_op(model, node, &node.inputs, adapted)
                .map(Some);
        }
        let constants: Option<TVec<&Arc<Tensor>>> =
            facts.iter().skip(1).map(|fact| fact.konst.as_ref()).collect();
        let (Some(constants), Some(x)) = (constants, facts.first()) else { return Ok(None) };
        let Some(scale) = constants.first() else { return Ok(None) };
        // Once, when the model is loaded, however large: a matrix product can only pack weights
        // that are constant.
        if let Some(x) = &x.konst {
            let tensors: TVec<_> = std::iter::once(x).chain(constants.iter().copied()).collect();
            if let Some(patch) = small::product(self, self.small, model, node, &tensors)? {
                return Ok(Some(patch));
            }
            if let Some(patch) = small::unpacked(self, model, node, &tensors)? {
                return Ok(Some(patch));
            }
            let inputs = std::iter::once(x).chain(constants.iter().copied());
            let inputs: TVec<TValue> = inputs.map(|tensor| tensor.clone().into_tvalue()).collect();
            let y = self.run(&inputs)?.into_arc_tensor();
            let mut patch = TypedModelPatch::default();
            let y = patch.wire_node(&node.name, Const::new(y)?, &[])?;
            patch.shunt_outside(model, node.id.into(), y[0])?;
            return Ok(Some(patch));
        }
        if let Some(patch) = table::tabulate(self, model, node)? {
            return Ok(Some(patch));
        }
        if self.constants.is_some() {
            return Ok(None);
        }
        let known = self.prepare(scale, constants.get(1).copied())?;
        let op = OnnxQuantizer { constants: Some(known.into()), ..self.clone() };
        TypedModelPatch::replace_single_op(model, node, &node.inputs, op).map(Some)
    }

    /// The axes along which scales differ belong to no other: what tract would do with one, it
    /// would have to do with the scales.
    fn axes_mapping(&self, inputs: &[&TypedFact], outputs: &[&TypedFact]) -> Mapped {
        let [x, scale, ..] = inputs else { return AxesMapping::disconnected(inputs, outputs) };
        let mut mapping = AxesMapping::disconnected(inputs, outputs)?;
        let own = match self.spread(x, scale) {
            Spread::Tensor => None,
            Spread::Axis(axis) => Some(axis),
            Spread::All => return Ok(mapping),
        };
        for axis in (0..x.rank()).filter(|axis| Some(*axis) != own) {
            mapping = mapping.linking((InOut::In(0), axis), (InOut::Out(0), axis))?;
        }
        Ok(mapping)
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        if matches!(io, InOut::In(1..)) {
            return Ok(None);
        }
        let substitute_op: Option<Box<dyn TypedOp>> = match self.spread_at(model, node)? {
            Spread::Tensor => None,
            Spread::Axis(axis) => match change.transform_axis(axis) {
                Some(axis) => Some(Box::new(OnnxQuantizer { axis: axis as i64, ..self.clone() })),
                None => return Ok(None),
            },
            Spread::All => return Ok(None),
        };
        let wire_changes = tvec!((InOut::In(0), change.clone()), (InOut::Out(0), change.clone()));
        Ok(Some(AxisChangeConsequence { substitute_op, wire_changes }))
    }

    fn slice(
        &self,
        patch: &mut TypedModelPatch,
        model: &TypedModel,
        node: &TypedNode,
        _prefix: &str,
        inputs: &[OutletId],
        output_axis: usize,
        _start: &TDim,
        _end: &TDim,
    ) -> TractResult<Option<TVec<OutletId>>> {
        match self.spread_at(model, node)? {
            Spread::Tensor => {}
            Spread::Axis(axis) if axis != output_axis => {}
            Spread::Axis(_) | Spread::All => return Ok(None),
        }
        patch.wire_node(&node.name, &node.op, inputs).map(Some)
    }

    as_op!();
}
