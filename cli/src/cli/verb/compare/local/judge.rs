//! The verdict, of what was found inside and of the outputs.

use std::collections::{HashMap, HashSet};

use tract_onnx_cast::{ElementType, Family};

use super::Local;
use super::band;
use super::fault::GIVEN;
use super::trace::{Ran, Trace};
use crate::cli::caller;
use crate::cli::found::compared::ComparedTensor;
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::found::verdict::{Culprit, FaultKind, Judgement, Verdict};
use crate::cli::found::weights::ComparedWeight;
use crate::cli::measure::number::Num;
use crate::cli::message::{counted, listed, quoted};

/// What a verdict is made of.
pub(in super::super) struct Grounds<'a> {
    pub(in super::super) outputs: &'a [ComparedTensor],
    /// Inner tensors that were saved.
    pub(in super::super) saved: &'a [ComparedTensor],
    pub(in super::super) weights: &'a [ComparedWeight],
    /// Whether there is a model that says how the outputs were computed.
    pub(in super::super) is_computed: bool,
    /// What was found inside, or why nothing was.
    pub(in super::super) local: Result<Local, String>,
    pub(in super::super) limits: &'a ToleranceLimits,
}

/// How many roundings outputs may be apart where nothing inside could be compared.
const ALONE: f64 = 64.0;

/// Makes the verdict.
pub(in super::super) fn judge(grounds: Grounds) -> Judgement {
    let Grounds { outputs, saved, weights, is_computed, local, limits } = grounds;
    // Zeros of either sign are equal, as they are without a verdict.
    let is_equal =
        |tensor: &ComparedTensor| tensor.identical || tensor.passed && !limits.has_tolerance();
    let is_same = outputs.iter().chain(saved).all(is_equal);
    // Where nothing says how tensors inside arose, they count as outputs do.
    let unexplained = saved.iter().filter(|_| !local.as_ref().is_ok_and(|local| local.inside > 0));
    let shown = outputs.iter().chain(unexplained).max_by(|x, y| error(x).total_cmp(&error(y)));
    let said = shown.map_or(String::new(), off_in_words);
    let (mut local, why) = match local {
        Ok(local) => (local, None),
        Err(why) => (Local::default(), Some(why)),
    };
    let mut judgement = Judgement {
        culprits: std::mem::take(&mut local.culprits),
        errors: std::mem::take(&mut local.errors),
        seeds: std::mem::take(&mut local.seeds),
        ..Judgement::default()
    };
    add_weights(&mut judgement.culprits, weights, &local);
    let limit = limit_of_use(&local.types, outputs, limits);
    let worst = shown.map_or(0.0, error);
    let unlike = outputs.iter().chain(saved).find_map(problem);
    let (verdict, reason) = match () {
        () if !judgement.culprits.is_empty() => {
            (Verdict::Broken, judgement.culprits.first().map(told).unwrap_or_default())
        }
        () if local.is_of_others.is_some() => {
            let of_others = local.is_of_others.as_deref().unwrap_or_default();
            judgement.other_inputs = true;
            let told = "so nothing is said of how its nodes compute";
            (Verdict::Imprecise, format!("{of_others}, {told}; {said}"))
        }
        () if unlike.is_some() => apart(unlike, &local, is_computed && why.is_none()),
        () if !is_computed && (!is_same || !saved.iter().all(is_equal)) => {
            let alone = caller::told(
                "nothing says how it was computed: give a tolerance, or the model by --graph",
                "nothing says how it was computed: give a tolerance, or the model as `graph`",
            );
            (Verdict::Imprecise, format!("{said}; {alone}"))
        }
        () if is_same => (Verdict::Same, "the outputs are equal".into()),
        () if worst > limit => {
            judgement.culprits = blamed(&local, &judgement);
            let types = if local.inside > 0 { "its types explain the error, but " } else { "" };
            let alone = alone(&local, why.as_deref());
            let limit = if worst.is_finite() {
                format!("; the limit is {}", share(limit))
            } else {
                String::new()
            };
            (Verdict::Imprecise, format!("{types}{said}{limit}{alone}"))
        }
        () if local.cuts_made_up => cut_off(&local, &mut judgement, &said),
        () => explained(&local, why.as_deref(), &said, (worst, ALONE * unit(outputs)), &judgement),
    };
    (judgement.verdict, judgement.reason) = (Some(verdict), reason);
    judgement
}

