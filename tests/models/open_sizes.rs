//! Sizes that are symbols in a plan, and turn out to be 0, 1 or more when it runs: what comes out
//! is what the model gives node by node, or an error. The variable `OPEN_SIZES` of the environment
//! names a file of other models.

use tract_onnx::pb::{ModelProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{OnnxTensor, model_proto, onnx};

use crate::common::cases::{Tolerance, Typed, differences};
use crate::common::proto::{
    Sketch, dim, float, int, int64, ints, model, shaped, string, symbol, tensor, unshaped,
};

use ElementType::{Float, Int64};

const ROUNDED: Tolerance = Tolerance { rtol: 1e-4, atol: 1e-5 };

/// The symbols N and M.
const SIZES: [(i64, i64); 10] =
    [(0, 0), (1, 1), (2, 2), (3, 3), (0, 2), (1, 0), (1, 3), (3, 1), (0, 1), (2, 0)];

const CASES: &str = include_str!("../data/open_sizes.tsv");

/// A model and its inputs, of whose sizes -1 is N, and -2 M.
struct Case {
    name: String,
    must_run: bool,
    inputs: Vec<(String, ElementType, Vec<i64>)>,
    sketch: Sketch,
    outputs: Vec<(String, ElementType)>,
}

fn size(size: i64, n: i64, m: i64) -> usize {
    (match size {
        -1 => n,
        -2 => m,
        size => size,
    }) as usize
}

impl Case {
    fn model(&self) -> ModelProto {
        let mut graph = self.sketch.clone().0;
        for (name, ty, shape) in &self.inputs {
            let dims = shape.iter().map(|size| match size {
                -1 => symbol("N"),
                -2 => symbol("M"),
                size => dim(*size),
            });
            graph.input.push(shaped(name, *ty, dims.collect()));
        }
        graph.output.extend(self.outputs.iter().map(|(name, ty)| unshaped(name, *ty)));
        model(21, graph)
    }

    fn inputs(&self, n: i64, m: i64) -> Vec<Typed> {
        let input = |(_, ty, shape): &(String, ElementType, Vec<i64>)| {
            let dims: Vec<usize> = shape.iter().map(|dim| size(*dim, n, m)).collect();
            let count: usize = dims.iter().product();
            let tensor = if *ty == Int64 {
                let values: Vec<i64> = (0..count as i64).map(|i| (i * 5) % 7 - 3).collect();
                Tensor::from_shape(&dims, &values).expect("a tensor")
            } else {
                let values: Vec<f32> = (0..count).map(|i| ((i * 5) % 7) as f32 - 3.0).collect();
                Tensor::from_shape(&dims, &values).expect("a tensor")
            };
            Typed { ty: *ty, tensor }
        };
        self.inputs.iter().map(input).collect()
    }
}

type Run = Box<dyn Fn(Vec<Typed>) -> Result<Vec<Typed>, String>>;

fn plan(case: &Case) -> Result<Run, String> {
    let loaded = without_panic(|| {
        let model =
            model_proto::load(&onnx(), case.model(), None)?.into_model().into_optimized()?;
        model.into_runnable()
    });
    let plan = loaded.map_err(|error| format!("{error:#}"))?;
    let types: Vec<ElementType> = case.outputs.iter().map(|(_, ty)| *ty).collect();
    Ok(Box::new(move |inputs| {
        let inputs = inputs.into_iter().map(|input| input.tensor.into_tvalue()).collect();
        let outputs = without_panic(|| plan.run(inputs)).map_err(|error| format!("{error:#}"))?;
        let typed = |(value, ty): (TValue, &_)| Typed { ty: *ty, tensor: value.into_tensor() };
        Ok(outputs.into_iter().zip(&types).map(typed).collect())
    }))
}

fn nodes(case: &Case) -> Result<Run, String> {
    let model =
        Interpreter::of_proto(onnx(), case.model(), None).map_err(|error| format!("{error:#}"))?;
    Ok(Box::new(move |inputs| {
        let inputs = inputs.into_iter().map(|Typed { ty, tensor }| OnnxTensor::new(ty, tensor));
        let inputs = inputs.collect::<Result<_, _>>().expect("carriers");
        let outputs = model.run(inputs).map_err(|error| format!("{error:#}"))?;
        let typed =
            |made: OnnxTensor| Typed { ty: made.element_type(), tensor: made.into_tensor() };
        Ok(outputs.into_iter().map(typed).collect())
    }))
}

fn shown(outputs: &[Typed]) -> String {
    let outputs: Vec<String> = outputs.iter().map(|o| format!("{:?}", o.tensor)).collect();
    outputs.join("; ")
}

/// What a plan makes that the model does not.
fn faults(case: &Case) -> Vec<String> {
    let nodes = match nodes(case) {
        Ok(nodes) => nodes,
        Err(error) => return vec![format!("{} node by node: {error}", case.name)],
    };
    let plan = match plan(case) {
        Ok(plan) => plan,
        Err(error) if case.must_run => return vec![format!("{}: {error}", case.name)],
        Err(_) => return vec![],
    };
    let mut faults = vec![];
    let has_two = case.inputs.iter().any(|(_, _, shape)| shape.contains(&-2));
    for (n, m) in SIZES.into_iter().filter(|(n, m)| n == m || has_two) {
        let name = format!("{}, N = {n}, M = {m}", case.name);
        match (plan(case.inputs(n, m)), nodes(case.inputs(n, m))) {
            (Ok(planned), Ok(walked)) => {
                let is_same = planned.len() == walked.len()
                    && planned.iter().zip(&walked).all(|(planned, walked)| {
                        planned.tensor.shape() == walked.tensor.shape()
                            && differences(walked, planned, Some(ROUNDED)).is_empty()
                    });
                if !is_same {
                    let (planned, walked) = (shown(&planned), shown(&walked));
                    faults.push(format!("{name}: {planned}, not {walked}"));
                }
            }
            (Ok(planned), Err(error)) => {
                faults.push(format!("{name}: {}, not the error {error}", shown(&planned)));
            }
            (Err(error), Ok(_)) if case.must_run => faults.push(format!("{name}: {error}")),
            (Err(_), _) => {}
        }
    }
    faults
}

/// The type of a letter.
fn ty(letter: &str) -> ElementType {
    if letter == "f" { Float } else { Int64 }
}

fn numbers(list: &str) -> Vec<i64> {
    let number = |text: &str| text.trim().parse().unwrap_or_else(|_| panic!("{text:?} in {list}"));
    list.trim_matches(['[', ']']).split(',').filter(|text| !text.is_empty()).map(number).collect()
}

/// `y = Op<a=1, b=[1, 2], c="text", d=0.5>(x, z)`
fn with_node(sketch: Sketch, line: &str) -> Sketch {
    let (outputs, call) = line.split_once(" = ").expect("an equals sign");
    let (head, inputs) = call.trim_end_matches(')').split_once('(').expect("a call");
    let (op, given) = head.split_once('<').unwrap_or((head, ""));
    let attribute = |text: &str| {
        let (name, value) = text.split_once('=').expect("a value");
        match value {
            text if text.starts_with('"') => string(name, text.trim_matches('"')),
            list if list.starts_with('[') => ints(name, &numbers(list)),
            number if number.contains('.') => float(name, number.parse().expect("a number")),
            number => int(name, number.parse().expect("a number")),
        }
    };
    let given = given.trim_end_matches('>').split_whitespace().map(attribute).collect();
    let names = |list: &'_ str| -> Vec<String> {
        list.split(',').map(|name| name.trim().to_string()).collect()
    };
    let (inputs, outputs) = (names(inputs), names(outputs));
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
    sketch.node(op, &inputs, &outputs, given)
}

