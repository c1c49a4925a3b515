//! Constants that differ in signs of zeros alone, of which tract makes one (tract-core,
//! `model/typed.rs`, `wire_node`).
//!
//! What a node takes is compared with what it took before the model was typed. Where the signs are
//! another constant's by now, the bits are held as integers, and are made floats when the model
//! runs.

use std::borrow::Cow;
use std::collections::HashMap;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use super::constants::Held;
use crate::cast::element_type::ElementType;
use crate::ops::cast::bit_cast::OnnxBitCast;

type Mapping = HashMap<OutletId, OutletId>;

/// Where the inputs of a node are in the typed model, with the signs that they had.
pub(super) fn kept<'a>(
    source: &InferenceModel,
    node: &InferenceNode,
    target: &mut TypedModel,
    mapping: &'a Mapping,
) -> TractResult<Cow<'a, Mapping>> {
    let mut kept = Cow::Borrowed(mapping);
    for (place, input) in node.inputs.iter().enumerate() {
        let Some(known) = source.outlet_fact(*input)?.value.concretize() else { continue };
        let Some(outlet) = mapping.get(input) else { continue };
        let Some(typed) = &target.outlet_fact(*outlet)?.konst else { continue };
        let Some((bits, float)) = types(known.datum_type()) else { continue };
        if Arc::ptr_eq(&known, typed) || are_same(&known, typed)? {
            continue;
        }
        let mut integers = Tensor::zero_dt(bits.datum_type(), known.shape())?;
        integers.as_bytes_mut().copy_from_slice(known.try_as_plain_ram()?.as_bytes());
        let name = |part: &str| format!("{}.signs-{place}.{part}", node.name);
        let integers = target.add_const(name("bits"), integers)?;
        let held = target.wire_node(name("held"), Held, &[integers])?;
        let floats = target.wire_node(name("floats"), OnnxBitCast::new(bits, float), &held)?;
        kept.to_mut().extend(floats.first().map(|floats| (*input, *floats)));
    }
    Ok(kept)
}

/// The type of the bits of a type of floats, and that type.
fn types(ty: DatumType) -> Option<(ElementType, ElementType)> {
    match ty {
        DatumType::F16 => Some((ElementType::Int16, ElementType::Float16)),
        DatumType::F32 => Some((ElementType::Int32, ElementType::Float)),
        DatumType::F64 => Some((ElementType::Int64, ElementType::Double)),
        _ => None,
    }
}

/// Whether two tensors have the same bits; those of another type or shape are none that tract took
/// for one.
fn are_same(a: &Tensor, b: &Tensor) -> TractResult<bool> {
    if a.datum_type() != b.datum_type() || a.shape() != b.shape() || a.len() == 0 {
        return Ok(true);
    }
    Ok(a.try_as_plain_ram()?.as_bytes() == b.try_as_plain_ram()?.as_bytes())
}
