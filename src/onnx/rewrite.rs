//! `ModelProto` → a `ModelProto` that tract can load.
//!
//! tract's loader knows neither the exotic element types nor what they mean, so the model is rewritten before it gets
//! there: every tensor and type of an exotic kind becomes its carrier's, and every `Cast` node learns what its input
//! really is. For that, element types are followed through the graph and all its subgraphs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use tract_onnx::data_resolver::ModelDataResolver;
use tract_onnx::model::OnnxOpRegister;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};
use tract_onnx::prelude::TractResult;

use crate::cast::element_type::ElementType;
use crate::cast::rules::RoundMode;
use crate::error::Error;
use crate::onnx::spec::{CastSpec, Operator, is_default_domain, node_name};
use crate::tensor::conversion::Conversion;
use crate::tensor::proto;

use super::annotation::{self, DOMAIN, PrivateCast};
use super::declared_types::{agree, declared_type, either_exotic, same_types, set_carrier};
use super::flow::{self, Fact, Origin};
use super::functions::inline::{self, Call, Calls};
use super::limits::{check_dimensions, forget_intricate_dimensions, name_nodes_apart};
use super::operators::{self, Carriers};
use super::{declared_shapes, order};

/// A `Cast` or `CastLike` node of a model, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CastNode {
    /// The node's name, or its output where it has none; in a model-local function, with the call's name in front.
    pub node: String,
    /// Which of the two operators.
    pub operator: Operator,
    /// The value that it casts.
    pub input: String,
    /// The value that it makes.
    pub output: String,
    /// The input's element type, where it is known before tract analyses the model.
    pub from: Option<ElementType>,
    /// The target type, where it is known before tract analyses the model.
    pub to: Option<ElementType>,
    /// The operator's version.
    pub version: i64,
    /// The attribute `saturate`, if the node has it.
    pub saturate: Option<i64>,
    /// The attribute `round_mode`, if the node has it.
    pub round_mode: Option<RoundMode>,
    /// The name of the graph that the node is in; for a subgraph, the path to it, with `call.Function` for each function.
    pub graph: String,
    /// Whether the input is made of constants alone.
    pub is_constant: bool,
    /// What becomes of the node.
    pub fate: Fate,
}

/// What becomes of a `Cast` node in an optimised model, as far as the node itself tells: tract's optimiser may still join it
/// with another, or a matrix product take it into its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It changes nothing and is removed.
    NoOp,
    /// Its input is constant, so it is computed when the model is loaded.
    Folded,
    /// One of this crate's kernels runs it.
    Kernel,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Fate::NoOp => "no-op",
            Fate::Folded => "folded",
            Fate::Kernel => "our kernel",
        })
    }
}

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
    let calls = inline::inline(&mut graph, &functions, opset, options.operators)?;
    let mut declared = declared_shapes::declared(&graph);
    declared.iter_mut().for_each(forget_intricate_dimensions);
    let mut rewriter = Rewriter { opset, calls, options, casts: vec![] };
    let place = Place { path: graph.name.clone(), outer: None, is_main: true, call: None, opset };
    let types = rewriter.graph(&mut graph, place, &[])?;
    proto.graph = Some(graph);
    let outputs = types.outputs.iter().map(|fact| fact.and_then(|fact| fact.ty)).collect();
    let Rewriter { casts, .. } = rewriter;
    Ok(Rewritten { proto, casts, output_names, inputs: types.inputs, outputs, declared })
}

/// The values that can be seen from a node.
pub(super) struct Scope<'a> {
    outer: Option<&'a Scope<'a>>,
    facts: HashMap<String, Fact>,
    /// Nodes that the rewrite adds to the graph, by what they make.
    added: BTreeMap<String, NodeProto>,
}

impl Scope<'_> {
    pub(super) fn get(&self, name: &str) -> Option<Fact> {
        let own = self.facts.get(name).copied();
        own.or_else(|| self.outer.and_then(|outer| outer.get(name)))
    }

    fn facts(&self, names: &[String]) -> Vec<Option<Fact>> {
        names.iter().map(|name| self.get(name)).collect()
    }

    fn types(&self, names: &[String]) -> Vec<Option<ElementType>> {
        names.iter().map(|name| self.get(name).and_then(|fact| fact.ty)).collect()
    }
}

