//! Weights that a model computes of constants when it is loaded: stored narrow, and cast or
//! dequantised.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use onnx_cast_graph::{
    default_opset, has_bodies, int_attribute, ints_attribute, named_value, needed,
};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::{Interpreter, SharedTensor};

use crate::cli::tensor::NamedTensor;
use crate::cli::work::main_graph::MainGraph;
use crate::cli::work::weights::constants::Holder;
use crate::cli::work::weights::constants::{self, Constant, StoredCodes};

/// Of how many constants a value may be computed so that all are told: each value keeps its own.
const ROOTS: usize = 256;

/// What is known of a value that is computed of constants alone.
#[derive(Clone, Default)]
pub(super) struct MadeOf {
    /// The constants that it is computed of.
    pub(super) roots: HashSet<String>,
    pub(super) largest: Option<Largest>,
}

/// The largest of the constants of which a value is computed: it holds the values, and others scale
/// them.
#[derive(Clone)]
pub(super) struct Largest {
    pub(super) ty: ElementType,
    size: usize,
    pub(super) shape: Vec<usize>,
}

/// The values of a main graph that are made of constants alone.
pub(super) struct Constancy<'a> {
    pub(super) known: HashMap<String, MadeOf>,
    /// The nodes that make them, in their order.
    pub(super) nodes: Vec<&'a NodeProto>,
}

impl<'a> Constancy<'a> {
    /// Of a graph of a model, some of whose constants hold codes of other types, one in each byte.
    pub(super) fn of(
        model: &'a ModelProto,
        graph: &'a GraphProto,
        unpacked: &[(String, ElementType)],
    ) -> Constancy<'a> {
        let unpacked: HashMap<&String, ElementType> =
            unpacked.iter().map(|(name, ty)| (name, *ty)).collect();
        let mut known: HashMap<String, MadeOf> = HashMap::new();
        for constant in constants::of(model).into_iter().filter(|held| held.path.is_empty()) {
            let size = constant.elements();
            let ty = unpacked.get(&constant.name).copied().unwrap_or(constant.ty);
            let largest = Some(Largest { ty, size, shape: constant.shape });
            known.insert(constant.name, MadeOf { roots: constant.roots, largest });
        }
        let mut nodes: Vec<&NodeProto> = vec![];
        for node in &graph.node {
            let is_pure = !is_random(&node.op_type) && !has_bodies(node);
            let is_constant = node.op_type == "Constant";
            if !is_pure || (node.input.is_empty() && !is_constant) {
                continue;
            }
            let given = node.input.iter().filter(|name| !name.is_empty());
            let made_of: Option<Vec<MadeOf>> = given.map(|name| known.get(name).cloned()).collect();
            let Some(made_of) = made_of else { continue };
            nodes.push(node);
            if is_constant {
                continue;
            }
            let largest = made_of.iter().filter_map(|made_of| made_of.largest.clone());
            let largest = largest.max_by_key(|largest| largest.size);
            let roots = made_of.into_iter().flat_map(|made_of| made_of.roots).take(ROOTS).collect();
            note(&mut known, node, &MadeOf { roots, largest });
        }
        Constancy { known, nodes }
    }
}

/// Notes what all that a node makes is computed of.
fn note(known: &mut HashMap<String, MadeOf>, node: &NodeProto, made_of: &MadeOf) {
    known.extend(node.output.iter().map(|output| (output.clone(), made_of.clone())));
}

/// Whether an operator makes other values each time.
pub(crate) fn is_random(op_type: &str) -> bool {
    op_type.starts_with("Random") || matches!(op_type, "Bernoulli" | "Multinomial" | "Dropout")
}

/// The values of a main graph that are computed of constants alone.
pub(super) struct Computed<'a> {
    holder: Holder<'a>,
    graph: &'a GraphProto,
    /// The nodes that make them, in their order.
    nodes: Vec<Cow<'a, NodeProto>>,
    /// Those of the graph itself, by what they make, and its initializers.
    makers: HashMap<&'a str, &'a NodeProto>,
    held: HashMap<&'a str, &'a TensorProto>,
    names: Vec<String>,
    known: HashMap<String, MadeOf>,
    /// The part in which each value is computed.
    parts: HashMap<String, usize>,
    /// What computes the values of the part of which one was asked for last.
    last: RefCell<Option<(usize, Rc<Interpreter>)>>,
}

