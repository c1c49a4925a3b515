//! What is remarkable about a model's casts before it runs.

use std::collections::HashMap;

use onnx_cast_graph::{Graph, NodeId, ValueId};
use tract_onnx::prelude::TractResult;

use super::casts::finding::FindingKind;
use super::casts::node::{CastKind, CastNode};
use super::context::PassContext;
use crate::cast::algebra::TypePair;
use crate::cast::element_type::{ElementType, Family};
use crate::cast::reach::{holds_every_integral_part, holds_every_value};
use crate::onnx::operators::behaviour::Behaviour;
use crate::passes::facts::meaning::Meaning;
use crate::passes::facts::value_type::declared_where_made;

/// Looks at the casts of a model, while its types are those of the file. It changes nothing.
pub(super) fn find(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let casts = context.casts.iter().filter(|(_, cast)| matches!(cast.kind, CastKind::Cast(_)));
    let by_node: HashMap<NodeId, &CastNode> = casts.clone().map(|(id, cast)| (*id, cast)).collect();
    let mut found = vec![];
    let mut origins = Origins::default();
    for (id, cast) in casts {
        let mut add = |kind, text| found.push((*id, kind, text));
        let (from, to) = (cast.from, cast.to);
        if let (Some(to), Some(output)) = (to, graph.node(*id).output(0))
            && let Some(declared) =
                declared_where_made(graph, output).filter(|declared| *declared != to)
        {
            let text =
                format!("makes `{}` {to}, but the model declares it {declared}", cast.output);
            add(FindingKind::Contradicted, text);
        }
        let (Some(from), Some(to)) = (from, to) else { continue };
        let step = TypePair { from, to, rules: cast.rules() };
        if from == to {
            let but = if step.is_lossless() { "" } else { ": only infinities change" };
            add(FindingKind::NoOp, format!("casts {from} to itself{but}"));
        }
        if (from, to) == (ElementType::Int64, ElementType::Int32) {
            let text = "INT64 to INT32: values beyond 2147483647 wrap around".into();
            add(FindingKind::Int64ToInt32, text);
        }
        let is_integer = matches!(to.family(), Family::Signed | Family::Unsigned);
        if is_integer && !holds_every_integral_part(from, to) {
            let text =
                format!("{from} to {to}: NaN, infinities and values out of range are undefined");
            add(FindingKind::FloatToInteger, text);
        }
        let before = graph.node(*id).input(0).and_then(|input| origins.of(graph, input));
        let before = before.and_then(|before| match context.meanings.get(before) {
            // What computes in FLOAT rounds its result.
            Some(Meaning::Half(_)) if context.options.probes => {
                Some(CastNode::rounding(graph.node(before), "", from, false))
            }
            _ => by_node.get(&before).map(|cast| (*cast).clone()),
        });
        if let Some(before) = before
            && let Some(first) = before.from
            && first != from
            && let Some((kind, text)) = chain(first, &before, step)
        {
            add(kind, text);
        }
    }
    context.findings = found;
    Ok(())
}

/// The nodes that values have their elements from, past what only gives them another shape or
/// order.
#[derive(Default)]
struct Origins(HashMap<ValueId, Option<NodeId>>);

impl Origins {
    fn of(&mut self, graph: &Graph, value: ValueId) -> Option<NodeId> {
        let (mut at, mut passed) = (value, vec![]);
        let maker = loop {
            if let Some(known) = self.0.get(&at) {
                break *known;
            }
            passed.push(at);
            let Some(maker) = graph.maker(at) else { break None };
            let node = graph.node(maker);
            match node.input(0).filter(|_| Behaviour::of(node).only_rearranges) {
                Some(input) => at = input,
                None => break Some(maker),
            }
        };
        // The next cast of the same chain has one step to go.
        self.0.extend(passed.into_iter().map(|value| (value, maker)));
        maker
    }
}

/// What two casts in a row do, the first of them from another type than the second.
fn chain(first: ElementType, before: &CastNode, step: TypePair) -> Option<(FindingKind, String)> {
    let TypePair { from, to, rules: second } = step;
    let both = format!("{first} became {from} in `{}` and becomes {to}", before.node);
    let direct = TypePair { from: first, to, rules: second };
    if holds_every_value(first, from) {
        let is_lossless = direct.is_lossless() || to == ElementType::String;
        let loss = if is_lossless {
            "nothing is lost".to_owned()
        } else {
            format!("what {to} cannot hold is lost")
        };
        let pair = TypePair { from: first, to: from, rules: before.rules() };
        let advice = if !pair.joins(to) {
            String::new()
        } else if first == to && is_lossless {
            ", and neither cast is needed".to_owned()
        } else {
            format!(", and one cast from {first} to {to} does the same")
        };
        Some((FindingKind::WidenedBefore, format!("{both}: {loss}{advice}")))
    } else if holds_every_value(from, to) || holds_every_value(first, to) {
        let text = format!("{both}: what {from} could not hold is lost");
        Some((FindingKind::NarrowedBefore, text))
    } else {
        None
    }
}
