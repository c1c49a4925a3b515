//! A run of the conversion with each result moved up or down by a unit in its last place, at
//! random.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rand::rngs::ChaCha12Rng;
use rand::{Rng, RngExt, SeedableRng};
use tract_onnx::prelude::Tensor;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, Observer};
use tract_onnx_cast::kernel::Level;
use tract_onnx_cast::{ElementType, Family, Result, tensor_proto};

use super::super::doubt::MOVED;
use super::super::nodes::codes;
use super::super::numbers::{is_computed_in, largest, numbers, rounding, tensor};
use super::super::trace::{Trace, full_name, shared};
use super::power;

/// A conversion whose results are moved at random, and how far its values go from `exact`.
pub(super) struct Perturbed<'a> {
    exact: &'a Trace,
    rng: ChaCha12Rng,
    /// Constants that are codes, however few they are, and not all 0: what is all 0 is so quantised
    /// by any scale.
    codes: HashSet<String>,
    /// The power of what values are off, by their names.
    pub(super) noise: HashMap<String, f64>,
}

/// A constant of fewer elements that is no codes may be a size or an epsilon.
const WEIGHT: usize = 64;

/// How many bytes are drawn at once.
const DRAWN: usize = 64;

/// How many bits these have, each of which moves an element of floating point.
const GROUP: usize = DRAWN * u8::BITS as usize;

/// How many words of a generator these are.
const WORDS: u128 = (DRAWN / size_of::<u32>()) as u128;

/// The bits that a generator draws next: the lowest ones of all bytes, then those above them.
#[inline(always)]
fn bits(rng: &mut ChaCha12Rng) -> [u8; GROUP] {
    let (mut drawn, mut bits) = ([0; DRAWN], [0; GROUP]);
    rng.fill_bytes(&mut drawn);
    for (place, bits) in bits.as_chunks_mut::<DRAWN>().0.iter_mut().enumerate() {
        for (bit, byte) in bits.iter_mut().zip(drawn) {
            *bit = byte >> place & 1;
        }
    }
    bits
}

/// Moves words of floating point, which are most of a model, by a unit in the last place; subnormal
/// ones stay. `$normal` is the smallest normal one, `$infinity` infinity. They begin behind
/// `$moved` others of a group.
macro_rules! move_words {
    ($rng:expr, ($bytes:expr, $moved:expr), $word:ty, ($normal:expr, $infinity:expr)) => {
        let words = $bytes.as_chunks_mut::<{ size_of::<$word>() }>().0;
        let first = words.len().min(usize::next_multiple_of($moved, GROUP) - $moved);
        let (first, others) = words.split_at_mut(first);
        let groups = (!first.is_empty()).then_some((first, $moved)).into_iter();
        for (words, moved) in groups.chain(others.chunks_mut(GROUP).map(|words| (words, 0))) {
            let bits = bits($rng);
            // Up or down without a branch, which no CPU could foresee.
            for (bytes, up) in words.iter_mut().zip(bits.get(moved..).unwrap_or_default()) {
                let word = <$word>::from_ne_bytes(*bytes);
                let magnitude = word & (<$word>::MAX >> 1);
                let moved = (magnitude + 2 * <$word>::from(*up)).wrapping_sub(1).min($infinity - 1);
                let is_moved = ($normal..$infinity).contains(&magnitude);
                let moved = if is_moved { word - magnitude | moved } else { word };
                *bytes = moved.to_ne_bytes();
            }
        }
    };
}

/// The smallest normal number of a type of half precision, and infinity, in bits.
fn ends_of_half(ty: ElementType) -> Option<(u16, u16)> {
    match ty {
        ElementType::Float16 => Some((0x0400, 0x7c00)),
        ElementType::BFloat16 => Some((0x0080, 0x7f80)),
        _ => None,
    }
}

/// Moves elements of half precision, which begin behind so many others of a group.
fn move_halves(rng: &mut ChaCha12Rng, (bytes, moved): (&mut [u8], usize), ends: (u16, u16)) {
    let (normal, infinity) = ends;
    Level::best().run(
        #[inline(always)]
        || {
            move_words!(rng, (bytes, moved), u16, (normal, infinity));
        },
    );
}

