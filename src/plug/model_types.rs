//! What a model remembers of its inputs' and outputs' element types.

use std::fmt::{Debug, Display};

use anyhow::{Context, bail};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::{Fact, Op, OutletId};

use crate::cast::element_type::ElementType;
use crate::onnx::rewrite::Rewritten;

/// The ONNX element types of a model's inputs, in their order.
///
/// They are remembered through typing and optimisation. For a model that was not loaded by
/// [`CastOnnx`](crate::CastOnnx) they are what tract's types say.
///
/// # Errors
///
/// When an input's tract type is not known yet, or is none of ONNX's.
pub fn input_element_types<F, O>(model: &Graph<F, O>) -> TractResult<Vec<ElementType>>
where
    F: Fact + Clone + 'static,
    O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    element_types(model, &model.inputs, INPUT_TYPES)
}

/// The ONNX element types of a model's outputs, in their order; see [`input_element_types`].
///
/// # Errors
///
/// When an output's tract type is not known yet, or is none of ONNX's.
pub fn output_element_types<F, O>(model: &Graph<F, O>) -> TractResult<Vec<ElementType>>
where
    F: Fact + Clone + 'static,
    O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    element_types(model, &model.outputs, OUTPUT_TYPES)
}

const INPUT_TYPES: &str = "onnx_cast.inputs";
const OUTPUT_TYPES: &str = "onnx_cast.outputs";

/// Keeps the known types of inputs and outputs among the model's properties, as texts `BFLOAT16 name`.
pub(super) fn record_types(model: &mut InferenceModel, rewritten: &Rewritten) {
    let inputs = rewritten.inputs.iter().map(|(name, ty)| (name, Some(*ty)));
    let outputs = rewritten.output_names.iter().zip(rewritten.outputs.iter().copied());
    let mut record = |key: &str, entries: Vec<String>| {
        if !entries.is_empty() {
            model.properties.insert(key.into(), tensor1(&entries).into_arc_tensor());
        }
    };
    let entry = |(name, ty): (&String, Option<ElementType>)| ty.map(|ty| format!("{ty} {name}"));
    record(INPUT_TYPES, inputs.filter_map(entry).collect());
    record(OUTPUT_TYPES, outputs.filter_map(entry).collect());
}

fn element_types<F, O>(
    model: &Graph<F, O>,
    outlets: &[OutletId],
    key: &str,
) -> TractResult<Vec<ElementType>>
where
    F: Fact + Clone + 'static,
    O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    let entries: &[String] = match model.properties.get(key) {
        Some(entries) => entries.try_as_plain_ram()?.as_slice()?,
        None => &[],
    };
    let recorded = |name: &str| {
        let mut entries = entries.iter().filter_map(|entry| entry.split_once(' '));
        entries.find(|(_, of)| *of == name).and_then(|(ty, _)| ElementType::from_name(ty))
    };
    let type_of = |outlet: &OutletId| {
        let node =
            model.nodes.get(outlet.node).context("the model names a node it does not have")?;
        // An input's label is an output's name where a no-op in between has gone.
        let label = model.outlet_labels.get(outlet).filter(|_| key == OUTPUT_TYPES);
        let name = label.unwrap_or(&node.name);
        let recorded = recorded(name);
        let fact = node.outputs.get(outlet.slot).map(|output| output.fact.datum_type());
        // Of a native type tract has the last word, once it has analysed the model.
        match (recorded, fact.flatten()) {
            (Some(ty), _) if ty.is_exotic() => Ok(ty),
            (_, Some(datum_type)) => ElementType::native(datum_type).with_context(|| {
                format!("`{name}`: tract's {datum_type:?} is no ONNX element type")
            }),
            (Some(ty), None) => Ok(ty),
            (None, None) => bail!("the type of `{name}` is not known yet"),
        }
    };
    outlets.iter().map(type_of).collect()
}
