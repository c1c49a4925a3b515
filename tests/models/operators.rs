//! The optimised graph of every model, stock tract's against ours: nothing that stock fuses is
//! unfused with the plug-in but for what `INSTEAD` lists, no graph has more nodes but those of
//! `MORE_NODES`, and results are stock's or the expected ones.
//!
//! The table is `tests/data/operators.tsv`; `make operator-counts` writes it. It has a row for each
//! model of this repository, and for the models of another folder, which are only looked at where
//! `ONNX_CAST_MODELS` names it. The operators are those of the CPU that the table was made on,
//! since tract chooses by CPU; what the test asks of them holds on any.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::cases::{Tolerance, Typed, cases, data, differences, root, tensors};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::logic::IfThenElse;
use tract_onnx::tract_core::ops::scan::{OptScan, Scan};
use tract_onnx_cast::{CastOnnx, HalfArithmetic};

type Operators = BTreeMap<String, usize>;

/// The plug-in. FLOAT16 is left to tract, so that graphs can be compared, and are the same on every
/// CPU.
fn ours() -> CastOnnx {
    tract_onnx_cast::onnx().with_half_arithmetic(HalfArithmetic::Native)
}

fn count(model: &TypedModel, operators: &mut Operators) {
    for node in model.nodes() {
        let name = node.op.name();
        if !matches!(&*name, "Const" | "Source") {
            *operators.entry(name.into_owned()).or_default() += 1;
        }
        if let Some(scan) = node.op_as::<OptScan>() {
            count(scan.plan.model(), operators);
        } else if let Some(scan) = node.op_as::<Scan>() {
            count(&scan.body, operators);
        } else if let Some(branches) = node.op_as::<IfThenElse>() {
            count(&branches.then_body, operators);
            count(&branches.else_body, operators);
        }
    }
}

struct Run {
    operators: Operators,
    outputs: TractResult<Vec<Tensor>>,
}

fn optimize(mut model: InferenceModel, inputs: &[Typed]) -> TractResult<Run> {
    for (index, input) in inputs.iter().enumerate() {
        let fact = InferenceFact::dt_shape(input.tensor.datum_type(), input.tensor.shape());
        model.set_input_fact(index, fact)?;
    }
    let model = model.into_optimized()?;
    let mut operators = Operators::new();
    count(&model, &mut operators);
    let values = inputs.iter().map(|input| input.tensor.clone().into_tvalue()).collect();
    let outputs = model.into_runnable().and_then(|plan| plan.run(values));
    let outputs = outputs.map(|values| values.into_iter().map(TValue::into_tensor).collect());
    Ok(Run { operators, outputs })
}

/// Stock tract with one of the 8 combinations of its flags.
fn with_flags(flags: u8) -> tract_onnx::Onnx {
    tract_onnx::onnx()
        .with_ignore_output_shapes(flags & 1 != 0)
        .with_ignore_value_info(flags & 2 != 0)
        .with_ignore_output_types(flags & 4 != 0)
}

/// Stock tract under the first combination of its flags that works.
fn stock(path: &Path, inputs: &[Typed]) -> TractResult<Run> {
    let mut first = None;
    for flags in 0..8 {
        match with_flags(flags).model_for_path(path).and_then(|model| optimize(model, inputs)) {
            Ok(run) if run.outputs.is_ok() => return Ok(run),
            other => first = first.or(Some(other)),
        }
    }
    first.expect("a first try")
}

/// Why a graph has more nodes.
const ZERO: &str = "a product by zero, which stock takes for zero, NaN too";

