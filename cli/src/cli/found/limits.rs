//! What may be found without failing: limits from the command line and from a model's tolerance
//! file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tract_onnx_cast::ElementType;
use tract_onnx_cast::audit::Outcome;

use crate::cli::found::audited::{AuditedCast, MOST_CUT_OFF};
use crate::cli::found::finding::{Code, FindingRow, Severity, TABLE};
use crate::cli::input_file::read_regular_text;
use crate::cli::measure::number::Num;
use crate::cli::measure::tolerance::Tolerance;

/// A model's tolerance file, and what the options of the command line change of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToleranceLimits {
    #[serde(default)]
    audit: CastLimits,
    #[serde(default)]
    compare: OutputTolerances,
    /// Up to which relative error outputs are of use, by the name of an element type.
    #[serde(default)]
    verdict: BTreeMap<String, f64>,
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

/// How far outputs may be off: a [`Tolerance`], and those of single outputs. (serde cannot flatten
/// a structure into one that refuses unknown fields.)
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

impl ToleranceLimits {
    /// The file that was asked for, or the one beside the model: `NAME.tolerance.toml` for
    /// `NAME.onnx`.
    pub(crate) fn of(
        model: &Path,
        file: Option<&Path>,
    ) -> anyhow::Result<(ToleranceLimits, Option<PathBuf>)> {
        let beside = model.with_extension("tolerance.toml");
        let path = match file {
            Some(file) => file,
            None if beside.symlink_metadata().is_ok() => &beside,
            None => return Ok((ToleranceLimits::default(), None)),
        };
        let name = path.display();
        let text = read_regular_text(path).with_context(|| name.to_string())?;
        let limits = ToleranceLimits::parse(&text).with_context(|| name.to_string())?;
        Ok((limits, Some(path.into())))
    }

    fn parse(text: &str) -> anyhow::Result<ToleranceLimits> {
        let limits: ToleranceLimits = toml::from_str(text)?;
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
        for (ty, limit) in &limits.verdict {
            let is_known = ElementType::from_name(ty).is_some();
            let is_limit = limit.is_finite() && *limit >= 0.0;
            if !is_known || !is_limit {
                bail!(
                    "[verdict] {ty} = {limit}: an element type and a number from 0 up are wanted"
                );
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

    /// Up to which relative error outputs are of use of a conversion to this type, if somebody has
    /// said.
    pub(crate) fn of_use(&self, ty: &str) -> Option<f64> {
        self.verdict.get(ty).copied()
    }

    /// Whether outputs are judged by a tolerance that somebody has given.
    pub(crate) fn has_tolerance(&self) -> bool {
        let none = Tolerance::default();
        self.compare.all() != none || self.compare.output.values().any(|given| *given != none)
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

    /// What somebody has said of how much of that a node may do.
    fn given(&self, node: &str, code: Code) -> Option<f64> {
        let own = self.audit.cast.get(node).and_then(|own| own.get(code.name()));
        Some(match own.or_else(|| self.audit.all.get(code.name()))? {
            Limit::Number(limit) => *limit,
            Limit::Word(_) => f64::INFINITY,
        })
    }

    /// How much of that a node may do: what damages values, nothing.
    fn limit(&self, node: &str, code: Code) -> f64 {
        let counts = Code::counted().any(|counted| counted == code);
        let is_damage = matches!(code, Code::MadeInfinite | Code::MadeNan)
            || Outcome::ALL.iter().any(|o| o.is_damage() && Code::from(*o) == code);
        let usual = if is_damage || !counts { 0.0 } else { f64::INFINITY };
        self.given(node, code).unwrap_or(usual)
    }

    /// How much of that a cast may do: a quantiser may cut off few values, unless somebody has said
    /// how many.
    fn limit_of(&self, cast: &AuditedCast, code: Code) -> f64 {
        let is_said =
            [Code::Saturated, code].iter().any(|code| self.given(&cast.node, *code).is_some());
        match code {
            Code::SaturatedShare if cast.is_quantizer() && !is_said => MOST_CUT_OFF,
            code => self.limit(&cast.node, code),
        }
    }

    /// What a cast did beyond its limits.
    pub(crate) fn exceeded(&self, cast: &AuditedCast) -> Vec<FindingRow> {
        let exceeded = |code: Code| {
            let (found, limit) = (cast.measure(code), self.limit_of(cast, code));
            let reach = if code == Code::SaturatedShare { cast.reach_in_words() } else { None };
            let more = reach.map_or(String::new(), |reach| format!(": {reach}"));
            let sentence =
                || format!("{} {}, the limit is {}{more}", code.name(), Num(found), Num(limit));
            (found > limit).then(|| FindingRow::at(&cast.node, &cast.graph, code, sentence()))
        };
        Code::counted().filter_map(exceeded).collect()
    }

    /// What else was found; an error that is allowed is only to be known.
    pub(crate) fn judged(&self, mut finding: FindingRow) -> FindingRow {
        let is_whole = !Code::counted().any(|code| code == finding.code);
        if is_whole && finding.code.is_limitable() && self.limit(&finding.node, finding.code) >= 1.0
        {
            finding.severity = finding.severity.min(Severity::Note);
        }
        finding
    }
}

/// Whether an audit counts that, and whether it can be limited so. Fails when it does not or
/// cannot.
pub(crate) fn check_limit(what: &str, limit: &Limit) -> anyhow::Result<()> {
    let is_known = Code::named(what).is_some_and(Code::is_limitable);
    let known = TABLE.iter().filter(|entry| entry.code.is_limitable()).map(|entry| entry.name);
    let known: Vec<&str> = known.collect();
    let stem = what.get(..5).unwrap_or(what);
    let near: Vec<&str> = known.iter().copied().filter(|name| name.starts_with(stem)).collect();
    match near[..] {
        _ if is_known => {}
        [near] => bail!("an audit counts no `{what}`: did you mean `{near}`?"),
        _ => bail!("an audit counts no `{what}`, but {}", known.join(", ")),
    }
    match limit {
        Limit::Number(number) if number.is_finite() && *number >= 0.0 => Ok(()),
        Limit::Word(word) if word == "any" => Ok(()),
        _ => bail!("`{what}`: a limit is a number from 0 up, or \"any\""),
    }
}
