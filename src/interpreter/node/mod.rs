//! A node as a model of its own: built for the types and shapes of its inputs, kept for nodes that
//! are alike, run.
//!
//! - `deciding`: the inputs whose values decide what is built; `sole`: what takes no plan
//! - `blocks`: operators of a large matrix, a part of it at a time; `many`: operators of many
//!   inputs

pub(super) mod blocks;
mod deciding;
mod many;
mod sole;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use onnx_cast_graph::{Graph, Node, NodeId, NodeView, named_value, sized_type};
use prost::Message;
use tract_onnx::pb::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto,
};
use tract_onnx::prelude::*;

use super::counted::Counted;
use super::value::TypedTensor;
use crate::audit::Audit;
use crate::cast::element_type::ElementType;
use crate::error::{Cause, Error, shown, with_opset};
use crate::onnx::node::{is_default_domain, out_of_memory, refusal};
use crate::ops::cast::op::OnnxCast;
use crate::ops::quantize::op::OnnxQuantizer;
use crate::ops::weights::streamed;
use crate::panels::floats::PanelRoom;
use crate::plug::guard::without_panic;
use crate::plug::loader::CastOnnx;
use crate::plug::model_types::output_element_types;
use crate::tensor::memory::Memory;
use crate::tensor::proto;
use deciding::deciding;
use many::in_parts;
use sole::SoleOp;

/// Builds nodes.
pub(super) struct Builder {
    onnx: CastOnnx,
    /// Where external data is.
    pub(super) folder: Option<PathBuf>,
    /// The model without its graph: versions and opset imports.
    model: ModelProto,
    /// What was built, by the node's model without the node's name.
    built: Mutex<HashMap<Vec<u8>, Arc<BuiltNode>>>,
    /// What was built last for each node of a body that may run again: to find it takes no model of
    /// the node.
    last: Mutex<HashMap<NodeId, Last>>,
    /// Where the casts of nodes are counted.
    counted: Mutex<Option<Arc<Counted>>>,
    /// What is kept of large outputs: they are those of one node after the other.
    memory: Memory,
    /// Where the weights of one node after the other are packed.
    room: PanelRoom,
}

/// What a node was built for.
struct Last {
    inputs: Vec<Option<BuiltInput>>,
    built: Arc<BuiltNode>,
}

/// An input that a node was built for.
struct BuiltInput {
    ty: ElementType,
    shape: TVec<usize>,
    /// Its value, if that decides what is built.
    deciding: Option<Arc<Tensor>>,
}

/// A node that was built, and the types of its outputs.
struct BuiltNode {
    plan: Arc<TypedRunnableModel>,
    types: Vec<ElementType>,
    /// The name of the node that it was built for.
    name: String,
    /// What counts its casts.
    audit: Option<Audit>,
    /// What it does, if that is one thing which takes no plan.
    sole: Option<SoleOp>,
}

/// How many nodes are kept as they were built.
const KEPT: usize = 4096;
/// A node of which more bytes decide what is built is not kept: it holds them, and what is made of
/// them.
const KEPT_BYTES: usize = 1 << 16;
impl Builder {
    /// Of a model without its graph, whose external data is in the folder.
    pub(super) fn new(onnx: CastOnnx, model: ModelProto, folder: Option<PathBuf>) -> Builder {
        let (built, last, counted) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (memory, room) = (Memory::default(), onnx.room().clone());
        Builder { onnx, folder, model, built, last, counted, memory, room }
    }

    /// tract's model of inputs and nothing else.
    pub(super) fn heading(&self, input: Vec<ValueInfoProto>) -> TractResult<InferenceModel> {
        let graph = Some(GraphProto { input, ..GraphProto::default() });
        self.onnx.model_for_proto_model(&ModelProto { graph, ..self.model.clone() })
    }

