//! Which side of a contradiction is mended.

use onnx_cast_graph::{
    Graph, NewNode, NodeId, Origin, Place, ValueId, int, int_attribute, message_node,
};

use super::change::ChangeKind;
use super::walk::{MendingWalk, about, place_of};
use super::wants::{apart_in_insert, given_type, outputs_of, schema_of};
use crate::cast::element_type::ElementType;
use crate::onnx::cast_spec::{CastSpec, Operator};
use crate::onnx::operators::behaviour::Behaviour;
use crate::onnx::operators::schema::{self, ParameterType, Schema};
use crate::typed::inference::{KnownTypes, declared};

impl MendingWalk {
    /// Settles what a cast makes that is to make `made`. Where its declaration says another type,
    /// the users decide; without any, an output stays what it is declared, which is what is around
    /// the graph relies on, and an inner value what it is.
    pub(super) fn settle_cast(
        &mut self,
        graph: &mut Graph,
        id: NodeId,
        spec: &CastSpec,
        made: ElementType,
    ) -> ElementType {
        let Some(value) = graph.node(id).output(0) else { return made };
        let (declared, wanted) = (declared(graph, value), self.wanted(graph, value));
        let is_output = self.is_pinned(graph, value);
        let target = declared.filter(|declared| match wanted {
            Some(wanted) => wanted == *declared,
            None => is_output,
        });
        let Some(target) = target.filter(|ty| *ty != made) else { return made };
        if self.set_target(graph, id, target) {
            return target;
        }
        if spec.operator == Operator::CastLike && is_output {
            let name = &graph.value(value).name;
            self.leave(graph, id, format!("makes `{name}` {made}, declared {target}"));
        }
        made
    }

    /// Gives a `Cast` another target; `false` if it is none, or its operator's version does not
    /// have the type.
    fn set_target(&mut self, graph: &mut Graph, id: NodeId, ty: ElementType) -> bool {
        let node = graph.node(id);
        let Ok(spec) = CastSpec::of(node, node.opset) else { return false };
        let is_to_be = spec.check_type(ty, "to").is_ok();
        let Some(from) = spec.to.filter(|_| is_to_be) else { return false };
        for to in graph.node_mut(id).attributes.iter_mut().filter(|held| held.name == "to") {
            if to.s.is_empty() {
                to.i = ty as i64;
            } else {
                to.s = ty.name().into();
            }
        }
        self.change(ChangeKind::To, place_of(graph, id), from.name(), ty.name());
        true
    }

    /// Brings a node's inputs to types that it can have.
    pub(super) fn settle_inputs(&mut self, known: &mut KnownTypes, id: NodeId) {
        let Some(schema) = schema_of(known.graph.node(id)) else { return };
        for variable in schema.variables() {
            let types = known.inputs(id).into_iter().enumerate();
            let types = types.filter(|(place, _)| schema.binds(*place, variable));
            let bound: Vec<(usize, ElementType)> =
                types.filter_map(|(place, ty)| Some((place, ty?))).collect();
            let Some((_, first)) = bound.first().copied() else { continue };
            let other = bound.iter().map(|(_, ty)| *ty).find(|ty| *ty != first);
            match (self.common_type(known, id, schema, variable, &bound), other) {
                (Some(target), _) => {
                    for (place, _) in bound.iter().filter(|(_, ty)| *ty != target) {
                        self.settle_input(known, id, *place, target);
                    }
                }
                (None, Some(other)) => {
                    self.leave(known.graph, id, format!("mixes {first} and {other}"));
                }
                (None, None) => {}
            }
        }
        if let Some((elements, _)) = apart_in_insert(known, id) {
            self.settle_input(known, id, 1, elements);
        }
        self.check_attribute(known, id, schema);
        self.settle_refused(known, id, schema);
    }

