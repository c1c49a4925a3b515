//! A model that is quantised already: its quantisers, and the model without some of them.
//!
//! A `QuantizeLinear` whose codes are only moved and taken back goes by making it and what takes
//! its codes back pass on what they take. A `DynamicQuantizeLinear` goes with the products of
//! integers that take it: they become products of FLOATs, and its scale 1. Products of codes are
//! written out before.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use onnx_cast_graph::{NodeView, attribute, int, int_attribute, message_node};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::alone::{QuantizerFunction, Single};
use super::effect::QuantizerEffect;
use super::parameters::{ScaleParameters, there_and_back};
use crate::cli::message::{counted, listed, quoted};
use crate::cli::work::codes::MOVERS;
use crate::cli::work::spelt::spelt;

/// A model with quantisers.
pub(crate) struct QuantizedModel {
    proto: ModelProto,
    quantizers: Vec<RemovableQuantizer>,
    /// Nodes that quantise, and that cannot be left out.
    others: Vec<String>,
}

/// A quantiser that can be left out.
struct RemovableQuantizer {
    /// The place of its node.
    at: usize,
    /// What takes its codes: nodes that bring them back, or products of integers.
    takers: Vec<usize>,
    how: QuantizerKind,
}

/// How a quantiser works.
enum QuantizerKind {
    /// With these parameters.
    Static(Box<Constants>),
    /// By the range of what it is given.
    Dynamic,
}

struct Constants {
    ty: ElementType,
    scale: Tensor,
    zero: Option<Tensor>,
    axis: i64,
    block: usize,
}

impl QuantizedModel {
    /// A model whose external data is in the folder; `None` where it quantises nothing.
    pub(crate) fn of(model: &ModelProto, folder: Option<&Path>) -> Option<QuantizedModel> {
        let proto = spelt(model, None, folder).proto.into_owned();
        let empty = GraphProto::default();
        let reader = QuantizerReader::of(proto.graph.as_ref().unwrap_or(&empty), folder);
        let (mut quantizers, mut others) = (vec![], vec![]);
        for (at, node) in reader.graph.node.iter().enumerate() {
            let found = match node.op_type.as_str() {
                "QuantizeLinear" => reader.quantizer(at, node),
                "DynamicQuantizeLinear" => reader.dynamic(at, node),
                "DynamicQuantizeLSTM" | "DynamicQuantizeMatMul" | "MatMulIntegerToFloat" => None,
                _ => continue,
            };
            match found {
                Some(found) => quantizers.push(found),
                None => others.push(node.name.clone()),
            }
        }
        let is_quantised = !quantizers.is_empty() || !others.is_empty();
        is_quantised.then_some(QuantizedModel { proto, quantizers, others })
    }

    /// The model without some of its quantisers, by their places among those that can be left out.
    /// Fails when a constant cannot be written.
    pub(super) fn without(&self, is_left_out: &dyn Fn(usize) -> bool) -> TractResult<ModelProto> {
        let mut proto = self.proto.clone();
        let Some(graph) = &mut proto.graph else { return Ok(proto) };
        let mut added = vec![];
        for (place, found) in self.quantizers.iter().enumerate() {
            if !is_left_out(place) {
                continue;
            }
            if let (QuantizerKind::Dynamic, Some(node)) = (&found.how, graph.node.get_mut(found.at))
            {
                if let Some(scale) = node.output.get(1).filter(|name| !name.is_empty()) {
                    let one = tensor_proto::write(scale, ElementType::Float, &tensor0(1f32))?;
                    graph.initializer.push(one);
                }
                node.output.truncate(1);
            }
            graph.node.get_mut(found.at).into_iter().for_each(pass_on);
            for taker in &found.takers {
                added.extend(graph.node.get_mut(*taker).map_or(vec![], in_float));
            }
        }
        graph.node.append(&mut added);
        graph.value_info.clear();
        Ok(proto)
    }