    /// Has an audit of the whole model count what the casts of nodes do.
    pub(super) fn watch(&self, audit: &Audit) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if !counted.as_ref().is_some_and(|counted| counted.is_of(audit)) {
            *counted = Some(Arc::new(Counted::new(audit)));
            self.built.lock().unwrap_or_else(PoisonError::into_inner).clear();
            self.last.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    fn counted(&self) -> Option<Arc<Counted>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether what the model declares of types is overlooked.
    pub(super) fn overlooks_types(&self) -> bool {
        self.onnx.overlooks_types()
    }

    /// Reads a constant, from the model or from a file beside it, into memory that constants before
    /// it had. Fails when it contradicts its description, or its file does not hold it.
    pub(super) fn constant(
        &self,
        tensor: &TensorProto,
        memory: &Memory,
    ) -> TractResult<TypedTensor> {
        let read = (self.onnx.resolver(), memory);
        let (ty, tensor) = proto::late_with(tensor, self.folder.as_deref(), read)?;
        TypedTensor::new(ty, tensor)
    }

    /// Runs a node on the tensors by place that it is given, which may be what is left of a run
    /// (`is_same_run`). Fails when it cannot be built for tensors of these types and shapes, or run
    /// on these values.
    pub(super) fn run(
        &self,
        graph: &Graph,
        id: NodeId,
        inputs: &[Option<TypedTensor>],
        is_same_run: bool,
    ) -> TractResult<Vec<TypedTensor>> {
        let part = |op: &str, inputs: &[TypedTensor]| self.part(graph, id, op, inputs);
        if let Some(made) = in_parts(graph.node(id), inputs, &part)? {
            return Ok(vec![made]);
        }
        if graph.node(id).body() != graph.main() {
            blocks::keep_factors(graph.node(id), inputs)?;
        }
        let deciding = deciding(graph, id, inputs, self.onnx.keeps_small());
        let built = self.built(graph, id, inputs, &deciding).or_else(|error| {
            // There are operators of which tract wants to see more than sizes.
            self.built(graph, id, inputs, &vec![true; inputs.len()]).map_err(|_| error)
        });
        let run = || {
            let built = built?;
            let made = built.run(inputs)?;
            if let (Some(counted), Some(audit)) = (self.counted(), &built.audit) {
                counted.add(graph, graph.node(id), (&built.name, audit), is_same_run);
            }
            outputs(graph, id, &built, made)
        };
        run().map_err(|error| at_node(graph.node(id), &error).into())
    }

    /// Runs an operator on tensors in the place of a node, whose attributes it has if it is the
    /// node's own. Fails as [`Builder::run`].
    fn part(
        &self,
        graph: &Graph,
        id: NodeId,
        op: &str,
        inputs: &[TypedTensor],
    ) -> TractResult<TypedTensor> {
        let node = graph.node(id);
        let names = (0..inputs.len()).map(input_name);
        let (mut body, output) = (GraphProto::default(), String::from("o0"));
        body.input =
            names.clone().zip(inputs).map(|(name, typed)| declared(&name, typed)).collect();
        body.output.push(named_value(&*output));
        body.node.push(NodeProto {
            op_type: op.into(),
            input: names.collect(),
            output: vec![output],
            attribute: if op == node.op_type { node.attributes.to_vec() } else { vec![] },
            ..NodeProto::default()
        });
        let run = || {
            let built = self.kept(self.model_with(body, node.opset), node.label())?;
            let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
            let made = built.run(&inputs)?.into_iter().next().zip(built.types.first());
            let (made, ty) = made.ok_or_else(|| refusal(node, "makes nothing"))?;
            TypedTensor::new(*ty, made.into_tensor())
        };
        run().map_err(|error| at_node(node, &error).into())
    }

    /// A node as it was built before for what is alike, or as it is built now.
    fn built(
        &self,
        graph: &Graph,
        id: NodeId,
        inputs: &[Option<TypedTensor>],
        deciding: &[bool],
    ) -> TractResult<Arc<BuiltNode>> {
        let lock_last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_inner = graph.node(id).body() != graph.main();
        if is_inner
            && let Some(last) = lock_last().get(&id)
            && last.is_for(inputs, deciding)
        {
            return Ok(last.built.clone());
        }
        let proto = self.model_of(graph, id, inputs, deciding)?;
        if proto.encoded_len() > KEPT_BYTES {
            return Ok(Arc::new(self.build(proto, graph.node(id).label())?));
        }
        let built = self.kept(proto, graph.node(id).label())?;
        if is_inner {
            let mut last = lock_last();
            if last.len() >= KEPT {
                last.clear();
            }
            last.insert(id, Last::new(inputs, deciding, built.clone()));
        }
        Ok(built)
    }

    /// What is kept of a node's model, or is built of it and kept.
    fn kept(&self, proto: ModelProto, name: &str) -> TractResult<Arc<BuiltNode>> {
        let key = proto.encode_to_vec();
        let lock = || self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = lock().get(&key) {
            return Ok(built.clone());
        }
        let built = Arc::new(self.build(proto, name)?);
        let mut kept = lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, built.clone());
        Ok(built)
    }

