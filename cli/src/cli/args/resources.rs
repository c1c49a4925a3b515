//! What tract may use of the machine.

use std::time::Duration;

use clap::Args;

use crate::cli::work::engine::Engine;

/// The limits of each worker, as the user sets them; what is missing follows from the files.
#[derive(Args, Clone, Copy)]
pub(crate) struct Resources {
    /// Memory that a model may use [default: 4 GiB and six times what its files hold, as far as the
    /// machine has it].
    #[arg(long, value_name = "GIB", global = true)]
    #[arg(value_parser = parse_memory)]
    pub(crate) max_memory: Option<u64>,
    /// The most nodes that a plan may have; making one takes a time that grows with their square
    /// [default: 6144, and one for each KiB of weights].
    #[arg(long, value_name = "N", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_nodes: Option<u64>,
    /// Time that a model may take [default: to run, no limit, but 600 s for one that `test` or `audit`
    /// finds in a folder; to load, 4 s and 1 s for each MiB of the file and its data].
    #[arg(long, value_name = "SECONDS", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// How models run: by `nodes`, one after the other, or by a `plan`, which tract makes of the whole
    /// model [default: nodes for compare, audit and keep; else plan, or nodes where there is none].
    #[arg(long, value_enum, value_name = "ENGINE", global = true, hide_possible_values = true)]
    pub(crate) engine: Option<Engine>,
    #[arg(skip)]
    default_timeout: Option<Duration>,
}

/// Reads `--max-memory`.
fn parse_memory(text: &str) -> Result<u64, String> {
    let most = 1 << 20;
    let number = text.parse::<u64>().ok().filter(|number| (1..most).contains(number));
    number.ok_or_else(|| format!("it should be whole GiB, from 1 to {}", most - 1))
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