    /// The quantisers that can be left out.
    pub(super) fn labelled(&self) -> Vec<Single<'_>> {
        let nodes = self.proto.graph.as_ref().map_or(&[][..], |graph| &graph.node);
        let single = |place: usize| {
            let found = self.quantizers.get(place)?;
            let node = nodes.get(found.at)?;
            let (ty, change): (ElementType, QuantizerFunction) = match &found.how {
                QuantizerKind::Static(held) => (held.ty, Box::new(|x| held.applied(x))),
                QuantizerKind::Dynamic => {
                    (ElementType::Uint8, Box::new(|x| ScaleParameters::dynamic(x)?.applied(x)))
                }
            };
            let effect = QuantizerEffect {
                tensor: node.input.first()?.clone(),
                kind: "activation".into(),
                ty: ty.name().into(),
                nodes: vec![node.name.clone()],
                outputs: vec![],
            };
            Some(Single { effect, value: node.output.first()?.clone(), only: None, change })
        };
        (0..self.quantizers.len()).filter_map(single).collect()
    }

    /// What is not told.
    pub(super) fn note(&self) -> Vec<String> {
        let whole = "the model is quantised already, so no list is searched for, and what its weights have lost is not known: \
                     give its FLOAT original for both";
        let count = self.others.len();
        let others = (count > 0).then(|| {
            let names = listed(self.others.iter().map(|name| quoted(name)), 5);
            let are = if count == 1 { "is" } else { "are" };
            let all = counted(count, "quantiser");
            format!("{all} {are} part of what takes the codes, and not ranked: {names}")
        });
        [Some(whole.to_owned()), others].into_iter().flatten().collect()
    }
}

/// Makes a node one that returns its first input.
fn pass_on(node: &mut NodeProto) {
    node.op_type = "Identity".into();
    node.domain.clear();
    node.input.truncate(1);
    node.attribute.clear();
}

/// Has a node take FLOATs where it took codes. Returns what it needs besides.
fn in_float(node: &mut NodeProto) -> Vec<NodeProto> {
    let op = match node.op_type.as_str() {
        "MatMulInteger" => "MatMul",
        "ConvInteger" => "Conv",
        _ => {
            pass_on(node);
            return vec![];
        }
    };
    let product = node.output.first().map_or("", String::as_str);
    let made =
        |op: &str, input: &[&str], end: &str| message_node(op, input, &format!("{product}:{end}"));
    let float = |name: &String, end: &str| NodeProto {
        attribute: vec![int_attribute("to", ElementType::Float as i64)],
        ..made("Cast", &[name], end)
    };
    let mut added: Vec<NodeProto> =
        node.input.get(1).map(|weight| float(weight, "weight")).into_iter().collect();
    if let Some(zero) = node.input.get(3).filter(|name| !name.is_empty()) {
        let zero = float(zero, "zero");
        let operands: Vec<&str> = added.iter().chain([&zero]).map(NodeView::label).collect();
        let moved = made("Sub", &operands, "moved");
        added.extend([zero, moved]);
    }
    let weight = added.last().map_or(String::new(), |last| last.label().to_owned());
    node.op_type = op.into();
    node.input.truncate(1);
    node.input.push(weight);
    added
}

impl Constants {
    /// What comes back of values.
    fn applied(&self, values: &Tensor) -> TractResult<Tensor> {
        let (scale, zero) = (&self.scale, self.zero.as_ref());
        there_and_back(self.ty, values, (scale, zero), (self.axis, self.block))
    }
}

/// A graph whose quantisers are looked for.
struct QuantizerReader<'a> {
    graph: &'a GraphProto,
    folder: Option<&'a Path>,
    held: HashMap<&'a str, &'a TensorProto>,
    /// By value, the nodes that take it, and at which place.
    users: HashMap<&'a str, Vec<(usize, usize)>>,
    outputs: HashSet<&'a str>,
}

