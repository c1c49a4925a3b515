//! Elements of which none asks for a closer look, as those of most weights: finite numbers of a
//! usual size within their bounds. All that counts of them is found in one loop, with the very sums
//! that a look at each has.

use tract_onnx_cast::ElementType;

use super::super::numbers::largest;
use super::super::site::held::WholeSums;
use crate::cli::measure::lanes::{AT_ONCE, SIDE_BY_SIDE, summed};
use crate::cli::measure::reach::STANDS_FOR_INFINITY;
use crate::cli::measure::weight::ends::EndCodes;

/// By how much two sound ways to compute an element may be apart.
pub(super) struct Margin {
    /// For each unit of its size.
    pub(super) unit: f64,
    pub(super) least: f64,
    /// Where the twin's type ends.
    pub(super) end: f64,
    /// Whether the conversion has a mask that is cut off.
    pub(super) cuts_masks: bool,
}

/// Elements that follow one another, as numbers of one length.
pub(super) struct Block<'a> {
    pub(super) start: usize,
    pub(super) made: &'a [f64],
    pub(super) want: &'a [f64],
    pub(super) got: &'a [f64],
    /// Of which they are made; empty where these do not count.
    pub(super) codes: &'a [f64],
    /// By how much each may be off.
    pub(super) doubts: &'a [f64],
}

/// What elements come to.
pub(super) struct PlainSums {
    /// The power of what the conversion's own are off, and the largest of that.
    pub(super) noise: f64,
    pub(super) largest: f64,
    /// The power of the reference's, and of what lies beyond their codes.
    pub(super) power: f64,
    pub(super) cut_off: f64,
    pub(super) whole: WholeSums,
}

/// What elements are that ask for no closer look.
pub(super) struct PlainBounds {
    /// Those of the reference are less.
    end: f64,
    unit: f64,
    least: f64,
    /// The least and the greatest code.
    low: f64,
    high: f64,
}

/// The codes of elements that are made of none.
static NO_CODES: [f64; AT_ONCE] = [0.0; AT_ONCE];

/// What is added up of elements, side by side.
#[derive(Default)]
struct Sums {
    noise: [f64; SIDE_BY_SIDE],
    largest: [f64; SIDE_BY_SIDE],
    power: [f64; SIDE_BY_SIDE],
    cut_off: [f64; SIDE_BY_SIDE],
    error: [f64; SIDE_BY_SIDE],
    own: [f64; SIDE_BY_SIDE],
    doubt: [f64; SIDE_BY_SIDE],
    fourth: [f64; SIDE_BY_SIDE],
    farthest: [f64; SIDE_BY_SIDE],
    /// Whether there was an element that asks for a closer look; a word each, as numbers are.
    is_odd: [u64; SIDE_BY_SIDE],
}

impl PlainBounds {
    /// Of values that the conversion has in a type, made of codes that have these ends, if that
    /// counts; `None` where masks may be cut off.
    pub(super) fn of(
        margin: &Margin,
        ty: ElementType,
        ends: Option<&EndCodes>,
    ) -> Option<PlainBounds> {
        let Margin { unit, least, end, cuts_masks } = *margin;
        let end = STANDS_FOR_INFINITY.min(end).min(largest(ty));
        let (low, high) = ends.map_or((f64::NEG_INFINITY, f64::INFINITY), EndCodes::limits);
        (!cuts_masks).then_some(PlainBounds { end, unit, least, low, high })
    }

    /// What as many elements come to as are looked at together; `None` of fewer, and where one asks
    /// for a closer look.
    #[inline(always)]
    pub(super) fn sums(&self, block: &Block) -> Option<PlainSums> {
        let codes = if block.codes.is_empty() { &NO_CODES } else { block.codes };
        let [made, want, got] = [block.made, block.want, block.got];
        let [made, want, got, doubts, codes] =
            [made, want, got, block.doubts, codes].map(<&[f64; AT_ONCE]>::try_from);
        let sums = self.added(made.ok()?, (want.ok()?, got.ok()?), doubts.ok()?, codes.ok()?);
        let farthest = |sums: [f64; SIDE_BY_SIDE]| sums.into_iter().fold(0.0, f64::max);
        (sums.is_odd == [0; SIDE_BY_SIDE]).then(|| PlainSums {
            noise: summed(&sums.noise),
            largest: farthest(sums.largest),
            power: summed(&sums.power),
            cut_off: summed(&sums.cut_off),
            whole: WholeSums {
                error: summed(&sums.error),
                own: summed(&sums.own),
                doubt: summed(&sums.doubt),
                fourth: summed(&sums.fourth),
                largest: farthest(sums.farthest),
            },
        })
    }

    #[inline(always)]
    fn added(
        &self,
        made: &[f64; AT_ONCE],
        (want, got): (&[f64; AT_ONCE], &[f64; AT_ONCE]),
        doubts: &[f64; AT_ONCE],
        codes: &[f64; AT_ONCE],
    ) -> Sums {
        let mut sums = Sums::default();
        let [made, want, got, doubts, codes] =
            [made, want, got, doubts, codes].map(|all| all.as_chunks::<SIDE_BY_SIDE>().0);
        let each = made.iter().zip(want).zip(got.iter().zip(doubts)).zip(codes);
        for (((made, want), (got, doubts)), codes) in each {
            for side in 0..SIDE_BY_SIDE {
                let (made, want, got) = (made[side], want[side], got[side]);
                let (doubt, code) = (doubts[side], codes[side]);
                let (wanted, made_of) = (want.abs(), got.abs());
                let size = if wanted > made_of { wanted } else { made_of };
                let own = self.unit * size + self.least;
                let bound = own + 2.0 * doubt;
                let (local, error) = ((made - want).abs(), (got - want).abs());
                let is_end = ((code <= self.low) | (code >= self.high)) & (wanted > made_of);
                let is_within = (error <= bound) & (bound < f64::INFINITY);
                let is_usual = (wanted < self.end) & (made_of < f64::INFINITY);
                let is_plain = is_usual & (local < f64::INFINITY) & (is_within | is_end);
                sums.is_odd[side] |= u64::from(!is_plain);
                let cut_off = if is_end { want - got } else { 0.0 };
                let greater = |x: f64, most: f64| if x > most { x } else { most };
                sums.noise[side] += local * local;
                sums.largest[side] = greater(local, sums.largest[side]);
                sums.power[side] += want * want;
                sums.cut_off[side] += cut_off * cut_off;
                let counted = |x: f64| if is_end { 0.0 } else { x };
                let (error, own, doubt) = (counted(error), counted(own), counted(doubt));
                let square = doubt * doubt;
                sums.error[side] += error * error;
                sums.own[side] += own * own;
                sums.doubt[side] += square;
                sums.fourth[side] += square * square;
                sums.farthest[side] = greater(error, sums.farthest[side]);
            }
        }
        sums
    }
}
