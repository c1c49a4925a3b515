//! The values of two models that belong together, and pairs of parts between them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use onnx_cast_graph::{Given, Graph, Origin, Table, ValueId, named_value};
use tract_onnx::pb::{ModelProto, ValueInfoProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, Observer};
use tract_onnx_cast::{ElementType, Result};

use super::codes;
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::reduce::part::{Part, exported};
use crate::cli::verb::reduce::side::{SourceModel, named_nodes};
use crate::cli::verb::reduce::values::{Values, are_alike, declared, reshaped, saturated, type_of};

/// A value of both models.
#[derive(Clone)]
pub(super) struct Matched {
    pub(super) reference: ValueId,
    pub(super) converted: ValueId,
    /// The type that the converted model holds it in, and its shape there.
    ty: ElementType,
    shape: Vec<usize>,
    /// Whether it has as many elements in both, so that one can be given for the other.
    is_as_large: bool,
    /// Whether it has the same shape in both, so that both can take the same.
    is_as_shaped: bool,
}

/// Two models, their values on one set of inputs, and which of these belong together.
pub(super) struct ModelPair {
    pub(super) reference: SourceModel,
    pub(super) converted: SourceModel,
    /// What each takes.
    pub(super) inputs: [Values; 2],
    /// The reference's values.
    pub(super) right: Values,
    /// The types and shapes of the converted model's values.
    held: HashMap<String, (ElementType, Vec<usize>)>,
    /// What belongs together, in the order of the reference; inputs come first.
    pub(super) matched: Vec<Matched>,
    /// What each side makes of constants alone.
    fixed: [Table<ValueId, ()>; 2],
    /// The names of quantisers that the converted model has for cuts alone.
    pub(super) added: HashSet<String>,
}

/// Keeps the types and shapes of what the nodes of the main graph make.
struct Shapes(HashMap<String, (ElementType, Vec<usize>)>);

impl Shapes {
    fn add(&mut self, made: &NamedTensor) {
        self.0.insert(made.name.clone(), (made.ty, made.tensor.shape().to_vec()));
    }
}

impl Observer for Shapes {
    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        let made = outputs.iter().flatten().filter(|_| node.graph.is_empty());
        made.for_each(|made| self.add(&NamedTensor::observed(made)));
        Ok(())
    }
}

impl ModelPair {
    /// Records both models, and pairs values that belong together. Fails when a model cannot be
    /// run.
    pub(super) fn of(
        reference: SourceModel,
        converted: SourceModel,
        inputs: [Values; 2],
        told: &[(String, String)],
    ) -> TractResult<ModelPair> {
        let (right, ran) = reference.record(&inputs[0]);
        ran?;
        let mut held = Shapes(HashMap::new());
        inputs[1].values().for_each(|input| held.add(input));
        converted.observed(&inputs[1], &mut held)?;
        let fixed = [reference.fixed(), converted.fixed()];
        let held = held.0;
        let matched = vec![];
        let added = HashSet::new();
        let mut pair =
            ModelPair { reference, converted, inputs, right, held, matched, fixed, added };
        pair.matched = pair.pairs(told.iter().map(|(x, y)| (x.as_str(), y.as_str())));
        Ok(pair)
    }

    /// Pairs what has the same name and is made by the same operator, or has the same shape.
    pub(super) fn pair_by_name(&mut self) {
        let names = self.same_names();
        self.matched = self.pairs(names.iter().map(|name| (name.as_str(), name.as_str())));
    }

    /// Pairs by name what is not paired.
    pub(super) fn pair_further(&mut self) {
        let told = |m: &Matched| {
            (self.reference.name(m.reference).into(), self.converted.name(m.converted).into())
        };
        let mut all: Vec<(String, String)> = self.matched.iter().map(told).collect();
        all.extend(self.same_names().into_iter().map(|name| (name.clone(), name)));
        self.matched = self.pairs(all.iter().map(|(x, y)| (x.as_str(), y.as_str())));
    }

    fn same_names(&self) -> Vec<String> {
        let op = |side: &SourceModel, value: ValueId| {
            let maker = side.graph.maker(value)?;
            Some(side.graph.node(maker).op_type.clone())
        };
        let is_like = |name: &&String| {
            let (a, b) = (&self.reference, &self.converted);
            let both = a.value(name).zip(b.value(name));
            let shape = self.right.get(*name).map(|tensor| tensor.tensor.shape());
            let is_output = |(x, y)| a.outputs().contains(&x) && b.outputs().contains(&y);
            both.is_some_and(|both| is_output(both) || op(a, both.0) == op(b, both.1))
                || shape == self.held.get(*name).map(|(_, shape)| shape.as_slice())
        };
        self.right.keys().filter(is_like).cloned().collect()
    }

