//! The doubt behind what makes codes and what makes numbers of them.

use std::sync::Arc;

use tract_onnx::prelude::Tensor;
use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::{NodeRun, SharedTensor};

use super::super::numbers::{each_pair, gap, numbers, tensor};
use super::families::{Doubts, NodeStep, UNIFORM, apart, elementwise, values};
use super::twin::{Carried, Doubt, Twin};
use crate::cli::measure::weight::steps::{CodeSteps, axis};

/// Half a step, or what the range cuts off, in codes.
pub(super) fn quantized(step: NodeStep) -> Doubts {
    let NodeStep { node, inputs, made } = step;
    let (x, made) = (inputs.first()?.as_ref()?, made.first()?.as_ref()?);
    let codes = numbers(made)?;
    let x_share = x.share;
    let scale = inputs.get(1)?.as_ref()?;
    let scales = numbers(&scale.value)?;
    let zeros = match inputs.get(2) {
        Some(Some(zero)) => numbers(&zero.value)?,
        _ => vec![0.0; scales.len()],
    };
    let shape = x.value.1.shape();
    let behind: usize = match (scales.len(), axis(node.attributes, shape.len())) {
        (1, _) => usize::MAX,
        (count, Some(axis)) if shape.get(axis) == Some(&count) && scale.value.1.rank() == 1 => {
            shape.iter().skip(axis + 1).product()
        }
        _ => return None,
    };
    let values = numbers(&x.value)?.into_iter().zip(x.doubts()).zip(codes).enumerate();
    let doubt = |(place, ((x, doubt), code)): (usize, ((f64, f64), f64))| {
        let row = if behind == usize::MAX { 0 } else { place / behind.max(1) % scales.len() };
        let (scale, zero) = (*scales.get(row)?, zeros.get(row).copied().unwrap_or(0.0));
        let off = (x / scale + zero - code).abs();
        let half = gap(made.0, code) / 2.0;
        let (off, carried) = (if off.is_finite() { off } else { half }, (doubt / scale).abs());
        let likely = if off > half { off * off } else { UNIFORM * half * half };
        Some((off.max(half) + carried, likely + x_share * carried * carried))
    };
    let (doubts, likely): (Vec<f64>, Vec<f64>) =
        values.map(doubt).collect::<Option<Vec<_>>>()?.into_iter().unzip();
    Some(vec![Carried::of(doubts, likely.into_iter())])
}

/// Half a step of the values; the scale is right but for its rounding.
pub(super) fn quantized_as_it_runs(NodeStep { made, .. }: NodeStep) -> Doubts {
    let doubt = |place| Doubt::Same(if place == 0 { 0.5 } else { 0.0 });
    let carried = |place| Carried { doubt: doubt(place), share: UNIFORM };
    Some((0..made.len()).map(carried).collect())
}

/// The inputs of an operator that quantises the first of them to 8 bits itself, which has half a
/// step of doubt then.
pub(super) fn quantized_inside(
    node: &NodeRun,
    inputs: &[Option<Twin>],
) -> Option<Vec<Option<Twin>>> {
    const STEPS: f64 = 255.0;
    if !matches!(node.op_type, "DynamicQuantizeLSTM" | "DynamicQuantizeMatMul") {
        return None;
    }
    let x = inputs.first()?.as_ref()?;
    let values = numbers(&x.value)?;
    let (least, most) = values.iter().fold((0f64, 0f64), |(a, b), x| (a.min(*x), b.max(*x)));
    let half = (most - least) / STEPS / 2.0;
    let doubts = x.doubts();
    let likely = doubts.iter().map(|doubt| UNIFORM * half * half + x.share * doubt * doubt);
    let doubts = doubts.iter().map(|doubt| doubt + half).collect();
    let Carried { doubt, share } = Carried::of(doubts, likely);
    let mut inputs = inputs.to_vec();
    *inputs.first_mut()? = Some(Twin { value: x.value.clone(), doubt, share });
    Some(inputs)
}

/// The doubt in codes, in steps.
pub(super) fn dequantized(step: NodeStep) -> Doubts {
    let NodeStep { inputs, made, .. } = step;
    let codes = inputs.first()?.as_ref()?;
    let share = codes.share;
    let scale = inputs.get(1)?.as_ref()?;
    // Steps of floats are a share of them.
    let of_codes = match codes.doubt {
        Doubt::Same(steps) => Some((steps, 0.0)),
        Doubt::Rounded { share, least } => Some((least, share)),
        _ => None,
    };
    // A scale that is off by a share of itself puts a value off by that of the value.
    if let (Some((steps, own)), Doubt::Relative(off)) = (of_codes, &scale.doubt)
        && let (shape, scale) = (codes.value.1.shape(), (&scale.value, off + own))
        && let Some(steps) = CodeSteps::of(step.node.attributes, shape, scale, steps)
    {
        return Some(vec![Carried { doubt: Doubt::Steps(steps), share }]);
    }
    if codes.value.0.is_float() {
        return elementwise(step);
    }
    let base = made.first()?.as_ref()?;
    let mut doubts = vec![0.0; base.1.len()];
    let (beside, steps) = (beside(&codes.value)?, codes.doubts());
    let of_code = |place: usize| steps.get(place).copied().unwrap_or_default();
    add_moved(&step, (0, beside), base, &mut doubts, |place, moved| moved * of_code(place))?;
    // A scale that may be off itself puts values off as well.
    if !scale.is_exact()
        && let Some(scale) = scale.mapped(|x, doubt| x + doubt)
    {
        add_moved(&step, (1, scale), base, &mut doubts, |_, moved| moved);
    }
    Some(vec![Carried { doubt: Doubt::each(doubts), share }])
}

/// Adds to doubts how far another input moves each value; `None`, and nothing is added, if the node
/// cannot be run on it.
fn add_moved(
    step: &NodeStep,
    (place, other): (usize, SharedTensor),
    base: &SharedTensor,
    doubts: &mut [f64],
    doubt: impl Fn(usize, f64) -> f64,
) -> Option<()> {
    let mut given = values(step.inputs);
    *given.get_mut(place)? = Some(other);
    let moved = step.node.run_on(&given).ok()?.into_iter().next()??;
    each_pair(base, &moved, |at, x, y| {
        if let Some(sum) = doubts.get_mut(at) {
            *sum += doubt(at, apart(x, y));
        }
    })
}

/// The codes beside these, each one nearer to zero, and one beyond it where there is none.
fn beside((ty, codes): &SharedTensor) -> Option<SharedTensor> {
    let mut moved = Tensor::clone(codes);
    match ty {
        ElementType::Uint8 => {
            let bytes = moved.as_bytes_mut().iter_mut();
            bytes.for_each(|code| *code = if *code == 0 { 1 } else { *code - 1 });
        }
        ElementType::Int8 => moved.as_bytes_mut().iter_mut().for_each(|byte| {
            let code = byte.cast_signed();
            *byte = if code <= 0 { code + 1 } else { code - 1 }.cast_unsigned();
        }),
        _ => {
            let step = |code: f64| if code <= 0.0 { code + 1.0 } else { code - 1.0 };
            let moved: Vec<f64> = numbers(&(*ty, codes.clone()))?.into_iter().map(step).collect();
            return tensor(*ty, codes.shape(), &moved);
        }
    }
    Some((*ty, Arc::new(moved)))
}
