//! `onnx-cast compare`: a model against its conversion. This is the worker's part, one pair.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use serde::{Deserialize, Serialize};
use tract_onnx::pb::{GraphProto, NodeProto, ValueInfoProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{CastNode, Conversion, Family, Rules};

use super::audit::{self, Subject};
use super::facts::{
    CastChanges, CastFacts, CastName, Compared, Parting, Retargeted, Status, TensorFacts,
    ToleranceFacts,
};
use super::inputs::{self, InputArgs};
use super::message::{at, one_line};
use super::metrics::Metrics;
use super::model::{Model, Output};
use super::num::Num;
use super::saved::{self, Pairs, Saved, Side};
use super::sets::{self, Set};
use super::tolerance::Tolerances;

/// A pair to compare.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct CompareOrder {
    pub(super) reference: PathBuf,
    pub(super) converted: PathBuf,
    pub(super) input: InputArgs,
    pub(super) tolerances: Tolerances,
    pub(super) tolerance_file: Option<PathBuf>,
    pub(super) all_tensors: bool,
}

/// Compares the pair.
///
/// # Errors
///
/// When one of the two cannot be used, or they are not of the same model.
pub(super) fn compare(order: &CompareOrder) -> TractResult<Compared> {
    let mut work = Work::new(order)?;
    if order.all_tensors {
        for part in [&work.reference, &work.converted] {
            let name = part.path.display();
            ensure!(
                part.model.is_some(),
                "{name}: --all-tensors is for models, these are saved outputs"
            );
        }
    }
    let (reference, converted) = work.outputs()?;
    let outputs = work.compare(&reference, &converted, &order.tolerances)?;
    let failed = outputs.iter().any(|output| !output.passed);
    let (mut tensors, mut casts) = (vec![], (CastChanges::default(), vec![]));
    let (mut first_difference, mut first_damage, mut first_beyond) = (None, None, None);
    if let (Some(a), Some(b)) = (&work.reference.model, &work.converted.model) {
        casts = (
            changes(&a.subject.casts, &b.subject.casts),
            b.audit(&work.sets_of_converted, &mut work.notes),
        );
        if order.all_tensors || failed {
            let inner = inner_tensors(a, b, &work, order);
            match at("the inner tensors", inner) {
                Ok((inner, differs_from)) => {
                    let all = || inner.iter().chain(&outputs);
                    let is_damaged = |tensor: &&TensorFacts| {
                        tensor.nan_differences + tensor.infinity_differences > 0
                    };
                    let is_beyond = |tensor: &&TensorFacts| tensor.beyond_target > 0;
                    let parting = |tensor| parting(b, tensor, &casts.0, &casts.1);
                    first_difference = parting(all().find(|tensor| !tensor.passed));
                    first_beyond = parting(all().find(is_beyond));
                    first_damage = parting(all().find(is_damaged));
                    work.notes.extend(differs_from);
                    tensors = if order.all_tensors { inner } else { vec![] };
                }
                Err(error) => work.notes.push(one_line(&error)),
            }
        }
    }
    let identical = outputs.iter().all(|output| output.identical);
    work.note_emptiness(&outputs);
    let is_compared = outputs.iter().any(|output| output.elements > output.both_nan);
    Ok(Compared {
        reference: order.reference.display().to_string(),
        converted: order.converted.display().to_string(),
        status: if failed || !is_compared { Status::Failed } else { Status::Passed },
        problem: None,
        sets: reference.len(),
        tolerance_file: order.tolerance_file.as_ref().map(|path| path.display().to_string()),
        identical,
        notes: work.notes,
        outputs,
        tensors,
        first_difference,
        first_damage,
        first_beyond,
        casts: casts.0,
        converted_casts: casts.1,
    })
}

/// Outputs, a list for each set.
type BySet = Vec<Vec<Output>>;

/// One of the two sides.
struct Part {
    path: PathBuf,
    model: Option<Loaded>,
    cases: Vec<super::cases::Case>,
    saved: Vec<Saved>,
}

struct Loaded {
    subject: Subject,
    path: PathBuf,
    model: Model,
}

