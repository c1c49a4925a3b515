//! Models written in another floating-point type, for any runtime: strongly typed, as ONNX's
//! schemas have it, with casts only where types meet.
//!
//! [`convert`] is a list of passes over the model's graph. Analyses come first: the types of all
//! values (`types`), the nodes that stay (`keep`), the places that have one type whatever it is
//! (`join`), and which of these are converted (`sides`). Two passes edit: `weights`, where weights
//! are to have few bits, and `rewrite`. Bodies of `If`, `Loop` and `Scan` and the functions of the
//! model are parts of the one graph.
//!
//! - `context`: what the passes share; `classes`: a union-find of places
//! - `attributes`: those that decide on types; `data`: weights; `sequences`: of tensors
//! - `opset`: raised; `write`: the file; `report`: what stays as it is

#![forbid(unsafe_code)]

mod attributes;
mod classes;
mod context;
mod data;
mod join;
mod keep;
mod opset;
mod report;
mod rewrite;
mod sequences;
mod sides;
#[cfg(test)]
mod tests;
mod types;
mod weights;
mod write;

use std::fs;
use std::io::{BufReader, Cursor, Write};
use std::path::Path;

use onnx_cast_graph::{Graph, Node, NodeView};
use prost::Message;
use tract_onnx::pb::ModelProto;

use context::Context;
pub use context::Counts;
use write::{MessageKind, Unknown};

use crate::cast::element_type::ElementType;
use crate::error::{Cause, Error, Result};
use crate::mend::{Change, MendedGraph, mend_graph};
use crate::onnx::limits::Limits;
use crate::onnx::operators::schema;
use crate::onnx::{beside, function_fields, light, sparse, wire};
use crate::passes::{error_of, import};
use crate::tensor::proto::TRANSPOSED;
use crate::typed::functions::Functions;

/// What a model is to be converted to, and what is to stay.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// What values become: FLOAT16, BFLOAT16, FLOAT or DOUBLE.
    pub to: ElementType,
    /// What is converted: without it FLOAT; to FLOAT, FLOAT16 and BFLOAT16. An empty list converts
    /// nothing, for [`Options::weights`] alone.
    pub from: Option<Vec<ElementType>>,
    /// The names of nodes to keep as they are; of one without a name, its first output's.
    pub keep: Vec<String>,
    /// Operators of which all nodes are to be kept.
    pub keep_ops: Vec<String>,
    /// Whether the inputs and outputs of the model are converted too.
    pub convert_io: bool,
    /// The opset that the model is raised to before, where its operators mean the same there.
    pub opset: Option<i64>,
    /// How the weights of products and convolutions are stored.
    pub weights: Option<WeightFormat>,
    /// How large the model may be.
    pub limits: Limits,
}

/// How weights are stored in few bits, which a `DequantizeLinear` makes numbers of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightFormat {
    /// INT8, INT4 or FLOAT8E4M3FN.
    pub ty: ElementType,
    /// How many elements in a row of what is summed over have one scale; without it all have, of
    /// one channel.
    pub block: Option<usize>,
}

impl WeightFormat {
    /// With a scale for each channel, or for each block.
    pub fn new(ty: ElementType, block: Option<usize>) -> WeightFormat {
        WeightFormat { ty, block }
    }
}

impl Options {
    /// A conversion of everything that can be.
    pub fn new(to: ElementType) -> Options {
        Options {
            to,
            from: None,
            keep: vec![],
            keep_ops: vec![],
            convert_io: false,
            opset: None,
            weights: None,
            limits: Limits::default(),
        }
    }

    /// The types that are converted.
    fn sources(&self) -> Vec<ElementType> {
        match (&self.from, self.to) {
            (Some(from), _) => from.clone(),
            (None, ElementType::Float) => vec![ElementType::Float16, ElementType::BFloat16],
            (None, _) => vec![ElementType::Float],
        }
    }

    /// Whether there is such a conversion.
    fn check(&self) -> Result<()> {
        let is_number = |ty: &ElementType| {
            use ElementType::{BFloat16, Double, Float, Float16};
            matches!(ty, Float | Float16 | BFloat16 | Double)
        };
        let sources = self.sources();
        let message = if !is_number(&self.to) {
            format!("nothing is converted to {}: FLOAT16, BFLOAT16, FLOAT or DOUBLE", self.to)
        } else if let Some(other) = sources.iter().find(|ty| !is_number(ty)) {
            format!("{other} is not converted: FLOAT16, BFLOAT16, FLOAT or DOUBLE")
        } else if sources.contains(&self.to) {
            format!("{} is converted to itself", self.to)
        } else {
            return Ok(());
        };
        Err(Cause::Argument { message }.into())
    }
}

/// A node that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptNode {
    /// Its name, or its first output where it has none.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// The path to the graph that it stands in.
    pub graph: String,
    /// Why.
    pub why: String,
}