    /// These values, in the order of the reference, inputs first; those that cannot stand for each
    /// other are left out.
    fn pairs<'a>(&self, told: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Matched> {
        let (a, b) = (&self.reference, &self.converted);
        let mut others: HashMap<ValueId, ValueId> = HashMap::new();
        let mut taken = HashSet::new();
        let inputs = a.inputs().into_iter().map(|id| Some((id, b.value(a.name(id))?)));
        let told = told.map(|(x, y)| a.value(x).zip(b.value(y)));
        for (x, y) in inputs.chain(told).flatten() {
            if !others.contains_key(&x) && taken.insert(y) {
                others.insert(x, y);
            }
        }
        let mut matched = vec![];
        let made = a.nodes().into_iter().flat_map(|id| a.graph.node(id).outputs()).flatten();
        for reference in a.inputs().into_iter().chain(made.copied()) {
            let Some(converted) = others.get(&reference).copied() else { continue };
            let both = self.right.get(a.name(reference)).zip(self.held.get(b.name(converted)));
            let Some((x, (ty, shape))) = both.filter(|(x, (ty, _))| are_alike(x.ty, *ty)) else {
                continue;
            };
            let is_as_large = x.tensor.len() == shape.iter().product::<usize>();
            let is_as_shaped = x.tensor.shape() == shape.as_slice();
            let (ty, shape) = (*ty, shape.clone());
            matched.push(Matched { reference, converted, ty, shape, is_as_large, is_as_shaped });
        }
        matched
    }

    /// Whether both models compute it.
    pub(super) fn is_made(&self, matched: &Matched) -> bool {
        let is_made = |side: &SourceModel, value| side.graph.maker(value).is_some();
        is_made(&self.reference, matched.reference) && is_made(&self.converted, matched.converted)
    }

    /// The reference's value.
    pub(super) fn value(&self, matched: &Matched) -> TractResult<&NamedTensor> {
        let name = self.reference.name(matched.reference);
        self.right.get(name).ok_or_else(|| anyhow::anyhow!("`{name}` was not recorded"))
    }

    /// The reference's value as both sides are given it: as the converted model holds it, and that
    /// in the reference's type.
    pub(super) fn given(&self, matched: &Matched) -> TractResult<[NamedTensor; 2]> {
        let value = self.value(matched)?;
        let held = saturated(value, matched.ty)?;
        let back = saturated(&held, value.ty)?;
        let name = self.converted.name(matched.converted).to_owned();
        let tensor = held.tensor.into_shape(&matched.shape)?;
        Ok([back, NamedTensor { name, ty: matched.ty, tensor }])
    }

    /// Runs a part of both sides that is given some values and makes others. Returns what each
    /// makes.
    pub(super) fn run(
        &self,
        given: &[Matched],
        wanted: &[Matched],
        sides: [bool; 2],
    ) -> TractResult<[Vec<NamedTensor>; 2]> {
        let given: Vec<&Matched> = given.iter().filter(|matched| matched.is_as_large).collect();
        let tensors: Vec<[NamedTensor; 2]> =
            given.iter().map(|matched| self.given(matched)).collect::<TractResult<_>>()?;
        let mut made = [vec![], vec![]];
        for (place, made) in made.iter_mut().enumerate().filter(|(place, _)| sides[*place]) {
            let side = if place == 0 { &self.reference } else { &self.converted };
            let id = |m: &Matched| if place == 0 { m.reference } else { m.converted };
            let cuts: Vec<_> = given
                .iter()
                .zip(&tensors)
                .map(|(m, both)| (id(m), Given::Input(type_of(&both[place]))))
                .collect();
            let wanted = wanted.iter().map(|m| bare(side, id(m))).collect();
            let (part, stands) = side.graph.part(cuts, wanted);
            let mut values = self.inputs[place].clone();
            for (stand, both) in stands.into_iter().zip(&tensors) {
                values.insert(part.value(stand).name.to_string(), both[place].clone());
            }
            *made = side.run(part, &values)?;
        }
        Ok(made)
    }

    /// Runs the reference with another tensor in the place of a value. Returns what it makes.
    pub(super) fn run_with(
        &self,
        matched: &Matched,
        tensor: &NamedTensor,
        wanted: &[Matched],
    ) -> TractResult<Vec<NamedTensor>> {
        let side = &self.reference;
        let tensor = saturated(tensor, self.value(matched)?.ty)?;
        let given = vec![(matched.reference, Given::Input(type_of(&tensor)))];
        let wanted = wanted.iter().map(|m| bare(side, m.reference)).collect();
        let (part, stands) = side.graph.part(given, wanted);
        let mut values = self.inputs[0].clone();
        let names = stands.into_iter().map(|stand| part.value(stand).name.to_string());
        values.extend(names.map(|name| (name, tensor.clone())));
        side.run(part, &values)
    }

    /// The pair of parts that makes one value of others, of which those are not given that lie
    /// inside. Fails when a tensor cannot be written, or the sides' inputs cannot have the same
    /// names.
    pub(super) fn part(&self, end: &Matched, inside: &HashSet<ValueId>) -> TractResult<Part> {
        let is_given = |m: &&Matched| {
            m.is_as_shaped && m.reference != end.reference && !inside.contains(&m.reference)
        };
        let mut given: Vec<&Matched> = self.matched.iter().filter(is_given).collect();
        let cut = |id: fn(&Matched) -> ValueId| given.iter().map(|m| id(m)).collect();
        let needed = [
            self.reference.needed(end.reference, &cut(|m| m.reference)),
            self.converted.needed(end.converted, &cut(|m| m.converted)),
        ];
        given.retain(|m| needed[0].contains(&m.reference) || needed[1].contains(&m.converted));
        let tensors: Vec<[NamedTensor; 2]> =
            given.iter().map(|m| self.given(m)).collect::<TractResult<_>>()?;
        let value = self.value(end)?;
        let cuts = |place: usize, id: fn(&Matched) -> ValueId| -> Vec<(ValueId, &NamedTensor)> {
            given.iter().zip(&tensors).map(|(m, both)| (id(m), &both[place])).collect()
        };
        let (a, b) = (&self.reference, &self.converted);
        let [fixed_a, fixed_b] = &self.fixed;
        let (mut part_a, stands_a) =
            a.part(&cuts(0, |m| m.reference), &[(end.reference, Some(value))], fixed_a)?;
        let right = reshaped(&saturated(value, end.ty)?, &end.shape);
        let right = NamedTensor { name: b.name(end.converted).to_owned(), ..right };
        let (mut part_b, stands_b) =
            b.part(&cuts(1, |m| m.converted), &[(end.converted, Some(&right))], fixed_b)?;
        let is_input = |part: &Graph, id: ValueId| {
            let is_open = matches!(part.value(id).origin(), Origin::Input);
            is_open && part.body(part.main()).inputs().contains(&id)
        };
        let mut inputs: Vec<&[NamedTensor; 2]> = vec![];
        let mut names: Vec<String> = vec![];
        for ((x, y), both) in stands_a.into_iter().zip(stands_b).zip(&tensors) {
            if is_input(&part_a, x) || is_input(&part_b, y) {
                // Converters rename values, and the two sides are to take the same.
                let name = shared_name(&part_a.value(x).name, (&part_a, x), (&part_b, y));
                (part_a.value_mut(x).name, part_b.value_mut(y).name) = (name.clone(), name.clone());
                names.push(name.to_string());
                inputs.push(both);
            }
        }
        let folders = [a.folder.as_deref(), b.folder.as_deref()];
        let mut reference = exported(part_a, folders[0])?;
        let mut model = exported(part_b, folders[1])?;
        let named = |place: usize| -> Vec<NamedTensor> {
            let tensors = names.iter().zip(&inputs);
            let named = tensors.map(|(name, both)| (name, &both[place]));
            named.map(|(name, t)| NamedTensor { name: name.clone(), ..t.clone() }).collect()
        };
        let [for_a, inputs] = [named(0), named(1)];
        take(&mut reference, &for_a);
        take(&mut model, &inputs);
        let has_added = named_nodes(&model).iter().any(|(name, _)| self.added.contains(name));
        let added = if has_added { codes::ADDED } else { "" };
        let reference = Some(reference);
        Ok(Part { model, reference, inputs, outputs: vec![right], added: added.into() })
    }
}

