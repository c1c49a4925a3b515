//! Pass: which places have one type, and which types stay. It changes nothing in the graph.
//!
//! A place that takes values of any type (`Shape`, the input of a `Cast`) is in no class: nothing
//! needs a cast there.

use onnx_cast_graph::{BodyId, Graph, Node, NodeId, NodeView, Use, ValueId};
use tract_onnx::pb::TypeProto;

use super::attributes;
use super::classes::Point;
use super::context::Context;
use super::sequences;
use super::sides::is_copied;
use crate::cast::element_type::ElementType;
use crate::error::Result;
use crate::onnx::node::int;
use crate::onnx::operators::behaviour::{Behaviour, ElementUse, Otherwise};
use crate::onnx::operators::foreign;
use crate::onnx::operators::schema::{self, FormalParameter, ParameterType, Schema};

/// Fills [`Context::classes`].
pub(super) fn join(graph: &mut Graph, context: &mut Context) -> Result<()> {
    let mut joining = Joining { graph, context, links: vec![] };
    joining.ends();
    for (point, why) in std::mem::take(&mut joining.context.fixed) {
        joining.context.classes.fix(point, &why);
    }
    for id in joining.context.nodes(joining.graph) {
        joining.node(id);
    }
    let links = std::mem::take(&mut joining.links);
    sequences::join(graph, context, links);
    Ok(())
}

/// Whether something is declared as a sequence or the like, which no Cast takes: tract's messages
/// hold no types but those of tensors.
fn is_no_tensor(declared: Option<&TypeProto>) -> bool {
    declared.is_some_and(|declared| declared.value.is_none())
}

struct Joining<'g, 'c, 'o> {
    graph: &'g Graph,
    context: &'c mut Context<'o>,
    /// Values that are the same inside of a body, or of a function, and outside.
    links: Vec<(ValueId, ValueId)>,
}

