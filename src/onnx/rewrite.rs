//! `ModelProto` → a `ModelProto` that tract can load.
//!
//! tract's loader knows neither the exotic element types nor what they mean, so the model is rewritten before it gets
//! there: every tensor and type of an exotic kind becomes its carrier's, and every `Cast` node learns what its input
//! really is. For that, element types are followed through the graph and all its subgraphs.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use tract_onnx::data_resolver::ModelDataResolver;
use tract_onnx::model::OnnxOpRegister;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};
use tract_onnx::prelude::TractResult;

use super::annotation::{self, AT_OPSET, DOMAIN};
use super::casts::{self, CastNode};
use super::declared_types::{agree, declared_type, either_exotic, set_carrier};
use super::fact::{Fact, Origin};
use super::functions::inline::{self, Call, Calls};
use super::limits::{
    cast_empty_unsigned, forget_intricate_dimensions, name_nodes_apart, name_unused_outputs,
};
use super::node::{self, attribute, is_default_domain, node_name, refusal};
use super::operators::behaviour::{Behaviour, Elements};
use super::operators::types::output_types;
use super::quantizers::QuantizerNode;
use super::scope::{Place, Scope};
use super::spec::Operator;
use super::{
    bit_casts, carriers, contrib, declared_shapes, order, outputs, quantizers, subgraphs, symbols,
};
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
    /// Whether each cast is to be followed by a probe.
    pub(crate) probes: bool,
}

/// A rewritten model and what was learned on the way.
pub(crate) struct Rewritten {
    pub(crate) proto: ModelProto,
    pub(crate) casts: Vec<CastNode>,
    pub(crate) quantizers: Vec<QuantizerNode>,
    /// The graph's outputs under their own names, in order.
    pub(crate) output_names: Vec<String>,
    /// Element types by name of input.
    pub(crate) inputs: HashMap<String, ElementType>,
    /// Element types of the outputs, where known.
    pub(crate) outputs: Vec<Option<ElementType>>,
    /// The main graph's values with a declared shape, where one may be needed.
    pub(crate) declared: Vec<ValueInfoProto>,
}

/// Rewrites a model.
pub(crate) fn rewrite(mut proto: ModelProto, options: &Options) -> TractResult<Rewritten> {
    // Files older than IR version 3 import none.
    let opset = inline::default_opset(&proto.opset_import).unwrap_or(1);
    let mut graph =
        proto.graph.take().ok_or_else(|| Error::Model { problem: "holds no graph".into() })?;
    let output_names = graph.output.iter().map(|output| output.name.clone()).collect();
    let functions = std::mem::take(&mut proto.functions);
    refuse_own_domain(&graph)?;
    let mut calls = inline::inline(&mut graph, &functions, opset, options.operators)?;
    let read =
        |tensor: &TensorProto| proto::read_with(tensor, options.folder, options.resolver).ok();
    cast_empty_unsigned(&mut graph);
    let (mut values, mut plan) = symbols::forward::plan(&graph, &read)?;
    if symbols::data_shapes::expand_constants(&mut graph, &plan, &values) {
        (values, plan) = symbols::forward::plan(&graph, &read)?;
    }
    let measured = symbols::data_shapes::measure_unused(&mut graph, &plan, &values);
    if !measured.is_empty() {
        (values, plan) = symbols::forward::plan(&graph, &read)?;
    }
    symbols::backward::mark(&mut plan, &mut values);
    symbols::emit::write(&mut graph, &plan, &mut values, &mut calls)?;
    let mut declared = declared_shapes::declared(&graph);
    declared.retain(|value| !measured.contains(&value.name));
    declared.iter_mut().for_each(forget_intricate_dimensions);
    let mut rewriter = Rewriter { opset, calls, options, casts: vec![], quantizers: vec![] };
    let place = Place { path: graph.name.clone(), outer: None, is_main: true, call: None, opset };
    let types = rewriter.graph(&mut graph, place, &[])?;
    proto.graph = Some(graph);
    let outputs = types.outputs.iter().map(|fact| fact.and_then(|fact| fact.ty)).collect();
    let Rewriter { casts, quantizers, .. } = rewriter;
    let inputs = types.inputs;
    Ok(Rewritten { proto, casts, quantizers, output_names, inputs, outputs, declared })
}

/// Refuses a file that has nodes of the domain that this crate marks its own by.
fn refuse_own_domain(graph: &GraphProto) -> Result<(), Error> {
    for node in &graph.node {
        if node.domain == DOMAIN {
            return Err(refusal(node, format!("domain `{DOMAIN}` is this crate's own")));
        }
        node.attribute.iter().flat_map(node::subgraphs).try_for_each(refuse_own_domain)?;
    }
    Ok(())
}

struct GraphTypes {
    inputs: HashMap<String, ElementType>,
    outputs: Vec<Option<Fact>>,
}

/// What a node makes.
enum Made {
    /// Outputs of these types, computed from the node's inputs.
    Types(Vec<Option<ElementType>>),
    /// What its subgraphs return.
    Facts(Vec<Option<Fact>>),
}

