//! Nodes that both models have: what one makes of the reference's values, the reference has made.

use tract_onnx::pb::AttributeProto;
use tract_onnx_cast::Family;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, SharedTensor};

use super::super::doubt::Twin;
use super::super::numbers::{is_computed_in, wide};
use super::super::trace::{full_name, name_in};
use super::Walk;

/// Operators that round, of which a twin is free.
const ROUNDS: &[&str] = &["Cast", "CastLike", "DequantizeLinear", "QuantizeLinear"];
/// Operators that make of one input something else each time.
const RANDOM: &[&str] =
    &["Bernoulli", "Dropout", "Multinomial", "RandomNormalLike", "RandomUniformLike"];

impl Walk<'_> {
    /// What the reference has made, where a node is one of its nodes and its twins are the very
    /// values that this was given; `None` where that is not known.
    pub(super) fn made_by_reference(
        &self,
        node: &NodeRun,
        twins: &[Option<Twin>],
    ) -> Option<Vec<Option<SharedTensor>>> {
        let is_onnx = matches!(node.domain, "" | "ai.onnx");
        let is_other = ROUNDS.contains(&node.op_type) || RANDOM.contains(&node.op_type);
        let takes_others = !node.takes_tensors() || node.inputs.iter().all(Option::is_none);
        let is_inside = node.has_bodies() || self.bodies.is_inside();
        if !is_onnx || is_other || takes_others || is_inside {
            return None;
        }
        let first = node.output_names().flatten().next()?;
        let name = name_in(&node.graph, first);
        let link = self.links.get(&name).filter(|_| !self.moved.has(&name))?;
        let ran = self.reference.maker(&link.reference)?;
        // What is beside one model is not beside the other.
        let is_beside = |held: &AttributeProto| {
            held.t.iter().chain(&held.tensors).any(|tensor| !tensor.external_data.is_empty())
        };
        if self.reference.iterated(&link.reference).is_some()
            || node.attributes.iter().any(is_beside)
        {
            return None;
        }
        let is_alike = (&*ran.op, &*ran.domain, ran.opset)
            == (node.op_type, node.domain, node.opset)
            && ran.attributes == *node.attributes
            && ran.inputs.len() == twins.len()
            // `Split` makes as many parts as it has outputs.
            && ran.outputs.len() == node.output_names().count();
        let given = ran.inputs.iter().zip(node.inputs.iter().zip(twins));
        let mut given = given.map(|(name, pair)| match pair {
            (Some(input), Some(twin)) => self.is_of_reference(name, input, twin),
            _ => name.is_empty(),
        });
        if !is_alike || !given.all(|is_of_reference| is_of_reference) {
            return None;
        }
        let made = node.output_names().enumerate().map(|(place, output)| match output {
            None => Some(None),
            Some(_) => {
                let made = self.reference.first(ran.outputs.get(place)?)?;
                is_free(made).then(|| Some(made.clone()))
            }
        });
        made.collect()
    }

    /// Whether the twin of an input is the value that the reference has under a name.
    fn is_of_reference(&self, name: &str, input: &ObservedTensor, twin: &Twin) -> bool {
        let own = full_name(input);
        if input.is_constant {
            let kept = self.reference.constant(name);
            return self.weights.cast_of(&own) == Some(name) && is_free(&twin.value)
                || kept.is_some_and(|kept| is_same(kept, &twin.value));
        }
        let is_paired = self.links.get(&own).is_some_and(|link| link.reference == name);
        let is_replaced = self.sites.get(&own).is_some_and(|site| site.is_replaced);
        let form = self.reference.form(name);
        let is_form = form == Some((twin.value.0, twin.value.1.shape()));
        is_paired && is_replaced && is_form && is_free(&twin.value) && !self.moved.has(&own)
    }
}

/// Whether two values are one, bit for bit; no text.
fn is_same((ty, one): &SharedTensor, (other_ty, other): &SharedTensor) -> bool {
    let is_alike = ty == other_ty && one.shape() == other.shape() && ty.family() != Family::Text;
    is_alike && one.as_bytes() == other.as_bytes()
}

