//! `TreeEnsembleClassifier` of two classes whose trees have weights for one, as scikit-learn and
//! LightGBM are exported.
//!
//! tract gives every row the first label there, since it looks for the largest of one score and a
//! zero, and takes only as many base values as classes (tract-onnx,
//! `ops/ml/tree_ensemble_classifier.rs`). The rule is that of ONNX Runtime: a score beyond 0.5 is
//! the second class where no weight is negative, one beyond 0 where some are, whichever class the
//! weights are of; scores of one class know no softmax. Two base values, or weights of the second
//! class, make a score for each class, of which one is 0.
//!
//! It rounds DOUBLE to FLOAT before it compares (tract-onnx-opl, `ml/tree_ensemble_classifier.rs`,
//! `eval`): see `features`.

use std::collections::{BTreeMap, HashMap};

use onnx_cast_graph::{counted, ints_attribute};
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{Array2, Axis};

use super::{classes, features};
use crate::onnx::node::refusal;
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{Hook, HookSite, Instead, refused};
use crate::ops::host::hooked::hooked;
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved};
use crate::ops::host::stock::Built;

const CHILDREN: [&str; 2] = ["nodes_truenodeids", "nodes_falsenodeids"];

const NAN_IS_TRUE: &str = "nodes_missing_value_tracks_true";

/// Builds tract's operator without the base values of the one score, which it does not take so.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    check_trees(node)?;
    check_classes(node)?;
    let mut stock = node.clone();
    if class_of_score(node)?.is_some() {
        stock.attribute.retain(|attribute| attribute.name != "base_values");
    }
    ask_less(&mut stock);
    let trees = features::build(context, &stock)?;
    Ok((hooked(context, node, trees, Hook::Instead(wire)), vec![]))
}

/// Has a node that asks for at least a value ask for less, with its children and the way of NaN
/// exchanged: tract takes it for a leaf (tract-onnx-opl, `ml/tree.rs`, `Cmp::try_from`).
fn ask_less(node: &mut NodeProto) {
    let modes = node.attribute.iter_mut().find(|attribute| attribute.name == "nodes_modes");
    let Some(modes) = modes else { return };
    let mut places = vec![];
    for (place, mode) in modes.strings.iter_mut().enumerate() {
        if mode == b"BRANCH_GTE" {
            *mode = b"BRANCH_LT".into();
            places.push(place);
        }
    }
    if places.is_empty() {
        return;
    }
    let count = modes.strings.len();
    let mut take = |name: &str| {
        let place = node.attribute.iter().position(|attribute| attribute.name == name);
        place.map(|place| node.attribute.swap_remove(place).ints).unwrap_or_default()
    };
    let mut is_true = take(NAN_IS_TRUE);
    let (mut yes, mut no) = (take(CHILDREN[0]), take(CHILDREN[1]));
    if is_true.is_empty() {
        is_true = vec![0; count];
    }
    for place in places {
        if let (Some(yes), Some(no)) = (yes.get_mut(place), no.get_mut(place)) {
            std::mem::swap(yes, no);
        }
        if let Some(is_true) = is_true.get_mut(place) {
            *is_true = i64::from(*is_true == 0);
        }
    }
    for (name, ints) in [(NAN_IS_TRUE, is_true), (CHILDREN[0], yes), (CHILDREN[1], no)] {
        node.attribute.push(ints_attribute(name, ints));
    }
}

/// Checks that every weight is of a class: tract adds it to the score at that place without looking
/// whether there is one (tract-onnx-opl, `ml/tree.rs`, `eval_unchecked`).
fn check_classes(node: &NodeProto) -> TractResult<()> {
    let ids: Vec<i64> = node.get_attr_opt_vec("class_ids")?.unwrap_or_default();
    let count = labels(node)?.len();
    match ids.iter().find(|id| !usize::try_from(**id).is_ok_and(|id| id < count)) {
        Some(id) => {
            let problem = format!("has weights of class {id}, and {}", counted(count, "label"));
            bail!(refusal(node, problem))
        }
        None => Ok(()),
    }
}