impl<'a> QuantizerReader<'a> {
    fn of(graph: &'a GraphProto, folder: Option<&'a Path>) -> QuantizerReader<'a> {
        let initializers = graph.initializer.iter().map(|held| (held.name.as_str(), held));
        let constants = graph.node.iter().filter(|node| node.op_type == "Constant");
        let constants = constants.filter_map(|node| {
            Some((node.output.first()?.as_str(), attribute(node, "value")?.t.as_ref()?))
        });
        let mut users: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
        for (at, node) in graph.node.iter().enumerate() {
            for (place, name) in node.input.iter().enumerate().filter(|(_, name)| !name.is_empty())
            {
                users.entry(name).or_default().push((at, place));
            }
        }
        let outputs = graph.output.iter().map(|output| output.name.as_str()).collect();
        QuantizerReader {
            graph,
            folder,
            held: initializers.chain(constants).collect(),
            users,
            outputs,
        }
    }

    fn constant(&self, name: &str) -> Option<(ElementType, Tensor)> {
        tensor_proto::read(self.held.get(name)?, self.folder).ok()
    }

    /// The nodes that bring codes back, if codes are otherwise only moved.
    fn takers(&self, codes: &'a str) -> Option<Vec<usize>> {
        let (mut to_do, mut takers) = (vec![codes], vec![]);
        while let Some(codes) = to_do.pop() {
            if self.outputs.contains(codes) {
                return None;
            }
            for (at, place) in self.users.get(codes)? {
                let node = self.graph.node.get(*at)?;
                match node.op_type.as_str() {
                    "DequantizeLinear" if *place == 0 => takers.push(*at),
                    op if *place == 0 && MOVERS.contains(&op) => to_do.push(node.output.first()?),
                    _ => return None,
                }
            }
        }
        Some(takers)
    }

    fn quantizer(&self, at: usize, node: &'a NodeProto) -> Option<RemovableQuantizer> {
        let (ElementType::Float, scale) = self.constant(node.input.get(1)?)? else { return None };
        let zero = match node.input.get(2).filter(|name| !name.is_empty()) {
            Some(name) => Some(self.constant(name)?),
            None => None,
        };
        let ty = match (&zero, int(node, "output_dtype")) {
            (Some((ty, _)), _) => *ty,
            (None, Some(id)) => ElementType::from_id(i32::try_from(id).ok()?)?,
            (None, None) => ElementType::Uint8,
        };
        let axis = int(node, "axis").unwrap_or(1);
        let block = int(node, "block_size").and_then(|size| usize::try_from(size).ok());
        let zero = zero.map(|(_, zero)| zero);
        let constants = Constants { ty, scale, zero, axis, block: block.unwrap_or(0) };
        let takers = self.takers(node.output.first()?)?;
        Some(RemovableQuantizer { at, takers, how: QuantizerKind::Static(Box::new(constants)) })
    }

    /// A quantiser by the range of what it is given, whose codes go into products that are cast to
    /// FLOAT.
    fn dynamic(&self, at: usize, node: &'a NodeProto) -> Option<RemovableQuantizer> {
        let of = |name: &str| self.users.get(name).map_or(&[][..], |users| users);
        let [codes, _, zero] = &*node.output else { return None };
        if node.output.iter().any(|name| self.outputs.contains(name.as_str())) {
            return None;
        }
        let product = |(user, place): &(usize, usize)| {
            let taker = self.graph.node.get(*user)?;
            let is_whole = match taker.op_type.as_str() {
                "MatMulInteger" => true,
                "ConvInteger" => {
                    let zero = taker.input.get(3).filter(|name| !name.is_empty());
                    let size = |name| self.held.get(name).map(|zero| zero.dims.iter().product());
                    zero.is_none_or(|name| size(name.as_str()) == Some(1i64))
                }
                _ => false,
            };
            let casts = of(taker.output.first()?).iter().all(|(user, _)| {
                let node = self.graph.node.get(*user);
                node.is_some_and(|node| {
                    node.op_type == "Cast" && int(node, "to") == Some(ElementType::Float as i64)
                })
            });
            (*place == 0 && is_whole && casts).then_some(*user)
        };
        let takers: Vec<usize> = of(codes).iter().map(product).collect::<Option<_>>()?;
        let is_theirs = of(zero).iter().all(|(user, place)| *place == 2 && takers.contains(user));
        is_theirs.then_some(RemovableQuantizer { at, takers, how: QuantizerKind::Dynamic })
    }
}
