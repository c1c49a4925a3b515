//! Tensors without elements where tract reads a number: of these models many end the process where
//! no guard is in the way.

use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{ElementType, onnx};

use crate::common::proto::{
    float, graph, graph_attribute, int, int64, ints, model, node, raw, shaped, string, symbol,
    unshaped, value,
};

use ElementType::{Bool, Float, Int64};

const SCHEMAS: &str = include_str!("../../src/onnx/operators/schemas.tsv");

fn empty(name: &str, ty: ElementType, dims: &[i64]) -> TensorProto {
    raw(name, ty as i32, dims, &[])
}

fn of(nodes: &[NodeProto], constants: &[TensorProto]) -> ModelProto {
    let mut graph = graph(&[value("x", Float, &[2])], nodes, &[unshaped("y", Float)]);
    graph.initializer = constants.to_vec();
    model(21, graph)
}

fn branches(then: GraphProto, other: GraphProto) -> Vec<AttributeProto> {
    vec![graph_attribute("then_branch", then), graph_attribute("else_branch", other)]
}

fn choice() -> NodeProto {
    let branch = || graph(&[], &[node("Neg", &["x"], &["q"], vec![])], &[unshaped("q", Float)]);
    node("If", &["c"], &["y"], branches(branch(), branch()))
}

#[test]
fn no_number_where_one_is_wanted_is_refused() {
    let one_hot = node("OneHot", &["i", "d", "v"], &["y"], vec![]);
    let hot = [int64("i", &[0]), empty("d", Int64, &[0]), raw("v", 1, &[2], &[0; 8])];
    let dropout = node("Dropout", &["x", "r", "m"], &["y"], vec![]);
    let training = [empty("r", Float, &[0]), raw("m", Bool as i32, &[], &[1])];
    for (model, refused) in [
        (of(&[choice()], &[empty("c", Bool, &[0])]), "node `If_y` (If): has an input cond"),
        (of(&[choice()], &[empty("c", Bool, &[3, 0, 2])]), "node `If_y` (If): has an input cond"),
        (of(&[one_hot], &hot), "node `OneHot_y` (OneHot): has an input depth"),
        (of(&[dropout], &training), "node `Dropout_y` (Dropout): has an input ratio"),
    ] {
        let message = failure(&model);
        let expected =
            format!("{refused} without elements, where it takes a number, the model imports 21");
        assert!(message.contains(&expected), "{message}");
    }
}

/// What a model fails with when it is loaded or optimised.
#[track_caller]
fn failure(model: &ModelProto) -> String {
    let optimised = onnx().model_for_proto_model(model).and_then(|model| model.into_optimized());
    format!("{:#}", optimised.expect_err("it should be refused"))
}

/// The results have no elements either, or there are none.
#[test]
fn arithmetic_on_nothing_makes_nothing() -> TractResult<()> {
    for operator in ["Add", "Div", "Max", "Mean", "Mul", "Pow", "Sub", "Sum"] {
        for (dims, expected) in [(&[0][..], &[0][..]), (&[2, 0], &[2, 0]), (&[1, 0], &[1, 0])] {
            let model = |length: i64| {
                let node = node(operator, &["x", "p"], &["y"], vec![]);
                let mut model = of(&[node], &[empty("p", Float, dims)]);
                model.graph.as_mut().expect("a graph").input = vec![value("x", Float, &[length])];
                model
            };
            let plan =
                onnx().model_for_proto_model(&model(1))?.into_optimized()?.into_runnable()?;
            let outputs = plan.run(tvec!(tensor1(&[2f32]).into_tvalue()))?;
            assert_eq!(outputs[0].shape(), expected, "{operator}");
            let message = failure(&model(2));
            assert!(message.contains("has inputs of shapes that do not fit"), "{message}");
        }
    }
    Ok(())
}

/// Only a run would tell whether the open size is 1, and tract takes the operand for a constant
/// before.
#[test]
fn arithmetic_on_nothing_and_an_open_size_is_refused() {
    for operator in ["Add", "Div", "Max", "Mean", "Mul", "Pow", "Sub", "Sum"] {
        for dims in [&[0][..], &[2, 0], &[1, 0]] {
            let node = node(operator, &["x", "p"], &["y"], vec![]);
            let mut model = of(&[node], &[empty("p", Float, dims)]);
            let x = shaped("x", Float, vec![symbol("N")]);
            model.graph.as_mut().expect("a graph").input = vec![x];
            let message = failure(&model);
            assert!(message.contains("has an operand 1 without elements"), "{operator}: {message}");
        }
    }
}