    /// The model of a node, which tells it from others.
    fn model_of(
        &self,
        graph: &Graph,
        id: NodeId,
        inputs: &[Option<TypedTensor>],
        deciding: &[bool],
    ) -> TractResult<ModelProto> {
        let node = graph.node(id);
        let mut proto = graph.proto(id);
        let mut body = GraphProto::default();
        let mut first = HashMap::new();
        for (place, (name, typed)) in proto.input.iter_mut().zip(inputs).enumerate() {
            let Some(typed) = typed else {
                name.clear();
                continue;
            };
            let first = *node.input(place).map_or(&place, |id| first.entry(id).or_insert(place));
            *name = input_name(first);
            if first != place {
                continue;
            }
            if deciding.get(place) == Some(&true) {
                body.initializer.push(proto::write(name, typed.ty, &typed.tensor)?);
            } else {
                body.input.push(declared(name, typed));
            }
        }
        for (place, name) in
            proto.output.iter_mut().enumerate().filter(|(_, name)| !name.is_empty())
        {
            *name = format!("o{place}");
            body.output.push(named_value(&*name));
        }
        proto.name.clear();
        proto.doc_string.clear();
        body.node.push(proto);
        Ok(self.model_with(body, node.opset))
    }

    /// The model with another graph, whose nodes are of this version of the default domain.
    fn model_with(&self, body: GraphProto, opset: i64) -> ModelProto {
        let mut model = self.model.clone();
        let default = |import: &OperatorSetIdProto| is_default_domain(&import.domain);
        for import in model.opset_import.iter_mut().filter(|import| default(import)) {
            import.version = opset;
        }
        model.graph = Some(body);
        model
    }

    fn build(&self, mut model: ModelProto, name: &str) -> TractResult<BuiltNode> {
        if let Some(node) = model.graph.as_mut().and_then(|graph| graph.node.first_mut()) {
            node.name = name.into();
        }
        let folder = self.folder.as_deref();
        let load = || {
            let is_counted = self.counted().is_some();
            let onnx = self.onnx.clone().with_probes(is_counted);
            let loaded = onnx.load_proto(model, folder)?;
            let has_casts = is_counted && !loaded.survey().rows().is_empty();
            let audit = has_casts.then(|| loaded.audit());
            let mut typed = loaded.into_model().into_typed()?;
            if let Some(audit) = &audit {
                audit.watch(&mut typed)?;
            }
            TractResult::Ok((typed, audit))
        };
        let (typed, audit) = without_panic(load)?;
        let runnable = |mut model: TypedModel| {
            share_memory(&mut model, &self.memory);
            streamed::stream(&mut model, &self.room)?;
            model.into_runnable()
        };
        let plan = match without_panic(|| runnable(typed.clone().into_optimized()?)) {
            Ok(plan) => plan,
            Err(_) => without_panic(|| runnable(typed))?,
        };
        let types = output_element_types(plan.model())?;
        let sole = SoleOp::of(plan.model()).filter(|_| audit.is_none());
        Ok(BuiltNode { plan, types, name: name.into(), audit, sole })
    }
}

impl Last {
    fn new(inputs: &[Option<TypedTensor>], deciding: &[bool], built: Arc<BuiltNode>) -> Last {
        let taken = |(typed, decides): (&Option<TypedTensor>, &bool)| {
            let TypedTensor { ty, tensor } = typed.as_ref()?;
            let deciding = decides.then(|| tensor.clone());
            Some(BuiltInput { ty: *ty, shape: tensor.shape().into(), deciding })
        };
        Last { inputs: inputs.iter().zip(deciding).map(taken).collect(), built }
    }