/// Why a tensor cannot be compared, if it cannot.
fn problem(tensor: &ComparedTensor) -> Option<String> {
    let told = || format!("`{}`: {}", tensor.name, tensor.difference());
    tensor.problem.is_some().then(told)
}

/// The verdict on tensors that cannot be compared.
fn apart(problem: Option<String>, local: &Local, was_looked_into: bool) -> (Verdict, String) {
    let problem = problem.unwrap_or_default();
    // A size may be computed of rounded values: no node is then wrong by itself.
    if was_looked_into && local.inside > 0 {
        return (Verdict::Imprecise, format!("its types explain the error, but {problem}"));
    }
    (Verdict::Broken, problem)
}

/// The verdict where a quantiser cuts off what inputs make that nobody gave.
fn cut_off(local: &Local, judgement: &mut Judgement, said: &str) -> (Verdict, String) {
    judgement.culprits = blamed(local, judgement);
    let first = judgement.culprits.first().map(|c| format!("{} `{}`: {}", c.op, c.node, c.text));
    let first = first.unwrap_or_default();
    let real = caller::told(
        "of inputs that nobody gave: give real ones with -i",
        "of inputs that nobody gave: give real ones as `inputs`",
    );
    (Verdict::Imprecise, format!("{first}, {real}; {said}"))
}

/// The verdict on outputs that are of use: rounded, unless it stands on too little.
fn explained(
    local: &Local,
    why: Option<&str>,
    said: &str,
    (worst, limit): (f64, f64),
    judgement: &Judgement,
) -> (Verdict, String) {
    if why.is_some() || local.is_opaque() {
        let verdict = if worst <= limit { Verdict::Rounded } else { Verdict::Imprecise };
        return (verdict, format!("{said}{}", alone(local, why)));
    }
    let (inside, beyond) = (local.inside, beyond_band(judgement));
    let text = "every difference comes from the rounding of its types";
    let were = if inside == 1 { "was" } else { "were" };
    let checked = format!("{} {were} checked", counted(inside, "inner tensor"));
    let looked = format!("{text} ({checked}); {said}{beyond}");
    (Verdict::Rounded, looked)
}

/// What the verdict stands on where nothing inside could be looked at.
fn alone(local: &Local, why: Option<&str>) -> String {
    match why {
        Some(why) => {
            format!(
                "; this is said of the outputs alone, as inner tensors cannot be compared: {why}"
            )
        }
        None if local.is_opaque() => "; this is said of the outputs alone".into(),
        None => String::new(),
    }
}

/// What there is against a culprit.
fn told(culprit: &Culprit) -> String {
    let Culprit { node, op, .. } = culprit;
    match op.as_str() {
        "" => format!("the weight `{node}` is not the reference's"),
        _ => format!("rounding does not explain the output of {op} `{node}`"),
    }
}

/// Adds the weights that are wrong to the culprits, in the order of the nodes, those that are named
/// already, or whose nodes are, excepted: what is a fault of unknown kind there is that of the
/// weight.
fn add_weights(culprits: &mut Vec<Culprit>, weights: &[ComparedWeight], local: &Local) {
    let wrong = weights.iter().filter(|weight| weight.is_error);
    let wrong: Vec<Culprit> = wrong.map(|weight| of_weight(weight, local)).collect();
    for Culprit { tensor, kind, text, .. } in &wrong {
        let mut same = culprits.iter_mut().filter(|culprit| culprit.tensor == *tensor);
        if let Some(culprit) = same.find(|culprit| culprit.kind == FaultKind::Unexplained) {
            (culprit.kind, culprit.text) = (*kind, text.clone());
        }
    }
    let is_new = |culprit: &Culprit| {
        culprits.iter().all(|held| held.node != culprit.node && held.tensor != culprit.tensor)
    };
    let wrong: Vec<Culprit> = wrong.into_iter().filter(is_new).collect();
    culprits.extend(wrong);
    culprits.sort_by_key(|culprit| local.places.get(&culprit.node).copied().unwrap_or(0));
}

