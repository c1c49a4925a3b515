//! The conversion node by node, each on what the reference has for its inputs.
//!
//! Behind each node a value that belongs to one of the reference is replaced by it, cast to the
//! conversion's type, so that errors do not travel: what differs arises between it and the values
//! before it that belong to some (a region). Beside each value runs its twin, free of the types'
//! rounding: the reference's own tensor, or what the node makes of twins. What a twin is off, no
//! rounding explains beyond the doubt that is left, nor what the reference rounds itself (`own`).

mod bodies;
pub(super) mod own;
mod values;

use std::collections::{HashMap, HashSet};
use std::iter;
use std::rc::Rc;

use tract_onnx_cast::interpreter::{
    BodyInput, BodyOutput, NodeRun, ObservedTensor, Observer, SharedTensor,
};

use tract_onnx_cast::{ElementType, Family, Result};

use super::doubt::{Carried, Doubt, Twin, doubts};
use super::links::{Link, Links};
use super::numbers::{
    BLOCK, cast, is_computed_in, largest, numbers_in, peak, rounding, shaped, smallest,
    smallest_normal, wide,
};
use super::quantizers::{Quantizers, beyond_codes};
use super::reference_weights::Weights;
use super::site::{Site, Sites, Whole};
use super::trace::{Trace, full_name, shared};
use bodies::Bodies;
use own::Own;
use values::{
    INSIDE, coarser, held_in, in_double, in_own_types, is_mask, is_of_sequence, is_quantizer,
    narrowed, of_sequence, rough, undoubted, widened,
};

/// How many roundings of the reference's type two ways to compute one value may be apart.
const ROUNDINGS: f64 = 16.0;
/// The same where that is half precision: nodes compute it in FLOAT and round their results once, and what is
/// rounded between two of them is carried beside (`own`).
const ROUNDINGS_OF_HALF: f64 = 2.0;
/// Kernels may flush what has not all its digits, and what they make of it: so many times the smallest
/// value that has.
const VANISHING: f64 = 4.0;

