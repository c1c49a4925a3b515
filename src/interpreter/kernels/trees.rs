//! `TreeEnsemble` of `ai.onnx.ml` 5.

use std::collections::HashSet;

use tract_onnx::prelude::tract_ndarray::{Array1, Array2, ArrayView1, Axis};
use tract_onnx::prelude::*;

use super::transforms::transformed;
use super::{KernelInputs, KernelOutputs, KernelSite};
use crate::tensor::proto;

/// What a node asks of its feature, by number.
const MODES: usize = 7;
const MEMBER: usize = 6;

/// Where a node leads to.
#[derive(Clone, Copy)]
enum Branch {
    Node(usize),
    Leaf(usize),
}

struct TreeNode {
    feature: usize,
    mode: usize,
    split: f64,
    /// The bits of the numbers that a node of mode `MEMBER` looks for.
    members: HashSet<u64>,
    nan_is_true: bool,
    branches: [Branch; 2],
}

impl TreeNode {
    fn next(&self, x: f64) -> Branch {
        let holds = match self.mode {
            0 => x <= self.split,
            1 => x < self.split,
            2 => x >= self.split,
            3 => x > self.split,
            4 => x == self.split,
            5 => x != self.split,
            _ => self.members.contains(&bits(x)),
        };
        self.branches[usize::from(!(holds || self.nan_is_true && x.is_nan()))]
    }
}

/// The bits of a number, both zeros alike.
fn bits(x: f64) -> u64 {
    (x + 0.0).to_bits()
}

struct Ensemble {
    nodes: Vec<TreeNode>,
    roots: Vec<usize>,
    /// A target and a weight each.
    leaves: Vec<(usize, f64)>,
    targets: usize,
}

/// `TreeEnsemble`: of each row and target what the leaves come to that the row gets to.
pub(super) fn ensemble(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let ensemble = Ensemble::of(site)?;
    let transform = transform(site, ensemble.targets)?;
    let rows: Array2<f64> = site.of_rank(inputs, 0, 2)?.into_dimensionality()?;
    let aggregate = site.int("aggregate_function");
    if !(0..=3).contains(&aggregate) {
        return site.refuse(format!("has attribute `aggregate_function` {aggregate}"));
    }
    site.shape(&[rows.nrows() as i64, ensemble.targets as i64])?;
    let mut y = Array2::<f64>::zeros((rows.nrows(), ensemble.targets));
    for (row, mut made) in rows.axis_iter(Axis(0)).zip(y.axis_iter_mut(Axis(0))) {
        let mut seen = vec![false; ensemble.targets];
        for root in &ensemble.roots {
            let (target, weight) = ensemble.leaf(site, *root, row)?;
            let (made, seen) = (&mut made[target], &mut seen[target]);
            *made = match (aggregate, *seen) {
                (2, true) => made.min(weight),
                (3, true) => made.max(weight),
                (2 | 3, false) => weight,
                _ => *made + weight,
            };
            *seen = true;
        }
        if aggregate == 0 {
            made /= ensemble.roots.len() as f64;
        } else if aggregate > 1 && seen.contains(&false) {
            return site.refuse("has a target of which no tree has a leaf for a row");
        }
        let scores = transformed(transform, made.to_vec());
        made.assign(&Array1::from(scores));
    }
    Ok(vec![site.made(y.into_dyn(), site.input(inputs, 0)?)?])
}

/// What is made of the scores of a row. By ONNX 1 is SOFTMAX and 2 LOGISTIC, and ONNX Runtime takes
/// them the other way round; of one target it makes no softmax.
fn transform(site: &KernelSite, targets: usize) -> TractResult<&'static str> {
    match site.int("post_transform") {
        0 => Ok("NONE"),
        3 if targets > 1 => Ok("SOFTMAX_ZERO"),
        4 => Ok("PROBIT"),
        other => site.refuse(format!("has a `post_transform` {other} of {targets} targets")),
    }
}

/// A tensor that an attribute holds, as DOUBLE.
fn attribute_numbers(site: &KernelSite, name: &str) -> TractResult<Vec<f64>> {
    let Some(tensor) = site.attribute(name).and_then(|held| held.t) else { return Ok(vec![]) };
    let (ty, tensor) = proto::read(&tensor, None)?;
    if ty.is_exotic() {
        return site.refuse(format!("has attribute `{name}` of {ty}"));
    }
    let wide = tensor.cast_to::<f64>()?;
    Ok(wide.try_as_plain_ram()?.as_slice::<f64>()?.to_vec())
}

