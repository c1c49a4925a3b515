//! Decomposes operators of ONNX Runtime's that are quantisers around another operator. Before:
//! `QLinearAdd` and the like; after: `DequantizeLinear` of its inputs, the operator on FLOAT,
//! `QuantizeLinear` of the result. So too `FusedMatMul`, which is several operators in one
//! (`fused`), and whatever is a composition of operators, which is kept as text (`compose`, read by
//! `read`, written out by `writer`). `quantized` says which operators are between quantisers,
//! `packed` takes codes of few bits out of bytes, `made_types` says what types all of these make.
//!
//! What tract fuses into integer products stays: `QLinearConv`, `QLinearMatMul` of FLOAT scales.

mod compose;
mod fused;
pub(super) mod made_types;
mod packed;
mod quantized;
mod read;
mod writer;

use onnx_cast_graph::{
    Graph, Made, NewNode, Node, NodeId, NodeView, Place, ValueId, attribute, int, int_attribute,
    value_attribute,
};
use tract_onnx::pb::{AttributeProto, TensorProto};
use tract_onnx::prelude::TractResult;

pub(super) use self::compose::compose;
use super::context::PassContext;
use super::diagnostics::Diagnostics;
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::lowered::DOMAIN;
use crate::onnx::node::refusal;
use crate::onnx::operators::registered::Registered;
use crate::passes::facts::types;
use crate::passes::facts::value_type::dims;

const MICROSOFT: &str = "com.microsoft";

/// Decomposes the nodes of all bodies. Of a node that tract or the program's user has an operator
/// for, nothing is changed. Fails when a node lacks inputs, or asks for something that has no equal
/// among the other operators.
pub(super) fn decompose(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let is_candidate = |id: &NodeId| {
        let node = graph.node(*id);
        node.domain == MICROSOFT || node.is("QLinearMatMul")
    };
    let candidates: Vec<NodeId> =
        graph.all_nodes(graph.main()).into_iter().filter(is_candidate).collect();
    if candidates.is_empty() {
        return Ok(());
    }
    for id in &candidates {
        let unpacked = packed::unpack(graph, *id, context);
        context.take(unpacked.map_err(Into::into), false)?;
    }
    // What stands for an operator depends on the types of its inputs. What is wrong with types is
    // told when the pass `types` runs on what this one has made.
    let mut trial = PassContext::new(context.options, context.limits, Diagnostics::Collect(vec![]));
    trial.lowered.clone_from(&context.lowered);
    types::infer(graph, &mut trial)?;
    for id in candidates {
        let types = trial.facts.types(graph.node(id));
        let decomposed = write_out(graph, id, &types, context.options.registered);
        context.take(decomposed.map_err(Into::into), false)?;
    }
    Ok(())
}

/// Puts nodes before one, which becomes the last of those that stand for it.
fn write_out(
    graph: &mut Graph,
    id: NodeId,
    types: &[Option<ElementType>],
    registered: Registered,
) -> Result<(), Error> {
    let ty = |index: usize| types.get(index).copied().flatten();
    let node = &graph.node(id).clone();
    let mut parts = NodeParts { node, types, nodes: vec![] };
    let op_type = node.op_type.clone();
    let is_microsoft = node.domain == MICROSOFT;
    let known = registered.has(op_type.as_str());
    match op_type.as_str() {
        "QLinearMatMul" if is_microsoft || node.is_onnx() => {
            let is_float = |ty: Option<ElementType>| ty.is_none_or(|ty| ty == ElementType::Float);
            let is_byte = |ty: Option<ElementType>| ty.is_none_or(|ty| !ty.is_exotic());
            if [1, 4, 6].into_iter().all(|index| is_float(ty(index)))
                && [0, 3, 7].into_iter().all(|index| is_byte(ty(index)))
            {
                return Ok(());
            }
            let [a, b] = [parts.float(0)?, parts.float(3)?];
            let product = parts.add("MatMul", &[a, b], vec![]);
            parts.quantize_float(product, 6)?;
        }
        _ if !is_microsoft => return Ok(()),
        "GatherBlockQuantized" => {
            let bits = int(node, "bits").unwrap_or(4);
            match ty(0) {
                Some(ElementType::Uint8) if bits == 8 => {}
                Some(ElementType::Int4 | ElementType::Uint4 | ElementType::Uint2) => {}
                _ => return Ok(()),
            }
            parts.gather_block_quantized(shape(graph, node.input(0)).as_deref())?;
        }
        _ if known => return Ok(()),
        "QGemm" => parts.gemm()?,
        "FusedMatMul" => {
            let is_vector = |place: usize| {
                shape(graph, node.input(place)).is_some_and(|shape| shape.len() == 1)
            };
            parts.fused_matmul([is_vector(0), is_vector(1)])?;
        }
        other => match other.strip_prefix("QLinear") {
            Some(operator) => {
                let rank = shape(graph, node.input(0)).map(|shape| shape.len());
                if !parts.quantized(operator, rank)? {
                    return Ok(());
                }
            }
            None => return Ok(()),
        },
    }
    let NodeParts { nodes, .. } = parts;
    finish(graph, id, nodes);
    Ok(())
}

