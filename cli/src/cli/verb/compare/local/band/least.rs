//! The least that a perturbed run moves a value by, as far as that can be told without it: what its
//! elements were rounded to last, and codes that they are sums of, are moved themselves.

use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::Interpreter;

use super::super::doubt::{IN_PLACE, MOVED};
use super::super::numbers::{each_pair, is_computed_in, numbers, rounding};
use super::super::trace::{Ran, Trace};
use crate::cli::measure::weight::steps::CodeScales;

/// A code moves up or down in every other case, by half of a step's power, and at an end of its
/// range in every fourth, by a variance of 3/16. What is less than that is left to chance.
const MOVES: f64 = 1.0 / 8.0;

/// Chance may leave less than that of fewer elements that move by themselves.
const MANY: f64 = 256.0;

/// A conversion that has run, its products of codes written out.
pub(super) struct LeastNoise<'a> {
    pub(super) exact: &'a Trace,
    pub(super) model: &'a Interpreter,
}

impl<'a> LeastNoise<'a> {
    /// The power of what a value, whose own power is `size`, is moved by at least.
    pub(super) fn of(&self, value: &str, size: f64) -> f64 {
        let of_rounding = self.last_rounding(value).powi(2) * size;
        of_rounding.max(self.of_codes(value).unwrap_or_default())
    }

    /// The node that makes a value, if it is one of the computation.
    fn maker(&self, value: &str) -> Option<&'a Ran> {
        self.exact.maker(value).filter(|ran| ran.domain.is_empty())
    }

    /// Of what a node takes, a value that is made before another one.
    fn before(&self, value: &str, input: Option<&'a String>) -> Option<&'a str> {
        let input = input?.as_str();
        (self.exact.place(input) < self.exact.place(value)).then_some(input)
    }

    /// The unit of roundoff of a value, or of what its elements are of that were only moved or cast
    /// since.
    fn last_rounding(&self, value: &str) -> f64 {
        let (mut value, mut most) = (value, 0.0f64);
        while let Some((ty, _)) = self.exact.form(value).filter(|(ty, _)| is_computed_in(*ty)) {
            most = most.max(rounding(ty));
            let maker = self.maker(value).filter(|ran| is_one_moved(ran));
            match maker.and_then(|ran| self.before(value, ran.inputs.first())) {
                Some(before) => value = before,
                None => break,
            }
        }
        most
    }

    /// What codes move a value by, where it is made of these or is a product by a matrix of them,
    /// and nothing but constants was added to it since: what else is added may be moved by the same
    /// codes, against it.
    fn of_codes(&self, value: &str) -> Option<f64> {
        let elements = |name: &str| {
            let (_, shape) = self.exact.form(name)?;
            Some(shape.iter().product::<usize>())
        };
        let mut is_finite = true;
        let made = self.exact.first(value)?;
        each_pair(made, made, |_, x, _| is_finite &= x.is_finite())?;
        // What is no number is no error and in no band.
        let (mut value, count) = (value, elements(value).filter(|_| is_finite)?);
        loop {
            let ran = self.maker(value)?;
            value = match &*ran.op {
                "MatMul" => return self.of_product(ran),
                "DequantizeLinear" => return self.of_results(ran),
                "Add" | "Sub" => {
                    let is_constant = |name: &&String| self.exact.constants.contains_key(*name);
                    ran.inputs.iter().find(is_constant)?;
                    self.before(value, ran.inputs.iter().find(|name| !is_constant(name)))?
                }
                "Cast" => self.before(value, ran.inputs.first())?,
                op if IN_PLACE.contains(&op) => self.before(value, ran.inputs.first())?,
                _ => return None,
            };
            if elements(value)? != count {
                return None;
            }
        }
    }

    /// Of what a node makes of codes of results, each of which is moved.
    fn of_results(&self, ran: &Ran) -> Option<f64> {
        let codes = ran.inputs.first()?;
        let (_, shape) = self.exact.form(codes).filter(|(ty, _)| is_moved(*ty))?;
        self.maker(codes).filter(|ran| ran.op == "QuantizeLinear")?;
        let elements = shape.iter().product();
        moved(&self.steps(ran, shape)?.column_powers(&[1.0], elements))
    }

    /// Of a product by a matrix of constant codes. The steps of a column move one column of what is
    /// made, in each row by an element of x.
    fn of_product(&self, ran: &Ran) -> Option<f64> {
        let [x, weight] = &*ran.inputs else { return None };
        let made_of = self.maker(weight).filter(|ran| ran.op == "DequantizeLinear")?;
        let codes =
            made_of.inputs.first().filter(|codes| self.exact.constants.contains_key(*codes))?;
        let (_, shape) = self.exact.form(codes).filter(|(ty, _)| is_moved(*ty))?;
        let [rows, columns] = *shape else { return None };
        let mut factors = vec![0.0; rows];
        for x in numbers(self.exact.first(x)?)?.chunks(rows.max(1)) {
            factors.iter_mut().zip(x).for_each(|(factor, x)| *factor += x * x);
        }
        moved(&self.steps(made_of, shape)?.column_powers(&factors, columns))
    }

    /// The steps of codes that a node makes numbers of.
    fn steps(&self, ran: &Ran, codes: &[usize]) -> Option<CodeScales> {
        let scale = ran.inputs.get(1)?;
        let scale = match self.exact.constant(scale) {
            Some(scale) => scale.clone(),
            None => self.model.constant(scale).ok()??,
        };
        CodeScales::of(&ran.attributes, codes, &scale, 1.0)
    }
}