impl Ensemble {
    fn of(site: &KernelSite) -> TractResult<Ensemble> {
        let list = |name: &str| site.ints(name).unwrap_or_default();
        let modes = attribute_numbers(site, "nodes_modes")?;
        let splits = attribute_numbers(site, "nodes_splits")?;
        let features = list("nodes_featureids");
        let ids = [list("nodes_truenodeids"), list("nodes_falsenodeids")];
        let ends = [list("nodes_trueleafs"), list("nodes_falseleafs")];
        let mut nan = list("nodes_missing_value_tracks_true");
        let (targets, weights) = (list("leaf_targetids"), attribute_numbers(site, "leaf_weights")?);
        let count = modes.len();
        if nan.is_empty() {
            nan = vec![0; count];
        }
        let lengths = ids.iter().chain(&ends).chain([&features, &nan]).map(Vec::len);
        if lengths.chain([splits.len()]).any(|length| length != count) {
            return site
                .refuse(format!("has {count} modes of nodes, and other lists of another length"));
        }
        if targets.len() != weights.len() {
            let (targets, weights) = (targets.len(), weights.len());
            return site.refuse(format!("has {targets} targets of leaves and {weights} weights"));
        }
        let all = usize::try_from(site.int("n_targets")).ok().filter(|all| *all > 0);
        let Some(all) = all else { return site.refuse("lacks attribute `n_targets`") };
        let mut members = Members::of(site)?;
        let mut nodes = vec![];
        for place in 0..count {
            let mode = modes[place] as usize;
            let feature = usize::try_from(features[place]);
            let (Ok(feature), true) = (feature, mode < MODES) else {
                return site.refuse(format!("has node {place} of an unknown mode or feature"));
            };
            let branch = |side: usize| {
                let (id, is_leaf) = (ids[side][place], ends[side][place] != 0);
                let most = if is_leaf { weights.len() } else { count };
                let id = usize::try_from(id).ok().filter(|id| *id < most);
                id.map(|id| if is_leaf { Branch::Leaf(id) } else { Branch::Node(id) })
            };
            let (Some(yes), Some(no)) = (branch(0), branch(1)) else {
                return site.refuse(format!("has node {place}, which leads to none that there is"));
            };
            let members = if mode == MEMBER { members.next(site)? } else { HashSet::new() };
            let (split, nan_is_true) = (splits[place], nan[place] != 0);
            let branches = [yes, no];
            nodes.push(TreeNode { feature, mode, split, members, nan_is_true, branches });
        }
        members.end(site)?;
        let leaves = targets.iter().map(|target| usize::try_from(*target).ok());
        let leaves: Option<Vec<usize>> =
            leaves.map(|target| target.filter(|target| *target < all)).collect();
        let roots = list("tree_roots").into_iter().map(|root| usize::try_from(root).ok());
        let roots: Option<Vec<usize>> =
            roots.map(|root| root.filter(|root| *root < count)).collect();
        match (leaves, roots) {
            (Some(leaves), Some(roots)) => {
                let leaves = leaves.into_iter().zip(weights).collect();
                Ok(Ensemble { nodes, roots, leaves, targets: all })
            }
            _ => site.refuse("has a leaf's target or a tree's root that there is not"),
        }
    }

    /// The leaf that a row gets to.
    fn leaf(
        &self,
        site: &KernelSite,
        root: usize,
        row: ArrayView1<f64>,
    ) -> TractResult<(usize, f64)> {
        let mut at = Branch::Node(root);
        for _ in 0..=self.nodes.len() {
            let node = match at {
                Branch::Node(node) => node,
                Branch::Leaf(leaf) => match self.leaves.get(leaf) {
                    Some(leaf) => return Ok(*leaf),
                    None => break,
                },
            };
            let Some(node) = self.nodes.get(node) else { break };
            match row.get(node.feature) {
                Some(x) => at = node.next(*x),
                None => {
                    let (feature, count) = (node.feature, row.len());
                    return site.refuse(format!("asks for feature {feature} of {count}"));
                }
            }
        }
        site.refuse(format!("has a tree at node {root} in which a row goes round"))
    }
}

/// The sets of the nodes of mode `MEMBER`, each ended by NaN.
struct Members {
    sets: std::vec::IntoIter<HashSet<u64>>,
}

impl Members {
    fn of(site: &KernelSite) -> TractResult<Members> {
        let mut all = attribute_numbers(site, "membership_values")?;
        if all.last().is_some_and(|last| !last.is_nan()) {
            all.push(f64::NAN);
        }
        let mut sets: Vec<HashSet<u64>> =
            all.split(|x| x.is_nan()).map(|set| set.iter().copied().map(bits).collect()).collect();
        // What is behind the last NaN is none.
        sets.pop();
        Ok(Members { sets: sets.into_iter() })
    }

    fn next(&mut self, site: &KernelSite) -> TractResult<HashSet<u64>> {
        match self.sets.next() {
            Some(set) => Ok(set),
            None => site.refuse("has fewer sets of members than nodes that ask for one"),
        }
    }

    fn end(mut self, site: &KernelSite) -> TractResult<()> {
        match self.sets.next() {
            Some(_) => site.refuse("has more sets of members than nodes that ask for one"),
            None => Ok(()),
        }
    }
}
