//! What a walk need not look into again: a value that the walk before has held against the
//! reference's, made of the same and judged by the same doubt. Its node does not run.

use std::collections::{HashMap, HashSet};

use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, SharedTensor};

use super::super::numbers::{cast, is_computed_in, largest, peak, shaped};
use super::super::site::Site;
use super::super::trace::full_name;
use super::Walk;
use super::values::{coarser, is_quantizer};

/// What a walk has found of a value that it has replaced by the reference's.
pub(in super::super) struct SettledValue {
    site: Site,
    form: ValueForm,
}

/// What a node has made, before it was replaced.
#[derive(Clone)]
pub(super) struct ValueForm {
    ty: ElementType,
    shape: Vec<usize>,
}

impl Walk<'_> {
    /// The values whose pairs are not sure and that deviate: they may be explained in another walk,
    /// and are the reference's behind them then.
    pub(in super::super) fn unsure(&self) -> impl Iterator<Item = String> {
        let unsure = self.sites.deviating().filter(|site| !site.is_sure);
        unsure.map(|site| site.converted.clone())
    }

    /// Values, and those that are made of them, up to those that a walk with these `loose` is sure
    /// to replace. What comes out of sequences and optionals may be made of any.
    pub(in super::super) fn behind_all(
        &self,
        values: &HashSet<String>,
        loose: &HashSet<String>,
    ) -> HashSet<String> {
        if values.is_empty() {
            return HashSet::new();
        }
        let mut behind: HashSet<String> = values.union(&self.of_sequences).cloned().collect();
        let roots = behind.clone();
        let mut reached: HashSet<&str> = roots.iter().map(String::as_str).collect();
        for (taken, made) in self.order.iter() {
            if !taken.iter().any(|name| reached.contains(name.as_str())) {
                continue;
            }
            for name in made {
                let site = self.sites.get(name);
                let is_end = site.is_some_and(|site| site.is_sure && site.is_replaced);
                if !is_end || loose.contains(name) {
                    reached.insert(name);
                }
                behind.insert(name.clone());
            }
        }
        behind
    }

    /// What another walk need not look into, in which doubt is carried along to `wanted` values,
    /// and `others` may be others than in this one.
    pub(in super::super) fn settled(
        &self,
        wanted: &HashSet<String>,
        others: &HashSet<String>,
    ) -> HashMap<String, SettledValue> {
        let is_settled = |site: &&Site| {
            let name = &site.converted;
            site.is_replaced && !wanted.contains(name) && !others.contains(name)
        };
        let of = |site: &Site| {
            let (site, form) = (site.clone(), self.forms.get(&site.converted)?.clone());
            Some((site.converted.clone(), SettledValue { site, form }))
        };
        self.sites.all.iter().filter(is_settled).filter_map(of).collect()
    }

    /// Notes the form of what a node has made, if another walk may do without a run of it.
    pub(super) fn note_form(&mut self, node: &NodeRun, output: &ObservedTensor) {
        let is_inside = !node.graph.is_empty() || node.has_bodies();
        let is_other = is_quantizer(node.op_type) || node.op_type == "Constant";
        let ty = output.element_type;
        if !is_inside && !is_other && is_computed_in(ty) {
            let form = ValueForm { ty, shape: output.tensor.shape().to_vec() };
            self.forms.insert(full_name(output), form);
        }
    }

    /// The reference's values in the place of what a node makes, where all of that is settled.
    pub(super) fn settled_outputs(&self, node: &NodeRun) -> Option<Vec<Option<SharedTensor>>> {
        if self.settled.is_empty() || !node.graph.is_empty() {
            return None;
        }
        let value = |name: Option<&str>| {
            let Some(name) = name else { return Some(None) };
            let form = &self.settled.get(name)?.form;
            let want = self.wanted_of(name, &form.shape)?;
            let fits = want.0 == form.ty || peak(&want) <= largest(form.ty);
            cast(&want, form.ty).filter(|_| fits).map(Some)
        };
        let made: Vec<_> = node.output_names().map(value).collect::<Option<_>>()?;
        made.iter().any(Option::is_some).then_some(made)
    }

    /// Takes what was found of the outputs of such a node.
    pub(super) fn pass(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) {
        self.note(node, &[], outputs);
        self.coarsest = coarser(self.coarsest, outputs);
        for output in outputs.iter_mut().flatten() {
            let name = full_name(output);
            let want = self.wanted_of(&name, output.tensor.shape());
            let (Some(settled), Some(want)) = (self.settled.get(&name), want) else { continue };
            self.sites.add(settled.site.clone());
            self.forms.insert(name.clone(), settled.form.clone());
            *self.seen.entry(name.clone()).or_default() += 1;
            if let Some(twin) = self.replaced(&name, &want, output) {
                self.twins.insert(name, twin);
            }
        }
    }

    /// What the reference has first made of a value, or holds, in a shape, and as it was moved.
    fn wanted_of(&self, name: &str, shape: &[usize]) -> Option<SharedTensor> {
        let reference = &self.links.get(name)?.reference;
        let want = match self.reference.values.get(reference) {
            Some(times) => times.first().cloned(),
            None => self.weights.read(self.reference, reference),
        };
        self.moved.value(name, shaped(&want?, shape)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::links::Link;
    use super::super::super::reference_weights::ReferenceWeights;
    use super::super::super::trace::Trace;
    use super::*;

    fn names(names: &[&str]) -> HashSet<String> {
        names.iter().map(|name| String::from(*name)).collect()
    }

    fn site(name: &str, is_sure: bool, is_replaced: bool) -> Site {
        Site { converted: name.into(), is_sure, is_replaced, ..Site::default() }
    }

    /// `w` is made of `v`, `s` of `w`, `t` of `s`, `at` of a sequence, and `u` of that.
    fn walk<'a>(
        (reference, links): (&'a Trace, &'a HashMap<String, Link>),
        weights: &'a ReferenceWeights<'a>,
        sites: [Site; 3],
    ) -> Walk<'a> {
        let mut walk = Walk::new(reference, links, weights, HashMap::new());
        let pairs = [("v", "w"), ("w", "s"), ("s", "t"), ("", "at"), ("at", "u")];
        for (taken, made) in pairs {
            walk.order.push(vec![taken.into()], vec![made.into()]);
        }
        walk.of_sequences = names(&["at"]);
        for site in sites {
            let form = ValueForm { ty: ElementType::Float, shape: vec![2] };
            walk.forms.insert(site.converted.clone(), form);
            walk.sites.add(site);
        }
        walk
    }

    #[test]
    fn what_may_be_another_goes_up_to_what_is_surely_replaced() {
        let (reference, links, weights) =
            (Trace::default(), HashMap::new(), ReferenceWeights::default());
        let behind = |s: Site, values: &[&str], loose: &[&str]| {
            let sites = [s, site("t", true, true), site("u", true, true)];
            let walk = walk((&reference, &links), &weights, sites);
            let behind = walk.behind_all(&names(values), &names(loose));
            let settled = walk.settled(&names(&[]), &behind).into_keys().collect::<HashSet<_>>();
            (behind, settled)
        };
        let sure = || site("s", true, true);
        let all = names(&["v", "w", "s", "t", "at", "u"]);
        let up_to_s = (names(&["v", "w", "s", "at", "u"]), names(&["t"]));
        assert_eq!(behind(sure(), &["v"], &[]), up_to_s);
        assert_eq!(behind(sure(), &["v"], &["s"]), (all.clone(), names(&[])));
        // A pair that is not sure, or whose value has another shape, may be none.
        assert_eq!(behind(site("s", false, true), &["v"], &[]).0, all);
        assert_eq!(behind(site("s", true, false), &["v"], &[]).0, all);
        assert_eq!(behind(sure(), &[], &[]), (names(&[]), names(&["s", "t", "u"])));
    }
}
