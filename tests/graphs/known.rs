//! What is known to be wrong, so that the rest shows. An entry goes when what it names is right: it excuses smallest graphs of
//! its kind and nothing else, and the report says how often each did.

use tract_onnx_cast::ElementType;

use crate::form::Form;
use crate::graph::{Graph, Node};

/// A graph that is as small as it gets, and what is wrong with its output.
pub struct Failure<'a> {
    pub graph: &'a Graph,
    pub problem: &'a str,
}

pub struct Known {
    pub name: &'static str,
    /// Why, and whose fault it is.
    pub reason: &'static str,
    pub excuses: fn(&Failure) -> bool,
}

/// Faults of tract's own operators that have nothing to do with casts, INT64 or shapes.
const STOCK: [Known; 6] = [
    Known {
        name: "stock: product with zero",
        reason: "tract takes x * 0 for 0, whatever x is",
        excuses: |f| f.has("Mul") && f.is_of(is_float) && f.says("is 0.0, not"),
    },
    Known {
        name: "stock: quotient of FLOATs",
        reason: "tract multiplies by the reciprocal, which rounds twice and is infinite for subnormal numbers",
        excuses: |f| f.ends_in(&["Div"]) && f.is_of(is_float),
    },
    Known {
        name: "stock: sign of a zero",
        reason: "tract does not keep it where it takes a constant zero for any other",
        excuses: |f| (f.says("is 0.0, not -0.0") || f.says("is -0.0, not 0.0")) && !f.has("Cast"),
    },
    Known {
        name: "stock: Concat of empty tensors",
        reason: "tract leaves out a part without elements, also where it has a size along the axis",
        excuses: |f| f.has("Concat") && f.is_empty(),
    },
    Known {
        name: "stock: Range without elements",
        reason: "tract makes one element where the limit is behind the start",
        excuses: |f| f.has("Range") && f.says("has the shape"),
    },
    Known {
        name: "stock: logic with a constant",
        reason: "tract takes x or true for true, and x and false for false, without the size that x has",
        excuses: |f| (f.has("Or") || f.has("And")) && f.says("has the shape"),
    },
];

/// Whether tract would not come to an end. Its Scan goes round in circles over a single element or constants, where what it collects
/// is constant, and where a Transpose stands between two Scans that it moves operators out of and into. Such models are not run
/// at all.
pub fn is_endless(graph: &Graph, form: &Form) -> bool {
    // What has no elements, and what is only measured, does not vary.
    let has_elements =
        |id: &usize| graph.values[*id].worlds.iter().all(|val| !val.codes.is_empty());
    let mut varying: Vec<usize> = form.inputs().into_iter().filter(has_elements).collect();
    let mut scanned: Vec<usize> = vec![];
    for node in &graph.nodes {
        let uses = node.uses();
        let is_fed = |list: &[usize]| uses.iter().any(|id| list.contains(id));
        if node.op == "Scan" {
            let series = node.inputs.last().copied().flatten();
            let has_one = |id: usize| graph.values[id].worlds.iter().any(|val| val.shape[0] == 1);
            let is_odd = series.is_some_and(|id| has_one(id) || !varying.contains(&id));
            if is_odd || is_fed(&scanned) {
                return true;
            }
        }
        if is_fed(&varying) && !matches!(node.op, "Shape" | "Size") {
            varying.extend(node.outputs.iter().filter(|id| has_elements(id)));
        }
        if node.op == "Scan" || is_fed(&scanned) {
            scanned.extend(&node.outputs);
        }
    }
    false
}

pub fn all() -> impl Iterator<Item = &'static Known> {
    STOCK.iter()
}

pub fn known(failure: &Failure) -> Option<&'static Known> {
    all().find(|known| (known.excuses)(failure))
}

fn is_float(ty: ElementType) -> bool {
    matches!(ty, ElementType::Float | ElementType::Double)
}

impl Failure<'_> {
    fn says(&self, text: &str) -> bool {
        self.problem.contains(text)
    }

    fn problem_is_type(&self) -> bool {
        self.problem.contains(": is ")
    }

    fn has(&self, op: &str) -> bool {
        self.graph.operators().contains(&op)
    }

    fn last(&self) -> Option<&Node> {
        self.graph.nodes.last()
    }

    fn ends_in(&self, ops: &[&str]) -> bool {
        !self.problem_is_type() && self.last().is_some_and(|node| ops.contains(&node.op))
    }

    /// Whether the last node's first input is of such a type.
    fn is_of(&self, fits: fn(ElementType) -> bool) -> bool {
        let first = self.last().and_then(|node| node.inputs.first().copied().flatten());
        first.is_some_and(|id| fits(self.graph.values[id].ty()))
    }

    /// Whether the last node's output has no elements in some world.
    fn is_empty(&self) -> bool {
        let output = self.last().map(|node| &self.graph.values[node.outputs[0]]);
        output.is_some_and(|value| value.worlds.iter().any(|val| val.codes.is_empty()))
    }
}
