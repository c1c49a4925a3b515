//! Pass: the conversion. Before: `y = Conv(x, w)` with x, w and y FLOAT; after: `x_FLOAT16 =
//! Cast(x)`, `y_FLOAT16 = Conv(x_FLOAT16, w)` with w FLOAT16, `y = Cast(y_FLOAT16)`.
//!
//! A value that is taken as it is not made is cast once, behind what makes it, for all who take it
//! so; a weight is there twice instead.

use onnx_cast_graph::{
    Graph, Made, NewNode, NodeId, NodeView, Origin, Place, Use, ValueId, int_attribute,
    tensor_type_mut, value_attribute,
};
use tract_onnx::pb::TypeProto;

use super::attributes;
use super::classes::Point;
use super::context::Context;
use super::data;
use super::sides::is_copied;
use crate::cast::element_type::ElementType;
use crate::error::Result;
use crate::onnx::cast_spec::Operator;

/// Makes the graph what [`Context::classes`] says. Fails when a weight cannot be read.
pub(super) fn rewrite(graph: &mut Graph, context: &mut Context) -> Result<()> {
    count_nodes(graph, context);
    for value in constants(graph, context) {
        constant(graph, context, value)?;
    }
    let nodes = context.nodes(graph);
    for value in values(graph, context, &nodes) {
        let Some(from) = context.source(value) else { continue };
        let converts = context.classes.converts(Point::Made(value)).unwrap_or(false);
        if converts {
            retype(graph, value, context.to())?;
            context.types.insert(value, context.to());
        }
        border(graph, context, value, from, converts);
    }
    for id in nodes {
        remove_cast(graph, context, id);
    }
    merge_casts(graph, context);
    declare(graph, context);
    Ok(())
}

/// How many nodes have values of the other type from now on.
fn count_nodes(graph: &Graph, context: &mut Context) {
    let converts = |point| context.classes.converts(point) == Some(true);
    let nodes = context.nodes(graph).into_iter().filter(|id| {
        let node = graph.node(*id);
        let mut taken = (0..node.input_places()).map(|place| Point::Taken(Use::Node(*id, place)));
        let mut made = node.outputs().iter().flatten().map(|value| Point::Made(*value));
        taken.any(converts) || made.any(converts)
    });
    context.counts.nodes = nodes.count();
}

/// Everything that is constant, of a type that is converted.
fn constants(graph: &Graph, context: &Context) -> Vec<ValueId> {
    let bodies = context.bodies(graph);
    let given = bodies.iter().flat_map(|body| graph.body(*body).constants().to_vec());
    let nodes = context.nodes(graph);
    let made = nodes.iter().filter_map(|id| graph.node(*id).output(0));
    given
        .chain(made)
        .filter(|value| context.source(*value).is_some() && is_copied(graph, context, *value))
        .collect()
}

/// Makes a constant what its users take, or two where they differ.
fn constant(graph: &mut Graph, context: &mut Context, value: ValueId) -> Result<()> {
    let side = |used: Use| context.classes.converts(Point::Taken(used));
    let sides: Vec<(Use, bool)> =
        graph.value(value).uses().filter_map(|used| Some((used, side(used)?))).collect();
    let converts = |converts: bool| sides.iter().any(|(_, side)| *side == converts);
    if !converts(true) {
        return Ok(());
    }
    context.counts.weights += 1;
    let to = context.to();
    if !converts(false) {
        retype(graph, value, to)?;
        context.types.insert(value, to);
        return Ok(());
    }
    let name = format!("{}_{to}", graph.value(value).name);
    let copy = copy_constant(graph, value, &name)?;
    retype(graph, copy, to)?;
    context.types.insert(copy, to);
    graph.replace_uses(value, copy, |used| sides.contains(&(used, true)));
    Ok(())
}

/// Has what makes a value make another type: a node, or the file.
fn retype(graph: &mut Graph, value: ValueId, to: ElementType) -> Result<()> {
    match graph.maker(value) {
        Some(node) => attributes::retype(graph.node_mut(node), to),
        None => {
            if let Some(tensor) = graph.constant_mut(value) {
                *tensor = data::recast(std::mem::take(tensor), to)?;
            }
            Ok(())
        }
    }
}

