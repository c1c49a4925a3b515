//! The files that the command line reads, each as its reader gets it.

use std::fs;
use std::path::PathBuf;

use tract_onnx_cast::ElementType;

use crate::cli::found::limits::ToleranceLimits;
use crate::cli::input::files;
use crate::cli::process::protocol::{Header, Order};
use crate::cli::verb::audit::AuditRequest;
use crate::cli::verb::compare::CompareRequest;
use crate::cli::verb::run::RunRequest;

/// Byte 0 chooses the kind of file.
pub fn read(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let file = |extension: &str| {
        let path = scratch().join(format!("{}.{extension}", std::process::id()));
        fs::write(&path, data).expect("a scratch file");
        path
    };
    match kind % 5 {
        0 => {
            let array = files::read_npy(&file("npy"));
            let _ = array.and_then(|array| array.into_tensor(ElementType::BFloat16));
        }
        1 => {
            let arrays = files::read_npz(&file("npz"), |_| true).unwrap_or_default();
            for array in arrays.into_iter().filter_map(|(_, array)| array) {
                let _ = array.into_tensor(ElementType::Float);
            }
        }
        2 => {
            let path = file("pb");
            let _ = files::is_tensor_proto(&path);
            let array = files::read_tensor_proto(&path);
            let _ = array.and_then(|array| array.cast_to(ElementType::Int4));
        }
        3 => {
            let limits = ToleranceLimits::of(&PathBuf::from("model.onnx"), Some(&file("toml")));
            if let Ok((limits, _)) = limits {
                let _ = limits.unknown_outputs(&["y"]).count();
            }
        }
        _ => {
            let Ok(text) = std::str::from_utf8(data) else { return };
            let _ = serde_json::from_str::<Header>(text);
            let _ = serde_json::from_str::<Order<RunRequest>>(text);
            let _ = serde_json::from_str::<Order<AuditRequest>>(text);
            let _ = serde_json::from_str::<Order<CompareRequest>>(text);
        }
    }
}

/// Where files cost the least.
pub(crate) fn scratch() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}
