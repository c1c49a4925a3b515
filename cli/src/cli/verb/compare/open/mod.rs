//! The first stage: the two sides of a comparison, and what they run on.
//!
//! `loaded` is a side that is a model, `calibrated` what it was quantised for, `search` adds inputs
//! on which the sides differ more than on those that were chosen, and `left_out` takes those out
//! that a quantisation was not made for.

mod calibrated;
pub(super) mod left_out;
mod loaded;
pub(super) mod search;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use serde::{Deserialize, Serialize};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{Error, ErrorKind as OwnKind};

use crate::cli::found::inputs::Inputs;
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::input::args::{InputArgs, SearchArgs};
use crate::cli::input::cases::Case;
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::saved::{self, Content, SavedOutputs};
use crate::cli::input::sets::inputs_of;
use crate::cli::input::sets::{self, Provenance, Set, shapes_of};
use crate::cli::input::sizes::check_shapes;
use crate::cli::input::source::{CutOff, Source};
use crate::cli::message::{InOneLine, ProblemKind, about, add_once, at, counted, one_line};
use crate::cli::progress::tell;
use crate::cli::tensor::{NamedTensor, Tensors, cast, elements};
use crate::cli::work::adapt_inputs::carried;
use crate::cli::work::model::Loader;
use crate::cli::work::probed::Probed;
use calibrated::Calibrated;
pub(super) use loaded::LoadedModel;

/// A pair to compare.
#[derive(Serialize, Deserialize)]
pub(crate) struct CompareRequest {
    pub(crate) reference: PathBuf,
    pub(crate) converted: PathBuf,
    pub(crate) input: InputArgs,
    pub(crate) limits: ToleranceLimits,
    pub(crate) limits_file: Option<PathBuf>,
    pub(crate) all_tensors: bool,
    /// Whether nothing but the weights is compared.
    #[serde(default)]
    pub(crate) is_of_weights: bool,
    /// The model of saved tensors.
    pub(crate) graph: Option<PathBuf>,
    /// Whether a verdict that stands on little fails.
    pub(crate) is_strict: bool,
    pub(crate) search: SearchArgs,
    /// Whether a verdict is made; nothing but the tolerance judges otherwise.
    pub(crate) has_verdict: bool,
    /// How often the conversion runs with its roundings perturbed; `None` where that depends on its
    /// size.
    pub(crate) band_runs: Option<u64>,
    /// Whether a report shows the band, or limits are made of it: it is worked out then even where
    /// the verdict has nothing to tell of it.
    pub(crate) shows_band: bool,
}

impl CompareRequest {
    /// A pair as it is: on the inputs beside it or random ones, with no search and no limits.
    pub(crate) fn of(reference: &Path, converted: &Path) -> CompareRequest {
        CompareRequest {
            reference: reference.into(),
            converted: converted.into(),
            input: InputArgs::default(),
            limits: ToleranceLimits::default(),
            limits_file: None,
            all_tensors: false,
            is_of_weights: false,
            graph: None,
            is_strict: false,
            search: SearchArgs::none(),
            has_verdict: true,
            band_runs: Some(0),
            shows_band: false,
        }
    }
}

/// What the sides are called in messages.
pub(in crate::cli::verb::compare) const SIDES: [&str; 2] = ["the reference", "the converted model"];

/// One of the two sides.
pub(in crate::cli::verb::compare) struct Side {
    pub(in crate::cli::verb::compare) path: PathBuf,
    pub(in crate::cli::verb::compare) model: Option<LoadedModel>,
    cases: Vec<Case>,
    pub(in crate::cli::verb::compare) saved: Vec<SavedOutputs>,
}

impl Side {
    fn open(loader: &Loader, path: &Path) -> TractResult<Side> {
        let mut side = Side { path: path.into(), model: None, cases: vec![], saved: vec![] };
        match saved::read(path)? {
            Content::Saved(saved) => side.saved = saved,
            Content::Model(file, cases) => {
                let load = || {
                    tell("loading");
                    let (model, proto) = loader.open_with_proto(&file)?;
                    let probed = Probed::of(loader, &file, proto)?.beside(&model);
                    probed.check_declared()?;
                    Ok(LoadedModel::new(probed, file.clone(), model))
                };
                side.model = Some(at(path.display(), with_way_out(load(), SAVED))?);
                side.cases = cases;
            }
        }
        Ok(side)
    }
}

