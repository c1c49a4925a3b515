//! What a conversion did to a model's weights.
//!
//! - `constants`: which they are; `folded`: those that are computed when a model is loaded
//! - `matching`: which of them belong together under other names
//! - `exercise`: which parts of them runs have read

pub(crate) mod constants;
pub(crate) mod exercise;
pub(crate) mod folded;
mod matching;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::cli::found::weights::{ComparedWeight, ComparedWeights};
use crate::cli::measure::elements::Elements;
use crate::cli::measure::number::Num;
use crate::cli::measure::weight::alike::{Alike, alike};
use crate::cli::measure::weight::change::WeightChange;
use crate::cli::measure::weight::compensated::CodeErrors;
use crate::cli::measure::weight::nearest::NearestCodes;
use crate::cli::message::{at, one_line};
use crate::cli::progress::{Progress, Unit};
use crate::cli::work::spelt::spelt;
use constants::{Again, ChangedWeight, Constant, Holder, StoredCodes, transposed};
use exercise::Exercise;
use folded::Computed;

/// What became of the weights of a model.
#[derive(Default)]
pub(crate) struct Weights {
    /// All but what is changed, which is still to be judged.
    facts: ComparedWeights,
    pub(crate) changed: Vec<ChangedWeight>,
    pub(crate) notes: Vec<String>,
    /// Weights of one name whose values hardly agree: exporters number their constants, so that may
    /// be chance.
    doubtful: Vec<ChangedWeight>,
    /// Constants that are paired, or of which one is computed that is.
    used: HashSet<String>,
    /// What the reference's constants of the main graph are called in the converted model.
    pub(crate) names: HashMap<String, String>,
    /// Those of them that the converted model has as a Cast makes them, in their order of axes.
    pub(crate) casts: HashSet<String>,
    /// Those of them that the converted model has as they are, in their type.
    pub(crate) same: HashSet<String>,
    /// What those of the converted model are off whose codes are the nearest ones to the values of
    /// a constant of the reference, which is named; where it was asked for.
    pub(crate) nearest: Option<HashMap<String, (String, NearestCodes)>>,
    /// How far it is, by the bytes of the reference's constants.
    progress: Option<Progress>,
}

/// Constants to be found by their names.
struct NamedConstants<'a> {
    /// Those that are left, in their order.
    constants: Vec<Option<Constant<'a>>>,
    /// The places of a graph's path and a name.
    places: HashMap<(String, String), Vec<usize>>,
}

impl<'a> NamedConstants<'a> {
    fn of(constants: Vec<Constant<'a>>) -> NamedConstants<'a> {
        let mut places: HashMap<(String, String), Vec<usize>> = HashMap::new();
        for (place, constant) in constants.iter().enumerate() {
            places.entry((constant.path.clone(), constant.name.clone())).or_default().push(place);
        }
        NamedConstants { constants: constants.into_iter().map(Some).collect(), places }
    }

    /// The place of the first one that is left and may be this one.
    fn place_of(&self, constant: &Constant) -> Option<usize> {
        let places = self.places.get(&(constant.path.clone(), constant.name.clone()))?;
        let is_it = |place: &&usize| {
            let other = self.constants.get(**place).and_then(Option::as_ref);
            other.is_some_and(|other| other.may_be(constant))
        };
        places.iter().find(is_it).copied()
    }

    fn left(self) -> impl Iterator<Item = Constant<'a>> {
        self.constants.into_iter().flatten()
    }
}

