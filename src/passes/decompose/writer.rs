//! One node, written out as its composition says.

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::{
    Node, NodeView, attribute, float_attribute, int_attribute, named_value, value_attribute,
};
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto, TensorProto};

use super::read::{Composition, Guard, OutputType, Statement};
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::node::{attribute_type, refusal};
use crate::onnx::operators::attributes::{Version, is_value, parsed, version};

/// The most members of a list that an attribute counts.
const MOST_PLACES: i64 = 1 << 16;

/// A node that is written out.
pub(super) struct Call<'a> {
    pub(super) node: &'a Node,
    pub(super) given: &'a dyn Fn(usize) -> KnownInput,
}

/// What is known of an input.
pub(super) struct KnownInput {
    pub(super) ty: Option<ElementType>,
    pub(super) dims: Option<Vec<Option<i64>>>,
}

/// The body that takes a node's place, and its casts, which are none of the model's, by name: what
/// they cast from, where that is known, and to.
pub(super) struct WrittenBody {
    pub(super) body: GraphProto,
    pub(super) casts: HashMap<String, (Option<ElementType>, ElementType)>,
}

/// Whether a composition stands for a node.
pub(super) fn is_meant(call: &Call, composition: &Composition) -> bool {
    let writer = CompositionWriter::new(call, composition);
    let holds = |(guard, wanted): &(Guard, bool)| writer.holds(guard).is_ok_and(|is| is == *wanted);
    composition.when.is_empty() || composition.when.iter().any(holds)
}

/// Writes a node out. Fails when the composition refuses what the node asks for, or depends on a
/// type or rank that nobody has told.
pub(super) fn write(call: &Call, composition: &Composition) -> Result<WrittenBody, Error> {
    let mut writer = CompositionWriter::new(call, composition);
    for (place, name) in composition.inputs.iter().enumerate() {
        let is_given = call.node.gives(place);
        writer.names.insert(name, if is_given { (*name).into() } else { String::new() });
        let ty = (call.given)(place).ty;
        if let Some(half) = ty.filter(|ty| is_given && composition.is_wide && ty.is_half()) {
            let wide = writer.cast(name, Some(half), ElementType::Float);
            writer.names.insert(name, wide);
        }
    }
    for statement in &composition.statements {
        writer.statement(statement)?;
    }
    let mut output = vec![];
    for (place, (name, typed)) in composition.outputs.iter().enumerate() {
        let bound = writer.names.get(name).cloned();
        let bound = match bound {
            Some(bound) => bound,
            None if call.node.makes(place) => {
                return Err(writer.refuse(format!("has an output {place}, which is not computed")));
            }
            None => String::new(),
        };
        output.push(match (typed, writer.ty()) {
            (OutputType::AsInput(at), Some(ty)) if *at == composition.by && writer.is_widened() => {
                writer.cast(&bound, Some(ElementType::Float), ty)
            }
            _ => bound,
        });
    }
    // The names of outputs that nobody wants are of no effect, and have to be there.
    let wanted: Vec<usize> = (0..output.len()).filter(|at| call.node.makes(*at)).collect();
    let first = wanted.first().and_then(|at| output.get(*at)).cloned().unwrap_or_default();
    for (_, name) in output.iter_mut().enumerate().filter(|(at, _)| !wanted.contains(at)) {
        name.clone_from(&first);
    }
    writer.drop_unused(&output);
    let body = GraphProto {
        name: call.node.op_type.clone(),
        node: writer.nodes,
        input: composition.inputs.iter().map(|name| named_value(*name)).collect(),
        output: output.iter().map(named_value).collect(),
        ..GraphProto::default()
    };
    Ok(WrittenBody { body, casts: writer.casts })
}

struct CompositionWriter<'a> {
    call: &'a Call<'a>,
    composition: &'a Composition,
    version: Option<&'static Version>,
    /// What a name of the composition stands for so far; empty for an input that is not given.
    names: HashMap<&'static str, String>,
    nodes: Vec<NodeProto>,
    casts: HashMap<String, (Option<ElementType>, ElementType)>,
}