/// Both sides of a comparison, and the sets of inputs that they run on.
pub(in crate::cli::verb::compare) struct Sides {
    pub(in crate::cli::verb::compare) reference: Side,
    pub(in crate::cli::verb::compare) converted: Side,
    /// The model of what is saved on both sides.
    graph: Option<ModelProto>,
    graph_folder: Option<PathBuf>,
    pub(in crate::cli::verb::compare) reference_sets: Vec<Set>,
    pub(in crate::cli::verb::compare) converted_sets: Vec<Set>,
    pub(in crate::cli::verb::compare) notes: Vec<String>,
    /// Quantisers of the conversion whose ranges hold on a set that was made up, left out or not.
    pub(in crate::cli::verb::compare) holding: HashSet<String>,
}

/// Opens both sides, and finds what they run on. Fails when a side or an input cannot be used.
pub(in crate::cli::verb::compare) fn open(
    loader: &Loader,
    request: &CompareRequest,
) -> TractResult<Sides> {
    let reference = Side::open(loader, &request.reference)?;
    let converted = Side::open(loader, &request.converted)?;
    let is_run = reference.model.is_some() || converted.model.is_some();
    let because =
        "--graph is for tensors that were saved on both sides; a model among them is the graph";
    let is_wrong = request.graph.is_some() && is_run;
    about(ProblemKind::Call, if is_wrong { Err(anyhow!(because)) } else { Ok(()) })?;
    let read = |path: &PathBuf| at(path.display(), loader.read(path));
    let graph = request.graph.as_ref().map(read).transpose()?;
    let (reference_sets, converted_sets, notes) = (vec![], vec![], vec![]);
    let graph_folder = request.graph.as_ref().and_then(|path| Some(path.parent()?.to_path_buf()));
    let mut sides = Sides {
        reference,
        converted,
        graph,
        graph_folder,
        reference_sets,
        converted_sets,
        notes,
        holding: HashSet::new(),
    };
    about(ProblemKind::Input, sides.gather(&request.input))?;
    for side in [&sides.reference, &sides.converted].into_iter().filter(|_| request.all_tensors) {
        let name = side.path.display();
        let because = "--all-tensors is for models, these are saved outputs";
        ensure!(side.model.is_some(), "{name}: {because}");
    }
    Ok(sides)
}

/// Two models to compare, and the sets of inputs that they run on.
pub(crate) struct OpenModels(Sides);

impl OpenModels {
    /// Opens both models, and finds what they run on. Fails as [`open`], or when a side is saved
    /// outputs.
    pub(crate) fn open(loader: &Loader, request: &CompareRequest) -> TractResult<OpenModels> {
        let sides = open(loader, request)?;
        for side in [&sides.reference, &sides.converted] {
            let name = side.path.display();
            ensure!(side.model.is_some(), "{name}: is saved outputs, and a model is asked for");
        }
        Ok(OpenModels(sides))
    }

    /// The files of the models, the reference first.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let sides = [&self.0.reference, &self.0.converted].into_iter();
        sides.filter_map(|side| Some(side.model.as_ref()?.path.clone())).collect()
    }

    /// How many sets there are.
    pub(crate) fn sets(&self) -> usize {
        self.0.reference_sets.len()
    }

    /// The inputs of both models, in their order, of one set. Fails when the set cannot be read.
    pub(crate) fn set(&self, place: usize) -> TractResult<[Vec<NamedTensor>; 2]> {
        let of = |side: &Side, sets: &[Set]| -> TractResult<Vec<NamedTensor>> {
            let set = sets.get(place).context("as many sets on both sides")?;
            side.model.as_ref().map_or(Ok(vec![]), |loaded| set.named(&loaded.model.takes))
        };
        let Sides { reference, converted, reference_sets, converted_sets, .. } = &self.0;
        Ok([of(reference, reference_sets)?, of(converted, converted_sets)?])
    }
}