/// Checks that every path in a tree ends: tract follows it while it runs the model. For tract the
/// id of a node is its place in its tree as well (`ops/ml/tree_ensemble_classifier.rs`,
/// `parse_nodes_data`).
fn check_trees(node: &NodeProto) -> TractResult<()> {
    let numbers =
        |name| -> TractResult<Vec<i64>> { Ok(node.get_attr_opt_vec(name)?.unwrap_or_default()) };
    let (trees, ids) = (numbers("nodes_treeids")?, numbers("nodes_nodeids")?);
    let (true_ids, false_ids) = (numbers(CHILDREN[0])?, numbers(CHILDREN[1])?);
    let modes: Vec<&str> = node.get_attr_opt_vec("nodes_modes")?.unwrap_or_default();
    let lengths = [ids.len(), true_ids.len(), false_ids.len(), modes.len()];
    if lengths.iter().any(|length| *length != trees.len()) {
        // tract says which of them is too short.
        return Ok(());
    }
    let mut by_tree: BTreeMap<i64, BTreeMap<i64, Option<[i64; 2]>>> = BTreeMap::new();
    for (index, (tree, id)) in trees.iter().zip(&ids).enumerate() {
        let is_leaf = modes.get(index).is_none_or(|mode| *mode == "LEAF");
        let children = true_ids.get(index).copied().zip(false_ids.get(index).copied());
        let children = children.filter(|_| !is_leaf).map(|(one, other)| [one, other]);
        if by_tree.entry(*tree).or_default().insert(*id, children).is_some() {
            bail!(refusal(node, format!("has node {id} of tree {tree} twice")));
        }
    }
    for (tree, nodes) in &by_tree {
        if let Some((_, id)) = nodes.keys().enumerate().find(|(place, id)| *place as i64 != **id) {
            let problem = format!("has tree {tree} whose nodes are not numbered from 0: {id}");
            bail!(refusal(node, problem));
        }
        if let Some(problem) = endless(nodes) {
            bail!(refusal(node, format!("has tree {tree} {problem}")));
        }
    }
    Ok(())
}

/// Says what is wrong with a tree, children by node, if a path in it does not end.
fn endless(nodes: &BTreeMap<i64, Option<[i64; 2]>>) -> Option<String> {
    enum VisitState {
        /// On the path that is being followed.
        Open,
        Done,
    }
    let mut states: HashMap<i64, VisitState> = HashMap::new();
    for start in nodes.keys() {
        // Each with whether its children have been followed.
        let mut path = vec![(*start, false)];
        while let Some((id, is_followed)) = path.pop() {
            if is_followed {
                states.insert(id, VisitState::Done);
                continue;
            }
            match states.get(&id) {
                Some(VisitState::Done) => continue,
                Some(VisitState::Open) => return Some(format!("whose node {id} is below itself")),
                None => {}
            }
            let Some(children) = nodes.get(&id) else {
                return Some(format!("that leads to node {id}, which it does not have"));
            };
            states.insert(id, VisitState::Open);
            path.push((id, true));
            path.extend(children.iter().flatten().map(|child| (*child, false)));
        }
    }
    None
}

/// The one of two classes that all weights are of, if it is one.
fn class_of_score(node: &NodeProto) -> TractResult<Option<usize>> {
    let ids: Vec<i64> = node.get_attr_opt_vec("class_ids")?.unwrap_or_default();
    let has_two = labels(node)?.len() == 2;
    let class = [0, 1].into_iter().find(|class| ids.iter().all(|id| *id == *class as i64));
    Ok(class.filter(|_| has_two && !ids.is_empty()))
}

fn labels(node: &NodeProto) -> TractResult<Tensor> {
    let numbers: Option<Vec<i64>> = node.get_attr_opt_vec("classlabels_int64s")?;
    let texts: Option<Vec<&str>> = node.get_attr_opt_vec("classlabels_strings")?;
    Ok(match (numbers, texts) {
        (Some(numbers), _) => tensor1(&numbers),
        (None, texts) => {
            let texts = texts.unwrap_or_default();
            tensor1(&texts.into_iter().map(String::from).collect::<Vec<String>>())
        }
    })
}

fn wire(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    match wire_two(site, model, inputs)? {
        Some(wires) => Ok(Some(wires)),
        None => classes::with_logistic(site, model, inputs, classes::with_texts),
    }
}

fn wire_two(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let node = &site.proto;
    let transform: Option<&str> = node.get_attr_opt("post_transform")?;
    let (softmax, logistic) = match transform.unwrap_or("NONE") {
        "NONE" => (false, false),
        "SOFTMAX" => (true, false),
        "LOGISTIC" => (false, true),
        _ => return Ok(None),
    };
    let bases: Vec<f32> = node.get_attr_opt_vec("base_values")?.unwrap_or_default();
    let (Some(class), [input], true) = (class_of_score(node)?, inputs, bases.len() <= 2) else {
        return Ok(None);
    };
    // What tract makes of the labels afterwards it cannot make of strings.
    let mut draft = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
    let fact = model.outlet_fact(*input)?;
    let source = draft.add_source("input", fact.datum_type.fact(fact.shape.clone()))?;
    let wired = site.wire_stock(&mut draft, &[source]);
    let name = site.part("classifier");
    let Some(trees) = draft.nodes.iter().find(|node| node.name == name) else {
        return wired.map(|_| None);
    };
    let features = features::bounded(&site.name, model, inputs)?;
    let scores = model.wire_node(name, trees.op.clone(), &features)?;
    let weights: Vec<f32> = node.get_attr_vec("class_weights")?;
    let op = TwoClasses {
        node: site.node(),
        labels: labels(node)?.into_arc_tensor(),
        class,
        bases: bases.into_iter().map(f32::to_bits).collect(),
        is_share: weights.iter().all(|weight| *weight >= 0.),
        softmax,
        logistic,
    };
    model.wire_node(&site.name, op, &scores).map(Some)
}

