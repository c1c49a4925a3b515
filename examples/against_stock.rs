//! What stock tract makes of a model, beside what it makes of it with the plug-in.
//!
//! ```sh
//! cargo run --example against_stock models/whole/int64_timestamps models/whole/int64_extremes
//! ```

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, output_element_types, tensor_proto, to_f32};

fn main() -> TractResult<()> {
    // tract panics at some of what it computes; here that is an answer like another.
    std::panic::set_hook(Box::new(|_| {}));
    let mut folders: Vec<String> = std::env::args().skip(1).collect();
    if folders.is_empty() {
        folders.push(concat!(env!("CARGO_MANIFEST_DIR"), "/models/whole/int64_timestamps").into());
    }
    for folder in folders {
        println!("{folder}");
        println!("  stock tract  {}", answer(Path::new(&folder), stock)?);
        println!("  with ours    {}", answer(Path::new(&folder), ours)?);
    }
    Ok(())
}

fn stock(path: &Path, inputs: TVec<TValue>) -> TractResult<String> {
    let model = tract_onnx::onnx().model_for_path(path)?.into_optimized()?;
    Ok(spelled(None, &model.into_runnable()?.run(inputs)?[0]))
}

fn ours(path: &Path, inputs: TVec<TValue>) -> TractResult<String> {
    let model = tract_onnx_cast::onnx().model_for_path(path)?.into_optimized()?;
    let types = output_element_types(&model)?;
    Ok(spelled(types.first().copied(), &model.into_runnable()?.run(inputs)?[0]))
}

/// How many values of an output are shown.
const VALUES: usize = 6;

/// The first output, or the error in one line, given the inputs that lie beside the model.
fn answer(
    folder: &Path,
    run: impl Fn(&Path, TVec<TValue>) -> TractResult<String>,
) -> TractResult<String> {
    let mut inputs = tvec!();
    for index in 0.. {
        let Ok(bytes) = fs::read(folder.join(format!("test_data_set_0/input_{index}.pb"))) else {
            break;
        };
        let (_, tensor) = tensor_proto::read(&TensorProto::decode(&*bytes)?, None)?;
        inputs.push(tensor.into_tvalue());
    }
    let path = folder.join("model.onnx");
    Ok(match catch_unwind(AssertUnwindSafe(|| run(&path, inputs))) {
        Ok(Ok(values)) => values,
        Ok(Err(error)) => format!("error: {}", error.root_cause()).replace('\n', " "),
        Err(_) => "a panic".into(),
    })
}

/// The type and the first values; of a type that tract lacks as numbers.
fn spelled(ty: Option<ElementType>, value: &Tensor) -> String {
    let name = ty.map_or_else(|| format!("{:?}", value.datum_type()), |ty| ty.to_string());
    let numbers = ty.filter(|ty| is_carried(*ty)).and_then(|ty| to_f32(value, ty).ok());
    let shown = numbers.as_ref().unwrap_or(value);
    let text = shown.dump(true).unwrap_or_default();
    let behind_type = format!("{:?} ", shown.datum_type());
    let values = text.split_once(&behind_type).map_or(text.as_str(), |(_, values)| values);
    let first: Vec<&str> = values.split(", ").take(VALUES).collect();
    format!("{name} {}{}", first.join(" "), if shown.len() > VALUES { " …" } else { "" })
}

/// Whether tract lacks the type, so that its tensor has bit patterns.
fn is_carried(ty: ElementType) -> bool {
    let name = ty.to_string();
    name == "BFLOAT16"
        || name.starts_with("FLOAT8")
        || name.starts_with("FLOAT6")
        || name.starts_with("FLOAT4")
}
