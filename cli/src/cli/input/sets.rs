//! The sets of inputs that a model is audited, compared or recorded with.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::ensure;
use tract_onnx::prelude::*;

use crate::cli::caller::{has_named, told};
use crate::cli::found::inputs::Inputs;
use crate::cli::found::look::{InputLook, LookFurther};
use crate::cli::input::args::InputArgs;
use crate::cli::input::cases::Case;
use crate::cli::input::chosen::change::Choice;
use crate::cli::input::chosen::size_plan::ROUNDS;
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::given::{GivenTensors, OtherFloats};
use crate::cli::input::recipe::Recipe;
use crate::cli::input::samples::{self, Sample};
use crate::cli::input::source::Source;
use crate::cli::input::{files, sizes};
use crate::cli::message::{ProblemKind, about, at, counted};
use crate::cli::output_file::{Drafts, MadeFolders, try_folder};
use crate::cli::tensor::{NamedTensor, Tensors, write_tensors};

/// Inputs for one run, and what to call them. There may be more of them than fit in memory, so a
/// set knows how its tensors are made and does not hold them.
#[derive(Clone)]
pub(crate) struct Set {
    pub(crate) name: String,
    /// The shapes of its tensors.
    pub(crate) shapes: Vec<Vec<usize>>,
    /// What to know about them.
    pub(crate) notes: Vec<String>,
    /// Where their values are from.
    pub(crate) provenance: Provenance,
    /// The files and folders that they were read from, as the user knows them.
    from: Vec<String>,
    make: Make,
}

/// How the tensors of a set are made.
type Make = Rc<dyn Fn() -> TractResult<Tensors>>;

impl Set {
    /// A set of tensors that have these shapes and are made so.
    pub(crate) fn new(
        name: String,
        provenance: Provenance,
        shapes: Vec<Vec<usize>>,
        make: impl Fn() -> TractResult<Tensors> + 'static,
    ) -> Set {
        let (notes, from) = (vec![], vec![]);
        Set { name, shapes, notes, provenance, from, make: Rc::new(make) }
    }

    /// A set that a search found. Fails when it cannot be made.
    pub(crate) fn of_choice(recipe: &Rc<Recipe>, choice: Choice) -> TractResult<Set> {
        let (inputs, seed) = (recipe.random.clone(), choice.seed);
        let (look, recipe) = (Rc::new(InputLook::default()), recipe.clone());
        let shapes = recipe.shapes_of(&choice)?;
        let name = format!("found by the search ({})", recipe.in_words(&choice));
        let provenance = Provenance::Random { inputs, seed, look, recipe: recipe.clone() };
        Ok(Set::new(name, provenance, shapes, move || recipe.tensors_of(&choice)))
    }

    /// Its tensors, read or made when they are asked for.
    /// Fails when a file is not what it was when the set was found.
    pub(crate) fn tensors(&self) -> TractResult<Tensors> {
        about(ProblemKind::Input, (self.make)())
    }

    /// The same, as the inputs of the model whose set it is. Fails as [`Set::tensors`] does.
    pub(crate) fn named(&self, model: &Declared) -> TractResult<Vec<NamedTensor>> {
        Ok(model.named(self.tensors()?))
    }

    /// What random inputs are made by; nothing where the inputs were given.
    pub(crate) fn recipe(&self) -> Option<&Rc<Recipe>> {
        match &self.provenance {
            Provenance::Random { recipe, .. } => Some(recipe),
            Provenance::Given => None,
        }
    }
}

/// Has the sets that were chosen, and those that were found, tell of a search.
pub(crate) fn tell_search(sets: &mut [Set], further: &LookFurther) {
    let chosen = sets.first().and_then(|set| match &set.provenance {
        Provenance::Random { look, .. } => Some(InputLook::clone(look)),
        Provenance::Given => None,
    });
    let told = InputLook { search: Some(further.clone()), ..chosen.unwrap_or_default() };
    let told = Rc::new(told);
    for set in sets {
        if let Provenance::Random { look, .. } = &mut set.provenance {
            *look = told.clone();
        }
    }
}

/// Finds out whether sets can be written into a folder, before work that may take long: it is made
/// if it is not there. Fails when it cannot be made or written in, or something is in it.
pub(crate) fn try_sets(folder: &Path) -> TractResult<MadeFolders> {
    let tried = || {
        let made = try_folder(folder)?;
        let (shown, is_empty) = (folder.display(), fs::read_dir(folder)?.next().is_none());
        ensure!(is_empty, "{shown}: is not empty: sets of inputs go where nothing else is");
        Ok(made)
    };
    about(ProblemKind::Call, at(KEEP_INPUTS, tried()))
}