/// Labels and scores of two classes: its input is the sum of all weights, in the column of their
/// class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TwoClasses {
    /// For messages.
    node: Label,
    labels: Arc<Tensor>,
    /// That of the weights.
    class: usize,
    /// What is added to scores, by its bits: two numbers at most.
    bases: Vec<u32>,
    /// Whether scores are shares of one, which no negative weight lets them be.
    is_share: bool,
    softmax: bool,
    logistic: bool,
}

impl TwoClasses {
    /// Whether it is the second class, and the scores of both. As in ONNX Runtime, of two base
    /// values that of the first class is added to what the weights of the first make, and that of
    /// the second stands for what the weights of the second make; a single one is left out there.
    fn classify(&self, sum: f32) -> (bool, [f32; 2]) {
        let base = |place: usize| self.bases.get(place).copied().map(f32::from_bits);
        let (score, pair) = match (self.class, base(0), base(1)) {
            (0, first, None) => {
                let score = sum + first.unwrap_or_default();
                (score, [if self.is_share { 1. } else { 0. } - score, score])
            }
            (0, first, Some(_)) => {
                let score = sum + first.unwrap_or_default();
                (score, [score, 0.])
            }
            (_, _, second) => {
                let score = second.unwrap_or(sum);
                (score, [0., score])
            }
        };
        let is_one_score = self.class == 0 && self.bases.len() < 2;
        let scores = match (self.logistic, self.softmax) {
            (true, _) if is_one_score => [logistic(-score), logistic(score)],
            (true, _) => pair.map(logistic),
            (_, true) if !is_one_score => {
                let [first, second] = pair;
                [logistic(first - second), logistic(second - first)]
            }
            _ => pair,
        };
        (score > if self.is_share { 0.5 } else { 0. }, scores)
    }

    fn pick<T: Datum>(&self, seconds: &[bool]) -> TractResult<Tensor> {
        let plain = self.labels.try_as_plain_ram()?;
        let [first, second] = plain.as_slice::<T>()? else {
            let problem = "has labels for other than two classes";
            bail!(refused(&self.node, "TreeEnsembleClassifier", problem));
        };
        let label = |is_second: &bool| if *is_second { second.clone() } else { first.clone() };
        Ok(tensor1(&seconds.iter().map(label).collect::<Vec<T>>()))
    }
}

fn logistic(x: f32) -> f32 {
    let of_size = 1. / (1. + (-x.abs()).exp());
    if x < 0. { 1. - of_size } else { of_size }
}

typed_op!(TwoClasses, "TwoClasses");

impl EvalOp for TwoClasses {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let input = input.to_plain_array_view::<f32>()?;
        let rows = input.shape().first().copied().unwrap_or_default();
        let (mut seconds, mut scores) = (vec![], vec![]);
        for row in input.axis_iter(Axis(0)) {
            let sum = row.get(self.class).copied().unwrap_or_default();
            let (is_second, both) = self.classify(sum);
            seconds.push(is_second);
            scores.extend(both);
        }
        let labels = match self.labels.datum_type() {
            DatumType::String => self.pick::<String>(&seconds)?,
            _ => self.pick::<i64>(&seconds)?,
        };
        let scores = Array2::from_shape_vec((rows, 2), scores)?.into_dyn().into_tensor();
        Ok(tvec!(labels.into_tvalue(), scores.into_tvalue()))
    }
}

impl TypedOp for TwoClasses {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [scores] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        let rows = scores.shape.first().context("scores have rows")?.clone();
        Ok(tvec!(
            self.labels.datum_type().fact([rows.clone()]),
            DatumType::F32.fact([rows, 2.to_dim()])
        ))
    }

    as_op!();
}

impl Save for TwoClasses {
    const NAME: &'static str = "tract_onnx_cast_two_classes";

    const OUTPUTS: &'static [&'static str] = &["labels", "scores"];

    fn save(&self) -> Saved {
        let plain = self.labels.try_as_plain_ram();
        let (texts, numbers) = plain.map_or((&[][..], &[][..]), |labels| {
            let texts = labels.as_slice::<String>().unwrap_or_default();
            (texts, labels.as_slice::<i64>().unwrap_or_default())
        });
        let saved = Saved::default().with(&texts.to_vec()).with(&numbers.to_vec());
        let saved = saved.with(&self.class).with(&self.bases).with(&self.is_share);
        saved.with(&self.softmax).with(&self.logistic)
    }

    fn restore(node: Label, row: &mut Row) -> TractResult<TwoClasses> {
        let (texts, numbers): (Vec<String>, Vec<i64>) = row.take()?;
        let labels = if texts.is_empty() { tensor1(&numbers) } else { tensor1(&texts) };
        let labels = labels.into_arc_tensor();
        let (class, bases, is_share) = (row.take()?, row.take()?, row.take()?);
        let (softmax, logistic) = (row.take()?, row.take()?);
        Ok(TwoClasses { node, labels, class, bases, is_share, softmax, logistic })
    }
}
