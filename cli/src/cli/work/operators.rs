//! Operators on half precision that make infinities or NaN of finite inputs.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use tract_onnx::pb::GraphProto;
use tract_onnx_cast::audit::{self, AuditRow, Outcome};

use crate::cli::found::audited::AuditedCast;
use crate::cli::input::sets::Set;
use crate::cli::work::main_graph::MainGraph;
use crate::cli::work::weights::constants::{Holder, value_of};

/// Counts, for each operator of the main graph, the infinities and NaN that it makes while
/// everything that it takes is finite. What overflows only when it is rounded is counted as that.
pub(super) fn blame(
    holder: &Holder,
    rows: &[AuditRow],
    sets: &[Set],
    roundings: &mut [AuditedCast],
) {
    let Some(graph) = &holder.proto.graph else { return };
    let mut trace = None;
    for rounding in roundings.iter_mut().filter(|row| row.graph == graph.name) {
        let (infinite, nans) = (rounding.source.infinities, rounding.source.nans);
        if infinite + nans == 0 {
            continue;
        }
        let trace = trace.get_or_insert_with(|| OperatorTrace::of(holder, graph, rows, sets));
        if trace.is_finite_before(&rounding.output) {
            (rounding.made_infinite, rounding.made_nan) = (infinite, nans);
        }
    }
}

/// Where values that are not finite come from.
struct OperatorTrace<'a> {
    holder: &'a Holder<'a>,
    sets: &'a [Set],
    main: MainGraph<'a>,
    inputs: Vec<&'a str>,
    /// Whether all values were finite that a cast or an operator on half precision has made, by
    /// their names.
    counted: HashMap<&'a str, bool>,
    /// Whether all values of an input are finite, by its place. The sets are made anew to know.
    finite_inputs: RefCell<HashMap<usize, bool>>,
}

impl<'a> OperatorTrace<'a> {
    fn of(
        holder: &'a Holder<'a>,
        graph: &'a GraphProto,
        rows: &'a [AuditRow],
        sets: &'a [Set],
    ) -> OperatorTrace<'a> {
        let held: HashSet<&str> = graph.initializer.iter().map(|held| held.name.as_str()).collect();
        let inputs = graph.input.iter().map(|input| input.name.as_str());
        let is_finite = |row: &AuditRow| {
            let made = [Outcome::Overflowed, Outcome::BecameNan].map(|o| row.stats.count(o));
            let range = &row.stats.source;
            made.iter().sum::<u64>() + range.nans + range.infinities == 0
        };
        let rows = rows.iter().filter(|row| *row.cast.graph == *graph.name);
        OperatorTrace {
            holder,
            sets,
            inputs: inputs.filter(|name| !held.contains(name)).collect(),
            main: MainGraph::of(holder.proto),
            counted: rows.map(|row| (row.cast.output.as_str(), is_finite(row))).collect(),
            finite_inputs: RefCell::default(),
        }
    }

    /// Whether everything is finite that the node takes which makes a value.
    fn is_finite_before(&self, value: &str) -> bool {
        let mut seen = HashSet::new();
        let mut next = self.taken_for(value);
        while let Some(value) = next.pop() {
            if value.is_empty() || !seen.insert(value) {
                continue;
            }
            let is_finite = match self.counted.get(value) {
                Some(is_finite) => *is_finite,
                None if self.main.place(value).is_some() => {
                    // It is only moved here, or computed in another type.
                    next.extend(self.taken_for(value));
                    self.constant_is_finite(value).unwrap_or(true)
                }
                None => {
                    self.constant_is_finite(value).unwrap_or_else(|| self.input_is_finite(value))
                }
            };
            if !is_finite {
                return false;
            }
        }
        true
    }

    fn taken_for(&self, value: &str) -> Vec<&'a str> {
        self.main.taken(value).iter().map(String::as_str).collect()
    }

    fn constant_is_finite(&self, name: &str) -> Option<bool> {
        let value = value_of(self.holder, name)?;
        let range = audit::range(value.ty, &value.tensor).ok()?;
        Some(range.nans + range.infinities == 0)
    }

    fn input_is_finite(&self, name: &str) -> bool {
        let Some(place) = self.inputs.iter().position(|input| *input == name) else { return true };
        *self.finite_inputs.borrow_mut().entry(place).or_insert_with(|| {
            let tensors =
                self.sets.iter().filter_map(|set| set.tensors().ok()?.get(place).cloned());
            tensors.into_iter().all(|tensor| {
                let ty = tract_onnx_cast::ElementType::native(tensor.datum_type());
                let range = ty.and_then(|ty| audit::range(ty, &tensor).ok());
                range.is_none_or(|range| range.nans + range.infinities == 0)
            })
        })
    }
}
