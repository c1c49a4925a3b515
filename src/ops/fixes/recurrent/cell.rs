//! One direction of a layer, step by step.

use super::layer::{Cell, Layer};
use super::layout::SequenceLayout;
use super::product::{PackedRows, Real};
use crate::cast::kernel::level::Level;

/// The weights of one direction, laid out for products.
#[derive(Debug, Clone)]
pub(super) struct Matrices<T> {
    inputs: usize,
    input: PackedRows<T>,
    recurrent: PackedRows<T>,
    /// What a GRU multiplies only after it has reset.
    after_reset: Option<PackedRows<T>>,
}

impl<T: Real> Matrices<T> {
    /// Of W and R of one direction: rows of `inputs` elements, and of the hidden state's.
    pub(super) fn new(layer: &Layer, w: &[T], r: &[T], inputs: usize) -> Matrices<T> {
        let hidden = layer.hidden;
        let resets_first = layer.cell == Cell::Gru && !layer.linear_before_reset;
        let together = if resets_first { 2 } else { layer.cell.gates() };
        let (before, after) = r.split_at((together * hidden * hidden).min(r.len()));
        Matrices {
            inputs,
            input: PackedRows::new(w, inputs),
            recurrent: PackedRows::new(before, hidden),
            after_reset: resets_first.then(|| PackedRows::new(after, hidden)),
        }
    }

    /// How many elements an input has.
    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }
}

/// What a direction is computed from, beside its matrices.
pub(super) struct CellInputs<'a, T> {
    /// [`SequenceLayout::row`]s of inputs.
    pub(super) x: &'a [T],
    /// How many steps each place in the batch has.
    pub(super) lengths: &'a [usize],
    pub(super) is_reverse: bool,
    /// Those of the products with the inputs, then those of the products with the state; empty if
    /// there are none.
    pub(super) bias: &'a [T],
    /// Of input, output and forget gate; empty if there are none.
    pub(super) peepholes: &'a [T],
}

/// The states of a batch: [batch][hidden].
pub(super) struct State<T> {
    pub(super) h: Vec<T>,
    /// Of an LSTM; else empty.
    pub(super) c: Vec<T>,
}

/// A direction, of this index, and what every step of it uses.
pub(super) struct DirectionRun<'a, T> {
    pub(super) layer: &'a Layer,
    pub(super) index: usize,
    pub(super) layout: &'a SequenceLayout,
    pub(super) matrices: &'a Matrices<T>,
    pub(super) given: &'a CellInputs<'a, T>,
    pub(super) level: Level,
}

/// What every step writes over.
struct Buffers<T> {
    /// The products of inputs and state: [batch][gates · hidden].
    gates: Vec<T>,
    /// As many, of a GRU that multiplies before it resets.
    products: Vec<T>,
    /// [batch][hidden].
    reset: Vec<T>,
    /// [hidden].
    scratch: Vec<T>,
}