/// The models whose graphs have more nodes than stock's, because stock's compute something else.
const MORE_NODES: &[(&str, &str)] = &[
    ("models/whole/skl_mlp", "tract looks at no index of an ArrayFeatureExtractor"),
    ("expanded_tests/test_attention_3d_softcap_expanded", SIGN),
    ("expanded_tests/test_shrink_hard_expanded_ver18", SIGN),
    ("expanded_tests/test_flexattention_soft_cap_expanded_ver26", SIGN),
    (
        "models/found/disabled__clip_float16_without_bounds",
        "a Clip, which stays one where nothing bounds it",
    ),
    (BACKWARDS, "what is left of a slice that begins behind the end, which stock makes empty"),
    ("models/whole/gathered_rows", INDICES),
    ("expanded_tests/test_nllloss_NCd1d2_with_weight_reduction_sum_ii_expanded", INDICES),
    ("expanded_tests/test_nllloss_NCd1d2d3_sum_weight_high_ii_expanded", INDICES),
    ("models/whole/half_arithmetic_FLOAT16", "two constant factors, which stock takes for one"),
    ("models/whole/declared_expansion", "the dimensions to expand to, which stock does not read"),
    ("models/whole/matmul_integer_to_FLOAT", IN_FLOAT),
    ("models/whole/matmul_integer_to_INT32", IN_FLOAT),
    ("models/whole/matmul_integer_to_INT8", IN_FLOAT),
    ("models/whole/matmul_integer_to_UINT8", IN_FLOAT),
    ("models/whole/qdq_softmax", "a Softmax, of which stock makes a table of 256 codes"),
    ("models/whole/skl_kmeans", ZERO),
    ("expanded_tests/test_hardsigmoid_default_expanded_ver18", NAN),
    ("expanded_tests/test_hardsigmoid_expanded_ver18", NAN),
    ("expanded_tests/test_blackmanwindow_expanded", ZERO),
    ("expanded_tests/test_blackmanwindow_symmetric_expanded", ZERO),
    ("expanded_tests/test_hammingwindow_expanded", ZERO),
    ("expanded_tests/test_hammingwindow_symmetric_expanded", ZERO),
    ("expanded_tests/test_hannwindow_expanded", ZERO),
    ("expanded_tests/test_hannwindow_symmetric_expanded", ZERO),
];

/// A slice of a negative step, whose beginning is beyond the end.
const BACKWARDS: &str = "models/found/evaluator__slice_back_from_beyond";

const IN_FLOAT: &str = "casts to FLOAT and back, around a product that is faster in it";

const INDICES: &str = "a look at indices, where stock panics at those that an axis does not have";

const SIGN: &str = "a sum with zero, which is 0 of −0";

const NAN: &str = "bounds that keep NaN, which no chain of tract's does";

/// Operators here, and those of stock's that they take the place of.
const INSTEAD: &[(&str, &[&str])] = &[
    ("ArgMax", &["Reduce<ArgMax(false)>"]),
    ("ArgMin", &["Reduce<ArgMin(false)>"]),
    (
        "Bound",
        &["Max", "Min", "OptBinChain(Max+Min)", "OptBinChain(Mul+Add+Min+Max)", "OptMaxByScalar"],
    ),
    ("Cast", &["OffsetU8asI8"]),
    ("Celu", &["Add", "Exp", "Max", "Min", "Mul", "Sub"]),
    ("Div", &["Mul", "OptMulByScalar", "OptMulUnicast", "Recip"]),
    ("Elu", &["Exp", "Iff", "LT", "Sub"]),
    ("GRU", &["Add", "Mul", "OptMatMul", "OptMatMulPack", "Sigmoid", "Sub", "Tanh"]),
    ("Gelu", &["GeluExact"]),
    ("Hardmax", &["IntoShape", "Onehot", "Reduce<ArgMax(false)>"]),
    ("MaxPool", &["OptMaxPool"]),
    ("LogSoftmax", &["Ln", "Softmax"]),
    ("LogSumExp", &["Exp", "Ln", "Reduce<Sum>"]),
    ("Power", &["PowConst"]),
    ("Reduce<Mean>", &["Div", "Reduce<Sum>"]),
    ("Reduce<SumOfSquares>", &["Reduce<Sum>", "Square"]),
    ("Swish", &["Silu"]),
];

/// What stock makes wrong labels of two classes with, which is one operator here.
const LABELS: &[&str] =
    &["Concat", "DirectLookup", "IntoShape", "Reduce<ArgMax(false)>", "Sigmoid", "Slice", "Sub"];

/// `3 OptMatMul, 2 Add`, of what `a` has more than `b`.
fn more(a: &Operators, b: &Operators) -> String {
    let more = a.iter().filter_map(|(name, count)| {
        let other = b.get(name).copied().unwrap_or_default();
        (*count > other).then(|| format!("{} {name}", count - other))
    });
    more.collect::<Vec<_>>().join(", ")
}