/// Writes the inputs of sets into a folder that was tried, so that `-i` gives them again. Fails
/// when they cannot be made or written.
pub(crate) fn write_sets(folder: &Path, model: &Declared, sets: &[Set]) -> TractResult<()> {
    let write = || {
        let mut drafts = Drafts::default();
        for (number, set) in sets.iter().enumerate() {
            let draft = drafts.folder(&folder.join(format!("test_data_set_{number}")))?;
            write_tensors(&set.named(model)?, "input_", &draft)?;
        }
        drafts.put()
    };
    about(ProblemKind::Call, at(KEEP_INPUTS, write()))
}

/// The option that names the folder.
const KEEP_INPUTS: &str = "--keep-inputs";

/// The shapes of tensors.
pub(crate) fn shapes_of(tensors: &[Arc<Tensor>]) -> Vec<Vec<usize>> {
    tensors.iter().map(|tensor| tensor.shape().to_vec()).collect()
}

/// Holds the tensors that were made last, of one set at a time: both sides of a comparison ask for
/// them in turn.
#[derive(Clone, Default)]
struct Shelf(Rc<RefCell<Option<Shelved>>>);

/// Tensors, and by what their set is known.
type Shelved = (Rc<()>, Tensors);

impl Shelf {
    /// Makes tensors unless they are on the shelf, where these are from now on, if they were made
    /// before.
    fn keeping(
        &self,
        made: Option<Tensors>,
        make: impl Fn() -> TractResult<Tensors> + 'static,
    ) -> impl Fn() -> TractResult<Tensors> + 'static {
        let (shelf, own) = (self.clone(), Rc::new(()));
        if let Some(made) = made {
            shelf.0.replace(Some((own.clone(), made)));
        }
        move || {
            if let Some((whose, tensors)) = &*shelf.0.borrow()
                && Rc::ptr_eq(whose, &own)
            {
                return Ok(tensors.clone());
            }
            // Before the next ones are made, so that there are never two sets.
            drop(shelf.0.take());
            let tensors = make()?;
            shelf.0.replace(Some((own.clone(), tensors.clone())));
            Ok(tensors)
        }
    }
}

/// Where the values of a set are from.
#[derive(Clone)]
pub(crate) enum Provenance {
    /// Files have all of them.
    Given,
    /// Those of these inputs are random, and start from this seed; and how they were chosen.
    Random { inputs: Vec<String>, seed: u64, look: Rc<InputLook>, recipe: Rc<Recipe> },
}

/// Where the inputs of the sets came from that a model ran on, as reports tell it.
pub(crate) fn inputs_of(model: &Declared, sets: &[Set]) -> Inputs {
    let random = |set: &Set| match &set.provenance {
        Provenance::Given => None,
        Provenance::Random { inputs, seed, look, .. } => {
            Some((inputs.clone(), *seed, InputLook::clone(look)))
        }
    };
    let mut inputs = Inputs::of(model.inputs.len(), sets.iter().map(random));
    for from in sets.iter().flat_map(|set| &set.from) {
        if !inputs.from.contains(from) {
            inputs.from.push(from.clone());
        }
    }
    inputs
}

/// How many sets of random inputs there are where nobody says: one alone finds too little, and
/// those of a large model take long.
const RANDOM_SETS: u64 = 3;
/// A model whose file has more bytes is large.
const LARGE: u64 = 64 << 20;

/// How many sets of random inputs there are at most.
fn most_sets(path: &Path, args: &InputArgs) -> u64 {
    let usual = if fs::metadata(path).is_ok_and(|metadata| metadata.len() > LARGE) {
        1
    } else if args.takes_few {
        RANDOM_SETS
    } else {
        ROUNDS as u64
    };
    args.sets.unwrap_or(usual).max(1)
}

/// The sets that `-i` gives: those of samples, or else one of files and random values.
/// Fails when files and folders are mixed, or a set is not what the model takes.
pub(crate) fn gather(source: &Source, path: &Path, args: &InputArgs) -> TractResult<Vec<Set>> {
    let mut sets = about(ProblemKind::Input, gathered(source, path, args))?;
    let files = args.files().filter(|file| has_named(file));
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    sets.iter_mut().for_each(|set| set.from.clone_from(&files));
    Ok(sets)
}