/// Where a graph stands.
struct Place<'a> {
    path: String,
    outer: Option<&'a Scope<'a>>,
    is_main: bool,
    /// The call that the node around the graph has come from.
    call: Option<Rc<Call>>,
    /// The opset by which tract builds the graph's nodes.
    opset: i64,
}

impl Place<'_> {
    /// The path to where a node of the graph stands, and the node's name there.
    fn of_node(&self, node: &NodeProto, call: Option<&Rc<Call>>) -> (String, String) {
        let name = node_name(node);
        let Some(call) = call else { return (self.path.clone(), name) };
        let around = self.call.as_ref().map_or("", |call| &call.path);
        let inside = call.path.strip_prefix(around).unwrap_or(&call.path).trim_start_matches('/');
        let path = match inside {
            "" => self.path.clone(),
            inside => format!("{}/{inside}", self.path),
        };
        (path, name.strip_prefix(&call.prefix).map_or(name.clone(), String::from))
    }
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
        let mut scope = Scope { outer: place.outer, facts: HashMap::new(), added: BTreeMap::new() };
        let inputs = self.inputs(graph, &place, given, &mut scope)?;
        self.initializers(graph, &mut scope)?;
        let declared = self.declared_types(graph, &place)?;
        for index in order {
            if let Some(node) = graph.node.get_mut(index) {
                self.node(node, &place, &declared, &mut scope)?;
            }
        }
        graph.value_info.clear();
        for value in graph.input.iter_mut().chain(&mut graph.output) {
            forget_intricate_dimensions(value);
        }
        graph.node.extend(std::mem::take(&mut scope.added).into_values());
        let names: Vec<String> = graph.output.iter().map(|output| output.name.clone()).collect();
        let outputs = scope.facts(&names);
        self.outputs(graph, &place, &declared, &scope)?;
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
                    return Err(Error::Graph { graph: place.path.clone(), problem })?;
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
            let wide = flow::is_wide(tensor);
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
            scope.facts.insert(tensor.name.clone(), Fact::constant(ty, wide));
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
        check_dimensions(node, scope)?;
        self.keep_data_exact(node, place, scope)?;
        let used = order::used_names(node);
        let origins = used.iter().filter_map(|name| scope.get(name)).map(|fact| fact.origin);
        let origin = origins.max().unwrap_or(Origin::Constants).max(operators::origin(node));
        // As it stands in the file: attributes are about to change.
        let wide = flow::attributes_are_wide(node);
        let original = NodeProto {
            attribute: node
                .attribute
                .iter()
                .filter(|attribute| !attribute.s.is_empty())
                .cloned()
                .collect(),
            ..node_without_attributes(node)
        };
        let made = match operator {
            Some(_) => {
                Made::Types(vec![self.cast(node, place, origin == Origin::Constants, scope)?])
            }
            None => self.other(node, place, scope)?,
        };
        let inputs = scope.facts(&original.input);
        // tract counts a node's outputs, unused ones at the end included.
        while operator.is_none() && node.output.last().is_some_and(String::is_empty) {
            node.output.pop();
        }
        for (index, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            if scope.added.contains_key(name) {
                let problem = format!("value `{name}` has a name that this crate gives");
                return Err(Error::Graph { graph: place.path.clone(), problem })?;
            }
            let (ty, returned) = match &made {
                Made::Types(types) => (types.get(index).copied().flatten(), None),
                Made::Facts(facts) => {
                    let fact = facts.get(index).copied().flatten();
                    (fact.and_then(|fact| fact.ty), Some(fact))
                }
            };
            let declared = declared.get(name).copied();
            let ty = agree(&original, name, ty, declared, operator.is_some())?;
            let fact = match returned {
                Some(Some(fact)) => Fact { ty, origin: fact.origin.max(origin), ..fact },
                Some(None) => Fact::data(ty),
                None => flow::output(&original, &inputs, origin, wide, ty),
            };
            scope.facts.insert(name.clone(), fact);
        }
        let opset = self.opset(node);
        if operator.is_none() && opset != place.opset {
            annotation::wrap_at_opset(node, opset);
        }
        Ok(())
    }

    /// Where an operator combines 64-bit numbers with what may be symbolic dimensions, makes numbers of the latter.
    fn keep_data_exact(
        &self,
        node: &mut NodeProto,
        place: &Place,
        scope: &mut Scope,
    ) -> Result<(), Error> {
        for index in flow::to_be_numbers(node, &scope.facts(&node.input)) {
            let Some(name) = node.input.get_mut(index) else { continue };
            let numbers = format!("{DOMAIN}:{name}");
            if scope.facts.contains_key(&numbers) && !scope.added.contains_key(&numbers) {
                let problem = format!("value `{numbers}` has a name that this crate gives");
                return Err(Error::Graph { graph: place.path.clone(), problem });
            }
            let added = annotation::concrete_int64(name, numbers.clone());
            scope.added.insert(numbers.clone(), added);
            scope.facts.insert(numbers.clone(), Fact::numbers());
            *name = numbers;
        }
        Ok(())
    }

    /// Gives a `Cast` or `CastLike` node its private form, and returns its target type.
    fn cast(
        &mut self,
        node: &mut NodeProto,
        place: &Place,
        constant: bool,
        scope: &Scope,
    ) -> TractResult<Option<ElementType>> {
        let spec = CastSpec::parse(node, self.opset(node))?;
        let inputs = scope.types(&node.input);
        let from = inputs.first().copied().flatten();
        let like = inputs.get(1).copied().flatten();
        if let Some(from) = from {
            spec.check_type(from, "input")?;
        }
        if let Some(like) = like {
            spec.check_type(like, "second input")?;
        }
        let to = spec.to.or(like);
        let is_identity = from
            .zip(to)
            .is_some_and(|(from, to)| Conversion::new(from, to, spec.rules()).is_identity());
        let value = |names: &[String]| names.first().cloned().unwrap_or_default();
        self.casts.push(CastNode {
            node: node_name(node),
            operator: spec.operator,
            input: value(&node.input),
            output: value(&node.output),
            from,
            to,
            version: spec.version,
            saturate: spec.saturate,
            round_mode: spec.round_mode,
            graph: place.of_node(node, self.call(node)).0,
            is_constant: constant,
            fate: match (is_identity, constant) {
                (true, _) => Fate::NoOp,
                (_, true) => Fate::Folded,
                _ => Fate::Kernel,
            },
        });
        PrivateCast {
            from: from.filter(|ty| ty.is_exotic()),
            // A native type is left to tract, which knows it when the graph is typed.
            to: spec.to.or(like.filter(|ty| ty.is_exotic())),
            rules: spec.rules(),
            opset: spec.opset,
            concrete: false,
        }
        .write(node);
        if self.options.probes {
            annotation::mark_probe(node, self.casts.len() - 1);
        }
        Ok(to)
    }

    /// Rewrites what any other node holds, and returns its outputs' types.
    fn other(&mut self, node: &mut NodeProto, place: &Place, scope: &Scope) -> TractResult<Made> {
        let refuse = |node: &NodeProto, problem: String| Error::Node {
            node: node_name(node),
            op: node.op_type.clone(),
            problem,
        };
        if node.domain == DOMAIN {
            return Err(refuse(node, format!("domain `{DOMAIN}` is this crate's own")))?;
        }
        let inputs = scope.types(&node.input);
        if let Some(attribute) = node.attribute.iter().find(|a| !a.ref_attr_name.is_empty()) {
            let name = &attribute.name;
            let problem = format!("attribute `{name}` refers to an attribute of a function");
            return Err(refuse(node, problem))?;
        }
        let is_default = is_default_domain(&node.domain);
        let tensor_type = self.attribute_tensors(node)?;
        let makes_tensor =
            is_default && matches!(node.op_type.as_str(), "Constant" | "ConstantOfShape");
        if let Some(ty) = tensor_type.filter(|ty| ty.is_exotic() && !makes_tensor) {
            return Err(refuse(
                node,
                format!("has a tensor of {ty}, which it cannot compute with"),
            ))?;
        }
        if let Some(outputs) = self.subgraphs(node, place, scope, &inputs)? {
            return Ok(Made::Facts(outputs));
        }
        if makes_tensor {
            return Ok(Made::Types(vec![tensor_type.or_else(|| constant_type(node))]));
        }
        if let Some(outputs) = self.move_carriers(node, is_default, &inputs)? {
            return Ok(Made::Types(outputs));
        }
        if !is_default {
            return Ok(Made::Types(vec![]));
        }
        let outputs = operators::output_types(node, &inputs);
        match outputs.iter().flatten().find(|ty| ty.is_exotic()) {
            Some(ty) => Err(refuse(node, format!("cannot compute a result of {ty}")))?,
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

    /// Rewrites a node's subgraphs; `None` if it has none. Their outputs are the node's.
    fn subgraphs(
        &mut self,
        node: &mut NodeProto,
        place: &Place,
        scope: &Scope,
        inputs: &[Option<ElementType>],
    ) -> TractResult<Option<Vec<Option<Fact>>>> {
        let name = node_name(node);
        let op = node.op_type.clone();
        let call = self.call(node).cloned();
        let opset = self.opset(node);
        let (path, local) = place.of_node(node, call.as_ref());
        // Loop feeds its body a count, a condition, and its own inputs from the third on; Scan feeds its inputs.
        let given: Vec<Option<ElementType>> = match op.as_str() {
            "Loop" => [Some(ElementType::Int64), Some(ElementType::Bool)]
                .into_iter()
                .chain(inputs.iter().skip(2).copied())
                .collect(),
            "Scan" => inputs.to_vec(),
            _ => vec![],
        };
        let mut branches: Vec<Vec<Option<Fact>>> = vec![];
        for attribute in &mut node.attribute {
            let path = format!("{path}/{local}.{}", attribute.name);
            for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                let (path, call) = (path.clone(), call.clone());
                let place = Place { path, outer: Some(scope), is_main: false, call, opset };
                branches.push(self.graph(graph, place, &given)?.outputs);
            }
        }
        let outputs = match (op.as_str(), &branches[..]) {
            (_, []) => None,
            ("If", _) => {
                let outputs = same_types(&name, &op, &branches)?;
                // tract wants both branches to return dimensions, or both numbers.
                let graphs = node.attribute.iter_mut().flat_map(|a| a.g.iter_mut());
                for (graph, returned) in graphs.zip(&branches) {
                    make_numbers(graph, returned, &outputs);
                }
                Some(outputs)
            }
            (_, [body, ..]) => {
                let condition = usize::from(op == "Loop");
                let data = |fact: &Option<Fact>| fact.map(|fact| Fact::data(fact.ty));
                Some(body.iter().skip(condition).map(data).collect())
            }
        };
        if outputs.is_none() && inputs.iter().flatten().any(|ty| ty.is_exotic()) {
            return Ok(None);
        }
        if outputs.is_some() && !matches!(op.as_str(), "If" | "Loop" | "Scan") {
            if let Some(ty) = inputs.iter().flatten().find(|ty| ty.is_exotic()) {
                let problem = format!("cannot compute with {ty}");
                return Err(Error::Node { node: name, op, problem })?;
            }
            return Ok(Some(vec![]));
        }
        Ok(outputs)
    }

    /// The types of a node's outputs if exotic elements go into it; an error unless it only moves them.
    fn move_carriers(
        &self,
        node: &NodeProto,
        is_default: bool,
        inputs: &[Option<ElementType>],
    ) -> TractResult<Option<Vec<Option<ElementType>>>> {
        let Some(exotic) = inputs.iter().flatten().copied().find(|ty| ty.is_exotic()) else {
            return Ok(None);
        };
        let refuse = |problem: String| Error::Node {
            node: node_name(node),
            op: node.op_type.clone(),
            problem,
        };
        let computes =
            || refuse(format!("cannot compute with {exotic}: Cast it to a wider type first"));
        let moves = match operators::carriers(node) {
            _ if !is_default => return Err(computes())?,
            Carriers::Computes => return Err(computes())?,
            Carriers::Measures => return Ok(Some(operators::output_types(node, inputs))),
            Carriers::Moves(moves) => moves,
        };
        for (index, ty) in inputs.iter().enumerate() {
            let is_given = node.input.get(index).is_some_and(|name| !name.is_empty());
            match ty {
                _ if !is_given => {}
                Some(ty) if !moves(index) && ty.is_exotic() => return Err(computes())?,
                ty if moves(index) && *ty != Some(exotic) => {
                    let other = ty.map_or("another type", ElementType::name);
                    return Err(refuse(format!("mixes {exotic} and {other}")))?;
                }
                _ => {}
            }
        }
        if operators::fills_with_number(node) {
            return Err(refuse(format!("fills with a number of its own, which is not {exotic}")))?;
        }
        if exotic == ElementType::Float8E8M0 && operators::fills_with_zero(node) {
            return Err(refuse(format!("fills with zero, which {exotic} does not have")))?;
        }
        Ok(Some(vec![Some(exotic); node.output.len()]))
    }

    fn outputs(
        &mut self,
        graph: &mut GraphProto,
        place: &Place,
        declared: &HashMap<String, ElementType>,
        scope: &Scope,
    ) -> TractResult<()> {
        let names = |values: fn(&NodeProto) -> &Vec<String>| -> HashSet<String> {
            graph.node.iter().flat_map(values).cloned().collect()
        };
        let (made, used) = (names(|node| &node.output), names(|node| &node.input));
        for index in 0..graph.output.len() {
            let Some(output) = graph.output.get_mut(index) else { continue };
            let name = output.name.clone();
            let declared = declared.get(&name).copied();
            let made_here = made.contains(&name);
            let ty = match scope.get(&name).and_then(|fact| fact.ty) {
                Some(ty)
                    if !made_here && declared.is_some_and(|d| d != ty && either_exotic(d, ty)) =>
                {
                    let declared = declared.map_or("", ElementType::name);
                    let problem = format!("output `{name}` is declared {declared}, but is {ty}");
                    return Err(Error::Graph { graph: place.path.clone(), problem })?;
                }
                ty => ty,
            };
            if let Some(ty) = ty.filter(|ty| ty.is_exotic()) {
                set_carrier(output, ty);
            }
            let is_int64 = declared.or(ty) == Some(ElementType::Int64);
            let unused = format!("{DOMAIN}:output{index}:{name}");
            let extra = if place.is_main && made_here && is_int64 {
                // tract computes shapes with symbolic integers; a model's INT64 output is made of numbers.
                Some(annotation::concrete_int64(&name, unused))
            } else if !made_here || (!place.is_main && used.contains(&name)) {
                // tract finds an output only among the values of the graph itself, forgets what it knows of an input
                // that is one, and what it does to the outputs of a Scan's body it does to all that use the value.
                Some(annotation::identity(&name, unused))
            } else {
                None
            };
            if let (Some(extra), Some(output)) = (extra, graph.output.get_mut(index)) {
                output.name = extra.output.first().cloned().unwrap_or_default();
                graph.node.push(extra);
            }
        }
        Ok(())
    }
}

