//! What was found where a value of the conversion belongs to one of the reference.

use std::collections::HashMap;

use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::NodeRun;

use super::links::Link;
use super::numbers::{largest, rounding};
use crate::cli::work::spelt::label;

/// A value of both models.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) converted: String,
    pub(super) reference: String,
    pub(super) node: String,
    pub(super) op: String,
    pub(super) is_sure: bool,
    /// Whether what is behind was given the reference's.
    pub(super) is_replaced: bool,
    /// Why the two cannot be compared.
    pub(super) problem: Option<String>,
    /// The power of the local error, and that of the reference.
    pub(super) noise: f64,
    pub(super) power: f64,
    pub(super) largest: f64,
    /// Values that are infinite or NaN where the reference has a number.
    pub(super) broken_off: u64,
    /// Of these, the ones that the type cannot hold.
    pub(super) beyond_type: u64,
    /// The rounding of the value's type.
    pub(super) unit: f64,
    /// The element whose twin is farthest beyond what rounding explains.
    pub(super) worst: Worst,
}

/// An element, how far it is off, and by how much rounding may put it off.
#[derive(Clone, Copy, Default)]
pub(super) struct Worst {
    pub(super) place: usize,
    pub(super) got: f64,
    pub(super) want: f64,
    pub(super) error: f64,
    pub(super) bound: f64,
    /// The error divided by the bound.
    pub(super) excess: f64,
    /// How many elements are beyond theirs.
    pub(super) count: u64,
}

/// What the elements of a value are off, and what rounding may put them off, by their powers.
#[derive(Default)]
pub(super) struct Whole {
    error: f64,
    own: f64,
    doubt: f64,
    /// The sum of the fourth powers of the doubts.
    fourth: f64,
    /// The element that is farthest off.
    largest: Worst,
}

/// Where so many elements have doubts of a size, chance does not put the power of them all off by more
/// than `BEYOND_CHANCE` times what is likely.
const MANY: f64 = 4.0;
const BEYOND_CHANCE: f64 = 3.0;

impl Whole {
    /// Adds an element that is made and wanted, by how much two sound ways to compute it may be apart,
    /// and its doubt.
    pub(super) fn add(&mut self, place: usize, (got, want): (f64, f64), own: f64, doubt: f64) {
        let error = (got - want).abs();
        if error.is_finite() && own.is_finite() && doubt.is_finite() {
            if error > self.largest.error {
                let bound = own + 2.0 * doubt;
                self.largest = Worst { place, got, want, error, bound, ..Worst::default() };
            }
            self.error += error * error;
            self.own += own * own;
            self.doubt += doubt * doubt;
            self.fourth += doubt.powi(4);
        }
    }

    /// By how many times more than chance explains the elements are off together.
    fn excess(&self, share: f64) -> f64 {
        let is_of_many = self.doubt * self.doubt > MANY * self.fourth && self.doubt > 0.0;
        let likely = BEYOND_CHANCE * (share * self.doubt).sqrt() + self.own.sqrt();
        if is_of_many { self.error.sqrt() / likely } else { 0.0 }
    }
}

impl Site {
    /// Holds all elements together against what is likely of their doubts, of which it is a share.
    pub(super) fn hold_whole(&mut self, whole: &Whole, share: f64) {
        let excess = whole.excess(share);
        if excess > 1.0 && self.worst.count == 0 {
            self.worst = Worst { excess, ..whole.largest };
        }
    }

    pub(super) fn new(name: &str, link: &Link, node: &NodeRun) -> Site {
        Site {
            converted: name.into(),
            reference: link.reference.clone(),
            node: label(node.name, node.op_type).into(),
            op: node.op_type.into(),
            is_sure: link.is_sure,
            is_replaced: false,
            problem: None,
            noise: 0.0,
            power: 0.0,
            largest: 0.0,
            broken_off: 0,
            beyond_type: 0,
            unit: 0.0,
            worst: Worst::default(),
        }
    }

    /// Whether it is off by more than rounding explains.
    pub(super) fn deviates(&self) -> bool {
        self.problem.is_some() || self.worst.excess > 1.0
    }

    /// The local error by the reference's size.
    pub(super) fn relative(&self) -> f64 {
        if self.noise == 0.0 { 0.0 } else { (self.noise / self.power).sqrt() }
    }

    /// Measures some of what the node has made in its own types.
    pub(super) fn local(&mut self, made: &[f64], wanted: &[f64], ty: ElementType) {
        self.unit = rounding(ty);
        let largest = largest(ty);
        for (got, want) in made.iter().zip(wanted) {
            if !want.is_finite() {
                continue;
            }
            let is_beyond = want.abs() > largest;
            if !got.is_finite() {
                self.broken_off += 1;
                self.beyond_type += u64::from(is_beyond);
            } else if !is_beyond {
                let error = (got - want).abs();
                self.noise += error * error;
                self.power += want * want;
                self.largest = self.largest.max(error);
            }
        }
    }

    /// Holds an element of the twin against the reference's.
    pub(super) fn hold(
        &mut self,
        place: usize,
        (got, want): (f64, f64),
        bound: f64,
        is_mask: bool,
    ) {
        let error = (got - want).abs();
        let is_same = got == want || (got.is_nan() && want.is_nan());
        if is_same || is_mask || error <= bound {
            return;
        }
        let error = if error.is_nan() { f64::INFINITY } else { error };
        let excess = if bound > 0.0 { error / bound } else { f64::INFINITY };
        let count = self.worst.count + 1;
        if excess > self.worst.excess {
            self.worst = Worst { place, got, want, error, bound, excess, count };
        }
        self.worst.count = count;
    }
}

/// The sites of a walk, in the order of computation.
#[derive(Default)]
pub(super) struct Sites {
    pub(super) all: Vec<Site>,
    places: HashMap<String, usize>,
}

impl Sites {
    pub(super) fn get(&self, name: &str) -> Option<&Site> {
        self.all.get(*self.places.get(name)?)
    }

    /// Adds what was found, or puts it to what was found there before: the worst counts.
    pub(super) fn add(&mut self, site: Site) {
        let Some(held) = self.places.get(&site.converted).and_then(|at| self.all.get_mut(*at))
        else {
            self.places.insert(site.converted.clone(), self.all.len());
            self.all.push(site);
            return;
        };
        let (noise, power) = (held.noise + site.noise, held.power + site.power);
        let broken_off = held.broken_off + site.broken_off;
        let beyond_type = held.beyond_type + site.beyond_type;
        let most = held.largest.max(site.largest);
        let is_worse = site.worst.excess > held.worst.excess
            || (site.problem.is_some() && held.problem.is_none());
        if is_worse {
            *held = site;
        }
        (held.noise, held.power, held.largest) = (noise, power, most);
        (held.broken_off, held.beyond_type) = (broken_off, beyond_type);
    }

    /// Those off by more than rounding explains.
    pub(super) fn deviating(&self) -> impl Iterator<Item = &Site> {
        self.all.iter().filter(|site| site.deviates())
    }
}
