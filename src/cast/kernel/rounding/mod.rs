//! FLOATs rounded to a narrower type and held as FLOATs: a cast and the cast back in one pass over
//! memory.

#![forbid(unsafe_code)]

use std::sync::Arc;

use super::half::round_to_half;
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
pub(crate) struct Rounding(RoundingMethod);

#[derive(Clone)]
enum RoundingMethod {
    /// To the upper half of a FLOAT.
    UpperHalf,
    /// To FLOAT16, with the conversion instructions where the level has them, else by the two
    /// casts.
    Half { narrow: Arc<dyn Kernel>, widen: Arc<dyn Kernel> },
}

impl Rounding {
    /// Rounding to FLOAT16 or BFLOAT16; `None` for another type.
    pub(crate) fn to(ty: ElementType) -> Option<Rounding> {
        match ty {
            ElementType::BFloat16 => Some(Rounding(RoundingMethod::UpperHalf)),
            ElementType::Float16 => Some(Rounding(RoundingMethod::Half {
                narrow: select(ElementType::Float, ty, Rules::default()),
                widen: select(ty, ElementType::Float, Rules::default()),
            })),
            _ => None,
        }
    }

    /// Rounds FLOATs in place.
    pub(crate) fn run(&self, level: Level, floats: &mut [f32]) {
        match &self.0 {
            RoundingMethod::UpperHalf => level.run(
                #[inline(always)]
                || {
                    for x in floats {
                        *x = f32::from_bits(u32::from(upper_half(*x)) << 16);
                    }
                },
            ),
            RoundingMethod::Half { narrow, widen } => {
                let done = round_to_half(level, floats);
                let rest = floats.get_mut(done..).unwrap_or_default();
                let mut halves = [0u16; TILE];
                for tile in rest.chunks_mut(TILE) {
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
mod tests;
