//! Type inference: reads every node once, for its meaning and for the types that it makes, before
//! tract analyses the model. It changes nothing in the graph, and of what is lowered already only
//! what casts of this crate's own cast from.
//!
//! A value's type is what its node makes of the types of its inputs by ONNX's schemas, held against
//! what the model declares. Casts, quantisers and operators on half precision are read on the way
//! ([`Meaning`]), so that later passes need not read them again. A type that only tract can tell
//! stays unknown; that is never an exotic one.

use std::sync::Arc;

use onnx_cast_graph::{BodyId, Graph, Node, NodeId, NodeView, ValueId};
use tract_onnx::prelude::TractResult;

use super::subgraphs;
use crate::cast::element_type::ElementType;
use crate::error::{Cause, Error};
use crate::onnx::bit_casts::{BitCastSpec, is_bit_cast};
use crate::onnx::cast_spec::Operator;
use crate::onnx::lowered::{DOMAIN, OperatorForm};
use crate::onnx::node::refusal;
use crate::onnx::operators::behaviour::{Behaviour, ElementUse};
use crate::onnx::operators::foreign;
use crate::onnx::operators::types::{check_inputs, constant_type, output_types};
use crate::onnx::quantizers::{QuantizerSpec, is_quantizer};
use crate::passes::casts::node::{self as casts, CastNode, Fate};
use crate::passes::context::PassContext;
use crate::passes::decompose::made_types;
use crate::passes::facts::carriers;
use crate::passes::facts::fact::{Fact, FactOrigin};
use crate::passes::facts::meaning::Meaning;
use crate::passes::facts::value_type::{
    agree, declared_type, declared_where_made, either_exotic, output_declarations,
};
use crate::passes::half_in_float;
use crate::tensor::proto;

/// What a node makes.
enum InferredOutputs {
    /// Outputs of these types, computed from the node's inputs.
    Types(Vec<Option<ElementType>>),
    /// What its bodies return.
    Facts(Vec<Option<Fact>>),
}

/// Fills [`PassContext::facts`] and [`PassContext::meanings`].
pub(in crate::passes) fn infer(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let main = graph.main();
    let outputs = FactInference { graph, context }.body(main, &[])?;
    context.output_types = outputs.iter().map(|fact| fact.and_then(|fact| fact.ty)).collect();
    Ok(())
}

struct FactInference<'g, 'c, 'o> {
    graph: &'g Graph,
    context: &'c mut PassContext<'o>,
}

