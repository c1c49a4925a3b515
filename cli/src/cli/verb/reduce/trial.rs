//! Whether a part still shows what is wrong.

use onnx_cast_graph::NodeView;
use tract_onnx::prelude::*;
use tract_onnx_cast::{CastOnnx, ElementType};

use super::finding::{Finding, compared};
use super::part::Part;
use super::side::{self};
use super::values::{Values, by_name, saturated};
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::process::progress;
use crate::cli::tensor::NamedTensor;

/// What tells whether a part shows the finding, and counts how often it was asked.
pub(super) trait Trial {
    /// The part with what is right as its outputs, if it shows the finding.
    ///
    /// # Errors
    ///
    /// When nothing can be tried any more; a part that cannot be run shows nothing.
    fn shown(&mut self, part: Part) -> TractResult<Option<Part>>;

    /// How often a part was run.
    fn runs(&self) -> &Runs;
}

/// How often parts were run, and how often they may be.
pub(super) struct Runs {
    pub(super) made: usize,
    pub(super) most: usize,
}

impl Runs {
    /// Of a model with so many nodes.
    pub(super) fn of(nodes: usize) -> Runs {
        const ALWAYS: usize = 20;
        let halvings = nodes.max(1).next_power_of_two().trailing_zeros() as usize;
        Runs { made: 0, most: 2 * halvings + ALWAYS }
    }

    /// How many are left.
    pub(super) fn left(&self) -> usize {
        self.most.saturating_sub(self.made)
    }

    /// Counts one.
    pub(super) fn count(&mut self, nodes: usize) {
        self.made += 1;
        let Runs { made, most } = self;
        progress::tell(format_args!("run {made} of at most {most}, a part of {nodes} node(s)"));
    }
}

/// Whether the converted part is off where the reference's is not.
pub(super) struct PairTrial {
    pub(super) onnx: CastOnnx,
    pub(super) tolerance: Tolerance,
    /// What was found; the first part says it.
    pub(super) finding: Option<Finding>,
    /// The node of the converted model that is blamed: it stays.
    pub(super) blamed: Option<String>,
    pub(super) runs: Runs,
}

impl Trial for PairTrial {
    fn shown(&mut self, part: Part) -> TractResult<Option<Part>> {
        self.runs.count(part.nodes());
        let nodes = part.model.graph.iter().flat_map(onnx_cast_graph::all_graphs);
        let mut nodes = nodes.flat_map(|graph| &graph.node);
        let has_blamed = self.blamed.as_ref().is_none_or(|name| nodes.any(|n| n.label() == name));
        let Some((found, outputs)) = self.attempt(&part).ok().flatten().filter(|_| has_blamed)
        else {
            return Ok(None);
        };
        let is_it = self.finding.as_ref().is_none_or(|finding| found.is_like(finding));
        self.finding.get_or_insert(found);
        Ok(is_it.then_some(Part { outputs, ..part }))
    }

    fn runs(&self) -> &Runs {
        &self.runs
    }
}

impl PairTrial {
    /// What the part shows, and what is right in the model's types.
    fn attempt(&self, part: &Part) -> TractResult<Option<(Finding, Vec<NamedTensor>)>> {
        let Some(reference) = part.reference.clone() else { return Ok(None) };
        let values = by_name(part.inputs.clone());
        let right = side::run(&self.onnx, reference.clone(), None, &taken(&reference, &values)?)?;
        let made = side::run(&self.onnx, part.model.clone(), None, &values)?;
        let mut worst: Option<Finding> = None;
        let mut outputs = vec![];
        for (x, y) in right.iter().zip(&made) {
            let found = Finding::of(&compared(x, y, self.tolerance)?);
            let is_worse =
                |found: &Finding| worst.as_ref().is_none_or(|worst| found.error > worst.error);
            worst = found.filter(is_worse).or(worst);
            outputs.push(NamedTensor { name: y.name.clone(), ..saturated(x, y.ty)? });
        }
        Ok(worst.map(|worst| (worst, outputs)))
    }
}

/// The values as a model takes them that may have other types.
pub(super) fn taken(model: &tract_onnx::pb::ModelProto, values: &Values) -> TractResult<Values> {
    use tract_onnx::pb::type_proto::Value::TensorType;
    let mut taken = Values::new();
    for input in model.graph.iter().flat_map(|graph| &graph.input) {
        let ty = input.r#type.as_ref().and_then(|ty| match &ty.value {
            Some(TensorType(tensor)) => ElementType::from_id(tensor.elem_type),
            _ => None,
        });
        if let Some((ty, value)) = ty.zip(values.get(&input.name)) {
            taken.insert(input.name.clone(), saturated(value, ty)?);
        }
    }
    Ok(taken)
}