/// Values of so many elements are computed by one model, which holds the constants that the model's
/// message holds: more are parts of the model.
const AT_ONCE: usize = 16 << 20;

impl<'a> Computed<'a> {
    /// Those that are used with others or `sought` by name; `None` if there are none.
    pub(super) fn of(holder: &Holder<'a>, sought: &HashSet<&str>) -> Option<Computed<'a>> {
        let graph = holder.proto.graph.as_ref()?;
        let Constancy { mut known, nodes } = Constancy::of(holder.proto, graph, holder.unpacked);
        let mut names = used_with_others(graph, &nodes, sought);
        let mut multiplied = scaled_behind(holder.proto, graph, &known, sought);
        multiplied.extend(scaled_inside(holder.proto, graph, &known, sought));
        let made = multiplied.iter().flat_map(|node| &node.output);
        names.extend(made.filter(|name| sought.contains(name.as_str())).cloned());
        for node in &multiplied {
            let made_of: Vec<MadeOf> =
                node.input.iter().filter_map(|i| known.get(i).cloned()).collect();
            let largest = made_of.first().and_then(|codes| codes.largest.clone());
            let roots = made_of.into_iter().flat_map(|made_of| made_of.roots).collect();
            note(&mut known, node, &MadeOf { roots, largest });
        }
        let (mut parts, mut before) = (HashMap::new(), 0usize);
        for name in &names {
            parts.insert(name.clone(), before / AT_ONCE);
            let largest = known.get(name).and_then(|made_of| made_of.largest.as_ref());
            before = before.saturating_add(largest.map_or(0, |largest| largest.size));
        }
        let made = |node: &&'a NodeProto| Some((node.output.first()?.as_str(), *node));
        let makers = nodes.iter().filter_map(made).collect();
        let held = graph.initializer.iter().map(|held| (held.name.as_str(), held)).collect();
        let nodes = nodes.into_iter().map(Cow::Borrowed);
        let nodes = nodes.chain(multiplied.into_iter().map(Cow::Owned)).collect();
        let (holder, last) = (*holder, RefCell::default());
        let is_any = !names.is_empty();
        is_any.then_some(Computed { holder, graph, nodes, makers, held, names, known, parts, last })
    }

    /// The value of a name, if it is a tensor. Fails when it cannot be computed.
    pub(super) fn value(&self, name: &str) -> TractResult<Option<SharedTensor>> {
        let Some(part) = self.parts.get(name) else { return Ok(None) };
        let last = self.last.borrow().clone();
        let model = match last.filter(|(place, _)| place == part) {
            Some((_, model)) => model,
            None => {
                // The part before goes first.
                self.last.take();
                let model = Rc::new(self.model(*part)?);
                self.last.replace(Some((*part, model.clone())));
                model
            }
        };
        Ok(model.constant(name)?)
    }

    /// A model of the nodes alone that make a part of the values.
    fn model(&self, part: usize) -> TractResult<Interpreter> {
        let model = self.holder.proto;
        let is_in_part = |name: &&String| self.parts.get(*name) == Some(&part);
        let outputs: Vec<&String> = self.names.iter().filter(is_in_part).collect();
        let mut used: HashSet<&String> = outputs.iter().copied().collect();
        let mut nodes = vec![];
        for node in self.nodes.iter().rev() {
            if node.output.iter().any(|name| used.contains(name)) {
                used.extend(&node.input);
                nodes.push(NodeProto::clone(node));
            }
        }
        nodes.reverse();
        let held = self.graph.initializer.iter().filter(|held| used.contains(&held.name));
        let graph = GraphProto {
            name: self.graph.name.clone(),
            node: nodes,
            initializer: held.cloned().collect(),
            output: outputs.into_iter().map(named_value).collect(),
            ..GraphProto::default()
        };
        let alone = ModelProto {
            ir_version: model.ir_version,
            opset_import: model.opset_import.clone(),
            functions: model.functions.clone(),
            graph: Some(graph),
            ..ModelProto::default()
        };
        let onnx = self.holder.onnx.clone().with_probes(false).with_ignore_output_shapes(true);
        Ok(Interpreter::of_proto(onnx, alone, self.holder.folder)?)
    }

    /// The values, each computed when it is its turn.
    pub(super) fn each(&self) -> impl Iterator<Item = TractResult<Constant<'a>>> {
        let constant = |name: &String| -> TractResult<Option<Constant<'a>>> {
            let Some((ty, tensor)) = self.value(name)? else { return Ok(None) };
            let (name, tensor) = (name.clone(), Arc::unwrap_or_clone(tensor));
            let made_of = self.known.get(&name).cloned().unwrap_or_default();
            let mut constant = Constant::in_memory(NamedTensor { name, ty, tensor }, "");
            let stored = made_of.largest.map(|largest| largest.ty);
            constant.stored = stored.filter(|stored| *stored != ty);
            constant.codes = self.codes(&constant.name);
            constant.roots.extend(made_of.roots);
            Ok(Some(constant))
        };
        self.names.iter().filter_map(move |name| constant(name).transpose())
    }

    /// The codes of a value that a `DequantizeLinear` makes of constants that are held, or that a
    /// Cast or a transpose of a matrix makes of such a value.
    fn codes(&self, name: &str) -> Option<StoredCodes<'a>> {
        let maker = |name: &str| self.makers.get(name).copied();
        let (mut node, mut is_turned) = (maker(name)?, false);
        while matches!(node.op_type.as_str(), "Cast" | "Transpose") {
            is_turned ^= node.op_type == "Transpose";
            node = maker(node.input.first()?)?;
        }
        let held = |place: usize| -> Option<&'a TensorProto> {
            let name = node.input.get(place)?;
            let initializer = self.held.get(name.as_str()).copied();
            initializer.or_else(|| maker(name)?.attribute.iter().find_map(|held| held.t.as_ref()))
        };
        let (codes, scale) = (held(0)?, held(1)?);
        let is_matrix = codes.dims.len() == 2;
        let is_told = node.op_type == "DequantizeLinear" && (is_matrix || !is_turned);
        let attributes = &node.attribute;
        is_told.then_some(StoredCodes { codes, scale, attributes, is_turned })
    }
}