    /// Brings inputs to other types that no version of the operator takes.
    fn settle_refused(&mut self, known: &mut KnownTypes, id: NodeId, schema: &Schema) {
        for (place, ty) in known.inputs(id).into_iter().enumerate() {
            let Some(ty) = ty else { continue };
            if schema.input(place).is_some_and(|input| schema.is_sequence(input.ty)) {
                // What is known of a sequence is the type of its elements.
                continue;
            }
            let allows = |schema: &Schema| {
                schema.input(place).is_some_and(|input| schema.allows(input.ty, ty))
            };
            let node = known.graph.node(id);
            if allows(schema) {
                continue;
            }
            if let Some(later) = schema::versions(&node.op_type).iter().find(|held| allows(held)) {
                let problem = format!("takes {ty} from opset {} on", later.since);
                self.early.push(about(known.graph, id, problem));
                continue;
            }
            let parameter = schema.input(place).map(|input| input.ty);
            let is_float =
                |ty: &ElementType| parameter.is_some_and(|parameter| schema.allows(parameter, *ty));
            let only = parameter.and_then(|parameter| schema.only_type(parameter));
            match only.or(Some(ElementType::Float).filter(is_float)) {
                Some(target) => self.settle_input(known, id, place, target),
                None => {
                    let value = node.input(place);
                    let name =
                        value.map_or("".into(), |value| known.graph.value(value).name.clone());
                    self.leave(known.graph, id, format!("takes no {ty}, as `{name}` is"));
                }
            }
        }
    }

    /// Whether an attribute gives an output the type that an input has given it.
    fn check_attribute(&mut self, known: &KnownTypes, id: NodeId, schema: &Schema) {
        let (node, types) = (known.graph.node(id), known.inputs(id));
        let Some(attribute) = Behaviour::of(node).type_attribute else { return };
        let given = int(node, attribute.name).and_then(|id| i32::try_from(id).ok());
        let Some(given) = given.and_then(ElementType::from_id) else { return };
        // The attribute is about an output that no input gives a type, if there is one; the last
        // output may be repeated.
        let outputs = (0..=node.outputs().len() + 2).map_while(|place| schema.output(place));
        let bound: Option<Vec<ElementType>> = outputs
            .filter(|output| schema.only_type(output.ty).is_none())
            .map(|output| match output.ty {
                ParameterType::Variable(variable) => schema.bound(variable, &types),
                ParameterType::Fixed(_) => None,
            })
            .collect();
        if let Some(bound) = bound.into_iter().flatten().find(|bound| *bound != given) {
            let name = attribute.name;
            let problem = format!("attribute `{name}` is {given}, an input {bound}");
            self.leave(known.graph, id, problem);
        }
    }

    /// The type that a variable is to stand for: what the users of the outputs want; else what is
    /// declared of these; else what the constants are. `None` for no change, or where there is
    /// nothing to tell it by.
    fn common_type(
        &self,
        known: &KnownTypes,
        id: NodeId,
        schema: &Schema,
        variable: &'static str,
        bound: &[(usize, ElementType)],
    ) -> Option<ElementType> {
        let graph = &*known.graph;
        let node = graph.node(id);
        let outputs = outputs_of(node, schema, variable);
        let is_there = |ty: &ElementType| bound.iter().any(|(_, bound)| bound == ty);
        let wanted = outputs.iter().find_map(|value| {
            let wanted = self.wanted(graph, *value)?;
            let is_sound = is_there(&wanted) || declared(graph, *value) == Some(wanted);
            is_sound.then_some(wanted)
        });
        let is_mixed = bound.iter().any(|(_, ty)| Some(ty) != bound.first().map(|(_, ty)| ty));
        if !is_mixed || wanted.is_some() {
            return wanted;
        }
        let declared = outputs.iter().find_map(|value| declared(graph, *value).filter(is_there));
        let constant = |(place, _): &(usize, ElementType)| {
            let value = node.input(*place)?;
            let is_input = matches!(graph.value(value).origin(), Origin::Input);
            given_type(graph, value).filter(|_| !is_input)
        };
        declared.or_else(|| bound.iter().find_map(constant))
    }

