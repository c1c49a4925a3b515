//! What ONNX says of its operators: a row per operator and version, made from the schemas of the
//! onnx package by `scripts/operators/make_operator_table.py`, which also describes the columns.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::cast::element_type::ElementType;

const TABLE: &str = include_str!("../schemas.tsv");

/// An operator of the default domain in one of its versions.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The opset that it came with.
    pub(crate) since: i64,
    inputs: Vec<FormalParameter>,
    outputs: Vec<FormalParameter>,
    variables: Vec<(&'static str, Vec<ElementType>)>,
    /// The attributes whose number is an element type, with their defaults.
    type_attributes: Vec<(&'static str, Option<ElementType>)>,
}

/// An input or output, or as many as there are of a last one that may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FormalParameter {
    pub(crate) ty: ParameterType,
    occurs: Occurs,
}

/// What a schema says of an input's or output's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterType {
    /// Always this one; `None` for one that no Cast accepts.
    Fixed(Option<ElementType>),
    /// That of all parameters with this variable.
    Variable(&'static str),
}

/// How often a parameter occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occurs {
    Once,
    AtMostOnce,
    /// Any number of times, with one type.
    Repeated,
    /// Any number of times, each with a type of its own.
    RepeatedWithAnyTypes,
}

static SCHEMAS: LazyLock<HashMap<&str, Vec<Schema>>> = LazyLock::new(|| {
    let mut schemas: HashMap<&str, Vec<Schema>> = HashMap::new();
    for (operator, schema) in rows().filter_map(read) {
        schemas.entry(operator).or_default().push(schema);
    }
    schemas
});

/// An operator as it is in an opset: its newest version that is not newer. An operator that the
/// opset does not have yet is taken as it is in its first version, since tract runs it. `None` for
/// one that ONNX does not have.
pub(crate) fn schema(operator: &str, opset: i64) -> Option<&'static Schema> {
    let versions = versions(operator);
    versions.iter().rfind(|schema| schema.since <= opset).or(versions.first())
}

/// All versions of an operator, oldest first; none of one that ONNX does not have.
pub(crate) fn versions(operator: &str) -> &'static [Schema] {
    SCHEMAS.get(operator).map_or(&[], |versions| versions)
}

impl Schema {
    /// The input at a place; `None` where the operator has none there.
    pub(crate) fn input(&self, index: usize) -> Option<FormalParameter> {
        at(&self.inputs, index)
    }

    /// The places of the inputs that every node has.
    pub(crate) fn needed_inputs(&self) -> impl Iterator<Item = usize> {
        let is_needed = |(_, input): &(usize, &FormalParameter)| input.occurs == Occurs::Once;
        self.inputs.iter().enumerate().filter(is_needed).map(|(place, _)| place)
    }

    /// The attributes whose number is an element type.
    pub(crate) fn names_of_types(&self) -> Vec<&'static str> {
        self.type_attributes.iter().map(|(name, _)| *name).collect()
    }

    /// The output at a place; `None` where the operator has none there.
    pub(crate) fn output(&self, index: usize) -> Option<FormalParameter> {
        at(&self.outputs, index)
    }

    /// Whether a variable stands for types of tensors, those of sequences and optionals aside.
    pub(crate) fn is_tensor(&self, variable: &str) -> bool {
        !self.allowed(variable).is_empty()
    }

    /// Whether a type is none of tensors, whatever the node.
    pub(crate) fn is_sequence(&self, ty: ParameterType) -> bool {
        matches!(ty, ParameterType::Variable(name) if !self.is_tensor(name))
    }

    /// The variables that stand for types.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &'static str> {
        self.variables.iter().map(|(name, _)| *name)
    }

    /// Whether a parameter of this type takes elements of `ty`.
    pub(crate) fn allows(&self, parameter: ParameterType, ty: ElementType) -> bool {
        match parameter {
            ParameterType::Fixed(fixed) => fixed == Some(ty),
            ParameterType::Variable(variable) => self.allowed(variable).contains(&ty),
        }
    }

    /// The one type that a parameter can have, whatever the node.
    pub(crate) fn only_type(&self, parameter: ParameterType) -> Option<ElementType> {
        match parameter {
            ParameterType::Fixed(fixed) => fixed,
            ParameterType::Variable(variable) => match self.allowed(variable) {
                [only] => Some(*only),
                _ => None,
            },
        }
    }

    /// The default of an attribute that names a type.
    pub(crate) fn default_type(&self, attribute: &str) -> Option<ElementType> {
        let found = self.type_attributes.iter().find(|(name, _)| *name == attribute);
        found.and_then(|(_, default)| *default)
    }

    /// Whether the input at a place has the type of a variable.
    pub(crate) fn binds(&self, place: usize, variable: &str) -> bool {
        at(&self.inputs, place).is_some_and(|input| {
            matches!(input.ty, ParameterType::Variable(name) if name == variable)
                && input.occurs != Occurs::RepeatedWithAnyTypes
        })
    }

    /// The type that a node's inputs, where known, give to a variable.
    pub(crate) fn bound(
        &self,
        variable: &str,
        inputs: &[Option<ElementType>],
    ) -> Option<ElementType> {
        let binding = inputs.iter().enumerate().filter(|(place, _)| self.binds(*place, variable));
        binding.flat_map(|(_, ty)| *ty).next()
    }

    /// The element types of a variable; those of sequences and optionals are not among them.
    fn allowed(&self, variable: &str) -> &[ElementType] {
        let found = self.variables.iter().find(|(name, _)| *name == variable);
        found.map_or(&[], |(_, types)| types)
    }
}