/// Only a run tells that there is no number.
#[test]
fn a_number_that_is_not_there_when_the_model_runs_is_refused_then() -> TractResult<()> {
    let mut model = of(&[node("Dropout", &["x", "", "m"], &["y"], vec![])], &[]);
    let graph = model.graph.as_mut().expect("a graph");
    graph.input.push(shaped("m", Bool, vec![symbol("M")]));
    let plan = onnx().model_for_proto_model(&model)?.into_optimized()?.into_runnable()?;
    let x = tensor1(&[1f32, 2.0]).into_tvalue();
    let none = Tensor::zero_dt(bool::datum_type(), &[0])?.into_tvalue();
    let error = format!("{:#}", plan.run(tvec!(x.clone(), none)).expect_err("no mode"));
    let expected = "node `Dropout_y` (Dropout): has an input training_mode without elements";
    assert!(error.contains(expected), "{error}");
    let outputs = plan.run(tvec!(x.clone(), tensor1(&[false]).into_tvalue()))?;
    assert_eq!(outputs[0], x);
    Ok(())
}

/// tract takes batch and channels out of a shape that may not have them.
#[test]
fn a_shape_without_channels_is_refused() {
    let weights = [raw("w", 1, &[1], &[0; 4])];
    let convolution = of(&[node("Conv", &["x", "w"], &["y"], vec![])], &weights);
    let message = failure(&convolution);
    let expected = "node `Conv_y` (Conv): has an input 0 of rank 1, where it takes 3 and more, the model imports 21";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn branches_are_guarded() {
    let inner = |name: &str| {
        let mut body = graph(&[], &[choice()], &[unshaped(name, Float)]);
        body.node[0].output = vec![name.into()];
        body.initializer = vec![empty("c", Bool, &[0])];
        body
    };
    let outer = node("If", &["b"], &["y"], branches(inner("p"), inner("p")));
    let mut nested = of(&[outer], &[]);
    nested.graph.as_mut().expect("a graph").input.push(value("b", Bool, &[]));
    let message = failure(&nested);
    assert!(message.contains("(If): has an input cond without elements"), "{message}");
}

/// An operator's inputs in ONNX's table: the type of each in the latest version up to opset 21.
fn operands() -> Vec<(String, Vec<ElementType>)> {
    let mut operators: Vec<(String, String, String)> = vec![];
    for line in SCHEMAS.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let cell = |index: usize| cells.get(index).copied().unwrap_or_default();
        if !cell(0).is_empty() {
            operators.push((cell(0).into(), "T".into(), String::new()));
        }
        let (_, inputs, types) = operators.last_mut().expect("an operator");
        if cell(1).parse::<i64>().is_ok_and(|since| since <= 21) {
            for (known, new) in [(inputs, cell(3)), (types, cell(5))] {
                if !new.is_empty() {
                    *known = new.into();
                }
            }
        }
    }
    let of_type = |types: &str, input: &str| {
        let input = input.trim_end_matches(['?', '*']);
        let variable = types.split(' ').find_map(|ty| ty.strip_prefix(input)?.strip_prefix('='));
        let name = variable.unwrap_or(input).split(',').next().unwrap_or_default();
        ElementType::from_name(name).unwrap_or(Float)
    };
    let operands = |(operator, inputs, types): (String, String, String)| {
        let inputs = inputs.split(' ').filter(|input| *input != "-");
        (operator, inputs.map(|input| of_type(&types, input)).collect())
    };
    operators.into_iter().map(operands).collect()
}

/// Attributes that an operator cannot be without.
fn attributes(operator: &str) -> Vec<AttributeProto> {
    let branch = || graph(&[], &[node("Neg", &["a0"], &["q"], vec![])], &[unshaped("q", Float)]);
    match operator {
        "Cast" => vec![int("to", 1)],
        "Concat" => vec![int("axis", 0)],
        "DepthToSpace" | "SpaceToDepth" => vec![int("blocksize", 1)],
        "Einsum" => vec![string("equation", "i->i")],
        "GroupNormalization" => vec![int("num_groups", 1)],
        "If" => branches(branch(), branch()),
        "LSTM" | "GRU" | "RNN" => vec![int("hidden_size", 1)],
        "LRN" => vec![int("size", 1)],
        "AveragePool" | "LpPool" | "MaxPool" => vec![ints("kernel_shape", &[1, 1])],
        "ConvInteger" | "QLinearConv" => vec![ints("pads", &[1, 1, 1, 1])],
        "Dropout" => vec![float("ratio", 0.5)],
        _ => vec![],
    }
}

