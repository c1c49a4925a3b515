//! Small models as text, for the tests of passes: before and after.
//!
//! ```text
//! in x FLOAT16
//! const c INT64 2
//! const shape = 2 3
//! y = Add(x, c)
//! z = Gather<axis=1>(y, c)
//! out z FLOAT16
//! ```

use onnx_cast_graph::{Graph, NodeId, int_attribute, named_value};
use tract_onnx::pb::type_proto::{Tensor, Value as TypeValue};
use tract_onnx::pb::{
    FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto,
    ValueInfoProto,
};
use tract_onnx::prelude::TractResult;

use super::context::{PassContext, PassOptions};
use super::diagnostics::Diagnostics;
use super::half_in_float::{HalfArithmetic, Widening};
use super::{Pass, import};
use crate::cast::element_type::ElementType;
use crate::onnx::limits::Limits;
use crate::onnx::lowered::OperatorForm;
use crate::onnx::operators::registered::Registered;
use crate::tensor::proto::external::Resolver;

/// What passes make of a model of opset 17: its nodes, a line each, in topological order.
/// Its error is that of the first pass that refuses the model.
pub(super) fn after(model: &str, passes: &[Pass]) -> TractResult<String> {
    let onnx = tract_onnx::onnx();
    let options = PassOptions {
        folder: None,
        resolver: &Resolver::File,
        registered: Registered { operators: &onnx.op_register, is_known: |_, _| true },
        ignore_value_info: false,
        ignore_output_types: false,
        widening: Widening { float16: HalfArithmetic::Widened, excess_precision: false },
        probes: false,
        limits: Limits::default(),
    };
    let (mut graph, problems) = import(read(model))?;
    assert_eq!(problems, []);
    let mut context = PassContext::new(&options, options.limits, Diagnostics::Stop);
    for pass in passes {
        pass(&mut graph, &mut context)?;
        graph.verify().expect("a graph");
    }
    let nodes = graph.all_nodes(graph.main());
    let mut lines: Vec<String> =
        nodes.into_iter().map(|id| written(&graph, &context, id)).collect();
    for output in graph.body(graph.main()).outputs() {
        lines.push(format!("out {}", graph.value(output.value).name));
    }
    Ok(lines.join("\n"))
}

/// Nodes as they are written down in a test, without the space around.
pub(crate) fn lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

fn written(graph: &Graph, context: &PassContext, id: NodeId) -> String {
    let node = graph.node(id);
    let names = |values: &[Option<_>]| {
        let name = |value: &Option<_>| match value {
            Some(value) => graph.value(*value).name.replace("tract-onnx-cast:", ""),
            None => "_".into(),
        };
        values.iter().map(name).collect::<Vec<String>>().join(", ")
    };
    let op = match context.form(id) {
        OperatorForm::Cast(cast) => {
            let numbers = if cast.resolves_symbols { " numbers" } else { "" };
            format!("Cast to {}{numbers}", cast.to.map_or("?", ElementType::name))
        }
        OperatorForm::Own => node.op_type.clone(),
        other => format!("{} as {}", node.op_type, form_name(other)),
    };
    let opset = context.lowered.get(id).and_then(|lowered| lowered.opset);
    let at = opset.map_or(String::new(), |opset| format!(" at {opset}"));
    format!("{} = {op}({}){at}", names(node.outputs()), names(node.inputs()))
}

fn form_name(form: &OperatorForm) -> &'static str {
    match form {
        OperatorForm::Own => "its own",
        OperatorForm::Cast(_) => "a cast",
        OperatorForm::Quantizer(_) => "a quantiser",
        OperatorForm::BitCast(_) => "a bit cast",
        OperatorForm::Measured { .. } => "measured",
        OperatorForm::Tied => "tied",
        OperatorForm::Filed { .. } => "filed",
        OperatorForm::ExactDivision => "a division",
    }
}

fn declared(name: &str, ty: &str) -> ValueInfoProto {
    let elem_type = ElementType::from_name(ty).expect("a type") as i32;
    let tensor = Tensor { elem_type, ..Tensor::default() };
    let value = Some(TypeValue::TensorType(tensor));
    let r#type = Some(TypeProto { value, ..TypeProto::default() });
    ValueInfoProto { r#type, ..named_value(name) }
}

/// The model that a text describes.
pub(crate) fn read(text: &str) -> ModelProto {
    let mut graph = GraphProto { name: "g".into(), ..GraphProto::default() };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["in", name, ty] => graph.input.push(declared(name, ty)),
            ["out", name, ty] => graph.output.push(declared(name, ty)),
            ["info", name, ty] => graph.value_info.push(declared(name, ty)),
            ["const", name, "=", ref numbers @ ..] => graph.initializer.push(TensorProto {
                name: name.into(),
                data_type: ElementType::Int64 as i32,
                dims: vec![numbers.len() as i64],
                int64_data: numbers
                    .iter()
                    .map(|number| number.parse().expect("a number"))
                    .collect(),
                ..TensorProto::default()
            }),
            ["const", name, ty, size] => {
                let data_type = ElementType::from_name(ty).expect("a type");
                let size: i64 = size.parse().expect("a size");
                let bytes = data_type.carrier_bytes().expect("a size") * size as usize;
                graph.initializer.push(TensorProto {
                    name: name.into(),
                    data_type: data_type as i32,
                    dims: vec![size],
                    raw_data: vec![0; bytes],
                    ..TensorProto::default()
                });
            }
            _ => graph.node.push(node(line)),
        }
    }
    ModelProto {
        opset_import: vec![OperatorSetIdProto { version: 17, ..Default::default() }],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

/// The model that a text describes, and the function `my::F` of `a` whose nodes another one does.
pub(crate) fn with_function(model: &str, body: &str, result: &str) -> ModelProto {
    let mut model = read(model);
    model.functions.push(FunctionProto {
        name: Some("F".into()),
        domain: Some("my".into()),
        input: vec!["a".into()],
        output: vec![result.into()],
        node: read(body).graph.expect("a graph").node,
        opset_import: model.opset_import.clone(),
        ..FunctionProto::default()
    });
    model.opset_import.push(OperatorSetIdProto { domain: "my".into(), version: 1 });
    model
}

fn node(line: &str) -> NodeProto {
    let (outputs, call) = line.split_once(" = ").expect("outputs");
    let (op, inputs) = call.trim_end_matches(')').split_once('(').expect("inputs");
    let (op, attributes) = op.trim_end_matches('>').split_once('<').unwrap_or((op, ""));
    let (domain, op_type) = op.rsplit_once("::").unwrap_or(("", op));
    let names = |text: &str| -> Vec<String> {
        let names = text.split(", ").filter(|name| !name.is_empty());
        names.map(|name| name.trim_matches('_').into()).collect()
    };
    let attribute = attributes.split(", ").filter_map(|text| {
        let (name, number) = text.split_once('=')?;
        Some(int_attribute(name, number.parse().expect("a number")))
    });
    NodeProto {
        op_type: op_type.into(),
        domain: domain.into(),
        input: names(inputs),
        output: names(outputs),
        attribute: attribute.collect(),
        ..NodeProto::default()
    }
}
