//! What the attributes of a recurrent operator say.

use onnx_cast_graph::counted;
use tract_onnx::tract_core::internal::*;

use super::activation::{Activation, ActivationFunction};
use crate::ops::host::hook::HookSite;
use crate::ops::host::saved::{by_debug, fields, members};

members! {
    pub(super) enum Cell {
        Rnn,
        Gru,
        Lstm,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Reverse,
    Bidirectional,
}

/// A layer, but for its weights.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layer {
    pub(super) cell: Cell,
    pub(super) direction: Direction,
    /// The size of the hidden state.
    pub(super) hidden: usize,
    /// Whether the batch is the first axis, not the time.
    pub(super) batch_first: bool,
    /// For each direction in turn as many as [`Cell::functions`].
    pub(super) activations: Vec<Activation>,
    /// The greatest magnitude that goes into the functions of gates.
    pub(super) clip: Option<f32>,
    /// Whether an LSTM forgets what it does not take in.
    pub(super) couples_gates: bool,
    /// Whether a GRU multiplies before it resets.
    pub(super) linear_before_reset: bool,
    /// Whether an LSTM multiplies the state in 8 bits, of one scale for a batch: what stands for
    /// `DynamicQuantizeLSTM`.
    pub(super) quantizes_state: bool,
}

impl Cell {
    pub(super) fn of(operator: &str) -> Option<Cell> {
        match operator {
            "RNN" => Some(Cell::Rnn),
            "GRU" => Some(Cell::Gru),
            "LSTM" => Some(Cell::Lstm),
            _ => None,
        }
    }

    pub(super) fn operator(self) -> &'static str {
        match self {
            Cell::Rnn => "RNN",
            Cell::Gru => "GRU",
            Cell::Lstm => "LSTM",
        }
    }

    /// How many rows of weights there are for each element of the hidden state.
    pub(super) fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }

    /// The functions where the model names none.
    fn functions(self) -> &'static [ActivationFunction] {
        match self {
            Cell::Rnn => &[ActivationFunction::Tanh],
            Cell::Gru => &[ActivationFunction::Sigmoid, ActivationFunction::Tanh],
            Cell::Lstm => {
                &[ActivationFunction::Sigmoid, ActivationFunction::Tanh, ActivationFunction::Tanh]
            }
        }
    }
}

impl Direction {
    const ALL: [(&str, Direction); 3] = [
        ("forward", Direction::Forward),
        ("reverse", Direction::Reverse),
        ("bidirectional", Direction::Bidirectional),
    ];

    pub(super) fn count(self) -> usize {
        if self == Direction::Bidirectional { 2 } else { 1 }
    }
}

impl Layer {
    /// Reads the attributes of a node whose hidden state has `hidden` elements.
    /// Fails where an attribute has a value that ONNX does not give it.
    pub(super) fn of(site: &HookSite, cell: Cell, hidden: usize) -> TractResult<Layer> {
        let flag = |name: &str| match site.int(name, 0)? {
            0 => TractResult::Ok(false),
            1 => Ok(true),
            other => Err(site.error(format!("has attribute `{name}` {other}, not 0 or 1")))?,
        };
        let direction = direction(site)?;
        let clip: Option<f32> = site.proto.get_attr_opt("clip")?;
        if let Some(clip) = clip.filter(|clip| clip.is_nan() || *clip <= 0.0) {
            return Err(site.error(format!("has attribute `clip` {clip}, which bounds nothing")))?;
        }
        Ok(Layer {
            cell,
            direction,
            hidden,
            batch_first: flag("layout")?,
            activations: activations(site, cell, direction)?,
            clip,
            couples_gates: flag("input_forget")? && cell == Cell::Lstm,
            linear_before_reset: flag("linear_before_reset")? && cell == Cell::Gru,
            quantizes_state: flag("quantized_state")? && cell == Cell::Lstm,
        })
    }

    /// The functions of one direction.
    pub(super) fn functions(&self, direction: usize) -> &[Activation] {
        let count = self.cell.functions().len();
        self.activations.get(direction * count..(direction + 1) * count).unwrap_or_default()
    }

