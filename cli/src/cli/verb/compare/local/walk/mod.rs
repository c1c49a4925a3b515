//! The conversion node by node, each on what the reference has for its inputs.
//!
//! Behind each node a value that belongs to one of the reference is replaced by it, cast to the
//! conversion's type, so that errors do not travel: what differs arises between it and the values
//! before it that belong to some (a region). Beside each value runs its twin, free of the types'
//! rounding: the reference's own tensor, or what the node makes of twins. What a twin is off, no
//! rounding explains beyond the doubt that is left, nor what the reference rounds itself (`own`).
//!
//! - `pair`: holds a value against the reference's, and puts that in its place; `plain`: elements
//!   of which none asks for a closer look; `layout`: in another order of axes
//! - `values`: twins of what nothing before has one of; `bodies`: those that go into bodies and out
//! - `common`: nodes that both models have; `settled`: those of which a walk before has told all
//! - `order`: how nodes have run; `behind`: what lies behind a value and before it
//! - `moved`: what layers have of one another

mod behind;
mod bodies;
mod common;
pub(super) mod layout;
pub(super) mod moved;
mod order;
pub(super) mod own;
mod pair;
mod plain;
pub(super) mod settled;
mod values;

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use tract_onnx_cast::interpreter::{
    BodyInput, BodyOutput, NodeRun, ObservedTensor, Observer, SharedTensor,
};

use tract_onnx_cast::{ElementType, Result};

use super::doubt::{Carried, Doubt, Twin, doubts, is_told_at_once};
use super::links::Links;
use super::numbers::{cast, is_computed_in, numbers, shaped, wide};
use super::quantizers::Quantizers;
use super::reference_weights::ReferenceWeights;
use super::site::Sites;
use super::trace::{Trace, full_name, shared};
use bodies::Bodies;
use moved::Moved;
use order::NodeOrder;
use own::Own;
use settled::{SettledValue, ValueForm};
use values::{
    coarser, in_double, in_own_types, is_of_sequence, is_quantizer, narrowed, of_sequence, rough,
    undoubted, widened,
};

/// The walk, and what it has found.
pub(super) struct Walk<'a> {
    pub(super) reference: &'a Trace,
    /// How coarsely the reference rounds some of its own values, by casts that a conversion may
    /// leave out.
    narrowed: HashMap<&'a str, f64>,
    pub(super) links: &'a Links,
    pub(super) weights: &'a ReferenceWeights<'a>,
    /// The values before which doubt is carried along; `None` in the first walk, which finds out,
    /// and knows but the doubts that are told at once or of a single node.
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
    /// What was moved between layers: values whose channels are not the reference's.
    pub(super) moved: Rc<Moved>,
    /// Values that are not replaced where they deviate, though their pairs are sure.
    pub(super) loose: HashSet<String>,
    order: NodeOrder,
    /// Values that the reference lacks, of nodes that compute.
    added: HashSet<String>,
    pub(super) quantizers: Quantizers<'a>,
    bodies: Bodies,
    /// What is known of the node that runs.
    known: Option<KnownNode>,
    /// Values of which no doubt was worked out, in the first walk.
    undoubted: HashSet<String>,
    /// Values that were held against the reference's with their doubt there.
    pub(super) doubted: Vec<String>,
    /// The type of half precision or more that rounds most of those that nodes have made so far.
    coarsest: ElementType,
    /// What a walk before has told, by the names of values, and whether the node that runs makes
    /// nothing else.
    pub(super) settled: HashMap<String, SettledValue>,
    is_settled: bool,
    forms: HashMap<String, ValueForm>,
    /// What nodes have made of sequences or optionals.
    of_sequences: HashSet<String>,
}

/// What a node takes, free of its types' rounding, and what it makes of that, if the reference has
/// made the same.
struct KnownNode {
    twins: Vec<Option<Twin>>,
    made: Option<Vec<Option<SharedTensor>>>,
}

