//! Operators that compute on half precision, FLOAT16 or BFLOAT16: in FLOAT, with one rounding of each result ([SEMANTICS
//! §16](crate::semantics)).
//!
//! An input `v` is cast to FLOAT as `tract-onnx-cast:wide:v`, once in a graph. A result `y` is computed as
//! `tract-onnx-cast:exact:y` and cast to `y`. What has been computed so stays FLOAT through operators that only move it.

use std::collections::HashMap;

use tract_onnx::pb::NodeProto;

use super::annotation::{DOMAIN, divide_exactly, widening_cast};
use super::fact::Origin;
use super::node::{int, is_default_domain, node_name, refusal};
use super::operators::behaviour::{Behaviour, Elements, Inputs};
use super::operators::foreign;
use super::operators::schema::{self, ParameterType, Schema};
use super::operators::types::output_types;
use super::scope::Scope;
use crate::cast::element_type::ElementType;
use crate::error::Error;

/// How operators compute on FLOAT16. On BFLOAT16, which tract does not have, they always compute in FLOAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HalfArithmetic {
    /// By tract where this CPU has instructions for it, in FLOAT where tract would have to emulate them.
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

/// What became of a node.
pub(super) struct Widened {
    /// The types of its outputs as the model has them.
    pub(super) outputs: Vec<Option<ElementType>>,
    /// What it computes on, if it does not only move it.
    pub(super) computes: Option<ElementType>,
    /// The results that are rounded, and to what.
    pub(super) rounded: Vec<(String, ElementType)>,
}

/// The operators that tract does not have in FLOAT16 on any CPU.
const NOT_IN_FLOAT16: &[&str] = &["GRU", "Gemm", "IsInf", "LSTM", "RNN"];

