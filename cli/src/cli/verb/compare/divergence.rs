//! Where two models part, and how their casts differ.

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::NodeView;
use tract_onnx::pb::NodeProto;
use tract_onnx_cast::audit::Outcome;
use tract_onnx_cast::survey::{CastKind, CastNode};
use tract_onnx_cast::{ElementType, Family};

use crate::cli::found::audited::AuditedCast;
use crate::cli::found::compared::{
    CastChanges, CastName, ComparedTensor, Divergence, GraphNode, PairedBy, Retargeted,
};
use crate::cli::measure::number::Num;
use crate::cli::verb::compare::open::LoadedModel;
use crate::cli::work::main_graph::MainGraph;

/// Describes where the models part: the tensor, the node that makes it, and the worst of the casts
/// before it that the reference does not have and that spoiled values.
pub(super) fn divergence(
    tensor: &ComparedTensor,
    changes: &CastChanges,
    casts: &[AuditedCast],
    growth: &Growth,
) -> Option<Divergence> {
    let (tensor, graph) = (tensor.clone(), &growth.graph);
    let name = tensor.converted();
    let (error, error_before) = (Num(tensor.largest_error()), Num(growth.before(name)));
    let (node, op) = graph.maker(name)?;
    let cast = casts.iter().find(|cast| cast.value() == name).cloned();
    let before = graph.before(name);
    let is_new = |cast: &AuditedCast| {
        let retargeted = changes.retargeted.iter().map(|both| &both.converted);
        let mut new = changes.added.iter().chain(retargeted);
        new.any(|new| (&new.node, &new.graph) == (&cast.node, &cast.graph))
    };
    let (reference, converted) = growth.between(&tensor);
    let is_between = |cast: &AuditedCast| {
        let value = cast.value();
        converted.iter().any(|node| node.output.contains(&value))
    };
    let truncates = |cast: &AuditedCast| cast.count(Outcome::Truncated) > 0;
    // The worst that is new and meets a condition.
    let worst = |is_it: &dyn Fn(&AuditedCast) -> bool| {
        casts.iter().find(|cast| is_new(cast) && is_it(cast))
    };
    let is_before = |cast: &AuditedCast| before.contains(&cast.value());
    let is_here = |cast: &AuditedCast| cast.value() == name;
    // What a quantiser cuts off may show only where much is made of it.
    let culprit = worst(&|cast| cast.has_wrong_scale() && (is_here(cast) || is_before(cast)))
        .or_else(|| worst(&|cast| (cast.spoils() || truncates(cast)) && is_between(cast)))
        .or_else(|| worst(&|cast| cast.spoils() && is_before(cast) && !is_here(cast)));
    let (culprit, only_reference) = (culprit.cloned(), named(&reference));
    let is_exact =
        |cast: &AuditedCast| cast.elements > 0 && cast.count(Outcome::Exact) == cast.elements;
    let idle = casts.iter().filter(|cast| is_exact(cast));
    let idle: HashSet<String> = idle.map(AuditedCast::value).collect();
    let changes_values = |node: &&NodeProto| !node.output.iter().any(|made| idle.contains(made));
    let changing: Vec<&NodeProto> = converted.into_iter().filter(changes_values).collect();
    let mut only_converted = named(&changing);
    if let Some(culprit) = &culprit {
        // What spoils values goes before what only passes them on.
        only_converted.sort_by_key(|node| node.node != culprit.node);
    }
    Some(Divergence {
        node,
        op,
        cast,
        culprit,
        only_reference,
        only_converted,
        tensor,
        error,
        error_before,
    })
}

/// Nodes, as reports have them.
fn named(nodes: &[&NodeProto]) -> Vec<GraphNode> {
    let named =
        |node: &&NodeProto| GraphNode { node: node.label().into(), op: node.op_type.clone() };
    nodes.iter().map(named).collect()
}