/// Makes numbers of the dimensions that a branch returns where the `If` does not return dimensions.
fn make_numbers(branch: &mut GraphProto, returned: &[Option<Fact>], outputs: &[Option<Fact>]) {
    let is_symbolic =
        |fact: Option<&Option<Fact>>| fact.is_some_and(|f| f.is_some_and(|f| f.symbolic));
    for (index, output) in branch.output.iter_mut().enumerate() {
        if is_symbolic(returned.get(index)) && !is_symbolic(outputs.get(index)) {
            let numbers = format!("{DOMAIN}:numbers{index}:{}", output.name);
            branch.node.push(annotation::concrete_int64(&output.name, numbers.clone()));
            output.name = numbers;
        }
    }
}

/// A node's names and operator.
fn node_without_attributes(node: &NodeProto) -> NodeProto {
    NodeProto {
        name: node.name.clone(),
        op_type: node.op_type.clone(),
        domain: node.domain.clone(),
        input: node.input.clone(),
        output: node.output.clone(),
        ..NodeProto::default()
    }
}

/// The type of a `Constant` or `ConstantOfShape` that holds no tensor.
fn constant_type(node: &NodeProto) -> Option<ElementType> {
    let has = |name: &str| {
        node.attribute.iter().any(|attribute: &AttributeProto| {
            attribute.name == name && attribute.r#type != AttributeType::Undefined as i32
        })
    };
    match node.op_type.as_str() {
        "ConstantOfShape" => Some(ElementType::Float),
        _ if has("value_float") || has("value_floats") => Some(ElementType::Float),
        _ if has("value_int") || has("value_ints") => Some(ElementType::Int64),
        _ if has("value_string") || has("value_strings") => Some(ElementType::String),
        _ => None,
    }
}