/// The walk, and what it has found.
pub(super) struct Walk<'a> {
    pub(super) reference: &'a Trace,
    /// How coarsely the reference rounds some of its own values, by casts that a conversion may leave out.
    narrowed: HashMap<&'a str, f64>,
    pub(super) links: &'a Links,
    pub(super) weights: &'a Weights<'a>,
    /// The values before which doubt is carried along; `None` in the first walk, which finds out.
    pub(super) wanted: Option<HashSet<String>>,
    pub(super) twins: HashMap<String, Twin>,
    seen: HashMap<String, usize>,
    pub(super) sites: Sites,
    /// How many roundings, at a tensor's largest value, other kernels are allowed.
    pub(super) slack: f64,
    /// What was made in the place of values that deviate.
    pub(super) made: HashMap<String, SharedTensor>,
    /// How far its own rounding puts values of the reference off.
    pub(super) own: Rc<Own>,
    /// Values that are not replaced where they deviate, though their pairs are sure.
    pub(super) loose: HashSet<String>,
    /// The nodes in their order: what they take, and what they make.
    order: Vec<(Vec<String>, Vec<String>)>,
    pub(super) quantizers: Quantizers,
    bodies: Bodies,
    /// The type of half precision or more that rounds most of those that nodes have made so far.
    coarsest: ElementType,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        reference: &'a Trace,
        links: &'a Links,
        weights: &'a Weights<'a>,
        inputs: HashMap<String, SharedTensor>,
    ) -> Walk<'a> {
        let narrowed = narrowed(reference);
        let twin = |(name, value): (String, SharedTensor)| {
            let rounded = narrowed.get(&*name).copied().unwrap_or_default();
            (name, Twin::new(value, Doubt::Relative(rounded)))
        };
        let twins = inputs.into_iter().map(twin).collect();
        let (seen, sites) = (HashMap::new(), Sites::default());
        let (wanted, slack, loose, order) = (None, 0.0, HashSet::new(), vec![]);
        let made = HashMap::new();
        let quantizers = Quantizers::default();
        Walk {
            reference,
            narrowed,
            links,
            weights,
            wanted,
            twins,
            seen,
            sites,
            slack,
            made,
            own: Rc::default(),
            loose,
            order,
            quantizers,
            bodies: Bodies::default(),
            coarsest: ElementType::Float,
        }
    }

    /// These values, and those of which they are made, back to those that are the reference's.
    pub(super) fn regions(&self, values: &[&str]) -> HashSet<String> {
        let mut wanted: HashSet<String> = values.iter().map(|name| (*name).to_owned()).collect();
        let is_end = |name: &String| self.sites.get(name).is_some_and(|site| site.is_replaced);
        for (taken, made) in self.order.iter().rev() {
            if made.iter().any(|name| wanted.contains(name)) {
                wanted.extend(taken.iter().filter(|name| !is_end(name)).cloned());
            }
        }
        wanted
    }

    /// All that the nodes have made.
    pub(super) fn all_values(&self) -> HashSet<String> {
        self.order.iter().flat_map(|(_, made)| made).cloned().collect()
    }

    /// The values with pairs that are made of one, with none in between that was replaced.
    pub(super) fn behind(&self, value: &str) -> impl Iterator<Item = &str> {
        let (mut reached, mut behind) = (HashSet::from([value]), vec![]);
        for (taken, made) in &self.order {
            if !taken.iter().any(|name| reached.contains(name.as_str())) {
                continue;
            }
            for name in made {
                let site = self.sites.get(name);
                behind.extend(site.map(|_| name.as_str()));
                if site.is_none_or(|site| !site.is_replaced) {
                    reached.insert(name);
                }
            }
        }
        behind.into_iter()
    }

    /// The reference's weight of which a constant is the rounding.
    fn weight(&self, name: &str, held: &SharedTensor) -> Option<SharedTensor> {
        self.weights.exact(self.reference, name, held)
    }

    /// How coarsely the reference rounds a value behind it.
    fn narrowed(&self, name: &str) -> f64 {
        let link = self.links.get(name);
        link.and_then(|link| self.narrowed.get(&*link.reference)).copied().unwrap_or_default()
    }

    /// Whether the reference computes here, in half precision: what it makes of a value it makes of the very digits.
    fn is_half(&self, ty: ElementType) -> bool {
        wide(ty) != ty && !self.reference.nodes.is_empty()
    }

    /// What an input is, free of its type's rounding.
    fn twin(&self, input: &ObservedTensor, is_code: bool) -> Option<Twin> {
        let name = full_name(input);
        if let Some(twin) = self.twins.get(&name) {
            return Some(twin.clone());
        }
        if !input.is_constant && !input.graph.is_empty() && is_computed_in(input.element_type) {
            // A body may be given what is in a sequence.
            let value = cast(&shared(input), wide(input.element_type))?;
            let doubt = of_sequence(&value, self.coarsest);
            return Some(Twin::new(value, doubt));
        }
        let weight = if input.is_constant { self.weight(&name, &shared(input)) } else { None };
        let is_weight = weight.is_some();
        let value = match weight {
            Some(weight) => shaped(&weight, input.tensor.shape())?,
            None => shared(input),
        };
        let is_exact = is_weight && value.0 == input.element_type && value.0.bits() >= 32;
        let is_same = std::sync::Arc::ptr_eq(&value.1, &input.tensor);
        if is_exact && (is_same || value.1.as_bytes() == input.tensor.as_bytes()) {
            // The node is then given what it has been given, and need not run again.
            return Some(Twin::new(shared(input), Doubt::Relative(0.0)));
        }
        // What another runtime has saved was made of the very constants.
        let is_rounded = input.is_constant && !self.reference.nodes.is_empty();
        widened(&value, is_rounded, is_code)
    }

    /// What a node makes of twins, and the twins in the types that it has taken: in DOUBLE where one is,
    /// as a conversion from DOUBLE may overflow; else in the conversion's own.
    fn made_of(
        node: &NodeRun,
        twins: Vec<Option<Twin>>,
        outputs: &[Option<ObservedTensor>],
    ) -> (Vec<Option<Twin>>, Vec<Option<SharedTensor>>, bool) {
        if let Some(twins) = in_double(node, &twins) {
            let (made, is_rough) = Walk::made(node, &twins, outputs);
            if !is_rough {
                return (twins, made, is_rough);
            }
        }
        let twins = in_own_types(node, twins);
        let (made, is_rough) = Walk::made(node, &twins, outputs);
        (twins, made, is_rough)
    }

    /// What a node makes of twins. What cannot be run on them is what the node has made.
    fn made(
        node: &NodeRun,
        twins: &[Option<Twin>],
        outputs: &[Option<ObservedTensor>],
    ) -> (Vec<Option<SharedTensor>>, bool) {
        let as_made = || outputs.iter().map(|output| output.as_ref().map(shared)).collect();
        let first = || Some((outputs.first()?.as_ref()?, twins.first()?.as_ref()?));
        if let ("Cast" | "CastLike", Some((output, twin))) = (node.op_type, first()) {
            let is_rounding = is_computed_in(output.element_type);
            let ty = match twin.value.0 {
                ElementType::Double => ElementType::Double,
                _ => wide(output.element_type),
            };
            if let Some(value) = cast(&twin.value, ty).filter(|_| is_rounding) {
                return (vec![Some(value)], false);
            }
        }
        let is_actual = node.inputs.iter().zip(twins).all(|(input, twin)| match (input, twin) {
            (Some(input), Some(twin)) => std::sync::Arc::ptr_eq(&input.tensor, &twin.value.1),
            (None, None) => true,
            _ => false,
        });
        if is_actual || node.has_bodies() {
            return (as_made(), node.has_bodies() || is_of_sequence(node));
        }
        let given: Vec<Option<SharedTensor>> =
            twins.iter().map(|twin| twin.as_ref().map(|twin| twin.value.clone())).collect();
        match node.run_on(&given) {
            Ok(made) => (made, false),
            Err(_) => (as_made(), true),
        }
    }

    /// Whether doubt is carried along to what a node makes.
    fn is_wanted(&self, outputs: &[Option<ObservedTensor>]) -> bool {
        let all = self.wanted.iter();
        let mut made = all.flat_map(|all| outputs.iter().flatten().map(move |made| (all, made)));
        made.any(|(all, made)| all.contains(&full_name(made)))
    }

    /// By how much of its elements, and of all alike, a value may be off that is computed another sound way.
    fn margin(
        &self,
        node: &NodeRun,
        want: &SharedTensor,
        twin: &Twin,
        has_own: bool,
    ) -> (f64, f64) {
        let is_once = self.is_half(want.0) && (has_own || self.wanted.is_none());
        let unit = if is_once { ROUNDINGS_OF_HALF } else { ROUNDINGS } * rounding(want.0);
        let slack = if node.has_bodies() { self.slack.max(INSIDE) } else { self.slack };
        let slack = if slack > 0.0 { slack * rounding(want.0) * peak(want) } else { 0.0 };
        // The reference's own type may be the one that does not hold what is small.
        let least = (VANISHING * smallest_normal(twin.value.0)).max(smallest(want.0));
        (unit, least + slack)
    }

    /// What belongs to the reference behind a node: the conversion's tensor and the twin are replaced.
    fn replaced(
        &self,
        name: &str,
        want: &SharedTensor,
        output: &mut ObservedTensor,
    ) -> Option<Twin> {
        if let Some(held) = held_in(want, &shared(output)) {
            output.tensor = held.1;
        }
        let own = match self.links.get(name) {
            // A cast to another type is another rounding of one value.
            Some(link) if self.is_half(want.0) => {
                let maker = self.reference.maker(&link.reference);
                let is_cast = maker.is_some_and(|ran| ran.op == "Cast");
                if is_cast && want.0 != output.element_type { rounding(want.0) } else { 0.0 }
            }
            _ => 4.0 * rounding(want.0),
        };
        let unit = own + self.narrowed(name);
        let value = cast(want, wide(want.0)).filter(|_| want.0.family() != Family::Text)?;
        let value = if is_computed_in(value.0) { value } else { shared(output) };
        let doubt = Doubt::Relative(if is_computed_in(value.0) { unit } else { 0.0 });
        Some(Twin::new(value, doubt))
    }

    /// Holds a value against the reference's, and says whether it is to be replaced by it.
    fn judge(
        &mut self,
        node: &NodeRun,
        output: &ObservedTensor,
        (name, link): (&str, &Link),
        twin: &Twin,
    ) -> Option<SharedTensor> {
        let time = self.seen.entry(name.into()).or_default();
        let want = match self.reference.values.get(&link.reference) {
            Some(times) => times.get(*time)?.clone(),
            None => self.weights.read(self.reference, &link.reference)?,
        };
        let of_reference = self.own.get(&link.reference).and_then(|times| times.get(*time));
        *time += 1;
        let mut site = Site::new(name, link, node);
        if want.1.len() != output.tensor.len() {
            let (a, b) = (want.1.shape(), output.tensor.shape());
            site.problem = Some(format!("its shape is {b:?}, and the reference's {a:?}"));
            self.sites.add(site);
            return None;
        }
        let want = shaped(&want, output.tensor.shape())?;
        let made = shared(output);
        // Beyond the range of the reference's type its own value is infinite.
        let held = cast(&twin.value, wide(want.0)).filter(|_| is_computed_in(want.0));
        let got = held.as_ref().unwrap_or(&twin.value);
        let (unit, least) = self.margin(node, &want, twin, of_reference.is_some());
        // Nor does an operator that has no DOUBLE make what is beyond FLOAT.
        let end = largest(twin.value.0);
        let is_doubted = self.wanted.is_some();
        let cut = beyond_codes(node, &want, &twin.value).unwrap_or_default();
        let mut whole = Whole::default();
        for start in (0..want.1.len()).step_by(BLOCK) {
            let places = start..want.1.len().min(start + BLOCK);
            let wanted = numbers_in(&want, places.clone())?;
            site.local(&numbers_in(&made, places.clone())?, &wanted, output.element_type);
            let twins = numbers_in(got, places.clone())?;
            let doubts = is_doubted.then(|| twin.doubts_in(places.clone(), &twins));
            let doubts = doubts.unwrap_or_default();
            for ((got, want), place) in twins.iter().zip(&wanted).zip(places) {
                let of_reference = of_reference.and_then(|own| own.get(place)).copied();
                let doubt = doubts.get(place - start).copied().unwrap_or(0.0);
                let doubt = doubt.max(of_reference.unwrap_or(0.0));
                let own = unit * want.abs().max(got.abs()).min(f64::MAX) + least;
                let bound = own + 2.0 * doubt;
                let is_beyond = want.is_finite() && want.abs() > end;
                let is_end = is_beyond || is_mask(*got, *want) || cut.contains(&place);
                site.hold(place, (*got, *want), bound, is_end);
                let pair = if is_end { (*want, *want) } else { (*got, *want) };
                whole.add(place, pair, own, doubt);
            }
        }
        if is_doubted {
            site.hold_whole(&whole, twin.share);
        }
        let is_replaced = link.is_sure && !self.loose.contains(name) || !site.deviates();
        site.is_replaced = is_replaced;
        if is_doubted && link.is_sure && site.deviates() && site.problem.is_none() {
            self.made.entry(name.into()).or_insert_with(|| twin.value.clone());
        }
        self.sites.add(site);
        is_replaced.then_some(want)
    }
}