fn inputs_and_outputs(folder: &Path) -> (Vec<Typed>, Vec<Typed>) {
    let data = data(folder);
    (tensors(&data, "input"), tensors(&data, "output"))
}

/// Sums in another order, and functions of another unit in the last place: which of them tract
/// has depends on the processor.
const ROUNDING: Tolerance = Tolerance { rtol: 1e-2, atol: 1e-4 };

/// A row of the table, and what is wrong with it.
fn row(name: &str, folder: &Path) -> (String, Vec<String>) {
    let (inputs, wanted) = inputs_and_outputs(folder);
    let path = folder.join("model.onnx");
    let stock = stock(&path, &inputs);
    let ours = ours().model_for_path(&path);
    let ours = ours.and_then(|model| optimize(model, &inputs));
    let mut wrong = vec![];
    let cells = match (&stock, &ours) {
        (Ok(stock), Ok(ours)) => {
            let nodes = |run: &Run| run.operators.values().sum::<usize>();
            let is_excused = MORE_NODES.iter().any(|(excused, _)| *excused == name);
            if (nodes(ours) > nodes(stock)) != is_excused {
                wrong.push(format!("{name}: {} nodes, stock {}", nodes(ours), nodes(stock)));
            }
            let casts = ["Cast", "OnnxCast", "onnx.Cast(StringParse)"];
            for (operator, count) in &stock.operators {
                let count_of = |name: &str| ours.operators.get(name).copied().unwrap_or_default();
                let other = match operator.as_str() {
                    "MultiBroadcastTo" => "ExpandAsDeclared",
                    // Of exchanged inputs.
                    "GT" => "LT",
                    "QuantizeLinearU8" | "QuantizeLinearI8" => "OnnxQuantizeLinear",
                    "DequantizeLinearF32" => "OnnxDequantizeLinear",
                    "DynamicQuantizeLinearU8" => "OnnxDynamicQuantizeLinear",
                    // tract makes a table of a Softmax too.
                    "LookupTable" if count_of("OnnxCodeTable") == 0 => "OnnxDequantizeLinear",
                    "LookupTable" => "OnnxCodeTable",
                    _ => "",
                };
                let kept = count_of(operator) + count_of(other);
                let is_of_labels = count_of("TwoClasses") > 0 && LABELS.contains(&&**operator);
                let is_instead = INSTEAD
                    .iter()
                    .any(|(ours, stock)| count_of(ours) > 0 && stock.contains(&operator.as_str()));
                if kept < *count
                    && !is_instead
                    && !is_of_labels
                    && !casts.contains(&operator.as_str())
                {
                    wrong.push(format!("{name}: {kept} {operator}, stock {count}"));
                }
            }
            let results = match (&stock.outputs, &ours.outputs) {
                (Ok(stock), Ok(ours)) => {
                    let same = stock.iter().zip(ours).zip(&wanted).all(|((stock, ours), want)| {
                        let typed = |tensor: &Tensor| Typed { ty: want.ty, tensor: tensor.clone() };
                        stock.datum_type() == ours.datum_type()
                            && stock.shape() == ours.shape()
                            && want.tensor.datum_type() == ours.datum_type()
                            && differences(&typed(ours), &typed(stock), Some(ROUNDING)).is_empty()
                    });
                    if same { "equal" } else { "stock differs" }
                }
                (Err(_), Ok(_)) => "stock fails",
                (Ok(_), Err(error)) => {
                    wrong.push(format!("{name}: stock runs it: {error:#}"));
                    "ours fails"
                }
                (Err(_), Err(_)) => "neither runs",
            };
            [
                nodes(stock).to_string(),
                nodes(ours).to_string(),
                more(&stock.operators, &ours.operators),
                more(&ours.operators, &stock.operators),
                results.into(),
            ]
        }
        (Err(_), Ok(ours)) => {
            let nodes = ours.operators.values().sum::<usize>().to_string();
            let result = if ours.outputs.is_ok() { "stock does not load" } else { "neither runs" };
            ["-".into(), nodes, "".into(), "".into(), result.into()]
        }
        (Ok(_), Err(error)) => {
            wrong.push(format!("{name}: stock loads it: {error:#}"));
            ["".into(), "-".into(), "".into(), "".into(), "ours does not load".into()]
        }
        (Err(_), Err(_)) => ["-".into(), "-".into(), "".into(), "".into(), "neither loads".into()],
    };
    (format!("{name}\t{}", cells.join("\t")), wrong)
}