/// When the doubt of what a node makes is worked out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DoubtTiming {
    /// Before it is held against the reference's: it is wanted, or takes no other run of the node.
    Before,
    /// In the first walk, once it deviates from the reference's.
    OnDeviation,
    /// The node cannot tell, or what it takes has none.
    Never,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        reference: &'a Trace,
        links: &'a Links,
        weights: &'a ReferenceWeights<'a>,
        inputs: HashMap<String, SharedTensor>,
    ) -> Walk<'a> {
        let narrowed = narrowed(reference);
        let twin = |(name, value): (String, SharedTensor)| {
            let rounded = narrowed.get(&*name).copied().unwrap_or_default();
            (name, Twin::new(value, Doubt::Relative(rounded)))
        };
        let twins = inputs.into_iter().map(twin).collect();
        let (seen, sites) = (HashMap::new(), Sites::default());
        let (wanted, slack, loose) = (None, 0.0, HashSet::new());
        let made = HashMap::new();
        let quantizers = Quantizers::new(reference, links);
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
            moved: Rc::default(),
            loose,
            order: NodeOrder::default(),
            added: HashSet::new(),
            quantizers,
            bodies: Bodies::default(),
            known: None,
            undoubted: HashSet::new(),
            doubted: vec![],
            coarsest: ElementType::Float,
            settled: HashMap::new(),
            is_settled: false,
            forms: HashMap::new(),
            of_sequences: HashSet::new(),
        }
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

    /// Whether the reference computes here, in half precision: what it makes of a value it makes of
    /// the very digits.
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
        let is_same = Arc::ptr_eq(&value.1, &input.tensor);
        if is_exact && (is_same || value.1.as_bytes() == input.tensor.as_bytes()) {
            // The node is then given what it has been given, and need not run again.
            return Some(Twin::new(shared(input), Doubt::Relative(0.0)));
        }
        // What another runtime has saved was made of the very constants.
        let is_rounded = input.is_constant && !self.reference.nodes.is_empty();
        self.widened(&name, &value, is_rounded, is_code)
    }

    /// A value in the type in which nothing more is rounded, with the doubt that its own type
    /// leaves: none of codes that the reference has as well.
    fn widened(
        &self,
        name: &str,
        value: &SharedTensor,
        is_constant: bool,
        is_code: bool,
    ) -> Option<Twin> {
        if self.weights.is_own_code(name) {
            return Some(Twin::new(cast(value, wide(value.0))?, Doubt::Same(0.0)));
        }
        widened(value, is_constant, is_code || self.weights.codes.contains(name))
    }

    /// What the inputs of a node are, free of their types' rounding.
    fn twins_of(&self, node: &NodeRun) -> Vec<Option<Twin>> {
        // A zero point is what it is: that of floats can be no other than 0.
        let is_zero = |place: usize| place == 2 && is_quantizer(node.op_type);
        let is_exact = |place| is_zero(place) || is_code(node, place) && is_of_zeros(node);
        let twin = |(place, input): (usize, &Option<ObservedTensor>)| match input.as_ref()? {
            input if input.is_constant && is_exact(place) => {
                Some(Twin::new(shared(input), Doubt::Relative(0.0)))
            }
            input => self.twin(input, is_code(node, place)),
        };
        node.inputs.iter().enumerate().map(twin).collect()
    }

    fn known_of(&self, node: &NodeRun) -> KnownNode {
        let twins = self.twins_of(node);
        let made = self.made_by_reference(node, &twins);
        KnownNode { twins, made }
    }

    /// What a node makes of twins, and the twins in the types that it has taken: in DOUBLE where
    /// one is, as a conversion from DOUBLE may overflow; else in the conversion's own.
    fn made_of(
        &self,
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
        let mut given = node.inputs.iter().zip(twins);
        if given.all(|(input, twin)| is_given(input, twin)) || node.has_bodies() {
            return (as_made(), node.has_bodies() || is_of_sequence(node));
        }
        let given: Vec<Option<SharedTensor>> =
            twins.iter().map(|twin| twin.as_ref().map(|twin| twin.value.clone())).collect();
        match node.run_on(&given) {
            Ok(made) => (made, false),
            Err(_) => (as_made(), true),
        }
    }

    /// When the doubt of what a node makes is worked out.
    fn doubt_timing(&self, node: &NodeRun, outputs: &[Option<ObservedTensor>]) -> DoubtTiming {
        let is_known = |input: &ObservedTensor| !self.undoubted.contains(&full_name(input));
        let is_inside = self.bodies.is_inside() || node.has_bodies();
        let is_first = self.wanted.is_none();
        if self.is_wanted(outputs) {
            DoubtTiming::Before
        } else if !is_first || is_inside || !node.inputs.iter().flatten().all(is_known) {
            DoubtTiming::Never
        } else if is_told_at_once(node.op_type) {
            DoubtTiming::Before
        } else {
            DoubtTiming::OnDeviation
        }
    }

    /// Whether doubt is carried along to what a node makes.
    fn is_wanted(&self, outputs: &[Option<ObservedTensor>]) -> bool {
        let all = self.wanted.iter();
        let mut made = all.flat_map(|all| outputs.iter().flatten().map(move |made| (all, made)));
        made.any(|(all, made)| all.contains(&full_name(made)))
    }
}

