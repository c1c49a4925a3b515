//! Constant operands of products, convolutions among them, that stay in fewer bits than FLOAT until
//! the product runs ([`panels`](crate::panels)). While tract declutters a model, the operator that
//! makes FLOAT of them stands before the product; when tract has chosen how the product packs its
//! operands, the packed operand takes its place. Where something else than a product takes the
//! weights, or tract packs them as the second operand, whose panels it asks for again and again,
//! they are FLOAT in memory. Where it asks again for those of the first, they are while the product
//! runs (`widen`).
//!
//! - `tied`: weights of which rows are gathered besides
//! - `filed`: weights that are read when they are packed
//! - `streamed`: those of a node that runs alone
//! - `unpack`: the operator that makes FLOAT of codes
//! - `widen`: the one that makes FLOAT of packed weights, once for many columns

pub(crate) mod filed;
pub(crate) mod streamed;
pub(crate) mod tied;
pub(crate) mod unpack;
mod widen;

use tract_onnx::tract_core::dyn_clone;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::change_axes::IntoShape;
use tract_onnx::tract_core::ops::cnn::Conv;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::einsum::einsum_matmul::EinSumMatMul;
use tract_onnx::tract_core::ops::identity::Identity;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::ops::matmul::optimized::{MatMulOperand, OptMatMul, ProtoFusedSpec};
use tract_onnx::tract_core::ops::matmul::pack::{DynPackedExoticFact, OptMatMulPack};
use tract_onnx::tract_core::tract_linalg::mmm::{
    EagerPackedInput, MMMInputFormat, MMMInputValue, PackedMatrixStorage,
};
use tract_onnx::tract_core::tract_linalg::pack::PackedFormat;

use crate::cast::element_type::ElementType;
use crate::ops::host::hook::Patch;
use crate::panels::Panels;
use crate::tensor::conversion::Conversion;
use crate::tensor::late;

/// How many bytes of rows are read at once, and of each K at least where these stand one behind the
/// other.
const ROWS: usize = 1 << 20;
const LEAST_PART: usize = 1 << 11;

/// Fewer elements are FLOAT in memory: there is little to save.
pub(crate) const FROM: usize = 1 << 16;

/// What the operator is called behind weights that are tied.
const TIED_NAME: &str = "Tied";

/// What takes weights.
pub(crate) enum WeightUse<'a> {
    /// A product that has no form yet in which it runs.
    Product,
    Packing(Packing<'a>),
    Other,
}

/// The packing of a product's first operand.
pub(crate) struct Packing<'a> {
    node: &'a TypedNode,
    format: Box<dyn MMMInputFormat>,
    /// The axes of its input that are K and the rows.
    axes: [usize; 2],
    /// The product's other operand, where no constant is in its place.
    other: Option<OutletId>,
    /// What changes the weights' axes or shape before, first to last.
    changes: Vec<&'a dyn TypedOp>,
}

/// What takes the output of a node, if nothing else does, behind changes of its axes.
pub(crate) fn use_of<'a>(model: &'a TypedModel, node: &TypedNode) -> TractResult<WeightUse<'a>> {
    match sole_user(model, node.id)? {
        Some(next) => follow(model, node.id.into(), next),
        None => Ok(WeightUse::Other),
    }
}

/// The node that takes what a node makes, if it is the only one.
fn sole_user(model: &TypedModel, id: usize) -> TractResult<Option<&TypedNode>> {
    let is_output = model.outputs.iter().any(|output| output.node == id);
    Ok(model.single_succ(id)?.filter(|_| !is_output))
}

/// What takes weights that come into a node.
fn follow<'a>(
    model: &'a TypedModel,
    mut weights: OutletId,
    mut next: &'a TypedNode,
) -> TractResult<WeightUse<'a>> {
    let mut changes = vec![];
    loop {
        let is_float = model.outlet_fact(weights)?.datum_type == f32::datum_type();
        if is_float && is_product(next, weights) {
            return Ok(WeightUse::Product);
        }
        if next.op_is::<OptMatMulPack>() {
            return Ok(packing(model, next, changes)?.map_or(WeightUse::Other, WeightUse::Packing));
        }
        if next.op_is::<AxisOp>() || next.op_is::<IntoShape>() {
            changes.push(&*next.op);
        } else if !next.op_is::<Identity>() {
            return Ok(WeightUse::Other);
        }
        weights = next.id.into();
        let Some(user) = sole_user(model, next.id)? else { return Ok(WeightUse::Other) };
        next = user;
    }
}