impl Weights {
    /// Compares the constants of two models, a pair at a time: by name, what a model computes of
    /// its constants as well, what is left by values, and what is left then by the node that takes
    /// it. `asks_nearest` says whether it is asked which codes are the nearest ones.
    /// Fails when a constant cannot be read, such as one whose external data is missing.
    pub(crate) fn of(
        reference: &Holder,
        converted: &Holder,
        asks_nearest: bool,
    ) -> TractResult<Weights> {
        let written = spelt(converted.proto, Some(reference.proto), converted.folder);
        let unpacked = [converted.unpacked, &written.unpacked].concat();
        let converted = &Holder { proto: &written.proto, unpacked: &unpacked, ..*converted };
        let written = spelt(reference.proto, None, reference.folder);
        let unpacked = [reference.unpacked, &written.unpacked].concat();
        let reference = &Holder { proto: &written.proto, unpacked: &unpacked, ..*reference };
        let of_reference = constants::of(reference.proto);
        let bytes = of_reference.iter().map(Constant::bytes).sum();
        let progress = Progress::of("comparing the weights", bytes, Unit::Bytes);
        let nearest = asks_nearest.then(HashMap::new);
        let mut weights = Weights { progress: Some(progress), nearest, ..Weights::default() };
        let mut left_b = NamedConstants::of(constants::of(converted.proto));
        let mut left_a = vec![];
        let folders = (reference.folder, converted.folder);
        for constant in of_reference {
            if let Some(constant) = weights.pair_by_name(constant, &mut left_b, false, folders)? {
                left_a.push(constant);
            }
        }
        let mut left_b: Vec<Constant> = left_b.left().collect();
        if left_a.iter().any(Constant::is_weight) {
            let mut others = NamedConstants::of(left_a);
            left_b.extend(weights.pair_computed(converted, &mut others, true, folders)?);
            left_a = others.left().collect();
        }
        if left_b.iter().any(Constant::is_weight) {
            let mut others = NamedConstants::of(left_b);
            left_a.extend(weights.pair_computed(reference, &mut others, false, folders)?);
            left_b = others.left().collect();
        }
        let both = ((reference.proto, &*left_a), (converted.proto, &*left_b));
        let mut pairs = vec![];
        for pair in matching::by_values(both.0, folders.0, both.1, folders.1)? {
            let (x, y, is_turned) = pair;
            if let (Some(x), Some(y)) = (left_a.get(x), left_b.get(y))
                && weights.pair_by_values(x, y, is_turned, folders)?
            {
                pairs.push(pair);
            }
        }
        for (x, y) in matching::by_place(both.0, both.1, &pairs) {
            if let (Some(x), Some(y)) = (left_a.get(x), left_b.get(y)) {
                weights.compare(x, y, "place", x.is_turned(y), folders)?;
            }
        }
        weights.settle_doubts(&left_a, &left_b, &pairs);
        let places = pairs.iter().map(|(x, y, _)| (*x, *y));
        let (of_a, of_b): (HashSet<usize>, HashSet<usize>) = places.unzip();
        weights.facts.unpaired_reference = weights.alone(&left_a, &of_a);
        weights.facts.unpaired_converted = weights.alone(&left_b, &of_b);
        Ok(weights)
    }

    /// The names of the weights that have no counterpart, given the places of those that have one
    /// by their values.
    fn alone(&self, all: &[Constant], paired: &HashSet<usize>) -> Vec<String> {
        // What a paired weight is computed of has its counterpart.
        let used = paired.iter().filter_map(|place| all.get(*place));
        let used: HashSet<&String> = used.flat_map(|constant| &constant.roots).collect();
        let changed = self.changed.iter().map(|changed| &changed.fact);
        let names = changed.flat_map(|fact| fact.converted_name.iter().chain([&fact.name]));
        let named: HashSet<&String> = names.collect();
        let alone = all.iter().enumerate().filter(|(place, constant)| {
            let sets = [&used, &named].into_iter().any(|names| names.contains(&constant.name));
            let is_known = paired.contains(place) || self.used.contains(&constant.name) || sets;
            constant.is_weight() && !is_known
        });
        alone.map(|(_, constant)| constant.name.clone()).collect()
    }

    /// The facts, each changed weight judged by what `exercise` has read of the values that differ,
    /// and by whether the outputs differ, `None` where nothing has run.
    pub(crate) fn judged(
        self,
        exercise: Option<&Exercise>,
        shows: Option<bool>,
    ) -> ComparedWeights {
        let Weights { mut facts, changed, .. } = self;
        for mut weight in changed {
            let unread = exercise.and_then(|exercise| exercise.unread(&weight));
            weight.fact.judge((&weight.change, weight.alike), unread, shows);
            facts.changed.push(weight.fact);
        }
        facts.sort();
        facts
    }

    /// How many pairs there are.
    pub(crate) fn pairs(&self) -> usize {
        self.facts.compared
    }

