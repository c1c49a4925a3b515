//! What may be found without failing: limits from the command line and from a model's tolerance file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use tract_onnx_cast::audit::Outcome;

use crate::cli::found::audited::AuditedCast;
use crate::cli::input_file::read_regular_text;
use crate::cli::measure::number::Num;
use crate::cli::measure::tolerance::Tolerance;

/// A model's tolerance file, and what the options of the command line change of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    #[serde(default)]
    audit: CastLimits,
    #[serde(default)]
    compare: OutputTolerances,
}

/// How much of what a cast may do.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct CastLimits {
    #[serde(flatten)]
    all: BTreeMap<String, Limit>,
    #[serde(default)]
    cast: BTreeMap<String, BTreeMap<String, Limit>>,
}

/// The largest number that is still all right, or the word `any`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Limit {
    Number(f64),
    Word(String),
}

/// How far outputs may be off: a [`Tolerance`], and those of single outputs. (serde cannot flatten a structure into one that
/// refuses unknown fields.)
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputTolerances {
    rtol: Option<f64>,
    atol: Option<f64>,
    ulp: Option<f64>,
    cosine: Option<f64>,
    sqnr: Option<f64>,
    #[serde(default)]
    output: BTreeMap<String, Tolerance>,
}

impl OutputTolerances {
    fn all(&self) -> Tolerance {
        let OutputTolerances { rtol, atol, ulp, cosine, sqnr, .. } = *self;
        Tolerance { rtol, atol, ulp, cosine, sqnr }
    }
}

/// Something that a cast did, as a number.
type Measure = fn(&AuditedCast) -> f64;

/// What an audit may be limited by besides the outcomes.
const FURTHER_LIMITS: [(&str, Measure); 7] = [
    ("made_infinite", |cast| cast.made_infinite as f64),
    ("made_nan", |cast| cast.made_nan as f64),
    ("became_subnormal", |cast| cast.became_subnormal as f64),
    ("sign_lost", |cast| cast.sign_lost as f64),
    ("max_abs", |cast| cast.max_abs.0),
    ("max_rel", |cast| cast.max_rel.0),
    ("max_ulp", |cast| cast.max_ulp.0),
];

impl Limits {
    /// The file that was asked for, or the one beside the model: `NAME.tolerance.toml` for `NAME.onnx`.
    pub(crate) fn of(
        model: &Path,
        file: Option<&Path>,
    ) -> anyhow::Result<(Limits, Option<PathBuf>)> {
        let beside = model.with_extension("tolerance.toml");
        let path = match file {
            Some(file) => file,
            None if beside.is_file() => &beside,
            None => return Ok((Limits::default(), None)),
        };
        let name = path.display();
        let text = read_regular_text(path).with_context(|| name.to_string())?;
        let limits = Limits::parse(&text).with_context(|| name.to_string())?;
        Ok((limits, Some(path.into())))
    }

    fn parse(text: &str) -> anyhow::Result<Limits> {
        let limits: Limits = toml::from_str(text)?;
        let CastLimits { all, cast } = &limits.audit;
        for (what, limit) in cast.values().flatten().chain(all) {
            check_limit(what, limit)?;
        }
        let outputs = limits.compare.output.values();
        for tolerance in [limits.compare.all()].iter().chain(outputs) {
            if let Some(problem) = tolerance.problem() {
                bail!(problem);
            }
        }
        Ok(limits)
    }

    /// Adds what `--allow` says.
    pub(crate) fn allow(&mut self, limits: &[(String, f64)]) {
        for (what, limit) in limits {
            self.audit.all.insert(what.clone(), Limit::Number(*limit));
        }
    }

    /// Adds what the options of `compare` say, which go before the file.
    pub(crate) fn judge_by(&mut self, all: Tolerance, outputs: &[(String, Tolerance)]) {
        let compare = &mut self.compare;
        let Tolerance { rtol, atol, ulp, cosine, sqnr } = all.or(compare.all());
        (compare.rtol, compare.atol, compare.ulp) = (rtol, atol, ulp);
        (compare.cosine, compare.sqnr) = (cosine, sqnr);
        for (name, given) in outputs {
            let mine = compare.output.entry(name.clone()).or_default();
            *mine = given.or(*mine);
        }
    }

    /// The tolerance for an output.
    pub(crate) fn output(&self, name: &str) -> Tolerance {
        self.compare.output.get(name).copied().unwrap_or_default().or(self.inner())
    }

    /// The tolerance for tensors that are no outputs.
    pub(crate) fn inner(&self) -> Tolerance {
        self.compare.all()
    }

    /// Outputs that the tolerances name, of which none has such a name.
    pub(crate) fn unknown_outputs<'a>(
        &'a self,
        known: &'a [&str],
    ) -> impl Iterator<Item = &'a str> {
        self.compare.output.keys().map(String::as_str).filter(|name| !known.contains(name))
    }

    /// Casts that have limits of their own, of which none has such a name.
    pub(crate) fn unknown_casts<'a>(&'a self, known: &'a [&str]) -> impl Iterator<Item = &'a str> {
        self.audit.cast.keys().map(String::as_str).filter(|name| !known.contains(name))
    }

    /// What a cast did beyond its limits.
    pub(crate) fn exceeded(&self, cast: &AuditedCast) -> Vec<String> {
        let own = self.audit.cast.get(&cast.node);
        let outcomes = Outcome::ALL.iter().map(|outcome| {
            (outcome.name(), cast.count(outcome.name()) as f64, outcome.is_damage())
        });
        let further = FURTHER_LIMITS
            .iter()
            .map(|(name, found)| (*name, found(cast), name.starts_with("made_")));
        let mut exceeded = vec![];
        for (what, found, is_damage) in outcomes.chain(further) {
            let limit = own.and_then(|own| own.get(what)).or_else(|| self.audit.all.get(what));
            let limit = match limit {
                Some(Limit::Number(limit)) => *limit,
                Some(Limit::Word(_)) => f64::INFINITY,
                None if is_damage => 0.0,
                None => f64::INFINITY,
            };
            if found > limit {
                let (node, found, limit) = (&cast.node, Num(found), Num(limit));
                exceeded.push(format!("`{node}`: {what} {found}, the limit is {limit}"));
            }
        }
        exceeded
    }
}

/// Whether an audit counts that, and whether it can be limited so.
///
/// # Errors
///
/// When it does not or cannot.
pub(crate) fn check_limit(what: &str, limit: &Limit) -> anyhow::Result<()> {
    let is_outcome = Outcome::ALL.iter().any(|outcome| outcome.name() == what);
    let is_further = FURTHER_LIMITS.iter().any(|(name, _)| *name == what);
    let names = Outcome::ALL.iter().map(|outcome| outcome.name());
    let names = names.chain(FURTHER_LIMITS.iter().map(|(name, _)| *name)).collect::<Vec<_>>();
    let names = names.join(", ");
    ensure!(is_outcome || is_further, "`{what}` is nothing that an audit counts, which is {names}");
    match limit {
        Limit::Number(number) if number.is_finite() && *number >= 0.0 => Ok(()),
        Limit::Word(word) if word == "any" => Ok(()),
        _ => bail!("`{what}`: a limit is a number from 0 up, or \"any\""),
    }
}