/// What is known of the sizes of a value.
fn shape(graph: &Graph, value: Option<ValueId>) -> Option<Vec<Option<i64>>> {
    dims(graph, value?)
}

/// What goes into a part: a value of the graph, or what another part makes.
#[derive(Debug, Clone, Copy)]
enum PartInput {
    None,
    Value(ValueId),
    Part(usize),
}

/// A node of one output that stands for a part of another.
struct PartNode {
    op_type: String,
    domain: &'static str,
    inputs: Vec<PartInput>,
    attributes: Vec<AttributeProto>,
    /// The opset that it is of, where that is not the node's.
    opset: Option<i64>,
}

/// The nodes that stand for one.
struct NodeParts<'a> {
    node: &'a Node,
    types: &'a [Option<ElementType>],
    nodes: Vec<PartNode>,
}

impl NodeParts<'_> {
    fn input(&self, index: usize) -> PartInput {
        self.node.input(index).map_or(PartInput::None, PartInput::Value)
    }

    fn ty(&self, index: usize) -> Option<ElementType> {
        self.types.get(index).copied().flatten()
    }

    fn needed(&self, index: usize) -> Result<PartInput, Error> {
        match self.input(index) {
            PartInput::None => {
                Err(refusal(self.node, format!("has no input {index}, which it needs")))
            }
            given => Ok(given),
        }
    }

    /// These attributes of the node, where it has them.
    fn own(&self, names: &[&str]) -> Vec<AttributeProto> {
        names.iter().filter_map(|name| attribute(self.node, name).cloned()).collect()
    }

    fn add(
        &mut self,
        op: &str,
        inputs: &[PartInput],
        attributes: Vec<AttributeProto>,
    ) -> PartInput {
        let (op_type, inputs) = (op.into(), inputs.into());
        self.nodes.push(PartNode { op_type, domain: "", inputs, attributes, opset: None });
        PartInput::Part(self.nodes.len() - 1)
    }

    /// The same, of a quantiser that has every type and attribute, whatever the model's opset.
    fn add_quantizer(
        &mut self,
        op: &str,
        inputs: &[PartInput],
        attributes: Vec<AttributeProto>,
    ) -> PartInput {
        let output = self.add(op, inputs, attributes);
        if let Some(node) = self.nodes.last_mut() {
            node.domain = MICROSOFT;
        }
        output
    }

    fn constant(&mut self, tensor: TensorProto) -> PartInput {
        self.add("Constant", &[], vec![value_attribute(tensor)])
    }

    fn float_constant(&mut self, number: f32) -> PartInput {
        let (data_type, float_data) = (ElementType::Float as i32, vec![number]);
        self.constant(TensorProto { data_type, float_data, ..TensorProto::default() })
    }

    /// The value of an input that is followed by its scale and zero point.
    fn dequantize(&mut self, first: usize) -> Result<PartInput, Error> {
        self.dequantize_with(first, vec![])
    }

    /// The same as FLOAT, whatever the scale's type.
    fn float(&mut self, first: usize) -> Result<PartInput, Error> {
        let float = int_attribute("output_dtype", ElementType::Float as i64);
        self.dequantize_columns(first, vec![float])
    }

    fn dequantize_with(
        &mut self,
        first: usize,
        attributes: Vec<AttributeProto>,
    ) -> Result<PartInput, Error> {
        let zero_point = self.input(first + 2);
        self.dequantize_by(first, zero_point, attributes)
    }

    /// The same, where one zero point may be that of many scales.
    fn dequantize_columns(
        &mut self,
        first: usize,
        attributes: Vec<AttributeProto>,
    ) -> Result<PartInput, Error> {
        let zero_point = match self.input(first + 2) {
            PartInput::None => PartInput::None,
            given => {
                let scale = self.needed(first + 1)?;
                self.spread(given, scale)
            }
        };
        self.dequantize_by(first, zero_point, attributes)
    }

    /// A value of one element as often as there are scales.
    fn spread(&mut self, value: PartInput, scale: PartInput) -> PartInput {
        /// The first version with an `Expand` of all types.
        const SPREADS: i64 = 13;
        let shape = self.add("Shape", &[scale], vec![]);
        let spread = self.add("Expand", &[value, shape], vec![]);
        if let Some(node) = self.nodes.last_mut() {
            node.opset = Some(SPREADS.max(self.node.opset));
        }
        spread
    }

    fn dequantize_by(
        &mut self,
        first: usize,
        zero_point: PartInput,
        attributes: Vec<AttributeProto>,
    ) -> Result<PartInput, Error> {
        let (x, scale) = (self.needed(first)?, self.needed(first + 1)?);
        Ok(self.add_quantizer("DequantizeLinear", &[x, scale, zero_point], attributes))
    }

    /// Quantises a value by the scale and zero point at a place, without that to type `otherwise`.
    fn quantize(
        &mut self,
        value: PartInput,
        scale: usize,
        otherwise: Option<ElementType>,
    ) -> Result<(), Error> {
        let zero_point = self.input(scale + 1);
        let mut attributes = vec![];
        if let PartInput::None = zero_point {
            let ty = otherwise.ok_or_else(|| {
                refusal(self.node, "has no output zero point, and an input of unknown type")
            })?;
            attributes.push(int_attribute("output_dtype", ty as i64));
        }
        let scale = self.needed(scale)?;
        self.add_quantizer("QuantizeLinear", &[value, scale, zero_point], attributes);
        Ok(())
    }

    /// The same of a FLOAT, divided as one.
    fn quantize_float(&mut self, value: PartInput, scale: usize) -> Result<(), Error> {
        self.quantize(value, scale, self.ty(0))?;
        if let Some(node) = self.nodes.last_mut() {
            node.attributes.push(int_attribute("precision", ElementType::Float as i64));
        }
        Ok(())
    }

    /// A product of matrices, with an INT32 bias in units of both scales and `alpha`. Without an
    /// output scale it stays FLOAT.
    fn gemm(&mut self) -> Result<(), Error> {
        let transposes = int(self.node, "transB").is_some_and(|trans| trans != 0);
        let a = self.dequantize(0)?;
        let axis = int_attribute("axis", i64::from(!transposes));
        let b = self.dequantize_columns(3, vec![axis])?;
        let mut inputs = vec![a, b];
        if let PartInput::Value(_) = self.input(6) {
            let (c, a_scale, b_scale) = (self.needed(6)?, self.needed(1)?, self.needed(4)?);
            let mut unit = self.add("Mul", &[a_scale, b_scale], vec![]);
            if let Some(alpha) = attribute(self.node, "alpha") {
                let alpha = self.float_constant(alpha.f);
                unit = self.add("Mul", &[unit, alpha], vec![]);
            }
            let to = int_attribute("to", ElementType::Float as i64);
            let c = self.add("Cast", &[c], vec![to]);
            inputs.push(self.add("Mul", &[c, unit], vec![]));
        }
        let attributes = self.own(&["alpha", "transA", "transB"]);
        let result = self.add("Gemm", &inputs, attributes);
        match self.input(7) {
            PartInput::None => Ok(()),
            _ => self.quantize(result, 7, self.ty(0)),
        }
    }

    fn byte(&mut self, value: u8) -> PartInput {
        let (data_type, raw_data) = (ElementType::Uint8 as i32, vec![value]);
        self.constant(TensorProto { data_type, raw_data, ..TensorProto::default() })
    }

    /// Rows of a table whose blocks have scales: only those that are taken are dequantised.
    fn gather_block_quantized(&mut self, shape: Option<&[Option<i64>]>) -> Result<(), Error> {
        let gather = int(self.node, "gather_axis").unwrap_or(0);
        let quantize = int(self.node, "quantize_axis").unwrap_or(1);
        let (data, indices, scales) = (self.needed(0)?, self.needed(1)?, self.needed(2)?);
        let block = int(self.node, "block_size").unwrap_or(128);
        let rank = shape.map(|shape| shape.len() as i64);
        let from_front = |axis: i64| match (axis, rank) {
            (0.., _) => Some(axis),
            (_, rank) => rank.map(|rank| axis + rank),
        };
        let fronts = from_front(gather).zip(from_front(quantize));
        // Indices may have any number of dimensions, so an axis behind the one that is gathered
        // along is counted from the back. Along one axis each element that is taken has a scale of
        // its own.
        let (axis, block, of_scales) = match (fronts, rank) {
            (Some((one, other)), _) if one == other => {
                let sizes = shape.zip(usize::try_from(one).ok());
                let size = sizes.and_then(|(shape, axis)| *shape.get(axis)?);
                (0, 1, self.places_of_blocks(size, block, indices)?)
            }
            (Some((gather, quantize)), _) if quantize < gather => (quantize, block, indices),
            (Some((_, quantize)), Some(rank)) => (quantize - rank, block, indices),
            _ => return Err(self.refusal("takes from data of unknown rank")),
        };
        let along = || vec![int_attribute("axis", gather)];
        let taken = self.add("Gather", &[data, indices], along());
        let scales = self.add("Gather", &[scales, of_scales], along());
        let zero_points = match self.input(3) {
            PartInput::None if self.ty(0) == Some(ElementType::Uint8) => {
                let middle = self.byte(128);
                self.spread(middle, scales)
            }
            PartInput::None => PartInput::None,
            given => self.add("Gather", &[given, of_scales], along()),
        };
        let attributes = vec![int_attribute("axis", axis), int_attribute("block_size", block)];
        self.add_quantizer("DequantizeLinear", &[taken, scales, zero_points], attributes);
        Ok(())
    }
}

