//! How each set of inputs fares by itself.

use tract_onnx::prelude::TractResult;

use super::open::Sides;
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::found::samples::{SampleResult, sort};
use crate::cli::measure::metrics::compared;
use crate::cli::tensor::NamedTensor;

/// What has been found of the sets so far. Of one set alone nothing is.
pub(super) struct CompareSamples {
    names: Vec<String>,
    results: Vec<SampleResult>,
}

impl CompareSamples {
    pub(super) fn of(sides: &Sides, count: usize) -> CompareSamples {
        let named = sides.reference_sets.iter().map(|set| set.name.clone());
        let numbered = (named.len()..count).map(|place| format!("set {place}"));
        let names = named.chain(numbered).filter(|_| count > 1);
        CompareSamples { names: names.collect(), results: vec![] }
    }

    /// Judges the outputs of the set at a place. Fails when a tensor is not of its type's carrier.
    pub(super) fn add(
        &mut self,
        place: usize,
        outputs: &[(&NamedTensor, &NamedTensor)],
        limits: &ToleranceLimits,
    ) -> TractResult<()> {
        let Some(name) = self.names.get(place) else { return Ok(()) };
        let outputs = outputs.iter().map(|(a, b)| compared(a, b, limits.output(&a.name)));
        let outputs = outputs.collect::<TractResult<Vec<_>>>()?;
        self.results.push(SampleResult::of_outputs(name, &outputs));
        Ok(())
    }

    /// The results, the worst first.
    pub(super) fn finish(mut self) -> Vec<SampleResult> {
        sort(&mut self.results);
        self.results
    }
}