fn gathered(source: &Source, path: &Path, args: &InputArgs) -> TractResult<Vec<Set>> {
    let shelf = Shelf::default();
    if let Some(samples) = samples::of(source.takes, path, args)? {
        args.check_nothing_is_random("-i gives recorded ones")?;
        return of_samples(source.takes, samples, &shelf);
    }
    let mut given = GivenTensors::read(source.takes, &args.inputs, OtherFloats::Cast)?;
    if let Some(samples) = samples::rows(source.takes, &mut given)? {
        args.check_nothing_is_random("-i gives samples")?;
        let samples = args.chosen(samples).into_iter().map(Sample::Other).collect();
        return of_samples(source.takes, samples, &shelf);
    }
    args.check_all_is_taken("there is one set of them, or they are random")?;
    of_seeds(source, path, args, given, &shelf)
}

/// What one run takes.
pub(crate) enum RunInputs {
    /// A sample, and what to know about it.
    Sample(Tensors, Vec<String>),
    /// What files give of it.
    Given(GivenTensors),
}

/// The one set of inputs that `-i` gives. Fails as [`gather`], and when there are more samples than
/// one.
pub(crate) fn one(model: &Declared, path: &Path, args: &InputArgs) -> TractResult<RunInputs> {
    let read = || {
        let mut samples = samples::of(model, path, args)?;
        if samples.is_none() {
            let mut given = GivenTensors::read(model, &args.inputs, OtherFloats::Refused)?;
            let Some(rows) = samples::rows(model, &mut given)? else {
                args.check_all_is_taken("there is one set of them, or they are random")?;
                return Ok(RunInputs::Given(given));
            };
            samples = Some(args.chosen(rows).into_iter().map(Sample::Other).collect());
        }
        args.check_nothing_is_random("-i gives samples")?;
        let samples = samples.unwrap_or_default();
        let (count, way_out) = (samples.len(), "--limit 1 takes the first");
        ensure!(count == 1, "-i gives {count} sets of inputs, a run takes one: {way_out}");
        let (tensors, notes) = match samples.first() {
            Some(Sample::Case(case)) => of_case(model, case)?,
            Some(Sample::Other(sample)) => sample.tensors(model)?,
            None => (vec![], vec![]),
        };
        Ok(RunInputs::Sample(tensors, notes))
    };
    about(ProblemKind::Input, read())
}

/// The sets of samples, each of which is read to see whether it can be.
fn of_samples(model: &Declared, samples: Vec<Sample>, shelf: &Shelf) -> TractResult<Vec<Set>> {
    let model = Rc::new(model.clone());
    let set = |sample: Sample| match sample {
        Sample::Case(case) => recorded(&model, case, shelf),
        Sample::Other(sample) => {
            let (tensors, notes) = sample.tensors(&model)?;
            let shapes = shapes_of(&tensors);
            at(&sample.name, sizes::check_shapes(&model, &shapes))?;
            let (name, model) = (sample.name.clone(), model.clone());
            let make = shelf.keeping(Some(tensors), move || Ok(sample.tensors(&model)?.0));
            Ok(Set { notes, ..Set::new(name, Provenance::Given, shapes, make) })
        }
    };
    samples.into_iter().map(set).collect()
}

/// The sets of files and of random values, one for each seed.
fn of_seeds(
    source: &Source,
    path: &Path,
    args: &InputArgs,
    given: GivenTensors,
    shelf: &Shelf,
) -> TractResult<Vec<Set>> {
    let most = most_sets(path, args);
    let recipe = Rc::new(Recipe::of(source, args, given, most as usize)?);
    // What can go wrong with one seed goes wrong with the first.
    let mut first = Some(recipe.tensors(0, args.seed)?);
    let is_given = recipe.random.is_empty();
    let has_effect = !is_given || args.sets.is_none_or(|sets| sets <= 1);
    ensure!(has_effect, "--sets is for random inputs: this model has none");
    let unasked = (recipe.rounds() as u64).max(RANDOM_SETS).min(most);
    let count = if is_given { 1 } else { args.sets.unwrap_or(unasked).max(1) };
    let look = Rc::new(recipe.look(count as usize));
    let set = |offset: u64| {
        let seed = args.seed.wrapping_add(offset);
        let (name, provenance) = if is_given {
            ("what is given".into(), Provenance::Given)
        } else {
            let inputs = recipe.random.clone();
            let (look, recipe) = (look.clone(), recipe.clone());
            (format!("seed {seed}"), Provenance::Random { inputs, seed, look, recipe })
        };
        let (making, place) = (recipe.clone(), offset as usize);
        let shapes = recipe.shapes(place)?;
        let make = shelf.keeping(first.take(), move || making.tensors(place, seed));
        let notes = recipe.notes.clone();
        Ok(Set { notes, ..Set::new(name, provenance, shapes, make) })
    };
    (0..count).map(set).collect()
}

