//! The walk through a model's graphs, in the order of computation: what each node is in tract.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use tract_onnx::data_resolver::ModelDataResolver;
use tract_onnx::model::OnnxOpRegister;
use tract_onnx::pb::{GraphProto, NodeProto, TensorProto};
use tract_onnx::prelude::TractResult;

use super::annotation::{self, AT_OPSET, DOMAIN};
use super::casts::{self, CastNode, Fate};
use super::declared_types::{agree, declared_type, either_exotic, set_carrier};
use super::fact::{Fact, Origin};
use super::functions::inline::{Call, Calls};
use super::limits::{
    SQUEEZE_OF_ALL, forget_intricate_dimensions, give_default_value, give_mask_of_numbers,
    is_squeeze_of_all, name_nodes_apart, name_unused_outputs,
};
use super::node::{is_default_domain, node_name, refusal};
use super::operators::behaviour::{Behaviour, Elements};
use super::operators::types::{constant_type, output_types};
use super::quantizers::QuantizerNode;
use super::scope::{Place, Scope, step};
use super::size::Limits;
use super::spec::Operator;
use super::tolerance::{Survey, Tolerance};
use super::widen::{self, Widened, WidenedNode, Widening};
use super::{bit_casts, carriers, contrib, order, outputs, quantizers, subgraphs};
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::tensor::proto;

/// What to rewrite by.
pub(crate) struct Options<'a> {
    /// Where external data is looked for.
    pub(crate) folder: Option<&'a Path>,
    /// How external data is read.
    pub(crate) resolver: &'a dyn ModelDataResolver,
    /// The operators that tract is to build, by name.
    pub(crate) operators: &'a OnnxOpRegister,
    /// Whether a declared type of an inner value that contradicts the graph is overlooked.
    pub(crate) ignore_value_info: bool,
    /// Whether a declared type of an output that contradicts the graph is overlooked.
    pub(crate) ignore_output_types: bool,
    /// What computes in FLOAT instead of half precision.
    pub(crate) widening: Widening,
    /// Whether each cast is to be followed by a probe.
    pub(crate) probes: bool,
    /// How large the model may be.
    pub(crate) limits: Limits,
}

/// What a graph takes and makes.
pub(super) struct GraphTypes {
    pub(super) inputs: HashMap<String, ElementType>,
    pub(super) outputs: Vec<Option<Fact>>,
}

/// What a node makes.
enum Made {
    /// Outputs of these types, computed from the node's inputs.
    Types(Vec<Option<ElementType>>),
    /// What its subgraphs return.
    Facts(Vec<Option<Fact>>),
}

/// The walk through a model.
pub(super) struct Rewriter<'a> {
    opset: i64,
    calls: Calls,
    options: &'a Options<'a>,
    casts: Vec<CastNode>,
    widened: Vec<WidenedNode>,
    quantizers: Vec<QuantizerNode>,
    tolerance: Tolerance,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(
        opset: i64,
        calls: Calls,
        options: &'a Options<'a>,
        tolerance: Tolerance,
    ) -> Rewriter<'a> {
        let (casts, widened, quantizers) = (vec![], vec![], vec![]);
        Rewriter { opset, calls, options, casts, widened, quantizers, tolerance }
    }

    /// What was found.
    pub(super) fn into_survey(self) -> Survey {
        let Rewriter { casts, widened, quantizers, tolerance, .. } = self;
        Survey { casts, widened, quantizers, problems: tolerance.into_problems() }
    }
}

