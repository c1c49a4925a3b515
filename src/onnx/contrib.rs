//! Operators of ONNX Runtime's that are quantisers around another operator, written out as those nodes.
//!
//! What tract fuses into integer products stays one node: `QLinearConv`, `QLinearMatMul` of FLOAT scales.

use std::collections::HashMap;

use tract_onnx::model::OnnxOpRegister;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto, TensorProto};

use super::annotation::{self, DOMAIN, wrap_at_opset};
use super::node::{attribute, int, is_default_domain, node_name, refusal};
use crate::cast::element_type::ElementType;
use crate::error::Error;

const MICROSOFT: &str = "com.microsoft";

/// How many dimensions a graph's initializers have.
pub(super) fn ranks(graph: &GraphProto) -> HashMap<String, usize> {
    let is_needed = |node: &NodeProto| node.op_type == "GatherBlockQuantized";
    if !graph.node.iter().any(is_needed) {
        return HashMap::new();
    }
    let rank = |tensor: &TensorProto| (tensor.name.clone(), tensor.dims.len());
    graph.initializer.iter().map(rank).collect()
}

/// Writes out a node: it becomes the last of those that stand for it, and the others are returned, in the order of
/// computation. Of a node that tract or the program's user has an operator for, none.
///
/// # Errors
///
/// When the node lacks inputs, or asks for something that has no equal among the other operators.
pub(super) fn write_out(
    node: &mut NodeProto,
    types: &[Option<ElementType>],
    ranks: &HashMap<String, usize>,
    operators: &OnnxOpRegister,
) -> Result<Vec<NodeProto>, Error> {
    let ty = |index: usize| types.get(index).copied().flatten();
    let mut parts = Parts::of(node, types);
    let op_type = node.op_type.clone();
    let is_microsoft = node.domain == MICROSOFT;
    let known = operators.0.contains_key(op_type.as_str());
    match op_type.as_str() {
        "QLinearMatMul" if is_microsoft || is_default_domain(&node.domain) => {
            let is_float = |ty: Option<ElementType>| ty.is_none_or(|ty| ty == ElementType::Float);
            let is_byte = |ty: Option<ElementType>| ty.is_none_or(|ty| !ty.is_exotic());
            if [1, 4, 6].into_iter().all(|index| is_float(ty(index)))
                && [0, 3, 7].into_iter().all(|index| is_byte(ty(index)))
            {
                return Ok(vec![]);
            }
            let [a, b] = [parts.float(0)?, parts.float(3)?];
            let product = parts.add("MatMul", &[&a, &b], vec![]);
            parts.quantize_float(&product, 6)?;
        }
        _ if !is_microsoft => return Ok(vec![]),
        "GatherBlockQuantized" => {
            let bits = int(node, "bits").unwrap_or(4);
            match ty(0) {
                Some(ElementType::Uint8) if bits == 8 => {}
                Some(ElementType::Int4 | ElementType::Uint4) => {}
                _ => return Ok(vec![]),
            }
            parts.gather_block_quantized(node, ranks)?;
        }
        _ if known => return Ok(vec![]),
        "QLinearAdd" | "QLinearMul" => {
            let [a, b] = [parts.dequantize(0)?, parts.dequantize(3)?];
            let result = parts.add(&op_type["QLinear".len()..], &[&a, &b], vec![]);
            parts.quantize(&result, 6, ty(0))?;
        }
        "QLinearSigmoid" | "QLinearLeakyRelu" => {
            let x = parts.dequantize(0)?;
            let attributes = parts.own(node, &["alpha"]);
            let result = parts.add(&op_type["QLinear".len()..], &[&x], attributes);
            parts.quantize(&result, 3, ty(0))?;
        }
        "QLinearSoftmax" => {
            let x = parts.dequantize(0)?;
            let axis = annotation::int("axis", int(node, "axis").unwrap_or(-1));
            let result = parts.add("Softmax", &[&x], vec![axis]);
            // Before opset 13, a Softmax is one of a matrix.
            if let (Some(opset), Some(softmax)) = (int(node, "opset"), parts.nodes.last_mut()) {
                wrap_at_opset(softmax, opset);
            }
            parts.quantize(&result, 3, ty(0))?;
        }
        "QLinearGlobalAveragePool" | "QLinearAveragePool" => {
            if int(node, "channels_last").is_some_and(|last| last != 0) {
                let problem = "attribute `channels_last` is not 0, which no other operator has";
                return Err(refusal(node, problem));
            }
            let x = parts.dequantize(0)?;
            let names =
                ["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"];
            let attributes = parts.own(node, &names);
            let result = parts.add(&op_type["QLinear".len()..], &[&x], attributes);
            parts.quantize(&result, 3, ty(0))?;
        }
        "QLinearConcat" => {
            let inputs: Result<Vec<String>, Error> =
                (2..node.input.len()).step_by(3).map(|first| parts.dequantize(first)).collect();
            let inputs = inputs?;
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
            let attributes = parts.own(node, &["axis"]);
            let result = parts.add("Concat", &inputs, attributes);
            parts.quantize(&result, 0, ty(2))?;
        }
        "QLinearWhere" => {
            let [x, y] = [parts.dequantize(1)?, parts.dequantize(4)?];
            let condition = parts.needed(0)?;
            let result = parts.add("Where", &[&condition, &x, &y], vec![]);
            parts.quantize(&result, 7, ty(1))?;
        }
        "QGemm" => parts.gemm(node)?,
        _ => return Ok(vec![]),
    }
    Ok(parts.finish(node))
}

