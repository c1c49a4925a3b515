//! What tract may use of the machine.

use std::time::Duration;

use clap::Args;

/// The limits of each worker, as the user sets them; what is missing follows from the files.
#[derive(Args, Clone, Copy)]
pub(crate) struct Resources {
    /// Memory that tract may use [default: 4 GiB and six times what the files hold].
    #[arg(long, value_name = "GIB", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    pub(crate) max_memory: Option<u64>,
    /// Nodes that tract may be given to load, by whose square its time grows [default: 4096, and one for each KiB of weights].
    #[arg(long, value_name = "N", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_nodes: Option<u64>,
    /// Time that tract may take for a model [default: any to run it; to load it 4 s, and 1 s for each MiB of the file and its data].
    #[arg(long, value_name = "SECONDS", global = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
}

impl Resources {
    /// How long a worker may take for an answer.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_secs)
    }
}