impl Joining<'_, '_, '_> {
    /// The place where a node takes a value of a type that is converted.
    fn taken(&self, id: NodeId, place: usize) -> Option<Point> {
        let value = self.graph.node(id).input(place)?;
        self.context.source(value).map(|_| Point::Taken(Use::Node(id, place)))
    }

    /// The place where a node makes one.
    fn made(&self, id: NodeId, place: usize) -> Option<Point> {
        let value = self.graph.node(id).output(place)?;
        self.context.source(value).map(|_| Point::Made(value))
    }

    /// The place where a body takes one as its input.
    fn input(&self, body: BodyId, place: usize) -> Option<Point> {
        let value = *self.graph.body(body).inputs().get(place)?;
        self.context.source(value).map(|_| Point::Made(value))
    }

    /// The place where a body returns one.
    fn output(&self, body: BodyId, place: usize) -> Option<Point> {
        let output = self.graph.body(body).outputs().get(place)?;
        self.context.source(output.value).map(|_| Point::Taken(Use::Output(body, place)))
    }

    fn join(&mut self, a: Option<Point>, b: Option<Point>) {
        match (a, b) {
            (Some(a), Some(b)) => {
                let value = |point| sequences::value(self.graph, point);
                self.links.extend(value(a).zip(value(b)));
                self.context.classes.join(a, b);
            }
            // One side has another type, or none that is known.
            (Some(one), None) | (None, Some(one)) => {
                self.context.classes.fix(one, "what it is joined with has another type");
            }
            (None, None) => {}
        }
    }

    /// The inputs and outputs of the main graph, which keep their types unless they are converted
    /// too.
    fn ends(&mut self) {
        let body = self.graph.body(self.graph.main());
        let is_kept = !self.context.options.convert_io;
        for place in 0..body.inputs().len() {
            let Some(point) = self.input(self.graph.main(), place) else { continue };
            let Point::Made(value) = point else { continue };
            let is_weight = self.graph.value(value).is_constant()
                && !self.context.is_default(self.graph, value);
            if is_weight {
                continue;
            }
            if is_kept {
                self.context.classes.fix(point, "an input of the model");
            } else if is_no_tensor(self.graph.value(value).declared.as_ref()) {
                self.context.classes.fix(point, "an input of the model that is no tensor");
            } else {
                self.context.classes.compute(point);
            }
        }
        for (place, output) in body.outputs().iter().enumerate() {
            let Some(point) = self.output(self.graph.main(), place) else { continue };
            if is_kept {
                self.context.classes.fix(point, "an output of the model");
            } else if is_no_tensor(output.declared.r#type.as_ref()) {
                self.context.classes.fix(point, "an output of the model that is no tensor");
            } else {
                self.context.classes.compute(point);
            }
        }
    }

    fn node(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        if let Some(function) = self.context.function(node) {
            self.call(id, function);
        } else if !node.bodies().is_empty() {
            self.bodies(id);
        } else {
            self.operator(id);
        }
        if let Some(why) = self.context.kept.get(id).cloned() {
            self.fix_all(id, &why);
        }
    }

    fn points(&self, id: NodeId) -> Vec<Point> {
        let node = self.graph.node(id);
        let taken = (0..node.input_places()).filter_map(|place| self.taken(id, place));
        let taken = taken.filter(|point| self.context.classes.find(*point).is_some());
        let made = (0..node.output_places()).filter_map(|place| self.made(id, place));
        taken.chain(made).collect()
    }

    fn fix_all(&mut self, id: NodeId, why: &str) {
        for point in self.points(id) {
            self.context.classes.fix(point, why);
        }
    }

    /// A call: what it gives is what the function takes.
    fn call(&mut self, id: NodeId, function: BodyId) {
        let node = self.graph.node(id);
        for place in 0..node.input_places() {
            if let Some(taken) = self.taken(id, place) {
                self.join(Some(taken), self.input(function, place));
            }
        }
        for place in 0..node.output_places() {
            if node.output(place).is_some() {
                self.join(self.made(id, place), self.output(function, place));
            }
        }
        if self.context.mixed.contains(&function) {
            self.fix_all(id, "the function is called with values of several types");
            for inner in self.graph.all_nodes(function) {
                self.context.keep(inner, "its function is called with values of several types");
            }
        }
    }

    /// A node that holds bodies.
    fn bodies(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let bodies: Vec<BodyId> = node.bodies().iter().map(|held| held.body).collect();
        match node.op_type() {
            "If" => {
                for body in bodies {
                    self.returns(id, body, 0);
                }
            }
            "Loop" => self.carried(id, &bodies, 2, 1),
            "Scan" => self.carried(id, &bodies, usize::from(node.opset < 9), 0),
            _ => self.opaque(id, &bodies),
        }
        let allowed = schema::schema(&node.op_type, node.opset).is_some_and(|schema| {
            schema.output(0).is_some_and(|output| schema.allows(output.ty, self.context.to()))
        });
        if !allowed {
            let why = self.refusal(node);
            self.fix_all(id, &why);
        }
    }

    /// Joins what a body returns, its first `skipped` outputs aside, with what the node makes.
    fn returns(&mut self, id: NodeId, body: BodyId, skipped: usize) {
        for place in 0..self.graph.node(id).output_places() {
            let returned = self.output(body, place + skipped);
            if self.graph.node(id).output(place).is_some() {
                self.join(self.made(id, place), returned);
            } else if let Some(returned) = returned {
                self.context.classes.of(returned);
            }
        }
    }

    /// A `Loop` or `Scan`: what comes before the values that it carries on is no part of what its
    /// body is fed from there.
    fn carried(&mut self, id: NodeId, bodies: &[BodyId], before: usize, conditions: usize) {
        let node = self.graph.node(id);
        let is_loop = node.is("Loop");
        let places = node.input_places().saturating_sub(before);
        let scanned = match int(node, "num_scan_inputs") {
            Some(scanned) if !is_loop => usize::try_from(scanned).unwrap_or(places).min(places),
            _ => 0,
        };
        let shift = if is_loop { 0 } else { before };
        for body in bodies {
            for place in 0..places {
                let taken = self.taken(id, place + before);
                let fed = self.input(*body, place + before - shift);
                self.join(taken, fed);
                if place < places - scanned {
                    self.join(fed, self.output(*body, place + conditions));
                }
            }
            self.returns(id, *body, conditions);
        }
    }

    /// A node whose bodies mean what nobody here knows.
    fn opaque(&mut self, id: NodeId, bodies: &[BodyId]) {
        let why = "what its bodies take and return is not known";
        self.fix_all(id, why);
        for body in bodies {
            let inputs = self.graph.body(*body).inputs().len();
            let outputs = self.graph.body(*body).outputs().len();
            let inputs = (0..inputs).filter_map(|place| self.input(*body, place));
            let outputs = (0..outputs).filter_map(|place| self.output(*body, place));
            let taken = (0..self.graph.node(id).input_places()).map(|place| self.taken(id, place));
            let ends: Vec<Point> = taken.flatten().chain(inputs).chain(outputs).collect();
            for point in ends {
                self.context.classes.fix(point, why);
            }
        }
    }

    fn operator(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let schema = schema::schema(&node.op_type, node.opset).filter(|_| node.is_onnx());
        let Some(schema) = schema else { return self.foreign(id) };
        let mut first_of: Vec<(&str, Point)> = vec![];
        for place in 0..node.input_places() {
            let point = self.taken(id, place).filter(|_| !self.takes_any(node, schema, place));
            if let (Some(point), Some(parameter)) = (point, schema.input(place)) {
                self.parameter(id, schema, parameter, point, &mut first_of);
            }
        }
        for place in 0..node.output_places() {
            if let (Some(point), Some(parameter)) = (self.made(id, place), schema.output(place)) {
                self.parameter(id, schema, parameter, point, &mut first_of);
            }
        }
        self.fix_unknown(id, schema, &first_of);
        self.by_attribute(id);
        let is_double = self.context.to() == ElementType::Double;
        let why = |place| stays_by_place(node, place, is_double);
        for place in 0..node.input_places() {
            if let (Some(point), Some(why)) = (self.taken(id, place), why(place)) {
                self.context.classes.fix(point, why);
            }
        }
    }

    /// An operator that is none of ONNX's: one type, if it is known to take it.
    fn foreign(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (inputs, outputs) = (node.input_places(), node.output_places());
        let taken: Vec<Point> = (0..inputs).filter_map(|place| self.taken(id, place)).collect();
        let mut given = node.inputs().iter().flatten();
        let has_unknown = given.any(|value| !self.context.types.contains(*value));
        if has_unknown || !foreign::takes(node, self.context.to()) {
            let why = if has_unknown {
                "the type of another input is not known"
            } else {
                "which types it takes is not known"
            };
            taken.iter().for_each(|point| self.context.classes.fix(*point, why));
            return self.fix_all(id, why);
        }
        let Some(first) = taken.first().copied() else { return };
        self.context.classes.compute(first);
        taken.iter().for_each(|point| self.context.classes.join(first, *point));
        // What is FLOAT whatever goes in stays so.
        let wide = foreign::output_types(node, &[Some(ElementType::Double)]);
        for place in 0..outputs {
            let Some(made) = self.made(id, place) else { continue };
            match wide.get(place).copied().flatten() {
                Some(ElementType::Double) => self.context.classes.join(first, made),
                _ => self.context.classes.fix(made, "statistics"),
            }
        }
    }

    /// An input or an output that may have several types by its schema.
    fn parameter<'s>(
        &mut self,
        id: NodeId,
        schema: &Schema,
        parameter: FormalParameter,
        point: Point,
        first_of: &mut Vec<(&'s str, Point)>,
    ) where
        'static: 's,
    {
        let node = self.graph.node(id);
        self.context.classes.of(point);
        if !is_free(node, self.context) || self.looks_up_weights(node) {
            self.context.classes.compute(point);
        }
        if !sequences::allows(node, schema, parameter.ty, self.context.to()) {
            let why = self.refusal(node);
            self.context.classes.fix(point, &why);
        }
        let ParameterType::Variable(name) = parameter.ty else { return };
        if parameter.has_any_types() {
            return;
        }
        // A sequence is of the type of the tensors in it.
        let name = if schema.is_sequence(parameter.ty) { "T" } else { name };
        match first_of.iter().find(|(known, _)| *known == name) {
            Some((_, first)) => self.context.classes.join(*first, point),
            None => first_of.push((name, point)),
        }
    }

    /// Where the type of an input is not known, the others of its variable stay as they are.
    fn fix_unknown(&mut self, id: NodeId, schema: &Schema, first_of: &[(&str, Point)]) {
        let node = self.graph.node(id);
        let is_unknown =
            |place| node.input(place).is_some_and(|value| !self.context.types.contains(value));
        let unknown: Vec<usize> =
            (0..node.input_places()).filter(|place| is_unknown(*place)).collect();
        for (name, first) in first_of {
            if unknown.iter().any(|place| schema.binds(*place, name) || sequences::moves(node)) {
                self.context.classes.fix(*first, "the type of another input is not known");
            }
        }
    }

    fn refusal(&self, node: &Node) -> String {
        format!("{} takes no {} at opset {}", node.op_type, self.context.to(), node.opset)
    }

    /// The output of a node whose type is that of an input where no attribute gives one.
    fn by_attribute(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let Some(attribute) = Behaviour::of(node).type_attribute else { return };
        if node.is("LayerNormalization") {
            // Its `stash_type` is that of what it makes beside its result.
            for place in 1..node.output_places() {
                self.made(id, place)
                    .inspect(|point| self.context.classes.fix(*point, "statistics"));
            }
            return;
        }
        let Otherwise::Input(source) = attribute.otherwise else { return };
        if !attributes::names_type(node, attribute.name)
            && let (Some(taken), Some(made)) = (self.taken(id, source), self.made(id, 0))
        {
            self.context.classes.join(taken, made);
        }
    }

    /// Whether a node takes rows of a weight, as an embedding does: that the weight is narrower is
    /// worth a cast of what is taken.
    fn looks_up_weights(&self, node: &Node) -> bool {
        let looks_up = matches!(node.op_type(), "Gather" | "GatherElements" | "GatherND");
        let (Some(table), Some(rows)) = (node.input(0), node.input(1)) else { return false };
        let is_constant = |value| is_copied(self.graph, self.context, value);
        let is_narrower = |from: ElementType| self.context.to().bits() < from.bits();
        let from = self.context.source(table);
        looks_up && from.is_some_and(is_narrower) && is_constant(table) && !is_constant(rows)
    }

    /// Whether a place takes values of whatever type.
    fn takes_any(&self, node: &Node, schema: &Schema, place: usize) -> bool {
        let to = self.context.to();
        let allows = schema.input(place).is_some_and(|input| schema.allows(input.ty, to));
        let is_measured = Behaviour::of(node).elements(node) == ElementUse::Measured;
        let is_cast = node.is("Cast") || node.is("CastLike");
        place == 0 && allows && (is_measured || is_cast)
    }
}

/// Whether a node only moves elements, or makes something else of them than what is converted.
fn is_free(node: &Node, context: &Context) -> bool {
    let moves = matches!(Behaviour::of(node).elements(node), ElementUse::Moved(_));
    let is_source = |value: &Option<_>| value.is_some_and(|value| context.source(value).is_some());
    let makes = node.outputs().iter().any(is_source);
    let takes = node.inputs().iter().any(is_source);
    let makes_any = Behaviour::of(node).makes_attributes || node.is("Cast") || node.is("CastLike");
    moves || sequences::moves(node) || makes_any || (takes && !makes)
}

/// Why an input stays as it is, though its schema lets it have another type. DOUBLE has all that
/// FLOAT statistics have.
fn stays_by_place(node: &Node, place: usize, is_double: bool) -> Option<&'static str> {
    match (node.op_type(), place) {
        ("BatchNormalization", 3 | 4) if node.opset >= 14 && !is_double => Some("statistics"),
        ("Resize", 1) if node.opset >= 11 => Some("a region of interest"),
        _ => None,
    }
}
