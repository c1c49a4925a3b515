//! Counting whole tensors.
//!
//! A tensor is read in tiles. Both sides of a tile are widened, exactly, to one floating-point
//! type, in which the loops of [`lanes`](super::lanes) count what can be counted without a branch.
//! A tile that holds anything odd, and 64-bit integers of more digits than DOUBLE has, are counted
//! element by element as [`element`](super::element) defines it.

use std::sync::Arc;

use anyhow::ensure;
use bytemuck::{Pod, Zeroable};
use tract_onnx::prelude::{Tensor, TractResult};

use super::counts::{CastStats, Outcome};
use super::element::CastPair;
use super::lanes::{self, Lanes, TILE};
use super::pool;
use super::range::Range;
use super::text;
use crate::cast::algebra::TypePair;
use crate::cast::decimal::Spelled;
use crate::cast::element_type::{ElementType, Family};
use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::select::select;
use crate::cast::reach::Reach;
use crate::cast::rules::Rules;
use crate::cast::value::Number;
use crate::error::{Error, Result};
use crate::tensor::conversion::Conversion;

/// Elements that are worth waking a thread for.
const SHARE: usize = 1 << 16;

/// Counts what a cast made of a tensor.
///
/// `input` and `output` are carrier tensors of the two types, of the same number of elements.
///
/// # Errors
///
/// When a tensor is not of its type's carrier, or the two differ in length.
///
/// ```
/// use tract_onnx_cast::audit::{self, Outcome};
/// use tract_onnx_cast::{Conversion, ElementType, Rules};
/// use tract_onnx::prelude::tensor1;
///
/// let (from, to) = (ElementType::Float, ElementType::Float16);
/// let sums = tensor1(&[1.0f32, 0.1, 128_210.0]);
/// let halves = Conversion::new(from, to, Rules::default()).run(&sums)?;
/// let stats = audit::measure(from, &sums, to, &halves)?;
/// assert_eq!(stats.count(Outcome::Overflowed), 1);
/// assert_eq!(stats.source.limits, Some((f64::from(0.1f32), 128_210.0)));
/// # tract_onnx_cast::Result::Ok(())
/// ```
pub fn measure(
    from: ElementType,
    input: &Tensor,
    to: ElementType,
    output: &Tensor,
) -> Result<CastStats> {
    measure_by(from, input, to, output, pool::threads()).map_err(Error::of_argument)
}

/// As [`measure`], by so many threads.
pub(super) fn measure_by(
    from: ElementType,
    input: &Tensor,
    to: ElementType,
    output: &Tensor,
    threads: usize,
) -> TractResult<CastStats> {
    for (ty, tensor) in [(from, input), (to, output)] {
        let (expected, got) = (ty.datum_type(), tensor.datum_type());
        ensure!(got == expected, "a tensor of {ty} is held in {expected:?}, not {got:?}");
    }
    let (length, other) = (input.len(), output.len());
    ensure!(length == other, "a cast of {length} elements cannot have made {other}");
    if length == 0 {
        return Ok(CastStats::default());
    }
    match (from.family(), to.family()) {
        (_, Family::Text) => {
            let mut stats = CastStats::default();
            stats.source = range_by(from, input, threads)?;
            stats.add(Outcome::Exact, length as u64);
            Ok(stats)
        }
        (Family::Text, _) => texts(from, input, to, output),
        _ => {
            let counter = Counter::new(from, to);
            let (x, y) = (input.as_bytes(), output.as_bytes());
            Ok(shared(length, threads, |start, end| counter.count(x, y, start, end)))
        }
    }
}

/// As [`measure`], of what a conversion has made, by so many threads. Of one that changes no value
/// only the source is looked at.
pub(super) fn measure_conversion(
    conversion: &Conversion,
    input: &Tensor,
    output: &Tensor,
    threads: usize,
) -> TractResult<CastStats> {
    let (from, to) = (conversion.source(), conversion.target());
    if input.len() != output.len() || !keeps_everything(from, to, conversion.rules()) {
        return measure_by(from, input, to, output, threads);
    }
    Ok(CastStats::all_exact(range_by(from, input, threads)?, input.len() as u64))
}

/// Whether everything that passes is exact, and nothing else is to be counted.
fn keeps_everything(from: ElementType, to: ElementType, rules: Rules) -> bool {
    let pair = CastPair::new(from, to);
    let stays_normal = match pair.target {
        // An integer is 0, or no smaller than any type's normal numbers.
        Some(Reach::Float(target)) => {
            !pair.from_float || target.min_normal <= pair.source_min_normal
        }
        Some(Reach::Integer(_) | Reach::Bool) | None => true,
    };
    stays_normal && (TypePair { from, to, rules }).is_lossless()
}

