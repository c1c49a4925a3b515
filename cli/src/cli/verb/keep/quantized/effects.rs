//! The effect of each quantiser alone on each output, worst first.

use std::collections::HashMap;

use onnx_cast_graph::has_bodies;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Observer;

use super::alone::{Alone, OwnNoise, Single};
use super::effect::{OutputEffect, QuantizerEffect};
use super::parameters::Finder;
use super::plan::{Entry, EntryKind, QuantizationPlan};
use super::subject::FloatModel;
use crate::cli::input::sets::Set;
use crate::cli::measure::metrics::Metrics;
use crate::cli::measure::number::Num;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::progress;
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::keep::reference::CountedRuns;

/// How many quantisers go along in one walk: their variants are held together.
const TOGETHER: usize = 32;

/// How often nodes run once more at most: where a model has more nodes and quantisers, those that
/// do little to their own values are not ranked.
const NODE_RUNS: usize = 1 << 23;

/// A model of which none, or one, of its quantisers is there.
pub(super) struct Bench<'a> {
    /// Without quantisers.
    pub(super) model: &'a ModelProto,
    /// With the one at a place.
    pub(super) with: &'a dyn Fn(usize) -> TractResult<ModelProto>,
    /// The inputs.
    pub(super) set: &'a Set,
    /// What the model without quantisers makes of them.
    pub(super) wanted: &'a [NamedTensor],
}

impl Bench<'_> {
    /// The effects of quantisers, worst first, and a note where there are too many for all of them.
    /// Fails when the model cannot be run.
    pub(super) fn effects(
        &self,
        mut quantizers: Vec<Single>,
        runs: &mut CountedRuns,
    ) -> TractResult<(Vec<QuantizerEffect>, Option<String>)> {
        // Bodies take values that their node does not.
        let functions = self.model.functions.iter().flat_map(|function| &function.node);
        let nodes = self.model.graph.iter().flat_map(|graph| &graph.node);
        let is_whole = nodes.chain(functions).any(has_bodies);
        let nodes = self.model.graph.as_ref().map_or(0, |graph| graph.node.len());
        let (all, most) = (quantizers.len(), (NODE_RUNS / nodes.max(1)).max(TOGETHER));
        let note = (all > most && !is_whole).then(|| {
            format!("of {all} quantisers the {most} are ranked that alone change their values most")
        });
        if note.is_some() {
            quantizers = self.noisiest(quantizers, most, runs)?;
        }
        let count = quantizers.len();
        for (place, part) in (0..).step_by(TOGETHER).zip(quantizers.chunks_mut(TOGETHER)) {
            let places = place..place + part.len();
            progress::tell(format_args!("quantisers {} to {} of {count}", place + 1, places.end));
            let outputs = if is_whole {
                places.map(|at| self.by_whole_run(at, runs)).collect::<TractResult<_>>()?
            } else {
                self.along(part, runs)?
            };
            for (single, outputs) in part.iter_mut().zip(outputs) {
                single.effect.outputs = outputs;
            }
        }
        let mut effects: Vec<QuantizerEffect> =
            quantizers.into_iter().map(|single| single.effect).collect();
        effects.sort_by(|a, b| b.noise().total_cmp(&a.noise()));
        Ok((effects, note))
    }

    /// Those that change their values most.
    fn noisiest<'a>(
        &self,
        quantizers: Vec<Single<'a>>,
        most: usize,
        runs: &mut CountedRuns,
    ) -> TractResult<Vec<Single<'a>>> {
        let mut own = OwnNoise::new(&quantizers);
        self.walk(&mut own, runs)?;
        let noise = own.noise;
        let mut all: Vec<(f64, Single)> = noise.into_iter().zip(quantizers).collect();
        all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        Ok(all.into_iter().take(most).map(|(_, single)| single).collect())
    }

    /// Runs the model without quantisers, watched.
    fn walk(&self, observer: &mut dyn Observer, runs: &mut CountedRuns) -> TractResult<()> {
        let model = runs.loader.load(&runs.onnx, self.model.clone(), runs.folder)?;
        let tensors = self.set.tensors()?;
        runs.count += 1;
        model.ready(&tensors, None)?.run(tensors, Some(observer))?;
        Ok(())
    }

    /// Whether noise says something of an output: of indices and labels it does not, and is told
    /// only where there is nothing else.
    fn is_ranked(&self, want: &NamedTensor) -> bool {
        let is_float = |output: &NamedTensor| output.ty.is_float();
        is_float(want) || !self.wanted.iter().any(is_float)
    }

    /// The effect of a quantiser, by a run of the whole model.
    fn by_whole_run(&self, at: usize, runs: &mut CountedRuns) -> TractResult<Vec<OutputEffect>> {
        let outputs = runs.run((self.with)(at)?, None, self.set)?;
        let outputs = self.wanted.iter().zip(&outputs).filter(|(want, _)| self.is_ranked(want));
        outputs.map(|(want, got)| output_effect(want, Some(&got.tensor))).collect()
    }

    /// The effects of some quantisers, by one walk.
    fn along(
        &self,
        quantizers: &[Single],
        runs: &mut CountedRuns,
    ) -> TractResult<Vec<Vec<OutputEffect>>> {
        let mut alone = Alone::new(quantizers);
        self.walk(&mut alone, runs)?;
        for want in self.wanted {
            alone.quantise(&want.name.as_str().into(), &want.tensor);
        }
        let output = |want: &NamedTensor, place: usize| {
            if alone.failed.contains(&place) {
                Ok(OutputEffect { name: want.name.clone(), sqnr: None })
            } else {
                output_effect(want, alone.output(&want.name, place))
            }
        };
        let ranked: Vec<&NamedTensor> =
            self.wanted.iter().filter(|want| self.is_ranked(want)).collect();
        let outputs = |place| ranked.iter().map(|want| output(want, place)).collect();
        (0..quantizers.len()).map(outputs).collect()
    }
}

