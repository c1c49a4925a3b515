//! What can be typed about the inputs of a model.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::TractResult;

use crate::cli::message::{ProblemKind, ReportedProblem};

/// What the user says about a model's inputs.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
pub(crate) struct InputArgs {
    /// An input's values, an archive of several, a folder of input_*.pb, or many samples: a folder
    /// of them, arrays with an axis of samples before their own, or a file of JSON lines.
    #[arg(short, long = "input", value_name = "NAME=FILE|FILE.npz|FILE.jsonl|DIR")]
    pub(crate) inputs: Vec<String>,
    /// Take at most N of the samples that -i gives.
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,
    /// Shuffle the samples that -i gives, before --limit takes the first.
    #[arg(long, value_name = "SEED")]
    pub(crate) shuffle: Option<u64>,
    /// Seed of the random values.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Size of a symbolic dimension; the others are chosen.
    #[arg(long = "set", value_name = "SYMBOL=N", value_parser = parse_size)]
    pub(crate) sizes: Vec<(String, usize)>,
    /// Range of an input's random values, both ends included; floats are then spread evenly.
    #[arg(long = "range", value_name = "NAME=LOW:HIGH", value_parser = parse_range, allow_hyphen_values = true)]
    pub(crate) ranges: Vec<(String, (f64, f64))>,
    /// How many sets of random inputs, where a command takes several; each has the next seed.
    #[arg(skip)]
    pub(crate) sets: Option<u64>,
    /// Whether they are few where nobody says how many.
    #[arg(skip)]
    pub(crate) takes_few: bool,
    /// Whether the inputs that lie beside a model are left alone.
    #[arg(skip)]
    pub(crate) random: bool,
}

/// The inputs that a model is judged by, of which there may be several sets.
#[derive(Args)]
pub(crate) struct SetsArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// How many sets of random inputs, each with the next seed [default: up to 6 of different
    /// sizes, 3 where all sizes are set and for `keep` and `convert`, or 1 for a model of more than
    /// 64 MiB].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    sets: Option<u64>,
    /// Take random inputs, though there are recorded ones beside the model (test_data_set_*).
    #[arg(long, conflicts_with = "inputs")]
    random: bool,
}

impl SetsArgs {
    /// All that was said of the inputs.
    pub(crate) fn input(&self) -> InputArgs {
        InputArgs { sets: self.sets, random: self.random, ..self.input.clone() }
    }
}

/// How long inputs are searched for that show more.
#[derive(Args, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SearchArgs {
    /// Search for random inputs with larger errors, for at most SECONDS; 0 turns it off [default:
    /// some seconds, counted by what there is to compute, where neither -i nor --sets is given and
    /// a run takes about a second at most].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) search: Option<f64>,
    /// The most runs of that search.
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) search_steps: usize,
    /// Write the sets of inputs that were used, so that `-i DIR` gives them again.
    #[arg(long, value_name = "DIR")]
    pub(crate) keep_inputs: Option<PathBuf>,
}

/// How far a search goes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Budget {
    /// How long it takes at most, where somebody says so. Where nobody does, what its runs may cost
    /// is counted, and it is left out where one costs much.
    pub(crate) time: Option<Duration>,
    /// How many runs it makes at most.
    pub(crate) steps: usize,
}

impl SearchArgs {
    /// No search.
    pub(crate) fn none() -> SearchArgs {
        SearchArgs { search: Some(0.0), ..SearchArgs::default() }
    }

    /// How far a search goes, if there is one; `is_settled` where somebody has said which inputs
    /// there are.
    pub(crate) fn budget(&self, is_settled: bool) -> Option<Budget> {
        let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let is_wanted = self.search.map_or(!is_settled, |seconds| seconds > 0.0);
        is_wanted.then(|| Budget { time: self.search.map(time), steps: self.search_steps })
    }
}

impl InputArgs {
    /// The files that `-i` names.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let file = |argument: &String| {
            argument.split_once('=').map_or(argument.as_str(), |(_, file)| file).into()
        };
        self.inputs.iter().map(file)
    }

    /// Refuses what only says which of many samples are taken. Fails when `--limit` or `--shuffle`
    /// is given.
    pub(crate) fn check_all_is_taken(&self, because: &str) -> TractResult<()> {
        let message = format!("--limit and --shuffle are for the samples of -i: {because}");
        if self.limit.is_some() || self.shuffle.is_some() {
            Err(ReportedProblem { kind: ProblemKind::Call, message }.into())
        } else {
            Ok(())
        }
    }

    /// Whether the inputs that lie beside a model are taken. Where it is named by its file and not
    /// by its folder, an option that says how random ones are made refuses them.
    pub(crate) fn takes_recorded(&self, is_folder: bool) -> bool {
        let is_silent = || self.check_nothing_is_random("").is_ok() && self.sets.is_none();
        self.inputs.is_empty() && !self.random && (is_folder || is_silent())
    }

    /// Refuses what only says how random inputs are made.
    /// Fails when `--seed`, `--set`, `--range` or `--sets` is given.
    pub(crate) fn check_nothing_is_random(&self, because: &str) -> TractResult<()> {
        let options = match () {
            () if self.seed != 0 || !self.sizes.is_empty() => "--seed and --set are",
            () if !self.ranges.is_empty() => "--range is",
            () if self.sets.is_some_and(|sets| sets != 1) => "--sets is",
            () => return Ok(()),
        };
        let message = format!("{options} for random inputs: {because}");
        Err(ReportedProblem { kind: ProblemKind::Call, message }.into())
    }
}

/// Reads `--search`.
fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => Ok(seconds),
        Ok(_) => Err(format!("{text} is no number of seconds")),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads `--limit`.
fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it should be 1 or more".into()),
        Ok(limit) => Ok(limit),
        Err(error) => Err(format!("{error}")),
    }
}

/// Reads `NAME=LOW:HIGH`. The name may have signs of its own.
fn parse_range(text: &str) -> Result<(String, (f64, f64)), String> {
    let shape = || "it should be NAME=LOW:HIGH".to_owned();
    let (name, ends) = text.rsplit_once('=').ok_or_else(shape)?;
    let (low, high) = ends.split_once(':').ok_or_else(shape)?;
    let number = |text: &str| match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err(format!("{text:?} is no end of a range")),
        Err(error) => Err(format!("{text:?}: {error}")),
    };
    let (low, high) = (number(low)?, number(high)?);
    if low > high {
        return Err(format!("{low} is more than {high}"));
    }
    Ok((name.into(), (low, high)))
}

/// Reads `SYMBOL=N`.
fn parse_size(text: &str) -> Result<(String, usize), String> {
    let (symbol, size) = text.rsplit_once('=').ok_or("it should be SYMBOL=N")?;
    let size =
        size.parse().map_err(|_| format!("{size:?} is no size: a whole number is wanted"))?;
    Ok((symbol.into(), size))
}