/// How the casts of two models differ. A cast is known by the value that it makes, and `renamed`
/// tells what the reference's values are called in the converted model. Where few names are shared,
/// casts of the same types belong together in their order.
pub(super) fn changes(
    a: &LoadedModel,
    b: &LoadedModel,
    renamed: &HashMap<String, String>,
) -> CastChanges {
    let is_own = |cast: &&CastNode| matches!(cast.kind, CastKind::Cast(_) | CastKind::Quantizer);
    // Converters rename the main graph, so only the path below it counts.
    let path = |cast: &CastNode| {
        cast.graph.split_once('/').map_or(String::new(), |(_, path)| path.to_owned())
    };
    let mut gone: HashMap<(String, &str), Vec<&CastNode>> = HashMap::new();
    let of_a: Vec<&CastNode> = a.probed.survey.rows().iter().filter(is_own).collect();
    for cast in of_a.iter().rev() {
        let output = renamed.get(&cast.output).unwrap_or(&cast.output);
        gone.entry((path(cast), output)).or_default().push(cast);
    }
    let mut changes = CastChanges::default();
    let (mut new, mut there) = (vec![], HashSet::new());
    for cast in b.probed.survey.rows().iter().filter(is_own) {
        let counterpart = gone.get_mut(&(path(cast), &*cast.output)).and_then(Vec::pop);
        let Some(was) = counterpart else {
            new.push(cast);
            continue;
        };
        there.insert(std::ptr::from_ref(was));
        if (was.from, was.to) != (cast.from, cast.to) {
            let (reference, converted) = (CastName::of(was), CastName::of(cast));
            changes.retargeted.push(Retargeted { reference, converted });
        }
    }
    if share_few_names(a, b) {
        let kind = |cast: &CastNode| (path(cast), cast.from, cast.to);
        let mut left: HashMap<_, Vec<&CastNode>> = HashMap::new();
        for cast in of_a.iter().rev().filter(|cast| !there.contains(&std::ptr::from_ref(**cast))) {
            left.entry(kind(cast)).or_default().push(cast);
        }
        new.retain(|cast| {
            let counterpart = left.get_mut(&kind(cast)).and_then(Vec::pop);
            there.extend(counterpart.map(std::ptr::from_ref));
            counterpart.is_none()
        });
    }
    let gone = of_a.into_iter().filter(|cast| !there.contains(&std::ptr::from_ref(*cast)));
    changes.added = new.into_iter().map(CastName::of).collect();
    changes.removed = gone.map(CastName::of).collect();
    changes
}

/// Whether less than half of the smaller model's values have a name that the other one has too: it
/// was exported anew.
fn share_few_names(a: &LoadedModel, b: &LoadedModel) -> bool {
    let (a, b) = (MainGraph::of(&a.probed.proto).made(), MainGraph::of(&b.probed.proto).made());
    let names: HashSet<&String> = b.iter().collect();
    let shared = a.iter().filter(|name| names.contains(name)).count();
    shared * 2 < a.len().min(b.len())
}

/// Where errors grow.
pub(super) struct Growth<'a> {
    pub(super) graph: MainGraph<'a>,
    /// That of the other model, if there is one.
    reference: Option<MainGraph<'a>>,
    /// By the converted side's names; a mask that is cut off has none.
    errors: HashMap<&'a str, f64>,
    /// What is no growth: the roundings of the types, and a part of the outputs' errors.
    floor: f64,
    tensors: Vec<&'a ComparedTensor>,
}

