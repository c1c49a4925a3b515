//! Which parts of a model's weights runs have read: rows of tables, and branches.

use std::collections::{BTreeSet, HashMap, HashSet};

use onnx_cast_graph::{NodeView, free_names, int, subgraphs};
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx_cast::audit::Numbers;

use crate::cli::found::coverage::{Unexercised, UnexercisedKind};
use crate::cli::measure::value::coordinates;
use crate::cli::message::listed;
use crate::cli::tensor::NamedTensor;
use crate::cli::work::weights::constants::ChangedWeight;
use crate::cli::work::weights::folded::Constancy;

/// How many rows are named.
const NAMED: usize = 3;

/// What is read of a model's constants.
#[derive(Default)]
pub(crate) struct Exercise {
    tables: Vec<GatherTable>,
    branches: Vec<IfBranch>,
    /// The bounds of `Clip` nodes, which no value need reach.
    bounds: HashMap<String, String>,
    /// The constants that are read as a whole whenever the model runs.
    whole: HashSet<String>,
}

/// A bound that is off by more is one for what stands for an infinity.
const BOUND: f64 = 1e4;

/// A constant of which a `Gather` reads rows.
struct GatherTable {
    /// The constant, and what it is computed of.
    name: String,
    roots: HashSet<String>,
    shape: Vec<usize>,
    axis: usize,
    indices: String,
    /// `None` as long as no indices have been seen.
    read: Option<BTreeSet<usize>>,
}

/// One of the two branches of an `If`.
struct IfBranch {
    node: String,
    condition: String,
    is_then: bool,
    /// The constants of the main graph that it reads.
    reads: HashSet<String>,
    /// `None` as long as no condition has been seen.
    ran: Option<bool>,
}

impl Exercise {
    /// What there is to read in a model.
    pub(crate) fn of(model: &ModelProto) -> Exercise {
        let mut exercise = Exercise::default();
        let Some(graph) = &model.graph else { return exercise };
        let constancy = Constancy::of(model, graph, &[]);
        let roots_of = |name: &str| constancy.known.get(name).map(|made_of| &made_of.roots);
        let constant: HashSet<*const NodeProto> =
            constancy.nodes.iter().map(|node| std::ptr::from_ref(*node)).collect();
        for node in graph.node.iter().filter(|node| !constant.contains(&std::ptr::from_ref(*node)))
        {
            let table = exercise.table(node, &constancy);
            for bound in node.input.iter().skip(1).filter(|_| node.op_type == "Clip") {
                let roots = roots_of(bound).into_iter().flatten();
                exercise.bounds.extend(roots.map(|root| (root.clone(), node.label().into())));
            }
            for (place, input) in node.input.iter().enumerate() {
                if !(table.is_some() && place == 0) {
                    exercise.whole.extend(roots_of(input).into_iter().flatten().cloned());
                }
            }
            exercise.tables.extend(table);
            for attribute in &node.attribute {
                for inner in subgraphs(attribute) {
                    let read = free_names(inner).into_iter().filter_map(roots_of);
                    let read: HashSet<String> = read.flatten().cloned().collect();
                    let condition = node.input.first().filter(|_| node.op_type == "If");
                    match condition {
                        Some(condition) => exercise.branches.push(IfBranch {
                            node: node.label().into(),
                            condition: condition.clone(),
                            is_then: attribute.name == "then_branch",
                            reads: read,
                            ran: None,
                        }),
                        None => exercise.whole.extend(read),
                    }
                }
            }
        }
        let outputs = graph.output.iter().filter_map(|output| roots_of(&output.name));
        exercise.whole.extend(outputs.flatten().cloned());
        exercise
    }

    fn table(&self, node: &NodeProto, constancy: &Constancy) -> Option<GatherTable> {
        let ([data, indices, ..], "Gather") = (&node.input[..], node.op_type.as_str()) else {
            return None;
        };
        let made_of = constancy.known.get(data)?;
        let shape = made_of.largest.as_ref()?.shape.clone();
        let axis = int(node, "axis").unwrap_or(0);
        let rank = shape.len() as i64;
        let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?;
        let is_table = shape.len() > 1 && *shape.get(axis)? > 1;
        is_table.then(|| GatherTable {
            name: data.clone(),
            roots: made_of.roots.clone(),
            shape,
            axis,
            indices: indices.clone(),
            read: None,
        })
    }

    /// The values of the main graph that tell what is read.
    pub(crate) fn watched(&self) -> Vec<String> {
        let indices = self.tables.iter().map(|table| &table.indices);
        let mut all: Vec<String> =
            indices.chain(self.branches.iter().map(|branch| &branch.condition)).cloned().collect();
        all.sort();
        all.dedup();
        all
    }

