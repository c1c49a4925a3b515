//! How long a run on more elements may take, by the longest so far.

use std::time::Duration;

/// The longest run so far, of what was run.
pub(crate) struct Longest<T> {
    pub(crate) took: Duration,
    elements: f64,
    of: Option<T>,
    /// Whether it ran again: a first run makes ready, and a machine may have been busy.
    is_confirmed: bool,
}

/// No run is taken to last more than so many times as long as the longest.
const MOST_GROWTH: f64 = 1e4;

impl<T> Longest<T> {
    pub(crate) fn new() -> Longest<T> {
        Longest { took: Duration::ZERO, elements: 1.0, of: None, is_confirmed: true }
    }

    /// Notes a run.
    pub(crate) fn add(&mut self, took: Duration, elements: f64, of: T) {
        if took > self.took {
            *self = Longest { took, elements, of: Some(of), is_confirmed: false };
        }
    }

    /// Whether a run on so many elements is likely to end in time, if it takes so many times as long for
    /// each. Where the longest says that it does not, that runs `again`, once.
    pub(crate) fn bears(
        &mut self,
        (elements, times): (f64, f64),
        time: Duration,
        again: impl FnOnce(&T) -> Duration,
    ) -> bool {
        let growth = times * (elements / self.elements).clamp(1.0 / times, MOST_GROWTH);
        let ends = |took: Duration| took.mul_f64(growth) < time;
        if !ends(self.took) && !self.is_confirmed && self.took < time {
            self.is_confirmed = true;
            self.took = self.of.as_ref().map_or(self.took, |of| again(of).min(self.took));
        }
        ends(self.took)
    }
}

/// How much longer sets take than as many of the first one.
pub(crate) struct Beyond {
    first: Duration,
    more: Duration,
}

/// What sets beyond the first cost, in elements of inputs that go through operators: the same on
/// every machine, whatever else it does.
pub(crate) struct Price {
    operators: f64,
    left: f64,
}

/// What all may cost, where so many of the first one cost less: a verdict takes some seconds for it.
const MOST_COST: f64 = 32e6;
const FIRSTS: f64 = 5.0;

impl Price {
    /// Of a model of so many operators.
    pub(crate) fn of(operators: usize) -> Price {
        Price { operators: operators as f64, left: MOST_COST }
    }

    /// Allows for a first set of so many elements.
    pub(crate) fn allow(&mut self, first: f64) {
        self.left = MOST_COST.max(FIRSTS * first * self.operators);
    }

    /// Whether what is left pays for a set of so many elements.
    pub(crate) fn bears(&self, elements: f64) -> bool {
        elements * self.operators <= self.left
    }

    /// Pays for it.
    pub(crate) fn add(&mut self, elements: f64) {
        self.left -= elements * self.operators;
    }
}

/// What sets of other sizes may take beyond the first one's time: a verdict on them takes some ten
/// times as long.
const MOST_BEYOND: Duration = Duration::from_millis(750);

impl Beyond {
    /// A first set that took so long.
    pub(crate) fn of(first: Duration) -> Beyond {
        Beyond { first, more: Duration::ZERO }
    }

    /// Whether one that took so long is not too much, and counts from now on.
    pub(crate) fn bears(&mut self, took: Duration) -> bool {
        let more = self.more + took.saturating_sub(self.first);
        let is_borne = more <= MOST_BEYOND;
        if is_borne {
            self.more = more;
        }
        is_borne
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_other_sizes_take_little_more_together() {
        let milli = Duration::from_millis(1);
        let mut beyond = Beyond::of(100 * milli);
        assert!(beyond.bears(100 * milli) && beyond.bears(50 * milli));
        assert!(beyond.bears(600 * milli) && !beyond.bears(400 * milli));
        assert!(
            beyond.bears(350 * milli) && !beyond.bears(101 * milli) && beyond.bears(100 * milli)
        );
    }

    #[test]
    fn sets_cost_what_five_of_the_first_do_unless_that_is_little() {
        let mut price = Price::of(100);
        price.allow(1e6);
        assert!(price.bears(5e6) && !price.bears(5.1e6));
        price.add(3e6);
        assert!(price.bears(2e6) && !price.bears(2.1e6));
        assert!(Price::of(100).bears(3e5) && !Price::of(100).bears(4e5));
    }

    #[test]
    fn a_run_that_was_slow_once_is_not_taken_for_slow() {
        let (second, fast) = (Duration::from_secs(1), Duration::from_millis(1));
        let mut longest = Longest::new();
        assert!(longest.bears((1e3, 1.0), second, |()| unreachable!("nothing ran")));
        longest.add(100 * fast, 10.0, ());
        assert!(longest.bears((1e3, 1.0), second, |()| fast));
        longest.add(100 * fast, 10.0, ());
        assert!(!longest.bears((1e3, 1.0), second, |()| 90 * fast));
        assert!(!longest.bears((1e3, 1.0), second, |()| unreachable!("it ran again")));
        assert!(longest.bears((20.0, 2.0), second, |()| unreachable!("it ends in time")));
    }
}