fn of_weight(weight: &ComparedWeight, local: &Local) -> Culprit {
    let tensor = weight.converted_name.clone().unwrap_or_else(|| weight.name.clone());
    // Codes are told at the node that takes them.
    let of_codes = || {
        let takers = weight.roots.iter().filter_map(|root| local.takers.get(root));
        let of_codes = ["Integer", "Linear", "DynamicQuantize"];
        let takers = takers.filter(|(_, op)| of_codes.iter().any(|part| op.contains(part)));
        takers.min_by_key(|(node, _)| local.places.get(node))
    };
    let taker = local.takers.get(&tensor).or_else(of_codes).cloned();
    let (node, op) = taker.unwrap_or_else(|| (weight.name.clone(), String::new()));
    Culprit {
        node,
        op,
        tensor,
        local_error: weight.max_abs,
        bound: Num(0.0),
        kind: FaultKind::Weight,
        text: format!(
            "its weight `{}` is not the reference's, rounded: {}",
            weight.name, weight.text
        ),
    }
}

/// How far an output is off, by its size; infinitely where NaN or infinities differ.
fn error(output: &ComparedTensor) -> f64 {
    let is_float = |ty: &str| ElementType::from_name(ty).is_some_and(|ty| ty.is_float());
    let are_floats = is_float(&output.reference_type) || is_float(&output.converted_type);
    match output.relative_error() {
        error if are_floats || output.problem.is_some() || output.apart() > 0 => error,
        _ => output.differing as f64 / output.elements.max(1) as f64,
    }
}

/// How far an output is off, in words.
fn off_in_words(output: &ComparedTensor) -> String {
    let name = &output.name;
    match output.apart() {
        0 => format!("output `{name}` is off by {} of its size", share(error(output))),
        apart => {
            let is = if apart == 1 { "is" } else { "are" };
            let all = counted(output.elements, "value");
            format!("{apart} of {all} of output `{name}` {is} NaN or infinite on one side alone")
        }
    }
}

/// A share for people.
fn share(share: f64) -> String {
    match share {
        share if !share.is_finite() => "all".into(),
        share if share >= 1e-3 => format!("{:.2} %", share * 100.0),
        share => format!("{share:.1e}"),
    }
}

/// The rounding of the coarsest type among the outputs.
fn unit(outputs: &[ComparedTensor]) -> f64 {
    let types = outputs.iter().flat_map(|output| [&output.reference_type, &output.converted_type]);
    let types = types.filter_map(|ty| ElementType::from_name(ty));
    types.map(super::numbers::rounding).fold(0.0, f64::max)
}

/// Up to which relative error outputs are of use where this is the coarsest type, if it rounds;
/// docs/verdict.md says why.
fn limit(ty: ElementType) -> Option<f64> {
    match (ty.family(), ty.bits()) {
        _ if ty == ElementType::BFloat16 => Some(0.1),
        (Family::Float(_), 32..) => Some(1e-3),
        (Family::Float(_), 16) => Some(0.05),
        (Family::Bool | Family::Text, _) | (_, 16..) => None,
        (_, 8) => Some(0.3),
        _ => Some(0.5),
    }
}

/// Up to which relative error outputs are of use, by the coarsest type that the conversion has.
fn limit_of_use(
    types: &HashSet<ElementType>,
    outputs: &[ComparedTensor],
    limits: &ToleranceLimits,
) -> f64 {
    let of_outputs =
        outputs.iter().filter_map(|output| ElementType::from_name(&output.converted_type));
    let types = types.iter().copied().chain(of_outputs);
    let coarsest = types.clone().filter_map(limit).fold(0.0, f64::max);
    let coarse = types.filter(|ty| limit(*ty) == Some(coarsest));
    coarse.filter_map(|ty| limits.of_use(ty.name())).reduce(f64::max).unwrap_or(coarsest)
}

/// The nodes by which an explained conversion is of little use: whose type does not hold what they
/// make, else those that add most.
fn blamed(local: &Local, judgement: &Judgement) -> Vec<Culprit> {
    const MOST: usize = 5;
    if !local.beyond.is_empty() {
        return local.beyond.iter().take(MOST).cloned().collect();
    }
    let mut rows: Vec<_> = judgement.errors.iter().filter(|row| row.local.0 > 0.0).collect();
    rows.sort_by(|x, y| y.local.0.total_cmp(&x.local.0));
    let culprit = |row: &&crate::cli::found::verdict::BothErrors| Culprit {
        node: row.node.clone(),
        op: row.op.clone(),
        tensor: row.tensor.clone(),
        local_error: row.local,
        bound: row.band.unwrap_or(row.local),
        kind: FaultKind::Coarse,
        text: format!(
            "of exact inputs its result is off by {} of its size: keep it in FLOAT, or quantise it finer",
            share(row.local.0)
        ),
    };
    rows.iter().take(MOST).map(culprit).collect()
}

