//! `Tile` of STRING, which tract has no zeros of to begin with (tract-core, `ops/array/tile.rs`),
//! and 0 times, by which tract divides a size while it infers (tract-hir, `infer/rules/expr.rs`,
//! `ScaledExp`).

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::array::Tile as Stock;

use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::{Hook, HookSite, Instead, Wired};
use crate::ops::host::hooked::hooked;
use crate::ops::host::integers::dims;
use crate::ops::host::stock::Built;

/// Builds it of a node.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    Ok((hooked(context, node, expand(Tile), Hook::Instead(tile)), vec![]))
}

/// tract's `Tile`, but for what 0 times tell.
#[derive(Debug, Clone)]
struct Tile;

impl Expansion for Tile {
    fn name(&self) -> StaticName {
        "Tile".into()
    }

    rules!(self, [2, 1], |solver, inputs, outputs| {
        let ([data, repeats], [output]) = (inputs, outputs) else { return Ok(()) };
        solver.equals(&data.datum_type, &output.datum_type)?;
        solver.equals(&data.rank, &output.rank)?;
        solver.equals(&repeats.rank, 1)?;
        solver.equals(&repeats.shape[0], data.rank.bex().to_dim())?;
        solver.given(&repeats.value, move |solver, repeats| {
            for (axis, count) in dims(&repeats)?.into_iter().enumerate() {
                match count.as_i64() {
                    Some(0) => solver.equals(&output.shape[axis], 0.to_dim())?,
                    Some(count) => {
                        solver.equals(count * data.shape[axis].bex(), &output.shape[axis])?;
                    }
                    None => solver.given(&data.shape[axis], move |solver, size| {
                        solver.equals(size * &count, &output.shape[axis])
                    })?,
                }
            }
            Ok(())
        })
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        Stock.wire(prefix, model, inputs)
    }
}

/// Wires it as an expansion of each axis.
fn tile(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [data, repeats] = *inputs else { return Ok(None) };
    let fact = model.outlet_fact(data)?;
    let mut shape = fact.shape.to_tvec();
    let Some(repeats) = model.outlet_fact(repeats)?.konst.clone() else { return Ok(None) };
    let repeats = dims(&repeats)?;
    if fact.datum_type != DatumType::String || repeats.len() != shape.len() {
        return Ok(None);
    }
    let mut wires = tvec!(data);
    for (axis, count) in repeats.iter().enumerate() {
        let Some(size) = shape.get(axis).cloned() else { continue };
        let part = |part: &str| site.part(&format!("{part}-{axis}"));
        wires = model.wire_node(part("axis"), AxisOp::Add(axis), &wires)?;
        shape.insert(axis, count.clone());
        let expansion = MultiBroadcastTo::new(shape.clone().into());
        wires = model.wire_node(part("expansion"), expansion, &wires)?;
        let tiled = size.clone() * count;
        let join = AxisOp::Reshape(axis, tvec![count.clone(), size], tvec![tiled.clone()]);
        wires = model.wire_node(part("tiled"), join, &wires)?;
        shape.remove(axis);
        if let Some(size) = shape.get_mut(axis) {
            *size = tiled;
        }
    }
    if wires.first() != Some(&data) {
        model.rename_node(wires.first().context("a tile")?.node, &site.name)?;
    }
    Ok(Some(wires))
}
