//! Operands that are stretched to the shape of the first one, which they must not exceed.
//!
//! tract's rules give the result the shape of the first operand, and what it computes is broadcast to that of all.

use super::fitting::text;
use super::known::Known;

/// The operators with such operands, and their places.
const STRETCHED: &[(&str, &[usize])] = &[
    ("Clip", &[1, 2]),
    ("LayerNormalization", &[1, 2]),
    ("PRelu", &[1]),
    ("RMSNormalization", &[1]),
    ("SimplifiedLayerNormalization", &[1]),
];

/// Tells what is wrong with an operand that is larger than the first one, as far as their shapes are known.
pub(super) fn check(operator: &str, known: &dyn Known) -> Result<(), String> {
    let row = STRETCHED.iter().find(|(name, _)| *name == operator);
    let Some(first) = row.and_then(|_| known.shape(0)) else { return Ok(()) };
    for place in row.map_or(&[][..], |(_, places)| places) {
        let Some(shape) = known.shape(*place) else { continue };
        let mut of_first = first.iter().rev();
        for size in shape.iter().rev() {
            let most = of_first.next().copied().unwrap_or(Some(1));
            if let (Some(size), Some(most)) = (size, most)
                && *size > 1
                && *size != most
            {
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
