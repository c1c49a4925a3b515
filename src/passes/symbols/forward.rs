//! Forwards through a model: which values can tract compute symbolically and exactly?

use onnx_cast_graph::{BodyId, Graph, Node, NodeId, NodeView, ValueId, int};
use tract_onnx::pb::TensorProto;

use super::bounds::{self, Bounds};
use super::plan::{SymbolPlan, ValueKind, ValuePlan};
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::lowered::OperatorForm;
use crate::onnx::node::refusal;
use crate::onnx::operators::behaviour::{Behaviour, InputPlaces, Sizes};
use crate::passes::context::PassContext;

/// What is found out about all values of a graph.
/// Fails when a constant shape is beyond what tract has for it.
pub(in crate::passes) fn plan(graph: &Graph, context: &PassContext) -> Result<SymbolPlan, Error> {
    let mut reader = SymbolReader { graph, context, plan: SymbolPlan::default() };
    reader.body(graph.main())?;
    Ok(reader.plan)
}

struct SymbolReader<'g, 'c, 'o> {
    graph: &'g Graph,
    context: &'c PassContext<'o>,
    plan: SymbolPlan,
}

impl SymbolReader<'_, '_, '_> {
    fn body(&mut self, body: BodyId) -> Result<(), Error> {
        let graph = self.graph;
        for value in graph.body(body).inputs() {
            self.plan.values.insert(*value, ValuePlan::of_kind(ValueKind::Numbers));
        }
        for value in graph.body(body).constants() {
            let bounds = graph.constant(*value).and_then(|tensor| self.of_tensor(tensor));
            let plan =
                ValuePlan { is_constant: true, bounds, ..ValuePlan::of_kind(ValueKind::Numbers) };
            self.plan.values.insert(*value, plan);
        }
        graph.nodes_of(body).into_iter().try_for_each(|id| self.node(id, body))
    }

    fn of_tensor(&self, tensor: &TensorProto) -> Option<Bounds> {
        if !bounds::is_looked_through(tensor) {
            return None;
        }
        let (ty, tensor) = self.context.read(tensor)?;
        bounds::of_tensor(ty, &tensor)
    }

    fn value(&self, id: Option<ValueId>) -> Option<&ValuePlan> {
        self.plan.value(id)
    }

    fn node(&mut self, id: NodeId, body: BodyId) -> Result<(), Error> {
        let node = self.graph.node(id);
        let behaviour = Behaviour::of(node);
        self.check_dimensions(node, behaviour)?;
        for held in node.bodies() {
            self.body(held.body)?;
        }
        let is_constant = !behaviour.is_undetermined
            && node.bodies().is_empty()
            && node
                .inputs()
                .iter()
                .flatten()
                .all(|value| self.value(Some(*value)).is_some_and(|held| held.is_constant));
        let bounds = self.bounds(node, behaviour);
        let is_measured = matches!(self.context.form(id), OperatorForm::Measured { .. });
        let kind = match self.kind(node, behaviour) {
            ValueKind::Dimensions if is_measured => ValueKind::Numbers,
            // Where a body only moves dimensions from around it, it cannot resolve them.
            ValueKind::Dimensions
                if body != self.graph.main() && behaviour.sizes != Sizes::Measures =>
            {
                ValueKind::Expression
            }
            kind => kind,
        };
        let symbol_bounds = self.symbol_bounds(node, behaviour).or(bounds);
        for (place, value) in node.outputs().iter().enumerate() {
            let Some(value) = value else { continue };
            let kind = if node.bodies().is_empty() { kind } else { self.joined_kind(node, place) };
            let plan = ValuePlan { is_constant, bounds, symbol_bounds, ..ValuePlan::of_kind(kind) };
            self.plan.values.insert(*value, plan);
        }
        Ok(())
    }

    /// Refuses a constant shape that tract would cut down to 32 bits.
    fn check_dimensions(&self, node: &Node, behaviour: &Behaviour) -> Result<(), Error> {
        let is_beyond = |id: &Option<ValueId>| {
            self.value(*id).is_some_and(|value| {
                value.is_constant && value.bounds.is_some_and(|b| b.surely_exceeds_32_bits())
            })
        };
        let mut dimensions = node
            .inputs()
            .iter()
            .enumerate()
            .filter(|(place, _)| behaviour.dimensions.contains(*place));
        if dimensions.any(|(_, id)| is_beyond(id)) {
            return Err(refusal(node, "has a dimension beyond the 32 bits that tract has for it"));
        }
        Ok(())
    }

    fn bounds(&self, node: &Node, behaviour: &Behaviour) -> Option<Bounds> {
        if behaviour.makes_attributes {
            let mut attributes = node.attributes.iter();
            return attributes.find_map(|attribute| match &attribute.t {
                Some(tensor) => self.of_tensor(tensor),
                None => bounds::of_attribute(attribute),
            });
        }
        let inputs: Vec<Option<Bounds>> =
            node.inputs().iter().map(|id| self.value(*id).and_then(|value| value.bounds)).collect();
        bounds::of_output(node, behaviour, &inputs)
    }

    /// Where those elements lie that a node moves and that are symbols.
    fn symbol_bounds(&self, node: &Node, behaviour: &Behaviour) -> Option<Bounds> {
        let moved = match behaviour.sizes {
            Sizes::Keeps(moved) | Sizes::Moves(moved) => moved,
            Sizes::Casts => InputPlaces::Only(&[0]),
            _ => return None,
        };
        let values = node.inputs().iter().enumerate();
        let values = values.filter(|(place, _)| moved.contains(*place));
        let symbols = values.filter_map(|(_, id)| self.value(*id)).filter(|v| v.is_symbolic());
        let mut hull: Option<Bounds> = None;
        for value in symbols {
            let bounds = value.symbol_bounds?;
            hull = Some(hull.map_or(bounds, |hull| hull.join(bounds)));
        }
        hull
    }

    /// Whether each symbol of either input of a node is surely greater, or surely less, than what
    /// it is compared with.
    fn are_apart(&self, node: &Node) -> bool {
        let [Some(a), Some(b)] = [0, 1].map(|place| self.value(node.input(place))) else {
            return false;
        };
        let is_apart = |a: &ValuePlan, b: &ValuePlan| {
            let bounds = a.symbol_bounds.zip(b.bounds);
            !a.is_symbolic() || bounds.is_some_and(|(a, b)| a.is_apart_from(&b))
        };
        is_apart(a, b) && is_apart(b, a)
    }

    /// What the symbols among some of a node's inputs are together, and whether all of these inputs
    /// keep their values among symbols.
    fn meet(&self, node: &Node, places: InputPlaces) -> (ValueKind, bool) {
        let (mut kind, mut is_exact) = (ValueKind::Numbers, true);
        for place in (0..node.inputs().len()).filter(|place| places.contains(*place)) {
            match self.value(node.input(place)) {
                Some(value) if value.is_symbolic() => {
                    let is_pure =
                        value.kind == ValueKind::Dimensions && kind != ValueKind::Expression;
                    kind = if is_pure { ValueKind::Dimensions } else { ValueKind::Expression };
                }
                Some(value) if value.is_small_constant() => {}
                None if !node.gives(place) => {}
                _ => is_exact = false,
            }
        }
        (kind, is_exact)
    }

    /// Whether what says where to move elements to is known before the model runs.
    fn is_static(&self, node: &Node, moved: InputPlaces) -> bool {
        (0..node.inputs().len()).filter(|place| !moved.contains(*place)).all(|place| {
            self.value(node.input(place)).map_or(!node.gives(place), |value| {
                value.is_constant || value.is_symbolic() || value.kind == ValueKind::Condition
            })
        })
    }

    /// Whether an input is known to be no less than a number.
    fn is_at_least(&self, node: &Node, place: usize, least: i128) -> bool {
        let bounds = self.value(node.input(place)).and_then(|value| value.bounds);
        bounds.is_some_and(|bounds| bounds.least >= least)
    }

    /// What tract can hold a node's outputs as.
    fn kind(&self, node: &Node, behaviour: &Behaviour) -> ValueKind {
        let exact = |(kind, is_exact)| if is_exact { kind } else { ValueKind::Numbers };
        let (kind, is_exact) = match behaviour.sizes {
            Sizes::Measures => return ValueKind::Dimensions,
            Sizes::AsNumbers => return ValueKind::Numbers,
            Sizes::Casts => {
                let (kind, is_exact) = self.meet(node, InputPlaces::Only(&[0]));
                let is_int64 = int(node, "to") == Some(ElementType::Int64 as i64);
                return exact((kind, is_exact && is_int64));
            }
            Sizes::Keeps(moved) => {
                let (kind, is_exact) = self.meet(node, moved);
                return exact((kind, is_exact && self.is_static(node, moved)));
            }
            Sizes::Decides => return self.decided(node),
            Sizes::Compares => {
                let (kind, is_exact) = self.meet(node, InputPlaces::All);
                let is_condition = is_exact && self.are_apart(node) && kind != ValueKind::Numbers;
                return if is_condition { ValueKind::Condition } else { ValueKind::Numbers };
            }
            Sizes::Moves(moved) => {
                let (kind, is_exact) = self.meet(node, moved);
                (kind, is_exact && self.is_static(node, moved))
            }
            Sizes::Divides => {
                let (kind, is_exact) = self.meet(node, InputPlaces::All);
                // tract divides by a symbol only where nothing remains.
                let is_symbol = self.value(node.input(1)).is_some_and(ValuePlan::is_symbolic);
                let divides = self.is_at_least(node, 1, 1) || is_symbol;
                (kind, is_exact && self.is_at_least(node, 0, 0) && divides)
            }
            Sizes::Remainders => {
                let (kind, is_exact) = self.meet(node, InputPlaces::All);
                let is_positive = self.is_at_least(node, 0, 0) && self.is_at_least(node, 1, 1);
                (kind, is_exact && is_positive && int(node, "fmod").unwrap_or(0) == 0)
            }
            Sizes::Adds
            | Sizes::Subtracts
            | Sizes::Multiplies
            | Sizes::Negates
            | Sizes::Least
            | Sizes::Most
            | Sizes::Clips => self.meet(node, InputPlaces::All),
        };
        match kind {
            ValueKind::Dimensions | ValueKind::Expression if is_exact => ValueKind::Expression,
            _ => ValueKind::Numbers,
        }
    }

    /// What a truth of truths is.
    fn decided(&self, node: &Node) -> ValueKind {
        let held = |value: &Option<ValueId>| self.value(*value);
        let is_condition = |value: &ValuePlan| value.kind == ValueKind::Condition;
        let mut given = node.inputs().iter().map(held);
        let is_known =
            |value: Option<&ValuePlan>| value.is_some_and(|v| v.is_constant || is_condition(v));
        let all = given.clone().all(is_known);
        let any = given.any(|value| value.is_some_and(is_condition));
        if all && any { ValueKind::Condition } else { ValueKind::Numbers }
    }

    /// What tract can hold an output of an `If` as: symbols where both branches return some, and
    /// tract may know before the model runs which of them it will be.
    fn joined_kind(&self, node: &Node, place: usize) -> ValueKind {
        let condition = self.value(node.input(0));
        let is_decided =
            condition.is_some_and(|value| value.is_constant || value.kind == ValueKind::Condition);
        let mut branches = node.bodies().iter().map(|held| self.graph.body(held.body).outputs());
        let is_symbolic = branches.all(|outputs| {
            let value = outputs.get(place).map(|output| output.value);
            self.value(value).is_some_and(ValuePlan::is_symbolic)
        });
        let is_joined = node.op_type == "If" && is_decided && is_symbolic;
        if is_joined { ValueKind::Expression } else { ValueKind::Numbers }
    }
}
