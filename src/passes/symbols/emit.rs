//! Edits the graph by what was found out: casts of dimensions to numbers, second nodes, and which
//! of the two is used.

use onnx_cast_graph::{Attributes, BodyId, Graph, Made, NewNode, NodeId, NodeView, Place, ValueId};

use super::plan::{NodePlan, SymbolPlan, TakenAs, ValueKind};
use crate::onnx::lowered::{DOMAIN, OperatorForm, PrivateCast};
use crate::onnx::operators::behaviour::{Behaviour, Sizes};
use crate::passes::context::PassContext;

/// Edits all bodies as planned.
pub(super) fn write(graph: &mut Graph, context: &mut PassContext, plan: &mut SymbolPlan) {
    let main = graph.main();
    SymbolWriter { graph, context, plan }.body(main);
}

struct SymbolWriter<'g, 'c, 'o> {
    graph: &'g mut Graph,
    context: &'c mut PassContext<'o>,
    plan: &'c mut SymbolPlan,
}

impl SymbolWriter<'_, '_, '_> {
    fn body(&mut self, body: BodyId) {
        for id in self.graph.nodes_of(body) {
            self.node(id);
        }
        for place in 0..self.graph.body(body).outputs().len() {
            let symbols = self.plan.returns_symbols.get(body);
            let as_symbols = symbols.and_then(|all| all.get(place)).copied().unwrap_or(false);
            let value = self.graph.body(body).outputs().get(place).map(|output| output.value);
            let numbers = self.plan.value(value).and_then(|held| held.numbers);
            if let Some(numbers) = numbers.filter(|_| !as_symbols) {
                self.graph.set_output(body, place, numbers);
            }
        }
    }

    fn node(&mut self, id: NodeId) {
        let NodePlan { is_doubled, is_symbolic } =
            self.plan.nodes.get(id).copied().unwrap_or_default();
        // Which inputs are numbers is told before any of them is another value.
        let own = self.numbers(id, is_symbolic);
        if is_doubled {
            self.double(id);
        }
        if self.plan.kind(self.graph, id) == ValueKind::Dimensions {
            self.resolve(id);
        }
        for held in self.graph.node(id).bodies().to_vec() {
            self.body(held.body);
        }
        for (place, numbers) in own {
            self.graph.set_input(id, place, Some(numbers));
        }
    }

    /// The inputs of a node for which it takes numbers, where there are such beside symbols.
    fn numbers(&self, id: NodeId, is_symbolic: bool) -> Vec<(usize, ValueId)> {
        let numbers = |(place, value): (usize, &Option<ValueId>)| {
            let numbers = self.plan.value(*value)?.numbers?;
            let taken_as = self.plan.takes(self.graph, id, place, is_symbolic);
            (taken_as == TakenAs::Numbers).then_some((place, numbers))
        };
        self.graph.node(id).inputs().iter().enumerate().filter_map(numbers).collect()
    }

    /// Puts a second node behind one, which makes the numbers of what the first makes as symbols.
    fn double(&mut self, id: NodeId) {
        let node = self.graph.node(id).clone();
        let mut inputs = node.inputs().to_vec();
        for (place, numbers) in self.numbers(id, false) {
            if let Some(input) = inputs.get_mut(place) {
                *input = Some(numbers);
            }
        }
        let name = |value: &Option<ValueId>| match value {
            Some(value) => Made::New(format!("{DOMAIN}:{}", self.graph.value(*value).name)),
            None => Made::Unwanted,
        };
        let outputs = node.outputs().iter().map(name).collect();
        // A cast of INT64 to itself is not there twice.
        let is_cast = Behaviour::of(&node).sizes == Sizes::Casts;
        let (op_type, attributes) = if is_cast {
            ("Identity".into(), Attributes::default())
        } else {
            (node.op_type.clone(), node.attributes.clone())
        };
        let (name, domain) = (format!("{DOMAIN}:{}", node.label()), node.domain.clone());
        let new = NewNode { name, op_type, domain, inputs, outputs, attributes };
        let second = self.graph.add(Place::After(id), new);
        self.graph.node_mut(second).opset = node.opset;
        let made = self.graph.node(second).outputs().to_vec();
        for (value, numbers) in node.outputs().iter().zip(made) {
            self.note(*value, numbers);
        }
    }

    /// Puts casts behind a node that makes dimensions, for those that are needed as numbers.
    fn resolve(&mut self, id: NodeId) {
        for value in self.graph.node(id).outputs().to_vec().into_iter().flatten() {
            if !self.plan.value(Some(value)).is_some_and(|held| held.as_numbers) {
                continue;
            }
            let name = format!("{DOMAIN}:{}", self.graph.value(value).name);
            let cast = self.graph.add(Place::After(id), NewNode::of("Cast", &[value], name));
            self.context.lower(cast, OperatorForm::Cast(PrivateCast::to_numbers()));
            let numbers = self.graph.node(cast).output(0);
            self.note(Some(value), numbers);
        }
    }

    fn note(&mut self, value: Option<ValueId>, numbers: Option<ValueId>) {
        if let Some(held) = value.and_then(|value| self.plan.values.get_mut(value)) {
            held.numbers = numbers;
        }
    }
}