    /// Whether what was built is what would be built for these inputs.
    fn is_for(&self, inputs: &[Option<TypedTensor>], deciding: &[bool]) -> bool {
        let is_alike =
            |((taken, typed), decides): ((&Option<BuiltInput>, &Option<TypedTensor>), &bool)| {
                let (Some(taken), Some(TypedTensor { ty, tensor })) = (taken, typed) else {
                    return taken.is_none() && typed.is_none();
                };
                let has_value = match &taken.deciding {
                    Some(value) => *decides && (Arc::ptr_eq(value, tensor) || value == tensor),
                    None => !decides,
                };
                has_value && taken.ty == *ty && *taken.shape == *tensor.shape()
            };
        self.inputs.len() == inputs.len()
            && self.inputs.iter().zip(inputs).zip(deciding).all(is_alike)
    }
}

impl BuiltNode {
    fn run(&self, inputs: &[Option<TypedTensor>]) -> TractResult<TVec<TValue>> {
        let made = self.sole.as_ref().map(|op| op.run(inputs)).transpose()?;
        if let Some(made) = made.flatten() {
            return Ok(tvec!(made.into_tvalue()));
        }
        let mut given = tvec!();
        for node in self.plan.model().inputs.iter().map(|outlet| outlet.node) {
            let name = self.plan.model().node(node).name.strip_prefix(INPUT);
            let place = name.and_then(|place| place.parse::<usize>().ok());
            if let Some(Some(typed)) = place.and_then(|place| inputs.get(place)) {
                given.push(typed.tensor.clone().into_tvalue());
            }
        }
        without_panic(|| self.plan.run(given))
    }
}

/// Has the casts and quantisers of a model keep their large outputs where those of other nodes do.
fn share_memory(model: &mut TypedModel, memory: &Memory) {
    for node in &mut model.nodes {
        if let Some(cast) = node.op_as_mut::<OnnxCast>() {
            cast.share(memory);
        } else if let Some(quantizer) = node.op_as_mut::<OnnxQuantizer>() {
            quantizer.share(memory);
        }
    }
}

/// What an input's name begins with; its place follows.
const INPUT: &str = "i";

fn input_name(place: usize) -> String {
    format!("{INPUT}{place}")
}

fn declared(name: &str, typed: &TypedTensor) -> ValueInfoProto {
    let r#type = Some(sized_type(typed.ty as i32, typed.tensor.shape()));
    ValueInfoProto { r#type, ..named_value(name) }
}

/// The outputs by place. A place whose output nobody wants gets one that is not looked at.
fn outputs(
    graph: &Graph,
    id: NodeId,
    built: &BuiltNode,
    values: TVec<TValue>,
) -> TractResult<Vec<TypedTensor>> {
    let mut made = values.into_iter().zip(&built.types);
    let mut outputs = vec![];
    for wanted in graph.node(id).outputs() {
        outputs.push(match wanted.and_then(|_| made.next()) {
            Some((value, ty)) => TypedTensor::new(*ty, value.into_tensor())?,
            None => TypedTensor::unwanted()?,
        });
    }
    Ok(outputs)
}

/// An error about a node, which may have been built under the name of another one like it.
fn at_node(node: &Node, error: &TractError) -> Error {
    let own = error.chain().find_map(|link| link.downcast_ref::<Error>());
    let problem = match own.map(Error::cause) {
        Some(Cause::Node { problem, .. }) => with_opset(problem, node.opset, false),
        Some(Cause::Panic { message }) => message.clone(),
        Some(Cause::Memory { .. }) => return out_of_memory(node),
        Some(Cause::Tract { node: named, op, problem }) => {
            // Without an operator it names the node itself.
            let own = named.as_deref().filter(|_| op.is_none());
            let own = own.map(|named| format!("node `{}`: ", shown(named)));
            let problem = own.and_then(|own| problem.strip_prefix(&own)).unwrap_or(problem);
            let told = with_opset(problem, node.opset, is_default_domain(&node.domain));
            return refusal(node, told).of_sound_model();
        }
        Some(cause @ (Cause::Attribute { .. } | Cause::Tensor { .. })) => {
            return cause.clone().into();
        }
        _ => format!("{error:#}"),
    };
    refusal(node, problem)
}
