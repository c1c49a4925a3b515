//! The work of `onnx-cast inspect`: a model's Cast and CastLike nodes.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx_cast::{CastNode, ElementType, RoundMode};

use super::model::check_file;
use super::request::{Kind, Request};

/// A model to look at.
#[derive(Serialize, Deserialize)]
pub(crate) struct InspectRequest {
    pub(crate) model: PathBuf,
}

/// What the model says of a cast, as `--json` prints it.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeclaredCast {
    pub(crate) node: String,
    pub(crate) op: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) version: i64,
    pub(crate) saturate: Option<i64>,
    pub(crate) round_mode: Option<String>,
    pub(crate) graph: String,
}

/// A cast, and what becomes of it.
#[derive(Serialize, Deserialize)]
pub(crate) struct InspectedCast {
    pub(crate) declared: DeclaredCast,
    pub(crate) fate: String,
}

impl Request for InspectRequest {
    const KIND: Kind = Kind::Inspect;

    type Answer = Vec<InspectedCast>;

    fn answer(&self) -> TractResult<Vec<InspectedCast>> {
        check_file(&self.model)?;
        let onnx = tract_onnx_cast::onnx();
        let proto = onnx.proto_model_for_path(&self.model)?;
        let casts = onnx.casts(&proto, self.model.parent())?;
        Ok(casts.into_iter().map(inspected).collect())
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn places(&self) -> Vec<PathBuf> {
        vec![]
    }
}

fn inspected(cast: CastNode) -> InspectedCast {
    let name = |ty: ElementType| ty.name().to_owned();
    InspectedCast {
        fate: cast.fate.to_string(),
        declared: DeclaredCast {
            op: cast.operator.name().into(),
            from: cast.from.map(name),
            to: cast.to.map(name),
            version: cast.version,
            saturate: cast.saturate,
            round_mode: cast.round_mode.map(|mode| RoundMode::name(mode).into()),
            node: cast.node,
            graph: cast.graph,
        },
    }
}