impl Sides {
    /// Finds the inputs: those that are given, else those that lie beside the reference or beside
    /// saved outputs, else random ones.
    fn gather(&mut self, args: &InputArgs) -> TractResult<()> {
        let (a, b) = (&self.reference, &self.converted);
        let Some(first) = a.model.as_ref().or(b.model.as_ref()) else {
            let because = "both sides are saved outputs";
            ensure!(args.inputs.is_empty(), "-i: nothing is run, {because}");
            args.check_all_is_taken(because)?;
            return args.check_nothing_is_random(because);
        };
        let sets: Vec<Set> = match self.recorded(args) {
            Some(cases) => {
                args.check_nothing_is_random("those beside the model or the outputs are recorded")?;
                at(first.path.display(), sets::of_cases(&first.model.takes, &cases, args))?
            }
            None if self.inputs_in_dump(args) => {
                args.check_all_is_taken("the saved tensors hold the inputs")?;
                let dumps = [a, b].into_iter().filter(|side| side.model.is_none());
                let sets = dumps.flat_map(|side| &side.saved);
                sets.map(|saved| of_dump(&first.model.takes, saved)).collect::<TractResult<_>>()?
            }
            None => {
                let is_random = args.inputs.is_empty() && !first.model.takes.inputs.is_empty();
                if is_random && (a.model.is_none() || b.model.is_none()) {
                    self.notes.push(format!(
                        "the inputs are random, of seed {}: the saved outputs must be those of the same ones",
                        args.seed
                    ));
                }
                // Saved outputs are those of one set, unless somebody says otherwise.
                let is_saved = a.model.is_none() || b.model.is_none();
                let args = &InputArgs { sets: args.sets.or(is_saved.then_some(1)), ..args.clone() };
                let second = b.model.as_ref().filter(|_| a.model.is_some());
                at(first.path.display(), made_up(first, second, args))?
            }
        };
        for note in sets.iter().flat_map(|set| &set.notes) {
            add_once(&mut self.notes, Some(note.clone()));
        }
        for side in [a, b] {
            let (saved, sets) = (side.saved.len(), sets.len());
            ensure!(
                side.model.is_some() || saved == sets,
                "{}: holds {} of outputs, but there are {sets} of inputs",
                side.path.display(),
                counted(saved, "set")
            );
        }
        let other = self.converted.model.as_ref().filter(|_| self.reference.model.is_some());
        self.converted_sets = match other {
            Some(second) => {
                let carry = |set: &Set| {
                    carried(&first.model.takes, &second.model.takes, SIDES, set, &mut self.notes)
                };
                at("the inputs differ", sets.iter().map(carry).collect::<TractResult<_>>())?
            }
            None => sets.clone(),
        };
        self.reference_sets = sets;
        Ok(())
    }

    /// The sets that are recorded beside one of the sides, those of the reference's models first.
    fn recorded(&self, args: &InputArgs) -> Option<Vec<Case>> {
        let (a, b) = (&self.reference, &self.converted);
        let saved =
            |side: &Side| side.saved.iter().filter_map(|saved| saved.case.clone()).collect();
        let known: [Vec<Case>; 4] = [a.cases.clone(), saved(a), saved(b), b.cases.clone()];
        // What another runtime has saved need not be of the inputs beside a file.
        let is_wanted = |cases: &Vec<Case>| {
            let is_folder = !cases.iter().any(Case::is_beside);
            let are_run = a.model.is_some() && b.model.is_some();
            args.takes_recorded(is_folder) && (is_folder || are_run)
        };
        known.into_iter().find(|cases| !cases.is_empty() && is_wanted(cases))
    }

    /// Whether the saved tensors hold the inputs of the model, and nobody has given others.
    fn inputs_in_dump(&self, args: &InputArgs) -> bool {
        let sides = [&self.reference, &self.converted];
        let model = sides.iter().find_map(|side| side.model.as_ref());
        let holds = |saved: &SavedOutputs, name: &String| saved.names.contains(name);
        let mut dumps = sides.iter().flat_map(|side| &side.saved).peekable();
        args.inputs.is_empty()
            && dumps.peek().is_some()
            && model.is_some_and(|loaded| {
                let mut inputs = loaded.model.takes.inputs.iter();
                let mut dumps: Vec<&SavedOutputs> = dumps.collect();
                !loaded.model.takes.inputs.is_empty()
                    && inputs.all(|input| dumps.iter_mut().all(|saved| holds(saved, &input.name)))
            })
    }

    /// The model of saved tensors: the one that is not saved, or else that which is given with
    /// them.
    pub(in crate::cli::verb::compare) fn saved_of(&self) -> Option<&ModelProto> {
        match (&self.reference.model, &self.converted.model) {
            (Some(loaded), None) | (None, Some(loaded)) => Some(&loaded.probed.proto),
            (None, None) => self.graph.as_ref(),
            (Some(_), Some(_)) => None,
        }
    }

    /// The folder of the model that is given with saved tensors.
    pub(in crate::cli::verb::compare) fn folder_of_graph(&self) -> Option<PathBuf> {
        self.graph_folder.clone()
    }