impl Rewriter<'_> {
    fn call(&self, node: &NodeProto) -> Option<&Rc<Call>> {
        self.calls.get(&node.name)
    }

    /// The opset of the default domain by which a node is to be understood.
    fn opset(&self, node: &NodeProto) -> i64 {
        self.call(node).map_or(self.opset, |call| call.opset)
    }

    /// Rewrites a graph. `given` are the types of its inputs as the enclosing node feeds them, where it is one that does.
    pub(super) fn graph(
        &mut self,
        graph: &mut GraphProto,
        place: Place,
        given: &[Option<ElementType>],
    ) -> TractResult<GraphTypes> {
        let order =
            order::sort(graph, |name| place.outer.is_some_and(|outer| outer.get(name).is_some()));
        let order = self.tolerance.take(order.map_err(Into::into), false)?;
        let order = order.unwrap_or_else(|| (0..graph.node.len()).collect());
        let mut scope = Scope::within(place.outer);
        let inputs = self.inputs(graph, &place, given, &mut scope);
        let inputs = self.tolerance.take(inputs, false)?.unwrap_or_default();
        self.initializers(graph, &mut scope)?;
        let declared = self.declared_types(graph, &place);
        let declared = self.tolerance.take(declared, false)?.unwrap_or_default();
        let (ranks, mut added) = (contrib::ranks(graph), vec![]);
        for index in order {
            let Some(node) = graph.node.get_mut(index) else { continue };
            let types = scope.types(&node.input);
            let parts = contrib::write_out(node, &types, &ranks, self.options.operators);
            let parts = self.tolerance.take(parts.map_err(Into::into), false)?.unwrap_or_default();
            for mut part in parts {
                if let Some(call) = self.call(node).cloned() {
                    self.calls.insert(part.name.clone(), call);
                }
                self.node_or_less(&mut part, &place, &declared, &mut scope)?;
                added.push(part);
            }
            self.node_or_less(node, &place, &declared, &mut scope)?;
        }
        graph.node.append(&mut added);
        graph.node.append(&mut scope.added);
        graph.value_info.clear();
        for value in graph.input.iter_mut().chain(&mut graph.output) {
            forget_intricate_dimensions(value);
        }
        let names: Vec<String> = graph.output.iter().map(|output| output.name.clone()).collect();
        let outputs = scope.facts(&names);
        let prepared = outputs::prepare(graph, &place, &declared, &scope);
        self.tolerance.take(prepared.map_err(Into::into), false)?;
        name_nodes_apart(graph);
        Ok(GraphTypes { inputs, outputs })
    }

    /// As [`Rewriter::node`], unless what is wrong with the node is tolerated.
    fn node_or_less(
        &mut self,
        node: &mut NodeProto,
        place: &Place,
        declared: &HashMap<String, ElementType>,
        scope: &mut Scope,
    ) -> TractResult<()> {
        let (listed, is_cast) = (self.casts.len(), Operator::of(node).is_some());
        let walked = self.node(node, place, declared, scope);
        if self.tolerance.take(walked, is_cast)?.is_none() {
            self.give_up(node, place, declared, scope, listed);
        }
        Ok(())
    }

    /// Goes on after a node that is wrong: its outputs are what is declared, and a cast is listed as far as it can be read.
    fn give_up(
        &mut self,
        node: &NodeProto,
        place: &Place,
        declared: &HashMap<String, ElementType>,
        scope: &mut Scope,
        listed: usize,
    ) {
        if let Some(operator) = Operator::of(node) {
            let graph = place.of_node(node, self.call(node)).0;
            let types = scope.types(&node.input);
            let unsound = || CastNode::unsound(node, operator, self.opset(node), graph, &types);
            let cast = self.casts.get(listed).cloned().unwrap_or_else(unsound);
            self.casts.truncate(listed);
            self.casts.push(CastNode { fate: Fate::Refused, ..cast });
        }
        for value in node.output.iter().filter(|name| !name.is_empty()) {
            scope.facts.insert(value.clone(), Fact::data(declared.get(value).copied()));
        }
    }

    fn inputs(
        &mut self,
        graph: &mut GraphProto,
        place: &Place,
        given: &[Option<ElementType>],
        scope: &mut Scope,
    ) -> TractResult<HashMap<String, ElementType>> {
        let mut types = HashMap::new();
        for (index, input) in graph.input.iter_mut().enumerate() {
            let what = format!("input `{}`", input.name);
            let declared = declared_type(input, &what, &place.path)?;
            let fed = given.get(index).copied().flatten();
            let ty = match (declared, fed) {
                (Some(declared), Some(fed)) if declared != fed && either_exotic(declared, fed) => {
                    let problem = format!("{what} is declared {declared}, but is fed {fed}");
                    return Err(Error::graph(&*place.path, problem))?;
                }
                (declared, fed) => declared.or(fed),
            };
            if let Some(ty) = ty {
                types.insert(input.name.clone(), ty);
                // A body's inputs need no types in ONNX, but they do in tract.
                if ty.is_exotic() || declared.is_none() {
                    set_carrier(input, ty);
                }
            }
            scope.facts.insert(input.name.clone(), Fact::data(ty));
        }
        Ok(types)
    }

    fn initializers(&mut self, graph: &mut GraphProto, scope: &mut Scope) -> TractResult<()> {
        for tensor in &mut graph.initializer {
            let read = self.tensor(tensor);
            let Some(ty) = self.tolerance.take(read, false)? else {
                let ty = ElementType::from_id(tensor.data_type);
                scope.facts.insert(tensor.name.clone(), Fact::data(ty));
                continue;
            };
            // An initializer that is also an input is that input's default.
            if let Some(Fact { ty: Some(declared), .. }) = scope.facts.get(&tensor.name)
                && *declared != ty
            {
                let problem = format!("{ty}, but the graph's input of that name is {declared}");
                let error = Error::Tensor { tensor: tensor.name.clone(), problem };
                self.tolerance.take(Err::<(), _>(error.into()), false)?;
            }
            scope
                .facts
                .insert(tensor.name.clone(), Fact { ty: Some(ty), origin: Origin::Constants });
        }
        Ok(())
    }

    /// Makes a tensor one that tract reads right.
    fn tensor(&self, tensor: &mut TensorProto) -> TractResult<ElementType> {
        let Options { folder, resolver, .. } = self.options;
        let ty = proto::check(tensor, *folder)?;
        proto::bound_external_data(tensor);
        if ty.is_exotic() || proto::is_misread_by_tract(tensor, ty) {
            let (_, value) = proto::read_with(tensor, *folder, *resolver)?;
            *tensor = proto::as_carrier(&tensor.name, &value)?;
        }
        Ok(ty)
    }

    /// The types that the graph declares for values that nodes make.
    fn declared_types(
        &self,
        graph: &GraphProto,
        place: &Place,
    ) -> TractResult<HashMap<String, ElementType>> {
        let value_info = graph.value_info.iter().filter(|_| !self.options.ignore_value_info);
        let outputs = graph.output.iter().filter(|_| !self.options.ignore_output_types);
        let mut types = HashMap::new();
        for value in value_info.chain(outputs) {
            let what = format!("value `{}`", value.name);
            if let Some(ty) = declared_type(value, &what, &place.path)? {
                types.insert(value.name.clone(), ty);
            }
        }
        Ok(types)
    }

    fn node(
        &mut self,
        node: &mut NodeProto,
        place: &Place,
        declared: &HashMap<String, ElementType>,
        scope: &mut Scope,
    ) -> TractResult<()> {
        let operator = Operator::of(node);
        let behaviour = Behaviour::of(node);
        let used = order::used_names(node);
        let origins = used.iter().filter_map(|name| scope.get(name)).map(|fact| fact.origin);
        let is_measured = behaviour.elements(node) == Elements::Measured;
        let origin = match is_measured || behaviour.is_undetermined {
            true => Origin::Data,
            false => origins.max().unwrap_or(Origin::Constants),
        };
        let (name, op) = (node_name(node), node.op_type.clone());
        let opset = self.opset(node);
        name_unused_outputs(node, opset);
        let values = node.output.clone();
        let made = match operator {
            Some(_) => Made::Types(vec![self.cast(node, place, origin, scope)?]),
            None => self.ordinary(node, place, declared, origin, scope)?,
        };
        // tract counts a node's outputs, unused ones at the end included.
        while operator.is_none() && node.output.last().is_some_and(String::is_empty) {
            node.output.pop();
        }
        for (index, value) in values.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let (ty, returned) = match &made {
                Made::Types(types) => (types.get(index).copied().flatten(), None),
                Made::Facts(facts) => {
                    let fact = facts.get(index).copied().flatten();
                    (fact.and_then(|fact| fact.ty), Some(fact))
                }
            };
            let declared = declared.get(value).copied();
            let refuse = |problem| Error::of_node(&name, &op, problem);
            let ty = agree(value, ty, declared, operator.is_some()).map_err(refuse)?;
            let fact = match returned {
                Some(Some(fact)) => Fact { ty, origin: fact.origin.max(origin) },
                Some(None) => Fact::data(ty),
                None => Fact { ty, origin },
            };
            scope.facts.insert(value.clone(), fact);
        }
        let built_by = if is_squeeze_of_all(node, opset) { SQUEEZE_OF_ALL } else { opset };
        let has_own_opset = operator.is_some() || node.domain == DOMAIN || op == AT_OPSET;
        if !has_own_opset && built_by != place.opset {
            annotation::wrap_at_opset(node, built_by);
        }
        Ok(())
    }

    /// Gives a `Cast` or `CastLike` node its private form, and returns its target type.
    fn cast(
        &mut self,
        node: &mut NodeProto,
        place: &Place,
        origin: Origin,
        scope: &Scope,
    ) -> TractResult<Option<ElementType>> {
        let graph = place.of_node(node, self.call(node)).0;
        let inputs = scope.types(&node.input);
        let is_constant = origin == Origin::Constants;
        let cast = casts::make_private(node, self.opset(node), graph, &inputs, is_constant)?;
        let to = cast.to;
        self.casts.push(cast);
        if self.options.probes {
            annotation::mark_probe(node, self.casts.len() - 1);
        }
        Ok(to)
    }

    /// Rewrites what a node holds that is no cast, and returns what it makes.
    fn ordinary(
        &mut self,
        node: &mut NodeProto,
        place: &Place,
        declared: &HashMap<String, ElementType>,
        origin: Origin,
        scope: &mut Scope,
    ) -> TractResult<Made> {
        if node.domain == DOMAIN {
            return Ok(Made::Types(vec![annotation::private_type(node)?]));
        }
        if let Some(attribute) = node.attribute.iter().find(|a| !a.ref_attr_name.is_empty()) {
            let name = &attribute.name;
            let problem = format!("attribute `{name}` refers to an attribute of a function");
            return Err(refusal(node, problem))?;
        }
        if quantizers::is_quantizer(node) {
            let graph = place.of_node(node, self.call(node)).0;
            let inputs = scope.facts(&node.input);
            let made = quantizers::make_private(node, self.opset(node), graph, &inputs)?;
            let y = made.y;
            if self.options.probes && made.quantizes() {
                annotation::mark_probe(node, self.casts.len());
                self.casts.push(CastNode::quantizer(node, &made));
            }
            self.quantizers.push(made);
            return Ok(Made::Types(vec![y]));
        }
        if bit_casts::is_bit_cast(node) {
            let input = scope.types(&node.input).first().copied().flatten();
            let made = bit_casts::make_private(node, self.opset(node), input)?;
            return Ok(Made::Types(vec![Some(made)]));
        }
        if node.op_type == "ConstantOfShape" && is_default_domain(&node.domain) {
            give_default_value(node);
        }
        let tensor_type = self.attribute_tensors(node)?;
        let makes_tensor = Behaviour::of(node).makes_attributes;
        if let Some(ty) = tensor_type.filter(|ty| ty.is_exotic() && !makes_tensor) {
            let problem = format!("has a tensor of {ty}, which it cannot compute with");
            return Err(refusal(node, problem))?;
        }
        let inputs = scope.types(&node.input);
        let returned = self.subgraphs(node, place, scope, &inputs)?;
        if !returned.is_empty() {
            return Ok(Made::Facts(subgraphs::join(node, &inputs, &returned)?));
        }
        if makes_tensor {
            return Ok(Made::Types(vec![tensor_type.or_else(|| constant_type(node))]));
        }
        let opset = self.opset(node);
        let name = node_name(node);
        let widened = widen::widen(node, opset, &inputs, &self.options.widening, declared, scope)?;
        let is_widened = widened.as_ref().is_some_and(|widened| widened.computes.is_some());
        let data_type = inputs.first().copied().flatten().filter(|_| !is_widened);
        give_mask_of_numbers(node, &inputs, data_type.unwrap_or(ElementType::Float), scope);
        if let Some(Widened { outputs, computes, rounded }) = widened {
            let operator = node.op_type.clone();
            for (value, ty) in rounded.iter().filter(|_| self.options.probes) {
                let graph = place.of_node(node, self.call(node)).0;
                let is_constant = origin == Origin::Constants;
                scope.mark_probe(value, self.casts.len());
                self.casts.push(CastNode::rounding(node, value, *ty, opset, graph, is_constant));
            }
            self.widened.extend(computes.map(|ty| WidenedNode { node: name, operator, ty }));
            return Ok(Made::Types(outputs));
        }
        if let Some(outputs) = carriers::move_through(node, opset, &inputs)? {
            return Ok(Made::Types(outputs));
        }
        let outputs = output_types(node, opset, &inputs);
        match outputs.iter().flatten().find(|ty| ty.is_exotic()) {
            Some(ty) => Err(refusal(node, format!("cannot compute a result of {ty}")))?,
            None => Ok(Made::Types(outputs)),
        }
    }

    /// Rewrites the tensors among a node's attributes, and returns the type of the first.
    fn attribute_tensors(&self, node: &mut NodeProto) -> TractResult<Option<ElementType>> {
        let mut first = None;
        let name = node_name(node);
        for attribute in &mut node.attribute {
            for tensor in attribute.t.iter_mut().chain(&mut attribute.tensors) {
                if tensor.name.is_empty() {
                    tensor.name = format!("{name}.{}", attribute.name);
                }
                let ty = self.tensor(tensor)?;
                first = first.or(Some(ty));
            }
        }
        Ok(first)
    }

    /// Rewrites a node's subgraphs, and tells what each returns.
    fn subgraphs(
        &mut self,
        node: &mut NodeProto,
        place: &Place,
        scope: &Scope,
        inputs: &[Option<ElementType>],
    ) -> TractResult<Vec<Vec<Option<Fact>>>> {
        let call = self.call(node).cloned();
        let opset = self.opset(node);
        let (path, local) = place.of_node(node, call.as_ref());
        let fed = subgraphs::fed_types(node, inputs);
        let mut returned = vec![];
        for attribute in &mut node.attribute {
            let path: Arc<str> = format!("{path}/{}", step(&local, &attribute.name)).into();
            for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                let (path, call) = (path.clone(), call.clone());
                let inside = Default::default();
                let place = Place { path, outer: Some(scope), is_main: false, call, opset, inside };
                returned.push(self.graph(graph, place, &fed)?.outputs);
            }
        }
        Ok(returned)
    }
}