/// What a line says: a name, after `!` where the model must run; inputs; nodes; constants, given by
/// their elements (`i`, `b`, `v`; `s` is a number), or by their shapes (`f`; `o` is of one value);
/// outputs.
fn case(line: &str) -> Case {
    let parts: Vec<&str> = line.split('\t').map(str::trim).collect();
    let [name, inputs, nodes, constants, outputs] = *parts else { panic!("{line}") };
    let (must_run, name) = name.strip_prefix('!').map_or((false, name), |name| (true, name));
    let mut sketch = nodes.split(';').map(str::trim).fold(Sketch::new(), with_node);
    for constant in constants.split_whitespace() {
        let (name, value) = constant.split_once('=').expect("a value");
        let (kind, value) = value.split_once(':').expect("a type");
        sketch = sketch.initializer(match kind {
            "i" => int64(name, &numbers(value)),
            "s" => TensorProto { dims: vec![], ..int64(name, &numbers(value)) },
            "b" => {
                let values: Vec<f32> = numbers(value).iter().map(|n| *n as f32).collect();
                tensor(name, ElementType::Bool, &values)
            }
            "v" => {
                let values: Vec<f32> = numbers(value).iter().map(|n| *n as f32).collect();
                tensor(name, Float, &values)
            }
            _ => {
                let dims = numbers(value);
                let count: i64 = dims.iter().product();
                let value = |i: i64| if kind == "o" { 2.0 } else { (i % 5) as f32 - 2.0 };
                let values: Vec<f32> = (0..count).map(value).collect();
                TensorProto { dims, ..tensor(name, Float, &values) }
            }
        });
    }
    let input = |text: &str| {
        let [name, letter, dims] = *text.split(':').collect::<Vec<_>>() else { panic!("{text}") };
        (name.to_string(), ty(letter), numbers(&dims.replace('N', "-1").replace('M', "-2")))
    };
    let output = |text: &str| {
        let (name, letter) = text.split_once(':').expect("a type");
        (name.to_string(), ty(letter))
    };
    Case {
        name: name.into(),
        must_run,
        inputs: inputs.split_whitespace().map(input).collect(),
        sketch,
        outputs: outputs.split_whitespace().map(output).collect(),
    }
}

#[test]
fn sizes_that_only_a_run_tells_are_as_node_by_node() {
    let mut wrong = vec![];
    let other = std::env::var_os("OPEN_SIZES").map(std::fs::read_to_string);
    let cases = other.map(|text| text.expect("a file")).unwrap_or_else(|| CASES.to_string());
    let cases = cases.lines().map(case);
    for case in cases {
        wrong.extend(faults(&case));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
