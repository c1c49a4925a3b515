//! Which side of a contradiction is mended.

use onnx_cast_graph::int_attribute;
use prost::Message;
use tract_onnx::pb::NodeProto;

use super::body::{Body, Names};
use super::change::{Change, ChangeKind, Work};
use super::wants::schema_of;
use crate::cast::element_type::ElementType;
use crate::onnx::cast_spec::{CastSpec, Operator};
use crate::onnx::node::{int, node_name};
use crate::onnx::operators::behaviour::Behaviour;
use crate::onnx::operators::schema::{self, ParameterType, Schema};

/// A node, and what is fed to it.
pub(super) struct Fed<'n> {
    pub(super) index: usize,
    pub(super) node: &'n NodeProto,
    pub(super) inputs: Vec<String>,
    pub(super) types: Vec<Option<ElementType>>,
}

impl Body<'_> {
    /// Settles what a cast makes that is to make `made`. Where its declaration says another type, the users decide; without
    /// any, an output stays what it is declared, which is what is around the graph relies on, and an inner value what it is.
    pub(super) fn settle_cast(
        &mut self,
        fed: &Fed,
        spec: &CastSpec,
        made: ElementType,
        names: &Names,
        work: &mut Work,
    ) -> ElementType {
        let Some(value) = fed.node.output.first() else { return made };
        let (declared, wanted) = (self.declared(value), self.wanted(value));
        let is_output = names.pinned.contains(value);
        let target = declared.filter(|declared| match wanted {
            Some(wanted) => wanted == *declared,
            None => is_output,
        });
        let settled = target.filter(|ty| *ty != made && self.set_target(fed.index, *ty, work));
        if settled.is_none()
            && let Some(ty) = target.filter(|ty| *ty != made)
            && spec.operator == Operator::CastLike
            && is_output
        {
            self.leave(fed.node, format!("makes `{value}` {made}, declared {ty}"), work);
        }
        let settled = settled.unwrap_or(made);
        self.declare(value, settled, work);
        settled
    }

    /// Gives a `Cast` of this body another target; `false` if it is none, or its operator's version does not have the type.
    fn set_target(&self, index: usize, ty: ElementType, work: &mut Work) -> bool {
        let Some(node) = self.graph.node.get(index) else { return false };
        let Ok(spec) = CastSpec::parse(node, self.opset) else { return false };
        let to = node.attribute.iter().position(|attribute| attribute.name == "to");
        let (Some(place), Some(from)) = (to, spec.to) else { return false };
        if spec.check_type(ty, "to").is_err() {
            return false;
        }
        let is_word = node.attribute.get(place).is_some_and(|attribute| !attribute.s.is_empty());
        let edits = self.edits(work, &[(self.fields.node, index), (5, place)]);
        match is_word {
            true => edits.set_bytes((4, 0), ty.name().as_bytes()),
            false => edits.set_number(3, ty as u64),
        }
        work.changes.push(Change {
            kind: ChangeKind::To,
            place: self.place(&node_name(node)),
            from: from.name().into(),
            to: ty.name().into(),
        });
        true
    }

    /// Brings a node's inputs to types that it can have.
    pub(super) fn settle_inputs(&mut self, fed: &mut Fed, names: &mut Names, work: &mut Work) {
        let Some(schema) = schema_of(fed.node, self.opset) else { return };
        for variable in schema.variables() {
            let bound: Vec<(usize, ElementType)> = (0..fed.types.len())
                .filter(|place| schema.binds(*place, variable))
                .filter_map(|place| Some((place, fed.types.get(place).copied().flatten()?)))
                .collect();
            let Some((_, first)) = bound.first().copied() else { continue };
            let is_mixed = bound.iter().any(|(_, ty)| *ty != first);
            match self.common_type(fed, schema, variable, &bound, is_mixed) {
                Some(target) => {
                    for (place, _) in bound.iter().filter(|(_, ty)| *ty != target) {
                        self.settle_input(fed, *place, target, names, work);
                    }
                }
                None if is_mixed => {
                    let other = bound.iter().find(|(_, ty)| *ty != first).map_or(first, |o| o.1);
                    self.leave(fed.node, format!("mixes {first} and {other}"), work);
                }
                None => {}
            }
        }
        self.check_attribute(fed, schema, work);
        for place in 0..fed.types.len() {
            let Some(ty) = fed.types.get(place).copied().flatten() else { continue };
            let allows = |schema: &Schema| {
                schema.input(place).is_some_and(|input| schema.allows(input.ty, ty))
            };
            if schema::versions(&fed.node.op_type).iter().any(allows) {
                continue;
            }
            let parameter = schema.input(place).map(|input| input.ty);
            let is_float =
                |ty: &ElementType| parameter.is_some_and(|parameter| schema.allows(parameter, *ty));
            let only = parameter.and_then(|parameter| schema.only_type(parameter));
            match only.or(Some(ElementType::Float).filter(is_float)) {
                Some(target) => self.settle_input(fed, place, target, names, work),
                None => {
                    let value = fed.inputs.get(place).map_or("", String::as_str);
                    self.leave(fed.node, format!("takes no {ty}, as `{value}` is"), work);
                }
            }
        }
    }

    /// Whether an attribute gives an output the type that an input has given it.
    fn check_attribute(&self, fed: &Fed, schema: &Schema, work: &mut Work) {
        let Some(attribute) = Behaviour::of(fed.node).type_attribute else { return };
        let given = int(fed.node, attribute.name).and_then(|id| i32::try_from(id).ok());
        let Some(given) = given.and_then(ElementType::from_id) else { return };
        // The attribute is about an output that no input gives a type, if there is one; the last output may be repeated.
        let outputs = (0..=fed.node.output.len() + 2).map_while(|place| schema.output(place));
        let bound: Option<Vec<ElementType>> = outputs
            .filter(|output| schema.only_type(output.ty).is_none())
            .map(|output| match output.ty {
                ParameterType::Variable(variable) => schema.bound(variable, &fed.types),
                ParameterType::Fixed(_) => None,
            })
            .collect();
        if let Some(bound) = bound.into_iter().flatten().find(|bound| *bound != given) {
            let name = attribute.name;
            self.leave(fed.node, format!("attribute `{name}` is {given}, an input {bound}"), work);
        }
    }

    /// The type that a variable is to stand for: what the users of the outputs want; else what is declared of these; else what
    /// the constants are. `None` for no change, or where there is nothing to tell it by.
    fn common_type(
        &self,
        fed: &Fed,
        schema: &Schema,
        variable: &'static str,
        bound: &[(usize, ElementType)],
        is_mixed: bool,
    ) -> Option<ElementType> {
        let outputs = fed.node.output.iter().enumerate().filter(|(place, _)| {
            let output = schema.output(*place);
            output.is_some_and(|output| output.ty == ParameterType::Variable(variable))
        });
        let outputs = outputs.map(|(_, name)| name.as_str());
        let is_there = |ty: &ElementType| bound.iter().any(|(_, bound)| bound == ty);
        let wanted = outputs.clone().find_map(|name| {
            let wanted = self.wanted(name)?;
            let is_sound = is_there(&wanted) || self.declared(name) == Some(wanted);
            is_sound.then_some(wanted)
        });
        if !is_mixed || wanted.is_some() {
            return wanted;
        }
        let declared = outputs.clone().find_map(|name| self.declared(name).filter(is_there));
        let constant = |(place, _): &(usize, ElementType)| {
            self.constants.get(fed.inputs.get(*place)?).copied()
        };
        declared.or_else(|| bound.iter().find_map(constant))
    }

    /// Gives a node an input of another type: of the cast that makes it with a better target, of a value that has the same
    /// numbers, or of a new cast.
    fn settle_input(
        &mut self,
        fed: &mut Fed,
        place: usize,
        ty: ElementType,
        names: &mut Names,
        work: &mut Work,
    ) {
        let (Some(value), Some(Some(from))) =
            (fed.inputs.get(place).cloned(), fed.types.get(place).copied())
        else {
            return;
        };
        if self.retarget(&value, ty, names, work) {
            self.declare(&value, ty, work);
            let fed = fed.inputs.iter().zip(&mut fed.types);
            fed.filter(|(name, _)| **name == value).for_each(|(_, of)| *of = Some(ty));
            self.types.insert(value, Some(ty));
            return;
        }
        let other = match self.same_of_type(&value, ty).map(String::from) {
            Some(same) => {
                let place = self.place(&node_name(fed.node));
                let (from, to) = (value, same.clone());
                work.changes.push(Change { kind: ChangeKind::Input, place, from, to });
                same
            }
            None => match self.add_cast(fed, &value, from, ty, names, work) {
                Some(added) => added,
                None => {
                    let problem = format!("needs `{value}` as {ty}, which is {from}");
                    return self.leave(fed.node, problem, work);
                }
            },
        };
        self.set_input(fed.index, place, &other, work);
        if let (Some(input), Some(of)) = (fed.inputs.get_mut(place), fed.types.get_mut(place)) {
            (*input, *of) = (other, Some(ty));
        }
    }

    /// Gives the cast that a value comes from a better target, if all that use it and what is between want that type.
    fn retarget(&mut self, value: &str, ty: ElementType, names: &Names, work: &mut Work) -> bool {
        let mut value = value.to_owned();
        loop {
            if self.wanted(&value) != Some(ty) || names.pinned.contains(&value) {
                return false;
            }
            let Some(index) = self.producers.get(value.as_str()).copied() else { return false };
            let Some(node) = self.graph.node.get(index) else { return false };
            if Operator::of(node).is_some() {
                // Another user may have come to the same cast in this walk.
                let is_set = self.ty(&value) == Some(ty) || self.set_target(index, ty, work);
                if is_set {
                    self.declare(&value, ty, work);
                    self.types.insert(value, Some(ty));
                }
                return is_set;
            }
            match self.only_input_of_type(node, &value) {
                Some(input) => value = input,
                None => return false,
            }
        }
    }

    /// The one input that has the type of an output, whatever that is.
    fn only_input_of_type(&self, node: &NodeProto, output: &str) -> Option<String> {
        let schema = schema_of(node, self.opset)?;
        let place = node.output.iter().position(|name| name == output)?;
        let ParameterType::Variable(variable) = schema.output(place)?.ty else { return None };
        let mut inputs = node.input.iter().enumerate();
        let (_, input) = inputs.find(|(place, _)| schema.binds(*place, variable))?;
        let is_only = !inputs.any(|(place, _)| schema.binds(place, variable));
        is_only.then(|| self.stand_in(input).unwrap_or(input).to_owned())
    }

    /// Puts a cast of a value before a node; `None` where the opset has none such.
    fn add_cast(
        &mut self,
        fed: &Fed,
        value: &str,
        from: ElementType,
        to: ElementType,
        names: &mut Names,
        work: &mut Work,
    ) -> Option<String> {
        if let Some(added) = self.added.get(&(value.into(), to)) {
            return Some(added.clone());
        }
        let mut cast = NodeProto {
            op_type: "Cast".into(),
            input: vec![value.into()],
            output: vec![String::from("?")],
            attribute: vec![int_attribute("to", to as i64)],
            ..NodeProto::default()
        };
        let spec = CastSpec::parse(&cast, self.opset).ok()?;
        spec.check_type(from, "input").ok()?;
        let added = names.new_value(value, to);
        (cast.name, cast.output) = (added.clone(), vec![added.clone()]);
        let node = (self.fields.node, fed.index);
        self.edits(work, &[]).put_before(node, cast.encode_to_vec());
        work.changes.push(Change {
            kind: ChangeKind::Added,
            place: self.place(&added),
            from: from.name().into(),
            to: to.name().into(),
        });
        self.types.insert(added.clone(), Some(to));
        self.added.insert((value.into(), to), added.clone());
        Some(added)
    }
}