/// The nodes that stand for one.
struct Parts<'a> {
    node: String,
    op_type: String,
    /// The name of what the node makes, and of its inputs.
    output: String,
    inputs: Vec<String>,
    types: &'a [Option<ElementType>],
    nodes: Vec<NodeProto>,
}

impl<'a> Parts<'a> {
    fn of(node: &NodeProto, types: &'a [Option<ElementType>]) -> Parts<'a> {
        Parts {
            node: node_name(node),
            op_type: node.op_type.clone(),
            output: node.output.first().cloned().unwrap_or_default(),
            inputs: node.input.clone(),
            types,
            nodes: vec![],
        }
    }

    fn input(&self, index: usize) -> &str {
        self.inputs.get(index).map_or("", String::as_str)
    }

    fn ty(&self, index: usize) -> Option<ElementType> {
        self.types.get(index).copied().flatten()
    }

    fn refuse(&self, problem: impl Into<String>) -> Error {
        Error::of_node(&self.node, &self.op_type, problem)
    }

    fn needed(&self, index: usize) -> Result<String, Error> {
        match self.input(index) {
            "" => Err(self.refuse(format!("has no input {index}, which it needs"))),
            name => Ok(name.into()),
        }
    }

    /// These attributes of the node, where it has them.
    fn own(&self, node: &NodeProto, names: &[&str]) -> Vec<AttributeProto> {
        names.iter().filter_map(|name| attribute(node, name).cloned()).collect()
    }

    /// Adds a node of one output, and tells what that is called.
    fn add(&mut self, op: &str, inputs: &[&str], attribute: Vec<AttributeProto>) -> String {
        let part = self.nodes.len();
        let output = format!("{DOMAIN}:{}:{part}", self.output);
        self.nodes.push(NodeProto {
            name: format!("{}.{op}.{part}", self.node),
            op_type: op.into(),
            input: inputs.iter().map(|name| (*name).into()).collect(),
            output: vec![output.clone()],
            attribute,
            ..NodeProto::default()
        });
        output
    }

    /// The same, of a quantiser that has every type and attribute, whatever the model's opset.
    fn add_quantizer(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> String {
        let output = self.add(op, inputs, attributes);
        if let Some(node) = self.nodes.last_mut() {
            node.domain = MICROSOFT.into();
        }
        output
    }

    fn constant(&mut self, tensor: TensorProto) -> String {
        let value = AttributeProto {
            name: "value".into(),
            r#type: AttributeType::Tensor as i32,
            t: Some(tensor),
            ..AttributeProto::default()
        };
        self.add("Constant", &[], vec![value])
    }

    /// The value of an input that is followed by its scale and zero point.
    fn dequantize(&mut self, first: usize) -> Result<String, Error> {
        self.dequantize_with(first, vec![])
    }

    /// The same as FLOAT, whatever the scale's type.
    fn float(&mut self, first: usize) -> Result<String, Error> {
        self.dequantize_with(
            first,
            vec![annotation::int("output_dtype", ElementType::Float as i64)],
        )
    }

    fn dequantize_with(
        &mut self,
        first: usize,
        attributes: Vec<AttributeProto>,
    ) -> Result<String, Error> {
        let (x, scale) = (self.needed(first)?, self.needed(first + 1)?);
        let zero_point = self.input(first + 2).to_string();
        Ok(self.add_quantizer("DequantizeLinear", &[&x, &scale, &zero_point], attributes))
    }

    /// Quantises a value by the scale and zero point at a place; without a zero point, to the type `otherwise`.
    fn quantize(
        &mut self,
        value: &str,
        scale: usize,
        otherwise: Option<ElementType>,
    ) -> Result<(), Error> {
        let zero_point = self.input(scale + 1).to_string();
        let mut attributes = vec![];
        if zero_point.is_empty() {
            let ty = otherwise.ok_or_else(|| {
                self.refuse("has no output zero point, and an input of unknown type")
            })?;
            attributes.push(annotation::int("output_dtype", ty as i64));
        }
        let scale = self.needed(scale)?;
        self.add_quantizer("QuantizeLinear", &[value, &scale, &zero_point], attributes);
        Ok(())
    }

    /// The same of a FLOAT, divided as one.
    fn quantize_float(&mut self, value: &str, scale: usize) -> Result<(), Error> {
        self.quantize(value, scale, self.ty(0))?;
        if let Some(node) = self.nodes.last_mut() {
            node.attribute.push(annotation::int("precision", ElementType::Float as i64));
        }
        Ok(())
    }

    /// A product of matrices, with an INT32 bias in units of both scales and `alpha`. Without an output scale it stays
    /// FLOAT.
    fn gemm(&mut self, node: &NodeProto) -> Result<(), Error> {
        let transposes = int(node, "transB").is_some_and(|trans| trans != 0);
        let a = self.dequantize(0)?;
        let axis = annotation::int("axis", i64::from(!transposes));
        let b = self.dequantize_with(3, vec![axis])?;
        let mut inputs = vec![a, b];
        if !self.input(6).is_empty() {
            let (c, a_scale, b_scale) = (self.needed(6)?, self.needed(1)?, self.needed(4)?);
            let mut unit = self.add("Mul", &[&a_scale, &b_scale], vec![]);
            if let Some(alpha) = attribute(node, "alpha") {
                let alpha = self.constant(TensorProto {
                    data_type: ElementType::Float as i32,
                    float_data: vec![alpha.f],
                    ..TensorProto::default()
                });
                unit = self.add("Mul", &[&unit, &alpha], vec![]);
            }
            let to = annotation::int("to", ElementType::Float as i64);
            let c = self.add("Cast", &[&c], vec![to]);
            inputs.push(self.add("Mul", &[&c, &unit], vec![]));
        }
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let attributes = self.own(node, &["alpha", "transA", "transB"]);
        let result = self.add("Gemm", &inputs, attributes);
        match self.input(7) {
            "" => Ok(()),
            _ => self.quantize(&result, 7, self.ty(0)),
        }
    }

    fn byte(&mut self, value: u8) -> String {
        self.constant(TensorProto {
            data_type: ElementType::Uint8 as i32,
            raw_data: vec![value],
            ..TensorProto::default()
        })
    }

    /// Rows of a table whose blocks have scales, of which only those that are taken are dequantised.
    fn gather_block_quantized(
        &mut self,
        node: &NodeProto,
        ranks: &HashMap<String, usize>,
    ) -> Result<(), Error> {
        let gather = int(node, "gather_axis").unwrap_or(0);
        let quantize = int(node, "quantize_axis").unwrap_or(1);
        let (data, indices, scales) = (self.needed(0)?, self.needed(1)?, self.needed(2)?);
        // Indices may have any number of dimensions, so an axis behind the one that is gathered along is counted from the
        // back.
        let rank = ranks.get(&data).map(|rank| *rank as i64);
        let from_front = |axis: i64| match (axis, rank) {
            (0.., _) => Some(axis),
            (_, rank) => rank.map(|rank| axis + rank),
        };
        let axis = match (from_front(gather), from_front(quantize), rank) {
            (Some(gather), Some(quantize), _) if quantize < gather => quantize,
            (_, _, _) if quantize < 0 && gather >= 0 => quantize,
            (Some(_), Some(quantize), Some(rank)) => quantize - rank,
            _ => return Err(self.refuse("takes from data of unknown rank")),
        };
        let along = || vec![annotation::int("axis", gather)];
        let taken = self.add("Gather", &[&data, &indices], along());
        let scales = self.add("Gather", &[&scales, &indices], along());
        let zero_points = match self.input(3).to_string() {
            none if none.is_empty() => match self.ty(0) {
                Some(ElementType::Uint8) => self.byte(128),
                _ => String::new(),
            },
            given => self.add("Gather", &[&given, &indices], along()),
        };
        let block = int(node, "block_size").unwrap_or(128);
        let attributes = vec![annotation::int("axis", axis), annotation::int("block_size", block)];
        let inputs = [taken.as_str(), &scales, &zero_points];
        self.add_quantizer("DequantizeLinear", &inputs, attributes);
        Ok(())
    }

    /// The node becomes the last part.
    fn finish(mut self, node: &mut NodeProto) -> Vec<NodeProto> {
        if let Some(last) = self.nodes.pop() {
            let (name, output) = (std::mem::take(&mut node.name), std::mem::take(&mut node.output));
            *node = NodeProto { name, output, ..last };
        }
        self.nodes
    }
}