    /// Gives a node an input of another type: of the cast that makes it with a better target, of a
    /// value that has the same numbers, or of a new cast.
    fn settle_input(&mut self, known: &mut KnownTypes, id: NodeId, place: usize, ty: ElementType) {
        let Some(value) = known.graph.node(id).input(place) else { return };
        let Some(from) = known.ty(value) else { return };
        if self.retarget(known, value, ty) {
            self.declare(known.graph, value, ty);
            known.types.insert(value, ty);
            return;
        }
        let other = if let Some(same) = self.same_of_type(value, ty) {
            let name = |value: ValueId| known.graph.value(value).name.clone();
            let place = place_of(known.graph, id);
            self.change(ChangeKind::Input, place, &name(value), &name(same));
            Some(same)
        } else {
            self.add_cast(known, id, value, (from, ty))
        };
        match other {
            Some(other) => known.graph.set_input(id, place, Some(other)),
            None => {
                let name = &known.graph.value(value).name;
                let problem = format!("needs `{name}` as {ty}, which is {from}");
                self.leave(known.graph, id, problem);
            }
        }
    }

    /// Gives the cast that a value comes from a better target, if all that use it and what is
    /// between want that type.
    fn retarget(&mut self, known: &mut KnownTypes, mut value: ValueId, ty: ElementType) -> bool {
        loop {
            let graph = &*known.graph;
            if self.wanted(graph, value) != Some(ty) || self.is_pinned(graph, value) {
                return false;
            }
            let Some(id) = graph.maker(value) else { return false };
            if Operator::of(graph.node(id)).is_some() {
                // Another user may have come to the same cast in this walk.
                let is_set = known.ty(value) == Some(ty) || self.set_target(known.graph, id, ty);
                if is_set {
                    self.declare(known.graph, value, ty);
                    known.types.insert(value, ty);
                }
                return is_set;
            }
            match only_input_of_type(graph, id, value) {
                Some(input) => value = input,
                None => return false,
            }
        }
    }

    /// Puts a cast of a value before a node; `None` where the opset has none such.
    fn add_cast(
        &mut self,
        known: &mut KnownTypes,
        id: NodeId,
        value: ValueId,
        (from, to): (ElementType, ElementType),
    ) -> Option<ValueId> {
        let graph = &mut *known.graph;
        let (body, opset) = (graph.node(id).body(), graph.node(id).opset);
        if let Some(added) = self.added.get(&(body, value, to)) {
            return Some(*added);
        }
        let name = format!("{}_as_{to}", graph.value(value).name);
        let mut cast = message_node("Cast", &[&graph.value(value).name], &name);
        cast.attribute.push(int_attribute("to", to as i64));
        CastSpec::parse(&cast, opset).ok()?.check_type(from, "input").ok()?;
        let new = NewNode::of("Cast", &[value], name).with(cast.attribute);
        let cast = graph.add(Place::Before(id), new);
        let added = graph.node(cast).output(0)?;
        self.change(ChangeKind::Added, place_of(graph, cast), from.name(), to.name());
        known.types.insert(added, to);
        self.added.insert((body, value, to), added);
        Some(added)
    }
}

/// The one input that has the type of an output, whatever that is.
fn only_input_of_type(graph: &Graph, id: NodeId, output: ValueId) -> Option<ValueId> {
    let node = graph.node(id);
    let schema = schema_of(node)?;
    let place = node.outputs().iter().position(|value| *value == Some(output))?;
    let ParameterType::Variable(variable) = schema.output(place)?.ty else { return None };
    let mut inputs = node.inputs().iter().enumerate();
    let (_, input) = inputs.find(|(place, _)| schema.binds(*place, variable))?;
    let is_only = !inputs.any(|(place, _)| schema.binds(place, variable));
    input.filter(|_| is_only)
}
