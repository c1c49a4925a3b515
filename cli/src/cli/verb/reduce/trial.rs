//! Whether a part still shows what is wrong.

use tract_onnx::prelude::*;

use super::part::Part;
use crate::cli::message::counted;
use crate::cli::progress;

/// What tells whether a part shows the finding, and counts how often it was asked.
pub(super) trait PartTrial {
    /// The part with what is right as its outputs, if it shows the finding.
    /// Fails when nothing can be tried any more; a part that cannot be run shows nothing.
    fn shown(&mut self, part: Part) -> TractResult<Option<Part>>;

    /// How often a part was run.
    fn runs(&self) -> &Runs;
}

/// Attempts at smaller parts, of which those that show the finding are saved.
pub(super) struct Attempts<'a> {
    pub(super) trial: &'a mut dyn PartTrial,
    pub(super) save: &'a dyn Fn(&Part) -> TractResult<()>,
}

impl Attempts<'_> {
    /// How many runs are left.
    pub(super) fn left(&self) -> usize {
        self.trial.runs().left()
    }

    /// The part, as [`PartTrial::shown`] has it; nothing either where no run is left.
    /// Fails as [`PartTrial::shown`], or when the part cannot be saved.
    pub(super) fn shown(&mut self, part: Part) -> TractResult<Option<Part>> {
        if self.left() == 0 {
            return Ok(None);
        }
        let shown = self.trial.shown(part)?;
        shown.iter().try_for_each(self.save)?;
        Ok(shown)
    }
}

/// How often parts were run, and how often they may be.
pub(super) struct Runs {
    pub(super) made: usize,
    pub(super) most: usize,
}

impl Runs {
    /// Of a model with so many nodes.
    pub(super) fn of(nodes: usize) -> Runs {
        const ALWAYS: usize = 20;
        Runs { made: 0, most: 2 * halvings(nodes) + ALWAYS }
    }

    /// How many of those of a model with so many nodes there are to search for the cause, after so
    /// many: the rest is for halving what is left, and for making it smaller.
    pub(super) fn to_search(made: usize, nodes: usize) -> usize {
        Runs::of(nodes).most.saturating_sub(Runs::TO_SHRINK + halvings(nodes) + made)
    }

    /// How many are kept to make a part smaller.
    pub(super) const TO_SHRINK: usize = 8;

    /// Of a model with so many nodes, after so many runs.
    pub(super) fn after(made: usize, nodes: usize) -> Runs {
        Runs { made, ..Runs::of(nodes) }
    }

    /// How many are left.
    pub(super) fn left(&self) -> usize {
        self.most.saturating_sub(self.made)
    }

    /// Counts one.
    pub(super) fn count(&mut self, nodes: usize) {
        self.made += 1;
        let Runs { made, most } = self;
        progress::tell(format_args!(
            "run {made} of at most {most}, a part of {}",
            counted(nodes, "node")
        ));
    }
}

fn halvings(nodes: usize) -> usize {
    nodes.max(1).next_power_of_two().trailing_zeros() as usize
}