/// Whether twins have the type of a value: it is computed in, and no half precision.
fn is_free((ty, _): &SharedTensor) -> bool {
    is_computed_in(*ty) && wide(*ty) == *ty
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use onnx_cast_graph::{int_attribute, message_node, named_value, sized_type};
    use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
    use tract_onnx::prelude::{TractError, TractResult, tensor0, tensor1, tensor2};
    use tract_onnx_cast::interpreter::{Interpreter, Observer};
    use tract_onnx_cast::{ElementType, OnnxTensor, Result, tensor_proto};

    use super::super::super::links::Link;
    use super::super::super::reference_weights::ReferenceWeights;
    use super::super::super::trace::Trace;
    use super::*;

    /// A model of these nodes, which make y of x and a constant c.
    fn model(opset: i64, constant: f32, node: Vec<NodeProto>) -> TractResult<Interpreter> {
        model_of(ElementType::Float, opset, constant, node)
    }

    /// As [`model`], with an x of a type.
    fn model_of(
        ty: ElementType,
        opset: i64,
        constant: f32,
        node: Vec<NodeProto>,
    ) -> TractResult<Interpreter> {
        let value = |name: &str| ValueInfoProto {
            r#type: Some(sized_type(ty as i32, &[2, 2])),
            ..named_value(name)
        };
        let graph = GraphProto {
            name: "g".into(),
            node,
            initializer: vec![
                tensor_proto::write("c", ElementType::Float, &tensor1(&[constant]))?,
                tensor_proto::write("first", ElementType::Int64, &tensor0(0i64))?,
            ],
            input: vec![value("x")],
            output: vec![named_value("y")],
            ..GraphProto::default()
        };
        let import = OperatorSetIdProto { version: opset, ..OperatorSetIdProto::default() };
        let model = ModelProto {
            ir_version: 8,
            opset_import: vec![import],
            graph: Some(graph),
            ..ModelProto::default()
        };
        Ok(Interpreter::of_proto(tract_onnx_cast::onnx(), model, None)?)
    }

    /// `r = Relu(x)`, `s = Add(r, c)`, `y = Softmax<axis>(s)`.
    fn softmax(opset: i64, constant: f32, axis: i64) -> TractResult<Interpreter> {
        let last = NodeProto {
            attribute: vec![int_attribute("axis", axis)],
            ..message_node("Softmax", &["s"], "y")
        };
        let nodes = vec![message_node("Relu", &["x"], "r"), message_node("Add", &["r", "c"], "s")];
        model(opset, constant, nodes.into_iter().chain([last]).collect())
    }

    /// `r = Relu(x)`, `s = Add(r, c)`, and what a node takes of a sequence q of these in an order.
    fn taken(order: [&str; 2], last: NodeProto) -> TractResult<Interpreter> {
        let nodes = vec![message_node("Relu", &["x"], "r"), message_node("Add", &["r", "c"], "s")];
        let sequence = message_node("SequenceConstruct", &order, "q");
        model(17, 1.0, nodes.into_iter().chain([sequence, last]).collect())
    }

    /// A walk that notes which of its nodes are the reference's own. Those that are given its very
    /// values it knows before they run.
    struct Noted<'a> {
        walk: Walk<'a>,
        own: Vec<bool>,
        is_of_one_type: bool,
    }

    impl Observer for Noted<'_> {
        fn known(&mut self, node: &NodeRun) -> Option<Vec<Option<SharedTensor>>> {
            let twins = self.walk.twins_of(node);
            let is_own = self.walk.made_by_reference(node, &twins).is_some();
            let known = self.walk.known(node);
            assert_eq!(known.is_some(), is_own && self.is_of_one_type);
            self.own.push(is_own);
            known
        }

        fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
            self.walk.node(node, outputs)
        }
    }

    /// Which nodes of a conversion, whose input is of a type, are its reference's own.
    fn noted_of(
        reference: &Interpreter,
        conversion: &Interpreter,
        ty: ElementType,
    ) -> TractResult<Vec<bool>> {
        let given = |ty: ElementType| {
            let floats = tensor2(&[[1f32, -2.0], [3.0, 4.0]]);
            OnnxTensor::new(ty, floats.cast_to_dt(ty.datum_type())?.into_owned())
                .map_err(Into::<TractError>::into)
        };
        let reference = Trace::of(reference, vec![given(ElementType::Float)?])?;
        let link = |name: &str| (name.into(), Link { reference: name.into(), is_sure: true });
        let (links, weights) = (["r", "s", "y"].map(link).into(), ReferenceWeights::default());
        let walk = Walk::new(&reference, &links, &weights, HashMap::new());
        let is_of_one_type = ty == ElementType::Float;
        let mut noted = Noted { walk, own: vec![], is_of_one_type };
        conversion.run_observed(vec![given(ty)?], &mut noted)?;
        // Also of what did not run the size is known.
        let mut sites = noted.walk.sites.all.iter();
        assert!(sites.all(|site| site.power > 0.0 || site.problem.is_some()));
        Ok(noted.own)
    }

    fn noted(reference: &Interpreter, conversion: &Interpreter) -> TractResult<Vec<bool>> {
        noted_of(reference, conversion, ElementType::Float)
    }

    #[test]
    fn a_node_is_the_references_own_where_nothing_about_it_is_another() -> TractResult<()> {
        let reference = softmax(17, 1.0, 1)?;
        // Of an input nobody says here that it is the reference's.
        let cases = [
            (softmax(17, 1.0, 1)?, [false, true, true]),
            (softmax(17, 1.5, 1)?, [false, false, true]),
            (softmax(17, 1.0, 0)?, [false, true, false]),
            (softmax(18, 1.0, 1)?, [false, false, false]),
        ];
        for (conversion, wanted) in cases {
            assert_eq!(noted(&reference, &conversion)?, wanted);
        }
        Ok(())
    }

    /// What a node makes of roundings it has to make itself.
    #[test]
    fn a_node_of_another_type_runs() -> TractResult<()> {
        let half = ElementType::Float16;
        let nodes = || {
            vec![
                message_node("Relu", &["x"], "r"),
                message_node("Abs", &["r"], "s"),
                message_node("Exp", &["s"], "y"),
            ]
        };
        let reference = model(17, 1.0, nodes())?;
        let conversion = model_of(half, 17, 1.0, nodes())?;
        assert_eq!(noted_of(&reference, &conversion, half)?, [false, true, true]);
        Ok(())
    }

    #[test]
    fn a_split_into_other_parts_is_not_known() -> TractResult<()> {
        let split = |parts: &[&str]| {
            let output = parts.iter().map(ToString::to_string).collect();
            let last = NodeProto { output, ..message_node("Split", &["s"], "y") };
            let nodes =
                vec![message_node("Relu", &["x"], "r"), message_node("Add", &["r", "c"], "s")];
            model(13, 1.0, nodes.into_iter().chain([last]).collect())
        };
        let reference = split(&["y", "t"])?;
        assert_eq!(noted(&reference, &split(&["y", "t"])?)?, [false, true, true]);
        assert_eq!(noted(&reference, &split(&["y"])?)?, [false, true, false]);
        Ok(())
    }

    #[test]
    fn what_a_sequence_holds_is_not_known() -> TractResult<()> {
        let joined = NodeProto {
            attribute: vec![int_attribute("axis", 0)],
            ..message_node("ConcatFromSequence", &["q"], "y")
        };
        for last in [joined, message_node("SequenceAt", &["q", "first"], "y")] {
            let reference = taken(["r", "s"], last.clone())?;
            for order in [["r", "s"], ["s", "r"]] {
                let found = noted(&reference, &taken(order, last.clone())?)?;
                assert_eq!(found, [false, true, false, false], "{} {order:?}", last.op_type);
            }
        }
        Ok(())
    }
}
