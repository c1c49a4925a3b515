//! `Slice` with starts, ends and steps of any size, known or not before the model runs.
//!
//! tract cuts starts, dimensions and steps to 32 bits, takes some ends for none whichever way the
//! step goes, does not slice at all where an end is data and the step is not 1, and takes data as
//! it is, not from the end of the axis nor within it (tract-core, `ops/array/strided_slice.rs` and
//! `dyn_slice.rs`).
//!
//! - `bounds`: the part of an axis
//! - `data`: slices that are known when the model runs

mod bounds;
mod data;

use std::collections::HashSet;

use tract_onnx::model::{ParsingContext, optional_inputs};
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::Slice as Part;
use tract_onnx::tract_core::ops::cnn::Conv;
use tract_onnx::tract_hir::internal::*;

use crate::onnx::node::{from_front, node_name};
use crate::ops::fixes::apart::{Apart, Keeps};
use crate::ops::fixes::shapes::zeros;
use crate::ops::host::at_opset::imported;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::{Wired, constants, refused, unplanned};
use crate::ops::host::integers::dims;
use crate::ops::host::stock::Built;
use bounds::{SlicePart, bounds};
pub(crate) use data::SliceByData;

const SLICE: &str = "Slice";

/// Builds it of a node of any opset.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let (opset, name) = (context.onnx_operator_set_version, node_name(node));
    let from = if (1..10).contains(&opset) {
        SliceEnds::Attributes {
            starts: node.get_attr_vec("starts")?,
            ends: node.get_attr_vec("ends")?,
            axes: node.get_attr_opt_vec("axes")?,
        }
    } else {
        let mut inputs = optional_inputs(node).skip(3);
        SliceEnds::Inputs { axes: inputs.next().flatten(), steps: inputs.next().flatten() }
    };
    Ok((expand(Slice { node: name, opset: imported(node, opset), from }), vec![]))
}

/// What says where a slice begins and ends.
#[derive(Debug, Clone)]
enum SliceEnds {
    /// Before opset 10.
    Attributes { starts: Vec<i64>, ends: Vec<i64>, axes: Option<Vec<i64>> },
    /// The starts and the ends are the inputs after the data, and these if they are there.
    Inputs { axes: Option<usize>, steps: Option<usize> },
}

/// `Slice` as the loader builds it.
#[derive(Debug, Clone)]
struct Slice {
    /// For messages.
    node: String,
    /// For messages.
    opset: i64,
    from: SliceEnds,
}

/// The slices of all axes, as far as they are known: those that are not are `None`.
struct Slices {
    axes: Vec<usize>,
    /// Of each axis its bounds.
    parts: Option<Vec<SlicePart>>,
}

impl Slices {
    /// The shape of what is left of a shape, if that is known to have no elements.
    fn empty(&self, shape: &[TDim]) -> Option<TVec<TDim>> {
        let mut shape: TVec<TDim> = shape.into();
        for (axis, part) in self.axes.iter().zip(self.parts.as_ref()?) {
            *shape.get_mut(*axis)? = part.len();
        }
        shape.contains(&0.to_dim()).then_some(shape)
    }
}

/// Starts, ends, axes and steps, as far as they are known.
type SliceOperands = (Option<Vec<TDim>>, Option<Vec<TDim>>, Option<Vec<i64>>, Option<Vec<i64>>);

impl Slice {
    fn error(&self, problem: impl Into<String>) -> TractError {
        let problem = format!("{}, the model imports {}", problem.into(), self.opset);
        refused(&self.node, SLICE, problem).into()
    }

    /// The axes that are sliced, of an input of a rank, from how many there are and their names.
    fn axes(&self, count: usize, named: Option<&[i64]>, rank: usize) -> TractResult<Vec<usize>> {
        let default: Vec<i64>;
        let named = match named {
            Some(named) => named,
            None => {
                default = (0..).take(count).collect();
                &default
            }
        };
        if named.len() != count {
            bail!(self.error(format!("has {count} starts for {} axes", named.len())));
        }
        let place = |axis: &i64| {
            from_front(*axis, rank).ok_or_else(|| {
                self.error(format!("has no axis {axis}, its input's rank is {rank}"))
            })
        };
        let axes = named.iter().map(place).collect::<TractResult<Vec<usize>>>()?;
        let is_twice =
            |(index, axis)| axes.iter().skip(index + 1).any(|other: &usize| other == axis);
        if axes.iter().enumerate().any(is_twice) {
            bail!(self.error("slices an axis twice"));
        }
        Ok(axes)
    }