/// The same constant once more.
pub(super) fn copy_constant(graph: &mut Graph, value: ValueId, name: &str) -> Result<ValueId> {
    let body = graph.value(value).body();
    let copy = match (graph.maker(value), graph.constant(value)) {
        (Some(node), _) => {
            let attributes = graph.node(node).attributes.clone();
            let new = NewNode::of("Constant", &[], name).with(attributes);
            graph.add_value(Place::After(node), new)
        }
        (None, Some(tensor)) => {
            let mut tensor = (**tensor).clone();
            tensor.name = name.into();
            if graph.model().ir_version >= 4 {
                graph.add_constant(body, tensor)
            } else {
                // Before IR version 4 what is no input cannot be an initializer.
                tensor.name.clear();
                let new = NewNode::of("Constant", &[], name).with(vec![value_attribute(tensor)]);
                graph.add_value(Place::First(body), new)
            }
        }
        (None, None) => value,
    };
    let declared = graph.value(value).declared.clone();
    graph.value_mut(copy).declared = declared;
    Ok(copy)
}

/// The inputs of bodies, then what nodes make; constants aside.
fn values(graph: &Graph, context: &Context, nodes: &[NodeId]) -> Vec<ValueId> {
    let bodies = context.bodies(graph);
    let inputs = bodies.iter().flat_map(|body| graph.body(*body).inputs().to_vec());
    let made = nodes.iter().flat_map(|id| graph.node(*id).outputs().iter().flatten().copied());
    inputs.chain(made).filter(|value| !is_copied(graph, context, *value)).collect()
}

/// Casts a value for those who take it as it is not made.
fn border(
    graph: &mut Graph,
    context: &mut Context,
    value: ValueId,
    from: ElementType,
    converts: bool,
) {
    let differs =
        |used: &Use| context.classes.converts(Point::Taken(*used)).is_some_and(|s| s != converts);
    let others: Vec<Use> = graph.value(value).uses().filter(differs).collect();
    if others.is_empty() {
        return;
    }
    let wanted = if converts { from } else { context.to() };
    let is_returned = others.iter().any(|used| matches!(used, Use::Output(..)));
    let source = source_of(graph, context, value, wanted).filter(|_| !is_returned);
    if let Some(source) = source {
        graph.replace_uses(value, source, |used| others.contains(&used));
        return;
    }
    context.counts.added_casts += 1;
    let (name, made) = (graph.value(value).name.to_string(), context.types.get(value).copied());
    let (own, node_name) = (graph.value(value).body(), format!("{name}/Cast"));
    let names_output =
        others.iter().any(|used| matches!(used, Use::Output(body, _) if *body == own));
    let taken = if names_output { graph.take_output(value, &suffixed(&name, made)) } else { None };
    let Some(inner) = taken else {
        let place = match graph.maker(value) {
            Some(node) => Place::After(node),
            None => Place::First(own),
        };
        let new = cast(node_name, &[value], wanted, Made::New(suffixed(&name, Some(wanted))));
        let node = graph.add(place, new);
        if let Some(output) = graph.node(node).output(0) {
            context.types.insert(output, wanted);
            context.added.push((value, output));
            graph.replace_uses(value, output, |used| others.contains(&used));
        }
        return;
    };
    // The value keeps its name, which the output has; what the node makes gets another.
    let declared = graph.value(value).declared.clone();
    graph.value_mut(inner).declared = declared;
    graph.replace_uses(value, inner, |used| !others.contains(&used));
    if let Some(node) = graph.maker(inner) {
        if graph.node(node).outputs().iter().flatten().next() == Some(&inner) {
            context.renamed.0.insert(graph.value(inner).name.to_string(), name.clone());
        }
        graph.add(Place::After(node), cast(node_name, &[inner], wanted, Made::Value(value)));
    }
    context.types.insert(inner, made.unwrap_or(wanted));
    context.types.insert(value, wanted);
    context.added.push((inner, value));
}

fn suffixed(name: &str, ty: Option<ElementType>) -> String {
    format!("{name}_{}", ty.map_or("converted", ElementType::name))
}

fn cast(name: String, inputs: &[ValueId], to: ElementType, output: Made) -> NewNode {
    NewNode {
        name,
        outputs: vec![output],
        attributes: vec![int_attribute("to", to as i64)].into(),
        ..NewNode::of("Cast", inputs, "")
    }
}

