//! What a pass has changed, counted, and told where it is asked for.

use std::fmt;

/// What edits have changed since the last [`Graph::take_changes`](crate::Graph::take_changes).
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Nodes that were added.
    pub(crate) added: usize,
    /// Nodes that were removed.
    pub(crate) removed: usize,
    /// Inputs of nodes, and outputs of bodies, that have another value.
    pub(crate) rewired: usize,
    /// A line for each of them, if lines are kept.
    pub(crate) lines: Vec<String>,
    pub(crate) keeps_lines: bool,
}

impl Changes {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.added + self.removed + self.rewired == 0
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Changes { added, removed, rewired, .. } = self;
        write!(f, "{added} nodes added, {removed} removed, {rewired} uses rewired")?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}
