//! Who has called: a shell, or the Python module, whose users are told what to do in its own words.

use std::path::{Path, PathBuf};

/// Set by the Python module: the folder of the files that it has written for a call, of which its
/// user knows nothing.
pub(crate) const PYTHON_FILES: &str = "ONNX_CAST_PYTHON_FILES";

/// What the shell's user is told, or what Python's is.
pub(crate) fn told(shell: &'static str, python: &'static str) -> &'static str {
    if is_python() { python } else { shell }
}

pub(crate) fn is_python() -> bool {
    std::env::var_os(PYTHON_FILES).is_some()
}

/// Whether the caller has named this path.
pub(crate) fn has_named(path: &Path) -> bool {
    !folder().is_some_and(|folder| path.starts_with(folder))
}

/// A path, or a text that holds some, without a folder that the caller has not named.
pub(crate) fn named(text: &str) -> String {
    match folder() {
        Some(folder) => {
            let folder = folder.display();
            text.replace(&format!("{folder}{}", std::path::MAIN_SEPARATOR), "")
        }
        None => text.into(),
    }
}

/// The call of this program as its user has made it; of Python's, what it is about.
pub(crate) fn call() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    if !is_python() {
        return ["onnx-cast".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ");
    }
    let mut words = words.filter(|word| !word.starts_with('-'));
    let verb = words.next().unwrap_or_default();
    let models: Vec<String> = words.map(|word| named(&word)).collect();
    format!("onnx_cast.{verb}({}, …)", models.join(", "))
}

fn folder() -> Option<PathBuf> {
    std::env::var_os(PYTHON_FILES).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}
