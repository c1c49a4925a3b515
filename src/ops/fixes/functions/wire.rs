//! The nodes whose operators are functions of ours.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;

use super::{ElementFunction, Kind};
use crate::ops::fixes::extremes::KeepNan;
use crate::ops::host::hook::{HookSite, Instead, Wires};

/// Wires a function of floats.
pub(crate) fn function(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some(input) = inputs.first() else { return Ok(None) };
    let ty = model.outlet_fact(*input)?.datum_type;
    if !ty.is_float() {
        return Ok(None);
    }
    let Some(function) = named(site, model, inputs, ty)? else { return Ok(None) };
    model.wire_node(&site.name, function, &[*input]).map(Some)
}

/// The function of a node, where it is of ours.
fn named(
    site: &HookSite,
    model: &TypedModel,
    inputs: &[OutletId],
    ty: DatumType,
) -> TractResult<Option<ElementFunction>> {
    let attribute = |name: &str, default: f32| -> TractResult<f64> {
        Ok(f64::from(site.proto.get_attr_opt::<f32>(name)?.unwrap_or(default)))
    };
    let (mut alpha, mut beta) = (1.0, 1.0);
    let kind = match site.proto.op_type.as_str() {
        "Acosh" => Kind::Acosh,
        "Asinh" => Kind::Asinh,
        "Clip" => {
            let Some(bounds) = bounds(site, model, inputs)? else { return Ok(None) };
            (alpha, beta) = bounds;
            Kind::Bound
        }
        "Cos" => Kind::Cos,
        "Sin" => Kind::Sin,
        name @ ("Celu" | "Elu" | "Swish") => {
            alpha = attribute("alpha", 1.0)?;
            match name {
                "Celu" => Kind::Celu,
                "Elu" => Kind::Elu,
                _ => Kind::Swish,
            }
        }
        "Erf" => Kind::Erf,
        "Gelu" => match site.proto.get_attr_opt::<&str>("approximate")?.unwrap_or("none") {
            "tanh" => Kind::TanhGelu,
            "none" => Kind::Gelu,
            other => bail!(site.error(format!("attribute `approximate` is {other:?}"))),
        },
        "HardSigmoid" => {
            (alpha, beta) = (attribute("alpha", 0.2)?, attribute("beta", 0.5)?);
            Kind::HardSigmoid
        }
        "HardSwish" => Kind::HardSwish,
        // tract's own is taken into products, and has no DOUBLE.
        "LeakyRelu" if ty == DatumType::F64 => {
            alpha = attribute("alpha", 0.01)?;
            Kind::LeakyRelu
        }
        "Mish" => Kind::Mish,
        "Relu" => {
            (alpha, beta) = (0.0, f64::INFINITY);
            Kind::Bound
        }
        "Round" if ty == DatumType::F64 => Kind::Round,
        "Selu" => {
            (alpha, beta) = (attribute("alpha", 1.673_263_2)?, attribute("gamma", 1.050_701)?);
            Kind::Selu
        }
        "Sigmoid" => Kind::Sigmoid,
        "Sinh" => Kind::Sinh,
        "Softplus" => Kind::Softplus,
        "Sqrt" => Kind::Sqrt,
        "Tanh" => Kind::Tanh,
        _ => return Ok(None),
    };
    Ok(Some(ElementFunction { kind, alpha, beta }))
}

/// The bounds of a `Clip`, where they are numbers: an infinity where there is none, and before
/// opset 11 the farthest FLOAT.
fn bounds(
    site: &HookSite,
    model: &TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<(f64, f64)>> {
    let farthest = if site.opset < 11 { f64::from(f32::MAX) } else { f64::INFINITY };
    let mut bounds = [-farthest, farthest];
    let mut given = inputs.iter().skip(1);
    for (place, (bound, name)) in bounds.iter_mut().zip(["min", "max"]).enumerate() {
        if site.opset < 11 {
            let attribute: Option<f32> = site.proto.get_attr_opt(name)?;
            *bound = attribute.map_or(*bound, f64::from);
        } else if site.proto.input.get(place + 1).is_some_and(|input| !input.is_empty()) {
            let input = given.next().context("an input of the model for each of the node")?;
            let fact = model.outlet_fact(*input)?;
            match &fact.konst {
                Some(constant) if constant.len() == 1 => {
                    *bound = constant
                        .cast_to::<f64>()?
                        .into_owned()
                        .into_shape(&[])?
                        .cast_to_scalar()?;
                }
                _ => return Ok(None),
            }
        }
    }
    let [low, high] = bounds;
    Ok((!low.is_nan() && !high.is_nan()).then_some((low, high)))
}

/// Wires `Max` and `Min` of a value and one number.
fn bound(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let ([a, b], is_max) = (inputs, site.proto.op_type == "Max") else { return Ok(None) };
    if !is_max && site.proto.op_type != "Min" {
        return Ok(None);
    }
    for (x, number) in [(a, b), (b, a)] {
        let fact = model.outlet_fact(*number)?;
        let rank = model.outlet_fact(*x)?.rank();
        let Some(constant) = &fact.konst else { continue };
        if constant.len() != 1 || fact.rank() > rank {
            continue;
        }
        let number: f64 =
            constant.cast_to::<f64>()?.into_owned().into_shape(&[])?.cast_to_scalar()?;
        let (alpha, beta) =
            if is_max { (number, f64::INFINITY) } else { (f64::NEG_INFINITY, number) };
        if !number.is_nan() {
            let function = ElementFunction { kind: Kind::Bound, alpha, beta };
            return model.wire_node(&site.name, function, &[*x]).map(Some);
        }
    }
    Ok(None)
}

/// Wires `Max`, `Min`, and `Clip` between bounds that are data.
pub(crate) fn extreme(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    if let Some(wires) = function(site, model, inputs)? {
        return Ok(Some(wires));
    }
    let types = inputs.iter().map(|input| Ok(model.outlet_fact(*input)?.datum_type));
    let types: Vec<DatumType> = types.collect::<TractResult<_>>()?;
    let (Some(ty), Some(first)) = (types.first(), inputs.first()) else { return Ok(None) };
    if !ty.is_float() || types.iter().any(|other| other != ty) || inputs.len() < 2 {
        return Ok(None);
    }
    if let Some(bound) = bound(site, model, inputs)? {
        return Ok(Some(bound));
    }
    let is_given = |place: usize| site.proto.input.get(place).is_some_and(|name| !name.is_empty());
    let are_max: Vec<bool> = match site.proto.op_type.as_str() {
        "Max" => vec![true; inputs.len() - 1],
        "Min" => vec![false; inputs.len() - 1],
        "Clip" => {
            [1, 2].into_iter().filter(|place| is_given(*place)).map(|place| place == 1).collect()
        }
        _ => return Ok(None),
    };
    let mut wires: Wires = tvec!(*first);
    let last = are_max.len().saturating_sub(1);
    for (place, (is_max, input)) in are_max.into_iter().zip(inputs.iter().skip(1)).enumerate() {
        let name = if place == last { site.name.clone() } else { site.part(&place.to_string()) };
        let operands = [&*wires, &[*input]].concat();
        let operands = wire_rank_broadcast(&name, model, &operands)?;
        let op: Box<dyn BinMiniOp> =
            if is_max { Box::new(KeepNan::<true>) } else { Box::new(KeepNan::<false>) };
        wires = model.wire_node(name, TypedBinOp(op, None), &operands)?;
    }
    Ok(Some(wires))
}