impl<T: Real> DirectionRun<'_, T> {
    /// Runs it over all steps. `emit` takes each new hidden state with its time and its place in
    /// the batch.
    pub(super) fn run(&self, state: &mut State<T>, mut emit: impl FnMut(usize, usize, &[T])) {
        let DirectionRun { layer, layout, given, .. } = *self;
        let (hidden, width) = (layer.hidden, layer.cell.gates() * layer.hidden);
        let from_inputs = self.of_inputs();
        let batch = layout.batch;
        let zeros = |count: usize| vec![T::default(); count];
        let mut buffers = Buffers {
            gates: zeros(batch * width),
            products: zeros(if layer.linear_before_reset { batch * width } else { 0 }),
            reset: zeros(batch * hidden),
            scratch: zeros(hidden),
        };
        for step in 0..given.lengths.iter().copied().max().unwrap_or(0) {
            let time = |length: usize| {
                let left = length.checked_sub(step + 1)?;
                Some(if given.is_reverse { left } else { step })
            };
            let places = || given.lengths.iter().map(|length| time(*length)).enumerate();
            for ((place, time), gates) in places().zip(buffers.gates.chunks_exact_mut(width)) {
                let row = time.map(|time| layout.row(time, place) * width);
                if let Some(products) = row.and_then(|row| from_inputs.get(row..row + width)) {
                    gates.copy_from_slice(products);
                }
            }
            let is_active = |place: usize| given.lengths.get(place).is_some_and(|len| step < *len);
            self.step(&mut buffers, state, is_active);
            for ((place, time), h) in places().zip(state.h.chunks_exact(hidden)) {
                if let Some(time) = time {
                    emit(time, place, h);
                }
            }
        }
    }

    /// The products of all inputs with W, and what is added to them whatever the state is.
    fn of_inputs(&self) -> Vec<T> {
        let DirectionRun { layer, layout, matrices, given, level, .. } = self;
        let width = layer.cell.gates() * layer.hidden;
        let (of_inputs, of_state) = given.bias.split_at(width.min(given.bias.len()));
        let mut bias = vec![T::default(); width];
        bias.iter_mut().zip(of_inputs).for_each(|(sum, b)| *sum = *b);
        // What a GRU adds before it resets is no part of this.
        let added = if layer.linear_before_reset { 2 * layer.hidden } else { width };
        bias.iter_mut().zip(of_state).take(added).for_each(|(sum, b)| *sum = *sum + *b);
        let mut products = bias.repeat(layout.times * layout.batch);
        matrices.input.add_products(*level, given.x, &mut products, width);
        products
    }

    fn step(
        &self,
        buffers: &mut Buffers<T>,
        state: &mut State<T>,
        is_active: impl Fn(usize) -> bool,
    ) {
        match self.layer.cell {
            Cell::Rnn => self.step_rnn(buffers, state, is_active),
            Cell::Lstm => self.step_lstm(buffers, state, is_active),
            Cell::Gru if self.layer.linear_before_reset => {
                self.step_linear_gru(buffers, state, is_active)
            }
            Cell::Gru => self.step_gru(buffers, state, is_active),
        }
    }

    /// Puts a function of this direction onto elements.
    fn apply(&self, function: usize, elements: &mut [T]) {
        if let Some(activation) = self.layer.functions(self.index).get(function) {
            activation.apply(self.level, self.layer.clip, elements);
        }
    }

    fn step_rnn(
        &self,
        buffers: &mut Buffers<T>,
        state: &mut State<T>,
        is_active: impl Fn(usize) -> bool,
    ) {
        let hidden = self.layer.hidden;
        let gates = &mut buffers.gates;
        self.matrices.recurrent.add_products(self.level, &state.h, gates, hidden);
        self.apply(0, gates);
        for (place, (h, new)) in
            state.h.chunks_exact_mut(hidden).zip(gates.chunks_exact(hidden)).enumerate()
        {
            if is_active(place) {
                h.copy_from_slice(new);
            }
        }
    }

    fn step_lstm(
        &self,
        buffers: &mut Buffers<T>,
        state: &mut State<T>,
        is_active: impl Fn(usize) -> bool,
    ) {
        let hidden = self.layer.hidden;
        let Buffers { gates, scratch, .. } = buffers;
        let codes = self.layer.quantizes_state.then(|| in_bytes(&state.h));
        let h = codes.as_ref().unwrap_or(&state.h);
        self.matrices.recurrent.add_products(self.level, h, gates, 4 * hidden);
        let rows = gates.chunks_exact_mut(4 * hidden);
        let states = state.h.chunks_exact_mut(hidden).zip(state.c.chunks_exact_mut(hidden));
        for (place, (gates, (h, c))) in rows.zip(states).enumerate() {
            if is_active(place) {
                self.lstm(gates, h, c, scratch);
            }
        }
    }

    /// One row: its gates are those of input, output, forgetting and cell.
    fn lstm(&self, gates: &mut [T], h: &mut [T], c: &mut [T], scratch: &mut [T]) {
        let (level, hidden) = (self.level, self.layer.hidden);
        let (input, rest) = gates.split_at_mut(hidden);
        let (output, rest) = rest.split_at_mut(hidden);
        let (forget, cell) = rest.split_at_mut(hidden);
        let mut peepholes = self.given.peepholes.chunks_exact(hidden);
        let mut peephole = || peepholes.next().unwrap_or_default();
        let (of_input, of_output, of_forget) = (peephole(), peephole(), peephole());
        add_scaled(level, input, of_input, c);
        self.apply(0, input);
        if self.layer.couples_gates {
            forget.iter_mut().zip(&*input).for_each(|(forget, input)| *forget = T::one() - *input);
        } else {
            add_scaled(level, forget, of_forget, c);
            self.apply(0, forget);
        }
        self.apply(1, cell);
        level.run(
            #[inline(always)]
            || {
                let gates = forget.iter().zip(&*input).zip(&*cell);
                for ((c, seen), ((forget, input), cell)) in
                    c.iter_mut().zip(scratch.iter_mut()).zip(gates)
                {
                    *c = *forget * *c + *input * *cell;
                    *seen = *c;
                }
            },
        );
        add_scaled(level, output, of_output, c);
        self.apply(0, output);
        // The cell's value is no sum of a gate: it is not clipped.
        if let Some(activation) = self.layer.functions(self.index).get(2) {
            activation.apply(level, None, scratch);
        }
        multiply(level, h, output, scratch);
    }

    fn step_gru(
        &self,
        buffers: &mut Buffers<T>,
        state: &mut State<T>,
        is_active: impl Fn(usize) -> bool,
    ) {
        let hidden = self.layer.hidden;
        let width = 3 * hidden;
        let Buffers { gates, reset, .. } = buffers;
        self.matrices.recurrent.add_products(self.level, &state.h, gates, width);
        let rows = gates.chunks_exact_mut(width).zip(reset.chunks_exact_mut(hidden));
        for ((gates, reset), h) in rows.zip(state.h.chunks_exact(hidden)) {
            let (first, _) = gates.split_at_mut(2 * hidden);
            self.apply(0, first);
            multiply(self.level, reset, &first[hidden..], h);
        }
        if let (Some(matrix), Some(gates)) =
            (&self.matrices.after_reset, gates.get_mut(2 * hidden..))
        {
            matrix.add_products(self.level, reset, gates, width);
        }
        for (place, (gates, h)) in
            gates.chunks_exact_mut(width).zip(state.h.chunks_exact_mut(hidden)).enumerate()
        {
            if is_active(place) {
                self.mix(gates, h);
            }
        }
    }

    fn step_linear_gru(
        &self,
        buffers: &mut Buffers<T>,
        state: &mut State<T>,
        is_active: impl Fn(usize) -> bool,
    ) {
        let hidden = self.layer.hidden;
        let width = 3 * hidden;
        let Buffers { gates, products, .. } = buffers;
        let bias = self.given.bias.get(5 * hidden..).unwrap_or_default();
        for products in products.chunks_exact_mut(width) {
            products.fill(T::default());
            products.iter_mut().skip(2 * hidden).zip(bias).for_each(|(sum, b)| *sum = *b);
        }
        self.matrices.recurrent.add_products(self.level, &state.h, products, width);
        let rows = gates.chunks_exact_mut(width).zip(products.chunks_exact(width));
        for (place, ((gates, products), h)) in
            rows.zip(state.h.chunks_exact_mut(hidden)).enumerate()
        {
            if !is_active(place) {
                continue;
            }
            let (first, last) = gates.split_at_mut(2 * hidden);
            first.iter_mut().zip(products).for_each(|(sum, product)| *sum = *sum + *product);
            self.apply(0, first);
            add_scaled(self.level, last, &first[hidden..], &products[2 * hidden..]);
            self.mix(gates, h);
        }
    }

    /// The new state of a GRU's row, between the last gate and the old state.
    fn mix(&self, gates: &mut [T], h: &mut [T]) {
        let (update, rest) = gates.split_at_mut(self.layer.hidden);
        let (_, new) = rest.split_at_mut(self.layer.hidden);
        self.apply(1, new);
        self.level.run(
            #[inline(always)]
            || {
                for ((h, new), update) in h.iter_mut().zip(&*new).zip(&*update) {
                    *h = (T::one() - *update) * *new + *update * *h;
                }
            },
        );
    }
}

