//! What a pass has changed, counted, and told where it is asked for.

use std::fmt;

/// What edits have changed since the last [`Graph::take_changes`](crate::Graph::take_changes).
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Nodes that were added.
    pub added: usize,
    /// Nodes that were removed.
    pub removed: usize,
    /// Inputs of nodes, and outputs of bodies, that have another value.
    pub rewired: usize,
    /// A line for each of them, if lines are kept.
    pub lines: Vec<String>,
    pub(crate) keeps_lines: bool,
}

impl Changes {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.added + self.removed + self.rewired == 0
    }

    pub(crate) fn line(&mut self, line: impl FnOnce() -> String) {
        if self.keeps_lines {
            self.lines.push(line());
        }
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Changes { added, removed, rewired, .. } = self;
        write!(f, "{added} nodes added, {removed} removed, {rewired} uses rewired")?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}
