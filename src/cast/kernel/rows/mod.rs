//! A table of 256 targets as sums of rows of 16 bytes, which is what vector instructions look up
//! in.
//!
//! A code is two digits of four bits. Where a target is a number in a positional format, as a float
//! or an integer made of a small float is, each of its bytes is nearly a function of the one digit
//! plus a function of the other: only some rows of 16 codes differ from that, those of subnormal
//! numbers and of NaN. What these have more is added to them. Rows are found in the table, whatever
//! it is of; nothing here knows a format.

#[cfg(not(target_arch = "x86_64"))]
pub(super) mod sixteen;
#[cfg(not(target_arch = "x86_64"))]
mod vector;

/// Codes that share their upper digit.
const ROW: usize = 16;

/// A byte for each of a digit's values.
pub(super) type DigitRow = [u8; ROW];

/// Two bytes of every target as sums, and how they and the others are arranged.
pub(super) struct RowSums {
    /// What the lower digit gives to each of the two bytes, unless it gives nothing.
    pub(super) low: [Option<DigitRow>; 2],
    /// What the upper digit gives.
    pub(super) high: [Option<DigitRow>; 2],
    /// The bits of a code that are an index for `shared`.
    pub(super) mask: u8,
    /// What rows have more whose indices are the same.
    pub(super) shared: Vec<Term>,
    /// What single rows have more, or what those have more whose code has the top bit: it is the
    /// other way around then.
    pub(super) own: Vec<Term>,
    pub(super) reach: TermReach,
    pub(super) form: BytePlaces,
}

/// What a row has more.
pub(super) struct Term {
    /// The first index of the row, four times, as vectors are made of it.
    pub(super) row: [u8; 4],
    pub(super) bytes: [DigitRow; 2],
}

impl Term {
    fn new(row: usize, bytes: [DigitRow; 2]) -> Term {
        Term { row: [(row * ROW) as u8; 4], bytes }
    }
}

/// Which rows a term is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "`Row` is the only one there"))]
pub(super) enum TermReach {
    /// Its own.
    Row,
    /// Its own and those above it, whose indices, as signed numbers, are not less.
    Above,
    /// As `Above`; the digits give nothing, and the terms everything. For a table that is like no
    /// number.
    Everything,
}

/// Which bytes of a target the two are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BytePlaces {
    /// The two most significant ones; all below are zero.
    Upper,
    /// The least significant one, and all above it, which are alike.
    Extended,
}

impl RowSums {
    /// Of a table of targets of so many bytes each, the least significant first; `None` if more
    /// than two of the bytes differ.
    pub(super) fn new(targets: &[u8], width: usize, reach: TermReach) -> Option<RowSums> {
        let plane = |byte: usize| -> [u8; 256] {
            let mut bytes = targets.iter().skip(byte).step_by(width);
            std::array::from_fn(|_| bytes.next().copied().unwrap_or_default())
        };
        let is_zero = |byte: usize| plane(byte) == [0; 256];
        let (form, planes) = if width == 1 {
            (BytePlaces::Extended, [plane(0), [0; 256]])
        } else if (0..width - 2).all(is_zero) {
            (BytePlaces::Upper, [plane(width - 2), plane(width - 1)])
        } else if (2..width).all(|byte| plane(byte) == plane(1)) {
            (BytePlaces::Extended, [plane(0), plane(1)])
        } else {
            return None;
        };
        let [first, second] = planes.map(|plane| Digits::new(&plane, reach));
        let rests = std::array::from_fn(|row| [first.rests[row], second.rests[row]]);
        let (mask, shared, own) = match reach {
            TermReach::Row => of_rows(&rests),
            TermReach::Above | TermReach::Everything => of_rows_and_above(&rests),
        };
        let unless_zero = |row: DigitRow| (row != [0; ROW]).then_some(row);
        Some(RowSums {
            low: [first.low, second.low].map(unless_zero),
            high: [first.high, second.high].map(unless_zero),
            mask,
            shared,
            own,
            reach,
            form,
        })
    }

