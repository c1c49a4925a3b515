//! Forwards through a model: which values can tract compute symbolically and exactly?

use std::collections::HashMap;

use tract_onnx::pb::{GraphProto, NodeProto, TensorProto};
use tract_onnx::prelude::Tensor;

use super::bounds::{self, Bounds};
use super::plan::{GraphPlan, Kind, NodePlan, Value, ValueId};
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::node::{int, refusal, subgraphs};
use crate::onnx::operators::behaviour::{Behaviour, Inputs, Sizes};
use crate::onnx::order;

/// How a tensor of the model is read, external data included; `None` where it cannot be.
pub(in crate::onnx) type Read<'a> = &'a dyn Fn(&TensorProto) -> Option<(ElementType, Tensor)>;

/// The values that can be seen in a graph, by name.
#[derive(Clone, Copy)]
struct Names<'a> {
    own: &'a HashMap<String, ValueId>,
    outer: Option<&'a Names<'a>>,
}

impl Names<'_> {
    fn get(&self, name: &str) -> Option<ValueId> {
        let own = self.own.get(name).copied();
        own.or_else(|| self.outer.and_then(|outer| outer.get(name)))
    }
}

/// All values of a model and its main graph.
///
/// # Errors
///
/// When the names in a graph do not fit together, or a constant shape is beyond what tract has for it.
pub(in crate::onnx) fn plan(
    graph: &GraphProto,
    read: Read,
) -> Result<(Vec<Value>, GraphPlan), Error> {
    let mut reader = Reader { read, values: vec![] };
    let plan = reader.graph(graph, None)?;
    Ok((reader.values, plan))
}

struct Reader<'a> {
    read: Read<'a>,
    values: Vec<Value>,
}

