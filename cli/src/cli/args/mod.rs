//! What several verbs take: tolerances, places of reports, and limits of tract's resources. Those
//! of inputs are `input::args`.

pub(crate) mod report;
pub(crate) mod resources;
pub(crate) mod tolerance;

/// The name of a type of half precision, whatever of its names it is called by.
pub(crate) fn half_precision(text: &str) -> Option<&'static str> {
    match text.to_ascii_uppercase().as_str() {
        "FLOAT16" | "FP16" | "F16" | "HALF" => Some("FLOAT16"),
        "BFLOAT16" | "BF16" => Some("BFLOAT16"),
        _ => None,
    }
}