impl Widening {
    fn applies(&self, node: &NodeProto, ty: ElementType) -> bool {
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

/// Whether a type is half precision.
fn is_half(ty: ElementType) -> bool {
    matches!(ty, ElementType::Float16 | ElementType::BFloat16)
}

/// A node with half precision among its inputs and outputs.
struct Halves {
    schema: Option<&'static Schema>,
    opset: i64,
    /// The first type of half precision.
    half: ElementType,
    /// Whether inputs that must have one type have two.
    is_mixed: bool,
    inputs: Vec<Option<ElementType>>,
    outputs: Vec<Option<ElementType>>,
}

/// Has a node compute in FLOAT, or move what has been computed there; `None` for one that is to stay as it is.
///
/// # Errors
///
/// When ONNX does not define the operator on half precision in any opset, or inputs that must have one type mix it with
/// another.
pub(super) fn widen(
    node: &mut NodeProto,
    opset: i64,
    inputs: &[Option<ElementType>],
    widening: &Widening,
    declared: &HashMap<String, ElementType>,
    scope: &mut Scope,
) -> Result<Option<Widened>, Error> {
    let behaviour = Behaviour::of(node);
    match behaviour.elements(node) {
        Elements::Measured => Ok(None),
        // The number that it fills with would have to be rounded.
        Elements::Moved(_) if behaviour.fills_with_attribute(node) => Ok(None),
        Elements::Moved(moved) => move_wide(node, inputs, moved, widening, scope),
        _ => {
            let Some(mut halves) = Halves::of(node, opset, inputs)? else { return Ok(None) };
            halves.check(node)?;
            halves.check_attribute(node, declared)?;
            halves.settle_mixed(node, declared, scope)?;
            // tract's own arithmetic on FLOAT16 takes no FLOATs.
            let mut types = halves.inputs.iter().chain(&halves.outputs).flatten();
            if !halves.is_mixed && !types.any(|ty| widening.applies(node, *ty)) {
                return Ok(None);
            }
            let rounded = compute_wide(node, &halves, widening, scope);
            Ok(Some(Widened { outputs: halves.outputs, computes: Some(halves.half), rounded }))
        }
    }
}

impl Halves {
    /// `None` for a node without half precision, or of which tract alone knows the types.
    fn of(
        node: &NodeProto,
        opset: i64,
        inputs: &[Option<ElementType>],
    ) -> Result<Option<Halves>, Error> {
        let schema =
            schema::schema(&node.op_type, opset).filter(|_| is_default_domain(&node.domain));
        let mut inputs = inputs.to_vec();
        if let Some(schema) = schema {
            // What is not known yet has the type of what it must agree with.
            for place in 0..inputs.len() {
                let is_given = node.input.get(place).is_some_and(|name| !name.is_empty());
                if inputs[place].is_none()
                    && is_given
                    && let Some(ParameterType::Variable(variable)) =
                        schema.input(place).map(|input| input.ty)
                    && schema.binds(place, variable)
                {
                    let bound = schema.bound(variable, &inputs);
                    inputs[place] = bound.filter(|ty| is_half(*ty));
                }
            }
        }
        let outputs = match schema {
            Some(_) => output_types(node, opset, &inputs),
            None => foreign::output_types(node, &inputs),
        };
        let types = inputs.iter().chain(&outputs).flatten();
        let Some(half) = types.copied().find(|ty| is_half(*ty)) else { return Ok(None) };
        let is_known = schema.is_some() || foreign::is_known(node);
        let mut made = outputs.iter().zip(&node.output);
        let is_open = made.any(|(ty, name)| ty.is_none() && !name.is_empty());
        match half {
            _ if is_known && !is_open => {
                Ok(Some(Halves { schema, opset, half, is_mixed: false, inputs, outputs }))
            }
            ElementType::Float16 => Ok(None),
            _ => {
                let problem = format!("cannot compute with {half}: Cast it to a wider type first");
                Err(refusal(node, problem))
            }
        }
    }

    fn check(&self, node: &NodeProto) -> Result<(), Error> {
        if self.schema.is_none() {
            return Ok(());
        }
        let undefined = self.inputs.iter().enumerate().find_map(|(place, ty)| {
            let ty = ty.filter(|ty| is_half(*ty))?;
            let allows = |schema: &Schema| {
                schema.input(place).is_some_and(|input| schema.allows(input.ty, ty))
            };
            (!schema::versions(&node.op_type).iter().any(allows)).then_some(ty)
        });
        match undefined {
            Some(ty) => {
                let problem = format!("is not defined on {ty} in any opset (opset {})", self.opset);
                Err(refusal(node, problem))
            }
            None => Ok(()),
        }
    }

    /// Fails where an attribute gives an output another type than the model declares.
    fn check_attribute(
        &self,
        node: &NodeProto,
        declared: &HashMap<String, ElementType>,
    ) -> Result<(), Error> {
        let Some(by) = Behaviour::of(node).type_attribute else { return Ok(()) };
        let Some(given) = int(node, by.name).and_then(|id| i32::try_from(id).ok()) else {
            return Ok(());
        };
        for (output, ty) in node.output.iter().zip(&self.outputs) {
            let is_given = |ty: &ElementType| *ty as i32 == given;
            if let (Some(ty), Some(other)) = (ty.filter(is_given), declared.get(output))
                && ty != *other
            {
                let (name, opset) = (by.name, self.opset);
                return Err(refusal(
                    node,
                    format!(
                        "attribute `{name}` makes `{output}` {ty}, but the model declares it {other} (opset {opset})"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Finds the types of results where inputs that must have one type have two. Exporters leave constants FLOAT beside data of
    /// half precision, and the other way round: the result is then what the model declares it, else of the data's type.
    fn settle_mixed(
        &mut self,
        node: &NodeProto,
        declared: &HashMap<String, ElementType>,
        scope: &Scope,
    ) -> Result<(), Error> {
        let Some(schema) = self.schema else { return Ok(()) };
        for variable in schema.variables() {
            let places = self.inputs.iter().enumerate();
            let bound = places.filter(|(place, _)| schema.binds(*place, variable));
            let bound: Vec<(ElementType, Origin)> = bound
                .filter_map(|(place, ty)| {
                    let fact = node.input.get(place).and_then(|name| scope.get(name));
                    Some(((*ty)?, fact.map_or(Origin::Data, |fact| fact.origin)))
                })
                .collect();
            let other = bound.windows(2).find_map(|pair| match pair {
                [(a, _), (b, _)] if a != b => Some([*a, *b]),
                _ => None,
            });
            let Some(types) = other else { continue };
            if !types.iter().any(|ty| is_half(*ty)) {
                continue;
            }
            let of_data = bound.iter().find(|(_, origin)| *origin == Origin::Data);
            let of_data = of_data.or(bound.first()).map(|(ty, _)| *ty);
            let fits = |(ty, origin): &(ElementType, Origin)| {
                types.contains(ty) && (*origin == Origin::Constants || Some(*ty) == of_data)
            };
            if !types.contains(&ElementType::Float) || !bound.iter().all(fits) {
                let [one, other] = types;
                let problem = format!("mixes {one} and {other} (opset {})", self.opset);
                return Err(refusal(node, problem));
            }
            self.is_mixed = true;
            for (place, made) in self.outputs.iter_mut().enumerate() {
                let ty = schema.output(place).map(|output| output.ty);
                if ty == Some(ParameterType::Variable(variable)) {
                    let declared = node.output.get(place).and_then(|name| declared.get(name));
                    *made = declared.copied().filter(|ty| types.contains(ty)).or(of_data);
                }
            }
        }
        Ok(())
    }
}

/// Rewrites a node, and returns the results that are rounded.
fn compute_wide(
    node: &mut NodeProto,
    halves: &Halves,
    widening: &Widening,
    scope: &mut Scope,
) -> Vec<(String, ElementType)> {
    let mut rounded = vec![];
    node.name = node_name(node);
    let types = halves.schema.map_or(vec![], |schema| schema.names_of_types());
    for attribute in &mut node.attribute {
        let ty = i32::try_from(attribute.i).ok().and_then(ElementType::from_id);
        if ty.is_some_and(is_half) && types.contains(&attribute.name.as_str()) {
            attribute.i = ElementType::Float as i64;
        }
    }
    // Two roundings of the quotient would show in the third.
    if node.op_type == "Div" && is_default_domain(&node.domain) {
        divide_exactly(node);
    }
    for (place, ty) in halves.inputs.iter().enumerate() {
        if let Some(ty) = ty.filter(|ty| is_half(*ty))
            && let Some(input) = node.input.get_mut(place)
        {
            *input = scope.wide(input, ty);
        }
    }
    for (place, ty) in halves.outputs.iter().enumerate() {
        if let Some(ty) = ty.filter(|ty| is_half(*ty))
            && let Some(output) = node.output.get_mut(place).filter(|output| !output.is_empty())
        {
            let exact = format!("{DOMAIN}:exact:{output}");
            scope.added.push(widening_cast(&exact, ElementType::Float, ty, output.clone()));
            scope.computed_wide.insert(output.clone());
            rounded.push((output.clone(), ty));
            if widening.excess_precision {
                scope.wide.insert(output.clone(), exact.clone());
            }
            *output = exact;
        }
    }
    rounded
}

/// Moves FLOATs where half precision has been computed as such, so that they need not be narrowed to be moved.
fn move_wide(
    node: &mut NodeProto,
    inputs: &[Option<ElementType>],
    moved: Inputs,
    widening: &Widening,
    scope: &mut Scope,
) -> Result<Option<Widened>, Error> {
    let given = |place: &usize| node.input.get(*place).is_some_and(|name| !name.is_empty());
    let places: Vec<usize> =
        (0..inputs.len()).filter(|place| moved.contains(*place)).filter(given).collect();
    let types: Vec<Option<ElementType>> =
        places.iter().map(|place| inputs.get(*place).copied().flatten()).collect();
    let half = types.iter().flatten().copied().find(|ty| widening.applies(node, *ty));
    let Some(half) = half else { return Ok(None) };
    if let Some(other) = types.iter().flatten().find(|ty| **ty != half) {
        return Err(refusal(node, format!("mixes {half} and {other}")));
    }
    let name = |place: &usize| node.input.get(*place).cloned().unwrap_or_default();
    let is_wide = places.iter().any(|place| scope.computed_wide.contains(&name(place)));
    if !is_wide || types.contains(&None) {
        return Ok(None);
    }
    node.name = node_name(node);
    for place in places {
        if let Some(input) = node.input.get_mut(place) {
            *input = scope.wide(input, half);
        }
    }
    for output in node.output.iter_mut().filter(|output| !output.is_empty()) {
        let wide = format!("{DOMAIN}:wide:{output}");
        scope.added.push(widening_cast(&wide, ElementType::Float, half, output.clone()));
        scope.computed_wide.insert(output.clone());
        scope.wide.insert(output.clone(), wide.clone());
        *output = wide;
    }
    Ok(Some(Widened {
        outputs: vec![Some(half); node.output.len()],
        computes: None,
        rounded: vec![],
    }))
}
