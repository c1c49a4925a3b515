//! What is still all right: limits from the command line and from a model's tolerance file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use tract_onnx_cast::audit::Outcome;

use super::facts::{CastFacts, ToleranceFacts};
use super::num::Num;

/// A model's tolerance file, as it stands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tolerances {
    #[serde(default)]
    audit: AuditLimits,
    #[serde(default)]
    compare: OutputLimits,
}

/// How much of what a cast may do.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct AuditLimits {
    #[serde(flatten)]
    all: BTreeMap<String, Limit>,
    #[serde(default)]
    cast: BTreeMap<String, BTreeMap<String, Limit>>,
}

/// The largest count, or `any`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Limit {
    Number(f64),
    Word(String),
}

/// How far outputs may be off.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputLimits {
    rtol: Option<f64>,
    atol: Option<f64>,
    ulp: Option<f64>,
    cosine: Option<f64>,
    #[serde(default)]
    output: BTreeMap<String, OneOutput>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OneOutput {
    rtol: Option<f64>,
    atol: Option<f64>,
    ulp: Option<f64>,
    cosine: Option<f64>,
}

/// What an audit may be limited by: the outcomes, two more counts, and the largest errors.
const EXTRA_LIMITS: [&str; 5] = ["became_subnormal", "sign_lost", "max_abs", "max_rel", "max_ulp"];

impl Tolerances {
    /// The file that was asked for, or the one beside the model: `NAME.tolerance.toml` for `NAME.onnx`.
    pub(super) fn of(
        model: &Path,
        file: Option<&Path>,
    ) -> anyhow::Result<(Tolerances, Option<PathBuf>)> {
        let beside = model.with_extension("tolerance.toml");
        let path = match file {
            Some(file) => file,
            None if beside.is_file() => &beside,
            None => return Ok((Tolerances::default(), None)),
        };
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| name.to_string())?;
        let tolerances = Tolerances::parse(&text).with_context(|| name.to_string())?;
        Ok((tolerances, Some(path.into())))
    }

    fn parse(text: &str) -> anyhow::Result<Tolerances> {
        let tolerances: Tolerances = toml::from_str(text)?;
        let AuditLimits { all, cast } = &tolerances.audit;
        for (what, limit) in cast.values().flatten().chain(all) {
            check_limit(what, limit)?;
        }
        let compare = &tolerances.compare;
        let all = [compare.rtol, compare.atol, compare.ulp];
        let each = compare.output.values().flat_map(|o| [o.rtol, o.atol, o.ulp]);
        for number in all.into_iter().chain(each).flatten() {
            ensure!(
                number.is_finite() && number >= 0.0,
                "{number}: a tolerance is a number from 0 up"
            );
        }
        let cosines = compare.output.values().map(|o| o.cosine).chain([compare.cosine]);
        for number in cosines.flatten() {
            ensure!((-1.0..=1.0).contains(&number), "{number}: a cosine is a number from -1 to 1");
        }
        Ok(tolerances)
    }

    /// Adds what `--allow` says.
    pub(super) fn allow(&mut self, limits: &[(String, f64)]) {
        for (what, limit) in limits {
            self.audit.all.insert(what.clone(), Limit::Number(*limit));
        }
    }

    /// Adds what the options of `compare` say, which go before the file.
    pub(super) fn judge_by(&mut self, all: ToleranceFacts, outputs: &[(String, ToleranceFacts)]) {
        let over = |mine: &mut Option<f64>, given: Option<Num>| {
            if let Some(Num(given)) = given {
                *mine = Some(given);
            }
        };
        let compare = &mut self.compare;
        over(&mut compare.rtol, all.rtol);
        over(&mut compare.atol, all.atol);
        over(&mut compare.ulp, all.ulp);
        over(&mut compare.cosine, all.cosine);
        for (name, given) in outputs {
            let mine = compare.output.entry(name.clone()).or_default();
            over(&mut mine.rtol, given.rtol);
            over(&mut mine.atol, given.atol);
            over(&mut mine.ulp, given.ulp);
            over(&mut mine.cosine, given.cosine);
        }
    }

    /// The tolerance for an output.
    pub(super) fn output(&self, name: &str) -> ToleranceFacts {
        let OutputLimits { rtol, atol, ulp, cosine, output } = &self.compare;
        let own = output.get(name).cloned().unwrap_or_default();
        ToleranceFacts {
            rtol: own.rtol.or(*rtol).map(Num),
            atol: own.atol.or(*atol).map(Num),
            ulp: own.ulp.or(*ulp).map(Num),
            cosine: own.cosine.or(*cosine).map(Num),
        }
    }

    /// The tolerance for tensors that are no outputs.
    pub(super) fn inner(&self) -> ToleranceFacts {
        let OutputLimits { rtol, atol, ulp, cosine, .. } = &self.compare;
        ToleranceFacts {
            rtol: rtol.map(Num),
            atol: atol.map(Num),
            ulp: ulp.map(Num),
            cosine: cosine.map(Num),
        }
    }

    /// Outputs that the tolerances name, of which none has such a name.
    pub(super) fn unknown_outputs<'a>(
        &'a self,
        known: &'a [&str],
    ) -> impl Iterator<Item = &'a str> {
        self.compare.output.keys().map(String::as_str).filter(|name| !known.contains(name))
    }

    /// Casts that have limits of their own, of which none has such a name.
    pub(super) fn unknown_casts<'a>(&'a self, known: &'a [&str]) -> impl Iterator<Item = &'a str> {
        self.audit.cast.keys().map(String::as_str).filter(|name| !known.contains(name))
    }

    /// What a cast did beyond its limits.
    pub(super) fn exceeded(&self, cast: &CastFacts) -> Vec<String> {
        let own = self.audit.cast.get(&cast.node);
        let outcomes = Outcome::ALL.iter().map(|outcome| (outcome.name(), outcome.is_damage()));
        let extra = EXTRA_LIMITS.iter().map(|name| (*name, false));
        let mut exceeded = vec![];
        for (what, is_damage) in outcomes.chain(extra) {
            let limit = own.and_then(|own| own.get(what)).or_else(|| self.audit.all.get(what));
            let limit = match limit {
                Some(Limit::Number(limit)) => *limit,
                Some(Limit::Word(_)) => f64::INFINITY,
                None if is_damage => 0.0,
                None => f64::INFINITY,
            };
            let found = match what {
                "became_subnormal" => cast.became_subnormal as f64,
                "sign_lost" => cast.sign_lost as f64,
                "max_abs" => cast.max_abs.0,
                "max_rel" => cast.max_rel.0,
                "max_ulp" => cast.max_ulp.0,
                outcome => cast.count(outcome) as f64,
            };
            if found > limit {
                let found = Num(found);
                exceeded.push(format!(
                    "`{}`: {what} {found}, the limit is {}",
                    cast.node,
                    Num(limit)
                ));
            }
        }
        exceeded
    }
}