/// The sets that test cases hold, those that are wanted of them. Fails as [`of_case`] does.
pub(crate) fn of_cases(
    model: &Declared,
    cases: &[Case],
    args: &InputArgs,
) -> TractResult<Vec<Set>> {
    let (model, shelf) = (Rc::new(model.clone()), Shelf::default());
    let chosen = args.chosen(cases.to_vec());
    let is_one = chosen.len() == 1;
    let set = |case: Case| {
        // Of several sets, the folder that holds them.
        let folder = case.set.parent().filter(|_| !is_one).unwrap_or(&case.set);
        let from = folder.display().to_string();
        Ok(Set { from: vec![from], ..recorded(&model, case, &shelf)? })
    };
    about(ProblemKind::Input, chosen.into_iter().map(set).collect())
}

/// The set that a test case holds, which is read to see whether it can be.
fn recorded(model: &Rc<Declared>, case: Case, shelf: &Shelf) -> TractResult<Set> {
    let (tensors, mut notes) = of_case(model, &case)?;
    if let Some(folder) = case.set.parent().filter(|_| case.is_beside()) {
        let (folder, way) = (folder.display(), told("--random takes", "`random=True` takes"));
        notes.push(format!(
            "the inputs are those recorded beside the model, in {folder}; {way} random ones"
        ));
    }
    let (name, shapes) = (case.set.display().to_string(), shapes_of(&tensors));
    let model = model.clone();
    let make = shelf.keeping(Some(tensors), move || Ok(of_case(&model, &case)?.0));
    Ok(Set { notes, ..Set::new(name, Provenance::Given, shapes, make) })
}

/// The inputs that a test case holds, and what to know about them. Values of another numeric type
/// than the model takes are cast: a conversion that has changed the types of its inputs is run on
/// the same data. Fails when the model takes another number of inputs, or a file cannot be one of
/// them.
pub(crate) fn of_case(model: &Declared, case: &Case) -> TractResult<(Tensors, Vec<String>)> {
    about(ProblemKind::Input, read_case(model, case))
}

fn read_case(model: &Declared, case: &Case) -> TractResult<(Tensors, Vec<String>)> {
    let name = case.set.display().to_string();
    let mut notes = vec![];
    let files = at(&name, case.inputs())?;
    let (given, wanted) = (files.len(), model.inputs.len());
    ensure!(given == wanted, "{name}: has {}, the model takes {wanted}", counted(given, "input"));
    let load = |(file, input): (&PathBuf, &Input)| {
        let array = at(&name, files::read_tensor_proto(file))?;
        if let Some(other) = array.name.as_ref().filter(|other| **other != input.name) {
            // Converters rename inputs, so another name alone proves nothing; with another type or
            // shape as well the file was made for another model.
            let (ty, shape) = (array.ty, array.tensor.shape());
            let (wanted, file) = (&input.name, file.display());
            ensure!(
                ty == input.ty && sizes::fits(&input.shape, shape),
                "{file}: holds `{other}`, {ty} of shape {shape:?}; the model takes `{wanted}`, {} of shape [{:?}]",
                input.ty,
                input.shape
            );
            notes.push(format!("{file} holds `{other}`, which is taken for `{wanted}`"));
        }
        let (tensor, note) = at(format!("input `{}`", input.name), array.cast_to(input.ty))?;
        notes.extend(note.map(|held| {
            let Input { name: input, ty, .. } = input;
            format!(
                "input `{input}` is {held} in {name}, the model takes {ty}: its values are cast"
            )
        }));
        Ok(Arc::new(tensor))
    };
    let tensors = files.iter().zip(&model.inputs).map(load).collect::<TractResult<_>>()?;
    Ok((tensors, notes))
}
