//! Operators of one element between two quantisers of 8 bits: they are tabulated, over each of the
//! 256 codes.
//!
//! tract does so for whatever maps its axes one to one, a Softmax too. Here it is what tract calls
//! an element-wise operator, and casts.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;

use super::op::OnnxQuantizer;
use crate::cast::element_type::ElementType;
use crate::cast::quantize::operator::Quantizer;
use crate::ops::cast::op::OnnxCast;
use crate::ops::fixes::functions::ElementFunction;
use crate::ops::host::element_wise::{element_wise, typed_op};
use crate::ops::host::hook::Patch;
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved};
use crate::tensor::code_table::CodeTable;

/// A quantiser's constants, if it has one scale, which is a constant, as its zero point is.
fn constants(model: &TypedModel, node: &TypedNode) -> TractResult<Option<TVec<TValue>>> {
    let facts = model.node_input_facts(node.id)?;
    let constants: Option<TVec<&Arc<Tensor>>> =
        facts.iter().skip(1).map(|fact| fact.konst.as_ref()).collect();
    let Some(constants) = constants.filter(|all| all.iter().all(|tensor| tensor.len() == 1)) else {
        return Ok(None);
    };
    Ok(Some(constants.into_iter().map(|tensor| tensor.clone().into_tvalue()).collect()))
}

/// The table that stands for a `DequantizeLinear` and all that follows, up to a `QuantizeLinear`;
/// none where something else comes between, or uses what is made on the way.
pub(super) fn tabulate(op: &OnnxQuantizer, model: &TypedModel, node: &TypedNode) -> Patch {
    let is_byte = |ty: ElementType| ty.carrier_bytes() == Some(1);
    if !matches!(op.quantizer(), Quantizer::Dequantize(op) if is_byte(op.x)) {
        return Ok(None);
    }
    let Some(own) = constants(model, node)? else { return Ok(None) };
    let Some((chain, end_node)) = up_to_quantizer(model, node)? else { return Ok(None) };
    let Some(end) = end_node.op_as::<OnnxQuantizer>() else { return Ok(None) };
    let Some(end_constants) = constants(model, end_node)? else { return Ok(None) };
    if !matches!(end.quantizer(), Quantizer::Quantize(op) if is_byte(op.y)) {
        return Ok(None);
    }
    let (from, to) = (op.quantizer().x(), end.quantizer().y());
    let mut codes = Tensor::zero_dt(from.datum_type(), &[256])?;
    for (byte, code) in codes.as_bytes_mut().iter_mut().zip(0..=u8::MAX) {
        *byte = code;
    }
    let with = |value: TValue, constants: TVec<TValue>| -> TVec<TValue> {
        std::iter::once(value).chain(constants).collect()
    };
    let mut value = op.run(&with(codes.into_tvalue(), own))?.into_tvalue();
    for node in chain {
        let Some(mut made) = node.op.eval_out_of_plan(tvec!(value))? else { return Ok(None) };
        value = made.remove(0);
    }
    let codes = end.run(&with(value, end_constants))?;
    let codes = codes.try_as_plain_ram()?;
    let table: [u8; 256] = codes.as_bytes().try_into().context("a code for each")?;
    let Some(table) = CodeTable::new(from, to, table, op.quantization.memory()) else {
        return Ok(None);
    };
    let mut patch = TypedModelPatch::default();
    let input = node.inputs.first().context("a quantiser has an x")?;
    let input = patch.tap_model(model, *input)?;
    let output = patch.wire_node(&end_node.name, OnnxCodeTable(table), &[input])?;
    patch.shunt_outside(model, end_node.id.into(), output[0])?;
    Ok(Some(patch))
}

/// What computes of each element alone behind a node, and the quantiser at its end; `None` where
/// another node, or what is around the model, uses something on the way.
fn up_to_quantizer<'m>(
    model: &'m TypedModel,
    node: &'m TypedNode,
) -> TractResult<Option<(Vec<&'m TypedNode>, &'m TypedNode)>> {
    let (mut chain, mut last) = (vec![], node);
    loop {
        let next = model.single_succ(last.id)?;
        let is_output = model.outputs.contains(&last.id.into());
        let Some(next) = next.filter(|_| !is_output) else { return Ok(None) };
        if next.op_is::<OnnxQuantizer>() {
            let is_its_x = next.inputs.first() == Some(&last.id.into());
            return Ok(is_its_x.then_some((chain, next)));
        }
        let is_of_each = next.op_is::<ElementWiseOp>()
            || next.op_is::<OnnxCast>()
            || next.op_is::<ElementFunction>();
        if !is_of_each {
            return Ok(None);
        }
        chain.push(next);
        last = next;
    }
}

/// Looks up each code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OnnxCodeTable(CodeTable);

typed_op!(OnnxCodeTable, "OnnxCodeTable", |op| format!("{} to {}", op.0.from, op.0.to));

impl EvalOp for OnnxCodeTable {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        Ok(tvec!(self.0.run(&input)?.into_tvalue()))
    }
}

impl TypedOp for OnnxCodeTable {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        let (got, expected) = (input.datum_type, self.0.from.datum_type());
        ensure!(got == expected, "its input of {} is {got:?}, not {expected:?}", self.0.from);
        Ok(tvec!(self.0.to.datum_type().fact(input.shape.clone())))
    }

    element_wise!();

    as_op!();
}

impl Save for OnnxCodeTable {
    const NAME: &'static str = "tract_onnx_cast_code_table";

    fn save(&self) -> Saved {
        Saved::default().with(&self.0.from).with(&self.0.to).with(&*self.0.table)
    }

    fn restore(_: Label, row: &mut Row) -> TractResult<OnnxCodeTable> {
        let (from, to) = row.take()?;
        let table = CodeTable::new(from, to, row.take()?, &Default::default());
        table.map(OnnxCodeTable).context("has types that are no bytes")
    }
}