/// Whether a node multiplies FLOATs by weights, in a form that does not run yet.
fn is_product(node: &TypedNode, weights: OutletId) -> bool {
    if let Some(op) = node.op_as::<Conv>() {
        return op.q_params.is_none() && op.group == 1 && node.inputs.get(1) == Some(&weights);
    }
    let is_product = match node.op_as::<EinSum>() {
        Some(op) => op.q_params.is_none() && op.operating_dt == f32::datum_type(),
        None => node.op_is::<EinSumMatMul>(),
    };
    is_product && node.inputs.len() == 2
}

/// What a node packs, if it is the first operand of a product, of one group.
fn packing<'a>(
    model: &TypedModel,
    node: &'a TypedNode,
    changes: Vec<&'a dyn TypedOp>,
) -> TractResult<Option<Packing<'a>>> {
    let Some(product) = model.single_succ(node.id)? else { return Ok(None) };
    let takes = |spec: &&ProtoFusedSpec| {
        let ProtoFusedSpec::AddMatMul { a: MatMulOperand::Input(place), packings, .. } = spec
        else {
            return false;
        };
        let is_plain = packings.iter().all(|(_, extractor)| extractor.is_none());
        is_plain && product.inputs.get(*place) == Some(&node.id.into())
    };
    let op = product.op_as::<OptMatMul>();
    let first = op.and_then(|op| op.micro_ops.iter().find(takes));
    let other = match first {
        Some(ProtoFusedSpec::AddMatMul { b: MatMulOperand::Input(place), .. }) => {
            product.inputs.get(*place).copied()
        }
        _ => None,
    };
    let fact = model.outlet_fact(node.id.into())?;
    let packed = fact.exotic_fact().and_then(|fact| fact.downcast_ref::<DynPackedExoticFact>());
    let formats = packed.map(|packed| &*packed.packers);
    let (Some(_), Some([one, others @ ..]), Some(1)) =
        (first, formats, fact.shape.volume().as_i64())
    else {
        return Ok(None);
    };
    // Of several kernels the product takes one when it runs; what one format has suits them all, or
    // they have none in common.
    let merged = others.iter().try_fold(&**one, |merged, other| merged.merge_with(&**other));
    let Some(format) = merged.map(dyn_clone::clone_box) else { return Ok(None) };
    let (inputs, outputs) = model.node_facts(node.id)?;
    let mapping = node.op.axes_mapping(&inputs, &outputs)?;
    let place = |name: char| -> TractResult<usize> {
        let axis = mapping.axis(name)?;
        axis.inputs.first().and_then(|places| places.first().copied()).context("a packed axis")
    };
    Ok(Some(Packing { node, format, axes: [place('K')?, place('M')?], other, changes }))
}

