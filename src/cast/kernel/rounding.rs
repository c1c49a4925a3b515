//! FLOATs rounded to a narrower type and held as FLOATs: a cast and the cast back in one pass over memory.

#![forbid(unsafe_code)]

use std::sync::Arc;

use super::level::Level;
use super::loops::Kernel;
use super::round::upper_half;
use super::select::select;
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;

/// FLOATs that are rounded at a time: they and what they are cast to stay in the first-level cache.
const TILE: usize = 1024;

/// Rounding to one type.
#[derive(Clone)]
pub(crate) struct Rounding(Method);

#[derive(Clone)]
enum Method {
    /// To the upper half of a FLOAT.
    UpperHalf,
    /// By the two casts.
    Casts { narrow: Arc<dyn Kernel>, widen: Arc<dyn Kernel> },
}

impl Rounding {
    /// Rounding to FLOAT16 or BFLOAT16; `None` for another type.
    pub(crate) fn to(ty: ElementType) -> Option<Rounding> {
        match ty {
            ElementType::BFloat16 => Some(Rounding(Method::UpperHalf)),
            ElementType::Float16 => Some(Rounding(Method::Casts {
                narrow: select(ElementType::Float, ty, Rules::default()),
                widen: select(ty, ElementType::Float, Rules::default()),
            })),
            _ => None,
        }
    }

    /// Rounds FLOATs in place.
    pub(crate) fn run(&self, level: Level, floats: &mut [f32]) {
        match &self.0 {
            Method::UpperHalf => level.run(
                #[inline(always)]
                || {
                    for x in floats {
                        *x = f32::from_bits(u32::from(upper_half(*x)) << 16);
                    }
                },
            ),
            Method::Casts { narrow, widen } => {
                let mut halves = [0u16; TILE];
                for tile in floats.chunks_mut(TILE) {
                    let halves = &mut halves[..tile.len()];
                    let tile = bytemuck::cast_slice_mut(tile);
                    narrow.overwrite(level, tile, bytemuck::cast_slice_mut(halves));
                    widen.overwrite(level, bytemuck::cast_slice(halves), tile);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cast::scalar;

    /// Every FLOAT whose upper half is any, its lower one at a tie or beside it.
    #[test]
    fn rounding_is_the_two_casts_at_every_level() {
        for ty in [ElementType::Float16, ElementType::BFloat16] {
            let rounding = Rounding::to(ty).expect("half precision");
            let lower = [0u32, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF];
            let bits = (0..=u16::MAX)
                .flat_map(|upper| lower.iter().map(move |lower| u32::from(upper) << 16 | *lower));
            let floats: Vec<f32> = bits.map(f32::from_bits).collect();
            let cast = |from, to, code| scalar::convert(from, to, Rules::default(), code);
            let rounded = |x: &f32| {
                let half = cast(ElementType::Float, ty, u64::from(x.to_bits())).expect("numbers");
                cast(ty, ElementType::Float, half).expect("numbers") as u32
            };
            let expected: Vec<u32> = floats.iter().map(rounded).collect();
            for level in Level::available() {
                for length in [floats.len(), 0, 1, 7, TILE - 1, TILE + 5] {
                    let mut made = floats[..length].to_vec();
                    rounding.run(level, &mut made);
                    let made = made.iter().map(|x| x.to_bits());
                    assert!(made.eq(expected[..length].iter().copied()), "{ty} {level:?}");
                }
            }
        }
    }
}
