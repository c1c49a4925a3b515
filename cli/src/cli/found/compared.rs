//! What a comparison finds: plain data, of which text, JSON, Markdown and the page are made.
//!
//! This is the schema that docs/report-format.md describes.

use serde::{Deserialize, Serialize};
use tract_onnx_cast::CastNode;

use crate::cli::found::audited::AuditedCast;
use crate::cli::found::coverage::Unexercised;
use crate::cli::found::inputs::Inputs;
use crate::cli::found::profile::Profile;
use crate::cli::found::status::Status;
use crate::cli::found::weights::ComparedWeights;
use crate::cli::measure::number::Num;
use crate::cli::measure::range::SourceRange;
use crate::cli::measure::reach::Reach;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::Problem;

/// Two models, or a model and saved outputs, and how they differ.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Compared {
    pub(crate) reference: String,
    pub(crate) converted: String,
    pub(crate) status: Status,
    /// Why the two cannot be compared.
    pub(crate) problem: Option<String>,
    /// The same for programs, and what it is about.
    pub(crate) error: Option<Problem>,
    pub(crate) sets: usize,
    pub(crate) inputs: Inputs,
    pub(crate) tolerance_file: Option<String>,
    /// Whether every output has the same values.
    pub(crate) identical: bool,
    /// What to know about how things were compared.
    pub(crate) notes: Vec<String>,
    /// Why the verdict may be another on other inputs.
    pub(crate) warnings: Vec<String>,
    pub(crate) outputs: Vec<ComparedTensor>,
    /// Inner tensors that both graphs have, in the order of computation; only what was asked for.
    pub(crate) tensors: Vec<ComparedTensor>,
    /// Where the error grows most from what a node takes to what it makes.
    pub(crate) largest_jump: Option<Parting>,
    pub(crate) first_difference: Option<Parting>,
    /// The first tensor in which the converted model has a NaN or an infinity that the reference does not have.
    pub(crate) first_damage: Option<Parting>,
    /// The first tensor of which the converted model's type cannot hold the reference's values.
    pub(crate) first_beyond: Option<Parting>,
    pub(crate) casts: CastChanges,
    /// The error along the converted graph.
    pub(crate) profile: Profile,
    /// What the casts of the converted model did, worst first.
    pub(crate) converted_casts: Vec<AuditedCast>,
    /// What the conversion did to the constants.
    pub(crate) weights: ComparedWeights,
    /// What no run of the converted model has reached.
    pub(crate) unexercised: Vec<Unexercised>,
}

/// Where two graphs part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Parting {
    pub(crate) tensor: ComparedTensor,
    /// The node that makes the tensor in the converted model, and its operator.
    pub(crate) node: String,
    pub(crate) op: String,
    /// What the cast did, where it is one.
    pub(crate) cast: Option<AuditedCast>,
    /// The worst of the casts before it that spoil values and that the reference does not have.
    pub(crate) culprit: Option<AuditedCast>,
    /// The nodes between the tensor and those before it that belong to one of the other model, as each model has them: what
    /// only one of the two does.
    pub(crate) only_reference: Vec<GraphNode>,
    pub(crate) only_converted: Vec<GraphNode>,
    /// The error of the tensor by its values, and the largest one of what the node takes.
    pub(crate) error: Num,
    pub(crate) error_before: Num,
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

/// One tensor of both sides.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ComparedTensor {
    pub(crate) name: String,
    /// The converted side's name, where it is another.
    pub(crate) converted_name: Option<String>,
    /// How the two were found to belong together (`name`, `position`, `values` or `structure`), and how sure that is
    /// (`certain` or `likely`).
    pub(crate) paired_by: String,
    pub(crate) confidence: String,
    pub(crate) reference_type: String,
    pub(crate) converted_type: String,
    pub(crate) shape: Vec<usize>,
    /// Why the tensors cannot be compared, such as different shapes.
    pub(crate) problem: Option<String>,
    pub(crate) elements: u64,
    pub(crate) passed: bool,
    /// Whether every value is the same, the sign of zeros included.
    pub(crate) identical: bool,
    /// Elements beyond the tolerance.
    pub(crate) mismatches: u64,
    /// Elements that are not the same value.
    pub(crate) differing: u64,
    /// Where only one side is NaN.
    pub(crate) nan_differences: u64,
    /// Where only one side is infinite, or both with other signs.
    pub(crate) infinity_differences: u64,
    /// Where both sides are NaN.
    pub(crate) both_nan: u64,
    pub(crate) max_abs: Num,
    pub(crate) max_rel: Num,
    pub(crate) max_ulp: Num,
    pub(crate) mean_ulp: Num,
    pub(crate) cosine: Option<Num>,
    /// The ratio of the reference's power to that of the errors, in decibels.
    pub(crate) sqnr: Option<Num>,
    /// The share of rows, along the last axis, with the largest element at the same place, and of their five largest elements.
    pub(crate) top1: Option<Num>,
    pub(crate) top5: Option<Num>,
    /// The smallest tolerances that would pass, each on its own; none passes where NaN or infinities differ.
    pub(crate) passing_atol: Option<Num>,
    pub(crate) passing_rtol: Option<Num>,
    pub(crate) tolerance: Tolerance,
    /// The mismatch that comes first, in words.
    pub(crate) first_mismatch: Option<String>,
    /// The reference's values.
    pub(crate) source: SourceRange,
    /// What the converted side's type can hold.
    pub(crate) target: Option<Reach>,
    /// How many finite values of the reference the converted side's type cannot hold even after rounding.
    pub(crate) beyond_target: u64,
    /// Pairs of ⌊log₁₀ of the relative error⌋ and how many elements have it; identical ones are left out.
    pub(crate) errors_log10: Vec<(i32, u64)>,
}

impl Compared {
    /// A pair that could not be compared.
    pub(crate) fn unusable(reference: String, converted: String, problem: Problem) -> Compared {
        Compared {
            reference,
            converted,
            status: Status::Unusable,
            problem: Some(problem.message.clone()),
            error: Some(problem),
            sets: 0,
            inputs: Inputs::default(),
            tolerance_file: None,
            identical: false,
            notes: vec![],
            warnings: vec![],
            outputs: vec![],
            tensors: vec![],
            largest_jump: None,
            first_difference: None,
            first_damage: None,
            first_beyond: None,
            casts: CastChanges::default(),
            profile: Profile::default(),
            converted_casts: vec![],
            weights: ComparedWeights::default(),
            unexercised: vec![],
        }
    }
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
