//! What the user should know besides the answer.

/// Adds a note unless it is there.
pub(crate) fn add_once(notes: &mut Vec<String>, note: Option<String>) {
    notes.extend(note.filter(|note| !notes.contains(note)));
}
