//! The inputs of `onnx-cast run`: those that are given, the sizes of symbolic dimensions, and
//! random values for the rest.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::infer::{DimFact, Factoid, ShapeFactoid};
use tract_onnx::tract_hir::internal::solve_for;

use super::files::{self, Array};
use super::message::at;
use super::model::{Input, Model};
use super::random::Generator;

/// What the user says about a model's inputs.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
pub(super) struct InputArgs {
    /// An input's values, or an archive of several.
    #[arg(short, long = "input", value_name = "NAME=FILE|FILE.npz")]
    pub(super) inputs: Vec<String>,
    /// Where the random values start.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// Size of a symbolic dimension.
    #[arg(long = "set", value_name = "SYMBOL=N", value_parser = parse_size)]
    pub(super) sizes: Vec<(String, usize)>,
}

impl InputArgs {
    /// Refuses what only says how random inputs are made.
    ///
    /// # Errors
    ///
    /// When `--seed` or `--set` is given.
    pub(super) fn check_nothing_is_random(&self, because: &str) -> TractResult<()> {
        ensure!(
            self.seed == 0 && self.sizes.is_empty(),
            "--seed and --set are for random inputs: {because}"
        );
        Ok(())
    }
}

/// Reads `SYMBOL=N`.
pub(super) fn parse_size(text: &str) -> Result<(String, usize), String> {
    let (symbol, size) = text.rsplit_once('=').ok_or("it should be SYMBOL=N")?;
    let size = size.parse().map_err(|error| format!("{size:?} as a size: {error}"))?;
    Ok((symbol.into(), size))
}

/// The file that `-i` names.
pub(super) fn file_of(argument: &str) -> PathBuf {
    argument.split_once('=').map_or(argument, |(_, file)| file).into()
}

/// A tensor for each of the model's inputs.
///
/// # Errors
///
/// When a given array is not what the model declares, names no input or an input twice, sizes
/// contradict each other, or an input has no known number of dimensions.
pub(super) fn gather(model: &Model, args: &InputArgs) -> TractResult<Vec<Tensor>> {
    let given = given(model, &args.inputs)?;
    let sizes = sizes(model, &args.sizes, &given)?;
    let mut generator = Generator::new(args.seed);
    let tensor = |(position, (input, given)): (usize, (&Input, Option<Tensor>))| match given {
        Some(tensor) => Ok(tensor),
        None => {
            let tensor = concrete(&input.shape, &sizes)
                .and_then(|shape| generator.tensor(position, input.ty, &shape));
            at(format!("input `{}`", input.name), tensor)
        }
    };
    model.inputs.iter().zip(given).enumerate().map(tensor).collect()
}

/// The tensors from the files, by the position of the input.
fn given(model: &Model, arguments: &[String]) -> TractResult<Vec<Option<Tensor>>> {
    let mut given: Vec<Option<Tensor>> = model.inputs.iter().map(|_| None).collect();
    for argument in arguments {
        for (name, array) in at(format!("-i {argument}"), arrays(argument))? {
            let mut places = model.inputs.iter().zip(&mut given);
            let Some((input, place)) = places.find(|(input, _)| input.name == name) else {
                let names: Vec<&str> = model.inputs.iter().map(|i| i.name.as_str()).collect();
                bail!("-i {argument}: the model has no input `{name}`, but {names:?}");
            };
            let tensor = array.into_tensor(input.ty);
            let tensor = at(format!("input `{name}`"), tensor)?;
            ensure!(place.replace(tensor).is_none(), "input `{name}` is given twice");
        }
    }
    Ok(given)
}

/// The arrays that one `-i` gives, by the input's name.
fn arrays(argument: &str) -> TractResult<Vec<(String, Array)>> {
    let (name, file) = match argument.split_once('=') {
        Some((name, file)) => (Some(name), file),
        None => (None, argument),
    };
    ensure!(!file.contains('='), "more than one `=`");
    let path = Path::new(file);
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    let array = match (extension.as_deref(), name) {
        (Some("npz"), None) => return files::read_npz(path),
        (Some("npz"), Some(name)) => {
            let mut arrays = files::read_npz(path)?;
            arrays.retain(|(array, _)| array == name);
            ensure!(!arrays.is_empty(), "there is no array `{name}`");
            return Ok(arrays);
        }
        (Some("npy" | "pb"), None) => bail!("it should be NAME={file}"),
        (Some("npy"), _) => files::read_npy(path)?,
        (Some("pb"), _) => files::read_tensor_proto(path)?,
        (_, None) => bail!("it should be NAME=FILE, or the FILE.npz of several inputs"),
        _ => bail!("the file should be a .pb, .npy or .npz"),
    };
    Ok(name.map(|name| (name.to_owned(), array)).into_iter().collect())
}