impl<'a> CompositionWriter<'a> {
    fn new(call: &'a Call, composition: &'a Composition) -> CompositionWriter<'a> {
        let node = call.node;
        CompositionWriter {
            call,
            composition,
            version: version(composition.domain, &node.op_type, node.opset),
            names: HashMap::new(),
            nodes: vec![],
            casts: HashMap::new(),
        }
    }

    fn refuse(&self, problem: impl Into<String>) -> Error {
        refusal(self.call.node, problem)
    }

    /// The error about what may be known when the model runs.
    fn unknown(&self, what: &str) -> Error {
        self.refuse(format!("has {what}")).of_sound_model()
    }

    /// The type of the input that decides.
    fn ty(&self) -> Option<ElementType> {
        (self.call.given)(self.composition.by).ty
    }

    fn is_widened(&self) -> bool {
        self.composition.is_wide && self.ty().is_some_and(ElementType::is_half)
    }

    fn place(&self, input: &str) -> Option<usize> {
        self.composition.inputs.iter().position(|name| *name == input)
    }

    /// An attribute of the node, or its default; a number of a list: `params.1`.
    fn attribute(&self, name: &str) -> Option<AttributeProto> {
        if let Some((list, place)) = name.split_once('.') {
            let list = self.attribute(list)?.floats;
            return Some(float_attribute(name, *list.get(place.parse::<usize>().ok()?)?));
        }
        let own = attribute(self.call.node, name).cloned();
        own.or_else(|| parsed(self.version?.attribute(name)?))
    }

    /// The sizes of an input, where its shape is known.
    fn dims(&self, input: &str) -> Option<Vec<Option<i64>>> {
        (self.call.given)(self.place(input)?).dims
    }

    /// A size of an input: `x.1`.
    fn size(&self, name: &str) -> Result<i64, Error> {
        let size = name.split_once('.').and_then(|(input, axis)| {
            let dims = (self.call.given)(self.place(input)?).dims?;
            dims.get(axis.parse::<usize>().ok()?).copied().flatten()
        });
        size.ok_or_else(|| self.unknown(&format!("an input of unknown size `{name}`")))
    }

    /// A size of an input, a number of a list of the node's or its length, where it is known.
    fn length(&self, name: &str) -> Option<i64> {
        if let Some((list, place)) = name.split_once('.') {
            let list = attribute(self.call.node, list);
            let number = list.and_then(|list| list.ints.get(place.parse::<usize>().ok()?));
            return number.copied().or_else(|| self.size(name).ok());
        }
        let list = attribute(self.call.node, name)?;
        i64::try_from(list.floats.len().max(list.ints.len()).max(list.strings.len())).ok()
    }

    fn holds(&self, guard: &Guard) -> Result<bool, Error> {
        let node = self.call.node;
        Ok(match *guard {
            Guard::There(name) => {
                let output = self.composition.outputs.iter().position(|(own, _)| *own == name);
                match (self.place(name), output) {
                    (Some(place), _) => node.gives(place),
                    (_, Some(place)) => node.makes(place),
                    _ => attribute(node, name).is_some(),
                }
            }
            Guard::Attribute(name, value) => {
                self.attribute(name).is_some_and(|given| is_value(&given, value))
            }
            Guard::Rank { input, .. } if !self.place(input).is_some_and(|at| node.gives(at)) => {
                false
            }
            Guard::Rank { input, rank, is_checked } => {
                match (self.place(input).and_then(|at| (self.call.given)(at).dims), is_checked) {
                    (Some(dims), _) => dims.len() == rank,
                    (None, false) => false,
                    (None, true) => {
                        return Err(self.unknown(&format!("an input `{input}` of unknown rank")));
                    }
                }
            }
            Guard::Size(name, size) => {
                self.length(name).map_or_else(|| self.size(name), Ok)? == size
            }
            Guard::Differ(one, other) => match (self.dims(one), self.dims(other)) {
                (Some(one), Some(other)) => {
                    let is_known = |size: &Option<i64>| size.is_some();
                    let mut pairs = one.iter().zip(&other);
                    one.len() != other.len()
                        || pairs.any(|(a, b)| is_known(a) && is_known(b) && a != b)
                }
                _ => {
                    let lengths = self.length(one).zip(self.length(other));
                    lengths.is_some_and(|(one, other)| one != other)
                }
            },
            Guard::Before(opset) => node.opset < opset,
        })
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        for (guard, wanted) in &statement.guards {
            if self.holds(guard)? != *wanted {
                return Ok(());
            }
        }
        if statement.operator == "refuse" {
            let (reason, opset) = (statement.inputs.join(", "), self.call.node.opset);
            return Err(self.refuse(format!("{reason}, the model imports {opset}")));
        }
        let mut input = vec![];
        for operand in &statement.inputs {
            input.push(self.operand(operand)?);
        }
        if let ("", [given]) = (statement.operator, &input[..]) {
            for name in &statement.made {
                self.names.insert(name, given.clone());
            }
            return Ok(());
        }
        let mut attributes = vec![];
        for (name, text) in &statement.attributes {
            attributes.extend(self.value(name, text)?);
        }
        let made: Vec<String> = statement.made.iter().map(|name| self.new_name(name)).collect();
        let (domain, op_type) =
            statement.operator.rsplit_once("::").unwrap_or(("", statement.operator));
        let (op_type, domain) = (op_type.into(), domain.into());
        let name = made.first().cloned().unwrap_or_default();
        let to = attributes.iter().find(|attribute| attribute.name == "to");
        let to = to.and_then(|to| ElementType::from_id(i32::try_from(to.i).ok()?));
        if let (Some(to), "Cast") = (to, statement.operator) {
            self.casts.insert(name.clone(), (None, to));
        }
        self.names.extend(statement.made.iter().copied().zip(made.iter().cloned()));
        self.nodes.push(NodeProto {
            op_type,
            domain,
            name,
            input,
            output: made,
            attribute: attributes,
            ..NodeProto::default()
        });
        Ok(())
    }

    fn new_name(&self, wanted: &str) -> String {
        format!("{wanted}.{}", self.nodes.len())
    }

    fn cast(&mut self, value: &str, from: Option<ElementType>, to: ElementType) -> String {
        let attribute = vec![int_attribute("to", to as i64)];
        let made = self.add("Cast", vec![value.into()], attribute);
        self.casts.insert(made.clone(), (from, to));
        made
    }

    fn add(&mut self, op: &str, input: Vec<String>, attribute: Vec<AttributeProto>) -> String {
        let made = self.new_name(op);
        let (op_type, name, output) = (op.into(), made.clone(), vec![made.clone()]);
        self.nodes.push(NodeProto {
            op_type,
            name,
            input,
            output,
            attribute,
            ..Default::default()
        });
        made
    }

    fn constant(&mut self, tensor: TensorProto) -> String {
        self.add("Constant", vec![], vec![value_attribute(tensor)])
    }

    fn integers(&mut self, dims: Vec<i64>, int64_data: Vec<i64>) -> String {
        let data_type = ElementType::Int64 as i32;
        self.constant(TensorProto { data_type, dims, int64_data, ..Default::default() })
    }

    /// A number of the type that decides, or of FLOAT.
    fn float(&mut self, number: f32, is_float: bool) -> Result<String, Error> {
        let (data_type, float_data) = (ElementType::Float as i32, vec![number]);
        let made = self.constant(TensorProto { data_type, float_data, ..Default::default() });
        match self.ty() {
            _ if is_float || self.is_widened() => Ok(made),
            Some(ElementType::Float) => Ok(made),
            Some(ty) => Ok(self.cast(&made, None, ty)),
            None => Err(self.unknown("data of unknown type")),
        }
    }

    /// An input of a part: a name, a number, a list, or an attribute's value.
    fn operand(&mut self, text: &'static str) -> Result<String, Error> {
        if let Some(known) = self.names.get(text) {
            return Ok(known.clone());
        }
        if text == "_" {
            return Ok(String::new());
        }
        if text == "''" {
            let data_type = ElementType::String as i32;
            let empty = TensorProto { data_type, string_data: vec![vec![]], ..Default::default() };
            return Ok(self.constant(empty));
        }
        if let Some(list) = text.strip_prefix('[') {
            let numbers = self.members(list)?;
            return Ok(self.integers(vec![numbers.len() as i64], numbers));
        }
        if let Some(name) = text.strip_prefix('@') {
            let own = name.trim_end_matches('!');
            let value = self.attribute(own);
            let value = value.ok_or_else(|| self.refuse(format!("lacks attribute `{own}`")))?;
            return match attribute_type(&value) {
                AttributeType::Int => Ok(self.integers(vec![], vec![value.i])),
                AttributeType::Ints => Ok(self.integers(vec![value.ints.len() as i64], value.ints)),
                AttributeType::Floats => Ok(self.constant(TensorProto {
                    data_type: ElementType::Float as i32,
                    dims: vec![value.floats.len() as i64],
                    float_data: value.floats,
                    ..TensorProto::default()
                })),
                _ => self.float(value.f, name.ends_with('!')),
            };
        }
        let float = text.strip_suffix('f').filter(|_| text != "-inf");
        match (text.parse(), float.unwrap_or(text).parse()) {
            (Ok(integer), _) => Ok(self.integers(vec![], vec![integer])),
            (_, Ok(number)) => self.float(number, float.is_some()),
            _ => Err(self.refuse(format!("has no `{text}` in its composition"))),
        }
    }

    /// The members of a list, behind its bracket.
    fn members(&self, list: &str) -> Result<Vec<i64>, Error> {
        let list = list.trim_end_matches(']');
        if let Some(name) = list.strip_prefix("..@") {
            let count = self.integer(&format!("@{name}"))?;
            if !(0..=MOST_PLACES).contains(&count) {
                let opset = self.call.node.opset;
                let problem = format!("has `{name}` {count}, where it takes 1 to {MOST_PLACES}");
                return Err(self.refuse(format!("{problem}, the model imports {opset}")));
            }
            return Ok((0..count + 2).collect());
        }
        if let Some(name) = list.strip_prefix("..") {
            return Ok((0..self.length(name).unwrap_or(0)).collect());
        }
        let members = list.split(',').map(str::trim).filter(|member| !member.is_empty());
        members.map(|member| self.integer(member)).collect()
    }

    fn integer(&self, member: &str) -> Result<i64, Error> {
        if let Some(size) = member.strip_prefix('#') {
            return self.size(size);
        }
        let of_attribute = member.strip_prefix('@').map(|name| self.attribute(name));
        let number = match of_attribute {
            Some(value) => value.map(|value| value.i),
            None => member.parse().ok(),
        };
        number.ok_or_else(|| self.refuse(format!("lacks attribute `{}`", member.replace('@', ""))))
    }

    /// An attribute of a part; `None` for one of the node's that it does not have, or that is 0
    /// where that means the same.
    fn value(&self, name: &str, text: &str) -> Result<Option<AttributeProto>, Error> {
        let made = |r#type: AttributeType| AttributeProto {
            name: name.into(),
            r#type: r#type as i32,
            ..AttributeProto::default()
        };
        if let Some(own) = text.strip_prefix('@') {
            let value = self.attribute(own.trim_end_matches('!'));
            let value = value.filter(|value| !own.ends_with('!') || (value.i, value.f) != (0, 0.0));
            return Ok(value.map(|value| AttributeProto { name: name.into(), ..value }));
        }
        if let Some(list) = text.strip_prefix('[') {
            let ints = self.members(list)?;
            return Ok(Some(AttributeProto { ints, ..made(AttributeType::Ints) }));
        }
        let ty = match text {
            "T" if self.is_widened() => Some(ElementType::Float),
            "T" => Some(self.ty().ok_or_else(|| self.unknown("data of unknown type"))?),
            _ => ElementType::from_name(text),
        };
        if let Some(ty) = ty {
            return Ok(Some(int_attribute(name, ty as i64)));
        }
        Ok(Some(match (self.integer(text), text.parse()) {
            (Ok(i), _) => AttributeProto { i, ..made(AttributeType::Int) },
            (_, Ok(f)) => AttributeProto { f, ..made(AttributeType::Float) },
            _ => AttributeProto { s: text.into(), ..made(AttributeType::String) },
        }))
    }

    /// Drops the parts whose results nobody wants.
    fn drop_unused(&mut self, outputs: &[String]) {
        let mut wanted: HashSet<String> = outputs.iter().cloned().collect();
        let mut kept = vec![];
        for mut node in std::mem::take(&mut self.nodes).into_iter().rev() {
            if node.output.iter().any(|output| wanted.contains(output)) {
                wanted.extend(node.input.iter().cloned());
                while node.output.last().is_some_and(|output| !wanted.contains(output)) {
                    node.output.pop();
                }
                kept.push(node);
            }
        }
        kept.reverse();
        self.nodes = kept;
    }
}
