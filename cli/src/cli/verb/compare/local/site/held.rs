//! How far elements of a twin are from the reference's, each alone and all of them together.
//!
//! Weights have hundreds of millions of elements: what is asked of each is asked of many at once,
//! in loops without branches.

use crate::cli::measure::lanes::{AT_ONCE, Room, greatest, power};

/// Some elements of a twin and of the reference that follow one another.
pub(in super::super) struct HeldElements<'a> {
    /// The place of the first.
    pub(in super::super) first: usize,
    pub(in super::super) got: &'a [f64],
    pub(in super::super) want: &'a [f64],
    /// By how much two sound ways to compute each may be apart.
    pub(in super::super) own: &'a [f64],
    /// By how much each may be off otherwise.
    pub(in super::super) doubts: &'a [f64],
    /// Whether a type ends at an element, so that it may be anything.
    pub(in super::super) is_end: &'a [bool],
}

/// An element, how far it is off, and by how much rounding may put it off.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Worst {
    pub(in super::super) place: usize,
    pub(in super::super) got: f64,
    pub(in super::super) want: f64,
    pub(in super::super) error: f64,
    pub(in super::super) bound: f64,
    /// The error divided by the bound.
    pub(in super::super) excess: f64,
    /// How many elements are beyond theirs.
    pub(in super::super) count: u64,
}

/// What the elements of a value are off, and what rounding may put them off, by their powers.
#[derive(Debug, Default)]
pub(in super::super) struct Whole {
    error: f64,
    own: f64,
    doubt: f64,
    /// The sum of the fourth powers of the doubts.
    fourth: f64,
    /// The element that is farthest off.
    pub(in super::super) largest: Worst,
}

/// What some elements are off, and what rounding may put them off, by their powers, as [`Whole`]
/// has it.
pub(in super::super) struct WholeSums {
    pub(in super::super) error: f64,
    pub(in super::super) own: f64,
    pub(in super::super) doubt: f64,
    pub(in super::super) fourth: f64,
    /// How far the farthest is off.
    pub(in super::super) largest: f64,
}

/// Where so many elements have doubts of a size, chance does not put the power of them all off by
/// more than `BEYOND_CHANCE` times what is likely.
const MANY: f64 = 4.0;
const BEYOND_CHANCE: f64 = 3.0;

impl HeldElements<'_> {
    /// Gives parts of [`AT_ONCE`] elements to a function.
    #[inline(always)]
    fn in_parts(&self, mut take: impl FnMut(&HeldElements)) {
        let values = self.got.chunks(AT_ONCE).zip(self.want.chunks(AT_ONCE));
        let bounds = self.own.chunks(AT_ONCE).zip(self.doubts.chunks(AT_ONCE));
        let each = values.zip(bounds).zip(self.is_end.chunks(AT_ONCE)).enumerate();
        for (part, (((got, want), (own, doubts)), is_end)) in each {
            let first = self.first + part * AT_ONCE;
            take(&HeldElements { first, got, want, own, doubts, is_end });
        }
    }

    #[inline(always)]
    fn pairs(&self) -> impl Iterator<Item = (f64, f64)> {
        self.got.iter().copied().zip(self.want.iter().copied())
    }

    /// An element, and how many times its bound it is off: NaN where the bound explains whatever
    /// there may be.
    fn at(&self, place: usize) -> Option<Worst> {
        let (got, want) = (*self.got.get(place)?, *self.want.get(place)?);
        let bound = self.own.get(place)? + 2.0 * self.doubts.get(place)?;
        let error = (got - want).abs();
        let error = if error.is_nan() { f64::INFINITY } else { error };
        let excess = if bound > 0.0 { error / bound } else { f64::INFINITY };
        let place = self.first + place;
        Some(Worst { place, got, want, error, bound, excess, count: 0 })
    }
}

impl Worst {
    /// Holds each element alone against its bound.
    #[inline(always)]
    pub(in super::super) fn hold(&mut self, held: &HeldElements) {
        let mut room = Room::<1>::new();
        held.in_parts(
            #[inline(always)]
            |part| {
                let [beyond] = room.of(part.got.len());
                self.hold_part(part, beyond);
            },
        );
    }