    /// Whether nothing is asked for but the gates' usual functions.
    pub(super) fn is_plain(&self) -> bool {
        let usual = self.cell.functions().iter().cycle();
        let are_usual =
            self.activations.iter().zip(usual).all(|(given, usual)| given.function == *usual);
        are_usual && self.clip.is_none() && !self.couples_gates && !self.quantizes_state
    }

    /// Fails where there are not as many functions as the directions take.
    pub(super) fn check_functions(&self) -> TractResult<()> {
        let count = self.cell.functions().len() * self.direction.count();
        ensure!(self.activations.len() == count, "has {} functions", self.activations.len());
        Ok(())
    }
}

by_debug!(Direction, Direction::ALL.into_iter().map(|(_, direction)| direction));
fields!(Activation { function, alpha, beta });
fields!(Layer {
    cell,
    direction,
    hidden,
    batch_first,
    activations,
    clip,
    couples_gates,
    linear_before_reset,
    quantizes_state
});

pub(super) fn direction(site: &HookSite) -> TractResult<Direction> {
    let name: Option<&str> = site.proto.get_attr_opt("direction")?;
    let name = name.unwrap_or("forward");
    let known = Direction::ALL.iter().find(|(known, _)| *known == name);
    match known {
        Some((_, direction)) => Ok(*direction),
        None => Err(site.error(format!(
            "has attribute `direction` {name:?}, not \"forward\", \"reverse\" or \"bidirectional\""
        )))?,
    }
}

/// The functions, each with the numbers that are its own: `activation_alpha` has one for each
/// function that uses it, in their order, and what it lacks at the end has its default.
fn activations(site: &HookSite, cell: Cell, direction: Direction) -> TractResult<Vec<Activation>> {
    let count = cell.functions().len() * direction.count();
    let names: Option<Vec<String>> = site.proto.get_attr_opt_vec("activations")?;
    // RNN's default, as the schema writes it, has a function for either direction, whatever there
    // are.
    let is_default = |names: &[String]| cell == Cell::Rnn && names == ["Tanh", "Tanh"];
    let functions: Vec<ActivationFunction> = match names.filter(|n| !n.is_empty() && !is_default(n))
    {
        None => cell.functions().iter().copied().cycle().take(count).collect(),
        Some(names) if names.len() == count => {
            let function = |name: &String| {
                ActivationFunction::named(name)
                    .ok_or_else(|| site.error(format!("has no activation function {name:?}")))
            };
            names.iter().map(function).collect::<Result<_, _>>()?
        }
        Some(names) => {
            let problem = format!("has {} `activations`, not {count}", names.len());
            return Err(site.error(problem))?;
        }
    };
    let alphas = numbers(site, "activation_alpha", &functions, ActivationFunction::alpha)?;
    let betas = numbers(site, "activation_beta", &functions, ActivationFunction::beta)?;
    let with = |((function, alpha), beta)| Activation { function, alpha, beta };
    Ok(functions.into_iter().zip(alphas).zip(betas).map(with).collect())
}

fn numbers(
    site: &HookSite,
    name: &str,
    functions: &[ActivationFunction],
    default: fn(ActivationFunction) -> Option<Option<f32>>,
) -> TractResult<Vec<f32>> {
    let given: Vec<f32> = site.proto.get_attr_opt_vec(name)?.unwrap_or_default();
    let users = functions.iter().filter(|function| default(**function).is_some()).count();
    // One for each function, or one for each that uses it: readers disagree, and nobody says which
    // is meant.
    if users > 0 && given.len() > users {
        let problem = format!("has {} `{name}` for {}", given.len(), counted(users, "function"));
        Err(site.error(problem))?;
    }
    let mut given = given.into_iter();
    let number = |function: &ActivationFunction| match default(*function) {
        None => Ok(0.0),
        Some(default) => given.next().or(default).ok_or_else(|| {
            let function = function.name();
            site.error(format!("has no `{name}` for {function}, which has no default"))
        }),
    };
    Ok(functions.iter().map(number).collect::<Result<_, _>>()?)
}