impl Packing<'_> {
    /// Where K and the rows are among the axes of the weights; `None` where they are none of them.
    fn own_axes(&self) -> Option<[usize; 2]> {
        let recip = |axis: usize, change: &&dyn TypedOp| match change.downcast_ref::<AxisOp>()? {
            AxisOp::Reshape(..) => None,
            change => change.recip().transform_axis(axis),
        };
        let own = |axis| self.changes.iter().rev().try_fold(axis, recip);
        let [k, rows] = self.axes.map(own);
        Some([k?, rows?])
    }

    /// The weights, their axes as the packing takes them.
    fn changed<'t>(&self, weights: &'t Tensor) -> TractResult<Cow<'t, Tensor>> {
        let mut weights = Cow::Borrowed(weights);
        for change in &self.changes {
            if let Some(change) = change.downcast_ref::<AxisOp>() {
                change.change_tensor(weights.to_mut(), false)?;
            } else {
                let given = tvec!(weights.into_owned().into_tvalue());
                let made = change.eval_out_of_plan(given)?.and_then(|mut made| made.pop());
                weights = Cow::Owned(made.context("weights of another shape")?.into_tensor());
            }
        }
        Ok(weights)
    }

    /// The weights packed as tract would. Of those in a file a part is read at a time.
    fn pack(&self, weights: &Tensor) -> TractResult<Box<dyn MMMInputValue>> {
        let [k_axis, rows_axis] = self.axes;
        let format = self.format.downcast_ref::<PackedFormat>();
        let own = self.own_axes().filter(|_| late::is_late(weights));
        if let (Some(format), Some(own)) = (format, own) {
            return Ok(Box::new(self.packed_by_parts(weights, format, own)?));
        }
        let weights = self.changed(weights)?;
        self.format.prepare_one(&weights, k_axis, rows_axis)
    }

    /// Late weights, of which K and the rows are these axes, packed.
    fn packed_by_parts(
        &self,
        weights: &Tensor,
        format: &PackedFormat,
        [own_k, own_rows]: [usize; 2],
    ) -> TractResult<EagerPackedInput> {
        let size = |axis: usize| weights.shape().get(axis).copied().context("an axis of weights");
        let (k, rows) = (size(own_k)?, size(own_rows)?);
        let row_bytes = k.saturating_mul(format.dt.size_of()).max(1);
        let bytes = if own_rows == 0 { ROWS } else { ROWS.max(k.saturating_mul(LEAST_PART)) };
        let step = (bytes / row_bytes / format.r).max(1) * format.r;
        let mut packed = format.new_packed_buffer(k, rows)?;
        let (panel_bytes, [k_axis, rows_axis]) = (packed.panel_bytes, self.axes);
        let all = Arc::get_mut(&mut packed.packed).context("a buffer of its own")?;
        for start in (0..rows).step_by(step) {
            let end = rows.min(start + step);
            let part = weights.slice(own_rows, start, end)?;
            let part = self.changed(&part)?;
            let mut made = format.new_packed_buffer(k, end - start)?;
            format.repack_tensor_view(&mut made, &part.view(), k_axis, rows_axis)?;
            let (from, made) = (start / format.r * panel_bytes, made.packed.as_bytes());
            let to = all.as_bytes_mut().get_mut(from..).and_then(|rest| rest.get_mut(..made.len()));
            to.context("room for panels")?.copy_from_slice(made);
        }
        Ok(packed)
    }

    /// Puts an operand in the place of the one that the node packs.
    fn patch(
        &self,
        model: &TypedModel,
        operand: Box<dyn MMMInputValue>,
    ) -> TractResult<TypedModelPatch> {
        let fact = model.outlet_fact(self.node.id.into())?;
        let shape = fact.shape.as_concrete().context("a known shape")?;
        let storage = PackedMatrixStorage::new_batched(shape, tvec![operand]);
        let packed = storage.into_tensor(f32::datum_type()).into_arc_tensor();
        let constant = Const::new_with_opt_exotic_fact(packed, fact.exotic_fact.clone())?;
        let mut patch = TypedModelPatch::default();
        let packed = patch.wire_node(&self.node.name, constant, &[])?[0];
        self.widen(model, patch, packed)
    }

    /// Puts a packed operand of a patch in the place of the one that the node packs, FLOAT where
    /// the other operand has many columns.
    fn widen(
        &self,
        model: &TypedModel,
        mut patch: TypedModelPatch,
        mut packed: OutletId,
    ) -> TractResult<TypedModelPatch> {
        if let Some(other) = self.other {
            let other = patch.tap_model(model, other)?;
            let name = format!("{}.widen", self.node.name);
            packed = patch.wire_node(name, widen::Widen, &[packed, other])?[0];
        }
        patch.shunt_outside(model, self.node.id.into(), packed)?;
        Ok(patch)
    }

    /// Has the product take weights of half precision; `None` where it cannot.
    pub(crate) fn take_half(&self, model: &TypedModel, ty: ElementType, weights: &Tensor) -> Patch {
        let weights = self.changed(weights)?;
        let panels = Panels::of_half(&*self.format, ty, &weights, self.axes)?;
        panels.map(|panels| self.patch(model, Box::new(panels))).transpose()
    }
}

/// Whether a constant that is cast stays as it is before a product.
pub(crate) fn may_stay_half(conversion: &Conversion, elements: usize) -> bool {
    let is_half = conversion.source().is_half();
    is_half && conversion.target() == ElementType::Float && elements >= FROM
}
