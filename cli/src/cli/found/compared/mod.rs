//! What a comparison finds: plain data, of which text, JSON, Markdown and the page are made.
//!
//! This is the schema that docs/report-format.md describes.

pub(super) mod tensor;

use serde::{Deserialize, Serialize};
use tract_onnx_cast::survey::CastNode;

use crate::cli::found::audited::AuditedCast;
use crate::cli::found::head::Head;
use crate::cli::found::profile::Profile;
use crate::cli::found::verdict::Judgement;
use crate::cli::measure::number::Num;
pub(crate) use tensor::{ComparedTensor, Confidence, PairedBy};

/// Two models, or a model and saved outputs, and how they differ.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Compared {
    pub(crate) reference: String,
    pub(crate) converted: String,
    #[serde(flatten)]
    pub(crate) head: Head,
    /// Whether nothing but the weights was compared.
    pub(crate) is_of_weights: bool,
    /// Whether every output, or every weight, has the same values.
    pub(crate) identical: bool,
    #[serde(flatten)]
    pub(crate) judgement: Judgement,
    /// Whether a tolerance was given, which then rules the status.
    pub(crate) is_judged_by_tolerance: bool,
    pub(crate) outputs: Vec<ComparedTensor>,
    /// Inner tensors that both graphs have, in the order of computation; only what was asked for.
    pub(crate) tensors: Vec<ComparedTensor>,
    #[serde(flatten)]
    pub(crate) divergences: Divergences,
    pub(crate) casts: CastChanges,
    /// The error along the converted graph.
    pub(crate) profile: Profile,
    /// What the casts of the converted model did, worst first.
    pub(crate) converted_casts: Vec<AuditedCast>,
}

/// Where two graphs part, for each way to tell.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Divergences {
    /// Where the error grows most from what a node takes to what it makes.
    pub(crate) largest_jump: Option<Divergence>,
    pub(crate) first_difference: Option<Divergence>,
    /// The first tensor in which the converted model has a NaN or an infinity that the reference
    /// does not have.
    pub(crate) first_damage: Option<Divergence>,
    /// The first tensor of which the converted model's type cannot hold the reference's values.
    pub(crate) first_beyond: Option<Divergence>,
}

impl Divergences {
    /// Those that there are, the gravest first.
    pub(crate) fn gravest_first(&self) -> impl Iterator<Item = &Divergence> {
        let Divergences { largest_jump, first_difference, first_damage, first_beyond } = self;
        [first_damage, largest_jump, first_beyond, first_difference].into_iter().flatten()
    }
}

/// Where two graphs part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Divergence {
    pub(crate) tensor: ComparedTensor,
    /// The node that makes the tensor in the converted model, and its operator.
    pub(crate) node: String,
    pub(crate) op: String,
    /// What the cast did, where it is one.
    pub(crate) cast: Option<AuditedCast>,
    /// The worst of the casts before it that spoil values and that the reference does not have.
    pub(crate) culprit: Option<AuditedCast>,
    /// The nodes between the tensor and those before it that belong to one of the other model, as
    /// each model has them: what only one of the two does.
    pub(crate) only_reference: Vec<GraphNode>,
    pub(crate) only_converted: Vec<GraphNode>,
    /// The error of the tensor by its values, and the largest one of what the node takes.
    pub(crate) error: Num,
    pub(crate) error_before: Num,
}

impl Divergence {
    /// What is to blame for it: a cast before it, or what makes the tensor itself and spoils
    /// values.
    pub(crate) fn blamed(&self) -> Option<&AuditedCast> {
        let here = || self.cast.as_ref().filter(|cast| cast.damaged() > 0);
        self.culprit.as_ref().or_else(here)
    }
}

/// A node of a main graph.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GraphNode {
    /// Its name, or its first output where it has none.
    pub(crate) node: String,
    pub(crate) op: String,
}

/// How the two graphs' casts differ, by the value that they make.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct CastChanges {
    pub(crate) added: Vec<CastName>,
    pub(crate) removed: Vec<CastName>,
    pub(crate) retargeted: Vec<Retargeted>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CastName {
    pub(crate) node: String,
    pub(crate) graph: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Retargeted {
    pub(crate) reference: CastName,
    pub(crate) converted: CastName,
}

impl CastName {
    pub(crate) fn of(cast: &CastNode) -> CastName {
        CastName {
            node: cast.node.clone(),
            graph: cast.graph.to_string(),
            from: cast.from.map(|ty| ty.name().into()),
            to: cast.to.map(|ty| ty.name().into()),
        }
    }
}