impl FactInference<'_, '_, '_> {
    /// Infers the types in a body, whose inputs are fed values of the types `given`, where they are
    /// known. Returns what is known of its outputs.
    fn body(
        &mut self,
        body: BodyId,
        given: &[Option<ElementType>],
    ) -> TractResult<Vec<Option<Fact>>> {
        let graph = self.graph;
        let inputs = self.inputs(body, given);
        self.context.take(inputs, false)?;
        self.constants(body)?;
        for id in graph.nodes_of(body) {
            let inferred = self.node(id);
            let is_cast = self.is_cast(id);
            if self.context.take(inferred, is_cast)?.is_none() {
                self.give_up(id);
            }
        }
        let outputs = graph.body(body).outputs().iter();
        Ok(outputs.map(|output| self.context.facts.get(output.value)).collect())
    }

    fn inputs(&mut self, body: BodyId, given: &[Option<ElementType>]) -> TractResult<()> {
        let graph = self.graph;
        let path = &graph.body(body).path;
        for (index, value) in graph.body(body).inputs().iter().enumerate() {
            let input = graph.value(*value);
            let what = format!("input `{}`", input.name);
            let declared = declared_type(input.declared.as_ref(), &what, path)?;
            let ty = match (declared, given.get(index).copied().flatten()) {
                (Some(declared), Some(fed)) if declared != fed && either_exotic(declared, fed) => {
                    let problem = format!("{what} is declared {declared}, but is fed {fed}");
                    return Err(Error::graph(&**path, problem))?;
                }
                (declared, fed) => declared.or(fed),
            };
            self.context.facts.insert(*value, Fact::data(ty));
        }
        Ok(())
    }

    fn constants(&mut self, body: BodyId) -> TractResult<()> {
        let graph = self.graph;
        for value in graph.body(body).constants() {
            let Some(tensor) = graph.constant(*value) else { continue };
            let checked = proto::check(tensor, self.context.options.folder);
            let Some(ty) = self.context.take(checked, false)? else {
                let ty = ElementType::from_id(tensor.data_type);
                self.context.facts.insert(*value, Fact::data(ty));
                continue;
            };
            // An initializer that is also an input is that input's default.
            let declared = self.context.facts.ty(*value).filter(|declared| *declared != ty);
            if let Some(declared) = declared {
                let problem = format!("{ty}, but the graph's input of that name is {declared}");
                let tensor = graph.value(*value).name.to_string();
                let error = Error::from(Cause::Tensor { tensor, problem });
                self.context.take::<()>(Err(error.into()), false)?;
            }
            self.context.facts.insert(*value, Fact { ty: Some(ty), origin: FactOrigin::Constants });
        }
        Ok(())
    }

    /// The type that the graph declares of a value that a node makes, an output's declaration
    /// before the others, but for what options have it overlook. Fails where a declaration is of no
    /// type.
    fn declared(&self, value: ValueId) -> TractResult<Option<ElementType>> {
        let (made, options) = (self.graph.value(value), self.context.options);
        if made.declared.is_none() && !made.is_output() {
            return Ok(None);
        }
        let what = format!("value `{}`", made.name);
        let path = &self.graph.body(made.body()).path;
        let of_outputs = output_declarations(self.graph, value)
            .filter(|(body, _)| !options.ignore_output_types && *body == made.body());
        for (_, declared) in of_outputs {
            if let Some(ty) = declared_type(declared, &what, path)? {
                return Ok(Some(ty));
            }
        }
        let declared = made.declared.as_ref().filter(|_| !options.ignore_value_info);
        Ok(declared_type(declared, &what, path)?)
    }

    /// What is declared of a value, where options have it overlooked.
    fn overlooked(&self, value: ValueId) -> Option<ElementType> {
        let options = self.context.options;
        if !options.ignore_value_info && !options.ignore_output_types {
            return None;
        }
        declared_where_made(self.graph, value)
    }

    fn node(&mut self, id: NodeId) -> TractResult<()> {
        let node = self.graph.node(id);
        let behaviour = Behaviour::of(node);
        let origin = self.origin(id, behaviour);
        let made = self.made(id, behaviour, origin)?;
        let by_cast = self.is_cast(id);
        for (index, value) in node.outputs().iter().enumerate() {
            let Some(value) = *value else { continue };
            let (ty, returned) = match &made {
                InferredOutputs::Types(types) => (types.get(index).copied().flatten(), None),
                InferredOutputs::Facts(facts) => {
                    let fact = facts.get(index).copied().flatten();
                    (fact.and_then(|fact| fact.ty), Some(fact))
                }
            };
            let declared = self.declared(value)?;
            let name = &self.graph.value(value).name;
            let refuse = |problem| refusal(node, problem);
            let ty = agree(name, ty, declared, by_cast).map_err(refuse)?;
            if let Some(overlooked) = self.overlooked(value) {
                let contradiction = agree(name, ty, Some(overlooked), by_cast).map_err(refuse);
                self.context.overlooked.extend(contradiction.err());
            }
            let fact = match returned {
                Some(Some(fact)) => Fact { ty, origin: fact.origin.max(origin) },
                Some(None) => Fact::data(ty),
                None => Fact { ty, origin },
            };
            self.context.facts.insert(value, fact);
        }
        Ok(())
    }

    /// Whether a node is a `Cast` or `CastLike` of the file's.
    fn is_cast(&self, id: NodeId) -> bool {
        *self.context.form(id) == OperatorForm::Own && Operator::of(self.graph.node(id)).is_some()
    }

    /// What a node's outputs are computed from.
    fn origin(&self, id: NodeId, behaviour: &Behaviour) -> FactOrigin {
        let is_measured = behaviour.elements(self.graph.node(id)) == ElementUse::Measured;
        if is_measured || behaviour.is_undetermined {
            return FactOrigin::Data;
        }
        let needed = self.graph.needs(id);
        let facts = needed.iter().filter_map(|value| self.context.facts.get(*value));
        facts.map(|fact| fact.origin).max().unwrap_or(FactOrigin::Constants)
    }

    fn made(
        &mut self,
        id: NodeId,
        behaviour: &Behaviour,
        origin: FactOrigin,
    ) -> TractResult<InferredOutputs> {
        let node = self.graph.node(id);
        let form = self.context.form(id);
        if *form != OperatorForm::Own {
            let made = form.made_type();
            self.cast_from(id);
            return Ok(InferredOutputs::Types(vec![made]));
        }
        if node.domain() == DOMAIN {
            return Err(refusal(node, format!("domain `{DOMAIN}` is this crate's own")))?;
        }
        let inputs = self.context.facts.inputs(node);
        let types: Vec<Option<ElementType>> =
            inputs.iter().map(|fact| fact.and_then(|fact| fact.ty)).collect();
        if Operator::of(node).is_some() {
            let is_constant = origin == FactOrigin::Constants;
            let (cast, private) = casts::read(self.graph, node, &types, is_constant)?;
            let to = cast.to;
            self.context.meanings.insert(id, Meaning::Cast(Box::new(cast), private));
            return Ok(InferredOutputs::Types(vec![to]));
        }
        if let Some(attribute) = node.attributes.iter().find(|a| !a.ref_attr_name.is_empty()) {
            let name = &attribute.name;
            let problem = format!("attribute `{name}` refers to an attribute of a function");
            return Err(refusal(node, problem))?;
        }
        if is_quantizer(node) {
            return self.quantizer(id, &inputs);
        }
        if is_bit_cast(node) {
            let spec = BitCastSpec::of(node, types.first().copied().flatten())?;
            let to = spec.to;
            self.context.meanings.insert(id, Meaning::BitCast(spec));
            return Ok(InferredOutputs::Types(vec![Some(to)]));
        }
        let tensor_type = self.attribute_tensors(node)?;
        let makes_tensor = behaviour.makes_attributes;
        if let Some(ty) = tensor_type.filter(|ty| ty.is_exotic() && !makes_tensor) {
            let problem = format!("has a tensor of {ty}, which it cannot compute with");
            return Err(refusal(node, problem))?;
        }
        let returned = self.bodies(id, &types)?;
        if !returned.is_empty() {
            return Ok(InferredOutputs::Facts(subgraphs::join(node, &types, &returned)?));
        }
        if makes_tensor {
            return Ok(InferredOutputs::Types(vec![tensor_type.or_else(|| constant_type(node))]));
        }
        self.computed(id, &inputs, types)
    }

    /// Tells a cast of this crate's own from which type it casts, where whoever wrote it did not
    /// know: tract holds elements of an exotic type as integers.
    fn cast_from(&mut self, id: NodeId) {
        let given = self.context.facts.types(self.graph.node(id)).first().copied().flatten();
        let lowered = self.context.lowered.get_mut(id).map(|lowered| &mut lowered.form);
        if let (Some(OperatorForm::Cast(cast)), Some(ty)) = (lowered, given)
            && ty.is_exotic()
        {
            cast.from = Some(ty);
        }
    }

    /// The types that an operator makes that is none of this crate's.
    fn computed(
        &mut self,
        id: NodeId,
        inputs: &[Option<Fact>],
        types: Vec<Option<ElementType>>,
    ) -> TractResult<InferredOutputs> {
        let node = self.graph.node(id);
        // What stands for it takes types that it could not be built of.
        if made_types::is_composed(node, self.context.options.registered) {
            return Ok(InferredOutputs::Types(made_types::output_types(node, &types)));
        }
        let mut declared = vec![];
        for value in node.outputs() {
            declared.push(value.map_or(Ok(None), |value| self.declared(value))?);
        }
        let widening = &self.context.options.widening;
        let name = |place| self.output_name(node, place);
        if let Some(halves) = half_in_float::read(node, inputs, &declared, &name, widening)? {
            let outputs = halves.outputs().to_vec();
            self.context.meanings.insert(id, Meaning::Half(halves));
            return Ok(InferredOutputs::Types(outputs));
        }
        if let Some(outputs) = carriers::move_through(node, node.opset, &types)? {
            return Ok(InferredOutputs::Types(outputs));
        }
        check_inputs(node, node.opset, &types)?;
        let mut outputs = output_types(node, node.opset, &types);
        if outputs.iter().all(Option::is_none) {
            outputs.splice(.., made_types::output_types(node, &types));
        }
        if outputs.iter().all(Option::is_none) {
            // Of what tract builds itself, whatever its domain.
            let known = foreign::output_types(node, &types);
            outputs = known.into_iter().map(|ty| ty.filter(|ty| !ty.is_exotic())).collect();
        }
        match outputs.iter().flatten().find(|ty| ty.is_exotic()) {
            Some(ty) => Err(refusal(node, format!("cannot compute a result of {ty}")))?,
            None => Ok(InferredOutputs::Types(outputs)),
        }
    }

    fn output_name(&self, node: &Node, place: usize) -> Arc<str> {
        node.output(place).map_or("".into(), |value| self.graph.value(value).name.clone())
    }

    fn quantizer(&mut self, id: NodeId, inputs: &[Option<Fact>]) -> TractResult<InferredOutputs> {
        let node = self.graph.node(id);
        let mut spec = QuantizerSpec::parse(node, node.opset)?;
        let fact = |index: usize| inputs.get(index).copied().flatten();
        let types = [0, 1, 2].map(|index| fact(index).and_then(|fact| fact.ty));
        let is_constant =
            |index: usize| fact(index).is_some_and(|fact| fact.origin == FactOrigin::Constants);
        let given = if spec.has_zero_point { 3 } else { 2 };
        let is_constant = (0..given).all(is_constant);
        let quantizer = spec.check(types, node.path.clone(), is_constant)?;
        let y = quantizer.y;
        self.context.meanings.insert(id, Meaning::Quantizer(Box::new(quantizer), spec));
        Ok(InferredOutputs::Types(vec![y]))
    }

    /// Checks the tensors among a node's attributes, and returns the type of the first.
    fn attribute_tensors(&self, node: &Node) -> TractResult<Option<ElementType>> {
        let mut first = None;
        for attribute in &node.attributes {
            for tensor in attribute.t.iter().chain(&attribute.tensors) {
                let checked = if tensor.name.is_empty() {
                    // Messages name a tensor, which this one is not.
                    let checked = proto::check(tensor, self.context.options.folder);
                    checked.map_err(|error| named(error, node, &attribute.name))
                } else {
                    proto::check(tensor, self.context.options.folder)
                };
                first = first.or(Some(checked?));
            }
        }
        Ok(first)
    }

    /// Infers the types in a node's bodies, and tells what each returns.
    fn bodies(
        &mut self,
        id: NodeId,
        inputs: &[Option<ElementType>],
    ) -> TractResult<Vec<Vec<Option<Fact>>>> {
        let node = self.graph.node(id);
        let fed = subgraphs::fed_types(node, inputs);
        node.bodies().iter().map(|held| self.body(held.body, &fed)).collect()
    }

    /// Goes on after a node that is wrong: its outputs are what is declared, and a cast is listed
    /// as far as it can be read.
    fn give_up(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        if let Some(operator) = Operator::of(node).filter(|_| self.is_cast(id)) {
            let known = match self.context.meanings.remove(id) {
                Some(Meaning::Cast(cast, _)) => Some(*cast),
                _ => None,
            };
            let types = self.context.facts.types(node);
            let cast = known.unwrap_or_else(|| casts::unsound(self.graph, node, operator, &types));
            let cast = CastNode { fate: Fate::Refused, ..cast };
            self.context.meanings.insert(id, Meaning::Refused(Box::new(cast)));
        }
        for value in node.outputs().iter().flatten() {
            let declared = self.declared(*value).ok().flatten();
            self.context.facts.insert(*value, Fact::data(declared));
        }
    }
}

/// An error about a tensor without a name, as about one that is called after its node and
/// attribute.
fn named(error: anyhow::Error, node: &Node, attribute: &str) -> anyhow::Error {
    match error.downcast_ref::<Error>().map(Error::cause) {
        Some(Cause::Tensor { tensor, problem }) if tensor.is_empty() => {
            let tensor = format!("{}.{attribute}", node.label());
            Error::from(Cause::Tensor { tensor, problem: problem.clone() }).into()
        }
        _ => error,
    }
}
