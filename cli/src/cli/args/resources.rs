//! What tract may use of the machine.

use std::time::Duration;

use clap::Args;

use crate::cli::work::engine::Engine;

/// The limits of each worker, as the user sets them; what is missing follows from the files.
#[derive(Args, Clone, Copy)]
pub(crate) struct Resources {
    /// Memory that a model may use, in GiB, or with a unit as in 1.5GiB, 768MiB or 1TB [default: 4
    /// GiB and six times what its files hold, as far as the machine has it].
    #[arg(long, value_name = "GIB", global = true)]
    #[arg(value_parser = parse_memory)]
    pub(crate) max_memory: Option<u64>,
    /// The most nodes that a plan may have; making one takes a time that grows with their square
    /// [default: 6144, and one for each KiB of weights].
    #[arg(long, value_name = "N", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_nodes: Option<u64>,
    /// Time that a model may take [default: to run, no limit, but 600 s for one that `test` or
    /// `audit` finds in a folder; to load, 4 s and 1 s for each MiB of the file and its data].
    #[arg(long, value_name = "SECONDS", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// How models run: by `nodes`, one after the other, or by a `plan`, which tract makes of the
    /// whole model [default: nodes for compare, audit and keep; else plan, or nodes where there is
    /// none, and for one run of more than 1,280 nodes].
    #[arg(long, value_enum, value_name = "ENGINE", global = true, hide_possible_values = true)]
    pub(crate) engine: Option<Engine>,
    #[arg(skip)]
    default_timeout: Option<Duration>,
}

/// Reads `--max-memory`, in bytes.
fn parse_memory(text: &str) -> Result<u64, String> {
    const MOST: u64 = 1 << 20;
    let lower = text.to_ascii_lowercase();
    let units = [
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
    ];
    let of_unit = |(name, unit): (&str, u64)| Some((lower.strip_suffix(name)?, unit));
    let (number, unit) = units.into_iter().find_map(of_unit).unwrap_or((&lower, 1 << 30));
    // Digits, and a point among them: what else spells a number here is none elsewhere.
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = number.parse::<f64>().ok().filter(|_| is_plain);
    let bytes = number.map(|number| (number * unit as f64) as u64);
    let bytes = bytes.filter(|bytes| (1 << 20..MOST << 30).contains(bytes));
    bytes.ok_or_else(|| {
        format!("it should be GiB, or such as 1.5GiB or 768MiB, from 1MiB to {}GiB", MOST - 1)
    })
}

/// How long a model may take that nobody has named: among those of a folder may be one that never
/// ends.
const FOLDER_TIMEOUT: Duration = Duration::from_secs(600);

impl Resources {
    /// How long a worker may take for an answer.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_secs).or(self.default_timeout)
    }

    /// Whether the user has said how long.
    pub(crate) fn is_timeout_said(&self) -> bool {
        self.timeout.is_some()
    }

    /// These for the models that folders have.
    pub(crate) fn for_folders(self) -> Resources {
        Resources { default_timeout: Some(FOLDER_TIMEOUT), ..self }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        resources: Resources,
    }

    #[test]
    fn memory_has_a_unit_or_is_in_gib() {
        let mib = |text| parse_memory(text).ok().map(|bytes| bytes >> 20);
        assert_eq!(["1", "4", "1048575"].map(mib), [Some(1024), Some(4096), Some(1_073_740_800)]);
        assert_eq!(["0.5", "1.5GiB", "768MiB", "768mib"].map(mib), [512, 1536, 768, 768].map(Some));
        assert_eq!(["1TiB", "0.5tib"].map(mib), [1 << 20, 1 << 19].map(Some));
        let bytes = |text| parse_memory(text).ok();
        let decimal = ["1TB", "1.5GB", "768mb"].map(bytes);
        assert_eq!(decimal, [1_000_000_000_000, 1_500_000_000, 768_000_000].map(Some));
        let wrong =
            ["", "0", "0.0001", "1e3", "-1", "+1", "1 GiB", "1G", "1KB", "MiB", ".", "inf", "NaN"];
        assert!(wrong.iter().all(|text| mib(text).is_none()));
        assert_eq!([mib("1048576"), mib("1024TiB")], [None, None]);
    }

    /// Among the models that nobody has named may be one that never ends.
    #[test]
    fn models_of_folders_are_given_a_limited_time() {
        let typed = |words: &[&str]| Typed::try_parse_from(words).expect("options").resources;
        let silent = typed(&["onnx-cast"]);
        assert_eq!(
            (silent.timeout(), silent.for_folders().timeout()),
            (None, Some(FOLDER_TIMEOUT))
        );
        let said = typed(&["onnx-cast", "--timeout", "9"]).for_folders();
        assert_eq!((said.timeout(), said.is_timeout_said()), (Some(Duration::from_secs(9)), true));
    }
}
