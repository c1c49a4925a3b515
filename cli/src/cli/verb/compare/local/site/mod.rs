//! What was found where a value of the conversion belongs to one of the reference: by how far its
//! elements were `held` to be apart.

pub(super) mod held;

use std::collections::{HashMap, HashSet};

use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::NodeRun;

use super::links::Link;
use super::numbers::{largest, rounding};
use crate::cli::measure::lanes::{AT_ONCE, Room, greatest, power};
use held::{Whole, Worst};

/// A value of both models.
#[derive(Debug, Clone, Default)]
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
            node: node.name.into(),
            op: node.op_type.into(),
            is_sure: link.is_sure,
            ..Site::default()
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
    #[inline(always)]
    pub(super) fn local(&mut self, made: &[f64], wanted: &[f64], ty: ElementType) {
        self.unit = rounding(ty);
        let most = largest(ty);
        let mut room = Room::<2>::new();
        for (made, wanted) in made.chunks(AT_ONCE).zip(wanted.chunks(AT_ONCE)) {
            let [errors, sizes] = room.of(wanted.len());
            let places = errors.iter_mut().zip(sizes.iter_mut());
            for ((error, size), (got, want)) in places.zip(made.iter().zip(wanted)) {
                let is_off = want.is_finite() & !got.is_finite();
                let is_beyond = want.is_finite() & (want.abs() > most);
                self.broken_off += u64::from(is_off);
                self.beyond_type += u64::from(is_off & is_beyond);
                let counts = got.is_finite() & want.is_finite() & !is_beyond;
                *error = if counts { (got - want).abs() } else { 0.0 };
                *size = if counts { *want } else { 0.0 };
            }
            self.noise += power(errors);
            self.power += power(sizes);
            self.largest = self.largest.max(greatest(errors));
        }
    }
}

impl Site {
    /// The same of what was measured elsewhere, where all are numbers that the type can hold: the
    /// power of the errors and that of the reference, and the largest error.
    #[inline(always)]
    pub(super) fn local_sums(&mut self, (noise, power): (f64, f64), most: f64, ty: ElementType) {
        self.unit = rounding(ty);
        self.noise += noise;
        self.power += power;
        self.largest = self.largest.max(most);
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

    /// The values of the reference that replace the conversion's.
    pub(super) fn replaced(&self) -> HashSet<&str> {
        let replaced = self.all.iter().filter(|site| site.is_replaced);
        replaced.map(|site| &*site.reference).collect()
    }

    /// Those off by more than rounding explains.
    pub(super) fn deviating(&self) -> impl Iterator<Item = &Site> {
        self.all.iter().filter(|site| site.deviates())
    }
}
