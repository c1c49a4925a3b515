//! What can be said of a cast without running the model.

use std::fmt;

/// Something to know about a cast that can be seen without running the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// Source and target are the same type: the node does nothing, but where FLOAT8E5M2 saturates.
    NoOp,
    /// The cast takes the result of another that widened, so every value arrives here as it was;
    /// most often one cast would do, or none.
    WidenedBefore,
    /// The cast's target could hold more than what another cast before it has left: that does not
    /// come back.
    NarrowedBefore,
    /// The model declares the result to be of another type. No runtime should accept it.
    Contradicted,
    /// INT64 to INT32: an identifier or a size may not fit.
    Int64ToInt32,
    /// Floating point to an integer type that does not hold the integral parts of all its values;
    /// the result of the others is undefined.
    FloatToInteger,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [FindingKind; 6] = [
        FindingKind::NoOp,
        FindingKind::WidenedBefore,
        FindingKind::NarrowedBefore,
        FindingKind::Contradicted,
        FindingKind::Int64ToInt32,
        FindingKind::FloatToInteger,
    ];

    /// The kind's name in reports: `narrowed_before`.
    pub const fn name(self) -> &'static str {
        match self {
            FindingKind::NoOp => "no_op",
            FindingKind::WidenedBefore => "widened_before",
            FindingKind::NarrowedBefore => "narrowed_before",
            FindingKind::Contradicted => "contradicted",
            FindingKind::Int64ToInt32 => "int64_to_int32",
            FindingKind::FloatToInteger => "float_to_integer",
        }
    }
}

/// A finding about one cast.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The place of the cast among the rows of an audit
    /// ([`Survey::rows`](crate::survey::Survey::rows)).
    pub place: usize,
    /// What kind of finding it is.
    pub kind: FindingKind,
    /// What was found, in words.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
