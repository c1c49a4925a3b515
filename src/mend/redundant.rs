//! Casts that change no value, and how a graph does without them.

use onnx_cast_graph::{Graph, NodeId, NodeView, ValueId};

use super::change::ChangeKind;
use super::walk::{MendingWalk, place_of};
use crate::cast::algebra::TypePair;
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;

impl MendingWalk {
    /// Remembers which values have the same numbers as what a cast makes.
    pub(super) fn follow(
        &mut self,
        (input, from): (ValueId, ElementType),
        (output, to): (ValueId, ElementType),
        rules: Rules,
    ) {
        if (TypePair { from, to, rules }).is_lossless() {
            let mut all = self.same.get(&input).cloned().unwrap_or_default();
            if all.iter().all(|(_, ty)| *ty != from) {
                all.push((input, from));
            }
            self.same.insert(output, all);
        }
    }

    /// Removes a cast where another value can stand for what it makes, and the casts before it that
    /// nobody uses then. `false` if it stays.
    pub(super) fn remove(
        &mut self,
        graph: &mut Graph,
        id: NodeId,
        (from, to): (ElementType, ElementType),
        rules: Rules,
    ) -> bool {
        let (Some(input), Some(output)) = (graph.node(id).input(0), graph.node(id).output(0))
        else {
            return false;
        };
        let same = if from == to { Some(input) } else { self.same_of_type(input, to) };
        let keeps_all = TypePair { from: to, to, rules }.is_lossless();
        let Some(same) = same.filter(|_| keeps_all) else { return false };
        let is_pinned = self.is_pinned(graph, output);
        if is_pinned && !self.can_be_renamed(graph, id, same) {
            return false;
        }
        let names = [output, same].map(|value| graph.value(value).name.clone());
        let [name, stand_in] = &names;
        graph.replace_all_uses(output, same);
        self.change(ChangeKind::Removed, place_of(graph, id), name, stand_in);
        graph.remove(id);
        self.release(graph, input);
        if is_pinned {
            graph.value_mut(same).name = name.clone();
        }
        true
    }

    /// Whether a value can have the name of what a cast makes, which must keep it: one that is made
    /// beside the cast, and that nothing uses but the casts between the two.
    fn can_be_renamed(&self, graph: &Graph, cast: NodeId, same: ValueId) -> bool {
        let body = graph.node(cast).body();
        let is_beside = graph.maker(same).is_some_and(|maker| graph.node(maker).body() == body);
        let mut at = graph.node(cast).input(0);
        while let Some(value) = at.filter(|value| graph.value(*value).uses().len() == 1) {
            if self.is_pinned(graph, value) {
                return false;
            }
            if value == same {
                return is_beside;
            }
            let maker = graph.maker(value).map(|maker| graph.node(maker));
            at = maker.filter(|node| node.is("Cast")).and_then(|node| node.input(0));
        }
        false
    }

    /// Removes the casts that a value comes from, as far as nobody uses them.
    fn release(&mut self, graph: &mut Graph, mut value: ValueId) {
        while graph.value(value).uses().len() == 0
            && !self.is_pinned(graph, value)
            && let Some(id) = graph.maker(value)
            && let node = graph.node(id)
            && node.is("Cast")
            && let Some(input) = node.input(0)
        {
            let name = graph.value(value).name.clone();
            self.change(ChangeKind::Removed, place_of(graph, id), &name, "");
            graph.remove(id);
            value = input;
        }
    }
}