/// What a DynamicQuantizeLinear makes of elements, as the numbers that its codes stand for.
fn in_bytes<T: Real>(elements: &[T]) -> Vec<T> {
    let numbers = || elements.iter().map(|x| (*x).into() as f32);
    let (least, greatest) = (numbers().fold(0.0, f32::min), numbers().fold(0.0, f32::max));
    let scale = (greatest - least) / 255.0;
    if scale <= 0.0 {
        return vec![T::default(); elements.len()];
    }
    let zero = (0.0 - least / scale).round_ties_even();
    let value = |x: f32| ((x / scale).round_ties_even() + zero).clamp(0.0, 255.0) - zero;
    numbers().map(|x| (value(x) * scale).into()).collect()
}

/// `out += x · y`; nothing where x is empty.
#[inline(always)]
fn add_scaled<T: Real>(level: Level, out: &mut [T], x: &[T], y: &[T]) {
    level.run(
        #[inline(always)]
        || {
            for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                *out = *out + *x * *y;
            }
        },
    );
}

/// `out = x · y`.
#[inline(always)]
fn multiply<T: Real>(level: Level, out: &mut [T], x: &[T], y: &[T]) {
    level.run(
        #[inline(always)]
        || {
            for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                *out = *x * *y;
            }
        },
    );
}