impl Part {
    fn open(path: &Path) -> TractResult<Part> {
        let mut part = Part { path: path.into(), model: None, cases: vec![], saved: vec![] };
        match saved::side(path)? {
            Side::Saved(saved) => part.saved = saved,
            Side::Model(file, cases) => {
                let load = || {
                    let model = Model::open(&file)?;
                    Ok(Loaded { subject: Subject::open(&file)?, path: file.clone(), model })
                };
                part.model = Some(at(path.display(), load())?);
                part.cases = cases;
            }
        }
        Ok(part)
    }

    /// The outputs of every set.
    fn outputs(&mut self, sets: &[Set]) -> TractResult<BySet> {
        let Some(loaded) = &self.model else {
            return Ok(self.saved.drain(..).map(|saved| saved.outputs).collect());
        };
        let run =
            |set: &Set| at(self.path.display(), loaded.model.clone().run(set.tensors.clone()));
        sets.iter().map(run).collect()
    }
}

impl Loaded {
    /// What the casts do; a model whose casts cannot be seen is compared all the same.
    fn audit(&self, sets: &[Set], notes: &mut Vec<String>) -> Vec<CastFacts> {
        if self.subject.casts.is_empty() {
            return vec![];
        }
        let rows = self.subject.model().and_then(|model| self.subject.rows(model, sets));
        match rows {
            Ok(rows) => audit::sorted(&rows),
            Err(error) => {
                notes.push(format!("the casts could not be audited: {}", one_line(&error)));
                vec![]
            }
        }
    }
}

/// Everything on the way to a comparison.
struct Work {
    reference: Part,
    converted: Part,
    sets_of_reference: Vec<Set>,
    sets_of_converted: Vec<Set>,
    notes: Vec<String>,
}

impl Work {
    fn new(order: &CompareOrder) -> TractResult<Work> {
        let (reference, converted) = (Part::open(&order.reference)?, Part::open(&order.converted)?);
        let mut work = Work {
            reference,
            converted,
            sets_of_reference: vec![],
            sets_of_converted: vec![],
            notes: vec![],
        };
        work.gather(&order.input)?;
        Ok(work)
    }

    /// Finds the inputs: those that are given, else those that lie beside the reference or beside saved outputs, else
    /// random ones.
    fn gather(&mut self, args: &InputArgs) -> TractResult<()> {
        let (a, b) = (&self.reference, &self.converted);
        let Some(first) = a.model.as_ref().or(b.model.as_ref()) else {
            let because = "both sides are saved outputs";
            ensure!(args.inputs.is_empty(), "-i: nothing is run, {because}");
            return args.check_nothing_is_random(because);
        };
        let saved =
            |part: &Part| part.saved.iter().filter_map(|saved| saved.case.clone()).collect();
        let known: [Vec<super::cases::Case>; 4] =
            [a.cases.clone(), saved(a), saved(b), b.cases.clone()];
        let known = known.into_iter().find(|cases| !cases.is_empty() && args.inputs.is_empty());
        let sets: Vec<Set> = match known {
            Some(cases) => {
                args.check_nothing_is_random("those beside the model or the outputs are recorded")?;
                let set = |case| sets::of_case(&first.model, case);
                at(first.path.display(), cases.iter().map(set).collect::<TractResult<_>>())?
            }
            None => {
                let is_random = args.inputs.is_empty() && !first.model.inputs.is_empty();
                if is_random && (a.model.is_none() || b.model.is_none()) {
                    self.notes.push(format!(
                        "the inputs are random, of seed {}: the saved outputs must be those of the same ones",
                        args.seed
                    ));
                }
                at(first.path.display(), sets::gather(&first.model, &first.path, args))?
            }
        };
        self.notes.extend(sets.iter().flat_map(|set| set.notes.iter().cloned()));
        for part in [a, b] {
            let (saved, sets) = (part.saved.len(), sets.len());
            ensure!(
                part.model.is_some() || saved == sets,
                "{}: holds {saved} set(s) of outputs, but there are {sets} of inputs",
                part.path.display()
            );
        }
        let other = self.converted.model.as_ref().filter(|_| self.reference.model.is_some());
        self.sets_of_converted = match other {
            Some(second) => {
                let carry = |set: &Set| carried(&first.model, &second.model, set, &mut self.notes);
                at("the inputs differ", sets.iter().map(carry).collect::<TractResult<_>>())?
            }
            None => copies(&sets),
        };
        self.sets_of_reference = sets;
        Ok(())
    }

