//! Operators on half precision, FLOAT16 or BFLOAT16, compute in FLOAT, with one rounding of each
//! result ([SEMANTICS §16](crate::semantics)).
//!
//! Before: `y = Op(v)` on half precision. After: `wide:v = Cast(v)`, once in a body, `exact:y =
//! Op(wide:v)`, `y = Cast(exact:y)`. What has been computed so stays FLOAT through operators that
//! only move it.

pub(super) mod wide;

use std::sync::Arc;

use onnx_cast_graph::{Node, NodeView, int};

use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::node::refusal;
use crate::onnx::operators::behaviour::{Behaviour, ElementUse, InputPlaces};
use crate::onnx::operators::foreign;
use crate::onnx::operators::schema::{self, ParameterType, Schema};
use crate::onnx::operators::types::output_types;
use crate::passes::facts::fact::{Fact, FactOrigin};

/// How operators compute on FLOAT16. On BFLOAT16, which tract does not have, they always compute in
/// FLOAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HalfArithmetic {
    /// By tract where this CPU has instructions for it, in FLOAT where tract would have to emulate
    /// them.
    #[default]
    Fastest,
    /// By tract on every CPU, save operators that it does not have in FLOAT16.
    Native,
    /// In FLOAT on every CPU: the same bits everywhere.
    Widened,
}

/// What to compute in FLOAT.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Widening {
    pub(crate) float16: HalfArithmetic,
    /// Whether a result that only goes into other widened operators is not rounded.
    pub(crate) excess_precision: bool,
}

/// An operator that computes in FLOAT what the model has it compute in half precision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WidenedNode {
    /// The node's name, or its first output where it has none.
    pub node: String,
    /// ONNX's name of the operator.
    pub operator: String,
    /// FLOAT16 or BFLOAT16.
    pub ty: ElementType,
}

/// The operators that tract does not have in FLOAT16 on any CPU.
const NOT_IN_FLOAT16: &[&str] = &["GRU", "Gemm", "IsInf", "LSTM", "RNN"];

impl Widening {
    fn applies(&self, node: &Node, ty: ElementType) -> bool {
        match ty {
            ElementType::BFloat16 => true,
            ElementType::Float16 => match self.float16 {
                HalfArithmetic::Widened => true,
                HalfArithmetic::Fastest if !tract_onnx::tract_core::tract_linalg::has_fp16() => {
                    true
                }
                _ => NOT_IN_FLOAT16.contains(&node.op_type.as_str()),
            },
            _ => false,
        }
    }
}

/// A node that computes on half precision, in FLOAT.
#[derive(Debug, Clone)]
pub(crate) struct Halves {
    schema: Option<&'static Schema>,
    /// The first type of half precision.
    half: ElementType,
    /// Whether inputs that must have one type have two.
    is_mixed: bool,
    inputs: Vec<Option<ElementType>>,
    outputs: Vec<Option<ElementType>>,
}

/// Reads a node, given what is known of its inputs, what is declared of its outputs, and how to
/// call these; `None` for one that does not compute in FLOAT in the place of half precision. Fails
/// when ONNX does not define the operator on half precision in any opset, or inputs that must have
/// one type mix it with another.
pub(super) fn read(
    node: &Node,
    inputs: &[Option<Fact>],
    declared: &[Option<ElementType>],
    name: &dyn Fn(usize) -> Arc<str>,
    widening: &Widening,
) -> Result<Option<Halves>, Error> {
    let behaviour = Behaviour::of(node);
    match behaviour.elements(node) {
        ElementUse::Measured => Ok(None),
        ElementUse::Moved(moved) => {
            check_moved(node, inputs, moved, widening)?;
            Ok(None)
        }
        _ => {
            let types: Vec<_> = inputs.iter().map(|fact| fact.and_then(|fact| fact.ty)).collect();
            let Some(mut halves) = Halves::of(node, &types)? else { return Ok(None) };
            halves.check(node)?;
            halves.check_attribute(node, declared, name)?;
            halves.settle_mixed(node, declared, inputs)?;
            // tract's own arithmetic on FLOAT16 takes no FLOATs.
            let mut types = halves.inputs.iter().chain(&halves.outputs).flatten();
            let applies = halves.is_mixed || types.any(|ty| widening.applies(node, *ty));
            Ok(applies.then_some(halves))
        }
    }
}

/// The inputs that a node moves and that are given, and the type of half precision among them that
/// computes in FLOAT.
fn moved_halves(
    node: &Node,
    types: impl Fn(usize) -> Option<ElementType>,
    moved: InputPlaces,
    widening: &Widening,
) -> Option<(Vec<usize>, ElementType)> {
    // The number that it fills with would have to be rounded.
    if Behaviour::of(node).fills_with_attribute(node) {
        return None;
    }
    let places = 0..node.inputs().len();
    let places: Vec<usize> =
        places.filter(|place| moved.contains(*place) && node.gives(*place)).collect();
    let half = places.iter().filter_map(|place| types(*place));
    let half = half.into_iter().find(|ty| widening.applies(node, *ty))?;
    Some((places, half))
}

/// Fails where a node moves half precision together with another type.
fn check_moved(
    node: &Node,
    inputs: &[Option<Fact>],
    moved: InputPlaces,
    widening: &Widening,
) -> Result<(), Error> {
    let ty = |place: usize| inputs.get(place).copied().flatten().and_then(|fact| fact.ty);
    let Some((places, half)) = moved_halves(node, ty, moved, widening) else { return Ok(()) };
    match places.iter().filter_map(|place| ty(*place)).find(|ty| *ty != half) {
        Some(other) => Err(refusal(node, format!("mixes {half} and {other}"))),
        None => Ok(()),
    }
}

