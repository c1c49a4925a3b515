//! What the user sees: standard output, the error line, and whether they are coloured.

use std::io::{self, Write};
use std::path::Path;

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use clap::builder::styling::{AnsiColor, Style};

use crate::cli::message::single_line;

/// For what passed.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// For what may be wrong.
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
/// For what failed.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();

/// Standard output. A reader that has gone away, such as `head`, is no error: the work goes on in
/// silence, so that the exit status stays true.
pub(crate) struct Output {
    stdout: io::Stdout,
    is_coloured: bool,
    is_closed: bool,
    is_used: bool,
    columns: Option<usize>,
}

impl Output {
    pub(crate) fn stdout() -> Output {
        let stdout = io::stdout();
        let columns = terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0.into());
        let is_coloured = is_coloured(&stdout);
        Output { is_coloured, stdout, is_closed: false, is_used: false, columns }
    }

    /// How many characters a line of the terminal has; `None` where a program reads.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Whether a line has been written.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &str) -> anyhow::Result<()> {
        self.is_used = true;
        self.attempt(|stdout| writeln!(stdout, "{text}"))
    }

    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.attempt(|stdout| stdout.flush())
    }

    /// The text in a colour, if there are colours.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        paint(self.is_coloured, style, text)
    }

    fn attempt(
        &mut self,
        write: impl FnOnce(&mut io::Stdout) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        match write(&mut self.stdout) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.is_closed = true,
            result => result.map_err(|error| anyhow::anyhow!("standard output: {error}"))?,
        }
        Ok(())
    }
}

/// Writes the one line that explains an exit status of 2. If standard error cannot be written to,
/// there is nobody left to tell.
pub(crate) fn print_error(message: &str) {
    let mut stderr = io::stderr();
    let label = paint(is_coloured(&stderr), BAD, "error:");
    let _ = writeln!(stderr, "{label} {message}");
}

/// Writes a line about how something was done, where standard output is for what came of it.
pub(crate) fn print_note(note: &str) {
    let _ = writeln!(io::stderr(), "note: {}", single_line(note));
}

/// Writes notes on a model.
pub(crate) fn print_notes(model: &Path, notes: &[String]) {
    notes.iter().for_each(|note| print_note(&format!("{}: {note}", model.display())));
}

fn paint(is_coloured: bool, style: Style, text: &str) -> String {
    if is_coloured { format!("{style}{text}{style:#}") } else { text.into() }
}

/// As NO_COLOR, CLICOLOR and TERM say, but only on a terminal: elsewhere programs read it.
fn is_coloured(stream: &impl RawStream) -> bool {
    stream.is_terminal() && AutoStream::choice(stream) != ColorChoice::Never
}