impl Observer for Walk<'_> {
    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        let is_code = |place: usize| place == 0 && node.op_type == "DequantizeLinear";
        // A zero point is what it is: that of floats can be no other than 0.
        let is_zero = |place: usize| place == 2 && is_quantizer(node.op_type);
        let twin = |(place, input): (usize, &Option<ObservedTensor>)| match input.as_ref()? {
            input if input.is_constant && is_zero(place) => {
                Some(Twin::new(shared(input), Doubt::Relative(0.0)))
            }
            input => self.twin(input, is_code(place)),
        };
        let twins: Vec<Option<Twin>> = node.inputs.iter().enumerate().map(twin).collect();
        let left = self.left(node, outputs);
        let taken = node.inputs.iter().flatten().map(full_name);
        let taken = taken.chain(left.iter().filter_map(|(_, name)| name.clone())).collect();
        self.order.push((taken, outputs.iter().flatten().map(full_name).collect()));
        let (twins, made, is_rough) = Walk::made_of(node, twins, outputs);
        self.quantizers.see(node, &twins, &made, outputs);
        self.coarsest = coarser(self.coarsest, outputs);
        let carried = if self.is_wanted(outputs) && !is_rough {
            doubts(node, &undoubted(node, &twins, outputs), &made)
        } else {
            vec![]
        };
        let carried = carried.into_iter().map(Some).chain(iter::repeat(None));
        let made = made.into_iter().zip(left.into_iter().map(|(twin, _)| twin));
        for ((output, (made, left)), doubts) in outputs.iter_mut().zip(made).zip(carried) {
            let (Some(output), Some(made)) = (output, made) else { continue };
            let name = full_name(output);
            let is_constant = node.op_type == "Constant";
            let weight = if is_constant { self.weight(&name, &made) } else { None };
            let weight = weight.and_then(|weight| shaped(&weight, made.1.shape()));
            let Some(mut twin) = widened(weight.as_ref().unwrap_or(&made), is_constant, false)
            else {
                continue;
            };
            match doubts {
                _ if is_constant => {}
                _ if left.is_some() => twin = left.unwrap_or(twin),
                // `output_dtype` has values of codes in half precision, whatever their scales are.
                Some(Carried { doubt, share })
                    if doubt.is_of(made.1.len()) && (wide(made.0) == made.0 || is_code(0)) =>
                {
                    (twin.doubt, twin.share) = (doubt, share);
                }
                _ if is_rough => twin.doubt = rough(node, output, &twin, self.coarsest),
                _ => {}
            }
            let link = self.links.get(&name).cloned();
            let want = link.and_then(|link| self.judge(node, output, (&name, &link), &twin));
            if let Some(want) = want {
                twin = self.replaced(&name, &want, output).unwrap_or(twin);
            }
            self.twins.insert(name, twin);
        }
        Ok(())
    }

    fn enters(&mut self, inputs: &[BodyInput]) -> Result<()> {
        self.enter(inputs);
        Ok(())
    }

    fn leaves(&mut self, outputs: &[BodyOutput]) -> Result<()> {
        self.leave(outputs);
        Ok(())
    }

    fn dropped(&mut self, value: &ObservedTensor) {
        self.twins.remove(&full_name(value));
    }
}