/// A plan's quantisers. One with the scale of another tensor changes nothing that is not changed
/// there, and is left out. Fails when a weight cannot be read.
pub(super) fn labelled<'a>(
    subject: &'a FloatModel,
    plan: &QuantizationPlan,
    finder: &Finder,
) -> TractResult<(Vec<Single<'a>>, Vec<Entry>)> {
    let (mut found, mut entries) = (vec![], vec![]);
    for entry in plan.entries.iter().filter(|entry| !matches!(entry.how, EntryKind::Like(_))) {
        let Some(parameters) = finder.of(entry)? else { continue };
        let kind = match entry.how {
            EntryKind::Bias { .. } => "bias",
            _ if subject.weight(&entry.value).is_some() => "weight",
            _ => "activation",
        };
        let nodes = entry.by.iter().filter_map(|place| subject.nodes().get(*place));
        let effect = QuantizerEffect {
            tensor: entry.value.clone(),
            kind: kind.into(),
            ty: parameters.ty.name().into(),
            nodes: nodes.map(|node| node.name.clone()).collect(),
            outputs: vec![],
        };
        let only = entry.only.and_then(|place| subject.nodes().get(place));
        found.push(Single {
            effect,
            value: entry.value.clone(),
            only: only.map(|node| node.name.clone()),
            change: Box::new(move |x| parameters.applied(x)),
        });
        entries.push(entry.clone());
    }
    Ok((found, entries))
}

fn output_effect(want: &NamedTensor, got: Option<&Tensor>) -> TractResult<OutputEffect> {
    let name = want.name.clone();
    let Some(got) = got else {
        return Ok(OutputEffect { name, sqnr: Some(Num(f64::INFINITY)) });
    };
    let got = NamedTensor { name: name.clone(), ty: want.ty, tensor: got.clone() };
    let mut metrics = Metrics::of_inner(want, &got, Tolerance::default());
    metrics.add(want, &got)?;
    Ok(OutputEffect { name, sqnr: metrics.finish().sqnr })
}

/// How much noise the quantisers that a node asks for make alone, and the worst of them in words.
pub(super) fn by_node(
    effects: &[QuantizerEffect],
) -> (HashMap<String, f64>, HashMap<String, String>) {
    let (mut noise, mut words) = (HashMap::new(), HashMap::new());
    for effect in effects {
        for node in &effect.nodes {
            *noise.entry(node.clone()).or_default() += effect.noise();
            words.entry(node.clone()).or_insert_with(|| effect.in_words());
        }
    }
    (noise, words)
}
