//! `compare --weights-only`: the weights of two models, held against each other without a run.
//!
//! They are read from their files a part at a time, those apart that one model turns round or
//! computes of others, which are there one after the other.

use std::path::Path;

use anyhow::anyhow;
use tract_onnx::prelude::TractResult;
use tract_onnx_cast::model_proto;

use crate::cli::found::compared::Compared;
use crate::cli::found::finding::{Code, FindingRow, remarks, status};
use crate::cli::found::head::Head;
use crate::cli::input::saved::{self, Content};
use crate::cli::message::{ProblemKind, about, at};
use crate::cli::work::engine::Engine;
use crate::cli::work::model::Loader;
use crate::cli::work::weights::Weights;
use crate::cli::work::weights::constants::Holder;

/// Holds the weights of two models against each other. One of other values fails it: without a run
/// nobody can tell that these are right. Fails when a side is no model, or a weight cannot be read.
pub(super) fn compare(
    loader: &Loader,
    reference: &Path,
    converted: &Path,
) -> TractResult<Compared> {
    let loader = loader.by(Engine::Nodes, None);
    let open = |path: &Path| {
        let file = match saved::read(path)? {
            Content::Model(file, _) => file,
            Content::Saved(_) => {
                let because = "--weights-only is for models, these are saved outputs";
                return about(ProblemKind::Call, Err(anyhow!("{}: {because}", path.display())));
            }
        };
        let proto = at(path.display(), loader.read_light(&file))?;
        let folder = file.parent().map(Path::to_path_buf);
        let missing = folder.iter().flat_map(|folder| model_proto::missing_data(&proto, folder));
        at(path.display(), missing.into_iter().next().map_or(Ok(()), Err))?;
        Ok((proto, folder))
    };
    let ((a, folder_a), (b, folder_b)) = (open(reference)?, open(converted)?);
    let onnx = &loader.onnx();
    let holder_a = Holder { proto: &a, folder: folder_a.as_deref(), onnx, unpacked: &[] };
    let holder_b = Holder { proto: &b, folder: folder_b.as_deref(), onnx, unpacked: &[] };
    let mut found = Weights::of(&holder_a, &holder_b, false)?;
    let notes = std::mem::take(&mut found.notes);
    let weights = found.judged(None, None);
    let nothing = "nothing was compared: no weight of one model belongs to one of the other";
    let nothing = (weights.compared == 0).then(|| FindingRow::new(Code::NothingCompared, nothing));
    let rows: Vec<FindingRow> = remarks(notes).chain(weights.errors()).chain(nothing).collect();
    Ok(Compared {
        reference: reference.display().to_string(),
        converted: converted.display().to_string(),
        is_of_weights: true,
        identical: weights.exact == weights.compared,
        head: Head { status: status(&rows), rows, weights, ..Head::default() },
        ..Compared::default()
    })
}
