//! What is known to be wrong, so that the rest shows. An entry goes when what it names is right: it excuses smallest graphs of
//! its kind and nothing else, and the report says how often each did.

use tract_onnx_cast::{ElementType, Family};

use crate::form::Form;
use crate::graph::{Attribute, Graph, Node};

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
const STOCK: [Known; 9] = [
    Known {
        name: "stock: Mod of a scalar",
        reason: "tract computes x mod c where c mod x is asked for and c is broadcast",
        excuses: |f| f.ends_in(&["Mod"]) && f.broadcasts_left(),
    },
    Known {
        name: "stock: square of integers",
        reason: "tract squares integers of at most 32 bits by way of FLOAT",
        excuses: |f| {
            let squares = f.ends_in(&["Mul"]) && f.is_square() || f.ends_in(&["ReduceSumSquare"]);
            squares && f.is_of(is_narrow_int)
        },
    },
    Known {
        name: "stock: ReduceMax of infinities",
        reason: "tract starts from the largest finite number",
        excuses: |f| f.ends_in(&["ReduceMax", "ReduceMin"]) && f.is_of(is_float) && f.says("inf"),
    },
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

/// What this crate is to put right.
const OURS: [Known; 13] = [
    Known {
        name: "ConstantOfShape without value",
        reason: "is FLOAT, and made DOUBLE",
        excuses: |f| f.says("is DOUBLE, not FLOAT") && f.has("ConstantOfShape"),
    },
    Known {
        name: "empty unsigned initializer",
        reason: "an empty UINT32 or UINT64 initializer becomes INT32 or INT64",
        excuses: |f| f.says("is INT64, not UINT64") || f.says("is INT32, not UINT32"),
    },
    Known {
        name: "types by label",
        reason: "an output's type is looked for by its name or label, which nodes that are merged or fall away have lost",
        excuses: |f| f.problem_is_type(),
    },
    Known {
        name: "sums of INT64 in 32 bits",
        reason: "tract's reductions add integers up in 32 bits",
        excuses: |f| {
            let ends = ["ReduceSum", "ReduceMean", "ReduceL1", "ReduceSumSquare"];
            let is_wide =
                |ty| matches!(ty, ElementType::Int64 | ElementType::Uint32 | ElementType::Uint64);
            f.ends_in(&ends) && f.is_of(is_wide)
        },
    },
    Known {
        name: "OneHot of far indices",
        reason: "tract cuts the indices to 32 bits",
        excuses: |f| f.ends_in(&["OneHot"]),
    },
    Known {
        name: "Slice of far places",
        reason: "tract cuts starts, ends and steps to 32 bits",
        excuses: |f| f.slices_far(),
    },
    Known {
        name: "Expand against a stale declaration",
        reason: "the Expand that checks what is declared falls away where nothing needs its elements",
        excuses: |f| f.has("Expand") && (f.says("has the shape") || f.measures()),
    },
    Known {
        name: "Squeeze without axes",
        reason: "of a symbolic size that is one when the model runs, or of none",
        excuses: |f| f.has("Squeeze") && f.says("has the shape"),
    },
    Known {
        name: "Slice past the end of a symbolic size",
        reason: "tract takes the difference of start and end for the size, which shows where there is nothing to cut",
        excuses: |f| {
            f.has("Slice")
                && (f.is_empty() && f.says("has the shape") || f.ends_in(&["Shape", "Size"]))
        },
    },
    Known {
        name: "Slice backwards to a place that is data",
        reason: "tract does not leave the place itself out",
        excuses: |f| f.ends_in(&["Slice"]) && f.slices_to_data(),
    },
    Known {
        name: "Equal of a symbolic size",
        reason: "two dimensions that are not the same expression are taken for different numbers",
        excuses: |f| f.has("Equal") && f.measures(),
    },
    Known {
        name: "Mod of a size",
        reason: "of negative numbers it has the sign of what is divided",
        excuses: |f| f.ends_in(&["Mod"]) && f.measures(),
    },
    Known {
        name: "sizes that meet large numbers",
        reason: "INT64 that comes from a shape is held as tract's dimensions, which computes in 32 bits here and there",
        excuses: |f| f.measures(),
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
    STOCK.iter().chain(&OURS)
}

pub fn known(failure: &Failure) -> Option<&'static Known> {
    all().find(|known| (known.excuses)(failure))
}

fn is_float(ty: ElementType) -> bool {
    matches!(ty, ElementType::Float | ElementType::Double)
}

fn is_narrow_int(ty: ElementType) -> bool {
    matches!(ty.family(), Family::Signed | Family::Unsigned) && ty.bits() <= 32
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

    fn measures(&self) -> bool {
        self.has("Shape") || self.has("Size")
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

    /// Whether both sides are the same, under whatever name.
    fn is_square(&self) -> bool {
        let Some([Some(left), Some(right)]) = self.last().map(|node| &node.inputs[..]) else {
            return false;
        };
        let codes = |id: usize| self.graph.values[id].worlds.each_ref().map(|val| &val.codes);
        codes(*left) == codes(*right)
    }

    /// Whether the last node's output has no elements in some world.
    fn is_empty(&self) -> bool {
        let output = self.last().map(|node| &self.graph.values[node.outputs[0]]);
        output.is_some_and(|value| value.worlds.iter().any(|val| val.codes.is_empty()))
    }

    fn broadcasts_left(&self) -> bool {
        let Some([Some(left), Some(right)]) = self.last().map(|node| &node.inputs[..]) else {
            return false;
        };
        let values = &self.graph.values;
        (0..2).any(|world| {
            values[*left].worlds[world].codes.len() < values[*right].worlds[world].codes.len()
        })
    }

    /// Whether the last node's start or end is none of the model's constants.
    fn slices_to_data(&self) -> bool {
        let is_data =
            |id: &usize| self.graph.values[*id].leaf.as_ref().is_none_or(|leaf| !leaf.is_constant);
        self.last().is_some_and(|node| node.inputs[1..].iter().flatten().any(is_data))
    }

    fn slices_far(&self) -> bool {
        let is_far = |id: &usize| {
            let far = |int: &i64| *int >= i64::from(i32::MAX) || *int < i64::from(i32::MIN);
            self.graph.values[*id]
                .worlds
                .iter()
                .any(|val| val.i64s().is_some_and(|ints| ints.iter().any(far)))
        };
        let slices = |node: &Node| {
            let inner = node.attributes.iter().filter_map(|(_, attribute)| match attribute {
                Attribute::Graph(body) => Some(&body.nodes),
                _ => None,
            });
            let own = inner.flatten().chain([node]).filter(|node| node.op == "Slice");
            own.flat_map(|node| node.inputs[1..].iter().copied().flatten()).any(|id| is_far(&id))
        };
        self.graph.nodes.iter().any(slices)
    }
}