/// The sizes of the symbolic dimensions, from `--set` and from the given tensors' shapes.
fn sizes(
    model: &Model,
    set: &[(String, usize)],
    given: &[Option<Tensor>],
) -> TractResult<SymbolValues> {
    let mut sizes = SymbolValues::default();
    for (name, size) in set {
        let Some(symbol) = model.symbols().get(name) else {
            let symbols = model.symbols().all_symbols();
            bail!("--set {name}={size}: the model has no such symbol, but {symbols:?}");
        };
        ensure!(sizes.get(&symbol).is_none(), "--set {name}: is given twice");
        sizes.set(&symbol, i64::try_from(*size)?);
    }
    let given = || {
        let given = model.inputs.iter().zip(given);
        given.filter_map(|(input, tensor)| Some((input, tensor.as_ref()?)))
    };
    // A size that follows from one input may be part of an expression in another's shape, before or
    // after it.
    loop {
        let mut has_learnt = false;
        for (input, tensor) in given() {
            let learnt = learn(&input.shape, tensor.shape(), &mut sizes);
            has_learnt |= at(format!("input `{}`", input.name), learnt)?;
        }
        if !has_learnt {
            return Ok(sizes);
        }
    }
}

/// Takes symbols' sizes from an actual shape; whether there was a new one.
fn learn(declared: &ShapeFactoid, actual: &[usize], sizes: &mut SymbolValues) -> TractResult<bool> {
    let differs =
        |with: &str| format!("its shape is {actual:?}, the model declares [{declared:?}]{with}");
    let rank = declared.rank().concretize();
    ensure!(rank.is_none_or(|rank| rank == actual.len() as i64), "{}", differs(""));
    let mut has_learnt = false;
    for (declared, actual) in declared.dims().zip(actual) {
        let Some(declared) = declared.concretize() else {
            continue;
        };
        let actual = i64::try_from(*actual)?;
        let rest = declared.eval(sizes);
        let unknown: Vec<Symbol> = rest.symbols().into_iter().collect();
        match unknown.as_slice() {
            [] => {
                let known = declared.symbols().into_iter();
                let known = known.filter_map(|s| Some(format!(" with {s} = {}", sizes.get(&s)?)));
                ensure!(rest.as_i64() == Some(actual), "{}", differs(&known.collect::<String>()));
            }
            [symbol] => {
                let size = solve_for(symbol, &rest, &actual.to_dim()).and_then(|s| s.as_i64());
                if let Some(size) = size.filter(|size| *size >= 0) {
                    sizes.set(symbol, size);
                    has_learnt = true;
                }
            }
            _ => {}
        }
    }
    Ok(has_learnt)
}

/// Whether a declared shape can be an actual one.
pub(super) fn fits(declared: &ShapeFactoid, actual: &[usize]) -> bool {
    learn(declared, actual, &mut SymbolValues::default()).is_ok()
}

/// Whether the model takes tensors of these shapes, its symbols being the same size wherever they occur.
///
/// # Errors
///
/// When a shape is not what the model declares.
pub(super) fn check_shapes(model: &Model, tensors: &[Tensor]) -> TractResult<()> {
    sizes(model, &[], &tensors.iter().cloned().map(Some).collect::<Vec<_>>()).map(|_| ())
}

/// The declared shape as numbers: what is still not known is 1.
fn concrete(declared: &ShapeFactoid, sizes: &SymbolValues) -> TractResult<Vec<usize>> {
    ensure!(!declared.is_open(), "the model declares no shape for it; it must be given");
    let size = |declared: &DimFact| {
        let Some(declared) = declared.concretize() else {
            return Ok(1);
        };
        let mut sizes = sizes.clone();
        for symbol in declared.symbols() {
            if sizes.get(&symbol).is_none() {
                sizes.set(&symbol, 1);
            }
        }
        let size = declared.eval_to_i64(&sizes)?;
        usize::try_from(size).with_context(|| format!("its dimension {declared} is {size}"))
    };
    declared.dims().map(size).collect()
}