impl<'a> Growth<'a> {
    pub(super) fn of(
        graph: MainGraph<'a>,
        reference: Option<MainGraph<'a>>,
        tensors: impl Iterator<Item = &'a ComparedTensor>,
        outputs: &[ComparedTensor],
    ) -> Growth<'a> {
        let tensors: Vec<&ComparedTensor> = tensors.collect();
        let error =
            |tensor: &ComparedTensor| if tensor.is_masked() { 0.0 } else { tensor.largest_error() };
        let named = |tensor: &&'a ComparedTensor| (tensor.converted(), error(tensor));
        let last = outputs.iter().map(ComparedTensor::largest_error).fold(0.0, f64::max).min(1.0);
        let errors = tensors.iter().map(named).collect();
        Growth { graph, reference, errors, floor: last * 0.02, tensors }
    }

    /// The nodes of the reference and those of the converted model that lie between a tensor and
    /// the next ones before it that are compared.
    fn between(&self, tensor: &ComparedTensor) -> (Vec<&'a NodeProto>, Vec<&'a NodeProto>) {
        let Some(reference) = &self.reference else { return (vec![], vec![]) };
        let of_reference: HashSet<&str> = self.tensors.iter().map(|t| t.name.as_str()).collect();
        let renamed = tensor.converted();
        let is_known = |value: &str| self.errors.contains_key(value);
        (
            reference.unknown_before(&tensor.name, |value| of_reference.contains(value)),
            self.graph.unknown_before(renamed, is_known),
        )
    }

    /// The largest error of what the node takes that makes a value; of what is not compared, that
    /// of what it is made of.
    pub(super) fn before(&self, value: &str) -> f64 {
        let (mut seen, mut largest) = (HashSet::new(), 0f64);
        let mut next: Vec<&str> = self.graph.taken(value).iter().map(String::as_str).collect();
        while let Some(value) = next.pop() {
            if !seen.insert(value) {
                continue;
            }
            match self.errors.get(value) {
                Some(error) => largest = largest.max(*error),
                None => next.extend(self.graph.taken(value).iter().map(String::as_str)),
            }
        }
        largest
    }

    /// The tensors that are not the same value in both models: those that were paired by structure
    /// and whose errors are gone in all that is made of them, such as one behind a product that one
    /// of them has joined with the next; and what converters leave to the range of codes.
    pub(super) fn unlike(&self) -> HashSet<String> {
        let is_unlike = |tensor: &&&ComparedTensor| {
            let name = tensor.converted();
            let is_paired_by_structure = tensor.paired_by == PairedBy::Structure;
            let heals = || self.heals(name, tensor.largest_error());
            !tensor.passed && (self.is_clipped_later(tensor) || is_paired_by_structure && heals())
        };
        self.tensors.iter().filter(is_unlike).map(|tensor| tensor.name.clone()).collect()
    }

    /// Whether the reference clips a value that the conversion leaves to the quantisers behind it.
    fn is_clipped_later(&self, tensor: &ComparedTensor) -> bool {
        let is_clip = |op: Option<&str>| matches!(op, Some("Relu" | "Clip"));
        let name = tensor.converted();
        let op = self.reference.as_ref().and_then(|reference| reference.op(&tensor.name));
        let mut users = self.graph.users(name).iter().filter_map(|p| self.graph.nodes().get(*p));
        is_clip(op)
            && !is_clip(self.graph.op(name))
            && !self.graph.users(name).is_empty()
            && users.all(|node| node.op_type == "QuantizeLinear")
    }

    fn heals(&self, value: &str, error: f64) -> bool {
        let (mut seen, mut next) = (HashSet::new(), vec![value]);
        let mut is_used = false;
        while let Some(value) = next.pop() {
            for made in self.graph.made_of(value) {
                match self.errors.get(made) {
                    Some(behind) if *behind > error * HEALED => return false,
                    Some(_) => is_used = true,
                    None if seen.insert(made) => next.push(made),
                    None => {}
                }
            }
        }
        is_used
    }

    /// The tensor whose error is the most times as large as that of what it is made of.
    pub(super) fn largest(&self) -> Option<&'a ComparedTensor> {
        let mut best: Option<(f64, &ComparedTensor)> = None;
        for tensor in &self.tensors {
            let name = tensor.converted();
            let floor = self.floor + rounding_of(tensor);
            let Some(&after) = self.errors.get(name) else { continue };
            let before = self.before(name);
            // What is infinitely far off is so everywhere behind.
            let grown = (after.min(MOST) + floor) / (before.min(MOST) + floor);
            if after > floor && grown > 2.0 && best.is_none_or(|(most, _)| grown > most) {
                best = Some((grown, tensor));
            }
        }
        best.map(|(_, tensor)| tensor)
    }
}

/// What is left of an error that is gone, at most.
const HEALED: f64 = 0.02;

/// An error beyond which it does not matter how large it is.
const MOST: f64 = 1e3;

/// A few roundings to the coarser of a tensor's two types.
fn rounding_of(tensor: &ComparedTensor) -> f64 {
    let bits = |ty: &str| match ElementType::from_name(ty).map(ElementType::family) {
        Some(Family::Float(format)) => format.mantissa_bits.min(20) as i32,
        _ => 20,
    };
    4.0 * 0.5f64.powi(bits(&tensor.reference_type).min(bits(&tensor.converted_type)) + 1)
}