/// What the values of a tensor are: of the type, in its carrier.
///
/// # Errors
///
/// When the tensor is not of the type's carrier.
pub fn range(ty: ElementType, tensor: &Tensor) -> Result<Range> {
    range_by(ty, tensor, pool::threads()).map_err(Error::of_argument)
}

fn range_by(ty: ElementType, tensor: &Tensor, threads: usize) -> TractResult<Range> {
    let mut range = Range::default();
    if ty.family() == Family::Text {
        let texts = tensor.try_as_plain_ram()?.as_slice::<String>()?;
        // What is no number has no place in a range of numbers.
        texts.iter().filter_map(|text| Spelled::read(text)).for_each(|x| range.add(x.nearest()));
        return Ok(range);
    }
    let (expected, got) = (ty.datum_type(), tensor.datum_type());
    ensure!(got == expected, "a tensor of {ty} is held in {expected:?}, not {got:?}");
    let counter = Counter::new(ty, ty);
    let x = tensor.as_bytes();
    Ok(shared(tensor.len(), threads, |start, end| counter.survey(x, start, end)).source)
}

fn texts(
    from: ElementType,
    input: &Tensor,
    to: ElementType,
    output: &Tensor,
) -> TractResult<CastStats> {
    let pair = CastPair::new(from, to);
    let texts = input.try_as_plain_ram()?.as_slice::<String>()?;
    let numbers = ElementWidening::new(to);
    let mut stats = CastStats::default();
    let mut tile = WideTile::zeroed();
    for (texts, bytes) in texts.chunks(TILE).zip(output.as_bytes().chunks(TILE * numbers.width)) {
        numbers.widen(bytes, &mut tile);
        for (index, text) in texts.iter().enumerate() {
            text::count(&pair, text, numbers.number(&tile, index), &mut stats);
        }
    }
    Ok(stats)
}

/// Counts parts of a long tensor at the same time.
pub(super) fn shared(
    length: usize,
    threads: usize,
    count: impl Fn(usize, usize) -> CastStats + Sync + Send,
) -> CastStats {
    let parts = (length / SHARE).clamp(1, threads.max(1));
    if parts == 1 {
        return count(0, length);
    }
    let size = length.div_ceil(parts).next_multiple_of(TILE);
    let mut all = vec![CastStats::default(); parts];
    pool::each(&mut all, |part, stats| {
        let start = length.min(part * size);
        *stats = count(start, length.min(start + size));
    });
    all.iter().fold(CastStats::default(), |mut sum, stats| {
        sum.merge(stats);
        sum
    })
}

/// A tile, widened: FLOAT, DOUBLE or 64-bit integers.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct WideTile([u64; TILE]);

impl WideTile {
    fn slice<T: Pod>(&self, length: usize) -> &[T] {
        let all: &[T] = bytemuck::cast_slice(&self.0);
        all.get(..length).unwrap_or_default()
    }
}

/// How a type's elements are widened.
struct ElementWidening {
    width: usize,
    wide: ElementType,
    /// Whether elements are so wide as they are.
    is_wide: bool,
    kernel: Arc<dyn Kernel>,
}

impl ElementWidening {
    /// To the widest type of the kind, in which every value is exact.
    fn new(ty: ElementType) -> ElementWidening {
        let wide = match ty.family() {
            Family::Signed if ty.bits() == 64 => ElementType::Int64,
            Family::Unsigned if ty.bits() == 64 => ElementType::Uint64,
            _ => ElementType::Double,
        };
        ElementWidening::to(ty, wide)
    }

    fn to(ty: ElementType, wide: ElementType) -> ElementWidening {
        let kernel = select(ty, wide, Rules::default());
        ElementWidening {
            width: ty.carrier_bytes().unwrap_or(1),
            wide,
            is_wide: ty == wide,
            kernel,
        }
    }

    fn widen(&self, bytes: &[u8], tile: &mut WideTile) {
        let elements = bytes.len() / self.width;
        let wide = self.wide.carrier_bytes().unwrap_or(8);
        let tile: &mut [u8] = bytemuck::cast_slice_mut(&mut tile.0);
        if let Some(tile) = tile.get_mut(..elements * wide) {
            self.kernel.overwrite(Level::best(), bytes, tile);
        }
    }

    /// As FLOATs: widened into the tile, unless they are that already.
    fn floats<'a>(&self, bytes: &'a [u8], tile: &'a mut WideTile) -> &'a [f32] {
        if self.is_wide
            && let Ok(floats) = bytemuck::try_cast_slice(bytes)
        {
            return floats;
        }
        self.widen(bytes, tile);
        tile.slice(bytes.len() / self.width)
    }

