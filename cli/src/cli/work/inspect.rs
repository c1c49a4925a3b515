//! The work of `onnx-cast inspect`: a model's Cast and CastLike nodes, and its quantisers.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx_cast::{CastNode, ElementType, Fate, QuantizerNode, RoundMode, Survey};

use super::model::{check_file, onnx};
use super::notes::add_once;
use super::request::{Kind, Request};
use crate::cli::message::one_line;

/// A model to look at.
#[derive(Serialize, Deserialize)]
pub(crate) struct InspectRequest {
    pub(crate) model: PathBuf,
}

/// What the model says of a cast.
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

/// A cast, and what becomes of it, as `--json` prints it.
#[derive(Serialize, Deserialize)]
pub(crate) struct InspectedCast {
    #[serde(flatten)]
    pub(crate) declared: DeclaredCast,
    pub(crate) fate: String,
}

/// An operator that computes in FLOAT.
#[derive(Serialize, Deserialize)]
pub(crate) struct InspectedWidening {
    pub(crate) node: String,
    pub(crate) op: String,
    pub(crate) r#type: String,
}

/// What the model says of a quantiser.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeclaredQuantizer {
    pub(crate) node: String,
    pub(crate) op: String,
    pub(crate) x: Option<String>,
    pub(crate) scale: Option<String>,
    pub(crate) y: Option<String>,
    pub(crate) zero_point: bool,
    pub(crate) version: i64,
    pub(crate) axis: i64,
    pub(crate) block_size: usize,
    pub(crate) saturate: bool,
    pub(crate) precision: Option<String>,
    pub(crate) graph: String,
}

/// A quantiser, and what becomes of it, as `--json` prints it.
#[derive(Serialize, Deserialize)]
pub(crate) struct InspectedQuantizer {
    #[serde(flatten)]
    pub(crate) declared: DeclaredQuantizer,
    pub(crate) fate: String,
}

/// What was found.
#[derive(Serialize, Deserialize)]
pub(crate) struct Inspected {
    pub(crate) casts: Vec<InspectedCast>,
    pub(crate) quantizers: Vec<InspectedQuantizer>,
    /// The operators that compute in FLOAT instead of half precision.
    pub(crate) widened: Vec<InspectedWidening>,
    /// What is wrong with the casts.
    pub(crate) wrong_casts: Vec<String>,
    /// Why else the model cannot be run.
    pub(crate) others: Vec<String>,
}

impl Request for InspectRequest {
    const KIND: Kind = Kind::Inspect;

    type Answer = Inspected;

    fn answer(&self) -> TractResult<Inspected> {
        check_file(&self.model)?;
        let onnx = onnx();
        let proto = onnx.proto_model_for_path(&self.model)?;
        let survey = onnx.survey(&proto, self.model.parent())?;
        let Survey { casts, quantizers, widened, problems, .. } = survey;
        let (mut wrong_casts, mut others) = (vec![], vec![]);
        for problem in problems {
            let list = if problem.is_of_cast { &mut wrong_casts } else { &mut others };
            add_once(list, Some(one_line(&problem.error)));
        }
        let widened = widened.into_iter().map(|widened| InspectedWidening {
            node: widened.node,
            op: widened.operator,
            r#type: widened.ty.name().into(),
        });
        Ok(Inspected {
            casts: casts.into_iter().map(inspected).collect(),
            quantizers: quantizers.into_iter().map(inspected_quantizer).collect(),
            widened: widened.collect(),
            wrong_casts,
            others,
        })
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
            graph: cast.graph.to_string(),
        },
    }
}

fn inspected_quantizer(quantizer: QuantizerNode) -> InspectedQuantizer {
    let name = |ty: ElementType| ty.name().to_owned();
    let fate = if quantizer.is_constant { Fate::Folded } else { Fate::Kernel };
    InspectedQuantizer {
        fate: fate.to_string(),
        declared: DeclaredQuantizer {
            op: quantizer.operator.into(),
            x: quantizer.x.map(name),
            scale: quantizer.scale.map(name),
            y: quantizer.y.map(name),
            zero_point: quantizer.has_zero_point,
            version: quantizer.version,
            axis: quantizer.axis,
            block_size: quantizer.block_size,
            saturate: quantizer.saturate,
            precision: quantizer.precision.map(name),
            node: quantizer.node,
            graph: quantizer.graph.to_string(),
        },
    }
}