impl Perturbed<'_> {
    pub(super) fn new(exact: &Trace, seed: u64) -> Perturbed<'_> {
        let is_any = |name: &String| {
            exact.constant(name).and_then(numbers).is_some_and(|all| all.iter().any(|x| *x != 0.0))
        };
        let codes = codes(exact).into_iter().filter(is_any).collect();
        let rng = ChaCha12Rng::seed_from_u64(seed);
        Perturbed { exact, rng, codes, noise: HashMap::new() }
    }

    /// Whether a constant is no size and no epsilon, and is moved.
    fn is_weight(&self, constant: &ObservedTensor) -> bool {
        constant.tensor.len() >= WEIGHT || self.codes.contains(&full_name(constant))
    }

    /// Whether a node dequantises codes of a weight, which are moved themselves, by more than a
    /// last place of FLOAT.
    fn takes_moved_codes(&self, node: &NodeRun) -> bool {
        let codes = node.inputs.first().and_then(Option::as_ref);
        let is_moved = |codes: &ObservedTensor| {
            let is_code = matches!(codes.element_type.bits(), 4..=8);
            is_code && codes.is_constant && self.is_weight(codes)
        };
        node.op_type == "DequantizeLinear" && codes.is_some_and(is_moved)
    }

    fn perturb(&mut self, held: &mut ObservedTensor) {
        let ty = held.element_type;
        let is_code = !ty.is_float();
        if is_code && ty.bits() > 8 || matches!(ty.family(), Family::Text) {
            return;
        }
        if let Some(ends) = ends_of_half(ty) {
            match self.moved_as_read(&held.tensor, ends) {
                Some(moved) => held.tensor = Arc::new(moved),
                None => {
                    let bytes = Arc::make_mut(&mut held.tensor).as_bytes_mut();
                    move_halves(&mut self.rng, (bytes, 0), ends);
                }
            }
            return;
        }
        let bytes = Arc::make_mut(&mut held.tensor).as_bytes_mut();
        match ty {
            ElementType::Float => {
                let rng = &mut self.rng;
                return Level::best().run(
                    #[inline(always)]
                    || {
                        move_words!(rng, (bytes, 0), u32, (0x0080_0000, 0x7f80_0000));
                    },
                );
            }
            ElementType::Int8 => return self.perturb_codes(bytes, true, (0, 255)),
            ElementType::Uint8 => return self.perturb_codes(bytes, false, (0, 255)),
            ElementType::Int4 => return self.perturb_codes(bytes, true, (120, 135)),
            ElementType::Uint4 => return self.perturb_codes(bytes, false, (0, 15)),
            _ if is_code => return,
            _ => {}
        }
        let (unit, end) = (2.0 * rounding(ty), largest(ty));
        let Some(values) = numbers(&shared(held)) else { return };
        let moved = |x: f64| match self.rng.random::<bool>() {
            _ if !x.is_finite() => x,
            is_up => (x + x.abs() * if is_up { unit } else { -unit }).clamp(-end, end),
        };
        let values: Vec<f64> = values.into_iter().map(moved).collect();
        if let Some((_, tensor)) = tensor(ty, held.tensor.shape(), &values) {
            held.tensor = tensor;
        }
    }

    /// A large matrix of half precision that stays in its file: what is read of it is moved, each
    /// element the same way whenever that is. `None` of any other tensor.
    fn moved_as_read(&mut self, tensor: &Tensor, ends: (u16, u16)) -> Option<Tensor> {
        if tensor.as_plain_ram().is_some() {
            return None;
        }
        let seed = self.rng.random();
        tensor_proto::altered(tensor, move |before, bytes| {
            let before = before / size_of::<u16>();
            let mut rng = ChaCha12Rng::seed_from_u64(seed);
            rng.set_word_pos(WORDS * (before / GROUP) as u128);
            move_halves(&mut rng, (bytes, before % GROUP), ends);
        })
    }

    /// Moves codes of a byte each by one, or leaves them.
    fn perturb_codes(&mut self, bytes: &mut [u8], is_signed: bool, (low, high): (u8, u8)) {
        // Codes with a sign are in the order of bytes from the least one on.
        let least = if is_signed { 1 << 7 } else { 0 };
        Level::best().run(
            #[inline(always)]
            || {
                for block in bytes.chunks_mut(GROUP / 2) {
                    let bits = bits(&mut self.rng);
                    let (ones, others) = bits.split_at(GROUP / 2);
                    for (byte, (one, other)) in block.iter_mut().zip(ones.iter().zip(others)) {
                        let (down, up) = ((1 ^ one) & (1 ^ other), one & other);
                        let moved = (*byte ^ least).saturating_sub(down).saturating_add(up);
                        *byte = moved.max(low).min(high) ^ least;
                    }
                }
            },
        );
    }
}