fn check_limit(what: &str, limit: &Limit) -> anyhow::Result<()> {
    let known = Outcome::ALL.iter().any(|o| o.name() == what) || EXTRA_LIMITS.contains(&what);
    ensure!(known, "`{what}` is nothing that an audit counts");
    match limit {
        Limit::Number(number) if number.is_finite() && *number >= 0.0 => Ok(()),
        Limit::Word(word) if word == "any" => Ok(()),
        _ => bail!("`{what}`: a limit is a number from 0 up, or \"any\""),
    }
}

/// Reads `KIND` or `KIND=N` of `--allow`.
pub(super) fn parse_allow(text: &str) -> Result<(String, f64), String> {
    let (what, limit) = match text.split_once('=') {
        Some((what, limit)) => (what, limit.parse::<f64>().map_err(|error| error.to_string())?),
        None => (text, f64::MAX),
    };
    check_limit(what, &Limit::Number(limit)).map_err(|error| error.to_string())?;
    Ok((what.into(), limit))
}

/// Reads `NAME:rtol=R,atol=A,ulp=N,cosine=C` of `--per-output`. The name may have colons of its own.
pub(super) fn parse_output(text: &str) -> Result<(String, ToleranceFacts), String> {
    let shape = || "it should be NAME:rtol=R,atol=A,ulp=N,cosine=C, or some of these".to_owned();
    let (name, limits) = text.rsplit_once(':').ok_or_else(shape)?;
    let mut tolerance = ToleranceFacts::default();
    for limit in limits.split(',') {
        let (what, number) = limit.split_once('=').ok_or_else(shape)?;
        let place = match what.trim() {
            "rtol" => &mut tolerance.rtol,
            "atol" => &mut tolerance.atol,
            "ulp" => &mut tolerance.ulp,
            "cosine" => {
                tolerance.cosine = Some(Num(parse_cosine(number.trim())?));
                continue;
            }
            _ => return Err(shape()),
        };
        *place = Some(Num(super::compare::parse_tolerance(number.trim())?));
    }
    Ok((name.into(), tolerance))
}

/// Reads `--cosine`.
pub(super) fn parse_cosine(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().map_err(|error| error.to_string())?;
    let is_one = (-1.0..=1.0).contains(&number);
    is_one.then_some(number).ok_or_else(|| "a cosine is a number from -1 to 1".into())
}
