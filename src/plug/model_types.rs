//! What a model remembers of its inputs' and outputs' element types, and of symbols that are
//! numbers.

use std::collections::HashMap;
use std::fmt::{Debug, Display};

use anyhow::{Context, bail};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::{Fact, Op, OutletId};

use crate::cast::element_type::ElementType;
use crate::error::{Error, Result};
use crate::passes::LoweredModel;

/// The ONNX element types of a model's inputs, in their order.
///
/// They are remembered through typing and optimisation. For a model that was not loaded by
/// [`CastOnnx`](crate::CastOnnx) they are what tract's types say.
///
/// # Errors
///
/// When an input's tract type is not known yet, or is none of ONNX's.
pub fn input_element_types<F, O>(model: &Graph<F, O>) -> Result<Vec<ElementType>>
where
    F: Fact + Clone + 'static,
    O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    element_types(model, &model.inputs, INPUT_TYPES).map_err(Error::of_argument)
}

/// The ONNX element types of a model's outputs, in their order; see [`input_element_types`].
///
/// They are remembered by place, so ask before you select as many other outputs.
///
/// # Errors
///
/// When an output's tract type is not known yet, or is none of ONNX's.
pub fn output_element_types<F, O>(model: &Graph<F, O>) -> Result<Vec<ElementType>>
where
    F: Fact + Clone + 'static,
    O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    element_types(model, &model.outputs, OUTPUT_TYPES).map_err(Error::of_argument)
}

/// The symbols by which a model's file declares sizes, and that are numbers in the model, with
/// these: the weights leave none but one, as the channels of a convolution.
pub fn sizes_of_weights<F, O>(model: &Graph<F, O>) -> Vec<(String, usize)>
where
    F: Fact + Clone + 'static,
    O: Debug + Display + AsRef<dyn Op> + AsMut<dyn Op> + Clone + 'static,
{
    let recorded = model.properties.get(SIZES).and_then(|sizes| sizes.try_as_plain_ram().ok());
    let entries: &[String] =
        recorded.as_ref().and_then(|sizes| sizes.as_slice().ok()).unwrap_or_default();
    let size = |entry: &String| {
        let (size, symbol) = entry.split_once(' ')?;
        Some((symbol.to_owned(), size.parse().ok()?))
    };
    entries.iter().filter_map(size).collect()
}

/// Keeps these symbols and their sizes among the model's properties, as texts `3 channels`.
pub(crate) fn record_sizes(model: &mut InferenceModel, sizes: &[(String, i64)]) {
    let entries: Vec<String> =
        sizes.iter().map(|(symbol, size)| format!("{size} {symbol}")).collect();
    if !entries.is_empty() {
        model.properties.insert(SIZES.into(), tensor1(&entries).into_arc_tensor());
    }
}

const SIZES: &str = "onnx_cast.sizes";
const INPUT_TYPES: &str = "onnx_cast.inputs";
const OUTPUT_TYPES: &str = "onnx_cast.outputs";

/// The type of an output that is known no better than tract knows it.
const UNKNOWN: &str = "?";

/// Keeps the types of inputs and outputs among the model's properties, as texts `BFLOAT16 name`,
/// each of an output in its place.
pub(super) fn record_types(model: &mut InferenceModel, lowered: &LoweredModel) {
    let entry = |name: &String, ty: Option<ElementType>| {
        format!("{} {name}", ty.map_or(UNKNOWN, ElementType::name))
    };
    let inputs = lowered.inputs.iter().map(|(name, ty)| entry(name, Some(*ty))).collect();
    let outputs = lowered.outputs.iter().map(|(name, ty)| entry(name, *ty)).collect();
    let mut record = |key: &str, entries: Vec<String>| {
        if !entries.is_empty() {
            model.properties.insert(key.into(), tensor1(&entries).into_arc_tensor());
        }
    };
    record(INPUT_TYPES, inputs);
    record(OUTPUT_TYPES, outputs);
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
    let texts: &[String] = match model.properties.get(key) {
        Some(entries) => entries.try_as_plain_ram()?.as_slice()?,
        None => &[],
    };
    let parts = texts.iter().filter_map(|text| text.split_once(' '));
    let entries: Vec<(Option<ElementType>, &str)> =
        parts.map(|(ty, name)| (ElementType::from_name(ty), name)).collect();
    let mut by_name = HashMap::new();
    for (ty, name) in &entries {
        by_name.entry(*name).or_insert(*ty);
    }
    let mut uses: HashMap<&OutletId, usize> = HashMap::new();
    for outlet in outlets {
        *uses.entry(outlet).or_default() += 1;
    }
    let type_of = |(place, outlet): (usize, &OutletId)| {
        let node =
            model.nodes.get(outlet.node).context("the model names a node it does not have")?;
        // An input's label is an output's name where a no-op in between has gone.
        let label = model.outlet_labels.get(outlet).filter(|_| key == OUTPUT_TYPES);
        let name = label.unwrap_or(&node.name);
        let is_shared = uses.get(outlet).is_some_and(|uses| *uses > 1);
        let recorded = match key {
            OUTPUT_TYPES if entries.len() == outlets.len() => {
                // There are as many outputs as at first. tract may give several one value, or give
                // one a value that is equal and has another name, so the place tells; but one that
                // alone has the label of an output has been moved there.
                let own_label = label.filter(|_| !is_shared);
                let own_type = own_label.and_then(|label| by_name.get(&**label).copied());
                own_type.or_else(|| entries.get(place).map(|(ty, _)| *ty))
            }
            _ => by_name.get(&**name).copied(),
        };
        let fact = node.outputs.get(outlet.slot).and_then(|output| output.fact.datum_type());
        match (recorded.flatten(), fact) {
            // Of a native type tract has the last word, once it has analysed the model.
            (Some(ty), Some(datum_type)) if ty.is_exotic() && ty.datum_type() == datum_type => {
                Ok(ty)
            }
            (_, Some(datum_type)) => ElementType::native(datum_type).with_context(|| {
                format!("`{name}`: tract's {datum_type:?} is no ONNX element type")
            }),
            (Some(ty), None) => Ok(ty),
            (None, None) => bail!("the type of `{name}` is not known yet"),
        }
    };
    outlets.iter().enumerate().map(type_of).collect()
}
