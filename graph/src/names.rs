//! The one authority for names, and what may be wrong with those of a file.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::Bound;
use std::sync::Arc;

/// Whether a character of a name would not be seen as itself: one that ends a line or that a
/// terminal obeys, or that turns the direction of what stands around it, so that a line reads as
/// another (Unicode's control characters, separators of lines, and `Bidi_Control`).
pub fn is_unprintable(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// How many there are of what is called so: `1 row`, `2 rows`.
pub fn counted(count: impl Display, what: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Every name in a model: of values and of nodes, in all bodies.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamePool {
    taken: BTreeSet<Arc<str>>,
}

impl NamePool {
    /// Keeps a name of the file, one copy of it for all who have it.
    pub(crate) fn keep(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.taken.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.taken.insert(name.clone());
        name
    }

    /// A name that nobody has: the one that is wanted, or one with a number behind it.
    pub(crate) fn new_name(&mut self, wanted: &str) -> Arc<str> {
        if !wanted.is_empty() && !self.taken.contains(wanted) {
            return self.keep(wanted);
        }
        // There are fewer names than numbers.
        let numbered = (1u64..).map(|number| format!("{wanted}~{number}"));
        let free = numbered.take(self.taken.len() + 1).find(|name| !self.taken.contains(&**name));
        self.keep(&free.unwrap_or_default())
    }

    /// Whether no name begins so.
    pub(crate) fn is_free_prefix(&self, prefix: &str) -> bool {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let next = self.taken.range::<str, _>(from).next();
        next.is_none_or(|name| !name.starts_with(prefix))
    }
}

/// Something wrong with the names of a file: what no graph can stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misnamed {
    /// What it is about.
    pub at: At,
    /// What is wrong.
    pub text: String,
}

/// What a problem is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// A graph, by its name.
    Graph(String),
    /// A node, by what messages call it, and its operator.
    Node(String, String),
}