    /// What is known of starts, ends, axes and steps; nothing where the axes are data.
    fn given(&self, inputs: &[Option<Arc<Tensor>>]) -> TractResult<Option<SliceOperands>> {
        let known = |slot: usize| inputs.get(slot).and_then(|input| input.as_deref());
        let numbers = |tensor: &Tensor, what: &str| -> TractResult<Vec<i64>> {
            let number = |dim: &TDim| {
                dim.as_i64().ok_or_else(|| self.error(format!("has {what} that is no number")))
            };
            dims(tensor)?.iter().map(number).collect()
        };
        Ok(Some(match &self.from {
            SliceEnds::Attributes { starts: s, ends: e, axes: a } => {
                let dims = |numbers: &[i64]| numbers.iter().map(|x| x.to_dim()).collect();
                (Some(dims(s)), Some(dims(e)), a.clone(), Some(vec![1; s.len()]))
            }
            SliceEnds::Inputs { axes: a, steps: p } => {
                let bounds = |slot| known(slot).map(dims).transpose();
                let starts = bounds(1)?.map(|dims| dims.to_vec());
                let ends = bounds(2)?.map(|dims| dims.to_vec());
                let axes = match a {
                    Some(slot) => match known(*slot) {
                        Some(axes) => Some(numbers(axes, "an axis")?),
                        None => return Ok(None),
                    },
                    None => None,
                };
                let steps = match p {
                    Some(slot) => known(*slot).map(|steps| numbers(steps, "a step")).transpose()?,
                    None => starts.as_ref().or(ends.as_ref()).map(|starts| vec![1; starts.len()]),
                };
                (starts, ends, axes, steps)
            }
        }))
    }

    /// What is known of the slices of data of a shape, from the other inputs as far as they are
    /// constants.
    fn slices(
        &self,
        shape: &[TDim],
        count: Option<usize>,
        inputs: &[Option<Arc<Tensor>>],
    ) -> TractResult<Option<Slices>> {
        let Some((starts, ends, axes, steps)) = self.given(inputs)? else { return Ok(None) };
        let lengths = [
            starts.as_ref().map(Vec::len),
            ends.as_ref().map(Vec::len),
            axes.as_ref().map(Vec::len),
            steps.as_ref().map(Vec::len),
        ];
        let Some(count) = lengths.into_iter().flatten().next().or(count) else { return Ok(None) };
        if lengths.iter().flatten().any(|length| *length != count) {
            bail!(self.error("has not as many starts, ends, axes and steps"));
        }
        let axes = self.axes(count, axes.as_deref(), shape.len())?;
        let (Some(starts), Some(ends), Some(steps)) = (starts, ends, steps) else {
            return Ok(Some(Slices { axes, parts: None }));
        };
        if steps.contains(&0) {
            bail!(self.error("has a step of 0"));
        }
        let parts = |is_exact: bool| -> TractResult<Vec<SlicePart>> {
            let parts = axes.iter().zip(&starts).zip(&ends).zip(&steps);
            let parts = parts.map(|(((axis, start), end), step)| {
                let dim = shape.get(*axis).context("an axis of the shape")?;
                Ok(bounds(dim, start, end, *step, is_exact))
            });
            parts.collect()
        };
        // Of what has no elements, only the shape is ever seen.
        let is_empty = |dim: &TDim| *dim == 0.to_dim();
        let guessed = parts(shape.iter().any(is_empty))?;
        let parts =
            if guessed.iter().any(|part| is_empty(&part.len())) { parts(true)? } else { guessed };
        Ok(Some(Slices { parts: Some(parts), axes }))
    }

