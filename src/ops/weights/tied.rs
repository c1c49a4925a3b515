//! Weights that a product shares with what gathers rows of them: what gathers takes them out of the
//! product's panels, so that they are there once. So are very large ones of a product alone, which
//! are packed as they are read.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::Gather;
use tract_onnx::tract_core::tract_linalg::mmm::MMMInputValue;
use tract_onnx::tract_hir::internal::*;

use super::filed::Filed;
use super::{Packing, TIED_NAME, WeightUse, follow};
use crate::onnx::lowered::TIED;
use crate::ops::host::element_wise::{element_wise, rules, same_facts, typed_op};
use crate::ops::host::hook::{Patch, Wired};
use crate::ops::host::saved::save;
use crate::ops::host::stock::Built;
use crate::panels;

/// Makes an `Onnx` build the nodes that the rewrite has put behind such weights.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    onnx.op_register.insert(TIED, build);
}

fn build(_: &ParsingContext, _: &NodeProto) -> Built {
    Ok((expand(Tied), vec![]))
}

/// The identity, as long as it is not decided how the product packs its weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tied;

typed_op!(Tied, TIED_NAME);

save!(Tied, "tract_onnx_cast_tied", {});

impl Expansion for Tied {
    fn name(&self) -> StaticName {
        "Tied".into()
    }

    rules!(self, [1, 1], |s, inputs, outputs| {
        s.equals(&outputs[0].datum_type, &inputs[0].datum_type)?;
        s.equals(&outputs[0].shape, &inputs[0].shape)
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        model.wire_node(prefix, self.clone(), inputs)
    }
}

impl EvalOp for Tied {
    // What comes of it would be kept.
    not_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        Ok(inputs)
    }
}

/// What takes tied weights.
#[derive(Default)]
struct Users<'a> {
    gathers: Vec<&'a TypedNode>,
    packings: Vec<Packing<'a>>,
    /// Products that have no form yet in which they run.
    products: usize,
    others: usize,
}

impl<'a> Users<'a> {
    fn of(model: &'a TypedModel, node: &TypedNode) -> TractResult<Users<'a>> {
        let mut users = Users::default();
        users.others += model.outputs.iter().filter(|output| output.node == node.id).count();
        let places = node.outputs.iter().flat_map(|output| &output.successors);
        for inlet in places {
            let next = model.node(inlet.node);
            let is_gather = |gather: &Gather| {
                inlet.slot == 0 && gather.axis == 0 && gather.output_type.is_none()
            };
            if next.op_as::<Gather>().is_some_and(is_gather) {
                users.gathers.push(next);
                continue;
            }
            match follow(model, node.id.into(), next)? {
                WeightUse::Product => users.products += 1,
                WeightUse::Packing(packing) => users.packings.push(packing),
                WeightUse::Other => users.others += 1,
            }
        }
        Ok(users)
    }
}

impl TypedOp for Tied {
    same_facts!();

    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let users = Users::of(model, node)?;
        if users.others == 0 && users.products == 1 {
            return Ok(None);
        }
        TypedModelPatch::shunt_one_op(model, node)
    }

    fn codegen(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let Users { gathers, packings, products, others } = Users::of(model, node)?;
        if products > 0 {
            return Ok(None);
        }
        let filed = model.node(node.inputs[0].node).op_as::<Filed>();
        let held = model.outlet_fact(node.inputs[0])?.konst.as_ref();
        let weights = held.or(filed.map(|filed| &filed.0));
        let ([packing], Some(weights), 0) = (&*packings, weights, others) else {
            return TypedModelPatch::shunt_one_op(model, node);
        };
        // Rows are gathered out of panels, so they are to be rows there.
        let is_plain = match packing.own_axes() {
            Some([1, 0]) => true,
            Some([0, 1]) => gathers.is_empty(),
            _ => false,
        };
        if !is_plain || !panels::is_float(&*packing.format) {
            return TypedModelPatch::shunt_one_op(model, node);
        }
        let packed = packing.pack(weights)?;
        let mut patch = packing.patch(model, packed.clone())?;
        for gather in gathers {
            let indices = patch.tap_model(model, gather.inputs[1])?;
            let op = GatherRows { rows: packed.clone() };
            let gathered = patch.wire_node(&gather.name, op, &[indices])?;
            patch.shunt_outside(model, gather.id.into(), gathered[0])?;
        }
        Ok(Some(patch))
    }

    element_wise!();

    as_op!();
}

/// Rows of a packed operand of FLOAT.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GatherRows {
    rows: Box<dyn MMMInputValue>,
}

typed_op!(GatherRows, "GatherRows", |op| format!("{}", op.rows));

impl EvalOp for GatherRows {
    not_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let indices = args_1!(inputs);
        let (count, k) = (self.rows.mn() as i64, self.rows.k());
        let shape: TVec<usize> = indices.shape().iter().copied().chain([k]).collect();
        let mut output = Tensor::zero::<f32>(&shape)?;
        let mut made = output.try_as_plain_ram_mut()?;
        let places = made.as_slice_mut::<f32>()?.chunks_mut(k.max(1));
        for (index, to) in indices.try_as_plain_ram()?.as_slice::<i64>()?.iter().zip(places) {
            let row = if *index < 0 { index + count } else { *index };
            ensure!((0..count).contains(&row), "there is no row {index} of {count}");
            self.rows.extract_at_mn_f32(row as usize, to)?;
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for GatherRows {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [indices] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        let k = self.rows.k().to_dim();
        let shape: TVec<TDim> = indices.shape.iter().cloned().chain([k]).collect();
        Ok(tvec!(f32::fact(&*shape)))
    }

    as_op!();
}
