//! A recurrent layer as one operator of tract's.

use std::any::Any;

use onnx_cast_graph::counted;
use tract_onnx::tract_core::internal::*;

use super::cell::{CellInputs, DirectionRun, Matrices, State};
use super::layer::{Cell, Direction, Layer};
use super::layout::{SequenceLayout, shapes};
use super::product::Real;
use crate::cast::kernel::level::Level;
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{Patch, refused};
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved, members};

members! {
    /// What may be given beside x, W and R, in ONNX's order.
    pub(super) enum RecurrentInput {
        Bias,
        Lengths,
        InitialH,
        InitialC,
        Peepholes,
    }
}

/// Which of Y, Y_h and Y_c there are.
pub(super) type Emitted = [bool; 3];

/// The [`Matrices`] of each direction, of the type that the layer is computed in.
pub(super) type LayerMatrices = dyn Any + Send + Sync;

/// A layer over all its steps: x, W, R and what is given beside them in; Y, Y_h and Y_c out.
#[derive(Debug, Clone)]
pub(crate) struct Recurrent {
    /// For messages; the operator's identity does not depend on it.
    pub(super) node: Label,
    pub(super) layer: Layer,
    /// In ONNX's order.
    pub(super) given: TVec<RecurrentInput>,
    pub(super) emitted: Emitted,
    /// W and R where they are constants, which then are no inputs.
    pub(super) weights: Option<Arc<LayerMatrices>>,
}

/// The identity of an operator does not depend on whether its weights are inputs still: those that
/// are not are another's.
impl PartialEq for Recurrent {
    fn eq(&self, other: &Recurrent) -> bool {
        let weights =
            [self, other].map(|op| op.weights.as_ref().map(|all| Arc::as_ptr(all).cast::<()>()));
        self.layer == other.layer
            && self.given == other.given
            && self.emitted == other.emitted
            && weights[0] == weights[1]
    }
}

impl Eq for Recurrent {}

/// Y, Y_h and Y_c in the making.
struct RecurrentOutputs<T> {
    y: Vec<T>,
    h: Vec<T>,
    c: Vec<T>,
}

impl Recurrent {
    fn error(&self, problem: impl Into<String>) -> crate::error::Error {
        refused(&self.node, self.layer.cell.operator(), problem)
    }

