//! The name of a node in what an operator keeps for its messages.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A node's name, which is no part of what its operator is: all labels are equal, so that tract
/// finds operators of different nodes to be the same.
#[derive(Clone, Default)]
pub(crate) struct Label(String);

impl<T: Into<String>> From<T> for Label {
    fn from(name: T) -> Label {
        Label(name.into())
    }
}

impl PartialEq for Label {
    fn eq(&self, _: &Label) -> bool {
        true
    }
}

impl Eq for Label {}

impl Hash for Label {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl std::ops::Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