/// What elements are moved by that move by these powers, each by itself; `None` where chance may
/// leave less.
fn moved(powers: &[f64]) -> Option<f64> {
    let power: f64 = powers.iter().sum();
    let squares: f64 = powers.iter().map(|x| x * x).sum();
    // So many of one size stray as much.
    (power * power >= MANY * squares && power.is_finite()).then_some(MOVES * power)
}

/// Whether a node does no more than to move the elements of its first input, or to cast them.
fn is_one_moved(ran: &Ran) -> bool {
    let mut one = MOVED.iter().filter(|(_, first, count)| (*first, *count) == (0, 1));
    ran.op == "Cast" || one.any(|(op, ..)| *op == ran.op)
}

/// Whether a perturbed run moves codes of a type.
fn is_moved(ty: ElementType) -> bool {
    matches!(ty, ElementType::Int4 | ElementType::Uint4 | ElementType::Int8 | ElementType::Uint8)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use onnx_cast_graph::{int_attribute, message_node, named_value, sized_type};
    use tract_onnx::pb::{
        GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto,
    };
    use tract_onnx::prelude::{TractResult, tensor1};
    use tract_onnx_cast::OnnxTensor;

    use super::super::PerturbedRuns;
    use super::*;

    const ROWS: usize = 32;
    const SIDE: usize = 512;

    fn held(name: &str, ty: ElementType, dims: &[usize], raw_data: Vec<u8>) -> TensorProto {
        let dims = dims.iter().map(|dim| *dim as i64).collect();
        TensorProto {
            name: name.into(),
            dims,
            data_type: ty as i32,
            raw_data,
            ..Default::default()
        }
    }

    fn floats(name: &str, dims: &[usize], value: impl Fn(usize) -> f32) -> TensorProto {
        let count = dims.iter().product::<usize>();
        let bytes = (0..count).flat_map(|place| value(place).to_le_bytes()).collect();
        held(name, ElementType::Float, dims, bytes)
    }

    /// By how much a perturbed run moves `y`, and the least that is told of that, of nodes that
    /// make it of `x` and the codes `w`, whose scale has this shape.
    fn noises(
        nodes: Vec<NodeProto>,
        (scale, axis, block): (&[usize], i64, i64),
        code: impl Fn(usize) -> u8,
    ) -> TractResult<(f64, f64)> {
        let codes: Vec<u8> = (0..SIDE * SIDE).map(code).collect();
        let codes = held("w", ElementType::Uint8, &[SIDE, SIDE], codes);
        let scale = floats("s", scale, |place| 0.5 + (place % 7) as f32 / 8.0);
        let bias = floats("b", &[SIDE], |place| place as f32);
        let one = floats("one", &[], |_| 0.5);
        let attribute = vec![int_attribute("axis", axis), int_attribute("block_size", block)];
        let weight = NodeProto { attribute, ..message_node("DequantizeLinear", &["w", "s"], "f") };
        let graph = GraphProto {
            name: "g".into(),
            node: [vec![weight, message_node("Neg", &["x"], "n")], nodes].concat(),
            initializer: vec![codes, scale, bias, one],
            input: vec![ValueInfoProto {
                r#type: Some(sized_type(ElementType::Float as i32, &[ROWS, SIDE])),
                ..named_value("x")
            }],
            output: vec![named_value("y")],
            ..GraphProto::default()
        };
        let import = OperatorSetIdProto { version: 21, ..OperatorSetIdProto::default() };
        let (ir_version, opset_import, graph) = (10, vec![import], Some(graph));
        let model = ModelProto { ir_version, opset_import, graph, ..ModelProto::default() };
        let model = Interpreter::of_proto(tract_onnx_cast::onnx(), model, None)?;
        let x: Vec<f32> = (0..ROWS * SIDE).map(|place| (place % 13) as f32 - 6.0).collect();
        let x = tensor1(&x).into_shape(&[ROWS, SIDE])?;
        let inputs = vec![OnnxTensor::new(ElementType::Float, x)?];
        let exact = Trace::of(&model, inputs.clone())?;
        let runs = PerturbedRuns { exact: &exact, model: &model, inputs, count: 1 };
        let moved = runs.noise(1)?.context("it runs")?;
        let moved = *moved.get("y").context("y")?;
        Ok((moved, LeastNoise { exact: &exact, model: &model }.of("y", 0.0)))
    }

    fn product(made: &str) -> NodeProto {
        message_node("MatMul", &["n", "f"], made)
    }

    #[test]
    fn codes_of_a_product_move_it_by_no_less_than_is_told() -> TractResult<()> {
        let layouts: [(&[usize], i64, i64); 4] =
            [(&[], 0, 0), (&[SIDE], 0, 0), (&[SIDE], 1, 0), (&[SIDE / 16, SIDE], 0, 16)];
        let behind: [Vec<NodeProto>; 3] = [
            vec![product("y")],
            vec![product("p"), message_node("Add", &["p", "b"], "y")],
            vec![
                product("p"),
                message_node("Sub", &["b", "p"], "q"),
                message_node("Identity", &["q"], "y"),
            ],
        ];
        for layout in layouts {
            for nodes in &behind {
                let inside = noises(nodes.clone(), layout, |place| 100 + (place % 50) as u8)?;
                let at_end = noises(nodes.clone(), layout, |_| 255)?;
                let what = format!("{layout:?}, {}: {inside:?} {at_end:?}", nodes.len());
                assert!((0.19..0.31).contains(&(inside.1 / inside.0)), "{what}");
                assert!((0.1..0.85).contains(&(at_end.1 / at_end.0)), "{what}");
            }
        }
        Ok(())
    }

    #[test]
    fn codes_of_results_move_them_by_no_less_than_is_told() -> TractResult<()> {
        let attribute = vec![int_attribute("to", ElementType::Double as i64)];
        let nodes = vec![
            message_node("QuantizeLinear", &["x", "one"], "q"),
            message_node("DequantizeLinear", &["q", "one"], "d"),
            NodeProto { attribute, ..message_node("Cast", &["d"], "y") },
        ];
        let (moved, least) = noises(nodes, (&[], 0, 0), |_| 100)?;
        assert!((0.2..0.5).contains(&(least / moved)), "{moved} {least}");
        Ok(())
    }

    /// What is computed of codes may be moved by less, and few elements by chance.
    #[test]
    fn of_other_values_their_rounding_alone_is_told() -> TractResult<()> {
        let all = [
            vec![product("p"), message_node("Mul", &["p", "one"], "y")],
            vec![product("p"), message_node("Tanh", &["p"], "y")],
            vec![product("p"), message_node("Add", &["p", "n"], "y")],
            vec![product("p"), product("t"), message_node("Add", &["p", "t"], "y")],
            vec![
                product("p"),
                message_node("MatMul", &["p", "f"], "t"),
                message_node("Gemm", &["t", "f"], "y"),
            ],
        ];
        for nodes in all {
            let (moved, least) = noises(nodes, (&[], 0, 0), |place| 100 + (place % 50) as u8)?;
            assert!(moved > 0.0 && least == 0.0, "{moved} {least}");
        }
        Ok(())
    }
}