impl Observer for Perturbed<'_> {
    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        let is_result = !MOVED.iter().any(|(name, ..)| *name == node.op_type)
            && !node.has_bodies()
            && node.op_type != "Constant";
        let is_quantizer = node.op_type.contains("Quantize");
        let is_of_moved_codes = self.takes_moved_codes(node);
        for output in outputs.iter_mut().flatten() {
            let is_float = is_computed_in(output.element_type);
            let is_moved = is_of_moved_codes && output.element_type == ElementType::Float;
            if is_result && !is_moved && (is_float || is_quantizer && output.tensor.len() > 1) {
                self.perturb(output);
            }
            let name = full_name(output);
            let exact = self.exact.first(&name).filter(|_| is_float);
            if self.noise.contains_key(&name) {
                continue;
            }
            if let Some(power) = exact.and_then(|exact| power(exact, &shared(output))) {
                self.noise.insert(name, power);
            }
        }
        Ok(())
    }

    fn constant(&mut self, constant: &mut ObservedTensor) -> Result<()> {
        if constant.element_type.bits() <= 16 && self.is_weight(constant) {
            self.perturb(constant);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use tract_onnx::prelude::TractResult;

    use super::*;
    use crate::cli::measure::reals::tests::in_file;

    fn perturbed<T>(run: impl FnOnce(&mut Perturbed) -> T) -> T {
        run(&mut Perturbed::new(&Trace::default(), 1))
    }

    #[test]
    fn codes_move_by_one_and_stay_in_their_range() {
        let ranges = [(true, -128, 127), (true, -8, 7), (false, 0, 255), (false, 0, 15)];
        for (is_signed, low, high) in ranges {
            let codes: Vec<i16> = (low..=high).cycle().take(4096 + 5).collect();
            let mut bytes: Vec<u8> = codes.iter().map(|code| code.to_le_bytes()[0]).collect();
            let least = if is_signed { 128 } else { 0 };
            let ends = ((low + least) as u8, (high + least) as u8);
            perturbed(|with| with.perturb_codes(&mut bytes, is_signed, ends));
            let mut moves = [0; 3];
            for (code, byte) in codes.iter().zip(bytes) {
                let moved = if is_signed { i16::from(byte.cast_signed()) } else { i16::from(byte) };
                assert!((low..=high).contains(&moved), "{code} became {moved}");
                moves[usize::try_from(moved - code + 1).unwrap_or(usize::MAX)] += 1;
            }
            assert!(moves.iter().all(|count| *count > 800), "{low} to {high}: {moves:?}");
        }
    }

    #[test]
    fn what_is_read_of_halves_is_moved_as_in_the_whole() -> TractResult<()> {
        const SIZES: [usize; 2] = [1025, 2051];
        let folder = tempfile::tempdir()?;
        let bytes: Vec<u8> =
            (0..SIZES[0] * SIZES[1]).flat_map(|i| (i as u16).to_le_bytes()).collect();
        let (ty, late) = in_file(folder.path(), ElementType::Float16, SIZES, &bytes)?;
        let ends = ends_of_half(ty).context("of half precision")?;
        let moved = perturbed(|with| with.moved_as_read(&late, ends)).context("in its file")?;
        let parts = [(0, 0, 7), (0, 63, 64), (1, 2, 2050), (1, 5, 9)];
        let read = parts.map(|(axis, start, end)| moved.slice(axis, start, end));
        let moved = moved.try_as_plain_ram()?.as_bytes();
        let words = |bytes: &[u8]| {
            let words = bytes.as_chunks().0.iter();
            words.map(|word| u16::from_ne_bytes(*word)).collect::<Vec<u16>>()
        };
        let (mut ups, mut normal) = (0, 0);
        for (was, is) in words(&bytes).into_iter().zip(words(moved)) {
            if (ends.0..ends.1).contains(&(was & 0x7fff)) {
                assert!(was.abs_diff(is) == 1 || was & 0x7fff == ends.1 - 1 && was == is);
                (ups, normal) = (ups + usize::from(is > was), normal + 1);
            } else {
                assert_eq!(was, is);
            }
        }
        assert!((ups * 2).abs_diff(normal) < normal / 100, "{ups} of {normal}");
        let whole = Tensor::from_shape(&SIZES, &words(moved))?;
        for ((axis, start, end), read) in parts.into_iter().zip(read) {
            assert!(
                read?.as_bytes() == whole.slice(axis, start, end)?.as_bytes(),
                "{axis}, {start}"
            );
        }
        Ok(())
    }

    #[test]
    fn floats_move_by_a_unit_and_others_stay() -> TractResult<()> {
        let each = [1.0, -1.5, f32::MIN_POSITIVE, f32::MAX, 0.0, -1e-40, f32::INFINITY, f32::NAN];
        let values: Vec<f32> = each.into_iter().cycle().take(801).collect();
        let mut held = ObservedTensor {
            name: "x".into(),
            graph: "".into(),
            element_type: ElementType::Float,
            tensor: Tensor::from_shape(&[values.len()], &values)?.into(),
            is_constant: false,
        };
        perturbed(|with| with.perturb(&mut held));
        let mut ups = 0;
        let moved = held.tensor.try_as_plain_ram()?.as_slice::<f32>()?;
        for (place, (x, y)) in values.iter().zip(moved).enumerate() {
            match place % each.len() {
                0..3 => assert!(*y == x.next_up() || *y == x.next_down(), "{x} became {y}"),
                3 => assert!(*y == *x || *y == x.next_down(), "{x} became {y}"),
                _ => assert_eq!(x.to_bits(), y.to_bits()),
            }
            ups += usize::from(y > x);
        }
        assert!((100..300).contains(&ups), "{ups} of {}", values.len());
        Ok(())
    }
}
