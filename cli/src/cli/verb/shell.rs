//! `onnx-cast completions` and `onnx-cast man`: what a shell and `man` know of the program.

use clap::Args;

use crate::cli::command;
use crate::cli::found::status::Status;
use crate::cli::report::terminal::Output;

/// Print completions for a shell.
#[derive(Args)]
#[command(after_help = "Example:
  onnx-cast completions bash > ~/.local/share/bash-completion/completions/onnx-cast")]
pub(crate) struct Completions {
    shell: clap_complete::Shell,
}

impl Completions {
    pub(super) fn run(self, output: &mut Output) -> anyhow::Result<Status> {
        let mut text = vec![];
        clap_complete::generate(self.shell, &mut command(), "onnx-cast", &mut text);
        output.line(String::from_utf8_lossy(&text).trim_end())?;
        Ok(Status::Passed)
    }
}

/// Print a manual page, of the program or of one command.
#[derive(Args)]
#[command(after_help = "Example:
  onnx-cast man compare > onnx-cast-compare.1")]
pub(crate) struct Man {
    /// The command; all of them in short without it.
    command: Option<String>,
}

impl Man {
    pub(super) fn run(self, output: &mut Output) -> anyhow::Result<Status> {
        let mut whole = command();
        whole.build();
        let page = match &self.command {
            None => whole,
            Some(name) => {
                let found = whole.find_subcommand(name).cloned();
                found.ok_or_else(|| anyhow::anyhow!("there is no command `{name}`"))?
            }
        };
        let mut text = vec![];
        clap_mangen::Man::new(page).render(&mut text)?;
        output.line(String::from_utf8_lossy(&text).trim_end())?;
        Ok(Status::Passed)
    }
}