/// The rows of the table by name.
fn table(text: &str) -> BTreeMap<&str, &str> {
    text.lines().skip(1).filter_map(|line| line.split_once('\t')).collect()
}

/// The last column.
fn result(cells: &str) -> &str {
    cells.rsplit('\t').next().unwrap_or_default()
}

#[test]
fn no_fusion_is_lost() {
    const HEAD: &str = "model\tnodes in stock\tnodes here\tonly in stock\tonly here\tresults\n";
    let path = root().join("tests/data/operators.tsv");
    let written = fs::read_to_string(&path).unwrap_or_default();
    let elsewhere = std::env::var_os("ONNX_CAST_MODELS").map(PathBuf::from);
    let mut places = vec![
        ("models", root().join("models")),
        ("node_tests", root().join("tests/data/node_tests")),
        ("expanded_tests", root().join("tests/data/expanded_tests")),
    ];
    places.extend(elsewhere.map(|folder| ("elsewhere", folder)));
    let (mut rows, mut wrong) = (String::from(HEAD), vec![]);
    for (place, folder) in places {
        for (name, folder) in cases(&folder) {
            let (row, problems) = row(&format!("{place}/{name}"), &folder);
            rows.push_str(&format!("{row}\n"));
            wrong.extend(problems);
        }
    }
    if std::env::var_os("ONNX_CAST_WRITE_OPERATORS").is_some() {
        fs::write(&path, &rows).unwrap();
    } else {
        let (old, new) = (table(&written), table(&rows));
        for (name, cells) in &new {
            match old.get(name) {
                Some(old) if result(old) == result(cells) => {}
                old => wrong.push(format!("{name}: {cells:?}, the table says {old:?}")),
            }
        }
        let gone = old.keys().filter(|name| !name.starts_with("elsewhere/"));
        wrong.extend(
            gone.filter(|name| !new.contains_key(*name)).map(|name| format!("{name}: gone")),
        );
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The shapes that a model's outputs have where its inputs keep their symbols, if the model runs
/// so.
fn declared_shapes(model: InferenceModel, inputs: &[Typed]) -> TractResult<Vec<String>> {
    let model = model.into_optimized()?;
    let shape = |outlet: &OutletId| Ok(format!("{:?}", model.outlet_fact(*outlet)?.shape));
    let shapes = model.outputs.iter().map(shape).collect();
    let values = inputs.iter().map(|input| input.tensor.clone().into_tvalue()).collect();
    model.into_runnable()?.run(values)?;
    shapes
}

#[test]
fn shapes_are_symbolic_where_they_are_in_stock() {
    let elsewhere = std::env::var_os("ONNX_CAST_MODELS").map(PathBuf::from);
    let folders = ["models", "tests/data/node_tests", "tests/data/expanded_tests"];
    let folders = folders.map(|folder| root().join(folder));
    let (mut wrong, mut symbolic) = (vec![], 0);
    for (name, folder) in folders.into_iter().chain(elsewhere).flat_map(|folder| cases(&folder)) {
        let path = folder.join("model.onnx");
        let inputs = inputs_and_outputs(&folder).0;
        let stock = (0..8).find_map(|flags| {
            let model = with_flags(flags).model_for_path(&path);
            model.and_then(|model| declared_shapes(model, &inputs)).ok()
        });
        let Some(stock) = stock else { continue };
        let ours = ours().model_for_path(&path);
        let ours = ours.and_then(|model| declared_shapes(model, &inputs));
        symbolic += usize::from(stock.iter().any(|shape| shape.contains(char::is_alphabetic)));
        match ours {
            Ok(ours) if ours == stock || BACKWARDS.ends_with(&name) => {}
            Ok(ours) => wrong.push(format!("{name}: {ours:?}, stock {stock:?}")),
            Err(error) => wrong.push(format!("{name}: stock loads it: {error:#}")),
        }
    }
    assert!(symbolic >= 5, "{symbolic} models with symbols");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