impl Reader<'_> {
    fn graph(&mut self, graph: &GraphProto, outer: Option<&Names>) -> Result<GraphPlan, Error> {
        let is_seen = |name: &str| outer.is_some_and(|outer| outer.get(name).is_some());
        let order = order::sort(graph, is_seen)?;
        let mut plan = GraphPlan::default();
        for input in &graph.input {
            self.add(&mut plan, Value::of_kind(&input.name, Kind::Numbers));
        }
        for tensor in &graph.initializer {
            let bounds = self.of_tensor(tensor);
            let value = Value::of_kind(&tensor.name, Kind::Numbers);
            self.add(&mut plan, Value { is_constant: true, bounds, ..value });
        }
        for index in order {
            let Some(node) = graph.node.get(index) else { continue };
            let names = Names { own: &plan.names, outer };
            let node_plan = self.node(node, index, &names)?;
            for (name, id) in node.output.iter().zip(&node_plan.outputs) {
                if let Some(id) = id {
                    plan.names.insert(name.clone(), *id);
                }
            }
            plan.nodes.push(node_plan);
        }
        let names = Names { own: &plan.names, outer };
        plan.outputs = graph.output.iter().map(|output| names.get(&output.name)).collect();
        Ok(plan)
    }

    fn add(&mut self, plan: &mut GraphPlan, value: Value) {
        plan.names.insert(value.name.clone(), self.values.len());
        self.values.push(value);
    }

    fn of_tensor(&self, tensor: &TensorProto) -> Option<Bounds> {
        if !bounds::is_looked_through(tensor) {
            return None;
        }
        let (ty, tensor) = (self.read)(tensor)?;
        bounds::of_tensor(ty, &tensor)
    }

    fn value(&self, id: Option<ValueId>) -> Option<&Value> {
        id.and_then(|id| self.values.get(id))
    }

    fn node(&mut self, node: &NodeProto, index: usize, names: &Names) -> Result<NodePlan, Error> {
        let behaviour = Behaviour::of(node);
        let inputs: Vec<Option<ValueId>> =
            node.input.iter().map(|name| names.get(name).filter(|_| !name.is_empty())).collect();
        self.check_dimensions(node, behaviour, &inputs)?;
        let mut inner = vec![];
        for graph in node.attribute.iter().flat_map(subgraphs) {
            inner.push(self.graph(graph, Some(names))?);
        }
        let is_constant = !behaviour.is_undetermined
            && inner.is_empty()
            && inputs
                .iter()
                .flatten()
                .all(|id| self.value(Some(*id)).is_some_and(|v| v.is_constant));
        let bounds = self.bounds(node, behaviour, &inputs);
        let kind = match self.kind(node, behaviour, &inputs) {
            // Where a subgraph only moves dimensions from around it, it cannot resolve them.
            Kind::Dimensions if names.outer.is_some() && behaviour.sizes != Sizes::Measures => {
                Kind::Expression
            }
            kind => kind,
        };
        let symbol_bounds = self.symbol_bounds(behaviour, &inputs).or(bounds);
        let mut outputs = vec![];
        for (place, name) in node.output.iter().enumerate() {
            if name.is_empty() {
                outputs.push(None);
                continue;
            }
            let kind = if inner.is_empty() {
                kind
            } else {
                self.joined_kind(node, &inputs, &inner, place)
            };
            outputs.push(Some(self.values.len()));
            let value = Value::of_kind(name, kind);
            self.values.push(Value { is_constant, bounds, symbol_bounds, ..value });
        }
        Ok(NodePlan {
            index,
            behaviour,
            inputs,
            outputs,
            subgraphs: inner,
            is_doubled: false,
            is_symbolic: false,
        })
    }

    /// Refuses a constant shape that tract would cut down to 32 bits.
    fn check_dimensions(
        &self,
        node: &NodeProto,
        behaviour: &Behaviour,
        inputs: &[Option<ValueId>],
    ) -> Result<(), Error> {
        let is_beyond = |id: &Option<ValueId>| {
            self.value(*id).is_some_and(|value| {
                value.is_constant && value.bounds.is_some_and(|b| b.surely_exceeds_32_bits())
            })
        };
        let mut dimensions =
            inputs.iter().enumerate().filter(|(place, _)| behaviour.dimensions.contains(*place));
        match dimensions.any(|(_, id)| is_beyond(id)) {
            true => Err(refusal(node, "has a dimension beyond the 32 bits that tract has for it")),
            false => Ok(()),
        }
    }

    fn bounds(
        &self,
        node: &NodeProto,
        behaviour: &Behaviour,
        inputs: &[Option<ValueId>],
    ) -> Option<Bounds> {
        if behaviour.makes_attributes {
            let mut attributes = node.attribute.iter();
            return attributes.find_map(|attribute| match &attribute.t {
                Some(tensor) => self.of_tensor(tensor),
                None => bounds::of_attribute(attribute),
            });
        }
        let inputs: Vec<Option<Bounds>> =
            inputs.iter().map(|id| self.value(*id).and_then(|value| value.bounds)).collect();
        bounds::of_output(node, behaviour, &inputs)
    }

    /// Where those elements lie that a node moves and that are symbols.
    fn symbol_bounds(&self, behaviour: &Behaviour, inputs: &[Option<ValueId>]) -> Option<Bounds> {
        let moved = match behaviour.sizes {
            Sizes::Keeps(moved) | Sizes::Moves(moved) => moved,
            Sizes::Casts => Inputs::Only(&[0]),
            _ => return None,
        };
        let values = inputs.iter().enumerate().filter(|(place, _)| moved.contains(*place));
        let symbols = values.filter_map(|(_, id)| self.value(*id)).filter(|v| v.is_symbolic());
        let mut hull: Option<Bounds> = None;
        for value in symbols {
            let bounds = value.symbol_bounds?;
            hull = Some(hull.map_or(bounds, |hull| hull.join(bounds)));
        }
        hull
    }

    /// Whether each symbol of either input of a node is surely greater, or surely less, than what it is compared with.
    fn are_apart(&self, inputs: &[Option<ValueId>]) -> bool {
        let [Some(a), Some(b)] = [0, 1].map(|place| self.value(inputs.get(place).copied()?)) else {
            return false;
        };
        let is_apart = |a: &Value, b: &Value| {
            let bounds = a.symbol_bounds.zip(b.bounds);
            !a.is_symbolic() || bounds.is_some_and(|(a, b)| a.is_apart_from(&b))
        };
        is_apart(a, b) && is_apart(b, a)
    }

    /// What tract can hold a node's outputs as.
    fn kind(&self, node: &NodeProto, behaviour: &Behaviour, inputs: &[Option<ValueId>]) -> Kind {
        let value = |place: usize| self.value(inputs.get(place).copied().flatten());
        let is_given = |place: usize| node.input.get(place).is_some_and(|name| !name.is_empty());
        let (mut kind, mut is_exact) = (Kind::Numbers, true);
        let mut meet = |places: Inputs| {
            for place in (0..node.input.len()).filter(|place| places.contains(*place)) {
                match value(place) {
                    Some(value) if value.is_symbolic() => {
                        let is_pure = value.kind == Kind::Dimensions && kind != Kind::Expression;
                        kind = if is_pure { Kind::Dimensions } else { Kind::Expression };
                    }
                    Some(value) if value.is_small_constant() => {}
                    None if !is_given(place) => {}
                    _ => is_exact = false,
                }
            }
        };
        // What says where to move elements to.
        let is_static = |places: Inputs| {
            (0..node.input.len()).filter(|place| !places.contains(*place)).all(|place| {
                value(place).map_or(!is_given(place), |value| {
                    value.is_constant || value.is_symbolic() || value.kind == Kind::Condition
                })
            })
        };
        let is_positive = |place: usize| {
            value(place).and_then(|v| v.bounds).is_some_and(|bounds| bounds.least >= 1)
        };
        let is_natural = |place: usize| {
            value(place).and_then(|v| v.bounds).is_some_and(|bounds| bounds.least >= 0)
        };
        let is_symbolic = |place: usize| value(place).is_some_and(Value::is_symbolic);
        match behaviour.sizes {
            Sizes::Measures => return Kind::Dimensions,
            Sizes::AsNumbers => return Kind::Numbers,
            Sizes::Casts => {
                meet(Inputs::Only(&[0]));
                is_exact &= int(node, "to") == Some(ElementType::Int64 as i64);
                return if is_exact { kind } else { Kind::Numbers };
            }
            Sizes::Keeps(moved) => {
                meet(moved);
                is_exact &= is_static(moved);
                return if is_exact { kind } else { Kind::Numbers };
            }
            Sizes::Moves(moved) => {
                meet(moved);
                is_exact &= is_static(moved);
            }
            Sizes::Decides => {
                let mut given = (0..node.input.len()).map(value);
                let all = given
                    .clone()
                    .all(|value| value.is_some_and(|v| v.is_constant || v.kind == Kind::Condition));
                let any = given.any(|value| value.is_some_and(|v| v.kind == Kind::Condition));
                return if all && any { Kind::Condition } else { Kind::Numbers };
            }
            Sizes::Compares => {
                meet(Inputs::All);
                is_exact &= self.are_apart(inputs);
                let is_condition = is_exact && kind != Kind::Numbers;
                return if is_condition { Kind::Condition } else { Kind::Numbers };
            }
            Sizes::Divides => {
                meet(Inputs::All);
                // tract divides by a symbol only where nothing remains.
                is_exact &= is_natural(0) && (is_positive(1) || is_symbolic(1));
            }
            Sizes::Remainders => {
                meet(Inputs::All);
                is_exact &= is_natural(0) && is_positive(1) && int(node, "fmod").unwrap_or(0) == 0;
            }
            Sizes::Adds
            | Sizes::Subtracts
            | Sizes::Multiplies
            | Sizes::Negates
            | Sizes::Least
            | Sizes::Most
            | Sizes::Clips => meet(Inputs::All),
        }
        match kind {
            Kind::Dimensions | Kind::Expression if is_exact => Kind::Expression,
            _ => Kind::Numbers,
        }
    }

    /// What tract can hold an output of an `If` as: symbols where both branches return some, and tract may know before the model
    /// runs which of them it will be.
    fn joined_kind(
        &self,
        node: &NodeProto,
        inputs: &[Option<ValueId>],
        branches: &[GraphPlan],
        place: usize,
    ) -> Kind {
        let condition = self.value(inputs.first().copied().flatten());
        let is_decided =
            condition.is_some_and(|value| value.is_constant || value.kind == Kind::Condition);
        let is_symbolic = |branch: &GraphPlan| {
            let id = branch.outputs.get(place).copied().flatten();
            self.value(id).is_some_and(Value::is_symbolic)
        };
        match node.op_type == "If" && is_decided && branches.iter().all(is_symbolic) {
            true => Kind::Expression,
            false => Kind::Numbers,
        }
    }
}