impl KeptNode {
    fn of(node: &Node, why: String) -> KeptNode {
        let (op, graph) = (node.op_type.clone(), node.path.to_string());
        KeptNode { node: node.label().into(), op, graph, why }
    }
}

/// A model that was converted, to be written.
#[derive(Debug)]
pub struct Converted {
    file: write::File,
    /// The nodes that take or make values of a type that is converted, and stay as they are.
    pub kept: Vec<KeptNode>,
    /// What was converted.
    pub counts: Counts,
    /// What was mended before, where the model contradicted itself.
    pub mended: Vec<Change>,
}

impl Converted {
    /// Whether the data of some tensors is beside the model, and goes beside the converted one.
    pub fn has_external_data(&self) -> bool {
        self.file.has_external_data()
    }

    /// How many bytes the files have that hold data beside the original.
    pub fn external_bytes(&self) -> u64 {
        self.file.external_bytes()
    }

    /// Writes the model, and the data that goes beside it: where that is, relative to the model's
    /// folder, and the file. The data is read from beside the original and converted piece by
    /// piece.
    ///
    /// # Errors
    ///
    /// When something cannot be read or written, or there is data to go beside the model and no
    /// file for it.
    pub fn write(
        mut self,
        model: &mut dyn Write,
        data: Option<(&str, &mut dyn Write)>,
    ) -> Result<()> {
        match data {
            Some((location, out)) => self.file.write_data(location, out)?,
            None if self.has_external_data() => {
                let problem = "has data beside it, for which there is no file";
                return Err(Cause::Model { problem: problem.into() }.into());
            }
            None => {}
        }
        self.file.write(model)
    }
}

/// An edit or an analysis of the whole graph.
type ConversionPass = fn(&mut Graph, &mut Context) -> Result<()>;

/// The passes in their order, each with the reason for its place.
const PASSES: &[ConversionPass] = &[
    // On values of known types all that follows relies; `types` itself has run before, to see
    // whether the model is sound.
    keep::keep,
    // Of nodes that are not kept; they and what is kept decide on classes.
    weights::code,
    join::join,
    // With all classes known.
    sides::decide,
    // While nodes are the file's.
    report::report,
    // Last: what those before have decided is done.
    rewrite::rewrite,
];

/// Converts an ONNX file to another floating-point type.
///
/// Every value and weight of the types to be converted becomes one of [`Options::to`], save at
/// nodes that stay: those of the options, those whose operators do not take the type at the model's
/// opset, those with a weight that does not fit it, and those that compute shapes. Names, order,
/// metadata and what else the file holds stay; a model that contradicts itself is mended first.
///
/// `folder` is where the model's external data is.
///
/// ```
/// use tract_onnx_cast::ElementType;
/// use tract_onnx_cast::convert::{Options, convert};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/models/whole/int64_timestamps");
/// let file = std::fs::read(format!("{folder}/model.onnx"))?;
/// let options = Options::new(ElementType::Float16);
/// let converted = convert(&file, Some(folder.as_ref()), &options)?;
/// let mut bytes = vec![];
/// converted.write(&mut bytes, None)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When the file is no model, is beyond the limits, contradicts itself in a way that cannot be
/// mended, or its opset cannot cast to the type; when a node that is to be kept is not there; when
/// a weight cannot be read.
pub fn convert(file: &[u8], folder: Option<&Path>, options: &Options) -> Result<Converted> {
    converted(file, (folder, None), options)
}

/// As [`convert`], of a model's file, in whose folder its external data is. Large weights stay in
/// the file, from which they are read piece by piece when the converted model is written.
///
/// # Errors
///
/// As [`convert`], and when the file cannot be read.
pub fn convert_file(path: &Path, options: &Options) -> Result<Converted> {
    let unread = |error: std::io::Error| {
        Error::from(Cause::File { message: format!("{}: {error}", path.display()) })
    };
    let (folder, name) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
    check_file(path, &options.limits).map_err(unread)??;
    match light::read(path) {
        Some(file) => converted(&file, (folder, name), options),
        None => convert(&fs::read(path).map_err(unread)?, folder, options),
    }
}

/// Holds a file against the limits, before it is decoded.
fn check_file(path: &Path, limits: &Limits) -> std::io::Result<Result<()>> {
    // To open a pipe would wait for who writes it.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "is no file"));
    }
    wire::check(&mut BufReader::new(fs::File::open(path)?), metadata.len(), limits)
}