    fn outputs(&mut self) -> TractResult<(BySet, BySet)> {
        let reference = self.reference.outputs(&self.sets_of_reference)?;
        let converted = self.converted.outputs(&self.sets_of_converted)?;
        let (a, b) = (reference.len(), converted.len());
        ensure!(a == b, "the reference has {a} set(s) of outputs, the converted side {b}");
        Ok((reference, converted))
    }

    fn compare(
        &mut self,
        reference: &[Vec<Output>],
        converted: &[Vec<Output>],
        tolerances: &Tolerances,
    ) -> TractResult<Vec<TensorFacts>> {
        let mut all: Vec<Metrics> = vec![];
        for (reference, converted) in reference.iter().zip(converted) {
            let Pairs { places, note } = saved::pair(reference, converted)?;
            let is_new = |note: &String| !self.notes.contains(note);
            let note = note.filter(is_new);
            self.notes.extend(note);
            for (index, (a, b)) in places.into_iter().enumerate() {
                let (Some(a), Some(b)) = (reference.get(a), converted.get(b)) else { continue };
                if all.len() <= index {
                    let is_text = |output: &Output| output.ty.family() == Family::Text;
                    if a.ty != b.ty && !is_text(a) && !is_text(b) {
                        self.notes.push(format!(
                            "output `{}` is {} in the reference and {} converted: their values are compared",
                            a.name, a.ty, b.ty
                        ));
                    }
                    all.push(Metrics::new(a, b, tolerances.output(&a.name)));
                }
                if let Some(metrics) = all.get_mut(index) {
                    metrics.add(a, b)?;
                }
            }
        }
        ensure!(!all.is_empty(), "there are no outputs to compare");
        let outputs: Vec<TensorFacts> = all.into_iter().map(Metrics::finish).collect();
        let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
        if let Some(name) = tolerances.unknown_outputs(&names).next() {
            bail!("there is a tolerance for `{name}`, but the outputs are {names:?}");
        }
        Ok(outputs)
    }

    fn note_emptiness(&mut self, outputs: &[TensorFacts]) {
        for output in outputs {
            if output.problem.is_some() {
                continue;
            }
            if output.elements == 0 {
                self.notes.push(format!(
                    "output `{}` has no elements: nothing was compared",
                    output.name
                ));
            } else if output.both_nan == output.elements {
                self.notes.push(format!(
                    "output `{}` is nothing but NaN on both sides, which shows nothing",
                    output.name
                ));
            }
        }
    }
}

fn copies(sets: &[Set]) -> Vec<Set> {
    let copy =
        |set: &Set| Set { name: set.name.clone(), tensors: set.tensors.clone(), notes: vec![] };
    sets.iter().map(copy).collect()
}

