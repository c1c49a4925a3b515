//! Casts that change no value, and how a graph does without them.

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::needed;

use super::body::{Body, Names};
use super::change::{Change, ChangeKind, Work};
use super::settle::Fed;
use crate::cast::algebra::TypePair;
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::onnx::cast_spec::Operator;
use crate::onnx::node::node_name;

impl Body<'_> {
    /// As [`Body::follow_values`], and whether another value can stand for what the cast makes.
    pub(super) fn follow_cast(&mut self, fed: &Fed, to: ElementType, rules: Rules, names: &Names) {
        let (Some(input), Some(Some(from)), Some(output)) =
            (fed.inputs.first(), fed.types.first().copied(), fed.node.output.first())
        else {
            return;
        };
        let keeps_all = TypePair { from: to, to, rules }.is_lossless();
        let same = if from == to { Some(input.as_str()) } else { self.same_of_type(input, to) };
        if let Some(same) = same.filter(|_| keeps_all).map(String::from) {
            if !names.pinned.contains(output) {
                self.stands_for.insert(output.clone(), same.clone());
            }
            self.redundant.push((fed.index, output.clone(), same));
        }
        self.follow_values(fed, to, rules);
    }

    /// Remembers which values have the same numbers after a cast.
    pub(super) fn follow_values(&mut self, fed: &Fed, to: ElementType, rules: Rules) {
        let (Some(input), Some(Some(from)), Some(output)) =
            (fed.inputs.first(), fed.types.first().copied(), fed.node.output.first())
        else {
            return;
        };
        if (TypePair { from, to, rules }).is_lossless() {
            let mut all = self.all_same(input);
            if all.iter().all(|(_, ty)| *ty != from) {
                all.push((input.clone(), from));
            }
            self.same.insert(output.clone(), all);
        }
    }

    fn all_same(&self, value: &str) -> Vec<(String, ElementType)> {
        match self.same.get(value) {
            Some(all) => all.clone(),
            None => self.outer.map_or(vec![], |outer| outer.all_same(value)),
        }
    }

    /// Removes the casts that have been found to change nothing, and those that nobody uses then.
    pub(super) fn remove_redundant(&self, names: &Names, work: &mut Work) {
        if self.redundant.is_empty() {
            return;
        }
        let mut removal =
            Removal { body: self, names, uses: HashMap::new(), removed: HashSet::new() };
        let replaced = |value: &str| self.stands_for.contains_key(value);
        for (index, output, _) in &self.redundant {
            if replaced(output) {
                removal.removed.insert(*index);
            }
        }
        for (index, node) in self.graph.node.iter().enumerate() {
            if !removal.removed.contains(&index) {
                for name in needed(node) {
                    *removal.uses.entry(self.stand_in(name).unwrap_or(name)).or_default() += 1;
                }
            }
        }
        for (index, output, same) in &self.redundant {
            match replaced(output) {
                true => {
                    let released = removal.release(*index);
                    removal.remove(*index, same, &released, work);
                }
                false => removal.rename(*index, output, same, work),
            }
        }
    }
}

struct Removal<'b> {
    body: &'b Body<'b>,
    names: &'b Names,
    /// How many nodes use a value.
    uses: HashMap<&'b str, usize>,
    removed: HashSet<usize>,
}

impl<'b> Removal<'b> {
    /// The value that a cast takes, after others have taken the places of what was removed.
    fn input_of(&self, index: usize) -> Option<&'b str> {
        let value = self.body.graph.node.get(index)?.input.first()?;
        Some(self.body.stand_in(value).unwrap_or(value))
    }

    /// Removes the casts before one that has gone, as far as nobody uses them.
    fn release(&mut self, mut index: usize) -> Vec<usize> {
        let mut released = vec![];
        while let Some(value) = self.input_of(index)
            && self.uses.get(value).copied().unwrap_or(0) == 0
            && !self.names.pinned.contains(value)
            && let Some(producer) = self.body.producers.get(value).copied()
            && let Some(node) = self.body.graph.node.get(producer)
            && Operator::of(node) == Some(Operator::Cast)
            && self.removed.insert(producer)
        {
            released.push(producer);
            self.count(producer, usize::wrapping_sub);
            index = producer;
        }
        released
    }

    /// Counts a cast's use of its input, or no longer counts it.
    fn count(&mut self, index: usize, add: fn(usize, usize) -> usize) {
        if let Some(value) = self.input_of(index) {
            let uses = self.uses.entry(value).or_default();
            *uses = add(*uses, 1);
        }
    }

    /// A cast, and what its removal leaves unused, are taken out of the file.
    fn remove(&self, index: usize, same: &str, released: &[usize], work: &mut Work) {
        for (place, index) in [index].iter().chain(released).enumerate() {
            let Some(node) = self.body.graph.node.get(*index) else { continue };
            let output = node.output.first().map_or("", String::as_str);
            self.body.edits(work, &[]).remove((self.body.fields.node, *index));
            if !self.names.pinned.contains(output) {
                self.body.forget(output, work);
            }
            work.changes.push(Change {
                kind: ChangeKind::Removed,
                place: self.body.place(&node_name(node)),
                from: output.into(),
                to: if place == 0 { same.into() } else { String::new() },
            });
        }
    }

    /// Removes a cast whose output must keep its name, which goes to the value that stands for it: that value must be of this
    /// body, and nobody else's.
    fn rename(&mut self, index: usize, output: &str, same: &str, work: &mut Work) {
        if !self.removed.insert(index) {
            return;
        }
        self.count(index, usize::wrapping_sub);
        let released = self.release(index);
        let producer = self.body.producers.get(same).copied();
        let is_unused = self.uses.get(same).copied().unwrap_or(0) == 0;
        let producer = producer.filter(|producer| {
            is_unused && !self.names.pinned.contains(same) && !self.removed.contains(producer)
        });
        let place = producer.and_then(|producer| {
            let node = self.body.graph.node.get(producer)?;
            Some((producer, node.output.iter().position(|name| name == same)?))
        });
        let Some((producer, place)) = place else {
            for index in released.iter().chain([&index]) {
                self.removed.remove(index);
                self.count(*index, usize::wrapping_add);
            }
            return;
        };
        self.remove(index, same, &released, work);
        self.body.forget(same, work);
        let node = (self.body.fields.node, producer);
        self.body.edits(work, &[node]).set_bytes((2, place), output.as_bytes());
    }
}
