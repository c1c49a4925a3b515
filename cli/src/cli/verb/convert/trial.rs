//! The conversion that is written, as the search for nodes to keep tries it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Context;
use onnx_cast_graph::{NodeView, all_graphs, has_bodies, subgraphs};
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::TractResult;
use tract_onnx_cast::convert::{Converted, Options, convert_file};
use tract_onnx_cast::{ElementType, model_proto};

use crate::cli::verb::keep::trial::Trial;

/// A model that is to be converted.
pub(super) struct Written<'a> {
    model: &'a Path,
    options: &'a Options,
    /// Those of bodies and functions among them, without attributes.
    nodes: Vec<NodeProto>,
    /// What bodies and functions make, of types that no run tells.
    inner: HashSet<String>,
    /// The nodes that hold bodies, which stay whole with them.
    whole: HashSet<String>,
    types: HashMap<String, ElementType>,
    /// The nodes that stay whatever is kept besides.
    kept: HashSet<String>,
    /// Where external data is written to.
    scratch: &'a Path,
}

impl<'a> Written<'a> {
    /// A model of which is known what types its values have. Fails when it cannot be converted.
    pub(super) fn new(
        model: &'a Path,
        options: &'a Options,
        proto: &ModelProto,
        types: HashMap<String, ElementType>,
        scratch: &'a Path,
    ) -> TractResult<Written<'a>> {
        let graph = proto.graph.as_ref().context("the model holds no graph")?;
        let outer = graph.node.iter().chain(proto.functions.iter().flat_map(|own| &own.node));
        let bodies = outer.clone().flat_map(|node| &node.attribute).flat_map(subgraphs);
        let held = bodies.flat_map(all_graphs).flat_map(|body| &body.node);
        let nodes: Vec<NodeProto> = outer.chain(held).map(bare).collect();
        let made: HashSet<&String> = graph.node.iter().flat_map(|node| &node.output).collect();
        let all = nodes.iter().flat_map(|node| &node.output);
        let inner = all.filter(|value| !made.contains(value)).cloned().collect();
        let holders = graph.node.iter().filter(|node| has_bodies(node));
        let whole = holders.map(|node| node.label().to_owned()).collect();
        let kept = convert_file(model, options)?.kept.into_iter().map(|kept| kept.node);
        let kept = kept.collect();
        Ok(Written { model, options, nodes, inner, whole, types, kept, scratch })
    }

    /// The options that keep these nodes besides.
    fn keeping(&self, kept: &BTreeSet<usize>) -> Options {
        let mut options = self.options.clone();
        let named = kept.iter().filter_map(|place| self.nodes.get(*place));
        options.keep.extend(named.map(|node| node.name.clone()));
        options
    }
}

impl Trial for Written<'_> {
    fn nodes(&self) -> &[NodeProto] {
        &self.nodes
    }

    fn is_float(&self, value: &str) -> bool {
        self.types.get(value) == Some(&ElementType::Float) || self.inner.contains(value)
    }

    fn is_never_converted(&self, node: &NodeProto) -> bool {
        self.kept.contains(&node.name)
    }

    /// What a body holds is tried before the whole of it.
    fn suspicion(&self, node: &NodeProto) -> Option<(f64, &str)> {
        self.whole.contains(&node.name).then_some((f64::NEG_INFINITY, ""))
    }

    fn converted(&self, kept: &BTreeSet<usize>) -> TractResult<(ModelProto, Option<PathBuf>)> {
        let converted = convert_file(self.model, &self.keeping(kept))?;
        let path = self.scratch.join("trial.onnx");
        let mut model = BufWriter::new(File::create(&path)?);
        write(converted, &mut model, self.scratch, "trial.onnx.data")?;
        drop(model);
        let proto = model_proto::light(&tract_onnx_cast::onnx(), &path)?;
        Ok((proto, Some(self.scratch.into())))
    }
}

/// A node without attributes, by the name that the conversion knows.
fn bare(node: &NodeProto) -> NodeProto {
    NodeProto {
        name: node.label().to_owned(),
        op_type: node.op_type.clone(),
        input: node.input.clone(),
        output: node.output.clone(),
        ..NodeProto::default()
    }
}

/// Writes a converted model, and its external data into a folder under a name. Returns whether it
/// has any. Fails when something cannot be written.
pub(super) fn write(
    converted: Converted,
    model: &mut dyn std::io::Write,
    folder: &Path,
    location: &str,
) -> TractResult<bool> {
    if !converted.has_external_data() {
        converted.write(model, None)?;
        return Ok(false);
    }
    let path = folder.join(location);
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    converted.write(model, Some((location, &mut BufWriter::new(file))))?;
    Ok(true)
}
