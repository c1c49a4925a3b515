//! Weights that come into the model of a node: packed a part at a time while they are read, and
//! widened between, in a cache. As a whole they are never there but packed.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::matmul::pack::DynPackedExoticFact;
use tract_onnx::tract_core::tract_linalg::mmm::{MMMInputValue, PackedMatrixStorage};
use tract_onnx::tract_core::tract_linalg::pack::PackedFormat;

use super::unpack::PackCodes;
use super::{FROM, WeightUse, sole_user, use_of};
use crate::cast::element_type::ElementType;
use crate::ops::cast::op::OnnxCast;
use crate::ops::host::element_wise::typed_op;
use crate::panels::Panels;
use crate::panels::floats::{FloatPanels, PanelRoom};
use crate::tensor::conversion::Conversion;
use crate::tensor::late;

/// How many bytes of FLOAT are packed at once, or as many rows as a panel has.
const PART: usize = 1 << 18;

/// Packs the weights of a product, which may be late.
#[derive(Debug, Clone)]
struct PackAsRead {
    format: PackedFormat,
    /// What tract's own operator says of what it packs.
    fact: DynPackedExoticFact,
    /// Which axis of the matrix is K.
    k_axis: usize,
    /// What makes FLOAT of the weights, if they are of half precision.
    widening: Option<Conversion>,
    room: PanelRoom,
}

impl PartialEq for PackAsRead {
    fn eq(&self, other: &PackAsRead) -> bool {
        (&self.fact, self.k_axis, &self.widening) == (&other.fact, other.k_axis, &other.widening)
    }
}

impl Eq for PackAsRead {}

typed_op!(PackAsRead, "PackAsRead", |op| format!("{:?}", op.fact));

/// Has a model pack matrices that are its inputs as they are read, and codes that come in, into
/// memory that others had. Fails where the model does not hold together.
pub(crate) fn stream(model: &mut TypedModel, room: &PanelRoom) -> TractResult<()> {
    let packing = model.nodes.iter_mut().filter_map(|node| node.op_as_mut::<PackCodes>());
    packing.for_each(|op| op.room = room.clone());
    for input in model.inputs.clone() {
        if let Some(patch) = patch(model, input, room)? {
            patch.apply(model)?;
        }
    }
    Ok(())
}

fn patch(
    model: &TypedModel,
    input: OutletId,
    room: &PanelRoom,
) -> TractResult<Option<TypedModelPatch>> {
    let fact = model.outlet_fact(input)?;
    let Some(&[first, last]) = fact.shape.as_concrete() else { return Ok(None) };
    let is_large = first.saturating_mul(last) >= FROM;
    let Some(user) = sole_user(model, input.node)?.filter(|_| is_large) else { return Ok(None) };
    let widening = user.op_as::<OnnxCast>().map(OnnxCast::conversion).filter(|conversion| {
        conversion.source().is_half() && conversion.target() == ElementType::Float
    });
    let weights = if widening.is_some() { user } else { model.node(input.node) };
    let WeightUse::Packing(packing) = use_of(model, weights)? else { return Ok(None) };
    let format = packing.format.downcast_ref::<PackedFormat>();
    let is_float = widening.is_some() || fact.datum_type == f32::datum_type();
    let format = format.filter(|format| is_float && format.dt == f32::datum_type());
    let (Some(format), true) = (format, packing.changes.is_empty()) else { return Ok(None) };
    let made = model.outlet_fact(packing.node.id.into())?;
    let packed = made.exotic_fact().and_then(|fact| fact.downcast_ref::<DynPackedExoticFact>());
    let fact = packed.context("tract says what it packs")?.clone();
    let op = PackAsRead {
        format: format.clone(),
        fact,
        k_axis: packing.axes[0],
        widening: widening.cloned(),
        room: room.clone(),
    };
    let mut patch = TypedModelPatch::default();
    let weights = patch.tap_model(model, input)?;
    let packed = patch.wire_node(&packing.node.name, op, &[weights])?;
    patch.shunt_outside(model, packing.node.id.into(), packed[0])?;
    Ok(Some(patch))
}

impl PackAsRead {
    /// Late weights, packed while they are read; `None` of others. Fails when they cannot be read.
    fn packed(&self, weights: &Tensor) -> TractResult<Option<Panels>> {
        let Some(mut reader) = late::reader::row_reader(weights)? else { return Ok(None) };
        let [lines, length] = reader.shape();
        let is_by_k = (self.k_axis == 0) != reader.is_turned;
        let size = if is_by_k { [lines, length] } else { [length, lines] };
        let mut panels = FloatPanels::new(&self.format, size, &self.room)?;
        let at_once = (PART / size_of::<f32>() / length.max(1)).max(1);
        let at_once = if is_by_k { at_once } else { at_once.next_multiple_of(self.format.r) };
        let room = |ty: DatumType| Tensor::zero_dt(ty, &[at_once.min(lines), length]);
        let mut read = room(weights.datum_type())?;
        let mut wide = self.widening.is_some().then(|| room(f32::datum_type())).transpose()?;
        for first in (0..lines).step_by(at_once) {
            let elements = at_once.min(lines - first) * length;
            let read = part(&mut read, elements)?;
            reader.read(first * length, read)?;
            let floats = match self.widening.as_ref().zip(wide.as_mut()) {
                Some((widening, wide)) => {
                    let wide = part(wide, elements)?;
                    widening.overwrite(read, wide)?;
                    wide
                }
                None => read,
            };
            if is_by_k {
                panels.write_by_k(first, floats);
            } else {
                panels.write_by_rows(first, floats);
            }
        }
        Ok(Some(Panels::of_floats(&self.format, panels)))
    }
}

/// The first elements of a tensor.
fn part(tensor: &mut Tensor, elements: usize) -> TractResult<&mut [u8]> {
    let bytes = elements * tensor.datum_type().size_of();
    tensor.as_bytes_mut().get_mut(..bytes).context("room for a part")
}

impl EvalOp for PackAsRead {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let weights = args_1!(inputs);
        let packed: Box<dyn MMMInputValue> = match self.packed(&weights)? {
            Some(panels) => Box::new(panels),
            None => {
                let floats = match &self.widening {
                    Some(widening) => widening.run_value(weights)?,
                    None => weights,
                };
                self.format.pack_tensor(&floats, self.k_axis, 1 - self.k_axis)?
            }
        };
        let storage = PackedMatrixStorage::new_batched(&[], tvec![packed]);
        Ok(tvec!(storage.into_tensor(f32::datum_type()).into_tvalue()))
    }
}

impl TypedOp for PackAsRead {
    fn output_facts(&self, _: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let scalar: [usize; 0] = [];
        Ok(tvec!(f32::datum_type().fact(scalar).with_exotic_fact(self.fact.clone())))
    }

    as_op!();
}