/// Whether a twin is what a node is given.
fn is_given(input: &Option<ObservedTensor>, twin: &Option<Twin>) -> bool {
    match (input, twin) {
        (Some(input), Some(twin)) => Arc::ptr_eq(&input.tensor, &twin.value.1),
        (None, None) => true,
        _ => false,
    }
}

/// Whether a node takes codes at a place.
fn is_code(node: &NodeRun, place: usize) -> bool {
    place == 0 && node.op_type == "DequantizeLinear"
}

/// Whether a node takes codes that are all 0 by the scale 1, which quantisers give to what is all
/// 0: no value is rounded so.
fn is_of_zeros(node: &NodeRun) -> bool {
    let all = |place: usize, wanted: f64| {
        let held = node.inputs.get(place).and_then(Option::as_ref);
        held.is_none_or(|held| {
            let is_all = |all: Vec<f64>| all.iter().all(|x| *x == wanted);
            held.is_constant && numbers(&shared(held)).is_some_and(is_all)
        })
    };
    all(1, 1.0) && all(2, 0.0) && all(0, 0.0)
}

impl Observer for Walk<'_> {
    fn known(&mut self, node: &NodeRun) -> Option<Vec<Option<SharedTensor>>> {
        let settled = self.settled_outputs(node);
        self.is_settled = settled.is_some();
        if self.is_settled {
            return settled;
        }
        let known = self.known_of(node);
        let given = node.inputs.iter().zip(&known.twins);
        let is_given = given.clone().all(|(input, twin)| is_given(input, twin));
        let made = known.made.clone().filter(|_| is_given);
        self.known = Some(known);
        made
    }

    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        if std::mem::take(&mut self.is_settled) {
            self.pass(node, outputs);
            return Ok(());
        }
        let left = self.left(node, outputs);
        self.note(node, &left, outputs);
        let KnownNode { twins, made } = match self.known.take() {
            Some(known) => known,
            None => self.known_of(node),
        };
        let (mut twins, made, is_rough) = match made {
            Some(made) => (twins, made, false),
            None => self.made_of(node, twins, outputs),
        };
        self.quantizers.cut(node, &mut twins, &made);
        self.quantizers.see(node, &twins, &made, outputs);
        self.coarsest = coarser(self.coarsest, outputs);
        let given = undoubted(node, &twins, outputs);
        let carried = LazyCell::new(|| doubts(node, &given, &made));
        let timing = if is_rough { DoubtTiming::Never } else { self.doubt_timing(node, outputs) };
        let of_twins = made.iter().zip(left.into_iter().map(|(twin, _)| twin)).enumerate();
        for (output, (place, (made, left))) in outputs.iter_mut().zip(of_twins) {
            let (Some(output), Some(made)) = (output, made) else { continue };
            let name = full_name(output);
            let is_constant = node.op_type == "Constant";
            let weight = if is_constant { self.weight(&name, made) } else { None };
            let weight = weight.and_then(|weight| shaped(&weight, made.1.shape()));
            let value = weight.as_ref().unwrap_or(made);
            let Some(mut twin) = self.widened(&name, value, is_constant, false) else { continue };
            // `output_dtype` has values of codes in half precision, whatever their scales are.
            let fits = |Carried { doubt, .. }: &&Carried| {
                doubt.is_of(made.1.len()) && (wide(made.0) == made.0 || is_code(node, 0))
            };
            let tell = || carried.get(place).filter(fits).cloned();
            let mut is_doubted = is_constant || self.wanted.is_some();
            match left {
                _ if is_constant => {}
                Some(left) => twin = left,
                None if is_rough => twin.doubt = rough(node, output, &twin, self.coarsest),
                None if timing == DoubtTiming::Before => {
                    if let Some(Carried { doubt, share }) = tell() {
                        (twin.doubt, twin.share, is_doubted) = (doubt, share, true);
                    }
                }
                None => {}
            }
            let link = self.links.get(&name).cloned();
            let judged = link.and_then(|link| {
                let tell = || (timing == DoubtTiming::OnDeviation).then(tell)?;
                self.judge(node, output, (&name, &link), (&mut twin, is_doubted), tell)
            });
            if let Some(want) = judged {
                twin = self.replaced(&name, &want, output).unwrap_or(twin);
            } else if !is_doubted {
                self.undoubted.insert(name.clone());
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