    /// Wires a slice of which a run tells the bounds, with so many elements along the axes.
    fn wire_by_data(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
        axes: TVec<usize>,
        lens: TVec<TDim>,
    ) -> Wired {
        let mut wires: TVec<OutletId> = inputs.iter().take(3).copied().collect();
        match &self.from {
            SliceEnds::Inputs { steps, .. } => {
                wires.extend(steps.and_then(|slot| inputs.get(slot)).copied());
            }
            SliceEnds::Attributes { starts, ends, .. } => {
                for (what, numbers) in [("starts", starts), ("ends", ends)] {
                    wires.push(model.add_const(format!("{prefix}.{what}"), tensor1(numbers))?);
                }
            }
        }
        let op = SliceByData { node: self.node.clone().into(), lens, axes };
        model.wire_node(prefix, op, &wires)
    }
}

impl Expansion for Slice {
    fn name(&self) -> StaticName {
        SLICE.into()
    }

    rules!(self, |solver, inputs, outputs| {
        let arity = match &self.from {
            SliceEnds::Attributes { .. } => 1,
            SliceEnds::Inputs { axes, steps } => {
                3 + usize::from(axes.is_some()) + usize::from(steps.is_some())
            }
        };
        check_input_arity(inputs, arity)?;
        check_output_arity(outputs, 1)?;
        let ([data, others @ ..], [output]) = (inputs, outputs) else { return Ok(()) };
        solver.equals(&data.datum_type, &output.datum_type)?;
        solver.equals(&data.rank, &output.rank)?;
        for input in others {
            solver.equals(&input.rank, 1)?;
            solver.equals(&input.shape[0], &inputs[1].shape[0])?;
        }
        // The axes alone say which sizes stay.
        if let SliceEnds::Inputs { axes: Some(axes), .. } = self.from {
            solver.given_2(&data.rank, &inputs[axes].value, move |s, rank, axes| {
                let rank = usize::try_from(rank)?;
                let named = axes.cast_to::<i64>()?;
                let named = named.try_as_plain_ram()?.as_slice::<i64>()?.to_vec();
                let sliced = self.axes(named.len(), Some(&named), rank)?;
                for axis in (0..rank).filter(|axis| !sliced.contains(axis)) {
                    s.equals(&data.shape[axis], &output.shape[axis])?;
                }
                Ok(())
            })?;
        }
        solver.given(&data.shape, move |s, shape| {
            s.given_all(others.iter().map(|input| &input.value), move |s, values| {
                let known: Vec<_> =
                    [None].into_iter().chain(values.into_iter().map(Some)).collect();
                let mut sizes = shape.clone();
                if let Some(Slices { axes, parts: Some(parts) }) =
                    self.slices(&shape, None, &known)?
                {
                    for (axis, part) in axes.iter().zip(parts) {
                        if let Some(size) = sizes.get_mut(*axis) {
                            *size = part.len();
                        }
                    }
                    s.equals(&output.shape, sizes)?;
                }
                Ok(())
            })
        })
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let known = constants(model, inputs)?;
        let data = *inputs.first().context("data to slice")?;
        let shape = model.outlet_fact(data)?.shape.to_tvec();
        let count = match inputs.get(1) {
            Some(starts) => model.outlet_fact(*starts)?.shape.volume().to_usize().ok(),
            None => None,
        };
        let Some(slices) = self.slices(&shape, count, &known)? else {
            let problem = "has axes that are only known when the model runs, the model imports";
            bail!(unplanned(&self.node, SLICE, &format!("{problem} {}", self.opset)));
        };
        // tract takes a slice of nothing over a Concat, of which it then leaves out what has no
        // elements.
        if let Some(shape) = slices.empty(&shape) {
            // It becomes a constant, and what comes before is not run.
            if follows(model, data, is_guess) {
                let problem = "takes no elements of a slice of an axis whose size only a run tells, the model imports";
                bail!(unplanned(&self.node, SLICE, &format!("{problem} {}", self.opset)));
            }
            let ty = model.outlet_fact(data)?.datum_type;
            return zeros(model, prefix, ty, shape);
        }
        // tract takes a slice of an axis of one element for that element, and where two sizes are
        // one but for broadcasting, it slices what is broadcast too. One with a step it takes over
        // operators that need all elements: a softmax, an expansion to a shape, a convolution that
        // begins at the first (tract-core, `ops/downsample/mod.rs` and `conv.rs`).
        let is_uncertain = |(axis, part): (&usize, &SlicePart)| {
            let Some(dim) = shape.get(*axis) else { return false };
            let is_one = dim.as_i64().is_some_and(|dim| dim <= 1);
            let is_open = part.low.as_i64().is_none() || part.high.as_i64().is_none();
            is_one && is_open || matches!(dim, TDim::Broadcast(_))
        };
        let is_misread = |parts: &Vec<SlicePart>| {
            let has_steps = parts.iter().any(|part| part.step != 1);
            // Two slices become one, in which a place that was guessed may be one that the first
            // has taken away.
            let is_guessed = |(axis, part): (&usize, &SlicePart)| {
                shape.get(*axis).is_some_and(|dim| !part.is_within(dim))
            };
            slices.axes.iter().zip(parts).any(is_uncertain)
                || has_steps
                || slices.axes.iter().zip(parts).any(is_guessed)
                    && follows(model, data, |_, node| node.op_is::<Part>())
        };
        match slices.parts {
            Some(parts) if !is_misread(&parts) => {
                // Two slices become one, and it is not seen any more that the first has no such
                // places.
                let (name, axes) = (format!("{prefix}.whole"), slices.axes.iter().copied());
                let data = kept_whole(name, model, data, axes.collect(), is_guess)?;
                wire_parts(prefix, model, data, &slices.axes, &parts)
            }
            parts => {
                let lens = match parts {
                    Some(parts) => parts.iter().map(SlicePart::len).collect(),
                    None => {
                        let symbol = |_| model.symbols.new_with_prefix("l").to_dim();
                        slices.axes.iter().map(symbol).collect()
                    }
                };
                self.wire_by_data(prefix, model, inputs, slices.axes.into(), lens)
            }
        }
    }
}

/// Data behind what keeps slices of it along some axes from becoming one with such an operator's,
/// if it may come of one: in the place that one takes in the whole, the other may have nothing.
pub(super) fn kept_whole(
    name: String,
    model: &mut TypedModel,
    data: OutletId,
    axes: TVec<usize>,
    is_such: fn(&TypedModel, &TypedNode) -> bool,
) -> TractResult<OutletId> {
    if !follows(model, data, is_such) {
        return Ok(data);
    }
    let apart = model.wire_node(name, Apart { keeps: Keeps::Steps, axes }, &[data])?;
    apart.first().copied().context("an operator of one output")
}

/// Whether a value may come of such an operator, by others through which tract takes a slice. Where
/// it would have to go far to tell, it may.
fn follows(
    model: &TypedModel,
    value: OutletId,
    is_such: fn(&TypedModel, &TypedNode) -> bool,
) -> bool {
    const FAR: usize = 1000;
    let (mut seen, mut next) = (HashSet::new(), vec![value.node]);
    while let Some(id) = next.pop() {
        let node = model.node(id);
        if is_such(model, node) || seen.len() > FAR {
            return true;
        }
        let is_far = node.op_is::<Conv>();
        if seen.insert(id) && !is_far {
            next.extend(node.inputs.iter().map(|input| input.node));
        }
    }
    false
}

/// Whether a node takes places of an axis that a run may find not to be there.
pub(super) fn is_guess(model: &TypedModel, node: &TypedNode) -> bool {
    let Some(data) = node.inputs.first().and_then(|data| model.outlet_fact(*data).ok()) else {
        return false;
    };
    if let Some(Part { axis, start, end }) = node.op_as::<Part>() {
        let bounds = SlicePart { low: start.clone(), high: end.clone(), step: 1 };
        return data.shape.get(*axis).is_some_and(|dim| !bounds.is_within(dim));
    }
    node.op_is::<SliceByData>() && data.shape.as_concrete().is_none()
}

/// Wires the slices of all axes, which have no steps, one after the other.
fn wire_parts(
    prefix: &str,
    model: &mut TypedModel,
    data: OutletId,
    axes: &[usize],
    parts: &[SlicePart],
) -> Wired {
    let mut wires = tvec!(data);
    for (axis, part) in axes.iter().zip(parts) {
        let slice = Part::new(*axis, part.low.clone(), part.high.clone());
        wires = model.wire_node(format!("{prefix}.slice-axis-{axis}"), slice, &wires)?;
    }
    if let (Some(last), false) = (wires.first(), axes.is_empty()) {
        let is_own = model.node(last.node).name.starts_with(prefix);
        if is_own {
            model.rename_node(last.node, prefix)?;
        }
    }
    Ok(wires)
}