/// The value that another was cast from without loss, if it is of the wanted type.
fn source_of(
    graph: &Graph,
    context: &Context,
    value: ValueId,
    wanted: ElementType,
) -> Option<ValueId> {
    let maker = graph.maker(value).filter(|id| Operator::of(graph.node(*id)).is_some())?;
    let source = graph.node(maker).input(0)?;
    let (from, made) = (context.types.get(source).copied()?, context.types.get(value).copied()?);
    (from == wanted && data::is_lossless(from, made)).then_some(source)
}

/// Has one cast do where the model casts a value as an added one does: that one is right behind
/// what makes the value.
fn merge_casts(graph: &mut Graph, context: &mut Context) {
    for (value, made) in std::mem::take(&mut context.added) {
        let first = graph.maker(made);
        let ty = context.types.get(made).copied();
        let uses: Vec<Use> = graph.value(value).uses().collect();
        for used in uses {
            let Use::Node(id, 0) = used else { continue };
            let output = graph.node(id).output(0).filter(|_| Some(id) != first);
            let is_cast = Operator::of(graph.node(id)).is_some();
            let Some(output) = output.filter(|_| is_cast) else { continue };
            if context.types.get(output).copied() == ty && !graph.value(output).is_output() {
                graph.replace_all_uses(output, made);
                context.counts.removed_casts += usize::from(graph.remove(id));
            }
        }
    }
}

/// Takes out a cast that changes nothing any more.
fn remove_cast(graph: &mut Graph, context: &mut Context, id: NodeId) {
    let node = graph.node(id);
    if Operator::of(node).is_none() {
        return;
    }
    let (Some(input), Some(output)) = (node.input(0), node.output(0)) else { return };
    let (from, to) = (context.types.get(input).copied(), context.types.get(output).copied());
    let is_touched = to == Some(context.to()) || context.source(input).is_none();
    if from.is_none() || from != to || !is_touched {
        return;
    }
    // What a body returns it makes itself: what stands around it cannot take the cast's place.
    if graph.value(output).is_output() {
        rename_maker(graph, context, input, output, id);
        return;
    }
    graph.replace_all_uses(output, input);
    context.counts.removed_casts += usize::from(graph.remove(id));
}

/// Has what makes the input of a cast that changes nothing make what a body returns, under its
/// name.
fn rename_maker(
    graph: &mut Graph,
    context: &mut Context,
    input: ValueId,
    output: ValueId,
    cast: NodeId,
) {
    let is_inner = matches!(graph.value(input).origin(), Origin::Node(..))
        && graph.value(input).body() == graph.value(output).body()
        && !graph.value(input).is_output();
    let maker = graph.maker(input).filter(|_| is_inner);
    let place = maker
        .and_then(|maker| graph.node(maker).outputs().iter().position(|made| *made == Some(input)));
    let (Some(maker), Some(place)) = (maker, place) else { return };
    let name = graph.value(output).name.to_string();
    if graph.node(maker).outputs().iter().flatten().next() == Some(&input) {
        let before = graph.value(input).name.to_string();
        let before = context.renamed.0.remove(&before).unwrap_or(before);
        context.renamed.0.insert(name.clone(), before);
    }
    graph.take_output(output, &name);
    graph.replace_uses(input, output, |used| used != Use::Node(cast, 0));
    context.counts.removed_casts += usize::from(graph.remove(cast));
    graph.put_output(maker, place, output);
}

/// Declares every tensor as what it is now.
fn declare(graph: &mut Graph, context: &Context) {
    let typed: Vec<(ValueId, ElementType)> =
        context.types.iter().map(|(value, ty)| (value, *ty)).collect();
    for (value, ty) in typed {
        set(&mut graph.value_mut(value).declared, ty);
    }
    for body in context.bodies(graph) {
        let returned: Vec<ValueId> =
            graph.body(body).outputs().iter().map(|output| output.value).collect();
        for (place, value) in returned.into_iter().enumerate() {
            let Some(ty) = context.types.get(value).copied() else { continue };
            if let Some(declared) = graph.declared_output_mut(body, place) {
                set(&mut declared.r#type, ty);
            }
        }
    }
}

fn set(declared: &mut Option<TypeProto>, ty: ElementType) {
    if let Some(tensor) = tensor_type_mut(declared.as_mut()) {
        tensor.elem_type = ty as i32;
    }
}