/// The values that these nodes make, `Constant` nodes excepted, and that other nodes or the outside
/// use, or that are sought.
fn used_with_others(
    graph: &GraphProto,
    nodes: &[&NodeProto],
    sought: &HashSet<&str>,
) -> Vec<String> {
    let computed = nodes.iter().filter(|node| node.op_type != "Constant");
    let inside: HashSet<*const NodeProto> =
        nodes.iter().map(|node| std::ptr::from_ref(*node)).collect();
    let outside = graph.node.iter().filter(|node| !inside.contains(&std::ptr::from_ref(*node)));
    let mut used: HashSet<&str> = outside.flat_map(needed).collect();
    used.extend(graph.output.iter().map(|output| output.name.as_str()));
    used.extend(sought);
    let mut seen = HashSet::new();
    let made = computed.flat_map(|node| &node.output);
    made.filter(|name| used.contains(name.as_str()) && seen.insert(*name)).cloned().collect()
}

/// What the codes mean that integer products take whose results are scaled behind them, as dynamic
/// quantisation has it: a node for each that dequantises them, if what it makes is `sought` by
/// name.
fn scaled_behind(
    model: &ModelProto,
    graph: &GraphProto,
    known: &HashMap<String, MadeOf>,
    sought: &HashSet<&str>,
) -> Vec<NodeProto> {
    let main = MainGraph::of(model);
    let only_taker = |node: &NodeProto, op: &str| {
        let [taker] = main.users(node.output.first()?) else { return None };
        graph.node.get(*taker).filter(|taker| taker.op_type == op)
    };
    let is_weight = |name: &&String| known.contains_key(*name);
    let has_axes = default_opset(&model.opset_import).is_some_and(|opset| opset >= 13);
    let meaning = |product: &NodeProto| {
        let codes = product.input.get(1).filter(is_weight)?;
        let name = codes.strip_suffix("_quantized").filter(|name| sought.contains(name))?;
        let scaled = only_taker(only_taker(product, "Cast")?, "Mul")?;
        let mut factors = scaled.input.iter().filter_map(|input| main.node(input));
        let scales = factors.find(|node| node.op_type == "Mul")?;
        let scale = scales.input.iter().find(is_weight)?;
        let (size, channels) = (known.get(scale)?.largest.as_ref()?, known.get(codes)?);
        let channels = channels.largest.as_ref()?.shape.last().copied();
        let is_of_columns = size.shape.len() == 1 && Some(size.size) == channels;
        if size.size != 1 && !(is_of_columns && has_axes && product.op_type == "MatMulInteger") {
            return None;
        }
        let zero = product.input.get(3).filter(|zero| !zero.is_empty());
        Some(NodeProto {
            op_type: "DequantizeLinear".into(),
            name: name.into(),
            input: [codes, scale].into_iter().chain(zero.filter(is_weight)).cloned().collect(),
            output: vec![name.into()],
            attribute: if is_of_columns { vec![int_attribute("axis", -1)] } else { vec![] },
            ..NodeProto::default()
        })
    };
    let is_product =
        |node: &&NodeProto| matches!(node.op_type.as_str(), "MatMulInteger" | "ConvInteger");
    graph.node.iter().filter(is_product).filter_map(meaning).collect()
}

