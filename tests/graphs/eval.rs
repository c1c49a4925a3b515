//! What a node makes of its inputs, exactly: 64-bit integers that wrap, FLOAT and DOUBLE operations
//! of one rounding, casts by the scalar form. `None` is for what ONNX leaves open, so that no graph
//! depends on it.

use tract_onnx_cast::{ElementType, Family};

use crate::elementwise;
use crate::graph::{Attribute, Body, Node};
use crate::moves;
use crate::reduce;
use crate::tensor::Val;

/// The inputs of a node; an optional one may be missing.
pub type Inputs<'a> = &'a [Option<&'a Val>];

/// The attributes of a node.
#[derive(Clone, Copy)]
pub struct Attributes<'a>(pub &'a [(&'static str, Attribute)]);

impl Attributes<'_> {
    fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, attribute)| attribute)
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Attribute::Int(i) => Some(*i),
            _ => None,
        }
    }

    #[allow(dead_code, reason = "the tests of single operators have some")]
    pub fn float(&self, name: &str) -> Option<f32> {
        match self.get(name)? {
            Attribute::Float(x) => Some(*x),
            _ => None,
        }
    }

    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.get(name)? {
            Attribute::Ints(ints) => Some(ints),
            _ => None,
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Attribute::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn tensor(&self, name: &str) -> Option<&Val> {
        match self.get(name)? {
            Attribute::Tensor(val) => Some(val),
            _ => None,
        }
    }

    fn body(&self, name: &str) -> Option<&Body> {
        match self.get(name)? {
            Attribute::Graph(body) => Some(body),
            _ => None,
        }
    }
}

/// The outputs of a node. `outer` finds the values that its graphs take from around it.
pub fn node(node: &Node, inputs: Inputs, outer: &dyn Fn(usize) -> Val) -> Option<Vec<Val>> {
    let attributes = Attributes(&node.attributes);
    let one = |val: Val| Some(vec![val]);
    match node.op {
        "If" => {
            let condition = inputs.first().copied().flatten()?.codes.first()? == &1;
            let branch = if condition { "then_branch" } else { "else_branch" };
            run(attributes.body(branch)?, &[], outer)
        }
        "Scan" => scan(attributes, inputs, outer),
        "Cast" => {
            let to =
                ElementType::ALL.iter().find(|ty| Some(**ty as i64) == attributes.int("to"))?;
            one(inputs.first().copied().flatten()?.cast(*to)?)
        }
        "CastLike" => {
            let like = inputs.get(1).copied().flatten()?;
            one(inputs[0]?.cast(like.ty)?)
        }
        op => elementwise::eval(op, attributes, inputs)
            .or_else(|| reduce::eval(op, attributes, inputs))
            .or_else(|| moves::eval(op, attributes, inputs)),
    }
}

/// The outputs of a graph inside a node.
fn run(body: &Body, inputs: &[Val], outer: &dyn Fn(usize) -> Val) -> Option<Vec<Val>> {
    let mut own: Vec<(usize, Val)> =
        body.inputs.iter().copied().zip(inputs.iter().cloned()).collect();
    for inner in &body.nodes {
        let find = |own: &[(usize, Val)], id: usize| {
            own.iter()
                .find(|(other, _)| *other == id)
                .map_or_else(|| outer(id), |(_, val)| val.clone())
        };
        let values: Vec<Option<Val>> =
            inner.inputs.iter().map(|id| id.map(|id| find(&own, id))).collect();
        let values: Vec<Option<&Val>> = values.iter().map(Option::as_ref).collect();
        let outputs = node(inner, &values, &|id| find(&own, id))?;
        own.extend(inner.outputs.iter().copied().zip(outputs));
    }
    let find = |id: &usize| {
        own.iter().find(|(other, _)| other == id).map_or_else(|| outer(*id), |(_, val)| val.clone())
    };
    Some(body.outputs.iter().map(find).collect())
}

/// Over the first axis of what is scanned.
fn scan(attributes: Attributes, inputs: Inputs, outer: &dyn Fn(usize) -> Val) -> Option<Vec<Val>> {
    let body = attributes.body("body")?;
    let scanned = attributes.int("num_scan_inputs")? as usize;
    let inputs: Vec<&Val> = inputs.iter().copied().collect::<Option<_>>()?;
    let (states, series) = inputs.split_at(inputs.len() - scanned);
    let steps = *series.first()?.shape.first()?;
    if steps == 0 || series.iter().any(|val| val.shape.first() != Some(&steps)) {
        return None;
    }
    let mut states: Vec<Val> = states.iter().map(|val| (*val).clone()).collect();
    let kept = states.len();
    let mut collected: Vec<Vec<Val>> = vec![vec![]; body.outputs.len() - kept];
    for step in 0..steps {
        let slice = |val: &&Val| {
            let size = val.codes.len() / steps;
            val.picked(val.shape[1..].to_vec(), step * size..(step + 1) * size)
        };
        let slices = series.iter().map(slice).collect::<Option<Vec<_>>>()?;
        let outputs = run(body, &[states.clone(), slices].concat(), outer)?;
        let same = |(old, new): (&Val, &Val)| (old.ty, &old.shape) == (new.ty, &new.shape);
        if !states.iter().zip(&outputs).all(same) {
            return None;
        }
        for (list, val) in collected.iter_mut().zip(&outputs[kept..]) {
            list.push(val.clone());
        }
        states = outputs[..kept].to_vec();
    }
    let stack = |list: Vec<Val>| {
        let first = list.first()?;
        let shape = [&[steps], &first.shape[..]].concat();
        let ty = first.ty;
        Some(Val::new(ty, shape, list.into_iter().flat_map(|val| val.codes).collect()))
    };
    let collected: Option<Vec<Val>> = collected.into_iter().map(stack).collect();
    Some([states, collected?].concat())
}

/// Whether an integer operator of ONNX takes the type, and tract has it.
pub fn computes(ty: ElementType) -> bool {
    use ElementType::*;
    matches!(ty.family(), Family::Signed | Family::Unsigned | Family::Float(_))
        && matches!(
            ty,
            Int64 | Int32 | Int16 | Int8 | Uint8 | Uint16 | Uint32 | Uint64 | Float | Double
        )
}
