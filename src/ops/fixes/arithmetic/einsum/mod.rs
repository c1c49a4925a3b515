//! `Einsum`, written out as diagonals, sums and products of two operands.
//!
//! tract takes an empty output for one that is left out, does not sum over a letter that an operand
//! has twice, loses an ellipsis that two operands have where no output is given, and does not
//! stretch axes of one element (tract-onnx, `ops/einsum.rs`; tract-core, `axes/mapping.rs`). It
//! panics at sums along axes without elements (tract-core, `ops/nn/reduce.rs`).

mod diagonal;
mod equation;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::axes::Axis;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::change_axes::perm_to_ops;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math::Mul;
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};
use tract_onnx::tract_hir::internal::*;

pub(crate) use self::diagonal::Diagonal;
use self::equation::Equation;
use crate::onnx::node::node_name;
use crate::ops::fixes::arithmetic::binary::{IntegerMul, Unsimplified};
use crate::ops::fixes::arithmetic::product::IntegerEinSum;
use crate::ops::fixes::products::open::{Multiplies, agree, size_of_all};
use crate::ops::fixes::shapes::{is_empty, zeros};
use crate::ops::host::at_opset::imported;
use crate::ops::host::element_wise::rules;
use crate::ops::host::hook::{Hook, Mapped, Wired, refused};
use crate::ops::host::hooked::hooked;
use crate::ops::host::label::Label;
use crate::ops::host::stock::Built;

/// Builds it of a node.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let node_label = node_name(node);
    let text: String = node.get_attr("equation")?;
    let opset = imported(node, context.onnx_operator_set_version);
    let equation = Equation::parse(&node_label, opset, &text)?;
    equation.check_operands(node.input.len())?;
    let op = Einsum { node: node_label.into(), opset, equation };
    Ok((hooked(context, node, expand(op), Hook::Products), vec![]))
}

#[derive(Debug, Clone)]
struct Einsum {
    /// For messages.
    node: Label,
    /// For messages.
    opset: i64,
    equation: Equation,
}

impl Expansion for Einsum {
    fn name(&self) -> StaticName {
        "EinSum".into()
    }