/// How a tensor without elements comes to an operand.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Initializer,
    /// A slice that ends where it begins, which follows from the shape of an input.
    Slice,
    /// An input of the model.
    Run,
}

fn ones(name: &str, ty: ElementType, dims: &[i64]) -> TensorProto {
    let size = ty.datum_type().size_of();
    let one: Vec<u8> = match ty {
        Float => 1f32.to_le_bytes().into(),
        ElementType::Double => 1f64.to_le_bytes().into(),
        _ => [1].into_iter().chain([0; 7]).take(size).collect(),
    };
    raw(name, ty as i32, dims, &one.repeat(dims.iter().product::<i64>() as usize))
}

/// A node whose operand `victim` has no elements.
fn without_elements(
    (operator, types): &(String, Vec<ElementType>),
    victim: usize,
    dims: [&[i64]; 2],
    way: Way,
) -> ModelProto {
    let names: Vec<String> = (0..types.len()).map(|index| format!("a{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut graph = graph(&[], &[], &[unshaped("y", Float)]);
    graph.input.push(shaped("s", Float, vec![symbol("N")]));
    for (index, (name, ty)) in names.iter().zip(types).enumerate() {
        let dims = dims[usize::from(index > 0)];
        match (index == victim, way) {
            (false, _) if index == 0 => graph.input.push(value(name, *ty, dims)),
            (false, _) => graph.initializer.push(ones(name, *ty, dims)),
            (true, Way::Initializer) => graph.initializer.push(empty(name, *ty, &[0])),
            (true, Way::Run) => graph.input.push(shaped(name, *ty, vec![symbol("E")])),
            (true, Way::Slice) => {
                graph.initializer.extend([ones("whole", *ty, &[2]), int64("zero", &[0])]);
                graph.node.push(node("Shape", &["s"], &["n"], vec![]));
                graph.node.push(node("Sub", &["n", "n"], &["end"], vec![]));
                graph.node.push(node("Slice", &["whole", "zero", "end"], &[name], vec![]));
            }
        }
    }
    graph.node.push(node(operator, &names, &["y"], attributes(operator)));
    model(21, graph)
}

/// Loads, optimises and runs a model on ones, with nothing where a size is open. What comes of it
/// does not matter.
fn outlive(model: &ModelProto) {
    let _ = without_panic(|| {
        let model = onnx().with_ignore_output_types(true).model_for_proto_model(model)?;
        let typed = model.into_typed()?;
        let plan = typed.into_decluttered()?.into_optimized()?.into_runnable()?;
        let mut inputs = tvec!();
        for outlet in plan.model().input_outlets()? {
            let fact = plan.model().outlet_fact(*outlet)?;
            let shape: TVec<usize> = fact
                .shape
                .iter()
                .map(|dim| usize::try_from(dim.to_i64().unwrap_or(0)).unwrap_or(0))
                .collect();
            inputs.push(Tensor::zero_dt(fact.datum_type, &shape)?.into_tvalue());
        }
        plan.run(inputs)
    });
}

/// Every operator, and each of its operands.
#[test]
fn no_operand_without_elements_ends_the_process() {
    let operators = operands();
    assert!(operators.len() > 150 && operators.iter().any(|(_, types)| types.len() > 7));
    let shapes: [[&[i64]; 2]; 7] = [
        [&[2], &[]],
        [&[1], &[1]],
        [&[2, 2], &[2]],
        [&[1, 8, 1], &[]],
        [&[1, 1, 2, 2], &[]],
        [&[1, 1, 2, 2], &[1]],
        [&[1, 1, 2, 2], &[1, 1, 2, 2]],
    ];
    for operator in &operators {
        for victim in 0..operator.1.len() {
            for dims in shapes {
                for way in [Way::Initializer, Way::Slice, Way::Run] {
                    let model = without_elements(operator, victim, dims, way);
                    outlive(&model);
                }
            }
        }
    }
}
