//! Choices, the same for the same seed.

use crate::common::elements::SplitMix64;

pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Random {
        let mut first = SplitMix64(seed);
        Random(SplitMix64(first.next()))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next()
    }

    pub fn below(&mut self, count: usize) -> usize {
        (self.bits() % count.max(1) as u64) as usize
    }

    /// Whether one of so many comes true.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// One of the list, if there is any.
    pub fn maybe<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        (!list.is_empty()).then(|| self.of(list))
    }
}