/// Where outputs are farther off than the conversion's roundings put them.
fn beyond_band(judgement: &Judgement) -> String {
    let Some(last) = judgement.errors.last() else { return String::new() };
    match (last.accumulated, last.band) {
        (Some(Num(error)), Some(Num(band)))
            if error.is_finite() && band > 0.0 && error > band::BEYOND * band =>
        {
            format!(
                ", {:.0} times as far as its roundings put it when they are perturbed, though no node is wrong by itself",
                error / band
            )
        }
        _ => String::new(),
    }
}

/// How many of the other nodes that take a wrong constant are named.
const NAMED: usize = 3;

/// The culprits, in their order. A constant that several nodes take and that is wrong is one
/// finding, at the first of them.
pub(super) fn once(culprits: Vec<Culprit>, converted: &Trace) -> Vec<Culprit> {
    let mut told: Vec<(Culprit, Vec<String>)> = vec![];
    // Of the same operator, and with the same wrong.
    let mut places: HashMap<(String, String), Vec<usize>> = HashMap::new();
    let nodes = converted.nodes.iter().rev().map(|ran| (ran.name.as_str(), ran)).collect();
    for culprit in culprits {
        let wrong = parts(&culprit).map(|(wrong, _)| (culprit.op.clone(), wrong.to_owned()));
        let alike = wrong.map(|wrong| places.entry(wrong).or_default());
        let is_it = |(first, _): &(Culprit, _)| is_one((first, &culprit), (converted, &nodes));
        let mut all = alike.iter().flat_map(|alike| alike.iter());
        let place = all.find(|place| told.get(**place).is_some_and(is_it)).copied();
        match place.and_then(|place| told.get_mut(place)) {
            Some((_, others)) => others.push(culprit.node),
            None => {
                alike.into_iter().for_each(|alike| alike.push(told.len()));
                told.push((culprit, vec![]));
            }
        }
    }
    told.into_iter().map(|(culprit, others)| with_others(culprit, &others)).collect()
}

/// What is wrong, and what it does there.
fn parts(culprit: &Culprit) -> Option<(&str, &str)> {
    let (wrong, made) = culprit.text.split_once(GIVEN)?;
    Some((wrong.strip_suffix("; ")?, made))
}

/// Whether both are the same fault of one constant.
fn is_one(
    (first, other): (&Culprit, &Culprit),
    (converted, nodes): (&Trace, &HashMap<&str, &Ran>),
) -> bool {
    let ran = |culprit: &Culprit| nodes.get(culprit.node.as_str());
    let shares = |x: &Ran, y: &Ran| {
        x.inputs.iter().any(|input| converted.is_constant(input) && y.inputs.contains(input))
    };
    let is_same = (first.kind, &first.op) == (other.kind, &other.op);
    let wrong = parts(first).map(|(wrong, _)| wrong);
    is_same
        && wrong.is_some_and(|wrong| parts(other).is_some_and(|(same, _)| wrong == same))
        && ran(first).zip(ran(other)).is_some_and(|(x, y)| shares(x, y))
}

fn with_others(culprit: Culprit, others: &[String]) -> Culprit {
    let Some((wrong, made)) = parts(&culprit).filter(|_| !others.is_empty()) else {
        return culprit;
    };
    let named = listed(others.iter().map(|node| quoted(node)), NAMED);
    let text = format!("{wrong}; {named} take it too; {GIVEN}{made}");
    Culprit { text, ..culprit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_floats_are_of_use_up_to_what_is_documented() {
        for ty in ElementType::ALL.iter().filter(|ty| ty.is_float()) {
            let documented = match (ty.name(), ty.bits()) {
                ("BFLOAT16", _) => 0.1,
                (_, 32 | 64) => 0.001,
                (_, 16) => 0.05,
                (_, 8) => 0.3,
                (_, 4 | 6) => 0.5,
                (name, bits) => panic!("{name} has {bits} bits"),
            };
            // Of a finer type beside it nothing is said.
            let types = HashSet::from([*ty, ElementType::Double]);
            let of_use = limit_of_use(&types, &[], &ToleranceLimits::default());
            assert_eq!(of_use, documented, "{ty}");
        }
    }
}