    rules!(self, [self.equation.operands(), 1], |solver, inputs, outputs| {
        let output = &outputs[0];
        for input in inputs {
            solver.equals(&input.datum_type, &output.datum_type)?;
        }
        let ranks: Vec<_> = inputs.iter().map(|input| &input.rank).collect();
        solver.given_all(ranks, move |solver, ranks| {
            let ranks: Vec<usize> =
                ranks.into_iter().map(usize::try_from).collect::<Result<_, _>>()?;
            let (terms, kept) = self.equation.resolve(&ranks)?;
            solver.equals(&output.rank, i64::try_from(kept.len())?)?;
            for (place, letter) in kept.iter().enumerate() {
                let dims: Vec<_> = places(&terms, *letter)
                    .map(|(operand, axis)| inputs[operand].shape[axis].bex())
                    .collect();
                solver.given_all(dims, move |solver, dims: Vec<TDim>| {
                    solver.equals(&output.shape[place], size_of_all(dims.iter())?)
                })?;
            }
            Ok(())
        })
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let ranks = inputs.iter().map(|input| Ok(model.outlet_fact(*input)?.rank()));
        let ranks = ranks.collect::<TractResult<Vec<usize>>>()?;
        let ty = model.outlet_fact(*inputs.first().context("an operand")?)?.datum_type;
        let (terms, kept) = self.equation.resolve(&ranks)?;
        self.check_sizes(model, inputs, &terms)?;
        if let Some(shape) = of_no_elements(model, inputs, &terms, &kept)? {
            return zeros(model, prefix, ty, shape);
        }
        let mut wiring =
            Wiring { model, prefix, parts: 0, node: &self.node, opset: self.opset, ty };
        let mut operands = vec![];
        for (input, letters) in inputs.iter().zip(terms) {
            operands.push(wiring.diagonals(EinsumOperand { wire: *input, letters })?);
        }
        wiring.drop_ones(&mut operands, &kept)?;
        for place in 0..operands.len() {
            let others = elsewhere(&operands, place, &kept);
            wiring.sum(&mut operands[place], |letter| others.contains(&letter))?;
        }
        let mut operands = operands.into_iter();
        let mut product = operands.next().context("an operand")?;
        while let Some(operand) = operands.next() {
            let later = operands.as_slice();
            let letters = if later.is_empty() {
                kept.clone()
            } else {
                let mut letters = product.letters.clone();
                let is_new = |letter: &&char| !product.letters.contains(letter);
                letters.extend(operand.letters.iter().filter(is_new));
                let is_needed =
                    |letter: &char| kept.contains(letter) || later.iter().any(|l| l.has(*letter));
                letters.retain(is_needed);
                letters
            };
            product = wiring.multiply(&product, &operand, letters)?;
        }
        Ok(tvec!(wiring.arrange(&product, &kept)?))
    }
}

impl Einsum {
    /// Fails where a letter stands for two sizes that are known, none of them 1.
    fn check_sizes(
        &self,
        model: &TypedModel,
        inputs: &[OutletId],
        terms: &[Vec<char>],
    ) -> TractResult<()> {
        let mut known: Vec<(char, i64)> = vec![];
        for (input, letters) in inputs.iter().zip(terms) {
            let shape = model.outlet_fact(*input)?.shape.to_tvec();
            let sizes = letters.iter().zip(shape.iter().map(TDim::as_i64));
            for (letter, size) in sizes.filter_map(|(letter, size)| Some((*letter, size?))) {
                let other = known.iter().find(|(other, had)| *other == letter && *had != size);
                if let Some((_, other)) = other.filter(|_| size != 1) {
                    let problem = format!("has a letter for sizes of {other} by {size}");
                    bail!(refused(&self.node, "Einsum", problem));
                }
                known.extend(Some((letter, size)).filter(|_| size != 1));
            }
        }
        Ok(())
    }
}

/// The shape of the result where an operand has no elements: beside open sizes, tract takes the
/// product for another one.
fn of_no_elements(
    model: &TypedModel,
    inputs: &[OutletId],
    terms: &[Vec<char>],
    kept: &[char],
) -> TractResult<Option<TVec<TDim>>> {
    let facts = inputs.iter().map(|input| model.outlet_fact(*input));
    let facts = facts.collect::<TractResult<TVec<&TypedFact>>>()?;
    let size = |letter: &char| {
        let sizes = places(terms, *letter);
        size_of_all(sizes.filter_map(|(place, axis)| facts.get(place)?.shape.get(axis)))
    };
    let is_of_none = facts.iter().any(|fact| is_empty(fact));
    is_of_none.then(|| kept.iter().map(size).collect()).transpose()
}

/// Where a letter stands: an operand and one of its axes.
fn places(terms: &[Vec<char>], letter: char) -> impl Iterator<Item = (usize, usize)> + Clone {
    terms.iter().enumerate().flat_map(move |(operand, letters)| {
        let axes = letters.iter().enumerate().filter(move |(_, other)| **other == letter);
        axes.map(move |(axis, _)| (operand, axis))
    })
}

/// The letters that the output or operands other than one have.
fn elsewhere(operands: &[EinsumOperand], place: usize, kept: &[char]) -> Vec<char> {
    let others = operands.iter().enumerate().filter(|(other, _)| *other != place);
    let others = others.flat_map(|(_, operand)| operand.letters.iter().copied());
    kept.iter().copied().chain(others).collect()
}

/// A value, and the letters of its axes.
#[derive(Debug, Clone)]
struct EinsumOperand {
    wire: OutletId,
    letters: Vec<char>,
}

impl EinsumOperand {
    fn has(&self, letter: char) -> bool {
        self.letters.contains(&letter)
    }
}

/// Puts the parts into a model.
struct Wiring<'a> {
    model: &'a mut TypedModel,
    prefix: &'a str,
    parts: usize,
    node: &'a Label,
    opset: i64,
    ty: DatumType,
}