struct Rewriter<'a> {
    opset: i64,
    calls: Calls,
    options: &'a Options<'a>,
    casts: Vec<CastNode>,
    quantizers: Vec<QuantizerNode>,
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
    fn graph(
        &mut self,
        graph: &mut GraphProto,
        place: Place,
        given: &[Option<ElementType>],
    ) -> TractResult<GraphTypes> {
        let order =
            order::sort(graph, |name| place.outer.is_some_and(|outer| outer.get(name).is_some()))?;
        let mut scope = Scope { outer: place.outer, facts: HashMap::new() };
        let inputs = self.inputs(graph, &place, given, &mut scope)?;
        self.initializers(graph, &mut scope)?;
        let declared = self.declared_types(graph, &place)?;
        let (ranks, mut added) = (contrib::ranks(graph), vec![]);
        for index in order {
            if let Some(node) = graph.node.get_mut(index) {
                let types = scope.types(&node.input);
                let parts = contrib::write_out(node, &types, &ranks, self.options.operators)?;
                for mut part in parts {
                    if let Some(call) = self.call(node).cloned() {
                        self.calls.insert(part.name.clone(), call);
                    }
                    self.node(&mut part, &place, &declared, &mut scope)?;
                    added.push(part);
                }
                self.node(node, &place, &declared, &mut scope)?;
            }
        }
        graph.node.append(&mut added);
        graph.value_info.clear();
        for value in graph.input.iter_mut().chain(&mut graph.output) {
            forget_intricate_dimensions(value);
        }
        let names: Vec<String> = graph.output.iter().map(|output| output.name.clone()).collect();
        let outputs = scope.facts(&names);
        outputs::prepare(graph, &place, &declared, &scope)?;
        name_nodes_apart(graph);
        Ok(GraphTypes { inputs, outputs })
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
                    return Err(Error::graph(&place.path, problem))?;
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
            let ty = self.tensor(tensor)?;
            // An initializer that is also an input is that input's default.
            if let Some(Fact { ty: Some(declared), .. }) = scope.facts.get(&tensor.name)
                && *declared != ty
            {
                return Err(Error::Tensor {
                    tensor: tensor.name.clone(),
                    problem: format!("{ty}, but the graph's input of that name is {declared}"),
                })?;
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
        let made = match operator {
            Some(_) => Made::Types(vec![self.cast(node, place, origin, scope)?]),
            None => self.ordinary(node, place, scope)?,
        };
        // tract counts a node's outputs, unused ones at the end included.
        while operator.is_none() && node.output.last().is_some_and(String::is_empty) {
            node.output.pop();
        }
        for (index, value) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let (ty, returned) = match &made {
                Made::Types(types) => (types.get(index).copied().flatten(), None),
                Made::Facts(facts) => {
                    let fact = facts.get(index).copied().flatten();
                    (fact.and_then(|fact| fact.ty), Some(fact))
                }
            };
            let declared = declared.get(value).copied();
            let refuse = |problem| Error::node(&name, &op, problem);
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
        scope: &Scope,
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
            let path = format!("{path}/{local}.{}", attribute.name);
            for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                let (path, call) = (path.clone(), call.clone());
                let place = Place { path, outer: Some(scope), is_main: false, call, opset };
                returned.push(self.graph(graph, place, &fed)?.outputs);
            }
        }
        Ok(returned)
    }
}

/// The opset by whose rules tract builds a `Squeeze` without axes.
const SQUEEZE_OF_ALL: i64 = 13;

/// Whether a node is a `Squeeze` without axes that tract would not build by its own opset.
fn is_squeeze_of_all(node: &NodeProto, opset: i64) -> bool {
    let is_squeeze = node.op_type == "Squeeze" && is_default_domain(&node.domain);
    is_squeeze && opset < SQUEEZE_OF_ALL && attribute(node, "axes").is_none()
}

/// Writes down the value that a `ConstantOfShape` has without the attribute, a FLOAT zero; tract's is a DOUBLE.
fn give_default_value(node: &mut NodeProto) {
    if attribute(node, "value").is_none() {
        let (data_type, raw_data) = (ElementType::Float as i32, vec![0; 4]);
        let t = TensorProto { data_type, dims: vec![1], raw_data, ..TensorProto::default() };
        let (name, r#type) = ("value".into(), AttributeType::Tensor as i32);
        node.attribute.push(AttributeProto { name, r#type, t: Some(t), ..Default::default() });
    }
}

/// The type of a `Constant` or `ConstantOfShape` that holds no tensor.
fn constant_type(node: &NodeProto) -> Option<ElementType> {
    let has = |name: &str| {
        attribute(node, name)
            .is_some_and(|attribute| attribute.r#type != AttributeType::Undefined as i32)
    };
    match node.op_type.as_str() {
        "ConstantOfShape" => Some(ElementType::Float),
        _ if has("value_float") || has("value_floats") => Some(ElementType::Float),
        _ if has("value_int") || has("value_ints") => Some(ElementType::Int64),
        _ if has("value_string") || has("value_strings") => Some(ElementType::String),
        _ => None,
    }
}