/// A value as an output of which only the name is said.
fn bare(side: &SourceModel, id: ValueId) -> (ValueId, ValueInfoProto) {
    (id, named_value(side.name(id)))
}

/// A name that no other value of either part has.
fn shared_name(wanted: &Arc<str>, a: (&Graph, ValueId), b: (&Graph, ValueId)) -> Arc<str> {
    let is_taken = |name: &str| [a, b].iter().any(|(part, own)| has_other(part, *own, name));
    let mut name = wanted.clone();
    let mut number = 0;
    while is_taken(&name) {
        number += 1;
        name = format!("{wanted}_{number}").into();
    }
    name
}

/// Whether a value of a part besides this one has that name.
fn has_other(part: &Graph, own: ValueId, name: &str) -> bool {
    part.all_bodies(part.main()).into_iter().any(|body| {
        let held = part.body(body);
        let nodes = part.nodes_of(body).into_iter();
        let made: Vec<ValueId> =
            nodes.flat_map(|id| part.node(id).outputs().to_vec()).flatten().collect();
        let mut all = held.inputs().iter().chain(held.constants()).chain(&made);
        all.any(|id| *id != own && &*part.value(*id).name == name)
    })
}

/// Has a model take these inputs in this order, those too that it does not need.
pub(super) fn take(model: &mut ModelProto, inputs: &[NamedTensor]) {
    if let Some(graph) = &mut model.graph {
        graph.input = inputs.iter().map(declared).collect();
        graph.initializer.retain(|held| inputs.iter().all(|input| input.name != held.name));
    }
}