    /// Notes what a run has read, of a value that may be watched.
    pub(crate) fn see(&mut self, value: &NamedTensor) {
        let is_index = self.tables.iter().any(|table| table.indices == value.name);
        let is_condition = self.branches.iter().any(|branch| branch.condition == value.name);
        if !is_index && !is_condition {
            return;
        }
        let Ok(numbers) = Numbers::of(value.ty, &value.tensor) else { return };
        let all = || (0..value.tensor.len()).filter_map(|i| Some(numbers.get(i)?.rounded()));
        for table in self.tables.iter_mut().filter(|table| table.indices == value.name) {
            let rows = table.shape.get(table.axis).copied().unwrap_or(0) as f64;
            let read = table.read.get_or_insert_default();
            let places = all().map(|index| if index < 0.0 { index + rows } else { index });
            read.extend(places.filter(|place| (0.0..rows).contains(place)).map(|row| row as usize));
        }
        for branch in self.branches.iter_mut().filter(|branch| branch.condition == value.name) {
            let Some(holds) = all().next().map(|condition| condition != 0.0) else { continue };
            *branch.ran.get_or_insert_default() |= holds == branch.is_then;
        }
    }

    /// What no run has read.
    pub(crate) fn unexercised(&self) -> Vec<Unexercised> {
        let mut found = vec![];
        let mut by_table: HashMap<&str, (BTreeSet<usize>, usize)> = HashMap::new();
        let mut names: Vec<&str> = vec![];
        for table in &self.tables {
            let is_whole = table.roots.iter().all(|root| self.whole.contains(root));
            let Some(read) = table.read.as_ref().filter(|_| !is_whole) else { continue };
            let rows = table.shape.get(table.axis).copied().unwrap_or(0);
            let entry = by_table.entry(&table.name).or_default();
            entry.0.extend(read);
            entry.1 = rows;
            if !names.contains(&table.name.as_str()) {
                names.push(&table.name);
            }
        }
        for name in names {
            let Some((read, rows)) = by_table.get(name) else { continue };
            if read.len() < *rows {
                found.push(Unexercised {
                    kind: UnexercisedKind::Rows,
                    name: name.into(),
                    seen: read.len() as u64,
                    total: Some(*rows as u64),
                    text: match rows {
                        1 => format!("the only row of `{name}` was not read"),
                        _ => {
                            format!("only {} of the {rows} rows of `{name}` were read", read.len())
                        }
                    },
                });
            }
        }
        for branch in self.branches.iter().filter(|branch| branch.ran == Some(false)) {
            let which = if branch.is_then { "then_branch" } else { "else_branch" };
            found.push(Unexercised {
                kind: UnexercisedKind::Branch,
                name: branch.node.clone(),
                seen: 0,
                total: None,
                text: format!("the {which} of `{}` did not run", branch.node),
            });
        }
        found
    }

    /// Which of the values of a weight that differ no run has read, in words; `None` where all
    /// were, or nobody can tell.
    pub(crate) fn unread(&self, weight: &ChangedWeight) -> Option<String> {
        let roots = &weight.fact.roots;
        let is_number = weight.fact.elements == 1 && weight.fact.max_abs.0 < BOUND;
        let mut bounds = roots.iter().filter_map(|root| self.bounds.get(root));
        if let Some(node) = bounds.next().filter(|_| is_number && weight.change.is_another()) {
            return Some(format!("it bounds Clip `{node}`, and no value need have reached it"));
        }
        if !weight.fact.graph.is_empty() {
            let idle = |branch: &&IfBranch| {
                branch.ran == Some(false) && weight.fact.graph.starts_with(&branch.path())
            };
            return self.branches.iter().find(idle).map(IfBranch::in_words);
        }
        if roots.iter().any(|root| self.whole.contains(root)) {
            return None;
        }
        let reads = |names: &HashSet<String>| roots.iter().any(|root| names.contains(root));
        let tables: Vec<&GatherTable> =
            self.tables.iter().filter(|table| reads(&table.roots)).collect();
        let branches: Vec<&IfBranch> =
            self.branches.iter().filter(|branch| reads(&branch.reads)).collect();
        if tables.is_empty() {
            let idle = branches.iter().all(|branch| branch.ran == Some(false));
            return branches.first().filter(|_| idle).map(|branch| branch.in_words());
        }
        if branches.iter().any(|branch| branch.ran != Some(false)) {
            return None;
        }
        let (axis, mut read) = (tables.first()?.axis, BTreeSet::new());
        for table in &tables {
            read.extend(table.read.as_ref()?);
        }
        let shape = &weight.fact.shape;
        let row = |place: &usize| coordinates(*place, shape).get(axis).copied();
        let differing: BTreeSet<usize> = weight.change.places.iter().filter_map(row).collect();
        let unread: Vec<usize> = differing.difference(&read).copied().collect();
        let rows = listed(unread.iter().map(usize::to_string), NAMED);
        let row = if unread.len() == 1 { "row" } else { "rows" };
        (!unread.is_empty())
            .then(|| format!("no run has read the {row} {rows} where values differ"))
    }
}

impl IfBranch {
    /// The path of its graph below the main one.
    fn path(&self) -> String {
        format!("{}.{}", self.node, if self.is_then { "then_branch" } else { "else_branch" })
    }

    fn in_words(&self) -> String {
        let which = if self.is_then { "then_branch" } else { "else_branch" };
        format!("only the {which} of `{}` reads it, which did not run", self.node)
    }
}
