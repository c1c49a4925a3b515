//! Each operator that this crate puts right (`src/ops/fixes/table/mod.rs`), on a minimal case:
//! tract's own still fails on it, by another result, a refusal or a panic. Where a newer tract
//! passes, the fix may go.

mod cases;
mod edges;

use std::panic::AssertUnwindSafe;

use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{ElementType, onnx, tensor_proto};

use self::cases::cases;
use crate::common::proto::{dim, graph, imports, model, shaped, symbol, unshaped};

const TABLE: &str = include_str!("../../src/ops/fixes/table/mod.rs");

/// How a model comes to a tensor.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Constant,
    Input,
    /// An input of a length that only a run tells.
    Open,
}

use Way::{Constant, Open};

#[derive(Clone)]
struct Case {
    /// The one whose fix it takes.
    operator: &'static str,
    nodes: Vec<NodeProto>,
    tensors: Vec<(&'static str, Way, Tensor)>,
    /// What `y` is, or nothing where it is an error that names a node.
    y: Option<Tensor>,
}

impl Case {
    fn model(&self) -> ModelProto {
        let ty = self.y.as_ref().map_or(ElementType::Float, element_type);
        let mut graph = graph(&[], &self.nodes, &[unshaped("y", ty)]);
        for (name, way, tensor) in &self.tensors {
            let ty = element_type(tensor);
            if *way == Constant {
                let tensor = tensor_proto::write(name, ty, tensor).expect("a tensor");
                graph.initializer.push(tensor);
                continue;
            }
            let size = |(axis, size): (usize, &usize)| match (axis, way) {
                (0, Open) => symbol("N"),
                _ => dim(*size as i64),
            };
            graph.input.push(shaped(
                name,
                ty,
                tensor.shape().iter().enumerate().map(size).collect(),
            ));
        }
        let opset = match self.operator {
            "Attention" | "RMSNormalization" => 23,
            "BitShift" | "SpaceToDepth" => 28,
            "Swish" => 24,
            _ => 21,
        };
        let mut model = model(opset, graph);
        for (domain, version) in [("ai.onnx.ml", 3), ("com.microsoft", 1)] {
            let mut import = imports(version);
            import[0].domain = domain.into();
            model.opset_import.extend(import);
        }
        model
    }

    /// The first output of an optimised model.
    fn run(
        &self,
        load: impl Fn(&ModelProto) -> TractResult<InferenceModel>,
    ) -> TractResult<Tensor> {
        let model = load(&self.model())?;
        if self.tensors.iter().any(|(_, way, _)| *way == Open) {
            model.symbols.add_assertion("N >= 0")?;
        }
        let plan = model.into_optimized()?.into_runnable()?;
        let given = self.tensors.iter().filter(|(_, way, _)| *way != Constant);
        let outputs = plan.run(given.map(|(_, _, value)| value.clone().into_tvalue()).collect())?;
        Ok(outputs.into_iter().next().expect("an output").into_tensor())
    }

    fn is_right(&self, result: &TractResult<Tensor>) -> bool {
        match (&self.y, result) {
            (Some(expected), Ok(y)) => {
                y.datum_type() == expected.datum_type()
                    && y.shape() == expected.shape()
                    && (y == expected || y.datum_type() == DatumType::F32 && is_near(y, expected))
            }
            (None, Err(error)) => {
                let error = format!("{error:#}");
                self.nodes.iter().any(|node| error.contains(&format!("({})", node.op_type)))
            }
            _ => false,
        }
    }
}

/// Whether elements are apart by the rounding of FLOAT alone.
fn is_near(y: &Tensor, expected: &Tensor) -> bool {
    let (Ok(y), Ok(expected)) = (y.cast_to::<f64>(), expected.cast_to::<f64>()) else {
        return false;
    };
    let numbers = |tensor: &Tensor| -> Vec<f64> {
        tensor.to_plain_array_view::<f64>().expect("numbers").iter().copied().collect()
    };
    numbers(&y)
        .iter()
        .zip(numbers(&expected))
        .all(|(y, expected)| expected.is_finite() && (y - expected).abs() <= 1e-6 * expected.abs())
}

fn element_type(tensor: &Tensor) -> ElementType {
    let name = match tensor.datum_type() {
        DatumType::F32 => "FLOAT",
        DatumType::F64 => "DOUBLE",
        DatumType::Bool => "BOOL",
        DatumType::U8 => "UINT8",
        DatumType::U32 => "UINT32",
        DatumType::I32 => "INT32",
        DatumType::I64 => "INT64",
        DatumType::String => "STRING",
        other => panic!("{other:?}"),
    };
    ElementType::from_name(name).expect("a type")
}

#[test]
fn tract_still_needs_each_fix() {
    let mut wrong = vec![];
    for case in cases().into_iter().chain(edges::cases()) {
        let operator = case.operator;
        let ours = without_panic(|| case.run(|model| onnx().model_for_proto_model(model)));
        if !case.is_right(&ours) {
            wrong.push(format!("{operator} is wrong: {ours:?}"));
        }
        // What tract says is not put in this crate's words.
        let stock = || case.run(|model| tract_onnx::onnx().model_for_proto_model(model));
        let stock = std::panic::catch_unwind(AssertUnwindSafe(stock));
        if stock.is_ok_and(|stock| case.is_right(&stock)) {
            wrong.push(format!("tract's own {operator} is right: its fix may go"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_fix_has_a_case() {
    let cases = cases().into_iter().chain(edges::cases());
    let known: Vec<&str> = cases.map(|case| case.operator).collect();
    let rows = TABLE.split("    fix(&[").skip(1).filter_map(|row| row.split(']').next());
    let operators: Vec<&str> = rows.flat_map(|row| row.split('"').skip(1).step_by(2)).collect();
    assert!(operators.len() > 40, "{operators:?}");
    for operator in operators {
        assert!(known.contains(&operator), "{operator} has no case");
    }
}
