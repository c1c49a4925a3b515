//! What runs cost, counted in elements and multiplications from the shapes that they have: the same
//! on every machine, whatever else it does. A clock would choose other inputs on a machine that is
//! busy, and with them another verdict.

use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::Cost;
use tract_onnx_cast::Result;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, Observer};

/// What a second is for: about so much an optimised build does on one core.
pub(crate) const SECOND: f64 = 1e9;
/// A node, whatever it is given, which is built anew for other shapes.
const NODE: f64 = 1e5;
/// An element that a node is given or makes, and a multiplication with its addition.
const ELEMENT: f64 = 2.0;
const PRODUCT: f64 = 0.1;

/// What runs have cost, and may cost together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Price {
    pub(crate) spent: f64,
    /// What of it is for nodes, whatever they are given.
    nodes: f64,
    most: f64,
}

impl Price {
    /// Nothing so far, and at most so much.
    pub(crate) fn up_to(most: f64) -> Price {
        Price { spent: 0.0, nodes: 0.0, most }
    }

    /// Whether it is more than it may be: a run that has ended then was cut off.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.spent > self.most
    }

    /// Whether so much more is no more than it may be.
    pub(crate) fn bears(&self, more: f64) -> bool {
        self.spent + more <= self.most
    }

    /// What a run costs on so many times the elements, if each costs as much.
    pub(crate) fn on(&self, times: f64) -> f64 {
        self.nodes + (self.spent - self.nodes) * times
    }

    /// What is left.
    pub(crate) fn left(&self) -> f64 {
        (self.most - self.spent).max(0.0)
    }

    /// Adds what a run of a plan costs, whose shapes are known.
    /// Fails when that is too much: the plan is not to run.
    pub(crate) fn add_plan(&mut self, plan: &TypedModel) -> TractResult<()> {
        for node in plan.nodes() {
            let count = |count: &TDim| count.to_i64().map_or(0.0, |count| count as f64);
            let made: f64 =
                node.outputs.iter().map(|output| count(&output.fact.shape.volume())).sum();
            let facts = plan.node_input_facts(node.id)?;
            let costs = node.op.cost(&facts).unwrap_or_default().into_iter();
            let products = costs.filter(|(cost, _)| matches!(cost, Cost::FMA(_)));
            let products: f64 = products.map(|(_, products)| count(&products)).sum();
            self.nodes += NODE;
            self.spent += NODE + ELEMENT * made + PRODUCT * products;
        }
        anyhow::ensure!(!self.is_exceeded(), "{TOO_MUCH}");
        Ok(())
    }
}

const TOO_MUCH: &str = "has more to compute than a trial may";

/// Counts what a run node by node costs, and ends it where that is too much.
impl Observer for Price {
    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        let made = outputs.iter().flatten();
        let given = node.inputs.iter().flatten().filter(|input| !input.is_constant);
        let moved: f64 = made.clone().chain(given).map(elements).sum();
        let made: f64 = made.map(elements).fold(0.0, f64::max);
        self.nodes += NODE;
        self.spent += NODE + ELEMENT * moved + PRODUCT * products(node, made);
        if self.is_exceeded() {
            return Err(node.refused(TOO_MUCH));
        }
        Ok(())
    }
}

fn elements(tensor: &ObservedTensor) -> f64 {
    tensor.tensor.len() as f64
}

/// How many multiplications a node that makes so many elements takes, if it is one of those that
/// take many for each.
fn products(node: &NodeRun, made: f64) -> f64 {
    let inputs = || node.inputs.iter().flatten();
    let dims = |input: &ObservedTensor| input.tensor.shape().to_vec();
    let first = inputs().next().map(dims).unwrap_or_default();
    let given: f64 = first.iter().map(|size| *size as f64).product();
    let last = first.last().map_or(1.0, |size| *size as f64).max(1.0);
    // A window of all channels: what a kernel has for each of the first of its dimensions.
    let window = || {
        let kernels = inputs().skip(1).map(dims).filter(|shape| shape.len() > 2);
        let each = |shape: Vec<usize>| shape.iter().skip(1).map(|size| *size as f64).product();
        kernels.map(each).fold(1.0, f64::max)
    };
    let matrices = || inputs().skip(1).filter(|input| input.tensor.rank() > 1).map(elements);
    match node.op_type {
        "ConvTranspose" => given * window(),
        op if op.contains("Conv") => made * window(),
        // The sizes are m·k, k·n and m·n, whichever is transposed.
        op if op.contains("Gemm") => (given * made * matrices().fold(0.0, f64::max)).sqrt(),
        op if op.contains("MatMul") => made * last,
        "LSTM" | "GRU" | "RNN" | "DynamicQuantizeLSTM" => given / last * matrices().sum::<f64>(),
        op if op == "Einsum" || op.contains("Attention") => {
            let longest = inputs().flat_map(dims).max().unwrap_or(1);
            made * longest as f64
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use onnx_cast_graph::{message_node, named_value};
    use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
    use tract_onnx_cast::interpreter::Interpreter;
    use tract_onnx_cast::{ElementType, OnnxTensor};

    use super::*;

    /// What a product of these matrices costs, or why it was ended.
    fn priced(op: &str, shapes: [&[usize]; 2], price: &mut Price) -> Result<()> {
        let node = NodeProto { name: "product".into(), ..message_node(op, &["a", "b"], "y") };
        let graph = GraphProto {
            name: "g".into(),
            node: vec![node],
            input: vec![named_value("a"), named_value("b")],
            output: vec![named_value("y")],
            ..GraphProto::default()
        };
        let import = OperatorSetIdProto { domain: String::new(), version: 17 };
        let model = ModelProto {
            ir_version: 8,
            opset_import: vec![import],
            graph: Some(graph),
            ..ModelProto::default()
        };
        let ones = |shape: &[usize]| {
            let ones = vec![1f32; shape.iter().product()];
            let tensor = Tensor::from_shape(shape, &ones).expect("as many elements");
            OnnxTensor::new(ElementType::Float, tensor)
        };
        let inputs = shapes.into_iter().map(ones).collect::<Result<_>>()?;
        let model = Interpreter::of_proto(tract_onnx_cast::onnx(), model, None)?;
        model.run_observed(inputs, price).map(drop)
    }

    #[test]
    fn a_run_costs_its_elements_and_multiplications() {
        for op in ["MatMul", "Gemm"] {
            let mut price = Price::up_to(1e9);
            priced(op, [&[8, 16], &[16, 32]], &mut price).expect("it runs");
            let elements = (8 * 16 + 16 * 32 + 8 * 32) as f64;
            let products = (8 * 16 * 32) as f64;
            let expected = NODE + ELEMENT * elements + PRODUCT * products;
            assert!((price.spent - expected).abs() < 1e-3, "{op}: {} {expected}", price.spent);
        }
        let mut price = Price::up_to(1e9);
        priced("Conv", [&[1, 3, 10, 10], &[4, 3, 3, 3]], &mut price).expect("it runs");
        let made = 4.0 * 8.0 * 8.0;
        let expected = NODE + ELEMENT * (300.0 + 108.0 + made) + PRODUCT * made * 27.0;
        assert!((price.spent - expected).abs() < 1e-3, "{} {expected}", price.spent);
    }

    #[test]
    fn a_run_ends_where_it_costs_more_than_it_may() {
        let mut price = Price::up_to(NODE);
        let error = priced("MatMul", [&[8, 16], &[16, 32]], &mut price).expect_err("too much");
        assert!(price.is_exceeded() && !price.bears(0.0) && price.left() == 0.0);
        assert!(error.to_string().contains("product"), "{error}");
    }
}