    /// An input that may be given.
    fn optional<'a>(&self, inputs: &'a [TValue], which: RecurrentInput) -> Option<&'a TValue> {
        let first = if self.weights.is_some() { 1 } else { 3 };
        let place = self.given.iter().position(|given| *given == which)?;
        inputs.get(first + place)
    }

    /// As [`Recurrent::optional`], the elements, of which there must be `count`; none where it is
    /// not given.
    fn elements<'a, T: Real>(
        &self,
        inputs: &'a [TValue],
        which: RecurrentInput,
        count: usize,
    ) -> TractResult<&'a [T]> {
        let Some(input) = self.optional(inputs, which) else { return Ok(&[]) };
        let elements = input.try_as_plain_ram()?.as_slice::<T>()?;
        if elements.len() != count {
            let problem = format!("has {which:?} of size {}, not {count}", elements.len());
            Err(self.error(problem))?;
        }
        Ok(elements)
    }

    fn layout(&self, x: &Tensor) -> TractResult<SequenceLayout> {
        let [first, second, _] = *x.shape() else {
            Err(self.error(format!("has an x of rank {}, not 3", x.rank())))?
        };
        let Layer { direction, hidden, batch_first, .. } = self.layer;
        let (times, batch) = if batch_first { (second, first) } else { (first, second) };
        Ok(SequenceLayout { times, batch, directions: direction.count(), hidden, batch_first })
    }

    /// How many steps each place in the batch has.
    fn lengths(&self, inputs: &[TValue], layout: &SequenceLayout) -> TractResult<Vec<usize>> {
        let Some(lengths) = self.optional(inputs, RecurrentInput::Lengths) else {
            return Ok(vec![layout.times; layout.batch]);
        };
        let lengths = lengths.cast_to::<i64>()?;
        let lengths = lengths.try_as_plain_ram()?.as_slice::<i64>()?;
        if lengths.len() != layout.batch {
            let problem =
                format!("has {} for a batch of {}", counted(lengths.len(), "length"), layout.batch);
            Err(self.error(problem))?;
        }
        let length = |length: &i64| {
            usize::try_from(*length).ok().filter(|length| *length <= layout.times).ok_or_else(
                || {
                    let times = layout.times;
                    self.error(format!(
                        "has a sequence length of {length}, of {}",
                        counted(times, "step")
                    ))
                },
            )
        };
        Ok(lengths.iter().map(length).collect::<Result<_, _>>()?)
    }

    /// Lays out W and R of each direction.
    fn matrices<T: Real>(&self, w: &Tensor, r: &Tensor) -> TractResult<Vec<Matrices<T>>> {
        let layer = &self.layer;
        let (hidden, count) = (layer.hidden, layer.direction.count());
        let rows = layer.cell.gates() * hidden;
        let inputs = w.shape().last().copied().unwrap_or(0);
        if w.shape() != [count, rows, inputs] || r.shape() != [count, rows, hidden] {
            let problem = format!("has W and R of shapes {:?} and {:?}", w.shape(), r.shape());
            Err(self.error(problem))?;
        }
        let w = w.try_as_plain_ram()?.as_slice::<T>()?.chunks((rows * inputs).max(1));
        let r = r.try_as_plain_ram()?.as_slice::<T>()?.chunks((rows * hidden).max(1));
        let w = w.chain(std::iter::repeat(&[][..]));
        Ok(w.zip(r).map(|(w, r)| Matrices::new(layer, w, r, inputs)).collect())
    }

    fn eval_as<T: Real>(&self, inputs: &[TValue]) -> TractResult<TVec<TValue>> {
        let x = inputs.first().context("has no x")?;
        let layout = self.layout(x)?;
        let laid_out;
        let matrices: &[Matrices<T>] = match (&self.weights, inputs) {
            (Some(weights), _) => {
                weights.downcast_ref::<Vec<_>>().context("has weights of another type")?
            }
            (None, [_, w, r, ..]) => {
                laid_out = self.matrices::<T>(w, r)?;
                &laid_out
            }
            _ => Err(self.error("has no weights"))?,
        };
        let of_x = x.shape().last().copied();
        if matrices.iter().any(|matrices| Some(matrices.inputs()) != of_x) {
            let problem = format!("has an x of {:?}, for which W is not", x.shape());
            Err(self.error(problem))?;
        }
        let made = self.run(x.try_as_plain_ram()?.as_slice()?, inputs, &layout, matrices)?;
        let [y, state] = self.shapes(x)?;
        let outputs = [(made.y, y), (made.h, state.clone()), (made.c, state)].into_iter();
        let tensor = |(elements, shape): (Vec<T>, TVec<usize>)| {
            Ok(tract_ndarray::ArrayD::from_shape_vec(&*shape, elements)?.into_tensor().into())
        };
        let there = outputs.zip(self.emitted).filter(|(_, is_there)| *is_there);
        there.map(|(output, _)| tensor(output)).collect()
    }

    /// Runs each direction. Y is left out where nobody wants it.
    fn run<T: Real>(
        &self,
        x: &[T],
        inputs: &[TValue],
        layout: &SequenceLayout,
        matrices: &[Matrices<T>],
    ) -> TractResult<RecurrentOutputs<T>> {
        let (of_state, width) = (layout.of_state(), self.layer.cell.gates() * layout.hidden);
        let lengths = self.lengths(inputs, layout)?;
        let initial_h = self.elements::<T>(inputs, RecurrentInput::InitialH, of_state)?;
        let initial_c = self.elements::<T>(inputs, RecurrentInput::InitialC, of_state)?;
        let biases =
            self.elements::<T>(inputs, RecurrentInput::Bias, layout.directions * 2 * width)?;
        let count = layout.directions * 3 * layout.hidden;
        let peepholes = self.elements::<T>(inputs, RecurrentInput::Peepholes, count)?;
        let zeros = |count: usize| vec![T::default(); count];
        let of_y = if self.emitted[0] { layout.times * of_state } else { 0 };
        let mut made = RecurrentOutputs { y: zeros(of_y), h: zeros(of_state), c: zeros(of_state) };
        for (index, matrices) in matrices.iter().enumerate() {
            let part = |all: &'_ [T], length: usize| {
                all.get(index * length..(index + 1) * length).unwrap_or_default().to_vec()
            };
            let given = CellInputs {
                x,
                lengths: &lengths,
                is_reverse: index == 1 || self.layer.direction == Direction::Reverse,
                bias: &part(biases, 2 * width),
                peepholes: &part(peepholes, 3 * layout.hidden),
            };
            let first = |states: &[T]| -> Vec<T> {
                let of_place = |place| match states.get(layout.in_state(index, place)) {
                    Some(state) => state.to_vec(),
                    None => zeros(layout.hidden),
                };
                (0..layout.batch).flat_map(of_place).collect()
            };
            let c = if self.layer.cell == Cell::Lstm { first(initial_c) } else { vec![] };
            let mut state = State { h: first(initial_h), c };
            let (layer, given, level) = (&self.layer, &given, Level::best());
            let direction = DirectionRun { layer, index, layout, matrices, given, level };
            direction.run(&mut state, |time, place, h| {
                if let Some(y) = made.y.get_mut(layout.in_y(index, time, place)) {
                    y.copy_from_slice(h);
                }
            });
            made.keep(index, layout, &lengths, &state);
        }
        Ok(made)
    }

    /// The shapes of Y and of the last states.
    fn shapes(&self, x: &Tensor) -> TractResult<[TVec<usize>; 2]> {
        let Layer { direction, hidden, batch_first, .. } = self.layer;
        let [first, second, _] = *x.shape() else { bail!("has an x of rank {}", x.rank()) };
        let shapes =
            shapes(first.to_dim(), second.to_dim(), direction.count(), hidden, batch_first);
        let sizes =
            |shape: TVec<TDim>| Ok(shape.iter().map(TDim::to_usize).collect::<Result<_, _>>()?);
        let [y, state]: [TractResult<TVec<usize>>; 2] = shapes.map(sizes);
        Ok([y?, state?])
    }
}