    /// The models of both sides, where neither is saved.
    pub(in crate::cli::verb::compare) fn models(&self) -> Option<[&LoadedModel; 2]> {
        Some([self.reference.model.as_ref()?, self.converted.model.as_ref()?])
    }

    /// Where the inputs came from.
    pub(in crate::cli::verb::compare) fn inputs(&self) -> Inputs {
        let model = self.reference.model.as_ref().or(self.converted.model.as_ref());
        model.map_or_else(Inputs::saved, |loaded| {
            inputs_of(&loaded.model.takes, &self.reference_sets)
        })
    }

    /// The tokens that a set gives to the model, where an input holds them.
    pub(in crate::cli::verb::compare) fn tokens(&self, place: usize) -> Option<Vec<i64>> {
        const NAMES: [&str; 4] = ["input_ids", "ids", "tokens", "input_tokens"];
        let model = self.reference.model.as_ref().or(self.converted.model.as_ref())?;
        let mut inputs = model.model.takes.inputs.iter();
        let is_held = |input: &Input| NAMES.contains(&input.name.to_ascii_lowercase().as_str());
        let position = inputs.position(is_held)?;
        let input = model.model.takes.inputs.get(position)?;
        let tensors = self.reference_sets.get(place)?.tensors().ok()?;
        elements(input.ty, tensors.get(position)?).ok()
    }

    /// How many runs are compared. Fails when the sides have other numbers of them.
    pub(in crate::cli::verb::compare) fn count(&self) -> TractResult<usize> {
        let of = |side: &Side, sets: &[Set]| match side.model {
            Some(_) => sets.len(),
            None => side.saved.len(),
        };
        let (a, b) =
            (of(&self.reference, &self.reference_sets), of(&self.converted, &self.converted_sets));
        ensure!(
            a == b,
            "the reference has {} of outputs, the converted side {b}",
            counted(a, "set")
        );
        Ok(a)
    }
}

/// The sets that `-i` gives of a model, and those that are made up of the rest.
fn made_up(
    first: &LoadedModel,
    second: Option<&LoadedModel>,
    args: &InputArgs,
) -> TractResult<Vec<Set>> {
    let other = second.map(|second| (&second.model.takes, &second.probed.proto));
    let source = Source { other, ..first.model.source(&first.probed.proto) };
    let calibrated = second.and_then(|second| Calibrated::of(first, second));
    let cut_off = calibrated.map(|calibrated| -> CutOff {
        Box::new(move |tensors| without_panic(|| calibrated.of_reference(first, &tensors)))
    });
    let source = Source { cut_off, ..source };
    sets::gather(&source, &first.path, args)
}

/// The inputs of a model that were saved among its tensors.
fn of_dump(takes: &Declared, saved: &SavedOutputs) -> TractResult<Set> {
    let (inputs, saved) = (takes.inputs.clone(), saved.clone());
    let make = move || -> TractResult<Tensors> {
        let saved = saved.outputs()?;
        let tensor = |input: &Input| {
            let held = saved.iter().find(|held| held.name == input.name).context("is there")?;
            let cast = cast(held.ty, &held.tensor, input.ty).map(Arc::new);
            at(format!("input `{}`", input.name), cast)
        };
        inputs.iter().map(tensor).collect()
    };
    let shapes = shapes_of(&make()?);
    check_shapes(takes, &shapes)?;
    Ok(Set::new("the saved tensors".into(), Provenance::Given, shapes, make))
}

/// What can be done where a model cannot be run.
pub(super) const SAVED: &str = "tensors that another runtime has saved can be compared instead";

/// The result; where it is tract that cannot do it, and not the model that is wrong, the error says
/// what can be done instead.
pub(crate) fn with_way_out<T>(result: TractResult<T>, way: &str) -> TractResult<T> {
    result.map_err(|error| {
        let is_of_tract = |error: &Error| matches!(error.kind(), OwnKind::Tract | OwnKind::Panic);
        let is_own = error
            .chain()
            .filter_map(|link| link.downcast_ref::<Error>())
            .chain(error.downcast_ref::<Error>())
            .any(|error| !is_of_tract(error));
        let is_file = error.chain().any(|link| link.is::<std::io::Error>());
        if is_own || is_file {
            return error;
        }
        let reason = one_line(&error);
        let message = format!("{reason}; {way}");
        InOneLine { message, error }.into()
    })
}
