//! Saving a model to NNEF, tract's own format, and loading it again: no ONNX any more, the casts
//! included.
//!
//! ```sh
//! cargo run --example nnef
//! ```

use tract_onnx::prelude::*;
use tract_onnx_cast::interop::WithOnnxCast;
use tract_onnx_cast::{Rules, from_f32, input_element_types, onnx, output_element_types, to_f32};

fn main() -> TractResult<()> {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/models/whole/mlp_weights_FLOAT8E4M3FN/model.onnx");
    let model = onnx().model_for_path(path)?.into_typed()?.into_decluttered()?;

    let nnef = tract_nnef::nnef().with_onnx().with_onnx_cast();
    let file = std::env::temp_dir().join("mlp_weights_FLOAT8E4M3FN.nnef.tar");
    nnef.write_to_tar(&model, std::fs::File::create(&file)?)?;
    let loaded = nnef.model_for_path(&file)?;
    std::fs::remove_file(&file)?;

    // What carriers mean is saved as well.
    let (from, to) = (input_element_types(&loaded)?, output_element_types(&loaded)?);
    println!("{from:?} -> {to:?}");
    let run = |model: TypedModel| -> TractResult<Tensor> {
        let shape: Vec<usize> = model
            .input_fact(0)?
            .shape
            .iter()
            .map(|dim| dim.to_i64().unwrap_or(1) as usize)
            .collect();
        let input = from_f32(&Tensor::zero::<f32>(&shape)?, from[0], Rules::default())?;
        let output = model.into_optimized()?.into_runnable()?.run(tvec!(input.into_tvalue()))?;
        Ok(to_f32(&output[0], to[0])?)
    };
    let (before, after) = (run(model)?, run(loaded)?);
    println!("{after:?}");
    assert_eq!(before, after);
    Ok(())
}