    #[inline(always)]
    fn hold_part(&mut self, held: &HeldElements, beyond: &mut [f64]) {
        let bounds = held.own.iter().zip(held.doubts).map(|(own, doubt)| own + 2.0 * doubt);
        let each = held.pairs().zip(bounds).zip(held.is_end);
        for (beyond, ((pair, bound), is_end)) in beyond.iter_mut().zip(each) {
            *beyond = if is_within(pair, bound) | is_end { 0.0 } else { 1.0 };
        }
        if beyond.iter().fold(false, |is_any, beyond| is_any | (*beyond != 0.0)) {
            self.count_beyond(held, beyond);
        }
    }

    #[cold]
    fn count_beyond(&mut self, held: &HeldElements, beyond: &[f64]) {
        let mut count = self.count;
        for (place, _) in beyond.iter().enumerate().filter(|(_, beyond)| **beyond != 0.0) {
            count += 1;
            if let Some(worst) = held.at(place)
                && worst.excess > self.excess
            {
                *self = worst;
            }
        }
        self.count = count;
    }
}

/// Whether an element is off by no more than its bound.
#[inline(always)]
fn is_within((got, want): (f64, f64), bound: f64) -> bool {
    ((got - want).abs() <= bound) | (got == want) | (got.is_nan() & want.is_nan())
}

impl Whole {
    /// Adds elements that are numbers, and no end of a type.
    #[inline(always)]
    pub(in super::super) fn add(&mut self, held: &HeldElements) {
        let mut room = Room::<4>::new();
        held.in_parts(
            #[inline(always)]
            |part| self.add_part(part, room.of(part.got.len())),
        );
    }

    #[inline(always)]
    fn add_part(&mut self, held: &HeldElements, counted: [&mut [f64]; 4]) {
        let [errors, owns, doubts, squares] = counted;
        let each = held.pairs().zip(held.own.iter().zip(held.doubts)).zip(held.is_end);
        let places = errors.iter_mut().zip(owns.iter_mut());
        let places = places.zip(doubts.iter_mut().zip(squares.iter_mut()));
        for (((error, own), (doubt, square)), (((got, want), (of_own, of_doubt)), is_end)) in
            places.zip(each)
        {
            let off = (got - want).abs();
            let is_counted = off.is_finite() & of_own.is_finite() & of_doubt.is_finite() & !is_end;
            let of = |x: f64| if is_counted { x } else { 0.0 };
            (*error, *own, *doubt) = (of(off), of(*of_own), of(*of_doubt));
            *square = *doubt * *doubt;
        }
        if greatest(errors) > self.largest.error {
            self.find_largest(held, errors);
        }
        self.error += power(errors);
        self.own += power(owns);
        self.doubt += power(doubts);
        self.fourth += power(squares);
    }

    /// The same of elements by what they come to, which was found elsewhere, none of them farther
    /// off than the largest so far.
    #[inline(always)]
    pub(in super::super) fn add_sums(&mut self, sums: &WholeSums) {
        self.error += sums.error;
        self.own += sums.own;
        self.doubt += sums.doubt;
        self.fourth += sums.fourth;
    }

    #[cold]
    fn find_largest(&mut self, held: &HeldElements, errors: &[f64]) {
        for (place, error) in errors.iter().enumerate() {
            if *error > self.largest.error
                && let Some(worst) = held.at(place)
            {
                self.largest = Worst { excess: 0.0, ..worst };
            }
        }
    }