/// The reference's inputs for the converted model: by name, cast where the element type has changed.
fn carried(from: &Model, to: &Model, set: &Set, notes: &mut Vec<String>) -> TractResult<Set> {
    let names = |model: &Model| {
        model.inputs.iter().map(|input| format!("`{}`", input.name)).collect::<Vec<_>>().join(", ")
    };
    let by_name: HashMap<&str, _> = from
        .inputs
        .iter()
        .zip(&set.tensors)
        .map(|(input, tensor)| (input.name.as_str(), (input, tensor)))
        .collect();
    let mut tensors = vec![];
    for input in &to.inputs {
        let Some((source, tensor)) = by_name.get(input.name.as_str()) else {
            bail!("the reference takes {}, the converted model {}", names(from), names(to));
        };
        let is_text = |family: Family| family == Family::Text;
        tensors.push(if source.ty == input.ty {
            (*tensor).clone()
        } else if is_text(source.ty.family()) || is_text(input.ty.family()) {
            bail!("`{}` is {} in the reference and {} converted", input.name, source.ty, input.ty);
        } else {
            let note = format!(
                "input `{}` is {} in the reference and {} converted: its values are cast",
                input.name, source.ty, input.ty
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
            Conversion::new(source.ty, input.ty, Rules::default()).run(tensor)?
        });
    }
    let (a, b) = (from.inputs.len(), to.inputs.len());
    ensure!(a == b, "the reference takes {}, the converted model {}", names(from), names(to));
    inputs::check_shapes(to, &tensors)?;
    Ok(Set { name: set.name.clone(), tensors, notes: vec![] })
}

/// Runs both models once more, with every tensor that they share as an output. The second result says from where on
/// values are not exactly the same.
fn inner_tensors(
    a: &Loaded,
    b: &Loaded,
    work: &Work,
    order: &CompareOrder,
) -> TractResult<(Vec<TensorFacts>, Option<String>)> {
    let (made_a, made_b) = (a.subject.made(), b.subject.made());
    let known: HashSet<&String> = made_b.iter().collect();
    let shared: Vec<String> = made_a.into_iter().filter(|name| known.contains(name)).collect();
    let mut all: Vec<Option<Metrics>> = shared.iter().map(|_| None).collect();
    for (set_a, set_b) in work.sets_of_reference.iter().zip(&work.sets_of_converted) {
        let reference = a.subject.exposing(&shared)?.run(set_a.tensors.clone())?;
        let converted = b.subject.exposing(&shared)?.run(set_b.tensors.clone())?;
        let by_name = |outputs: Vec<Output>| -> HashMap<String, Output> {
            outputs.into_iter().map(|output| (output.name.clone(), output)).collect()
        };
        let (reference, converted) = (by_name(reference), by_name(converted));
        for (name, metrics) in shared.iter().zip(&mut all) {
            let (Some(x), Some(y)) = (reference.get(name), converted.get(name)) else { continue };
            let metrics = metrics.get_or_insert_with(|| {
                let given = order.tolerances.inner();
                let is_given = given != ToleranceFacts::default();
                let tolerance = if is_given || x.ty == y.ty { given } else { of_types(x, y) };
                Metrics::new(x, y, tolerance)
            });
            metrics.add(x, y)?;
        }
    }
    let inner: Vec<TensorFacts> = all.into_iter().flatten().map(Metrics::finish).collect();
    // Outputs have tolerances of their own.
    let declared: HashSet<&String> = a
        .subject
        .graph()
        .iter()
        .flat_map(|graph| &graph.output)
        .map(|output| &output.name)
        .collect();
    let is_inner = |tensor: &&TensorFacts| !declared.contains(&tensor.name);
    let first = inner.iter().filter(is_inner).find(|tensor| !tensor.identical && tensor.passed);
    let note = first.map(|tensor| {
        let (name, error) = (&tensor.name, tensor.max_abs);
        format!("values first differ, within the tolerance, in `{name}`: by {error} at most")
    });
    Ok((inner, note))
}

/// What a tensor may be off by where the element type has changed and nobody has said: 64 units in the last place of the
/// coarser type, at the value and at the largest one, for errors add up.
fn of_types(reference: &Output, converted: &Output) -> ToleranceFacts {
    let epsilon = |output: &Output| match output.ty.family() {
        Family::Float(format) => 0.5f64.powi(format.mantissa_bits as i32 + 1),
        _ => 0.0,
    };
    let rtol = 64.0 * epsilon(reference).max(epsilon(converted));
    let range = tract_onnx_cast::audit::range(reference.ty, &reference.tensor);
    let limits = range.ok().and_then(|range| range.limits).unwrap_or_default();
    let atol = rtol * limits.0.abs().max(limits.1.abs());
    ToleranceFacts { rtol: Some(Num(rtol)), atol: Some(Num(atol)), ulp: None, cosine: None }
}

/// A tensor, what made it, and what may have spoiled it before: of the casts that the reference has not, the worst.
fn parting(
    converted: &Loaded,
    tensor: Option<&TensorFacts>,
    changes: &CastChanges,
    casts: &[CastFacts],
) -> Option<Parting> {
    let tensor = tensor?.clone();
    let name = tensor.converted_name.as_ref().unwrap_or(&tensor.name);
    let (node, op) = converted.subject.maker(name)?;
    let cast = casts.iter().find(|cast| cast.output == *name).cloned();
    let before = converted.subject.before(name);
    let is_new = |cast: &CastFacts| {
        let retargeted = changes.retargeted.iter().map(|both| &both.converted);
        let mut new = changes.added.iter().chain(retargeted);
        new.any(|new| (&new.node, &new.graph) == (&cast.node, &cast.graph))
    };
    let culprit = casts.iter().find(|cast| {
        cast.damaged() + cast.lost() > 0
            && cast.output != *name
            && before.contains(&cast.output)
            && is_new(cast)
    });
    Some(Parting { node, op, cast, culprit: culprit.cloned(), tensor })
}

/// How the casts of two models differ. A cast is known by the value that it makes.
fn changes(reference: &[CastNode], converted: &[CastNode]) -> CastChanges {
    // The main graph's own name may be anything.
    let key = |cast: &CastNode| {
        let path = cast.graph.split_once('/').map_or("", |(_, path)| path);
        (path.to_owned(), cast.output.clone())
    };
    let of = |casts: &[CastNode]| -> HashMap<_, CastNode> {
        casts.iter().map(|cast| (key(cast), cast.clone())).collect()
    };
    let (before, after) = (of(reference), of(converted));
    let mut changes = CastChanges::default();
    for cast in converted {
        match before.get(&key(cast)) {
            None => changes.added.push(CastName::of(cast)),
            Some(was) if (was.from, was.to) != (cast.from, cast.to) => {
                let (reference, converted) = (CastName::of(was), CastName::of(cast));
                changes.retargeted.push(Retargeted { reference, converted });
            }
            Some(_) => {}
        }
    }
    let gone = reference.iter().filter(|cast| !after.contains_key(&key(cast)));
    changes.removed = gone.map(CastName::of).collect();
    changes
}

impl Subject {
    fn graph(&self) -> Option<&GraphProto> {
        self.proto.graph.as_ref()
    }

    fn nodes(&self) -> impl Iterator<Item = &NodeProto> {
        self.graph().into_iter().flat_map(|graph| &graph.node)
    }

    /// The values that the nodes of the main graph make, in their order.
    fn made(&self) -> Vec<String> {
        let made = self.nodes().flat_map(|node| &node.output);
        made.filter(|name| !name.is_empty()).cloned().collect()
    }

    /// The node that makes a value, and its operator.
    fn maker(&self, value: &str) -> Option<(String, String)> {
        let node = self.nodes().find(|node| node.output.iter().any(|name| name == value))?;
        let name = if node.name.is_empty() { value } else { &node.name };
        Some((name.into(), node.op_type.clone()))
    }

    /// The values of the main graph from which a value is computed.
    fn before(&self, value: &str) -> HashSet<String> {
        let makers: HashMap<&String, &NodeProto> = self
            .nodes()
            .flat_map(|node| node.output.iter().map(move |name| (name, node)))
            .collect();
        let (mut seen, mut next) = (HashSet::new(), vec![value.to_owned()]);
        while let Some(value) = next.pop() {
            let inputs = makers.get(&value).into_iter().flat_map(|node| &node.input);
            next.extend(inputs.filter(|input| seen.insert((*input).clone())).cloned());
        }
        seen
    }

    /// The model with further values as outputs.
    fn exposing(&self, values: &[String]) -> TractResult<Model> {
        let mut proto = self.proto.clone();
        if let Some(graph) = &mut proto.graph {
            let outputs: HashSet<String> = graph.output.iter().map(|o| o.name.clone()).collect();
            let declared: HashMap<String, ValueInfoProto> =
                graph.value_info.iter().map(|info| (info.name.clone(), info.clone())).collect();
            for value in values.iter().filter(|value| !outputs.contains(*value)) {
                let bare = || ValueInfoProto { name: value.clone(), ..ValueInfoProto::default() };
                graph.output.push(declared.get(value).cloned().unwrap_or_else(bare));
            }
        }
        let onnx = self.onnx.clone().with_probes(false).with_ignore_output_shapes(true);
        Model::of(onnx.model_for_proto_in(proto, self.folder.as_deref())?)
    }
}
