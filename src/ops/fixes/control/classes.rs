//! Classifiers whose labels are texts, and linear ones of one row.
//!
//! tract makes a zero of the labels' type for what no label is found for, and STRING has none; of
//! two labels it takes one row of coefficients by `multi_class` alone, and it multiplies by rows
//! that are longer than what they are given (tract-onnx, `ops/ml/linear_classifier.rs`,
//! `ops/ml/linear_regressor.rs`, `ops/ml/tree_ensemble_classifier.rs`).

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::nn::Sigmoid;

use crate::ops::fixes::functions::{ElementFunction, Kind};
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{Hook, HookSite, Instead};
use crate::ops::host::hooked::build_hooked;
use crate::ops::host::stock::Built;

/// Builds tract's `LinearClassifier`, of one row where there is one intercept, whatever
/// `multi_class` is.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let mut stock = node.clone();
    if labels(node) == 2 && given(node, "intercepts") == 1 {
        stock.attribute.retain(|attribute| attribute.name != "multi_class");
    }
    build_hooked(context, node, &stock, Hook::Instead(classifier))
}

/// How many numbers or texts an attribute holds.
fn given(node: &NodeProto, name: &str) -> usize {
    let held = node.attribute.iter().find(|attribute| attribute.name == name);
    held.map_or(0, |held| held.floats.len() + held.ints.len() + held.strings.len())
}

fn labels(node: &NodeProto) -> usize {
    given(node, "classlabels_ints") + given(node, "classlabels_strings")
}

fn classifier(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let rows = match given(&site.proto, "intercepts") {
        0 if labels(&site.proto) == 2 && site.int("multi_class", 0)? == 0 => 1,
        0 => labels(&site.proto),
        rows => rows,
    };
    check(site, model, inputs, rows)?;
    with_logistic(site, model, inputs, with_texts)
}

/// Leaves a `LinearRegressor` to tract if its coefficients are as many as it takes.
pub(crate) fn regressor(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    check(site, model, inputs, usize::try_from(site.int("targets", 1)?).unwrap_or(0))?;
    with_logistic(site, model, inputs, |_, _, _| Ok(None))
}

/// What is wired of a node, by tract where that is nothing, with a sigmoid that tells what is far
/// from 0 apart; tract's ends at 4.5e-7 (tract-linalg, `generic/sigmoid.rs`).
pub(crate) fn with_logistic(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
    wire: impl FnOnce(&HookSite, &mut TypedModel, &[OutletId]) -> Instead,
) -> Instead {
    if site.proto.get_attr_opt::<&str>("post_transform")? != Some("LOGISTIC") {
        return wire(site, model, inputs);
    }
    let first = model.nodes.len();
    let wires = match wire(site, model, inputs)? {
        Some(wires) => wires,
        None => site.wire_stock(model, inputs)?,
    };
    for node in model.nodes.iter_mut().skip(first) {
        if node.op_as::<ElementWiseOp>().is_some_and(|op| op.0.is::<Sigmoid>()) {
            node.op = Box::new(ElementFunction { kind: Kind::Sigmoid, alpha: 1.0, beta: 1.0 });
        }
    }
    Ok(Some(wires))
}

/// Fails where rows of coefficients are not as long as those of the input.
fn check(site: &HookSite, model: &TypedModel, inputs: &[OutletId], rows: usize) -> TractResult<()> {
    let [input] = inputs else { return Ok(()) };
    let features = model.outlet_fact(*input)?.shape.last().and_then(|size| size.to_usize().ok());
    let count = given(&site.proto, "coefficients");
    match features {
        Some(features) if features.checked_mul(rows) != Some(count) => {
            let problem =
                format!("has {count} coefficients for {rows} scores of {features} features");
            Err(site.error(problem).into())
        }
        _ => Ok(()),
    }
}

/// The labels and scores of a classifier whose labels are texts; none of one whose labels are
/// numbers.
pub(crate) fn with_texts(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let texts: Option<Vec<&str>> = site.proto.get_attr_opt_vec("classlabels_strings")?;
    let Some(texts) = texts.filter(|texts| !texts.is_empty()) else { return Ok(None) };
    let first = model.nodes.len();
    // It ends where the labels are looked up, behind the places of the largest scores.
    let wired = site.wire_stock(model, inputs);
    let made = |part: &str| {
        let name = site.part(part);
        model.nodes.iter().skip(first).position(|node| node.name == name).map(|at| first + at)
    };
    let scores = made("argmax").and_then(|largest| largest.checked_sub(1));
    let (Err(_), Some(scores), Some(places)) = (&wired, scores, made("rm_axis")) else {
        return wired.map(Some);
    };
    let texts: Vec<String> = texts.into_iter().map(String::from).collect();
    let mut wires = model.wire_node(&site.name, Texts(texts), &[OutletId::new(places, 0)])?;
    wires.push(OutletId::new(scores, 0));
    Ok(Some(wires))
}

/// The texts at places. An operator of ours, since tract moves axes into the constant that a
/// `Gather` takes from, and cannot of STRING.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Texts(Vec<String>);

typed_op!(Texts, "Texts");

impl EvalOp for Texts {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let places = args_1!(inputs);
        let text =
            |place: &i64| usize::try_from(*place).ok().and_then(|at| self.0.get(at)).cloned();
        let texts =
            places.to_plain_array_view::<i64>()?.map(|place| text(place).unwrap_or_default());
        Ok(tvec!(texts.into_tvalue()))
    }
}

impl TypedOp for Texts {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [places] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        Ok(tvec!(DatumType::String.fact(places.shape.iter())))
    }

    as_op!();
}