    /// The instructions that a vector of targets of so many bytes takes, but for what all of them
    /// take.
    pub(super) fn cost(&self, width: usize) -> usize {
        let of_index = if self.reach == TermReach::Row { 2 } else { 1 };
        let terms = self.shared.len() + self.own.len();
        let digits = [self.low, self.high].as_flattened().iter().flatten().count();
        2 * digits + terms * (of_index + 2 * width.min(2))
    }
}

/// A byte of every target.
struct Digits {
    low: DigitRow,
    high: DigitRow,
    /// What each row has more.
    rests: [DigitRow; ROW],
}

impl Digits {
    fn new(plane: &[u8; 256], reach: TermReach) -> Digits {
        let row = |at: usize| -> DigitRow { std::array::from_fn(|low| plane[at * ROW + low]) };
        if reach == TermReach::Everything {
            return Digits { low: [0; ROW], high: [0; ROW], rests: std::array::from_fn(row) };
        }
        let shape = |at: usize| -> DigitRow {
            let row = row(at);
            row.map(|byte| byte.wrapping_sub(row[ROW - 1]))
        };
        let shapes: [DigitRow; ROW] = std::array::from_fn(shape);
        let count = |one: &DigitRow| shapes.iter().filter(|other| *other == one).count();
        let low = shapes.iter().copied().max_by_key(count).unwrap_or_default();
        Digits {
            low,
            high: std::array::from_fn(|at| row(at)[ROW - 1]),
            rests: shapes.map(|shape| std::array::from_fn(|at| shape[at].wrapping_sub(low[at]))),
        }
    }
}

type Rests = [[DigitRow; 2]; ROW];

const NOTHING: [DigitRow; 2] = [[0; ROW]; 2];

/// As few terms as give every row its rest: rows that have the same, and are all those with some of
/// the upper digit's low bits, share one.
fn of_rows(rests: &Rests) -> (u8, Vec<Term>, Vec<Term>) {
    let of_mask = |bits: usize| {
        let is_shared = |row: &usize| {
            let mut sharing = (0..ROW).filter(|other| other & bits == row & bits);
            sharing.all(|other| rests[other] == rests[*row])
        };
        let is_some = |row: &usize| rests[*row] != NOTHING;
        let term = |row| Term::new(row, rests[row]);
        let shared = (0..=bits).filter(is_shared).filter(is_some).map(term).collect::<Vec<_>>();
        let own = (0..ROW).filter(|row| !is_shared(row)).filter(is_some).map(term);
        ((bits * ROW + ROW - 1) as u8, shared, own.collect::<Vec<_>>())
    };
    let terms = |(_, shared, own): &(u8, Vec<Term>, Vec<Term>)| shared.len() + own.len();
    [0x3, 0x7].into_iter().fold(of_mask(0x1), |best, bits| {
        let other = of_mask(bits);
        if terms(&other) < terms(&best) { other } else { best }
    })
}

/// What every row has more than the one before it; first of the codes without their top bit, then
/// what those with it have more.
fn of_rows_and_above(rests: &Rests) -> (u8, Vec<Term>, Vec<Term>) {
    const HALF: usize = ROW / 2;
    let minus = |one: [DigitRow; 2], other: [DigitRow; 2]| -> [DigitRow; 2] {
        std::array::from_fn(|byte| {
            std::array::from_fn(|at| one[byte][at].wrapping_sub(other[byte][at]))
        })
    };
    let steps = |rest: &dyn Fn(usize) -> [DigitRow; 2]| -> Vec<Term> {
        let step = |row: usize| {
            let before = if row == 0 { NOTHING } else { rest(row - 1) };
            Term::new(row, minus(rest(row), before))
        };
        (0..HALF).map(step).filter(|term| term.bytes != NOTHING).collect()
    };
    let more = |row| minus(rests[row + HALF], rests[row]);
    (0x7F, steps(&|row| rests[row]), steps(&more))
}

#[cfg(test)]
mod tests;