impl<T: Real> RecurrentOutputs<T> {
    /// Keeps the last states of a direction. As ONNX Runtime has it, a sequence of no steps has
    /// none, not even the initial one.
    fn keep(&mut self, index: usize, layout: &SequenceLayout, lengths: &[usize], state: &State<T>) {
        let there = lengths.iter().enumerate().filter(|(_, length)| **length > 0);
        for (place, _) in there {
            for (all, last) in [(&mut self.h, &state.h), (&mut self.c, &state.c)] {
                let out = all.get_mut(layout.in_state(index, place));
                let last = last.get(place * layout.hidden..(place + 1) * layout.hidden);
                if let (Some(out), Some(last)) = (out, last) {
                    out.copy_from_slice(last);
                }
            }
        }
    }
}

typed_op!(Recurrent, |op| op.layer.cell.operator(), |op| {
    let Layer { direction, hidden, .. } = &op.layer;
    format!("{direction:?}, hidden state of {hidden}")
});

impl EvalOp for Recurrent {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let ty = inputs.first().map(|x| x.datum_type());
        match ty {
            Some(DatumType::F32) => self.eval_as::<f32>(&inputs),
            Some(DatumType::F64) => self.eval_as::<f64>(&inputs),
            _ => Err(self.error(format!("is computed in FLOAT and DOUBLE, not {ty:?}")))?,
        }
    }
}

impl TypedOp for Recurrent {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let x = inputs.first().context("has no x")?;
        let [first, second, _] = &*x.shape.to_tvec() else {
            Err(self.error(format!("has an x of rank {}, not 3", x.rank())))?
        };
        let Layer { direction, hidden, batch_first, .. } = self.layer;
        let [y, state] =
            shapes(first.clone(), second.clone(), direction.count(), hidden, batch_first);
        let shapes = [y, state.clone(), state].into_iter().zip(self.emitted);
        let there = shapes.filter(|(_, is_there)| *is_there);
        Ok(there.map(|(shape, _)| x.datum_type.fact(&*shape)).collect())
    }

    /// Lays out constant weights once, for all runs.
    fn codegen(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let [x, w, r, others @ ..] = &node.inputs[..] else { return Ok(None) };
        let constant = |input: &OutletId| TractResult::Ok(model.outlet_fact(*input)?.konst.clone());
        let (None, Some(w), Some(r)) = (&self.weights, constant(w)?, constant(r)?) else {
            return Ok(None);
        };
        let weights: Arc<LayerMatrices> = match model.outlet_fact(*x)?.datum_type {
            DatumType::F32 => Arc::new(self.matrices::<f32>(&w, &r)?),
            DatumType::F64 => Arc::new(self.matrices::<f64>(&w, &r)?),
            _ => return Ok(None),
        };
        let op = Recurrent { weights: Some(weights), ..self.clone() };
        let inputs: Vec<OutletId> = std::iter::once(x).chain(others).copied().collect();
        TypedModelPatch::replace_single_op(model, node, &inputs, op).map(Some)
    }

    as_op!();
}

impl Save for Recurrent {
    const NAME: &'static str = "tract_onnx_cast_recurrent";

    const OUTPUTS: &'static [&'static str] = &["first", "second", "third"];

    fn save(&self) -> Saved {
        Saved::default().with(&self.layer).with(&self.given).with(&self.emitted)
    }

    fn restore(node: Label, row: &mut Row) -> TractResult<Recurrent> {
        let layer: Layer = row.take()?;
        layer.check_functions()?;
        Ok(Recurrent { node, layer, given: row.take()?, emitted: row.take()?, weights: None })
    }
}
