//! What the names of inputs say. They decide where the nodes leave it open, and tell positions from
//! other indices.

use tract_onnx_cast::{ElementType, Family};

use super::{Bound, Evidence, Role};
use crate::cli::input::declared::Input;

/// What an input's name speaks for.
pub(super) fn evidence(input: &Input) -> Option<Evidence> {
    let name = input.name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let is_integer = matches!(input.ty.family(), Family::Signed | Family::Unsigned);
    let is_wide = is_integer && input.ty.bits() >= 32;
    let is_one = input.rank() == Some(0);
    let is_short = input.rank().is_some_and(|rank| rank <= 1);
    let is_single = input.rank() == Some(1) && input.size(0) == Some(1);
    let is_float = input.ty.is_float();
    let (weight, role) = match () {
        () if input.ty == ElementType::Bool => {
            let is_one = input.rank() == Some(0);
            (20, if is_one { Role::Condition } else { Role::Mask })
        }
        // Such as whether there is a mask: that of one place alone would be no mask.
        () if has(&["mask"]) && (is_one || is_single) => (91, Role::Condition),
        () if has(&["mask"]) && !has(&["position"]) => (91, Role::Mask),
        () if is_wide && has(&["position", "pos_id"]) => {
            (93, Role::Position { below: Bound::Fixed(1 << 20) })
        }
        () if is_wide && has(&["length", "lens", "_len"]) => {
            (56, Role::Length { most: Bound::Shortest })
        }
        () if is_wide && has(&["ids", "tokens"]) => {
            (54, Role::Index { below: Bound::Fixed(11), shift: 0, has_negative: false })
        }
        () if is_one && name == "start" => (20, Role::Within { low: 0.0, high: 0.0 }),
        () if is_one && name == "limit" => (20, Role::Within { low: 3.0, high: 6.0 }),
        () if is_one && name == "delta" => (20, Role::Within { low: 0.5, high: 1.0 }),
        () if has(&["timestep", "time_step"]) => (80, Role::Within { low: 0.0, high: 999.0 }),
        () if is_float && is_short && (name == "t" || has(&["time"])) => {
            (40, Role::Within { low: 0.0, high: 1.0 })
        }
        () if is_float && has(&["audio", "waveform", "wav", "pcm", "speech", "sound"]) => {
            (62, Role::Within { low: -1.0, high: 1.0 })
        }
        () if is_float && has(&["prob"]) => (40, Role::Within { low: 0.0, high: 1.0 }),
        () if is_float && has(&["pixel_values", "image"]) => {
            (59, Role::Within { low: -2.5, high: 2.5 })
        }
        () if is_integer && input.ty.bits() == 8 => (10, Role::WholeType),
        () => return None,
    };
    let why = match role {
        Role::WholeType => format!("it is {}", input.ty),
        Role::Condition | Role::Mask if weight == 20 => "it is BOOL".into(),
        _ => "its name says so".into(),
    };
    Some(Evidence { weight, role, why })
}
