//! To STRING ([SEMANTICS §9](crate::semantics)).

use std::sync::Arc;

use bytemuck::Pod;

use super::scratch::with_scratch;
use crate::cast::element_type::{ElementType, Family};
use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::select::select;
use crate::cast::rules::Rules;

/// Spelling elements of one numeric type: widened to a type that has a speller.
#[derive(Clone)]
pub(crate) struct Spell {
    /// Bytes of an element.
    width: usize,
    widen: Arc<dyn Kernel>,
    wide_bytes: usize,
    speller: Speller,
}

impl Spell {
    pub(crate) fn new(from: ElementType) -> Spell {
        let (wide, speller) = speller(from);
        Spell {
            width: from.carrier_bytes().unwrap_or(1),
            widen: select(from, wide, Rules::default()),
            wide_bytes: wide.carrier_bytes().unwrap_or(1),
            speller,
        }
    }

    /// Spells elements over whatever the strings are, by the instructions of a level.
    #[inline]
    pub(crate) fn run(&self, level: Level, elements: &[u8], texts: &mut [String]) {
        with_scratch(texts.len(), |scratch| {
            let tiles = elements.chunks(scratch.len() * self.width);
            for (tile, texts) in tiles.zip(texts.chunks_mut(scratch.len())) {
                let tile = &tile[..texts.len() * self.width];
                let wide = &mut bytemuck::cast_slice_mut(scratch)[..texts.len() * self.wide_bytes];
                self.widen.overwrite(level, tile, wide);
                (self.speller)(wide, texts);
            }
        });
    }
}

/// Spells elements of one type, over whatever the strings are.
type Speller = fn(&[u8], &mut [String]);

/// The type through which a numeric type is spelled, and the speller of that: the widest of its
/// kind, but FLOAT for every float type up to it, so that the digits are those that read back as a
/// FLOAT ([SEMANTICS §9](crate::semantics)).
fn speller(from: ElementType) -> (ElementType, Speller) {
    match from.family() {
        Family::Float(_) if from == ElementType::Double => {
            (ElementType::Double, |bytes, texts| spell(bytes, texts, write_float::<f64>))
        }
        Family::Float(_) => {
            (ElementType::Float, |bytes, texts| spell(bytes, texts, write_float::<f32>))
        }
        Family::Signed => {
            (ElementType::Int64, |bytes, texts| spell(bytes, texts, write_integer::<i64>))
        }
        Family::Unsigned => {
            (ElementType::Uint64, |bytes, texts| spell(bytes, texts, write_integer::<u64>))
        }
        Family::Bool => (ElementType::Bool, |bytes, texts| spell(bytes, texts, write_truth)),
        Family::Text => unreachable!("`speller` is for numeric types"),
    }
}

#[inline(always)]
fn spell<S: Pod>(bytes: &[u8], texts: &mut [String], write: impl Fn(S, &mut String)) {
    for (text, element) in texts.iter_mut().zip(bytemuck::cast_slice(bytes)) {
        text.clear();
        write(*element, text);
    }
}

/// What an allocation for a string holds at least: allocators give no less, and a longer number
/// then fits the next time.
const ROOM: usize = 24;

/// Writes pieces of text into an empty string, which allocates at most once.
#[inline(always)]
fn write_pieces<const N: usize>(text: &mut String, pieces: [&str; N]) {
    let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    if text.capacity() < length {
        *text = String::with_capacity(length.max(ROOM));
    }
    for piece in pieces {
        text.push_str(piece);
    }
}

#[inline(always)]
fn write_integer<I: itoa::Integer>(x: I, text: &mut String) {
    write_pieces(text, [itoa::Buffer::new().format(x)]);
}

fn write_truth(byte: u8, text: &mut String) {
    write_pieces(text, [if byte != 0 { "True" } else { "False" }]);
}

/// A FLOAT or a DOUBLE in plain notation with the fewest digits that read back to it ([SEMANTICS
/// §9](crate::semantics)).
fn write_float<F: zmij::Float + Copy + Into<f64>>(x: F, text: &mut String) {
    let number: f64 = x.into();
    match () {
        () if number.is_finite() => write_positional(text, zmij::Buffer::new().format_finite(x)),
        () if number.is_nan() => write_pieces(text, ["NaN"]),
        () => write_pieces(text, [if number < 0.0 { "-INF" } else { "INF" }]),
    }
}

/// As many zeros as the smallest DOUBLE has after its point, and more than the largest has before
/// it.
const ZEROS: &str = match std::str::from_utf8(&[b'0'; 324]) {
    Ok(zeros) => zeros,
    Err(_) => unreachable!(),
};

/// The shortest digits, which come as `-12.5` or `1.25e-7`, without an exponent.
fn write_positional(text: &mut String, shortest: &str) {
    // An exponent is one of the last characters: `e-308`.
    let bytes = shortest.as_bytes();
    let tail = bytes.len().saturating_sub("e-308".len());
    match bytes[tail..].iter().position(|byte| *byte == b'e') {
        None => write_pieces(text, [shortest]),
        Some(at) => write_shifted(text, &shortest[..tail + at], &shortest[tail + at + 1..]),
    }
}

/// The digits of a mantissa with the point where the exponent moves it.
#[cold]
fn write_shifted(text: &mut String, mantissa: &str, exponent: &str) {
    let (sign, magnitude) = match mantissa.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", mantissa),
    };
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    // Some write `1e20`, others `1.0e20`.
    let fraction = fraction.trim_end_matches('0');
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let point = whole.len() as i64 + exponent;
    match usize::try_from(point) {
        Ok(point) if point >= whole.len() + fraction.len() => {
            let zeros = &ZEROS[..point - whole.len() - fraction.len()];
            write_pieces(text, [sign, whole, fraction, zeros, ".0"]);
        }
        Ok(point) if point >= whole.len() => {
            let (before, after) = fraction.split_at(point - whole.len());
            write_pieces(text, [sign, whole, before, ".", after]);
        }
        Ok(point) if point > 0 => {
            let (before, after) = whole.split_at(point);
            write_pieces(text, [sign, before, ".", after, fraction]);
        }
        _ => {
            let zeros = &ZEROS[..point.unsigned_abs() as usize];
            write_pieces(text, [sign, "0.", zeros, whole, fraction]);
        }
    }
}

#[cfg(test)]
mod tests;