/// Of a file that has large weights in another file of this name, and is to have them itself.
fn converted(
    file: &[u8],
    (folder, own): (Option<&Path>, Option<&str>),
    options: &Options,
) -> Result<Converted> {
    options.check()?;
    let (mut graph, mut context) = read(file, folder, options)?;
    let mut mended = vec![];
    if !context.contradictions.is_empty() {
        let MendedGraph { changes, left, .. } = mend_graph(&mut graph, &context.functions);
        if let Some(left) = left.first() {
            let problem = format!("contradicts itself, and cannot be mended: {left}");
            return Err(Cause::Model { problem }.into());
        }
        types::infer(&mut graph, &mut context);
        mended = changes;
    }
    if let Some(first) = context.contradictions.first() {
        let problem = format!("contradicts itself: {first}");
        return Err(Cause::Model { problem }.into());
    }
    if !options.sources().is_empty() {
        check_opset(&graph, options.to)?;
    }
    for pass in PASSES {
        pass(&mut graph, &mut context)?;
        if cfg!(debug_assertions)
            && let Err(fault) = graph.verify()
        {
            let problem = format!("is no graph any more: {fault}");
            return Err(Cause::Model { problem }.into());
        }
    }
    let casts = context.nodes(&graph).into_iter().filter(|id| graph.node(*id).op_type == "Cast");
    context.counts.casts = casts.count();
    let mut unknown = Unknown::of(MessageKind::Model, file)?;
    unknown.retype_sequences(MessageKind::Model, &context.retyped_sequences(&graph), options.to)?;
    let function_values = context.functions.export(&mut graph);
    let Context { report, counts, renamed, codes, .. } = context;
    let opset = graph.opset;
    let mut model = graph.export(|_, _| {});
    if options.opset.is_some() || counts.coded > 0 {
        opset::import(&mut model, opset);
    }
    let file = write::File {
        model,
        function_values,
        codes,
        unknown,
        renamed,
        folder: folder.map(Path::to_owned),
        own: own.map(str::to_owned),
    };
    Ok(Converted { file, kept: report, counts, mended })
}

/// Whether the model's opset casts to a type at all, as `Cast` is since opset 6.
fn check_opset(graph: &Graph, to: ElementType) -> Result<()> {
    let casts = |schema: &&schema::Schema| {
        schema.since >= 6 && schema.output(0).is_some_and(|output| schema.allows(output.ty, to))
    };
    let since = schema::versions("Cast").iter().find(casts).map_or(i64::MAX, |found| found.since);
    check_since(graph.opset, since, &format!("casts to {to}"))
}

/// Refuses an opset before the one since which there is something.
fn check_since(opset: i64, since: i64, what: &str) -> Result<()> {
    if opset >= since {
        return Ok(());
    }
    let there = format!("{what} are there since opset {since}");
    let problem = format!("imports opset {opset}, and {there}: `--opset {since}` raises it");
    Err(Cause::Model { problem }.into())
}

/// The graph of a file, functions included, with the types of its values.
fn read<'o>(
    file: &[u8],
    folder: Option<&'o Path>,
    options: &'o Options,
) -> Result<(Graph, Context<'o>)> {
    let unread = |error: std::io::Error| Error::from(Cause::File { message: error.to_string() });
    wire::check(&mut Cursor::new(file), file.len() as u64, &options.limits).map_err(unread)??;
    let broken = |error: prost::DecodeError| -> Error {
        Cause::Model { problem: format!("is no sound protobuf message: {error}") }.into()
    };
    let mut proto = ModelProto::decode(file).map_err(broken)?;
    if !proto.functions.is_empty() {
        function_fields::restore(&mut proto, file).map_err(Error::of)?;
    }
    let limits = options.limits.check(&proto, folder)?;
    if let Some(missing) = folder.and_then(|folder| beside::missing(&proto, folder).next()) {
        return Err(missing);
    }
    sparse::densify(&mut proto, &limits)?;
    let (mut graph, misnamed) = import(proto)?;
    if let Some(first) = misnamed.into_iter().next() {
        return Err(error_of(first));
    }
    let (functions, misnamed) = Functions::import(&mut graph);
    if let Some(first) = misnamed.into_iter().next() {
        return Err(error_of(first));
    }
    let mut context = Context::new(functions, options, folder);
    check_keys(&graph, &context)?;
    if let Some(to) = options.opset {
        types::infer(&mut graph, &mut context);
        opset::raise(&mut graph, &context, to)?;
    }
    types::infer(&mut graph, &mut context);
    Ok((graph, context))
}

/// Refuses a tensor that says of its external data what only this crate says, until it is written.
fn check_keys(graph: &Graph, context: &Context) -> Result<()> {
    let bodies = context.bodies(graph);
    let constants = bodies.iter().flat_map(|body| graph.body(*body).constants());
    let constants = constants.filter_map(|value| graph.constant(*value).map(|tensor| &**tensor));
    let nodes = context.nodes(graph);
    let attributes = nodes.iter().flat_map(|id| &graph.node(*id).attributes);
    let held = attributes.flat_map(|attribute| attribute.t.iter().chain(&attribute.tensors));
    for tensor in constants.chain(held) {
        let own = [data::STORED_AS, TRANSPOSED];
        if let Some(entry) = tensor.external_data.iter().find(|held| own.contains(&&*held.key)) {
            let problem = format!("external data has `{}`, this crate's own", entry.key);
            return Err(Cause::Tensor { tensor: tensor.name.clone(), problem }.into());
        }
    }
    Ok(())
}