impl Halves {
    /// `None` for a node without half precision, or of which tract alone knows the types.
    fn of(node: &Node, inputs: &[Option<ElementType>]) -> Result<Option<Halves>, Error> {
        let schema = schema::schema(&node.op_type, node.opset).filter(|_| node.is_onnx());
        let mut inputs = inputs.to_vec();
        if let Some(schema) = schema {
            // What is not known yet has the type of what it must agree with.
            for place in 0..inputs.len() {
                if inputs[place].is_none()
                    && node.gives(place)
                    && let Some(ParameterType::Variable(variable)) =
                        schema.input(place).map(|input| input.ty)
                    && schema.binds(place, variable)
                {
                    let bound = schema.bound(variable, &inputs);
                    inputs[place] = bound.filter(|ty| ty.is_half());
                }
            }
        }
        let outputs = match schema {
            Some(_) => output_types(node, node.opset, &inputs),
            None => foreign::output_types(node, &inputs),
        };
        let types = inputs.iter().chain(&outputs).flatten();
        let Some(half) = types.copied().find(|ty| ty.is_half()) else { return Ok(None) };
        let is_known = schema.is_some() || foreign::is_known(node);
        let mut made = outputs.iter().enumerate();
        let is_open = made.any(|(place, ty)| ty.is_none() && node.makes(place));
        match half {
            _ if is_known && !is_open => {
                Ok(Some(Halves { schema, half, is_mixed: false, inputs, outputs }))
            }
            ElementType::Float16 => Ok(None),
            _ => {
                let problem = format!("cannot compute with {half}: Cast it to a wider type first");
                Err(refusal(node, problem))
            }
        }
    }

    /// The types of the outputs as the model has them.
    pub(super) fn outputs(&self) -> &[Option<ElementType>] {
        &self.outputs
    }

    fn check(&self, node: &Node) -> Result<(), Error> {
        if self.schema.is_none() {
            return Ok(());
        }
        let undefined = self.inputs.iter().enumerate().find_map(|(place, ty)| {
            let ty = ty.filter(|ty| ty.is_half())?;
            let allows = |schema: &Schema| {
                schema.input(place).is_some_and(|input| schema.allows(input.ty, ty))
            };
            (!schema::versions(&node.op_type).iter().any(allows)).then_some(ty)
        });
        match undefined {
            Some(ty) => {
                let problem = format!("is not defined on {ty} in any opset (opset {})", node.opset);
                Err(refusal(node, problem))
            }
            None => Ok(()),
        }
    }

    /// Fails where an attribute gives an output another type than the model declares.
    fn check_attribute(
        &self,
        node: &Node,
        declared: &[Option<ElementType>],
        name: &dyn Fn(usize) -> Arc<str>,
    ) -> Result<(), Error> {
        let Some(by) = Behaviour::of(node).type_attribute else { return Ok(()) };
        let Some(given) = int(node, by.name).and_then(|id| i32::try_from(id).ok()) else {
            return Ok(());
        };
        for (place, (ty, declared)) in self.outputs.iter().zip(declared).enumerate() {
            let is_given = |ty: &ElementType| *ty as i32 == given;
            if let (Some(ty), Some(other)) = (ty.filter(is_given), declared)
                && ty != *other
            {
                let (attribute, output, opset) = (by.name, name(place), node.opset);
                return Err(refusal(
                    node,
                    format!(
                        "attribute `{attribute}` makes `{output}` {ty}, but the model declares it {other} (opset {opset})"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Finds the types of results where inputs that must have one type have two. Exporters leave
    /// constants FLOAT beside data of half precision, and the other way round: the result is then
    /// what the model declares it, else of the data's type.
    fn settle_mixed(
        &mut self,
        node: &Node,
        declared: &[Option<ElementType>],
        facts: &[Option<Fact>],
    ) -> Result<(), Error> {
        let Some(schema) = self.schema else { return Ok(()) };
        for variable in schema.variables() {
            let places = self.inputs.iter().enumerate();
            let bound = places.filter(|(place, _)| schema.binds(*place, variable));
            let bound: Vec<(ElementType, FactOrigin)> = bound
                .filter_map(|(place, ty)| {
                    let fact = facts.get(place).copied().flatten();
                    Some(((*ty)?, fact.map_or(FactOrigin::Data, |fact| fact.origin)))
                })
                .collect();
            let other = bound.windows(2).find_map(|pair| match pair {
                [(a, _), (b, _)] if a != b => Some([*a, *b]),
                _ => None,
            });
            let Some(types) = other else { continue };
            if !types.iter().any(|ty| ty.is_half()) {
                continue;
            }
            let of_data = bound.iter().find(|(_, origin)| *origin == FactOrigin::Data);
            let of_data = of_data.or(bound.first()).map(|(ty, _)| *ty);
            let fits = |(ty, origin): &(ElementType, FactOrigin)| {
                types.contains(ty) && (*origin == FactOrigin::Constants || Some(*ty) == of_data)
            };
            if !types.contains(&ElementType::Float) || !bound.iter().all(fits) {
                let [one, other] = types;
                let problem = format!(
                    "mixes {one} and {other} (opset {}); `onnx-cast fix MODEL.onnx -o FIXED.onnx` may correct it",
                    node.opset
                );
                return Err(refusal(node, problem));
            }
            self.is_mixed = true;
            for (place, made) in self.outputs.iter_mut().enumerate() {
                let ty = schema.output(place).map(|output| output.ty);
                if ty == Some(ParameterType::Variable(variable)) {
                    let declared = declared.get(place).copied().flatten();
                    *made = declared.filter(|ty| types.contains(ty)).or(of_data);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