    /// Compares what a model computes of its constants with those of the other one, `others`, by
    /// their names. What has no counterpart is handed back. If it cannot be computed, a note says
    /// why.
    fn pair_computed<'h>(
        &mut self,
        holder: &Holder<'h>,
        others: &mut NamedConstants,
        is_converted: bool,
        folders: (Option<&Path>, Option<&Path>),
    ) -> TractResult<Vec<Constant<'h>>> {
        let sought = others.constants.iter().flatten();
        let sought = sought.map(|constant| constant.name.clone()).collect::<Vec<_>>();
        let sought = sought.iter().map(String::as_str).collect();
        let mut left = vec![];
        let Some(computed) = Computed::of(holder, &sought).map(Rc::new) else { return Ok(left) };
        let again: Again = {
            let computed = computed.clone();
            Rc::new(move |name| computed.value(name))
        };
        for constant in computed.each() {
            let constant = match constant {
                Ok(constant) => constant,
                Err(error) => {
                    self.note_uncomputed(&error);
                    break;
                }
            };
            let alone = self.pair_by_name(constant, others, is_converted, folders)?;
            left.extend(alone.map(|constant| constant.forgotten(&again)));
        }
        Ok(left)
    }

    fn note_uncomputed(&mut self, error: &TractError) {
        let reason = one_line(error);
        self.notes.push(format!("weights that are computed of others are not compared: {reason}"));
    }

    /// Compares a constant, of the converted model or of the reference, with the one of its name,
    /// which leaves the others. The constant is handed back where there is none.
    fn pair_by_name<'a>(
        &mut self,
        constant: Constant<'a>,
        others: &mut NamedConstants,
        is_converted: bool,
        folders: (Option<&Path>, Option<&Path>),
    ) -> TractResult<Option<Constant<'a>>> {
        let Some(place) = others.place_of(&constant) else { return Ok(Some(constant)) };
        let Some(other) = others.constants.get_mut(place).and_then(Option::take) else {
            return Ok(Some(constant));
        };
        let is_turned = constant.is_turned(&other);
        let (a, b) = if is_converted { (&other, &constant) } else { (&constant, &other) };
        if !self.compare(a, b, "name", is_turned, folders)? {
            if let Some(held) = others.constants.get_mut(place) {
                *held = Some(other);
            }
            return Ok(Some(constant));
        }
        self.used.extend(other.roots);
        self.used.extend(constant.roots);
        Ok(None)
    }

    /// Compares two constants some of whose values agree. The result is whether all do, as far as
    /// they do of a weight: else each is left without the other.
    fn pair_by_values(
        &mut self,
        a: &Constant,
        b: &Constant,
        is_turned: bool,
        folders: (Option<&Path>, Option<&Path>),
    ) -> TractResult<bool> {
        let before = self.names.get(&a.name).cloned();
        let is_same = self.compare(a, b, "values", is_turned, folders)?;
        if !is_same {
            self.doubtful.pop();
            match before {
                Some(before) => self.names.insert(a.name.clone(), before),
                None => self.names.remove(&a.name),
            };
        }
        Ok(is_same)
    }

    /// Keeps the doubtful pairs of which neither side belongs to another weight by its values.
    fn settle_doubts(&mut self, a: &[Constant], b: &[Constant], pairs: &[(usize, usize, bool)]) {
        fn place<'n>(constant: &'n Constant) -> (&'n str, &'n str) {
            (&constant.path, &constant.name)
        }
        // What has the name of one side may be another weight on the other.
        let of_a = pairs.iter().filter_map(|(x, ..)| a.get(*x)).map(place);
        let of_b = pairs.iter().filter_map(|(_, y, _)| b.get(*y)).map(place);
        let (of_a, of_b): (HashSet<_>, HashSet<_>) = (of_a.collect(), of_b.collect());
        let doubtful = std::mem::take(&mut self.doubtful);
        let doubtful = doubtful.into_iter().filter(|doubt| !doubt.change.is_few_numbers());
        // A pair by name may be one by place as well.
        let mut told = HashSet::new();
        for doubt in doubtful {
            let ComparedWeight { name, converted_name, graph, .. } = &doubt.fact;
            let other = converted_name.as_ref().unwrap_or(name);
            let is_of_another = of_a.contains(&(&**graph, &**name));
            if is_of_another || of_b.contains(&(&**graph, &**other)) {
                if self.names.get(name) == Some(other) {
                    self.names.remove(name);
                }
            } else if told.insert((graph.clone(), name.clone())) {
                self.facts.compared += 1;
                self.changed.push(doubt);
            }
        }
    }

    /// Compares two constants. The result is whether they are the same weight for sure.
    fn compare(
        &mut self,
        a: &Constant,
        b: &Constant,
        paired_by: &str,
        is_turned: bool,
        (of_a, of_b): (Option<&Path>, Option<&Path>),
    ) -> TractResult<bool> {
        let (x, mut y) = (a.values(of_a)?, b.values(of_b)?);
        let is_named = a.path.is_empty() && b.path.is_empty();
        if is_named {
            self.names.insert(a.name.clone(), b.name.clone());
            self.casts.remove(&a.name);
            self.same.remove(&a.name);
        }
        if is_turned {
            y = transposed(y)?;
        }
        let (stored, name) = (b.stored.or(a.stored), format!("weight `{}`", a.name));
        // Where the reference is in codes as well, the same ones have no half a step of doubt.
        let is_asked = self.nearest.is_some() && is_named && !is_turned && a.codes.is_none();
        let codes = b.codes.filter(|_| is_asked);
        let change = at(&name, change_of([&x, &y], stored, codes, of_b))?;
        if let Some((nearest, found)) = self.nearest.as_mut().zip(change.nearest) {
            nearest.insert(b.name.clone(), (a.name.clone(), found));
        }
        if is_named && !is_turned && change.is_cast() {
            self.casts.insert(a.name.clone());
        }
        if is_named && change.is_exact() && (x.ty, &x.shape) == (y.ty, &y.shape) {
            self.same.insert(a.name.clone());
        }
        self.progress.iter_mut().for_each(|progress| progress.add(a.bytes()));
        if !change.is_odd() {
            self.facts.compared += 1;
            *(if change.is_exact() { &mut self.facts.exact } else { &mut self.facts.rounded }) += 1;
            return Ok(true);
        }
        let errors = at(&name, code_errors(&x, b, is_turned, of_b))?;
        let fact = ComparedWeight {
            name: a.name.clone(),
            converted_name: (a.name != b.name).then(|| b.name.clone()),
            graph: a.path.clone(),
            reference_type: x.ty.name().into(),
            converted_type: y.ty.name().into(),
            shape: a.shape.clone(),
            paired_by: paired_by.into(),
            elements: change.elements,
            outcomes: change.outcomes.clone(),
            max_abs: Num(change.max_abs),
            largest: change.largest.clone(),
            unexercised: None,
            is_error: false,
            text: String::new(),
            roots: b.roots.clone(),
            is_rescaled: errors.is_rescaled,
        };
        let alike =
            if errors.is_compensated { Some(Alike::Compensated) } else { alike(&x, &y, b.stored)? };
        let changed = ChangedWeight { fact, change, alike };
        if changed.change.is_another() && !changed.change.is_damage() {
            self.doubtful.push(changed);
            return Ok(false);
        }
        self.facts.compared += 1;
        self.changed.push(changed);
        Ok(true)
    }
}

