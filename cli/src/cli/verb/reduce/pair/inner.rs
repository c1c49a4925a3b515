//! A part that is a node with bodies: the pair of its bodies, at the time that shows what is wrong
//! first.

use std::path::Path;

use tract_onnx::prelude::*;

use super::Reducer;
use super::cause::{CauseSearch, RootCause};
use super::culprits::Tried;
use super::finding::noise;
use super::matched::ModelPair;
use crate::cli::measure::metrics::compared;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::reduce::inside::RanBody;
use crate::cli::verb::reduce::part::Part;
use crate::cli::verb::reduce::reduced::{Reduced, ReducedCase};
use crate::cli::verb::reduce::side::{SourceModel, onnx};
use crate::cli::verb::reduce::values::{Values, are_alike, by_name, saturated, taken};

impl Reducer<'_> {
    /// The case of what is inside a part, if that is a node with bodies and one of them shows it.
    pub(super) fn inside(
        &self,
        part: &Part,
        cause: &RootCause,
        place: &Path,
        reduced: &mut Reduced,
    ) -> TractResult<Option<ReducedCase>> {
        // Bodies that cannot be looked into are left as they are.
        for pair in self.bodies(part).unwrap_or_default() {
            reduced.runs += 2;
            if let Some(culprit) = &cause.culprit {
                let tried = if cause.is_another { Tried::Another } else { Tried::Ends };
                if let Some(case) = self.of_culprit(&pair, culprit, tried, place, reduced)? {
                    return Ok(Some(case));
                }
                continue;
            }
            let before = reduced.cases.len();
            let mut search =
                CauseSearch { pair: &pair, limits: &self.request.limits, runs: 0, most: 1 };
            let whole = search.outputs_given(&[])?;
            if whole > 0.0 {
                self.reduce(pair, whole, place, reduced)?;
            }
            let mut cases = reduced.cases.split_off(before).into_iter();
            if let Some(first) = cases.next() {
                reduced.cases.extend(cases);
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    fn bodies(&self, part: &Part) -> TractResult<Vec<ModelPair>> {
        let Some(reference) = part.reference.clone() else { return Ok(vec![]) };
        let inputs = by_name(part.inputs.clone());
        let given = [taken(&reference, &inputs)?, inputs];
        let side = |proto| SourceModel::of(onnx(self.loader), proto, None);
        let (a, b) = (side(reference)?, side(part.model.clone())?);
        let (of_a, of_b) = (a.bodies(&given[0])?, b.bodies(&given[1])?);
        let mut pairs = vec![];
        for x in &of_a {
            let Some(y) = of_b.iter().find(|y| y.place == x.place) else { continue };
            pairs.extend(opened((&a, x), (&b, y))?);
        }
        Ok(pairs)
    }
}

/// The bodies at the first time at which they make something else.
fn opened(
    (a, x): (&SourceModel, &RanBody),
    (b, y): (&SourceModel, &RanBody),
) -> TractResult<Option<ModelPair>> {
    let names = |side: &SourceModel, body: &RanBody| {
        let held = side.graph.body(body.body);
        let outputs = held.outputs().iter().map(|output| output.value);
        let named = |id| side.name(id).to_owned();
        let inputs: Vec<String> = held.inputs().iter().copied().map(named).collect();
        (inputs, outputs.map(named).collect::<Vec<String>>())
    };
    let ((taken_a, made_a), (taken_b, made_b)) = (names(a, x), names(b, y));
    let told: Vec<(String, String)> =
        taken_a.into_iter().zip(taken_b).chain(made_a.into_iter().zip(made_b)).collect();
    for (of_a, of_b) in x.times.iter().zip(&y.times) {
        let both = told.iter().filter_map(|(x, y)| of_a.get(x).zip(of_b.get(y)));
        if !both.map(|(x, y)| is_off(x, y)).collect::<TractResult<Vec<_>>>()?.contains(&true) {
            continue;
        }
        let Some((a, b)) = a.opened(x.body, of_a)?.zip(b.opened(y.body, of_b)?) else { continue };
        let given = |name: &str, found: &NamedTensor| {
            let other = told.iter().find(|(_, y)| y == name).map_or(name, |(x, _)| x.as_str());
            let right = of_a.get(other).filter(|right| {
                are_alike(right.ty, found.ty) && right.tensor.shape() == found.tensor.shape()
            });
            let held = right.map_or_else(|| Ok(found.clone()), |x| saturated(x, found.ty))?;
            TractResult::Ok((name.to_owned(), NamedTensor { name: name.into(), ..held }))
        };
        let names = b.inputs().into_iter().map(|id| b.name(id).to_owned()).collect::<Vec<_>>();
        let held = names.iter().filter_map(|name| Some((name, of_b.get(name)?)));
        let inputs: Values =
            held.map(|(name, found)| given(name, found)).collect::<TractResult<_>>()?;
        let mut pair = ModelPair::of(a, b, [of_a.clone(), inputs], &told)?;
        pair.pair_further();
        return Ok(Some(pair));
    }
    Ok(None)
}

/// Whether a value is off by more than a few roundings.
fn is_off(x: &NamedTensor, y: &NamedTensor) -> TractResult<bool> {
    Ok(compared(x, y, Tolerance::default())?.largest_error() > noise(x.ty, y.ty))
}