impl NodeParts<'_> {
    fn refusal(&self, problem: &str) -> Error {
        refusal(self.node, format!("{problem}, the model imports {}", self.node.opset))
    }

    /// The blocks in which places of an axis are, by their indices.
    /// Fails where the length of the axis is not known, or is more than any constant's.
    fn places_of_blocks(
        &mut self,
        size: Option<i64>,
        block: i64,
        indices: PartInput,
    ) -> Result<PartInput, Error> {
        const MOST: i64 = 1 << 28;
        if block < 1 {
            return Err(self.refusal(&format!("has attribute `block_size` {block}")));
        }
        let Some(size) = size.filter(|size| (0..=MOST).contains(size)) else {
            return Err(self.refusal("takes along the blocks of data of unknown size"));
        };
        let blocks = TensorProto {
            data_type: ElementType::Int64 as i32,
            dims: vec![size],
            int64_data: (0..size).map(|place| place / block).collect(),
            ..TensorProto::default()
        };
        let blocks = self.constant(blocks);
        Ok(self.add("Gather", &[blocks, indices], vec![]))
    }
}

/// Adds the parts before the node, which becomes the last one.
fn finish(graph: &mut Graph, id: NodeId, mut parts: Vec<PartNode>) {
    let Some(last) = parts.pop() else { return };
    let label = graph.node(id).shared_label().clone();
    let output = graph.node(id).output(0);
    let output = output.map_or(label.clone(), |output| graph.value(output).name.clone());
    let mut made: Vec<ValueId> = vec![];
    let prefix = graph.node(id).prefix;
    for (place, part) in parts.into_iter().enumerate() {
        let inputs = part.inputs.iter().map(|operand| value(&made, *operand)).collect();
        let node = graph.add(
            Place::Before(id),
            NewNode {
                name: format!("{label}.{}.{place}", part.op_type),
                op_type: part.op_type,
                domain: part.domain.into(),
                inputs,
                outputs: vec![Made::New(format!("{DOMAIN}:{output}:{place}"))],
                attributes: part.attributes.into(),
            },
        );
        let added = graph.node_mut(node);
        added.prefix = prefix;
        added.opset = part.opset.unwrap_or(added.opset);
        made.extend(graph.node(node).output(0));
    }
    graph.truncate_inputs(id, 0);
    for operand in last.inputs {
        graph.push_input(id, value(&made, operand));
    }
    let node = graph.node_mut(id);
    (node.op_type, node.domain) = (last.op_type, last.domain.into());
    (node.attributes, node.opset) = (last.attributes.into(), last.opset.unwrap_or(node.opset));
}

fn value(made: &[ValueId], operand: PartInput) -> Option<ValueId> {
    match operand {
        PartInput::None => None,
        PartInput::Value(value) => Some(value),
        PartInput::Part(place) => made.get(place).copied(),
    }
}

#[cfg(test)]
mod tests;