    fn number(&self, tile: &WideTile, index: usize) -> Number {
        let word = tile.0.get(index).copied().unwrap_or(0);
        match self.wide {
            ElementType::Int64 => Number::Integer(i128::from(word as i64)),
            ElementType::Uint64 => Number::Integer(i128::from(word)),
            _ => Number::Real(f64::from_bits(word)),
        }
    }

    /// Makes DOUBLE of a tile of 64-bit integers, if they all have few enough digits.
    fn narrow(&self, tile: &mut WideTile, elements: usize) -> bool {
        let Some(words) = tile.0.get_mut(..elements) else { return false };
        match self.wide {
            ElementType::Int64 => lanes::doubles_of_signed(words),
            ElementType::Uint64 => lanes::doubles_of_unsigned(words),
            _ => true,
        }
    }
}

/// Counts one pair of numeric types.
struct Counter {
    pair: CastPair,
    /// Exact, whatever the values.
    exact: (ElementWidening, ElementWidening),
    /// Fast: both sides as FLOAT, where FLOAT holds the values of both types, or, of an integer
    /// target, the integral parts of the source's.
    floats: Option<(ElementWidening, ElementWidening)>,
    lanes: Lanes,
}

impl Counter {
    fn new(from: ElementType, to: ElementType) -> Counter {
        let narrow = |ty: ElementType| ty.is_float() && ty != ElementType::Double;
        let is_integer = matches!(to.family(), Family::Signed | Family::Unsigned);
        let side = |ty| ElementWidening::to(ty, ElementType::Float);
        Counter {
            pair: CastPair::new(from, to),
            exact: (ElementWidening::new(from), ElementWidening::new(to)),
            floats: (narrow(from) && (narrow(to) || is_integer)).then(|| (side(from), side(to))),
            lanes: Lanes::new(from, to),
        }
    }

    /// Looks at the source alone.
    fn survey(&self, x: &[u8], start: usize, end: usize) -> CastStats {
        let (exact, float) = (&self.exact.0, self.floats.as_ref().map(|(from, _)| from));
        let x = x.get(start * exact.width..end * exact.width).unwrap_or_default();
        let mut stats = CastStats::default();
        let mut tally = lanes::Tally::default();
        let mut wide = WideTile::zeroed();
        for x in x.chunks(TILE * exact.width) {
            let elements = x.len() / exact.width;
            let is_counted = if let Some(float) = float {
                Lanes::count_source(float.floats(x, &mut wide), &mut tally, &mut stats)
            } else {
                exact.widen(x, &mut wide);
                exact.narrow(&mut wide, elements)
                    && Lanes::count_source(wide.slice::<f64>(elements), &mut tally, &mut stats)
            };
            if is_counted {
                continue;
            }
            exact.widen(x, &mut wide);
            for index in 0..elements {
                stats.source.add_number(exact.number(&wide, index));
            }
        }
        tally.finish(&mut stats);
        stats
    }

    fn count(&self, x: &[u8], y: &[u8], start: usize, end: usize) -> CastStats {
        let part = |bytes, width| -> &[u8] {
            let bytes: &[u8] = bytes;
            bytes.get(start * width..end * width).unwrap_or_default()
        };
        let (from, to) = (&self.exact.0, &self.exact.1);
        let x = part(x, from.width).chunks(TILE * from.width);
        let y = part(y, to.width).chunks(TILE * to.width);
        let mut stats = CastStats::default();
        let mut tally = lanes::Tally::default();
        let (mut wide_x, mut wide_y) = (WideTile::zeroed(), WideTile::zeroed());
        for (x, y) in x.zip(y) {
            let elements = x.len() / from.width;
            if let Some((from, to)) = &self.floats {
                let (x, y) = (from.floats(x, &mut wide_x), to.floats(y, &mut wide_y));
                if self.lanes.count(&self.pair, x, y, &mut tally, &mut stats) {
                    continue;
                }
            }
            from.widen(x, &mut wide_x);
            to.widen(y, &mut wide_y);
            if self.floats.is_none() {
                if from.narrow(&mut wide_x, elements) && to.narrow(&mut wide_y, elements) {
                    let (x, y) = (wide_x.slice::<f64>(elements), wide_y.slice::<f64>(elements));
                    if self.lanes.count(&self.pair, x, y, &mut tally, &mut stats) {
                        continue;
                    }
                }
                // What was made a DOUBLE may have to be an integer again.
                from.widen(x, &mut wide_x);
                to.widen(y, &mut wide_y);
            }
            for index in 0..elements {
                self.pair.count(from.number(&wide_x, index), to.number(&wide_y, index), &mut stats);
            }
        }
        tally.finish(&mut stats);
        stats
    }
}

#[cfg(test)]
mod tests;