/// What the codes mean that a `DynamicQuantizeLSTM` takes, each with the scale and the zero point
/// of its directions, as the matrices of an LSTM, which stand the other way round: as
/// `scaled_behind`.
fn scaled_inside(
    model: &ModelProto,
    graph: &GraphProto,
    known: &HashMap<String, MadeOf>,
    sought: &HashSet<&str>,
) -> Vec<NodeProto> {
    /// The places of codes, their scales and their zero points.
    const PLACES: [[usize; 3]; 2] = [[1, 8, 9], [2, 10, 11]];
    let has_axes = default_opset(&model.opset_import).is_some_and(|opset| opset >= 13);
    let shape = |name: &String| Some(&*known.get(name)?.largest.as_ref()?.shape);
    let meaning = |(layer, places): (&NodeProto, [usize; 3])| {
        let [codes, scale, zero] = places.map(|place| layer.input.get(place));
        let (codes, scale, zero) = (codes?, scale?, zero?);
        let name = codes.strip_suffix("_quantized").filter(|name| sought.contains(name))?;
        let (of_codes, of_scale) = shape(codes).zip(shape(scale))?;
        let is_of_directions = of_codes.len() == 3 && of_codes.get(..1) == Some(of_scale);
        if !is_of_directions || !known.contains_key(zero) {
            return None;
        }
        let node = |op: &str, input: Vec<String>, made: &str, attribute| NodeProto {
            op_type: op.into(),
            name: made.into(),
            input,
            output: vec![made.into()],
            attribute: vec![attribute],
            ..NodeProto::default()
        };
        let turned = format!("{codes} turned");
        let given = [codes, scale, zero].map(String::clone).into();
        let made = node("DequantizeLinear", given, &turned, int_attribute("axis", 0));
        let perm = ints_attribute("perm", vec![0, 2, 1]);
        Some([made, node("Transpose", vec![turned], name, perm)])
    };
    let is_layer = |node: &&NodeProto| has_axes && node.op_type == "DynamicQuantizeLSTM";
    let layers = graph.node.iter().filter(is_layer);
    let all = layers.flat_map(|layer| PLACES.map(|places| (layer, places)));
    all.filter_map(meaning).flatten().collect()
}