/// What became of the values of a weight; where it is a question whether each of its codes is the
/// nearest one, they are given. Fails when values cannot be read.
fn change_of(
    [x, y]: [&Elements; 2],
    stored: Option<ElementType>,
    codes: Option<StoredCodes>,
    folder: Option<&Path>,
) -> TractResult<WeightChange> {
    if let Some((x, y)) = x.untransposed().zip(y.untransposed()) {
        let change = WeightChange::between(&x, &y, stored, None)?;
        if !change.is_odd() {
            return Ok(change);
        }
        // Where values differ is told by the places that they have behind the transpose.
    }
    let codes = codes.filter(|codes| !codes.is_turned);
    let half_steps = codes.map(|codes| codes.half_steps(folder)).transpose()?.flatten();
    WeightChange::between(x, y, stored, half_steps.as_ref())
}

/// What the errors of a constant of the converted model have in common, if it is of codes, given
/// the reference's values. Fails when they cannot be read.
fn code_errors(
    wanted: &Elements,
    constant: &Constant,
    is_turned: bool,
    folder: Option<&Path>,
) -> TractResult<CodeErrors> {
    let Some(codes) = &constant.codes else { return Ok(CodeErrors::default()) };
    let Some(coded) = codes.read(folder)? else { return Ok(CodeErrors::default()) };
    // Few values of a scale, or few codes, tell nothing where no run does.
    const BITS: u32 = 4;
    const VALUES: usize = 16;
    let are_few = coded.codes.ty.bits() < BITS || coded.codes.len() < VALUES * coded.steps.count();
    let got = constant.values(folder)?;
    let got = if codes.is_turned { transposed(got)? } else { got };
    let errors = if is_turned == codes.is_turned {
        coded.errors(wanted, &got)
    } else {
        coded.errors(&transposed(wanted.clone())?, &got)
    };
    let errors = errors?.unwrap_or_default();
    Ok(CodeErrors { is_compensated: errors.is_compensated && !are_few, ..errors })
}
