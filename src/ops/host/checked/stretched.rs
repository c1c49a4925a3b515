//! Operands that are stretched to the shape of the first one, which they must not exceed.
//!
//! tract's rules give the result the shape of the first operand, and what it computes is broadcast
//! to that of all.

use super::fitting::text;
use super::known::KnownOperands;

/// The operators with such operands, and their places.
const STRETCHED: &[(&str, &[usize])] = &[
    ("LayerNormalization", &[1, 2]),
    ("PRelu", &[1]),
    ("RMSNormalization", &[1]),
    ("SimplifiedLayerNormalization", &[1]),
];

/// The operators that take numbers, and their places: of one element, in any number of axes.
const NUMBERS: &[(&str, &[usize])] = &[("Clip", &[1, 2])];

/// Tells what is wrong with an operand that is larger than the first one, as far as their shapes
/// are known.
pub(super) fn check(operator: &str, known: &dyn KnownOperands) -> Result<(), String> {
    let places = |table: &'static [(&str, &[usize])]| {
        table.iter().find(|(name, _)| *name == operator).map_or(&[][..], |(_, places)| places)
    };
    for place in places(NUMBERS) {
        let Some(shape) = known.shape(*place) else { continue };
        if shape.iter().flatten().any(|size| *size != 1) {
            let shape = text(&shape);
            return Err(format!("has an input {place} of shape {shape}, where it takes a number"));
        }
    }
    let stretched = places(STRETCHED);
    let Some(first) = stretched.first().and_then(|_| known.shape(0)) else { return Ok(()) };
    for place in stretched {
        let Some(shape) = known.shape(*place) else { continue };
        let mut of_first = first.iter().rev();
        for size in shape.iter().rev() {
            let of_first = of_first.next();
            let fits = |most: &Option<i64>| match (size, most) {
                (Some(size), Some(most)) => *size == 1 || size == most,
                _ => true,
            };
            if !of_first.is_some_and(fits) {
                return Err(format!(
                    "has an input {place} of shape {}, which does not fit its first, of shape {}",
                    text(&shape),
                    text(&first)
                ));
            }
        }
    }
    Ok(())
}
