//! How limits and tolerances are typed.

use clap::Args;

use crate::cli::found::limits::{Limit, check_limit};
use crate::cli::measure::tolerance::{Tolerance, check_cosine, check_sqnr, check_tolerance};

/// How far every output may be off.
#[derive(Args)]
pub(crate) struct ToleranceArgs {
    /// Relative tolerance.
    #[arg(long, value_name = "R", value_parser = parse_tolerance, allow_negative_numbers = true)]
    pub(crate) rtol: Option<f64>,
    /// Absolute tolerance.
    #[arg(long, value_name = "A", value_parser = parse_tolerance, allow_negative_numbers = true)]
    pub(crate) atol: Option<f64>,
    /// Tolerance in units in the last place.
    #[arg(long, value_name = "N", value_parser = parse_tolerance, allow_negative_numbers = true)]
    pub(crate) ulp: Option<f64>,
    /// The least cosine similarity of an output.
    #[arg(long, value_name = "C", value_parser = parse_cosine, allow_negative_numbers = true)]
    pub(crate) cosine: Option<f64>,
    /// The least signal-to-quantisation-noise ratio of an output, in decibels.
    #[arg(long, value_name = "DB", value_parser = parse_sqnr, allow_negative_numbers = true)]
    pub(crate) sqnr: Option<f64>,
}

impl ToleranceArgs {
    /// The tolerance of an output that has none of its own.
    pub(crate) fn of_every_output(&self) -> Tolerance {
        let ToleranceArgs { rtol, atol, ulp, cosine, sqnr } = *self;
        Tolerance { rtol, atol, ulp, cosine, sqnr }
    }
}

/// Reads `--rtol`, `--atol` or `--ulp`.
pub(crate) fn parse_tolerance(text: &str) -> Result<f64, String> {
    let number = parse_number(text)?;
    check_tolerance(number)?;
    Ok(number)
}

/// Reads `--cosine`.
fn parse_cosine(text: &str) -> Result<f64, String> {
    let number = parse_number(text)?;
    check_cosine(number)?;
    Ok(number)
}

/// Reads `--sqnr`.
fn parse_sqnr(text: &str) -> Result<f64, String> {
    let number = parse_number(text)?;
    check_sqnr(number)?;
    Ok(number)
}

/// Reads `KIND` or `KIND=N` of `--allow`.
pub(crate) fn parse_allow(text: &str) -> Result<(String, f64), String> {
    let (what, limit) = match text.split_once('=') {
        Some((what, limit)) => (what, parse_number(limit)?),
        None => (text, f64::MAX),
    };
    check_limit(what, &Limit::Number(limit)).map_err(|error| error.to_string())?;
    Ok((what.into(), limit))
}

/// Reads `NAME:rtol=R,atol=A,ulp=N,cosine=C,sqnr=DB` of `--per-output`. The name may have colons of
/// its own.
pub(crate) fn parse_output(text: &str) -> Result<(String, Tolerance), String> {
    let shape =
        || "it should be NAME:rtol=R,atol=A,ulp=N,cosine=C,sqnr=DB, or some of these".to_owned();
    let (name, limits) = text.rsplit_once(':').ok_or_else(shape)?;
    let mut tolerance = Tolerance::default();
    for limit in limits.split(',') {
        let (what, number) = limit.split_once('=').ok_or_else(shape)?;
        let number = number.trim();
        match what.trim() {
            "rtol" => tolerance.rtol = Some(parse_tolerance(number)?),
            "atol" => tolerance.atol = Some(parse_tolerance(number)?),
            "ulp" => tolerance.ulp = Some(parse_tolerance(number)?),
            "cosine" => tolerance.cosine = Some(parse_cosine(number)?),
            "sqnr" => tolerance.sqnr = Some(parse_sqnr(number)?),
            _ => return Err(shape()),
        }
    }
    Ok((name.into(), tolerance))
}

fn parse_number(text: &str) -> Result<f64, String> {
    text.parse::<f64>().map_err(|error| error.to_string())
}
