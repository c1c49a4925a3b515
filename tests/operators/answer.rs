//! What an operator is asked, and what it should answer.

use tract_onnx_cast::{ElementType, Family};

use crate::common::cases::Typed;
use crate::common::elements::codes_of_tensor;
use crate::eval::{self, Attributes};
use crate::graph::Node;
use crate::tensor::{Val, axis_of};

use ElementType::Double;

/// A node's operator, attributes and inputs.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    pub op: &'static str,
    pub opset: i64,
    pub attributes: Attributes<'a>,
    pub inputs: &'a [Option<&'a Val>],
    /// How many outputs the node has.
    pub outputs: usize,
}

/// What an operator should make of its inputs; `None` where ONNX does not say.
pub type Oracle = fn(&Ask) -> Option<Vec<Answer>>;

/// A tensor, and by how much each element may be off: not at all where nothing is said, and
/// anything is right within infinity.
#[derive(Debug, Clone)]
pub struct Answer {
    pub val: Val,
    pub slack: Option<Vec<f64>>,
}

impl<'a> Ask<'a> {
    pub fn input(&self, at: usize) -> Option<&'a Val> {
        self.inputs.get(at).copied().flatten()
    }

    pub fn int(&self, name: &str, default: i64) -> i64 {
        self.attributes.int(name).unwrap_or(default)
    }

    pub fn float(&self, name: &str, default: f32) -> f64 {
        f64::from(self.attributes.float(name).unwrap_or(default))
    }

    /// The axis that an attribute names.
    pub fn axis(&self, default: i64, rank: usize) -> Option<usize> {
        axis_of(self.int("axis", default), rank)
    }

    /// INT64 elements of an input, or of an attribute in older versions.
    pub fn list(&self, at: usize, name: &str) -> Option<Vec<i64>> {
        match self.input(at) {
            Some(list) => list.i64s(),
            None => self.attributes.ints(name).map(<[i64]>::to_vec),
        }
    }

    pub fn text(&self, name: &str, default: &'static str) -> &str {
        self.attributes.text(name).unwrap_or(default)
    }
}

impl Answer {
    pub fn exact(val: Val) -> Answer {
        Answer { val, slack: None }
    }

    /// Numbers rounded to a type, each with what it may be off beside: so many units in the last
    /// place are always allowed.
    pub fn near(
        ty: ElementType,
        shape: Vec<usize>,
        units: f64,
        numbers: impl IntoIterator<Item = (f64, f64)>,
    ) -> Answer {
        let (numbers, beside): (Vec<f64>, Vec<f64>) = numbers.into_iter().unzip();
        let slack = numbers.iter().zip(beside).map(|(x, beside)| units * unit(ty, *x) + beside);
        Answer { slack: Some(slack.collect()), val: rounded(ty, shape, &numbers) }
    }

    /// What is wrong with an output, which should be this.
    pub fn complaint(&self, got: &Typed) -> Option<String> {
        let Some(slack) = &self.slack else { return self.val.complaint(got) };
        let codes = codes_of_tensor(got.ty, &got.tensor);
        // The type, the shape and how it is held are compared exactly.
        let same = Val::new(got.ty, got.tensor.shape().to_vec(), codes);
        if same.shape != self.val.shape || got.ty != self.val.ty {
            return self.val.complaint(got);
        }
        let (got, want) = (numbers(&same), numbers(&self.val));
        let is_right = |at: usize| {
            let (got, want, slack) = (got[at], want[at], slack[at]);
            // Beyond the largest number is infinity.
            let reaches = |x: f64, y: f64| {
                x.is_infinite() && y.abs() + slack >= largest(self.val.ty) && x * y > 0.0
            };
            slack == f64::INFINITY
                || got == want
                || (got - want).abs() <= slack
                || got.is_nan() && want.is_nan()
                || slack > 0.0 && (reaches(got, want) || reaches(want, got))
        };
        let at = (0..got.len()).find(|at| !is_right(*at))?;
        Some(format!("element {at} is {:?}, not {:?} ± {:e}", got[at], want[at], slack[at]))
    }
}

/// The answer of one output that has no tolerance.
pub fn only(val: Val) -> Option<Vec<Answer>> {
    Some(vec![Answer::exact(val)])
}

/// The elements as DOUBLE, which holds all but some integers of 64 bits.
pub fn numbers(val: &Val) -> Vec<f64> {
    match val.ty.family() {
        Family::Float(_) => val.cast(Double).expect("numeric").floats(),
        _ => val.ints().iter().map(|i| *i as f64).collect(),
    }
}

/// Numbers rounded once to a type of floating point, or to the integer that each is.
pub fn rounded(ty: ElementType, shape: Vec<usize>, numbers: &[f64]) -> Val {
    match ty.family() {
        Family::Float(_) => {
            let codes = numbers.iter().map(|x| x.to_bits()).collect();
            Val::new(Double, shape, codes).cast(ty).expect("numeric")
        }
        _ => Val::of_ints(ty, shape, numbers.iter().map(|x| *x as i128)),
    }
}

/// The digits after the first, and the least exponent of a normal number.
fn format(ty: ElementType) -> (i32, i32) {
    match ty.family() {
        Family::Float(format) => (format.mantissa_bits as i32, 1 - format.bias),
        _ => (0, 0),
    }
}

/// The unit in the last place of a number in a type.
pub fn unit(ty: ElementType, x: f64) -> f64 {
    let (digits, least) = format(ty);
    let exponent = match x.abs() {
        x if x > 0.0 && x.is_finite() => x.log2().floor() as i32,
        _ => least,
    };
    2f64.powi(exponent.max(least) - digits)
}

/// Half a unit in the last place of 1.
pub fn epsilon(ty: ElementType) -> f64 {
    unit(ty, 1.0) / 2.0
}

/// The largest finite number of a type.
pub fn largest(ty: ElementType) -> f64 {
    match ty.family() {
        Family::Float(format) => {
            (2.0 - 2f64.powi(-(format.mantissa_bits as i32))) * 2f64.powi(format.bias)
        }
        _ => f64::INFINITY,
    }
}

/// A sum of products in any order, and by how much one of a type may be off.
pub fn sum(ty: ElementType, terms: &[f64]) -> (f64, f64) {
    let sizes: f64 = terms.iter().map(|x| x.abs()).filter(|x| x.is_finite()).sum();
    let count = terms.len() as f64;
    // Kernels of products may take numbers that are not normal for 0.
    let least = unit(ty, 0.0) / unit(ty, 1.0);
    let slack = (count + 3.0) * epsilon(ty).max(f64::EPSILON) * sizes + count * least;
    // Beyond the type's largest number on the way, anything comes of it.
    let is_open = sizes > 0.9 * largest(ty);
    let total: f64 = terms.iter().sum();
    (total, if is_open { f64::INFINITY } else { finite(slack) })
}

/// What is added to a tolerance; none where a result is infinite or NaN.
pub fn finite(slack: f64) -> f64 {
    if slack.is_finite() { slack } else { 0.0 }
}

/// In which type numbers of a type are computed.
pub fn wide(ty: ElementType) -> ElementType {
    if ty == Double { Double } else { ElementType::Float }
}

/// What a node makes that the evaluator of random graphs knows exactly: those that move, and
/// integers.
pub fn moved(ask: &Ask) -> Option<Vec<Answer>> {
    let node =
        Node { op: ask.op, inputs: vec![], outputs: vec![], attributes: ask.attributes.0.to_vec() };
    let vals = eval::node(&node, ask.inputs, &|_| unreachable!("there is no graph inside"))?;
    Some(vals.into_iter().map(Answer::exact).collect())
}
