//! The operator that makes FLOAT of constant codes of few bits, if it is not a product that takes
//! them.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::Slice;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::tract_linalg::mmm::{
    MMMInputFormat, MMMInputValue, PackedMatrixStorage,
};

use super::{Packing, WeightUse};
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::Patch;
use crate::ops::host::saved::save;
use crate::panels::Panels;
use crate::panels::floats::PanelRoom;
use crate::panels::rows::RowSizes;

/// N rows of K elements of [`QuantizedRows`]: its inputs are the codes, the scales and the zero
/// points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unpack {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) block: usize,
    pub(crate) bits: usize,
}

typed_op!(Unpack, "Unpack", |op| format!("{} bits in blocks of {}", op.bits, op.block));

save!(Unpack, "tract_onnx_cast_unpack", { n, k, block, bits }, |op| {
    ensure!(matches!(op.bits, 2 | 4 | 8) && op.block > 0, "{op:?} has no such codes");
    ensure!(op.block.is_multiple_of(8 / op.bits), "{op:?} has blocks that are no bytes");
});

impl Unpack {
    fn sizes(&self) -> RowSizes {
        let Unpack { n, k, block, bits } = *self;
        RowSizes { n, k, block, bits }
    }

    fn unpacked(&self, inputs: [&Tensor; 3]) -> TractResult<Tensor> {
        let floats = self.sizes().read(inputs, |rows| Ok(rows.floats()))?;
        Tensor::from_shape(&[self.n, self.k], &floats)
    }

    /// The inputs, where they are constant.
    fn constants<'a>(
        &self,
        model: &'a TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<[&'a Tensor; 3]>> {
        let facts = model.node_input_facts(node.id)?;
        let constants: Option<TVec<&Tensor>> =
            facts.iter().map(|fact| fact.konst.as_deref()).collect();
        Ok(constants.and_then(|constants| constants.as_slice().try_into().ok()))
    }

    /// Has the codes packed in the place of what is made of them.
    fn pack_as_run(&self, packing: &Packing, model: &TypedModel, node: &TypedNode) -> Patch {
        let fact = model.outlet_fact(packing.node.id.into())?.without_value();
        let (format, room) = (packing.format.clone(), PanelRoom::default());
        let op = PackCodes { of: self.clone(), format, fact, room };
        let mut patch = TypedModelPatch::default();
        let inputs = patch.taps(model, &node.inputs)?;
        let packed = patch.wire_node(&packing.node.name, op, &inputs)?[0];
        packing.widen(model, patch, packed).map(Some)
    }

    fn fold(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let Some(inputs) = self.constants(model, node)? else { return Ok(None) };
        let value = Const::new(self.unpacked(inputs)?.into_arc_tensor())?;
        let mut patch = TypedModelPatch::default();
        let value = patch.wire_node(&node.name, value, &[])?;
        patch.shunt_outside(model, node.id.into(), value[0])?;
        Ok(Some(patch))
    }
}

impl EvalOp for Unpack {
    // What it makes is what is not to be kept.
    not_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (codes, scales, zeros) = args_3!(inputs);
        Ok(tvec!(self.unpacked([&codes, &scales, &zeros])?.into_tvalue()))
    }
}

impl TypedOp for Unpack {
    fn output_facts(&self, _: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(f32::fact([self.n, self.k])))
    }

    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        match super::use_of(model, node)? {
            WeightUse::Other => self.fold(model, node),
            _ => Ok(None),
        }
    }

    /// Some of the rows are made of their codes alone.
    fn slice(
        &self,
        patch: &mut TypedModelPatch,
        _model: &TypedModel,
        node: &TypedNode,
        _prefix: &str,
        inputs: &[OutletId],
        output_axis: usize,
        start: &TDim,
        end: &TDim,
    ) -> TractResult<Option<TVec<OutletId>>> {
        let (0, Ok(start), Ok(end)) = (output_axis, start.to_usize(), end.to_usize()) else {
            return Ok(None);
        };
        let row = |input: &OutletId| -> TractResult<Option<usize>> {
            Ok(match patch.outlet_fact(*input)?.shape.as_concrete() {
                Some([length, ..]) if length.is_multiple_of(self.n) => length.checked_div(self.n),
                _ => None,
            })
        };
        let rows = inputs.iter().map(row).collect::<TractResult<Option<TVec<usize>>>>()?;
        let Some(rows) = rows else { return Ok(None) };
        let mut parts = tvec!();
        for (place, (input, row)) in inputs.iter().zip(rows).enumerate() {
            let cut = Slice::new(0, start * row, end * row);
            let name = format!("{}.{start}..{end}.{place}", node.name);
            parts.push(patch.wire_node(name, cut, &[*input])?[0]);
        }
        let op = Unpack { n: end - start, ..self.clone() };
        patch.wire_node(format!("{}.{start}..{end}", node.name), op, &parts).map(Some)
    }

    fn codegen(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let packing = match super::use_of(model, node)? {
            WeightUse::Product => return Ok(None),
            WeightUse::Packing(packing) => packing,
            WeightUse::Other => return self.fold(model, node),
        };
        // K are the columns, and rows are rows.
        let is_plain = packing.own_axes() == Some([1, 0]);
        let Some(inputs) = self.constants(model, node)? else {
            let can_pack = is_plain && Panels::take_codes(&*packing.format);
            return if can_pack { self.pack_as_run(&packing, model, node) } else { Ok(None) };
        };
        let panels = if is_plain {
            self.sizes().read(inputs, |rows| {
                Ok(Panels::of_codes(&*packing.format, rows, &PanelRoom::default()))
            })?
        } else {
            None
        };
        match panels {
            Some(panels) => packing.patch(model, Box::new(panels)).map(Some),
            None => self.fold(model, node),
        }
    }

    as_op!();
}

/// Packs codes that come in while a model runs.
#[derive(Debug, Clone)]
pub(super) struct PackCodes {
    of: Unpack,
    format: Box<dyn MMMInputFormat>,
    /// What tract's own operator says of what it packs.
    fact: TypedFact,
    pub(super) room: PanelRoom,
}

impl PartialEq for PackCodes {
    fn eq(&self, other: &PackCodes) -> bool {
        (&self.of, &self.fact) == (&other.of, &other.fact)
    }
}

impl Eq for PackCodes {}

typed_op!(PackCodes, "PackCodes", |op| format!("{:?}", op.of));

impl EvalOp for PackCodes {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let (codes, scales, zeros) = args_3!(inputs);
        let tensors = [codes, scales, zeros].map(TValue::into_arc_tensor);
        let panels = Panels::of_rows(&*self.format, self.of.sizes(), tensors, &self.room)?;
        let packed: Box<dyn MMMInputValue> = Box::new(panels.context("panels of codes")?);
        let shape = self.fact.shape.as_concrete().context("a known shape")?;
        let storage = PackedMatrixStorage::new_batched(shape, tvec![packed]);
        Ok(tvec!(storage.into_tensor(f32::datum_type()).into_tvalue()))
    }
}

impl TypedOp for PackCodes {
    fn output_facts(&self, _: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(self.fact.without_value()))
    }

    as_op!();
}