    /// By how many times more than chance explains the elements are off together; `share` of the
    /// power of their doubts is likely.
    pub(in super::super) fn excess(&self, share: f64) -> f64 {
        let is_of_many = self.doubt * self.doubt > MANY * self.fourth && self.doubt > 0.0;
        let likely = BEYOND_CHANCE * (share * self.doubt).sqrt() + self.own.sqrt();
        if is_of_many { self.error.sqrt() / likely } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFINITY: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;

    /// Elements that are made and wanted, their own rounding and their doubts.
    const ELEMENTS: [(f64, f64, f64, f64); 9] = [
        (1.0, 1.0, 0.0, 0.0),
        (1.0, 1.5, 0.25, 0.125),
        (2.0, 1.0, 0.25, 0.125),
        (INFINITY, INFINITY, 0.0, 0.0),
        (INFINITY, 1.0, INFINITY, 0.0),
        (NAN, NAN, 0.0, 0.0),
        (3.0, 1.0, 0.25, 0.125),
        (NAN, 1.0, 1.0, 1.0),
        (9.0, 1.0, 0.25, 0.125),
    ];

    /// Holds some of [`ELEMENTS`], the last of which is where a type ends.
    fn held<T>(places: std::ops::Range<usize>, of: impl FnOnce(&HeldElements) -> T) -> T {
        let elements = &ELEMENTS[places.clone()];
        let got: Vec<f64> = elements.iter().map(|element| element.0).collect();
        let want: Vec<f64> = elements.iter().map(|element| element.1).collect();
        let own: Vec<f64> = elements.iter().map(|element| element.2).collect();
        let doubts: Vec<f64> = elements.iter().map(|element| element.3).collect();
        let is_end: Vec<bool> = places.clone().map(|place| place == ELEMENTS.len() - 1).collect();
        let (first, got, want, own) = (places.start, &*got, &*want, &*own);
        of(&HeldElements { first, got, want, own, doubts: &doubts, is_end: &is_end })
    }

    #[test]
    fn the_element_farthest_beyond_its_bound_is_the_worst() {
        let mut worst = Worst::default();
        held(0..7, |held| worst.hold(held));
        assert_eq!((worst.place, worst.got, worst.want), (6, 3.0, 1.0));
        assert_eq!((worst.error, worst.bound, worst.excess, worst.count), (2.0, 0.5, 4.0, 2));
        held(7..9, |held| worst.hold(held));
        assert_eq!((worst.place, worst.error, worst.excess), (7, INFINITY, INFINITY));
        assert_eq!(worst.count, 3);
    }

    #[test]
    fn elements_together_are_those_that_are_numbers() {
        let (mut at_once, mut in_parts) = (Whole::default(), Whole::default());
        held(0..9, |held| at_once.add(held));
        [0..2, 2..5, 5..9].into_iter().for_each(|part| held(part, |held| in_parts.add(held)));
        for whole in [at_once, in_parts] {
            assert_eq!((whole.error, whole.own), (0.25 + 1.0 + 4.0, 3.0 * 0.0625));
            assert_eq!((whole.doubt, whole.fourth), (3.0 / 64.0, 3.0 / 4096.0));
            assert_eq!((whole.largest.place, whole.largest.bound), (6, 0.5));
        }
    }

    #[test]
    fn a_bound_without_end_explains_what_is_no_number() {
        let mut worst = Worst::default();
        let (got, want, own, doubts, is_end) = (&[NAN], &[1.0], &[1.0], &[INFINITY], &[false]);
        worst.hold(&HeldElements { first: 0, got, want, own, doubts, is_end });
        assert_eq!((worst.excess, worst.count), (0.0, 1));
    }

    #[test]
    fn of_many_elements_each_is_held_at_its_place() {
        const MANY: usize = 2 * AT_ONCE + 3;
        let (want, own, doubts, is_end) = ([1.0; MANY], [0.25; MANY], [0.0; MANY], [false; MANY]);
        for place in [0, AT_ONCE - 1, AT_ONCE, MANY - 1] {
            let mut got = want;
            got[place] = 3.0;
            let (got, want, own, doubts) = (&got, &want, &own, &doubts);
            let held = HeldElements { first: 7, got, want, own, doubts, is_end: &is_end };
            let (mut worst, mut whole) = (Worst::default(), Whole::default());
            worst.hold(&held);
            whole.add(&held);
            assert_eq!((worst.place, worst.count, worst.excess), (7 + place, 1, 8.0));
            assert_eq!((whole.largest.place, whole.error), (7 + place, 4.0));
            assert_eq!(whole.own, MANY as f64 / 16.0);
        }
    }
}