impl FormalParameter {
    /// Whether a node may do without it.
    pub(crate) fn is_optional(&self) -> bool {
        self.occurs == Occurs::AtMostOnce
    }

    /// Whether each of the repeated ones has a type of its own.
    pub(crate) fn has_any_types(&self) -> bool {
        self.occurs == Occurs::RepeatedWithAnyTypes
    }
}

fn at(parameters: &[FormalParameter], index: usize) -> Option<FormalParameter> {
    let is_repeated = |last: &&FormalParameter| {
        matches!(last.occurs, Occurs::Repeated | Occurs::RepeatedWithAnyTypes)
    };
    parameters.get(index).or(parameters.last().filter(is_repeated)).copied()
}

fn rows() -> impl Iterator<Item = [&'static str; 7]> {
    rows_in_full(TABLE)
}

/// The rows of a table in full: what one does not say is that of the row above.
pub(super) fn rows_in_full<const N: usize>(
    table: &'static str,
) -> impl Iterator<Item = [&'static str; N]> {
    table.lines().scan([""; N], |columns, line| {
        for (column, own) in columns.iter_mut().zip(line.split('\t')) {
            if !own.is_empty() {
                *column = own;
            }
        }
        Some(*columns)
    })
}

/// Reads a row.
fn read(columns: [&'static str; 7]) -> Option<(&'static str, Schema)> {
    let [operator, since, _deprecated, inputs, outputs, variables, attributes] = columns;
    let variables = entries(variables).map(variable).collect::<Option<Vec<_>>>()?;
    let parameters = |column| {
        entries(column).map(|entry| parameter(entry, &variables)).collect::<Option<Vec<_>>>()
    };
    let schema = Schema {
        since: since.parse().ok()?,
        inputs: parameters(inputs)?,
        outputs: parameters(outputs)?,
        type_attributes: entries(attributes).map(type_attribute).collect::<Option<Vec<_>>>()?,
        variables,
    };
    Some((operator, schema))
}

/// The words of a column.
pub(super) fn entries(column: &'static str) -> impl Iterator<Item = &'static str> {
    column.split(' ').filter(|entry| !matches!(*entry, "" | "-"))
}

/// `T=FLOAT,DOUBLE`.
fn variable(entry: &'static str) -> Option<(&'static str, Vec<ElementType>)> {
    let (name, types) = entry.split_once('=')?;
    let is_tensor = |ty: &&str| !matches!(*ty, "" | "seq" | "optional");
    let types = types.split(',').filter(is_tensor).map(element_type);
    Some((name, types.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect()))
}

/// `T?` or `INT64`.
fn parameter(
    entry: &'static str,
    variables: &[(&'static str, Vec<ElementType>)],
) -> Option<FormalParameter> {
    let name = entry.trim_end_matches(['?', '*']);
    let occurs = match &entry[name.len()..] {
        "" => Occurs::Once,
        "?" => Occurs::AtMostOnce,
        "*" => Occurs::Repeated,
        "**" => Occurs::RepeatedWithAnyTypes,
        _ => return None,
    };
    let ty = if variables.iter().any(|(variable, _)| *variable == name) {
        ParameterType::Variable(name)
    } else {
        ParameterType::Fixed(element_type(name)?)
    };
    Some(FormalParameter { ty, occurs })
}

/// `to` or `dtype=FLOAT`.
fn type_attribute(entry: &'static str) -> Option<(&'static str, Option<ElementType>)> {
    match entry.split_once('=') {
        Some((name, default)) => Some((name, element_type(default)?)),
        None => Some((entry, None)),
    }
}

/// An element type by its name; the inner `None` for the complex types, which no Cast accepts.
fn element_type(name: &str) -> Option<Option<ElementType>> {
    match name {
        "COMPLEX64" | "COMPLEX128" => Some(None),
        name => ElementType::from_name(name).map(Some),
    }
}

#[cfg(test)]
mod tests;
