//! The nodes themselves: casts before and behind them, and what stays FLOAT between them.

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::{BodyId, Graph, NewNode, NodeId, NodeView, Place, ValueId};
use tract_onnx::prelude::TractResult;

use super::{Halves, WidenedNode, moved_halves};
use crate::cast::element_type::ElementType;
use crate::onnx::lowered::{DOMAIN, OperatorForm, PrivateCast};
use crate::onnx::operators::behaviour::{Behaviour, ElementUse};
use crate::passes::casts::node::CastNode;
use crate::passes::context::PassContext;
use crate::passes::facts::fact::{Fact, FactOrigin};
use crate::passes::facts::meaning::Meaning;

/// Has operators on half precision compute in FLOAT, as `types` has read them.
pub(crate) fn widen(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let mut wide = WideValues { graph, context, of: HashMap::new(), computed: HashSet::new() };
    for id in wide.graph.all_nodes(wide.graph.main()) {
        match wide.context.meanings.get(id).cloned() {
            Some(Meaning::Half(halves)) => wide.compute(id, &halves),
            Some(_) => {}
            None => wide.move_through(id),
        }
    }
    Ok(())
}

/// What is FLOAT in the place of half precision, in each body for itself: a body captures values as
/// the file has them.
struct WideValues<'g, 'c, 'o> {
    graph: &'g mut Graph,
    context: &'c mut PassContext<'o>,
    of: HashMap<(BodyId, ValueId), ValueId>,
    /// The values of half precision that have been computed in FLOAT.
    computed: HashSet<(BodyId, ValueId)>,
}

impl WideValues<'_, '_, '_> {
    /// A value of half precision as FLOAT, in a body that sees it.
    fn value(&mut self, body: BodyId, value: ValueId, ty: ElementType) -> ValueId {
        if let Some(wide) = self.of.get(&(body, value)) {
            return *wide;
        }
        let name = format!("{DOMAIN}:wide:{}", self.graph.value(value).name);
        let maker = self.graph.maker(value).filter(|id| self.graph.node(*id).body() == body);
        let place = maker.map_or(Place::First(body), Place::After);
        let cast = self.graph.add(place, NewNode::of("Cast", &[value], name));
        self.context
            .lower(cast, OperatorForm::Cast(PrivateCast::own(Some(ty), ElementType::Float)));
        let wide = self.graph.node(cast).output(0).unwrap_or(value);
        self.note(wide, value, Some(ElementType::Float));
        self.of.insert((body, value), wide);
        wide
    }

    /// Notes what is known of a value that was made in the place of another.
    fn note(&mut self, value: ValueId, like: ValueId, ty: Option<ElementType>) {
        let origin = self.context.facts.get(like).map_or(FactOrigin::Data, |fact| fact.origin);
        self.context.facts.insert(value, Fact { ty, origin });
    }

    /// Has a node make FLOAT in the place of an output, which a cast behind `after` makes of it.
    /// Returns the FLOAT and the cast.
    fn narrow(
        &mut self,
        output: ValueId,
        kind: &str,
        ty: ElementType,
        after: NodeId,
    ) -> Option<(ValueId, NodeId)> {
        let name = format!("{DOMAIN}:{kind}:{}", self.graph.value(output).name);
        let float = self.graph.take_output(output, &name)?;
        let cast = self.graph.add(Place::After(after), NewNode::making("Cast", &[float], output));
        let private = PrivateCast::own(Some(ElementType::Float), ty);
        self.context.lower(cast, OperatorForm::Cast(private));
        self.note(float, output, Some(ElementType::Float));
        Some((float, cast))
    }

    /// An operator that computes on half precision.
    fn compute(&mut self, id: NodeId, halves: &Halves) {
        self.name(id);
        let types = halves.schema.map_or(vec![], |schema| schema.names_of_types());
        for attribute in self.graph.node_mut(id).attributes.iter_mut() {
            let ty = i32::try_from(attribute.i).ok().and_then(ElementType::from_id);
            if ty.is_some_and(ElementType::is_half) && types.contains(&attribute.name.as_str()) {
                attribute.i = ElementType::Float as i64;
            }
        }
        // Two roundings of the quotient would show in the third.
        if self.graph.node(id).is("Div") {
            self.context.lower(id, OperatorForm::ExactDivision);
        }
        let body = self.graph.node(id).body();
        for (place, ty) in halves.inputs.iter().enumerate() {
            if let Some(ty) = ty.filter(|ty| ty.is_half())
                && let Some(input) = self.graph.node(id).input(place)
            {
                let wide = self.value(body, input, ty);
                self.graph.set_input(id, place, Some(wide));
            }
        }
        let mut after = id;
        for (place, ty) in halves.outputs.iter().enumerate() {
            if let Some(ty) = ty.filter(|ty| ty.is_half())
                && let Some(output) = self.graph.node(id).output(place)
                && let Some((exact, cast)) = self.narrow(output, "exact", ty, after)
            {
                after = cast;
                self.computed.insert((body, output));
                if self.context.options.widening.excess_precision {
                    self.of.insert((body, output), exact);
                }
                let fact = self.context.facts.get(output);
                let is_constant = fact.is_some_and(|fact| fact.origin == FactOrigin::Constants);
                let name = &self.graph.value(output).name;
                let row = CastNode::rounding(self.graph.node(id), name, ty, is_constant);
                self.context.casts.push((cast, row));
            }
        }
        let node = self.graph.node(id);
        let (name, operator) = (node.label().into(), node.op_type.clone());
        self.context.widened.push(WidenedNode { node: name, operator, ty: halves.half });
    }

    /// An operator that only moves elements: FLOATs where half precision has been computed as such,
    /// so that they need not be narrowed to be moved.
    fn move_through(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        if *self.context.form(id) != OperatorForm::Own {
            return;
        }
        let ElementUse::Moved(moved) = Behaviour::of(node).elements(node) else { return };
        let types = self.context.facts.types(node);
        let ty = |place: usize| types.get(place).copied().flatten();
        let Some((places, half)) = moved_halves(node, ty, moved, &self.context.options.widening)
        else {
            return;
        };
        let body = node.body();
        let inputs: Vec<(usize, ValueId)> =
            places.iter().filter_map(|place| Some((*place, node.input(*place)?))).collect();
        let is_wide = inputs.iter().any(|(_, input)| self.computed.contains(&(body, *input)));
        if !is_wide || places.iter().any(|place| ty(*place) != Some(half)) {
            return;
        }
        self.name(id);
        for (place, input) in inputs {
            let wide = self.value(body, input, half);
            self.graph.set_input(id, place, Some(wide));
        }
        let mut after = id;
        for output in self.graph.node(id).outputs().to_vec().into_iter().flatten() {
            if let Some((wide, cast)) = self.narrow(output, "wide", half, after) {
                after = cast;
                self.computed.insert((body, output));
                self.of.insert((body, output), wide);
                self.note(output, output, Some(half));
            }
        }
    }

    /// A node that has no name is called after its first output, which it makes no more.
    fn name(&mut self, id: NodeId) {
        let label = self.graph.node(id).shared_label().clone();
        self.graph.node_mut(id).name = label;
    }
}