impl Wiring<'_> {
    fn add(
        &mut self,
        op: impl Into<Box<dyn TypedOp>>,
        inputs: &[OutletId],
    ) -> TractResult<OutletId> {
        self.parts += 1;
        let name = format!("{}.part-{}", self.prefix, self.parts);
        let wires = self.model.wire_node(name, op, inputs)?;
        wires.first().copied().context("an output")
    }

    /// Leaves one axis of each letter.
    fn diagonals(&mut self, mut operand: EinsumOperand) -> TractResult<EinsumOperand> {
        let mut axis = 0;
        while let Some(letter) = operand.letters.get(axis).copied() {
            let Some(first) = operand.letters.iter().take(axis).position(|l| *l == letter) else {
                axis += 1;
                continue;
            };
            let op = Diagonal { node: self.node.clone(), axes: [first, axis] };
            operand.wire = self.add(op, &[operand.wire])?;
            operand.letters.remove(axis);
        }
        Ok(operand)
    }

    /// Takes away axes of one element that are summed over, or that another operand has more
    /// elements along.
    fn drop_ones(&mut self, operands: &mut [EinsumOperand], kept: &[char]) -> TractResult<()> {
        let mut sizes = vec![];
        for operand in &*operands {
            sizes.push(self.model.outlet_fact(operand.wire)?.shape.to_tvec());
        }
        let is_wide = |letter: char| {
            operands.iter().zip(&sizes).any(|(operand, sizes)| {
                let mut axes = operand.letters.iter().zip(sizes);
                axes.any(|(other, size)| *other == letter && *size != 1.to_dim())
            })
        };
        let letters = operands.iter().flat_map(|operand| &operand.letters);
        let wide: Vec<char> = letters.copied().filter(|letter| is_wide(*letter)).collect();
        for (operand, sizes) in operands.iter_mut().zip(&sizes) {
            for axis in (0..operand.letters.len()).rev() {
                let Some(letter) = operand.letters.get(axis) else { continue };
                let is_one = sizes.get(axis) == Some(&1.to_dim());
                if is_one && (wide.contains(letter) || !kept.contains(letter)) {
                    operand.wire = self.add(AxisOp::Rm(axis), &[operand.wire])?;
                    operand.letters.remove(axis);
                }
            }
        }
        Ok(())
    }

    /// Sums over the letters that are not kept.
    fn sum(
        &mut self,
        operand: &mut EinsumOperand,
        is_kept: impl Fn(char) -> bool,
    ) -> TractResult<()> {
        let axes = operand.letters.iter().enumerate().filter(|(_, letter)| !is_kept(**letter));
        let axes: TVec<usize> = axes.map(|(axis, _)| axis).collect();
        if axes.is_empty() {
            return Ok(());
        }
        let letters = operand.letters.iter().copied().filter(|l| is_kept(*l)).collect::<Vec<_>>();
        let sizes = self.model.outlet_fact(operand.wire)?.shape.to_tvec();
        if axes.iter().any(|axis| sizes.get(*axis) == Some(&0.to_dim())) {
            let sizes = sizes.into_iter().enumerate();
            let sizes = sizes.filter(|(axis, _)| !axes.contains(axis)).map(|(_, size)| size);
            self.parts += 1;
            let name = format!("{}.part-{}", self.prefix, self.parts);
            let sum = zeros(self.model, &name, self.ty, sizes.collect())?;
            operand.wire = sum.first().copied().context("an output")?;
        } else if self.ty.is_integer() {
            let op = self.integers(&[&operand.letters], &letters)?;
            operand.wire = self.add(op, &[operand.wire])?;
        } else {
            operand.wire = self.add(Reduce::new(axes.clone(), Reducer::Sum), &[operand.wire])?;
            for axis in axes.iter().rev() {
                operand.wire = self.add(AxisOp::Rm(*axis), &[operand.wire])?;
            }
        }
        operand.letters = letters;
        Ok(())
    }

    /// The product of two operands, summed over the letters that are not in it.
    fn multiply(
        &mut self,
        a: &EinsumOperand,
        b: &EinsumOperand,
        kept: Vec<char>,
    ) -> TractResult<EinsumOperand> {
        let is_summed = |letter: &char| !kept.contains(letter);
        let wire = if self.ty.is_integer() && self.ty != DatumType::I32 {
            let op = self.integers(&[&a.letters, &b.letters], &kept)?;
            self.product(op.into(), a.wire, b.wire)?
        } else if kept.is_empty() && a.letters.iter().any(is_summed) {
            // tract does not optimise a product without axes.
            let all = a.letters.clone();
            let mut product = self.multiply(a, b, all)?;
            self.sum(&mut product, |_| false)?;
            product.wire
        } else if a.letters.iter().any(is_summed) {
            let axes = mapping(&[&a.letters, &b.letters], &kept)?;
            let op = EinSum { axes, operating_dt: self.ty, q_params: None };
            self.product(op.into(), a.wire, b.wire)?
        } else {
            let (a, b) = (self.arrange(a, &kept)?, self.arrange(b, &kept)?);
            let op: Box<dyn BinMiniOp> = match self.ty {
                DatumType::I32 => Box::new(IntegerMul),
                _ => Box::new(Unsimplified(Mul)),
            };
            self.product(TypedBinOp(op, None).into(), a, b)?
        };
        Ok(EinsumOperand { wire, letters: kept })
    }

    fn product(&mut self, op: Box<dyn TypedOp>, a: OutletId, b: OutletId) -> TractResult<OutletId> {
        let product = self.add(op, &[a, b])?;
        let node = &**self.node;
        let (operator, opset) = ("Einsum", self.opset);
        agree(
            self.model,
            product.node,
            Multiplies { node, operator, opset, stretches_terms: true },
        )?;
        Ok(product)
    }

    /// A value with axes in this order, those that it does not have of one element.
    fn arrange(&mut self, operand: &EinsumOperand, order: &[char]) -> TractResult<OutletId> {
        let (mut wire, mut letters) = (operand.wire, operand.letters.clone());
        for letter in order.iter().filter(|letter| !operand.has(**letter)) {
            wire = self.add(AxisOp::Add(0), &[wire])?;
            letters.insert(0, *letter);
        }
        let from = |letter: &char| letters.iter().position(|other| other == letter);
        let order: Option<TVec<usize>> = order.iter().map(from).collect();
        for op in perm_to_ops(&order.context("a letter of the operands")?) {
            wire = self.add(op, &[wire])?;
        }
        Ok(wire)
    }

    fn integers(&self, terms: &[&[char]], kept: &[char]) -> TractResult<IntegerEinSum> {
        Ok(IntegerEinSum { node: self.node.clone(), axes: mapping(terms, kept)?, ty: self.ty })
    }
}

/// Which axes of operands and of their product are the same.
fn mapping(terms: &[&[char]], kept: &[char]) -> Mapped {
    let mut axes: Vec<Axis> = vec![];
    for (operand, letters) in terms.iter().enumerate() {
        for (place, letter) in letters.iter().enumerate() {
            match axes.iter_mut().find(|axis| axis.repr == *letter) {
                Some(axis) => axis.add_input(operand, place),
                None => {
                    axes.push(Axis::new(*letter, terms.len(), 1).input(operand, place));
                }
            }
        }
    }
    for (place, letter) in kept.iter().enumerate() {
        let axis = axes.iter_mut().find(|axis| axis.repr == *letter);
        axis.context("a letter of the operands")?.add_output(0, place);
    }
    AxesMapping::new(terms.len(), 1, axes)
}
